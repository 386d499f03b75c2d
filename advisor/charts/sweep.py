"""A sweep as a map of cells: speedup at the recommended K over two of its settings."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.charts.figure import Chart, add_gain_map, new_figure
from advisor.sweep import SweepMap, label, map_text, setting_text

_WORDY = 10
"""Columns beyond which only the speedup stands in a cell. [-]"""
_ROW_PX, _HEAD_PX = 40, 190


def sweep_chart(found: SweepMap) -> Chart:
    """The map with speedup and K in each cell, their band, odds and tier under the pointer.

    Cells that the grid has not, and those that do not fit in memory, are empty. Blue is a gain, orange a loss.
    """
    speedup = np.where(found.fits, found.values("speedup"), np.nan)
    rows, columns = speedup.shape
    figure = new_figure(
        f"Speedup at the recommended K<br>by {label(found.x)} and {label(found.y)}",
        label(found.x),
        label(found.y),
        _HEAD_PX + _ROW_PX * rows,
    )
    add_gain_map(
        figure,
        speedup,
        [[_words(found, row, column) for column in range(columns)] for row in range(rows)],
        customdata=[[_hover(found, row, column) for column in range(columns)] for row in range(rows)],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
    )
    across = [setting_text(found.x, value).replace("-", "-<br>", 1) for value in found.x_values]
    down = [setting_text(found.y, value) for value in found.y_values]
    figure.update_xaxes(tickvals=np.arange(columns), ticktext=across, showgrid=False, zeroline=False, tickangle=0)
    figure.update_yaxes(tickvals=np.arange(rows), ticktext=down, showgrid=False, autorange="reversed")
    left_out = _left_out(found)
    return Chart(figure, f"{map_text(found)} {_finding(found, speedup)} {left_out}".rstrip(), _table(found), left_out)


def _words(found: SweepMap, row: int, column: int) -> str:
    if not found.fits[row, column]:
        return ""
    speedup, n_draft = (found.values(name)[row, column] for name in ("speedup", "n_draft"))
    return f"{speedup:.2f}" if len(found.x_values) > _WORDY else f"{speedup:.2f}x<br>K {n_draft:.0f}"


def _hover(found: SweepMap, row: int, column: int) -> str:
    """The figures of a cell, in lines."""
    if not found.fits[row, column]:
        return ""
    one = found.cells.loc[found.row[row, column]]
    down, across = setting_text(found.y, found.y_values[row]), setting_text(found.x, found.x_values[column])
    return (
        f"{down}, {label(found.x)} {across}<br><b>{one['speedup']:.2f}x</b> "
        f"({one['speedup_low']:.2f} to {one['speedup_high']:.2f}) with K = {one['n_draft']}<br>"
        f"gains in {one['p_gain']:.0%}, {one['tpot_ms']:.1f} ms per token, {one['tier']}"
    )


def _finding(found: SweepMap, speedup: np.ndarray) -> str:
    """Least and largest speedup, in words."""
    if np.isnan(speedup).all():
        return "Nothing fits in memory."
    said = []
    for what, at in (("largest", np.nanargmax(speedup)), ("least", np.nanargmin(speedup))):
        row, column = np.unravel_index(int(at), speedup.shape)
        place = f"{setting_text(found.y, found.y_values[row])} and {setting_text(found.x, found.x_values[column])}"
        said.append(f"the {what} is {speedup[row, column]:.2f}x at {place}")
    return f"{said[0][0].upper()}{', '.join(said)[1:]}."


def _left_out(found: SweepMap) -> str:
    full, missing = (found.has & ~found.fits).any(), (~found.has).any()
    said = ["Empty cells do not fit in memory."] * bool(full and not missing)
    said += ["Empty cells do not fit in memory or are not in the grid."] * bool(full and missing)
    said += ["Empty cells are not in the grid."] * bool(missing and not full)
    said += [f"{found.left_out} more values are not drawn."] * bool(found.left_out)
    return " ".join(said)


def _table(found: SweepMap) -> pd.DataFrame:
    """A row for each cell that was predicted."""
    names = ["n_draft", "speedup", "speedup_low", "speedup_high", "p_gain", "tpot_ms", "tier", "fits"]
    rows = [
        {found.x: across, found.y: down} | {name: found.cells[name].loc[found.row[row, column]] for name in names}
        for row, down in enumerate(found.y_values)
        for column, across in enumerate(found.x_values)
        if found.has[row, column]
    ]
    return pd.DataFrame(rows, columns=list(dict.fromkeys((found.x, found.y, *names))))
