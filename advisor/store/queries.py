"""Questions to the store, one function each. Every answer is a pandas frame in a fixed row order; times are seconds.

Common columns of the kernel tables: hardware_id, engine, version (the folder the table lies in), kernel_source, dtype,
latency_s [s] (mean of repeats), repeats [-], repeat_spread [-] (largest over smallest repeat).
A question nothing answers gives an empty frame with all columns; a question about a table that does not exist raises.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

import pandas as pd

from advisor.prediction import AdvisorError
from advisor.store.connection import Store
from advisor.store.load import DTYPE_NAMES
from advisor.store.table_specs import KERNEL_TABLES

BYTES_PER_ELEMENT = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "float32": 4, "fp32": 4}


class Which(TypedDict, total=False):
    """Choice of rows of a kernel table by exact values of its columns. None or left out takes all."""

    version: str | None
    dtype: str | None
    kv_dtype: str | None
    kernel_source: str | None
    distribution: str | None
    ep: int | None
    """Expert-parallel ranks of an MoE table; 1 keeps the rows where one rank holds all experts. [-]"""
    op: str | None
    phase: str | None
    n_ranks: int | None


def kernel_table(
    store: Store, table: str, hardware_id: str, engine: str | None = None, **which: Unpack[Which]
) -> pd.DataFrame:
    """Measured times of one kernel on one accelerator. `table` is a name of KERNEL_TABLES, which says what a row is.

    The all-reduce gets message_bytes [bytes] beside its elements, missing for a dtype of unknown size.
    Raises AdvisorError for a table or a column that does not exist.
    """
    if table not in KERNEL_TABLES:
        raise AdvisorError(f"there is no kernel table {table!r}; choose one of {', '.join(KERNEL_TABLES)}")
    keys = tuple(KERNEL_TABLES[table].columns)
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
    if table == "all_reduce":
        size = frame["dtype"].map(BYTES_PER_ELEMENT).astype("float64")
        frame.insert(frame.columns.get_loc("message_elements") + 1, "message_bytes", frame["message_elements"] * size)
    # The weights of one layer exceed 2^31 elements: products of 32-bit columns would wrap around silently.
    return frame.astype({name: "int64" for name in frame.columns if frame[name].dtype == "int32"})


def plain_decode_points(store: Store) -> pd.DataFrame:
    """End-to-end points without speculation, with tpot_s and ttft_s [s]. They judge predictions; never fit on them."""
    return store.frame("SELECT * FROM plain_decode ORDER BY point_id")


def dataset(store: Store, name: str) -> pd.DataFrame:
    """Shipped dataset, columns as in its meta.yaml.

    Empty cells are missing values. Raises AdvisorError when the store holds none of that name.
    """
    known = [row[0] for row in store.rows("SELECT name FROM datasets ORDER BY name")]
    if name not in known:
        raise AdvisorError(f"the store holds no dataset {name!r}; it has {', '.join(known) or 'none'}")
    return store.frame(f'SELECT * FROM "dataset_{name}" ORDER BY rowid')


def coverage(store: Store) -> pd.DataFrame:
    """Table of what is measured.

    hardware_id, engine, version, op, dtype, n_shapes, n_rows, smallest and largest n_tokens.
    """
    parts = [
        f"""SELECT hardware_id, engine, version, '{name}' AS op, {table.label} AS dtype,
            count(DISTINCT {table.shape}) AS n_shapes, count(*) AS n_rows, min({table.tokens}) AS min_tokens,
            max({table.tokens}) AS max_tokens
            FROM {name} JOIN kernel_files USING (file_id) GROUP BY ALL"""
        for name, table in KERNEL_TABLES.items()
    ]
    return store.frame(f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY ALL")


def kernel_sources(store: Store) -> pd.DataFrame:
    """Package files that were read. Path, labels of its rows, collection status, rows, and the file it copies."""
    return store.frame(
        """SELECT f.path, f.hardware_id, f.engine, f.version, f.source_table, f.row_labels, f.collection_status,
            f.provenance, f.rows_read, f.rows_kept, o.path AS copy_of
            FROM kernel_files f LEFT JOIN kernel_files o ON f.copy_of = o.file_id ORDER BY f.path"""
    )


def reuse_declarations(store: Store) -> pd.DataFrame:
    """Tables the package serves from another version. They hold no rows of their own under the declaring version."""
    return store.frame("SELECT * FROM declared_reuse ORDER BY ALL")


def dropped_rows(store: Store) -> pd.DataFrame:
    """Rows left out, counted by file and reason."""
    return store.frame("SELECT * FROM dropped_rows ORDER BY ALL")
