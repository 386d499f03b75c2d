"""Values with their units, counts and ranges as a reader sees them."""

from __future__ import annotations

import math
import re

_PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P")
_LARGEST_STEP = {"FLOP/s": 4, "OP/s": 4}
"""Data sheets give arithmetic in T (thousand to the fourth), however large it is."""
_WHOLE = ("B", "FLOP", "B/s", "FLOP/s")
"""Units of things that are counted: half a byte is 0.5 B, not 500 mB."""


def with_prefix(value: float, unit: str) -> str:
    """A value with an SI prefix, four digits: `4.8 TB/s`, `4.45 µs`, `1,979 TFLOP/s`. Without a unit, four digits."""
    if unit in ("", "1") or value == 0:
        return f"{value:,.4g}"
    least = 0 if unit in _WHOLE else -4
    step = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), least), _LARGEST_STEP.get(unit, 5))
    number = value / 1000.0**step
    shown = f"{number:,.0f}" if 1e3 <= number < 1e6 else f"{number:.4g}"
    return f"{shown} {_PREFIXES[step + 4]}{unit}"


def counted(number: int, one: str, many: str = "") -> str:
    """Number with its noun, `1 row`, `1,200 rows`. `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


TOKENS_FORMS = "4096, 128k (128,000), 128K (131,072) or 1M (1,048,576)"
"""How a number of tokens may be typed."""
_TOKENS = re.compile(r"(\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+)\s*([kKmM]?)")
_SUFFIXES = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}
"""As vLLM reads `--max-model-len`: small letters are powers of ten, capitals of two."""
_SHOWN = 20
"""Characters of what was typed that a message repeats. [-]"""
_TOO_MANY = 1e15
"""Tokens that are more than any context has; whole numbers below it are exact as floats (own choice). [-]"""


def token_count(text: str) -> int:
    """Number of tokens that a text means: `131072`, `131,072`, `128k`, `32K`, `1M`.

    Raises ValueError, with the forms it may have, for anything else, what is no whole number, and _TOO_MANY or more.
    """
    typed = text.strip()
    found = _TOKENS.fullmatch(typed)
    count = float(found[1].replace(",", "")) * _SUFFIXES[found[2]] if found else 0.5
    if count >= _TOO_MANY:
        shown = typed if len(typed) <= _SHOWN else f"{typed[:_SHOWN]}..."
        raise ValueError(f"'{shown}' is more tokens than any context has; type it as {TOKENS_FORMS}")
    if count != int(count):
        raise ValueError(f"{typed[:_SHOWN]!r} is no number of tokens; type it as {TOKENS_FORMS}")
    return int(count)


_FACTOR = re.compile(r"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)x\b")
_RANGE = re.compile(r"(?<![\w.])(\d+\.\d+)-(\d+\.\d+)(?![\w.])")

_SHARES = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?%)-(\d+(?:\.\d+)?%)")


def typeset(text: str) -> str:
    """Text as the screen writes it: arrows for `->`, no space before a percent sign."""
    return re.sub(r"(?<=\d) %", "%", text.replace("->", "\N{RIGHTWARDS ARROW}"))


def screen_style(text: str) -> str:
    """Factors and ranges as the screen writes them all: `1.92x (1.78-2.05)` as 1.92× (1.78–2.05). Names stay."""
    ranges = _SHARES.sub("\\1\N{EN DASH}\\2", _RANGE.sub("\\1\N{EN DASH}\\2", text))
    return _FACTOR.sub("\\1\N{MULTIPLICATION SIGN}", ranges)


def unbroken_ranges(text: str) -> str:
    """Ranges of decimals, `1.78-2.05`, with a hyphen at which no line breaks. Names such as Qwen3-30B stay."""
    return _RANGE.sub("\\1\N{NON-BREAKING HYPHEN}\\2", text)
