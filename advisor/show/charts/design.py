"""Charts of a design: a strip for each dial, quality against speed, and the rule over batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from advisor.answers.design.dials import NEAR_BEST, BatchRule, Dial
from advisor.answers.design.space import DesignSpace
from advisor.prediction import Array
from advisor.show.charts.figure import BATCH, BLUE, GREEN, NEUTRAL, VERMILLION, Chart, marker
from advisor.show.words.design import HELD, dial_value, experts_text, held_value

STRIP_HEIGHT = 210
PARETO_HEIGHT = 470
RULE_HEIGHT = 250
DIAL_INSET = 70, 26
"""From a dial's edges to its first and to its last value: the style of the page moves the slider by
as much. [px]"""
_TINTS = {BLUE: "rgba(0, 114, 178, 0.18)", GREEN: "rgba(0, 158, 115, 0.24)"}
"""Fills of the series' colours: a trace's opacity does not reach its fill. Pale on a white and on a
black page."""
_MOST_QUALITY = 160.0
"""Quality strips end here: the laws are then far outside the designs they were fitted on. [%]"""
_PARETO_QUALITY = (62.0, 142.0)
_ROOM = 6.0
"""The axis, wider where a marked design lies beyond it, with room for its name. [%]"""
_TICKS = 5
_DOTTED = {"color": NEUTRAL, "width": 1, "dash": "dot"}
_LEGEND = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 12}}
_AXES = {"ratio": "k/N", "shared": "s", "width": "width"}


def _figure(height: int, **layout: object) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin=dict.fromkeys("lrtb", 6),
        showlegend=False,
        hovermode="closest",
        **layout,
    )
    figure.update_xaxes(
        automargin=True, zeroline=False, showgrid=False, title_font_size=12, tickfont_size=11
    )
    figure.update_yaxes(automargin=True, zeroline=False, title_font_size=12, tickfont_size=11)
    return figure


def _add_area(
    figure: go.Figure, x: Array, low: Array, high: Array, color: str, **trace: object
) -> None:
    """The area between two curves, in a tint of `color`."""
    edges = {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([high, low[::-1]])}
    figure.add_scatter(
        **edges, mode="none", fill="toself", fillcolor=_TINTS[color], hoverinfo="skip", **trace
    )


def dial_chart(dial: Dial, lost: float = np.nan) -> Chart:
    """Time lost at equal quality with a dial held at each value, over the quality when it alone
    turns.

    lost : time that the design which is turned loses itself, whatever its quality; NaN where
        nothing is known. [-]
    """
    x = np.arange(float(len(dial.position)))
    names = [dial_value(dial, at) for at in range(len(x))]
    figure = _figure(
        STRIP_HEIGHT,
        xaxis={
            "anchor": "y2",
            "title": {"text": _AXES[dial.name], "standoff": 2},
            "range": [0, max(len(x) - 1, 1)],
        },
        yaxis={
            "domain": [0.52, 1.0],
            "title": {"text": "slowdown"},
            "ticksuffix": "%",
            "nticks": 4,
        },
        yaxis2={
            "domain": [0.0, 0.42],
            "title": {"text": "quality"},
            "ticksuffix": "%",
            "nticks": 4,
        },
    )
    # The slider above spans the same width, so that its thumb stands over the chart's mark.
    figure.update_layout(margin={"l": DIAL_INSET[0], "r": DIAL_INSET[1], "b": 40})
    figure.update_xaxes(automargin=False, ticklabeloverflow="allow").update_yaxes(automargin=False)
    _add_quality(figure, dial, x, names)
    _add_loss(figure, dial, x, names, 100 * lost)
    ticks = np.unique(np.linspace(0, len(x) - 1, min(len(x), _TICKS)).round().astype(int))
    form = "{:,.0f}" if dial.name == "width" else "{:.2g}"
    labels = [
        names[i].replace(" of ", "/") if dial.name == "ratio" else form.format(dial.position[i])
        for i in ticks
    ]
    figure.update_xaxes(tickvals=ticks, ticktext=labels, tickangle=0)
    table = {"dial": dial.name, "value": names, "position": dial.position, "time_lost": dial.loss}
    table |= {"quality_low": dial.quality_low, "quality_high": dial.quality_high}
    return Chart(figure, _dial_alt(dial), pd.DataFrame(table))


def _add_quality(figure: go.Figure, dial: Dial, x: Array, names: Sequence[str]) -> None:
    """The lower strip: quality by the lowest and the highest law."""
    low = 100 * dial.quality_low
    high = 100 * dial.quality_high
    at = dial.own
    _add_area(
        figure,
        x,
        np.minimum(low, _MOST_QUALITY),
        np.minimum(high, _MOST_QUALITY),
        GREEN,
        yaxis="y2",
    )
    figure.add_scatter(
        x=x,
        y=np.where(low <= _MOST_QUALITY, low, np.nan),
        yaxis="y2",
        mode="lines",
        line={"color": GREEN, "width": 1.8},
        customdata=np.stack([names, np.round(high)], axis=1),
        hovertemplate="%{customdata[0]}: quality %{y:.0f}–%{customdata[1]}%<extra></extra>",
    )
    figure.add_shape(type="line", x0=0, x1=1, xref="paper", y0=100, y1=100, yref="y2", line=_DOTTED)
    ends = np.minimum([low[at], high[at] + 1.0], _MOST_QUALITY)
    figure.add_scatter(
        x=[at, at],
        y=ends,
        yaxis="y2",
        mode="lines",
        line={"color": GREEN, "width": 6},
        hoverinfo="skip",
    )


def _add_loss(figure: go.Figure, dial: Dial, x: Array, names: Sequence[str], own: float) -> None:
    """The upper strip: slowdown of the best design at each value, and of the own one."""
    lost = 100 * dial.loss
    figure.add_scatter(
        x=x,
        y=lost,
        mode="lines+markers",
        connectgaps=True,
        line={"color": BLUE, "width": 2.2},
        marker={"size": 5, "color": BLUE},
        customdata=[
            " with ".join(name_and_held) for name_and_held in zip(names, dial.held, strict=True)
        ]
        if dial.held
        else names,
        hovertemplate="Best at %{customdata}: %{y:+.1f}% time<extra></extra>",
    )
    look = {"mode": "markers", "marker": marker(*_MARKS["mine"]), "cliponaxis": False}
    figure.add_scatter(
        x=[dial.own], y=[own], hovertemplate="Mine: %{y:+.1f}% time<extra></extra>", **look
    )
    place = {"x": 0, "xanchor": "left", "y": 1.0, "yanchor": "top"} | dict.fromkeys(
        ("xref", "yref"), "paper"
    )
    figure.add_annotation(
        text=f"best design at each {_AXES[dial.name]}", font_size=12, showarrow=False, **place
    )
    ends = np.array([0.0, own, *lost])
    low = float(np.nanmin(ends))
    top = max(float(np.nanmax(ends)), 1.0)
    figure.update_layout(yaxis_range=[low - 0.12 * (top - low), low + 1.5 * (top - low)])


def _dial_alt(dial: Dial) -> str:
    what = HELD[dial.name]
    if dial.best is None:
        return f"By {what}: nothing keeps every limit."
    current_loss = dial.loss[dial.own]
    here = (
        "nothing keeps every limit"
        if np.isnan(current_loss)
        else f"{current_loss:.1%} of the time is lost"
    )
    held = dial.held[dial.own] if dial.held else ""
    held_by = f", by {held}" if held else ""
    quickest = held_value(dial, dial.best)
    current = dial_value(dial, dial.own)
    first = dial_value(dial, 0)
    last = dial_value(dial, len(dial.loss) - 1)
    return (
        f"By {what} at equal quality least time is at {quickest}; held at yours, {current}, "
        f"{here}{held_by}. Turned alone from {first} to {last}, quality by the most cautious law "
        f"goes from {dial.quality_low[0]:.0%} to {dial.quality_low[-1]:.0%}."
    )


def front_frame(space: DesignSpace, index: NDArray[np.intp]) -> pd.DataFrame:
    """Designs with speed and lowest quality over the baseline's, as `pareto_chart` takes them."""
    weight = space.question.batch_weights[:, None]
    baseline_tpot_s = space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0])
    return pd.DataFrame(
        {
            "design": [experts_text(space, int(i)) for i in index],
            "speed": baseline_tpot_s / (weight * space.tpot_s[:, index]).sum(0),
            "quality_low": space.quality[:, index].min(axis=0),
        }
    )


