"""Formats of a checkpoint's parts: layers and projections left out, mixed precision, cache."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.catalog.hf.config import architecture_from_config
from tests.catalog.formats import formats_from_config

# A latent-attention model as ModelOpt excludes modules: 2 dense and 4 routed layers and one MTP
# layer behind them.
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
}
LATENT |= {
    "vocab_size": 100,
    "first_k_dense_replace": 2,
    "intermediate_size": 128,
    "n_routed_experts": 8,
}
LATENT |= {
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "q_lora_rank": 16,
}
LATENT |= {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
LATENT |= {"num_nextn_predict_layers": 1}
HYBRID = {"model_type": "nemotron_h", "hidden_size": 64, "hybrid_override_pattern": "MEMEM*EM"}
HYBRID |= {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
    "n_routed_experts": 8,
}
HYBRID |= {
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
}
HYBRID |= {"ssm_state_size": 16, "n_groups": 1}
SMALL_PROJECTIONS = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")


def _modelopt(*excluded: str, **more: Any) -> dict[str, Any]:
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    return {**block, "exclude_modules": ["lm_head", *excluded], **more}


def _each(name: str, layers: range = range(6)) -> list[str]:
    return [f"model.layers.{layer}.{name}" for layer in layers]


def test_a_layer_left_out_as_a_whole_counts_for_every_part_that_it_has() -> None:
    block = _modelopt("model.layers.0*", "model.layers.1.*", *_each("mlp.shared_experts*"))
    formats = formats_from_config({**LATENT, "quantization_config": block})
    assert (formats.dense, formats.shared, formats.routed) == ("bf16", "bf16", "nvfp4")
    assert formats.attention == "nvfp4"  # two of six layers do not decide
    assert formats.mtp == "nvfp4"


def test_a_part_s_own_layers_decide_not_all_of_the_model_s() -> None:
    one = formats_from_config(
        {**LATENT, "quantization_config": _modelopt(*_each("mlp.down_proj", range(1)))}
    )
    assert one.dense == "bf16"  # one of the two dense layers
    routed = formats_from_config(
        {**LATENT, "quantization_config": _modelopt(*_each("mlp.experts*", range(3)))}
    )
    assert routed.routed == "nvfp4"  # layers 0 and 1 have no experts, so one of four is named


def test_a_layer_beyond_the_last_is_the_multi_token_prediction_module() -> None:
    formats = formats_from_config({**LATENT, "quantization_config": _modelopt("model.layers.6*")})
    assert (formats.mtp, formats.routed, formats.attention, formats.dense) == (
        "bf16",
        "nvfp4",
        "nvfp4",
        "nvfp4",
    )
    assert formats_from_config({**LATENT, "quantization_config": _modelopt("mtp.*")}).mtp == "bf16"
    named = _modelopt("model.layers.6.eh_proj", "model.layers.6.enorm")
    assert formats_from_config({**LATENT, "quantization_config": named}).mtp == "nvfp4"


def test_projections_left_out_one_by_one_are_told_from_the_one_that_is_not() -> None:
    names = [name for projection in SMALL_PROJECTIONS for name in _each(f"self_attn.{projection}")]
    config = {**LATENT, "quantization_config": _modelopt(*names)}
    formats = formats_from_config(config)
    assert (formats.attention, formats.attention_projections) == ("bf16", {"o_proj": "nvfp4"})
    warning = "attention is counted as bf16 throughout; the checkpoint has o_proj in nvfp4"
    assert warning in architecture_from_config(config).warnings
    for everything in (_each("self_attn.o_proj"), ["*.self_attn.*"]):
        block = _modelopt(*names, *everything)
        assert (
            formats_from_config({**LATENT, "quantization_config": block}).attention_projections
            == {}
        )


def test_softmax_layers_of_a_hybrid_may_be_left_out_beside_quantised_linear_ones() -> None:
    names = [f"backbone.layers.5.mixer.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
    names += [f"backbone.layers.4.mixer.{name}" for name in ("in_proj", "out_proj", "conv1d")]
    formats = formats_from_config({**HYBRID, "quantization_config": _modelopt(*names)})
    assert formats.attention == "nvfp4"
    assert formats.attention_projections == dict.fromkeys(
        ("k_proj", "o_proj", "q_proj", "v_proj"), "bf16"
    )


def test_mixed_precision_lists_say_the_output_head_and_single_projections() -> None:
    nvfp4 = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    fp8 = {"quant_algo": "FP8"}
    layers = {
        f"backbone.layers.{layer}.mixer.{name}": fp8
        for layer in (0, 2, 4, 7)
        for name in ("in_proj", "out_proj")
    }
    layers |= {"lm_head": nvfp4, "backbone.layers.1.mixer.experts.0.up_proj": nvfp4}
    block = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": layers,
        "exclude_modules": [
            "mtp*",
            "backbone.layers.5.mixer.q_proj",
            "backbone.layers.1.mixer.gate",
        ],
    }
    formats = formats_from_config({**HYBRID, "quantization_config": block})
    assert (formats.routed, formats.attention, formats.lm_head) == ("nvfp4", "fp8", "nvfp4")
    assert (formats.embedding, formats.mtp) == ("bf16", "bf16")
    assert formats.attention_projections == {"q_proj": "bf16"}
    assert formats.weight_dtypes.embedding == "bf16"


def test_experts_quantised_over_an_fp8_checkpoint_leave_the_rest_in_fp8() -> None:
    block = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            f"layers.{layer}.ffn.experts": {"quant_algo": "NVFP4"} for layer in range(2, 6)
        },
        "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "mtp.*"],
    }
    formats = formats_from_config({**LATENT, "quantization_config": block})
    assert (formats.routed, formats.shared, formats.attention) == (
        "nvfp4",
        "fp8_block",
        "fp8_block",
    )
    assert formats.mtp == "fp8_block"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"kv_cache_quant_algo": None}, None),
        ({"kv_cache_quant_algo": "FP9"}, None),
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, None),
        ({"kv_cache_scheme": ["FP8"]}, None),
        ({}, None),
    ],
)
def test_the_format_of_the_cache_is_reported_where_it_is_named(
    named: dict[str, Any], expected: str | None
) -> None:
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", **named}
    config = {**LATENT, "quantization_config": block}
    assert (
        formats_from_config(config).kv_cache
        == architecture_from_config(config).kv_cache_dtype
        == expected
    )


def test_compressed_tensors_quantise_the_output_head_unless_it_is_ignored() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }
    assert formats_from_config({**LATENT, "quantization_config": block}).lm_head == "fp8"
    ignoring = {**block, "ignore": ["re:.*lm_head.*"]}
    assert formats_from_config({**LATENT, "quantization_config": ignoring}).lm_head == "bf16"


@pytest.mark.parametrize(
    ("weights", "inputs", "scheme"),
    [
        (
            {"num_bits": 8, "type": "float"},
            {"num_bits": 8, "type": "float", "dynamic": True},
            "dynamic",
        ),
        (
            {"num_bits": 8, "type": "float"},
            {"num_bits": 8, "type": "float", "dynamic": False},
            "static",
        ),
        ({"num_bits": 8, "type": "float"}, None, None),
        (
            {"num_bits": 4, "type": "float", "group_size": 16},
            {"num_bits": 4, "dynamic": "local"},
            None,
        ),
    ],
)
def test_compressed_tensors_say_it_of_the_activations_of_an_8_bit_group(
    weights: dict[str, Any], inputs: dict[str, Any] | None, scheme: str | None
) -> None:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    block = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    assert formats_from_config({**LATENT, "quantization_config": block}).activation_scheme == scheme


def test_quark_says_it_of_its_input_tensors() -> None:
    tensors = {
        "weight": {"dtype": "fp8_e4m3"},
        "input_tensors": {"dtype": "fp8_e4m3", "is_dynamic": False},
    }
    block = {"quant_method": "quark", "global_quant_config": tensors}
    assert (
        formats_from_config({**LATENT, "quantization_config": block}).activation_scheme == "static"
    )
