"""Own points beside the curve: what would explain it, said as what it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.own_runs import GAP_COLUMNS, own_gap, own_gap_text
from advisor.predict.scenario import Scenario

ADVICE = advise(Scenario(acceptance="2.4@3", context_tokens=2048))
BATCHES = [1, 8, 32]


def points(*factors: float, k: int = 3, **given: float | str) -> pd.DataFrame:
    """CONSTRUCTED points: the curve's own speedups at BATCHES times factors."""
    curve = ADVICE.curve
    at = [int(np.flatnonzero(curve.batches == batch)[0]) for batch in BATCHES]
    rows = {"batch_size": BATCHES, "n_draft": k, "speedup": curve.speedup[at, curve.column(k)] * factors}
    return pd.DataFrame(rows | {"drafter": "eagle3"} | given).reindex(columns=list(GAP_COLUMNS))


def test_points_below_the_curve_name_the_accepted_length_that_would_explain_it_as_inferred() -> None:
    gap = own_gap(ADVICE, points(0.90, 0.95, 0.97))
    assert gap is not None
    assert (gap.n_draft, gap.n_points, gap.stated_length, gap.own_context) == (3, 3, None, None)
    assert (gap.nearest, gap.middle, gap.farthest) == pytest.approx((0.97, 0.95, 0.90))
    assert gap.length_to_try == pytest.approx(2.4 * 0.95)
    assert own_gap_text(gap) == (
        "Your 3 points lie 3 to 10% below the curve of K = 3. An accepted length 0.95 times as long would explain it: "
        "2.28 instead of 2.40 at K = 3, inferred from your points, not counted."
    )


def test_the_implied_length_puts_the_middle_point_on_the_curve() -> None:
    measured = points(0.90, 0.95, 0.97)
    gap = own_gap(ADVICE, measured)
    assert gap is not None
    then = advise(Scenario(acceptance=f"{gap.implied_length:.6f}@3", context_tokens=2048)).curve
    at = int(np.flatnonzero(then.batches == 8)[0])
    assert then.speedup[at, then.column(3)] == pytest.approx(measured["speedup"][1], rel=1e-3)


def test_a_file_that_states_its_accepted_length_and_lengths_is_quoted_and_offered() -> None:
    gap = own_gap(ADVICE, points(0.90, 0.95, 0.97, accepted_length=2.3, context_tokens=512.0))
    assert gap is not None
    assert (gap.length_to_try, gap.own_context) == (2.3, 512)
    said = own_gap_text(gap)
    assert "your file states 2.30 at K = 3, 0.96 times the 2.40 used here" in said
    assert said.endswith("They were measured at context 512; this is for 2,048.")
    assert "inferred" not in said


def test_a_stated_length_that_is_the_scenarios_own_is_not_blamed() -> None:
    gap = own_gap(ADVICE, points(1.08, 1.08, 1.08, accepted_length=2.4, context_tokens=2050.0))
    assert gap is not None
    assert (gap.length_to_try, gap.own_context) == (None, None)
    assert own_gap_text(gap) == (
        "Your 3 points lie 8% above the curve of K = 3. The accepted length does not explain it: your file states the "
        "2.40 used here."
    )


def test_points_on_both_sides_on_the_curve_of_another_drafter_or_too_few_say_nothing() -> None:
    assert own_gap(ADVICE, points(0.90, 1.05, 0.97)) is None
    assert own_gap(ADVICE, points(0.99, 0.99, 0.99)) is None
    assert own_gap(ADVICE, points(0.9, 0.9, 0.9, drafter="mtp")) is None
    assert own_gap(ADVICE, points(0.9, 0.9, 0.9).head(1)) is None
    assert own_gap(ADVICE, points(0.9, 0.9, 0.9).assign(n_draft=40)) is None


def test_an_accepted_length_that_no_k_reaches_is_not_offered() -> None:
    gap = own_gap(ADVICE, points(2.0, 2.0, 2.0))
    assert gap is not None
    assert gap.implied_length > 4.0
    assert gap.length_to_try is None
    assert own_gap_text(gap).endswith("No accepted length explains it: 4.80 at K = 3 would be needed.")
