"""Charts of published, own and simulated runs: what they draw, what they rest on, and their alt
texts."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.simulation.compare import PolicyOutcome, SimulationPlan, SimulationReport
from advisor.measured.refit import before_after, curve_groups, refit_chosen, select_points
from advisor.physics.routing_trace import fit_sequences
from advisor.show.charts import runtime
from advisor.show.charts.measured import (
    before_after_chart,
    union_chart,
)
from tests.measured.refit_synthetic import synthetic_points
from tests.measured.test_ingest_traces import N, synthetic


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Ratio of the relative luminances of two colours of 8-bit sRGB (WCAG 2.2, 1.4.3)."""
    part = np.array([one, other]) / 255.0
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((light + 0.05) / (dark + 0.05))


@pytest.fixture(scope="module")
def fitted():
    frame = synthetic_points((1, 2, 4, 8, 16, 32), (1, 3), truth={"round_host": 4.0})
    frame.loc[6, "speedup"] *= 3
    points, refused = select_points(frame)
    return points, refit_chosen(points, refused)


@pytest.fixture(scope="module")
def trace():
    return fit_sequences(list(synthetic()), N)


def test_the_after_curve_passes_nearer_to_the_points_and_the_outlier_is_drawn_apart(fitted):
    points, result = fitted
    groups = curve_groups(result)
    assert {group[2] for group in groups} == {1, 3}
    curves = before_after(points, result, next(group for group in groups if group[2] == 1))
    used = curves.points[curves.points["used"]]
    off = [
        np.abs(np.interp(used["batch_size"], curves.batches, y) - used["measured"]).mean()
        for y in (curves.before, curves.after)
    ]
    assert off[1] < off[0]
    chart = before_after_chart(curves)
    assert {"before", "after", "your points", "set aside"} <= {
        line.name for line in chart.figure.data
    }
    assert "changes the curve by -" in chart.alt
    assert list(chart.data.columns) == ["batch_size", "before", "after", "after_low", "after_high"]


def test_a_curve_of_step_times_is_in_milliseconds():
    frame = synthetic_points((1, 4, 16), (3,), quantity="step_time_s")
    points, refused = select_points(frame)
    result = refit_chosen(points, refused)
    curves = before_after(points, result, curve_groups(result)[0])
    chart = before_after_chart(curves)
    drawn = next(line for line in chart.figure.data if line.name == "before")
    assert np.asarray(drawn.y) == pytest.approx(curves.before * 1e3)
    assert "(ms)" in chart.figure.layout.yaxis.title.text


def test_touched_experts_have_their_finding(trace):
    assert f"{trace.largest_error:.1%}" in union_chart(trace.unions).alt
    assert union_chart(trace.unions).figure.layout.yaxis.title.text == "Experts", (
        "a count has no unit"
    )


def outcome(policy: str, speedup: float, static_k: int | None = None) -> PolicyOutcome:
    return PolicyOutcome(
        policy,
        static_k,
        1e-2 / speedup,
        speedup,
        speedup / 1.5 - 1,
        None,
        2.0,
        (1, 2),
        None,
        4.0,
        9,
    )


REPORT = SimulationReport(
    SimulationPlan(),
    (
        outcome("static K=0", 1.0, 0),
        outcome("static K=1", 1.5, 1),
        outcome("batch schedule", 1.55),
        outcome("Cascade", 1.6),
        outcome("acceptance only (EMA)", 1.4),
        outcome("oracle (hindsight)", 2.0),
    ),
    best_static_k=1,
    requests=200,
    complete=True,
)


def test_the_simulation_chart_draws_each_policy_against_the_best_single_k_and_the_oracle() -> None:
    chart = runtime.simulation_chart(REPORT)
    bars = chart.figure.data[0]
    assert list(bars.x) == [1.0, 1.5, 1.55, 1.6, 1.4, 2.0]
    assert list(bars.y)[:2] == ["no speculation", "K = 1"]
    assert {shape.x0 for shape in chart.figure.layout.shapes} == {1, 1.5}
    assert "Cascade 1.60x (+6.7%)" in chart.alt
    assert "oracle with hindsight 2.00x" in chart.alt
    assert chart.data["p95_request_tpot_s"].isna().all()  # unknown stays empty


def test_the_values_of_the_simulation_stand_right_of_all_bars() -> None:
    bars, values = runtime.simulation_chart(REPORT).figure.data
    assert list(values.text) == ["1.00×", "1.50×", "1.55×", "1.60×", "1.40×", "2.00×"]
    assert list(values.y) == list(bars.y)
    assert min(values.x) > max(bars.x)
    assert values.textfont.size >= 12
