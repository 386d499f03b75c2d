"""The charts that explain a speedup: experts touched, where the time goes, what a round costs. No Streamlit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from advisor.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    ORANGE,
    VERMILLION,
    Chart,
    add_band,
    add_line,
    add_vertical,
    log_axis,
    new_figure,
)
from advisor.components import component_name

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
