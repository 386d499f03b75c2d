"""Ways to choose K while serving: one K, by batch, by acceptance (SGLang), by measured utility
(Cascade), hindsight.

A policy is a frozen description; its controller holds the state of many independent servers
("groups") at once. All sequences of a group run the same K in an iteration, as vLLM's batch-size
table and SGLang's adaptive mode do.

Utility of a K in Cascade (arXiv:2506.20675) = tokens per round / (round time / plain step time).
What the published description leaves open is listed in docs/decisions/cascade.md; every constant is
a field of `CascadeSettings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import IntArray, KRange, k_running_at
from advisor.prediction import AdvisorError, Array

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Situation:
    """One iteration as the groups meet it. Only hindsight may read `run_length`: no engine knows it
    beforehand."""

    batch: IntArray
    """Active sequences, [G]."""
    active: BoolArray
    """Occupied slots, [G, S]."""
    run_length: NDArray[np.int8]
    """Drafts that would be accepted in a row, [G, S]; 0 in empty slots."""


@dataclass(frozen=True)
class IterationOutcome:
    """Values that the groups measured in one iteration, [G]. Idle groups carry zeros and are not
    `busy`."""

    busy: BoolArray
    batch: IntArray
    n_draft: IntArray
    tokens: IntArray
    """Tokens emitted by the whole batch."""
    time_s: Array


class Controller:
    """State of one policy over all groups. One that learns nothing leaves `observe` and `restart`
    as they are."""

    def choose(self, situation: Situation) -> IntArray:
        """K of each group for the coming iteration, [G], within 0..k_max. Raises
        NotImplementedError here."""
        raise NotImplementedError

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn from the iteration just run."""

    def restart(self, groups: IntArray) -> None:
        """A new request took over the single slot of these groups."""


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


@dataclass(frozen=True)
class StaticK:
    """Policy of one K always. K = 0 is an engine started without speculation: no drafter to keep
    warm."""

    k: int
    keeps_drafter: bool = False

    @property
    def name(self) -> str:
        """Name of the policy, `static K=3`."""
        return f"static K={self.k}"

    def controller(self, n_groups: int, time_s: Array) -> Controller:  # noqa: ARG002 - one table serves all groups
        """Controller with a table of this K alone. Raises AdvisorError for one that the costs do
        not cover."""
        if not 0 <= self.k < time_s.shape[1]:
            raise AdvisorError(
                f"static K={self.k} lies outside the costs' drafts 0..{time_s.shape[1] - 1}"
            )
        return _Table(np.full(time_s.shape[0], self.k, dtype=np.int64))


@dataclass(frozen=True)
class BatchSchedule:
    """K by batch size, as exported to the engines."""

    ranges: tuple[KRange, ...]
    name: str = "batch schedule"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> Controller:  # noqa: ARG002 - one table serves all groups
        """Controller with a dense table over every reachable batch. Raises AdvisorError for a K
        without costs."""
        table = k_running_at(self.ranges, np.arange(time_s.shape[0]))
        if table.max() >= time_s.shape[1]:
            raise AdvisorError(
                f"the schedule uses K={table.max()}; the costs cover 0..{time_s.shape[1] - 1}"
            )
        return _Table(table)


class _Table(Controller):
    def __init__(self, table: IntArray) -> None:
        self.table = table

    def choose(self, situation: Situation) -> IntArray:
        return self.table[situation.batch]


