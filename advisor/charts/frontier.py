"""Throughput of a GPU against speed of a user, batch along the curve: plain decoding and drafting. No Streamlit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.charts.figure import BLUE, NEUTRAL, ORANGE, VERMILLION, Chart, new_figure
from advisor.curve import Curve


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
