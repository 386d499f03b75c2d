"""Runs a plan: each block alone, rows saved as blocks finish, failures kept apart, resumable."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.device import (
    TORCH_MISSING,
    Clock,
    DeviceLostError,
    GraphPool,
    ProfilingError,
    clocks,
)
from advisor.profiling.plan import Block, Plan
from advisor.profiling.results import (
    ResultFolder,
    State,
    build_meta,
    status_of,
    to_yaml,
    write_atomically,
)

CRASHES_ALLOWED = 2
"""Times a block may take the process down before it is given up. [-]"""


@dataclass(frozen=True)
class Progress:
    """Progress of a run. remaining_s is the plan's estimate scaled by the pace so far. [s]"""

    done_blocks: int
    total_blocks: int
    block: str
    round: int
    rounds: int
    elapsed_s: float
    remaining_s: float
    message: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. status: complete | partial | failed. Reasons: why it is not complete or not
    clean."""

    status: str
    reasons: tuple[str, ...]
    out_dir: str
    rows: int
    elapsed_s: float
    device_lost: bool = False


def measure_block(block: Block, context: Any) -> list[dict[str, Any]]:
    """Rows of one block on the context's device. torch is imported here, not before."""
    from advisor.profiling import kernels_basic, moe_sweep, steps

    measures: dict[str, Callable[[Block, Any], list[dict[str, Any]]]] = {
        "bandwidth": kernels_basic.measure_bandwidth,
        "launch": kernels_basic.measure_launch,
        "gemm": kernels_basic.measure_gemm,
        "lm_head": kernels_basic.measure_lm_head,
        "moe_layer": moe_sweep.measure_moe,
        "attention_decode": kernels_basic.measure_attention,
        "mla_decode": kernels_basic.measure_attention,
        "decode_step": steps.measure_steps,
        "verify_parts": moe_sweep.measure_verify_parts,
    }
    return measures[block.op](block, context)


def run_block(block: Block, context: Any) -> tuple[str, list[dict[str, Any]], str]:
    """(status, rows, message) of one block. Its failure is its own. Raises StoppedError and
    DeviceLostError only."""
    import torch

    from advisor.profiling.timing import StoppedError, failed_row

    context.graphs = GraphPool()
    try:
        context.require_bytes(block.memory_bytes, block.name)
        with torch.no_grad():
            rows = measure_block(block, context)
        context.clock.synchronize()
        status = "ok"
        message = ""
    except (StoppedError, DeviceLostError):
        raise
    except Exception as error:
        out_of_memory = isinstance(error, MemoryError) or "out of memory" in str(error).lower()
        status = "out_of_memory" if out_of_memory else "error"
        first_line = str(error).splitlines()[0] if str(error) else ""
        message = f"{type(error).__name__}: {first_line}"[:300]
        rows = [failed_row({"block": block.name, "op": block.op}, status, message)]
    context.graphs.drop()
    context.recover()
    return status, rows, message


def make_context(plan: Plan, should_stop: Callable[[], bool], deadline_s: float) -> Any:
    """A measuring context on the plan's device. One thread on a CPU, full float32 on an
    accelerator."""
    import torch

    from advisor.profiling.timing import Context

    if plan.device.backend == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(plan.device.index)
        torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(plan.seed)
    rng = np.random.default_rng(plan.seed)
    return Context(plan.device, Clock(plan.device), plan.rounds, rng, should_stop, deadline_s)


def _load_state(plan: Plan, folder: ResultFolder, *, resume: bool) -> State:
    if folder.is_empty():
        return State(plan.hash)
    if not resume:
        raise ProfilingError(
            f"{folder.path} already holds results; give --resume to go on, or another --output"
        )
    content = folder.read_progress()
    if not content:
        raise ProfilingError(
            f"{folder.path} holds a finished sweep, nothing to resume; choose another --output"
        )
    if content.get("plan_hash") != plan.hash:
        raise ProfilingError(
            f"{folder.path} holds plan {content.get('plan_hash')}, this is plan {plan.hash} "
            "(other preset, seed, blocks, device, torch or code); choose another --output"
        )
    return State(**{name: content[name] for name in State.__dataclass_fields__ if name in content})


