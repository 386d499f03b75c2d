"""Single designs costed as the search does, and two dials on a design: k/N and shared experts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.grid import Mixes
from advisor.answers.design.search import serve
from advisor.answers.design.space import DesignSpace, carried, law_ratios, sizes
from advisor.prediction import Array

RATIO_WITHIN = 0.125
"""k/N is held as nearly as its few whole-number pairs allow. [octaves]"""
_CLOUD_QUALITY = (0.6, 1.6)
"""Lowest law's quality of the designs that a cloud is thinned from. [-]"""


class Experts(NamedTuple):
    """The routed layer of one design."""

    n_experts: int
    n_active: int
    n_shared: float
    expert_width: int

    @property
    def text(self) -> str:
        """Text as it is typed: `N256 k8 s1 w2048`."""
        n, k, s, width = self
        return " ".join((f"N{n}", f"k{k}", f"s{s:g}", f"w{width}"))


def baseline_experts(space: DesignSpace) -> Experts:
    """Routed layer that the search starts from."""
    baseline = space.baseline
    return Experts(baseline.n_experts, baseline.n_active, baseline.n_shared, baseline.expert_width)


def experts_of(space: DesignSpace, index: int) -> Experts:
    """Experts of one design of the space."""
    return Experts(
        int(space.n_experts[index]),
        int(space.n_active[index]),
        float(space.n_shared[index]),
        int(space.expert_width[index]),
    )


@dataclass(frozen=True)
class Costed:
    """One design of the baseline's depth and attention, in the grid or not. [s], [parameters]"""

    experts: Experts
    tpot_s: float
    """Time per output token, mean over the batches."""
    n_draft: tuple[int, ...]
    """Best K at each batch."""
    speedup: float
    """What drafting gains at that K, mean over the batches. [-]"""
    quality: tuple[float, ...]
    """Size over the baseline's by each law of `candidates.LAW_NAMES`. [-]"""
    total_params: float
    active_params: float
    fits: bool
    """Whether the largest batch fits in memory."""


def costed(space: DesignSpace, experts: Experts) -> Costed:
    """Cost one design as the search does."""
    mix = Mixes.of(*experts[:3])
    width = np.array([float(experts.expert_width)])
    body = space.bodies[0]
    question = space.question
    start = space.baseline
    by_fit = serve(space, body, mix, width, question.batches)
    served = carried(start.served, start.by_fit, by_fit)
    if experts == baseline_experts(space):
        served = start.served
    size = sizes(body, mix, width, question.max_memory_bytes)
    quality = law_ratios(body, space.baseline, mix, width, size.weights, question)
    fits = bool(size.largest_batch[0] >= question.batches.max())
    tpot_s = served.tpot_s[:, 0]
    speedup = question.mean_speedup(served.speedup[:, 0], tpot_s)
    n_draft = tuple(served.n_draft[:, 0].tolist())
    laws = tuple(quality[:, 0].tolist())
    total = float(size.weights.total[0])
    active = float(size.weights.active[0])
    mean_s = question.mean_tpot_s(tpot_s)
    return Costed(experts, mean_s, n_draft, speedup, laws, total, active, fits)


@dataclass(frozen=True)
class Dial:
    """One dial over its values [n], from low to high, on a design that it is turned on."""

    name: str
    """ratio or shared."""
    designs: tuple[Experts, ...]
    """The design with this dial alone at each value."""
    position: Array
    """k/N, or shared experts. [-]"""
    loss: Array
    """Share of the objective lost at equal quality with this dial held and the others solved again;
    NaN where nothing keeps every limit. [-]"""
    own: int
    """Value of the design that the dial is turned on."""
    held: tuple[str, ...] = ()
    """The design that loses no more at each value, as `Experts.text`; empty where nothing keeps
    every limit."""

    @cached_property
    def best(self) -> int | None:
        """The value that costs least, or None where nothing keeps every limit."""
        return None if np.isnan(self.loss).all() else int(np.nanargmin(self.loss))


