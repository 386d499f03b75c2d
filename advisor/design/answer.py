"""The answer to a design question, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.design.candidates import Candidate, candidates
from advisor.design.curves import DesignCurve, design_curves
from advisor.design.grid import DesignGrid
from advisor.design.question import CONSTRAINT_TEXT, CONSTRAINTS, Objective
from advisor.design.routing_shift import NOTE as ROUTING_NOTE
from advisor.design.sensitivity import FLIP_REGRET, Sensitivity, cautious_best, sensitivity
from advisor.design.space import DesignSpace
from advisor.design.sweeps import (
    DesignChange,
    DesignLine,
    HeatMap,
    distinct_candidates,
    granularity_sweep,
    heat_map,
    pareto_front,
    shared_sweep,
    try_next,
)
from advisor.design.title import is_clear, title
from advisor.quality import LIMITS, TOKENS_PER_PARAMETER_WARNING
from advisor.text import counted

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
        limits=(*LIMITS, ROUTING_NOTE),
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
