"""The store of measurements: a DuckDB file derived from the measured kernel tables and the shipped datasets.

The only place with SQL. `build` makes the store, `open_store` opens it for reading, `advisor.store.queries` asks it.
"""

from advisor.store.builder import BuildSummary, Progress, build
from advisor.store.connection import Store, default_store_path, open_store
from advisor.store.profiler_sweeps import Sweep, SweepMeta, read_sweep, stored_sweep, sweeps
from advisor.store.queries import (
    all_reduce_table,
    all_to_all_table,
    attention_table,
    coverage,
    dataset,
    decode_without_speculation,
    dropped_rows,
    gemm_table,
    kernel_sources,
    linear_attention_table,
    mla_table,
    moe_table,
    moe_tables,
    moesd_cells,
    plain_decode_points,
    published_points,
    reuse_declarations,
    verify_cost_curve,
)
from advisor.store.state import StoreStatus, status
from advisor.store.uploads import default_uploads_path, forget_upload, kept_as, list_uploads, read_upload, save_upload

__all__ = [
    "BuildSummary",
    "Progress",
    "Store",
    "StoreStatus",
    "Sweep",
    "SweepMeta",
    "all_reduce_table",
    "all_to_all_table",
    "attention_table",
    "build",
    "coverage",
    "dataset",
    "decode_without_speculation",
    "default_store_path",
    "default_uploads_path",
    "dropped_rows",
    "forget_upload",
    "gemm_table",
    "kept_as",
    "kernel_sources",
    "linear_attention_table",
    "list_uploads",
    "mla_table",
    "moe_table",
    "moe_tables",
    "moesd_cells",
    "open_store",
    "plain_decode_points",
    "published_points",
    "read_sweep",
    "read_upload",
    "reuse_declarations",
    "save_upload",
    "status",
    "stored_sweep",
    "sweeps",
    "verify_cost_curve",
]
