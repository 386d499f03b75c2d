"""Which package tables fill which table of the store, column by column, with the factor from their unit to seconds."""

from __future__ import annotations

from dataclasses import dataclass

MILLISECOND = 1e-3
MICROSECOND = 1e-6


@dataclass(frozen=True)
class TableSpec:
    """How one package table becomes rows of a store table.

    `keys` maps a store column to a source column, or to an SQL expression over source columns when it starts with
    `=`. A source column that a file lacks becomes NULL (unknown). `needs` are the store columns a row cannot do
    without. `latency` is (phase or None, source column) pairs: one output row per pair.
    """

    table: str
    target: str
    keys: dict[str, str]
    needs: tuple[str, ...]
    seconds_per_unit: float = MILLISECOND
    latency: tuple[tuple[str | None, str], ...] = ((None, "latency"),)
    keep: str = "TRUE"
    phase_column: str | None = None
    dtype_columns: tuple[str, ...] = ()


_MOE_KEYS = {
    "kernel_source": "kernel_source",
    "dtype": "moe_dtype",
    **{name: name for name in ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts")},
    **{name: name for name in ("moe_tp_size", "moe_ep_size", "distribution")},
}
_MODULE_KEYS = {
    "op": "op_name",
    "kernel_source": "kernel_source",
    "model": "model",
    "dtype": "mla_dtype",
    "kv_dtype": "kv_cache_dtype",
    "gemm_dtype": "gemm_type",
    "num_heads": "num_heads",
    "batch_size": "batch_size",
    "tp_size": "tp_size",
    "context_tokens": "=isl + step",
    "compress_ratio": "compress_ratio",
}
_MODULE_NEEDS = ("op", "num_heads", "batch_size", "context_tokens")
_RECURRENT_KEYS = {
    "op": "op_name",
    "kernel_source": "kernel_source",
    "phase": "phase",
    "model": "model_name",
    **{name: name for name in ("batch_size", "seq_len", "d_model", "d_conv", "head_k_dim", "head_v_dim")},
    "num_k_heads": "num_k_heads",
    "num_v_heads": "num_v_heads",
}
_RECURRENT_NEEDS = ("op", "phase", "batch_size", "seq_len")


def _module(table: str) -> TableSpec:
    return TableSpec(table, "mla", _MODULE_KEYS, _MODULE_NEEDS, dtype_columns=("dtype", "kv_dtype", "gemm_dtype"))


def _recurrent(table: str, **renamed: str) -> TableSpec:
    return TableSpec(
        table, "linear_attention", {**_RECURRENT_KEYS, **renamed}, _RECURRENT_NEEDS, keep="phase <> 'context'"
    )


def _library_all_reduce(table: str) -> TableSpec:
    keys = {"kernel_source": "kernel_source", "dtype": "nccl_dtype", "n_ranks": "num_gpus"}
    return TableSpec(
        table,
        "all_reduce",
        {**keys, "message_elements": "message_size"},
        ("dtype", "n_ranks", "message_elements"),
        keep="op_name = 'all_reduce'",
        dtype_columns=("dtype",),
    )


SPECS = (
    TableSpec(
        "moe_perf",
        "moe",
        _MOE_KEYS,
        ("dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "distribution"),
        dtype_columns=("dtype",),
    ),
    TableSpec(
        "gemm_perf",
        "gemm",
        {"kernel_source": "kernel_source", "dtype": "gemm_dtype", "m": "m", "n": "n", "k": "k"},
        ("dtype", "m", "n", "k"),
        dtype_columns=("dtype",),
    ),
    TableSpec(
        "generation_attention_perf",
        "attention",
        {
            "kernel_source": "kernel_source",
            "dtype": "attn_dtype",
            "kv_dtype": "kv_cache_dtype",
            "batch_size": "batch_size",
            "context_tokens": "=isl + step",
            "num_heads": "num_heads",
            "num_kv_heads": "num_key_value_heads",
            "head_dim": "head_dim",
            "window_size": "window_size",
        },
        ("dtype", "kv_dtype", "batch_size", "context_tokens", "num_heads", "num_kv_heads", "head_dim"),
        dtype_columns=("dtype", "kv_dtype"),
    ),
    *(
        _module(table)
        for table in (
            "generation_mla_perf",
            "mla_generation_module_perf",
            "wideep_generation_mla_perf",
            "dsa_generation_module_perf",
            "dsv4_csa_generation_module_perf",
            "dsv4_hca_generation_module_perf",
            "msa_generation_module_perf",
        )
    ),
    _recurrent("gdn_perf"),
    _recurrent("kda_perf"),
    # A state-space layer in the words of linear attention: state size = key width, groups = key heads.
    _recurrent(
        "mamba2_perf", num_k_heads="n_groups", head_k_dim="d_state", num_v_heads="nheads", head_v_dim="head_dim"
    ),
    TableSpec(
        "custom_allreduce_perf",
        "all_reduce",
        {
            "kernel_source": "kernel_source",
            "dtype": "allreduce_dtype",
            "n_ranks": "num_gpus",
            "message_elements": "message_size",
        },
        ("dtype", "n_ranks", "message_elements"),
        dtype_columns=("dtype",),
    ),
    _library_all_reduce("nccl_perf"),
    _library_all_reduce("oneccl_perf"),
    TableSpec(
        "moe_a2a_perf",
        "all_to_all",
        {
            "backend": "comm_backend",
            "phase": "phase",
            "dtype": "comm_dtype",
            "n_ranks": "ep_size",
            "n_nodes": "node_num",
            **{name: name for name in ("num_tokens", "hidden_size", "topk", "num_experts")},
        },
        ("backend", "phase", "num_tokens", "hidden_size", "topk", "num_experts"),
        seconds_per_unit=MICROSECOND,  # its `latency` equals transmit_us + notify_us
        dtype_columns=("dtype",),
    ),
    TableSpec(
        "wideep_deepep_ll_perf",
        "all_to_all",
        {
            "backend": "='deepep_ll'",
            "n_nodes": "node_num",
            "num_tokens": "num_token",
            "hidden_size": "hidden_size",
            "topk": "num_topk",
            "num_experts": "num_experts",
        },
        ("backend", "phase", "num_tokens", "hidden_size", "topk", "num_experts"),
        seconds_per_unit=MICROSECOND,
        latency=(("dispatch", "dispatch_avg_t_us"), ("combine", "combine_avg_t_us")),
        phase_column="phase",
    ),
    TableSpec(
        "trtllm_alltoall_perf",
        "all_to_all",
        {
            "backend": "kernel_source",
            "phase": "=replace(op_name, 'alltoall_', '')",
            "dtype": "moe_dtype",
            "n_ranks": "moe_ep_size",
            **{name: name for name in ("num_tokens", "hidden_size", "topk", "num_experts")},
        },
        ("backend", "phase", "num_tokens", "hidden_size", "topk", "num_experts"),
        dtype_columns=("dtype",),
    ),
)
"""Every package table the store reads; all others are left alone (see docs/measured-tables.md)."""

SPEC_BY_TABLE = {spec.table: spec for spec in SPECS}
