"""Moving one source into the store: a kernel parquet file, the plain-decode sample, or a shipped dataset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

from advisor.store.connection import quoted
from advisor.store.kernel_tables import HARDWARE_BY_DEVICE, KernelFile
from advisor.store.measurements import DatasetMeta
from advisor.store.table_specs import TableSpec

DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_e4m3": "fp8"}
_IDENTIFIER_ENDINGS = ("_id", "_version", "date", "curve")


@dataclass(frozen=True)
class LoadedFile:
    """Fate of one kernel file."""

    rows_read: int
    rows_kept: int
    """Rows in the store, repeats of one measurement merged; 0 for a copy."""
    repeats_merged: int
    dropped: int
    copy_of: int | None


def _expression(spec: TableSpec, column: str, available: set[str]) -> str:
    source = spec.keys.get(column)
    if source is None:
        return "NULL"
    if source.startswith("="):
        return source[1:]
    if source not in available:
        return "NULL"
    if column.endswith("dtype"):  # engines spell one format in several ways
        cases = " ".join(f"WHEN '{raw}' THEN '{ours}'" for raw, ours in DTYPE_NAMES.items())
        return f"CASE {source} {cases} ELSE {source} END"
    return source


def _stage(connection: duckdb.DuckDBPyConnection, spec: TableSpec, path: Path) -> tuple[list[str], set[str]]:
    """Fill the temporary table `staged` (keys, latency_s, fault). Returns its key columns and the source columns."""
    source = f"read_parquet({quoted(path)})"
    available = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    described = connection.execute(f"DESCRIBE {spec.target}").fetchall()
    types = {row[0]: row[1] for row in described if row[0] not in {"file_id", "latency_s", "repeats", "repeat_spread"}}
    parts = []
    for phase, latency in spec.latency:
        fields = []
        for column, kind in types.items():
            expression = f"'{phase}'" if phase and column == "phase" else _expression(spec, column, available)
            fields.append(f"TRY_CAST({expression} AS {kind}) AS {column}")
        fields.append(f"CAST({latency} AS DOUBLE) * {spec.seconds_per_unit!r} AS latency_s")
        parts.append(f"SELECT {', '.join(fields)} FROM {source} WHERE {spec.keep}")
    missing = " ".join(f"WHEN {column} IS NULL THEN 'no {column}'" for column in spec.needs)
    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE staged AS SELECT *, CASE {missing}
            WHEN latency_s IS NULL OR NOT isfinite(latency_s) THEN 'latency is not a finite number'
            WHEN latency_s <= 0 THEN 'latency is not positive' END AS fault FROM ({" UNION ALL ".join(parts)})"""
    )
    return list(types), available


def _single(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple:
    row = connection.execute(sql).fetchone()
    assert row is not None  # an aggregate without GROUP BY always has one row
    return row


def load_kernel_file(
    connection: duckdb.DuckDBPyConnection, file_id: int, file: KernelFile, spec: TableSpec
) -> LoadedFile:
    """Load one parquet file into its table.

    A file whose measurements (shapes and latencies, device and version labels aside) are those of a file loaded
    before is recorded as its copy and adds no rows. Rows of one file with equal keys are repeats of one measurement:
    they become one row with their mean, their number, and the ratio of the largest to the smallest.
    """
    keys, available = _stage(connection, spec, file.path)
    columns = ", ".join(keys)
    rows_read, bad = _single(connection, "SELECT count(*), count(fault) FROM staged")
    total, digest = _single(
        connection,
        f"""SELECT count(*), sum(h)::VARCHAR || ':' || bit_xor(h)
            FROM (SELECT hash({columns}, latency_s) AS h FROM staged)""",
    )
    content = f"{spec.target}:{total}:{digest}"
    original = connection.execute(
        "SELECT file_id FROM kernel_files WHERE content_hash = ? AND rows_read > 0", [content]
    ).fetchone()
    kept = 0
    if original is None and rows_read:
        if bad:
            connection.execute(
                "INSERT INTO dropped_rows SELECT ?, fault, count(*) FROM staged WHERE fault IS NOT NULL GROUP BY fault",
                [file.relative],
            )
        connection.execute(
            f"""INSERT INTO {spec.target} (file_id, {columns}, latency_s, repeats, repeat_spread)
                SELECT {file_id}, {columns}, avg(latency_s), count(*), max(latency_s) / min(latency_s)
                FROM staged WHERE fault IS NULL GROUP BY {columns} ORDER BY {columns}"""
        )
        kept = _single(connection, f"SELECT count(*) FROM {spec.target} WHERE file_id = {file_id}")[0]
    copy_of = None if original is None else int(original[0])
    connection.execute(
        "INSERT INTO kernel_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(file_id, file.relative, file.table, spec.target, file.hardware_id, file.engine, file.version),
            *(row_labels(connection, file.path, available), file.status, file.provenance),
            *(rows_read, kept, content, copy_of),
        ],
    )
    merged = rows_read - bad - kept if original is None else 0
    return LoadedFile(rows_read, kept, merged, bad if original is None else 0, copy_of)