def dials(space: DesignSpace, held: Experts | None = None) -> tuple[Dial, ...]:
    """The dials of a design, default the baseline.

    held : it may lie beside the grid; a value that the grid lacks has no loss.

    k/N keeps the total size: k moves, and below its least N with the width.
    """
    base = held or baseline_experts(space)
    n = np.unique(space.n_experts).tolist()
    k = np.unique(space.n_active).tolist()
    s = np.unique(space.n_shared).tolist()
    width = np.unique(space.expert_width).tolist()
    ratio = _ratios(base, n, [b for b in k if space.rails.min_active <= b <= base.n_experts], width)

    def dial_of(
        name: str, values: list[Experts], position: Array, lost: tuple[Array, list[str]]
    ) -> Dial:
        loss, held_texts = lost
        # Values past the first that keeps no limit say no more.
        left = np.flatnonzero(~np.isnan(loss))
        low, high = (left[0] - 1, left[-1] + 2) if len(left) else (0, len(values))
        low = max(min(low, values.index(base)), 0)
        high = max(high, values.index(base) + 1)
        designs = values[low:high]
        at = designs.index(base)
        return Dial(
            name,
            tuple(designs),
            position[low:high],
            loss[low:high],
            at,
            tuple(held_texts[low:high]),
        )

    all_shared = sorted({*s, base.n_shared})
    by_shared = [base._replace(n_shared=float(n_shared)) for n_shared in all_shared]
    shares = np.array([design.n_shared for design in by_shared])
    octaves = np.log2(space.n_active / space.n_experts)
    share = np.array([design.n_active / design.n_experts for design in ratio])
    return (
        dial_of("ratio", ratio, share, _lost(space, octaves, np.log2(share), RATIO_WITHIN)),
        dial_of("shared", by_shared, shares, _lost(space, space.n_shared, shares, 1e-6)),
    )


def _ratios(base: Experts, n: list[int], k: list[int], widths: list[int]) -> list[Experts]:
    """A design at each k/N of its total size, rising: at its own N, and below that at more and
    narrower experts."""
    designs = {base, *(base._replace(n_active=b) for b in k)}
    least = min(design.n_active for design in designs)
    size = base.n_experts * base.expert_width
    finer = {
        a: min(widths, key=lambda x: abs(x - size / a))
        for a in n
        if base.n_experts < a <= size / widths[0]
    }
    designs |= {Experts(a, least, base.n_shared, width) for a, width in finer.items()}
    return sorted(designs, key=lambda design: (design.n_active / design.n_experts, design))


def _lost(
    space: DesignSpace, values: NDArray, wanted: Array, within: float
) -> tuple[Array, list[str]]:
    """Share of the objective that the best design with each wanted value lacks, and that design as
    text."""
    feasible = np.flatnonzero(space.failed == 0)
    if not len(feasible):
        return np.full(len(wanted), np.nan), [""] * len(wanted)
    scores = np.where(
        np.abs(values[feasible] - wanted[:, None]) <= within, space.score[feasible], 0.0
    )
    top = scores.max(axis=1)
    at = feasible[scores.argmax(axis=1)]
    held = [
        experts_of(space, int(i)).text if best > 0.0 else ""
        for i, best in zip(at, top, strict=True)
    ]
    return np.asarray(space.score[feasible].max() / np.where(top > 0.0, top, np.nan) - 1.0), held


def cloud(space: DesignSpace, count: int = 700) -> NDArray[np.intp]:
    """Designs within every limit but equal quality, evenly thinned over their speed."""
    low, high = _CLOUD_QUALITY
    quality = space.quality.min(axis=0)
    index = np.flatnonzero(space.keeps_apart_from("quality") & (quality >= low) & (quality <= high))
    order = index[np.argsort(space.score[index], kind="stable")]
    return order[
        np.unique(np.linspace(0, max(len(order) - 1, 0), min(count, len(order))).astype(int))
    ]
