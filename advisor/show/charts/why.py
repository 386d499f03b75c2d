"""The charts that explain a speedup: experts touched, where the time goes, what a round costs. No Streamlit.

The roofline: each component's operations per byte and per second against what the accelerator can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from advisor.physics import laws
from advisor.physics.components import component_name
from advisor.show.charts.figure import (
    BLUE,
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
)
from advisor.show.explain.nearby import Position, Roof

_SMALL = 0.005
"""Components below this share of both steps are summed as `Rest`. [-]"""
_SMALL_ADDITION = 0.01
"""Additions to a round below this many plain steps are summed as `Rest`. [-]"""


def touched_experts_chart(
    tokens: ArrayLike,
    routed: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    uniform: ArrayLike,
    *,
    n_experts: int,
    n_active: int,
    tokens_per_sequence: int,
    batch_size: int,
    band_level: float,
) -> Chart:
    """Distinct routed experts of one layer against tokens in a verification, with uniform routing.

    Parameters
    ----------
    tokens : tokens in the step, B (K+1), increasing, [n]. [-]
    routed, low, high : distinct experts under this routing and the ends of its band, [n]. [-]
    uniform : the same if every token chose its experts independently and evenly, [n]. [-]
    """
    tokens, routed, uniform = (np.asarray(values, float) for values in (tokens, routed, uniform))
    figure = new_figure(
        f"Distinct experts loaded per layer (of {n_experts})<br>by tokens in the verification step",
        f"Tokens in the step: batch x {tokens_per_sequence}",
        "Distinct experts",
    )
    add_band(figure, tokens, low, high, f"{band_level:.0%} band", BLUE)
    add_line(figure, tokens, routed, "this routing", BLUE)
    add_line(figure, tokens, uniform, "uniform routing", ORANGE, dash="dash")
    target = float(batch_size * tokens_per_sequence)
    add_vertical(figure, target, f"batch {batch_size:,}")
    figure.add_hline(y=n_experts, line={"color": NEUTRAL, "dash": "dot", "width": 1})
    figure.update_yaxes(range=[0, 1.06 * n_experts])
    log_axis(figure, tokens)
    here, even = (float(np.interp(target, tokens, values)) for values in (routed, uniform))
    alt = (
        f"Distinct experts per layer against tokens in the step: at batch {batch_size} ({target:,.0f} tokens) "
        f"{here:.0f} of {n_experts} experts are loaded, {even:.0f} under uniform routing; one token loads {n_active}."
    )
    data = pd.DataFrame(
        {
            "tokens": tokens,
            "touched_experts": routed,
            "touched_experts_low": np.asarray(low),
            "touched_experts_high": np.asarray(high),
            "touched_experts_uniform": uniform,
        }
    )
    return Chart(figure, alt, data)


def components_table(plain: Mapping[str, float], round_: Mapping[str, float]) -> pd.DataFrame:
    """Milliseconds by component of a plain step and of a whole round, largest first. Tiny ones summed as `Rest`.

    plain, round_ : seconds by component name. [s]
    """
    totals = sum(plain.values()), sum(round_.values())
    rows, rest = [], [0.0, 0.0]
    for name in dict.fromkeys([*plain, *round_]):
        times = plain.get(name, 0.0), round_.get(name, 0.0)
        if max(time / total for time, total in zip(times, totals, strict=True)) < _SMALL:
            rest = [rest[0] + times[0], rest[1] + times[1]]
        else:
            rows.append((component_name(name), times[0] * 1e3, times[1] * 1e3))
    rows.sort(key=lambda row: -row[2])
    if any(rest):
        rows.append(("Rest", rest[0] * 1e3, rest[1] * 1e3))
    return pd.DataFrame(rows, columns=["component", "plain_step_ms", "round_ms"])


def components_chart(
    plain: Mapping[str, float], round_: Mapping[str, float], *, n_draft: int, batch_size: int
) -> Chart:
    """Milliseconds by component of a plain step and of one speculative round (draft and verify).

    plain, round_ : seconds by component name. [s]
    """
    data = components_table(plain, round_)
    figure = new_figure(
        f"Where the time goes (ms), batch {batch_size:,}<br>one step without drafts and one with K = {n_draft}",
        "Milliseconds",
        "",
        height=160 + 40 * len(data),
    )
    for column, name, color in (("round_ms", f"with K = {n_draft}", BLUE), ("plain_step_ms", "without drafts", ORANGE)):
        figure.add_bar(
            x=data[column],
            y=data["component"],
            orientation="h",
            name=name,
            marker_color=color,
            marker_pattern_shape="/" if column == "plain_step_ms" else "",
            hovertemplate="%{x:.3g} ms",
            text=[f"{value:.2f}" if value else "" for value in data[column]],
            textposition="outside",
            textangle=0,
            cliponaxis=False,
        )
    figure.update_xaxes(range=[0, 1.12 * float(data[["plain_step_ms", "round_ms"]].max(axis=None))])
    figure.update_layout(
        barmode="group",
        bargap=0.25,
        hovermode="y unified",
        legend={"xref": "paper", "yref": "paper", "y": 1.0, "yanchor": "bottom", "traceorder": "reversed"},
        margin={"t": 104},
    )
    figure.update_yaxes(autorange="reversed")
    first = data.iloc[0]
    plain_ms, round_ms = sum(plain.values()) * 1e3, sum(round_.values()) * 1e3
    alt = (
        f"Milliseconds by component at batch {batch_size}: a step without drafts takes {plain_ms:.2f} ms, one with "
        f"K = {n_draft} takes {round_ms:.2f} ms. The largest part of it is {first['component']}: "
        f"{first['round_ms']:.2f} ms, against {first['plain_step_ms']:.2f} ms without drafts."
    )
    return Chart(figure, alt, data)


def round_cost_table(plain: Mapping[str, float], round_: Mapping[str, float]) -> pd.DataFrame:
    """Cost of a round in plain steps: the plain step (1), what each component adds, and the sum. [-]"""
    unit = sum(plain.values())
    table = components_table(plain, round_)
    added = (table["round_ms"] - table["plain_step_ms"]) / (unit * 1e3)
    steps = pd.DataFrame({"part": table["component"], "plain_steps": added})
    small = (added.abs() < _SMALL_ADDITION) | (steps["part"] == "Rest")
    rest = float(added[small].sum())
    steps = steps[~small].sort_values("plain_steps", key=abs, ascending=False, kind="stable")
    if small.any():
        steps = pd.concat([steps, pd.DataFrame([("Rest", rest)], columns=steps.columns)])
    ends = [("Without drafts", 1.0)], [("With drafts", sum(round_.values()) / unit)]
    first, last = (pd.DataFrame(rows, columns=steps.columns) for rows in ends)
    return pd.concat([first, steps, last], ignore_index=True)


def round_cost_chart(
    plain: Mapping[str, float], round_: Mapping[str, float], *, accepted_length: float, n_draft: int, batch_size: int
) -> Chart:
    """Cost of one round in plain steps, component by component, against the tokens it emits.

    plain, round_ : seconds by component name. [s]
    accepted_length : tokens emitted per round: the cost at which speculation breaks even. [-]
    """
    data = round_cost_table(plain, round_)
    total = float(data["plain_steps"].iloc[-1])
    figure = new_figure(
        f"Cost of a step with K = {n_draft}, in steps without<br>"
        f"batch {batch_size:,}; it pays if it ends left of the dashed line",
        "Plain steps",
        "",
        height=170 + 32 * len(data),
    )
    figure.add_waterfall(
        orientation="h",
        measure=["absolute", *["relative"] * (len(data) - 2), "total"],
        y=data["part"],
        x=data["plain_steps"],
        increasing={"marker": {"color": ORANGE}},
        decreasing={"marker": {"color": GREEN}},
        totals={"marker": {"color": BLUE}},
        text=[
            f"{data['plain_steps'].iloc[0]:.2f}",
            *[f"{v:+.2f}" for v in data["plain_steps"].iloc[1:-1]],
            f"{total:.2f}",
        ],
        textposition="outside",
        connector={"line": {"color": NEUTRAL, "width": 1}},
        hovertemplate="%{y}: %{delta:.3f}<extra></extra>",
        showlegend=False,
    )
    figure.add_vline(x=accepted_length, line={"color": VERMILLION, "dash": "dash"})
    figure.add_annotation(
        x=accepted_length,
        y=1,
        yref="paper",
        yanchor="bottom",
        xanchor="right",
        showarrow=False,
        text=f"emits {accepted_length:.2f} tokens",
    )
    figure.update_layout(hovermode="closest", margin={"t": 96})
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(range=[0, 1.15 * max(total, accepted_length, float(data["plain_steps"].max()))])
    biggest = data.iloc[1]
    alt = (
        f"One step with K = {n_draft} at batch {batch_size} costs {total:.2f} steps without drafts and emits "
        f"{accepted_length:.2f} tokens. {biggest['part']} adds most: {biggest['plain_steps']:+.2f}."
    )
    return Chart(figure, alt, data)


_ROOFLINE_SMALL = 0.02
"""Components below this share of both passes' working time are left out. [-]"""
_ROOM = 4.0
"""The plot reaches this far beyond the ridge at least, so that what lies there has room for its name. [-]"""
_SYMBOLS = {"plain": "circle-open", "verify": "diamond"}
_NAME_AT = ("bottom right", "top right")
"""Where components are named in turn, so that neighbours' names lie apart."""
_LETTERS = {12: "T", 15: "P", 9: "G"}


