"""The answer as a first screen says it: every K judged, headline, what flips it, what fits, what
own runs do."""

from __future__ import annotations

import dataclasses

import pytest

from advisor.answers import outcome as outcome_module
from advisor.answers.advice import advise
from advisor.answers.best_k import KRange
from advisor.answers.by_length import SHORTEST
from advisor.answers.flags import holds
from advisor.answers.outcome import FLAGS, length_flips, outcome_of
from advisor.answers.summary import (
    on_more_gpus,
    read_own_runs,
    stated_k,
)
from advisor.catalog.adjustment import write_adjustment
from advisor.measured.refit import adjustment_of
from advisor.measured.refit_result import Errors
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer
from advisor.show.words.basis import errors_text, refit_text
from tests.measured.refit_synthetic import refit, synthetic_points

SCENARIO = Scenario(acceptance="2.4@3")
ADVICE = advise(SCENARIO)


@pytest.mark.parametrize("typed", ["2.4@3", "2.3@3", "2.2@3", "1.2@3"])
def test_at_a_flip_of_the_accepted_length_another_k_is_served(typed: str) -> None:
    """Lengths are stated at the K that they were typed at, whatever K is recommended."""
    advice = advise(SCENARIO.model_copy(update={"acceptance": typed}))
    today = float(typed.partition("@")[0])
    assert stated_k(advice) == 3
    below, off, above = length_flips(advice)
    assert below or above
    for flip in filter(None, (below, off, above)):
        away = 0.02 if flip.accepted_length > today else -0.02
        assert recommended(flip.accepted_length + away) == flip.k_after
    for flip in filter(None, (below, above)):
        back = -0.02 if flip.accepted_length > today else 0.02
        assert recommended(flip.accepted_length + back) == advice.recommendation.n_draft
    accepted = live_answer(advice)["accepted"]
    assert (accepted["k"], accepted["now"]) == (3, today)


def test_a_flip_names_the_k_next_to_it_and_not_the_last_of_several() -> None:
    now = ADVICE.recommendation.n_draft
    flip = outcome_module._first_flip(ADVICE, [2.4, SHORTEST], now)
    assert flip is not None
    assert recommended(SHORTEST) == 0 < flip.k_after < now
    assert recommended(flip.accepted_length - 0.02) == flip.k_after


def recommended(length: float) -> int:
    """K that is recommended where this many tokens are accepted at K = 3."""
    scenario = SCENARIO.model_copy(update={"acceptance": f"{length:.3f}@3"})
    return advise(scenario).recommendation.n_draft


def test_a_limit_ends_at_the_last_batch_where_some_k_keeps_it() -> None:
    def ranges(*rows: tuple[int, int, bool]) -> tuple[KRange, ...]:
        starts = [1, *(end + 1 for end, _, _ in rows)]
        return tuple(
            KRange(start, end, k, 1.5, 0.0, in_limit)
            for start, (end, k, in_limit) in zip(starts, rows, strict=False)
        )

    limited = advise(SCENARIO.model_copy(update={"max_tpot_ms": 12.0}))
    missed = ranges((40, 3, True), (58, 2, True), (108, 2, False))
    outcome = outcome_of(dataclasses.replace(limited, k_by_batch=missed))
    assert (outcome.kept_to, outcome.admit) == (58, 58)
    outcome = outcome_of(dataclasses.replace(limited, k_by_batch=missed[:2]))
    assert (outcome.kept_to, outcome.admit) == (None, None)


