"""Accepted length by kind of text: which kinds are offered, and that a choice gives its length."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.advice import advise, beside_run
from advisor.answers.by_length import length_now
from advisor.answers.summary import stated_k
from advisor.answers.texts import LEAST_RUNS, on_texts
from advisor.measured.published import runs_beside
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer

MT_BENCH = "gpt-oss-20b-eagle3-mt-bench"
GPT_OSS = Scenario(model_id="gpt-oss-20b", hardware_id="h200-sxm", acceptance=MT_BENCH)


@pytest.mark.parametrize("task", ["coding", "chat", "math", "long_document"])
def test_choosing_a_kind_of_text_gives_its_length(task: str) -> None:
    answer = advise(GPT_OSS)
    (text,) = [each for each in on_texts(answer) if each.task == task]
    chosen = advise(GPT_OSS.model_copy(update={"acceptance": text.acceptance, "task": task}))
    k = stated_k(answer)
    assert chosen.setup.acceptance.accepted_length[k] == pytest.approx(text.accepted_length)
    assert (text.origin == "carried") == (chosen.setup.acceptance.carried_from != "")
    assert [each.task for each in on_texts(chosen) if each.is_chosen] == [task]


def test_numbers_of_the_user_s_own_are_offered_the_model_s_curve() -> None:
    typed = advise(GPT_OSS.model_copy(update={"acceptance": "2.4@3"}))
    assert {each.acceptance for each in on_texts(typed)} == {MT_BENCH}
    assert not any(each.is_chosen for each in on_texts(typed))


def test_prompts_of_no_one_kind_are_not_carried_and_a_single_choice_is_none() -> None:
    publisher = {"model_id": "command-a-plus", "acceptance": "command-a-plus-eagle3-publisher"}
    answer = advise(GPT_OSS.model_copy(update=publisher | {"n_gpus": 4, "tensor_parallel": 4}))
    assert [each.task for each in on_texts(answer)] == [None]
    assert live_answer(answer)["texts"] == []


def test_without_a_drafter_nothing_is_offered() -> None:
    assert on_texts(advise(GPT_OSS.model_copy(update={"drafter_id": "none"}))) == ()


def test_random_tokens_are_read_back_so_that_half_of_their_published_runs_gained_more() -> None:
    placed = {"n_gpus": 8, "tensor_parallel": 8, "engine": "sglang", "batch_size": 32}
    scenario = Scenario(
        model_id="deepseek-v3",
        hardware_id="h200-sxm",
        drafter_id="mtp",
        acceptance="deepseek-r1-mtp-internal",
        **placed,
    )
    answer = advise(scenario)
    runs = [run for run in runs_beside(scenario, 8) if run.random_tokens]
    assert len(runs) >= LEAST_RUNS
    (text,) = [each for each in on_texts(answer) if each.origin == "published"]
    assert text.accepted_length < length_now(answer), "random tokens accept less"
    there = advise(scenario.model_copy(update={"acceptance": text.acceptance}))
    ratios = [run.speedup / beside_run(there.curve, run).speedup for run in runs]
    assert np.median(ratios) == pytest.approx(1.0, abs=0.03)


def test_fewer_than_three_runs_on_random_tokens_tell_nothing() -> None:
    assert "published" not in {each.origin for each in on_texts(advise(GPT_OSS))}
