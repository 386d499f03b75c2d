"""How far the advisor was off on published points that share the scenario's accelerator or model."""

from __future__ import annotations

from advisor.points import Errors
from advisor.scenario import Scenario
from advisor.validation import judged_errors, read_judged


def published_ids(scenario: Scenario) -> tuple[str | None, str | None]:
    """Accelerator and model under which points of the scenario are published; None for one that the user gave."""
    hardware_id = None if scenario.hardware_json else scenario.hardware_id
    return hardware_id, None if scenario.model_config_json else scenario.model_id


def applicable_errors(hardware_id: str | None, model_id: str | None) -> dict[str, Errors]:
    """Errors by group, nearest first; groups without a point are left out.

    The ids are from `published_ids`, None where no published point can be of it. Raises AdvisorError when the judged
    rows cannot be read.
    """
    _, judged = read_judged()
    here = judged["hardware_id"] == hardware_id
    same = judged["model_id"] == model_id
    groups = {
        "this accelerator and model": here & same,
        "this accelerator, other models": here & ~same,
        "this model, other accelerators": same & ~here,
        "all published points": here | ~here,
    }
    return {name: judged_errors(judged[mask]) for name, mask in groups.items() if mask.any()}
