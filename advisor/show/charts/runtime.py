"""The charts of run-time K: the schedule, its gain, break-even, and what each policy is worth. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from advisor.answers.best_k import break_even_accepted_length, can_pay, paying_intervals
from advisor.answers.round_costs import ContextSchedule, KRange, k_at
from advisor.answers.schedule import ScheduleGain
from advisor.answers.simulation.compare import SimulationReport
from advisor.predict.curve import Curve
from advisor.prediction import Array
from advisor.show.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    ORANGE,
    VERMILLION,
    Chart,
    add_vertical,
    fit_legend,
    log_axis,
    marker,
    new_figure,
    series_look,
)

POLICY_COLUMNS = {
    "policy": "K chosen by",
    "speedup": "Speedup",
    "gain_over_best_static": "To the best single K",
    "tpot_ms": "ms per token",
    "p95_request_tpot_ms": "p95 ms per token",
    "mean_draft": "Mean K",
    "mean_batch": "Mean batch",
    "test_share": "Iterations testing",
    "finished_requests": "Requests finished",
}
"""Headings of `simulation_table` on a page."""
POLICY_FORMATS = {
    "speedup": "%.2fx",
    "gain_over_best_static": "%+.1f%%",
    "tpot_ms": "%.2f",
    "p95_request_tpot_ms": "%.2f",
    "mean_draft": "%.1f",
    "mean_batch": "%.1f",
    "test_share": "%.1f%%",
}
"""How its columns read."""
SHARES = ("gain_over_best_static", "test_share")
"""Columns that are shares, shown in per cent."""


def schedule_chart(
    ranges: Sequence[KRange],
    batch_size: int,
    by_context: Sequence[ContextSchedule] = (),
    context_tokens: int = 0,
    curve: Curve | None = None,
) -> Chart:
    """Draft length by batch size as steps, for the scenario's context and for each context bucket.

    Parameters
    ----------
    ranges : the schedule at the scenario's own context.
    batch_size : target batch, drawn as a line. [-]
    by_context : further schedules; () draws none.
    context_tokens : the scenario's own context, for the label. [tokens]
    curve : where given, the K of the highest speedup at each of its batches is marked, margin and limit aside.
    """
    figure = new_figure(
        "Draft length K (tokens)<br>by batch size", "Batch size (sequences)", "Draft length K (tokens)", height=400
    )
    last = ranges[-1].batch_end
    lines = [(f"your context, {context_tokens:,}", tuple(ranges))]
    lines += [(_context_name(bucket), bucket.ranges) for bucket in by_context]
    for order, (name, steps) in enumerate(lines):
        color, dash = series_look(order)
        offset = 0.04 * order  # a hair apart, so that equal schedules stay visible; the table carries the exact K
        x = [step.batch_start for step in steps] + [last]
        y = np.array([step.n_draft for step in steps] + [steps[-1].n_draft], float)
        figure.add_scatter(
            x=x,
            y=y + offset,
            name=name,
            mode="lines",
            customdata=y,
            hovertemplate="K = %{customdata:.0f}",
            line={"shape": "hv", "color": color, "width": 2 if order else 3} | ({"dash": dash} if order else {}),
        )
    highest = max(step.n_draft for _, steps in lines for step in steps)
    if curve is not None:
        best = curve.drafts[curve.speedup.argmax(axis=1)]
        highest = max(highest, int(best.max()))
        figure.add_scatter(
            x=curve.batches,
            y=best,
            name="highest speedup",
            mode="markers",
            hovertemplate="K = %{y}",
            marker=marker("circle-open", 8, NEUTRAL, line={"width": 1.5}),
        )
    figure.update_yaxes(range=[-0.3, highest + 0.7], dtick=1)
    fit_legend(figure)
    add_vertical(figure, batch_size, f"batch {batch_size:,}")
    log_axis(figure, [1, last])
    return Chart(figure, _schedule_alt(ranges, batch_size), _schedule_table(lines))


def shape_of(ranges: Sequence[KRange]) -> str:
    """Course of K over the batch in a word or two.

    One of: constant, non-increasing, non-decreasing, rises then falls, changes.
    """
    moves = np.sign(np.diff([step.n_draft for step in ranges]))
    moves = moves[moves != 0]
    if moves.size == 0:
        return "is the same at every batch"
    if np.all(moves < 0):
        return "falls with batch and never rises"
    if np.all(moves > 0):
        return "rises with batch and never falls"
    first_fall = int(np.argmax(moves < 0))
    if np.all(moves[:first_fall] > 0) and first_fall > 0 and np.all(moves[first_fall:] < 0):
        return "rises with batch, then falls"
    return "rises and falls more than once with batch"


def gain_chart(gain: ScheduleGain) -> Chart:
    """Speedup on the user's batch histogram: each static K against the schedule."""
    names = [f"K={k}" for k in range(len(gain.static_speedup))] + ["by batch"]
    values = [*gain.static_speedup, gain.schedule_speedup]
    figure = new_figure(
        "Speedup on your batch sizes (x)<br>each single K, and K by batch", "", "Speedup (x)", height=340
    )
    colors = [ORANGE if k == gain.best_static_k else NEUTRAL for k in range(len(gain.static_speedup))] + [BLUE]
    figure.add_bar(
        x=names,
        y=values,
        marker_color=colors,
        hovertemplate="%{y:.3f}x<extra></extra>",
        showlegend=False,
        text=[f"{value:.2f}" for value in values],
        textposition="outside",
        textangle=0,
        cliponaxis=False,
    )
    figure.add_hline(y=1, line={"color": VERMILLION, "width": 1.5})
    figure.update_layout(hovermode="closest", bargap=0.25)
    figure.update_yaxes(range=[0, 1.12 * max(values)])
    alt = (
        f"Speedup on your batch sizes: the schedule reaches {gain.schedule_speedup:.3f}x, the best single K "
        f"(K = {gain.best_static_k}) {gain.best_static_speedup:.3f}x, a gain of {gain.gain:+.1%}."
    )
    return Chart(figure, alt, pd.DataFrame({"k": names, "speedup": values}))


