"""The answer to a design question: the best design, the limits that bind, and the assumptions it
depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.along import Along, along_ratio, along_shared
from advisor.answers.design.candidates import (
    Candidate,
    candidates,
    is_clear,
)
from advisor.answers.design.dials import Dial, dials
from advisor.answers.design.grid import (
    CONSTRAINTS,
    DesignGrid,
    Mixes,
    Objective,
)
from advisor.answers.design.search import distinct_candidates, pareto_front, serve
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.standing import DesignRecord, standing_of
from advisor.physics.components import DEVICE_RECORDS, OVERHEADS
from advisor.physics.kernel_costs import KernelCosts
from advisor.predict.setup import Setup
from advisor.prediction import Array

FLIP_REGRET = 0.01
"""A recommendation counts as flipped when another design is better by more than this share of the
objective."""
# Assumed: a quarter less, and as much more in proportion.
_BANDWIDTH_FACTORS = (0.75, 1.33)
_OVERHEAD_FACTORS = (1 / 3, 3.0)
"""Host and launch constants are uncertain by a factor of 3 (docs/model.md, one round)."""


@dataclass(frozen=True)
class Sensitivity:
    """The search repeated under one changed assumption."""

    assumption: str
    """Kind of assumption: acceptance, correlation, skew, bandwidth, overheads or law."""
    end: str
    """End of its band, or the factor on it."""
    best: int | None
    """Recommended design under the change; None when nothing is feasible then."""
    regret: float
    """Share of the objective lost by keeping today's recommendation. NaN where it is no longer
    allowed."""
    gain: float
    """Objective of today's recommendation over the baseline's, both under the change. NaN as
    above."""
    flips: bool


def sensitivity(space: DesignSpace) -> list[Sensitivity]:
    """The recommendation under each changed assumption, or nothing when no design is feasible."""
    if space.best is None:
        return []
    # A million designs are not costed again under each assumption: those that cannot win at any
    # batch stay out.
    contenders = np.union1d(space.width_ends(space.failed == 0), [space.best])
    results = []
    for what, end, setup, routing in _variations(space):
        scores, baseline = _scores(space, contenders, setup, routing)
        top = int(scores.argmax())
        recommended_score = float(scores[np.flatnonzero(contenders == space.best)[0]])
        results.append(
            _held(
                (what, end),
                int(contenders[top]),
                float(scores[top]),
                recommended_score,
                baseline,
            )
        )
    # The first law alone: costs are those of the space, and what keeps all laws keeps one.
    if (top_alone := one_law_best(space)) is not None:
        what_law = ("law", "leverage")
        scores = space.score
        recommended_score = float(scores[space.best])
        results.append(
            _held(
                what_law,
                top_alone,
                float(scores[top_alone]),
                recommended_score,
                space.baseline.score,
            )
        )
    return results


_Edit = Callable[[Setup], Setup]


def _variations(space: DesignSpace) -> Iterator[tuple[str, str, _Edit, tuple[str, str]]]:
    """(assumption, end or factor, edit of the setup, ends of the routing band for (skew,
    correlation))."""
    middle = ("value", "value")

    def same(setup: Setup) -> Setup:
        return setup

    acceptance = space.setup.acceptance
    for end in ("low", "high"):
        lengths = getattr(acceptance, end)

        def accepted(setup: Setup, lengths: Array = lengths) -> Setup:
            return replace(
                setup, acceptance=dataclasses.replace(setup.acceptance, accepted_length=lengths)
            )

        yield "acceptance", end, accepted, middle
    if space.setup.routing is not None:
        # Ends are named by the experts they touch: more correlation and more skew touch fewer.
        yield "correlation", "high", same, ("value", "low")
        yield "correlation", "low", same, ("value", "high")
        yield "skew", "low", same, ("low", "value")
        yield "skew", "high", same, ("high", "value")
    for factor in _BANDWIDTH_FACTORS:

        def streamed(setup: Setup, factor: float = factor) -> Setup:
            return replace(
                setup,
                costs=with_bandwidth(setup.costs, factor),
                draft_costs=with_bandwidth(setup.draft_costs, factor),
            )

        yield "bandwidth", f"{factor:g}", streamed, middle
    for factor in _OVERHEAD_FACTORS:

        def launched(setup: Setup, factor: float = factor) -> Setup:
            names = [name for component in OVERHEADS for name in component.priced_by]
            return replace(
                setup,
                costs=replace(setup.costs, **{n: getattr(setup.costs, n) * factor for n in names}),
            )

        yield "overheads", f"{factor:.2g}", launched, middle


def with_bandwidth(costs: KernelCosts, factor: float) -> KernelCosts:
    """Kernel constants of the same accelerator with memory alone `factor` times as fast."""
    changed = {}
    for name in DEVICE_RECORDS:
        cost = getattr(costs, name)
        if cost is None:
            continue
        update = {"bandwidth_bytes_per_s": cost.bandwidth_bytes_per_s * factor}
        if name == "routed":
            update["activation_bandwidth_bytes_per_s"] = (
                cost.activation_bandwidth_bytes_per_s * factor
            )
        changed[name] = replace(cost, **update)
    return replace(costs, **changed)


def _scores(
    space: DesignSpace, contenders: NDArray[np.intp], edit: _Edit, ends: tuple[str, str]
) -> tuple[Array, float]:
    """Scores of the candidates [n] and of the baseline under an edited setup."""
    baseline = space.baseline
    question = space.question
    skew, correlation = ends

    def score(number: int, mix: Mixes, width: Array) -> Array:
        body = space.bodies[number]
        edited = replace(body, setup=edit(body.setup))
        result = serve(
            space, edited, mix, width, question.batches, skew=skew, correlation=correlation
        )
        return question.score(space.setup.placement.gpus, result.speedup, result.tpot_s)

    scores = np.empty(len(contenders))
    for number in np.unique(space.body[contenders]):
        at = np.flatnonzero(space.body[contenders] == number)
        scores[at] = score(
            number, space.mix(contenders[at]), space.expert_width[contenders[at]].astype(float)
        )
    mix = Mixes.of(*baseline.counts)
    return scores, float(score(0, mix, np.array([float(baseline.expert_width)]))[0])


def _held(
    what: tuple[str, str],
    best: int,
    best_score: float,
    recommended_score: float,
    baseline: float,
) -> Sensitivity:
    """Today's recommendation, whose score is now `recommended_score` (NaN: it is not allowed any
    more), against the best."""
    regret = 1.0 - recommended_score / best_score
    flips = np.isnan(regret) or regret > FLIP_REGRET
    return Sensitivity(*what, best, regret, recommended_score / baseline, bool(flips))


def one_law_best(space: DesignSpace) -> int | None:
    """The best design by the first law alone, whatever the others say of its quality."""
    keeps = space.quality[0] >= 1.0 - space.question.quality_eps
    return space.best_of(keeps & space.keeps_apart_from("quality"))


@dataclass(frozen=True)
class Binding:
    """Price of one constraint: the best design that breaks it alone, against the recommended
    one."""

    constraint: str
    gain: float
    index: int


@dataclass(frozen=True)
class Infeasible:
    """Reason that nothing is left, and the design that breaks fewest constraints, and those
    least."""

    nearest: int
    breaks: tuple[str, ...]
    beyond: float
    """How far it lies beyond them. [-]"""
    ruled_out: dict[str, int]
    """Designs that each constraint rules out, most first."""
    n_designs: int
    largest_batch: int
    """Of the nearest design. [sequences]"""
    mostly_memory: bool
    """Whether memory rules out most designs."""


@dataclass(frozen=True)
class DesignAnswer:
    """Everything that is shown about one design question, each part made when it is asked for."""

    space: DesignSpace
    count: int = 10
    """Distinct candidates that are described in full."""

    @cached_property
    def standing(self) -> DesignRecord:
        """Facts of the best design beside the start."""
        return standing_of(self.space, self.recommended)

    @cached_property
    def recommended(self) -> Candidate | None:
        """The best design of equal quality by every law."""
        best = self.space.best
        return None if best is None else candidates(self.space, [best])[0]

    @property
    def clear(self) -> bool:
        """Whether that is better than the baseline throughout its band and no slower per token."""
        return self.recommended is not None and is_clear(self.space, self.recommended)

    @cached_property
    def one_law(self) -> Candidate | None:
        """The best design by one law alone, or None where it is the recommended one."""
        best_index = one_law_best(self.space)
        return (
            None
            if best_index is None or best_index == self.space.best
            else candidates(self.space, [best_index])[0]
        )

    @cached_property
    def infeasible(self) -> Infeasible | None:
        """Reason that no design keeps every limit, or None."""
        return infeasible(self.space) if self.space.best is None else None

    @cached_property
    def top(self) -> tuple[Candidate, ...]:
        """The best designs that differ in kind, best first."""
        return tuple(candidates(self.space, distinct_candidates(self.space, self.count)))

    @cached_property
    def binding(self) -> tuple[Binding, ...]:
        """Cost of each limit, the dearest first."""
        return binding_constraints(self.space)

    @cached_property
    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The recommendation under each changed assumption."""
        return tuple(sensitivity(self.space))

    @cached_property
    def dials(self) -> tuple[Dial, ...]:
        """Time lost at each value of k/N and of shared experts, the others solved again."""
        return dials(self.space)

    @cached_property
    def by_ratio(self) -> Along:
        """The start with other k, at its batch and others."""
        return along_ratio(self.space)

    @cached_property
    def by_shared(self) -> Along:
        """The start with other shared experts, at its batch and others."""
        return along_shared(self.space)

    @cached_property
    def pareto(self) -> NDArray[np.intp]:
        """Indices into the space, from best quality to best objective."""
        return pareto_front(self.space)


