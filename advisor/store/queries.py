"""Questions to the store, one function each. Every answer is a pandas frame in a fixed row order; times are seconds.

Common columns of the kernel tables: hardware_id, engine, version (the folder the table lies in), kernel_source, dtype,
latency_s [s] (mean of repeats), repeats [1], repeat_spread [1] (largest over smallest repeat).
A question nothing answers gives an empty frame with all columns; a question about a table that does not exist raises.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

import pandas as pd

from advisor.prediction import AdvisorError
from advisor.store.connection import Store
from advisor.store.load import DTYPE_NAMES

BYTES_PER_ELEMENT = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "float32": 4, "fp32": 4}

_ORDERED_KEYS = {
    "moe": (
        *("dtype", "kernel_source", "distribution", "hidden_size", "inter_size", "topk", "num_experts"),
        *("moe_tp_size", "moe_ep_size", "num_tokens"),
    ),
    "gemm": ("dtype", "kernel_source", "n", "k", "m"),
    "attention": (
        *("dtype", "kv_dtype", "kernel_source", "num_heads", "num_kv_heads", "head_dim", "window_size"),
        *("batch_size", "context_tokens"),
    ),
    "mla": (
        *("op", "model", "dtype", "kv_dtype", "gemm_dtype", "kernel_source", "num_heads", "tp_size"),
        *("compress_ratio", "batch_size", "context_tokens"),
    ),
    "linear_attention": (
        *("op", "model", "kernel_source", "phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads"),
        *("head_v_dim", "seq_len", "batch_size"),
    ),
    "all_reduce": ("kernel_source", "dtype", "n_ranks", "message_elements"),
    "all_to_all": (
        *("backend", "dtype", "n_ranks", "n_nodes", "hidden_size", "topk", "num_experts", "phase", "num_tokens"),
    ),
}


class Which(TypedDict, total=False):
    """Which rows of a kernel table: exact values of its columns; None or left out takes all."""

    version: str | None
    dtype: str | None
    kv_dtype: str | None
    kernel_source: str | None
    distribution: str | None
    ep: int | None
    """Expert-parallel ranks of an MoE table; 1 keeps the rows where one rank holds all experts. [1]"""
    op: str | None
    phase: str | None
    n_ranks: int | None


def _select(store: Store, table: str, hardware_id: str, engine: str | None, which: Which) -> pd.DataFrame:
    """Rows of a kernel table. Raises AdvisorError for a column it does not have."""
    keys = _ORDERED_KEYS[table]
    wanted = {"hardware_id": hardware_id, "engine": engine, **which}
    if "ep" in wanted:
        wanted["moe_ep_size"] = wanted.pop("ep")
    unknown = set(wanted) - {"hardware_id", "engine", "version", *keys}
    if unknown:
        raise AdvisorError(f"the table {table!r} has no column {', '.join(sorted(unknown))}")
    aliased = {
        name: DTYPE_NAMES.get(str(value), value) if name.endswith("dtype") else value for name, value in wanted.items()
    }
    given = {name: value for name, value in aliased.items() if value is not None}
    condition = " AND ".join(f"{name} = ?" for name in given)
    order = ("hardware_id", "engine", "version", *keys)
    frame = store.frame(
        f"""SELECT hardware_id, engine, version, {", ".join(keys)}, latency_s, repeats, repeat_spread
            FROM {table} JOIN kernel_files USING (file_id) WHERE {condition}
            ORDER BY {", ".join(f"{name} NULLS LAST" for name in order)}""",
        list(given.values()),
    )
    # The weights of one layer exceed 2^31 elements: products of 32-bit columns would wrap around silently.
    return frame.astype({name: "int64" for name in frame.columns if frame[name].dtype == "int32"})


def moe_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured latency of the routed experts of one layer (no shared expert, no router, no communication).

    Returns
    -------
    Frame with, beside the common columns: num_tokens (tokens in the step over all expert-parallel ranks), hidden_size,
    inter_size (width of one expert before tensor-parallel splitting), topk, num_experts, moe_tp_size, moe_ep_size,
    distribution (`balanced`, `power_law_1.01`, `power_law_1.2`). docs/measured-tables.md lists the traps.
    """
    return _select(store, "moe", hardware_id, engine, which)


def moe_tables(store: Store) -> pd.DataFrame:
    """The distinct MoE tables: hardware_id, engine, version, dtype, kernel_source, n_shapes, n_shapes_ep1, n_rows."""
    shape = "(hidden_size, inter_size, topk, num_experts)"
    return store.frame(
        f"""SELECT hardware_id, engine, version, dtype, kernel_source, count(DISTINCT {shape}) AS n_shapes,
            count(DISTINCT {shape}) FILTER (moe_ep_size = 1) AS n_shapes_ep1, count(*) AS n_rows
            FROM moe JOIN kernel_files USING (file_id) GROUP BY ALL ORDER BY ALL"""
    )


