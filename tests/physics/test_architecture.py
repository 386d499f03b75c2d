"""Parameter, weight and cache counts of architectures, against hand-computed layer sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.models import load_model, model_ids
from advisor.physics.architecture import (
    BYTES_PER_WEIGHT,
    Architecture,
    Mixer,
    Moe,
    WeightDtypes,
    attention_share_of_active,
    effective_n_active,
    kv_bytes,
    parameter_counts,
    state_bytes,
    weight_bytes,
    weight_bytes_by_component,
    with_dtype,
)
from advisor.prediction import AdvisorError

BF16 = 2
# Bytes per token of the growing layers, by hand: layers x elements x 2 bytes.
KV_BYTES_PER_TOKEN = {
    "mixtral-8x7b": 32 * 2 * 8 * 128 * BF16,
    "mixtral-8x22b": 56 * 2 * 8 * 128 * BF16,
    "deepseek-moe-16b": 28 * 2 * 16 * 128 * BF16,
    "deepseek-v2-lite": 27 * (512 + 64) * BF16,
    "deepseek-v2": 60 * (512 + 64) * BF16,
    "deepseek-v3": 61 * 576 * BF16,
    "deepseek-v3.2": 61 * (576 + 128) * BF16,  # latent and index key
    "deepseek-v4.1-flash": ((3 / 2 + 1) * 512 + (3 / 2 + 5) * 128)
    * BF16,  # four of 38 layers own a cache, eight index
    "deepseek-v4-flash": (21 * (512 + 128) / 4 + 20 * 512 / 128)
    * BF16,  # 21 CSA layers of ratio 4, 20 HCA of 128
    "deepseek-v4-pro": (30 * (512 + 128) / 4 + 31 * 512 / 128) * BF16,
    "qwen1.5-moe-a2.7b": 24 * 2 * 16 * 128 * BF16,
    "qwen2-57b-a14b": 28 * 2 * 4 * 128 * BF16,
    "qwen3-30b-a3b": 48 * 2 * 4 * 128 * BF16,
    "qwen3-235b-a22b": 94 * 2 * 4 * 128 * BF16,
    "qwen3-coder-480b-a35b": 62 * 2 * 8 * 128 * BF16,
    "qwen3-next-80b-a3b": 12 * 2 * 2 * 256 * BF16,
    "qwen3.5-35b-a3b": 10 * 2 * 2 * 256 * BF16,
    "qwen3.5-122b-a10b": 12 * 2 * 2 * 256 * BF16,
    "qwen3.5-397b-a17b": 15 * 2 * 2 * 256 * BF16,
    "gpt-oss-20b": 12 * 2 * 8 * 64 * BF16,
    "gpt-oss-120b": 18 * 2 * 8 * 64 * BF16,
    "olmoe-1b-7b": 16 * 2 * 16 * 128 * BF16,
    "phi-3.5-moe": 32 * 2 * 8 * 128 * BF16,
    "phi-tiny-moe": 32 * 2 * 4 * 128 * BF16,
    "llama4-scout": 12 * 2 * 8 * 128 * BF16,
    "llama4-maverick": 12 * 2 * 8 * 128 * BF16,
    "glm-4.5-air": 46 * 2 * 8 * 128 * BF16,
    "glm-4.5": 92 * 2 * 8 * 128 * BF16,
    "glm-4.7-flash": 47 * 576 * BF16,
    "glm-5": 78 * (576 + 128) * BF16,
    "kimi-k2": 61 * 576 * BF16,
    "minimax-m2": 62 * 2 * 8 * 128 * BF16,
    "grok-1": 64 * 2 * 8 * 128 * BF16,
    "dbrx": 40 * 2 * 8 * 128 * BF16,
    "jamba-v0.1": 4 * 2 * 8 * 128 * BF16,
    "hunyuan-a13b": 32 * 2 * 8 * 128 * BF16,
    "ernie-4.5-21b-a3b": 28 * 2 * 4 * 128 * BF16,
    "ernie-4.5-300b-a47b": 54 * 2 * 8 * 128 * BF16,
    "granite-3.0-1b-a400m": 24 * 2 * 8 * 64 * BF16,
    "granite-3.0-3b-a800m": 32 * 2 * 8 * 64 * BF16,
    "longcat-flash": 2 * 28 * 576 * BF16,
    "longcat-2.0": (76 * 576 + 38 * 128) * BF16,  # two blocks share an index
    "ling-3.0-flash": 7 * 576 * BF16,
    "hy4-preview": (78 * 576 + 21 * 128) * BF16,  # 57 of 78 layers share an index
    "mimo-v2.6-flash": 9 * 4 * (192 + 128) * BF16,
    "mistral-large-3": 61 * 576 * BF16,
    "granite-4.0-h-small": 4 * 2 * 8 * 128 * BF16,
    "ling-mini-2.0": 20 * 2 * 4 * 128 * BF16,
    "nemotron-3-nano": 6 * 2 * 2 * 128 * BF16,
    "nemotron-3-super": 8 * 2 * 2 * 128 * BF16,
    "nemotron-3-ultra": 12 * 2 * 2 * 128 * BF16,
    "command-a-plus": 8 * 2 * 8 * 128 * BF16,
    "north-mini-code": 13 * 2 * 4 * 128 * BF16,
    "command-a": 16 * 2 * 8 * 128 * BF16,
    "llama-3.1-8b": 32 * 2 * 8 * 128 * BF16,
    "llama-3.1-70b": 80 * 2 * 8 * 128 * BF16,
    "qwen3-32b": 64 * 2 * 8 * 128 * BF16,
    "qwen2-0.5b": 24 * 2 * 2 * 64 * BF16,
    "qwen3-8b": 36 * 2 * 8 * 128 * BF16,
    "mimo-v2-flash": 9 * 4 * (192 + 128) * BF16,
    "gemma-4-26b-a4b": 5 * 2 * 2 * 512 * BF16,
    "mistral-small-4": 36 * (256 + 64) * BF16,
    "kimi-linear-48b-a3b": 7 * 576 * BF16,
    "minimax-m3": (60 * 2 * 4 * 128 + 57 * 128) * BF16,  # 57 layers with an index key
    "gigachat-3.5-432b-a28b": 10 * 576 * BF16,
    "glm-5.3-flash": 11 * (512 + 128 / 4) * BF16,  # an index key for four tokens
    "glm-5.2": (78 * 576 + 21 * 128) * BF16,  # 57 of 78 layers share an index
    "kimi-k3": 24 * 576 * BF16,
    "step-3.5-flash": 12 * 2 * 8 * 128 * BF16,
    "nemotron-3.5-lightning": 6 * 2 * 2 * 128 * BF16,
    "hy3": 80 * 2 * 8 * 128 * BF16,
    "qwen3.8-flash-next": 12 * (2 * 2 * 256 + 128 / 4) * BF16,  # one index key for four tokens
    "qwen3.5-27b": 16 * 2 * 4 * 256 * BF16,
    "qwen3-0.6b": 28 * 2 * 8 * 128 * BF16,
    "qwen3-1.7b": 28 * 2 * 8 * 128 * BF16,
    "qwen3-4b": 36 * 2 * 8 * 128 * BF16,
    "llama-3.1-405b": 126 * 2 * 8 * 128 * BF16,
    "gemma-4-31b": 10 * 2 * 4 * 512 * BF16,
    "mimo-7b": 36 * 2 * 8 * 128 * BF16,
    "nemotron-h-56b": 10 * 2 * 8 * 128 * BF16,
}


# One multi-token-prediction module as engines build it: join, attention, feed-forward block.
MTP_PARAMS = {
    # a window layer and a dense block (vLLM 0.33.0, mimo_v2_mtp.py)
    "mimo-v2-flash": 4096 * (2 * 4096 + 64 * (192 + 128) + 8 * (192 + 128) + 3 * 16384),
    # a dense block, where every layer of the target routes (longcat_flash_mtp.py, ernie_mtp.py)
    "longcat-flash": 6144 * (2 * 6144 + 1536 + 576 + 64 * 128 + 3 * 12288)
    + 64 * (1536 * 192 + 512 * 256),
    "ernie-4.5-21b-a3b": 2560 * (2 * 2560 + 2 * (20 + 4) * 128 + 3 * 12288),
    # latent attention and experts (bailing_moe_v3_mtp.py), with a router
    "ling-3.0-flash": 2560 * (2 * 2560 + 32 * (192 + 128) + 576 + 513 * 3 * 768 + 512)
    + 512 * 32 * 256,
    "hy4-preview": 10e9,  # as its README has it
}


@pytest.mark.parametrize("model_id", MTP_PARAMS)
def test_a_drafting_module_is_built_as_engines_build_it(model_id: str) -> None:
    model = load_model(model_id)
    one_module = parameter_counts(model).mtp / model.mtp_modules
    rel = 0.01 if model_id == "hy4-preview" else 1e-3  # norms
    assert one_module == pytest.approx(MTP_PARAMS[model_id], rel=rel)


@pytest.mark.parametrize("model_id", model_ids())
def test_a_token_adds_the_cache_bytes_that_a_hand_count_gives(model_id: str) -> None:
    model = load_model(model_id)
    beyond_windows = 2**20
    added = kv_bytes(model, 2 * beyond_windows) - kv_bytes(model, beyond_windows)
    assert float(added) / beyond_windows == pytest.approx(KV_BYTES_PER_TOKEN[model_id], rel=1e-12)


@pytest.mark.parametrize(
    ("model_id", "experts", "router", "words", "total"),
    [
        ("mixtral-8x7b", 8, 8 * 4096, 32000, 46_702_792_704),
        ("llama-3.1-8b", 1, 0, 128256, 8_030_261_248),
    ],
)
def test_a_total_is_its_checkpoint_s(
    model_id: str, experts: int, router: int, words: int, total: int
) -> None:
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + experts * 3 * 4096 * 14336 + router + 2 * 4096
    assert (
        parameter_counts(load_model(model_id)).total
        == 32 * layer + 2 * words * 4096 + 4096
        == total
    )


def test_deepseek_v3_total_matches_a_layer_by_layer_sum() -> None:
    query = 7168 * 1536 + 1536 + 1536 * 128 * 192
    key_value = 7168 * 576 + 512 + 512 * 128 * 256
    attention = query + key_value + 128 * 128 * 7168
    dense = 3 * 7168 * 18432
    routed_layer = 257 * 3 * 7168 * 2048 + 256 * 7168
    expected = (
        61 * (attention + 2 * 7168) + 3 * dense + 58 * routed_layer + 2 * 129280 * 7168 + 7168
    )
    counts = parameter_counts(load_model("deepseek-v3"))
    assert counts.total == expected
    assert counts.active_all == expected - 58 * 248 * 3 * 7168 * 2048
    assert counts.routed == 58 * 256 * 3 * 7168 * 2048
    assert counts.shared == 58 * 3 * 7168 * 2048
    assert counts.dense == 3 * dense
    assert counts.mtp == attention + 7168 + routed_layer + 2 * 7168**2


@pytest.mark.parametrize("model_id", model_ids())
def test_components_add_up_and_active_counts_are_ordered(model_id: str) -> None:
    counts = parameter_counts(load_model(model_id))
    parts = (
        counts.routed,
        counts.shared,
        counts.attention,
        counts.dense,
        counts.embedding,
        counts.router,
        counts.other,
    )
    assert sum(parts) == counts.total
    assert (
        counts.active_nonembedding
        < counts.active_without_input_embedding
        <= counts.active_all
        <= counts.total
    )


def test_zero_experts_lower_the_effective_top_k_of_longcat() -> None:
    moe = load_model("longcat-flash").moe
    assert moe is not None
    assert effective_n_active(moe) == pytest.approx(8.0)


def test_latent_attention_decodes_absorbed_and_its_cache_is_not_split() -> None:
    (mixer,) = load_model("deepseek-v3").mixers
    assert (mixer.kind, mixer.count, mixer.kv_shards) == ("mla", 61, 1)
    assert mixer.kv_elements_per_token == 512 + 64
    assert (mixer.query_heads, mixer.flops_per_head_and_key) == (128, 2 * ((512 + 64) + 512))
    assert mixer.replicated_params == 7168 * 1536 + 1536 + 7168 * 576 + 512


def test_compressed_attention_keeps_a_window_beside_its_entries() -> None:
    model = load_model("deepseek-v4-flash")
    context = 100_000
    csa = (512 + 128) * context / 4 + 512 * 128
    hca = 512 * context / 128 + 512 * 128
    window_only = 512 * 128
    expected = (21 * csa + 20 * hca + 2 * window_only) * BF16
    assert float(kv_bytes(model, context)) == pytest.approx(expected)


def test_window_layers_stop_growing_at_the_window_and_caches_broadcast_over_batch_and_context() -> (
    None
):
    model = load_model("gpt-oss-20b")
    entry = 2 * 8 * 64 * BF16
    for context in (1, 100, 128, 129, 4096):
        expected = entry * (12 * context + 12 * min(context, 128))
        assert float(kv_bytes(model, context)) == expected
    grid = kv_bytes(model, np.array([[10.0], [1000.0]]), np.array([1, 2, 4]), kv_dtype_bytes=1.0)
    assert grid.shape == (2, 3)
    assert grid[1, 2] == 4 * float(kv_bytes(model, 1000, kv_dtype_bytes=1.0))


def test_linear_layers_keep_a_state_whatever_the_context() -> None:
    model = load_model("qwen3-next-80b-a3b")
    recurrent = 32 * 128 * 128
    convolution = (2 * 16 * 128 + 32 * 128) * 3
    state = 36 * (recurrent + convolution) * 4
    assert float(state_bytes(model)) == state
    assert float(kv_bytes(model, 0, batch_size=3)) == 3 * state
    assert float(kv_bytes(model, 1000)) == state + 1000 * 24576


def test_mamba_states_match_their_papers_shapes() -> None:
    jamba = load_model("jamba-v0.1")
    nemotron = load_model("nemotron-3-nano")
    assert float(state_bytes(jamba)) == 28 * (8192 * 16 + 8192 * 3) * 4
    assert float(state_bytes(nemotron)) == 23 * (64 * 64 * 128 + (64 * 64 + 2 * 8 * 128) * 3) * 4


@pytest.mark.parametrize("context", [-1, float("nan")])
def test_a_negative_or_missing_context_is_refused(context: float) -> None:
    with pytest.raises(AdvisorError, match="context_tokens"):
        kv_bytes(load_model("gpt-oss-20b"), context)


@given(
    context=st.integers(0, 10**7), more=st.integers(0, 10**6), model_id=st.sampled_from(model_ids())
)
def test_cache_never_shrinks_with_context(context: int, more: int, model_id: str) -> None:
    model = load_model(model_id)
    kept = float(kv_bytes(model, context))
    assert float(kv_bytes(model, context + more)) >= kept
    assert kept >= 0


def test_weight_bytes_follow_the_format_of_each_component() -> None:
    model = load_model("gpt-oss-120b")
    counts = parameter_counts(model)
    parts = weight_bytes_by_component(model)
    assert parts["routed"] == pytest.approx(counts.routed * (0.5 + 1 / 32))
    assert parts["attention"] == counts.attention * 2
    assert weight_bytes(model) == pytest.approx(sum(parts.values()))
    assert weight_bytes(model) == pytest.approx(
        65.2e9, rel=0.01
    )  # checkpoint of 65.2 GB, openai/gpt-oss-120b


def test_mtp_weights_count_only_when_asked_for() -> None:
    model = load_model("deepseek-v3")
    difference = weight_bytes(model, include_mtp=True) - weight_bytes(model)
    assert difference == pytest.approx(parameter_counts(model).mtp * BYTES_PER_WEIGHT["fp8_block"])


def test_one_format_for_all_matrices_leaves_the_embeddings_alone() -> None:
    model = load_model("qwen3-30b-a3b")
    low = with_dtype(model, "nvfp4")
    assert low.dtypes == WeightDtypes(
        routed="nvfp4", shared="nvfp4", attention="nvfp4", dense="nvfp4"
    )
    assert (
        weight_bytes_by_component(low)["embedding"] == weight_bytes_by_component(model)["embedding"]
    )
    assert (
        weight_bytes_by_component(low)["routed"]
        == weight_bytes_by_component(model)["routed"] * 0.5625 / 2
    )
    assert weight_bytes(model, low.dtypes) == weight_bytes(low)


def test_attention_share_of_mixtral_is_a_tenth_of_its_active_parameters() -> None:
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096)
    active = attention + 32 * (2 * 3 * 4096 * 14336 + 8 * 4096 + 4096) + 4096
    assert attention_share_of_active(load_model("mixtral-8x7b")) == pytest.approx(
        attention / active
    )


@given(
    n_experts=st.integers(2, 512),
    width=st.integers(1, 4096),
    data=st.data(),
    layers=st.integers(1, 64),
)  # k = N is the dense limit
def test_choosing_every_expert_makes_the_whole_model_active(
    n_experts: int, width: int, data: st.DataObject, layers: int
) -> None:
    n_active = data.draw(st.integers(1, n_experts))
    moe = Moe(
        count=layers,
        n_experts=n_experts,
        n_active=n_active,
        expert_width=width,
        expert_input_width=64,
    )
    mixers = (Mixer(kind="full", count=layers, projection_params=100, kv_elements_per_token=8),)
    model = Architecture(id="x", name="x", hidden_size=64, vocab_size=100, mixers=mixers, moe=moe)
    counts = parameter_counts(model)
    assert (counts.active_all == pytest.approx(counts.total)) == (n_active == n_experts)


def test_a_dense_model_says_so_where_its_experts_are_asked_for() -> None:
    assert load_model("mixtral-8x7b").routed.n_experts == 8
    with pytest.raises(AdvisorError, match="is dense"):
        _ = load_model("qwen3-8b").routed