def design_answer(space: DesignSpace, count: int = 10) -> DesignAnswer:
    """Everything about one design question. `count` distinct candidates are described in full."""
    return DesignAnswer(space, count)


def binding_constraints(space: DesignSpace) -> tuple[Binding, ...]:
    """Constraints but equal quality that hold the objective back, by what relaxing each alone would
    gain."""
    if space.best is None:
        return ()
    bindings = []
    for bit, name in enumerate(CONSTRAINTS):
        top = None if name == "quality" else space.best_of(space.failed == 1 << bit)
        if top is None:
            continue
        gain = float(space.score[top] / space.score[space.best])
        if gain > 1.0:
            bindings.append(Binding(name, gain, top))
    return tuple(sorted(bindings, key=lambda item: -item.gain))


def _broken(space: DesignSpace) -> NDArray[np.uint16]:
    """[designs, constraints], 1 where the design breaks the constraint."""
    return np.asarray((space.failed[:, None] >> np.arange(len(CONSTRAINTS), dtype=np.uint16)) & 1)


def infeasible(space: DesignSpace) -> Infeasible:
    """Find the constraints that rule out designs, and the design that breaks fewest of them, by
    least."""
    broken = _broken(space)
    counts = dict(zip(CONSTRAINTS, broken.sum(axis=0).tolist(), strict=True))
    fewest = np.flatnonzero(broken.sum(axis=1) == broken.sum(axis=1).min())
    nearest = int(fewest[space.violation[fewest].argmin()])
    most_first = sorted(counts, key=lambda name: -counts[name])
    return Infeasible(
        nearest,
        tuple(space.failed_names(nearest)),
        float(np.expm1(space.violation[nearest])),
        {name: counts[name] for name in most_first if counts[name]},
        len(space),
        int(space.largest_batch[nearest]),
        counts["memory"] > len(space) / 2,
    )


