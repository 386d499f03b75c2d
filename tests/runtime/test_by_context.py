"""The recommended K over batch and context, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.best_k import recommended_draft
from advisor.answers.by_batch import CONTEXTS, KByContext, context_values, curves_at, k_by_context, schedule_for
from advisor.answers.round_costs import k_at
from advisor.answers.schedule import SWITCH_COST
from advisor.predict.curve import batches_with
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario

LLAMA = Scenario(n_gpus=4, tensor_parallel=4, model_id="llama-3.1-8b", drafter_id="eagle3", acceptance="2.4@3")
GPT_OSS = Scenario(hardware_id="b200-sxm", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3")


def test_each_cell_is_the_k_that_is_recommended_for_a_scenario_at_that_context_and_batch() -> None:
    found = schedule_for(LLAMA, (512, 2048, 32768)).at_contexts
    assert found.contexts == (512, 2048, 32768)
    for row, context in enumerate(found.contexts):
        for batch in (1, 16, 64):
            asked = LLAMA.model_copy(update={"context_tokens": context, "batch_size": batch})
            alone = schedule_for(asked)
            at = int(np.searchsorted(alone.curve.batches, batch))
            own = alone.curve.drafts[recommended_draft(alone.setup, alone.curve, at)]
            assert found.k[row, np.searchsorted(found.batches, batch)] == own


def test_batches_that_do_not_fit_at_a_context_have_no_k() -> None:
    found = schedule_for(LLAMA).at_contexts
    for context, ks in zip(found.contexts, found.k, strict=True):
        fits = load_setup(LLAMA.model_copy(update={"context_tokens": context})).memory.largest_batch
        assert np.array_equal(ks >= 0, found.batches <= fits)
    assert (found.k[-1] < 0).any()


def test_where_context_matters_the_sentence_names_context_batch_and_what_it_would_cost() -> None:
    found = schedule_for(LLAMA).at_contexts
    assert found.matters
    assert found.text.startswith(
        "Context changes the answer: with 32,768 tokens at batch 64 K = 2, where this schedule"
    )
    row, column = np.unravel_index(found.loss.argmax(), found.loss.shape)
    assert found.loss[row, column] > SWITCH_COST
    assert f"{found.contexts[row]:,} tokens at batch {found.batches[column]:,} K = {found.k[row, column]}" in found.text
    assert f"{found.batches[column]:,}" in [cells[0] for cells in found.table()[1]]
    assert k_at(schedule_for(LLAMA).ranges, found.batches[column]) == found.own_k[column] != found.k[row, column]


def test_where_context_hardly_matters_it_is_said_in_one_line() -> None:
    found = schedule_for(GPT_OSS).at_contexts
    assert not found.matters
    assert found.text.startswith(
        "Context hardly changes the answer: from 512 to 131,072 tokens this schedule costs at "
    )


def test_context_matters_where_the_schedule_misses_a_limit_that_another_k_keeps() -> None:
    placed = {"model_id": "deepseek-v3", "n_gpus": 8, "tensor_parallel": 8, "batch_size": 4}
    asked = Scenario(**placed, drafter_id="mtp", acceptance="deepseek-r1-mtp-internal")
    free = schedule_for(asked)
    assert not free.at_contexts.misses.any()
    assert not free.at_contexts.matters
    far = curves_at(free.setup, free.curve)[131_072][1]
    at = int(np.searchsorted(far.batches, 4))
    two_s, three_s = far.tpot_s[at, 2:4]
    assert three_s < two_s, "at 131,072 tokens K = 3 is the faster one, hardly"
    limit_ms = 1e3 * float(two_s + three_s) / 2.0
    found = schedule_for(asked.model_copy(update={"max_tpot_ms": limit_ms})).at_contexts
    row = found.contexts.index(131_072)
    assert found.own_k[at] == 2
    assert found.misses[row, at]
    assert np.isfinite(found.loss).all()
    assert found.loss.max() < SWITCH_COST, "what it loses in speed would not matter"
    assert found.matters
    said = "with 131,072 tokens at batch 4 K = 3, where this schedule's 2 would miss the limit"
    assert found.text == f"Context changes the answer: {said}."


def test_the_schedules_own_context_loses_nothing_against_itself() -> None:
    found = schedule_for(LLAMA).at_contexts
    own = found.contexts.index(LLAMA.context_tokens)
    assert not found.loss[own].any()


def test_contexts_end_where_the_model_does_and_begin_at_the_prompt() -> None:
    olmoe = GPT_OSS.model_copy(update={"model_id": "olmoe-1b-7b"})
    assert schedule_for(olmoe).at_contexts.contexts == (512, 2048)
    prompt = Scenario.model_validate(
        GPT_OSS.model_dump() | {"input_tokens": 4000, "output_tokens": 500, "context_tokens": 4250}
    )
    assert schedule_for(prompt).at_contexts.contexts == (4250, *[one for one in CONTEXTS if one > 4250])


def test_the_table_has_a_dash_where_a_batch_does_not_fit() -> None:
    made = KByContext(
        own_context=512,
        contexts=(512, 8192),
        batches=batches_with().astype(np.int64)[[0, 3, 7]],
        k=np.array([[3, 2, 1], [3, 2, -1]]),
        own_k=np.array([3, 2, 1]),
        loss=np.zeros((2, 3)),
        misses=np.array([[False, False, False], [False, True, False]]),
    )
    assert made.table() == (("Batch", "512", "8,192"), (("1", "3", "3"), ("4", "2", "2"), ("16", "1", "-")))
    assert context_values(made)["contexts"][1] == {  # type: ignore[index]
        "context_tokens": 8192,
        "n_draft": [3, 2, None],
        "schedule_loss": [0.0, 0.0, 0.0],
    }


@pytest.mark.parametrize("contexts", [(), (2048,)])
def test_one_context_says_nothing(contexts: tuple[int, ...]) -> None:
    own = schedule_for(LLAMA)
    assert k_by_context(2048, own.ranges, curves_at(own.setup, own.curve, contexts)).text == ""
