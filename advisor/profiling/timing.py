"""Measuring cases in random rounds beside a control kernel; graph capture, an engine's samplers,
the sweep's pace.

What samplers cost is measured (verify_parts.py); they are right too, since a wrong one could be
fast: tests/profiling holds the tokens' frequencies against the model's probabilities.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from advisor.profiling.device import (
    ATTEMPTS,
    SPIN_S,
    Clock,
    Device,
    DeviceLostError,
    GraphPool,
    Sample,
    free_bytes,
)

MINIMUM_ROUNDS = 20
"""Rounds below which a block that runs out of time is thrown away rather than reported. [-]"""
CONTROL_SIZE = 1024
CPU_CONTROL_SIZE = 192
"""Rows and columns of the control kernel's matrices on an accelerator, and on a CPU. [-]"""


class StoppedError(Exception):
    """The user asked to stop, or time ran out before a block had enough rounds."""


@dataclass
class Case:
    """One configuration.

    columns: identity of the result row. call: the timed work. prepare: untimed redraw of its input
    before each call, returning the touched experts of that draw (or None). divisor: units of work
    in one call [-]. host_clock: time includes the host's own work up to a synchronise, as an
    engine's round does.
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
    controls_s: list[float] = field(default_factory=list)
    touched: list[float] = field(default_factory=list)
    launches_inside: int = 0
    """Samples that the host could not queue ahead of the device, so that launches lie in their
    time. [-]"""
    spin_s: float = SPIN_S
    attempts: int = ATTEMPTS

    def keep(self, sample: Sample) -> None:
        """Add a sample, and remember what the next one needs to be queued ahead."""
        self.samples_s.append(sample.seconds / self.divisor)
        if sample.control_s is not None:
            self.controls_s.append(sample.control_s)
        if sample.queued_ahead:
            self.spin_s = sample.spin_s
        else:  # it waits for the device by itself: a longer spin does not help
            self.launches_inside += 1
            self.spin_s = SPIN_S
            self.attempts = 1


@dataclass
class Context:
    """Context of every block: device, clock, rules of measuring, and facts found on the way.

    deadline_s: host clock (time.monotonic) at which the run must end. control_reference_s: control
    kernel at the start of the sweep. copy_bytes_per_s: measured copy bandwidth (None before).
    avoid: reason by kernel not to be tried again, since it took a process down or longer than its
    limit. graphs: memory of the block's captured graphs.
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
    copy_bytes_per_s: float | None = None
    avoid: dict[str, str] = field(default_factory=dict)
    graphs: GraphPool = field(default_factory=GraphPool)
    control: Callable[[], Any] | None = None

    @property
    def torch_device(self) -> str:
        """Name for torch's device arguments."""
        return self.device.torch_device

    @property
    def accelerator(self) -> bool:
        """Whether this is anything but a CPU."""
        return self.clock.accelerator

    def go_on(self) -> None:
        """Raise StoppedError when asked to stop or past the deadline. Asked between any two pieces
        of work."""
        if self.should_stop():
            raise StoppedError("stopped on request")
        if time.monotonic() > self.deadline_s:
            raise StoppedError("time limit reached")

    def recover(self) -> None:
        """After a block or a failed configuration: see that the device answers, and give back what
        it held."""
        self.clock.synchronize()
        gc.collect()
        if self.accelerator:
            torch.cuda.empty_cache()

    def require_bytes(self, needed: float, what: str) -> None:
        """Raise MemoryError when less than `needed` [bytes] (and a margin) is free."""
        free = free_bytes(self.device)
        if needed > 0.85 * free:
            raise MemoryError(
                f"{what} needs {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
            )


