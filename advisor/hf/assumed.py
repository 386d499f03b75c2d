"""What a config.json leaves out and what is assumed in its place, each with its size in GB.

A key that a model's own configuration class defines by another key (the width of Mixtral's experts, the head size of
Llama) is no assumption where the published files of that type leave it out too.
"""

from __future__ import annotations

from advisor.architecture import BYTES_PER_WEIGHT, Architecture, kv_bytes, weight_bytes, weight_bytes_by_component
from advisor.hf.ffn import SHARED_COUNT_KEYS, SHARED_TOTAL_KEYS, expert_fields
from advisor.hf.fields import Fields

WIDTH_IS_INTERMEDIATE = frozenset(
    {
        "arctic",
        "cohere2_moe",
        "dbrx",
        "gpt_oss",
        "granitemoe",
        "granitemoehybrid",
        "granitemoeshared",
        "grok1",
        "jamba",
        "llama4",
        "llama4_text",
        "minimax",
        "minimax_m2",
        "mixtral",
        "olmoe",
        "phimoe",
    }
)
"""Types whose experts are as wide as `intermediate_size` says: transformers' configuration classes of these types have
no width of experts of their own."""
OWN_HEAD_DIM = ("qwen3", "qwen4", "gemma", "glm4", "glm_moe", "gpt_oss", "cohere2", "minimax", "mimo", "hy_v3", "ling")
"""Beginnings of types whose published files all give head_dim, which then is not hidden_size / heads."""
DENSE_START = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm_moe_dsa", "ernie4_5_moe")
"""Types whose published models begin with dense layers or have shared experts, by keys of their own."""
_DENSE_KEYS = ("first_k_dense_replace", "moe_layer_start_index", "mlp_layer_types", "moe_layer_freq")
_GROUPS = ("num_key_value_heads", "num_attention_groups", "num_kv_heads", "n_kv_heads", "attn_config", "kv_lora_rank")
_HEADS = ("head_dim", "attention_head_dim", "kv_channels", "qk_nope_head_dim", "kv_lora_rank")


def assumptions(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each key that is missing and was assumed, with what the assumption comes to."""
    return [*_experts(fields, architecture), *_attention(fields, architecture), *_formats(fields, architecture)]


def _experts(fields: Fields, architecture: Architecture) -> list[str]:
    moe, model_type, said = architecture.moe, fields.text("model_type"), []
    if moe is None:
        return []
    size = f"{_gb(weight_bytes_by_component(architecture)['routed'])} of routed experts"
    own_width = expert_fields(fields).find("moe_intermediate_size", "expert_ffn_hidden_size")
    if own_width is None and model_type not in WIDTH_IS_INTERMEDIATE:
        said.append(f"moe_intermediate_size is missing: experts are taken to be {moe.expert_width} wide, {size}")
    if model_type in DENSE_START:
        if fields.find(*_DENSE_KEYS) is None:
            said.append(f"first_k_dense_replace is missing: all {moe.count} layers are taken to route, {size}")
        if fields.find(*SHARED_COUNT_KEYS, *SHARED_TOTAL_KEYS) is None and not moe.n_shared:
            one = moe.count * moe.matrices * architecture.hidden_size * moe.expert_width
            one_size = _gb(one * BYTES_PER_WEIGHT[architecture.dtypes.shared])
            said.append(f"n_shared_experts is missing: none is counted, where one in each layer would be {one_size}")
    return said


def _attention(fields: Fields, architecture: Architecture) -> list[str]:
    said, model_type = [], fields.text("model_type")
    if fields.find(*_GROUPS) is None and any(mixer.kind == "full" for mixer in architecture.mixers):
        cache = _gb(float(kv_bytes(architecture, 1_000_000)))
        said.append(f"num_key_value_heads is missing: as many as query heads, {cache} of cache per million tokens")
    if fields.find(*_HEADS) is None and model_type.startswith(OWN_HEAD_DIM):
        size = _gb(weight_bytes_by_component(architecture)["attention"])
        said.append(f"head_dim is missing: hidden_size / num_attention_heads is taken, {size} of attention weights")
    return said


def _formats(fields: Fields, architecture: Architecture) -> list[str]:
    said = []
    if fields.find("dtype", "torch_dtype", "quantization_config", "compression_config") is None:
        said.append(
            f"torch_dtype is missing: weights are taken to be in bf16, {_gb(weight_bytes(architecture))} in all"
        )
    if fields.get("tie_word_embeddings") is None:
        table = architecture.vocab_size * architecture.hidden_size * BYTES_PER_WEIGHT[architecture.dtypes.embedding]
        how = "one table serves as input and output" if architecture.tie_embeddings else "the output has its own table"
        said.append(f"tie_word_embeddings is missing: {how}, {_gb(table)} each")
    return said


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.3g} GB"
