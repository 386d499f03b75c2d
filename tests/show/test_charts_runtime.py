"""The run-time charts: what they draw, what they say in words, the numbers behind them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.round_costs import ContextSchedule, KRange
from advisor.answers.schedule import ScheduleGain
from advisor.answers.simulation.compare import PolicyOutcome, SimulationPlan, SimulationReport
from advisor.show.charts import runtime
from advisor.show.charts.figure import Chart
from tests.pages.ui_fixtures import hand_curve

RANGES = (KRange(1, 8, 3, 1.5), KRange(9, 64, 4, 1.9), KRange(65, 512, 2, 1.2))
GAIN = ScheduleGain(1.6, 2, 1.5, (1.0, 1.4, 1.5, 1.45), 1.6 / 1.5 - 1)


def ranges(*ks: int) -> tuple[KRange, ...]:
    return tuple(KRange(8 * i + 1, 8 * i + 8, k, 1.0) for i, k in enumerate(ks))


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


@pytest.mark.parametrize(
    ("ks", "words"),
    [
        ((3,), "same at every batch"),
        ((3, 3), "same at every batch"),
        ((4, 3, 1), "never rises"),
        ((0, 2, 3), "never falls"),
        ((3, 5, 3), "rises with batch, then falls"),
        ((3, 3, 5, 4, 4, 2), "rises with batch, then falls"),
        ((4, 2, 3), "more than once"),
        ((3, 5, 3, 5), "more than once"),
    ],
)
def test_the_shape_of_a_schedule_is_named(ks: tuple[int, ...], words: str) -> None:
    assert words in runtime.shape_of(ranges(*ks))


def test_the_schedule_is_drawn_as_steps_to_its_last_batch_and_named_in_words() -> None:
    bucket = ContextSchedule(1, 4096, ranges(2, 1))
    chart = runtime.schedule_chart(RANGES, 16, (bucket,), 2048, hand_curve())
    line = chart.figure.data[0]
    assert line.line.shape == "hv"
    assert list(line.x) == [1, 9, 65, 512]
    assert list(line.y) == [3, 4, 2, 2]
    assert "rises with batch, then falls" in chart.alt
    assert "At batch 16 it is K = 4" in chart.alt
    assert len(chart.data) == 5
    assert set(chart.data["context"]) == {"your context, 2,048", "context 1 to 4,096"}
    best = chart.figure.data[-1]
    assert best.mode == "markers"
    assert list(best.y) == [4] * 9 + [0]  # the hand-made curve drops below 1 at its last batch


def test_the_gain_chart_marks_the_best_single_k_and_says_the_gain() -> None:
    chart = runtime.gain_chart(GAIN)
    bars = chart.figure.data[0]
    assert list(bars.y) == [1.0, 1.4, 1.5, 1.45, 1.6]
    assert bars.marker.color[2] != bars.marker.color[1]
    assert "+6.7%" in chart.alt
    assert "(K = 2)" in chart.alt


def test_the_break_even_map_holds_the_cost_of_a_round_and_marks_what_cannot_pay() -> None:
    curve = hand_curve(scale=0.5)
    chart = runtime.break_even_chart(curve, 16, 3)
    expected = curve.round_s / curve.plain_step_s[:, None]
    np.testing.assert_allclose(np.array(chart.figure.data[0].z), expected[:, 1:].T, rtol=1e-6)
    table = chart.data.set_index(["batch_size", "n_draft"])
    assert (table["pays"] == (table["accepted_length"] >= table["least_accepted_length"])).all()
    assert not table.loc[(1, 4), "pays"]
    marks = np.array(chart.figure.data[0].text).astype(str)
    impossible = np.arange(2, 6)[:, None] < expected[:, 1:].T
    assert impossible.any()
    assert (np.char.find(marks, "x") >= 0).tolist() == impossible.tolist()


def test_the_break_even_map_ends_where_memory_does() -> None:
    curve = hand_curve()
    chart = runtime.break_even_chart(curve, 16, 3, last=64)
    assert max(chart.data["batch_size"]) == 64
    assert "64, the largest drawn that fits" in chart.left_out
    assert not runtime.break_even_chart(curve, 16, 3).left_out
    own = runtime.break_even_chart(curve, 64, 3, last=8)
    assert max(own.data["batch_size"]) == 64, "the user's own batch stays on the map"


def test_the_users_point_stands_at_their_batch_and_k_and_says_whether_it_pays() -> None:
    good, bad = (runtime.break_even_chart(hand_curve(scale=s), 16, 3) for s in (1.0, 0.4))
    point = good.figure.data[1]
    assert (list(point.x), list(point.y)) == (["16"], [3])
    assert "2.80 given" in good.figure.layout.title.text
    assert "speculation pays there" in good.alt
    assert "speculation does not pay there" in bad.alt


def test_the_batches_at_which_a_k_pays_are_named() -> None:
    assert runtime.paying_batches(hand_curve(scale=2.0), 3, 512).endswith("up to the largest computed, 512.")
    assert runtime.paying_batches(hand_curve(scale=0.4), 3, 512) == "K = 3 pays at no batch up to 512."
    assert runtime.paying_batches(hand_curve(scale=2.0), 3, 100).endswith("up to the largest that fits, 100.")
    between = runtime.paying_batches(hand_curve(scale=0.7), 3, 512)
    low, high = (int(word) for word in between.rstrip(".").split()[-3::2])
    assert 1 < low < 16 < high < 512


def test_the_simulation_chart_draws_each_policy_against_the_best_single_k_and_the_oracle() -> None:
    chart = runtime.simulation_chart(REPORT)
    bars = chart.figure.data[0]
    assert list(bars.x) == [1.0, 1.5, 1.55, 1.6, 1.4, 2.0]
    assert list(bars.y)[:2] == ["no speculation", "K = 1"]
    assert {shape.x0 for shape in chart.figure.layout.shapes} == {1, 1.5}
    assert "Cascade 1.60x (+6.7%)" in chart.alt
    assert "oracle with hindsight 2.00x" in chart.alt
    assert chart.data["p95_request_tpot_ms"].isna().all()  # unknown stays empty


def everyone() -> dict[str, Chart]:
    return {
        "schedule": runtime.schedule_chart(RANGES, 16),
        "gain": runtime.gain_chart(GAIN),
        "break even": runtime.break_even_chart(hand_curve(), 16, 3),
        "simulation": runtime.simulation_chart(REPORT),
    }


@pytest.mark.parametrize("name", list(everyone()))
def test_each_chart_has_a_unit_a_finding_with_numbers_and_its_data(name: str) -> None:
    chart = everyone()[name]
    assert any(unit in chart.figure.layout.title.text for unit in ("(x)", "(tokens)", "(tokens per step)"))
    assert sum(character.isdigit() for character in chart.alt) >= 3
    assert len(chart.data) > 1
    assert chart.data.select_dtypes("number").shape[1] >= 1


def test_the_builders_do_not_import_streamlit() -> None:
    tree = ast.parse(Path(runtime.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.split(".")[0] == "streamlit" for name in names)


def test_the_legend_of_the_schedule_has_room_for_its_longest_name_and_says_which_context_is_the_users() -> None:
    bucket = ContextSchedule(2897, 16384, ranges(2, 1))
    chart = runtime.schedule_chart(RANGES, 16, (bucket,), 2048)
    names = [line.name for line in chart.figure.data]
    assert names == ["your context, 2,048", "context 2,897 to 16,384"]
    assert chart.figure.layout.legend.entrywidth >= 5 * len(names[1])


def test_the_values_of_the_simulation_stand_right_of_all_bars() -> None:
    bars, values = runtime.simulation_chart(REPORT).figure.data
    assert list(values.text) == ["1.00x", "1.50x", "1.55x", "1.60x", "1.40x", "2.00x"]
    assert list(values.y) == list(bars.y)
    assert min(values.x) > max(bars.x)
    assert values.textfont.size >= 12
