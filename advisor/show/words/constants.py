"""Constants as tables: those in use with their origin, and what a refit changed of each."""

from __future__ import annotations

from operator import attrgetter, itemgetter

from advisor.catalog.adjustment import change_text
from advisor.measured.refit_result import RefitParameter
from advisor.prediction import Constant
from advisor.show.table import Column
from advisor.text import with_prefix

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
    Column("Change", attrgetter("factor"), change_text),
    Column("Prior uncertainty", attrgetter("prior_log_sd"), "±{:.0%}".format),
    Column("Posterior uncertainty", attrgetter("log_stderr"), "±{:.0%}".format),
    Column(
        "Identified by your data", lambda item: "at its bound" if item.at_bound else "yes" if item.identified else "no"
    ),
)
"""The last says whether your data narrowed what was known before (`refit.UNIDENTIFIED`), however well that was."""


def _amount(item: RefitParameter, value: float) -> str:
    if item.unit == "s":
        return f"{value * 1e6:,.1f} \N{MICRO SIGN}s"
    return f"{value:.2f}x" if item.unit == "1" else f"{value:.2g} {item.unit}"
