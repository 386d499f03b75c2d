"""Values with their units, counts and ranges as a reader sees them.

Text made fit to print.

What an answer is judged by: the names of each figure of merit, and how its values read. One row
each.

What leaves for other programs: CSV that a spreadsheet cannot mistake for formulas, and JSON without
NaN.

JSON that came from outside: each key once, and nesting that Python cannot follow as the error it
is.
"""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd

_PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P")
_LARGEST_STEP = {"FLOP/s": 4, "OP/s": 4}
"""Data sheets give arithmetic in T (thousand to the fourth), however large it is."""
_WHOLE = ("B", "FLOP", "B/s", "FLOP/s")
"""Units of things that are counted: half a byte is 0.5 B, not 500 mB."""


def with_prefix(value: float, unit: str) -> str:
    """A value with an SI prefix, four digits: `4.8 TB/s`, `4.45 µs`, `1,979 TFLOP/s`. Without a
    unit, four digits."""
    if unit in ("", "1") or value == 0:
        return f"{value:,.4g}"
    lowest = 0 if unit in _WHOLE else -4
    step = min(
        max(math.floor(math.log10(abs(value)) / 3 + 1e-9), lowest), _LARGEST_STEP.get(unit, 5)
    )
    number = value / 1000.0**step
    number_text = f"{number:,.0f}" if 1e3 <= number < 1e6 else f"{number:.4g}"
    return f"{number_text} {_PREFIXES[step + 4]}{unit}"


def counted(number: int, one: str, many: str = "") -> str:
    """Number with its noun, `1 row`, `1,200 rows`. `many` where it is not `one` with an s."""
    noun = one if number == 1 else many or one + "s"
    return f"{number:,} {noun}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?"
"""How a number is written wherever one is read: ASCII digits and a decimal point. A regular
expression."""


