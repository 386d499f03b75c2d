"""Predictions against published measurements that the fit has not seen: values in, Chart out. No Streamlit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    ORANGE,
    Chart,
    band_bars,
    fit_legend,
    marker,
    new_figure,
    series_look,
)
from advisor.text import counted

_SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "x")
_TICKS = (0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_COVERED = 0.75
"""Bands that hold a smaller share are drawn in another colour: the gate of docs/validation.md. [-]"""
TIER_NAMES = {
    "measured": "measured here",
    "interpolated": "between measured kernels",
    "fitted": "modelled from measured kernels",
    "roofline": "data sheet only",
}


def predicted_chart(judged: pd.DataFrame, by: str = "predicted_tier") -> Chart:
    """Predicted against measured speedup, one point for each published row, apart by one of its columns.

    judged : rows with measured, predicted_speedup, predicted_low, predicted_high, source_title and the column `by`,
    whose values are the names of the legend where they are no tiers.
    """
    figure = new_figure(
        "Predicted against measured speedup<br><sup>on the line is right · bars: 80% band</sup>",
        "Measured (×)",
        "Predicted (×)",
        height=480,
    )
    low = 0.9 * float(min(judged["measured"].min(), judged["predicted_low"].min()))
    high = 1.05 * float(max(judged["measured"].max(), judged["predicted_high"].max()))
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": NEUTRAL, "dash": "dot"},
        hoverinfo="skip",
        name="right",
        showlegend=False,
    )
    groups = sorted(judged.groupby(by), key=lambda pair: -len(pair[1]))
    for order, (name, rows) in enumerate(groups):
        color, _ = series_look(order)
        figure.add_scatter(
            x=rows["measured"],
            y=rows["predicted_speedup"],
            mode="markers",
            name=TIER_NAMES.get(str(name), str(name)),
            marker=marker(_SYMBOLS[order % len(_SYMBOLS)], 8, color, opacity=0.75),
            error_y=band_bars(
                rows["predicted_speedup"], rows["predicted_low"], rows["predicted_high"], color, thickness=0.6
            ),
            customdata=rows[["model_id", "hardware_id", "drafter", "batch_size", "draft_tokens_k", "source_title"]],
            hovertemplate="<b>predicted %{y:.2f}×, measured %{x:.2f}×</b><br>%{customdata[0]} on %{customdata[1]}, "
            "%{customdata[2]}, batch %{customdata[3]}, K = %{customdata[4]}<br>%{customdata[5]}<extra></extra>",
        )
    for update, value in ((figure.update_xaxes, "measured"), (figure.update_yaxes, "predicted_speedup")):
        ticks = [tick for tick in _TICKS if 0.8 * judged[value].min() <= tick <= 1.2 * judged[value].max()]
        text = [f"{tick:g}×" for tick in ticks]
        update(type="log", range=[np.log10(low), np.log10(high)], tickvals=ticks, ticktext=text)
    figure.update_layout(hovermode="closest")
    fit_legend(figure)
    error = (judged["predicted_speedup"] / judged["measured"] - 1.0).abs()
    alt = f"Predicted against measured speedup of {len(judged)} published rows: median error {error.median():.0%}."
    return Chart(figure, alt, judged)


def coverage_chart(errors: pd.DataFrame) -> Chart:
    """Share of measured speedups inside the 80 % band, by group, with the band's width.

    errors : one row for each group: group, n, laboratories, coverage, width (of the band over the prediction). [-]
    """
    figure = _bars(
        "Inside the 80% band, and how wide it is<br><sup>dotted: the share it is meant to hold</sup>", errors
    )
    met = np.where(errors["coverage"] >= _COVERED, GREEN, ORANGE)
    text = [
        f"{share:.0%} in ±{width / 2:.0%}" for share, width in zip(errors["coverage"], errors["width"], strict=True)
    ]
    figure.add_bar(
        x=errors["coverage"],
        y=_names(errors),
        orientation="h",
        marker_color=met.tolist(),
        text=text,
        textposition="auto",
        insidetextanchor="start",
        hovertemplate="%{y}: %{text}<extra></extra>",
        showlegend=False,
        textangle=0,
    )
    figure.add_vline(x=0.8, line={"color": NEUTRAL, "dash": "dot"})
    figure.update_xaxes(range=[0, 1.05], tickformat=".0%", tickvals=[0, 0.4, 0.8])
    first = errors.iloc[0]
    alt = (
        f"{first['coverage']:.0%} of {first['n']} measured speedups of {first['laboratories']} laboratories, each "
        f"counting alike ({first['group']}), lie in the 80% band, whose mean half width is {first['width'] / 2:.0%}."
    )
    return Chart(figure, alt, errors)


def error_chart(errors: pd.DataFrame) -> Chart:
    """Median error of predicted speedups by group.

    errors : one row for each group: group, n, laboratories, median_error. [-]
    """
    figure = _bars("Median error of the speedup<br><sup>lower is better</sup>", errors)
    figure.add_bar(
        x=errors["median_error"],
        y=_names(errors),
        orientation="h",
        marker_color=BLUE,
        text=[f"{error:.0%}" for error in errors["median_error"]],
        textposition="outside",
        textangle=0,
        hovertemplate="%{y}: %{text}<extra></extra>",
        showlegend=False,
        cliponaxis=False,
    )
    figure.update_xaxes(tickformat=".0%", range=[0, 1.2 * float(errors["median_error"].max())], nticks=4)
    worst = errors.loc[errors["median_error"].idxmax()]
    alt = f"Median error by group; the largest is {worst['median_error']:.0%} ({worst['group']}, {worst['n']} rows)."
    return Chart(figure, alt, errors)


def _bars(title: str, errors: pd.DataFrame) -> go.Figure:
    """An empty figure for horizontal bars, one for each group, the first on top."""
    figure = new_figure(title, "", "", height=100 + 40 * len(errors))
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(hovermode="closest", bargap=0.3)


def _names(errors: pd.DataFrame) -> list[str]:
    """Each group with what it counts: rows, and the laboratories that its shares are means over."""
    return [
        f"{row.group}<br><sup>{counted(row.n, 'row')}, {counted(row.laboratories, 'lab')}</sup>"
        for row in errors.itertuples()
    ]
