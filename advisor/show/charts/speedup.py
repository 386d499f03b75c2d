"""The speedup charts: values in, Chart out. No Streamlit.

Throughput of a GPU against speed of a user, batch along the curve: plain decoding and drafting. No Streamlit.

Speedup against batch size of several scenarios in one chart: values in, Chart out. No Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from advisor.answers.advice import Advice
from advisor.answers.best_k import break_even_batch
from advisor.predict.curve import Curve, curve_columns
from advisor.show.charts.figure import (
    BLUE,
    DASHES,
    GREEN,
    NEUTRAL,
    ORANGE,
    SERIES,
    VERMILLION,
    Chart,
    add_band,
    add_line,
    add_vertical,
    log_axis,
    marker,
    new_figure,
    series_look,
)

_SHOWN = ("batch_size", "n_draft", "speedup", "speedup_low", "speedup_high", "tier", "extrapolated", "tpot_ms")
"""Columns of a curve that stand behind its chart."""
MEASURED_POINT = "measured"
"""What the data of a measured point end with, so that a click on it is told from one on a curve."""


def speedup_chart(
    curve: Curve,
    n_draft: int,
    batch_size: float,
    *,
    band_level: float,
    sweet_spot_batch: float | None = None,
    compare: Sequence[int] = (),
    measured: pd.DataFrame | None = None,
    drafter_id: str = "",
    own: pd.DataFrame | None = None,
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
    measured : published points with `nearby.SPEEDUP_COLUMNS`; None or empty draws none.
    drafter_id : points of this drafter are filled, those of others hollow.
    own : the user's own points with the same columns; None or empty draws none.
    largest_batch : the largest batch that fits in memory, beyond which the chart is shaded; None shades nothing. [-]
    """
    column = curve.column(n_draft)
    x, value = curve.batches, curve.speedup[:, column]
    figure = new_figure(
        f"Speedup by batch (×), K = {n_draft}<br><sup>higher is better · shaded: {band_level:.0%} band</sup>",
        "Batch (sequences in one instance)",
        "",
        height=370,
    )
    edges = _y_range(curve, column, compare, measured, own)
    add_slowdown(figure, edges[0])
    outside = curve.extrapolated[:, column]
    if outside.any():  # the flag rises once and stays, as batch grows
        _add_shade(figure, float(x[int(np.argmax(outside))]), x, "outside the data", 0.10)
    if largest_batch is not None and largest_batch < x[-1]:
        _add_shade(figure, max(float(largest_batch), float(x[0])), x, "does not fit", 0.25, below=1)
    add_band(figure, x, curve.low[:, column], curve.high[:, column], f"{band_level:.0%} band", BLUE, 0.3)
    add_line(figure, x, value, f"K = {n_draft}", BLUE)
    _make_clickable(figure, curve, column)
    others = [k for k in dict.fromkeys(compare) if k != n_draft]
    for order, k in enumerate(others):
        color, dash = SERIES[1 + order % (len(SERIES) - 1)], DASHES[order % len(DASHES)]
        add_line(figure, x, curve.speedup[:, curve.column(k)], f"K = {k}", color, dash=dash, width=1.8)
        _make_clickable(figure, curve, curve.column(k))
    _add_measured(figure, measured, drafter_id)
    _add_points(figure, own, "yours", GREEN, "circle")
    here = float(np.interp(np.log(batch_size), np.log(x), value))
    _add_target(figure, batch_size, here)
    end, last = break_even_batch(x, value), np.inf if largest_batch is None else largest_batch
    if end is not None and end <= last:
        _add_break_even(figure, end, n_draft, late=end > np.sqrt(x[0] * x[-1]))
    if sweet_spot_batch is not None:
        _add_note(figure, sweet_spot_batch, float(np.interp(sweet_spot_batch, x, value)), "highest", "bottom")
    figure.update_yaxes(range=list(edges), ticksuffix="×")
    figure.update_layout(
        clickmode="event+select", hovermode="closest", hoverlabel={"align": "left"}, showlegend=bool(others)
    )
    log_axis(figure, x)
    return Chart(
        figure, _speedup_alt(curve, column, batch_size, band_level, last), speedup_table(curve, [n_draft, *others])
    )