def break_even_chart(curve: Curve, batch_size: int, n_draft: int, last: float = np.inf) -> Chart:
    """Least accepted length at which speculation pays, by batch and K, with the user's own point.

    Parameters
    ----------
    curve : round times over batch and K; its accepted lengths decide which cells pay.
    batch_size, n_draft : the user's point; must be in the curve. [-]
    last : the largest batch that fits in memory; the map ends there, or at the user's own where that is larger. [-]

    A cell's colour is the accepted length needed. `x` marks cells that no acceptance can pay for (more than K + 1
    needed), `o` those that the scenario's own accepted length does not reach.
    """
    drafting = np.flatnonzero(curve.drafts > 0)
    drawn = curve.batches <= max(last, batch_size)
    grid, round_s = curve.batches[drawn], curve.round_s[drawn]
    least = break_even_accepted_length(round_s)[:, drafting]
    possible = can_pay(round_s)[:, drafting]
    given = np.broadcast_to(curve.accepted_length[drafting], least.shape)
    batches = [f"{batch:,.0f}" for batch in grid]
    drafts = [int(k) for k in curve.drafts[drafting]]
    marks = np.where(~possible, "x", np.where(given < least, "o", ""))
    row, column = int(np.argmin(np.abs(grid - batch_size))), drafts.index(n_draft)
    own, needed = float(given[row, column]), float(least[row, column])
    figure = _break_even_figure(batches, drafts, least, marks, (row, column), own)
    alt = (
        f"Least accepted length that pays: at batch {batch_size:,} and K = {n_draft} a step must emit {needed:.2f} "
        f"tokens; yours emits {own:.2f}, so speculation {'pays' if own >= needed else 'does not pay'} there. "
        f"Over the map {least.min():.2f} to {least.max():.2f} are needed; in {int((~possible).sum())} of {least.size} "
        f"cells no acceptance pays, and in {int((given < least).sum())} yours does not."
    )
    table = pd.DataFrame(
        {
            "batch_size": np.repeat(np.asarray(grid, float), len(drafts)).astype(int),
            "n_draft": np.tile(drafts, len(batches)),
            "least_accepted_length": least.ravel(),
            "accepted_length": given.ravel(),
            "can_pay": possible.ravel(),
            "pays": (given >= least).ravel(),
        }
    )
    left_out = "" if drawn.all() else f"The map ends at batch {batches[-1]}, the largest drawn that fits in memory."
    return Chart(figure, f"{alt} {left_out}".rstrip(), table, left_out)


def _break_even_figure(
    batches: Sequence[str],
    drafts: Sequence[int],
    least: Array,
    marks: NDArray[np.str_],
    own_cell: tuple[int, int],
    own: float,
) -> go.Figure:
    """The map of `least` [nB, nK] with its marks, and the user's own cell (row, column), where `own` is given."""
    row, column = own_cell
    figure = new_figure(
        "Least accepted length that pays (tokens per step)<br>"
        f"yours at batch {batches[row]}, K = {drafts[column]}: {least[row, column]:.2f} needed, {own:.2f} given",
        "Batch size (sequences)",
        "Draft length K (tokens)",
        height=190 + 34 * len(drafts),
    )
    figure.add_heatmap(
        x=batches,
        y=drafts,
        z=least.T,
        text=marks.T,
        texttemplate="%{text}",
        colorscale="Cividis",
        reversescale=True,
        colorbar={"title": {"text": "tokens"}, "thickness": 12},
        textfont={"size": 11},
        hovertemplate="batch %{x}, K = %{y}: at least %{z:.2f} tokens per step<extra></extra>",
    )
    figure.add_scatter(
        x=[batches[row]],
        y=[drafts[column]],
        mode="markers",
        name="your point",
        marker=marker("square-open", 26, VERMILLION, line={"width": 3}),
        hoverinfo="skip",
        showlegend=True,
    )
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(type="category", tickangle=0)
    figure.update_yaxes(dtick=1)
    return figure


