"""What a refit changed, constant by constant."""

from __future__ import annotations

from operator import attrgetter

from advisor.catalog.adjustment import change_text
from advisor.measured.refit_result import RefitParameter
from advisor.show.table import Column

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