def gemm_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured latency of an (m x k) by (k x n) matrix product; m counts tokens, n and k are weight dimensions."""
    return _select(store, "gemm", hardware_id, engine, which)


def attention_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured decode attention of one layer, one query token per sequence.

    batch_size sequences each attend to context_tokens cached tokens; window_size 0 is full attention, missing is
    not stated.
    """
    return _select(store, "attention", hardware_id, engine, which)


def mla_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured decode of one latent or sparse attention layer; op says how much of the layer is timed.

    `mla_generation` is the attention kernel alone; ops ending in `_module` contain the projections too. num_heads is
    per rank.
    """
    return _select(store, "mla", hardware_id, engine, which)


def all_reduce_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured all-reduce among n_ranks accelerators of message_bytes each [bytes]; engine may be nccl or oneccl.

    message_bytes is message_elements times the element size, missing for a dtype of unknown size.
    """
    frame = _select(store, "all_reduce", hardware_id, engine, which)
    size = frame["dtype"].map(BYTES_PER_ELEMENT).astype("float64")
    frame.insert(frame.columns.get_loc("message_elements") + 1, "message_bytes", frame["message_elements"] * size)
    return frame


def all_to_all_table(store: Store, hardware_id: str, engine: str | None = None, **which: Unpack[Which]) -> pd.DataFrame:
    """Measured expert-parallel exchange: phase dispatch, combine (or prepare), num_tokens per rank, within n_nodes."""
    return _select(store, "all_to_all", hardware_id, engine, which)


def plain_decode_points(store: Store) -> pd.DataFrame:
    """End-to-end points without speculation, with tpot_s and ttft_s [s]. They judge predictions; never fit on them."""
    return store.frame("SELECT * FROM plain_decode ORDER BY point_id")


def dataset(store: Store, name: str) -> pd.DataFrame:
    """A shipped dataset, columns as in its meta.yaml; empty cells are missing values."""
    known = [row[0] for row in store.rows("SELECT name FROM datasets ORDER BY name")]
    if name not in known:
        raise AdvisorError(f"the store holds no dataset {name!r}; it has {', '.join(known) or 'none'}")
    return store.frame(f'SELECT * FROM "dataset_{name}" ORDER BY rowid')


def published_points(store: Store) -> pd.DataFrame:
    """Published speculative-decoding measurements (dataset published_speedups)."""
    return dataset(store, "published_speedups")


def moesd_cells(store: Store) -> pd.DataFrame:
    """Tables 1 and 2 of arXiv 2505.19645 (dataset moesd_cells)."""
    return dataset(store, "moesd_cells")


def verify_cost_curve(store: Store) -> pd.DataFrame:
    """Step time against tokens verified (dataset verify_cost_curve)."""
    return dataset(store, "verify_cost_curve")


def coverage(store: Store) -> pd.DataFrame:
    """What is measured: hardware_id, engine, version, op, dtype, n_shapes, n_rows, smallest and largest n_tokens."""
    dims = {
        "moe": ("dtype", "(hidden_size, inter_size, topk, num_experts)", "num_tokens"),
        "gemm": ("dtype", "(n, k)", "m"),
        "attention": ("dtype", "(num_heads, num_kv_heads, head_dim, window_size)", "batch_size"),
        "mla": ("dtype", "(op, model, num_heads, compress_ratio)", "batch_size"),
        "linear_attention": ("op", "(model, num_k_heads, num_v_heads)", "batch_size * seq_len"),
        "all_reduce": ("dtype", "n_ranks", "NULL::INTEGER"),
        "all_to_all": ("dtype", "(hidden_size, topk, num_experts, n_ranks)", "num_tokens"),
    }
    parts = [
        f"""SELECT hardware_id, engine, version, '{table}' AS op, {dtype} AS dtype, count(DISTINCT {shape}) AS n_shapes,
            count(*) AS n_rows, min({tokens}) AS min_tokens, max({tokens}) AS max_tokens
            FROM {table} JOIN kernel_files USING (file_id) GROUP BY ALL"""
        for table, (dtype, shape, tokens) in dims.items()
    ]
    return store.frame(f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY ALL")


def kernel_sources(store: Store) -> pd.DataFrame:
    """Each package file that was read: path, labels of its rows, collection status, rows, and the file it copies."""
    return store.frame(
        """SELECT f.path, f.hardware_id, f.engine, f.version, f.source_table, f.row_labels, f.collection_status,
            f.provenance, f.rows_read, f.rows_kept, o.path AS copy_of
            FROM kernel_files f LEFT JOIN kernel_files o ON f.copy_of = o.file_id ORDER BY f.path"""
    )


def reuse_declarations(store: Store) -> pd.DataFrame:
    """Tables the package serves from another version; they hold no rows of their own under the declaring version."""
    return store.frame("SELECT * FROM declared_reuse ORDER BY ALL")


def dropped_rows(store: Store) -> pd.DataFrame:
    """Rows left out, counted by file and reason."""
    return store.frame("SELECT * FROM dropped_rows ORDER BY ALL")
