"""Accepted lengths carried to another kind of text: by what was learnt, with a wider band, and never beyond K + 1."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.acceptance import parse_acceptance
from advisor.ranking import leaderboard, notes
from advisor.ranking.carried import on_task
from advisor.ranking.entrants import entrants_of
from advisor.task_transfer import task_transfer
from tests.ranking.test_ranking import by_name, named, question


def test_the_drafted_part_is_scaled_and_the_band_is_wider() -> None:
    known = parse_acceptance("qwen3.5-397b-mtp-coding", 8)
    transfer = task_transfer("mtp", "coding", "chat")
    assert transfer is not None
    moved = on_task(known, transfer)
    assert moved.accepted_length[3] - 1 == pytest.approx((known.accepted_length[3] - 1) * transfer.factor)
    width = [np.log((each.high[3] - 1) / (each.low[3] - 1)) for each in (known, moved)]
    assert width[1] > width[0]
    assert moved.accepted_length[0] == moved.low[0] == moved.high[0] == 1.0
    assert (moved.low <= moved.accepted_length).all()
    assert (moved.accepted_length <= moved.high).all()
    assert (moved.high <= np.arange(9) + 1.0).all()
    assert moved.borrowed


def test_a_factor_above_one_stops_at_every_token_accepted() -> None:
    known = parse_acceptance("0.99,0.99", 2)
    transfer = task_transfer("parallel", "coding", "math")
    assert transfer is not None
    assert transfer.factor > 1
    assert (on_task(known, transfer).accepted_length == [1.0, 2.0, 3.0]).all()


def test_each_entrant_says_whether_its_length_was_carried() -> None:
    asked = question(task="chat")
    assert entrants_of("qwen3.5-397b-a17b", None, asked)[0].accepted == "carried"
    assert entrants_of("qwen3.5-35b-a3b", None, asked)[0].accepted == "carried"
    unknown = entrants_of("deepseek-v3", None, asked)[0]
    assert unknown.accepted == "measured"
    assert "not carried to chat" in unknown.acceptance_text
    assert entrants_of("qwen3.5-397b-a17b", None, question(task="coding"))[0].accepted == "measured"
    assert entrants_of("deepseek-v3", None, question(task="chat", drafter=("mtp", "2.4@3")))[0].accepted == "given"


def test_chat_gains_less_than_code_and_knows_its_rank_less_well() -> None:
    wanted = named("qwen3.5-35b-a3b", "gpt-oss-120b", "llama-3.1-8b")
    code, chat = (leaderboard(question(16, wanted=wanted, task=task)) for task in ("coding", "chat"))
    one, other = (by_name(board, "qwen3.5-35b-a3b") for board in (code, chat))
    assert 1.0 <= other.speedup.value < one.speedup.value
    assert other.usd_per_million.value > one.usd_per_million.value
    assert any("carried from coding to chat" in note for note in notes(chat))
    assert not any("--task" in note for note in notes(chat))
