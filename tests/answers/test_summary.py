"""The answer as a first screen says it: every K judged, headline, what flips it, what fits, what
own runs do."""

from __future__ import annotations

import dataclasses
import math

import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import KRange
from advisor.answers.summary import (
    OwnRuns,
    accepted_length_flips,
    errors_text,
    fit_of,
    flip_texts,
    flips_text,
    half_width_after,
    headline,
    one_k_text,
    own_runs_text,
    read_own_runs,
    refit_text,
    refitted_times_text,
    stated_k,
)
from advisor.catalog.adjustment import write_adjustment
from advisor.measured.published import runs_beside
from advisor.measured.refit import adjustment_of
from advisor.measured.refit_result import Errors
from advisor.physics.components import FACTORS
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer
from tests.measured.refit_synthetic import refit, synthetic_points

SCENARIO = Scenario(acceptance="2.4@3")
ADVICE = advise(SCENARIO)
ROWS = ADVICE.drafts


def with_speedup(value: float, low: float) -> str:
    rows = tuple(
        dataclasses.replace(row, speedup=value, speedup_low=low) if row.n_draft else row
        for row in ROWS
    )
    return headline(dataclasses.replace(ADVICE, drafts=rows), 3)


def test_the_headline_is_a_number_where_it_pays_and_words_where_it_does_not() -> None:
    assert with_speedup(1.84, 1.7) == "Draft 3 tokens: 1.84× faster"
    assert with_speedup(1.09, 1.01) == "Hardly worth it: 1.09×"
    assert with_speedup(1.04, 0.97) == "Hardly worth it: 1.04×, and it may lose"
    assert with_speedup(0.8, 0.7) == "Draft 3 tokens: 0.80×, slower than plain"
    never = advise(SCENARIO.model_copy(update={"acceptance": "1.05@3"}))
    assert headline(never, 0).startswith("Don’t speculate: 0.")


def test_flips_are_where_the_library_recommends_another_k() -> None:
    k = stated_k(ADVICE)
    today = float(ADVICE.curve.accepted_length[k])
    flips = accepted_length_flips(ADVICE)
    assert {flip.is_below for flip in flips} == {True, False}
    for flip in flips:
        assert flip.is_below == (flip.accepted_length < today)
        before, after = (
            flip.accepted_length + step for step in ((0.1, -0.1) if flip.is_below else (-0.1, 0.1))
        )
        assert recommended(before, k) == flip.k_before
        assert recommended(after, k) == flip.k_after
    assert f"(now {today:.2f} at K = {k})" in flips_text(ADVICE)


@pytest.mark.parametrize("typed", ["2.3@3", "2.2@3", "1.2@3"])
def test_accepted_lengths_are_stated_at_the_k_they_were_typed_at(typed: str) -> None:
    """Whatever K is recommended; a flip within a tenth of today's length is told too."""
    advice = advise(SCENARIO.model_copy(update={"acceptance": typed}))
    assert stated_k(advice) == 3
    flips = accepted_length_flips(advice)
    assert flips
    assert len(flip_texts(advice)) == len(flips)
    for flip in flips:
        before, after = (
            flip.accepted_length + step
            for step in ((0.02, -0.02) if flip.is_below else (-0.02, 0.02))
        )
        assert (recommended(before, 3), recommended(after, 3)) == (flip.k_before, flip.k_after)
    told = live_answer(advice)["accepted"]
    assert (told["k"], told["now"]) == (3, float(typed.partition("@")[0]))


def recommended(length: float, k: int) -> int:
    """K that is recommended where this many tokens are accepted at `k`."""
    return advise(
        SCENARIO.model_copy(update={"acceptance": f"{length:.3f}@{k}"})
    ).recommendation.n_draft


