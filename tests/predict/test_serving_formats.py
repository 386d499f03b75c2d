"""Weights and cache in the formats that engines serve: as published where a release is known, and why."""

from __future__ import annotations

import json

import pytest

from advisor.catalog.models import load_model, model_ids, model_profile, published_architecture
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.serving_formats import served_weights
from advisor.predict.setup import Setup


def setup(model_id: str, **changes: object) -> Setup:
    asked = {"acceptance": "2@3", "model_id": model_id, "hardware_id": "b200-sxm", "drafter_id": "ngram"}
    return load_setup(Scenario(**{**asked, "n_gpus": 8, "tensor_parallel": 8, **changes}))


def test_a_model_published_in_the_format_keeps_the_parts_that_its_release_keeps() -> None:
    found = setup("minimax-m2", weight_dtype="nvfp4")
    assert (found.architecture.dtypes.routed, found.architecture.dtypes.attention) == ("nvfp4", "bf16")
    assert any("keeps its attention in bf16" in warning for warning in found.warnings)
    assert any("NVFP4" in source for source in found.sources) or found.architecture.sources[-1] in found.sources


def test_a_model_without_such_a_release_gets_the_format_in_every_matrix() -> None:
    found = setup("mixtral-8x7b", weight_dtype="nvfp4").architecture.dtypes
    assert {found.routed, found.attention} == {"nvfp4"}


def test_fp8_of_a_model_published_in_blocks_means_blocks_and_says_so() -> None:
    blocks, tensors = setup("qwen3-235b-a22b", weight_dtype="fp8"), setup("llama-3.1-8b", weight_dtype="fp8")
    assert blocks.architecture.dtypes.routed == "fp8_block"
    assert any("blocks of 128 x 128" in warning for warning in blocks.warnings)
    assert tensors.architecture.dtypes.dense == "fp8"


def test_a_stated_format_of_the_experts_wins_over_the_release() -> None:
    found = setup("minimax-m2", weight_dtype="nvfp4", expert_dtype="fp8").architecture.dtypes
    assert (found.routed, found.attention) == ("fp8", "bf16")


@pytest.mark.parametrize(
    ("model_id", "changes", "dtype", "why"),
    [
        ("qwen3-30b-a3b", {}, "bf16", "names none"),
        ("qwen3-30b-a3b", {"kv_dtype": "fp8"}, "fp8", "as chosen"),
        ("deepseek-v3", {"kv_dtype": "bf16", "engine": "trtllm", "weight_dtype": "nvfp4"}, "bf16", "as chosen"),
        ("deepseek-v3", {"engine": "trtllm"}, "bf16", "names none"),
        ("deepseek-v3", {"weight_dtype": "nvfp4"}, "fp8", "checkpoint says"),
        ("mixtral-8x7b", {"engine": "trtllm", "weight_dtype": "fp8"}, "fp8", "TensorRT-LLM"),
        ("mixtral-8x7b", {"engine": "vllm", "weight_dtype": "fp8"}, "bf16", "names none"),
        ("glm-5", {"engine": "sglang"}, "fp8", "sparse attention"),
        ("glm-5", {"engine": "sglang", "hardware_id": "h200-sxm"}, "bf16", "names none"),
    ],
)
def test_the_cache_is_what_the_checkpoint_and_the_engine_make_it(
    model_id: str, changes: dict[str, object], dtype: str, why: str
) -> None:
    found = setup(model_id, **changes)
    assert (found.cache.dtype, found.kv_bytes_per_element) == (dtype, {"bf16": 2.0, "fp8": 1.0}[dtype])
    assert why in found.cache.sentence


def test_a_smaller_cache_holds_more_sequences() -> None:
    wide, narrow = (setup("mixtral-8x7b", kv_dtype=kv).memory.largest_batch for kv in ("bf16", "fp8"))
    assert narrow >= 2 * wide


def test_every_shipped_model_can_be_served_in_each_of_its_published_formats() -> None:
    for model_id in model_ids():
        for release in model_profile(model_id).published_formats:
            asked = Scenario(acceptance="2@3", model_id=model_id, weight_dtype=release.weight_format)
            found = served_weights(load_model(model_id), asked)
            assert found.dtypes == published_architecture(model_id, release.weight_format).dtypes
            assert found.kv_cache_dtype == published_architecture(model_id, release.weight_format).kv_cache_dtype


def served_fp8(scheme: str | None, engine: str, **changes: object) -> Setup:
    """Llama-3.1-70B in fp8 of tensors, its file stating `scheme`."""
    config = dict(model_profile("llama-3.1-70b").config)
    stated = {} if scheme is None else {"activation_scheme": scheme}
    config["quantization_config"] = {"quant_method": "fp8", **stated}
    scenario = Scenario(
        model_id="own",
        model_config_json=json.dumps(config),
        engine=engine,
        n_gpus=2,
        tensor_parallel=2,
        acceptance="2.4@3",
        **changes,  # type: ignore[arg-type]
    )
    return load_setup(scenario)


def test_a_dynamic_activation_scheme_pays_for_its_scales_where_the_engine_s_table_has_them() -> None:
    static, dynamic, silent = (served_fp8(scheme, "trtllm").costs for scheme in ("static", "dynamic", None))
    assert dynamic.dense.t0_s > static.dense.t0_s + 3e-6
    assert silent.dense == static.dense
    assert served_fp8("dynamic", "vllm").costs.dense == served_fp8("static", "vllm").costs.dense


def test_the_scheme_of_a_checkpoint_ends_with_its_format() -> None:
    own = served_fp8("dynamic", "trtllm")
    assert own.architecture.activation_scheme == "dynamic"
    assert served_fp8("dynamic", "trtllm", weight_dtype="nvfp4").architecture.activation_scheme is None
    assert served_fp8("dynamic", "trtllm", weight_dtype="fp8").costs.dense == own.costs.dense


def test_a_file_that_is_in_the_format_asked_for_is_taken_as_it_is_stored() -> None:
    """Also where a known release of those dimensions stores it otherwise."""
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*self_attn*", "lm_head"]}
    for experts in (128, 129):
        config = dict(model_profile("qwen3-30b-a3b").config) | {"num_experts": experts}
        text = json.dumps(config | {"quantization_config": block})
        stored, asked = (
            setup("mine", n_gpus=1, tensor_parallel=1, model_config_json=text, weight_dtype=chosen).architecture.dtypes
            for chosen in (None, "nvfp4")
        )
        assert asked == stored
        assert (stored.routed, stored.attention) == ("nvfp4", "bf16")
