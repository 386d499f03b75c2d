"""A sweep of the profiler, or a run of an engine, in a process of its own: found again, stopped,
explained at its end.

Each run has a folder of results below `runs_folder()`, and beside it `<name>.log` and
`<name>.json`. A lock that the process inherits tells whether it lives, to every session and to an
app that was started again in the meantime.

A run of `advisor profile --engine` is then put to use: its rows, and the refit that they make.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pandas as pd
from filelock import FileLock, lock_descriptor

from advisor.catalog.adjustment import write_adjustment
from advisor.measured.ingest.own import own_document, own_rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Measured, resolve_names
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.measurements import ProfilerSweep
from advisor.measured.own_points import with_rounds
from advisor.measured.points import Point
from advisor.measured.refit import (
    BeforeAfter,
    adjustment_of,
    curves_of,
    refit_chosen,
    select_points,
)
from advisor.measured.refit_result import RefitResult
from advisor.measured.store import default_store_path
from advisor.physics.acceptance import Acceptance
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.profiles import PACKAGE, read_file, write_whole
from advisor.profiling.device import TORCH_MISSING
from advisor.text import counted

ALLOW_VARIABLE = "MOE_ADVISOR_PROFILE"
PRESETS = ("quick", "standard", "full")
ENGINE = "engine"
"""Preset of a run of an engine, which lies among the sweeps: one of either at a time."""
PYTHON_VARIABLE = "MOE_ADVISOR_ENGINE_PYTHON"
ASK_TIMEOUT_S = 120.0
TAIL_BYTES = 64 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_CHILDREN: dict[str, subprocess.Popen[bytes]] = {}
"""Runs that this process started, by name: only a parent learns how its child ended."""


@dataclass(frozen=True)
class ProfilerRun:
    """State of one run. exit_code is None while it runs, and after the app was restarted."""

    name: str
    folder: Path
    preset: str
    device: str
    pid: int
    alive: bool
    exit_code: int | None
    cancelled: bool

    @property
    def log(self) -> Path:
        """File with the output of the process."""
        return self.folder.with_name(self.name + ".log")

    @property
    def can_resume(self) -> bool:
        """Whether something is left to measure."""
        if self.preset == ENGINE:
            return not self.alive and self.exit_code != 0 and (self.folder / "plan.json").exists()
        return not self.alive and (self.folder / "progress.json").exists()

    @property
    def has_results(self) -> bool:
        """Whether the profiler came to describe what it measured."""
        return (self.folder / "meta.yaml").exists()


def runs_folder() -> Path:
    """Folder of the runs: `profiling` beside the store."""
    return default_store_path().parent / "profiling"


def refusal(server_address: str | None, url: str | None, *, engine: bool = False) -> str:
    """Reason that measuring is not offered, in one sentence, empty when it is. `engine`: torch is
    that engine's affair.

    A sweep keeps a processor busy for minutes, so only a visitor on this machine may start one,
    unless the environment variable ALLOW_VARIABLE is 1. `url` is the page's address as the browser
    has it; None: unknown.
    """
    if sys.platform == "win32":
        return "Measuring from the app is not offered on Windows; use `python -m advisor profile`."
    host = urlsplit(url).hostname if url else "localhost"
    if os.environ.get(ALLOW_VARIABLE) != "1" and (
        server_address not in _LOOPBACK or host not in _LOOPBACK
    ):
        return (
            "Measuring is off because this app is served beyond its own machine. Run `python -m "
            f"advisor profile` there, or start the app with {ALLOW_VARIABLE}=1."
        )
    return "" if engine or find_spec("torch") else f"Not offered: {TORCH_MISSING}."


def engine_python() -> str:
    """The Python that has vLLM: the one of PYTHON_VARIABLE, of `make engine`, or this one. "" for
    none."""
    venv_python = PACKAGE.parent / ".engine-venv/bin/python"
    here = sys.executable if find_spec("vllm") else ""
    return os.environ.get(PYTHON_VARIABLE) or (str(venv_python) if venv_python.exists() else here)


def devices() -> list[dict[str, Any]]:
    """Devices the profiler finds, label and fields of its Device, accelerators first. Raises
    AdvisorError."""
    return list(_ask(["--list-devices", "--json"]))


def plan(preset: str, device: str) -> dict[str, Any]:
    """Plan of a preset on a device: blocks (name, op, estimate_s), estimate_s and limit_s. [s]
    Raises AdvisorError."""
    return dict(_ask(["--plan", "--json", "--preset", preset, "--device", device]))


def _command(options: list[str]) -> list[str]:
    module = ("advisor", "profile") if "--engine" in options else ("advisor.profiling",)
    return [sys.executable, "-m", *module, *options]


def _environment() -> dict[str, str]:
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _ask(options: list[str]) -> Any:
    """One JSON answer of the profiler, so that this process never imports torch."""
    try:
        done = subprocess.run(
            _command(options),
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AdvisorError(
            f"the profiler did not answer within {ASK_TIMEOUT_S:.0f} s; try its command line"
        ) from error
    if done.returncode != 0:
        error_lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = error_lines[-1] if error_lines else f"exit status {done.returncode}"
        raise AdvisorError(reason.removeprefix("error: "))
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise AdvisorError(
            "the profiler gave no readable answer; try `python -m advisor profile --plan`"
        ) from error


@contextmanager
def _claimed() -> Iterator[IO[bytes] | None]:
    """The lock file of running sweeps, held; None while a sweep holds it.

    Who looks holds the lock for a moment too: a second lock keeps others from taking that for a
    sweep.
    """
    runs_folder().mkdir(parents=True, exist_ok=True)
    one_at_a_time = FileLock(runs_folder() / "looking.lock", poll_interval=0.01)
    with one_at_a_time, (runs_folder() / "running.lock").open("a+b") as handle:
        yield handle if lock_descriptor(handle.fileno(), blocking=False) else None


def _is_running() -> bool:
    if not (runs_folder() / "running.lock").exists():
        return False
    with _claimed() as handle:
        return handle is None


def start(
    preset: str, device: str, resume: ProfilerRun | None = None, extra: tuple[str, ...] = ()
) -> ProfilerRun:
    """Start a sweep, or go on with an interrupted one. Raises AdvisorError when one is running
    already."""
    with _claimed() as handle:
        if handle is None:
            raise AdvisorError(
                "a sweep is running on this machine already; wait for it or cancel it"
            )
        word = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
        name = (
            resume.name
            if resume
            else f"{word}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{preset}"
        )
        folder = runs_folder() / name
        if resume:
            extra = extra or tuple(_facts(name).get("extra", ()))
        what = (
            ()
            if preset == ENGINE
            else ("--preset", preset, "--device", device, "--progress", "json")
        )
        with folder.with_name(name + ".log").open("ab") as log:
            child = subprocess.Popen(
                _command(
                    [*what, "--output", str(folder), *extra, *(["--resume"] if resume else [])]
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                pass_fds=[handle.fileno()],  # the child keeps its own copy, and with it the lock
                start_new_session=True,  # Ctrl-C of the app does not end the sweep
            )
    _CHILDREN[name] = child
    _note(
        name,
        {
            "preset": preset,
            "device": device,
            "pid": child.pid,
            "started": time.time(),
            "extra": extra,
        },
    )
    return _run(name)


def start_engine(
    scenario: Scenario, name: str, config: str | None, grid: tuple[str, str, str]
) -> ProfilerRun:
    """Measure steps of a design with the engine that is installed. Raises AdvisorError as `start`
    does.

    name, config : the design and its config.json's text; None for a shipped model's id. grid :
        batches, K, contexts.
    """
    runs_folder().mkdir(parents=True, exist_ok=True)
    request_folder = Path(tempfile.mkdtemp(prefix="asked-", dir=runs_folder()))
    documents_by_option = {
        "--model": (name, config),
        "--hardware": (scenario.hardware_id, scenario.hardware_json),
    }
    extra = ["--engine", "vllm", "--engine-python", engine_python()]
    extra += [
        word for pair in zip(("--batches", "--k", "--context"), grid, strict=True) for word in pair
    ]
    for option, (id_or_name, text) in documents_by_option.items():
        file = request_folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', id_or_name)}.json"
        if text is not None:
            write_whole(file, text.encode())
        extra += [option, id_or_name if text is None else str(file)]
    return start(ENGINE, name, extra=tuple(extra))


def _note(name: str, facts: dict[str, Any]) -> None:
    write_whole(runs_folder() / f"{name}.json", json.dumps(facts).encode())


def _facts(name: str) -> dict[str, Any]:
    return dict(json.loads((runs_folder() / f"{name}.json").read_text(encoding="utf-8")))


def _run(name: str) -> ProfilerRun:
    facts = _facts(name)
    child = _CHILDREN.get(name)
    code = child.poll() if child is not None else None
    if code is not None and "exit_code" not in facts:
        facts["exit_code"] = code
        _note(name, facts)
    newest = facts["started"] >= max(
        _facts(file.stem)["started"] for file in runs_folder().glob("*.json")
    )
    return ProfilerRun(
        name=name,
        folder=runs_folder() / name,
        preset=facts["preset"],
        device=facts["device"],
        pid=int(facts["pid"]),
        alive=facts.get("exit_code") is None and newest and _is_running(),
        exit_code=facts.get("exit_code"),
        cancelled=bool(facts.get("cancelled")),
    )


def latest(*, engine: bool = False) -> ProfilerRun | None:
    """The sweep, or run of an engine, started last, by whichever session, or None before the
    first."""
    every = {file.stem: _facts(file.stem) for file in runs_folder().glob("*.json")}
    started = {
        name: facts["started"]
        for name, facts in every.items()
        if (facts["preset"] == ENGINE) == engine
    }
    return _run(max(started, key=lambda name: started[name])) if started else None


def cancel(run: ProfilerRun) -> None:
    """Ask a running sweep to stop after its round in hand. Rows that it measured stay."""
    if run.alive:  # while it holds the lock, its process id is its own
        _note(run.name, _facts(run.name) | {"cancelled": True})
        os.kill(run.pid, signal.SIGTERM)


def _tail(run: ProfilerRun) -> list[str]:
    try:
        with run.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def progress(run: ProfilerRun) -> dict[str, Any] | None:
    """The last line of progress, or None before the first.

    It has done_blocks, total_blocks, block, round, rounds, elapsed_s, remaining_s and message.
    """
    for line in reversed(_tail(run)):
        if line.startswith('{"progress"'):
            with suppress(ValueError):  # the line being written
                return dict(json.loads(line)["progress"])
    return None


def engine_progress(run: ProfilerRun) -> tuple[float, str]:
    """Finished share of a run of an engine, in [0, 1], and what is done in words, noise included.
    [-]"""
    since_start = "\n".join(_tail(run)).rpartition("; plan ")[2]
    noise = re.findall("; control steps[^;\n]*", since_start)
    for elapsed_s, done, total in re.findall(r"^\[ *([\d.]+) s\] (\d+)/(\d+) ", since_start, re.M)[
        -1:
    ]:
        return int(done) / max(
            int(total), 1
        ), f"{float(elapsed_s):.0f} s, {done} of {total} repeats{''.join(noise)}"
    return 0.0, "Starting the engine"


def log_text(run: ProfilerRun, lines: int = 30) -> str:
    """Last lines of a run's log, each progress report in words. Other output stays unchanged."""
    output_lines = []
    for line in _tail(run):
        if line.startswith('{"progress"') and line.endswith("}}"):
            at = json.loads(line)["progress"]
            line = (
                f"[{at['elapsed_s']:6.1f} s] {at['block']}: {at['message']} "
                f"{at['round']}/{at['rounds']}"
            )
        elif line.startswith('{"plan"'):
            continue
        output_lines.append(line)
    return "\n".join(output_lines[-lines:])


