"""How many drafts would be accepted at each place of a text: drawn once, then shared by every policy compared.

Processes that know a scenario only by its accepted length are made here too.

A trace is indexed by token position, not by iteration, so that a policy which moves faster meets the same good and
bad passages as a slower one. `run_length[r, p]` is the number of drafts in a row that the target would accept when
request r stands at its p-th output token; a round with K drafts there accepts min(run_length, K) of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError

RunLengths = NDArray[np.int8]

DEFAULT_SPREAD = 1.5
"""Assumed, in logits: how far good and bad passages lie above and below the middle. No engine publishes it."""
DEFAULT_PASSAGE_TOKENS = 40.0
"""Assumed mean passage length; the same as the copying passages of advisor/studies/runtime/workloads.py. [tokens]"""


class AcceptanceProcess(Protocol):
    """Anything that can draw run lengths [n_streams, n_tokens] up to k_max from a Generator."""

    def run_lengths(self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator) -> RunLengths:
        """Draws. The same Generator state gives the same array."""
        ...


@dataclass(frozen=True)
class PerPosition:
    """Independent rounds. Conditional[j] = P(draft j+1 accepted | drafts 1..j accepted), 0 beyond the list."""

    conditional: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= c <= 1 for c in self.conditional):
            raise AdvisorError(f"acceptance probabilities {self.conditional} must lie in 0..1")

    @classmethod
    def from_accepted_length(cls, accepted_length: ArrayLike) -> PerPosition:
        """Process of a table AL(0..k_max), AL(0) = 1.

        AL(K) - AL(K-1) is the chance that draft K is reached and accepted. Raises AdvisorError for a table that no
        process can have.
        """
        survival = np.diff(np.asarray(accepted_length, dtype=float), prepend=0.0)
        if survival.size < 2 or survival[0] != 1 or np.any(np.diff(survival) > 1e-12) or np.any(survival < 0):
            raise AdvisorError(
                "accepted_length must start with 1 at K = 0 and grow by ever smaller, non-negative steps"
            )
        before = survival[:-1]
        return cls(
            tuple(float(c) for c in np.divide(survival[1:], before, out=np.zeros(before.size), where=before > 0))
        )

    @classmethod
    def geometric(cls, alpha: float, k_max: int) -> PerPosition:
        """One acceptance rate for every position."""
        return cls((alpha,) * k_max)

    def accepted_length(self, k_max: int) -> Array:
        """Mean tokens per round for K = 0..k_max, bonus token included. [k_max + 1]"""
        padded = (self.conditional + (0.0,) * k_max)[:k_max]
        return np.concatenate([[1.0], 1.0 + np.cumsum(np.cumprod(padded))])

    def run_lengths(self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator) -> RunLengths:
        """Run lengths [n_streams, n_tokens], independent over positions."""
        uniform = rng.random((n_streams, n_tokens), dtype=np.float32)
        return _runs(uniform, np.cumprod((self.conditional + (0.0,) * k_max)[:k_max]))


@dataclass(frozen=True)
class Switching:
    """Good and bad passages in turn.

    A two-state Markov chain over tokens, with a per-position list for each state.

    good_tokens, bad_tokens: mean passage lengths (geometric). A stream starts in either state with its long-run share.
    """

    good: tuple[float, ...]
    bad: tuple[float, ...]
    good_tokens: float
    bad_tokens: float

    def __post_init__(self) -> None:
        if min(self.good_tokens, self.bad_tokens) < 1:
            raise AdvisorError("good_tokens and bad_tokens are mean passage lengths and must be at least 1")
        PerPosition(self.good), PerPosition(self.bad)

    def is_good(self, n_streams: int, n_tokens: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """State of each stream at each token, [n_streams, n_tokens]."""
        leave_good, leave_bad = np.float32(1 / self.good_tokens), np.float32(1 / self.bad_tokens)
        path = np.empty((n_tokens, n_streams), dtype=bool)
        state = rng.random(n_streams) < self.good_tokens / (self.good_tokens + self.bad_tokens)
        for t in range(n_tokens):
            path[t] = state
            flips = rng.random(n_streams, dtype=np.float32) < np.where(state, leave_good, leave_bad)
            state = state ^ flips
        return np.ascontiguousarray(path.T)

    def run_lengths(self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator) -> RunLengths:
        """Run lengths [n_streams, n_tokens]. A draft is judged by the state at the round's first token."""
        path = self.is_good(n_streams, n_tokens, rng)
        uniform = rng.random((n_streams, n_tokens), dtype=np.float32)
        good = _runs(uniform, np.cumprod((self.good + (0.0,) * k_max)[:k_max]))
        bad = _runs(uniform, np.cumprod((self.bad + (0.0,) * k_max)[:k_max]))
        return np.where(path, good, bad)


@dataclass(frozen=True)
class Mixture:
    """Requests of several kinds: each stream follows one of the processes, drawn with the given weights."""

    processes: tuple[AcceptanceProcess, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.processes) != len(self.weights) or not self.processes:
            raise AdvisorError("a mixture needs as many weights as processes, and at least one")
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise AdvisorError("mixture weights must not be negative, and one must be positive")

    def run_lengths(self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator) -> RunLengths:
        """Run lengths [n_streams, n_tokens]."""
        share = np.asarray(self.weights) / sum(self.weights)
        kind = rng.choice(len(self.processes), size=n_streams, p=share)
        out = np.zeros((n_streams, n_tokens), dtype=np.int8)
        for i, process in enumerate(self.processes):
            rows = np.flatnonzero(kind == i)
            if rows.size:
                out[rows] = process.run_lengths(rows.size, n_tokens, k_max, rng)
        return out


