"""The user's table of scores: read, refused, filtered by, and as an axis beside what is ranked
by."""

from __future__ import annotations

import pytest

from advisor.answers.explore.entrants import read_scores
from advisor.answers.explore.leaderboard import leaderboard
from advisor.physics.bands import on_front
from advisor.prediction import AdvisorError
from advisor.show.words.leaderboard import table
from tests.answers.test_explore_leaderboard import named, question

TABLE = b"model,arena,licence\nqwen3-4b,1100,apache-2.0\nmeta-llama/Llama-3.1-8B,1176,llama\nmine,1300,mit\n"  # noqa: E501


def test_models_are_known_by_id_or_repository() -> None:
    read = read_scores("s.csv", TABLE)
    assert read.numbers("Arena") == {"qwen3-4b": 1100.0, "llama-3.1-8b": 1176.0, "mine": 1300.0}
    assert read.where("licence=Apache-2.0") == {"qwen3-4b"}
    with pytest.raises(AdvisorError, match="has no column 'mmlu'; it has arena, licence"):
        read.numbers("mmlu")
    with pytest.raises(AdvisorError, match="not a number"):
        read.numbers("licence")
    with pytest.raises(AdvisorError, match="no model has licence=gpl"):
        read.where("licence=gpl")
    with pytest.raises(AdvisorError, match="not column=value"):
        read.where("licence")
    with pytest.raises(AdvisorError, match="finite"):
        read_scores("s.csv", b"model,score\nqwen3-4b,inf\n").numbers("score")


def test_the_front_holds_what_no_other_beats_in_both() -> None:
    assert on_front([1, 2, 3, 4], [5.0, 4.0, 9.0, None]) == (True, False, True, False)
    assert on_front([1, 1], [5.0, 5.0]) == (True, True)
    assert on_front([2, 2, 3], [5.0, 6.0, 6.0]) == (False, True, False)


def test_a_score_stands_beside_the_figures_and_changes_no_rank() -> None:
    found = leaderboard(question(4, n_gpus=1, wanted=named("qwen3-4b", "llama-3.1-8b")))
    axis = ("arena", read_scores("s.csv", TABLE).numbers("arena"))
    ranked = table(found, None, axis)
    assert ranked.header[-2:] == ("arena", "front")
    assert [row[-2:] for row in ranked.cells] == [("1100", "yes"), ("1176", "yes")]
    records = ranked.records()
    assert list(records[0])[-1] == "arena"
    assert [row["rank"] for row in records] == [1, 2]
    assert ranked.csv().splitlines()[0].startswith("rank,rank_low,rank_high,p_first,p_limit,name,")
