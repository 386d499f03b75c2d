"""What each way to choose K at run time is worth, by simulation."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pandas as pd

from advisor.answers.simulation.compare import PolicyOutcome, SimulationReport
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
from advisor.show.table import Column, Table


def _known(form: str, scale: float = 1.0) -> Callable[[float | None], str]:
    return lambda value: "" if value is None else form.format(value * scale)


def _called(policy: str) -> str:
    return "no speculation" if policy == "static K=0" else policy.replace("static K=", "K = ")


POLICIES: tuple[Column[PolicyOutcome], ...] = (
    Column("K chosen by", attrgetter("policy"), _called, "policy", words=True),
    Column("Speedup", attrgetter("speedup"), "{:.2f}×".format, "speedup"),
    Column(
        "To the best single K",
        attrgetter("gain_over_best_static"),
        "{:+.1%}".format,
        "gain_over_best_static",
    ),
    Column("ms per token", attrgetter("tpot_s"), _known("{:.2f}", 1e3), "tpot_s"),
    Column(
        "p95 ms per token",
        attrgetter("p95_request_tpot_s"),
        _known("{:.2f}", 1e3),
        "p95_request_tpot_s",
    ),
    Column("Mean K", attrgetter("mean_draft"), "{:.1f}".format, "mean_draft"),
    Column("Mean batch", attrgetter("mean_batch"), "{:.1f}".format, "mean_batch"),
    Column("Rounds testing K", attrgetter("test_share"), _known("{:.1%}"), "test_share"),
    Column("Requests finished", attrgetter("finished"), "{:,}".format, "finished_requests"),
)


def simulation_chart(report: SimulationReport) -> Chart:
    """Simulated speedup of each policy over plain decoding, against the best single K and the
    oracle."""
    outcomes = report.outcomes
    names = [_called(outcome.policy) for outcome in outcomes]
    values = [outcome.speedup for outcome in outcomes]
    best = report.of(f"static K={report.best_static_k}")
    oracle = report.of("oracle (hindsight)")
    figure = new_figure(
        "Simulated speedup by the way K is chosen",
        "Speedup over no speculation (×)",
        "",
        height=130 + 26 * len(outcomes),
    )
    colors = [
        ORANGE
        if outcome is best
        else GREEN
        if outcome is oracle
        else BLUE
        if outcome.static_k is None
        else NEUTRAL
        for outcome in outcomes
    ]
    add_bars(figure, names, values, colors, hovertemplate="%{y}: %{x:.2f}×<extra></extra>")
    figure.add_vline(x=1, line={"color": VERMILLION, "width": 1.5})
    figure.add_vline(x=best.speedup, line={"color": ORANGE, "dash": "dash"})
    # One under the other, right of the longest bar: beside its own bar a value would lie on the
    # lines.
    figure.add_scatter(
        x=[1.03 * max(values)] * len(values),
        y=names,
        mode="text",
        text=[f"{value:.2f}×" for value in values],
        textposition="middle right",
        textfont={"size": 12},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.update_xaxes(range=[0, 1.2 * max(values)])
    cascade = report.of("Cascade")
    schedule = report.of("batch schedule")
    alt = (
        f"Simulated speedup by policy: the best single K (K = {report.best_static_k}) reaches "
        f"{best.speedup:.2f}x, the batch schedule {schedule.speedup:.2f}x, Cascade "
        f"{cascade.speedup:.2f}x ({cascade.gain_over_best_static:+.1%}), the oracle with "
        f"hindsight {oracle.speedup:.2f}x."
    )
    return Chart(figure, alt, pd.DataFrame(Table(POLICIES, outcomes).records()))
