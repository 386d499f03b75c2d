"""Three dials on a design, k/N, shared experts and width, and the best design at each batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.grid import MAX_BATCHES, TARGET_SHARE, Mixes
from advisor.answers.design.search import serve, serve_many
from advisor.answers.design.space import DesignSpace, law_ratios, sizes
from advisor.prediction import Array

RULE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NEAR_BEST = 0.01
"""Choice of this project: a design this close to the least time counts as being as good. [-]"""
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
    quality: tuple[float, float]
    """Size over the baseline's by the lowest and by the highest law. [-]"""
    losing: int
    """Laws by which that is below 1, to a percent. [-]"""
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
    served = serve(space, body, mix, width, question.batches)
    size = sizes(body, mix, width, question.max_memory_bytes)
    quality = law_ratios(body, space.baseline, mix, width, size.weights, question)
    losing = int((quality.round(2) < 1.0).sum())
    fits = bool(size.largest_batch[0] >= question.batches.max())
    return Costed(
        experts,
        question.mean_tpot_s(served.tpot_s[:, 0]),
        tuple(served.n_draft[:, 0].tolist()),
        (float(quality.min()), float(quality.max())),
        losing,
        float(size.weights.total[0]),
        float(size.weights.active[0]),
        fits,
    )


@dataclass(frozen=True)
class Dial:
    """One dial over its values [n], from low to high, on a design that it is turned on."""

    name: str
    """ratio, shared or width."""
    designs: tuple[Experts, ...]
    """The design with this dial alone at each value."""
    position: Array
    """k/N, shared experts, or expert width. [-]"""
    loss: Array
    """Share of the objective lost at equal quality with this dial held and the others solved again;
    NaN where nothing keeps every limit. [-]"""
    quality_low: Array
    """Size over the baseline's by the lowest law when this dial alone turns. [-]"""
    quality_high: Array
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
    """The three dials of a design, default the baseline.

    held : it may lie beside the grid; a value that the grid lacks has no loss.

    k/N keeps the total size: k moves, and below its least N with the width. The width moves alone,
    or, where a total size is asked for, with N and k.
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
        quality = _quality(space, designs)
        return Dial(
            name,
            tuple(designs),
            position[low:high],
            loss[low:high],
            *quality,
            at,
            tuple(held_texts[low:high]),
        )

    all_shared = sorted({*s, base.n_shared})
    all_widths = sorted({*width, base.expert_width})
    by_shared = [base._replace(n_shared=float(n_shared)) for n_shared in all_shared]
    by_width = [base._replace(expert_width=int(expert_width)) for expert_width in all_widths]
    if space.question.target_total_params is not None:
        by_width = [
            design
            for design_at in by_width
            for design in (
                [base] if design_at == base else _of_width(base, n, k, design_at.expert_width)
            )
        ]
    shares = np.array([design.n_shared for design in by_shared])
    wide = np.array([float(design.expert_width) for design in by_width])
    octaves = np.log2(space.n_active / space.n_experts)
    share = np.array([design.n_active / design.n_experts for design in ratio])
    return (
        dial_of("ratio", ratio, share, _lost(space, octaves, np.log2(share), RATIO_WITHIN)),
        dial_of("shared", by_shared, shares, _lost(space, space.n_shared, shares, 1e-6)),
        dial_of("width", by_width, wide, _lost(space, space.expert_width, wide, 0.0)),
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


def _of_width(base: Experts, n: list[int], k: list[int], width: int) -> list[Experts]:
    """The design with experts of another width, of its total size and about its k/N; nothing where
    no N gives that."""
    size = base.n_experts * base.expert_width
    a = min(n, key=lambda x: abs(x * width - size))
    b = min((x for x in k if x <= a), key=lambda x: abs(x / a - base.n_active / base.n_experts))
    return (
        [Experts(a, b, base.n_shared, width)]
        if abs(np.log(a * width / size)) <= np.log1p(TARGET_SHARE)
        else []
    )


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


def _quality(space: DesignSpace, designs: list[Experts]) -> tuple[Array, Array]:
    """Lowest and highest law of designs of the baseline's depth and attention. [n] each"""
    n = np.array([design.n_experts for design in designs], float)
    k = np.array([design.n_active for design in designs], float)
    s = np.array([design.n_shared for design in designs], float)
    width = np.array([design.expert_width for design in designs], float)
    mix = Mixes(n, k, s)
    body = space.bodies[0]
    ratios = law_ratios(
        body, space.baseline, mix, width, sizes(body, mix, width).weights, space.question
    )
    return ratios.min(axis=0), ratios.max(axis=0)


@dataclass(frozen=True)
class BatchRule:
    """The designs of least time and of largest speculative speedup at each batch, [2, nB]."""

    batches: Array
    design: NDArray[np.intp]
    """Index into the space."""
    tpot_s: Array
    speedup: Array
    active_share: Array
    """k/N. [-]"""
    shared_share: Array
    """s/(k+s). [-]"""
    near_active: Array
    """Least and most k/N among the designs within NEAR_BEST of the least time, [2, nB]. [-]"""
    near_shared: Array


def batch_rule(space: DesignSpace, batches: tuple[int, ...] = RULE_BATCHES) -> BatchRule:
    """The rule, at the batches that the placement can share and at which some design of equal
    quality fits."""
    keeps = space.keeps_apart_from("memory", "tpot")
    size = np.array(
        [batch for batch in batches if batch >= space.setup.placement.attention_groups], float
    )
    size = size[size <= space.largest_batch[keeps].max(initial=0.0)][:MAX_BATCHES]
    if not len(size):
        none = np.zeros((2, 0))
        return BatchRule(size, none.astype(np.intp), *(none,) * 6)
    # Where memory ends decides which is the widest of a mix, and by its ratio that may be the best.
    ends_at = [
        space.width_ends(keeps & (space.largest_batch >= batch), widest=True) for batch in size
    ]
    contenders = np.unique(np.concatenate(ends_at))
    speedup, tpot_s = serve_many(space, contenders, size)
    fits = space.largest_batch[contenders] >= size[:, None]
    time = np.where(fits, tpot_s, np.inf)
    at = np.stack([time.argmin(axis=1), np.where(fits, speedup, 0.0).argmax(axis=1)])
    mix = space.mix(contenders)
    active = mix.n_active / mix.n_experts
    shared = mix.shared_share
    near = time <= (1.0 + NEAR_BEST) * time.min(axis=1, keepdims=True)

    def ends(values: Array) -> Array:
        low = np.where(near, values, np.inf)
        high = np.where(near, values, -np.inf)
        return np.stack([low.min(axis=1), high.max(axis=1)])

    rows = np.arange(len(size))
    return BatchRule(
        batches=size,
        design=contenders[at],
        tpot_s=tpot_s[rows, at],
        speedup=speedup[rows, at],
        active_share=active[at],
        shared_share=shared[at],
        near_active=ends(active),
        near_shared=ends(shared),
    )


def cloud(space: DesignSpace, count: int = 700) -> NDArray[np.intp]:
    """Designs within every limit but equal quality, evenly thinned over their speed."""
    low, high = _CLOUD_QUALITY
    quality = space.quality.min(axis=0)
    index = np.flatnonzero(space.keeps_apart_from("quality") & (quality >= low) & (quality <= high))
    order = index[np.argsort(space.score[index], kind="stable")]
    return order[
        np.unique(np.linspace(0, max(len(order) - 1, 0), min(count, len(order))).astype(int))
    ]
