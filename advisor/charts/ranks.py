"""Chart of experts on ranks: how much fuller the fullest rank is, by draft length and layout."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.charts.figure import BLUE, GREEN, NEUTRAL, ORANGE, VERMILLION, Chart, add_line, fit_legend, new_figure
from advisor.expert_ranks import RanksAnswer

_COLORS = (NEUTRAL, VERMILLION, BLUE, GREEN, ORANGE)


def rank_chart(answer: RanksAnswer) -> Chart:
    """Rows that the fullest rank serves over the mean rank's, by K: assumed, in order, and balanced."""
    drafts = answer.in_order.curve.drafts
    figure = new_figure("Rows of the fullest rank<br>over the mean rank's", "Draft tokens K", "Ratio")
    table = pd.DataFrame({"n_draft": drafts})
    for arm, color in zip(answer.arms, _COLORS, strict=False):
        add_line(figure, drafts, arm.pairs_ratio, arm.name, color, dash="solid" if arm.found else "dash")
        table[arm.name.replace(", ", "_").replace(" ", "_")] = arm.pairs_ratio
    fit_legend(figure)
    figure.update_xaxes(dtick=1)
    best, first = answer.arms[-1], answer.in_order
    alt = (
        f"The fullest of {answer.setup.placement.expert_parallel} ranks serves {first.pairs_ratio[0]:.2f} times the "
        f"mean rank's rows in a plain step with experts in order, {first.pairs_ratio[-1]:.2f} times at "
        f"K = {int(np.max(drafts))}; {best.name}, {best.pairs_ratio[-1]:.2f} times."
    )
    return Chart(figure, alt, table)