def wrapped(text: str, width: int, indent: str = "  ") -> list[str]:
    """The text in lines of at most `width` characters, those after the first indented. A long word
    stays whole."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def number_of(value: Any) -> float | None:
    """The finite number that a text or a value of JSON states. None for anything else.

    `float` alone would take the digits of every script, so that `1` and a full-width 6 are 16, and
    `1_0`, `nan`, `inf`.
    """
    if isinstance(value, str):
        text = value.strip()
        number = float(text) if re.fullmatch(NUMBER, text) else math.nan
    elif isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return None
    else:
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return None
    return number if math.isfinite(number) else None


_POWERS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "b": 10**9, "B": 10**9, "T": 10**12}


def typed_number(text: str) -> int | float | None:
    """The finite number that a text means: `16`, `12.5`, `4e10`, `1.5k`, `40B`. Whole where it is
    whole, else None.

    Tokens have forms of their own, `token_count`: there 128K is 131,072, as engines read it.
    """
    match = re.fullmatch(rf"({NUMBER})\s?([kKMbBT]?)", text.strip())
    if match is None or (number := number_of(match[1])) is None:
        return None
    if re.fullmatch(r"[+-]?[0-9]+", match[1]):
        return int(match[1]) * _POWERS[match[2]]
    scaled = round(number * _POWERS[match[2]], 6)
    return int(scaled) if scaled.is_integer() and match[2] else scaled


EMPTY = frozenset(
    {"", "na", "n/a", "null", "none", "-", "--", "\u2014", "not-stated", "not stated"}
)
"""Words that tables write for a cell that says nothing; `nan` says so in tables that programs
wrote, too."""
NOT_STATED = EMPTY | {"nan"}
YES = frozenset({"1", "1.0", "true", "yes"})
NO = frozenset({"0", "0.0", "false", "no"})
"""Words for a flag that is set, and for one that is not."""


def says(value: Any, words: frozenset[str]) -> bool:
    """Whether a cell or a value of JSON is one of some words, in any case."""
    return str(value).strip().lower() in words


RENAMED: Mapping[str, str] = {
    "k_draft": "n_draft",
    "distinct_experts": "touched_experts",
    "distinct_experts_low": "touched_experts_low",
    "distinct_experts_high": "touched_experts_high",
    "distinct_experts_plain": "touched_plain",
    "distinct_experts_verify": "touched_verify",
}
"""Names that files of before 0.2 use, and today's (docs/report-schema.md): such files are read all
the same."""


def names_of_today(names: Iterable[str]) -> dict[str, str]:
    """Old names among those of a file's columns, with today's."""
    return {name: RENAMED[name] for name in names if name in RENAMED}


TOKENS_FORMS = "4096, 128k (128,000), 128K (131,072) or 1M (1,048,576)"
"""How a number of tokens may be typed."""
_TOKENS = re.compile(r"([0-9]+(?:\.[0-9]+)?|[0-9]{1,3}(?:,[0-9]{3})+)\s*([kKmM]?)")
_SUFFIXES = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}
"""As vLLM reads `--max-model-len`: small letters are powers of ten, capitals of two."""
_SHOWN = 20
"""Characters of what was typed that a message repeats. [-]"""
_TOO_MANY = 1e15
"""Tokens that are more than any context has; whole numbers below it are exact as floats (own
choice). [-]"""


def token_count(text: str) -> int:
    """Number of tokens that a text means: `131072`, `131,072`, `128k`, `32K`, `1M`.

    Raises ValueError, with the forms it may have, for anything else, what is no whole number, and
    _TOO_MANY or more.
    """
    typed = text.strip()
    match = _TOKENS.fullmatch(typed)
    count = float(match[1].replace(",", "")) * _SUFFIXES[match[2]] if match else 0.5
    if count >= _TOO_MANY:
        display = typed if len(typed) <= _SHOWN else f"{typed[:_SHOWN]}..."
        raise ValueError(
            f"'{display}' is more tokens than any context has; type it as {TOKENS_FORMS}"
        )
    if count != int(count):
        raise ValueError(f"{typed[:_SHOWN]!r} is no number of tokens; type it as {TOKENS_FORMS}")
    return int(count)


FACTOR = re.compile(r"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)x\b")
_RANGE = re.compile(r"(?<![\w.])(\d+\.\d+)-(\d+\.\d+)(?![\w.])")
_SHARES = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?%)-(\d+(?:\.\d+)?%)")


def typeset(text: str) -> str:
    """Text as the screen writes it: arrows for `->`, no space before a percent sign."""
    return re.sub(r"(?<=\d) %", "%", text.replace("->", "\N{RIGHTWARDS ARROW}"))


def screen_style(text: str) -> str:
    """Factors and ranges as the screen writes them all: `1.92x (1.78-2.05)` as 1.92× (1.78–2.05).
    Names stay."""
    ranges = _SHARES.sub("\\1\N{EN DASH}\\2", _RANGE.sub("\\1\N{EN DASH}\\2", text))
    return FACTOR.sub("\\1\N{MULTIPLICATION SIGN}", ranges)


def unbroken_ranges(text: str) -> str:
    """Ranges of decimals, `1.78-2.05`, with a hyphen at which no line breaks. Names such as
    Qwen3-30B stay."""
    return _RANGE.sub("\\1\N{NON-BREAKING HYPHEN}\\2", text)


MAX_TEXT = 600
"""Longest piece of text printed from a scenario or a file; the JSON report keeps the whole
scenario. [characters]"""
MAX_NAME = 120
"""Longest name printed. [characters]"""


def name_key(text: str) -> str:
    """A name without regard to case and punctuation: `tensorrt_llm` of `TensorRT-LLM`."""
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_")


def printable(text: str, longest: int = MAX_TEXT) -> str:
    """Text on one line, without control and direction-changing characters. Invisible ones go, too;
    cut at `longest`.

    What a user typed may hold terminal escapes or characters that reverse the reading order of what
    follows.
    """
    flat = "".join(" " if character.isspace() else character for character in text)
    flat = "".join(
        character
        for character in flat
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")
    )
    flat = " ".join(flat.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 4]} ..."


@dataclass(frozen=True)
class Merit:
    """One figure of merit in words. Values come in SI units; `scale` and `form` make them text."""

    name: str
    words: str
    """The name inside a sentence."""
    best: str
    """Heading of the design that is best by it."""
    gain_of: str
    """What a gain in it multiplies."""
    unit: str
    """Of a chart's axis."""
    form: str
    scale: float = 1.0
    short: str = ""
    """The name where room is scarce."""
    long: str = ""
    """The name where it is chosen from a list."""

    def text(self, value: float) -> str:
        """A value as a reader sees it."""
        return self.form.format(value * self.scale)