def paying_batches(curve: Curve, n_draft: int, last: int) -> str:
    """Batches up to `last` at which one K of the curve pays (speedup of at least 1).

    `last` is the largest that fits.
    """
    column = curve.column(n_draft)
    spans = [
        (start, np.inf if end >= last else end)
        for start, end in paying_intervals(curve.batches, curve.speedup[:, column])
        if start <= last
    ]
    limit = "the largest computed" if last >= curve.batches[-1] else "the largest that fits"
    words = [
        f"from batch {start:,.0f} on, up to {limit}, {last:,.0f}"
        if np.isinf(end)
        else f"at batch {start:,.0f} to {end:,.0f}"
        for start, end in spans
    ]
    return (
        f"K = {n_draft} pays {' and '.join(words)}." if words else f"K = {n_draft} pays at no batch up to {last:,.0f}."
    )


def simulation_chart(report: SimulationReport) -> Chart:
    """Simulated speedup of each policy over plain decoding, against the best single K and the oracle."""
    outcomes = report.outcomes
    names = [_policy_name(outcome.policy, outcome.static_k) for outcome in outcomes]
    values = [outcome.speedup for outcome in outcomes]
    best = report.of(f"static K={report.best_static_k}")
    oracle = report.of("oracle (hindsight)")
    figure = new_figure(
        "Simulated speedup over plain decoding (x)<br>by the way K is chosen",
        "Speedup (x)",
        "",
        height=130 + 26 * len(outcomes),
    )
    colors = [
        ORANGE if outcome is best else GREEN if outcome is oracle else BLUE if outcome.static_k is None else NEUTRAL
        for outcome in outcomes
    ]
    figure.add_bar(
        x=values,
        y=names,
        orientation="h",
        marker_color=colors,
        hovertemplate="%{y}: %{x:.3f}x<extra></extra>",
        showlegend=False,
    )
    figure.add_vline(x=1, line={"color": VERMILLION, "width": 1.5})
    figure.add_vline(x=best.speedup, line={"color": ORANGE, "dash": "dash"})
    _add_value_column(figure, names, values)
    figure.update_layout(hovermode="closest", bargap=0.3)
    figure.update_yaxes(autorange="reversed")
    cascade, schedule = report.of("Cascade"), report.of("batch schedule")
    alt = (
        f"Simulated speedup by policy: the best single K (K = {report.best_static_k}) reaches {best.speedup:.2f}x, the "
        f"batch schedule {schedule.speedup:.2f}x, Cascade {cascade.speedup:.2f}x "
        f"({cascade.gain_over_best_static:+.1%}), the oracle with hindsight {oracle.speedup:.2f}x."
    )
    return Chart(figure, alt, simulation_table(report))


def _add_value_column(figure: go.Figure, names: Sequence[str], values: Sequence[float]) -> None:
    """The values right of the longest bar, one under the other: beside its own bar a value would lie on the lines."""
    end = max(values)
    figure.add_scatter(
        x=[1.03 * end] * len(values),
        y=names,
        mode="text",
        text=[f"{value:.2f}x" for value in values],
        textposition="middle right",
        textfont={"size": 12},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.update_xaxes(range=[0, 1.2 * end])


def simulation_table(report: SimulationReport) -> pd.DataFrame:
    """One row per policy, with the columns of POLICY_COLUMNS. A time or share that a policy lacks is NaN."""
    table = pd.DataFrame(map(vars, report.outcomes)).astype({"p95_request_tpot_s": float, "test_share": float})
    table["tpot_ms"], table["p95_request_tpot_ms"] = table["tpot_s"] * 1e3, table["p95_request_tpot_s"] * 1e3
    return table.rename(columns={"finished": "finished_requests"})[list(POLICY_COLUMNS)]


def _policy_name(policy: str, static_k: int | None) -> str:
    return "no speculation" if static_k == 0 else f"K = {static_k}" if static_k is not None else policy


def _context_name(bucket: ContextSchedule) -> str:
    start = f"context {bucket.context_start:,}"
    return f"{start} to {bucket.context_end:,}" if bucket.has_end else f"{start}+"


def _schedule_alt(ranges: Sequence[KRange], batch_size: int) -> str:
    steps = ", ".join(f"K = {r.n_draft} at batch {r.batch_start:,} to {r.batch_end:,}" for r in ranges[:8])
    more = f" and {len(ranges) - 8} further ranges" if len(ranges) > 8 else ""
    here = int(k_at(ranges, batch_size))
    return f"Draft length by batch size {shape_of(ranges)}: {steps}{more}. At batch {batch_size:,} it is K = {here}."


def _schedule_table(lines: Sequence[tuple[str, Sequence[KRange]]]) -> pd.DataFrame:
    rows = [{"context": name, **vars(item)} for name, ranges in lines for item in ranges]
    return pd.DataFrame(rows).rename(columns={"speedup": "mean_speedup", "regret": "largest_regret"})
