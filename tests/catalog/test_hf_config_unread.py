"""Nothing of a config.json's expert, draft and quantisation blocks is unread in silence.

What was misread once, each with the total that its publisher states.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model, model_ids, model_profile, with_quantisation_file
from advisor.physics.architecture import (
    Architecture,
    kv_bytes,
    mtp_ffn,
    mtp_mixer,
    parameter_counts,
    weight_bytes,
    weight_bytes_by_component,
)
from advisor.physics.draft import draft_architecture, load_drafter
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError
from tests.golden.sentences import Golden, lines_with

PACKAGE = importlib.util.find_spec("aiconfigurator_core")


def config_of(model_id: str, **changes: Any) -> dict[str, Any]:
    return {**model_profile(model_id).config, **changes}


def read(config: dict[str, Any]) -> Architecture:
    return architecture_from_config(config, "mine")


def said_of(config: dict[str, Any], key: str) -> list[str]:
    return [text for text in read(config).warnings if key in text]


@pytest.mark.parametrize(
    ("key", "value", "names"),
    [
        ("moe_group_width", 512, "GB of routed experts"),
        ("num_experts_per_layer", [64, 128], "GB of routed experts"),
        ("router_hidden_size", 256, "GB of routed experts"),
        ("mtp_use_dedicated_embeddings", True, "GB of multi-token-prediction modules"),
        ("num_mtp_experts", 64, "GB of multi-token-prediction modules"),
        ("mtp_transformer_layers", 2, "GB of multi-token-prediction modules"),
    ],
)
def test_an_unread_key_is_named_with_what_it_may_change(
    key: str, value: object, names: str, golden: Golden
) -> None:
    printed = said_of(config_of("glm-4.5", **{key: value}), key)
    assert len(printed) == 1
    golden(not_read=lines_with(printed[0], "is not"))
    assert names in printed[0]
    size = weight_bytes_by_component(load_model("glm-4.5"))["mtp" if "mtp" in key else "routed"]
    assert f"{size / 1e9:,.3g} GB" in printed[0]


def test_an_unread_key_beside_or_inside_a_block_of_the_language_model_is_named_too() -> None:
    wrapped = {
        "model_type": "glm4v_moe",
        "vision_config": {},
        "moe_group_width": 512,
        "num_nextn_predict_layers": 2,
    }
    inner = {
        key: value
        for key, value in config_of("glm-4.5").items()
        if key != "num_nextn_predict_layers"
    }
    assert said_of({**wrapped, "text_config": inner}, "moe_group_width")
    assert read({**wrapped, "text_config": inner}).mtp_modules == 2


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ({"quant_method": "fp8", "outlier_columns": 128}, "quantization_config.outlier_columns"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "quantization_config.group_size"),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "moe_quant_algo": "NVFP4"},
            "moe_quant_algo",
        ),
    ],
)
def test_an_unread_key_of_the_quantisation_names_all_weights(
    block: dict[str, Any], key: str
) -> None:
    config = config_of("qwen3-30b-a3b", quantization_config=block)
    size = weight_bytes(read(config), include_mtp=True)
    assert [f"{size / 1e9:,.3g} GB of weights" in text for text in said_of(config, key)] == [True]


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_topk_prob": True, "router_aux_loss_coef": 0.01, "output_router_logits": False},
        {
            "moe_dropout": 0.1,
            "num_mtp_experts": 0,
            "moe_group_width": None,
            "mtp_transformer_layers": 1,
        },
        {
            "quantization_config": {
                "quant_method": "gptq",
                "bits": 4,
                "group_size": 128,
                "desc_act": False,
            }
        },
    ],
)
def test_keys_that_size_nothing_or_say_nothing_are_not_named(changes: dict[str, Any]) -> None:
    assert said_of(config_of("glm-4.5", **changes), "is not read") == []


def test_two_keys_that_count_experts_differently_are_told() -> None:
    said = said_of(config_of("qwen3-30b-a3b", n_routed_experts=64), "differs from")
    assert said == ["num_experts (128) differs from n_routed_experts (64), which is read"]


def test_a_dense_model_with_keys_of_experts_is_told_of_them() -> None:
    said = said_of(config_of("qwen3-8b", expert_hidden_width=512), "expert_hidden_width")
    assert said == [
        "expert_hidden_width (512) is not read: it may change experts that are not counted"
    ]


@pytest.mark.parametrize("model_id", model_ids())
def test_every_key_of_the_shipped_models_is_read(model_id: str) -> None:
    assert said_of(dict(model_profile(model_id).config), "is not read") == []


@pytest.mark.skipif(PACKAGE is None, reason="aiconfigurator-core is not installed")
def test_every_key_of_the_published_files_is_read() -> None:
    assert PACKAGE.origin is not None
    read_files = 0
    for path in sorted((Path(PACKAGE.origin).parent / "model_configs").glob("*_config.json")):
        if path.name.endswith("hf_quant_config.json"):
            continue
        try:
            found = architecture_from_config(
                with_quantisation_file(path, path.read_bytes()), "mine"
            )
        except AdvisorError:
            continue  # a kind of model that is refused as a whole
        assert [
            text for text in found.warnings if "is not read" in text or "differs from" in text
        ] == [], path.name
        read_files += 1
    assert read_files > 60


def test_the_format_of_experts_is_read_inside_the_quantisation_block(golden: Golden) -> None:
    """DeepSeek-V4.1-Flash: 307 GB with its drafting stages, which once read as 554."""
    config = config_of("deepseek-v4.1-flash")
    model = read(config)
    assert (model.dtypes.routed, model.dtypes.attention) == ("mxfp4", "fp8_block")
    stages = said_of(config, "DSpark")
    assert stages
    golden(gb_experts=lines_with(stages[0], "GB of"))
    assert (weight_bytes(model) + 7.22e9) / 1e9 == pytest.approx(307, rel=0.01)
    assert "197 GB" in said_of(config, "n-gram tables")[0]
    with pytest.raises(AdvisorError, match="expert_dtype"):
        read(
            config_of(
                "deepseek-v4.1-flash",
                quantization_config={"quant_method": "fp8", "expert_dtype": "fp3"},
            )
        )


def test_dspark_stages_are_no_multi_token_prediction_modules() -> None:
    plain = read(config_of("deepseek-v4-flash", num_nextn_predict_layers=3))
    drafting = read(config_of("deepseek-v4-flash", num_nextn_predict_layers=3, **DSPARK))
    assert (plain.mtp_modules, drafting.mtp_modules) == (3, 0)
    assert parameter_counts(drafting).mtp == 0


DSPARK = {
    "dspark_block_size": 5,
    "dspark_target_layer_ids": [40, 41, 42],
    "dspark_markov_rank": 256,
}


def test_layers_that_share_a_cache_keep_none() -> None:
    """Four of 38 layers own the compressed cache of DeepSeek-V4.1-Flash; index keys have eight."""
    shared = float(kv_bytes(read(config_of("deepseek-v4.1-flash")), 1_000_000))
    without = {
        key: value
        for key, value in config_of("deepseek-v4.1-flash").items()
        if key != "kv_source_layer_ids"
    }
    entries = 3 * 0.5 * 1e6 + 1e6  # three sources keep every second position, one keeps all
    index = (3 * 0.5 + 5) * 1e6
    windows = 40 * 128 * 512
    assert shared == pytest.approx(2.0 * (512 * entries + 128 * index + windows), rel=0.01)
    assert float(kv_bytes(read(without), 1_000_000)) > 6 * shared


@pytest.mark.parametrize(("first", "layers"), [(0, [0, 1, 2, 4]), (1, [1, 2, 3, 5])])
def test_linear_layers_are_counted_from_0_or_from_1(first: int, layers: list[int]) -> None:
    """GLM-5.3-Flash counts from 0 and was refused with the advice to download it again."""
    full = [3 + first]
    sizes = {"num_heads": 8, "head_dim": 128, "kda_layers": layers, "full_attn_layers": full}
    changes = {
        "num_hidden_layers": 5,
        "linear_attn_config": sizes,
        "mlp_layer_types": ["dense"] + ["sparse"] * 4,
    }
    mixers = read(config_of("kimi-linear-48b-a3b", **changes)).mixers
    assert [(mixer.kind, mixer.count) for mixer in mixers] == [("linear", 4), ("mla", 1)]


def test_layers_counted_from_0_and_from_1_at_once_are_refused() -> None:
    sizes = {"num_heads": 8, "head_dim": 128, "kda_layers": [0, 1, 2, 4], "full_attn_layers": [5]}
    with pytest.raises(
        AdvisorError, match=r"name both layer 0 and layer 5 of 5 layers; expected 0 to 4"
    ):
        read(
            config_of(
                "kimi-linear-48b-a3b",
                num_hidden_layers=5,
                mlp_layer_types=None,
                linear_attn_config=sizes,
            )
        )


def test_experts_of_a_narrower_stream_are_as_small_as_they_are() -> None:
    """Muse Spark: 818B, which once read as 1,610B."""
    config = {
        "model_type": "muse_spark_text",
        "hidden_size": 8192,
        "num_hidden_layers": 62,
        "vocab_size": 202_048,
    }
    config |= {
        "num_attention_heads": 128,
        "num_key_value_heads": 16,
        "head_dim": 64,
        "num_local_experts": 256,
    }
    config |= {"num_experts_per_tok": 8, "moe_hidden_size": 4096, "moe_intermediate_size": 4096}
    assert parameter_counts(read(config)).total / 1e9 == pytest.approx(818, rel=0.005)
    wide = {key: value for key, value in config.items() if key != "moe_hidden_size"}
    assert parameter_counts(read(wide)).total / 1e9 == pytest.approx(1610, rel=0.005)


def test_step_s_prediction_modules_are_dense_and_attend_to_a_window() -> None:
    """Three of 0.81B in all, as StepFun states; "has no multi-token-prediction module" was told
    before."""
    model = load_model("step-3.5-flash")
    assert model.mtp_modules == 3
    assert parameter_counts(model).mtp / 1e9 == pytest.approx(0.81, rel=0.05)
    mixer = mtp_mixer(model)
    (dense, moe) = mtp_ffn(model)
    assert mixer.kind == "sliding"
    assert (dense.width, moe) == (11264, None)
    drafted = draft_architecture(load_drafter("mtp"), model)
    assert drafted.moe is None
    assert drafted.mixers[0].window_tokens == 512
    stated = {"mtp_layer_types": ["full_attention"] * 3, "mtp_mlp_layer_types": ["sparse"] * 3}
    assert mtp_ffn(read(config_of("step-3.5-flash", **stated)))[1] is not None


def test_gigachat_s_prediction_modules_are_dense_and_make_up_its_checkpoint() -> None:
    """445,994,440,544 bytes in fp8, an embedding and a head of each module among them."""
    model = load_model("gigachat-3.5-432b-a28b")
    own_tables = 3 * 2 * model.vocab_size * model.hidden_size * 2
    assert weight_bytes(model, include_mtp=True) + own_tables == pytest.approx(
        445_994_440_544, rel=0.005
    )
    sparse = read(config_of("gigachat-3.5-432b-a28b", nextn_is_sparse=True))
    assert parameter_counts(sparse).mtp > 10 * parameter_counts(model).mtp


def test_gemma_s_per_layer_inputs_shared_keys_and_wider_blocks_are_counted() -> None:
    """Gemma 4 E2B: 2.3B effective parameters and 5.1B with embeddings, its encoders (0.45B) among
    them."""
    kinds = (["sliding_attention"] * 4 + ["full_attention"]) * 7
    config = {
        "model_type": "gemma4_text",
        "hidden_size": 1536,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
    }
    config |= {
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
    }
    config |= {
        "vocab_size": 262_144,
        "vocab_size_per_layer_input": 262_144,
        "hidden_size_per_layer_input": 256,
    }
    config |= {"num_kv_shared_layers": 20, "use_double_wide_mlp": True, "intermediate_size": 6144}
    config |= {"tie_word_embeddings": True, "enable_moe_block": False, "layer_types": kinds}
    model = read(config)
    counts = parameter_counts(model)
    assert counts.total / 1e9 == pytest.approx(5.1 - 0.45, rel=0.02)
    assert counts.active_without_input_embedding / 1e9 == pytest.approx(2.3, rel=0.05)
    assert counts.embedding == 262_144 * (1536 + 35 * 256)
    assert [(block.count, block.width) for block in model.dense] == [(15, 6144), (20, 12288)]
    own = (
        3 * 2 * 512 * 1_000_000 + 12 * 2 * 256 * 512
    )  # of the 15 layers that keep a cache three see everything
    assert float(kv_bytes(model, 1_000_000)) == pytest.approx(2.0 * own)


@pytest.mark.parametrize(
    ("model_id", "table_gb"), [("deepseek-v4.1-flash", 196.6), ("qwen3.8-flash-next", 102.4)]
)
def test_n_gram_tables_take_memory_where_the_engine_keeps_them_on_its_gpus(
    model_id: str, table_gb: float, golden: Golden
) -> None:
    """768,022,850 rows of 256 in fp8 (the checkpoint's shards); 51.2 billion numbers in bf16 (the
    model's card)."""
    place = {
        "hardware_id": "b200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "drafter_id": "none",
        "acceptance": "0",
    }
    setups = {
        name: load_setup(build_scenario(model_id=model_id, engine=name, **place))
        for name in ("vllm", "sglang")
    }
    held = {name: setup.memory.weights_bytes * 8 / 1e9 for name, setup in setups.items()}
    assert held["sglang"] - held["vllm"] == pytest.approx(table_gb, rel=0.005)
    steps = {
        name: setup.architecture.model_copy(update={"table_params": 0})
        for name, setup in setups.items()
    }
    assert steps["vllm"] == steps["sglang"], "nothing else differs"
    golden(gram_tables=lines_with(load_model(model_id).warnings, "gram tables"))
