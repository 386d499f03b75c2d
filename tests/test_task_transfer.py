"""Accepted lengths carried over between kinds of text, with what was measured."""

from __future__ import annotations

import pytest

from advisor.points import COLLECTIONS, published_rows
from advisor.prediction import AdvisorError
from advisor.task_transfer import ANY_KIND, LEAST_HEADS, TASKS, context_factors, length_on_task, task_of, task_transfer


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
    assert length_on_task(length_on_task(2.4, 7, there), 7, back) == pytest.approx(2.4)
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
    assert length_on_task(3.9, 3, found) == 4.0
    assert length_on_task(1.0, 3, found) == 1.0


def test_over_context_native_heads_held_and_a_block_drafter_did_not() -> None:
    longest = {kind: max(context_factors(kind), key=lambda one: one.context_tokens) for kind in ("mtp", "parallel")}
    assert longest["mtp"].factor == pytest.approx(1.0, abs=0.1)
    assert longest["parallel"].factor < 0.5
    assert context_factors("ngram") == ()