def ending(run: ProfilerRun) -> str:
    """End of a run that is over, in one or two sentences, empty when it is complete."""
    if run.alive or run.exit_code == 0:
        return ""
    refusals = [line.removeprefix("error: ") for line in _tail(run) if line.startswith("error: ")]
    hint = " Resume continues it." if run.can_resume else ""
    if run.exit_code is not None and run.exit_code < 0:
        name = signal.Signals(-run.exit_code).name
        why = "; the system does that when memory runs out" if name == "SIGKILL" else ""
        return f"The measuring process was ended by {name}{why}.{hint}"
    if run.exit_code == 2 and refusals:
        return f"The profiler refused: {refusals[-1]}."
    if run.cancelled:
        return f"Cancelled: what was measured until then is below.{hint}"
    if run.has_results:
        return (
            hint.strip()
            if run.exit_code is None
            else f"The sweep is not complete; the reasons are below.{hint}"
        )
    status = "" if run.exit_code is None else f" (exit status {run.exit_code})"
    return f"The measuring process ended before it had results{status}; its log says more.{hint}"


def share_done(at: dict[str, Any]) -> float:
    """Finished share of a sweep's time, in [0, 1], from a progress report. [-]"""
    return float(min(at["elapsed_s"] / max(at["elapsed_s"] + at["remaining_s"], 1e-9), 1.0))