def make_control(context: Context) -> Callable[[], Any]:
    """The control kernel: a fixed product and a fixed copy from memory. Its drift is the device's
    drift.

    On an accelerator the copy is four times the cache, so that it also drives out what the call
    before it left there. On a CPU, where it stands beside calls of a millisecond, it copies the
    next 4 MiB of a buffer twice the cache.
    """
    accelerator = context.accelerator
    cache = context.device.cache_bytes
    n = CONTROL_SIZE if accelerator else CPU_CONTROL_SIZE
    size = max(2**22, min(cache * (4 if accelerator else 2), 2**30))
    step = size if accelerator else 2**22
    a = torch.randn(n, n, device=context.torch_device)
    source = torch.empty(size, dtype=torch.uint8, device=context.torch_device).random_(0, 255)
    target = torch.empty(step, dtype=torch.uint8, device=context.torch_device)
    at = [0]

    def control() -> None:
        torch.mm(a, a)
        target.copy_(source[at[0] : at[0] + step])
        at[0] = (at[0] + step) % (size - step + 1)

    return control


def ready_control(context: Context) -> Callable[[], Any]:
    """The context's control kernel, made and warmed up when first asked for."""
    if context.control is None:
        context.control = make_control(context)
        for _ in range(3):
            context.clock.sample(context.control)
    return context.control


def measure(cases: list[Case], context: Context) -> None:
    """Fill the cases' samples in rounds of random order.

    Routing is redrawn before every call, with the control beside each. Stops early, keeping the
    samples, when time runs out after MINIMUM_ROUNDS; raises StoppedError before that or when asked
    to stop.
    """
    control = ready_control(context)
    for done in range(context.rounds):
        enough = done >= min(MINIMUM_ROUNDS, context.rounds)
        if enough and time.monotonic() > context.deadline_s and not context.should_stop():
            break
        context.go_on()
        for index in context.rng.permutation(len(cases)):
            case = cases[index]
            count = case.prepare(context.rng)
            if count is not None:
                case.touched.append(count)
            how: dict[str, Any] = {
                "host_clock": case.host_clock,
                "spin_s": case.spin_s,
                "attempts": case.attempts,
            }
            case.keep(context.clock.sample(case.call, control, **how))
        context.on_round(done + 1, context.rounds)
    if context.control_reference_s is None:
        beside = [seconds for case in cases for seconds in case.controls_s]
        context.control_reference_s = float(np.median(beside)) if beside else None


def brief_seconds(case: Case, context: Context, repeats: int = 5) -> float:
    """Median of a few calls of a case, warmed up: enough to choose between kernels, not to report.
    [s]"""
    control = ready_control(context)
    context.go_on()
    case.prepare(context.rng)
    case.call()
    times = []
    for _ in range(repeats):
        case.prepare(context.rng)
        sample = context.clock.sample(case.call, control, host_clock=case.host_clock, attempts=1)
        times.append(sample.seconds / case.divisor)
    return float(np.median(times))


def row_of(case: Case, context: Context) -> dict[str, Any]:
    """The result row of a measured case: its columns, times [s], touched experts, control ratio."""
    samples = np.asarray(case.samples_s)
    notes = list(case.notes)
    if case.launches_inside and not case.host_clock:
        notes.append(
            f"launches lie in the time of {case.launches_inside} of {len(samples)} samples"
        )
    row = dict(case.columns)
    row |= {
        "time_s": float(np.median(samples)),
        "time_p20_s": float(np.quantile(samples, 0.2)),
        "time_p80_s": float(np.quantile(samples, 0.8)),
        "n_rounds": len(samples),
        "status": row.get("status", "ok"),
        "notes": "; ".join(filter(None, notes)),
    }
    if case.touched:
        row["touched_experts"] = float(np.mean(case.touched))
        row["touched_experts_sd"] = float(np.std(case.touched))
    if case.account is not None:
        row["bytes"], row["flops"] = case.account(row.get("touched_experts"))
    if context.control_reference_s and case.controls_s:
        row["control_ratio"] = float(np.median(case.controls_s)) / context.control_reference_s
    if context.copy_bytes_per_s and row.get("bytes"):
        row["bandwidth_fraction"] = row["bytes"] / row["time_s"] / context.copy_bytes_per_s
    return row


