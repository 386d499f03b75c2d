"""Chart of experts on ranks: how much fuller the fullest rank is, by draft length and layout."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import numpy as np
import pandas as pd

from advisor.arrays import Array
from advisor.charts.figure import BLUE, GREEN, NEUTRAL, ORANGE, VERMILLION, Chart, add_line, fit_legend, new_figure
from advisor.expert_ranks import RanksAnswer

_COUNTED = (VERMILLION, BLUE, GREEN, ORANGE)
_DRAWN_DECIMALS = 4
"""A drawing is part of a file, whose bytes must be the same on every machine."""


@dataclass(frozen=True, eq=False)
class RankLine:
    """One layout's line in the chart."""

    name: str
    ratio: Array
    """Rows that the fullest rank serves over the mean rank's, by K. [-]"""
    color: str
    dash: str
    """As plotly calls it: `dash` where the rank is assumed, `dot` with copies, which often lie on the balanced line."""


def rank_lines(answer: RanksAnswer) -> tuple[RankLine, ...]:
    """The lines of all layouts, for screen and for paper."""
    colors = cycle(_COUNTED)
    lines = []
    for arm in answer.arms:
        color, dash = (next(colors), "dot" if arm.redundant else "solid") if arm.found else (NEUTRAL, "dash")
        lines.append(RankLine(arm.name, np.round(arm.pairs_ratio, _DRAWN_DECIMALS), color, dash))
    return tuple(lines)


def rank_chart(answer: RanksAnswer) -> Chart:
    """Rows that the fullest rank serves over the mean rank's, by K: assumed, in order, and balanced."""
    drafts = answer.in_order.curve.drafts
    figure = new_figure("Rows of the fullest rank<br>over the mean rank's", "Draft tokens K", "Ratio")
    table = pd.DataFrame({"n_draft": drafts})
    for line in rank_lines(answer):
        add_line(figure, drafts, line.ratio, line.name, line.color, dash=line.dash)
        table[line.name.replace(", ", "_").replace(" ", "_")] = line.ratio
    if len(drafts) == 1:  # a line of one point is not drawn
        figure.update_traces(mode="markers")
    fit_legend(figure)
    figure.update_xaxes(dtick=1)
    best, first = answer.arms[-1], answer.in_order
    alt = (
        f"The fullest of {answer.setup.placement.expert_parallel} ranks serves {first.pairs_ratio[0]:.2f} times the "
        f"mean rank's rows in a plain step with experts in order, {first.pairs_ratio[-1]:.2f} times at "
        f"K = {int(np.max(drafts))}; {best.name}, {best.pairs_ratio[-1]:.2f} times."
    )
    return Chart(figure, alt, table)
