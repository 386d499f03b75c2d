"""What all charts share: colours, the log batch axis, and the Chart that a builder returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

# Okabe and Ito's colour-blind safe series, in the order used here; each has a contrast of 3 or more
# on light and dark except where a chart adds a second cue (dash, marker, label).
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
SERIES = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE)
SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "x")
NEUTRAL = "#7F7F7F"
"""Reference lines and marks, seen on a white and on a black page; too pale for text, which takes
the page's ink."""
GAIN_SCALE = ((0.0, "#F3D1B8"), (0.5, "#F7F7F7"), (1.0, "#A6CEE8"))
"""Of maps: loss, even and gain; light, so that dark text is read on every cell."""
CELL_TEXT = "#1A1A1A"
BATCH = "Batch (sequences)"
_LEGEND_LETTER_PX = 5.5
"""Mean width of a letter at the legend's 11 px, rounded up."""


@dataclass(frozen=True)
class Chart:
    """A figure, its finding in words for those who cannot see it, and the numbers behind it."""

    figure: go.Figure
    alt: str
    data: pd.DataFrame
    left_out: str = ""
    """What the axes leave out and why, as a sentence for the caption; the data have it."""


def new_figure(title: str, x_title: str, y_title: str, height: int = 400) -> go.Figure:
    """An empty figure with a title that names its units. Fonts and background are left to the
    page's theme."""
    heading = {
        "text": title,
        "font": {"size": 15},
        "x": 0,
        "y": 1,
        "yanchor": "top",
        "yref": "container",
        "pad": {"t": 14},
    }
    # Entries of one width in two columns on a telephone, more where there is room.
    legend = {
        "orientation": "h",
        "xref": "container",
        "yref": "container",
        "x": 0,
        "y": 0,
        "yanchor": "bottom",
        "font": {"size": 11},
        "entrywidth": 90,
        "entrywidthmode": "pixels",
    }
    layout = {
        "title": heading,
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 66, "b": 8},
        "legend": legend,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": x_title}, "automargin": True},
        "yaxis": {"title": {"text": y_title}, "automargin": True, "zeroline": False},
    }
    # Checking this layout again for every chart takes a third of the chart's time; what is added to
    # it is checked.
    figure = go.Figure({"data": [], "layout": layout}, _validate=False)
    figure._validate = True
    return figure


def fit_legend(figure: go.Figure) -> None:
    """Give every legend entry the width of the longest name. Plotly draws longer ones over their
    neighbours."""
    longest = max(len(trace.name or "") for trace in figure.data)
    figure.update_layout(legend={"entrywidth": _LEGEND_LETTER_PX * longest})


def add_gain_map(
    figure: go.Figure, speedup: NDArray[np.float64], words: Any, **pointer: Any
) -> None:
    """Map of cells by speedup, empty where NaN. words, pointer : text in each cell, and plotly's
    under the pointer."""
    # Farthest speedup from 1 on the map: where its colours end.
    far = max(float(np.nanmax(np.abs(speedup - 1.0), initial=0.0)), 0.1)
    add_cells(figure, speedup, (1.0 - far, 1.0 + far), list(GAIN_SCALE), words, **pointer)


def add_cells(
    figure: go.Figure,
    z: Any,
    ends: tuple[float, float],
    colors: list[tuple[float, str]],
    words: Any,
    **pointer: Any,
) -> None:
    """Map of cells, NaN left empty: colours from the first of `ends` to the last, and `words` in
    each cell."""
    rows, columns = np.shape(z)
    figure.add_heatmap(
        z=z,
        x=np.arange(columns),
        y=np.arange(rows),
        zmin=ends[0],
        zmax=ends[1],
        colorscale=colors,
        showscale=False,
        xgap=1,
        ygap=1,
        text=words,
        texttemplate="%{text}",
        textfont={"size": 10, "color": CELL_TEXT},
        **pointer,
    )
    figure.update_layout(hovermode="closest")


def cell_axes(figure: go.Figure, across: Sequence[str], down: Sequence[str]) -> None:
    """Name the columns and rows of a map of cells, the first row on top."""
    numbers = {"type": "linear", "showgrid": False, "zeroline": False}
    figure.update_xaxes(tickvals=np.arange(len(across)), ticktext=across, tickangle=0, **numbers)
    figure.update_yaxes(
        tickvals=np.arange(len(down)), ticktext=down, autorange="reversed", **numbers
    )


def log_axis(figure: go.Figure, values: ArrayLike) -> None:
    """Make x a log axis over `values`, labelled at powers of four, which still fits a telephone."""
    x = np.asarray(values, float)
    ticks = 4.0 ** np.arange(0, 12)
    ticks = ticks[(ticks >= x.min()) & (ticks <= x.max() * 1.001)]
    edge = 0.02 * max(np.log10(x.max() / x.min()), 0.1)
    figure.update_xaxes(
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,.0f}" for tick in ticks],
        range=[np.log10(x.min()) - edge, np.log10(x.max()) + edge],
    )


def add_line(
    figure: go.Figure, x: ArrayLike, y: ArrayLike, name: str, color: str, **line: Any
) -> None:
    """One curve. `line` goes to plotly's line (dash, width)."""
    figure.add_scatter(
        x=np.asarray(x),
        y=np.asarray(y),
        name=name,
        mode="lines",
        line={"color": color, "width": 2.5, **line},
        hovertemplate="%{y:.3g}",
    )


def add_band(
    figure: go.Figure,
    x: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    name: str,
    opacity: float = 0.36,
) -> None:
    """The area between two curves, in a light tint of blue. Without a name it stays out of the
    legend."""
    x = np.asarray(x)
    low = np.asarray(low)
    high = np.asarray(high)
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        name=name,
        mode="none",
        fill="toself",
        fillcolor=BLUE,
        opacity=opacity,
        hoverinfo="skip",
        showlegend=bool(name),
    )


def add_points(
    figure: go.Figure, x: Any, y: Any, name: str, look: dict[str, Any], **trace: Any
) -> None:
    """Draw measurements or designs as dots. `look` is of `marker`, `trace` goes to plotly's
    trace."""
    figure.add_scatter(x=x, y=y, name=name, marker=look, **({"mode": "markers"} | trace))


def add_diagonal(figure: go.Figure, low: float, high: float) -> None:
    """The dotted line on which both axes say the same."""
    line = {"color": NEUTRAL, "dash": "dot"}
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", line=line, hoverinfo="skip", showlegend=False
    )


def add_bars(
    figure: go.Figure, names: Sequence[str], values: Any, color: Any, **trace: Any
) -> None:
    """Horizontal bars, the first on top. `trace` goes to plotly's trace."""
    look = {"orientation": "h", "marker_color": color, "textangle": 0, "showlegend": False}
    figure.add_bar(x=values, y=names, **(look | trace))
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(hovermode="closest", bargap=0.3)


def marker(symbol: str | list[str], size: int, color: str, **more: Any) -> dict[str, Any]:
    """Look of points as plotly takes it. `more` are its other properties, such as line."""
    return {"symbol": symbol, "size": size, "color": color, **more}
