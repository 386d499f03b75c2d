"""What stands behind one prediction, as tables: parts of its band, constants, measured points near it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from advisor.answers.advice import BandPart
from advisor.catalog.hardware import drafter_name
from advisor.physics.draft import drafter_ids
from advisor.show.explain.formulas import ConstantUse
from advisor.show.explain.steps import Quantity, value_text
from advisor.show.table import Column

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


def _drafter(name: str) -> str:
    return drafter_name(name) if name in drafter_ids() else name


PUBLISHED: tuple[Column[dict[str, Any]], ...] = (
    Column("batch", itemgetter("batch_size"), "{:,.0f}".format),
    Column("K", itemgetter("n_draft"), lambda k: f"{k:.0f}" if k == k else "best"),
    Column("measured", itemgetter("speedup"), "{:.2f}×".format),
    Column(
        "drafter", itemgetter("drafter"), lambda name: drafter_name(name) if name in drafter_ids() else name, words=True
    ),
    Column("TP", itemgetter("tensor_parallel"), lambda gpus: f"{gpus:.0f}" if gpus == gpus else ""),
    Column("source", itemgetter("source"), words=True),
)
"""Of the rows of `nearby.published_speedups`."""
