"""The two tables every upload becomes, serving points and kernel rows, and the names that tools use
for their words.

profiles/columns.yaml is the only definition; docs/formats.md is checked against it.

Some columns hold a whole document: a model's config.json, an accelerator's JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from advisor.catalog.engines import engine_called, engine_ids
from advisor.catalog.models import resolve_model_name
from advisor.physics.draft import drafter_ids
from advisor.predict.scenario_fields import MAX_BATCH, MAX_CONTEXT
from advisor.prediction import Frozen
from advisor.profiles import PROFILES, read_profile, validate
from advisor.text import name_key

if TYPE_CHECKING:
    import pandas as pd

TableKind = Literal["points", "kernels"]
ValueType = Literal["text", "integer", "number", "flag"]
MAX_DRAFT_TOKENS = 128
ROUTINGS = ("natural", "uniform", "round_robin", "traced")
"""Words for how tokens chose experts. natural: by the model's router; the others were simulated,
`traced` by parameters of a trace that the row does not repeat, so that its touched experts have to
be counted."""
_KINDS: dict[str, dict[str, object]] = {
    "text": {},
    "flag": {"type": "flag", "unit": "1", "context": True},
    "gpus": {"type": "integer", "unit": "1", "low": 1, "high": 100_000, "context": True},
    "dimension": {"type": "integer", "unit": "1", "low": 1, "high": 10_000_000, "context": True},
    "draft_length": {
        "type": "integer",
        "unit": "tokens",
        "low": 0,
        "high": MAX_DRAFT_TOKENS,
        "context": True,
    },
    "accepted_length": {"type": "number", "unit": "tokens", "low": 1, "high": MAX_DRAFT_TOKENS + 1},
    "batch": {
        "type": "number",
        "unit": "sequences",
        "high": MAX_BATCH,
        "positive": True,
        "context": True,
    },
    "length": {"type": "number", "unit": "tokens", "low": 0, "high": MAX_CONTEXT, "context": True},
    "time": {"type": "number", "unit": "s", "high": 86_400.0, "positive": True},
    "rate": {"type": "number", "unit": "tokens/s", "high": 1e9, "positive": True},
    "metric": {"type": "number", "unit": "as metric", "high": 1e12, "positive": True},
}
"""What columns of one kind have in common, where the table says no other."""


class CanonicalColumn(Frozen):
    """One canonical column. `low`/`high` are inclusive unless `positive`, which excludes zero.
    Empty means unknown."""

    name: str
    type: ValueType = "text"
    unit: str = ""
    meaning: str
    low: int | float | None = None
    high: int | float | None = None
    positive: bool = False
    context: bool = False
    """True: describes the run (not a measurement), so the user may supply it afterwards."""
    aliases: tuple[str, ...] = ()
    opposites: tuple[str, ...] = ()
    """Headers of a flag that say the contrary; their factor is -1."""

    @property
    def title(self) -> str:
        """The meaning in a few words, as a label says it."""
        return re.split(r"[,:;(]", self.meaning)[0].strip()

    @property
    def in_text(self) -> str:
        """The title inside a sentence."""
        return self.title[0].lower() + self.title[1:]

    @property
    def numeric(self) -> bool:
        """Whether cells are numbers (flags are 0 or 1)."""
        return self.type != "text"

    @property
    def range_text(self) -> str:
        """The allowed range in words, for the documentation and for messages."""
        if self.type == "flag":
            return "0 or 1"
        if not self.numeric:
            return "any text"
        if self.positive:
            return f"above 0, up to {self.high:,.12g}"
        return f"{self.low:,.12g} to {self.high:,.12g}"


class _Tables(Frozen):
    """profiles/columns.yaml, which says what each list is."""

    points: dict[str, dict[str, Any]]
    kernels: dict[str, dict[str, Any]]
    required: dict[TableKind, tuple[str, ...]]
    useful: dict[TableKind, tuple[str, ...]]
    measured: dict[TableKind, tuple[str, ...]]
    template: dict[TableKind, str]
    remarks: tuple[str, ...]
    weight_dtypes: dict[str, tuple[str, ...]]
    drafters: dict[str, tuple[str, ...]]
    routings: dict[str, tuple[str, ...]]
    unsaid: frozenset[str]
    header_words: dict[str, tuple[str, ...]]
    header_quantities: dict[str, str]
    hints: dict[str, tuple[str, ...]]
    beside: tuple[str, ...]


_FILE = PROFILES / "columns.yaml"
SAID = read_profile(_FILE, _Tables)


def _columns(table: dict[str, dict[str, Any]]) -> dict[str, CanonicalColumn]:
    lists = {"engines": ", ".join(engine_ids()), "routings": ", ".join(ROUTINGS)}
    columns = {}
    for name, fields in table.items():
        kind = _KINDS[fields.pop("kind", "text")]
        definition = {"name": name, **kind, **fields, "meaning": fields["meaning"].format(**lists)}
        columns[name] = validate(definition, CanonicalColumn, _FILE)
    return columns


COLUMNS: dict[TableKind, dict[str, CanonicalColumn]] = {
    "points": _columns(SAID.points),
    "kernels": _columns(SAID.kernels),
}
REQUIRED_CONTEXT = SAID.required
USEFUL_CONTEXT = SAID.useful
MEASURED_COLUMNS = SAID.measured
REMARKS = SAID.remarks
UNIT_FACTORS = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}
FREE_TEXT = frozenset({"notes", "source_title", "source_url"})


def header_key(header: str) -> str:
    """A header reduced to lower-case words joined by `_`: `TPOT (ms)` and `tpot-ms` are both
    `tpot_ms`."""
    return re.sub(r"[^a-z0-9µμ]+", "_", header.strip().lower()).strip("_")


def _header_table(kind: TableKind) -> dict[str, tuple[str, float]]:
    table: dict[str, tuple[str, float]] = {}
    for column in COLUMNS[kind].values():
        stem = column.name.removesuffix("_s") if column.unit == "s" else column.name
        units = (
            {f"_{unit}": factor for unit, factor in UNIT_FACTORS.items()}
            if column.unit == "s"
            else {"": 1.0}
        )
        for name in (column.name, stem, *column.aliases):
            for ending, factor in units.items():
                table.setdefault(name + ending, (column.name, factor))
        table |= dict.fromkeys(column.opposites, (column.name, -1.0))
    return table


HEADER_TABLE = {kind: _header_table(kind) for kind in COLUMNS}
"""Normalised header -> canonical column and the factor that turns its unit into ours."""


def match_header(header: str, kind: TableKind) -> tuple[str, float] | None:
    """Canonical column and unit factor of a header, or None when it is not one of ours.

    A time column must carry its unit (`tpot_ms`, `TPOT (s)`, `ms/token`): a bare `tpot` is not
    matched.
    """
    return HEADER_TABLE[kind].get(
        _UNIT_FIRST.sub(r"time_per_token_\1", _MEAN.sub("", header_key(header)))
    )


_AVERAGE = "(?:mean|avg|average)"
_UNIT_FIRST = re.compile(rf"^(?:{_AVERAGE}_)?([mu]?s)_(?:per_)?(?:output_)?tok(?:en)?$")
_MEAN = re.compile(
    rf"(?:(?<=_s)|(?<=_[mu]s))_{_AVERAGE}$|_{_AVERAGE}(?=_[mu]?s$)|^{_AVERAGE}_(?=(?:acc[a-z]*_len(?:gth)?|al|[a-z_]+_[mu]?s)$)"
)
"""Words that say no more than the column does: behind a time with its unit or between the two,
before one or before an accepted length."""


class Numbers(dict[str, np.ndarray]):
    """Columns of a frame as floats, NaN where a cell is unknown, [rows] each, made when they are
    asked for."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self._frame = frame

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = numbers = self._frame[name].to_numpy(dtype=float, na_value=np.nan)
        return numbers


