"""Doing a sweep: parts handed to processes or to a Ray cluster, written one by one, so that it can go on later."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from advisor.prediction import AdvisorError
from advisor.profiles import PACKAGE, PROFILES, read_file, shown_path
from advisor.sweep.plan import SweepPlan, made_by
from advisor.sweep.rows import sweep_rows

_PLAN = "plan.json"
_AHEAD = 2
"""Parts handed out for each worker: one in work, one waiting. [-]"""
_LOST = (
    "a worker ended before its part was done (stopped from outside, or out of memory); the parts written are kept: "
    "give the same command again to go on, with fewer workers if memory was short"
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
    plan: SweepPlan, folder: Path, workers: int = 1, ray_address: str = "", show: Show | None = None
) -> SweepResult:
    """Compute a plan into `folder`/part-*.parquet. Parts that are there already are kept.

    Parameters
    ----------
    folder : made where it is not there; one that holds another sweep, or other files alone, is refused.
    workers : processes on this machine. [-]
    ray_address : of a Ray cluster, HOST:PORT or `auto`, to use in place of processes; needs the package ray.
    show : called with the share done after every part.

    Raises AdvisorError for a folder that cannot be used, and a cluster that is not reached.
    """
    started_s = time.monotonic()
    _open(plan, folder)
    missing = [index for index in range(plan.n_parts) if not _part(folder, index).exists()]
    found = plan.n_parts - len(missing)
    tasks = ((index, plan.part(index)) for index in missing)
    for done, (index, content) in enumerate(_computed(tasks, plan.batches, workers, ray_address, len(missing)), 1):
        _write(_part(folder, index), content)
        if show is not None:
            show((found + done) / plan.n_parts)
    return SweepResult(folder, plan.n_scenarios, plan.n_parts, found, time.monotonic() - started_s)


def _open(plan: SweepPlan, folder: Path) -> None:
    """Make the folder the plan's, or see that it is."""
    note = {"digest": plan.digest, "cases": plan.cases, "axes": plan.axes, "batch_size": plan.batches}
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
        raise AdvisorError(f"cannot use {shown_path(folder)}: {error}; give a new folder") from error
    if not isinstance(written, dict) or written.get("digest") != plan.digest:
        raise AdvisorError(
            f"{shown_path(folder)} holds another sweep (settings in another order count as one), or one by other "
            "constants or another release; give a new folder"
        )


def _part(folder: Path, index: int) -> Path:
    return folder / f"part-{index:06d}.parquet"


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a run that is stopped leaves no half a part."""
    beside = path.with_suffix(".writing")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise AdvisorError(
            f"cannot write {shown_path(path)}: {error.strerror or error}; parts before it are kept"
        ) from error


Task = tuple[int, Sequence[Mapping[str, Any]]]


def _computed(
    tasks: Iterator[Task], batches: Sequence[int], workers: int, ray_address: str, n_tasks: int
) -> Iterator[tuple[int, bytes]]:
    if ray_address:
        yield from _on_ray(tasks, batches, ray_address)
    elif min(workers, n_tasks) <= 1:
        for index, combinations in tasks:
            yield index, part_bytes(combinations, batches)
    else:
        yield from _in_processes(tasks, batches, min(workers, n_tasks))


def part_bytes(combinations: Sequence[Mapping[str, Any]], batches: Sequence[int]) -> bytes:
    """One part as a Parquet file."""
    return parquet_bytes(sweep_rows(combinations, batches), made_by())


def parquet_bytes(frame: pd.DataFrame, maker: Mapping[str, str]) -> bytes:
    """Rows as a Parquet file that says who made them, as `made_by` does."""
    content = io.BytesIO()
    frame = frame.copy(deep=False)
    frame.attrs = dict(maker)
    frame.to_parquet(content, index=False, compression="zstd", write_page_checksum=True)
    return content.getvalue()


def _in_processes(tasks: Iterator[Task], batches: Sequence[int], workers: int) -> Iterator[tuple[int, bytes]]:
    # One thread each: small arrays, and threads of a worker only wait for those of the others.
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            pending: dict[Future[bytes], int] = {}

            def hand_out() -> None:
                while len(pending) < _AHEAD * workers and (task := next(tasks, None)) is not None:
                    pending[pool.submit(part_bytes, task[1], batches)] = task[0]

            hand_out()
            while pending:
                for done in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(done), done.result()
                hand_out()
    except BrokenProcessPool as error:
        raise AdvisorError(_LOST) from error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _on_ray(tasks: Iterator[Task], batches: Sequence[int], address: str) -> Iterator[tuple[int, bytes]]:
    ray = _connect(address)
    compute = ray.remote(part_bytes).options(num_cpus=1, max_retries=3)
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    pending: dict[Any, int] = {}

    def hand_out() -> None:
        while len(pending) < ahead and (task := next(tasks, None)) is not None:
            pending[compute.remote(task[1], batches)] = task[0]

    hand_out()
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1)
        for reference in ready:
            try:
                yield pending.pop(reference), ray.get(reference)
            except ray.exceptions.RayTaskError:  # ours, not the cluster's
                raise
            except ray.exceptions.RayError as error:
                raise AdvisorError(_LOST) from error
        hand_out()


def _connect(address: str) -> Any:
    """Ray, connected. This package and its profiles travel along, its requirements have to be there."""
    try:
        import ray
    except ImportError as error:
        raise AdvisorError("--ray needs the package ray; install it here and on the cluster") from error
    if not ray.is_initialized():
        try:
            with tempfile.TemporaryDirectory() as bundle:
                leave = shutil.ignore_patterns("__pycache__")
                shutil.copytree(PACKAGE, Path(bundle) / "advisor", ignore=leave)
                shutil.copytree(PROFILES, Path(bundle) / "profiles", ignore=leave, dirs_exist_ok=True)
                environment = {"working_dir": bundle, "env_vars": {"OMP_NUM_THREADS": "1"}}
                ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise AdvisorError(f"no Ray cluster at {address}: {_first_line(error)}") from error
    return ray


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
