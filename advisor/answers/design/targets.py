"""One design for several targets, an accelerator and a batch each: the same designs at every one.

Every design is costed at each target by its own search; the one that loses least against each
target's own best, on the mean, is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from advisor.answers.design.candidates import SHAPE_LOG_SD, Band, candidates
from advisor.answers.design.dials import Experts, experts_of
from advisor.answers.design.grid import DesignGrid, mixes, widths
from advisor.answers.design.search import design_space
from advisor.answers.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.answers.flags import Flags
from advisor.physics.hardware import hardware_ids
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError

MAX_TARGETS = 16
"""Targets of one question: each costs as much as a whole search. [-]"""
TIE = SHAPE_LOG_SD
"""A smaller loss counts as none: it is what the fit misses of one expert shape's kernels. [-]"""
WhyNot = Literal["memory", "tpot", "limits"]
"""What no design keeps at a target: memory, the limit on time per token, or the others."""
_PLACE = re.compile(r"((?P<gpus>[1-9][0-9]{0,2})x)?(?P<id>[A-Za-z0-9][\w.-]{0,99})")
_TARGET = re.compile(r"(?P<place>[^:]+):(?P<batch>[0-9]{1,6})")


@dataclass(frozen=True)
class Place:
    """Accelerators that one instance of the model runs on."""

    hardware_id: str
    gpus: int | None = None
    """GPUs that share each matrix; None: placed as the scenario says. [-]"""

    def __str__(self) -> str:
        return self.hardware_id if self.gpus is None else f"{self.gpus}x{self.hardware_id}"


def parse_place(text: str, own: str = "") -> Place:
    """Read a place such as `h100-sxm`, or `2xh100-sxm` for two that share each matrix.

    A short name with spaces and capitals, `H100 SXM`, is its id. Raises AdvisorError for an unknown
    accelerator.

    own : the scenario's, which may be the user's own.
    """
    match = _PLACE.fullmatch(text.strip())
    known = {*hardware_ids(), own}
    if match is None or match["id"] not in known:  # a name as a page shows it: `H100 SXM`
        match = _PLACE.fullmatch(text.strip().lower().replace(" ", "-"))
    if match is None or match["id"] not in known:
        raise AdvisorError(
            f"accelerator {text[:80]!r} is unknown; give an id of `advisor hardware`, e.g. "
            "h100-sxm, or 2xh100-sxm for two that share each matrix"
        )
    return Place(match["id"], None if match["gpus"] is None else int(match["gpus"]))


@dataclass(frozen=True)
class Target:
    """An accelerator and the batch it is to serve."""

    place: Place
    batch: int

    def __str__(self) -> str:
        return f"{self.place}:{self.batch}"


def parse_target(text: str, own: str = "") -> Target:
    """Read a target such as `h100-sxm:8` or `2xb200-sxm:128`. Raises AdvisorError for anything
    else."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or not 1 <= int(match["batch"]) <= MAX_BATCH:
        raise AdvisorError(
            f"target {text[:80]!r} is no ACCELERATOR:BATCH, e.g. h100-sxm:8 or 2xb200-sxm:128"
        )
    return Target(parse_place(match["place"], own), int(match["batch"]))


def parse_targets(texts: Sequence[str], own: str = "") -> tuple[Target, ...]:
    """Different targets, in the order given. Raises AdvisorError for one that is none, or too
    many."""
    targets = tuple(dict.fromkeys(parse_target(text, own) for text in texts))
    if not 1 <= len(targets) <= MAX_TARGETS:
        raise AdvisorError(f"{len(targets)} targets: give 1 to {MAX_TARGETS}")
    return targets


@dataclass(frozen=True)
class AtTarget:
    """The one design at one target, beside the design that is best there."""

    target: Target
    why_not: WhyNot | None
    """Why no design serves this target. None where one does."""
    best: Experts | None = None
    """The target's own best design. None where none serves it."""
    best_tpot_s: float | None = None
    n_draft: int | None = None
    """K of the one design here. None, like all below, where there is none. [tokens]"""
    tpot_s: float | None = None
    loss: float | None = None
    """Objective that it gives away to the target's own best. [0 to 1]"""
    gain: Band | None = None
    """Objective over the baseline's. None where the two cannot be compared."""


@dataclass(frozen=True)
class OneDesign:
    """The one design for several targets."""

    scenario: Scenario
    spaces: tuple[DesignSpace, ...]
    """A search for each target, all of the same designs."""
    index: int | None
    """The design, into every space. None where none serves every target."""
    at: tuple[AtTarget, ...]
    """In the order of the targets."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the verdict: the design, its mean and largest loss and where that is."""
        losses = [(each.loss, str(each.target)) for each in self.at if each.loss is not None]
        worst, worst_at = max(losses, default=(None, None))
        shape = None if self.index is None else experts_of(self.spaces[0], self.index)
        return {
            "design": shape,
            "mean_loss": float(np.mean([loss for loss, _ in losses])) if losses else None,
            "worst_loss": worst,
            "worst_at": worst_at,
            "n_targets": len(self.at),
            "n_blocked": sum(each.why_not is not None for each in self.at),
            "is_baseline": shape is not None and self.index == self.spaces[0].baseline_index(),
            "tie": TIE,
        }