def template_csv(kind: TableKind = "points") -> bytes:
    """A short canonical CSV (UTF-8) to fill in: required and common columns, two example rows."""
    return SAID.template[kind].encode()


def _by_spelling(names: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {spelling: name for name, spellings in names.items() for spelling in spellings}


_DTYPES, _METHODS, _ROUTING_WORDS = map(
    _by_spelling, (SAID.weight_dtypes, SAID.drafters, SAID.routings)
)


def engine_name(text: str) -> str:
    """Id of the engine that a text spells (`SGLang` is `sglang`). Any other text comes back
    unchanged."""
    engine = engine_called(text)
    return engine.id if engine else text


def weight_dtype(text: str) -> str | None:
    """Our name of a weight type where the text is another spelling of it or an engine's
    `--quantization`. Else lower case, and None where the text leaves the format to the checkpoint
    (`auto`, `compressed-tensors`)."""
    key = name_key(text)
    return None if key in SAID.unsaid else _DTYPES.get(key, text.strip().lower())


def routing_name(text: str) -> str:
    """Our word for a way of routing (`uniform_random` is `uniform`). Any other text comes back
    unchanged."""
    key = name_key(text)
    return _ROUTING_WORDS.get(key, key if key in ROUTINGS else text.strip())


def cache_dtype(text: str) -> str | None:
    """Our name of a KV cache's format (`fp8_e4m3` is `fp8`), else lower case. None where the text
    leaves it open."""
    key = name_key(text)
    if key in SAID.unsaid:
        return None
    return "fp8" if key.startswith(("fp8", "float8")) else _DTYPES.get(key, text.strip().lower())


def drafter_name(text: str) -> str:
    """Our name of a drafter (`EAGLE3` is `eagle3`, `NEXTN` and `deepseek_mtp` are `mtp`). Else
    lower case."""
    key = name_key(text)
    if key.endswith("_mtp"):
        return "mtp"
    known = {name_key(drafter_id): drafter_id for drafter_id in drafter_ids()}
    return _METHODS.get(key) or known.get(key, text.strip().lower())


def named_format(text: str) -> tuple[str | None, str | None]:
    """Weight format that a checkpoint name says, in a table's words, with remarks on it.

    No format where it says none, and no remarks where it names no known checkpoint.
    """
    checkpoint = resolve_model_name(text)
    if checkpoint is None:
        return None, None
    weight_format = checkpoint.weight_format
    return weight_format and weight_format.removesuffix("_block"), checkpoint.note


DOCUMENT_OF = {"hardware_id": "hardware_json", "model_id": "model_config_json"}
"""Columns of names, and those of the documents that a user's own models and accelerators have in
their rows."""


def lacks_document(frame: pd.DataFrame, column: str) -> np.ndarray:
    """Rows whose name in a column is explained by no document of their own [rows]."""
    documents = frame.get(DOCUMENT_OF.get(column, ""))
    return np.ones(len(frame), dtype=bool) if documents is None else empty(documents)


def told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a number behind the name of each further document that has the name of
    another."""
    out = frame
    for column, document in DOCUMENT_OF.items():
        if column not in out or document not in out or not (stated := ~empty(out[document])).any():
            continue
        texts = out[document].where(stated, "")
        for name, distinct_texts in texts.groupby(out[column]).unique().items():
            taken = set(out[column].dropna())
            # a shipped model of that name keeps it
            for text in sorted(distinct_texts, key=bool)[1:]:
                number = next(n for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
                taken.add(f"{name}-{number}")
                out = out.copy(deep=False) if out is frame else out
                put(
                    out,
                    column,
                    ((frame[column] == name) & (texts == text)).to_numpy(dtype=bool),
                    f"{name}-{number}",
                )
    return out


def true_in(cells: pd.Series) -> np.ndarray:
    """Mark the cells that are true, unknown ones not [rows]."""
    return np.asarray(cells.to_numpy(dtype=bool, na_value=False))


def empty(cells: pd.Series) -> np.ndarray:
    """Mark the cells that say nothing [rows]."""
    return (cells.isna() | (cells == "")).to_numpy(dtype=bool)


def put(frame: pd.DataFrame, column: str, rows: np.ndarray, value: str) -> None:
    """Write one text into some rows of a column. A missing column is added first."""
    before = frame[column] if column in frame else pd.Series("", index=frame.index, dtype="str")
    frame[column] = before.astype("str").mask(pd.Series(rows, index=frame.index), value)