def test_what_does_not_fit_names_the_bytes_and_gpus_on_which_it_does() -> None:
    assert outcome_of(ADVICE).wider_gpus is None
    large = SCENARIO.model_copy(update={"model_id": "deepseek-v3", "drafter_id": "mtp"})
    outcome = outcome_of(advise(large))
    assert outcome.needed_gib > outcome.usable_gib
    wider = on_more_gpus(large)
    assert wider is not None
    assert wider.n_gpus == outcome.wider_gpus
    assert load_setup(wider).memory.largest_batch >= 16
    smaller = wider.model_copy(
        update={"n_gpus": wider.n_gpus // 2, "tensor_parallel": wider.n_gpus // 2}
    )
    assert load_setup(smaller).memory.largest_batch < 16


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    """By hand: as many caches as the memory left by the weights holds, whole ones."""
    long = SCENARIO.model_copy(update={"context_tokens": 32_768})
    memory = load_setup(long).memory
    left = memory.usable_bytes - memory.weights_bytes - memory.drafter_bytes
    largest = int(left // memory.kv_bytes_per_sequence)
    for batch, fits in ((largest, True), (largest + 1, False)):
        advice = advise(long.model_copy(update={"batch_size": batch}))
        outcome = outcome_of(advice)
        assert holds(FLAGS, "fits", outcome.facts) is fits
        assert (outcome.wider_gpus is None) is fits


def test_weights_that_do_not_fit_take_as_many_gpus_as_hold_them() -> None:
    """671 B weights of a byte and more: eight GPUs of 127 GiB usable, never four."""
    for gpus in (1, 4):
        placed = {"model_id": "deepseek-v3", "n_gpus": gpus, "tensor_parallel": gpus}
        scenario = SCENARIO.model_copy(update=placed)
        outcome = outcome_of(advise(scenario))
        assert (outcome.largest, outcome.weights_fill) == (0, True)
        assert load_setup(scenario).memory.weights_bytes > 671e9 / gpus
        assert outcome.wider_gpus == 8
    longer = SCENARIO.model_copy(update={"context_tokens": 131_072, "batch_size": 1024})
    assert outcome_of(advise(longer)).weights_fill is False, "the caches are too many"


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
        "in the 80% range). "
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
    assert "(median error 26%, 75% in the 80% range, 50% on the right side of 1×)" in said
    assert said.endswith("78% lie in the 80% range and 87% on the right side of 1×.")


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
        f"from {was:.2f}× to {now:.2f}×; the 80% range narrows from ±{half[0]:.0%} to "
        f"±{half[1]:.0%}."
    ) in said
    assert refit_text(ADVICE, ADVICE, 3) == "", "no refit, nothing to say"
    assert "stays ±" in refit_text(answer, answer, 3)


def test_published_runs_of_the_very_batch_are_facts_of_the_answer() -> None:
    """DeepSeek-V3 on eight H200 under SGLang: published at batch 32, K = 2 as 1.06x and 1.15x."""
    eight = {
        "model_id": "deepseek-v3",
        "hardware_id": "h200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "engine": "sglang",
        "drafter_id": "mtp",
        "acceptance": "deepseek-r1-mtp-internal",
    }
    here = {
        batch: outcome_of(advise(Scenario.model_validate({**eight, "batch_size": batch})))
        for batch in (24, 32)
    }
    at_32 = here[32]
    assert (at_32.here_n, at_32.here_outside) == (2, -1)
    assert (at_32.here_low, at_32.here_high) == pytest.approx((1.06, 1.15), abs=0.005)
    assert (here[24].here_n, here[24].here_low) == (0, None)
    within = outcome_of(
        advise(Scenario(model_id="gpt-oss-20b", hardware_id="b200-sxm", acceptance="2.7@3"))
    )
    assert within.here_n > 0
    assert within.here_outside == 0


def test_the_range_after_own_runs_takes_the_figures_of_the_kind_of_part_and_ends_with_a_refit() -> (
    None
):
    _, kinds = read_own_runs()
    card = advise(SCENARIO.model_copy(update={"hardware_id": "rtx-pro-6000-blackwell"}))
    for advice, kind in ((ADVICE, "data centre"), (card, "workstation")):
        row = advice.drafts[advice.curve_k]
        half_width = (row.speedup_high - row.speedup_low) / (2.0 * row.speedup)
        outcome = outcome_of(advice)
        assert outcome.half_width == pytest.approx(half_width)
        assert outcome.half_width_after == kinds[kind].width_after / 2.0
    scenario = SCENARIO.model_copy(update={"refit": "on=h200-sxm/vllm/vllm"})
    refitted = outcome_of(dataclasses.replace(ADVICE, scenario=scenario))
    assert refitted.half_width is None