def pass_columns(
    block: str,
    op: str,
    kernel: str,
    batch: int,
    per_sequence: int,
    routing: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Identity that all rows of passes have in common, with the routing of those that choose
    experts."""
    columns = {
        "block": block,
        "op": op,
        "kernel": kernel,
        "batch_size": batch,
        "tokens_per_sequence": per_sequence,
    }
    columns["n_tokens"] = batch * per_sequence
    if routing:
        columns["routing"] = routing["name"]
        columns |= {name: routing.get(name, 0.0) for name in ("load_cv", "affinity", "stickiness")}
    return columns


def measured_rows(cases: list[Case], context: Context) -> list[dict[str, Any]]:
    """Rows of cases, measured in the same rounds. None for none."""
    if not cases:
        return []
    measure(cases, context)
    return [row_of(case, context) for case in cases]


T = TypeVar("T")


def tried(
    work: Callable[[], T],
    columns: dict[str, Any],
    rows: list[dict[str, Any]],
    context: Context,
    wrong: str = "error",
    kernel: str = "",
) -> T | None:
    """Result of `work`, or None and a row that says why there is nothing.

    `wrong` is the row's status for a ValueError that calls a result wrong. A lost device, memory
    that does not suffice and the end of the time are raised: they end the block. `kernel`: what
    `work` may compile, told before it begins.
    """
    context.go_on()
    if kernel:
        context.on_kernel(kernel)
    result = None
    try:
        result = work()
    except (DeviceLostError, MemoryError, StoppedError):
        raise
    except Exception as error:
        context.recover()
        status = wrong if isinstance(error, ValueError) and "wrong" in str(error) else "error"
        if isinstance(error, NotImplementedError):
            status = "unavailable"
        rows.append(failed_row(columns, status, f"{type(error).__name__}: {error}"))
    if kernel:
        context.on_kernel("")
    return result


def failed_row(columns: dict[str, Any], status: str, why: object) -> dict[str, Any]:
    """A row that says what could not be measured and why. It has no times."""
    text = str(why).splitlines()[0] if str(why) else type(why).__name__
    return dict(columns) | {"status": status, "notes": text[:300]}


TEMPERATURE = 0.8
"""Temperature of the random samplers. Their cost does not depend on it. [-]"""
TOP_P = 0.95
"""Mass of the nucleus that `top_p` keeps. Its cost, a sort of the vocabulary, does not depend on
it. [-]"""
Chances = Callable[[torch.Tensor], torch.Tensor]
"""logits [T, V] -> probabilities [T, V], float32."""


def random_chances(logits: torch.Tensor) -> torch.Tensor:
    """Probabilities at TEMPERATURE, float32."""
    return torch.softmax(logits.float() / TEMPERATURE, dim=-1)


def top_p_chances(logits: torch.Tensor) -> torch.Tensor:
    """Chances of the likeliest tokens that together reach TOP_P. The others have 0. Not
    renormalised."""
    ranked, order = random_chances(logits).sort(dim=-1, descending=True)
    outside = ranked.cumsum(dim=-1) - ranked >= TOP_P
    return torch.zeros_like(ranked).scatter_(-1, order, ranked.masked_fill(outside, 0.0))


CHANCES: dict[str, Chances] = {"random": random_chances, "top_p": top_p_chances}
"""Samplers that draw, by name; `greedy` takes the largest logit."""


def race(chances: torch.Tensor) -> torch.Tensor:
    """Token of each row with chance proportional to `chances` [T, V]. The first of exponential
    arrival times, [T]."""
    arrivals = torch.empty_like(chances).exponential_()
    return (chances / arrivals).argmax(dim=-1)


def sample(logits: torch.Tensor, sampler: str) -> torch.Tensor:
    """One token of each row of logits [T, V]: [T]. sampler: greedy | random | top_p."""
    return logits.argmax(dim=-1) if sampler == "greedy" else race(CHANCES[sampler](logits))


def verify(
    logits: torch.Tensor, drafted: torch.Tensor, sampler: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rejection sampling of drafts that were chosen, not drawn.

    Gives tokens emitted of each sequence [B], and tokens [B, K+1]. logits [B * (K+1), V], drafted
    [B, K]. Draft i is accepted with the target's probability of it; the token after the accepted
    ones is drawn from the target without the refused draft, after all K from the target itself. So
    every emitted token has the target's distribution (arXiv:2211.17192, with all of the draft's
    mass on one token). Places of `tokens` after the emitted ones are -1.
    """
    batch, n_draft = drafted.shape
    if sampler == "greedy":
        target_tokens = logits.argmax(dim=-1).view(batch, n_draft + 1)
        accepted = target_tokens[:, :-1] == drafted
    else:
        chances = CHANCES[sampler](logits).view(batch, n_draft + 1, -1)
        total = chances.sum(dim=-1)
        of_draft = chances[:, :-1].gather(2, drafted[..., None])[..., 0]
        accepted = torch.rand_like(of_draft) * total[:, :-1] < of_draft
        chances[:, :-1].scatter_(2, drafted[..., None], 0.0)
        target_tokens = race(chances.flatten(0, 1)).view(batch, n_draft + 1)
    count = accepted.to(torch.int64).cumprod(dim=1).sum(dim=1)
    place = torch.arange(n_draft + 1, device=logits.device)
    padded = torch.cat([drafted, drafted[:, :1]], dim=1)
    tokens = torch.where(place < count[:, None], padded, target_tokens).masked_fill(
        place > count[:, None], -1
    )
    return count + 1, tokens


def capture(
    call: Callable[[], Any], context: Context, *, wanted: bool = True
) -> tuple[Callable[[], Any], str, str]:
    """(graph replay or the warmed-up call, `graph` or `eager`, why a wanted graph was not to be
    had)."""
    if not context.accelerator or not wanted:
        call()
        call()
        return call, "eager", ""
    try:
        _warm_on_side_stream(call, context)
        before = free_bytes(context.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=context.graphs.open()):
            call()
        graph.replay()
        context.clock.synchronize()
        context.graphs.took(before, free_bytes(context.device))
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, DeviceLostError):
            raise
        context.clock.synchronize()
        context.graphs.drop()
        call()
        return (
            call,
            "eager",
            f"no graph: {type(error).__name__}: {str(error).splitlines()[0][:120]}",
        )
    return graph.replay, "graph", ""


