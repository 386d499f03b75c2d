"""The answer to a design question: the best design, the limits that bind, and the assumptions it
depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.candidates import (
    LAW_NAMES,
    ONE_LAW,
    Candidate,
    candidates,
    headline,
    is_clear,
    title,
)
from advisor.answers.design.dials import BatchRule, Dial, batch_rule, dials
from advisor.answers.design.grid import (
    CONSTRAINT_TEXT,
    CONSTRAINTS,
    NOTE,
    DesignGrid,
    Mixes,
    Objective,
)
from advisor.answers.design.search import distinct_candidates, pareto_front, serve
from advisor.answers.design.space import DesignSpace
from advisor.physics.components import DEVICE_RECORDS, OVERHEADS
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.quality import LIMITS, TOKENS_PER_PARAMETER_WARNING
from advisor.predict.setup import Setup
from advisor.prediction import Array
from advisor.text import counted

FLIP_REGRET = 0.01
"""A recommendation counts as flipped when another design is better by more than this share of the
objective."""
# Assumed: a quarter less, and as much more in proportion.
_BANDWIDTH_FACTORS = (0.75, 1.33)
_OVERHEAD_FACTORS = (1 / 3, 3.0)
"""Host and launch constants are uncertain by a factor of 3 (docs/model.md, section 2)."""


@dataclass(frozen=True)
class Sensitivity:
    """The search repeated under one changed assumption."""

    assumption: str
    """Kind of assumption: acceptance, correlation, skew, bandwidth, overheads or law."""
    change: str
    best: int | None
    """Recommended design under the change; None when nothing is feasible then."""
    best_text: str
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
    for what, change, setup, routing in _variations(space):
        scores, baseline = _scores(space, contenders, setup, routing)
        top = int(scores.argmax())
        recommended_score = float(scores[np.flatnonzero(contenders == space.best)[0]])
        results.append(
            _held(
                space,
                (what, change),
                int(contenders[top]),
                float(scores[top]),
                recommended_score,
                baseline,
            )
        )
    # The first law alone: costs are those of the space, and what keeps all laws keeps one.
    if (top_alone := one_law_best(space)) is not None:
        what_law = ("law", f"equal quality by {LAW_NAMES['leverage']} alone")
        scores = space.score
        recommended_score = float(scores[space.best])
        results.append(
            _held(
                space,
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
    """(assumption, change, edit of the setup, ends of the routing band for (skew, correlation))."""
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

        yield "acceptance", f"accepted length at the {end} end of its band", accepted, middle
    if space.setup.routing is not None:
        # Ends are named by the experts they touch: more correlation and more skew touch fewer.
        yield (
            "correlation",
            "affinity and stickiness at the high end of their band",
            same,
            ("value", "low"),
        )
        yield (
            "correlation",
            "affinity and stickiness at the low end of their band",
            same,
            ("value", "high"),
        )
        yield "skew", "expert load at the uneven end of its band", same, ("low", "value")
        yield "skew", "expert load at the even end of its band", same, ("high", "value")
    for factor in _BANDWIDTH_FACTORS:

        def streamed(setup: Setup, factor: float = factor) -> Setup:
            return replace(
                setup,
                costs=with_bandwidth(setup.costs, factor),
                draft_costs=with_bandwidth(setup.draft_costs, factor),
            )

        yield "bandwidth", f"memory bandwidth x {factor:g}", streamed, middle
    for factor in _OVERHEAD_FACTORS:

        def launched(setup: Setup, factor: float = factor) -> Setup:
            names = [name for component in OVERHEADS for name in component.priced_by]
            return replace(
                setup,
                costs=replace(setup.costs, **{n: getattr(setup.costs, n) * factor for n in names}),
            )

        yield "overheads", f"host and launch times x {factor:.2g}", launched, middle


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
    space: DesignSpace,
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
    return Sensitivity(
        *what, best, space.describe(best), regret, recommended_score / baseline, bool(flips)
    )


def one_law_best(space: DesignSpace) -> int | None:
    """The best design by the first law alone, whatever the others say of its quality."""
    keeps = space.quality[0] >= 1.0 - space.question.quality_eps
    return space.best_of(keeps & space.keeps_apart_from("quality"))


NOTHING_BINDS = "Equal quality alone limits the objective: no other limit costs anything."


@dataclass(frozen=True)
class Binding:
    """Price of one constraint: the best design that breaks it alone, against the recommended
    one."""

    constraint: str
    text: str
    gain: float
    index: int


@dataclass(frozen=True)
class Infeasible:
    """Reason that nothing is left, and the design that breaks fewest constraints, and those
    least."""

    message: str
    nearest: int
    breaks: tuple[str, ...]
    ruled_out: dict[str, int]
    """Designs that each constraint rules out."""


@dataclass(frozen=True)
class DesignAnswer:
    """Everything that is shown about one design question, each part made when it is asked for."""

    space: DesignSpace
    count: int = 10
    """Distinct candidates that are described in full."""

    @cached_property
    def verdict(self) -> str:
        """The headline, then gains and costs of the design."""
        chosen = self.recommended
        return infeasible(self.space).message if chosen is None else title(self.space, chosen)

    @cached_property
    def headline(self) -> str:
        """The answer in one line."""
        return headline(self.space, self.recommended)

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

    @property
    def binding_text(self) -> str:
        """The dearest limit in a sentence."""
        if self.space.best is None:
            return ""
        if not self.binding:
            return NOTHING_BINDS
        return (
            f"{binding_start(self.space, self.binding[0])} would be "
            f"{self.binding[0].gain - 1:.1%} better."
        )

    @cached_property
    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The recommendation under each changed assumption."""
        return tuple(sensitivity(self.space))

    @cached_property
    def dials(self) -> tuple[Dial, ...]:
        """Time lost at each value of k/N, shared experts and width, the others solved again."""
        return dials(self.space)

    @cached_property
    def rule(self) -> BatchRule:
        """The best design at each batch."""
        return batch_rule(self.space)

    @cached_property
    def pareto(self) -> NDArray[np.intp]:
        """Indices into the space, from best quality to best objective."""
        return pareto_front(self.space)

    @property
    def limits(self) -> tuple[str, ...]:
        """Gaps in the laws for quality and routing."""
        return (*LIMITS, NOTE)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks to read before training by this answer."""
        return _warnings(self.space, self.recommended, self.one_law)


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
            bindings.append(Binding(name, CONSTRAINT_TEXT[name], gain, top))
    return tuple(sorted(bindings, key=lambda item: -item.gain))


def _broken(space: DesignSpace) -> NDArray[np.uint16]:
    """[designs, constraints], 1 where the design breaks the constraint."""
    return np.asarray((space.failed[:, None] >> np.arange(len(CONSTRAINTS), dtype=np.uint16)) & 1)


def infeasible(space: DesignSpace) -> Infeasible:
    """Find the constraint that rules out most, and the design that breaks fewest of them, by
    least."""
    broken = _broken(space)
    counts = dict(zip(CONSTRAINTS, broken.sum(axis=0).tolist(), strict=True))
    fewest = np.flatnonzero(broken.sum(axis=1) == broken.sum(axis=1).min())
    nearest = int(fewest[space.violation[fewest].argmin()])
    breaks = tuple(space.failed_names(nearest))
    most = max(counts, key=lambda name: counts[name])
    beyond = float(np.expm1(space.violation[nearest]))
    reason = CONSTRAINT_TEXT[most]
    broken_text = " and ".join(CONSTRAINT_TEXT[name] for name in breaks)
    remedy = _remedy(space, nearest, counts["memory"])
    message = (
        f"No design keeps every limit. {reason[0].upper()}{reason[1:]} rules out {counts[most]:,} "
        f"of {len(space):,}. Nearest: {space.describe(nearest)}; it breaks only {broken_text}, by "
        f"{beyond:.0%}. {remedy}"
    )
    return Infeasible(message, nearest, breaks, {name: n for name, n in counts.items() if n})


def _remedy(space: DesignSpace, nearest: int, too_large: int) -> str:
    breaks = space.failed_names(nearest)
    if "memory" in breaks:
        fits = int(space.largest_batch[nearest])
        least = f"a batch of at most {fits}" if fits else "a smaller batch"
        return f"Use more GPUs, a smaller weight format, a shorter context or {least}."
    if "tpot" in breaks:
        return (
            "Raise the limit on time per output token, lower the batch, or add tensor-parallel "
            "GPUs."
        )
    for name in ("total_params", "training_cost"):
        if name in breaks:
            return f"Raise {CONSTRAINT_TEXT[name]}."
    if "quality" in breaks and too_large > len(space) / 2:
        return "Designs that fit in memory are too weak: use more GPUs or a smaller weight format."
    if "quality" in breaks:
        return "Widen the grid (more experts or wider ones) or raise quality_eps."
    return "Widen the grid."


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


def binding_start(space: DesignSpace, first: Binding) -> str:
    """Start of a sentence with the limit that costs most and the design it rules out."""
    return (
        f"Of the limits besides equal quality, {first.text} costs most: without it, "
        f"{space.describe(first.index)}"
    )


def sensitivity_text(results: Sequence[Sensitivity]) -> str:
    """Sentence on how many changed assumptions would make another design the recommended one."""
    count = sum(item.flips for item in results)
    n = counted(len(results), "changed assumption")
    if not count:
        return (
            f"Under each of {n}, the recommended design stays within {FLIP_REGRET:.0%} of the best."
        )
    return (
        f"Under {count} of {n}, the recommended design is over {FLIP_REGRET:.0%} behind the best, "
        "or no longer allowed."
    )


_WISHES = {"n_experts": "experts", "n_active": "active experts", "n_shared": "shared experts"}


def _unmet_wishes(space: DesignSpace) -> list[str]:
    """A sentence for each value that the user wished to be tried and that no feasible design has,
    with the reason."""
    sentences = []
    for name, words in _WISHES.items():
        wished = getattr(space.grid, name)
        values = getattr(space, name)
        if wished == DesignGrid.model_fields[name].default:
            continue
        unmet = [value for value in wished if not np.any(values[space.candidates] == value)]
        for value in unmet:
            has = values == value
            broken = _broken(space)[has].sum(axis=0)
            reason = (
                "no such design can be placed (k <= N, N divisible by the expert-parallel ranks)"
            )
            if has.any():
                reason = (
                    f"{CONSTRAINT_TEXT[CONSTRAINTS[int(broken.argmax())]]} rules out most of "
                    f"{int(has.sum()):,}"
                )
            sentences.append(f"No design with {value} {words} is feasible: {reason}.")
    return sentences


def _warnings(
    space: DesignSpace, chosen: Candidate | None, one_law: Candidate | None
) -> tuple[str, ...]:
    warnings = [*space.notes, *_unmet_wishes(space)]
    if chosen is None:
        return tuple(warnings)
    question = space.question
    if one_law is not None:
        warnings.append(
            f"By {ONE_LAW} alone {space.describe(one_law.index)} would gain "
            f"{one_law.objective_gain.value:.2f}x; its quality may be only "
            f"{one_law.quality_range[0]:.0%}: train a small pair before you trust it."
        )
    if (
        chosen.tokens_per_parameter is not None
        and chosen.tokens_per_parameter < TOKENS_PER_PARAMETER_WARNING
    ):
        warnings.append(
            f"{chosen.tokens_per_parameter:.0f} training tokens per parameter: below about 20, "
            "reasoning is reported to suffer from sparsity (arXiv:2508.18672)."
        )
    if chosen.corners:
        warnings.append(
            f"At a corner of the search: {'; '.join(chosen.corners)}. A better design may lie "
            "beyond it."
        )
    if space.baseline_problem:
        warnings.append(space.baseline_problem)
    elif chosen.objective_gain.low <= 1.0:
        warnings.append("The 80% range of the gain includes 1: the baseline may be as good.")
    elif chosen.tpot_gain.value < 1.0:
        warnings.append(
            f"It is {1 / chosen.tpot_gain.value:.2f} times slower per token than the baseline."
        )
    if question.objective == "cost_per_million_tokens":
        warnings.append(
            f"Cost at {question.price_usd_per_hour:g} USD per GPU-hour; it ranks designs as "
            "tokens/s per GPU."
        )
    if chosen.extrapolated:
        warnings.append("Outside the data: kernels are calibrated to 2048 tokens a step.")
    return tuple(dict.fromkeys(warnings))
