"""advise(): verdicts, limits, warnings, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.answers import advice as module
from advisor.answers.advice import Advice, Bound, advice_on, advise, bound_of, serving
from advisor.answers.best_k import DraftRow, KRange, k_at
from advisor.answers.outcome import outcome_of
from advisor.answers.schedule import MIN_GAIN
from advisor.measured.published import runs_beside
from advisor.physics.notes import Note
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.setup import Setup
from tests.golden.answers import FILE, QWEN, STATES, answers

EXPECTED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STATES)
def test_an_answer_has_the_facts_that_it_had(name: str) -> None:
    assert answers(name) == EXPECTED[name], "run: python -m tests.golden.answers"


@pytest.mark.parametrize("batch", [1, 7, 16, 24, 32, 40, 64, 300])
def test_no_batch_moves_the_schedule_and_it_loses_little_against_the_k_recommended_there(
    batch: int,
) -> None:
    advice = advise(QWEN.model_copy(update={"batch_size": batch}))
    assert advice.k_by_batch == advise(QWEN).k_by_batch
    scheduled = next(row for row in advice.drafts if row.n_draft == k_at(advice.k_by_batch, batch))
    # Between the batches that it was decided on losses are interpolated: half a per cent of that.
    assert scheduled.expected_loss - advice.recommendation.regret <= MIN_GAIN + 0.005


def test_what_another_engine_loads_is_answered_with_its_own_kernels() -> None:
    answer = advise(QWEN)
    own = advice_on(answer, "sglang")
    assert own.to_serve == advise(QWEN.model_copy(update={"engine": "sglang"})).to_serve
    assert own.to_serve != answer.to_serve
    assert advice_on(answer, QWEN.engine) is answer


@pytest.fixture(scope="module")
def setup() -> Setup:
    return load_setup(QWEN)


@pytest.fixture(scope="module")
def answer() -> Advice:
    return advise(QWEN)


def row(
    k: int, speedup: float, low: float, high: float, loss: float, *, own: bool = False, **more: Any
) -> DraftRow:
    usual = {"p_best": 0.5, "p_gain": 0.9, "as_good": own, "meets_limit": True, "recommended": own}
    return DraftRow(k, speedup, low, high, 0.008, 100.0, expected_loss=loss, **(usual | more))


def step(parts: dict[str, float], batch: float, touched: float = 20.0) -> Any:
    """A curve whose plain step at its one batch takes `parts`; others of the usual components take
    nothing."""
    whole = {"host": 0.0, "launch": 0.0} | parts
    return SimpleNamespace(
        components_at=lambda row, column: (whole, {}) if (row, column) == (0, 0) else None,
        batches=np.array([batch]),
        touched_plain=np.array([touched]),
    )


def test_what_most_of_a_plain_step_waits_for(setup: Setup) -> None:
    """8 of 128 experts a token: 16 sequences that touch 20 experts give each 6.4 rows."""
    launches = bound_of(setup, step({"host": 2.0, "launch": 1.0, "routed": 3.0}, 16), 0)
    assert (launches.kind, launches.share) == ("launch", 0.5)
    assert (
        bound_of(setup, step({"host": 2.0, "launch": 0.9, "routed": 3.0}, 16), 0).kind
        == "bandwidth"
    )
    assert bound_of(setup, step({"communication": 6.0, "routed": 4.0}, 16), 0) == (
        Bound("communication", "communication", 0.6)
    )
    assert bound_of(setup, step({"communication": 3.0, "routed": 7.0}, 16), 0) == (
        Bound("bandwidth", "routed", 0.7)
    )


def test_arithmetic_binds_where_a_weight_meets_more_tokens_than_the_ridge_and_never_in_the_cache(
    setup: Setup,
) -> None:
    cost = setup.costs.dense
    ridge = cost.flops_per_s / cost.bandwidth_bytes_per_s
    assert 50 < ridge < 1000
    many = ridge * 1.01
    few = ridge * 0.99
    assert bound_of(setup, step({"dense": 1.0}, many), 0).kind == "compute"
    assert bound_of(setup, step({"dense": 1.0}, few), 0).kind == "bandwidth"
    assert bound_of(setup, step({"attention": 1.0}, many), 0).kind == "bandwidth"
    assert bound_of(setup, step({"routed": 1.0}, many, touched=8.0), 0).kind == "compute"
    assert bound_of(setup, step({"routed": 1.0}, many, touched=8.2), 0).kind == "bandwidth"
    assert bound_of(setup, step({"routed": 1.0}, few, touched=7.8), 0).kind == "compute"
    assert bound_of(setup, step({"routed": 1.0}, few / 8.0, touched=0.0), 0).kind == "bandwidth"
    assert (
        bound_of(setup, step({"routed": 1.0}, 1.5 * ridge / 8.0, touched=1.0), 0).kind == "compute"
    )
    assert bound_of(setup, step({"dense": 1.0}, ridge), 0).kind == "bandwidth", (
        "at the ridge reading still hides it"
    )
    dense = load_setup(QWEN.model_copy(update={"model_id": "qwen3-8b"}))
    assert bound_of(dense, step({"routed": 1.0}, many, touched=128.0), 0).kind == "compute"


def test_the_best_draft_length_is_that_of_the_least_loss_and_none_where_nothing_is_drafted() -> (
    None
):
    plain = row(0, 1.0, 1.0, 1.0, 0.0)
    assert (
        module._best_drafting((plain, row(1, 1.0, 1.0, 1.0, 0.3), row(2, 1.0, 1.0, 1.0, 0.2))) == 2
    )
    assert module._best_drafting((plain,)) == 0


def warned(setup: Setup, batch: float, drafts: list[int], *rows: DraftRow) -> list[str]:
    """Warnings that the answer adds to those of the set-up."""
    curve = curve_for(setup, [batch], drafts, central_only=True)
    loaded = Note.of("read", text="as loaded")
    notes = module._notes(replace(setup, notes=(loaded, loaded)), curve, 0, rows, table=False)
    assert notes.count(loaded) == 1, "each once"
    assert [note.rank for note in notes] == sorted(note.rank for note in notes)
    return [note.kind for note in notes if note != loaded and note.kind != "kernel_cliff"]


def test_warnings_of_an_answer_name_what_is_outside_the_data_or_at_an_end(setup: Setup) -> None:
    plain = row(0, 1.0, 1.0, 1.0, 0.4)
    one = row(1, 1.2, 1.0, 1.4, 0.1)
    three = row(3, 1.5, 1.2, 1.8, 0.0)
    own = {"recommended": True, "as_good": True}
    assert warned(setup, 16, [0, 1, 3], plain, one, replace(three, **own)) == []
    carried = ["length_extrapolated"]
    assert warned(setup, 16, [0, 1, 3], plain, replace(one, **own), three) == carried
    assert warned(setup, 1024, [0, 1, 3], plain, one, replace(three, **own)) == ["outside_data"]
    assert warned(setup, 1024, [0, 1, 3], plain, replace(one, **own), three) == carried
    last = replace(setup, scenario=QWEN.model_copy(update={"k_max": 3}))
    assert warned(last, 16, [0, 1, 3], plain, one, replace(three, **own)) == ["longest_k"]
    assert warned(last, 16, [0, 1, 3], replace(plain, **own), one, three) == []
    limited = replace(setup, scenario=QWEN.model_copy(update={"max_tpot_ms": 5.0}))
    slow = (
        replace(plain, tpot_s=0.02),
        replace(one, tpot_s=0.0123),
        replace(three, meets_limit=False, **own),
    )
    assert warned(limited, 16, [0, 1, 3], slow[0], slow[1], replace(slow[2], tpot_s=0.015)) == [
        "over_limit"
    ]


def test_a_kernel_switch_is_warned_of_at_the_k_that_is_or_would_be_drafted(
    setup: Setup, monkeypatch
) -> None:
    monkeypatch.setattr(
        module,
        "kernel_cliffs",
        lambda _, column: [SimpleNamespace(note=Note.of("read", text=f"cliff {column}"))],
    )
    curve = curve_for(setup, [16], [0, 1, 3], central_only=True)
    rows = (
        row(0, 1.0, 1.0, 1.0, 0.0, own=True),
        row(1, 1.0, 1.0, 1.0, 0.3),
        row(3, 1.0, 1.0, 1.0, 0.2),
    )
    assert module._notes(setup, curve, 0, rows, table=False)[-1].facts["text"] == "cliff 2"
    drafting = replace(rows[0], recommended=False), replace(rows[1], recommended=True), rows[2]
    assert module._notes(setup, curve, 0, drafting, table=False)[-1].facts["text"] == "cliff 1"


def test_an_answer_is_the_recommended_row_of_its_curve(answer: Advice) -> None:
    own = next(item for item in answer.drafts if item.recommended)
    found = answer.recommendation
    curve = answer.curve
    column = answer.curve.column(own.n_draft)
    assert curve.batches[answer.batch_index] == 16
    assert (found.n_draft, found.tpot_s) == (own.n_draft, own.tpot_s)
    assert found.tokens_per_s_per_gpu == own.tokens_per_s_per_gpu
    figures = [of[answer.batch_index, column] for of in (curve.speedup, curve.low, curve.high)]
    assert [found.speedup.value, found.speedup.low, found.speedup.high] == figures
    assert (found.p_best, found.p_gain, found.regret) == (own.p_best, own.p_gain, own.expected_loss)
    assert found.meets_limit
    assert not found.speedup.extrapolated
    assert found.speedup.tier is answer.curve.tier[answer.batch_index, column]
    assert own.n_draft in found.equal_drafts
    assert 0 not in found.equal_drafts
    assert (answer.curve_k, answer.curve_column, answer.band_level) == (own.n_draft, column, 0.8)
    assert found.bound == bound_of(answer.setup, answer.curve, answer.batch_index)
    peak = answer.curve.batches[answer.curve.speedup[:, column].argmax()]
    assert answer.sweet_spot_batch == peak
    assert found.ttft_s is None


def test_equal_drafts_are_those_that_the_noise_does_not_tell_from_the_recommended_one(
    setup: Setup,
) -> None:
    curve = curve_for(setup, [16], [0, 1, 2, 3], central_only=True)
    rows = (
        row(0, 1.0, 1.0, 1.0, 0.0, as_good=True),
        row(1, 1.3, 1.1, 1.5, 0.2),
        row(2, 1.5, 1.2, 1.8, 0.0, own=True, p_gain=0.8),
        row(3, 1.5, 1.2, 1.8, 0.0, as_good=True, p_gain=0.7),
    )
    found = module._recommendation(setup, curve, 0, rows, 3)
    assert found.equal_drafts == (2, 3)
    assert (found.n_draft, found.p_gain, found.best_alone) == (2, 0.8, 3)


def test_the_curve_is_shown_at_the_k_that_is_served_also_where_another_loses_less(
    answer: Advice,
) -> None:
    last = answer.to_serve[-1].batch_end
    other = 2 if answer.recommendation.n_draft != 2 else 1
    served = serving(answer, (KRange(1, last, other, 1.0, 0.0, True),))
    assert (served.curve_k, served.recommendation.n_draft) == (other, other)
    assert served.recommendation.best_alone == answer.recommendation.best_alone


def test_break_even_is_named_up_to_the_largest_batch_that_fits(monkeypatch) -> None:
    weak = QWEN.model_copy(update={"acceptance": "1.3@3"})
    found = advise(weak)
    end = found.break_even_batch
    assert found.sweet_spot_batch < end < found.setup.memory.largest_batch
    assert advise(QWEN.model_copy(update={"acceptance": "3.9@3"})).break_even_batch is None
    monkeypatch.setattr(module, "last_batch", lambda *_: int(end))
    assert advise(weak).break_even_batch is None
    monkeypatch.setattr(module, "last_batch", lambda *_: int(end) + 1)
    assert advise(weak).break_even_batch == end
    monkeypatch.setattr(module, "last_batch", lambda *_: end)
    assert advise(weak).break_even_batch == end


def test_an_engine_that_the_accelerator_does_not_run_leaves_the_answer_as_it_is(
    answer: Advice,
) -> None:
    assert advice_on(answer, "no-such-engine") is answer


def test_another_engine_is_asked_without_the_release_that_is_stated_of_this_one() -> None:
    stated = advise(
        QWEN.model_copy(update={"engine_version": "0.24.0", "graph_sizes": "64", "batch_size": 8})
    )
    other = advice_on(stated, "sglang").scenario
    assert (other.engine, other.engine_version, other.graph_sizes) == ("sglang", None, None)
    assert advice_on(stated, "vllm") is stated


def test_published_runs_stand_beside_the_chance_and_do_not_move_it() -> None:
    """Two published runs of this setup lost; the chance is that of the model's cases."""
    two = {"hardware_id": "h100-sxm", "n_gpus": 2, "tensor_parallel": 2, "drafter_id": "eagle3"}
    advice = advise(QWEN.model_copy(update=two))
    outcome = outcome_of(advice)
    assert (outcome.published_n, outcome.published_slower) == (2, 2)
    assert not runs_beside(advice.scenario.model_copy(update={"drafter_id": "mtp"}), 2)
    chance = advice.curve.p_gain[advice.batch_index, advice.curve.column(outcome.tried)]
    assert outcome.chance == pytest.approx(chance)
