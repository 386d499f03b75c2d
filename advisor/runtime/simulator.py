"""A serving loop in numpy: many independent servers, each a batch of requests, one policy choosing K per iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.runtime.acceptance_process import RunLengths
from advisor.runtime.bounds import SplitCosts, StopsAtRejection
from advisor.runtime.costs import IntArray, RoundCosts
from advisor.runtime.policies import Controller, IterationOutcome, Policy, Situation

ENDLESS = 2**40
SWITCH_S = 0.0
"""What a change of K costs an engine: nothing. vLLM and SGLang prepare graphs and buffers for every K of a table when
they start and look K up anew at each step, so that nothing is captured or drained between (vllm-project/vllm issue
48627; sgl-project/sglang pull requests 21599 and 28045; read on 2026-11-22). No measurement of the first round after a
change was found. What it costs instead is memory and time at the start. [s]"""


@dataclass(frozen=True)
class Load:
    """Arrivals and lengths of requests.

    arrival_s [G, R] not decreasing along R, output_tokens [G, R], concurrency = slots per group.

    Build it with `closed_loop` or `poisson_arrivals`. An arrival at infinity is no request: groups may have different
    numbers of them. Requests of a group are served first come, first served; prompt
    processing takes no time here, so a group's clock counts decode iterations only.
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
    """All requests wait from the start. A finished one is replaced at once until none is left, then the batch drains.

    requests_per_group: one number or [G]. output_tokens: one number or [G, R]; None: requests never end (and
    requests_per_group defaults to concurrency).
    """
    offered = _offered(n_groups, concurrency, concurrency if requests_per_group is None else requests_per_group)
    tokens = np.broadcast_to(np.asarray(ENDLESS if output_tokens is None else output_tokens), offered.shape)
    return _checked_load(np.where(offered, 0.0, np.inf), tokens, concurrency)