@dataclass(frozen=True)
class Oracle:
    """Hindsight that picks K for the long-run rate.

    It sees how many drafts each sequence would accept in this round. It maximises tokens - rate *
    time, rate being what the group has reached so far: at the best reachable rate that is the
    optimality condition of a renewal-reward process. No engine can do this; it bounds what any
    control is worth.
    """

    name: str = "oracle (hindsight)"
    keeps_drafter: bool = False

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Knows the cost table."""
        return _Hindsight(n_groups, time_s)


class _Hindsight(Controller):
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
        plain = np.divide(
            situation.batch, cost[:, 0], out=np.zeros(run.shape[0]), where=cost[:, 0] > 0
        )
        rate = np.where(
            started, np.divide(self.tokens, self.time, out=plain.copy(), where=started), plain
        )
        return np.asarray((tokens - rate[:, None] * cost).argmax(axis=1), dtype=np.int64)

    def observe(self, outcome: IterationOutcome) -> None:
        self.tokens += outcome.tokens
        self.time += outcome.time_s


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

    One state per batch slot (the largest key not above the batch size), kept across requests. Each
    iteration of a slot that drafts moves an
    average of accepted drafts; after `warmup_batches`, every `update_interval` iterations K steps
    down through the candidates while the average is at most (next lower K) - 1/2 + down_hysteresis
    (1/2 where that is 0), else up while it exceeds K - 1/2. From K = 0 the next decision always
    probes the smallest positive candidate. Candidates beyond the costs' k_max are left out. The
    padding of a batch to a captured graph size is not modelled.
    """

    slots: Mapping[int, tuple[tuple[int, ...], float]] = field(
        default_factory=lambda: dict(SGLANG_DEFAULT_SLOTS)
    )
    ema_alpha: float = 0.2
    update_interval: int = 5
    warmup_batches: int = 10
    name: str = "acceptance only (EMA)"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Controller with one average, count and K per group and slot.

        Raises AdvisorError for batch sizes below 1, or none.
        """
        k_max = time_s.shape[1] - 1
        candidates = {
            key: tuple(sorted({k for k in ks if 0 <= k <= k_max})) or (0,)
            for key, (ks, _) in self.slots.items()
        }
        if not candidates or min(candidates) < 1:
            raise AdvisorError(
                "EMA slots need at least one batch size, and batch sizes of at least 1"
            )
        return _Ema(self, candidates, n_groups)


class _Ema(Controller):
    def __init__(
        self, policy: EmaAdaptive, candidates: Mapping[int, Sequence[int]], n_groups: int
    ) -> None:
        self.policy = policy
        self.keys = np.array(sorted(candidates))
        self.steps = [np.array(candidates[key]) for key in self.keys]
        self.down = [policy.slots[int(key)][1] for key in self.keys]
        shape = (len(self.keys), n_groups)
        self.index = np.zeros(shape, dtype=np.int64)
        self.ema = np.zeros(shape)
        self.count = np.zeros(shape, dtype=np.int64)
        for s, steps in enumerate(self.steps):
            self.index[s] = len(steps) // 2
            self.ema[s] = steps[self.index[s]] - 1.0

    def choose(self, situation: Situation) -> IntArray:
        slot = self._slot(situation.batch)
        k = np.zeros(situation.batch.size, dtype=np.int64)
        for s, steps in enumerate(self.steps):
            in_slot = slot == s
            k[in_slot] = steps[self.index[s, in_slot]]
        return k

    def observe(self, outcome: IterationOutcome) -> None:
        slot = self._slot(outcome.batch)
        for s in range(len(self.steps)):
            groups = np.flatnonzero(outcome.busy & (slot == s))
            if not groups.size:
                continue
            accepted = outcome.tokens[groups] / outcome.batch[groups] - 1.0
            moved = (1 - self.policy.ema_alpha) * self.ema[
                s, groups
            ] + self.policy.ema_alpha * accepted
            self.ema[s, groups] = np.where(outcome.n_draft[groups] > 0, moved, self.ema[s, groups])
            self.count[s, groups] += 1
            since = self.count[s, groups] - self.policy.warmup_batches
            due = groups[(since > 0) & (since % self.policy.update_interval == 0)]
            if due.size:
                self._decide(s, due)

    def _decide(self, s: int, groups: IntArray) -> None:
        steps = self.steps[s]
        old = self.index[s, groups]
        last = len(steps) - 1
        ema = self.ema[s, groups]
        index = old.copy()
        for _ in range(last):
            lower = steps[np.maximum(index - 1, 0)]
            threshold = np.where(lower == 0, 0.5, lower - 0.5) + self.down[s]
            index = np.where((index > 0) & (ema <= threshold), index - 1, index)
        rising = index == old
        for _ in range(last):
            climb = rising & (index < last) & (ema > steps[index] - 0.5)
            index = np.where(climb, index + 1, index)
        off = steps[old] == 0
        probe = np.minimum(old + 1, last)
        self.index[s, groups] = np.where(off, probe, index)
        # A slot that began at K = 0 has no acceptance history: its first probe starts from that K's
        # neutral average.
        self.ema[s, groups] = np.where(
            off & (ema < 0) & (steps[probe] > 0), steps[probe] - 1.0, ema
        )

    def _slot(self, batch: IntArray) -> IntArray:
        return np.maximum(np.searchsorted(self.keys, batch, side="right") - 1, 0)


_BASELINE = 0
_TRIAL = 1
_SET = 2


@dataclass(frozen=True)
class CascadeSettings:
    """Constants of the controller. The defaults are the paper's, or stated as ours where the paper
    gives none."""

    trial_iterations: int = 4
    max_trials: int = 4
    set_iterations: int = 16
    """A test that ends with K > 0 returns the set phase to this length: ours."""
    converged_fraction: float = 0.10
    """A trial whose utility differs by at most this fraction from that of the K it climbed from
    ends the test."""
    back_off_factor: float = 2.0
    """Growth of the set phase each time K = 0 is chosen; 1 switches back-off off."""
    baseline_refresh_iterations: int = 100
    baseline_iterations: int = 4
    """Ours: the paper says "a few"."""
    initial_draft: int = 1
    """Ours: K of a request's first trial. 52 test iterations in 13 tests of an always-bad request
    need 1."""


@dataclass(frozen=True)
class Cascade:
    """The policy: one controller per request at batch 1, as published. Per server above it, our
    extension."""

    settings: CascadeSettings = CascadeSettings()
    name: str = "Cascade"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> CascadeController:
        """Reads only k_max from the cost table."""
        return CascadeController(self.settings, n_groups, time_s.shape[1] - 1)


class CascadeController(Controller):
    """The state machine baseline -> (test -> set) -> ..., of n_groups requests at once."""

    def __init__(self, settings: CascadeSettings, n_groups: int, k_max: int) -> None:
        if k_max < 1:
            raise AdvisorError("Cascade needs costs for at least K = 1")
        self.settings = settings
        self.k_max = k_max
        self.phase = np.zeros(n_groups, dtype=np.int8)
        self.k = np.zeros(n_groups, dtype=np.int64)
        self.left = np.zeros(n_groups, dtype=np.int64)
        self.rounds = np.zeros(n_groups, dtype=np.int64)
        self.tokens = np.zeros(n_groups)
        self.time = np.zeros(n_groups)
        self.plain_step_s = np.zeros(n_groups)
        self.since_baseline = np.zeros(n_groups, dtype=np.int64)
        self.set_length = np.zeros(n_groups)
        self.start_k = np.zeros(n_groups, dtype=np.int64)
        self.trial = np.zeros(n_groups, dtype=np.int64)
        self.step = np.zeros(n_groups, dtype=np.int64)
        self.top_utility = np.zeros(n_groups)
        self.utility = np.full((n_groups, k_max + 1), np.nan)
        self.test_iterations = np.zeros(n_groups, dtype=np.int64)
        """Iterations spent in trials so far, [G]."""
        self.tests = np.zeros(n_groups, dtype=np.int64)
        """Tests begun so far, [G]."""
        self.restart(np.arange(n_groups))

    def restart(self, groups: IntArray) -> None:
        """Forget everything but the test counters: the controller is per request."""
        self.set_length[groups] = self.settings.set_iterations
        self.start_k[groups] = min(self.settings.initial_draft, self.k_max)
        self._begin(groups, _BASELINE, 0, self.settings.baseline_iterations)

    def choose(self, situation: Situation) -> IntArray:  # noqa: ARG002 - decided when the last phase ended
        """K of the phase each group is in."""
        return self.k

    def observe(self, outcome: IterationOutcome) -> None:
        """Account the iteration. End the phases that are complete."""
        busy = outcome.busy
        per_sequence = np.divide(
            outcome.tokens, outcome.batch, out=np.zeros(busy.size), where=outcome.batch > 0
        )
        self.tokens += per_sequence
        self.time += outcome.time_s
        self.rounds += busy
        self.left -= busy
        self.since_baseline += busy
        self.test_iterations += busy & (self.phase == _TRIAL)
        done = np.flatnonzero(busy & (self.left <= 0))
        if not done.size:
            return
        phase = self.phase[done]
        for code, finish in (
            (_BASELINE, self._end_baseline),
            (_TRIAL, self._end_trial),
            (_SET, self._end_set),
        ):
            groups = done[phase == code]
            if groups.size:
                finish(groups)

    def _begin(
        self, groups: IntArray, phase: int, k: IntArray | int, iterations: IntArray | int
    ) -> None:
        self.phase[groups] = phase
        self.k[groups] = k
        self.left[groups] = iterations
        self.rounds[groups] = 0
        self.tokens[groups] = 0.0
        self.time[groups] = 0.0

    def _end_baseline(self, groups: IntArray) -> None:
        self.plain_step_s[groups] = self.time[groups] / self.rounds[groups]
        self.since_baseline[groups] = 0
        self._start_test(groups)

    def _start_test(self, groups: IntArray) -> None:
        self.utility[groups] = np.nan
        self.trial[groups] = 0
        self.tests[groups] += 1
        self._begin(groups, _TRIAL, self.start_k[groups], self.settings.trial_iterations)

    def _end_trial(self, groups: IntArray) -> None:
        k = self.k[groups]
        utility = self.tokens[groups] * self.plain_step_s[groups] / self.time[groups]
        self.utility[groups, k] = utility
        trial = self.trial[groups] + 1
        self.trial[groups] = trial
        following, stop = self._climb(groups, k, utility, trial)
        self._start_set(groups[stop])
        on = groups[~stop]
        self._begin(on, _TRIAL, following[~stop], self.settings.trial_iterations)

    def _climb(
        self, groups: IntArray, k: IntArray, utility: Array, trial: IntArray
    ) -> tuple[IntArray, np.ndarray]:
        """Next K of the hill climb from the best of the test so far, and whether the test ends, all
        [len(groups)]."""
        first = trial == 1
        last = self.top_utility[groups]
        upward = np.where((utility >= 1) & (k < self.k_max), 1, -1)
        worse = ~first & (utility < last)
        # After a first step that made it worse, look on the other side of where the test began.
        step = np.where(first, upward, self.step[groups])
        following = np.where(worse, k - 2 * step, k + step)
        converged = ~first & (np.abs(utility - last) <= self.settings.converged_fraction * last)
        passed_maximum = worse & (trial > 2)
        unpaying_at_one = (k == 1) & (utility < 1)
        outside = (following < 1) | (following > self.k_max)
        self.step[groups] = np.where(worse, -step, step)
        self.top_utility[groups] = np.where(worse, last, utility)
        stop = (
            converged
            | passed_maximum
            | unpaying_at_one
            | outside
            | (trial >= self.settings.max_trials)
        )
        return following, stop

    def _start_set(self, groups: IntArray) -> None:
        """The best K of the test if it pays, else K = 0 with back-off."""
        tested = np.where(np.isnan(self.utility[groups]), -np.inf, self.utility[groups])
        best = tested.argmax(axis=1)
        pays = tested.max(axis=1) > 1
        k = np.where(pays, best, 0)
        self.start_k[groups] = np.where(pays, best, self.start_k[groups])
        length = np.where(pays, self.settings.set_iterations, self.set_length[groups])
        grown = self.set_length[groups] * self.settings.back_off_factor
        self.set_length[groups] = np.where(pays, self.settings.set_iterations, grown)
        self._begin(groups, _SET, k, length.astype(np.int64))

    def _end_set(self, groups: IntArray) -> None:
        due = self.since_baseline[groups] >= self.settings.baseline_refresh_iterations
        off = self.k[groups] == 0
        self._start_test(groups[~due])
        # A set phase at K = 0 has just measured the plain step for nothing.
        self._end_baseline(groups[due & off])
        self._begin(groups[due & ~off], _BASELINE, 0, self.settings.baseline_iterations)