ONE_DESIGN_FACTS = frozenset(
    (
        "design",
        "is_baseline",
        "mean_loss",
        "worst_loss",
        "worst_at",
        "n_targets",
        "n_blocked",
        "tie",
    )
)
ONE_DESIGN_FLAGS: Flags = {
    "serves": ("design", "known", None),
    "from_baseline": ("is_baseline", "==", True),
    "blocked": ("n_blocked", ">", 0),
    "all_tied": ("worst_loss", "<", TIE),
}


def one_design(
    scenario: Scenario,
    targets: Sequence[Target],
    *,
    grid: DesignGrid | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **question: Any,
) -> OneDesign:
    """The design of least mean loss over the targets. Each target counts alike.

    question : as of `design_space`, asked at every target. on_progress : gets the share done. [-]

    Raises AdvisorError as `design_space` does.
    """
    if question.get("objective") == "cost_per_million_tokens":
        # On one accelerator cost ranks as throughput, and not every accelerator has a price.
        question |= {"objective": "tokens_per_s_per_gpu", "price_usd_per_hour": None}
    setups = [_loaded_at(scenario, target.place) for target in targets]
    same = _same_designs(grid or DesignGrid(), setups)
    spaces: list[DesignSpace] = []
    for setup, target in zip(setups, targets, strict=True):
        on_progress(len(spaces) / len(setups))
        spaces.append(design_space(setup, batches=[target.batch], grid=same, **question))
    on_progress(1.0)
    scores = np.stack([np.where(space.failed == 0, space.score, 0.0) for space in spaces])
    best = scores.max(axis=1, initial=0.0)
    index = None
    if scores.size and best.all() and (scores > 0.0).all(axis=0).any():
        losses = np.where(scores > 0.0, 1.0 - scores / best[:, None], np.inf)
        index = int(losses.mean(axis=0).argmin())
    rows = tuple(
        _at_target(space, target, index) for space, target in zip(spaces, targets, strict=True)
    )
    return OneDesign(scenario, tuple(spaces), index, rows)


def _at_target(space: DesignSpace, target: Target, index: int | None) -> AtTarget:
    if space.best is None:
        return AtTarget(target, _why_not(space))
    best = experts_of(space, space.best), float(space.tpot_s[0, space.best])
    if index is None:
        return AtTarget(target, None, *best)
    (item,) = candidates(space, [index])
    comparable = not space.baseline_problem and abs(space.measured_gap) <= MAX_MEASURED_GAP
    loss = 1.0 - float(space.score[index] / space.score[space.best])
    gain = item.objective_gain if comparable else None
    return AtTarget(target, None, *best, item.n_draft[0], item.tpot_s[0], loss, gain)


def _why_not(space: DesignSpace) -> WhyNot:
    keeps = space.keeps_apart_from("memory", "tpot")
    if not keeps.any():
        return "limits"
    fits = keeps & (space.largest_batch >= space.question.batches[0])
    return "tpot" if fits.any() else "memory"


def _loaded_at(scenario: Scenario, place: Place) -> Setup:
    """The scenario loaded on another accelerator. Raises AdvisorError, with its name, where that
    cannot be.

    A refit and a data sheet of the user's own belong to the scenario's accelerator and stay with
    it; loads of experts belong to its own model and say nothing of other designs.
    """
    scenario = scenario.on_assumed_ranks()
    moved: dict[str, Any] = {}
    if place.hardware_id != scenario.hardware_id:
        moved = {"hardware_id": place.hardware_id, "hardware_json": None, "refit": None}
    if place.gpus is not None:
        experts = place.gpus if scenario.expert_parallel > 1 else 1
        moved |= {"n_gpus": place.gpus, "tensor_parallel": place.gpus, "expert_parallel": experts}
    try:
        changed = dict(scenario) | scenario.moved(moved)
        return load_setup(build_scenario(**changed) if moved else scenario)
    except AdvisorError as error:
        raise AdvisorError(f"{place}: {error}") from error


def _same_designs(grid: DesignGrid, setups: Sequence[Setup]) -> DesignGrid:
    """The grid with the widths and numbers of experts that every placement can hold."""
    placements = {setup.placement for setup in setups}
    architecture = setups[0].architecture
    if len(placements) == 1 or architecture.moe is None:
        return grid
    steps = [set(widths(grid, architecture, placement).tolist()) for placement in placements]
    experts = [
        set(mixes(grid, architecture.moe, placement).n_experts.tolist()) for placement in placements
    ]
    common = {
        "expert_width": tuple(map(int, sorted(set.intersection(*steps)))),
        "n_experts": tuple(map(int, sorted(set.intersection(*experts)))),
    }
    return grid.model_copy(update=common)
