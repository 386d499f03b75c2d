"""Sweeps as Parquet files: written part by part by processes, and read back, checked."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from advisor.answers.explore.cells import COLUMNS, SETTINGS, sweep_rows
from advisor.answers.explore.grid import SweepPlan, made_by
from advisor.predict.scenario_fields import FIELDS, MAX_BATCH, MAX_DRAFT
from advisor.prediction import AdvisorError, Tier
from advisor.profiles import read_file, shown_path, write_whole
from advisor.text import counted, names_of_today, printable

_PLAN = "plan.json"
_AHEAD = 2
"""Parts handed out for each worker: one in work, one waiting. [-]"""
_LOST = (
    "a worker ended before its part was done (stopped from outside, or out of memory); the parts "
    "written are kept: give the same command again to go on, with fewer workers if memory was "
    "short"
)
Show = Callable[[float], None]


@dataclass(frozen=True)
class SweepResult:
    """Result of a run."""

    folder: Path
    n_scenarios: int
    """Of the whole plan. [-]"""
    n_parts: int
    n_found: int
    """Parts that an earlier run had written. [-]"""
    elapsed_s: float


def run_sweep(
    plan: SweepPlan,
    folder: Path,
    workers: int = 1,
    show: Show | None = None,
    cluster: str | None = None,
) -> SweepResult:
    """Compute a plan into `folder`/part-*.parquet. Parts that are there already are kept.

    folder : made where it is not there; one that holds another sweep, or other files alone, is
        refused.
    workers : processes on this machine. [-]
    show : called with the share done after every part.
    cluster : address of a Dask scheduler whose workers compute the parts instead.

    Raises AdvisorError for a folder or a cluster that cannot be used.
    """
    started_s = time.monotonic()
    _open(plan, folder)
    missing = [index for index in range(plan.n_parts) if not _part(folder, index).exists()]
    n_found = plan.n_parts - len(missing)
    tasks = ((index, plan.part(index)) for index in missing)
    maker = made_by()
    if cluster is not None and missing:
        computed = _submitted(_on_cluster(cluster), tasks, plan.batches, maker)
    elif min(workers, len(missing)) > 1:
        pool = _in_processes(min(workers, len(missing)))
        computed = _submitted(pool, tasks, plan.batches, maker)
    else:
        computed = ((index, part_bytes(each, plan.batches, maker)) for index, each in tasks)
    for done, (index, content) in enumerate(computed, 1):
        _write(_part(folder, index), content)
        if show is not None:
            show((n_found + done) / plan.n_parts)
    return SweepResult(
        folder, plan.n_scenarios, plan.n_parts, n_found, time.monotonic() - started_s
    )


def _open(plan: SweepPlan, folder: Path) -> None:
    """Make the folder the plan's, or see that it is."""
    note = {
        "digest": plan.digest,
        "cases": plan.cases,
        "axes": plan.axes,
        "batch_size": plan.batches,
    }
    place = folder / _PLAN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            if any(folder.iterdir()):
                raise AdvisorError(f"{shown_path(folder)} holds other files; give a new folder")
            _write(place, (json.dumps(note, indent=2, default=str) + "\n").encode())
            return
        written = json.loads(read_file(place, 10_000_000))
    except (OSError, ValueError) as error:
        raise AdvisorError(
            f"cannot use {shown_path(folder)}: {error}; give a new folder"
        ) from error
    if not isinstance(written, dict) or written.get("digest") != plan.digest:
        raise AdvisorError(
            f"{shown_path(folder)} holds another sweep (settings in another order count as one), "
            "or one by other constants or another release; give a new folder"
        )


def _part(folder: Path, index: int) -> Path:
    return folder / f"part-{index:06d}.parquet"


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a run that is stopped leaves no half a part."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise AdvisorError(
            f"cannot write {shown_path(path)}: {error.strerror or error}; parts before it are kept"
        ) from error


_Part = tuple[int, Sequence[Mapping[str, Any]]]


def part_bytes(
    combinations: Sequence[Mapping[str, Any]], batches: Sequence[int], maker: Mapping[str, str]
) -> bytes:
    """One part as a Parquet file. Raises AdvisorError where this process computes by another
    release or other constants than `maker`, whose sweep it is."""
    if (here := made_by()) != maker:
        raise AdvisorError(
            f"a worker computes by {_maker(here)}, the sweep is by {_maker(maker)}; install the "
            "same release on every worker"
        )
    return parquet_bytes(sweep_rows(combinations, batches), maker)


def parquet_bytes(frame: pd.DataFrame, maker: Mapping[str, str]) -> bytes:
    """Rows as a Parquet file that says who made them, as `made_by` does."""
    content = io.BytesIO()
    frame = frame.copy(deep=False)
    frame.attrs = dict(maker)
    frame.to_parquet(content, index=False, compression="zstd", write_page_checksum=True)
    return content.getvalue()


