"""Tables of the store, as small numbered steps. The store is derived: a new schema version means a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from advisor.profiling import COLUMNS as SWEEP_COLUMNS

Migration = Callable[[duckdb.DuckDBPyConnection], object]

SWEEP_TEXT_COLUMNS = frozenset(
    {"block", "op", "status", "dtype", "kernel", "mode", "like", "routing", "drafter", "worker", "notes"}
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
    tail = f"{_TIMED}, {_REPEATED}"
    connection.execute(
        f"""CREATE TABLE moe ({_FILE}, kernel_source VARCHAR, dtype VARCHAR NOT NULL, num_tokens INTEGER NOT NULL,
            hidden_size INTEGER NOT NULL, inter_size INTEGER NOT NULL, topk INTEGER NOT NULL,
            num_experts INTEGER NOT NULL, moe_tp_size INTEGER, moe_ep_size INTEGER,
            distribution VARCHAR NOT NULL, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE gemm ({_FILE}, kernel_source VARCHAR, dtype VARCHAR NOT NULL, m INTEGER NOT NULL,
            n INTEGER NOT NULL, k INTEGER NOT NULL, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE attention ({_FILE}, kernel_source VARCHAR, dtype VARCHAR NOT NULL, kv_dtype VARCHAR NOT NULL,
            batch_size INTEGER NOT NULL, context_tokens INTEGER NOT NULL, num_heads INTEGER NOT NULL,
            num_kv_heads INTEGER NOT NULL, head_dim INTEGER NOT NULL, window_size INTEGER, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE mla ({_FILE}, op VARCHAR NOT NULL, kernel_source VARCHAR, model VARCHAR, dtype VARCHAR,
            kv_dtype VARCHAR, gemm_dtype VARCHAR, num_heads INTEGER NOT NULL, batch_size INTEGER NOT NULL,
            tp_size INTEGER, context_tokens INTEGER NOT NULL, compress_ratio INTEGER, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE linear_attention ({_FILE}, op VARCHAR NOT NULL, kernel_source VARCHAR, phase VARCHAR NOT NULL,
            model VARCHAR, batch_size INTEGER NOT NULL, seq_len INTEGER NOT NULL, d_model INTEGER, d_conv INTEGER,
            head_k_dim INTEGER, head_v_dim INTEGER, num_k_heads INTEGER, num_v_heads INTEGER, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE all_reduce ({_FILE}, kernel_source VARCHAR, dtype VARCHAR NOT NULL, n_ranks INTEGER NOT NULL,
            message_elements BIGINT NOT NULL, {tail})"""
    )
    connection.execute(
        f"""CREATE TABLE all_to_all ({_FILE}, backend VARCHAR NOT NULL, phase VARCHAR NOT NULL, dtype VARCHAR,
            n_ranks INTEGER, n_nodes INTEGER, num_tokens INTEGER NOT NULL, hidden_size INTEGER NOT NULL,
            topk INTEGER NOT NULL, num_experts INTEGER NOT NULL, {tail})"""
    )


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
SCHEMA_VERSION = len(MIGRATIONS)
KERNEL_TABLES = ("moe", "gemm", "attention", "mla", "linear_attention", "all_reduce", "all_to_all")


def apply(connection: duckdb.DuckDBPyConnection, migrations: Sequence[Migration], applied: int = 0) -> int:
    """Run the migrations after the first `applied`, each in its own transaction; returns how many are in force."""
    for migration in migrations[applied:]:
        connection.execute("BEGIN")
        try:
            migration(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return len(migrations)
