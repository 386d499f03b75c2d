"""Charts of measurements: refits, published points, profiler sweeps, routing traces, a user's own
runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pandas as pd

from advisor.answers.expert_ranks import RanksAnswer
from advisor.measured.refit import BeforeAfter, curve_name
from advisor.measured.sweep_fit import SweepFit
from advisor.physics.routing_trace import UnionRow
from advisor.show.charts.figure import (
    BATCH,
    BLUE,
    GREEN,
    NEUTRAL,
    ORANGE,
    SERIES,
    SYMBOLS,
    VERMILLION,
    Chart,
    add_band,
    add_diagonal,
    add_line,
    add_points,
    fit_legend,
    log_axis,
    marker,
    new_figure,
)

_TITLES = {
    "speedup": ("Speedup over no speculation (×)", 1.0),
    "tpot_s": ("Time per output token (ms)", 1e3),
    "step_time_s": ("Time of one step (ms)", 1e3),
}
_COUNTED = (VERMILLION, BLUE, GREEN, ORANGE)


def before_after_chart(curves: BeforeAfter) -> Chart:
    """The shipped curve, the refitted one with its band, and the user's points. Set-aside points
    are open."""
    title, scale = _TITLES[curves.quantity]
    what = curve_name(curves.model_id, curves.drafter, curves.n_draft)
    figure = new_figure(f"{title}<br>before and after: {what}", BATCH, title)
    if curves.quantity == "speedup":
        add_band(figure, curves.batches, curves.after_low, curves.after_high, "80% range after")
    add_line(figure, curves.batches, curves.before * scale, "before", NEUTRAL, dash="dash")
    add_line(figure, curves.batches, curves.after * scale, "after", BLUE)
    for used, name, symbol in ((True, "your points", "diamond"), (False, "set aside", "x")):
        some = curves.points[curves.points["used"] == used]
        if len(some):
            hover = {
                "customdata": some["line"],
                "hovertemplate": "%{y:.3g} measured, line %{customdata}<extra></extra>",
            }
            measured = some["measured"] * scale
            add_points(
                figure, some["batch_size"], measured, name, marker(symbol, 10, VERMILLION), **hover
            )
    fit_legend(figure)
    log_axis(figure, curves.batches)
    change = float(np.median(curves.after / curves.before - 1.0))
    inside = curves.points[curves.points["used"]]
    off_before = float((inside["before"] / inside["measured"] - 1.0).abs().mean())
    off_after = float((inside["after"] / inside["measured"] - 1.0).abs().mean())
    alt = (
        f"{title} against batch size for {what}: the refit changes the curve by {change:+.1%} in "
        f"the median; {len(inside)} of your points lie {off_before:.1%} off it before and "
        f"{off_after:.1%} after, in the mean."
    )
    lines = {name: getattr(curves, name) for name in ("before", "after", "after_low", "after_high")}
    return Chart(figure, alt, pd.DataFrame({"batch_size": curves.batches, **lines}))


def acceptance_chart(lengths: pd.DataFrame) -> Chart:
    """Accepted length by K (`accepted_lengths`): measured points, held beyond, with the 80 %
    band."""
    figure = new_figure(
        "Accepted length by K<br>with its 80% range", "Draft tokens K", "Tokens per step"
    )
    k = lengths["n_draft"]
    length = lengths["accepted_length"]
    add_band(figure, k, lengths["low"], lengths["high"], "80% range")
    add_line(figure, k, length, "last probability held", BLUE, dash="dash")
    known = lengths[lengths["measured"]]
    add_line(figure, known["n_draft"], known["accepted_length"], "measured", BLUE)
    fit_legend(figure)
    last = known.iloc[-1]
    end = lengths.iloc[-1]
    alt = (
        f"Accepted length {last['accepted_length']:.2f} at K = {last['n_draft']:.0f}, the longest "
        "measured"
    )
    if end["n_draft"] > last["n_draft"]:
        alt += (
            f"; {end['accepted_length']:.2f} ({end['low']:.2f} to {end['high']:.2f}) at K = "
            f"{end['n_draft']:.0f} when the last probability is held"
        )
    return Chart(figure, alt + ".", lengths)


def union_chart(rows: Sequence[UnionRow]) -> Chart:
    """Distinct experts touched: counted in the trace or log, predicted by the fit, and by uniform
    routing."""
    frame = pd.DataFrame([vars(row) for row in rows])
    figure = new_figure(
        "Distinct experts of one layer<br>counted and predicted",
        "Tokens in the step (B x t)",
        "Experts",
    )
    total = frame["batch_size"] * frame["tokens"]
    frame = frame.assign(step_tokens=total).sort_values(["step_tokens", "batch_size"])
    add_line(
        figure, frame["step_tokens"], frame["uniform"], "uniform routing", NEUTRAL, dash="dash"
    )
    for column, name, color, symbol in (
        ("counted", "counted", VERMILLION, "diamond-open"),
        ("predicted", "predicted by the fit", BLUE, "circle"),
    ):
        add_points(
            figure,
            frame["step_tokens"],
            frame[column],
            name,
            marker(symbol, 10, color, line={"width": 2}),
            customdata=frame[["batch_size", "tokens"]],
            hovertemplate=(
                "%{y:.1f}, %{customdata[0]} sequences x %{customdata[1]} tokens<extra></extra>"
            ),
        )
    fit_legend(figure)
    log_axis(figure, frame["step_tokens"])
    largest = (frame["predicted"] / frame["counted"] - 1.0).abs().max()
    alt = f"Predicted distinct experts differ from those counted by at most {largest:.1%}."
    return Chart(figure, alt, frame)


def ratio_chart(fit: SweepFit) -> Chart:
    """Measured against predicted T(B, q) / T(B, 1) of one MoE layer, a colour and symbol per
    held-out k.

    `fit` needs at least one held-out ratio. Times of a layer, so the ratio has no unit.
    """
    ratios = fit.ratios
    record = fit.record
    figure = new_figure(
        (
            f"MoE layer over q tokens against one, k held out<br>{record.dtype}, "
            f"{record.kernel_source}: T(B, q) / T(B, 1)"
        ),
        "Measured ratio",
        "Predicted ratio",
        height=420,
    )
    add_diagonal(
        figure,
        0.9,
        1.05 * float(ratios[["measured_ratio", "predicted_ratio"]].to_numpy(float).max()),
    )
    for order, (k, rows) in enumerate(ratios.groupby("n_active", sort=True)):
        add_points(
            figure,
            rows["measured_ratio"],
            rows["predicted_ratio"],
            f"k = {k}",
            marker(SYMBOLS[order % len(SYMBOLS)], 8, SERIES[order % len(SERIES)]),
            customdata=rows[["batch_size", "tokens_per_sequence", "n_experts"]],
            hovertemplate="B = %{customdata[0]}, q = %{customdata[1]}, N = %{customdata[2]}: "
            "measured %{x:.2f}, "
            "predicted %{y:.2f}<extra></extra>",
        )
    figure.update_layout(hovermode="closest")
    mean = float(ratios["error"].mean())
    worst = float(ratios["error"].max())
    alt = (
        f"Predicted against measured verification ratio for {len(ratios)} pairs over "
        f"{ratios['n_active'].nunique()} held-out values of k: mean error {mean:.1%}, worst "
        f"{worst:.1%}."
    )
    return Chart(figure, alt, ratios)


def rank_chart(answer: RanksAnswer) -> Chart:
    """Rows that the fullest rank serves over the mean rank's, by K: assumed, in order, and
    balanced."""
    drafts = answer.in_order.curve.drafts
    figure = new_figure(
        "Rows of the fullest rank<br>over the mean rank's", "Draft tokens K", "Ratio"
    )
    table = pd.DataFrame({"n_draft": drafts})
    colors = cycle(_COUNTED)
    for arm in answer.arms:
        # Dashed where the rank is assumed, dotted with copies, which often lie on the balanced
        # line.
        counted = next(colors), "dot" if arm.redundant else "solid"
        color, dash = (NEUTRAL, "dash") if arm is answer.assumed else counted
        add_line(figure, drafts, arm.pairs_ratio, arm.name, color, dash=dash)
        table[arm.name.replace(", ", "_").replace(" ", "_")] = arm.pairs_ratio
    if len(drafts) == 1:  # a line of one point is not drawn
        figure.update_traces(mode="markers")
    fit_legend(figure)
    figure.update_xaxes(dtick=1)
    best = answer.arms[-1]
    first = answer.in_order
    alt = (
        f"The fullest of {answer.setup.placement.expert_parallel} ranks serves "
        f"{first.pairs_ratio[0]:.2f} times the mean rank's rows in a plain step with experts in "
        f"order, {first.pairs_ratio[-1]:.2f} times at K = {int(np.max(drafts))}; {best.name}, "
        f"{best.pairs_ratio[-1]:.2f} times."
    )
    return Chart(figure, alt, table)