def roofline_chart(positions: Sequence[Position], roof: Roof, *, n_draft: int, batch_size: int, name: str) -> Chart:
    """Arithmetic intensity and rate of each component under the datasheet's roofs.

    An arrow leads from the plain step to the verification step.

    Parameters
    ----------
    positions : of `roofline.positions`; at least one.
    name : the accelerator's, for the title.
    """
    shown = _worth_showing(positions)
    figure = new_figure(
        f"Roofline (FLOP/s by FLOP/B)<br>{name}, batch {batch_size:,}, plain and K = {n_draft}",
        "Arithmetic intensity (FLOP/B)",
        "Rate (FLOP/s)",
        440,
    )
    low, high = _span([item.intensity for item in shown] + [roof.ridge * _ROOM])
    _add_roofs(figure, roof, low, high)
    for order, component in enumerate(dict.fromkeys(item.component for item in shown)):
        pair = [item for item in shown if item.component == component]
        _add_component(figure, pair, SERIES[order % len(SERIES)], _NAME_AT[order % len(_NAME_AT)])
    rates = [item.rate for item in shown] + list(roof.peak_flops_per_s.values())
    _log_axes(figure, (low, high), _span(rates))
    _name_regimes(figure, roof)
    figure.update_layout(hovermode="closest", showlegend=False)
    return Chart(figure, _alt(shown, roof, n_draft, batch_size), _table(shown, roof))


