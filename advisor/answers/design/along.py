"""The start with one of its counts moved, active or shared experts: what drafting gains, what a
token takes and by how many laws it is worse, at several batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.dials import Experts, baseline_experts
from advisor.answers.design.grid import DesignGrid, Mixes
from advisor.answers.design.search import as_served, serve
from advisor.answers.design.space import DesignSpace, Served, carried, law_ratios, sizes
from advisor.prediction import Array

BATCHES = (1, 8, 32, 128, 512)
"""Batches that are drawn; the nearest of them gives way to the one that is asked about."""
NEAR_MOST = 0.03
"""Choice of this project: a gain this close to the largest counts as being as large. [-]"""


@dataclass(frozen=True)
class Along:
    """Designs [n] that differ in one count, rising, at batches [nB], rising."""

    designs: tuple[Experts, ...]
    start: int
    """The start among the designs."""
    batches: Array
    target: int
    """The batch that is asked about, among the batches."""
    fits: NDArray[np.bool_]
    """Whether the start fits in memory, [nB]."""
    gain: Array
    """What drafting gains at the best K there, of the start as Serve has it, [nB, n]. [-]"""
    time: Array
    """Time per output token over the start's, [nB, n]. [-]"""
    losing: NDArray[np.int64]
    """Laws by which a design is worse than the start, to a percent, [n]. [-]"""

    @cached_property
    def most(self) -> tuple[int, ...]:
        """Design of the largest gain at each batch."""
        return tuple(self.gain.argmax(axis=1).tolist())

    @cached_property
    def near(self) -> tuple[tuple[int, int], ...]:
        """First and last design about the largest gain that are within NEAR_MOST of it, at each
        batch."""
        close = self.gain >= (1.0 - NEAR_MOST) * self.gain.max(axis=1, keepdims=True)
        return tuple(_run_around(row, most) for row, most in zip(close, self.most, strict=True))

    @property
    def facts(self) -> dict[str, Any]:
        """Designs with which drafting gains most, at a small batch and at the largest."""
        small = min(1, len(self.batches) - 1)
        best = [self.designs[most] for most in self.most]
        active = [design.n_active for design in best[small:]]
        falls = all(after <= before for before, after in pairwise(active))
        return {
            "drafted": bool(self.gain.max() > 1.0),
            "one_batch": len(active) == 1,
            "small": best[small],
            "small_batch": self.batches[small],
            "large": best[-1],
            "large_batch": self.batches[-1],
            "sparser": falls and active[-1] < active[0],
        }

    @cached_property
    def zones(self) -> tuple[tuple[int, int, int], ...]:
        """First and last design of each run, and its kind.

        0: worse by no law; 1: the laws disagree; 2: worse by all.
        """
        kinds = np.where(self.losing == 0, 0, np.where(self.losing == 3, 2, 1)).tolist()
        runs = [(kind, len(list(run))) for kind, run in groupby(kinds)]
        ends = np.cumsum([0, *(length for _, length in runs)]).tolist()
        return tuple(
            (first, last - 1, kind)
            for (first, last), (kind, _) in zip(pairwise(ends), runs, strict=True)
        )


def _run_around(close: NDArray[np.bool_], at: int) -> tuple[int, int]:
    outside = np.flatnonzero(~close)
    first = outside[outside < at].max(initial=-1) + 1
    last = outside[outside > at].min(initial=len(close)) - 1
    return int(first), int(last)


def along_ratio(space: DesignSpace) -> Along:
    """The start with other k, up to twice its own or N/8: its total size stays."""
    start = baseline_experts(space)
    most = min(max(2 * start.n_active, start.n_experts // 8), start.n_experts)
    active = {start.n_active, most, *(k for k in DesignGrid().n_active if k <= most)}
    return _along(space, [start._replace(n_active=k) for k in sorted(active)])


def along_shared(space: DesignSpace) -> Along:
    """The start with other shared experts, up to twice its own or 4."""
    start = baseline_experts(space)
    shared = {start.n_shared, *map(float, range(int(max(4.0, 2.0 * start.n_shared)) + 1))}
    return _along(space, [start._replace(n_shared=s) for s in sorted(shared)])


def _along(space: DesignSpace, designs: Sequence[Experts]) -> Along:
    start_at = designs.index(baseline_experts(space))
    target = float(space.question.batches[-1])
    distances = np.abs(np.log(np.array(BATCHES) / target))
    others = np.delete(np.array(BATCHES, float), distances.argmin())
    drawn = np.sort([target, *others])
    batches = drawn[drawn >= space.setup.placement.attention_groups]
    counts = np.array(designs, float)
    mix = Mixes(*counts[:, :3].T)
    width = counts[:, 3]
    body = space.bodies[0]
    served = serve(space, body, mix, width, batches)
    start = as_served(space.measured_setup, batches, target)
    by_fit = Served(
        served.speedup[:, [start_at]], served.tpot_s[:, [start_at]], served.n_draft[:, [start_at]]
    )
    along = carried(start, by_fit, served)
    weights = sizes(body, mix, width).weights
    laws = law_ratios(body, space.baseline, mix, width, weights, space.question)
    gain = along.speedup.copy()
    gain[:, start_at] = start.speedup[:, 0]
    return Along(
        designs=tuple(designs),
        start=start_at,
        batches=batches,
        target=int(np.flatnonzero(batches == target)[0]),
        fits=np.asarray(batches <= space.setup.memory.largest_batch),
        gain=gain,
        time=along.tpot_s / start.tpot_s,
        losing=(laws.round(2) < 1.0).sum(axis=0),
    )
