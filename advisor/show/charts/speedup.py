"""Speedup by batch, as reports draw it: values in, Chart out. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.answers.best_k import break_even_batch
from advisor.predict.curve import Curve, curve_columns
from advisor.show.charts.figure import (
    BLUE,
    DASHES,
    NEUTRAL,
    SERIES,
    VERMILLION,
    Chart,
    add_band,
    add_line,
    add_vertical,
    log_axis,
    new_figure,
)

_SHOWN = ("batch_size", "n_draft", "speedup", "speedup_low", "speedup_high", "tier", "extrapolated", "tpot_ms")
"""Columns of a curve that stand behind its chart."""


def speedup_chart(
    curve: Curve,
    n_draft: int,
    batch_size: float,
    *,
    band_level: float,
    sweet_spot_batch: float | None = None,
    compare: Sequence[int] = (),
    largest_batch: float | None = None,
) -> Chart:
    """Speedup over plain decoding against batch size for one K, on a log axis.

    Parameters
    ----------
    curve : predictions over batch and K.
    n_draft : the K drawn with its band; must be one of the curve's. [-]
    batch_size : target batch, drawn as a line. [-]
    band_level : share of outcomes the band is meant to hold. [-]
    sweet_spot_batch : batch to mark, one of the curve's; None marks nothing. [-]
    compare : further K, drawn without bands. [-]
    largest_batch : the largest batch that fits in memory, beyond which the chart is shaded; None shades nothing. [-]
    """
    column = curve.column(n_draft)
    x, value = curve.batches, curve.speedup[:, column]
    figure = new_figure(
        f"Speedup by batch (×), K = {n_draft}<br><sup>higher is better · shaded: likely range ({band_level:.0%})</sup>",
        "Batch (sequences in one instance)",
        "",
        height=370,
    )
    edges = _y_range(curve, column, compare)
    add_slowdown(figure, edges[0])
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
    here = float(np.interp(np.log(batch_size), np.log(x), value))
    _add_target(figure, batch_size, here)
    end, last = break_even_batch(x, value), np.inf if largest_batch is None else largest_batch
    if end is not None and end <= last:
        _add_break_even(figure, end, n_draft, late=end > np.sqrt(x[0] * x[-1]))
    if sweet_spot_batch is not None:
        _add_note(figure, sweet_spot_batch, float(np.interp(sweet_spot_batch, x, value)), "highest", "bottom")
    figure.update_yaxes(range=list(edges), ticksuffix="×")
    figure.update_layout(hovermode="closest", hoverlabel={"align": "left"}, showlegend=bool(others))
    log_axis(figure, x)
    return Chart(figure, _speedup_alt(curve, column, batch_size, last), speedup_table(curve, [n_draft, *others]))


def speedup_table(curve: Curve, drafts: Sequence[int]) -> pd.DataFrame:
    """One row for each batch and K of `drafts`: speedup, band, tier, time per output token."""
    table = pd.DataFrame(curve_columns(curve))[list(_SHOWN)]
    return pd.concat([table[table["n_draft"] == k] for k in drafts], ignore_index=True)


def _y_range(curve: Curve, column: int, compare: Sequence[int]) -> tuple[float, float]:
    shown = [curve.low[:, column], curve.high[:, column], np.array([0.9, 1.1])]
    shown += [curve.speedup[:, curve.column(k)] for k in compare]
    values = np.concatenate(shown)
    margin = 0.06 * float(values.max() - values.min())
    return max(0.0, float(values.min()) - margin), float(values.max()) + margin


def add_slowdown(figure: go.Figure, low_edge: float) -> None:
    """Name and tint the area below 1x, down to `low_edge`. [x]"""
    figure.add_shape(
        type="rect",
        xref="paper",
        x0=0,
        x1=1,
        y0=low_edge,
        y1=1.0,
        layer="below",
        line_width=0,
        fillcolor=VERMILLION,
        opacity=0.2,
    )
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=1, y1=1, line={"color": VERMILLION, "width": 1})
    figure.add_annotation(
        xref="paper",
        x=0.01,
        y=1.0,
        xanchor="left",
        yanchor="top",
        yshift=-2,
        text="slower than plain",
        showarrow=False,
    )


def _add_shade(figure: go.Figure, start: float, x: np.ndarray, name: str, opacity: float, below: int = 0) -> None:
    """Shade the batches from `start` on, over the whole height, and say why, `below` lines under the top."""
    figure.add_shape(
        type="rect",
        x0=start,
        x1=float(x[-1]) * 1.1,
        yref="paper",
        y0=0,
        y1=1,
        layer="below",
        line_width=0,
        fillcolor=NEUTRAL,
        opacity=opacity,
    )
    late = start > np.sqrt(x[0] * x[-1])  # a narrow strip at the right: its name ends where the plot does
    place: dict[str, Any] = {"xref": "paper", "x": 1, "xanchor": "right"} if late else {"x": np.log10(start)}
    figure.add_annotation(
        y=1,
        yref="paper",
        yanchor="top",
        text=name,
        showarrow=False,
        xshift=-3 if late else 3,
        yshift=-15 * below,
        **({"xanchor": "left"} | place),
    )


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
    add_vertical(figure, batch, f"<b>batch {batch:,.0f}: {value:.2f}×</b>")


def _add_note(figure: go.Figure, batch: float, value: float, text: str, anchor: str) -> None:
    figure.add_annotation(
        x=np.log10(batch), y=value, yanchor=anchor, yshift=9 if anchor == "bottom" else -4, text=text, showarrow=False
    )


def _add_break_even(figure: go.Figure, end: float, n_draft: int, *, late: bool) -> None:
    """The batch at which the curve of `n_draft` falls through 1x, where the curve is not: left below, right above.

    late : in the right half of the plot, where a name on the right would leave it.
    """
    place: dict[str, Any] = {"xanchor": "right", "yanchor": "top"} if late else {"xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(
        x=np.log10(end), y=1.0, text=f"K = {n_draft} breaks even at {end:,.0f}", showarrow=False, **place
    )


def _speedup_alt(curve: Curve, column: int, batch_size: float, last: float) -> str:
    value = curve.speedup[:, column]
    fits = curve.batches <= max(last, batch_size)
    peak, row = int(np.argmax(value * fits)), int(np.argmin(np.abs(curve.batches - batch_size)))
    below = curve.batches[(value < 1.0) & fits]
    if below.size == 0:
        ending = "It stays above 1x throughout." if fits.all() else "It stays above 1x as far as memory reaches."
    elif below.size == fits.sum():
        ending = "It is a slowdown at every batch."
    else:
        spans = f"{below.min():,.0f} to {below.max():,.0f}" if below.size > 1 else f"{below[0]:,.0f}"
        ending = f"It is a slowdown within batch {spans}."
    return (
        f"Speedup against batch size, draft K = {curve.drafts[column]}: at batch {curve.batches[row]:,.0f} "
        f"{value[row]:.2f}x (likely {curve.low[row, column]:.2f} to {curve.high[row, column]:.2f}); "
        f"highest {value[peak]:.2f}x at batch {curve.batches[peak]:,.0f}. {ending}"
    )
