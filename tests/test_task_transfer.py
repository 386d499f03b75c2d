"""Accepted lengths carried over between kinds of text, with what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.acceptance import parse_acceptance
from advisor.advice import advise
from advisor.points import COLLECTIONS, published_rows
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.task_transfer import (
    ANY_KIND,
    LEAST_HEADS,
    TASKS,
    carried,
    context_factors,
    lengths_on_task,
    task_of,
    task_transfer,
)


def test_the_tasks_of_the_published_rows_are_those_of_their_prompt_sets() -> None:
    frame = published_rows(*COLLECTIONS)
    assert list(frame["task"]) == [task_of(prompts) for prompts in frame["dataset"]]
    assert set(TASKS) < set(frame["task"])


def test_a_prompt_set_nobody_placed_has_no_task() -> None:
    assert task_of("HumanEval") == "coding"
    assert task_of("llm_decode_bench") == ""


def test_chat_accepts_less_of_a_draft_than_code() -> None:
    found = task_transfer("parallel", "coding", "chat")
    assert found is not None
    assert found.factor < 1
    assert found.n_heads >= LEAST_HEADS
    assert found.titles


def test_the_way_back_undoes_the_way_there() -> None:
    there, back = task_transfer("eagle", "coding", "chat"), task_transfer("eagle", "chat", "coding")
    assert there is not None
    assert back is not None
    lengths = np.array([1.0, 1.8, 2.4])
    assert lengths_on_task(lengths_on_task(lengths, there), back) == pytest.approx(lengths)
    assert there.log_sd == back.log_sd


def test_a_kind_with_few_heads_of_its_own_takes_those_of_every_kind() -> None:
    found = task_transfer("ngram", "coding", "chat")
    assert found is not None
    assert found.kind == ANY_KIND
    own = task_transfer("eagle", "coding", "chat")
    assert own is not None
    assert own.kind == "eagle"


def test_a_task_to_itself_is_no_transfer_and_an_unknown_one_is_refused() -> None:
    assert task_transfer("eagle", "chat", "chat") is None
    with pytest.raises(AdvisorError, match="task='poetry' is unknown; choose one of coding, chat"):
        task_transfer("eagle", "chat", "poetry")


def test_a_carried_length_stays_between_one_and_all_drafts_accepted() -> None:
    found = task_transfer("parallel", "chat", "coding")
    assert found is not None
    assert list(lengths_on_task(np.array([1.0, 1.0, 2.9, 3.9]), found)) == [1.0, 1.0, 3.0, 4.0]


CURVE = "gpt-oss-20b-eagle3-humaneval"


def test_a_measured_curve_is_carried_to_the_users_kind_of_text_with_a_wider_band() -> None:
    measured, transfer = parse_acceptance(CURVE, 7), task_transfer("eagle", "coding", "chat")
    assert transfer is not None
    found = carried(CURVE, measured, "eagle", "chat", 2048)
    drafted = measured.accepted_length - 1.0
    assert found.accepted_length == pytest.approx(1.0 + transfer.factor * drafted)
    assert found.borrowed
    before, after = (np.log(one.high / one.low)[3] for one in (measured, found))
    assert after > before
    # Between laboratories the accepted drafts scatter by the transfer's own log standard deviation.
    edge = 1.0 + transfer.factor * drafted[3] * np.exp(-1.2815515655446004 * transfer.log_sd)
    assert found.low[3] <= edge
    assert f"{transfer.n_heads} drafters of its kind" in found.remarks[0]


def test_the_curves_own_kind_of_text_and_none_leave_it_alone() -> None:
    measured = parse_acceptance(CURVE, 7)
    assert carried(CURVE, measured, "eagle", None, 2048) is measured
    assert carried(CURVE, measured, "eagle", "coding", 2048) is measured


def test_numbers_of_the_users_own_stay_theirs_and_are_said_to() -> None:
    measured = parse_acceptance("2.4@3", 7)
    found = carried("2.4@3", measured, "eagle", "chat", 2048)
    assert found.accepted_length is measured.accepted_length
    assert "your own numbers" in found.remarks[0]


def test_a_curve_on_text_of_no_kind_is_not_carried_and_says_why() -> None:
    measured = parse_acceptance("kimi-k3-dspark-multilingual-k7", 7)
    found = carried("kimi-k3-dspark-multilingual-k7", measured, "parallel", "chat", 2048)
    assert list(found.accepted_length) == list(measured.accepted_length)
    assert "multilingual" in found.remarks[0]


def test_at_a_context_where_a_drafter_of_the_kind_lost_acceptance_the_band_reaches_down_to_it() -> None:
    name = "kimi-k3-dspark-coding"
    measured = parse_acceptance(name, 7)
    near, far = (carried(name, measured, "parallel", None, context) for context in (4096, 40_000))
    assert near is measured
    assert list(far.accepted_length) == list(measured.accepted_length)
    assert far.low[7] == pytest.approx(1.0 + (measured.accepted_length[7] - 1.0) * 0.69)
    assert "40,000 tokens" in far.remarks[0]


def test_the_kind_of_text_reaches_the_answer() -> None:
    scenario = Scenario(model_id="gpt-oss-20b", acceptance=CURVE, batch_size=4)
    plain, chat = (advise(scenario.model_copy(update={"task": task})) for task in (None, "chat"))
    assert chat.recommendation.speedup.value < plain.recommendation.speedup.value
    assert any("carried from coding to chat" in one for one in chat.setup.warnings)


def test_over_context_native_heads_held_and_a_block_drafter_did_not() -> None:
    longest = {kind: max(context_factors(kind), key=lambda one: one.context_tokens) for kind in ("mtp", "parallel")}
    assert longest["mtp"].factor == pytest.approx(1.0, abs=0.1)
    assert longest["parallel"].factor < 0.5
    assert context_factors("ngram") == ()
