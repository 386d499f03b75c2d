"""Which assumption, if wrong, changes the recommended design, and what keeping it would then cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.components import DEVICE_RECORDS, OVERHEADS
from advisor.design.grid import Mixes
from advisor.design.question import CONSTRAINTS
from advisor.design.space import DesignSpace
from advisor.design.sweeps import serve
from advisor.kernel_costs import KernelCosts
from advisor.quality import activation_ratio, anchored_ratio, loss_as_active_params
from advisor.setup import Setup

FLIP_REGRET = 0.01
"""A recommendation counts as flipped when another design is better by more than this share of the objective."""
# Assumed: a quarter less, and as much more in proportion.
_BANDWIDTH_FACTORS = (0.75, 1.33)
_OVERHEAD_FACTORS = (1 / 3, 3.0)
"""Host and launch constants are uncertain by a factor of 3 (docs/model.md, section 2)."""


@dataclass(frozen=True)
class Sensitivity:
    """The search repeated under one changed assumption."""

    assumption: str
    """acceptance, correlation, skew, bandwidth, overheads or law."""
    change: str
    best: int | None
    """Recommended design under the change; None when nothing is feasible then."""
    best_text: str
    regret: float
    """Share of the objective lost by keeping today's recommendation. NaN where it is no longer allowed."""
    gain: float
    """Objective of today's recommendation over the baseline's, both under the change. NaN as above."""
    flips: bool


def sensitivity(space: DesignSpace) -> list[Sensitivity]:
    """The recommendation under each changed assumption, or nothing when no design is feasible."""
    if space.best is None:
        return []
    # A million designs are not costed again under each assumption: those that cannot win at any batch stay out.
    found = np.union1d(space.contenders, [space.best])
    results = [
        _compared(space, found, what, change, *_scores(space, found, setup, routing))
        for what, change, setup, routing in _variations(space)
    ]
    return results + [_under_law(space, name, keeps) for name, keeps in _laws(space)]


_Edit = Callable[[Setup], Setup]


def _variations(space: DesignSpace) -> Iterator[tuple[str, str, _Edit, tuple[str, str]]]:
    """(assumption, change, edit of the setup, ends of the routing band for (skew, correlation))."""
    middle = ("value", "value")

    def same(setup: Setup) -> Setup:
        return setup

    acceptance = space.setup.acceptance
    for end in ("low", "high"):
        lengths = getattr(acceptance, end)

        def accepted(setup: Setup, lengths: Array = lengths) -> Setup:
            return replace(setup, acceptance=dataclasses.replace(setup.acceptance, accepted_length=lengths))

        yield "acceptance", f"accepted length at the {end} end of its band", accepted, middle
    if space.setup.routing is not None:
        # Ends are named by the experts they touch: more correlation and more skew touch fewer.
        yield "correlation", "affinity and stickiness at the high end of their band", same, ("value", "low")
        yield "correlation", "affinity and stickiness at the low end of their band", same, ("value", "high")
        yield "skew", "expert load at the uneven end of its band", same, ("low", "value")
        yield "skew", "expert load at the even end of its band", same, ("high", "value")
    for factor in _BANDWIDTH_FACTORS:

        def streamed(setup: Setup, factor: float = factor) -> Setup:
            return replace(
                setup, costs=with_bandwidth(setup.costs, factor), draft_costs=with_bandwidth(setup.draft_costs, factor)
            )

        yield "bandwidth", f"memory bandwidth x {factor:g}", streamed, middle
    for factor in _OVERHEAD_FACTORS:

        def launched(setup: Setup, factor: float = factor) -> Setup:
            return replace(setup, costs=_with_overheads(setup.costs, factor))

        yield "overheads", f"host and launch times x {factor:.2g}", launched, middle


def with_bandwidth(costs: KernelCosts, factor: float) -> KernelCosts:
    """Kernel constants of the same accelerator with memory `factor` times as fast.

    Links and arithmetic are unchanged.
    """
    changed = {}
    for name in DEVICE_RECORDS:
        cost = getattr(costs, name)
        if cost is None:
            continue
        update = {"bandwidth_bytes_per_s": cost.bandwidth_bytes_per_s * factor}
        if name == "routed":
            update["activation_bandwidth_bytes_per_s"] = cost.activation_bandwidth_bytes_per_s * factor
        changed[name] = replace(cost, **update)
    return replace(costs, **changed)


