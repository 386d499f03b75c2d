"""Which engine runs on which accelerators, and which weight formats on which generation."""

from __future__ import annotations

import pytest

from advisor.catalog.engines import engines, load_engine
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError


def warnings(**choices: object) -> list[str]:
    found = load_setup(Scenario(acceptance="2.4@3", **choices)).warnings  # type: ignore[arg-type]
    return [text for text in found if "weight-only" in text or "may not run" in text]


@pytest.mark.parametrize("hardware_id", ["mi300x", "gaudi3", "tpu-v6e"])
def test_tensorrt_llm_off_nvidia_is_refused_with_what_to_choose(hardware_id: str) -> None:
    name = load_hardware(hardware_id).name
    with pytest.raises(AdvisorError) as caught:
        load_setup(Scenario(acceptance="2.4@3", engine="trtllm", hardware_id=hardware_id))
    assert f"TensorRT-LLM does not run on {name}" in str(caught.value)
    assert "choose vllm, sglang or other" in str(caught.value)
    for engine in ("vllm", "sglang", "other"):
        load_setup(Scenario(acceptance="2.4@3", engine=engine, hardware_id=hardware_id))


@pytest.mark.parametrize(
    ("hardware_id", "dtype", "native"),
    [
        ("h200-sxm", "nvfp4", False),
        ("h200-sxm", "fp8", True),
        ("a100-80gb-sxm", "fp8", False),
        ("b200-sxm", "nvfp4", True),
        ("mi300x", "nvfp4", False),
        ("mi300x", "fp8", True),
        ("mi355x", "nvfp4", False),
        ("a100-80gb-sxm", "int4", True),
    ],
)
def test_a_format_without_arithmetic_of_its_own_is_said_to_be_widened(
    hardware_id: str, dtype: str, native: bool
) -> None:
    said = [text for text in warnings(hardware_id=hardware_id, weight_dtype=dtype) if "weight-only" in text]
    assert (said == []) is native
    if said:
        assert f"has no arithmetic in {dtype}" in said[0]


@pytest.mark.parametrize(
    ("engine", "hardware_id", "dtype", "listed"),
    [
        ("trtllm", "h200-sxm", "nvfp4", False),
        ("trtllm", "a100-80gb-sxm", "fp8", False),
        ("trtllm", "l40s", "fp8_block", False),
        ("trtllm", "rtx-pro-6000-blackwell", "fp8_block", False),
        ("trtllm", "b200-sxm", "nvfp4", True),
        ("trtllm", "h200-sxm", "fp8", True),
        ("sglang", "h200-sxm", "nvfp4", False),
        ("sglang", "mi300x", "nvfp4", True),
        ("sglang", "mi355x", "nvfp4", False),
        ("vllm", "h200-sxm", "nvfp4", True),
    ],
)
def test_a_format_that_the_engine_does_not_list_is_said_with_the_source(
    engine: str, hardware_id: str, dtype: str, listed: bool
) -> None:
    said = [
        text for text in warnings(engine=engine, hardware_id=hardware_id, weight_dtype=dtype) if "may not run" in text
    ]
    assert (said == []) is listed
    assert all("documentation" in text for text in said)


def test_a_format_of_no_weights_is_not_warned_of() -> None:
    """Routed experts in mxfp4 on Blackwell, attention in bf16: nothing is widened."""
    assert warnings(model_id="gpt-oss-20b", hardware_id="b200-sxm") == []
    assert warnings(hardware_id="h200-sxm") == []


def test_every_rule_names_generations_and_vendors_that_profiles_have() -> None:
    profiles = [load_hardware(name) for name in hardware_ids()]
    for engine in engines():
        assert set(engine.vendors) <= {one.vendor for one in profiles}
        for rule in engine.unlisted:
            for start in rule.generations:
                assert any(one.generation.startswith(start) and one.vendor in engine.vendors for one in profiles), start
    assert load_engine("trtllm").vendors == ("NVIDIA",)
