"""The command line of the profiler, and the supervisor that survives a crashed or hung process.

A kernel is compiled inside its first call, in code that no signal interrupts, so the limit is kept
from outside: the child writes into progress.json which kernel it tries and since when; past the
limit it is ended, and the next child resumes without that kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from advisor.profiling.device import (
    Options,
    ProfilingError,
    StopOnSignal,
    detect_devices,
    own_path,
    pick_device,
)
from advisor.profiling.plan import PROMISE_S, Plan, make_plan
from advisor.profiling.results import write_atomically
from advisor.profiling.runner import Progress, run

DEVICE_LOST = 75
"""Exit status of a worker whose device stopped answering: a new process may resume. (sysexits:
EX_TEMPFAIL)"""
RESTARTS = 6
"""New processes the supervisor starts after crashes. [-]"""
KERNEL_LIMIT_S = 90.0
"""Longest time a kernel may take at a new shape: to compile, to be checked, to be timed a few
times. Triton takes seconds; minutes mean that its compiler or the kernel hangs. [s]"""
POLL_S = 0.2


def supervise(
    arguments: list[str], out: Path, budget_s: float, kernel_limit_s: float = KERNEL_LIMIT_S
) -> int:
    """Exit status of the sweep with these command line arguments. `budget_s` holds for all its
    processes together. [s]

    Raises ProfilingError when the child dies at its start, too often, or by someone's hand.
    """
    environment = os.environ | own_path()
    extra: list[str] = []
    began = time.monotonic()
    for _ in range(RESTARTS + 1):
        command = [sys.executable, "-m", "advisor.profiling", *arguments, "--worker", *extra]
        child = subprocess.Popen(command, env=environment)
        status, given_up = wait(child, out / "progress.json", kernel_limit_s)
        if status >= 0 and status != DEVICE_LOST:
            return status
        if not given_up:
            _refuse_to_go_on(status, out)
            print(
                f"the measuring process died (status {status}); resuming in a new one",
                file=sys.stderr,
                flush=True,
            )
        else:
            print(
                f"{given_up}; resuming without that kernel in a new process",
                file=sys.stderr,
                flush=True,
            )
        left_s = max(budget_s - (time.monotonic() - began), 1.0)
        extra = ["--resume", "--after-crash", "--time-budget-s", f"{left_s:.1f}"]
    raise ProfilingError(
        f"the measuring process died {RESTARTS + 1} times; what was measured is in --output"
    )


def _refuse_to_go_on(status: int, out: Path) -> None:
    """Raise ProfilingError when somebody ended the child, or it died before it could begin."""
    if status in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL):
        name = signal.Signals(-status).name
        hint = " (out of host memory, perhaps)" if status == -signal.SIGKILL else ""
        raise ProfilingError(
            f"the measuring process was ended by {name}{hint}; --resume goes on from there"
        )
    if not (out / "progress.json").exists():
        raise ProfilingError(f"the measuring process died at its start (status {status})")


def wait(child: subprocess.Popen[bytes], progress: Path, kernel_limit_s: float) -> tuple[int, str]:
    """(exit status of the child, why it was ended here or ""). SIGTERM is handed on; Ctrl-C reaches
    it by itself."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    handlers = []
    try:
        handlers.append((signal.SIGTERM, signal.signal(signal.SIGTERM, hand_on)))
        handlers.append((signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN)))
    except ValueError:  # not in the main thread: signals do not come here
        pass
    try:
        while True:
            try:
                return child.wait(timeout=POLL_S), ""
            except subprocess.TimeoutExpired:
                reason = overdue(progress, kernel_limit_s)
            if reason:
                child.kill()
                status = child.wait()
                content = _content(progress)
                if content:  # the next child reads there why the kernel is not to be tried again
                    content["running"] = content.get("running", {}) | {"why": reason}
                    write_atomically(progress, json.dumps(content, indent=1))
                return status, reason
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def overdue(progress: Path, kernel_limit_s: float) -> str:
    """Reason why the child should be ended: its kernel is past the limit. "" while it is not."""
    running = _content(progress).get("running", {})
    kernel = running.get("kernel", "")
    since = float(running.get("since", 0.0) or 0.0)
    if not kernel or not since or time.time() - since <= kernel_limit_s:
        return ""
    return f"{kernel} took longer than {kernel_limit_s:.0f} s at a new shape, compiling included"


