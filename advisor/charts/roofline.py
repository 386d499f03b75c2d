"""The roofline: each component's operations per byte and per second against what the accelerator can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor import laws
from advisor.charts.figure import NEUTRAL, SERIES, Chart, marker, new_figure
from advisor.components import component_name
from advisor.explain import Position, Roof

_SMALL = 0.02
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
    large = {item.component for item in positions if item.seconds >= _SMALL * totals[item.arm]}
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
