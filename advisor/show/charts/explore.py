"""The answer over any two settings, as a map and as a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from advisor.answers.explore.cells import Explored
from advisor.show.charts.figure import Chart, add_gain_map, cell_axes, new_figure

SHOWN: Mapping[str, tuple[str, str, str]] = {
    "Speedup": ("speedup", "{:.2f}", "%.2f×"),
    "Best K": ("n_draft", "{:.0f}", "%d"),
    "ms/token": ("tpot_ms", "{:.3g}", "%.3g"),
    "Tokens/s/GPU": ("tokens_per_s_per_gpu", "{:,.0f}", "localized"),
}
"""What a cell shows: its column of a sweep, how it is written, and the same as a table's number format."""


def explored_chart(found: Explored, shown: str) -> Chart:
    """Map of one figure, empty for a scenario that cannot be.

    shown : one of SHOWN.
    """
    column, form, _ = SHOWN[shown]
    values, table = found.values[column], explored_table(found, shown)
    figure = new_figure("", found.across, found.down, 110 + 36 * len(found.rows))
    words = [[form.format(one) if np.isfinite(one) else "–" for one in row] for row in values]
    add_gain_map(figure, found.values["speedup"], words, hoverinfo="skip")
    figure.update_layout(margin={"t": 12})
    figure.data[0].textfont.size = 12
    cell_axes(figure, found.columns, found.rows)
    return Chart(figure, f"{shown} by {found.across.lower()} and {found.down.lower()}. {_best(found)}", table)


def _best(found: Explored) -> str:
    speedup = found.values["speedup"]
    if not found.n_answers:
        return "No cell fits."
    row, column = np.unravel_index(int(np.nanargmax(speedup)), speedup.shape)
    where = f"{found.across} {found.columns[column]}, {found.down} {found.rows[row]}"
    return f"Largest speedup {speedup[row, column]:.2f} times at {where}."


def explored_table(found: Explored, shown: str) -> pd.DataFrame:
    """Table of the same cells, a line for each stop of the axis down."""
    values = pd.DataFrame(found.values[SHOWN[shown][0]], columns=list(found.columns))
    return values.assign(**{found.down: list(found.rows)})[[found.down, *found.columns]]
