"""Import of Hugging Face configurations: dialects, weight formats, broken files.

Every key that a config.json leaves out and that is assumed stands in a warning, with its size in
GB.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.hf.dialects import dialects, model_types, refused
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.physics.architecture import Architecture, parameter_counts, weight_bytes_by_component
from advisor.prediction import AdvisorError
from tests.golden.sentences import Golden, lines_with

HOSTILE = Path(__file__).parents[1] / "fixtures" / "configs" / "hostile"
CASES = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"))
EXPECTED_FRAGMENTS: dict[str, list[str]] = CASES["refused_configs"]


def test_every_hostile_file_has_an_expected_message() -> None:
    assert {path.name for path in HOSTILE.iterdir()} == set(EXPECTED_FRAGMENTS)


@pytest.mark.parametrize("file_name", sorted(EXPECTED_FRAGMENTS))
def test_a_hostile_file_is_refused_in_one_clear_sentence(file_name: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        architecture_from_config((HOSTILE / file_name).read_bytes())
    message = str(caught.value)
    assert all(fragment in message for fragment in EXPECTED_FRAGMENTS[file_name]), message
    assert "\n" not in message
    assert message.startswith("config.json")


def test_a_deeply_nested_file_is_refused() -> None:
    with pytest.raises(AdvisorError, match="nested too deeply"):
        architecture_from_config('{"a":' * 200_000 + "1" + "}" * 200_000)


def test_a_huge_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(AdvisorError, match="expected at most"):
        architecture_from_config(b'{"a": "' + b"x" * 9_000_000 + b'"}')


def test_infinity_in_a_field_that_sizes_nothing_is_no_error() -> None:
    text = json.dumps({**_profile("nemotron-3-nano"), "time_step_limit": [0.0, math.inf]})
    assert architecture_from_config(text) == architecture_from_config(_profile("nemotron-3-nano"))


def _profile(model_id: str) -> dict[str, Any]:
    return dict(model_profile(model_id).config)


# --- dialects: two spellings of one model
# ---------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", CASES["spellings"])
def test_both_generations_of_key_names_give_the_same_architecture(model_id: str) -> None:
    old = _profile(model_id)
    other = CASES["spellings"][model_id]
    new = {key: value for key, value in old.items() if key not in other["lacks"]} | other["has"]
    assert old != new
    assert architecture_from_config(old, "model", published=True) == architecture_from_config(
        new, "model", published=True
    )


def test_a_language_model_nested_twice_is_unwrapped_with_what_the_outer_level_says() -> None:
    inner = {key: value for key, value in _profile("qwen3-30b-a3b").items() if key != "torch_dtype"}
    inner.pop("tie_word_embeddings")
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    nested = {
        "model_type": "qwen3_omni_moe",
        "thinker_config": {"text_config": inner, "tie_word_embeddings": True},
        "quantization_config": block,
    }
    model = architecture_from_config(nested)
    assert model.tie_embeddings
    assert model.dtypes.routed == "fp8_block"
    assert model.moe == architecture_from_config(_profile("qwen3-30b-a3b")).moe


GRANITE = {
    "model_type": "granitemoehybrid",
    "hidden_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
}
GRANITE |= {
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "num_local_experts": 64,
    "num_experts_per_tok": 6,
}
GRANITE |= {"intermediate_size": 512, "shared_intermediate_size": 1024}
GRANITE |= {
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "mamba_n_heads": 48,
    "mamba_d_head": 64,
}
GRANITE |= {"mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4}


def test_shared_experts_count_the_same_in_either_currency() -> None:
    model = architecture_from_config(GRANITE)
    renamed = [
        "linear_attention" if name == "mamba" else "full_attention"
        for name in GRANITE["layer_types"]
    ]  # type: ignore[attr-defined]
    assert architecture_from_config({**GRANITE, "layer_types": renamed}) == model
    assert (model.moe.count, model.moe.n_shared, model.moe.shared_width) == (4, 2, 1024)
    by_count = architecture_from_config(
        {**GRANITE, "shared_intermediate_size": None, "n_shared_experts": 2}
    )
    assert by_count.moe == model.moe
    bailing = {
        **_profile("ling-mini-2.0"),
        "num_shared_experts": 2,
        "moe_shared_expert_intermediate_size": 700,
    }
    own_width = architecture_from_config(bailing).moe
    assert own_width.shared_width == 2 * 700


WINDOW = {
    "hidden_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "intermediate_size": 128,
    "sliding_window": 16,
}


@pytest.mark.parametrize(
    ("extra", "window_layers"),
    [
        ({"model_type": "mistral"}, 8),
        ({"model_type": "mistral", "sliding_window": None}, 0),
        ({"model_type": "qwen2"}, 0),
        ({"model_type": "qwen2", "use_sliding_window": False, "max_window_layers": 6}, 0),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 6}, 2),
        ({"model_type": "qwen2", "use_sliding_window": True}, 8),
        ({"model_type": "cohere2", "sliding_window_pattern": 4}, 6),
        ({"model_type": "cohere2"}, 6),
        ({"model_type": "gemma2"}, 4),
        ({"model_type": "gemma3_text"}, 7),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLLG"}, 6),
        ({"model_type": "afmoe", "num_experts": 0, "global_attn_every_n_layers": 2}, 4),
        ({"model_type": "llama", "hybrid_layer_pattern": [0, 1, 1, 1, 1, 1, 1, 0]}, 6),
        ({"model_type": "llama4_text", "attention_chunk_size": 16, "sliding_window": None}, 6),
        (
            {
                "model_type": "llama",
                "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 5,
            },
            3,
        ),
    ],
)
def test_sliding_windows_are_found_in_each_spelling(
    extra: dict[str, Any], window_layers: int
) -> None:
    model = architecture_from_config({**WINDOW, **extra})
    counts = {mixer.kind: mixer.count for mixer in model.mixers}
    assert counts.get("sliding", 0) == window_layers
    assert counts.get("full", 0) == 8 - window_layers
    assert all(mixer.window_tokens == 16 for mixer in model.mixers if mixer.kind == "sliding")


def test_block_sparse_attention_keeps_index_keys_and_reads_chosen_blocks() -> None:
    sparse = {
        "use_sparse_attention": True,
        "sparse_attention_freq": [0, 0, 1, 1, 1, 1, 1, 1],
        "sparse_block_size": 128,
        "sparse_topk_blocks": 16,
        "sparse_local_block": 1,
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
    }
    config = {
        **WINDOW,
        "model_type": "minimax_m3",
        "sliding_window": None,
        "sparse_attention_config": sparse,
    }
    full, chosen = architecture_from_config(config).mixers
    assert (full.kind, full.count, chosen.kind, chosen.count) == ("full", 2, "sparse", 6)
    assert (chosen.window_tokens, chosen.index_elements_per_token) == (17 * 128, 128)


def test_layers_that_reuse_an_index_hold_no_index_keys() -> None:
    config = {**_profile("glm-5"), "indexer_types": (["full"] + ["shared"] * 3) * 19 + ["full"] * 2}
    counts = {
        mixer.index_elements_per_token: mixer.count
        for mixer in architecture_from_config(config).mixers
    }
    assert counts == {128: 21, 0: 57}


def test_index_keys_that_stand_for_several_tokens_keep_a_fraction_of_an_entry_each(
    golden: Golden,
) -> None:
    model = load_model("qwen3.8-flash-next")
    linear, indexed = model.mixers
    assert (linear.kind, indexed.kind, indexed.count, indexed.window_tokens) == (
        "linear",
        "sparse",
        12,
        2048,
    )
    assert indexed.index_elements_per_token == 128 // 4
    # The mixers of four residual streams, two a layer: a norm, a product down to 320 and one up, an
    # injection.
    streams = 2 * (1 + 320 + 320 + 4) * 4 * 2560
    assert linear.replicated_params == streams
    assert indexed.replicated_params == 2560 * (4 + 1) * 128 + streams
    assert 48 * streams * 2 == pytest.approx(1.28e9, rel=0.02), (
        "GB read a step, by a census of the checkpoint"
    )
    assert any("n-gram" in warning for warning in model.warnings)
    without = {
        key: value
        for key, value in _profile("qwen3.8-flash-next")["text_config"].items()
        if "index" not in key
    }
    plain = architecture_from_config(without).mixers[1]
    assert plain.kind == "full"
    assert (
        indexed.projection_params - plain.projection_params == indexed.replicated_params - streams
    )
    named = {
        key: value
        for key, value in _profile("qwen3.8-flash-next")["text_config"].items()
        if key != "hc_lowrank"
    }
    assert architecture_from_config(named).mixers[0].replicated_params == 0
    golden(hc_lowrank=lines_with(architecture_from_config(named).warnings, "hc_lowrank are"))


def test_a_layer_list_may_go_on_for_the_multi_token_prediction_layers() -> None:
    step = _profile("step-3.5-flash")
    longer = {
        **step,
        "layer_types": [*step["layer_types"], *["sliding_attention"] * 3],
        "mlp_layer_types": [*["dense"] * 3, *["sparse"] * 42, *["dense"] * 3],
    }
    assert architecture_from_config(longer) == architecture_from_config(step)
    with pytest.raises(
        AdvisorError, match="layer_types is a list of 48 entries, expected a list of 45"
    ):
        architecture_from_config({**longer, "num_nextn_predict_layers": 2})


def test_window_layers_may_have_more_query_heads_than_full_ones() -> None:
    full, sliding = load_model("step-3.5-flash").mixers
    assert (full.count, sliding.count) == (12, 33)
    assert sliding.projection_params - full.projection_params == 2 * 4096 * 32 * 128
    assert full.kv_elements_per_token == sliding.kv_elements_per_token


def test_a_list_of_ratios_that_is_too_short_is_refused_beside_layer_types() -> None:
    config = {
        **_profile("deepseek-v4-flash"),
        "compress_ratios": [4],
        "layer_types": ["sliding_attention"] * 43,
    }
    with pytest.raises(AdvisorError, match="compress_ratios is a list of 1 entries"):
        architecture_from_config(config)


# --- weight formats
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block", "expected"), CASES["weight_formats"])
def test_weight_formats_are_read_by_component(block: dict[str, Any], expected: list[str]) -> None:
    dtypes = architecture_from_config({**_profile("kimi-k2"), "quantization_config": block}).dtypes
    assert [dtypes.routed, dtypes.shared, dtypes.attention] == expected
    assert dtypes.embedding == "bf16"


def test_an_unknown_quantisation_method_is_a_visible_warning() -> None:
    model = architecture_from_config(
        {**_profile("kimi-k2"), "quantization_config": {"quant_method": "magic"}}
    )
    assert model.dtypes.routed == "bf16"
    assert any("magic" in warning for warning in model.warnings)


def test_a_pattern_that_would_stall_a_regular_expression_engine_is_harmless() -> None:
    block = {
        "quant_method": "fp8",
        "modules_to_not_convert": ["re:(.*)*(.*)*(.*)*$" + "a" * 5000, "re:(("],
    }
    assert (
        architecture_from_config(
            {**_profile("kimi-k2"), "quantization_config": block}
        ).dtypes.routed
        == "fp8"
    )


# --- unknown types
# --------------------------------------------------------------------------------------------------


def test_an_unknown_type_is_imported_with_a_warning(golden: Golden) -> None:
    config = {**_profile("qwen3-30b-a3b"), "model_type": "brand_new"}
    model = architecture_from_config(config, "org/BrandNew-30B-A3B")
    assert model.moe == load_model("qwen3-30b-a3b").moe
    golden(brand_new=lines_with(model.warnings, "brand_new is"))
    assert not any("contradicts" in warning for warning in model.warnings)


def test_a_size_that_contradicts_the_name_is_a_warning(golden: Golden) -> None:
    config = {
        **_profile("qwen3-30b-a3b"),
        "model_type": "brand_new",
        "_name_or_path": "org/BrandNew-49B-A3B",
    }
    (warning,) = (
        text for text in architecture_from_config(config).warnings if "contradicts" in text
    )
    golden(parameters_name=lines_with(warning, "the name says"))
    active = architecture_from_config(config, "x-30B-A9B").warnings
    golden(name_says=lines_with(active, "the name"))


def test_every_refused_type_is_refused_and_none_is_also_known() -> None:
    assert not set(refused()) & set(dialects())
    assert len(dialects()) == sum(len(one.types) for one in model_types().dialects), (
        "a type stands twice"
    )
    for model_type in refused():
        with pytest.raises(AdvisorError, match="cannot be imported"):
            architecture_from_config({**_profile("qwen3-8b"), "model_type": model_type})


# --- anything at all
# ------------------------------------------------------------------------------------------------

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["full_attention", "linear_attention", "fp8", "M*E-", "auto", "deepseek_v4", "gemma4_text"]
    ),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
)
_KNOWN_KEYS = sorted(
    {key for model_id in model_ids() for key in _profile(model_id)} | {"text_config", "dtype"}
)


def _import_or_refuse(config: Any) -> None:
    try:
        architecture = architecture_from_config(config)
    except AdvisorError:
        return
    assert isinstance(architecture, Architecture)
    assert math.isfinite(parameter_counts(architecture).active_all)


@given(
    st.sampled_from(model_ids()),
    st.dictionaries(st.sampled_from(_KNOWN_KEYS), _VALUES, min_size=1, max_size=3),
)
@settings(max_examples=400)
def test_a_damaged_config_is_imported_or_refused(model_id: str, damage: dict[str, Any]) -> None:
    _import_or_refuse({**_profile(model_id), **damage})


@pytest.mark.parametrize("value", [None, 3, [], object(), 2.5])
def test_a_value_that_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(AdvisorError, match="expected an object"):
        architecture_from_config(value)


def test_a_design_is_not_held_against_the_size_in_its_parent_s_name() -> None:
    config = {**_profile("qwen3-30b-a3b"), "num_experts": 64, "num_experts_per_tok": 16}
    for name in ("own-qwen3-30b-a3b-n64k16s0w768", "qwen3-30b-a3b-n64k16s0w768-2"):
        assert not any(
            "contradicts" in text for text in architecture_from_config(config, name).warnings
        )
    assert any(
        "contradicts" in text
        for text in architecture_from_config(config, "own-qwen3-30b-a3b").warnings
    )


def test_messages_name_the_file_that_was_given() -> None:
    with pytest.raises(AdvisorError, match=r"^broken\.json: line 2"):
        architecture_from_config('{"model_type": "mixtral",\n "hid', "broken", "broken.json")
    with pytest.raises(AdvisorError, match=r"^foo\.json: hidden_size is missing"):
        architecture_from_config({"model_type": "mixtral"}, "foo", "foo.json")


def config(model_id: str, **changes: Any) -> dict[str, Any]:
    """A shipped configuration without the keys whose change is None."""
    changed = {**model_profile(model_id).config, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def warning(configuration: dict[str, Any], key: str) -> str:
    (found,) = [
        text for text in architecture_from_config(configuration).warnings if text.startswith(key)
    ]
    return found


def test_a_missing_expert_width_is_said_with_the_size_it_comes_to() -> None:
    """Qwen3-30B-A3B without it: its experts would be 6144 wide, 464 GB of them where there are
    58."""
    without = config("qwen3-30b-a3b", moe_intermediate_size=None)
    read = architecture_from_config(without)
    routed = weight_bytes_by_component(read)["routed"]
    assert routed / weight_bytes_by_component(load_model("qwen3-30b-a3b"))[
        "routed"
    ] == pytest.approx(6144 / 768)
    said = warning(without, "moe_intermediate_size is missing")
    assert "6144 wide" in said
    assert f"{routed / 1e9:.3g} GB" in said


@pytest.mark.parametrize(
    ("model_id", "key", "words"),
    [
        ("qwen3-30b-a3b", "num_key_value_heads", "GB of cache per million tokens"),
        ("qwen3-30b-a3b", "head_dim", "GB of attention weights"),
        ("qwen3-30b-a3b", "torch_dtype", "taken to be in bf16"),
        ("qwen3-30b-a3b", "tie_word_embeddings", "the output has its own table, 0.622 GB each"),
        ("deepseek-v3", "first_k_dense_replace", "are taken to route"),
        ("deepseek-v3", "n_shared_experts", "one in each layer would be"),
    ],
)
def test_every_other_missing_key_is_said_with_its_size(model_id: str, key: str, words: str) -> None:
    complete = config(model_id)
    changes: dict[str, Any] = {key: None}
    if model_id == "deepseek-v3":
        changes["moe_layer_freq"] = None
    assert not [
        text
        for text in architecture_from_config(complete).warnings
        if text.startswith(f"{key} is missing")
    ]
    said = warning(config(model_id, **changes), f"{key} is missing")
    assert words in said
    assert " GB" in said


@pytest.mark.parametrize("model_id", ["gpt-oss-20b", "mixtral-8x7b", "minimax-m2", "qwen3-30b-a3b"])
@pytest.mark.parametrize("also", [(), ("num_experts_per_tok", "experts_per_token")])
def test_a_model_of_experts_without_their_number_is_refused(
    model_id: str, also: tuple[str, ...]
) -> None:
    counts = ("num_local_experts", "num_experts", "n_routed_experts")
    without = config(model_id, **dict.fromkeys((*counts, *also)))
    with pytest.raises(AdvisorError, match="routed experts, but their number is missing"):
        architecture_from_config(without)


def test_layers_that_route_one_in_two_are_said(golden: Golden) -> None:
    halved = config("deepseek-v3", moe_layer_freq=2)
    golden(one_layer=lines_with(warning(halved, "moe_layer_freq is 2"), "one layer"))
    first_missing = config("deepseek-v3", moe_layer_freq=1, first_k_dense_replace=None)
    assert "61 layers" in warning(first_missing, "first_k_dense_replace is missing")


def test_shipped_models_carry_no_such_warning() -> None:
    assert not [
        text for name in model_ids() for text in load_model(name).warnings if "is missing:" in text
    ]


@pytest.mark.parametrize("stated", [{}, {"num_blocks": 4}])
def test_experts_that_layers_share_are_refused_by_their_key(stated: dict[str, int]) -> None:
    text = (
        dict(model_profile("qwen3.5-35b-a3b").config["text_config"])
        | {"num_experts": 2560}
        | stated
    )
    config = {
        "model_type": "interns2_mobius",
        "text_config": text | {"model_type": "interns2_mobius_text"},
    }
    with pytest.raises(
        AdvisorError,
        match=r"num_blocks \(.*4\): its 40 routed layers share 4 banks of 2560 experts.*10 times",
    ):
        architecture_from_config(config, "Intern-S2-Mobius")
    named = {"model_type": "some_moe", "num_blocks": 2}
    with pytest.raises(AdvisorError, match=r"share 2 banks"):
        architecture_from_config(dict(model_profile("qwen3-30b-a3b").config) | named, "mine")