def _worth_showing(positions: Sequence[Position]) -> list[Position]:
    totals: dict[str, float] = {}
    for item in positions:
        totals[item.arm] = totals.get(item.arm, 0.0) + item.seconds
    large = {item.component for item in positions if item.seconds >= _ROOFLINE_SMALL * totals[item.arm]}
    kept = [item for item in positions if item.component in large]
    order = {item.component: item.seconds for item in kept if item.arm == "plain"}
    return sorted(kept, key=lambda item: -order.get(item.component, item.seconds))


def _span(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / 2.0, max(values) * 2.0


def _add_roofs(figure: go.Figure, roof: Roof, low: float, high: float) -> None:
    """The slope of the bandwidth, cut by the flat peak of each format in use."""
    for number, (dtype, peak) in enumerate(sorted(roof.peak_flops_per_s.items(), key=lambda pair: pair[1])):
        ridge = float(laws.ridge(peak, roof.bandwidth_bytes_per_s))
        x = [low, ridge, max(high, ridge)]
        figure.add_scatter(
            x=x,
            y=[low * roof.bandwidth_bytes_per_s, peak, peak],
            mode="lines",
            name=f"roof, {dtype}",
            line={"color": NEUTRAL, "width": 2, "dash": "dash" if number else "solid"},
            hoverinfo="skip",
        )


def _name_regimes(figure: go.Figure, roof: Roof) -> None:
    """The ridge as a dotted line between the regimes, each named beside it, and every roof's peak named on it."""
    ridge = np.log10(roof.ridge)
    figure.add_vline(x=roof.ridge, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    above = {"y": 1.0, "yref": "paper", "yanchor": "bottom", "showarrow": False}
    figure.add_annotation(x=ridge, xanchor="right", xshift=-4, text="memory-bound", **above)
    figure.add_annotation(x=ridge, xanchor="left", xshift=4, text="compute-bound", **above)
    figure.add_annotation(
        x=ridge,
        y=0,
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        xshift=4,
        showarrow=False,
        text=f"ridge {roof.ridge:,.0f}",
    )
    for dtype, peak in roof.peak_flops_per_s.items():
        at = float(laws.ridge(peak, roof.bandwidth_bytes_per_s))
        figure.add_annotation(
            x=np.log10(at),
            y=np.log10(peak),
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
            text=f"{dtype} {peak / 1e12:,.0f} TFLOP/s",
        )


def _add_component(figure: go.Figure, pair: list[Position], color: str, name_at: str) -> None:
    """Plain to verification, joined by a line, named at its end."""
    label = component_name(pair[0].component)
    names = [""] * (len(pair) - 1) + [label]
    figure.add_scatter(
        x=[item.intensity for item in pair],
        y=[item.rate for item in pair],
        mode="lines+markers+text",
        name=label,
        text=names,
        textposition=name_at,
        textfont={"size": 12},
        cliponaxis=False,
        line={"color": color, "width": 1.5, "dash": "dot"},
        marker=marker([_SYMBOLS[item.arm] for item in pair], 11, color, line={"width": 2}),
        customdata=[[item.arm, f"{item.seconds * 1e3:.3g} ms"] for item in pair],
        hovertemplate=f"{label}, %{{customdata[0]}}: %{{x:.3g}} FLOP/B, %{{y:.3s}}FLOP/s, %{{customdata[1]}}"
        "<extra></extra>",
    )


def _log_axes(figure: go.Figure, x: tuple[float, float], y: tuple[float, float]) -> None:
    for update, (low, high), unit in ((figure.update_xaxes, x, False), (figure.update_yaxes, y, True)):
        powers = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        step = max(1, len(powers) // 6)
        ticks = powers[::step]
        text = [_power(int(power)) if unit else f"{10.0**power:g}" for power in ticks]
        update(type="log", tickvals=10.0**ticks, ticktext=text, range=[np.log10(low), np.log10(high)])


def _power(power: int) -> str:
    """1e14 as 100 T."""
    base = max((known for known in _LETTERS if known <= power), default=9)
    return f"{10.0 ** (power - base):g} {_LETTERS[base]}"


def _alt(shown: Sequence[Position], roof: Roof, n_draft: int, batch_size: int) -> str:
    first = shown[0].component
    pair: Mapping[str, Position] = {item.arm: item for item in shown if item.component == first}
    plain, verify = pair["plain"], pair["verify"]
    side = "left" if verify.intensity < roof.ridge else "right"
    bound = "bandwidth-bound" if side == "left" else "compute-bound"
    return (
        f"{component_name(first)} at batch {batch_size:,}: {plain.intensity:.3g} FLOP/B without drafts, "
        f"{verify.intensity:.3g} in a verification with K = {n_draft}, {side} of the ridge at {roof.ridge:.0f} FLOP/B: "
        f"{bound}. They move {plain.of_bandwidth(roof):.0%} and {verify.of_bandwidth(roof):.0%} of the datasheet's "
        "bandwidth."
    )


def _table(shown: Sequence[Position], roof: Roof) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "component": [component_name(item.component) for item in shown],
            "step": [item.arm for item in shown],
            "flop": [item.flops for item in shown],
            "bytes": [item.bytes for item in shown],
            "milliseconds": [item.seconds * 1e3 for item in shown],
            "flop_per_byte": [item.intensity for item in shown],
            "flop_per_s": [item.rate for item in shown],
            "share_of_bandwidth": [item.of_bandwidth(roof) for item in shown],
        }
    )