@dataclass(frozen=True)
class Mark:
    """A design that stands out on the quality chart."""

    kind: Literal["today", "mine", "best"]
    name: str
    speed: float
    """Baseline's time per output token over its own. [-]"""
    quality: tuple[float, float]
    """Size over the baseline's by the lowest and the highest law. [-]"""


_MARKS = {
    "today": ("square", 12, NEUTRAL),
    "mine": ("triangle-up", 13, GREEN),
    "best": ("circle", 14, BLUE),
}


def pareto_chart(
    front: pd.DataFrame, others: pd.DataFrame, marks: Sequence[Mark], floor: float
) -> Chart:
    """Quality by the lowest law against speed, of the best trade-offs, other designs and marked
    ones.

    Parameters
    ----------
    front, others : columns design, speed and quality_low, both over the baseline's.
    marks : with whiskers up to the highest law; drawn in this order.
    floor : quality that counts as equal. [-]
    """
    own_name = next(mark.name for mark in marks if mark.kind == "today")
    marked = [100 * mark.quality[0] for mark in marks]
    low = min(_PARETO_QUALITY[0], min(marked) - _ROOM)
    high = max(_PARETO_QUALITY[1], max(marked) + _ROOM)
    seen = front[(100 * front["quality_low"]).between(low, high)]
    speeds = [*seen["speed"], *(mark.speed for mark in marks)]
    figure = _figure(
        PARETO_HEIGHT,
        xaxis={
            "title": {"text": f"Speed per token against {own_name} (×)"},
            "range": [min(speeds) - 0.06, max(speeds) + 0.09],
        },
        yaxis={
            "title": {"text": "Quality, three laws"},
            "range": [low, high],
            "ticksuffix": "%",
            "nticks": 9,
        },
    )
    hover = "%{customdata}<br>%{x:.2f}×, quality at least %{y:.0f}%<extra></extra>"
    for frame, look in (
        (others, {"mode": "markers", "marker": {"size": 4, "color": NEUTRAL, "opacity": 0.28}}),
        (front, {"mode": "lines", "line": {"color": BLUE, "width": 2}}),
    ):
        quality = 100 * frame["quality_low"]
        figure.add_scatter(
            x=frame["speed"],
            y=quality,
            customdata=frame["design"],
            hovertemplate=hover,
            showlegend=False,
            **look,
        )
    level = 100 * floor
    figure.add_shape(type="line", x0=0, x1=1, xref="paper", y0=level, y1=level, line=_DOTTED)
    at = {"x": 0, "xref": "paper", "xanchor": "left", "y": level, "yanchor": "top"}
    figure.add_annotation(text=f"equal quality ({level:g}%)", showarrow=False, font_size=12, **at)
    for mark in marks:
        _add_mark(figure, mark, high)
    figure.update_layout(showlegend=True, legend=_LEGEND)
    marks_text = "; ".join(
        (
            f"{mark.name} {mark.speed:.2f}× at {mark.quality[0]:.0%} to {mark.quality[1]:.0%} of "
            f"{own_name}'s quality"
        )
        for mark in marks
    )
    alt = (
        "Quality by the most cautious of three scaling laws against speed per token: "
        f"{marks_text}. Up and right is better."
    )
    kinds = [
        pd.DataFrame(frame).assign(kind=kind)
        for kind, frame in (("front", front), ("other", others))
    ]
    return Chart(figure, alt, pd.concat(kinds, ignore_index=True))


