"""Linear-attention and state-space layers of a config.json: parameters and recurrent state of one layer.

A recurrent state is read and written once per pass and sequence; it does not grow with the context.
"""

from __future__ import annotations

from advisor.architecture import Mixer
from advisor.hf.fields import MAX_HEADS, Fields


def linear_mixer(fields: Fields, hidden: int) -> Mixer:
    """The linear layer the file describes, told apart by its dimension keys. AdvisorError when there are none."""
    if fields.find("linear_num_value_heads"):
        return _gated_delta_net(fields, hidden)
    nested = fields.block("linear_attn_config")
    if nested is not None and nested.find("head_dim"):
        return _kimi_delta(nested, hidden, "num_heads", "head_dim", "short_conv_kernel_size")
    if fields.find("linear_num_heads"):
        return _kimi_delta(fields, hidden, "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    if fields.find("mamba_num_heads", "mamba_n_heads"):
        return _mamba2(fields, hidden)
    if fields.find("mamba_d_state"):
        return _mamba1(fields, hidden)
    if fields.find("conv_L_cache"):
        return _short_convolution(fields, hidden)
    lightning = fields.find("attn_type_list", "layer_group_size") or "minimax" in fields.text("model_type")
    if not lightning:
        fields.refuse(
            "there are linear-attention layers but none of the keys that size them (linear_num_value_heads, "
            "linear_attn_config, linear_num_heads, mamba_num_heads, mamba_d_state, conv_L_cache); "
            "add them, or download the model's complete config.json"
        )
    return _lightning(fields, hidden)


def _mixer(params: int, hidden: int, state: int, shards: int) -> Mixer:
    return Mixer(kind="linear", count=1, projection_params=params + hidden, state_elements=state, kv_shards=shards)


def _gated_delta_net(fields: Fields, hidden: int) -> Mixer:
    """Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next: state of value heads x key dim x value dim."""
    value_heads = fields.count("linear_num_value_heads", maximum=MAX_HEADS)
    key_heads = fields.count("linear_num_key_heads", maximum=MAX_HEADS)
    key_dim, value_dim = fields.count("linear_key_head_dim"), fields.count("linear_value_head_dim")
    kernel = fields.count("linear_conv_kernel_dim", maximum=1024)
    keys, values = key_heads * key_dim, value_heads * value_dim
    convolved = 2 * keys + values
    params = hidden * (2 * keys + 2 * values + 2 * value_heads) + convolved * kernel + values * hidden
    params += 2 * value_heads + value_dim
    state = value_heads * key_dim * value_dim + convolved * (kernel - 1)
    return _mixer(params, hidden, state, value_heads)


def _kimi_delta(fields: Fields, hidden: int, heads_key: str, dim_key: str, kernel_key: str) -> Mixer:
    """Kimi Delta Attention (arXiv 2510.26692): per-channel decay and output gate through low-rank pairs."""
    heads, dim = fields.count(heads_key, maximum=MAX_HEADS), fields.count(dim_key)
    kernel = fields.optional_count(kernel_key, minimum=1, maximum=1024) or 4
    width = heads * dim
    low_rank = hidden * dim + dim * width
    output_gate = hidden * width if fields.flag("use_full_rank_gate") else low_rank
    params = 4 * hidden * width + low_rank + output_gate + hidden * heads + 3 * width * kernel + width + heads + dim
    return _mixer(params, hidden, width * dim + 3 * width * (kernel - 1), heads)


def _mamba1(fields: Fields, hidden: int) -> Mixer:
    """Mamba (arXiv 2312.00752) as in Jamba: selective scan of inner width x state size."""
    inner = fields.count("mamba_expand", maximum=64) * hidden
    state, kernel = fields.count("mamba_d_state"), fields.count("mamba_d_conv", maximum=1024)
    rank = -(-hidden // 16) if fields.get("mamba_dt_rank") in (None, "auto") else fields.count("mamba_dt_rank")
    params = hidden * 2 * inner + inner * (kernel + 1) + inner * (rank + 2 * state) + rank * inner + inner
    params += inner * state + inner + inner * hidden + rank + 2 * state
    return _mixer(params, hidden, inner * (state + kernel - 1), inner)


def _mamba2(fields: Fields, hidden: int) -> Mixer:
    """Mamba-2 (arXiv 2405.21060) as in Nemotron-H and Granite 4: scalar decay per head, grouped B and C."""
    heads = fields.count("mamba_num_heads", "mamba_n_heads", maximum=MAX_HEADS)
    dim_key = fields.find("mamba_head_dim", "mamba_d_head")
    if dim_key is None or fields.values[dim_key] == "auto":
        inner = (fields.optional_count("mamba_expand", "expand", minimum=1, maximum=64) or 2) * hidden
        if inner % heads:
            fields.refuse(f"{heads} Mamba heads do not divide the inner width {inner}; add mamba_head_dim")
        dim = inner // heads
    else:
        dim = fields.count(dim_key)
    state = fields.count("ssm_state_size", "mamba_d_state")
    groups = fields.optional_count("n_groups", "mamba_n_groups", minimum=1, maximum=MAX_HEADS) or 1
    kernel = fields.optional_count("conv_kernel", "mamba_d_conv", minimum=1, maximum=1024) or 4
    inner = heads * dim
    convolved = inner + 2 * groups * state
    params = hidden * (inner + convolved + heads) + convolved * (kernel + 1) + 3 * heads + inner + inner * hidden
    return _mixer(params, hidden, inner * state + convolved * (kernel - 1), heads)


def _lightning(fields: Fields, hidden: int) -> Mixer:
    """Lightning attention (arXiv 2401.04658) as in MiniMax-Text-01: q, k, v, output and output gate of equal size."""
    heads = fields.count("num_attention_heads", maximum=MAX_HEADS)
    dim = fields.optional_count("head_dim", minimum=1) or max(1, hidden // heads)
    width = heads * dim
    return _mixer(5 * hidden * width + width, hidden, width * dim, heads)


def _short_convolution(fields: Fields, hidden: int) -> Mixer:
    """Gated short convolution of LFM2: three input projections, a depthwise filter, one output projection."""
    kernel = fields.count("conv_L_cache", maximum=1024)
    return _mixer(4 * hidden * hidden + hidden * kernel, hidden, hidden * (kernel - 1), hidden)