def test_what_does_not_fit_names_the_bytes_and_gpus_on_which_it_does() -> None:
    assert fit_of(ADVICE.setup) is None
    large = advise(SCENARIO.model_copy(update={"model_id": "deepseek-v3", "drafter_id": "mtp"}))
    fit = fit_of(large.setup)
    assert fit.needed_bytes > fit.usable_bytes
    assert load_setup(fit.scenario).memory.largest_batch >= 16
    smaller = fit.scenario.model_copy(
        update={"n_gpus": fit.scenario.n_gpus // 2, "tensor_parallel": fit.scenario.n_gpus // 2}
    )
    assert load_setup(smaller).memory.largest_batch < 16


def test_errors_of_few_rows_are_told_and_give_way_to_those_of_all() -> None:
    few = Errors(3, median_ape=0.01, coverage=1.0, n_sources=1)
    many = Errors(65, median_ape=0.075, coverage=0.83, n_sources=14)
    found = {"this accelerator and model": few, "all published points": many}
    assert (
        "On 65 published speedups (all published points) from 14 laboratories, each counting alike,"
        in errors_text(found)
    )
    near = (
        "Few published speedups are near: 3 of this accelerator and model (median error 1%, 100% "
        "in the likely range). "
    )
    assert errors_text(found).startswith(near)
    enough = {"this accelerator and model": dataclasses.replace(few, n=21)} | {
        "all published points": many
    }
    assert (
        "On 21 published speedups of this accelerator and model from 1 laboratory the median"
        in errors_text(enough)
    )
    assert "Few" not in errors_text(enough)
    assert errors_text({}) == ""


def test_rows_on_the_wrong_side_of_one_are_told_wherever_they_are_few_or_many() -> None:
    few = Errors(8, median_ape=0.26, coverage=0.75, sign_accuracy=0.5, n_sources=1)
    many = Errors(701, median_ape=0.17, coverage=0.78, sign_accuracy=0.87, n_sources=22)
    said = errors_text({"this accelerator and model": few, "all published points": many})
    assert "(median error 26%, 75% in the likely range, 50% on the right side of 1×)" in said
    assert said.endswith("78% lie in the likely range and 87% on the right side of 1×.")


def test_k_by_batch_names_each_k_once_and_where_the_limit_ends() -> None:
    def ranges(*rows: tuple[int, int, bool]) -> tuple[KRange, ...]:
        starts = [1, *(end + 1 for end, _, _ in rows)]
        return tuple(
            KRange(start, end, k, 1.5, 0.0, kept)
            for start, (end, k, kept) in zip(starts, rows, strict=False)
        )

    limited = advise(SCENARIO.model_copy(update={"max_tpot_ms": 12.0}))
    found = dataclasses.replace(
        limited, k_by_batch=ranges((40, 3, True), (58, 2, True), (108, 2, False))
    )
    said = one_k_text(found)
    assert said.startswith(
        "K by batch: 3 at 1-40, 2 at 41-108. From batch 59 no K keeps 12 ms: let at most 58 "
    )
    kept = dataclasses.replace(limited, k_by_batch=ranges((40, 3, True), (58, 2, True)))
    assert "no K keeps" not in one_k_text(kept)


def refitted_with(noise: float) -> Scenario:
    found = refit(synthetic_points((1, 4, 16, 64), (1, 3), truth={"round_host": 4.0}, noise=noise))
    return SCENARIO.model_copy(update={"refit": write_adjustment(adjustment_of(found))})


def test_a_refit_says_what_it_did_to_speedup_and_band() -> None:
    answer = advise(refitted_with(noise=0.01))
    said = refit_text(answer, ADVICE, 3)
    assert said.startswith("Your rows move the speedup predicted for K = 3 at batch 16 from ")
    (was, now) = (one.curve.speedup[one.batch_index, 3] for one in (ADVICE, answer))
    row = answer.batch_index
    half = [
        (c.high[row, 3] - c.low[row, 3]) / (2 * c.speedup[row, 3])
        for c in (ADVICE.curve, answer.curve)
    ]
    assert (
        f"from {was:.2f}× to {now:.2f}×; the likely range narrows from ±{half[0]:.0%} to "
        f"±{half[1]:.0%}."
    ) in said
    assert refit_text(ADVICE, ADVICE, 3) == "", "no refit, nothing to say"
    assert "stays ±" in refit_text(answer, answer, 3)


def test_times_of_a_refit_name_the_constants_that_moved_most_and_that_the_points_determine() -> (
    None
):
    found = advise(refitted_with(noise=0.01)).setup.adjustment
    assert found.learnt
    named = sorted(found.learnt, key=lambda name: -abs(math.log(found.factors[name])))[:2]
    moved = ", ".join(f"{FACTORS[name]} {found.factors[name] - 1:+.0%}" for name in named)
    assert refitted_times_text(found) == f"refitted on 8 points of yours ({moved})"
    still = dataclasses.replace(found, factors=dict.fromkeys(found.factors, 1.001))
    assert "(no constant that they determine moved by 1% or more)" in refitted_times_text(still)
    assert (
        refitted_times_text(dataclasses.replace(found, learnt=None))
        == "refitted on 8 points of yours"
    )
    open_ones = [name for name in found.factors if name not in found.learnt]
    assert open_ones
    moved = dataclasses.replace(found, factors=dict(found.factors) | dict.fromkeys(open_ones, 3.0))
    assert refitted_times_text(moved) == refitted_times_text(found)


def test_a_headline_names_published_runs_of_its_very_batch_where_all_contradict_it() -> None:
    """DeepSeek-V3 on eight H200 under SGLang: published at batch 32, K = 2 as 1.06x and 1.15x."""
    query = {
        "model_id": "deepseek-v3",
        "hardware_id": "h200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 8,
    }
    query |= {"engine": "sglang", "drafter_id": "mtp", "acceptance": "deepseek-r1-mtp-internal"}
    said = {
        batch: headline(advise(Scenario.model_validate({**query, "batch_size": batch})), 2)
        for batch in (4, 24, 32)
    }
    assert said[32].endswith("× modelled, 1.06× and 1.15× published")
    assert "published" not in said[24], "none is of it"
    other = advise(
        Scenario(model_id="gpt-oss-20b", hardware_id="b200-sxm", acceptance="2.7@3", batch_size=16)
    )
    assert any(run.batch_size == 16 for run in runs_beside(other.scenario, 1))
    assert "published" not in headline(other, other.recommendation.n_draft), (
        "some lie within the likely range"
    )


def test_the_band_after_own_runs_shrinks_as_in_the_study_and_never_grows() -> None:
    study = OwnRuns(
        "all",
        9,
        3,
        0.2,
        0.1,
        0.8,
        0.9,
        width_before=0.6,
        width_after=0.3,
        slope_before=0.0,
        slope_after=0.0,
    )
    assert half_width_after(1.5, 2.0, 2.5, study) == pytest.approx((0.25, 0.125))
    wider = dataclasses.replace(study, width_after=0.9)
    assert half_width_after(1.5, 2.0, 2.5, wider) == pytest.approx((0.25, 0.25))


def test_the_line_on_own_runs_takes_the_figures_of_the_kind_of_part_and_ends_with_a_refit() -> None:
    _, kinds = read_own_runs()
    card = advise(SCENARIO.model_copy(update={"hardware_id": "rtx-pro-6000-blackwell"}))
    for advice, kind in ((ADVICE, "data centre"), (card, "workstation")):
        at = (advice.batch_index, advice.curve_column)
        curve = advice.curve
        now, after = half_width_after(
            *(float(one[at]) for one in (curve.low, curve.speedup, curve.high)), kinds[kind]
        )
        assert own_runs_text(advice).startswith(
            f"Likely range ±{now:.0%} at K = {advice.curve_k}; about ±{after:.0%} once refitted "
            "to 4 benchmark"
        )
    refitted = dataclasses.replace(
        ADVICE, scenario=SCENARIO.model_copy(update={"refit": "on=h200-sxm/vllm/vllm"})
    )
    assert own_runs_text(refitted) == ""
