"""A sweep of the profiler in a process of its own: found after a reload, stopped by a signal, explained at its end.

Each run has a folder of results below `runs_folder()`, and beside it `<name>.log` and `<name>.json`. A lock that the
process inherits tells whether it lives, to every session and to an app that was started again in the meantime.

Profile this machine: what would be measured and at what price, the run, and what came out.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import streamlit as st
from filelock import FileLock, lock_descriptor

from advisor.measured.fits.sweep import SweepFit, fit_sweep
from advisor.measured.measurements import ProfilerSweep, read_sweep
from advisor.measured.store import default_store_path
from advisor.prediction import AdvisorError
from advisor.profiles import PACKAGE, write_whole
from advisor.show.charts.measured import ratio_chart
from advisor.ui.state import add_own_hardware
from advisor.ui.widgets import plain

ALLOW_VARIABLE = "MOE_ADVISOR_PROFILE"
PRESETS = ("quick", "standard", "full")
ASK_TIMEOUT_S = 120.0
TAIL_BYTES = 64 * 1024
TORCH_MISSING = "Measuring needs torch, which is not installed here; install torch 2.10 to 2.13 for your device."
T = TypeVar("T")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_CHILDREN: dict[str, subprocess.Popen[bytes]] = {}
"""Runs that this process started, by name: only a parent learns how its child ended."""


@dataclass(frozen=True)
class ProfilerRun:
    """One run as it stands now. exit_code is None while it runs, and where the app has been restarted since."""

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
        return not self.alive and (self.folder / "progress.json").exists()

    @property
    def has_results(self) -> bool:
        """Whether the profiler came to describe what it measured."""
        return (self.folder / "meta.yaml").exists()


def runs_folder() -> Path:
    """Folder of the runs: `profiling` beside the store."""
    return default_store_path().parent / "profiling"


def refusal(server_address: str | None, url: str | None) -> str:
    """Reason that measuring is not offered, in one sentence, empty when it is.

    A sweep keeps a processor busy for minutes, so only a visitor on this machine may start one, unless the
    environment variable ALLOW_VARIABLE is 1. `url` is the page's address as the browser has it; None: unknown.
    """
    if sys.platform == "win32":
        return "Measuring from the app is not offered on Windows; use `python -m advisor profile`."
    host = urlsplit(url).hostname if url else "localhost"
    if os.environ.get(ALLOW_VARIABLE) != "1" and (server_address not in _LOOPBACK or host not in _LOOPBACK):
        return (
            "Measuring is off because this app is served beyond its own machine. Run `python -m advisor profile` "
            f"there, or start the app with {ALLOW_VARIABLE}=1."
        )
    return TORCH_MISSING if find_spec("torch") is None else ""


def attempt(action: Callable[..., T], *arguments: Any) -> tuple[T | None, str]:
    """(result, ""), or (None, the sentence) when the action raises an AdvisorError."""
    try:
        return action(*arguments), ""
    except AdvisorError as error:
        return None, str(error)


def devices() -> list[dict[str, Any]]:
    """Devices the profiler finds, by the fields of its Device, accelerators first. Raises AdvisorError."""
    found: list[dict[str, Any]] = _ask(["--list-devices", "--json"])
    return found


def label(device: dict[str, Any]) -> str:
    """Name of one of `devices()` as `--device` accepts it."""
    return "cpu" if device["backend"] == "cpu" else f"{device['backend']}:{device['index']}"


def plan(preset: str, device: str) -> dict[str, Any]:
    """Plan of a preset on a device: blocks, estimate_s and limit_s. [s]

    Each block has name, op and estimate_s. Raises AdvisorError.
    """
    found: dict[str, Any] = _ask(["--plan", "--json", "--preset", preset, "--device", device])
    return found


def _command(options: list[str]) -> list[str]:
    return [sys.executable, "-m", "advisor.profiling", *options]


def _environment() -> dict[str, str]:
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _ask(options: list[str]) -> Any:
    """One JSON answer of the profiler, so that this process never imports torch."""
    try:
        done = subprocess.run(
            _command(options), capture_output=True, text=True, timeout=ASK_TIMEOUT_S, env=_environment(), check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AdvisorError(f"the profiler did not answer within {ASK_TIMEOUT_S:.0f} s; try its command line") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise AdvisorError((said[-1] if said else f"exit status {done.returncode}").removeprefix("error: "))
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise AdvisorError("the profiler gave no readable answer; try `python -m advisor profile --plan`") from error


@contextmanager
def _claimed() -> Iterator[IO[bytes] | None]:
    """The lock file of running sweeps, held; None while a sweep holds it.

    Who looks holds the lock for a moment too: a second lock keeps others from taking that for a sweep.
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


