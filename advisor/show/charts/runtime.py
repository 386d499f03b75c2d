"""What each way to choose K at run time is worth, by simulation."""

from __future__ import annotations

import pandas as pd

from advisor.answers.simulation.compare import SimulationReport
from advisor.show.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    ORANGE,
    VERMILLION,
    Chart,
    add_bars,
    new_figure,
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


def simulation_chart(report: SimulationReport) -> Chart:
    """Simulated speedup of each policy over plain decoding, against the best single K and the oracle."""
    outcomes = report.outcomes
    names = [
        outcome.policy if (k := outcome.static_k) is None else f"K = {k}" if k else "no speculation"
        for outcome in outcomes
    ]
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
    add_bars(figure, names, values, colors, hovertemplate="%{y}: %{x:.3f}x<extra></extra>")
    figure.add_vline(x=1, line={"color": VERMILLION, "width": 1.5})
    figure.add_vline(x=best.speedup, line={"color": ORANGE, "dash": "dash"})
    # One under the other, right of the longest bar: beside its own bar a value would lie on the lines.
    figure.add_scatter(
        x=[1.03 * max(values)] * len(values),
        y=names,
        mode="text",
        text=[f"{value:.2f}x" for value in values],
        textposition="middle right",
        textfont={"size": 12},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.update_xaxes(range=[0, 1.2 * max(values)])
    cascade, schedule = report.of("Cascade"), report.of("batch schedule")
    alt = (
        f"Simulated speedup by policy: the best single K (K = {report.best_static_k}) reaches {best.speedup:.2f}x, the "
        f"batch schedule {schedule.speedup:.2f}x, Cascade {cascade.speedup:.2f}x "
        f"({cascade.gain_over_best_static:+.1%}), the oracle with hindsight {oracle.speedup:.2f}x."
    )
    return Chart(figure, alt, simulation_table(report))


def simulation_table(report: SimulationReport) -> pd.DataFrame:
    """One row per policy, with the columns of POLICY_COLUMNS. A time or share that a policy lacks is NaN."""
    table = pd.DataFrame(map(vars, report.outcomes)).astype({"p95_request_tpot_s": float, "test_share": float})
    table["tpot_ms"], table["p95_request_tpot_ms"] = table["tpot_s"] * 1e3, table["p95_request_tpot_s"] * 1e3
    return table.rename(columns={"finished": "finished_requests"})[list(POLICY_COLUMNS)]
