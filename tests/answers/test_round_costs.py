"""Costs of the simulator's rounds: from a curve, and where they are refused."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.round_costs import costs_of, round_costs
from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

EAGLE = Scenario(acceptance="2.4@3")
NGRAM = Scenario(acceptance="1.4@3", drafter_id="ngram")


def test_costs_charge_one_drafter_pass_for_staying_ready_at_k_0() -> None:
    curve = speedup_curve(EAGLE)
    costs = costs_of(curve)
    one_pass = curve.round_components["draft"][:, 1] + curve.round_components["draft_host"][:, 1]
    np.testing.assert_allclose(costs.draft_warm_s, one_pass)
    assert np.all(costs.draft_warm_s > 0)
    assert np.all(costs_of(curve, keep_drafter_warm=False).draft_warm_s == 0)


def test_an_ngram_drafter_costs_no_device_time_to_keep_ready() -> None:
    curve = speedup_curve(NGRAM)
    np.testing.assert_allclose(costs_of(curve).draft_warm_s, curve.round_components["draft_host"][:, 1])
    assert np.all(curve.round_components["draft"] == 0)


def test_a_curve_with_missing_k_is_refused() -> None:
    with pytest.raises(AdvisorError, match="every K"):
        costs_of(speedup_curve(EAGLE, [1, 8], [0, 3]))


def test_costs_refuse_to_extrapolate_over_batch() -> None:
    costs = round_costs([1, 8], np.ones((2, 3)), [1.0, 1.5, 1.8])
    with pytest.raises(AdvisorError, match="outside the costs' batches"):
        costs.dense(9)
