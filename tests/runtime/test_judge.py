"""The recommended K: the least expected loss, how sure it is, what is as good, and whether it keeps the limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor import bands
from advisor.curve import batches_with, curve_for, draft_odds, excess_loss, recommended
from advisor.runtime import DraftRow, draft_rows, k_at, meets_limit, others_text, ranges_of, recommended_draft
from advisor.scenario import example_ids, load_example
from advisor.scenario.scenario import Scenario
from advisor.setup import load_setup

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def test_chance_loss_and_noise_follow_from_the_draws() -> None:
    draws = np.array([[1.0, 1.5, 1.2], [1.0, 1.2, 1.6], [1.0, 1.5, 1.4], [1.0, 0.9, 0.8]])
    odds = draft_odds(draws)
    assert odds.p_best.tolist() == [0.25, 0.5, 0.25]
    assert odds.p_gain.tolist() == [0.0, 0.75, 0.75]
    lost = np.array([[1 - 1 / 1.5, 0, 0.2], [1 - 1 / 1.6, 0.25, 0], [1 - 1 / 1.5, 0, 1 - 1.4 / 1.5], [0, 0.1, 0.2]])
    assert odds.loss == pytest.approx(lost.mean(axis=0))
    assert odds.noise[1] == 0.0
    assert odds.noise[2] == pytest.approx((lost[:, 2] - lost[:, 1]).std() / 2)


def test_the_smaller_k_is_recommended_where_the_noise_does_not_tell_them_apart() -> None:
    loss, noise = np.array([0.30, 0.021, 0.020, 0.05]), np.array([0.01, 0.002, 0.0, 0.002])
    assert recommended(loss, noise) == 1
    assert recommended(loss, noise / 4) == 2
    assert recommended(loss, noise, np.array([True, False, False, True])) == 3
    assert recommended(loss, noise, np.zeros(4, bool)) == 1
    assert np.isinf(excess_loss(loss, noise, np.array([True, False, True, True]))[1])


def test_plain_decoding_is_a_candidate_like_any_other() -> None:
    """Two thirds of the draws lose a tenth, one third gains a fifth: the median K = 1 loses, and so does its mean."""
    risky = np.array([[1.0, 0.9], [1.0, 0.9], [1.0, 1.2]] * 100)
    odds = draft_odds(risky)
    assert recommended(odds.loss, odds.noise) == 1 - int(odds.loss[0] < odds.loss[1])
    worse = draft_odds(np.array([[1.0, 0.9], [1.0, 0.9], [1.0, 1.05]] * 100))
    assert recommended(worse.loss, worse.noise) == 0
    slight = draft_odds(np.array([[1.0, 1.01], [1.0, 1.012]] * 100))
    assert recommended(slight.loss, slight.noise) == 1


@pytest.mark.parametrize("example", example_ids())
def test_no_other_k_beats_the_recommended_one_in_the_apps_own_table(example: str) -> None:
    """At every batch: neither on the draws it was chosen by, nor on four times as many that it has not seen."""
    setup = load_setup(load_example(example).scenario)
    curve = curve_for(setup, BATCHES)
    fresh = curve_for(setup, BATCHES, draws=bands.make_draws(setup.costs, 4 * bands.N_DRAWS, seed=7))
    for row in range(len(BATCHES)):
        rows = draft_rows(setup, curve, row)
        own = next(item for item in rows if item.recommended)
        odds = draft_odds(fresh.draws[:, row])
        for index, other in enumerate(rows):
            noise = float(draft_odds(curve.draws[:, row]).noise[[own.k_draft, index]].max())
            assert own.expected_loss <= other.expected_loss + noise + 1e-9
            assert odds.loss[own.k_draft] <= odds.loss[index] + max(noise, 0.005)
        assert sum(item.recommended for item in rows) == 1


@pytest.mark.parametrize("example", example_ids())
@pytest.mark.parametrize("batch", [1, 16, 64, 256])
def test_verdict_and_schedule_run_the_same_k_at_the_target_batch(example: str, batch: int) -> None:
    setup = load_setup(load_example(example).scenario.model_copy(update={"batch_size": batch}))
    curve = curve_for(setup, batches_with(batch))
    row = int(np.searchsorted(curve.batches, batch))
    if setup.memory.largest_batch >= batch:
        assert k_at(ranges_of(setup, curve), batch) == curve.drafts[recommended_draft(setup, curve, row)]


def test_deepseek_at_batch_64_drafts_two_tokens_not_three() -> None:
    """K = 3 had the schedule's favour with a chance of 27 % and four times the loss."""
    scenario = load_example("deepseek").scenario.model_copy(update={"batch_size": 64, "context_tokens": 2048})
    setup = load_setup(scenario)
    rows = draft_rows(setup, curve_for(setup, [64]), 0)
    assert next(item for item in rows if item.recommended).k_draft == 2
    assert rows[2].p_best > rows[3].p_best
    assert rows[2].expected_loss < rows[3].expected_loss


def test_others_are_named_with_what_they_cost() -> None:
    def row(k: int, loss: float, *, as_good: bool = False, own: bool = False) -> DraftRow:
        return DraftRow(k, 1.5, 1.4, 1.6, 0.01, 100.0, 0.3, 1.0, loss, as_good or own, True, own)

    rows = [row(0, 0.5), row(1, 0.05), row(2, 0.01, own=True), row(3, 0.0101, as_good=True), row(4, 0.02)]
    assert others_text(rows) == "K = 3 does as well; on average K = 2 is 1.0% behind each draw's fastest, K = 4 2.0%."
    rows[4] = row(4, 0.0102, as_good=True)
    assert (
        others_text(rows) == "K = 3 and 4 do as well; on average K = 2 is 1.0% behind each draw's fastest, K = 1 5.0%."
    )
    rows[3] = replace(rows[3], speedup=1.53)
    faster = "K = 3 and 4 do as well (the lead of 2.0% is within the noise, so the shortest is taken)"
    assert others_text(rows).startswith(faster)
    assert others_text([row(0, 0.0, own=True), row(1, 0.1)]) == ""
    assert others_text([row(1, 0.0, own=True)]) == ""


def test_a_limit_that_no_k_keeps_leaves_every_k_to_choose_from_and_says_so() -> None:
    setup = load_setup(Scenario(acceptance="2.4@3"))
    curve = curve_for(setup, [16])
    free = recommended_draft(setup, curve, 0)
    tpot_ms = np.sort(curve.tpot_s[0] * 1e3)
    tight = replace(setup, scenario=setup.scenario.model_copy(update={"max_tpot_ms": float(tpot_ms[0]) * 1.000001}))
    assert curve.drafts[recommended_draft(tight, curve, 0)] == curve.drafts[curve.tpot_s[0].argmin()]
    assert meets_limit(tight, curve, 0)
    missed = replace(setup, scenario=setup.scenario.model_copy(update={"max_tpot_ms": float(tpot_ms[0]) * 0.5}))
    assert recommended_draft(missed, curve, 0) == free
    assert not meets_limit(missed, curve, 0)