def best_by_objective(space: DesignSpace) -> dict[Objective, Candidate]:
    """Best design for speedup, time per token and throughput, from the numbers already there."""
    candidate_indices = space.candidates
    if not len(candidate_indices):
        return {}
    weight = space.question.batch_weights[:, None]
    gpus = space.setup.placement.gpus
    speedup = np.asarray(space.speedup[:, candidate_indices], float)
    tpot = np.asarray(space.tpot_s[:, candidate_indices], float)
    mean = (weight * tpot).sum(0)
    best: dict[Objective, int] = {
        "sd_speedup": int(candidate_indices[((weight * speedup * tpot).sum(0) / mean).argmax()]),
        "tpot": int(candidate_indices[mean.argmin()]),
        "tokens_per_s_per_gpu": int(
            candidate_indices[
                (weight * tpot * gpus / space.question.batches[:, None]).sum(0).argmin()
            ]
        ),
    }
    described = candidates(space, list(best.values()))
    return dict(zip(best, described, strict=True))


@dataclass(frozen=True)
class UnmetWish:
    """A value that the user wished to be tried and that no feasible design has."""

    axis: str
    """n_experts, n_active or n_shared."""
    value: int
    constraint: str | None
    """What rules out most of them. None: no such design can be placed."""
    n_designs: int


def unmet_wishes(space: DesignSpace) -> list[UnmetWish]:
    """Each wished value without a feasible design, with the reason."""
    wishes = []
    for axis in ("n_experts", "n_active", "n_shared"):
        wished = getattr(space.grid, axis)
        values = getattr(space, axis)
        if wished == DesignGrid.model_fields[axis].default:
            continue
        for value in wished:
            has = values == value
            if np.any(has[space.candidates]):
                continue
            broken = _broken(space)[has].sum(axis=0)
            most = CONSTRAINTS[int(broken.argmax())] if has.any() else None
            wishes.append(UnmetWish(axis, value, most, int(has.sum())))
    return wishes
