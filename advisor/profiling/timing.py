"""Timing: warm-up, graphs, random order over rounds, a control kernel, median and 20 % / 80 % quantiles."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from advisor.profiling.device import Device, free_bytes
from advisor.profiling.errors import DeviceLostError

MINIMUM_ROUNDS = 20
"""Rounds below which a block that runs out of time is thrown away rather than reported. [1]"""


class StoppedError(Exception):
    """The user asked to stop, or time ran out before a block had enough rounds."""


@dataclass
class Case:
    """One configuration.

    columns: identity of the result row. call: the timed work. prepare: untimed redraw of its input before each
    call, returning the touched experts of that draw (or None). divisor: units of work in one call [1].
    host_clock: time includes the host's own work up to a synchronise, as an engine's round does.
    """

    columns: dict[str, Any]
    call: Callable[[], Any]
    prepare: Callable[[np.random.Generator], float | None] = lambda _: None
    divisor: float = 1.0
    host_clock: bool = False
    account: Callable[[float | None], tuple[float, float]] | None = None
    """(bytes, flops) of one unit of work, given its mean touched experts."""
    notes: list[str] = field(default_factory=list)
    samples_s: list[float] = field(default_factory=list)
    touched: list[float] = field(default_factory=list)


class Clock:
    """Times a call on one device: host clock on a CPU, events behind a short spin on an accelerator."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.accelerator = device.backend != "cpu"
        self._spin = getattr(torch.cuda, "_sleep", None) if self.accelerator else None

    def synchronize(self) -> None:
        """Wait for the device; raises DeviceLostError when it no longer answers."""
        if not self.accelerator:
            return
        try:
            torch.cuda.synchronize(self.device.index)
        except RuntimeError as error:
            raise DeviceLostError(str(error).splitlines()[0]) from error

    def seconds(self, call: Callable[[], Any], *, host_clock: bool = False) -> float:
        """Time of one call. [s]"""
        if not self.accelerator or host_clock:
            self.synchronize()
            start = time.perf_counter()
            call()
            self.synchronize()
            return time.perf_counter() - start
        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        self._spin_ahead()
        first.record()
        call()
        last.record()
        self.synchronize()
        return first.elapsed_time(last) * 1e-3

    def _spin_ahead(self) -> None:
        """Keep the device busy about 0.1 ms while the host queues the call, so that its start is not a gap."""
        if self._spin is None:
            return
        try:
            self._spin(200_000)
        except (RuntimeError, TypeError):
            self._spin = None


@dataclass
class Context:
    """What every block needs: the device, its clock, the rules of measuring, and facts found on the way.

    deadline_s: host clock (time.monotonic) at which the run must end. control_reference_s: control kernel at the
    start of the sweep. copy_bytes_per_s: measured copy bandwidth (None before). avoid: kernels that crashed.
    """

    device: Device
    clock: Clock
    rounds: int
    rng: np.random.Generator
    should_stop: Callable[[], bool] = lambda: False
    deadline_s: float = float("inf")
    on_round: Callable[[int, int], None] = lambda _done, _all: None
    on_kernel: Callable[[str], None] = lambda _name: None
    control_reference_s: float | None = None
    control_latest_s: float | None = None
    copy_bytes_per_s: float | None = None
    avoid: tuple[str, ...] = ()
    minimum_rounds: int = MINIMUM_ROUNDS
    control: Callable[[], Any] | None = None

    @property
    def torch_device(self) -> str:
        """Name for torch's device arguments."""
        return self.device.torch_device

    @property
    def accelerator(self) -> bool:
        """Whether this is anything but a CPU."""
        return self.clock.accelerator

    def recover(self) -> None:
        """After a configuration failed: see that the device still answers, and give back what it held."""
        self.clock.synchronize()
        gc.collect()
        if self.accelerator:
            torch.cuda.empty_cache()

    def require_bytes(self, wanted: float, what: str) -> None:
        """Raise MemoryError when less than `wanted` [bytes] (and a margin) is free."""
        free = free_bytes(self.device)
        if wanted > 0.85 * free:
            raise MemoryError(f"{what} needs {wanted / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free")


def make_control(context: Context) -> Callable[[], Any]:
    """The control kernel: a fixed product and a fixed copy, larger than the cache; its drift is the device's drift."""
    n = 1024 if context.accelerator else 256
    size = max(2**22, min(context.device.cache_bytes * (4 if context.accelerator else 1), 2**30))
    a = torch.randn(n, n, device=context.torch_device)
    source = torch.empty(size, dtype=torch.uint8, device=context.torch_device).random_(0, 255)
    target = torch.empty_like(source)

    def control() -> None:
        torch.mm(a, a)
        target.copy_(source)

    return control