_SPEEDUP = Merit("Speedup", "speedup", "Best speedup", "the baseline's speedup", "x", "{:.2f}x")
_TPOT = Merit(
    "Time per output token",
    "time per output token",
    "Best time per token",
    "the baseline's speed per output token",
    "ms",
    "{:.2f} ms",
    scale=1e3,
    short="Time per token",
)
MERITS: Mapping[str, Merit] = {
    "speedup": _SPEEDUP,
    "sd_speedup": replace(
        _SPEEDUP, words="speculative speedup", gain_of="the baseline's speculative speedup"
    ),
    "tpot": _TPOT,
    "ttft": Merit(
        "Time to first token",
        "time to first token",
        "Best time to first token",
        "the baseline's speed to the first token",
        "ms",
        "{:,.0f} ms",
        scale=1e3,
    ),
    "tokens_per_s_per_gpu": Merit(
        "Tokens/s per GPU",
        "tokens/s per GPU",
        "Best tokens/s",
        "the baseline's tokens/s per GPU",
        "tokens/s",
        "{:,.0f}",
        long="Tokens per second per GPU",
    ),
    "cost_per_million_tokens": Merit(
        "Cost per million tokens",
        "USD per million tokens",
        "Best cost",
        "the baseline's tokens per dollar",
        "USD",
        "{:.3f}",
    ),
}
"""By the name under which the library, the command line and addresses know it."""


def tier_text(tier: str, extrapolated: bool) -> str:
    """A tier, and whether the value lies outside the data."""
    ending = ", outside the data" if extrapolated else ""
    return f"{tier}{ending}"


_RISKY = r"[=+\-@|%\uff1d\uff0b\uff0d\uff20]"
"""Characters that begin a formula or a command in some spreadsheet, full width ones included."""
_STARTS = re.compile(rf"[\s\ufeff]*{_RISKY}|[\t\r\n]")
_AFTER_SEPARATOR = re.compile(rf"([;,\t\r\n])(?={_RISKY})")
"""Where a cell would begin for a reader that splits at another separator than the comma."""


def safe_cell(cell: Any) -> Any:
    """Cell such that no spreadsheet runs it. Text that starts like a formula gets an apostrophe in
    front.

    The same within the text after `;`, `,` and line ends, where a spreadsheet of another locale may
    start a cell. Numbers, and text that is nothing but a number (`-0.5`), stay as they are. NUL is
    dropped; some readers stop there.

    References
    ----------
    OWASP, "CSV Injection".
    """
    if not isinstance(cell, str) or re.fullmatch(NUMBER, cell):
        return cell
    text = _AFTER_SEPARATOR.sub(r"\1'", cell.replace("\x00", ""))
    return f"'{text}" if _STARTS.match(text) else text


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header line: safe cells, None as an empty cell, lines end in LF."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([safe_cell(name) for name in columns])
    for row in rows:
        writer.writerow([safe_cell(row[name]) for name in columns])
    return out.getvalue()


def frame_csv(frame: pd.DataFrame, scenario_hash: str | None = None, **to_csv: Any) -> str:
    """A frame as CSV, cells and header safe, `scenario_hash` the first column if given. `to_csv`
    goes to pandas."""
    text = frame.select_dtypes(exclude=["number", "bool"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in text})
    safe = safe.rename(columns=safe_cell)
    if scenario_hash is not None:
        safe.insert(0, "scenario_hash", scenario_hash)
    return str(safe.to_csv(index=False, lineterminator="\n", **to_csv))


def json_values(value: Any) -> Any:
    """Value as JSON types. Arrays become lists, non-finite numbers null, floats keep six
    significant digits."""
    if isinstance(value, BaseModel):
        return json_values(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: json_values(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): json_values(element) for key, element in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return json_values(value.tolist())
    if isinstance(value, list | tuple):
        return [json_values(element) for element in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def json_text(value: Any) -> str:
    """One JSON document, indented."""
    return json.dumps(json_values(value), indent=2, ensure_ascii=False, allow_nan=False)


class RepeatedKeyError(ValueError):
    """A key that stands twice in one object, so that its value is ambiguous."""


def read_json(text: str | bytes) -> Any:
    """A JSON document.

    Raises RepeatedKeyError for a key that stands twice in one object, and ValueError for everything
    else that is no JSON: broken text, numbers of thousands of digits, objects nested deeper than
    Python follows.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                display = json.dumps(key[:60])
                raise RepeatedKeyError(
                    f"the key {display} occurs twice in one object, so its value is ambiguous"
                )
            seen.add(key)
    return values
