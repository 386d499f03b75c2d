"""A measured run asks the model one question, whoever reads it."""

import pytest

from advisor.measured.run import run_question
from advisor.predict.setup import CountedPass
from tests.measured.test_row_questions import ROW

LENGTHS = {"input_tokens": 1000, "output_tokens": 500, "metric": "output_tok_per_s"}


@pytest.mark.parametrize(
    "cells",
    [
        {**LENGTHS, "notes": "decode nodes"},
        {**LENGTHS, "notes": ""},
        {"model_id": "qwen3-30b-a3b", "dataset": "llm_decode_bench"},
        {"model_id": "qwen3-30b-a3b", "dataset": "MT-Bench"},
    ],
)
def test_a_baseline_is_asked_as_the_row_beside_it_is(cells):
    """Its notes and its prompts were dropped, so that it paid for prompts that separate nodes
    took, and chose experts as other text does."""
    drafting = run_question(ROW | cells).scenario
    baseline = run_question(ROW | cells | {"draft_tokens_k": 0}).scenario
    for name in ("routing", "input_tokens", "output_tokens", "context_tokens"):
        assert getattr(baseline, name) == getattr(drafting, name), name


def test_a_baseline_drafts_nothing_whatever_its_notes_name():
    question = run_question(ROW | {"draft_tokens_k": 0, "notes": "beside DFlash and suffix"})
    assert (question.n_draft, question.scenario.drafter_id) == (0, "ngram")


@pytest.mark.parametrize("batch", [7.4, 0.2])
def test_a_mean_batch_is_predicted_where_it_was_measured(batch):
    question = run_question(ROW | {"batch_size": batch})
    assert question.batch_size == max(batch, 1.0)
    assert question.scenario.batch_size == max(round(batch), 1)


def test_the_experts_that_a_baseline_counted_are_of_its_step():
    """They were taken for a pass of two tokens a sequence, which no baseline runs."""
    cells = ROW | {"draft_tokens_k": 0, "touched_experts": 31.5}
    assert run_question(cells).counted == CountedPass(1, 31.5)
    assert run_question(cells | {"draft_tokens_k": 3}).counted == CountedPass(4, 31.5)
