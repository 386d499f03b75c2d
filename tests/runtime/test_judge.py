"""The recommended K: how sure it is, what is as good, and whether it keeps the limit."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.curve import curve_for
from advisor.runtime.by_batch import ranges_of, recommended_draft
from advisor.runtime.judge import equals_text, judge_draft
from advisor.runtime.schedule import k_at
from advisor.scenario.scenario import Scenario
from advisor.setup import load_setup


def test_a_gain_within_the_noise_is_said_to_be_noise() -> None:
    assert judge_draft(0, np.array([1.0, 1.01]), np.tile([1.0, 1.01], (50, 1))).within_noise
    assert not judge_draft(0, np.array([1.0, 0.97]), np.tile([1.0, 0.97], (50, 1))).within_noise


def test_chance_and_regret_follow_from_the_draws() -> None:
    draws = np.array([[1.0, 1.5, 1.2], [1.0, 1.2, 1.6], [1.0, 1.5, 1.4], [1.0, 1.3, 1.2]])
    best = judge_draft(1, np.array([1.0, 1.4, 1.35]), draws)
    assert best.p_best == pytest.approx(0.75)
    assert best.regret == pytest.approx((1 - 1.2 / 1.6) / 4)


def test_every_draft_length_within_the_margin_of_the_best_is_named_as_its_equal() -> None:
    speedup = np.array([1.0, 1.5, 1.97, 1.99, 2.0, 1.95])
    draws = np.tile(speedup, (4, 1))
    assert judge_draft(2, speedup, draws).equal == (2, 3, 4)
    assert judge_draft(2, speedup, draws, np.array([True, True, True, True, False, True])).equal == (2, 3)
    assert judge_draft(0, speedup, draws).equal == ()
    assert equals_text((2, 3, 4), 2).startswith("K = 2 to 4 are within 2% of the best here; K = 2 also serves")
    assert equals_text((2, 4), 4).startswith("K = 2 and 4 are")
    assert equals_text((3,), 3) == ""


def test_a_batch_beyond_the_schedule_gets_the_k_of_a_schedule_without_limit_of_memory() -> None:
    setup = load_setup(Scenario(acceptance="2.4@3", context_tokens=65536))
    curve = curve_for(setup)
    ranges, last = ranges_of(setup, curve), curve.batches.size - 1
    assert curve.batches[last] > ranges[-1].batch_end
    whole = ranges_of(setup, curve, beyond_memory=True)
    assert curve.drafts[recommended_draft(setup, curve, last, ranges).index] == k_at(whole, curve.batches[last])


def test_a_limit_that_no_k_keeps_leaves_every_k_to_choose_from_and_says_so() -> None:
    speedup, draws = np.array([1.0, 1.5, 1.2]), np.tile([1.0, 1.5, 1.2], (4, 1))
    kept = judge_draft(2, speedup, draws, np.array([False, False, True]))
    assert (kept.meets_limit, kept.p_best) == (True, 1.0)
    missed = judge_draft(2, speedup, draws, np.zeros(3, bool))
    assert (missed.meets_limit, missed.p_best) == (False, 0.0)
