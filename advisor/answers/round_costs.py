"""What a decode iteration costs by batch size and draft length, and ranges of batches that run one draft length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.physics.acceptance import speedup
from advisor.predict.curve import Curve
from advisor.prediction import AdvisorError, Array

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RoundCosts:
    """Cost and benefit of one speculative round on a grid of batch sizes (B) and draft lengths (K).

    batches [nB] increasing, from 1. drafts [nK] = 0..k_max. round_time_s [nB, nK]: a whole round, drafting included;
    column 0 is a plain decode step. accepted_length [nK]: tokens emitted per round and sequence, 1 at K = 0.
    draft_warm_s [nB]: extra time of a K = 0 iteration that still runs the drafter once, so that its cache stays valid
    (0 for n-gram and suffix drafters).
    """

    batches: Array
    drafts: IntArray
    round_time_s: Array
    accepted_length: Array
    draft_warm_s: Array

    @property
    def k_max(self) -> int:
        """Longest draft in the grid. [-]"""
        return int(self.drafts[-1])

    def dense(self, max_batch: int) -> tuple[Array, Array]:
        """Round [.., nK] and kept drafter at whole batches 0..max_batch. Row 0 is zero. [s]"""
        at = np.arange(1, max_batch + 1)
        values = (
            np.exp(_interpolate(self.batches, np.log(self.round_time_s), at)),
            _interpolate(self.batches, self.draft_warm_s[:, None], at),
        )
        time, warm = (np.concatenate([np.zeros_like(each[:1]), each]) for each in values)
        return time, warm[:, 0]


def round_costs(
    batches: ArrayLike,
    round_time_s: ArrayLike,
    accepted_length: ArrayLike,
    draft_warm_s: ArrayLike = 0.0,
) -> RoundCosts:
    """Costs of rounds (`RoundCosts`) from arrays over batch and K. draft_warm_s may be one number."""
    grid, time = np.asarray(batches, dtype=float), np.asarray(round_time_s, dtype=float)
    warm = np.broadcast_to(draft_warm_s, grid.shape)
    return RoundCosts(grid, np.arange(time.shape[1]), time, np.asarray(accepted_length, dtype=float), warm)


def costs_of(curve: Curve, keep_drafter_warm: bool = True) -> RoundCosts:
    """Costs of the simulator's rounds from a curve over K = 0..k_max and batches from 1.
    Raises AdvisorError for a curve that leaves a K out.
    keep_drafter_warm : an iteration at K = 0 of a policy that may draft again pays `kept_drafter_s`, an upper bound.
        False: the cache is rebuilt for free, a lower bound.

    Prefill is left out: the simulator's clock counts decode iterations only.
    """
    if curve.drafts[0] != 0 or np.any(np.diff(curve.drafts) != 1):
        raise AdvisorError("the simulator needs a curve over every K from 0 to k_max")
    warm = kept_drafter_s(curve) if keep_drafter_warm else np.zeros(curve.batches.size)
    return round_costs(curve.batches, curve.round_s, curve.accepted_length, warm)


def kept_drafter_s(curve: Curve) -> Array:
    """Time that a round of K = 0 takes longer where the drafter's cache has to stay valid, [nB]. [s]

    One pass of the drafter, from a curve with K = 1: kernels, launches and host time. An upper bound, since the cache
    needs no LM head. 0 for drafters that run no model.
    """
    if curve.drafts.size == 1:
        return np.zeros(curve.batches.size)
    column = curve.column(1)
    return np.asarray(curve.round_components["draft"][:, column] + curve.round_components["draft_host"][:, column])


def idle_speedup(curve: Curve) -> Array:
    """Speedup of K = 0 in a table of several K, [nB], below 1: the drafter runs once a step. [-]"""
    plain = curve.plain_step_s
    return speedup(1.0, plain, plain + kept_drafter_s(curve), curve.prefill_s)


def interpolate_batches(batches: ArrayLike, values: ArrayLike, at: ArrayLike) -> Array:
    """Positive values [nB, n] given at `batches`, at other batch sizes: log value linear in log batch."""
    return np.exp(_interpolate(np.asarray(batches, dtype=float), np.log(np.asarray(values, dtype=float)), at))


def interpolate_losses(batches: ArrayLike, losses: ArrayLike, at: ArrayLike) -> Array:
    """Losses [nB, n] given at `batches`, at other batch sizes: linear in log batch."""
    return _interpolate(np.asarray(batches, dtype=float), np.asarray(losses, dtype=float), at)


def _interpolate(grid: Array, values: Array, at: ArrayLike) -> Array:
    """Linear in log batch along axis 0 of values [nB, n]. Result [*at.shape, n]. Refuses to extrapolate."""
    requested = np.asarray(at, dtype=float)
    if requested.size and (requested.min() < grid[0] or requested.max() > grid[-1]):
        raise AdvisorError(
            f"batch {requested.min():g}..{requested.max():g} lies outside the costs' batches {grid[0]:g}.."
            f"{grid[-1]:g}; compute the costs over a wider range"
        )
    if grid.size == 1:
        return np.broadcast_to(values[0], (*requested.shape, values.shape[1])).copy()
    position = np.interp(np.log(requested), np.log(grid), np.arange(grid.size))
    low = np.minimum(position.astype(int), grid.size - 2)
    share = (position - low)[..., None]
    return (1 - share) * values[low] + share * values[low + 1]


@dataclass(frozen=True)
class KRange:
    """One range of the schedule: batch sizes batch_start..batch_end, both included, run n_draft drafts.

    speedup is the mean over the range's batch sizes, regret the largest expected loss within the range; K = 0 is a
    server without speculation. meets_limit is False where no K satisfies the limit on time per output token.
    """

    batch_start: int
    batch_end: int
    n_draft: int
    speedup: float
    regret: float = 0.0
    meets_limit: bool = True
    table_k: int | None = None
    """K of one server that drafts at other batches, where that differs; see `k_running`."""
    smoothed_k: int | None = None
    """K that the smoothed schedule has at the target batch, where the recommended one stands in its place."""

    @property
    def k_running(self) -> int:
        """K that one server for all batches runs: what an engine's table holds and a simulation serves."""
        return self.n_draft if self.table_k is None else self.table_k


def range_values(item: KRange) -> dict[str, int | float | bool]:
    """A range as JSON and reports carry it. `k_running` is the K of one server for all batches."""
    names = ("batch_start", "batch_end", "n_draft", "k_running", "speedup", "regret", "meets_limit")
    return {name: getattr(item, name) for name in names}


def k_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """The scheduled K at each batch size (beyond the last range: the last range's K, as vLLM does)."""
    return _looked_up(ranges, [item.n_draft for item in ranges], batch)


def k_running_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """K that one server for all batches runs at each batch size, see `KRange.k_running`."""
    return _looked_up(ranges, [item.k_running for item in ranges], batch)


def _looked_up(ranges: Sequence[KRange], ks: Sequence[int], batch: ArrayLike) -> NDArray[np.int64]:
    starts = np.array([item.batch_start for item in ranges])
    index = np.searchsorted(starts, np.asarray(batch), side="right") - 1
    # Beyond the last range its K stays, as vLLM reads its own table.
    return np.array(ks, dtype=np.int64)[np.clip(index, 0, None)]
