"""Tables of the store, as small numbered steps. The store is derived: a new schema version means a rebuild."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import duckdb

from advisor.profiling import COLUMNS as SWEEP_COLUMNS
from advisor.store.table_specs import KERNEL_TABLES

Migration = Callable[[duckdb.DuckDBPyConnection], object]

SWEEP_TEXT_COLUMNS = frozenset(
    {
        *("block", "op", "status", "dtype", "kernel", "mode", "like", "part", "engine", "engine_version"),
        *("routing", "drafter", "worker", "notes"),
    }
)
"""Columns of COLUMNS that hold words; all others are numbers, SI."""

_TIMED = "latency_s DOUBLE NOT NULL CHECK (isfinite(latency_s) AND latency_s > 0)"
# NaN and infinity pass a bare `> 0` in DuckDB, hence isfinite.
_REPEATED = "repeats INTEGER NOT NULL, repeat_spread DOUBLE NOT NULL CHECK (isfinite(repeat_spread))"
_FILE = "file_id INTEGER NOT NULL"


def _bookkeeping(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE store_info (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)")
    connection.execute(
        """CREATE TABLE kernel_files (
            file_id INTEGER PRIMARY KEY, path VARCHAR NOT NULL, source_table VARCHAR NOT NULL, target VARCHAR NOT NULL,
            hardware_id VARCHAR NOT NULL, engine VARCHAR NOT NULL, version VARCHAR NOT NULL,
            row_labels VARCHAR NOT NULL, collection_status VARCHAR NOT NULL, provenance VARCHAR NOT NULL,
            rows_read BIGINT NOT NULL, rows_kept BIGINT NOT NULL, content_hash VARCHAR NOT NULL, copy_of INTEGER)"""
    )
    connection.execute(
        """CREATE TABLE declared_reuse (hardware_id VARCHAR, engine VARCHAR, version VARCHAR, source_table VARCHAR,
            from_version VARCHAR, reason VARCHAR)"""
    )
    connection.execute(
        "CREATE TABLE dropped_rows (path VARCHAR NOT NULL, reason VARCHAR NOT NULL, n_rows BIGINT NOT NULL)"
    )


def _kernels(connection: duckdb.DuckDBPyConnection) -> None:
    for name, table in KERNEL_TABLES.items():
        keys = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        connection.execute(f"CREATE TABLE {name} ({_FILE}, {keys}, {_TIMED}, {_REPEATED})")


def _points(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """CREATE TABLE plain_decode (
            point_id VARCHAR PRIMARY KEY, hardware_id VARCHAR NOT NULL, engine VARCHAR NOT NULL,
            version VARCHAR, model VARCHAR NOT NULL, weight_dtype VARCHAR, serving_mode VARCHAR NOT NULL,
            input_tokens INTEGER, output_tokens INTEGER, batch_size INTEGER, tensor_parallel INTEGER,
            pipeline_parallel INTEGER, attention_data_parallel INTEGER, moe_tensor_parallel INTEGER,
            expert_parallel INTEGER, n_workers INTEGER, gemm_dtype VARCHAR, moe_dtype VARCHAR, ttft_s DOUBLE,
            tpot_s DOUBLE NOT NULL CHECK (isfinite(tpot_s) AND tpot_s > 0), source VARCHAR NOT NULL,
            use VARCHAR NOT NULL CHECK (use = 'validation only, never fitted'))"""
    )
    connection.execute(
        """CREATE TABLE datasets (name VARCHAR PRIMARY KEY, title VARCHAR NOT NULL, status VARCHAR NOT NULL,
            row_count INTEGER NOT NULL, sha256 VARCHAR NOT NULL)"""
    )


def _sweeps(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """CREATE TABLE sweeps (name VARCHAR PRIMARY KEY, device VARCHAR NOT NULL, backend VARCHAR NOT NULL,
            status VARCHAR NOT NULL, preset VARCHAR NOT NULL, n_rows INTEGER NOT NULL, measured_rows INTEGER NOT NULL,
            started_at VARCHAR NOT NULL, torch VARCHAR, findings VARCHAR NOT NULL, meta VARCHAR NOT NULL,
            sha256 VARCHAR NOT NULL)"""
    )
    # `like` is a word of SQL, hence the quotes
    columns = ", ".join(
        f'"{column}" {"VARCHAR" if column in SWEEP_TEXT_COLUMNS else "DOUBLE"}' for column in SWEEP_COLUMNS
    )
    connection.execute(f"CREATE TABLE sweep_rows (sweep VARCHAR NOT NULL, {columns})")


MIGRATIONS: tuple[Migration, ...] = (_bookkeeping, _kernels, _points, _sweeps)


def _layout() -> str:
    """Eight digits over the kernel tables and their columns, which the second migration makes from their one table."""
    columns = [(name, tuple(table.columns.items())) for name, table in KERNEL_TABLES.items()]
    return hashlib.sha256(repr(columns).encode()).hexdigest()[:8]


SCHEMA_VERSION = f"{len(MIGRATIONS)}-{_layout()}"
"""A store of another one is refused with the command that rebuilds it."""


def apply(connection: duckdb.DuckDBPyConnection, migrations: Sequence[Migration], applied: int = 0) -> int:
    """Run the migrations after the first `applied`, each in its own transaction. Returns how many are in force."""
    for migration in migrations[applied:]:
        connection.execute("BEGIN")
        try:
            migration(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return len(migrations)
