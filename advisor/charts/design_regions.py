"""Regions of one design over batch and accelerator, as a map of cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.charts.figure import Chart, fit_legend, new_figure
from advisor.design import Region, RegionMap, cell_lines, region_rows, region_verdict

REGION_TINTS = ("#BBDDF2", "#F6CFA8", "#B5E0CF", "#EBC7DC", "#F3EBA4", "#D3CBE8", "#DADADA", "#F4B8B0")
"""By region, most cells first: light hues of Okabe and Ito, for dark text on each; the letter says it too."""
_CELL_TEXT = "#14202B"
"""Contrast of 9 and more on every tint."""
_ROW_PX, _HEAD_PX = 50, 210
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
        _HEAD_PX + _ROW_PX * rows + 18 * len(found.regions),
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
        customdata=[[_hover(found, int(cell)) for cell in row] for row in cells],
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


def _hover(found: RegionMap, cell: int) -> str:
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
