"""How the scenario's own expert design stands against the best at equal quality, and the designs worth a try."""

from __future__ import annotations

import json
from dataclasses import dataclass

from advisor.design import (
    MAX_MEASURED_GAP,
    Band,
    Candidate,
    DesignSpace,
    best_by_objective,
    design_config,
    design_name,
    design_space,
)
from advisor.next_steps.changes import Change
from advisor.prediction import AdvisorError
from advisor.runtime import MIN_GAIN
from advisor.scenario import Scenario, build_scenario
from advisor.setup import Setup

_NOTES = (
    "Another model to train: quality is held equal by published scaling laws.",
    "Routing is assumed to move with the design; as a scenario of its own it takes its class's default.",
)


@dataclass(frozen=True)
class DesignStanding:
    """The scenario's design against the best for speedup and the best for time per token, at equal quality."""

    space: DesignSpace
    best: Candidate
    fastest: Candidate
    text: str
    """One sentence for the head of an answer."""


def design_is_searched(setup: Setup) -> bool:
    """Whether other expert designs can be held against this scenario's: it needs experts and a drafter."""
    return setup.architecture.moe is not None and setup.drafter.kind != "none"


def design_standing(setup: Setup) -> DesignStanding | None:
    """None where designs are not searched, or where none keeps every limit."""
    if not design_is_searched(setup):
        return None
    try:
        space = design_space(setup)
    except AdvisorError:
        return None
    found = best_by_objective(space)
    if not found:
        return None
    best, fastest = found["sd_speedup"], found["tpot"]
    if abs(space.measured_gap) > MAX_MEASURED_GAP:
        text = (
            f"Its experts were measured, and a plain step differs by {space.measured_gap:+.0%} from the fit by which "
            "other designs are costed: they are not ranked against it here."
        )
    else:
        text = _sentence(space, best, fastest)
    return DesignStanding(space, best, fastest, text)


def k_over_n(item: Candidate) -> str:
    """A design's experts in the notation of the field: `k/N = 6/160 + 1 shared`."""
    shared = f" + {item.n_shared:.3g} shared" if item.n_shared else ""
    return f"k/N = {item.n_active}/{item.n_experts}{shared}"


def _sentence(space: DesignSpace, best: Candidate, fastest: Candidate) -> str:
    """How much the design loses in speedup and in time per token, at equal quality."""
    found = [("speedup", best, best.speedup_gain), ("time per token", fastest, fastest.tpot_gain)]
    if space.baseline_problem:
        return f"{space.baseline_problem} {_of_those_that_serve(best, fastest)}"
    losses = [
        f"to {k_over_n(item)}{_weights(space, item)} by {_loss(gain)} in {what}"
        for what, item, gain in found
        if _beyond_noise(gain)
    ]
    if losses:
        rest = ""
        if len(losses) == 1:
            near = next(what for what, _, gain in found if not _beyond_noise(gain))
            rest = f"; its {near} is within noise of the best"
        return f"Your design loses {', and '.join(losses)}, at equal quality{rest}."
    edges = [f"{what} at most {max(0.0, 1 - 1 / gain.value):.0%} below {k_over_n(item)}" for what, item, gain in found]
    return f"Your design is within noise of the best at equal quality: {', '.join(edges)}."


def _weights(space: DesignSpace, item: Candidate) -> str:
    """The design's weights over the scenario's own, where they differ: a reader may have held them fixed."""
    ratio = item.total_params / space.baseline.total_params
    return f" ({ratio:.2f} times the weights)" if abs(ratio - 1.0) > _SAME_SIZE else ""


_SAME_SIZE = 0.05
"""Relative difference of total parameters that is not told (choice of this project). [-]"""


def _of_those_that_serve(best: Candidate, fastest: Candidate) -> str:
    """What the designs offer that can serve where the scenario's own cannot, at equal quality."""
    other = "" if fastest.index == best.index else f"{k_over_n(fastest)} "
    return (
        f"Of designs that do, at equal quality, {k_over_n(best)} has {best.speedup_gain.value:.2f} times its speedup "
        f"and {other}is {fastest.tpot_gain.value:.2f} times as fast per token."
    )


def _beyond_noise(gain: Band) -> bool:
    return gain.low > 1.0 and gain.value >= 1.0 + MIN_GAIN


def _loss(gain: Band) -> str:
    """What the baseline lacks of the better design, with the band: 1.10 times as good is a loss of 9 %."""
    return f"{1 - 1 / gain.value:.0%} ({1 - 1 / gain.low:.0%}-{1 - 1 / gain.high:.0%})"


def design_changes(scenario: Scenario, standing: DesignStanding) -> list[tuple[Change, Candidate]]:
    """The best design for speedup and the best for time per token, as changes that can be applied.

    None where the baseline's own measured rows are far from the form: the comparison would be of kernels, not designs.
    """
    space = standing.space
    if abs(space.measured_gap) > MAX_MEASURED_GAP:
        return []
    chosen = {item.index: item for item in (standing.fastest, standing.best)}
    notes = (*_NOTES, space.measured_note) if space.measured_note else _NOTES
    made = []
    for index, item in chosen.items():
        try:
            change = Change("design", f"train {space.describe(index)}", _adopted(scenario, space, item), notes)
        except AdvisorError:
            continue  # its config.json cannot be written, so it cannot be made the scenario; the Design page says why
        made.append((change, item))
    return made


def _adopted(scenario: Scenario, space: DesignSpace, item: Candidate) -> Scenario:
    """The scenario with the design as its model, as a user's own configuration."""
    values = {"model_id": design_name(space, item), "model_config_json": json.dumps(design_config(space, item.index))}
    return build_scenario(**(dict(scenario) | values))