def _with_overheads(costs: KernelCosts, factor: float) -> KernelCosts:
    names = [name for one in OVERHEADS for name in one.priced_by]
    return replace(costs, **{name: getattr(costs, name) * factor for name in names})


def _scores(space: DesignSpace, found: NDArray[np.intp], edit: _Edit, ends: tuple[str, str]) -> tuple[Array, float]:
    """Scores of the candidates [n] and of the baseline under an edited setup."""
    own, question = space.baseline, space.question
    skew, correlation = ends

    def score(number: int, mix: Mixes, width: Array) -> Array:
        body = space.bodies[number]
        edited = replace(body, setup=edit(body.setup))
        result = serve(space, edited, mix, width, question.batches, skew=skew, correlation=correlation)
        return question.score(space.setup.placement.gpus, result.speedup, result.tpot_s)

    scores = np.empty(len(found))
    for number in np.unique(space.body[found]):
        at = np.flatnonzero(space.body[found] == number)
        scores[at] = score(number, space.mix(found[at]), space.expert_width[found[at]].astype(float))
    mix = Mixes(*(np.array([count]) for count in own.counts))
    return scores, float(score(0, mix, np.array([float(own.expert_width)]))[0])


def _compared(
    space: DesignSpace, found: NDArray[np.intp], what: str, change: str, scores: Array, baseline: float
) -> Sensitivity:
    top = int(scores.argmax())
    kept = float(scores[np.flatnonzero(found == space.best)[0]])
    return _held(space, (what, change), int(found[top]), float(scores[top]), kept, baseline)


def _held(
    space: DesignSpace, what: tuple[str, str], best: int, best_score: float, kept: float, baseline: float
) -> Sensitivity:
    """Today's recommendation, whose score is now `kept` (NaN: it is not allowed any more), against the best."""
    regret = 1.0 - kept / best_score
    flips = np.isnan(regret) or regret > FLIP_REGRET
    return Sensitivity(*what, best, space.describe(best), regret, kept / baseline, bool(flips))


def _laws(space: DesignSpace) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Other laws for equal quality: (name, designs that keep it)."""
    own, floor = space.baseline, 1.0 - space.question.quality_eps
    activation = activation_ratio(space.n_experts, space.n_active, space.n_shared)
    anchored = anchored_ratio(space.active_params, activation, own.active_params, own.activation)
    both = np.minimum(anchored, space.dense_equivalent / own.dense_equivalent) >= floor
    yield "equal quality by N_act ~ A^0.30 (arXiv:2507.20534) as well", both
    loss = space.loss_difference(0, space.total_params, space.active_params, space.n_active, space.n_shared)
    equivalent = loss_as_active_params(loss, own.total_params, own.active_params)
    yield "equal loss by arXiv:2509.23678 instead", equivalent <= 1.0 / floor - 1.0


def cautious_best(space: DesignSpace) -> int | None:
    """The best design that keeps the quality by two laws: the default one and the 0.30 anchor.

    None when no design does.
    """
    return space.best_of(_within(space, next(_laws(space))[1]))


def _within(space: DesignSpace, keeps: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Designs that `keeps` names and that meet every constraint but the default law's quality."""
    quality = np.uint16(1 << CONSTRAINTS.index("quality"))
    return np.asarray(keeps & ((space.failed & ~quality) == 0))


def _under_law(space: DesignSpace, change: str, keeps: NDArray[np.bool_]) -> Sensitivity:
    """The search with another law for equal quality; costs are those of the space."""
    allowed = _within(space, keeps)
    top = space.best_of(allowed)
    if top is None:
        return Sensitivity("law", change, None, "nothing feasible", float("nan"), float("nan"), True)
    chosen = space.best
    assert chosen is not None
    index = np.flatnonzero(allowed)
    # The recommended experts at another width still count as the recommendation.
    twins = index[np.all(space.mixes_of(index) == space.mixes_of(np.array([chosen])), axis=0)]
    kept = float(space.score[twins].max()) if len(twins) else float("nan")
    return _held(space, ("law", change), top, float(space.score[top]), kept, space.baseline.score)
