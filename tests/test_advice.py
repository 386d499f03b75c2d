"""advise(): verdicts, limits, warnings, what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from advisor.advice import advice_on, advise
from advisor.hardware import load_hardware
from advisor.prediction import AdvisorError, Tier
from advisor.runtime import k_at
from advisor.scenario.scenario import Scenario

QWEN = Scenario(
    hardware_id="h200-sxm", model_id="qwen3-30b-a3b", drafter_id="eagle3", acceptance="2.4@3", batch_size=16
)
COMMAND_A = Scenario(
    hardware_id="h200-sxm",
    n_gpus=4,
    tensor_parallel=4,
    model_id="command-a",
    weight_dtype="fp8",
    drafter_id="eagle3",
    acceptance="2.73@3",
)


def test_the_verdict_names_batch_hardware_k_speedup_band_and_tier() -> None:
    advice = advise(QWEN)
    answer = advice.recommendation
    for piece in ("batch 16", "H200", f"K = {answer.k_draft}", f"{answer.speedup.value:.2f}x", "fitted"):
        assert piece in answer.verdict
    assert answer.speedup.low <= answer.speedup.value <= answer.speedup.high
    assert answer.speedup.tier is Tier.FITTED


def test_the_recommended_k_has_the_least_expected_loss_at_the_target_batch() -> None:
    advice = advise(QWEN)
    assert advice.curve.batches[advice.batch_index] == 16
    assert [item.k_draft for item in advice.drafts if item.recommended] == [advice.recommendation.k_draft]
    assert advice.recommendation.regret <= min(item.expected_loss for item in advice.drafts) + 0.005


def test_a_drafter_that_is_never_right_is_advised_against_in_words() -> None:
    answer = advise(QWEN.model_copy(update={"acceptance": "0.05", "batch_size": 128})).recommendation
    assert answer.k_draft == 0
    assert answer.speedup.value == 1.0
    assert "do not speculate" in answer.verdict
    assert "expected to lose" in answer.verdict or "slowdown" in answer.verdict


@pytest.mark.parametrize("batch", [1, 7, 16, 24, 32, 40, 64, 300])
def test_the_recommended_k_is_the_one_the_schedule_runs(batch: int) -> None:
    """One batch has one K: in the verdict, the table by batch and the engine's configuration."""
    advice = advise(QWEN.model_copy(update={"batch_size": batch}))
    assert advice.recommendation.k_draft == k_at(advice.k_by_batch, batch)


def test_a_batch_that_does_not_fit_gets_the_k_it_would_have() -> None:
    scenario = QWEN.model_copy(update={"batch_size": 4096})
    advice = advise(scenario)
    assert advice.k_by_batch[-1].batch_end == advice.setup.memory.largest_batch < 4096
    loss = [item.expected_loss for item in advice.drafts]
    assert advice.recommendation.regret <= min(loss) + 0.005


def test_a_gain_that_may_be_a_loss_is_called_hardly_worth_it_with_its_odds() -> None:
    """Accepted lengths are searched until the band at batch 256 holds 1 and K > 0 is still the better bet."""
    for length in np.arange(1.05, 3.0, 0.05):
        answer = advise(QWEN.model_copy(update={"batch_size": 256, "acceptance": f"{length:.2f}@3"})).recommendation
        if answer.k_draft and answer.speedup.low < 1.0:
            break
    hardly = "Hardly worth it: it" if answer.speedup.value < 1.1 else "It"
    assert f" {hardly} may lose; the chance of a gain is" in answer.verdict
    assert 0.5 < answer.p_gain < 0.95
    assert f"chance of a gain {answer.p_gain:.0%}" in answer.odds
    certain = replace(answer, p_gain=1.0, p_best=0.996, regret=0.0).odds
    assert certain.endswith("is best over 99%, chance of a gain over 99%, expected loss under 0.1%")
    sure = advise(QWEN).recommendation
    assert sure.speedup.low > 1.0
    assert "Hardly" not in sure.verdict


def test_the_dense_model_gains_less_and_less_while_the_moe_has_a_sweet_spot_inside() -> None:
    moe, dense = advise(QWEN), advise(COMMAND_A)
    assert np.all(np.diff(dense.curve.speedup[:, 3]) <= 1e-9)
    assert 4 < moe.sweet_spot_batch < 512
    assert dense.sweet_spot_batch == 1


def test_the_schedule_covers_every_batch_without_gap_or_overlap() -> None:
    ranges = advise(QWEN).k_by_batch
    assert ranges[0].batch_start == 1
    for left, right in itertools.pairwise(ranges):
        assert right.batch_start == left.batch_end + 1


