"""A published row as a question: names, lengths, metrics and the kind of engine build."""

from __future__ import annotations

import pytest

from advisor.measured.row_questions import question_of
from advisor.prediction import AdvisorError
from tests.measured.test_points import ROW


@pytest.mark.parametrize(
    ("column", "name", "expected"),
    [
        ("hardware_id", "H20", "h20"),
        ("hardware_id", "NVIDIA RTX A5000", "rtx-a5000"),
        ("hardware_id", "RTX 3090", "rtx-3090"),
        ("hardware_id", "AMD Instinct MI350X", "mi350x"),
        ("hardware_id", "DGX Spark", "gb10-dgx-spark"),
        ("hardware_id", "RTX PRO 6000 Blackwell Max-Q", "rtx-pro-6000-blackwell"),
        ("model_id", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("model_id", "Kimi-K3", "kimi-k3"),
        ("model_id", "qwen3.6-27b (dense)", "qwen3.5-27b"),
    ],
)
def test_names_as_sources_write_them_are_understood(column: str, name: str, expected: str) -> None:
    assert getattr(question_of(ROW | {column: name}).scenario, column) == expected


@pytest.mark.parametrize("name", ["RTX 3060 Laptop 6 GB + CPU offload", "Apple M3 Max", "H100 and H200", "H"])
def test_an_accelerator_that_none_of_the_profiles_is_stays_refused(name: str) -> None:
    with pytest.raises(AdvisorError, match="is not one of the"):
        question_of(ROW | {"hardware_id": name}).setup()


def test_a_same_chip_of_another_edition_is_named_among_what_was_assumed() -> None:
    asked = question_of(ROW | {"hardware_id": "RTX PRO 6000 Blackwell Max-Q"})
    assert "hardware_id=rtx-pro-6000-blackwell" in asked.assumed
    assert not any(text.startswith("hardware_id") for text in question_of(ROW).assumed)


def test_a_weight_format_in_the_name_counts_where_the_row_states_none() -> None:
    name = {"model_id": "Qwen/Qwen3-30B-A3B-FP8"}
    assert question_of(ROW | name).scenario.weight_dtype == "fp8_block"
    assert question_of(ROW | name | {"weight_dtype": "bf16"}).scenario.weight_dtype == "bf16"


def test_a_prompt_of_no_tokens_is_a_short_one() -> None:
    short, unstated = question_of(ROW | {"input_tokens": "0"}), question_of(ROW)
    assert short.scenario == unstated.scenario
    assert "context_tokens=2048" in short.assumed
    with_output = question_of(ROW | {"input_tokens": "0", "output_tokens": "512"}).scenario
    assert with_output.context_tokens == 512 + 256
    assert with_output.input_tokens is None


@pytest.mark.parametrize(
    ("metric", "charged"),
    [
        ("output_tok_per_s", True),
        ("total_tok_per_s", True),
        ("output_tok_per_s_per_gpu", True),
        ("request_latency_s", True),
        ("tpot_ms", False),
        ("decode_tok_per_s", False),
    ],
)
def test_prefill_is_charged_to_throughput_and_request_latency(metric: str, charged: bool) -> None:
    lengths = {"input_tokens": "1000", "output_tokens": "500", "metric": metric}
    assert (question_of(ROW | lengths).scenario.input_tokens == 1000) == charged


@pytest.mark.parametrize(("cell", "charged"), [("", True), ("0", True), ("1", False), ("1.0", False)])
def test_a_row_whose_prompts_were_cached_pays_no_prefill_and_keeps_its_context(cell: str, charged: bool) -> None:
    lengths = {"input_tokens": "1000", "output_tokens": "500", "metric": "output_tok_per_s"}
    scenario = question_of(ROW | lengths | {"prompts_cached": cell}).scenario
    assert (scenario.input_tokens == 1000) == charged
    assert scenario.context_tokens == 1250


def test_a_round_that_emits_one_token_accepts_nothing() -> None:
    asked = question_of(ROW | {"accepted_length": "1.0"})
    assert asked.setup().acceptance.accepted_length[3] == 1.0


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"engine": "SGLang", "date": "2026"}, "other"),
        ({"engine": "SGLang", "date": "2025"}, "sglang-synchronous"),
        ({"engine": "SGLang", "date": "2026", "engine_version": "spec v2, FA4"}, "sglang"),
        ({"engine": "SGLang", "date": "2026", "notes": "NEXTN, spec v2; MoE"}, "sglang"),
        ({"engine": "SGLang", "date": "2026-05"}, "sglang"),
        ({"engine": "SGLang", "date": "2026-05-05", "hardware_id": "mi355x"}, "sglang-rocm"),
        ({"engine": "SGLang", "hardware_id": "rtx-pro-6000-blackwell", "gpu_count": "1"}, "sglang-workstation"),
        ({"engine": "vLLM", "date": "2026"}, "vllm"),
        ({"engine": "vLLM", "date": "2025-06"}, "vllm-synchronous"),
        ({"engine": "vLLM", "date": "2025"}, "other"),
        ({"engine": "vLLM", "engine_version": "0.6.3"}, "vllm-v0"),
        ({"engine": "vLLM", "date": "2024-11"}, "vllm-v0"),
        ({"engine": "vLLM", "hardware_id": "gb10-dgx-spark", "gpu_count": "1", "date": "2025-06"}, "vllm-workstation"),
        ({"engine": "vLLM", "hardware_id": "MI300X", "gpu_count": "1"}, "vllm-rocm"),
        ({"engine": "TokenSpeed"}, "other"),
    ],
)
def test_the_kind_of_build_follows_from_what_the_row_states(cells: dict[str, str], expected: str) -> None:
    assert question_of(ROW | cells).engine_class == expected
