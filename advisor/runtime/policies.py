"""Ways to choose K while serving: fixed, by batch size, by acceptance alone, and with hindsight.

A policy is a frozen description; its controller holds the state of many independent servers ("groups") at once. All
sequences of a group run the same K in an iteration, as vLLM's batch-size table and SGLang's adaptive mode do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.runtime.costs import IntArray
from advisor.runtime.ranges import KRange, k_running_at

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Situation:
    """One iteration as the groups meet it. Only hindsight may read `run_length`: no engine knows it beforehand."""

    batch: IntArray
    """Active sequences, [G]."""
    active: BoolArray
    """Occupied slots, [G, S]."""
    run_length: NDArray[np.int8]
    """Drafts that would be accepted in a row, [G, S]; 0 in empty slots."""


@dataclass(frozen=True)
class IterationOutcome:
    """Values that the groups measured in one iteration.

    All arrays [G]. Idle groups carry zeros and are not in `busy`.
    """

    busy: BoolArray
    batch: IntArray
    n_draft: IntArray
    tokens: IntArray
    """Tokens emitted by the whole batch."""
    time_s: Array


class Controller(Protocol):
    """State of one policy over all groups."""

    def choose(self, situation: Situation) -> IntArray:
        """K of each group for the coming iteration, [G], within 0..k_max."""
        ...

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn from the iteration just run."""
        ...

    def restart(self, groups: IntArray) -> None:
        """A new request took over the single slot of these groups."""
        ...


class Policy(Protocol):
    """A way to choose K."""

    @property
    def name(self) -> str:
        """Name for tables and charts."""
        ...

    @property
    def keeps_drafter(self) -> bool:
        """Whether an iteration at K = 0 still pays for keeping the drafter's cache valid."""
        ...

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Fresh controller. `time_s` [max_batch + 1, nK] is what the oracle knows about costs."""
        ...


class _Memoryless:
    """Controller of a policy that learns nothing."""

    def observe(self, outcome: IterationOutcome) -> None:
        """Nothing to learn."""

    def restart(self, groups: IntArray) -> None:
        """Nothing to forget."""


@dataclass(frozen=True)
class StaticK:
    """Policy of one K always. K = 0 is an engine started without speculation: no drafter to keep warm."""

    k: int
    keeps_drafter: bool = False

    @property
    def name(self) -> str:
        """Name of the policy, `static K=3`."""
        return f"static K={self.k}"

    def controller(self, n_groups: int, time_s: Array) -> Controller:  # noqa: ARG002 - one table serves all groups
        """Controller with a table of this K alone. Raises AdvisorError for one that the costs do not cover."""
        if not 0 <= self.k < time_s.shape[1]:
            raise AdvisorError(f"static K={self.k} lies outside the costs' drafts 0..{time_s.shape[1] - 1}")
        return _Table(np.full(time_s.shape[0], self.k, dtype=np.int64))


@dataclass(frozen=True)
class BatchSchedule:
    """K by batch size, as exported to the engines."""

    ranges: tuple[KRange, ...]
    name: str = "batch schedule"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> Controller:  # noqa: ARG002 - one table serves all groups
        """Controller with a dense table over every batch size the simulation can reach.

        Raises AdvisorError for a K that the costs do not cover.
        """
        table = k_running_at(self.ranges, np.arange(time_s.shape[0]))
        if table.max() >= time_s.shape[1]:
            raise AdvisorError(f"the schedule uses K={table.max()}; the costs cover 0..{time_s.shape[1] - 1}")
        return _Table(table)


class _Table(_Memoryless):
    def __init__(self, table: IntArray) -> None:
        self.table = table

    def choose(self, situation: Situation) -> IntArray:
        return self.table[situation.batch]


@dataclass(frozen=True)
class Oracle:
    """Hindsight that picks K for the long-run rate.

    It sees how many drafts each sequence would accept in this round.

    It maximises tokens - rate * time, rate being what the group has reached so far: at the best reachable rate that is
    the optimality condition of a renewal-reward process. No engine can do this; it bounds what any control is worth.
    """

    name: str = "oracle (hindsight)"
    keeps_drafter: bool = False

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Knows the cost table."""
        return _Hindsight(n_groups, time_s)


class _Hindsight:
    def __init__(self, n_groups: int, time_s: Array) -> None:
        self.cost = time_s
        self.tokens = np.zeros(n_groups)
        self.time = np.zeros(n_groups)

    def choose(self, situation: Situation) -> IntArray:
        ks = np.arange(self.cost.shape[1])
        run = situation.run_length.astype(np.int64)
        tokens = np.stack([(np.minimum(run, k) * situation.active).sum(axis=1) for k in ks], axis=1)
        tokens = tokens + situation.batch[:, None]
        cost = self.cost[situation.batch]
        started = self.time > 0
        plain = np.divide(situation.batch, cost[:, 0], out=np.zeros(run.shape[0]), where=cost[:, 0] > 0)
        rate = np.where(started, np.divide(self.tokens, self.time, out=plain.copy(), where=started), plain)
        return np.asarray((tokens - rate[:, None] * cost).argmax(axis=1), dtype=np.int64)

    def observe(self, outcome: IterationOutcome) -> None:
        self.tokens += outcome.tokens
        self.time += outcome.time_s

    def restart(self, groups: IntArray) -> None:
        """The rate reached so far is worth keeping."""


