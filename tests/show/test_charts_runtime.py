"""The run-time charts: what they draw, what they say in words, the numbers behind them."""

from __future__ import annotations

from advisor.answers.simulation.compare import PolicyOutcome, SimulationPlan, SimulationReport
from advisor.show.charts import runtime


def outcome(policy: str, speedup: float, static_k: int | None = None) -> PolicyOutcome:
    return PolicyOutcome(policy, static_k, 1e-2 / speedup, speedup, speedup / 1.5 - 1, None, 2.0, (1, 2), None, 4.0, 9)


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