def copy_bandwidth(sweep: ProfilerSweep) -> float | None:
    """Measured rate of a large copy, bytes read and written, or None where it was not measured.
    [B/s]"""
    rows = sweep.rows[(sweep.rows["op"] == "copy_bandwidth") & (sweep.rows["status"] == "ok")]
    return float((rows["bytes"] / rows["time_s"]).max()) if len(rows) else None


def archive(run: ProfilerRun) -> bytes:
    """The sweep as a zip of one folder, to be unpacked under measurements/."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(run.folder.iterdir()):
            if file.name.startswith(("data.csv", "meta.yaml")) and not file.name.endswith(
                ".partial"
            ):
                packed.write(file, f"{run.name}/{file.name}")
    return buffer.getvalue()


_TORCH_NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8"}


def accelerator_of(sweep: ProfilerSweep) -> str:
    """The device as the user's accelerator, JSON of memory and rates. Raises AdvisorError without
    copy or BF16 GEMM."""
    copy = copy_bandwidth(sweep)
    rows = sweep.rows[(sweep.rows["op"] == "gemm") & (sweep.rows["status"] == "ok")]
    rates = (rows["flops"] / rows["time_s"]).groupby(rows["dtype"].map(_TORCH_NAMES)).max()
    if copy is None or "bf16" not in rates:
        raise AdvisorError("this sweep has no copy or no BF16 GEMM; the preset standard has both")
    name = re.sub(r"[^A-Za-z0-9 .,+()/-]+", " ", sweep.meta.device.name).strip()[:60]
    values = {
        "name": name if name[:1].isalpha() else f"Device {name}"[:60],
        "memory_bytes": sweep.meta.device.memory_bytes,
        "bandwidth_bytes_per_s": copy,
        "peak_flops_per_s": {str(dtype): float(rate) for dtype, rate in rates.items()},
        "source": f"reached on this machine, sweep {sweep.name}; a data sheet says more",
        "date": sweep.meta.started_at[:10],
    }
    return json.dumps(values)


_BESIDE = {"model_id": "config.json", "hardware_id": "hardware.json"}
"""Files of a run's folder that its rows name, by column."""


