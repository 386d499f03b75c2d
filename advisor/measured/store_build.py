"""Building the store from the measured kernel tables, and whether one still matches them."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import duckdb
import pandas as pd

from advisor.measured.store import (
    BUILD_COMMAND,
    MEMORY_LIMIT,
    SCHEMA_VERSION,
    THREADS,
    coverage,
    create_tables,
    default_store_path,
    dropped_rows,
    is_full_disk,
    kernel_sources,
    only_writer,
    open_store,
    quoted,
    storage_faults,
)
from advisor.measured.store_tables import (
    DTYPE_NAMES,
    HARDWARE_BY_DEVICE,
    KERNEL_TABLES,
    SPEC_BY_TABLE,
    KernelFile,
    KernelPackage,
    TableSpec,
    installed_package,
    kernel_files,
)
from advisor.prediction import AdvisorError
from advisor.profiles import is_there


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


def _stage(
    connection: duckdb.DuckDBPyConnection, spec: TableSpec, path: Path
) -> tuple[list[str], set[str]]:
    """Fill the temporary table `staged` (keys, latency_s, fault). Returns its key columns and the
    source columns."""
    source = f"read_parquet({quoted(path)})"
    available = {
        row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    }
    described = connection.execute(f"DESCRIBE {spec.target}").fetchall()
    types = {
        row[0]: row[1]
        for row in described
        if row[0] not in {"file_id", "latency_s", "repeats", "repeat_spread"}
    }
    parts = []
    for phase, latency in spec.latency:
        fields = []
        for column, kind in types.items():
            expression = (
                f"'{phase}'"
                if phase and column == "phase"
                else _expression(spec, column, available)
            )
            fields.append(f"TRY_CAST({expression} AS {kind}) AS {column}")
        fields.append(f"CAST({latency} AS DOUBLE) * {spec.seconds_per_unit!r} AS latency_s")
        parts.append(f"SELECT {', '.join(fields)} FROM {source} WHERE {spec.keep}")
    missing = " ".join(f"WHEN {column} IS NULL THEN 'no {column}'" for column in spec.needs)
    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE staged AS SELECT *, CASE {missing}
            WHEN latency_s IS NULL OR NOT isfinite(latency_s) THEN 'latency is not a finite number'
            WHEN latency_s <= 0 THEN 'latency is not positive' END AS fault FROM ({" UNION ALL ".join(parts)})"""  # noqa: E501
    )
    return list(types), available