def start(preset: str, device: str, resume: ProfilerRun | None = None, extra: tuple[str, ...] = ()) -> ProfilerRun:
    """Start a sweep, or go on with an interrupted one. Raises AdvisorError when one is running already."""
    with _claimed() as handle:
        if handle is None:
            raise AdvisorError("a sweep is running on this machine already; wait for it or cancel it")
        word = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
        name = resume.name if resume else f"{word}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{preset}"
        folder = runs_folder() / name
        options = ["--preset", preset, "--device", device, "--output", str(folder), "--progress", "json", *extra]
        with folder.with_name(name + ".log").open("ab") as log:
            child = subprocess.Popen(
                _command([*options, *(["--resume"] if resume else [])]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                pass_fds=[handle.fileno()],  # the child keeps its own copy, and with it the lock
                start_new_session=True,  # Ctrl-C of the app does not end the sweep
            )
    _CHILDREN[name] = child
    _note(name, {"preset": preset, "device": device, "pid": child.pid, "started": time.time()})
    return _run(name)


def _note(name: str, facts: dict[str, Any]) -> None:
    write_whole(runs_folder() / f"{name}.json", json.dumps(facts).encode())


def _facts(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((runs_folder() / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _run(name: str) -> ProfilerRun:
    facts = _facts(name)
    child = _CHILDREN.get(name)
    code = child.poll() if child is not None else None
    if code is not None and "exit_code" not in facts:
        facts["exit_code"] = code
        _note(name, facts)
    newest = facts["started"] >= max(_facts(file.stem)["started"] for file in runs_folder().glob("*.json"))
    alive = facts.get("exit_code") is None and newest and _is_running()
    return ProfilerRun(
        name=name,
        folder=runs_folder() / name,
        preset=facts["preset"],
        device=facts["device"],
        pid=int(facts["pid"]),
        alive=alive,
        exit_code=facts.get("exit_code"),
        cancelled=bool(facts.get("cancelled")),
    )


def latest() -> ProfilerRun | None:
    """The run started last, by whichever session, or None before the first."""
    started = {file.stem: _facts(file.stem)["started"] for file in runs_folder().glob("*.json")}
    return _run(max(started, key=lambda name: started[name])) if started else None


def cancel(run: ProfilerRun) -> None:
    """Ask a running sweep to stop after its round in hand.

    Rows that it measured stay.
    """
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
            try:
                found: dict[str, Any] = json.loads(line)["progress"]
            except ValueError:  # the line being written
                continue
            return found
    return None


def log_text(run: ProfilerRun, lines: int = 30) -> str:
    """The end of the log for reading: one line per progress report, other output as it is."""
    shown = []
    for line in _tail(run):
        if line.startswith('{"progress"') and line.endswith("}}"):
            at = json.loads(line)["progress"]
            line = f"[{at['elapsed_s']:6.1f} s] {at['block']}: {at['message']} {at['round']}/{at['rounds']}"
        elif line.startswith('{"plan"'):
            continue
        shown.append(line)
    return "\n".join(shown[-lines:])


def ending(run: ProfilerRun) -> str:
    """End of a run that is over, in one or two sentences, empty when it is complete."""
    if run.alive or run.exit_code == 0:
        return ""
    said = [line.removeprefix("error: ") for line in _tail(run) if line.startswith("error: ")]
    hint = " Go on measures what is left." if run.can_resume else ""
    if run.exit_code is not None and run.exit_code < 0:
        name = signal.Signals(-run.exit_code).name
        why = "; the system does that when memory runs out" if name == "SIGKILL" else ""
        return f"The measuring process was ended by {name}{why}.{hint}"
    if run.exit_code == 2 and said:
        return f"The profiler refused: {said[-1]}."
    if run.cancelled:
        return f"Cancelled: what was measured until then is below.{hint}"
    if run.has_results:
        return hint.strip() if run.exit_code is None else f"The sweep is not complete; the reasons are below.{hint}"
    status = "" if run.exit_code is None else f" (exit status {run.exit_code})"
    return f"The measuring process ended before it had results{status}; its log says more.{hint}"


def share_done(at: dict[str, Any]) -> float:
    """Finished share of a sweep's time, in [0, 1], from a progress report. [-]"""
    return float(min(at["elapsed_s"] / max(at["elapsed_s"] + at["remaining_s"], 1e-9), 1.0))


def copy_bandwidth(sweep: ProfilerSweep) -> float | None:
    """Measured rate of a large copy, bytes read and written, or None where it was not measured. [B/s]"""
    rows = sweep.rows[(sweep.rows["op"] == "copy_bandwidth") & (sweep.rows["status"] == "ok")]
    return float((rows["bytes"] / rows["time_s"]).max()) if len(rows) else None


def archive(run: ProfilerRun) -> bytes:
    """The sweep as a zip of one folder, to be unpacked under measurements/."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(run.folder.iterdir()):
            if file.name.startswith(("data.csv", "meta.yaml")) and not file.name.endswith(".partial"):
                packed.write(file, f"{run.name}/{file.name}")
    return buffer.getvalue()


_TORCH_NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8"}


def accelerator_of(sweep: ProfilerSweep) -> str:
    """The device as a user's own accelerator, JSON: its memory, and the rates that its kernels reached.

    Raises AdvisorError where a copy or a product of matrices in 16 bits was not measured.
    """
    copy = copy_bandwidth(sweep)
    rows = sweep.rows[(sweep.rows["op"] == "gemm") & (sweep.rows["status"] == "ok")]
    rates = (rows["flops"] / rows["time_s"]).groupby(rows["dtype"].map(_TORCH_NAMES)).max()
    if copy is None or "bf16" not in rates:
        raise AdvisorError("this sweep has no copy or no product of matrices in bf16; the preset standard has both")
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


PLAN_COLUMNS: dict[str, Any] = {"name": "Block", "op": "Operation", "estimate_s": "Estimate (s)"}
PLAN_COLUMNS["memory_bytes"] = st.column_config.NumberColumn("Memory", format="bytes")


@st.cache_data(ttl=600, show_spinner="Looking for devices")
def _devices() -> Any:
    return devices()


@st.cache_data(ttl=600, show_spinner="Pricing the plan")
def _plan(preset: str, device: str) -> Any:
    return plan(preset, device)


@st.cache_resource(max_entries=8, show_spinner="Fitting")
def _fits(_sweep: ProfilerSweep, sha256: str) -> tuple[tuple[SweepFit, ...] | None, str]:  # noqa: ARG001 - the cache's key
    return attempt(fit_sweep, _sweep)


def try_or_say(action: Callable[..., Any], *arguments: Any) -> Any:
    """Result of `action`, or its error as a sentence on the page, and None."""
    answer, problem = attempt(action, *arguments)
    if problem:
        st.error(plain(problem), icon=":material/error:")
    return answer


def choose() -> None:
    """Choice of device and preset, the plan of the sweep, and the button that starts it."""
    found = try_or_say(_devices)
    if not found:
        return
    names = {label(item): item["name"] for item in found}
    device = st.selectbox("Device", list(names), format_func=lambda key: f"{key}: {names[key]}", key="profile_device")
    preset = st.segmented_control("Preset", PRESETS, default="quick", key="profile_preset") or "quick"
    facts = try_or_say(_plan, preset, device)
    if facts is None:
        return
    st.markdown(
        f"About **{facts['estimate_s']:,.0f} s** for {len(facts['blocks'])} blocks; it stops by itself at "
        f"{facts['limit_s']:,.0f} s. Leave the machine alone meanwhile: other work spoils the times."
    )
    with st.expander("The plan"):
        st.dataframe(facts["blocks"], hide_index=True, column_config=PLAN_COLUMNS)
    if st.button("Measure", icon=":material/speed:", key="profile_start") and try_or_say(start, preset, device):
        st.rerun()


@st.fragment(run_every=2.0)
def watch() -> None:
    """Progress of the running sweep, with its log and the button that stops it."""
    run = latest()
    if run is None or not run.alive:
        st.rerun()
    at = progress(run)
    st.subheader(f"Measuring {run.device}, preset {run.preset}", anchor=False)
    if at is None:
        st.progress(0.0, "Starting")
    else:
        where = f"block {at['done_blocks'] + 1} of {at['total_blocks']}: {at['block']}"
        left = f"{at['elapsed_s']:.0f} s, about {at['remaining_s']:.0f} s left"
        st.progress(share_done(at), f"{left}; {where}")
    word = "Stopping after the block in hand" if run.cancelled else "Cancel"
    st.button(word, on_click=cancel, args=(run,), key="profile_cancel", disabled=run.cancelled)
    with st.expander("Log"):
        st.code(log_text(run), language=None)


def result(run: ProfilerRun) -> None:
    """Outcome of the last sweep, with the button that goes on where it was cut short."""
    st.subheader(f"Last sweep: {run.name}", anchor=False)
    if why := ending(run):
        st.warning(plain(why))
    again = run.can_resume and st.button("Go on", key="profile_resume")
    if again and try_or_say(start, run.preset, run.device, run):
        st.rerun()
    sweep = try_or_say(read_sweep, run.folder) if run.has_results else None
    if sweep is not None:
        summary(run, sweep)
    with st.expander("Log"):
        st.code(log_text(run), language=None)


def summary(run: ProfilerRun, sweep: ProfilerSweep) -> None:
    """Figures, findings and fits of a sweep that can be read."""
    copy = copy_bandwidth(sweep)
    with st.grid(3, min_column_width=150):
        st.metric("Status", sweep.meta.status)
        st.metric("Measured rows", f"{sweep.meta.measured_rows:,}")
        st.metric("Copy bandwidth", f"{copy / 1e9:,.1f} GB/s" if copy else "not measured")
    st.caption(plain(f"{sweep.meta.device.name}; {sweep.meta.started_at}"))
    notes = [*sweep.meta.reasons, *sweep.meta.findings]
    st.markdown("\n".join(f"- {plain(note)}" for note in notes))
    fits, problem = _fits(sweep, sweep.sha256)
    if problem:
        st.info(plain(problem))
    for order, fit in enumerate(fit for fit in fits or () if len(fit.ratios)):
        chart = ratio_chart(fit)
        st.plotly_chart(chart.figure, key=f"ratio_{order}", alt=chart.alt, config={"displayModeBar": False})
        st.caption(chart.alt)
    st.download_button("Download (zip)", archive(run), file_name=f"{run.name}.zip", on_click="ignore")
    text, why = attempt(accelerator_of, sweep)
    st.button(
        "Predict with this machine",
        key="profile_use",
        type="primary",
        on_click=_use,
        args=(text,),
        disabled=text is None,
        help=why or "As the accelerator in the bar, with the rates that were reached here.",
    )


def _use(text: str) -> None:
    """Make the measured device the accelerator of the bar."""
    st.session_state["hardware_id"] = add_own_hardware(text)


def draw_profile_panel() -> None:
    """The whole panel: the run in hand, or what could be measured and the last result."""
    st.markdown("On a GPU node, the engine itself, plain and with drafts; drop its CSV on Measure:")
    st.code("python -m advisor profile --engine vllm", language=None)
    if off := refusal(st.get_option("server.address"), st.context.url):
        st.info(off)
        return
    last = latest()
    if last is not None and last.alive:
        watch()
        return
    choose()
    if last is not None:
        result(last)
