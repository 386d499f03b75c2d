"""How a design stands against the start, as one record of facts: gain, quality by law, the limit
that the start misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from advisor.answers.design.candidates import (
    Candidate,
    LawQuality,
    is_clear,
    keeps_baseline,
    own_design,
)
from advisor.answers.design.dials import Experts, baseline_experts, experts_of
from advisor.answers.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.answers.flags import Flags


@dataclass(frozen=True)
class DesignRecord:
    """Facts of the best design beside the start. None where no design keeps every limit."""

    objective: str
    batches: tuple[float, ...]
    place: str
    """Name of the GPUs."""
    drafter: str | None
    """Id of the drafter. None without one."""
    n_candidates: int
    start: Experts
    start_k: tuple[int, ...]
    start_ms: float
    """Time per output token, mean over the batches. [ms]"""
    start_value: float
    """Objective in its unit."""
    start_total: float
    problem: Literal["memory", "tpot"] | None
    """Limit that the start misses."""
    target_batch: int
    start_largest: int
    """Largest batch of the start that fits in memory. [sequences]"""
    start_slowest_ms: float
    limit_ms: float | None
    gap: float
    """Measured baseline step over the fit's, less 1, without its sign. [-]"""
    gap_large: bool
    """Whether that is too much to compare designs."""
    keeps: bool = False
    """Whether the answer is to keep the start."""
    clear: bool = False
    """Whether the best is better throughout its range and no slower per token."""
    same: bool = False
    """Whether the best is the start itself."""
    best: Experts | None = None
    best_body: str | None = None
    """Depth and heads, where they are not the start's."""
    best_k: tuple[int, ...] = ()
    best_ms: float | None = None
    best_value: float | None = None
    best_total: float | None = None
    best_active: float | None = None
    growth: float | None = None
    """Total parameters over the start's. [-]"""
    gain: float | None = None
    """Objective over the start's; above 1 is better, also for times and costs. [-]"""
    gain_low: float | None = None
    gain_high: float | None = None
    tpot_gain: float | None = None
    quality: tuple[LawQuality, ...] = ()
    training_cost: float | None = None
    """Training compute at equal tokens over the start's. [-]"""
    training_flop: float | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name, and how far a slower or faster design is from the start per token."""
        ratio = self.tpot_gain
        factor = None if ratio is None else max(ratio, 1.0 / ratio)
        plain: Mapping[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**plain, "tpot_factor": factor, "from_nothing": False, "start_name": "today"}


FACTS = frozenset(field.name for field in fields(DesignRecord)) | {
    *("tpot_factor", "from_nothing", "start_name"),
}
_TRUE = ("clear", "same", "gap_large", "from_nothing")
_OBJECTIVES = ("tpot", "sd_speedup", "tokens_per_s_per_gpu")
_COMPARED: Flags = {
    "memory": ("problem", "==", "memory"),
    "nothing_fits": ("start_largest", "==", 0),
    "surely_better": ("gain_low", ">", 1.0),
    "slower": ("tpot_gain", "<", 1.0),
    "below_even": ("gain", "<", 0.995),
    "above_even": ("gain", ">=", 1.005),
}
FLAGS: Flags = {
    **{f"by_{name}": ("objective", "==", name) for name in _OBJECTIVES},
    **{name: (name, "==", True) for name in _TRUE},
    **_COMPARED,
    "feasible": ("best", "known", None),
    "problem": ("problem", "known", None),
    "drafts": ("drafter", "known", None),
    "body": ("best_body", "known", None),
    "flop": ("training_flop", "known", None),
}


def standing_of(space: DesignSpace, best: Candidate | None) -> DesignRecord:
    """The record of a search and its best design."""
    question = space.question
    drafter = space.setup.drafter
    of_best: dict[str, Any] = {}
    if best is not None:
        of_best = {
            **_best_facts(space, best),
            **_gain_facts(best),
            "keeps": keeps_baseline(space, best),
            "clear": is_clear(space, best),
            "same": own_design(space, best),
        }
    return DesignRecord(
        **_start_facts(space),
        **_problem_facts(space),
        **of_best,
        objective=question.objective,
        batches=tuple(question.batches.tolist()),
        place=space.setup.place,
        drafter=None if drafter.kind == "none" else drafter.id,
        n_candidates=len(space.candidates),
    )


def _start_facts(space: DesignSpace) -> dict[str, Any]:
    served = space.baseline.served
    return {
        "start": baseline_experts(space),
        "start_k": tuple(served.n_draft[:, 0].tolist()),
        "start_ms": space.question.mean_tpot_s(served.tpot_s[:, 0]) * 1e3,
        "start_value": space.question.value(space.baseline.score),
        "start_total": space.baseline.total_params,
    }


def _problem_facts(space: DesignSpace) -> dict[str, Any]:
    """Whether the start serves the question and can be compared."""
    limit_s = space.question.max_tpot_s
    gap = abs(space.measured_gap)
    return {
        "problem": space.baseline_problem,
        "target_batch": int(space.question.batches.max()),
        "start_largest": space.setup.memory.largest_batch,
        "start_slowest_ms": float(space.baseline.served.tpot_s[:, 0].max()) * 1e3,
        "limit_ms": None if limit_s is None else limit_s * 1e3,
        "gap": gap,
        "gap_large": gap > MAX_MEASURED_GAP,
    }


def _gain_facts(best: Candidate) -> dict[str, Any]:
    gain = best.objective_gain
    return {
        "gain": gain.value,
        "gain_low": gain.low,
        "gain_high": gain.high,
        "tpot_gain": best.tpot_gain.value,
    }


def _best_facts(space: DesignSpace, best: Candidate) -> dict[str, Any]:
    return {
        "best": experts_of(space, best.index),
        "best_body": space.body_name(best.index),
        "best_k": best.n_draft,
        "best_ms": space.question.mean_tpot_s(best.tpot_s) * 1e3,
        "best_value": best.objective,
        "best_total": best.total_params,
        "best_active": best.active_params,
        "growth": best.total_params / space.baseline.total_params,
        "quality": best.quality,
        "training_cost": best.training_cost,
        "training_flop": best.training_flop,
    }
