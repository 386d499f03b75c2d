"""Cascade: K chosen by measured utility, in short tests and longer set phases (arXiv:2506.20675).

Utility of a K = tokens per round / (round time / plain step time): the speedup over plain decoding, measured as the
request runs. The controller needs no model of cost or acceptance. What the published description leaves open is
listed in docs/decisions/cascade.md; every constant is a field of `CascadeSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.runtime.costs import IntArray
from advisor.runtime.policies import IterationOutcome, Situation

_BASELINE, _TRIAL, _SET = 0, 1, 2


@dataclass(frozen=True)
class CascadeSettings:
    """Constants of the controller. The defaults are the paper's, or stated as ours where the paper gives none."""

    trial_iterations: int = 4
    max_trials: int = 4
    set_iterations: int = 16
    converged_fraction: float = 0.10
    """A trial whose utility differs by at most this fraction from that of the K it climbed from ends the test."""
    back_off_factor: float = 2.0
    """Growth of the set phase each time K = 0 is chosen; 1 switches back-off off."""
    baseline_refresh_iterations: int = 100
    baseline_iterations: int = 4
    """Ours: the paper says "a few"."""
    initial_draft: int = 1
    """Ours: K of a request's first trial. 52 test iterations in 13 tests of an always-bad request need 1."""
    recover_set_iterations: bool = True
    """Ours: a test that ends with K > 0 returns the set phase to its first length."""
    max_set_iterations: int | None = None
    """Ours: no upper limit by default."""

    def __post_init__(self) -> None:
        counts = (self.trial_iterations, self.max_trials, self.set_iterations, self.baseline_iterations)
        if min(*counts, self.baseline_refresh_iterations, self.initial_draft) < 1:
            raise AdvisorError("Cascade's iteration counts and its initial draft must be at least 1")
        if self.back_off_factor < 1 or self.converged_fraction < 0:
            raise AdvisorError("Cascade's back-off factor must be at least 1 and its convergence fraction not negative")


@dataclass(frozen=True)
class Cascade:
    """The policy: one controller per request at batch 1, as published. Per server above it, our extension."""

    settings: CascadeSettings = CascadeSettings()
    name: str = "Cascade"
    keeps_drafter: bool = True

    def controller(self, n_groups: int, time_s: Array) -> CascadeController:
        """Reads only k_max from the cost table."""
        return CascadeController(self.settings, n_groups, time_s.shape[1] - 1)


class CascadeController:
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
        per_sequence = np.divide(outcome.tokens, outcome.batch, out=np.zeros(busy.size), where=outcome.batch > 0)
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
        for code, finish in ((_BASELINE, self._end_baseline), (_TRIAL, self._end_trial), (_SET, self._end_set)):
            groups = done[phase == code]
            if groups.size:
                finish(groups)

    def _begin(self, groups: IntArray, phase: int, k: IntArray | int, iterations: IntArray | int) -> None:
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

    def _climb(self, groups: IntArray, k: IntArray, utility: Array, trial: IntArray) -> tuple[IntArray, np.ndarray]:
        """Next K of the hill climb and whether the test ends here. All [len(groups)].

        A trial is compared with the K it climbed from, the best of the test so far.
        """
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
        stop = converged | passed_maximum | unpaying_at_one | outside | (trial >= self.settings.max_trials)
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
        if self.settings.max_set_iterations is not None:
            grown = np.minimum(grown, self.settings.max_set_iterations)
        kept = self.settings.set_iterations if self.settings.recover_set_iterations else self.set_length[groups]
        self.set_length[groups] = np.where(pays, kept, grown)
        self._begin(groups, _SET, k, length.astype(np.int64))

    def _end_set(self, groups: IntArray) -> None:
        due = self.since_baseline[groups] >= self.settings.baseline_refresh_iterations
        off = self.k[groups] == 0
        self._start_test(groups[~due])
        # A set phase at K = 0 has just measured the plain step for nothing.
        free = groups[due & off]
        if free.size:
            self._end_baseline(free)
        self._begin(groups[due & ~off], _BASELINE, 0, self.settings.baseline_iterations)