def test_a_limit_on_time_per_token_is_kept_or_its_breach_is_said() -> None:
    free = advise(QWEN).recommendation
    kept = advise(QWEN.model_copy(update={"max_tpot_ms": free.tpot_s * 1e3 * 1.05}))
    assert kept.recommendation.meets_limit
    assert kept.recommendation.tpot_s <= free.tpot_s * 1.05
    broken = advise(QWEN.model_copy(update={"max_tpot_ms": 0.01}))
    assert not broken.recommendation.meets_limit
    assert any("0.01 ms per output token" in warning for warning in broken.warnings)
    assert "It misses the limit of 0.01 ms per output token" in broken.recommendation.verdict
    assert "misses" not in kept.recommendation.verdict
    assert broken.recommendation.k_draft == advise(QWEN).recommendation.k_draft


def test_a_model_too_large_for_its_gpus_is_warned_about_with_the_way_out() -> None:
    advice = advise(QWEN.model_copy(update={"model_id": "deepseek-v3", "hardware_id": "l40s"}))
    assert any(warning.startswith("Does not fit") and "tensor parallel" in warning for warning in advice.warnings)
    assert advice.setup.memory.largest_batch == 0


def test_a_batch_too_large_for_memory_is_told_the_largest_that_fits() -> None:
    advice = advise(QWEN.model_copy(update={"batch_size": 4096, "context_tokens": 32768}))
    largest = advice.setup.memory.largest_batch
    assert 0 < largest < 4096
    assert any(f"is {largest}" in warning for warning in advice.warnings)
    assert not any(
        "fit" in w
        for w in advise(QWEN.model_copy(update={"batch_size": largest, "context_tokens": 32768})).setup.warnings
    )


def test_warnings_speak_only_of_parts_the_model_has() -> None:
    assert not any("mla" in warning or "latent" in warning for warning in advise(QWEN).warnings)
    assert not any("all-to-all" in warning or "all_to_all" in warning for warning in advise(QWEN).warnings)


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"hardware_id": "h300"}, "h300"),
        ({"model_id": "gpt-9"}, "gpt-9"),
        ({"model_id": "/etc/passwd"}, "neither a shipped model"),
        ({"drafter_id": "oracle"}, "oracle"),
        ({"routing": "made-up"}, "made-up"),
        ({"acceptance": "9@3"}, "9"),
        ({"drafter_id": "mtp"}, "multi-token-prediction"),
        ({"n_gpus": 3, "expert_parallel": 3}, "does not divide 128 experts"),
        ({"model_id": "qwen3-8b", "n_gpus": 2, "expert_parallel": 2}, "dense"),
        ({"model_config_json": "{"}, "JSON"),
        ({"model_config_json": "[]"}, "object"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(change: dict[str, object], fragment: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        advise(QWEN.model_copy(update=change))
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_answer_on_another_accelerators_kernels_says_whose_they_are():
    own, borrowed = (
        advise(Scenario(hardware_id=one, model_id="qwen3-30b-a3b", acceptance="2.4@3"))
        for one in ("h100-sxm", "h800-sxm")
    )
    assert "measurements of this accelerator" in own.recommendation.speedup.because
    assert "this accelerator" not in borrowed.recommendation.speedup.because
    assert f"{load_hardware('h100-sxm').name}, the same chip" in borrowed.recommendation.speedup.because


@pytest.mark.parametrize(("acceptance", "equal"), [("2.73@3", True), ("2.3@3", False)])
def test_plain_decoding_that_stands_because_nothing_tells_it_apart_says_so(acceptance: str, equal: bool) -> None:
    """At 2.73 tokens K = 1 even loses less; within the noise the smaller K stands, and a reader is told why."""
    scenario = Scenario(hardware_id="b200-sxm", model_id="gpt-oss-20b", acceptance=acceptance, batch_size=512)
    answer = advise(scenario)
    assert answer.recommendation.k_draft == 0
    assert answer.drafts[1].as_good == equal
    assert ("so the smaller K is taken" in answer.recommendation.verdict) == equal


def test_what_another_engine_loads_is_answered_with_its_own_kernels() -> None:
    answer = advise(QWEN)
    own = advice_on(answer, "sglang")
    assert own.to_serve == advise(QWEN.model_copy(update={"engine": "sglang"})).to_serve
    assert own.to_serve != answer.to_serve
    assert advice_on(answer, QWEN.engine) is answer
