"""What a first own run does to the band: the line of the answer, from the shipped study."""

from __future__ import annotations

import dataclasses

import pytest

from advisor.answers.advice import advise
from advisor.answers.summary import OwnRuns, half_width_after, own_runs_text, read_own_runs
from advisor.predict.scenario import Scenario

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
    card = advise(SCENARIO.model_copy(update={"hardware_id": "rtx-pro-6000-blackwell"}))
    for advice, kind in ((OWN_RUNS_ADVICE, "data centre"), (card, "workstation")):
        at, curve = (advice.batch_index, advice.curve_column), advice.curve
        now, after = half_width_after(*(float(one[at]) for one in (curve.low, curve.speedup, curve.high)), kinds[kind])
        assert own_runs_text(advice).startswith(
            f"Likely range ±{now:.0%} at K = {advice.curve_k}; about ±{after:.0%} once refitted to 4 benchmark"
        )
    refitted = dataclasses.replace(
        OWN_RUNS_ADVICE, scenario=SCENARIO.model_copy(update={"refit": "on=h200-sxm/vllm/vllm"})
    )
    assert own_runs_text(refitted) == ""
