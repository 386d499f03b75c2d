"""Requests served in decode iterations by a policy that chooses K: acceptance drawn once, load, and
the loop itself.

A trace is indexed by token position, not by iteration, so that a policy which moves faster meets
the same good and bad passages as a slower one. `run_length[r, p]` is the number of drafts in a row
that the target would accept when request r stands at its p-th output token; a round with K drafts
there accepts min(run_length, K) of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.answers.best_k import IntArray, RoundCosts
from advisor.answers.simulation.policies import Controller, IterationOutcome, Policy, Situation
from advisor.prediction import AdvisorError, Array

RunLengths = NDArray[np.int8]
DEFAULT_SPREAD = 1.5
"""Assumed, in logits: how far good and bad passages lie above and below the middle. No engine
publishes it."""
DEFAULT_PASSAGE_TOKENS = 40.0
"""Assumed mean passage length; the same as the copying passages of studies/runtime.py. [tokens]"""


class AcceptanceProcess(Protocol):
    """Anything that can draw run lengths [n_streams, n_tokens] up to k_max from a Generator."""

    def run_lengths(
        self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
    ) -> RunLengths:
        """Draws. The same Generator state gives the same array."""
        ...


@dataclass(frozen=True)
class PerPosition:
    """Independent rounds. Conditional[j] = P(draft j+1 accepted | drafts 1..j accepted), 0 beyond
    the list."""

    conditional: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= c <= 1 for c in self.conditional):
            raise AdvisorError(f"acceptance probabilities {self.conditional} must lie in 0..1")

    @classmethod
    def from_accepted_length(cls, accepted_length: ArrayLike) -> PerPosition:
        """Process of a table AL(0..k_max), AL(0) = 1. Raises AdvisorError for one that no process
        can have."""
        survival = np.diff(np.asarray(accepted_length, dtype=float), prepend=0.0)
        if (
            survival.size < 2
            or survival[0] != 1
            or np.any(np.diff(survival) > 1e-12)
            or np.any(survival < 0)
        ):
            raise AdvisorError(
                "accepted_length must start with 1 at K = 0 and grow by ever smaller, "
                "non-negative steps"
            )
        before = survival[:-1]
        accepted = np.divide(survival[1:], before, out=np.zeros(before.size), where=before > 0)
        return cls(tuple(np.minimum(accepted, 1.0).tolist()))

    def accepted_length(self, k_max: int) -> Array:
        """Mean tokens per round for K = 0..k_max, bonus token included. [k_max + 1]"""
        return np.concatenate([[1.0], 1.0 + np.cumsum(_survival(self.conditional, k_max))])

    def run_lengths(
        self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
    ) -> RunLengths:
        """Run lengths [n_streams, n_tokens], independent over positions."""
        uniform = rng.random((n_streams, n_tokens), dtype=np.float32)
        return _runs(uniform, self.conditional, k_max)


@dataclass(frozen=True)
class Switching:
    """Good and bad passages in turn.

    A two-state Markov chain over tokens, with a per-position list for each state.

    good_tokens, bad_tokens: mean passage lengths (geometric). A stream starts in either state with
    its long-run share.
    """

    good: tuple[float, ...]
    bad: tuple[float, ...]
    good_tokens: float
    bad_tokens: float

    def __post_init__(self) -> None:
        if min(self.good_tokens, self.bad_tokens) < 1:
            raise AdvisorError(
                "good_tokens and bad_tokens are mean passage lengths and must be at least 1"
            )
        PerPosition(self.good), PerPosition(self.bad)

    def is_good(self, n_streams: int, n_tokens: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """State of each stream at each token, [n_streams, n_tokens]."""
        leave_good = np.float32(1 / self.good_tokens)
        leave_bad = np.float32(1 / self.bad_tokens)
        path = np.empty((n_tokens, n_streams), dtype=bool)
        state = rng.random(n_streams) < self.good_tokens / (self.good_tokens + self.bad_tokens)
        for t in range(n_tokens):
            path[t] = state
            flips = rng.random(n_streams, dtype=np.float32) < np.where(state, leave_good, leave_bad)
            state = state ^ flips
        return np.ascontiguousarray(path.T)

    def run_lengths(
        self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
    ) -> RunLengths:
        """Run lengths [n_streams, n_tokens]. A draft is judged by the state at the round's first
        token."""
        path = self.is_good(n_streams, n_tokens, rng)
        uniform = rng.random((n_streams, n_tokens), dtype=np.float32)
        return np.where(path, _runs(uniform, self.good, k_max), _runs(uniform, self.bad, k_max))


@dataclass(frozen=True)
class RecordedSteps:
    """Accepted drafts per step as an engine logged them: one sequence of whole numbers per request.

    A step that accepted a drafts covers a + 1 tokens; seen from its i-th token, a - i drafts were
    still right. What lies beyond the recorded draft length is unknown and counts as rejected, so
    results for longer K are lower bounds. Streams are the recorded requests, each entered at a
    random step and repeated as often as needed.
    """

    steps: tuple[tuple[int, ...], ...]

    @classmethod
    def from_array(cls, accepted: ArrayLike | Sequence[Sequence[int]]) -> RecordedSteps:
        """Process of accepted drafts, [n_steps] or a row a request. Raises AdvisorError for counts
        that are none."""
        rows: list[tuple[int, ...]] = []
        values = list(accepted)  # type: ignore[arg-type]
        for number, row in enumerate([values] if values and np.ndim(values[0]) == 0 else values):
            array = np.asarray(row, dtype=float)
            if array.ndim != 1 or not array.size:
                raise AdvisorError(f"request {number} of the acceptance trace holds no steps")
            if not np.all(
                (array >= 0) & (array <= 126) & (array == np.round(array))
            ):  # NaN is none of these
                raise AdvisorError(
                    f"request {number} of the acceptance trace: accepted drafts must be whole "
                    "numbers in 0..126"
                )
            rows.append(tuple(int(a) for a in array))
        if not rows:
            raise AdvisorError("the acceptance trace is empty; give accepted drafts per step")
        return cls(tuple(rows))

    def run_lengths(
        self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
    ) -> RunLengths:
        """Run lengths [n_streams, n_tokens]."""
        out = np.empty((n_streams, n_tokens), dtype=np.int8)
        starts = [
            int(rng.integers(len(self.steps[stream % len(self.steps)])))
            for stream in range(n_streams)
        ]
        for number, row in enumerate(self.steps[:n_streams]):
            covered = np.asarray(row, dtype=np.int64) + 1
            ends = np.cumsum(covered)
            by_token = (np.repeat(ends, covered) - 1 - np.arange(ends[-1])).astype(np.int8)
            for stream in range(number, n_streams, len(self.steps)):
                first = ends[starts[stream]] - covered[starts[stream]]
                out[stream] = np.take(by_token, np.arange(first, first + n_tokens), mode="wrap")
        return np.minimum(out, np.int8(min(k_max, 126)))


def draw_trace(
    process: AcceptanceProcess, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
) -> RunLengths:
    """Run lengths [n_streams, n_tokens], which start over. Raises AdvisorError for sizes below 1,
    k_max beyond 126."""
    if min(n_streams, n_tokens, k_max) < 1 or k_max > 126:
        raise AdvisorError("n_streams and n_tokens must be positive and k_max lie in 1..126")
    return process.run_lengths(n_streams, n_tokens, k_max, rng)


def concave(accepted_length: ArrayLike) -> Array:
    """Nearest AL(0..k_max) of ever smaller steps, as any process has, by isotonic regression."""
    from scipy.optimize import isotonic_regression

    growth = np.diff(np.asarray(accepted_length, dtype=float))
    survival = np.clip(isotonic_regression(growth, increasing=False).x, 0.0, 1.0)
    return np.concatenate([[1.0], 1.0 + np.cumsum(survival)])


def per_position(accepted_length: ArrayLike) -> PerPosition:
    """Independent rounds whose mean accepted length at each K is the given AL(0..k_max), made
    concave."""
    return PerPosition.from_accepted_length(concave(accepted_length))


def switching_around(
    accepted_length: ArrayLike,
    n_draft: int,
    *,
    spread: float = DEFAULT_SPREAD,
    good_share: float = 0.5,
    good_tokens: float = DEFAULT_PASSAGE_TOKENS,
) -> Switching:
    """Good and bad passages whose mean accepted length at one K is the scenario's.
    Raises AdvisorError for a K outside the table, or a spread or share that no passages can have.
    accepted_length : AL(0..k_max). [tokens per round]
    n_draft : the K at which the mean is kept, 1..k_max. [-]
    spread : distance of both kinds from the middle, in logits of the conditional acceptance; 0 is
        no switching. [-]
    good_share : share of output tokens in good passages, inside (0, 1). [-]
    good_tokens : mean length of a good passage; bad ones follow from the share. [tokens]

    An engine's accepted length is tokens over rounds, so passages combine as 1 / AL = share /
    AL_good + (1 - share) / AL_bad. The middle of the two is shifted until that holds (bisection).
    """
    length = concave(accepted_length)
    if not 1 <= n_draft < length.size:
        raise AdvisorError(f"n_draft={n_draft} must lie in 1..{length.size - 1}")
    if not 0 < good_share < 1 or spread < 0 or good_tokens < 1:
        raise AdvisorError(
            "good_share must lie inside (0, 1), spread not be negative, good_tokens be at least 1"
        )
    bad_tokens = good_tokens * (1 - good_share) / good_share
    if bad_tokens < 1:
        raise AdvisorError(
            "good_share leaves bad passages shorter than one token; lower it or lengthen "
            "good_tokens"
        )
    central = np.clip(PerPosition.from_accepted_length(length).conditional, 1e-6, 1 - 1e-6)
    logit = np.log(central / (1 - central))

    def lists(shift: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        good = 1 / (1 + np.exp(-(logit + shift + 1.0 * spread)))
        bad = 1 / (1 + np.exp(-(logit + shift + -1.0 * spread)))
        return tuple(map(float, good)), tuple(map(float, bad))

    def mean_at(shift: float) -> float:
        good_list, bad_list = lists(shift)
        good = PerPosition(good_list).accepted_length(n_draft)[-1]
        bad = PerPosition(bad_list).accepted_length(n_draft)[-1]
        return float(1 / (good_share / good + (1 - good_share) / bad))

    low = -20.0
    high = 20.0
    for _ in range(60):
        shift = (low + high) / 2
        low, high = (shift, high) if mean_at(shift) < length[n_draft] else (low, shift)
    good, bad = lists((low + high) / 2)
    return Switching(good, bad, good_tokens, bad_tokens)


def _survival(conditional: tuple[float, ...], k_max: int) -> Array:
    """P(run >= j) for j = 1..k_max."""
    return np.asarray(np.cumprod((conditional + (0.0,) * k_max)[:k_max]), float)


def _runs(uniform: NDArray[np.float32], conditional: tuple[float, ...], k_max: int) -> RunLengths:
    """Number of thresholds above each uniform draw, the survival of a per-position list."""
    out = np.zeros(uniform.shape, dtype=np.int8)
    for threshold in _survival(conditional, k_max).astype(np.float32):
        out += uniform < threshold
    return out


ENDLESS = 2**40


@dataclass(frozen=True)
class Load:
    """Arrivals and lengths of requests.

    arrival_s [G, R] not decreasing along R, output_tokens [G, R], concurrency = slots per group.

    Build it with `closed_loop` or `poisson_arrivals`. An arrival at infinity is no request: groups
    may have different numbers of them. Requests of a group are served first come, first served;
    prompt processing takes no time here, so a group's clock counts decode iterations only.
    """

    arrival_s: Array
    output_tokens: IntArray
    concurrency: int


def closed_loop(
    n_groups: int,
    concurrency: int = 1,
    requests_per_group: ArrayLike | None = None,
    output_tokens: ArrayLike | None = None,
) -> Load:
    """All requests wait from the start. A finished one is replaced at once until none is left, then
    the batch drains.

    requests_per_group: one number or [G]. output_tokens: one number or [G, R]; None: requests never
    end (and requests_per_group defaults to concurrency).
    """
    offered = _offered(
        n_groups, concurrency, concurrency if requests_per_group is None else requests_per_group
    )
    return _load(
        np.where(offered, 0.0, np.inf),
        ENDLESS if output_tokens is None else output_tokens,
        concurrency,
    )


def poisson_arrivals(
    n_groups: int,
    concurrency: int,
    requests_per_group: ArrayLike,
    output_tokens: ArrayLike,
    rate_per_s: float,
    rng: np.random.Generator,
) -> Load:
    """Poisson arrivals at rate_per_s per group.

    At most `concurrency` run together, the rest wait. Raises AdvisorError for a rate that is not
    positive.

    requests_per_group: one number or [G].
    """
    if not rate_per_s > 0:
        raise AdvisorError(f"rate_per_s={rate_per_s} must be positive")
    offered = _offered(n_groups, concurrency, requests_per_group)
    arrival = rng.exponential(1 / rate_per_s, offered.shape).cumsum(axis=1)
    return _load(np.where(offered, arrival, np.inf), output_tokens, concurrency)


def _offered(n_groups: int, concurrency: int, requests_per_group: ArrayLike) -> np.ndarray:
    """Whether a group has its request r, [G, R]."""
    counts = np.asarray(requests_per_group)
    if min(n_groups, concurrency, int(counts.min())) < 1:
        raise AdvisorError("n_groups, concurrency and requests_per_group must be at least 1")
    return np.arange(counts.max()) < np.broadcast_to(counts, n_groups)[:, None]


@dataclass(frozen=True)
class SimulationResult:
    """Results of one policy. Arrays over groups [G], over finished requests [n], or over K [nK]."""

    policy: str
    tokens: IntArray
    """Output tokens of each group."""
    sequence_time_s: Array
    """Iteration time summed over the sequences that lived through it; / tokens = mean time per
    output token."""
    busy_time_s: Array
    """Iteration time of each group."""
    iterations: IntArray
    iterations_by_draft: IntArray
    """[nK]"""
    test_iterations: IntArray | None
    """Iterations the controller spent on tests; None for policies that do not test."""
    request_tpot_s: Array
    """Decode time per output token of every finished request."""

    @property
    def mean_tpot_s(self) -> float:
        """Mean time per output token, all groups together. [s]"""
        return float(self.sequence_time_s.sum() / self.tokens.sum())

    @property
    def tpot_s(self) -> Array:
        """Mean time per output token of each group, [G]. [s]"""
        return np.asarray(self.sequence_time_s / self.tokens)


def simulate(
    costs: RoundCosts, policy: Policy, trace: RunLengths, load: Load, n_iterations: int
) -> SimulationResult:
    """Run one policy for at most n_iterations (per group), or until every request is served.
    Raises AdvisorError for a trace of another shape, or no iterations. A change of K costs nothing:
    vLLM and SGLang prepare graphs and buffers for every K of a table when they start and look K up
    anew at each step (vllm-project/vllm issue 48627; sgl-project/sglang pull requests 21599 and
    28045; read on 2026-11-22).
    costs : time of a round by batch and K; must reach to load.concurrency.
    trace : run lengths [n_streams, n_tokens] from `draw_trace`; request r of group g follows stream
        g R + r, modulo n_streams, and starts over beyond n_tokens. All randomness is in the trace
        and the load.
    """
    if trace.ndim != 2 or not trace.size:
        raise AdvisorError(
            f"the acceptance trace has shape {trace.shape}; expected [streams, tokens]"
        )
    if n_iterations < 1:
        raise AdvisorError("n_iterations must be at least 1")
    loop = _Loop(costs, policy, trace, load)
    for _ in range(n_iterations):
        if not loop.iterate():
            break
    return loop.result()


class _Loop:
    """Mutable state of one simulation. Groups along axis 0, slots along axis 1."""

    def __init__(self, costs: RoundCosts, policy: Policy, trace: RunLengths, load: Load) -> None:
        groups, self.requests = load.arrival_s.shape
        self.offered = np.isfinite(load.arrival_s).sum(axis=1)
        slots = load.concurrency
        self.policy = policy
        self.load = load
        self.cost, warm = costs.dense(slots)
        self.warm = warm if policy.keeps_drafter else np.zeros_like(warm)
        self.controller: Controller = policy.controller(groups, self.cost)
        self.flat = trace.ravel()
        self.streams, self.period = trace.shape
        self.rows = np.arange(groups)
        self.active = np.zeros((groups, slots), dtype=bool)
        self.request = np.zeros((groups, slots), dtype=np.int64)
        self.place = np.zeros((groups, slots), dtype=np.int64)
        self.remaining = np.zeros((groups, slots), dtype=np.int64)
        self.since = np.zeros((groups, slots))
        self.next_request = np.zeros(groups, dtype=np.int64)
        self.clock = np.zeros(groups)
        self.tokens = np.zeros(groups, dtype=np.int64)
        self.sequence_time = np.zeros(groups)
        self.busy_time = np.zeros(groups)
        self.iterations = np.zeros(groups, dtype=np.int64)
        self.by_draft = np.zeros(costs.drafts.size, dtype=np.int64)
        self.tpot: list[Array] = []
        self.waiting = True

    def iterate(self) -> bool:
        """Run one iteration of every group. False when all work was done before it."""
        if self.waiting:
            self._admit()
        batch = self.active.sum(axis=1)
        busy = batch > 0
        if not busy.any():
            return False
        offset = self.place % self.period
        offset += (self.request + self.rows[:, None] * self.requests) % self.streams * self.period
        run = np.where(self.active, self.flat[offset], np.int8(0))
        k = self.controller.choose(Situation(batch, self.active, run))
        emitted = np.where(self.active, np.minimum(run, k[:, None]).astype(np.int64) + 1, 0)
        np.minimum(emitted, self.remaining, out=emitted)
        time = self.cost[batch, k] + np.where(k == 0, self.warm[batch], 0.0)
        tokens = emitted.sum(axis=1)
        self.clock += time
        self.tokens += tokens
        self.busy_time += time
        self.sequence_time += time * batch
        self.iterations += busy
        self.by_draft += np.bincount(k[busy], minlength=self.by_draft.size)
        self.controller.observe(IterationOutcome(busy, batch, k, tokens, time))
        self.place += emitted
        self.remaining -= emitted
        group, slot = np.nonzero(self.active & (self.remaining <= 0))
        if group.size:
            lived_s = self.clock[group] - self.since[group, slot]
            self.tpot.append(lived_s / self.load.output_tokens[group, self.request[group, slot]])
            self.active[group, slot] = False
        return True

    def _admit(self) -> None:
        """Fill free slots with waiting requests. An idle group's clock jumps to its next
        arrival."""
        while True:
            left = self.next_request < self.offered
            upcoming = self.load.arrival_s[
                self.rows, np.minimum(self.next_request, self.requests - 1)
            ]
            idle = left & ~self.active.any(axis=1)
            self.clock = np.where(idle, np.maximum(self.clock, upcoming), self.clock)
            groups = np.flatnonzero(left & (upcoming <= self.clock) & ~self.active.all(axis=1))
            if not groups.size:
                break
            slot = self.active[groups].argmin(axis=1)
            request = self.next_request[groups]
            self.active[groups, slot] = True
            self.request[groups, slot] = request
            self.place[groups, slot] = 0
            self.remaining[groups, slot] = self.load.output_tokens[groups, request]
            self.since[groups, slot] = self.clock[groups]
            self.next_request[groups] += 1
            if self.load.concurrency == 1:
                self.controller.restart(groups[request > 0])
        self.waiting = bool((self.next_request < self.offered).any())

    def result(self) -> SimulationResult:
        return SimulationResult(
            policy=self.policy.name,
            tokens=self.tokens,
            sequence_time_s=self.sequence_time,
            busy_time_s=self.busy_time,
            iterations=self.iterations,
            iterations_by_draft=self.by_draft,
            test_iterations=getattr(self.controller, "test_iterations", None),
            request_tpot_s=np.concatenate(self.tpot) if self.tpot else np.zeros(0),
        )


def _load(arrival: Array, output_tokens: ArrayLike, concurrency: int) -> Load:
    tokens = np.broadcast_to(np.asarray(output_tokens), arrival.shape)
    if np.any(tokens < 1) or np.any(tokens != np.round(tokens)):
        raise AdvisorError("output_tokens must be whole numbers of at least 1")
    return Load(arrival, tokens.astype(np.int64), concurrency)
