"""Predictions against published measurements that the fit has not seen: values in, Chart out. No Streamlit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.charts.figure import BLUE, GREEN, NEUTRAL, ORANGE, Chart, new_figure, series_look

_SYMBOLS = ("circle", "diamond", "square", "cross")
_TIER_NAMES = {
    "measured": "measured here",
    "interpolated": "between measured kernels",
    "fitted": "modelled from measured kernels",
    "roofline": "data sheet only",
}


def predicted_chart(judged: pd.DataFrame) -> Chart:
    """Predicted against measured speedup, one point for each published row, apart by what its times rest on.

    judged : rows with measured, predicted_speedup, predicted_low, predicted_high, predicted_tier, source_title.
    """
    figure = new_figure(
        "Predicted against measured speedup<br><sup>on the line is right · bars: 80% band</sup>",
        "Measured (×)", "Predicted (×)", height=460,
    )  # fmt: skip
    low = 0.9 * float(min(judged["measured"].min(), judged["predicted_low"].min()))
    high = 1.05 * float(max(judged["measured"].max(), judged["predicted_high"].max()))
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", line={"color": NEUTRAL, "dash": "dot"}, hoverinfo="skip",
        name="right", showlegend=False,
    )  # fmt: skip
    for order, (tier, rows) in enumerate(judged.groupby("predicted_tier")):
        color, _ = series_look(order)
        figure.add_scatter(
            x=rows["measured"], y=rows["predicted_speedup"], mode="markers", name=_TIER_NAMES.get(str(tier), str(tier)),
            marker={"color": color, "symbol": _SYMBOLS[order % len(_SYMBOLS)], "size": 9},
            error_y={
                "type": "data", "symmetric": False, "thickness": 1, "width": 0, "color": color,
                "array": rows["predicted_high"] - rows["predicted_speedup"],
                "arrayminus": rows["predicted_speedup"] - rows["predicted_low"],
            },
            customdata=rows[["model_id", "hardware_id", "drafter", "batch_size", "draft_tokens_k", "source_title"]],
            hovertemplate="<b>predicted %{y:.2f}×, measured %{x:.2f}×</b><br>%{customdata[0]} on %{customdata[1]}, "
            "%{customdata[2]}, batch %{customdata[3]}, K = %{customdata[4]}<br>%{customdata[5]}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(range=[low, high], ticksuffix="×")
    figure.update_yaxes(range=[low, high], ticksuffix="×")
    figure.update_layout(hovermode="closest", legend={"entrywidth": 190})
    error = (judged["predicted_speedup"] / judged["measured"] - 1.0).abs()
    alt = f"Predicted against measured speedup of {len(judged)} published rows: median error {error.median():.0%}."
    return Chart(figure, alt, judged)


def coverage_chart(errors: pd.DataFrame) -> Chart:
    """Share of measured speedups inside the 80 % band, by group, against the share that it is meant to hold.

    errors : one row for each group: group, n, coverage. [1]
    """
    figure = new_figure(
        "Measured values inside the 80% band<br><sup>the dotted line is what it is meant to hold</sup>", "Share", "",
        height=150 + 38 * len(errors),
    )  # fmt: skip
    met = np.where(errors["coverage"] >= 0.75, GREEN, ORANGE)
    figure.add_bar(
        x=errors["coverage"], y=errors["group"], orientation="h", marker_color=met.tolist(),
        text=[f"{share:.0%} of {n}" for share, n in zip(errors["coverage"], errors["n"], strict=True)],
        textposition="auto", hovertemplate="%{y}: %{text}<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.add_vline(x=0.8, line={"color": NEUTRAL, "dash": "dot"})
    figure.update_xaxes(range=[0, 1.05], tickformat=".0%")
    figure.update_yaxes(autorange="reversed")
    first = errors.iloc[0]
    alt = f"{first['coverage']:.0%} of {first['n']} measured speedups ({first['group']}) lie in the 80% band."
    return Chart(figure, alt, errors)


def error_chart(errors: pd.DataFrame) -> Chart:
    """Median error of predicted speedups by group.

    errors : one row for each group: group, n, median_error. [1]
    """
    figure = new_figure(
        "Median error of the speedup<br><sup>lower is better</sup>", "Error", "", height=150 + 38 * len(errors)
    )
    figure.add_bar(
        x=errors["median_error"], y=errors["group"], orientation="h", marker_color=BLUE,
        text=[f"{error:.0%} of {n}" for error, n in zip(errors["median_error"], errors["n"], strict=True)],
        textposition="auto", hovertemplate="%{y}: %{text}<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    worst = errors.loc[errors["median_error"].idxmax()]
    alt = f"Median error by group; the largest is {worst['median_error']:.0%} ({worst['group']}, {worst['n']} rows)."
    return Chart(_plain(figure), alt, errors)


def _plain(figure: go.Figure) -> go.Figure:
    return figure.update_layout(hovermode="closest")