def _add_mark(figure: go.Figure, mark: Mark, top: float) -> None:
    symbol, size, color = _MARKS[mark.kind]
    low = 100 * mark.quality[0]
    high = 100 * mark.quality[1]
    whisker = {"line": {"color": color, "width": 3}, "showlegend": False, "hoverinfo": "skip"}
    figure.add_scatter(x=[mark.speed] * 2, y=[low, min(high, top)], mode="lines", **whisker)
    figure.add_scatter(
        x=[mark.speed],
        y=[low],
        mode="markers",
        marker=marker(symbol, size, color),
        name=mark.name,
        customdata=[[f"{low:.0f}–{high:.0f}%"]],
        hovertemplate=f"{mark.name}: %{{x:.2f}}×, quality %{{customdata[0]}}<extra></extra>",
    )


def rule_chart(rule: BatchRule, what: str, batch: float, own: tuple[str, float]) -> Chart:
    """Share (active, shared) of the designs of least time and of largest speedup, beside a batch
    and `own`."""
    share = rule.active_share if what == "active" else rule.shared_share
    near = rule.near_active if what == "active" else rule.near_shared
    name = "Active share k / N" if what == "active" else "Shared share s / (k + s)"
    x = np.log2(rule.batches)
    figure = _figure(
        RULE_HEIGHT,
        xaxis={"title": {"text": BATCH}},
        yaxis={"title": {"text": name}, "ticksuffix": "%", "nticks": 5, "rangemode": "tozero"},
    )
    figure.update_layout(showlegend=True, legend=_LEGEND | {"traceorder": "reversed"})
    edges, low = _steps(x, 100 * near[0])
    _, high = _steps(x, 100 * near[1])
    _add_area(
        figure,
        edges,
        low,
        high,
        BLUE,
        name=f"within {NEAR_BEST:.0%} of least time",
        showlegend=True,
    )
    looks = (
        ("least time", BLUE, "solid", "circle", 3),
        ("largest speedup", VERMILLION, "dot", "diamond-open", 2),
    )
    for row, (rule_name, color, dash, symbol, width) in enumerate(looks):
        line_x, line_y = _steps(x, 100 * share[row])
        line = {"color": color, "width": width, "dash": dash}
        figure.add_scatter(
            x=line_x,
            y=line_y,
            mode="lines",
            line=line,
            hoverinfo="skip",
            name=rule_name,
            showlegend=True,
        )
        hover = f"{rule_name} at batch %{{customdata:.0f}}: %{{y:.1f}}%<extra></extra>"
        look = {
            "marker": marker(symbol, 7, color),
            "customdata": rule.batches,
            "hovertemplate": hover,
        }
        figure.add_scatter(x=x, y=100 * share[row], mode="markers", showlegend=False, **look)
    if rule.batches[0] <= batch <= rule.batches[-1]:
        figure.add_shape(
            type="line",
            x0=np.log2(batch),
            x1=np.log2(batch),
            y0=0,
            y1=1,
            yref="paper",
            line=_DOTTED,
        )
    reference_name, reference_share = own
    level = {
        "x": x[[0, -1]],
        "y": [100 * reference_share] * 2,
        "hovertemplate": f"{reference_name}: %{{y:.1f}}%<extra></extra>",
    }
    line = {"color": NEUTRAL, "width": 1.5, "dash": "dash"}
    figure.add_scatter(**level, mode="lines", name=reference_name, line=line, showlegend=True)
    figure.update_xaxes(
        tickvals=x,
        ticktext=[f"{each:,.0f}" for each in rule.batches],
        range=[x[0] - 0.6, x[-1] + 0.6],
        tickangle=0,
    )
    return Chart(figure, _rule_alt(rule, share, name), rule_table(rule))