def _make_clickable(figure: go.Figure, curve: Curve, column: int) -> None:
    """Give the curve drawn last points that can be clicked and say all they know.

    Each carries (batch, K, ...) as text: the browser repacks numbers.
    """
    k = int(curve.drafts[column])
    data = [
        [
            f"{batch:g}",
            str(k),
            f"{curve.low[row, column]:.2f}–{curve.high[row, column]:.2f}×",
            f"{curve.tpot_s[row, column] * 1e3:.3g}",
            f"{curve.tokens_per_s_per_gpu[row, column]:,.0f}",
            f"{curve.accepted_length[column]:.2f}",
            f"{curve.touched_verify[row, column]:.0f}" if curve.touched_verify[row, column] else "none",
            str(curve.tier[row, column]),
        ]
        for row, batch in enumerate(curve.batches)
    ]
    figure.data[-1].update(
        mode="lines+markers",
        marker={"size": 7},
        customdata=data,
        hovertemplate="<b>%{y:.2f}×</b> at batch %{customdata[0]}, K = %{customdata[1]}<br>likely %{customdata[2]}"
        "<br>%{customdata[3]} ms per token, %{customdata[4]} tokens/s per GPU<br>accepted %{customdata[5]}, "
        "experts touched %{customdata[6]}, %{customdata[7]}<extra></extra>",
        selected={"marker": {"size": 12}},
        unselected={"marker": {"opacity": 1}},
    )


def speedup_table(curve: Curve, drafts: Sequence[int]) -> pd.DataFrame:
    """One row for each batch and K of `drafts`: speedup, band, tier, time per output token."""
    table = pd.DataFrame(curve_columns(curve))[list(_SHOWN)]
    return pd.concat([table[table["n_draft"] == k] for k in drafts], ignore_index=True)


def _y_range(
    curve: Curve, column: int, compare: Sequence[int], measured: pd.DataFrame | None, own: pd.DataFrame | None
) -> tuple[float, float]:
    shown = [curve.low[:, column], curve.high[:, column], np.array([0.9, 1.1])]
    shown += [curve.speedup[:, curve.column(k)] for k in compare]
    shown += [points["speedup"].to_numpy(float) for points in (measured, own) if points is not None and len(points)]
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


def _add_measured(figure: go.Figure, measured: pd.DataFrame | None, drafter_id: str) -> None:
    if measured is None or measured.empty:
        return
    same = (measured["drafter"] == drafter_id).to_numpy()
    _add_points(figure, measured[~same], "published, other drafter", NEUTRAL, "diamond-open")
    _add_points(figure, measured[same], "published, this drafter", VERMILLION, "diamond")


def _add_points(figure: go.Figure, points: pd.DataFrame | None, name: str, color: str, symbol: str) -> None:
    if points is None or points.empty:
        return
    k, ranks = (points[column].map(_or_unknown) for column in ("n_draft", "tensor_parallel"))
    batch = points["batch_size"].map("{:g}".format)
    said = [batch, k, ranks, points["drafter"].astype(str), points["source"].astype(str)]
    figure.add_scatter(
        x=points["batch_size"],
        y=points["speedup"],
        mode="markers",
        name=name,
        marker=marker(symbol, 9, color, line={"width": 1.5}),
        unselected={"marker": {"opacity": 1}},
        customdata=np.stack([*said, np.full(len(points), MEASURED_POINT)], axis=1),
        hovertemplate="<b>%{y:.2f}×</b> measured at batch %{customdata[0]}: %{customdata[3]}, K %{customdata[1]}, "
        "TP %{customdata[2]}<br>%{customdata[4]}<extra></extra>",
    )


def _or_unknown(count: float) -> str:
    return "not stated" if pd.isna(count) else f"{count:.0f}"


def _speedup_alt(curve: Curve, column: int, batch_size: float, band_level: float, last: float) -> str:
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
        f"{value[row]:.2f}x ({band_level:.0%} band {curve.low[row, column]:.2f} to {curve.high[row, column]:.2f}); "
        f"highest {value[peak]:.2f}x at batch {curve.batches[peak]:,.0f}. {ending}"
    )