def _single(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple:
    """The one row of an aggregate without GROUP BY."""
    return connection.execute(sql).fetchall()[0]


def load_kernel_file(
    connection: duckdb.DuckDBPyConnection, file_id: int, file: KernelFile, spec: TableSpec
) -> LoadedFile:
    """Load one parquet file into its table.

    A file whose measurements (shapes and latencies, device and version labels aside) are those of a
    file loaded before is recorded as its copy and adds no rows. Rows of one file with equal keys
    are repeats of one measurement: they become one row with their mean, their number, and the ratio
    of the largest to the smallest.
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
    rows_kept = 0
    if original is None and rows_read:
        if bad:
            connection.execute(
                (
                    "INSERT INTO dropped_rows SELECT ?, fault, count(*) FROM staged WHERE fault "
                    "IS NOT NULL GROUP BY fault"
                ),
                [file.relative],
            )
        connection.execute(
            f"""INSERT INTO {spec.target} (file_id, {columns}, latency_s, repeats, repeat_spread)
                SELECT {file_id}, {columns}, avg(latency_s), count(*), max(latency_s) / min(latency_s)
                FROM staged WHERE fault IS NULL GROUP BY {columns} ORDER BY {columns}"""  # noqa: E501
        )
        rows_kept = _single(
            connection, f"SELECT count(*) FROM {spec.target} WHERE file_id = {file_id}"
        )[0]
    copy_of = None if original is None else int(original[0])
    connection.execute(
        "INSERT INTO kernel_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(
                file_id,
                file.relative,
                file.table,
                spec.target,
                file.hardware_id,
                file.engine,
                file.version,
            ),
            *(row_labels(connection, file.path, available), file.status, file.provenance),
            *(rows_read, rows_kept, content, copy_of),
        ],
    )
    merged = rows_read - bad - rows_kept if original is None else 0
    return LoadedFile(rows_read, rows_kept, merged, bad if original is None else 0, copy_of)


def row_labels(
    connection: duckdb.DuckDBPyConnection, path: Path, available: set[str] | None = None
) -> str:
    """Framework and version as the rows themselves say (`TRTLLM 1.2.0rc5`), joined by `; `. Empty
    without labels."""
    source = f"read_parquet({quoted(path)})"
    if available is None:
        available = {
            row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        }
    if not {"framework", "version"} <= available:
        return ""
    labels = connection.execute(
        f"SELECT DISTINCT framework || ' ' || version AS label FROM {source} ORDER BY label"
    )
    return "; ".join(str(label) for (label,) in labels.fetchall())


def load_plain_decode(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The package's end-to-end points without speculation. Returns the rows kept. They judge, and
    are never fitted."""
    cases = " ".join(
        f"WHEN '{device}' THEN '{ours}'" for device, ours in HARDWARE_BY_DEVICE.items()
    )

    def phase(name: str) -> str:  # a disaggregated run has its own decode pool
        return f"CASE mode WHEN 'disagg' THEN decode_{name} ELSE {name} END"

    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE staged AS SELECT id, CASE system {cases} ELSE replace(system, '_', '-') END,
            backend, backend_version, model_path, precision, mode, isl, osl, {phase("batch_size")}, {phase("tp_size")},
            {phase("pp_size")}, {phase("attention_dp_size")}, {phase("moe_tp_size")}, {phase("moe_ep_size")},
            CASE mode WHEN 'disagg' THEN decode_num_workers END, gemm_quant_mode, moe_quant_mode,
            silicon_ttft_ms * 1e-3, silicon_tpot_ms * 1e-3 AS tpot_s, silicon_data_source,
            'validation only, never fitted'
            FROM read_csv({quoted(path)}, delim = ',', header = true, sample_size = -1)"""  # noqa: E501
    )
    good = "tpot_s IS NOT NULL AND isfinite(tpot_s) AND tpot_s > 0"
    connection.execute(f"INSERT INTO plain_decode SELECT * FROM staged WHERE {good}")
    rows_read, rows_kept = _single(
        connection, f"SELECT count(*), count(*) FILTER ({good}) FROM staged"
    )
    if rows_read > rows_kept:
        connection.execute(
            "INSERT INTO dropped_rows VALUES (?, 'no positive time per output token', ?)",
            [path.name, rows_read - rows_kept],
        )
    return int(rows_kept)


@dataclass(frozen=True)
class StoreStatus:
    """State of the store at `path`. `problem` says in one sentence why it cannot be used, and is
    empty otherwise."""

    path: Path
    exists: bool
    problem: str = ""
    size_bytes: int = 0
    built_utc: dt.datetime | None = None
    """Naive, in UTC."""
    kernel_package_version: str = ""
    """Empty: built without the kernel tables."""
    stale_because: tuple[str, ...] = ()
    """Reasons to rebuild; empty when the store matches its sources."""
    rows_by_table: dict[str, int] | None = None
    coverage: pd.DataFrame | None = None
    copies: pd.DataFrame | None = None
    dropped: pd.DataFrame | None = None

    @property
    def stale(self) -> bool:
        """True when a rebuild would change what the store holds."""
        return bool(self.stale_because)


def status(path: str | os.PathLike[str] | None = None) -> StoreStatus:
    """Look at the store without changing it. Never raises for a missing or unusable one."""
    file = Path(path) if path is not None else default_store_path()
    if not is_there(file) or not file.is_file():
        return StoreStatus(
            file, exists=False, problem=f"there is no store at {file}; run `{BUILD_COMMAND}`"
        )
    try:
        with open_store(file) as store:
            info = store.info()
            sources = kernel_sources(store)
            copies = sources[sources["copy_of"].notna()].reset_index(drop=True)
            tables = (*KERNEL_TABLES, "plain_decode")
            size_bytes = file.stat().st_size
            built_utc = dt.datetime.fromisoformat(info["built_utc"]).replace(tzinfo=None)
            return StoreStatus(
                path=file,
                exists=True,
                size_bytes=size_bytes,
                built_utc=built_utc,
                kernel_package_version=info["kernel_package_version"],
                stale_because=_reasons(info),
                rows_by_table={
                    name: int(store.rows(f"SELECT count(*) FROM {name}")[0][0]) for name in tables
                },
                coverage=coverage(store),
                copies=copies,
                dropped=dropped_rows(store),
            )
    except AdvisorError as error:
        problem = str(error)
    # A file that another program made or that was cut may lack anything: tables, keys, dates, its
    # size.
    except Exception as error:
        problem = (
            f"{file} is not a usable store ({type(error).__name__}); rebuild it with "
            f"`{BUILD_COMMAND}`"
        )
    return StoreStatus(file, exists=True, problem=problem)


@functools.cache
def builder_sha256() -> str:
    """Hash of the sources that decide what a build makes of the tables."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.glob("store*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _reasons(info: dict[str, str]) -> tuple[str, ...]:
    reasons = (
        []
        if info.get("builder_sha256") == builder_sha256()
        else ["the code that builds it has changed"]
    )
    package = installed_package()
    built_with = info["kernel_package_version"]
    # A package that has gone since is no reason: a rebuild would only lose its tables.
    if package is not None and package.version != built_with:
        reasons.append(
            f"kernel tables of version {package.version} are installed, the store has "
            f"{built_with or 'none'}"
        )
    return tuple(reasons)


Progress = Callable[[str, float], None]
"""Called with what is being done and the finished fraction in [0, 1]."""
PLAIN_DECODE_FILE = "silicon_sample.csv"


@dataclass(frozen=True)
class BuildSummary:
    """Summary of a build."""

    path: Path
    seconds: float = 0.0
    size_bytes: int = 0
    kernel_package_version: str | None = None
    """None: the package is not installed, the store is empty."""
    rows_by_table: dict[str, int] = field(default_factory=dict)
    n_files: int = 0
    copies: tuple[tuple[str, str], ...] = ()
    """(file left out, file whose measurements it repeats)"""
    repeats_merged: int = 0
    dropped_rows: int = 0
    notes: tuple[str, ...] = ()


def build(
    path: str | os.PathLike[str] | None = None,
    progress: Progress = lambda *_: None,
    *,
    kernels: KernelPackage | Literal["installed"] | None = "installed",
) -> BuildSummary:
    """Build the store at a path, replacing an older one only when all of it is done.

    None: the default path.

    Parameters
    ----------
    kernels : the kernel package; "installed" looks for it, None builds an empty store.

    Raises
    ------
    AdvisorError : another process writes this store, or a package table cannot be read. The old
        store stays.
    """
    target = Path(path) if path is not None else default_store_path()
    package = installed_package() if kernels == "installed" else kernels
    started = time.monotonic()
    fresh = target.with_name(target.name + ".new")
    leftovers = (fresh, fresh.with_name(fresh.name + ".wal"))
    with only_writer(target), storage_faults(fresh, "run it again; the old store is as it was"):
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        try:
            with duckdb.connect(
                str(fresh), config={"memory_limit": MEMORY_LIMIT, "threads": THREADS}
            ) as connection:
                summary = _fill(connection, target, package, progress)
                connection.execute("CHECKPOINT")
            os.replace(fresh, target)  # atomic: readers see the old store or the new one
        finally:
            for leftover in leftovers:
                leftover.unlink(missing_ok=True)
    progress("done", 1.0)
    return replace(summary, seconds=time.monotonic() - started, size_bytes=target.stat().st_size)


def _fill(
    connection: duckdb.DuckDBPyConnection,
    target: Path,
    package: KernelPackage | None,
    progress: Progress,
) -> BuildSummary:
    connection.execute(
        "SET preserve_insertion_order = true"
    )  # rows sorted by key compress and skip well
    create_tables(connection)
    if package is None:
        summary = BuildSummary(
            target, notes=("aiconfigurator-core is not installed: no measured kernel tables",)
        )
    else:
        summary = _fill_kernels(
            connection,
            BuildSummary(target, kernel_package_version=package.version),
            package,
            progress,
        )
    info = {
        "schema_version": SCHEMA_VERSION,
        "built_utc": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "kernel_package_version": "" if package is None else package.version,
        "builder_sha256": builder_sha256(),
    }
    connection.executemany("INSERT INTO store_info VALUES (?, ?)", list(info.items()))
    counted = [*KERNEL_TABLES, "plain_decode"]
    rows = {
        name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0])
        for name in counted
    }
    return replace(summary, rows_by_table=rows)


