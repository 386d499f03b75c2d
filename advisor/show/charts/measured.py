"""Charts of measurements: refits, published points, profiler sweeps, routing traces, a user's own
runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.answers.advice import Advice
from advisor.answers.diagnosis.verdict import RunsOfK
from advisor.answers.expert_ranks import RanksAnswer
from advisor.catalog.adjustment import change_text
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
    add_bars,
    add_diagonal,
    add_line,
    add_points,
    fit_legend,
    log_axis,
    marker,
    new_figure,
)
from advisor.text import counted

_TITLES = {
    "speedup": ("Speedup over no speculation (×)", 1.0),
    "tpot_s": ("Time per output token (ms)", 1e3),
    "step_time_s": ("Time of one step (ms)", 1e3),
}
_COVERED = 0.75
"""Bands that hold a smaller share are drawn in another colour: the gate of docs/validation.md.
[-]"""
_BAR_HOVER = "%{y}: %{text}<extra></extra>"
_TICKS = (0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_COUNTED = (VERMILLION, BLUE, GREEN, ORANGE)
_Z_80 = 1.2816
"""Standard deviations on either side that hold 80%. [-]"""


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


TIER_NAMES = {
    "measured": "measured here",
    "interpolated": "between measured kernels",
    "fitted": "modelled from measured kernels",
    "roofline": "data sheet only",
}


def predicted_chart(judged: pd.DataFrame, by: str = "predicted_tier") -> Chart:
    """Predicted against measured speedup, one point for each published row, apart by one of its
    columns.

    judged : rows with measured, predicted_speedup, predicted_low, predicted_high, source_title and
        the column `by`,
    whose values are the names of the legend where they are no tiers.
    """
    figure = new_figure(
        "Predicted against measured speedup", "Measured (×)", "Predicted (×)", height=480
    )
    low = 0.9 * float(min(judged["measured"].min(), judged["predicted_low"].min()))
    high = 1.05 * float(max(judged["measured"].max(), judged["predicted_high"].max()))
    add_diagonal(figure, low, high)
    groups = sorted(judged.groupby(by), key=lambda pair: -len(pair[1]))
    for order, (name, rows) in enumerate(groups):
        color = SERIES[order % len(SERIES)]
        value = rows["predicted_speedup"]
        ends = {
            "array": rows["predicted_high"] - value,
            "arrayminus": value - rows["predicted_low"],
        }
        look = {"color": color, "thickness": 0.6, "width": 0}
        add_points(
            figure,
            rows["measured"],
            value,
            TIER_NAMES.get(str(name), str(name)),
            marker(SYMBOLS[order % len(SYMBOLS)], 8, color, opacity=0.75),
            error_y={"type": "data", "symmetric": False, **ends, **look},
            customdata=rows[
                [
                    "model_id",
                    "hardware_id",
                    "drafter",
                    "batch_size",
                    "draft_tokens_k",
                    "source_title",
                ]
            ],
            hovertemplate="<b>predicted %{y:.2f}×, measured %{x:.2f}×</b><br>%{customdata[0]} on "
            "%{customdata[1]}, "
            "%{customdata[2]}, batch %{customdata[3]}, K = "
            "%{customdata[4]}<br>%{customdata[5]}<extra></extra>",
        )
    for update, value in (
        (figure.update_xaxes, "measured"),
        (figure.update_yaxes, "predicted_speedup"),
    ):
        ticks = [
            tick
            for tick in _TICKS
            if 0.8 * judged[value].min() <= tick <= 1.2 * judged[value].max()
        ]
        text = [f"{tick:g}×" for tick in ticks]
        update(type="log", range=[np.log10(low), np.log10(high)], tickvals=ticks, ticktext=text)
    figure.update_layout(hovermode="closest")
    fit_legend(figure)
    error = (judged["predicted_speedup"] / judged["measured"] - 1.0).abs()
    alt = (
        f"Predicted against measured speedup of {len(judged)} published rows: median error "
        f"{error.median():.0%}."
    )
    return Chart(figure, alt, judged)


def coverage_chart(errors: pd.DataFrame) -> Chart:
    """Share of measured speedups inside the 80 % band, by group, with the band's width.

    errors : one row for each group: group, n, laboratories, coverage, width (of the band over the
        prediction) and
    median_error. [-]
    """
    title = "Inside the 80% range, its width, median error"
    figure = new_figure(title, "", "", height=100 + 40 * len(errors))
    met = np.where(errors["coverage"] >= _COVERED, GREEN, ORANGE).tolist()
    text = [
        f"{row.coverage:.0%} in ±{row.width / 2:.0%}<br>error {row.median_error:.0%}"
        for row in errors.itertuples()
    ]
    add_bars(figure, _names(errors), errors["coverage"], met, hovertemplate=_BAR_HOVER)
    # Beside the longest bar, where neither a bar's colour nor the dotted line runs through it.
    bar_labels = {
        "x": [1.03] * len(errors),
        "y": _names(errors),
        "text": text,
        "textposition": "middle right",
    }
    figure.add_scatter(
        **bar_labels,
        textfont_size=11,
        mode="text",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
    figure.add_vline(x=0.8, line={"color": NEUTRAL, "dash": "dot"})
    figure.update_xaxes(range=[0, 1.7], tickformat=".0%", tickvals=[0, 0.4, 0.8])
    first = errors.iloc[0]
    alt = (
        f"{first['coverage']:.0%} of {first['n']} measured speedups of {first['laboratories']} "
        f"laboratories, each counting alike ({first['group']}), lie in the 80% range, on "
        f"average ±{first['width'] / 2:.0%}; the median error is {first['median_error']:.0%}."
    )
    return Chart(figure, alt, errors)


def chances_chart(kept: pd.DataFrame) -> Chart:
    """Stated chances of a gain (`chances_kept`) against the share that gained, each with its 80%
    interval."""
    figure = new_figure("Chance of a gain: stated and observed", "Stated chance", "Gained")
    add_diagonal(figure, 0, 1)
    gained = kept["happened"].to_numpy(float)
    half_width = _Z_80 * np.sqrt(gained * (1.0 - gained) / kept["n"])
    sides = [("bottom right", "top left")[place % 2] for place in range(len(kept))]
    add_points(
        figure,
        kept["stated"],
        gained,
        "",
        marker("circle", 10, BLUE),
        mode="markers+text",
        text=[f"{n:,}" for n in kept["n"]],
        textposition=sides[::-1],
        error_y={"array": half_width, "thickness": 1.5, "width": 0},
        customdata=kept[["least", "most", "laboratories"]],
        hovertemplate="stated %{customdata[0]:.0%} to %{customdata[1]:.0%}: %{y:.0%} gained, "
        "%{text} rows of %{customdata[2]} laboratories<extra></extra>",
        showlegend=False,
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(range=[-0.03, 1.1], tickformat=".0%", tickvals=[0, 0.25, 0.5, 0.75, 1])
    figure.update_layout(hovermode="closest")
    off = kept.loc[(kept["stated"] - kept["happened"]).abs().idxmax()]
    alt = (
        f"Farthest from the stated chance are the {off['n']:.0f} rows at {off['stated']:.0%} in "
        f"the mean, of which {off['happened']:.0%} gained."
    )
    return Chart(figure, alt, kept)


def _names(errors: pd.DataFrame) -> list[str]:
    """Each group with what it counts: rows, and the laboratories that its shares are means over."""
    return [
        f"{row.group}<br><sup>{counted(row.n, 'row')}, {counted(row.laboratories, 'lab')}</sup>"
        for row in errors.itertuples()
    ]


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


_BEYOND = 2.0
_QUANTITIES = {
    "speedup": "Speedup (×)",
    "round": "Time per round (ms)",
    "plain": "Time per token (ms)",
}
"""Last batch drawn over the largest that was measured. [-]"""


def own_gap_chart(advice: Advice, runs: RunsOfK) -> Chart:
    """Measured runs of one K, sticks to their predictions, and the scenario's curve with its
    range."""
    curve = advice.curve
    column = curve.column(runs.n_draft)
    near = curve.batches <= _BEYOND * max(
        float(runs.points["batch_size"].max()), float(curve.batches[1])
    )
    batches = curve.batches[near]
    gains = runs.quantity == "speedup"
    scale = 1.0 if gains else 1e3
    predicted = {"speedup": curve.speedup, "round": curve.round_s, "plain": curve.tpot_s}
    values = predicted[runs.quantity][near, column] * scale
    title = f"{_QUANTITIES[runs.quantity]}, K = {runs.n_draft}: measured and predicted"
    figure = new_figure(title, BATCH, "", height=430)
    if gains:
        add_band(figure, batches, curve.low[near, column], curve.high[near, column], "", 0.18)
        figure.add_hline(y=1.0, line={"color": NEUTRAL, "width": 1})
    length = float(curve.accepted_length[column])
    add_line(figure, batches, values, f"model, {length:.2f} accepted" if gains else "model", BLUE)
    points = runs.points.assign(
        measured=runs.points["measured"] * scale, predicted=runs.points["predicted"] * scale
    )
    _sticks(figure, points)
    add_points(
        figure,
        points["batch_size"],
        points["measured"],
        "yours",
        marker("circle", 11, GREEN),
        hovertemplate="%{y:.3g}",
    )
    fit_legend(figure)
    log_axis(figure, batches)
    figure.update_yaxes(ticksuffix="×" if gains else "")
    gap = float(np.exp(np.log(points["measured"] / points["predicted"]).mean()))
    n_points = f"{len(points)} points at K = {runs.n_draft}"
    alt = f"{n_points} lie {change_text(gap)} from the prediction on average."
    table = pd.DataFrame({"batch_size": batches, "model": values})
    return Chart(figure, alt, pd.concat([table, points], ignore_index=True))


def _sticks(figure: go.Figure, points: pd.DataFrame) -> None:
    """A line from each point to the model, as one trace with gaps."""
    gap = np.full(len(points), np.nan)
    x = np.column_stack([points["batch_size"], points["batch_size"], gap]).ravel()
    y = np.column_stack([points["measured"], points["predicted"], gap]).ravel()
    line = {"color": NEUTRAL, "width": 1}
    figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)
