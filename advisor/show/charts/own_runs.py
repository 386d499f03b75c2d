"""Charts of a user's own runs beside the model: points against the curve, parts of the gap, steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.answers.advice import Advice
from advisor.answers.own_gap import PARTS, OwnVerdict, verdict_title
from advisor.catalog.adjustment import change_text
from advisor.prediction import Array
from advisor.show.charts.figure import (
    BATCH,
    BLUE,
    GREEN,
    NEUTRAL,
    SERIES,
    VERMILLION,
    Chart,
    add_band,
    add_bars,
    add_line,
    add_points,
    fit_legend,
    log_axis,
    marker,
    new_figure,
)

_SAME_LENGTH = 0.01
_PARTS_PX = 44
_BEYOND = 2.0
"""Last batch drawn over the largest that was measured. [-]"""


def own_gap_chart(advice: Advice, found: OwnVerdict) -> Chart:
    """Own points of one K with a stick to the model, its band, and the model at the own accepted length."""
    curve, column = advice.curve, advice.curve.column(found.n_draft)
    near = curve.batches <= _BEYOND * max(float(found.points["batch_size"].max()), float(curve.batches[1]))
    batches = curve.batches[near]
    gains = found.quantity == "speedup"
    scale = 1.0 if gains else 1e3
    modelled = {"speedup": curve.speedup, "round_s": curve.round_s, "plain_s": curve.tpot_s}[found.quantity]
    values = modelled[near, column] * scale
    shown = {"speedup": "Speedup (×)", "round_s": "Time per round (ms)", "plain_s": "Time per token (ms)"}
    figure = new_figure(f"{shown[found.quantity]}, K = {found.n_draft}: yours and modelled", BATCH, "", height=430)
    table = {"batch_size": batches, "model": values}
    if gains:
        add_band(figure, batches, curve.low[near, column], curve.high[near, column], "", 0.18)
        figure.add_hline(y=1.0, line={"color": NEUTRAL, "width": 1})
    add_line(figure, batches, values, _named("model, {} accepted", found.model_length, found), BLUE)
    if gains and found.own_length is not None and abs(found.own_length / found.model_length - 1.0) > _SAME_LENGTH:
        table["model_with_own_length"] = values * found.own_length / found.model_length
        name = _named("model, your {} accepted", found.own_length, found)
        add_line(figure, batches, table["model_with_own_length"], name, GREEN, dash="dash", width=2)
    _sticks(figure, found.points, scale)
    add_points(
        figure,
        found.points["batch_size"],
        found.points["measured"] * scale,
        "yours",
        marker("circle", 11, GREEN),
        hovertemplate="%{y:.3g}",
    )
    fit_legend(figure)
    log_axis(figure, batches)
    figure.update_yaxes(ticksuffix="×" if gains else "")
    rows = f"{len(found.points)} points at K = {found.n_draft}"
    alt = f"{verdict_title(found)}: {rows} lie {change_text(found.gap)} from the model on average."
    points = found.points.assign(measured=found.points["measured"] * scale, predicted=found.points["predicted"] * scale)
    return Chart(figure, alt, pd.concat([pd.DataFrame(table), points], ignore_index=True))


def _named(what: str, length: float, found: OwnVerdict) -> str:
    """Name of a line with the accepted length that it takes."""
    return what.format(f"{length:.2f}") if found.quantity == "speedup" else "model"


def _sticks(figure: go.Figure, points: pd.DataFrame, scale: float) -> None:
    """A line from each point to the model, as one trace with gaps."""
    gap = np.full(len(points), np.nan)
    x = np.column_stack([points["batch_size"], points["batch_size"], gap]).ravel()
    y = np.column_stack([points["measured"] * scale, points["predicted"] * scale, gap]).ravel()
    line = {"color": NEUTRAL, "width": 1}
    figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def gap_parts_chart(found: OwnVerdict) -> Chart:
    """The gap's factors on the speedup, and what they multiply to."""
    names = [*(PARTS[part.key] for part in found.parts), "All together"]
    ratios = np.array([*(part.ratio for part in found.parts), found.gap])
    change = (ratios - 1.0) * 100.0
    last = len(names) - 1
    colors = [NEUTRAL if i == last else VERMILLION if one < 0 else BLUE for i, one in enumerate(change)]
    gains = found.quantity == "speedup"
    title = "Parts of the gap" if gains else "Your time against the model's"
    figure = new_figure(title, "", "", height=90 + _PARTS_PX * len(names))
    add_bars(
        figure,
        names,
        change,
        colors,
        text=[change_text(ratio) for ratio in ratios],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: times %{customdata:.2f}<extra></extra>",
        customdata=ratios,
    )
    far = 1.45 * max(float(np.abs(change).max()), 5.0)
    figure.update_xaxes(range=[-far, far], visible=False)
    figure.update_yaxes(showgrid=False)
    figure.add_vline(x=0, line={"color": NEUTRAL, "width": 1})
    said = ", ".join(
        f"{name.lower()} {change_text(ratio)}" for name, ratio in zip(names[:-1], ratios[:-1], strict=True)
    )
    alt = f"The gap of {change_text(found.gap)} is the product of {said}."
    return Chart(figure, alt, pd.DataFrame({"part": names, "factor": ratios}))


def steps_chart(advice: Advice, steps: pd.DataFrame) -> Chart:
    """Own plain steps and rounds, or an engine's own, beside the modelled ones.

    steps : of `steps_beside`.
    """
    curve = advice.curve
    figure = new_figure("Your steps beside the model's (ms)", BATCH, "")
    table: dict[str, Array] = {"batch_size": curve.batches}
    for order, (k, rows) in enumerate(steps.groupby("n_draft")):
        color, n = SERIES[order % len(SERIES)], int(k)
        modelled = (curve.round_s[:, curve.column(n)] if n else curve.plain_step_s) * 1e3
        name = f"round, K = {n}" if n else "plain step"
        add_line(figure, curve.batches, modelled, f"{name}, model", color)
        table[f"model_k{n}_ms"] = modelled
        look = marker("diamond" if n else "circle", 10, color)
        yours = rows["measured_s"] * 1e3
        add_points(figure, rows["batch_size"], yours, f"{name}, yours", look, hovertemplate="%{y:.3g}")
    fit_legend(figure)
    log_axis(figure, curve.batches)
    figure.update_yaxes(type="log")
    off = np.exp(np.mean(np.log(steps["measured_s"] / steps["predicted_s"])))
    alt = f"Your {len(steps)} steps and rounds take {change_text(off)} against the model on average."
    both = pd.concat([pd.DataFrame(table), steps], ignore_index=True)
    return Chart(figure, alt, both)