def _fill_kernels(
    connection: duckdb.DuckDBPyConnection,
    summary: BuildSummary,
    package: KernelPackage,
    progress: Progress,
) -> BuildSummary:
    files = kernel_files(package, set(SPEC_BY_TABLE))
    try:
        # Of several files with the same measurements, keep the one whose rows name the folder they
        # lie in.
        labelled = {}
        for file in files:
            labels = re.sub(r"[^a-z0-9.;]", "", row_labels(connection, file.path).lower()).split(
                ";"
            )
            labelled[file.path] = (
                re.sub(r"[^a-z0-9.]", "", f"{file.engine}{file.version}") in labels
            )
        files.sort(key=lambda file: (not labelled[file.path], file.relative))
        loaded = []
        for file_id, file in enumerate(files):
            progress(
                f"{file.hardware_id} {file.engine} {file.version} {file.table}",
                file_id / len(files),
            )
            loaded.append(load_kernel_file(connection, file_id, file, SPEC_BY_TABLE[file.table]))
        sample = package.systems / PLAIN_DECODE_FILE
        if sample.is_file():
            load_plain_decode(connection, sample)
    except duckdb.Error as error:
        if is_full_disk(error):  # no fault of the package's
            raise
        reason = str(error).splitlines()[0]
        raise AdvisorError(
            f"the kernel tables of aiconfigurator-core {package.version} cannot be read "
            f"({reason}); install the pinned version from requirements.txt"
        ) from error
    return replace(
        summary,
        n_files=len(files),
        copies=tuple(
            (file.relative, files[result.copy_of].relative)
            for file, result in zip(files, loaded, strict=True)
            if result.copy_of is not None
        ),
        repeats_merged=sum(result.repeats_merged for result in loaded),
        dropped_rows=sum(result.dropped for result in loaded),
    )
