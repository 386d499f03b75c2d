"""The recommended K: the schedule's, its chance of being best, the loss it risks, and which K are its equals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.runtime.schedule import DEFAULT_MARGIN, MIN_GAIN


@dataclass(frozen=True)
class BestDraft:
    """The recommended K and how sure it is. `index` points into the drafts axis."""

    index: int
    p_best: float
    regret: float
    within_noise: bool
    """True when some K looked better than plain decode, but by less than MIN_GAIN."""
    equal: tuple[int, ...]
    """Indices of the K > 0 within the margin of the best, the recommended one included; empty at K = 0."""
    meets_limit: bool
    """False where no K keeps the limit on time per output token."""


def judge_draft(
    index: int, speedup: Array, draws: Array, allowed: NDArray[np.bool_] | None = None, margin: float = DEFAULT_MARGIN
) -> BestDraft:
    """How sure the K at `index` is at one batch.

    Parameters
    ----------
    index : of the K that the schedule runs at this batch.
    speedup : central estimate by K, [drafts]; entry 0 is plain decode and equals 1. [1]
    draws : the same under each draw, [draws, drafts]. [1]
    allowed : K that meet the user's limits, [drafts]; default all. If none does, all are considered.
    margin : a K within this fraction of the best counts as equal. [1]

    Returns
    -------
    BestDraft. p_best: share of draws in which this K is the fastest allowed one. regret: mean over draws of the loss
    against the fastest allowed K, relative to it.
    """
    meets_limit = allowed is None or bool(allowed.any())
    allowed = np.ones(len(speedup), bool) if allowed is None or not meets_limit else allowed
    candidates = np.where(allowed, speedup, -np.inf)
    top = float(candidates.max())
    permitted = np.where(allowed, draws, -np.inf)
    best = permitted.max(axis=1)
    near = [int(i) for i in np.flatnonzero(candidates * (1.0 + margin) >= top) if i > 0]
    return BestDraft(
        index=index,
        p_best=float(np.mean(permitted[:, index] >= best - 1e-12)),
        regret=float(np.mean(1.0 - permitted[:, index] / best)),
        within_noise=index == 0 and 1.0 < top < 1.0 + MIN_GAIN,
        equal=tuple(near) if index > 0 else (),
        meets_limit=meets_limit,
    )


def equals_text(drafts: Sequence[int], k_draft: int, margin: float = DEFAULT_MARGIN) -> str:
    """Which K are within the margin of the best and why one of them is recommended; empty for fewer than two."""
    if len(drafts) < 2:
        return ""
    return (
        f"K = {_listed(drafts)} are within {margin:.0%} of the best here; K = {k_draft} also serves the neighbouring "
        "batches."
    )


def _listed(numbers: Sequence[int]) -> str:
    """`3 to 6` for neighbours, else `2, 4 and 5`."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
