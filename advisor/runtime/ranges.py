"""Ranges of batches that run one draft length: looked up, joined into buckets of contexts, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.prediction import AdvisorError

OPEN_END = 10_000_000
"""Where the bucket of the longest contexts is closed: beyond any model's. [tokens]"""


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


@dataclass(frozen=True)
class ContextSchedule:
    """The ranges for contexts context_start..context_end tokens, both included."""

    context_start: int
    context_end: int
    ranges: tuple[KRange, ...]

    @property
    def has_end(self) -> bool:
        """False for the last bucket, which reaches to any length."""
        return self.context_end < OPEN_END


def bucket_values(item: ContextSchedule) -> dict[str, object]:
    """A bucket of contexts as JSON carries it. See `range_values`."""
    ranges = [range_values(one) for one in item.ranges]
    return {"context_start": item.context_start, "context_end": item.context_end, "ranges": ranges}


def buckets_by_context(contexts: Sequence[int], schedules: Sequence[tuple[KRange, ...]]) -> tuple[ContextSchedule, ...]:
    """Schedule of each context bucket.

    `contexts` [nC] increasing, and the schedule at each; () for none. Raises AdvisorError for contexts that do not
    increase.

    A bucket reaches up to the geometric middle between its context and the next, the last without end; neighbours
    with equal K are merged.
    """
    if len(contexts) and (np.any(np.diff(contexts) <= 0) or contexts[0] < 1):
        raise AdvisorError("contexts must be positive and increase strictly")
    # Contexts are spaced by factors, so the border lies in their geometric middle.
    middles = [int(np.sqrt(float(one) * other)) for one, other in pairwise(contexts)]
    found: list[ContextSchedule] = []
    start = 1
    for end, ranges in zip([*middles, OPEN_END][: len(contexts)], schedules, strict=True):
        if found and _same_k(found[-1].ranges, ranges):
            found[-1] = ContextSchedule(found[-1].context_start, end, found[-1].ranges)
        else:
            found.append(ContextSchedule(start, end, ranges))
        start = end + 1
    return tuple(found)


def k_by_batch_table(ranges: Sequence[KRange], limited: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Heading and rows of K by batch as text. `limited` adds whether the limit on time per output token is kept.

    Where one server for all batches runs another K than the schedule's, a column has it.
    """
    cells: dict[str, list[str]] = {
        "Batch": [f"{item.batch_start:,} to {item.batch_end:,}" for item in ranges],
        "K": [str(item.n_draft) for item in ranges],
        "Mean speedup": [f"{item.speedup:.2f}x" for item in ranges],
        "Largest expected loss": [f"{item.regret:.1%}" for item in ranges],
    }
    if limited:
        cells["Meets the limit"] = ["yes" if item.meets_limit else "no" for item in ranges]
    if any(item.k_running != item.n_draft for item in ranges):
        cells["K in one server"] = [str(item.k_running) for item in ranges]
    return tuple(cells), tuple(zip(*cells.values(), strict=True))


def k_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """The scheduled K at each batch size (beyond the last range: the last range's K, as vLLM does)."""
    return _looked_up(ranges, [item.n_draft for item in ranges], batch)


def k_running_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """K that one server for all batches runs at each batch size, see `KRange.k_running`."""
    return _looked_up(ranges, [item.k_running for item in ranges], batch)


def _looked_up(ranges: Sequence[KRange], ks: Sequence[int], batch: ArrayLike) -> NDArray[np.int64]:
    starts = np.array([item.batch_start for item in ranges])
    place = np.searchsorted(starts, np.asarray(batch), side="right") - 1
    # Beyond the last range its K stays, as vLLM reads its own table.
    return np.array(ks, dtype=np.int64)[np.clip(place, 0, None)]


def _same_k(a: Sequence[KRange], b: Sequence[KRange]) -> bool:
    def steps(ranges: Sequence[KRange]) -> list[tuple[int, int, int, int, bool]]:
        return [(r.batch_start, r.batch_end, r.n_draft, r.k_running, r.meets_limit) for r in ranges]

    return steps(a) == steps(b)