_Pool = AbstractContextManager[tuple[Executor, int]]
"""What parts are handed to, and how many it computes at once."""


def _submitted(
    pool: _Pool, tasks: Iterator[_Part], batches: Sequence[int], maker: Mapping[str, str]
) -> Iterator[tuple[int, bytes]]:
    """Parts as they are done, with their indices; few enough wait for a worker to be held here."""
    with pool as (executor, workers):
        pending: dict[Future[bytes], int] = {}

        def hand_out() -> None:
            while len(pending) < _AHEAD * workers and (task := next(tasks, None)) is not None:
                pending[executor.submit(part_bytes, task[1], batches, maker)] = task[0]

        hand_out()
        while pending:
            for done in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(done), done.result()
            hand_out()


@contextmanager
def _in_processes(workers: int) -> Iterator[tuple[Executor, int]]:
    # One thread each: small arrays, and threads of a worker only wait for those of the others.
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool, workers
    except BrokenProcessPool as error:
        raise AdvisorError(_LOST) from error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_ANSWER_S = 10
"""A scheduler that does not answer by then is not there: a choice of this project. [s]"""


@contextmanager
def _on_cluster(address: str) -> Iterator[tuple[Executor, int]]:
    from distributed import Client, KilledWorker  # of the extra `cluster`

    try:
        client = Client(address, timeout=_ANSWER_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise AdvisorError(
            f"no Dask scheduler answers at {printable(address, 80)} ({_first(error)}); give its "
            "address, e.g. tcp://scheduler:8786"
        ) from error
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise AdvisorError(
                f"the Dask cluster at {printable(address, 80)} has no worker; start one with "
                "`dask worker`"
            )
        try:
            yield client.get_executor(), threads
        except (KilledWorker, CancelledError) as error:
            raise AdvisorError(_LOST) from error
        except (ImportError, OSError, RuntimeError) as error:
            raise AdvisorError(
                f"a worker cannot compute parts ({_first(error)}); install moe-sd-advisor[cluster] "
                "of this release on every worker, and look that the cluster still runs"
            ) from error


MAX_ROWS = 2_000_000
"""Rows that are read at most: 270 bytes each in memory. [-]"""
MAX_PART_BYTES = 64 * 2**20
_MAX_TEXT = 1000
_BYTES_PER_ROW = 2000
"""A row's share of a file, unpacked, is a tenth of this; a file beyond holds something else.
[bytes]"""
_MAX_HEAD_BYTES = 4 * 2**20
_MAX_NAME = 300
_NO_NAME = re.compile(r"[^\w.,@/:+ -]")
"""What no id, accepted length or routing is made of."""
_BANDS = ("speedup", "tpot_ms", "tokens_per_s_per_gpu")
_WHOLE = {"Int64": pa.int64(), "int32": pa.int32(), "int16": pa.int16()}
_YOUNGER = ("tpot_low_ms", "tpot_high_ms", "tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high")
"""Columns that sweeps of before have not."""
_HOW = "give files that the command sweep or the tab Sweep wrote"


@dataclass(frozen=True)
class Sweep:
    """The rows of a sweep, and what was seen while they were read."""

    frame: pd.DataFrame
    """`COLUMNS`; bands of times are empty in files of before."""
    maker: Mapping[str, str]
    """Release and constants, as `made_by` gives them; empty where the files do not say."""
    n_twice: int = 0
    """Rows that stood there twice and count once. [-]"""
    without_bands: bool = False
    """Whether it is of a release whose times had no band."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Names of before 0.2 in the files, with today's."""


def read_sweep_files(paths: Sequence[Path], max_rows: int = MAX_ROWS) -> Sweep:
    """A sweep from its folder or some of its files, as `read_sweep`. Raises AdvisorError without
    any."""
    files: list[Path] = []
    for path in paths:
        parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not parts:
            raise AdvisorError(
                f"{shown_path(path)} holds no *.parquet file; give the folder that `explore "
                "--plan FILE --output` names"
            )
        files += parts
    return read_sweep(
        [(path.name, read_file(path, MAX_PART_BYTES, "a part of a sweep")) for path in files],
        max_rows,
    )


def read_sweep(files: Sequence[tuple[str, bytes]], max_rows: int = MAX_ROWS) -> Sweep:
    """Read the Parquet files of one sweep, (name, content) each.

    Settings younger than a file stand at their defaults. A row that stands in several files counts
    once. Raises AdvisorError naming file, column and row for what is no sweep, holds values that
    none can have, or was made by other constants than the files before it.
    """
    if not files:
        raise AdvisorError(f"no file was given; {_HOW}")
    tables = []
    rows = 0
    for name, content in files:
        file = _opened(_shown(name), content)
        rows += file.metadata.num_rows
        if rows > max_rows:
            raise AdvisorError(
                f"{_shown(name)}: with it there are {rows:,} rows; at most {max_rows:,} are read "
                "here: query larger sweeps with DuckDB (docs/choose-hardware.md), or give some of "
                "the parts"
            )
        tables.append((_shown(name), file))
    makers = {name: _made_by(file) for name, file in tables}
    first = next(iter(makers))
    for name, maker in makers.items():
        if maker != makers[first]:
            raise AdvisorError(
                f"{name} was made by {_maker(maker)}, {first} by {_maker(makers[first])}: "
                "numbers of the two do not compare; give the files of one sweep"
            )
    frame = pd.concat([_frame(name, file) for name, file in tables], ignore_index=True)
    sweep = sweep_from(frame, makers[first])
    names = (name for _, file in tables for name in file.schema_arrow.names)
    return replace(sweep, renamed=tuple(names_of_today(names).items()))


def sweep_from(frame: pd.DataFrame, maker: Mapping[str, str]) -> Sweep:
    """Rows as `sweep_rows` gives them as a finished sweep. Raises AdvisorError where there is
    none."""
    again = frame.duplicated([*SETTINGS, "n_draft"])
    if not len(frame):
        raise AdvisorError(f"the files hold no row; {_HOW}")
    is_old = frame[list(_YOUNGER)].isna().all(axis=None) and (frame["reason"] == "").any()
    once = frame[~again].reset_index(drop=True)
    return Sweep(once, maker, int(again.sum()), bool(is_old))


def _shown(name: str) -> str:
    return printable(name, 80)


def _opened(name: str, content: bytes) -> pq.ParquetFile:
    """The file with its head read, and no row yet."""
    try:
        limits = {
            "thrift_string_size_limit": _MAX_HEAD_BYTES,
            "thrift_container_size_limit": _MAX_HEAD_BYTES,
        }
        there = set(pq.ParquetFile(io.BytesIO(content), **limits).schema_arrow.names)
        text = [column for column, kind in COLUMNS.items() if kind == "string" and column in there]
        file = pq.ParquetFile(
            io.BytesIO(content), read_dictionary=text, page_checksum_verification=True, **limits
        )
        meta = file.metadata
        unpacked = sum(
            meta.row_group(index).total_byte_size for index in range(meta.num_row_groups)
        )
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise AdvisorError(
            f"{name} is no readable Parquet file ({_first(error)}); {_HOW}"
        ) from error
    known = set(_stored_names(file))
    # Files of before a setting existed are read at its default.
    by_default = {row.name for row in FIELDS.values() if not (row.needed or row.is_required)} - {
        "batch_size"
    }
    needed = [column for column in COLUMNS if column not in {*_YOUNGER, *by_default}]
    if missing := [column for column in needed if column not in known]:
        more = " and others" if len(missing) > 6 else ""
        raise AdvisorError(
            f"{name} is no sweep of this advisor: of {counted(len(needed), 'column')} it lacks "
            f"{', '.join(missing[:6])}{more}; {_HOW}"
        )
    if len(known) < len(file.schema_arrow.names):
        raise AdvisorError(f"{name}: duplicate column; {_HOW}")
    if unpacked > _BYTES_PER_ROW * max(meta.num_rows, 1000):
        raise AdvisorError(
            f"{name}: {meta.num_rows:,} rows unpack to {unpacked:,} bytes, more than a sweep's; "
            f"{_HOW}"
        )
    return file


def _stored_names(file: pq.ParquetFile) -> dict[str, str]:
    old = names_of_today(file.schema_arrow.names)
    return {old.get(name, name): name for name in file.schema_arrow.names}


def _made_by(file: pq.ParquetFile) -> dict[str, str]:
    """Release and constants by the file's own head, empty where it does not say."""
    encoded = (file.schema_arrow.metadata or {}).get(b"PANDAS_ATTRS", b"{}")
    try:
        attributes = json.loads(encoded)
        return {name: printable(str(attributes[name]), 20) for name in ("release", "constants")}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _maker(maker: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in maker.items()) or "an unnamed release"


def _frame(name: str, file: pq.ParquetFile) -> pd.DataFrame:
    """The rows of one file as `COLUMNS`. Raises AdvisorError where a value is none of its
    column's."""
    stored = _stored_names(file)
    present = [column for column in COLUMNS if column in stored]
    try:
        table = file.read(columns=[stored[column] for column in present])
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise AdvisorError(
            f"{name} is damaged: its rows cannot be read ({_first(error)}); write it anew"
        ) from error
    columns = {column: _values(name, column, table.column(stored[column])) for column in present}
    for column in COLUMNS.keys() - columns.keys():
        default = FIELDS[column].default if column in FIELDS else None
        columns[column] = pd.Series([default] * table.num_rows, dtype=COLUMNS[column])
    frame = pd.DataFrame(columns, columns=list(COLUMNS))
    _check(name, frame)
    return frame


def _values(name: str, column: str, values: pa.ChunkedArray) -> pd.Series:
    """One column in its own kind."""
    kind = COLUMNS[column]
    value_type = values.type
    if pa.types.is_dictionary(value_type):
        value_type = value_type.value_type
    is_text = pa.types.is_string(value_type) or pa.types.is_large_string(value_type)
    is_number = pa.types.is_integer(value_type) or pa.types.is_floating(value_type)
    fits = {"string": is_text, "bool": pa.types.is_boolean(value_type)}.get(
        kind, is_number
    ) or pa.types.is_null(value_type)
    if not fits or (kind in ("bool", "int32", "int16") and values.null_count):
        expected = {"string": "text", "bool": "true or false"}.get(kind, "numbers")
        raise AdvisorError(
            f"{name}, column {column}: expected {expected}, got {str(value_type)[:40]}; {_HOW}"
        )
    if kind == "string":
        values = _texts(column, values)
    try:
        if kind in _WHOLE:  # pandas would wrap what is too large, and cut fractions off
            values = values.cast(_WHOLE[kind])
        return values.to_pandas().astype(kind)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise AdvisorError(f"{name}, column {column}: {_first(error)}; {_HOW}") from error


def _texts(column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts cut and cleaned, each distinct one once: a long one could stand in every row, and
    pictures read markup."""
    chunks = []
    for chunk in values.chunks:
        # A file without a dictionary of its own gives the texts themselves.
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        chunks.append(
            pa.array(
                [_clean(column, text) for text in coded.dictionary.to_pylist()], "string"
            ).take(coded.indices)
        )
    return pa.chunked_array(chunks, "string")


def _clean(column: str, text: str | None) -> str | None:
    if text is None:
        return None
    return printable(text, _MAX_TEXT) if column == "reason" else _NO_NAME.sub("?", text[:_MAX_NAME])


def _check(name: str, frame: pd.DataFrame) -> None:
    """Values as a sweep has them, or AdvisorError naming the first row that has not."""
    done = (frame["reason"].fillna("") == "").to_numpy()
    not_done = ~done
    tiers = [tier.value for tier in Tier]
    least_k = np.where(done, 0, -1)
    most_k = np.where(done, MAX_DRAFT, -1)
    is_known_k = frame["n_draft"].between(least_k, most_k)
    is_known_tier = frame["tier"].isin(tiers)
    within = {
        f"batch_size: expected 1 to {MAX_BATCH:,}": frame["batch_size"].between(1, MAX_BATCH),
        f"n_draft: expected 0 to {MAX_DRAFT}, -1 beside a reason": is_known_k,
        "p_gain: expected a share, 0 to 1": frame["p_gain"].between(0, 1) | not_done,
        "expected_loss: expected a share, 0 to 1": frame["expected_loss"].between(0, 1) | not_done,
        "tier: expected one of " + ", ".join(tiers): is_known_tier | not_done,
        "recommended: no row without a prediction is": done | ~frame["recommended"],
    }
    for column in (*_BANDS, "accepted_length", "plain_step_ms", "round_ms"):
        values = frame[column].to_numpy()
        within[f"{column}: expected a number above 0"] = (
            np.isfinite(values) & (values > 0)
        ) | not_done
    for column in _BANDS:
        ends = "tpot_{}_ms" if column == "tpot_ms" else f"{column}_{{}}"
        low = frame[ends.format("low")].to_numpy()
        high = frame[ends.format("high")].to_numpy()
        value = frame[column].to_numpy()
        none = np.isnan(low) & np.isnan(high) & (column != "speedup")
        within[f"{column}: expected a band around the value"] = (
            ((low <= value) & (value <= high)) | none | not_done
        )
    for what, good in within.items():
        wrong = ~np.asarray(good.fillna(value=False) if isinstance(good, pd.Series) else good, bool)
        if wrong.any():
            column = what.partition(":")[0]
            row = int(np.flatnonzero(wrong)[0])
            raise AdvisorError(
                f"{name}, row {row + 1}, {what}, got "
                f"{printable(str(frame[column].iloc[row]), 40)}; {_HOW}"
            )
    if bool((done & frame[["model_id", "hardware_id"]].isna().any(axis=1)).any()):
        raise AdvisorError(f"{name}: a prediction names no model or no accelerator; {_HOW}")


def _first(error: Exception) -> str:
    return printable((str(error).splitlines() or [type(error).__name__])[0], 120).rstrip(".")