def _content(progress: Path) -> dict[str, dict[str, str]]:
    try:
        content = json.loads(progress.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or just being replaced
        return {}
    return content if isinstance(content, dict) else {}


def parser() -> argparse.ArgumentParser:
    """The options of `python -m advisor.profiling`."""
    parse = Options(
        prog="python -m advisor.profiling",
        description=(
            "Measure this machine's device: needs torch and numpy alone. Columns: "
            "docs/profiling.md."
        ),
    )
    parse.add_argument(
        "--preset", default="quick", help="smoke, quick (<= 2 min), standard (<= 8 min) or full"
    )
    parse.add_argument(
        "--device", default="auto", help="auto, cpu, cuda:0, rocm:0, ... (see --list-devices)"
    )
    parse.add_argument("--output", dest="out", type=Path, help="folder for data.csv and meta.yaml")
    parse.add_argument(
        "--resume", action="store_true", help="go on with the interrupted sweep in --output"
    )
    parse.add_argument(
        "--plan", action="store_true", help="print the plan and its time estimate, measure nothing"
    )
    parse.add_argument("--list-devices", action="store_true", help="print the devices found")
    parse.add_argument("--seed", type=int, default=0, help="seed of routing, order and weights")
    parse.add_argument(
        "--only", action="append", default=[], metavar="BLOCK", help="this block or op; repeatable"
    )
    parse.add_argument(
        "--time-budget-s",
        type=float,
        help="stop after this time [s]; default: the preset's promise",
    )
    parse.add_argument(
        "--progress", choices=("text", "json", "none"), default="text", help="form of the progress"
    )
    parse.add_argument(
        "--json",
        action="store_true",
        help="print the outcome as JSON, progress as JSON lines to stderr",
    )
    parse.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parse.add_argument("--after-crash", action="store_true", help=argparse.SUPPRESS)
    return parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 complete, 2 bad input, 3 not complete. Never a traceback for bad
    input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if any(argument.split("=")[0] == "--engine" for argument in arguments):
        from advisor.profiling.engine.command import main as engine_main

        return engine_main(arguments)
    options = parser().parse_args(arguments)
    try:
        return _dispatch(options, arguments)
    except ProfilingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _dispatch(options: argparse.Namespace, arguments: list[str]) -> int:
    if options.time_budget_s is not None and not options.time_budget_s > 0:
        raise ProfilingError(f"--time-budget-s {options.time_budget_s} must be above 0")
    if options.list_devices:
        return _list_devices(options)
    measuring = not options.plan
    if measuring and options.out is None:
        raise ProfilingError(
            "give --output DIRECTORY for the results (or --plan to see the price only)"
        )
    if measuring and not options.worker and options.device != "cpu":
        budget_s = options.time_budget_s or PROMISE_S.get(options.preset, 120.0)
        return supervise(arguments, options.out, budget_s)
    plan = make_plan(
        options.preset, pick_device(options.device), only=options.only, seed=options.seed
    )
    if options.plan:
        print(json.dumps(_plan_facts(plan)) if options.json else plan.describe())
        return 0
    return _measure(options, plan)


def _list_devices(options: argparse.Namespace) -> int:
    devices = detect_devices()
    if options.json:
        print(json.dumps([asdict(device) | {"label": device.label} for device in devices]))
    else:
        for device in devices:
            print(f"{device.label:<8} {device.name}, {device.memory_bytes / 2**30:.0f} GiB")
    if not devices:
        print("error: torch is not installed here", file=sys.stderr)
        return 2
    return 0


def _plan_facts(plan: Plan) -> dict[str, object]:
    return {
        "preset": plan.preset,
        "hash": plan.hash,
        "device": asdict(plan.device),
        "estimate_s": plan.estimate_s,
        "limit_s": plan.promise_s,
        "blocks": [
            {name: getattr(block, name) for name in ("name", "op", "estimate_s", "memory_bytes")}
            for block in plan.blocks
        ],
    }


def _measure(options: argparse.Namespace, plan: Plan) -> int:
    form = "json" if options.json and options.progress == "text" else options.progress
    if form == "text":
        print(plan.describe(), flush=True)
    elif form == "json":
        print(
            json.dumps({"plan": _plan_facts(plan)}),
            file=sys.stderr if options.json else sys.stdout,
            flush=True,
        )
    outcome = run(
        plan,
        options.out,
        _Printer(form, to_stderr=options.json),
        StopOnSignal(),
        resume=options.resume,
        time_budget_s=options.time_budget_s,
        after_crash=options.after_crash,
    )
    if options.json:
        print(json.dumps(asdict(outcome)))
    elif form != "none":
        print(
            f"{outcome.status}: {outcome.rows} rows in {outcome.elapsed_s:.0f} s, {outcome.out_dir}"
        )
        for reason in outcome.reasons:
            print(f"  {reason}")
    if outcome.device_lost:
        return DEVICE_LOST
    return 0 if outcome.status == "complete" else 3


class _Printer:
    """Progress lines, at most two a second apart from a block's first and last."""

    def __init__(self, form: str, *, to_stderr: bool) -> None:
        self.form = form
        self.stream = sys.stderr if to_stderr else sys.stdout
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        routine = progress.message == "measuring"
        now = time.monotonic()
        if self.form == "none" or (
            routine and now - self.last < (0.5 if self.form == "json" else 5.0)
        ):
            return
        self.last = now
        if self.form == "json":
            line = json.dumps({"progress": asdict(progress)})
        else:
            line = (
                f"[{progress.elapsed_s:6.1f} s, about {progress.remaining_s:.0f} s left] "
                f"{progress.done_blocks}/{progress.total_blocks} {progress.block}: "
                f"{progress.message}" + (f" {progress.round}/{progress.rounds}" if routine else "")
            )
        print(line, file=self.stream, flush=True)
