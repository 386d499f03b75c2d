"""Own points beside the curve: what would explain it, said as what it is.

What a first own run does to the band: the line of the answer, from the shipped study.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.own_runs import (
    GAP_COLUMNS,
    OwnRuns,
    half_width_after,
    own_gap,
    own_gap_text,
    own_runs_text,
    read_own_runs,
)
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


SCENARIO = Scenario(acceptance="2.4@3")


OWN_RUNS_ADVICE = advise(SCENARIO)


def test_the_band_after_own_runs_shrinks_as_in_the_study_and_never_grows() -> None:
    study = OwnRuns(
        "all", 9, 3, 0.2, 0.1, 0.8, 0.9, width_before=0.6, width_after=0.3, slope_before=0.0, slope_after=0.0
    )
    assert half_width_after(1.5, 2.0, 2.5, study) == pytest.approx((0.25, 0.125))
    wider = dataclasses.replace(study, width_after=0.9)
    assert half_width_after(1.5, 2.0, 2.5, wider) == pytest.approx((0.25, 0.25))


def test_the_line_on_own_runs_takes_the_figures_of_the_kind_of_part_and_ends_with_a_refit() -> None:
    _, kinds = read_own_runs()
    at = OWN_RUNS_ADVICE.batch_index, OWN_RUNS_ADVICE.curve_column
    low, value, high = (
        float(values[at])
        for values in (OWN_RUNS_ADVICE.curve.low, OWN_RUNS_ADVICE.curve.speedup, OWN_RUNS_ADVICE.curve.high)
    )
    now, after = half_width_after(low, value, high, kinds["data centre"])
    assert own_runs_text(OWN_RUNS_ADVICE).startswith(
        f"Band ±{now:.0%} at K = {OWN_RUNS_ADVICE.curve_k}; about ±{after:.0%} once refitted to 4 benchmark runs"
    )
    card = advise(SCENARIO.model_copy(update={"hardware_id": "rtx-pro-6000-blackwell"}))
    assert f"the error from {kinds['workstation'].error_before:.0%}" in own_runs_text(card)
    refitted = dataclasses.replace(
        OWN_RUNS_ADVICE, scenario=SCENARIO.model_copy(update={"refit": "on=h200-sxm/vllm/vllm"})
    )
    assert own_runs_text(refitted) == ""
