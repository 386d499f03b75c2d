"""The report's interactive charts: report in, plotly figure out. No text of a user's is drawn: plotly reads markup."""

from __future__ import annotations

import plotly.graph_objects as go

from advisor.report.document import Report
from advisor.report.layout import FigureKey, shown_curve
from advisor.report.palette import BLUE, NEUTRAL, ORANGE, VERMILLION


def report_figure(report: Report, key: FigureKey) -> go.Figure:
    """The chart of one figure block."""
    return _speedup(report) if key == "speedup" else _components(report)


def _speedup(report: Report) -> go.Figure:
    points = shown_curve(report)
    x = [point.batch_size for point in points]
    low, high = [point.speedup_low for point in points], [point.speedup_high for point in points]
    figure = _new(f"Speedup over plain decoding (x), K = {report.curve_k}", "Batch size (sequences)", "Speedup (x)")
    figure.add_scatter(
        x=[*x, *x[::-1]], y=[*high, *low[::-1]], name=f"{report.answer.band_level:.0%} band", mode="none",
        fill="toself", fillcolor="rgba(0,114,178,0.2)", hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=[point.speedup for point in points], name=f"K = {report.curve_k}", mode="lines+markers",
        line={"color": BLUE, "width": 2.5}, marker={"size": 5}, hovertemplate="%{y:.2f}x",
    )  # fmt: skip
    for k in sorted({point.k_draft for point in report.curve} - {0, report.curve_k}):
        others = [point for point in report.curve if point.k_draft == k]
        figure.add_scatter(
            x=[point.batch_size for point in others], y=[point.speedup for point in others], name=f"K = {k}",
            mode="lines", line={"width": 1.5, "dash": "dot"}, visible="legendonly", hovertemplate="%{y:.2f}x",
        )  # fmt: skip
    outside = [point.batch_size for point in points if point.extrapolated]
    if outside:
        figure.add_vrect(
            x0=outside[0], x1=x[-1], fillcolor=NEUTRAL, opacity=0.12, line_width=0,
            annotation_text="outside the data", annotation_position="top right",
        )  # fmt: skip
    edges = min(*low, 0.95), max(*high, 1.05)
    margin = 0.05 * (edges[1] - edges[0])
    figure.update_yaxes(range=[edges[0] - margin, edges[1] + margin])
    figure.add_hrect(
        y0=edges[0] - margin, y1=1.0, fillcolor=VERMILLION, opacity=0.08, line_width=0, layer="below",
        annotation_text="below 1x: slowdown", annotation_position="bottom left",
    )  # fmt: skip
    figure.add_hline(y=1.0, line={"color": VERMILLION, "width": 1.5})
    figure.add_vline(x=report.scenario.batch_size, line={"color": NEUTRAL, "dash": "dot"})
    ticks = [4**power for power in range(12) if x[0] <= 4**power <= x[-1]]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])
    return figure


def _components(report: Report) -> go.Figure:
    parts = report.components[::-1]
    figure = _new("Where the time goes (ms)", "Milliseconds", "")
    names = [part.label for part in parts]
    series = (
        ("plain step", ORANGE, "/", [part.plain_ms for part in parts]),
        (f"round, K = {report.curve_k}", BLUE, "", [part.round_ms for part in parts]),
    )
    for name, color, pattern, values in series:
        figure.add_bar(
            x=values, y=names, orientation="h", name=name, marker_color=color, marker_pattern_shape=pattern,
            hovertemplate="%{x:.3f} ms",
        )  # fmt: skip
    figure.update_layout(barmode="group", hovermode="y unified", height=120 + 34 * len(parts))
    figure.update_layout(legend={"traceorder": "reversed"})
    return figure


def _new(title: str, x_title: str, y_title: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="plotly_white",
        title={"text": title, "font": {"size": 15}, "x": 0, "xanchor": "left"},
        height=420,
        margin={"l": 8, "r": 8, "t": 48, "b": 8},
        legend={"orientation": "h", "y": -0.2, "x": 0, "yanchor": "top"},
        hovermode="x unified",
        xaxis={"title": x_title, "automargin": True},
        yaxis={"title": y_title, "automargin": True, "zeroline": False},
    )
    return figure
