"""Accepted lengths carried over between kinds of text, with what was measured."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.catalog.task_transfer import (
    ANY_KIND,
    LEAST_LABORATORIES,
    TASKS,
    carried,
    context_factors,
    curve_on_task,
    lengths_on_task,
    log_odds,
    task_of,
    task_transfer,
)
from advisor.measured.points import published_rows
from advisor.measured.published import COLLECTIONS
from advisor.physics.acceptance import (
    AcceptanceCurve,
    acceptance_curves,
    accepted_length,
    parse_acceptance,
)
from advisor.physics.draft import load_drafter
from advisor.predict.scenario import Scenario
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.show.phrases.notes import note_texts
from advisor.show.words.basis import accepted_text
from tests.golden.sentences import Golden, lines_with


def test_the_tasks_of_the_published_rows_are_those_of_their_prompt_sets() -> None:
    frame = published_rows(*COLLECTIONS)
    assert list(frame["task"]) == [task_of(prompts) for prompts in frame["dataset"]]
    assert set(TASKS) < set(frame["task"])


def test_a_prompt_set_nobody_placed_has_no_task() -> None:
    assert task_of("HumanEval") == "coding"
    assert task_of("llm_decode_bench") == ""


def test_chat_accepts_less_of_a_draft_than_code() -> None:
    found = task_transfer("parallel", "coding", "chat")
    assert found.factor < 1
    assert found.n_laboratories >= LEAST_LABORATORIES
    assert found.titles


def test_the_way_back_undoes_the_way_there() -> None:
    there = task_transfer("eagle", "coding", "chat")
    back = task_transfer("eagle", "chat", "coding")
    lengths = np.array([1.0, 1.8, 2.4])
    assert lengths_on_task(lengths_on_task(lengths, there), back) == pytest.approx(lengths)
    assert there.log_sd == back.log_sd


def test_a_kind_seen_in_few_laboratories_takes_the_drafters_of_every_kind() -> None:
    for kind in ("ngram", "eagle"):
        found = task_transfer(kind, "coding", "chat")
        assert found.kind == ANY_KIND
    own = task_transfer("mtp", "coding", "math")
    assert own.kind == "mtp"
    assert own.n_laboratories >= LEAST_LABORATORIES


def test_a_task_to_itself_is_no_transfer_and_an_unknown_one_is_refused() -> None:
    assert task_transfer("eagle", "chat", "chat") is None
    with pytest.raises(AdvisorError, match="task='poetry' is unknown; choose one of coding, chat"):
        task_transfer("eagle", "chat", "poetry")


def test_a_carried_length_never_reaches_all_drafts_accepted_and_never_falls_with_k() -> None:
    found = task_transfer("mtp", "chat", "math")
    assert found.factor > 1.5
    measured = np.array([1.0, 1.99, 2.95, 3.9, 3.9])
    lengths = lengths_on_task(measured, found)
    assert (lengths[1:] < np.arange(2, 6)).all()
    assert (lengths[1:] > measured[1:]).all()
    assert (np.diff(lengths) >= 0).all()


def same_heads() -> list[tuple[AcceptanceCurve, AcceptanceCurve]]:
    """Pairs of shipped curves of one head on two kinds of text."""
    curves = [one for one in acceptance_curves() if task_of(one.dataset) in TASKS]
    return [
        (one, other)
        for one in curves
        for other in curves
        if task_of(one.dataset) != task_of(other.dataset)
        and (one.model_id, one.drafter_id, one.n_draft)
        == (other.model_id, other.drafter_id, other.n_draft)
        and one.reasoning == other.reasoning
    ]


def test_carried_curves_lie_near_what_the_same_head_measured_there() -> None:
    """The heads are among those that the factors are learnt from: this bounds the form, it is no
    score."""
    errors = []
    inside = []
    for one, other in same_heads():
        k = other.n_draft[-1]
        kind = load_drafter(one.drafter_id).kind
        found = carried(one.id, parse_acceptance(one.id, k), kind, task_of(other.dataset), 2048)  # type: ignore[arg-type]
        measured = other.accepted_length[-1]
        errors.append(abs(float(found.accepted_length[k]) / measured - 1.0))
        inside.append(found.low[k] <= measured <= found.high[k])
    assert len(errors) >= 12
    assert max(errors) < 0.55
    assert np.median(errors) < 0.2
    assert np.mean(inside) >= 0.8


def test_a_curve_of_the_same_head_on_the_asked_text_is_taken_before_any_is_carried() -> None:
    assert curve_on_task("gpt-oss-20b-eagle3-humaneval", "chat") == "gpt-oss-20b-eagle3-mt-bench"
    assert (
        curve_on_task("gpt-oss-20b-eagle3-humaneval", "long_document")
        == "gpt-oss-20b-eagle3-humaneval"
    )
    assert curve_on_task("2.4@3", "chat") == "2.4@3"


CURVE = "glm-5.2-mtp-coding"


def test_a_measured_curve_is_carried_to_the_users_kind_of_text_with_a_wider_band() -> None:
    measured = parse_acceptance(CURVE, 7)
    transfer = task_transfer("mtp", "coding", "chat")
    found = carried(CURVE, measured, "mtp", "chat", 2048)
    k = np.arange(1, 8)
    assert log_odds(found.accepted_length[1:], k) == pytest.approx(
        log_odds(measured.accepted_length[1:], k) + transfer.log_bias, abs=0.02
    )
    assert (found.carried_from, found.borrowed) == ("coding", False)
    before = np.log(measured.high / measured.low)[3]
    after = np.log(found.high / found.low)[3]
    assert after > 2.0 * before
    # Between laboratories the odds scatter by the transfer's own log standard deviation.
    odds = np.exp(log_odds(found.accepted_length[3], 3) - BAND_SIGMAS * transfer.log_sd)
    assert found.low[3] <= accepted_length(odds / (1.0 + odds), 3)
    assert transfer.kind == "mtp", "three laboratories measured it on MTP modules"
    assert f"{transfer.n_heads} drafters of its kind" in found.remarks[0]


def test_the_curves_own_kind_of_text_leaves_it_alone() -> None:
    measured = parse_acceptance(CURVE, 7)
    assert carried(CURVE, measured, "mtp", None, 2048) is measured
    assert carried(CURVE, measured, "mtp", "coding", 2048) is measured
    one = parse_acceptance(CURVE, 7)
    narrow = dataclasses.replace(one, low=one.accepted_length * 0.999)
    near = carried(CURVE, narrow, "mtp", None, 4096)
    far = carried(CURVE, narrow, "mtp", None, 200000)
    assert near is narrow
    assert list(far.accepted_length) == list(measured.accepted_length)
    assert far.low[7] == pytest.approx(1.0 + (measured.accepted_length[7] - 1.0) * 0.939453)
    assert "200,000 tokens" in far.remarks[0]


def test_own_numbers_and_a_curve_on_text_of_no_kind_are_not_carried_and_said_to_stand() -> None:
    other = "stand as measured on multilingual: it is other, none of the kinds"
    curve = "kimi-k3-dspark-multilingual-k7"
    for given, drafter, said in (
        ("2.4@3", "eagle", "your own numbers"),
        (curve, "parallel", other),
    ):
        measured = parse_acceptance(given, 7)
        found = carried(given, measured, drafter, "chat", 2048)
        assert list(found.accepted_length) == list(measured.accepted_length)
        assert said in found.remarks[0]


def test_what_was_counted_on_random_tokens_says_nothing_of_text() -> None:
    assert any(one.factor == 0.0 for one in context_factors("parallel"))
    measured = parse_acceptance("kimi-k3-dspark-coding", 7)
    assert carried("kimi-k3-dspark-coding", measured, "parallel", None, 131_072) is measured


def test_the_kind_of_text_reaches_the_answer_and_its_words(golden: Golden) -> None:
    scenario = Scenario(
        model_id="glm-5.2", drafter_id="mtp", acceptance=CURVE, hardware_id="b300-sxm", batch_size=4
    )
    scenario = scenario.model_copy(update={"n_gpus": 8, "tensor_parallel": 8})
    plain = advise(scenario.model_copy(update={"task": None}))
    chat = advise(scenario.model_copy(update={"task": "chat"}))
    assert chat.recommendation.speedup.value < plain.recommendation.speedup.value
    golden(carried_from=lines_with(note_texts(chat.setup.notes), "carried from"))
    golden(carried_from_2=lines_with(accepted_text(chat), "carried from"))
    assert "another model" not in accepted_text(chat)


def test_carried_lengths_fall_no_further_than_the_measured_ones() -> None:
    """DeepSeek-V4-Pro's dip from 2.55 to 2.54 at K = 7 is noise, no ground to fall from 1.76 to
    1.60 by K = 7."""
    measured = parse_acceptance("deepseek-v4-pro-mtp-coding", 8)
    transfer = task_transfer("mtp", "coding", "chat")
    assert transfer is not None
    found = lengths_on_task(measured.accepted_length, transfer)
    ratio = found[1:] / found[:-1]
    own = measured.accepted_length[1:] / measured.accepted_length[:-1]
    assert (own < 1.0).any()
    assert (ratio >= np.minimum(own, 1.0) - 1e-12).all()
    assert found[:3] == pytest.approx([1.0, 1.585, 1.764], abs=2e-3), (
        "what rises by itself is left alone"
    )