def poisson_arrivals(
    n_groups: int,
    concurrency: int,
    requests_per_group: ArrayLike,
    output_tokens: ArrayLike,
    rate_per_s: float,
    rng: np.random.Generator,
) -> Load:
    """Poisson arrivals at rate_per_s per group.

    At most `concurrency` run together, the rest wait. Raises AdvisorError for a rate that is not positive.

    requests_per_group: one number or [G].
    """
    if not rate_per_s > 0:
        raise AdvisorError(f"rate_per_s={rate_per_s} must be positive")
    offered = _offered(n_groups, concurrency, requests_per_group)
    arrival = rng.exponential(1 / rate_per_s, offered.shape).cumsum(axis=1)
    tokens = np.broadcast_to(np.asarray(output_tokens), arrival.shape)
    return _checked_load(np.where(offered, arrival, np.inf), tokens, concurrency)


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
    """Iteration time summed over the sequences that lived through it; / tokens = mean time per output token."""
    busy_time_s: Array
    """Iteration time of each group."""
    iterations: IntArray
    iterations_by_draft: IntArray
    """[nK]"""
    switches: int
    """Iterations that ran another K than the one before, all groups together."""
    drafted: int
    """Drafts made."""
    verified: int
    """Tokens verified, the last emitted one of each sequence included."""
    test_iterations: IntArray | None
    """Iterations the controller spent on tests; None for policies that do not test."""
    request_tpot_s: Array
    """Decode time per output token of every finished request."""
    request_latency_s: Array
    """Arrival to last token of every finished request."""
    k_by_iteration: IntArray | None = None
    """[T, G], -1 where idle; only when recorded."""
    batch_by_iteration: IntArray | None = None

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per busy second, all groups together."""
        return float(self.tokens.sum() / self.busy_time_s.sum())

    @property
    def tpot_s(self) -> Array:
        """Mean time per output token of each group, [G]. [s]"""
        return np.asarray(self.sequence_time_s / self.tokens)


def simulate(
    costs: RoundCosts,
    policy: Policy,
    trace: RunLengths,
    load: Load,
    n_iterations: int,
    record: bool = False,
    switch_s: float = SWITCH_S,
) -> SimulationResult:
    """Run one policy for at most n_iterations (per group), or until every request is served.

    Raises AdvisorError for a trace of another shape, no iterations, or a cost of a switch below 0.

    Parameters
    ----------
    costs : time of a round by batch and K; must reach to load.concurrency.
    trace : run lengths [n_streams, n_tokens] from `draw_trace`; request r of group g follows stream g R + r, modulo
        n_streams, and starts over beyond n_tokens. All randomness is in the trace and the load.
    record : keep K and batch of every iteration, [T, G].
    switch_s : what an iteration takes longer that runs another K than the one before. [s]
    """
    if trace.ndim != 2 or not trace.size:
        raise AdvisorError(f"the acceptance trace has shape {trace.shape}; expected [streams, tokens]")
    if n_iterations < 1:
        raise AdvisorError("n_iterations must be at least 1")
    if not 0 <= switch_s < np.inf:
        raise AdvisorError(f"the cost of a switch, {switch_s} s, must not be negative")
    loop = _Loop(costs, policy, trace, load, switch_s)
    history: list[tuple[IntArray, IntArray]] = []
    for _ in range(n_iterations):
        seen = loop.iterate()
        if seen is None:
            break
        if record:
            history.append(seen)
    return loop.result(history)


def compare(
    costs: RoundCosts, policies: Sequence[Policy], trace: RunLengths, load: Load, n_iterations: int
) -> dict[str, SimulationResult]:
    """Every policy on the same trace and load, by policy name."""
    return {policy.name: simulate(costs, policy, trace, load, n_iterations) for policy in policies}


class _Loop:
    """Mutable state of one simulation. Groups along axis 0, slots along axis 1."""

    def __init__(self, costs: RoundCosts, policy: Policy, trace: RunLengths, load: Load, switch_s: float) -> None:
        groups, self.requests = load.arrival_s.shape
        self.offered = np.isfinite(load.arrival_s).sum(axis=1)
        slots = load.concurrency
        self.policy, self.load = policy, load
        self.cost, warm = costs.dense(slots)
        self.warm = warm if policy.keeps_drafter else np.zeros_like(warm)
        self.split = SplitCosts.of(costs, slots) if isinstance(policy, StopsAtRejection) else None
        self.switch_s = switch_s
        self.controller: Controller = policy.controller(groups, self.cost)
        self.flat, self.period, self.streams = trace.ravel(), trace.shape[1], trace.shape[0]
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
        self.last_k = np.full(groups, -1)
        self.switches, self.drafted, self.verified = 0, 0, 0
        self.tpot: list[Array] = []
        self.latency: list[Array] = []
        self.waiting = True

    def iterate(self) -> tuple[IntArray, IntArray] | None:
        """One iteration of every group. K and batch [G], or None when all work is done."""
        if self.waiting:
            self._admit()
        batch = self.active.sum(axis=1)
        busy = batch > 0
        if not busy.any():
            return None
        offset = self.place % self.period
        offset += (self.request + self.rows[:, None] * self.requests) % self.streams * self.period
        run = np.where(self.active, self.flat[offset], np.int8(0))
        situation = Situation(batch, self.active, run)
        k = self.controller.choose(situation)
        emitted = np.where(self.active, np.minimum(run, k[:, None]).astype(np.int64) + 1, 0)
        np.minimum(emitted, self.remaining, out=emitted)
        time = self._round_s(situation, k)
        tokens = emitted.sum(axis=1)
        self.clock += time
        self.tokens += tokens
        self.busy_time += time
        self.sequence_time += time * batch
        self.iterations += busy
        self.by_draft += np.bincount(k[busy], minlength=self.by_draft.size)
        seen = np.where(busy, k, -1), batch
        self.controller.observe(IterationOutcome(busy, batch, k, tokens, time))
        self.place += emitted
        self.remaining -= emitted
        finished = self.active & (self.remaining <= 0)
        if finished.any():
            self._finish(finished)
        return seen

    def _round_s(self, situation: Situation, k: IntArray) -> Array:
        """Time of the coming round of each group [G], its switch of K included. Counts drafts, tokens and switches."""
        batch = situation.batch
        drafted = verified = k * batch
        if isinstance(self.policy, StopsAtRejection) and self.split is not None:
            verified = self.policy.depth(situation).sum(axis=1)
            drafted = verified if self.policy.gates_drafting else drafted
            time = self.policy.round_s(self.split, situation)
        else:
            time = self.cost[batch, k] + np.where(k == 0, self.warm[batch], 0.0)
        self.drafted += int(drafted.sum())
        self.verified += int((verified + batch).sum())
        busy = batch > 0
        switched = busy & (self.last_k >= 0) & (k != self.last_k)
        self.last_k = np.where(busy, k, self.last_k)
        self.switches += int(switched.sum())
        return np.asarray(time + self.switch_s * switched)

    def _finish(self, finished: np.ndarray) -> None:
        group, slot = np.nonzero(finished)
        request = self.request[group, slot]
        end = self.clock[group]
        self.tpot.append((end - self.since[group, slot]) / self.load.output_tokens[group, request])
        self.latency.append(end - self.load.arrival_s[group, request])
        self.active[group, slot] = False

    def _admit(self) -> None:
        """Fill free slots with waiting requests. An idle group's clock jumps to its next arrival."""
        left = self.next_request < self.offered
        upcoming = self.load.arrival_s[self.rows, np.minimum(self.next_request, self.requests - 1)]
        idle = left & ~self.active.any(axis=1)
        self.clock = np.where(idle, np.maximum(self.clock, upcoming), self.clock)
        while True:
            left = self.next_request < self.offered
            upcoming = self.load.arrival_s[self.rows, np.minimum(self.next_request, self.requests - 1)]
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

    def result(self, history: list[tuple[IntArray, IntArray]]) -> SimulationResult:
        none = np.zeros(0)
        return SimulationResult(
            policy=self.policy.name,
            tokens=self.tokens,
            sequence_time_s=self.sequence_time,
            busy_time_s=self.busy_time,
            iterations=self.iterations,
            iterations_by_draft=self.by_draft,
            switches=self.switches,
            drafted=self.drafted,
            verified=self.verified,
            test_iterations=getattr(self.controller, "test_iterations", None),
            request_tpot_s=np.concatenate(self.tpot) if self.tpot else none,
            request_latency_s=np.concatenate(self.latency) if self.latency else none,
            k_by_iteration=np.stack([k for k, _ in history]) if history else None,
            batch_by_iteration=np.stack([b for _, b in history]) if history else None,
        )


def _checked_load(arrival: Array, tokens: np.ndarray, concurrency: int) -> Load:
    if np.any(tokens < 1) or np.any(tokens != np.round(tokens)):
        raise AdvisorError("output_tokens must be whole numbers of at least 1")
    return Load(arrival, tokens.astype(np.int64), concurrency)
