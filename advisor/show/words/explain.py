"""What stands behind one prediction, as tables: parts of its band, constants, measured points near it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from advisor.physics.acceptance import Acceptance
from advisor.predict.band_parts import BandPart
from advisor.prediction import Constant
from advisor.show.explain.formulas import ConstantUse
from advisor.show.explain.steps import Quantity, value_text
from advisor.show.table import Column, Table
from advisor.text import with_prefix

BAND_PARTS: tuple[Column[BandPart], ...] = (
    Column("uncertain", attrgetter("what"), words=True),
    Column("likely range", lambda part: f"{part.low:.2f}-{part.high:.2f}"),
    Column("share of variance", attrgetter("share"), "{:.0%}".format),
)
CONSTANTS: tuple[Column[ConstantUse], ...] = (
    Column("constant", attrgetter("name"), words=True),
    Column("symbol", attrgetter("symbol"), words=True, paper=False),
    Column("value", lambda use: value_text(Quantity(use.value, use.unit))),
    Column(
        "standard error",
        lambda use: "" if use.stderr is None else value_text(Quantity(use.stderr, use.unit)),
        paper=False,
    ),
    Column("tier", attrgetter("tier"), words=True),
    Column("source", attrgetter("source"), words=True),
)


def _time(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: value_text(Quantity(row[name], "s"))


KERNELS: tuple[Column[dict[str, Any]], ...] = (
    *(Column(label, itemgetter(label.replace(" ", "_")), words=True) for label in ("part", "step", "measured at")),
    Column("measured", _time("measured_s")),
    Column("model", _time("model_s")),
    Column("model/measured", itemgetter("ratio"), "{:.2f}".format),
    Column("fit", itemgetter("record"), words=True, paper=False),
)


def _drafts(k: float) -> str:
    """K of a published row; the best of several where it names none."""
    return f"{k:.0f}" if k == k else "best"


PUBLISHED: tuple[Column[dict[str, Any]], ...] = (
    Column("batch", itemgetter("batch_size"), "{:,.0f}".format),
    Column("K", itemgetter("n_draft"), _drafts),
    Column("measured", itemgetter("speedup"), "{:.2f}×".format),
    Column("drafter", itemgetter("drafter"), words=True),
    Column("TP", itemgetter("tensor_parallel"), lambda gpus: f"{gpus:.0f}" if gpus == gpus else ""),
    Column("source", itemgetter("source"), words=True),
)
"""Of the rows of `nearby.published_speedups`."""


def accepted_table(given: Acceptance) -> Table[int]:
    """Accepted length by K with its band, extrapolated values marked."""
    columns: tuple[Column[int], ...] = (
        Column("K", int),
        Column("Tokens per round", lambda k: given.accepted_length[k], "{:.2f}".format),
        Column("likely range", lambda k: f"{given.low[k]:.2f}-{given.high[k]:.2f}"),
        Column("Extrapolated", lambda k: "yes" if given.extrapolated[k] else "no", words=True),
    )
    return Table(columns, range(1, given.accepted_length.size))


Sourced = tuple[str, Constant]
SOURCED: tuple[Column[Sourced], ...] = (
    Column("Constant", itemgetter(0), words=True),
    Column("Value", lambda row: with_prefix(row[1].value, row[1].unit)),
    Column("Kind", lambda row: row[1].kind, words=True),
    Column("Confidence", lambda row: row[1].confidence, words=True),
    Column("Read on", lambda row: row[1].date.isoformat(), words=True),
)
"""A profile's constants by name; the source is told by its number."""
