"""A sweep as a map of cells: speedup at the recommended K over two of its settings.

Regions of one design over batch and accelerator, as a map of cells.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.answers.design.regions import Region, RegionMap
from advisor.answers.explore.questions import SweepMap, setting_text
from advisor.show.charts.figure import Chart, add_gain_map, fit_legend, new_figure
from advisor.show.words.design import cell_lines, region_rows, region_verdict
from advisor.show.words.sweep import label, map_text

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


REGION_TINTS = ("#BBDDF2", "#F6CFA8", "#B5E0CF", "#EBC7DC", "#F3EBA4", "#D3CBE8", "#DADADA", "#F4B8B0")
"""By region, most cells first: light hues of Okabe and Ito, for dark text on each; the letter says it too."""
_CELL_TEXT = "#14202B"
"""Contrast of 9 and more on every tint."""
_REGION_ROW_PX, _REGION_HEAD_PX = 50, 210
_EDGE_INSET = 0.44
"""Half the side of an edge cell's frame, in cells. [-]"""


def design_regions_chart(found: RegionMap) -> Chart:
    """Map of the design that holds each cell, by batch and accelerator.

    A cell has its region's colour and letter, k/N, s, width, K and loss; those at an edge have a dashed frame.

    found : a map with at least one cell that a design serves.
    """
    cells = found.grid.T
    rows, columns = cells.shape
    figure = new_figure(
        "Design to train, by batch and accelerator<br><sup>k/N, shared s, width w, K, and expected loss<br>"
        "against the cell's own best (%)</sup>",
        "Accelerator",
        "Batch size (sequences)",
        _REGION_HEAD_PX + _REGION_ROW_PX * rows + 18 * len(found.regions),
    )
    figure.add_heatmap(
        z=np.where(found.holder >= 0, found.holder % len(REGION_TINTS), np.nan)[cells],
        x=np.arange(columns),
        y=np.arange(rows),
        zmin=-0.5,
        zmax=len(REGION_TINTS) - 0.5,
        colorscale=_steps(),
        showscale=False,
        xgap=2,
        ygap=2,
        text=[[_label(found, int(cell)) for cell in row] for row in cells],
        texttemplate="%{text}",
        textfont={"size": 10, "color": _CELL_TEXT},
        customdata=[[_region_hover(found, int(cell)) for cell in row] for row in cells],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
    )
    for row, column in zip(*np.nonzero(np.isin(cells, _edges(found))), strict=True):
        _frame(figure, float(column), float(row))
    for number, region in enumerate(found.regions):
        _name(figure, region, number)
    places = [str(place).replace("-", "<br>") for place in found.cells.places]
    figure.update_xaxes(tickvals=np.arange(columns), ticktext=places, showgrid=False, zeroline=False, tickangle=0)
    batches = [f"{batch:,.0f}" for batch in found.batches]
    figure.update_yaxes(tickvals=np.arange(rows), ticktext=batches, showgrid=False, autorange="reversed")
    figure.update_layout(hovermode="closest", margin={"t": 84})
    fit_legend(figure)
    left_out = _empty(found)
    held = "; ".join(f"{region.letter} is {region.words}, {len(region.cells)} cells" for region in found.regions)
    alt = f"{region_verdict(found)} {held}. {left_out}".rstrip()
    return Chart(figure, alt, pd.DataFrame(region_rows(found)), left_out)


def _steps() -> list[tuple[float, str]]:
    """A colour scale in steps, one for each tint."""
    n = len(REGION_TINTS)
    return [(edge / n, tint) for number, tint in enumerate(REGION_TINTS) for edge in (number, number + 1)]


def _edges(found: RegionMap) -> list[int]:
    return [cell for region in found.regions for cell in region.edge]


def _label(found: RegionMap, cell: int) -> str:
    """A cell's lines, the region's letter in bold."""
    lines = cell_lines(found, cell)
    if not lines:
        return ""
    letter, _, experts = lines[0].partition(" ")
    return "<br>".join((f"<b>{letter}</b> {experts}", *lines[1:]))


def _region_hover(found: RegionMap, cell: int) -> str:
    """The figures of a cell, in lines."""
    each = found.standing(cell)
    if each is None:
        return ""
    region, space = found.regions[found.holder[cell]], found.cells.space(cell)
    own, row = int(found.cells.found[found.cells.best[cell]]), int(found.cells.row_of[cell])
    gain = (
        ""
        if each.gain is None
        else f"<br>Over the baseline: {each.gain.value:.2f} ({each.gain.low:.2f} to {each.gain.high:.2f})"
    )
    return (
        f"<b>{region.letter}: {region.words}</b><br>"
        f"Batch {found.cells.batches[cell]:,.0f} on {found.cells.places[found.cells.space_of[cell]]}<br>"
        f"{each.tpot_s * 1e3:.2f} ms per token at K = {each.n_draft}, {each.tier}<br>"
        f"Expected loss {each.expected_loss:.1%} ({each.low:.1%} to {each.high:.1%}), central {each.loss:.1%}<br>"
        f"Tie with the best in {each.chance:.0%}<br>"
        f"Own best: {space.describe(own)}, {float(space.tpot_s[row, own]) * 1e3:.2f} ms{gain}"
    )


def _frame(figure: go.Figure, x: float, y: float) -> None:
    """A dashed frame inside a cell: an edge."""
    figure.add_shape(
        type="rect",
        x0=x - _EDGE_INSET,
        x1=x + _EDGE_INSET,
        y0=y - _EDGE_INSET,
        y1=y + _EDGE_INSET,
        line={"color": _CELL_TEXT, "width": 1.5, "dash": "dash"},
    )


def _name(figure: go.Figure, region: Region, number: int) -> None:
    """A region's entry in the legend."""
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        name=f"{region.letter}: {region.words}",
        marker={"symbol": "square", "size": 13, "color": REGION_TINTS[number % len(REGION_TINTS)]},
    )


def _empty(found: RegionMap) -> str:
    """Why cells are empty, in one sentence; empty where none is."""
    reasons = {found.cells.why_not(int(cell)) for cell in np.flatnonzero(found.holder < 0)}
    return f"Empty cells: {', '.join(sorted(reasons))}." if reasons else ""
