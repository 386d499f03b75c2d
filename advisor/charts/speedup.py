"""The speedup charts: values in, Chart out. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.charts.figure import (
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
    tint,
)
from advisor.curve import Curve, curve_columns

_SHOWN = ("batch_size", "k_draft", "speedup", "speedup_low", "speedup_high", "tier", "extrapolated", "tpot_ms")
"""Columns of a curve that stand behind its chart."""
_ON_COLOR = {"size": 11, "color": "white"}
"""Labels on a patch of their own colour: readable on a white and on a black page, over bands and hatching."""


def speedup_chart(
    curve: Curve,
    k_draft: int,
    batch_size: float,
    *,
    band_level: float,
    sweet_spot_batch: float | None = None,
    compare: Sequence[int] = (),
    measured: pd.DataFrame | None = None,
    drafter_id: str = "",
    largest_batch: float | None = None,
) -> Chart:
    """Speedup over plain decoding against batch size for one K, on a log axis.

    Parameters
    ----------
    curve : predictions over batch and K.
    k_draft : the K drawn with its band; must be one of the curve's. [1]
    batch_size : target batch, drawn as a line. [1]
    band_level : share of outcomes the band is meant to hold. [1]
    sweet_spot_batch : batch to mark, one of the curve's; None marks nothing. [1]
    compare : further K, drawn without bands. [1]
    measured : published points with `nearby.SPEEDUP_COLUMNS`; None or empty draws none.
    drafter_id : points of this drafter stand out from those of others.
    largest_batch : the largest batch that fits in memory, beyond which the chart is hatched; None hatches nothing. [1]
    """
    column = curve.column(k_draft)
    x, value = curve.batches, curve.speedup[:, column]
    figure = new_figure(
        f"Speedup over plain decoding (x)<br>by batch size, draft K = {k_draft}",
        "Batch size (sequences)",
        "Speedup (x)",
    )
    low_edge, high_edge = _y_range(curve, column, compare, measured)
    add_slowdown(figure, low_edge)
    outside, edges = curve.extrapolated[:, column], (low_edge, high_edge)
    if outside.any():  # the flag rises once and stays, as batch grows
        _add_hatch(figure, float(x[int(np.argmax(outside))]), x, edges, "outside the data", "/")
    if largest_batch is not None and largest_batch < x[-1]:
        _add_hatch(figure, max(float(largest_batch), float(x[0])), x, edges, "does not fit", "x")
    add_band(figure, x, curve.low[:, column], curve.high[:, column], f"{band_level:.0%} band", BLUE)
    add_line(figure, x, value, f"K = {k_draft}", BLUE)
    _make_clickable(figure, x, k_draft)
    others = [k for k in dict.fromkeys(compare) if k != k_draft]
    for order, k in enumerate(others):
        color, dash = SERIES[1 + order % (len(SERIES) - 1)], DASHES[order % len(DASHES)]
        other = curve.speedup[:, curve.column(k)]
        add_line(figure, x, other, f"K = {k}", color, dash=dash, width=1.8)
        _make_clickable(figure, x, k)
    _add_measured(figure, measured, drafter_id)
    add_vertical(figure, batch_size, f"batch {batch_size:,.0f}")
    if sweet_spot_batch is not None:
        _add_sweet_spot(figure, sweet_spot_batch, float(np.interp(sweet_spot_batch, x, value)))
    figure.update_yaxes(range=[low_edge, high_edge])
    figure.update_layout(clickmode="event+select")
    log_axis(figure, x)
    return Chart(figure, _speedup_alt(curve, column, batch_size, band_level), speedup_table(curve, [k_draft, *others]))


def _make_clickable(figure: go.Figure, x: np.ndarray, k_draft: int) -> None:
    """Give the curve drawn last points that can be clicked; each carries (batch, K), as text: numbers are repacked."""
    figure.data[-1].update(
        mode="lines+markers", marker={"size": 7}, customdata=[[f"{batch:g}", str(k_draft)] for batch in x],
        selected={"marker": {"size": 12}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip


def speedup_table(curve: Curve, drafts: Sequence[int]) -> pd.DataFrame:
    """One row for each batch and K of `drafts`: speedup, band, tier, time per output token."""
    table = pd.DataFrame(curve_columns(curve))[list(_SHOWN)]
    return pd.concat([table[table["k_draft"] == k] for k in drafts], ignore_index=True)


def _y_range(curve: Curve, column: int, compare: Sequence[int], measured: pd.DataFrame | None) -> tuple[float, float]:
    shown = [curve.low[:, column], curve.high[:, column], np.array([0.9, 1.1])]
    shown += [curve.speedup[:, curve.column(k)] for k in compare]
    if measured is not None and len(measured):
        shown.append(measured["speedup"].to_numpy(float))
    values = np.concatenate(shown)
    margin = 0.06 * float(values.max() - values.min())
    return max(0.0, float(values.min()) - margin), float(values.max()) + margin


def add_slowdown(figure: go.Figure, low_edge: float) -> None:
    """Name and tint the area below 1x, down to `low_edge`. [x]"""
    figure.add_shape(
        type="rect", xref="paper", x0=0, x1=1, y0=low_edge, y1=1.0, layer="below", line_width=0,
        fillcolor=tint(VERMILLION, 0.22),
    )  # fmt: skip
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=1, y1=1, line={"color": VERMILLION, "width": 1.5})
    figure.add_annotation(
        xref="paper", x=0.01, y=1.0, xanchor="left", yanchor="top", yshift=-2, text="below 1x: slowdown",
        showarrow=False, font=_ON_COLOR, bgcolor=VERMILLION, borderpad=1,
    )  # fmt: skip


def _add_hatch(
    figure: go.Figure, start: float, x: np.ndarray, edges: tuple[float, float], name: str, pattern: str
) -> None:
    """Hatch the batches from `start` on, over the whole height."""
    end, (low, high) = float(x[-1]) * 1.1, edges
    figure.add_scatter(
        x=[start, end, end, start], y=[low, low, high, high], mode="none", fill="toself",
        fillpattern={"shape": pattern, "fgcolor": NEUTRAL, "fgopacity": 0.8, "size": 8, "solidity": 0.2},
        fillcolor="rgba(0,0,0,0)", name=name, hoverinfo="skip",
    )  # fmt: skip


def _add_measured(figure: go.Figure, measured: pd.DataFrame | None, drafter_id: str) -> None:
    if measured is None or measured.empty:
        return
    same = (measured["drafter"] == drafter_id).to_numpy()
    for chosen, name, color in (
        (same, f"published, {drafter_id}", VERMILLION),
        (~same, "published, other", NEUTRAL),
    ):
        points = measured[chosen]
        if points.empty:
            continue
        k, ranks = (points[column].map(_or_unknown) for column in ("k_draft", "tensor_parallel"))
        figure.add_scatter(
            x=points["batch_size"], y=points["speedup"], mode="markers", name=name,
            marker={"symbol": "diamond-open", "size": 9, "color": color, "line": {"width": 2}},
            customdata=np.stack([k, ranks, points["drafter"].astype(str), points["source"].astype(str)], axis=1),
            hovertemplate="%{y:.2f}x measured: %{customdata[2]}, K %{customdata[0]}, TP %{customdata[1]}"
            "<br>%{customdata[3]}<extra></extra>",
        )  # fmt: skip


def _or_unknown(count: float) -> str:
    return "not stated" if pd.isna(count) else f"{count:.0f}"


def _add_sweet_spot(figure: go.Figure, batch: float, value: float) -> None:
    figure.add_scatter(
        x=[batch], y=[value], mode="markers", name="sweet spot",
        marker={"symbol": "star", "size": 14, "color": BLUE, "line": {"width": 1, "color": "white"}},
        hoverinfo="skip", cliponaxis=False,
    )  # fmt: skip
    figure.add_annotation(
        x=np.log10(batch), y=value, yanchor="bottom", yshift=9, text=f"{value:.2f}x at {batch:,.0f}",
        showarrow=False, font=_ON_COLOR, bgcolor=BLUE, borderpad=1,
    )  # fmt: skip


def _speedup_alt(curve: Curve, column: int, batch_size: float, band_level: float) -> str:
    value = curve.speedup[:, column]
    peak, row = int(np.argmax(value)), int(np.argmin(np.abs(curve.batches - batch_size)))
    below = curve.batches[value < 1.0]
    if below.size == 0:
        ending = "It stays above 1x throughout."
    elif below.size == value.size:
        ending = "It is a slowdown at every batch."
    else:
        spans = f"{below.min():,.0f} to {below.max():,.0f}" if below.size > 1 else f"{below[0]:,.0f}"
        ending = f"It is a slowdown within batch {spans}."
    return (
        f"Speedup against batch size, draft K = {curve.drafts[column]}: at batch {curve.batches[row]:,.0f} "
        f"{value[row]:.2f}x ({band_level:.0%} band {curve.low[row, column]:.2f} to {curve.high[row, column]:.2f}); "
        f"highest {value[peak]:.2f}x at batch {curve.batches[peak]:,.0f}. {ending}"
    )
