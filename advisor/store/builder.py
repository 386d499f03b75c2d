"""Building the store from the measured kernel tables and the shipped measurements."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Literal

import duckdb

from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from advisor.store import schema
from advisor.store.connection import (
    MEMORY_LIMIT,
    THREADS,
    default_store_path,
    is_full_disk,
    only_writer,
    storage_faults,
)
from advisor.store.kernel_tables import (
    HARDWARE_BY_DEVICE,
    KernelFile,
    KernelPackage,
    declared_reuse,
    installed_package,
    kernel_files,
)
from advisor.store.load import load_dataset, load_kernel_file, load_plain_decode, row_labels, to_json
from advisor.store.measurements import (
    dataset_folders,
    measurement_hashes,
    read_dataset,
    sweep_folders,
    unfinished_sweeps,
)
from advisor.store.profiler_sweeps import load_sweep, read_sweep
from advisor.store.state import builder_sha256
from advisor.store.table_specs import KERNEL_TABLES, SPEC_BY_TABLE

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
    """None: the package is not installed, the store holds the shipped measurements alone."""
    rows_by_table: dict[str, int] = field(default_factory=dict)
    n_files: int = 0
    copies: tuple[tuple[str, str], ...] = ()
    """(file left out, file whose measurements it repeats)"""
    rows_in_copies: int = 0
    repeats_merged: int = 0
    dropped_rows: int = 0
    unknown_devices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _silent(_step: str, _fraction: float) -> None:
    return None


def build(
    path: str | os.PathLike[str] | None = None,
    progress: Progress = _silent,
    *,
    kernels: KernelPackage | Literal["installed"] | None = "installed",
    measurements: Path = MEASUREMENTS,
) -> BuildSummary:
    """Build the store at a path, replacing an older one only when all of it is done.

    None: the default path.

    Parameters
    ----------
    kernels : the kernel package; "installed" looks for it, None builds from the measurements alone.
    measurements : folder of datasets.

    Raises
    ------
    AdvisorError : another process writes this store, a dataset does not agree with its meta.yaml, or a package table
        cannot be read. The old store is untouched then.
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
            with duckdb.connect(str(fresh), config={"memory_limit": MEMORY_LIMIT, "threads": THREADS}) as connection:
                summary = _fill(connection, target, package, measurements, progress)
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
    measurements: Path,
    progress: Progress,
) -> BuildSummary:
    connection.execute("SET preserve_insertion_order = true")  # rows sorted by key compress and skip well
    schema.apply(connection, schema.MIGRATIONS)
    progress("shipped measurements", 0.0)
    for folder in dataset_folders(measurements):
        meta, frame = read_dataset(folder)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", folder.name):
            raise AdvisorError(f"{folder}: name a dataset with lower-case letters, digits and underscores")
        load_dataset(connection, folder.name, meta, frame)
    for folder in sweep_folders(measurements):
        load_sweep(connection, read_sweep(folder))
    notes = [f"left out: {folder.name} is an unfinished sweep" for folder in unfinished_sweeps(measurements)]
    if package is None:
        notes.insert(0, "aiconfigurator-core is not installed: no measured kernel tables")
        summary = BuildSummary(target, notes=tuple(notes))
    else:
        begun = BuildSummary(target, kernel_package_version=package.version, notes=tuple(notes))
        summary = _fill_kernels(connection, begun, package, progress)
    info = {
        "schema_version": schema.SCHEMA_VERSION,
        "built_utc": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "kernel_package_version": "" if package is None else package.version,
        "measurement_hashes": to_json(measurement_hashes(measurements)),
        "builder_sha256": builder_sha256(),
    }
    connection.executemany("INSERT INTO store_info VALUES (?, ?)", list(info.items()))
    datasets = [f"dataset_{folder.name}" for folder in dataset_folders(measurements)]
    counted = [*KERNEL_TABLES, "plain_decode", "sweep_rows", *datasets]
    rows = {name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]) for name in counted}
    return replace(summary, rows_by_table=rows)


def _agrees_with_its_labels(file: KernelFile, labels: str) -> bool:
    plain = {re.sub(r"[^a-z0-9.]", "", label.lower()) for label in labels.split("; ")}
    return re.sub(r"[^a-z0-9.]", "", f"{file.engine}{file.version}") in plain


def _fill_kernels(
    connection: duckdb.DuckDBPyConnection, summary: BuildSummary, package: KernelPackage, progress: Progress
) -> BuildSummary:
    tables = set(SPEC_BY_TABLE)
    files = kernel_files(package, tables)
    try:
        # Of several files with the same measurements, keep the one whose rows name the folder they lie in.
        labelled = {file.path: _agrees_with_its_labels(file, row_labels(connection, file.path)) for file in files}
        files.sort(key=lambda file: (not labelled[file.path], file.relative))
        loaded = []
        for file_id, file in enumerate(files):
            progress(f"{file.hardware_id} {file.engine} {file.version} {file.table}", file_id / len(files))
            loaded.append(load_kernel_file(connection, file_id, file, SPEC_BY_TABLE[file.table]))
        sample = package.systems / PLAIN_DECODE_FILE
        if sample.is_file():
            load_plain_decode(connection, sample, PLAIN_DECODE_FILE)
    except duckdb.Error as error:
        if is_full_disk(error):  # no fault of the package's
            raise
        reason = str(error).splitlines()[0]
        raise AdvisorError(
            f"the kernel tables of aiconfigurator-core {package.version} cannot be read ({reason}); "
            "install the pinned version from requirements.txt"
        ) from error
    reuse = [astuple(entry) for entry in declared_reuse(package, tables)]
    if reuse:
        connection.executemany("INSERT INTO declared_reuse VALUES (?, ?, ?, ?, ?, ?)", reuse)
    return replace(
        summary,
        n_files=len(files),
        copies=tuple(
            (file.relative, files[result.copy_of].relative)
            for file, result in zip(files, loaded, strict=True)
            if result.copy_of is not None
        ),
        rows_in_copies=sum(result.rows_read for result in loaded if result.copy_of is not None),
        repeats_merged=sum(result.repeats_merged for result in loaded),
        dropped_rows=sum(result.dropped for result in loaded),
        unknown_devices=tuple(sorted({file.device for file in files} - set(HARDWARE_BY_DEVICE))),
    )
