"""Which assumption, if wrong, changes the recommended design, and what keeping it would then cost.

The answer to a design question, in numbers and in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.candidates import Candidate, DesignCurve, candidates, design_curves, is_clear, title
from advisor.answers.design.grid import CONSTRAINT_TEXT, CONSTRAINTS, NOTE, DesignGrid, Mixes, Objective
from advisor.answers.design.search import (
    DesignChange,
    DesignLine,
    HeatMap,
    distinct_candidates,
    granularity_sweep,
    heat_map,
    pareto_front,
    serve,
    shared_sweep,
    try_next,
)
from advisor.answers.design.space import DesignSpace
from advisor.physics.components import DEVICE_RECORDS, OVERHEADS
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.quality import (
    LIMITS,
    TOKENS_PER_PARAMETER_WARNING,
    activation_ratio,
    anchored_ratio,
    loss_as_active_params,
)
from advisor.predict.setup import Setup
from advisor.prediction import Array
from advisor.text import counted

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
    """Kind of assumption: acceptance, correlation, skew, bandwidth, overheads or law."""
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


NOTHING_BINDS = "Equal quality alone limits the objective: no other limit costs anything."
_SAME_LOSS = 5e-5
"""Losses that differ by less read the same to four decimals. [nats per token]"""


@dataclass(frozen=True)
class Binding:
    """Price of one constraint: the best design that breaks it alone.

    Its objective stands over the recommended one's.
    """

    constraint: str
    text: str
    gain: float
    index: int


@dataclass(frozen=True)
class Infeasible:
    """Reason that nothing is left, and the design that breaks fewest constraints, and those least."""

    message: str
    nearest: int
    breaks: tuple[str, ...]
    ruled_out: dict[str, int]
    """Designs that each constraint rules out."""


@dataclass(frozen=True)
class DesignAnswer:
    """Everything a screen, a report or the command line shows about one design question."""

    space: DesignSpace
    verdict: str
    clear: bool
    """Whether the recommended design is better than the baseline throughout its band and no slower per token."""
    recommended: Candidate | None
    cautious: Candidate | None
    """The best design that keeps the quality by the pessimistic law too; None when none does."""
    infeasible: Infeasible | None
    top: tuple[Candidate, ...]
    """The best designs that differ in kind, best first; the first is the recommended one."""
    by_objective: dict[Objective, Candidate]
    """The best design under each objective that can be computed."""
    disagreement: str
    """Reason that speedup and absolute speed rank designs differently here, or a sentence that they do not."""
    binding: tuple[Binding, ...]
    binding_text: str
    try_next: tuple[DesignChange, ...]
    sensitivity: tuple[Sensitivity, ...]
    heat_map: HeatMap
    shared_sweep: DesignLine
    granularity_sweep: DesignLine
    curves: tuple[DesignCurve, ...]
    """Speedup, time per token and gain against batch: the baseline's, then the recommended design's."""
    pareto: np.ndarray
    """Indices into the space, from best quality to best objective."""
    limits: tuple[str, ...]
    warnings: tuple[str, ...]


def design_answer(space: DesignSpace, count: int = 10) -> DesignAnswer:
    """Everything about one design question. `count` distinct candidates are described in full."""
    indices = distinct_candidates(space, count)
    top = tuple(candidates(space, indices))
    recommended = top[0] if top else None
    by_objective = best_by_objective(space)
    binding = binding_constraints(space)
    safe = cautious_best(space)
    cautious = None if safe is None else candidates(space, [safe])[0]
    return DesignAnswer(
        space=space,
        verdict=infeasible(space).message if recommended is None else title(space, recommended),
        clear=recommended is not None and is_clear(space, recommended),
        recommended=recommended,
        cautious=cautious,
        infeasible=None if top else infeasible(space),
        top=top,
        by_objective=by_objective,
        disagreement=_disagreement(space, by_objective),
        binding=binding,
        binding_text=_binding_text(space, binding),
        try_next=tuple(try_next(space)),
        sensitivity=tuple(sensitivity(space)),
        heat_map=heat_map(space),
        shared_sweep=shared_sweep(space),
        granularity_sweep=granularity_sweep(space),
        curves=design_curves(space, {} if recommended is None else {"recommended": recommended.index}),
        pareto=pareto_front(space),
        limits=(*LIMITS, NOTE),
        warnings=_warnings(space, recommended, cautious),
    )


def binding_constraints(space: DesignSpace) -> tuple[Binding, ...]:
    """Constraints that hold the objective back, strongest first: relaxing one alone would help by its gain.

    Equal quality is left out: what it costs is on the quality chart.
    """
    if space.best is None:
        return ()
    found = []
    for bit, name in enumerate(CONSTRAINTS):
        top = None if name == "quality" else space.best_of(space.failed == 1 << bit)
        if top is None:
            continue
        gain = float(space.score[top] / space.score[space.best])
        if gain > 1.0:
            found.append(Binding(name, CONSTRAINT_TEXT[name], gain, top))
    return tuple(sorted(found, key=lambda item: -item.gain))


def ruled_out(space: DesignSpace) -> dict[str, int]:
    """Number of designs that break each constraint, where one design may break several."""
    return dict(zip(CONSTRAINTS, _broken(space).sum(axis=0).tolist(), strict=True))


def _broken(space: DesignSpace) -> NDArray[np.uint16]:
    """[designs, constraints], 1 where the design breaks the constraint."""
    return np.asarray((space.failed[:, None] >> np.arange(len(CONSTRAINTS), dtype=np.uint16)) & 1)


def infeasible(space: DesignSpace) -> Infeasible:
    """Find the constraint that rules out most, and the design that breaks fewest of them, by least."""
    broken = _broken(space)
    counts = ruled_out(space)
    fewest = np.flatnonzero(broken.sum(axis=1) == broken.sum(axis=1).min())
    nearest = int(fewest[space.violation[fewest].argmin()])
    breaks = tuple(space.failed_names(nearest))
    most = max(counts, key=lambda name: counts[name])
    beyond, reason = float(np.expm1(space.violation[nearest])), CONSTRAINT_TEXT[most]
    message = (
        f"No design keeps every constraint. {reason[0].upper()}{reason[1:]} rules out {counts[most]:,} of "
        f"{len(space):,}. Nearest: {space.describe(nearest)}; it breaks only "
        f"{' and '.join(CONSTRAINT_TEXT[name] for name in breaks)}, by {beyond:.0%}. "
        f"{_remedy(space, nearest, counts['memory'])}"
    )
    return Infeasible(message, nearest, breaks, {name: n for name, n in counts.items() if n})


def _remedy(space: DesignSpace, nearest: int, too_large: int) -> str:
    breaks = space.failed_names(nearest)
    if "memory" in breaks:
        fits = int(space.largest_batch[nearest])
        least = f"a batch of at most {fits}" if fits else "a smaller batch"
        return f"Use more GPUs, a smaller weight format, a shorter context or {least}."
    if "tpot" in breaks:
        return "Raise the limit on time per output token, lower the batch, or add tensor-parallel GPUs."
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
    found = space.candidates
    if not len(found):
        return {}
    weight, gpus = space.question.batch_weights[:, None], space.setup.placement.gpus
    speedup, tpot = (np.asarray(x[:, found], float) for x in (space.speedup, space.tpot_s))
    mean = (weight * tpot).sum(0)
    best: dict[Objective, int] = {
        "sd_speedup": int(found[((weight * speedup * tpot).sum(0) / mean).argmax()]),
        "tpot": int(found[mean.argmin()]),
        "tokens_per_s_per_gpu": int(found[(weight * tpot * gpus / space.question.batches[:, None]).sum(0).argmin()]),
    }
    described = candidates(space, list(best.values()))
    return dict(zip(best, described, strict=True))


def _disagreement(space: DesignSpace, best: dict[Objective, Candidate]) -> str:
    if not best:
        return ""
    ratio, fast = best["sd_speedup"], best["tpot"]
    if ratio.index == fast.index:
        return "Speedup and absolute speed recommend the same design here."
    question = space.question

    def told(one: Candidate) -> str:
        speedup, tpot_ms = question.mean_speedup(one.speedup, one.tpot_s), question.mean_tpot_s(one.tpot_s) * 1e3
        return f"{space.describe(one.index)}: {speedup:.2f}x, {tpot_ms:.2f} ms per token"

    return (
        f"Speedup is a ratio to the design's own plain decode. The highest ratio ({told(ratio)}) is not the fastest "
        f"design ({told(fast)}): a slow plain step leaves more to gain. Choose by absolute speed unless the ratio "
        "itself is the goal."
    )


def _binding_text(space: DesignSpace, binding: tuple[Binding, ...]) -> str:
    if space.best is None:
        return ""
    if not binding:
        return NOTHING_BINDS
    return f"{binding_start(space, binding[0])} would be {binding[0].gain - 1:.1%} better."


def binding_start(space: DesignSpace, first: Binding) -> str:
    """Start of a sentence with the limit that costs most and the design it rules out.

    The caller goes on with what that design brings.
    """
    return f"Of the limits besides equal quality, {first.text} costs most: without it, {space.describe(first.index)}"


def loss_text(item: Candidate) -> str:
    """Whether the law of loss differences puts a design behind the baseline, and what would make up for it."""
    if abs(item.loss_difference) < _SAME_LOSS:
        return "the baseline's own loss"
    share = abs(item.loss_as_active_params)
    if item.loss_difference < 0:
        return (
            f"better: its loss is {-item.loss_difference:.4f} nats per token lower than the baseline's, and with "
            f"{share:.0%} fewer active parameters it would be the same"
        )
    return (
        f"worse: its loss is {item.loss_difference:.4f} nats per token higher than the baseline's; {share:.0%} more "
        "active parameters would make up for it"
    )


def sensitivity_text(results: Sequence[Sensitivity]) -> str:
    """Sentence on how many changed assumptions would make another design the recommended one."""
    count, n = sum(item.flips for item in results), counted(len(results), "changed assumption")
    if not count:
        return f"Under each of {n}, the recommended design stays within {FLIP_REGRET:.0%} of the best."
    return (
        f"Under {count} of {n}, the recommended design is over {FLIP_REGRET:.0%} behind the best, or no longer allowed."
    )


_WISHES = {"n_experts": "experts", "n_active": "active experts", "n_shared": "shared experts"}


def _unmet_wishes(space: DesignSpace) -> list[str]:
    """A sentence for each value that the user wished to be tried and that no feasible design has, with the reason."""
    said = []
    for name, words in _WISHES.items():
        wished, values = getattr(space.grid, name), getattr(space, name)
        if wished == DesignGrid.model_fields[name].default:
            continue
        for value in (one for one in wished if not np.any(values[space.candidates] == one)):
            has = values == value
            broken = _broken(space)[has].sum(axis=0)
            reason = "no such design can be placed (k <= N, N divisible by the expert-parallel ranks)"
            if has.any():
                reason = f"{CONSTRAINT_TEXT[CONSTRAINTS[int(broken.argmax())]]} rules out most of {int(has.sum()):,}"
            said.append(f"No design with {value} {words} is feasible: {reason}.")
    return said


def _warnings(space: DesignSpace, chosen: Candidate | None, cautious: Candidate | None) -> tuple[str, ...]:
    warnings = [*space.notes, *_unmet_wishes(space)]
    if chosen is None:
        return tuple(warnings)
    question = space.question
    if chosen.quality_ratio_pessimistic < 1.0 - question.quality_eps:
        other = "No design keeps it by that law."
        if cautious is not None:
            gain = cautious.objective_gain
            other = (
                f"The best that keeps it by both: {space.describe(cautious.index)}, {gain.value:.2f}x "
                f"({gain.low:.2f}-{gain.high:.2f})."
            )
        warnings.append(
            f"By the pessimistic law the recommended design falls {1 - chosen.quality_ratio_pessimistic:.0%} short of "
            f"the baseline's dense-equivalent size: train a small pair before you commit. {other}"
        )
    if chosen.loss_as_active_params > 0.1:
        warnings.append(f"By the law of loss differences it is {loss_text(chosen)}.")
    if chosen.tokens_per_parameter is not None and chosen.tokens_per_parameter < TOKENS_PER_PARAMETER_WARNING:
        warnings.append(
            f"{chosen.tokens_per_parameter:.0f} training tokens per parameter: below about 20, reasoning is reported "
            "to suffer from sparsity (arXiv:2508.18672)."
        )
    if chosen.corners:
        warnings.append(f"At a corner of the search: {'; '.join(chosen.corners)}. A better design may lie beyond it.")
    if space.baseline_problem:
        warnings.append(space.baseline_problem)
    elif chosen.objective_gain.low <= 1.0:
        warnings.append("The band of the gain includes 1: the baseline may be as good.")
    elif chosen.tpot_gain.value < 1.0:
        warnings.append(f"It is {1 / chosen.tpot_gain.value:.2f} times slower per token than the baseline.")
    if question.objective == "cost_per_million_tokens":
        warnings.append(
            f"Cost at {question.price_usd_per_hour:g} USD per GPU-hour; it ranks designs as tokens/s per GPU."
        )
    if chosen.extrapolated:
        warnings.append("Outside the data: kernels are calibrated to 2048 tokens a step.")
    return tuple(dict.fromkeys(warnings))
