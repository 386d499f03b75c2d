"""Small runs that were judged wrong once, each with its right verdict. They lie beside the project:
skipped without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.show.words.diagnosis import view_of

CASES = Path(__file__).parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases lie beside the project")


def of_cases(*names: str, **values: str) -> Diagnosis:
    return diagnose([UserFile(name, (CASES / name).read_bytes()) for name in names], values)


def test_of_two_counterless_runs_a_k_that_is_too_long_is_named_and_no_drafter_blamed() -> None:
    verdict = of_cases(
        "c03_plain.json",
        "c03_eagle3_k7.json",
        hardware_id="h200-sxm",
        gpu_count="1",
        drafter="eagle3",
        draft_tokens_k="7",
    ).verdict
    assert (verdict.case, verdict.k, verdict.batch) == ("foreseen", 7, 16)
    assert verdict.measured == pytest.approx(0.89, abs=0.005)
    assert verdict.length == pytest.approx(2.16, abs=0.005)
    assert 0 < verdict.better_k < 7
    assert verdict.better > 1.0
    assert not verdict.faults


def test_a_launch_line_without_a_release_is_judged_by_the_newest_and_drafts_one_k() -> None:
    found = of_cases("c05_launch.sh", hardware_id="mi355x", gpu_count="8", batch_size="224")
    verdict = found.verdict
    assert (verdict.case, verdict.faults) == ("misconfigured", ("round_not_captured",))
    (evidence,) = found.findings[0].evidence
    assert evidence.value == 224 > evidence.limit == 512 // 4
    assert verdict.batch == 224
    at_224 = next(each for _, each in found.comparisons if each.batch_size == 224)
    assert verdict.fixed_k == at_224.recommended.n_draft
    text = view_of(found).command["text"]
    assert f'"num_speculative_tokens": {verdict.fixed_k}' in text
    assert verdict.fixed == at_224.recommended.speedup > 1.0


def test_slope_and_intercept_over_k_name_a_drafter_without_graphs() -> None:
    verdict = of_cases(
        "c06_rounds_by_k.csv",
        hardware_id="a100-80gb-sxm",
        gpu_count="1",
        model_id="qwen3.5-27b",
        weight_dtype="int4",
        engine="vllm",
        drafter="mtp",
    ).verdict
    assert (verdict.case, verdict.cause) == ("slower", "drafter")
    assert verdict.draft_s == pytest.approx(0.0237, abs=2e-4)
    assert verdict.draft_predicted_s == pytest.approx(0.0025, abs=2e-4)
    assert verdict.fixed_s == pytest.approx(0.022, abs=5e-4)
    assert verdict.baseline_token_s == pytest.approx(0.0175, abs=1e-4)
    assert verdict.draft_s > verdict.baseline_token_s


def test_positions_of_a_log_give_k() -> None:
    verdict = of_cases(
        "c09_positions.log",
        hardware_id="h200-sxm",
        gpu_count="8",
        model_id="glm-5.2",
        weight_dtype="fp8",
        drafter="dspark",
        engine="vllm",
    ).verdict
    assert (verdict.k, verdict.faults) == (7, ("k_too_long",))


def test_a_speedup_inside_its_range_is_not_outside_and_the_baseline_is() -> None:
    verdict = of_cases(
        "c14_band.csv",
        hardware_id="rtx-pro-6000-blackwell",
        gpu_count="4",
        tensor_parallel="4",
        model_id="glm-5.3-flash",
        weight_dtype="nvfp4",
        engine="vllm",
        drafter="mtp",
        accepted_length="2.4@3",
    ).verdict
    assert verdict.case == "baseline"
    assert verdict.measured == pytest.approx(1.373, abs=0.005)
    assert verdict.low < verdict.measured < verdict.high
    times = (verdict.baseline_s, verdict.baseline_predicted_s)
    assert times == pytest.approx((0.0051, 0.0103), abs=1e-4)
    assert verdict.baseline_s < verdict.baseline_low_s


def test_an_assistant_that_shares_the_targets_cache_is_predicted_as_mtp() -> None:
    found = of_cases(
        "c07_gemma4_mtp.csv",
        hardware_id="l40s",
        gpu_count="1",
        model_id="gemma-4-26b-a4b",
        weight_dtype="fp8",
        engine="vllm",
        drafter="mtp",
    )
    verdict = found.verdict
    assert (verdict.case, verdict.quantity, verdict.refusal) == ("slower", "round", None)
    assert verdict.measured == pytest.approx(2.27 / 69.4)
    assert len(found.comparisons) == 4
    assert {each.recommended.n_draft for _, each in found.comparisons} == {2, 4}