def frontier_chart(
    curve: Curve, n_draft: int, batch_size: float, *, largest_batch: float, max_tpot_ms: float | None = None
) -> Chart:
    """Tokens/s per GPU against tokens/s per user, batch along each curve, plain decoding and one K.

    Parameters
    ----------
    n_draft : the K drawn beside plain decoding. [-]
    batch_size : target batch, marked on both curves. [-]
    largest_batch : the curves end where memory does; where nothing fits they are drawn whole. [-]
    max_tpot_ms : limit on time per output token; users slower than that are shaded. [ms]
    """
    fits = curve.batches <= largest_batch if largest_batch >= 1 else np.ones(len(curve.batches), bool)
    figure = new_figure(
        f"Throughput against speed, plain and K = {n_draft}<br>"
        "<sup>up and right is better · batch along the curve</sup>",
        "Tokens/s per user",
        "Tokens/s per GPU",
        height=420,
    )
    tables = []
    for k, name, color, dash in ((0, "plain", ORANGE, "dash"), (n_draft, f"K = {n_draft}", BLUE, "solid")):
        table = _arm(curve, k, fits)
        tables.append(table)
        _draw(figure, table, name, color, dash, batch_size)
    data = pd.concat(tables, ignore_index=True)
    if max_tpot_ms is not None:
        _shade_limit(figure, max_tpot_ms, float(data["tokens_per_s_per_user"].min()))
    for column, update in (
        ("tokens_per_s_per_user", figure.update_xaxes),
        ("tokens_per_s_per_gpu", figure.update_yaxes),
    ):
        ticks = _ticks(float(data[column].min()), float(data[column].max()))
        update(type="log", tickvals=ticks, ticktext=[f"{tick:,.0f}" for tick in ticks])
    figure.update_layout(hovermode="closest", showlegend=False)
    return Chart(figure, _alt(data, n_draft, batch_size), data)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within a range."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    return [
        float(tick) for power in powers for tick in (power, 2 * power, 5 * power) if low * 0.8 <= tick <= high * 1.2
    ]


def _arm(curve: Curve, k: int, fits: np.ndarray) -> pd.DataFrame:
    column = curve.column(k)
    return pd.DataFrame(
        {
            "n_draft": k,
            "batch_size": curve.batches[fits].astype(int),
            "tokens_per_s_per_user": 1.0 / curve.tpot_s[fits, column],
            "tokens_per_s_per_gpu": curve.tokens_per_s_per_gpu[fits, column],
        }
    )


def _draw(figure: go.Figure, table: pd.DataFrame, name: str, color: str, dash: str, batch_size: float) -> None:
    x, y, batch = table["tokens_per_s_per_user"], table["tokens_per_s_per_gpu"], table["batch_size"]
    labelled = batch.map(lambda one: f"{one:,}" if one in (1, 4, 16, 64, 256, 1024) else "")
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers+text",
        text=labelled,
        textposition="top right",
        line={"color": color, "width": 2.5, "dash": dash},
        marker={"size": 6},
        customdata=np.stack([batch, 1e3 / x], axis=1),
        hovertemplate=f"<b>{name}</b>, batch %{{customdata[0]}}<br>%{{y:,.0f}} tokens/s per GPU<br>"
        "%{x:.1f} tokens/s per user (%{customdata[1]:.3g} ms per token)<extra></extra>",
    )
    figure.add_annotation(
        x=np.log10(x.iloc[0]), y=np.log10(y.iloc[0]), text=f"<b>{name}</b>", showarrow=False, yanchor="top", yshift=-8
    )
    here = table[batch == batch_size]
    figure.add_scatter(
        x=here["tokens_per_s_per_user"],
        y=here["tokens_per_s_per_gpu"],
        mode="markers",
        hoverinfo="skip",
        marker={"size": 14, "color": color, "line": {"width": 2, "color": "white"}},
        name=f"batch {batch_size:,.0f}",
    )


def _shade_limit(figure: go.Figure, max_tpot_ms: float, slowest: float) -> None:
    """Shade users slower than the limit allows."""
    least = 1e3 / max_tpot_ms
    if least <= slowest:
        return
    figure.add_shape(
        type="rect",
        x0=slowest * 0.8,
        x1=least,
        yref="paper",
        y0=0,
        y1=1,
        layer="below",
        line_width=0,
        fillcolor=VERMILLION,
        opacity=0.1,
    )
    figure.add_shape(type="line", x0=least, x1=least, yref="paper", y0=0, y1=1, line={"color": NEUTRAL, "dash": "dot"})
    figure.add_annotation(
        x=np.log10(least), y=1, yref="paper", yanchor="bottom", text=f"limit {max_tpot_ms:g} ms", showarrow=False
    )


