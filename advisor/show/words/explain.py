"""What stands behind one prediction, as tables: parts of its band, constants, a refit's changes,
points near it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from advisor.answers.advice import BandPart, Uncertain
from advisor.catalog.adjustment import change_text
from advisor.catalog.hardware import drafter_name
from advisor.physics.draft import drafter_ids
from advisor.prediction import Constant
from advisor.show.explain.formulas import ConstantUse
from advisor.show.explain.steps import Quantity, value_text
from advisor.show.table import Column
from advisor.text import with_prefix

if TYPE_CHECKING:
    from advisor.measured.refit_result import RefitParameter

_UNCERTAIN: Mapping[Uncertain, str] = {
    "kernels": "Kernel times",
    "overheads": "Launch and host times",
    "routing": "Routing",
    "accepted_length": "Accepted length",
    "unexplained": "What the model leaves unexplained",
    "unseen": "Machines nobody has seen, all in all",
}
BAND_PARTS: tuple[Column[BandPart], ...] = (
    Column("uncertain", lambda part: _UNCERTAIN[part.what], words=True),
    Column("80% range", lambda part: f"{part.low:.2f}-{part.high:.2f}"),
    Column("share of variance", attrgetter("share"), "{:.0%}".format),
)


def _value(use: ConstantUse) -> str:
    return value_text(Quantity(use.value, use.unit))


def _standard_error(use: ConstantUse) -> str:
    return "" if use.stderr is None else value_text(Quantity(use.stderr, use.unit))


CONSTANTS: tuple[Column[ConstantUse], ...] = (
    Column("constant", attrgetter("name"), words=True),
    Column("symbol", attrgetter("symbol"), words=True, paper=False),
    Column("value", _value),
    Column("standard error", _standard_error, paper=False),
    Column("tier", attrgetter("tier"), words=True),
    Column("source", attrgetter("source"), words=True),
)


_Row = dict[str, Any]


def _time(label: str, name: str) -> Column[_Row]:
    return Column(label, lambda row: value_text(Quantity(row[name], "s")))


KERNELS: tuple[Column[_Row], ...] = (
    Column("part", itemgetter("part"), words=True),
    Column("step", itemgetter("step"), words=True),
    Column("measured at", itemgetter("measured_at"), words=True),
    _time("measured", "measured_s"),
    _time("model", "model_s"),
    Column("model/measured", itemgetter("ratio"), "{:.2f}".format),
    Column("fit", itemgetter("record"), words=True, paper=False),
)


def _drafter(name: str) -> str:
    return drafter_name(name) if name in drafter_ids() else name


def _draft_length(k: float) -> str:
    return "best" if math.isnan(k) else f"{k:.0f}"


def _ranks(tensor_parallel: float) -> str:
    return "" if math.isnan(tensor_parallel) else f"{tensor_parallel:.0f}"


PUBLISHED: tuple[Column[_Row], ...] = (
    Column("batch", itemgetter("batch_size"), "{:,.0f}".format),
    Column("K", itemgetter("n_draft"), _draft_length),
    Column("measured", itemgetter("speedup"), "{:.2f}×".format),
    Column("drafter", itemgetter("drafter"), _drafter, words=True),
    Column("TP", itemgetter("tensor_parallel"), _ranks),
    Column("source", itemgetter("source"), words=True),
)
"""Of the rows of `nearby.published_speedups`."""


NAMED: tuple[Column[tuple[str, Constant]], ...] = (
    Column("Constant", itemgetter(0), key="name", words=True),
    Column("Value", lambda row: with_prefix(row[1].value, row[1].unit)),
    Column(None, lambda row: row[1].value, key="value"),
    Column(None, lambda row: row[1].unit, key="unit"),
    Column("Source", lambda row: row[1].source, key="source", words=True),
    Column("Kind", lambda row: row[1].kind, key="kind", words=True),
    Column("Confidence", lambda row: row[1].confidence, key="confidence", words=True),
    Column("Date", lambda row: row[1].date, key="date", words=True),
)
"""A constant by its name, with its origin."""
PARAMETERS: tuple[Column[RefitParameter], ...] = (
    Column("Constant", lambda item: item.meaning.capitalize(), words=True),
    Column("Before", lambda item: _amount(item, item.before)),
    Column("After", lambda item: _amount(item, item.after)),
    Column("Change", attrgetter("factor"), change_text, paper=False),
    Column("Prior uncertainty", attrgetter("prior_log_sd"), "±{:.0%}".format, paper=False),
    Column("Posterior uncertainty", attrgetter("log_stderr"), "±{:.0%}".format),
    Column(
        "Identified by your data",
        lambda item: "at its bound" if item.at_bound else "yes" if item.identified else "no",
    ),
)
"""The last says whether your data narrowed what was known before (`refit.UNIDENTIFIED`), however
well that was."""


def _amount(item: RefitParameter, value: float) -> str:
    if item.unit == "s":
        return f"{value * 1e6:,.1f} \N{MICRO SIGN}s"
    return f"{value:.2f}x" if item.unit == "1" else f"{value:.2g} {item.unit}".replace(" per ", "/")
