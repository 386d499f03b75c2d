"""Accepted length by kind of text: which kinds are offered, and that a choice gives its length."""

from __future__ import annotations

import pytest

from advisor.answers.advice import advise
from advisor.answers.summary import stated_k
from advisor.answers.texts import on_texts
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer

MT_BENCH = "gpt-oss-20b-eagle3-mt-bench"
GPT_OSS = Scenario(model_id="gpt-oss-20b", hardware_id="h200-sxm", acceptance=MT_BENCH)


@pytest.mark.parametrize("task", ["coding", "chat", "math", "long_document"])
def test_choosing_a_kind_of_text_gives_its_length(task: str) -> None:
    answer = advise(GPT_OSS)
    (text,) = [each for each in on_texts(answer) if each.task == task]
    chosen = advise(GPT_OSS.model_copy(update={"acceptance": text.curve_id, "task": task}))
    k = stated_k(answer)
    assert chosen.setup.acceptance.accepted_length[k] == pytest.approx(text.accepted_length)
    assert text.is_measured == (chosen.setup.acceptance.carried_from == "")
    marked = [each["name"] for each in live_answer(chosen)["texts"] if each["chosen"]]
    assert len(marked) == 1


def test_numbers_of_the_user_s_own_are_offered_the_model_s_curve() -> None:
    typed = advise(GPT_OSS.model_copy(update={"acceptance": "2.4@3"}))
    assert {each.curve_id for each in on_texts(typed)} == {MT_BENCH}
    assert not any(each["chosen"] for each in live_answer(typed)["texts"])


def test_prompts_of_no_one_kind_are_not_carried_and_a_single_choice_is_none() -> None:
    publisher = {"model_id": "command-a-plus", "acceptance": "command-a-plus-eagle3-publisher"}
    answer = advise(GPT_OSS.model_copy(update=publisher | {"n_gpus": 4, "tensor_parallel": 4}))
    assert [each.task for each in on_texts(answer)] == [None]
    assert live_answer(answer)["texts"] == []


def test_without_a_drafter_nothing_is_offered() -> None:
    assert on_texts(advise(GPT_OSS.model_copy(update={"drafter_id": "none"}))) == ()
