"""Accepted lengths on another kind of text: own curves of that kind first, borrowed heads carried one by one."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.explore.leaderboard import Entrant, borrowed_heads, entrants_of, question_of
from advisor.answers.explore.standing import leaderboard
from advisor.catalog.task_transfer import carried
from advisor.physics.acceptance import load_acceptance_curve, parse_acceptance
from advisor.predict.scenario import build_scenario
from advisor.show.words.leaderboard import notes
from tests.ranking.test_ranking import by_name, named, question


def first(name: str, **given: object) -> Entrant:
    return entrants_of(name, None, question(**given))[0]


def test_a_borrowed_length_is_the_median_of_heads_carried_to_the_asked_text() -> None:
    """As the own curves of their models are: the two stand in one table."""
    heads = ("deepseek-v4-pro-mtp-coding", "glm-5.2-mtp-coding", "qwen3.5-397b-mtp-coding")
    moved = [carried(head, parse_acceptance(head, 8), "mtp", "chat", 2048).accepted_length for head in heads]
    entrant = first("qwen3.5-35b-a3b", task="chat")
    assert entrant.accepted == "carried"
    # To K = 7: from there on the middle is another head's, and gains more than before, which no chance says.
    assert entrant.setup.acceptance.accepted_length[:8] == pytest.approx(np.median(moved, axis=0)[:8], abs=2e-3)
    own = first("qwen3.5-397b-a17b", task="chat").setup.acceptance
    assert own.accepted_length == pytest.approx(moved[2])


def test_a_carried_borrowed_band_is_wider_than_a_borrowed_one_and_than_a_carried_one() -> None:
    lent = {task: first("qwen3.5-35b-a3b", task=task).setup.acceptance for task in ("coding", "chat")}
    own = first("qwen3.5-397b-a17b", task="chat").setup.acceptance
    width = {name: np.log(each.high[2] / each.low[2]) for name, each in (*lent.items(), ("own", own))}
    assert width["chat"] > max(width["coding"], width["own"])
    for each in lent.values():
        assert (each.low <= each.accepted_length).all()
        assert (each.accepted_length <= each.high).all()
        assert (each.high <= np.arange(9) + 1.0).all()


def test_a_head_of_unknown_text_is_lent_where_no_text_is_asked_alone() -> None:
    asked, bare = borrowed_heads("chat", 2048, 8), borrowed_heads(None, 2048, 8)
    assert asked is not None
    assert bare is not None
    assert "deepseek-v3," not in asked.text
    assert "deepseek-v3," in bare.text
    assert "4 measured MTP heads" in bare.text
    assert (asked.n_carried, bare.n_carried) == (3, 0)
    assert not bare.down.any()


def test_a_curve_measured_on_the_asked_text_goes_before_one_that_would_be_carried_to_it() -> None:
    entrant = first("gpt-oss-20b", task="chat")
    assert entrant.accepted == "measured"
    assert "MT-Bench" in entrant.acceptance_text
    measured = load_acceptance_curve("gpt-oss-20b-p-eagle-mt-bench")
    lengths = entrant.setup.acceptance.accepted_length[list(measured.n_draft)]
    assert lengths == pytest.approx(measured.accepted_length)
    assert "HumanEval" in first("gpt-oss-20b").acceptance_text


def test_each_entrant_says_whether_its_length_was_carried() -> None:
    assert first("qwen3.5-397b-a17b", task="chat").accepted == "carried"
    unknown = first("deepseek-v3", task="chat")
    assert unknown.accepted == "uncarried"
    assert "stand as measured" in unknown.acceptance_text
    assert "its kind is not known" in unknown.acceptance_text
    assert first("qwen3.5-397b-a17b", task="coding").accepted == "measured"
    assert first("qwen3.5-35b-a3b", task="coding").accepted == "borrowed"
    assert first("deepseek-v3", task="chat", drafter=("mtp", "2.4@3")).accepted == "given"


def test_only_lengths_that_a_user_gave_are_called_the_user_s_own() -> None:
    scenario = build_scenario(hardware_id="h200-sxm", n_gpus=8, drafter_id="none", acceptance="0", task="chat")
    for name in ("qwen3.5-35b-a3b", "qwen3.5-397b-a17b", "llama-3.1-8b"):
        for entrant in entrants_of(name, None, question_of(scenario)):
            assert not any("your own numbers" in text for text in entrant.setup.warnings), name
    given = first("deepseek-v3", task="chat", drafter=("mtp", "2.4@3"))
    assert any("your own numbers" in text for text in given.setup.warnings)


def test_chat_gains_less_than_code_and_knows_its_rank_less_well() -> None:
    wanted = named("qwen3.5-35b-a3b", "gpt-oss-120b", "llama-3.1-8b")
    code, chat = (leaderboard(question(16, wanted=wanted, task=task)) for task in ("coding", "chat"))
    one, other = (by_name(board, "qwen3.5-35b-a3b") for board in (code, chat))
    assert 1.0 <= other.speedup.value < one.speedup.value
    assert other.usd_per_million.value > one.usd_per_million.value
    assert any("carried from coding to chat" in note for note in notes(chat))
    assert not any("--task" in note for note in notes(chat))