SGLANG_DEFAULT_SLOTS: Mapping[int, tuple[tuple[int, ...], float]] = {
    1: ((1, 3, 5, 7), -0.25),
    8: ((0, 1, 3), 0.0),
    32: ((0, 1), 0.0),
    64: ((0,), 0.0),
}
"""By least batch size: candidate K and down-hysteresis, as shipped in
sgl-project/sglang@015c8726 python/sglang/srt/speculative/adaptive_spec_params.py."""


@dataclass(frozen=True)
class EmaAdaptive:
    """Acceptance-only adaptation with SGLang's rules and constants: costs play no part in it.

    One state per batch slot (the largest key not above the batch size). Each iteration of a slot that drafts moves an
    average of accepted drafts; after `warmup_batches`, every `update_interval` iterations K steps down through the
    candidates while the average is at most (next lower K) - 1/2 + down_hysteresis (1/2 where that is 0), else up while
    it exceeds K - 1/2 + up_hysteresis. From K = 0 the next decision always probes the smallest positive candidate.
    Candidates beyond the costs' k_max are left out. The padding of a batch to a captured graph size is not modelled.
    """

    slots: Mapping[int, tuple[tuple[int, ...], float]] = field(default_factory=lambda: dict(SGLANG_DEFAULT_SLOTS))
    ema_alpha: float = 0.2
    update_interval: int = 5
    warmup_batches: int = 10
    up_hysteresis: float = 0.0
    initial_draft: int | None = None
    name: str = "acceptance only (EMA)"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Controller with one average, count and K per group and slot.

        Raises AdvisorError for batch sizes below 1, or none.
        """
        k_max = time_s.shape[1] - 1
        candidates = {
            key: tuple(sorted({k for k in ks if 0 <= k <= k_max})) or (0,) for key, (ks, _) in self.slots.items()
        }
        if not candidates or min(candidates) < 1:
            raise AdvisorError("EMA slots need at least one batch size, and batch sizes of at least 1")
        return _Ema(self, candidates, n_groups)


class _Ema:
    def __init__(self, policy: EmaAdaptive, candidates: Mapping[int, Sequence[int]], n_groups: int) -> None:
        self.policy = policy
        self.keys = np.array(sorted(candidates))
        self.steps = [np.array(candidates[key]) for key in self.keys]
        self.down = [policy.slots[int(key)][1] for key in self.keys]
        shape = (len(self.keys), n_groups)
        self.index = np.zeros(shape, dtype=np.int64)
        self.ema = np.zeros(shape)
        self.count = np.zeros(shape, dtype=np.int64)
        for s, steps in enumerate(self.steps):
            wanted = np.flatnonzero(steps == policy.initial_draft)
            self.index[s] = wanted[0] if wanted.size else len(steps) // 2
            self.ema[s] = steps[self.index[s]] - 1.0

    def restart(self, groups: IntArray) -> None:
        """SGLang keeps this state across requests."""

    def choose(self, situation: Situation) -> IntArray:
        slot = self._slot(situation.batch)
        k = np.zeros(situation.batch.size, dtype=np.int64)
        for s, steps in enumerate(self.steps):
            here = slot == s
            k[here] = steps[self.index[s, here]]
        return k

    def observe(self, outcome: IterationOutcome) -> None:
        slot = self._slot(outcome.batch)
        for s in range(len(self.steps)):
            groups = np.flatnonzero(outcome.busy & (slot == s))
            if not groups.size:
                continue
            accepted = outcome.tokens[groups] / outcome.batch[groups] - 1.0
            moved = (1 - self.policy.ema_alpha) * self.ema[s, groups] + self.policy.ema_alpha * accepted
            self.ema[s, groups] = np.where(outcome.n_draft[groups] > 0, moved, self.ema[s, groups])
            self.count[s, groups] += 1
            since = self.count[s, groups] - self.policy.warmup_batches
            due = groups[(since > 0) & (since % self.policy.update_interval == 0)]
            if due.size:
                self._decide(s, due)

    def _decide(self, s: int, groups: IntArray) -> None:
        steps, old = self.steps[s], self.index[s, groups]
        last = len(steps) - 1
        ema = self.ema[s, groups]
        index = old.copy()
        for _ in range(last):
            lower = steps[np.maximum(index - 1, 0)]
            threshold = np.where(lower == 0, 0.5, lower - 0.5) + self.down[s]
            index = np.where((index > 0) & (ema <= threshold), index - 1, index)
        rising = index == old
        for _ in range(last):
            climb = rising & (index < last) & (ema > steps[index] - 0.5 + self.policy.up_hysteresis)
            index = np.where(climb, index + 1, index)
        off = steps[old] == 0
        probe = np.minimum(old + 1, last)
        self.index[s, groups] = np.where(off, probe, index)
        # A slot that began at K = 0 has no acceptance history: its first probe starts from that K's neutral average.
        self.ema[s, groups] = np.where(off & (ema < 0) & (steps[probe] > 0), steps[probe] - 1.0, ema)

    def _slot(self, batch: IntArray) -> IntArray:
        return np.maximum(np.searchsorted(self.keys, batch, side="right") - 1, 0)
