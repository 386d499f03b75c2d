"""Maps of cells: an answer or a sweep over two settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor.answers.explore.cells import Explored
from advisor.answers.explore.questions import SweepMap, setting_text
from advisor.show.charts.figure import (
    Chart,
    add_gain_map,
    cell_axes,
    new_figure,
)
from advisor.show.table import Table, matrix
from advisor.show.words.sweep import label, map_text

_WORDY = 10
"""Columns beyond which only the speedup stands in a cell. [-]"""
_ROW_PX = 40
_HEAD_PX = 190


def sweep_chart(found: SweepMap) -> Chart:
    """The map with speedup and K in each cell, their band, odds and tier under the pointer.

    Cells that the grid has not, and those that do not fit in memory, are empty. Blue is a gain,
    orange a loss.
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
        customdata=[
            [_hover(found, row, column) for column in range(columns)] for row in range(rows)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
    )
    across = [setting_text(found.x, value).replace("-", "-<br>", 1) for value in found.x_values]
    down = [setting_text(found.y, value) for value in found.y_values]
    cell_axes(figure, across, down)
    left_out = _left_out(found)
    return Chart(
        figure,
        f"{map_text(found)} {_finding(found, speedup)} {left_out}".rstrip(),
        _table(found),
        left_out,
    )


def _words(sweep_map: SweepMap, row: int, column: int) -> str:
    if not sweep_map.fits[row, column]:
        return ""
    speedup = sweep_map.values("speedup")[row, column]
    n_draft = sweep_map.values("n_draft")[row, column]
    return (
        f"{speedup:.2f}"
        if len(sweep_map.x_values) > _WORDY
        else f"{speedup:.2f}×<br>K {n_draft:.0f}"
    )


def _hover(sweep_map: SweepMap, row: int, column: int) -> str:
    """The figures of a cell, in lines."""
    if not sweep_map.fits[row, column]:
        return ""
    cell = sweep_map.cells.loc[sweep_map.row[row, column]]
    down = setting_text(sweep_map.y, sweep_map.y_values[row])
    across = setting_text(sweep_map.x, sweep_map.x_values[column])
    return (
        f"{down}, {label(sweep_map.x)} {across}<br><b>{cell['speedup']:.2f}×</b> "
        f"({cell['speedup_low']:.2f} to {cell['speedup_high']:.2f}) with K = {cell['n_draft']}<br>"
        f"gains in {cell['p_gain']:.0%}, {cell['tpot_ms']:.1f} ms per token, {cell['tier']}"
    )


def _finding(sweep_map: SweepMap, speedup: np.ndarray) -> str:
    """Least and largest speedup, in words."""
    if np.isnan(speedup).all():
        return "Nothing fits in memory."
    extremes = []
    for what, at in (("largest", np.nanargmax(speedup)), ("least", np.nanargmin(speedup))):
        row, column = np.unravel_index(int(at), speedup.shape)
        place = (
            f"{setting_text(sweep_map.y, sweep_map.y_values[row])} and "
            f"{setting_text(sweep_map.x, sweep_map.x_values[column])}"
        )
        extremes.append(f"the {what} is {speedup[row, column]:.2f}x at {place}")
    return f"{extremes[0][0].upper()}{', '.join(extremes)[1:]}."


def _left_out(sweep_map: SweepMap) -> str:
    full = (sweep_map.has & ~sweep_map.fits).any()
    missing = (~sweep_map.has).any()
    reasons = []
    if full:
        reasons.append("do not fit in memory")
    if missing:
        reasons.append("are not in the grid")
    sentences = []
    if reasons:
        sentences.append(f"Empty cells {' or '.join(reasons)}.")
    if sweep_map.left_out:
        sentences.append(f"{sweep_map.left_out} more values are not drawn.")
    return " ".join(sentences)


def _table(sweep_map: SweepMap) -> pd.DataFrame:
    """A row for each cell that was predicted."""
    names = [
        "n_draft",
        "speedup",
        "speedup_low",
        "speedup_high",
        "p_gain",
        "tpot_ms",
        "tier",
        "fits",
    ]
    has = sweep_map.row[sweep_map.has]
    down, across = np.nonzero(sweep_map.has)
    axes = {
        sweep_map.x: np.array(sweep_map.x_values)[across],
        sweep_map.y: np.array(sweep_map.y_values)[down],
    }
    return sweep_map.cells.loc[has, names].reset_index(drop=True).assign(**axes)[[*axes, *names]]


SHOWN: Mapping[str, tuple[str, str]] = {
    "Speedup": ("speedup", "{:.2f}"),
    "Best K": ("n_draft", "{:.0f}"),
    "ms/token": ("tpot_ms", "{:.3g}"),
    "Tokens/s/GPU": ("tokens_per_s_per_gpu", "{:,.0f}"),
}
"""What a cell shows: its column of a sweep, and how it is written."""


def explored_chart(found: Explored, shown: str) -> Chart:
    """Map of one figure of SHOWN, empty for a scenario that cannot be."""
    values = found.values[SHOWN[shown][0]]
    words = _cells(found, shown)
    table = pd.DataFrame(
        values, columns=list(found.columns), index=pd.Index(found.rows, name=found.down)
    )
    figure = new_figure("", found.across, found.down, 110 + 36 * len(found.rows))
    add_gain_map(figure, found.values["speedup"], words, hoverinfo="skip")
    figure.update_layout(margin={"t": 12})
    figure.data[0].textfont.size = 12
    cell_axes(figure, found.columns, found.rows)
    return Chart(
        figure,
        f"{shown} by {found.across.lower()} and {found.down.lower()}. {_best(found)}",
        table.reset_index(),
    )


def _best(explored: Explored) -> str:
    speedup = explored.values["speedup"]
    if not explored.n_answers:
        return "No cell fits."
    row, column = np.unravel_index(int(np.nanargmax(speedup)), speedup.shape)
    where = f"{explored.across} {explored.columns[column]}, {explored.down} {explored.rows[row]}"
    return f"Largest speedup {speedup[row, column]:.2f} times at {where}."


def _cells(explored: Explored, shown: str) -> list[list[str]]:
    column, form = SHOWN[shown]
    return [
        [form.format(value) if np.isfinite(value) else "–" for value in row]
        for row in explored.values[column]
    ]


def explored_table(found: Explored, shown: str) -> Table[Any]:
    """Table of the same cells, a line for each stop of the axis down."""
    rows = [(name, *cells) for name, cells in zip(found.rows, _cells(found, shown), strict=True)]
    return matrix((found.down, *found.columns), rows)
