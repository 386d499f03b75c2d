"""Speedup by batch, as reports draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from advisor.answers.best_k import break_even_batch
from advisor.predict.curve import Curve
from advisor.show.charts.figure import (
    BATCH,
    BLUE,
    DASHES,
    NEUTRAL,
    SERIES,
    VERMILLION,
    add_band,
    add_line,
    log_axis,
    new_figure,
)


def speedup_chart(
    curve: Curve,
    n_draft: int,
    batch_size: float,
    *,
    band_level: float,
    sweet_spot_batch: float | None = None,
    compare: Sequence[int] = (),
    largest_batch: float | None = None,
) -> go.Figure:
    """Speedup over plain decoding against batch size for one K, on a log axis.

    n_draft : the K drawn with its band. band_level : share of outcomes that it is meant to hold. compare : further
    K, drawn without bands. sweet_spot_batch : batch to mark. largest_batch : the largest that fits, shaded beyond. [-]
    """
    column = curve.column(n_draft)
    x, value = curve.batches, curve.speedup[:, column]
    figure = new_figure(
        f"Speedup by batch (×), K = {n_draft}<br><sup>higher is better · shaded: likely range ({band_level:.0%})</sup>",
        BATCH,
        "",
        height=370,
    )
    edges = _y_range(curve, column, compare)
    _add_slowdown(figure, edges[0])
    outside = curve.extrapolated[:, column]
    if outside.any():  # the flag rises once and stays, as batch grows
        _add_shade(figure, float(x[int(np.argmax(outside))]), x, "outside the data", 0.10)
    if largest_batch is not None and largest_batch < x[-1]:
        _add_shade(figure, max(float(largest_batch), float(x[0])), x, "does not fit", 0.25, below=1)
    add_band(figure, x, curve.low[:, column], curve.high[:, column], f"Likely range ({band_level:.0%})", BLUE, 0.3)
    add_line(figure, x, value, f"K = {n_draft}", BLUE)
    others = [k for k in dict.fromkeys(compare) if k != n_draft]
    for order, k in enumerate(others):
        color, dash = SERIES[1 + order % (len(SERIES) - 1)], DASHES[order % len(DASHES)]
        add_line(figure, x, curve.speedup[:, curve.column(k)], f"K = {k}", color, dash=dash, width=1.8)
    _add_target(figure, batch_size, float(np.interp(np.log(batch_size), np.log(x), value)))
    end = break_even_batch(x, value)
    if end is not None and (largest_batch is None or end <= largest_batch):
        # The name stands where the curve is not: left below, right above.
        place = ("right", "top") if end > np.sqrt(x[0] * x[-1]) else ("left", "bottom")
        _add_note(figure, end, 1.0, f"K = {n_draft} breaks even at {end:,.0f}", *place)
    if sweet_spot_batch is not None:
        peak = float(np.interp(sweet_spot_batch, x, value))
        _add_note(figure, sweet_spot_batch, peak, "highest", "center", "bottom", yshift=9)
    figure.update_yaxes(range=list(edges), ticksuffix="×")
    figure.update_layout(hovermode="closest", hoverlabel={"align": "left"}, showlegend=bool(others))
    log_axis(figure, x)
    return figure


def _y_range(curve: Curve, column: int, compare: Sequence[int]) -> tuple[float, float]:
    shown = [curve.low[:, column], curve.high[:, column], np.array([0.9, 1.1])]
    shown += [curve.speedup[:, curve.column(k)] for k in compare]
    values = np.concatenate(shown)
    margin = 0.06 * float(values.max() - values.min())
    return max(0.0, float(values.min()) - margin), float(values.max()) + margin


def _add_slowdown(figure: go.Figure, low_edge: float) -> None:
    """Name and tint the area below 1x, down to `low_edge`. [x]"""
    across = {"xref": "paper", "x0": 0, "x1": 1}
    tint = {"layer": "below", "line_width": 0, "fillcolor": VERMILLION, "opacity": 0.2}
    figure.add_shape(type="rect", y0=low_edge, y1=1.0, **across, **tint)
    figure.add_shape(type="line", y0=1, y1=1, line={"color": VERMILLION, "width": 1}, **across)
    _add_note(figure, 1.0, 1.0, "slower than plain", "left", "top", xref="paper", x=0.01, yshift=-2)


def _add_shade(figure: go.Figure, start: float, x: np.ndarray, name: str, opacity: float, below: int = 0) -> None:
    """Shade the batches from `start` on, over the whole height, and say why, `below` lines under the top."""
    tint = {"layer": "below", "line_width": 0, "fillcolor": NEUTRAL, "opacity": opacity}
    figure.add_shape(type="rect", x0=start, x1=float(x[-1]) * 1.1, yref="paper", y0=0, y1=1, **tint)
    late = start > np.sqrt(x[0] * x[-1])  # a narrow strip at the right: its name ends where the plot does
    place: dict[str, Any] = {"xref": "paper", "x": 1, "xshift": -3} if late else {"xshift": 3}
    _add_note(figure, start, 1, name, "right" if late else "left", "top", yref="paper", yshift=-15 * below, **place)


def _add_target(figure: go.Figure, batch: float, value: float) -> None:
    """The target batch as a dotted line with its speedup above the plot."""
    figure.add_scatter(
        x=[batch],
        y=[value],
        mode="markers",
        name=f"batch {batch:,.0f}",
        hoverinfo="skip",
        showlegend=False,
        marker={"size": 13, "color": BLUE, "line": {"width": 2, "color": "white"}},
    )
    line = {"color": NEUTRAL, "dash": "dot"}
    figure.add_shape(type="line", x0=batch, x1=batch, y0=0, y1=1, yref="paper", line=line)
    _add_note(figure, batch, 1, f"<b>batch {batch:,.0f}: {value:.2f}×</b>", None, "bottom", yref="paper")


def _add_note(
    figure: go.Figure, batch: float, value: float, text: str, left: str | None, top: str, **place: Any
) -> None:
    at = {"x": np.log10(batch), "y": value, "xanchor": left, "yanchor": top}
    figure.add_annotation(text=text, showarrow=False, **(at | place))