def measure(cases: list[Case], context: Context) -> None:
    """Fill the cases' samples: rounds in random order, routing redrawn before every call, control once a round.

    Stops early, keeping the samples, when time runs out after `minimum_rounds`; raises StoppedError before that or
    when asked to stop.
    """
    if context.control is None:
        context.control = make_control(context)
        for _ in range(3):
            context.clock.seconds(context.control)
    controls: list[float] = []
    for done in range(context.rounds):
        if context.should_stop():
            raise StoppedError("stopped on request")
        if time.monotonic() > context.deadline_s:
            if done >= min(context.minimum_rounds, context.rounds):
                break
            raise StoppedError("time limit reached")
        controls.append(context.clock.seconds(context.control))
        for index in context.rng.permutation(len(cases)):
            case = cases[index]
            count = case.prepare(context.rng)
            if count is not None:
                case.touched.append(count)
            case.samples_s.append(context.clock.seconds(case.call, host_clock=case.host_clock) / case.divisor)
        context.on_round(done + 1, context.rounds)
    context.control_latest_s = float(np.median(controls))
    if context.control_reference_s is None:
        context.control_reference_s = context.control_latest_s


def brief_seconds(case: Case, context: Context, repeats: int = 5) -> float:
    """Median of a few calls of a case, warmed up: enough to choose between kernels, not to report. [s]"""
    case.prepare(context.rng)
    case.call()
    times = []
    for _ in range(repeats):
        case.prepare(context.rng)
        times.append(context.clock.seconds(case.call, host_clock=case.host_clock) / case.divisor)
    return float(np.median(times))


def capture(call: Callable[[], Any], context: Context, *, wanted: bool = True) -> tuple[Callable[[], Any], str, str]:
    """(callable, mode, reason): a graph replay on an accelerator, else the call itself, warmed up.

    mode is `graph` or `eager`; reason says why a wanted graph was not to be had, else "".
    """
    if not context.accelerator or not wanted:
        call()
        call()
        return call, "eager", ""
    try:
        stream = torch.cuda.Stream(context.device.index)
        stream.wait_stream(torch.cuda.current_stream(context.device.index))
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream(context.device.index).wait_stream(stream)
        context.clock.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        context.clock.synchronize()
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, DeviceLostError):
            raise
        context.clock.synchronize()
        call()
        return call, "eager", f"no graph: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return graph.replay, "graph", ""


def row_of(case: Case, context: Context) -> dict[str, Any]:
    """The result row of a measured case: its columns, times [s], touched experts, control ratio."""
    samples = np.asarray(case.samples_s)
    row = dict(case.columns)
    row |= {
        "time_s": float(np.median(samples)),
        "time_p20_s": float(np.quantile(samples, 0.2)),
        "time_p80_s": float(np.quantile(samples, 0.8)),
        "n_rounds": len(samples),
        "status": row.get("status", "ok"),
        "notes": "; ".join(note for note in case.notes if note),
    }
    if case.touched:
        row["touched_experts"] = float(np.mean(case.touched))
        row["touched_experts_sd"] = float(np.std(case.touched))
    if case.account is not None:
        row["bytes"], row["flops"] = case.account(row.get("touched_experts"))
    if context.control_reference_s and context.control_latest_s:
        row["control_ratio"] = context.control_latest_s / context.control_reference_s
    if context.copy_bytes_per_s and row.get("bytes"):
        row["bandwidth_fraction"] = row["bytes"] / row["time_s"] / context.copy_bytes_per_s
    return row


T = TypeVar("T")


def tried(
    work: Callable[[], T], columns: dict[str, Any], rows: list[dict[str, Any]], context: Context, wrong: str = "error"
) -> T | None:
    """What `work` gives, or None and a row that says why there is nothing.

    `wrong` is the row's status for a ValueError that calls a result wrong. A lost device and memory that does not
    suffice are raised: they end the block.
    """
    try:
        return work()
    except (DeviceLostError, MemoryError):
        raise
    except Exception as error:
        context.recover()
        status = wrong if isinstance(error, ValueError) and "wrong" in str(error) else "error"
        rows.append(failed_row(columns, status, f"{type(error).__name__}: {error}"))
        return None


def failed_row(columns: dict[str, Any], status: str, why: object) -> dict[str, Any]:
    """A row that says what could not be measured and why; it has no times."""
    text = str(why).splitlines()[0] if str(why) else type(why).__name__
    return dict(columns) | {"status": status, "notes": text[:300]}
