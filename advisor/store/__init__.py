"""The store of measurements: a DuckDB file derived from the measured kernel tables and the shipped datasets.

The only place with SQL. `build` makes the store, `open_store` opens it for reading, `advisor.store.queries` asks it.
"""

from __future__ import annotations

from advisor.store.builder import Progress, build
from advisor.store.connection import Store, default_store_path, open_store
from advisor.store.kernel_tables import hardware_id
from advisor.store.profiler_sweeps import ProfilerSweep, read_sweep, stored_sweep, sweeps
from advisor.store.queries import (
    coverage,
    dataset,
    dropped_rows,
    kernel_sources,
    kernel_table,
    plain_decode_points,
    reuse_declarations,
)
from advisor.store.state import StoreStatus, status
from advisor.store.uploads import ORIGIN, forget_upload, kept_as, list_uploads, read_upload, save_upload

__all__ = [
    "ORIGIN",
    "ProfilerSweep",
    "Progress",
    "Store",
    "StoreStatus",
    "build",
    "coverage",
    "dataset",
    "default_store_path",
    "dropped_rows",
    "forget_upload",
    "hardware_id",
    "kept_as",
    "kernel_sources",
    "kernel_table",
    "list_uploads",
    "open_store",
    "plain_decode_points",
    "read_sweep",
    "read_upload",
    "reuse_declarations",
    "save_upload",
    "status",
    "stored_sweep",
    "sweeps",
]