@dataclass(frozen=True)
class RunUse:
    """Changes that a run makes. `before_after` of `refit` draws the curves of `points` with and
    without it."""

    points: list[Point]
    result: RefitResult
    refit: str | None
    """The setting `refit` of a scenario that uses it; None where the rows speak against it
    (`reasons_against`)."""
    rows: pd.DataFrame
    """Canonical rows, index: line."""


def speedup_curves(use: RunUse, n_draft: int, acceptance: Acceptance) -> BeforeAfter:
    """The design's speedup with the K of some rounds at an accepted length, with and without the
    refit.

    Its points are T_plain / T_round as measured, times that length. K is at most that of the
    acceptance.
    """
    rounds = [point for point in use.points if point.n_draft == n_draft]
    usable = use.rows[use.rows.index.isin([point.line for point in use.points])]
    timed = with_rounds(usable, acceptance.accepted_length)
    timed = timed[timed["draft_tokens_k"] == n_draft].dropna(subset=["speedup"])
    timed = timed.assign(measured=timed["speedup"], line=timed.index, used=True)
    # The rows' own name of the drafter: `random` is predicted as n-grams.
    group = (rounds[0].scenario.model_id, str(rounds[0].facts["drafter"]), n_draft, "speedup")
    return curves_of(replace(rounds[0].setup, acceptance=acceptance), use.result, group, timed)


def rows_of_run(folder: Path) -> Measured:
    """The rows of a run's folder, its own model and accelerator filled in. Raises AdvisorError for
    a damaged file."""
    rows = read_upload("data.csv", read_file(folder / "data.csv", MAX_BYTES, "a run's data.csv"))
    documents = [
        own_document(
            column, folder.resolve().name if column == "model_id" else "", text.decode(), (name,)
        )
        for column, name in _BESIDE.items()
        if (folder / name).exists()
        for text in [read_file(folder / name, MAX_BYTES, f"a run's {name}")]
    ]
    return resolve_names(own_rows(rows, documents))


def use_of_run(folder: Path) -> RunUse:
    """Refit on the rows of one run. Raises AdvisorError where too few of them can be used, with
    why."""
    read = rows_of_run(folder).result
    try:
        points, refused = select_points(read.frame)
    except AdvisorError as error:
        why = [
            f"; {counted(read.rows_refused, 'row')} refused, {reason}"
            for reason in read.rejects["reason"][:1]
        ]
        raise AdvisorError("".join((str(error), *why))) from error
    result = refit_chosen(points, refused)
    refit = None if result.reasons_against else write_adjustment(adjustment_of(result))
    return RunUse(points, result, refit, read.frame)