def _alt(data: pd.DataFrame, n_draft: int, batch_size: float) -> str:
    best = data.loc[data["tokens_per_s_per_gpu"].idxmax()]
    here = data[(data["batch_size"] == batch_size) & (data["n_draft"] == n_draft)]
    now = (
        f"At batch {batch_size:,.0f} with K = {n_draft}: {here['tokens_per_s_per_gpu'].iloc[0]:,.0f} tokens/s per GPU "
        f"at {here['tokens_per_s_per_user'].iloc[0]:.1f} per user. "
        if len(here)
        else ""
    )
    return (
        f"Tokens/s per GPU against tokens/s per user. {now}The most per GPU is {best['tokens_per_s_per_gpu']:,.0f}, at "
        f"batch {best['batch_size']:,.0f} with K = {best['n_draft']:.0f}."
    )


_MARKERS = ("circle", "square", "diamond", "triangle-up")


def compared_chart(advices: Sequence[Advice], names: Sequence[str]) -> Chart:
    """Speedup of each scenario at its own K over batch, with band and a marker at its own batch.


    Curves end where memory does.

    advices, names : one name for each scenario; colour, dash and marker tell them apart.
    """
    figure = new_figure(
        "Speedup over plain decoding (x) by batch size,<br>each scenario at its own K",
        "Batch size (sequences)",
        "Speedup (x)",
        height=460,
    )
    ends = [end for advice in advices for end in _range(advice)]
    low, high = min(0.9, *ends), max(1.1, *ends)
    margin = 0.06 * (high - low)
    low, high = max(0.0, low - margin), high + margin
    add_slowdown(figure, low)
    for order, (advice, name) in enumerate(zip(advices, names, strict=True)):
        curve, column, row = advice.curve, _column(advice), advice.batch_index
        color, dash = series_look(order)
        x, fits = curve.batches, _fits(advice)
        add_band(figure, x[fits], curve.low[fits, column], curve.high[fits, column], "", color, opacity=0.2)
        label = f"{name}, K = {advice.curve_k}"
        add_line(figure, x[fits], curve.speedup[fits, column], label, color, dash=dash)
        figure.add_scatter(
            x=curve.batches[[row]],
            y=curve.speedup[[row], column],
            mode="markers",
            showlegend=False,
            hoverinfo="skip",
            cliponaxis=False,
            marker=marker(_MARKERS[order % len(_MARKERS)], 11, color, line={"width": 1, "color": "white"}),
        )
    figure.update_layout(legend={"entrywidth": 1, "entrywidthmode": "fraction"})
    figure.update_yaxes(range=[low, high])
    log_axis(figure, np.concatenate([advice.curve.batches for advice in advices]))
    tables = [
        speedup_table(advice.curve, [advice.curve_k]).assign(scenario=name, hash=advice.scenario.hash)
        for advice, name in zip(advices, names, strict=True)
    ]
    return Chart(figure, _comparison_alt(advices, names), pd.concat(tables, ignore_index=True))


def _comparison_alt(advices: Sequence[Advice], names: Sequence[str]) -> str:
    parts = []
    for advice, name in zip(advices, names, strict=True):
        curve, column, row = advice.curve, _column(advice), advice.batch_index
        highest = np.where(_fits(advice), curve.speedup[:, column], 0.0)
        parts.append(
            f"{name} with K = {advice.curve_k}: {curve.speedup[row, column]:.2f}x at batch {curve.batches[row]:,.0f} "
            f"({advice.band_level:.0%} band {curve.low[row, column]:.2f} to {curve.high[row, column]:.2f}), highest "
            f"{highest.max():.2f}x at batch {curve.batches[highest.argmax()]:,.0f}"
        )
    return f"Speedup against batch size of {len(advices)} scenarios. {'. '.join(parts)}."


def _fits(advice: Advice) -> NDArray[np.bool_]:
    """Batches of the curve that fit in memory, and the scenario's own. All where none fits. [nB]"""
    largest = advice.setup.memory.largest_batch
    if largest < 1:
        return np.ones(advice.curve.batches.shape, bool)
    return np.asarray(advice.curve.batches <= max(largest, advice.scenario.batch_size))


def _column(advice: Advice) -> int:
    return advice.curve.column(advice.curve_k)


def _range(advice: Advice) -> tuple[float, float]:
    column = _column(advice)
    fits = _fits(advice)
    return float(advice.curve.low[fits, column].min()), float(advice.curve.high[fits, column].max())