def _note_crash(state: State) -> None:
    """The process before this one died while measuring: avoid the kernel it tried, or count against
    the block."""
    name = state.running.get("block", "")
    kernel = state.running.get("kernel", "")
    if kernel:
        state.avoid[kernel] = state.running.get("why", "") or "crashed before in this sweep"
    elif name:
        state.crashes[name] = state.crashes.get(name, 0) + 1
    state.running = {}


class Run:
    """One call of `run`: the plan's blocks in order, with state on disk after each."""

    def __init__(
        self,
        plan: Plan,
        folder: ResultFolder,
        state: State,
        on_progress: Callable[[Progress], None],
        should_stop: Callable[[], bool],
        budget_s: float,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.state = state
        self.on_progress = on_progress
        self.began = time.monotonic()
        self.before_s = state.elapsed_s
        self.budget_s = budget_s
        self.context = make_context(plan, should_stop, self.began + budget_s)
        self.context.control_reference_s = state.control_reference_s
        self.context.copy_bytes_per_s = state.copy_bytes_per_s
        self.context.avoid = dict(state.avoid)
        from advisor.profiling.timing import PRIOR_SHARE, Pace

        self.pace = Pace(PRIOR_SHARE * plan.estimate_s)

    def elapsed(self) -> float:
        """Time in this process. [s]"""
        return time.monotonic() - self.began

    def left(self) -> float:
        """Time before the limit. [s]"""
        return self.budget_s - self.elapsed()

    def tell(self, block: str, round_: int, message: str) -> None:
        """Report progress to the caller and, for other processes, to progress.json."""
        open_blocks = [b for b in self.plan.blocks if b.name not in self.state.blocks]
        left = sum(b.estimate_s for b in open_blocks) * self.pace.ratio
        done = len(self.state.finished)
        total = len(self.plan.blocks)
        self.on_progress(
            Progress(done, total, block, round_, self.plan.rounds, self.elapsed(), left, message)
        )

    def save(self, **extra: Any) -> None:
        """Write state, and meta.yaml as it stands."""
        self.state.elapsed_s = self.before_s + self.elapsed()
        self.state.control_reference_s = self.context.control_reference_s
        self.state.copy_bytes_per_s = self.context.copy_bytes_per_s
        content = {name: getattr(self.state, name) for name in State.__dataclass_fields__}
        content |= {"pid": os.getpid(), "total_blocks": len(self.plan.blocks)} | extra
        write_atomically(self.folder.path / "progress.json", json.dumps(content, indent=1))

    def block(self, index: int, block: Block) -> bool:
        """Measure one block. False when the run must end here."""
        from advisor.profiling.timing import StoppedError

        state = self.state
        context = self.context
        if state.crashes.get(block.name, 0) >= CRASHES_ALLOWED:
            self.finish(block, "error", [], "took the process down twice, given up", 0.0)
            return True
        context.rng = np.random.default_rng([self.plan.seed, index])
        context.on_kernel = lambda kernel: self.running(block.name, kernel)
        context.on_round = lambda done, _all: self.tell(block.name, done, "measuring")
        self.running(block.name, "")
        self.tell(block.name, 0, "preparing")
        start = time.monotonic()
        try:
            status, rows, message = run_block(block, context)
        except StoppedError as error:
            self.finish(block, "interrupted", [], str(error), time.monotonic() - start)
            return "request" not in str(error)
        self.finish(block, status, rows, message, time.monotonic() - start)
        return True

    def all_blocks(self) -> None:
        """The plan's blocks in order. Those that seemed too dear for the time left are tried again
        at the end.

        At the end the pace is known from all other blocks. First come those that fit by it, then,
        while time is left, the others: a block that runs out of time after enough rounds still
        counts.
        """
        waiting = [
            (index, block)
            for index, block in enumerate(self.plan.blocks)
            if block.name not in self.state.blocks
        ]
        for last_chance in (False, False, True):
            put_off = []
            for index, block in waiting:
                if self.left() <= 0 or not (
                    last_chance or self.pace.fits(block.estimate_s, self.left())
                ):
                    put_off.append((index, block))
                elif not self.block(index, block):
                    return
            waiting = put_off
        for _, block in waiting:
            self.finish(block, "skipped", [], "would not fit in the time limit", 0.0)

    def running(self, block: str, kernel: str) -> None:
        """Leave a trace of what is being tried, for the process after a crash."""
        self.state.running = {"block": block, "kernel": kernel, "since": f"{time.time():.3f}"}
        self.save()

    def finish(
        self, block: Block, status: str, rows: list[dict[str, Any]], message: str, seconds: float
    ) -> None:
        """Save a block's rows, then its status: rows of a block without a status are dropped on
        resume."""
        if rows:
            self.folder.append(rows)
        if status in ("ok", "error"):
            self.pace.add(block.estimate_s, seconds)
        self.state.record(block, status, len(rows), message, seconds, self.context.graphs)
        self.context.graphs = GraphPool()
        self.state.running = {}
        self.save()
        self.tell(block.name, self.plan.rounds, status if not message else f"{status}: {message}")


def run(
    plan: Plan,
    out_dir: str | Path,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    resume: bool = False,
    time_budget_s: float | None = None,
    after_crash: bool = False,
) -> Outcome:
    """Measure a plan on its device. Write data.csv and meta.yaml into `out_dir` as blocks finish.

    `should_stop` is asked between rounds; what was measured until then stays on disk and
    `resume=True` goes on from there. `time_budget_s` defaults to the preset's promise.
    `after_crash` tells that the process before this one died on its own. Raises ProfilingError when
    `out_dir` holds another plan's results or torch is missing.
    """
    try:
        import torch
    except ImportError as error:
        raise ProfilingError(TORCH_MISSING) from error
    from advisor.profiling.timing import ready_control

    folder = ResultFolder(Path(out_dir))
    state = _load_state(plan, folder, resume=resume)
    if after_crash:
        _note_crash(state)
    state.started_at = state.started_at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state.clocks_at_start = state.clocks_at_start or clocks(plan.device)
    for name in [name for name in state.blocks if name not in state.finished]:
        del state.blocks[name]
    folder.start(state.finished)
    threads = torch.get_num_threads()
    budget = plan.promise_s if time_budget_s is None else time_budget_s
    this = Run(
        plan, folder, state, on_progress or (lambda _: None), should_stop or (lambda: False), budget
    )
    lost = ""
    made_s = this.elapsed()
    try:
        # The first touch of the device is on no block's account: libraries load, the control kernel
        # is built.
        ready_control(this.context)
        state.setup_s += this.elapsed() - made_s
        this.all_blocks()
    except DeviceLostError as error:
        lost = str(error)
    finally:
        this.save()
        outcome = _close(plan, folder, this, lost)
        torch.set_num_threads(threads)
    return outcome


def _close(plan: Plan, folder: ResultFolder, this: Run, lost: str) -> Outcome:
    """Final files. Progress.json goes away when nothing is left to resume."""
    state = this.state
    status, reasons = status_of(plan, state.blocks, folder)
    if lost:
        reasons = [f"the device stopped answering: {lost}", *reasons]
    open_blocks = [block for block in plan.blocks if block.name not in state.finished]
    write_atomically(
        folder.path / "meta.yaml", to_yaml(build_meta(plan, state, folder, status, reasons))
    )
    if not open_blocks:
        (folder.path / "progress.json").unlink(missing_ok=True)
    return Outcome(
        status, tuple(reasons), str(folder.path), state.n_rows, state.elapsed_s, bool(lost)
    )