def _steps(x: Array, y: Array) -> tuple[Array, Array]:
    """A step line, each value from half-way to its neighbours."""
    edges = np.concatenate([[x[0] - 0.5], (x[1:] + x[:-1]) / 2.0, [x[-1] + 0.5]])
    return np.repeat(edges, 2)[1:-1], np.repeat(y, 2)


def _rule_alt(rule: BatchRule, share: Array, name: str) -> str:
    def told(row: int) -> str:
        moves = [0, *(np.flatnonzero(np.diff(share[row])) + 1)]
        return ", ".join(f"{share[row][at]:.1%} from batch {rule.batches[at]:,.0f}" for at in moves)

    return (
        f"{name} of the best design by batch. Least time: {told(0)}. Largest speedup, a ratio: "
        f"{told(1)}. The tint is the range within {NEAR_BEST:.0%} of the least time."
    )


def rule_table(rule: BatchRule) -> pd.DataFrame:
    """One row for each rule and batch."""
    parts = []
    for row, name in enumerate(("least_time", "largest_speedup")):
        columns = {
            "rule": name,
            "batch_size": rule.batches.astype(int),
            "k_over_n": rule.active_share[row],
        }
        columns |= {"shared_share": rule.shared_share[row], "tpot_ms": 1e3 * rule.tpot_s[row]}
        parts.append(pd.DataFrame(columns | {"speedup": rule.speedup[row]}))
    return pd.concat(parts, ignore_index=True)