@dataclass(frozen=True)
class RecordedSteps:
    """Accepted drafts per step as an engine logged them: one sequence of whole numbers per request.

    A step that accepted a drafts covers a + 1 tokens; seen from its i-th token, a - i drafts were still right. What
    lies beyond the recorded draft length is unknown and counts as rejected, so results for longer K are lower bounds.
    Streams are the recorded requests, each entered at a random step and repeated as often as needed.
    """

    steps: tuple[tuple[int, ...], ...]

    @classmethod
    def from_array(cls, accepted: ArrayLike | Sequence[Sequence[int]]) -> RecordedSteps:
        """Process of recorded accepted drafts, [n_steps] or [n_requests, n_steps].

        Rows may differ in length. Raises AdvisorError for counts that are none.
        """
        rows: list[tuple[int, ...]] = []
        values = list(accepted)  # type: ignore[arg-type]
        for number, row in enumerate([values] if values and np.ndim(values[0]) == 0 else values):
            array = np.asarray(row, dtype=float)
            if array.ndim != 1 or not array.size:
                raise AdvisorError(f"request {number} of the acceptance trace holds no steps")
            if (
                np.any(~np.isfinite(array))
                or np.any(array < 0)
                or np.any(array != np.round(array))
                or array.max() > 126
            ):
                raise AdvisorError(
                    f"request {number} of the acceptance trace: accepted drafts must be whole numbers in 0..126"
                )
            rows.append(tuple(int(a) for a in array))
        if not rows:
            raise AdvisorError("the acceptance trace is empty; give accepted drafts per step")
        return cls(tuple(rows))

    def run_lengths(self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator) -> RunLengths:
        """Run lengths [n_streams, n_tokens]."""
        out = np.empty((n_streams, n_tokens), dtype=np.int8)
        starts = [int(rng.integers(len(self.steps[stream % len(self.steps)]))) for stream in range(n_streams)]
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
    """Run lengths [n_streams, n_tokens] of a process, checked.

    A request longer than n_tokens starts over. Raises AdvisorError for sizes below 1 or a k_max beyond 126.
    """
    if min(n_streams, n_tokens, k_max) < 1 or k_max > 126:
        raise AdvisorError("n_streams and n_tokens must be positive and k_max lie in 1..126")
    return process.run_lengths(n_streams, n_tokens, k_max, rng)


def concave(accepted_length: ArrayLike) -> Array:
    """Nearest AL(0..k_max) that any acceptance process can have.

    It grows by ever smaller steps between 0 and 1.

    Measured curves may bend the other way by noise. Least squares on the growth per draft (isotonic regression).
    """
    from scipy.optimize import isotonic_regression

    growth = np.diff(np.asarray(accepted_length, dtype=float))
    survival = np.clip(isotonic_regression(growth, increasing=False).x, 0.0, 1.0)
    return np.concatenate([[1.0], 1.0 + np.cumsum(survival)])


def per_position(accepted_length: ArrayLike) -> PerPosition:
    """Independent rounds whose mean accepted length at each K is the given AL(0..k_max), made concave."""
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

    Parameters
    ----------
    accepted_length : AL(0..k_max). [tokens per round]
    n_draft : the K at which the mean is kept, 1..k_max. [-]
    spread : distance of both kinds from the middle, in logits of the conditional acceptance; 0 is no switching. [-]
    good_share : share of output tokens in good passages, inside (0, 1). [-]
    good_tokens : mean length of a good passage; bad ones follow from the share. [tokens]

    Notes
    -----
    An engine's accepted length is tokens over rounds, so passages combine as 1 / AL = share / AL_good +
    (1 - share) / AL_bad. The middle of the two is shifted until that holds (bisection).
    """
    length = concave(accepted_length)
    if not 1 <= n_draft < length.size:
        raise AdvisorError(f"n_draft={n_draft} must lie in 1..{length.size - 1}")
    if not 0 < good_share < 1 or spread < 0 or good_tokens < 1:
        raise AdvisorError("good_share must lie inside (0, 1), spread not be negative, good_tokens be at least 1")
    bad_tokens = good_tokens * (1 - good_share) / good_share
    if bad_tokens < 1:
        raise AdvisorError("good_share leaves bad passages shorter than one token; lower it or lengthen good_tokens")
    middle = np.clip(PerPosition.from_accepted_length(length).conditional, 1e-6, 1 - 1e-6)
    logit = np.log(middle / (1 - middle))

    def lists(shift: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        good, bad = (1 / (1 + np.exp(-(logit + shift + side * spread))) for side in (1.0, -1.0))
        return tuple(map(float, good)), tuple(map(float, bad))

    def mean_at(shift: float) -> float:
        good, bad = (PerPosition(c).accepted_length(n_draft)[-1] for c in lists(shift))
        return float(1 / (good_share / good + (1 - good_share) / bad))

    low, high = -20.0, 20.0
    for _ in range(60):
        shift = (low + high) / 2
        low, high = (shift, high) if mean_at(shift) < length[n_draft] else (low, shift)
    good, bad = lists((low + high) / 2)
    return Switching(good, bad, good_tokens, bad_tokens)


def _runs(uniform: NDArray[np.float32], survival: ArrayLike) -> RunLengths:
    """Number of thresholds above each uniform draw: P(run >= j) = survival[j - 1]."""
    out = np.zeros(uniform.shape, dtype=np.int8)
    for threshold in np.asarray(survival, dtype=np.float32):
        out += uniform < threshold
    return out