def row_labels(connection: duckdb.DuckDBPyConnection, path: Path, available: set[str] | None = None) -> str:
    """Framework and version as the rows themselves say (`TRTLLM 1.2.0rc5`), joined by `; `. Empty without labels."""
    source = f"read_parquet({quoted(path)})"
    if available is None:
        available = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    if not {"framework", "version"} <= available:
        return ""
    found = connection.execute(f"SELECT DISTINCT framework || ' ' || version AS label FROM {source} ORDER BY label")
    return "; ".join(str(label) for (label,) in found.fetchall())


def load_plain_decode(connection: duckdb.DuckDBPyConnection, path: Path, dropped_as: str) -> int:
    """The package's end-to-end points without speculation. Returns the rows kept. They judge, and are never fitted."""
    cases = " ".join(f"WHEN '{device}' THEN '{ours}'" for device, ours in HARDWARE_BY_DEVICE.items())

    def phase(name: str) -> str:  # a disaggregated run has its own decode pool
        return f"CASE mode WHEN 'disagg' THEN decode_{name} ELSE {name} END"

    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE staged AS SELECT id, CASE system {cases} ELSE replace(system, '_', '-') END,
            backend, backend_version, model_path, precision, mode, isl, osl, {phase("batch_size")}, {phase("tp_size")},
            {phase("pp_size")}, {phase("attention_dp_size")}, {phase("moe_tp_size")}, {phase("moe_ep_size")},
            CASE mode WHEN 'disagg' THEN decode_num_workers END, gemm_quant_mode, moe_quant_mode,
            silicon_ttft_ms * 1e-3, silicon_tpot_ms * 1e-3 AS tpot_s, silicon_data_source,
            'validation only, never fitted'
            FROM read_csv({quoted(path)}, delim = ',', header = true, sample_size = -1)"""
    )
    good = "tpot_s IS NOT NULL AND isfinite(tpot_s) AND tpot_s > 0"
    connection.execute(f"INSERT INTO plain_decode SELECT * FROM staged WHERE {good}")
    read, kept = _single(connection, f"SELECT count(*), count(*) FILTER ({good}) FROM staged")
    if read > kept:
        connection.execute(
            "INSERT INTO dropped_rows VALUES (?, 'no positive time per output token', ?)", [dropped_as, read - kept]
        )
    return int(kept)


def load_dataset(connection: duckdb.DuckDBPyConnection, name: str, meta: DatasetMeta, text: pd.DataFrame) -> None:
    """A shipped dataset as table `dataset_<name>`. Empty cells become NULL, all-numeric columns DOUBLE."""
    typed = pd.DataFrame({column: _typed(text[column]) for column in text.columns})
    connection.register("incoming", typed)
    connection.execute(f'CREATE TABLE "dataset_{name}" AS SELECT * FROM incoming')
    connection.unregister("incoming")
    connection.execute(
        "INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", [name, meta.title, meta.status, meta.row_count, meta.sha256]
    )


def _typed(cells: pd.Series) -> pd.Series:
    known = cells.where(cells != "")
    if str(cells.name).endswith(_IDENTIFIER_ENDINGS):
        return known
    numbers = pd.to_numeric(known, errors="coerce")
    all_numeric = bool(known.notna().any()) and bool((numbers.notna() == known.notna()).all())
    return numbers.astype("float64") if all_numeric else known


def to_json(value: object) -> str:
    """Compact JSON with sorted keys, for store_info."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