def _warm_on_side_stream(call: Callable[[], Any], context: Context) -> None:
    """Run the call three times on a stream of its own, as torch asks before a capture."""
    index = context.device.index
    stream = torch.cuda.Stream(index)
    stream.wait_stream(torch.cuda.current_stream(index))
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream(index).wait_stream(stream)
    context.clock.synchronize()


PRIOR_SHARE = 0.15
"""Part of the plan's price that counts as measured at the planned pace before anything is. One
small block that carries the set-up of a device then moves the pace little, a block of the plan's
size moves it fully. [-]"""
MARGIN = 1.15
"""A block may be this much dearer than the time left and is still begun: it can end early with
fewer rounds. [-]"""


@dataclass
class Pace:
    """Measured over estimated time of the blocks done. priced_s and spent_s are sums over those
    blocks. [s]"""

    prior_s: float
    priced_s: float = 0.0
    spent_s: float = 0.0

    def add(self, estimate_s: float, seconds: float) -> None:
        """Count a block that was measured."""
        self.priced_s += estimate_s
        self.spent_s += seconds

    @property
    def ratio(self) -> float:
        """Expected time of a block over its estimate. [-]"""
        return (
            (self.prior_s + self.spent_s) / (self.prior_s + self.priced_s)
            if self.prior_s > 0
            else 1.0
        )

    def fits(self, estimate_s: float, left_s: float) -> bool:
        """Whether a block of this estimate is worth beginning with `left_s` to go. [s]"""
        return estimate_s * self.ratio <= MARGIN * left_s
