"""Charts of the leaderboard: bands and ranks of the best, and a score of the user's against what is ranked by."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.explore.entrants import RankQuestion, Wanted, one_load
from advisor.answers.explore.leaderboard import Leaderboard, leaderboard
from advisor.catalog.hardware import model_name
from advisor.predict.scenario import build_scenario
from advisor.show.charts.leaderboard import leaderboard_chart, quality_chart
from advisor.show.words.leaderboard import front_of, rank_text

NAMES = ("qwen2-0.5b", "gpt-oss-20b", "gpt-oss-120b", "qwen3.5-35b-a3b")
SCORES = {"qwen2-0.5b": 900.0, "gpt-oss-20b": 1290.0, "gpt-oss-120b": 1280.0}


def board_by(by: str) -> Leaderboard:
    scenario = build_scenario(hardware_id="h200-sxm", n_gpus=8, drafter_id="none", acceptance="0")
    return leaderboard(RankQuestion(scenario, one_load(64), by, wanted=Wanted(NAMES)))


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return board_by("cost")


def test_each_row_has_its_figure_the_ends_of_its_band_and_its_likely_ranks(board: Leaderboard) -> None:
    chart = leaderboard_chart(board, top=3)
    marks = chart.figure.data[0]
    shown = board.standings[:3]
    np.testing.assert_allclose(marks.x, [one.usd_per_million.value for one in shown])
    np.testing.assert_allclose(np.array(marks.x) - marks.error_x.arrayminus, [one.usd_per_million.low for one in shown])
    np.testing.assert_allclose(np.array(marks.x) + marks.error_x.array, [one.usd_per_million.high for one in shown])
    labels = [note.text for note in chart.figure.layout.annotations]
    assert all(rank_text(one) in label for one, label in zip(shown, labels, strict=True))
    assert "the best 3 of 4" in chart.figure.layout.title.text
    assert chart.figure.layout.xaxis.title.text == "USD per million output tokens"
    assert model_name(shown[0].name) in chart.alt
    assert list(chart.data["model"]) == [one.name for one in shown]


def test_time_is_drawn_in_milliseconds() -> None:
    board = board_by("speed")
    chart = leaderboard_chart(board)
    assert chart.figure.data[0].x[0] == pytest.approx(board.standings[0].tpot_s.value * 1e3)
    assert "(ms)" in chart.figure.layout.xaxis.title.text


@pytest.mark.parametrize("by", ["cost", "throughput"])
def test_the_models_that_no_other_beats_are_joined_and_the_rest_are_not(by: str) -> None:
    board = board_by(by)
    chart = quality_chart(board, "elo", SCORES)
    rest, joined = chart.figure.data
    front = front_of(board, SCORES)
    assert set(joined.text) == {model_name(name) for name in SCORES if front[name]}
    assert len(rest.x) == sum(not front[name] for name in SCORES) == 1
    assert list(joined.y) == sorted(joined.y)
    assert joined.mode.startswith("lines")
    assert rest.marker.symbol != joined.marker.symbol, "told apart without colour"
    assert "1 ranked models have no score" in chart.left_out
    assert "gpt-oss-20b with 1290" in chart.alt
    assert len(chart.data) == len(NAMES)


def test_names_of_a_user_s_own_are_no_markup(board: Leaderboard) -> None:
    chart = quality_chart(board, "<a href='x'>elo</a>", SCORES)
    assert "<a" not in chart.figure.layout.title.text
    assert "<a" not in chart.figure.layout.yaxis.title.text


def test_a_table_that_scores_no_ranked_model_draws_nothing_and_says_so(board: Leaderboard) -> None:
    chart = quality_chart(board, "elo", {"nobody": 3.0})
    assert all(not len(trace.x) for trace in chart.figure.data)
    assert chart.alt == "No ranked model has a elo in the table."
