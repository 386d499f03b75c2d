"""How far the advisor was off on published points that share the scenario's accelerator or model."""

from __future__ import annotations

import pandas as pd

from advisor.scenario import Scenario
from advisor.store import Store, published_points
from advisor.validation import Errors, errors_of, validate


def judged_points(store: Store) -> pd.DataFrame:
    """Every published speedup that can be predicted, with prediction and error; sources of a fit predicted without it.

    The same for every scenario, and slow: about ten seconds, for the fits without each source. Raises AdvisorError
    when the store cannot be read.
    """
    points = published_points(store)
    if points.empty:
        return pd.DataFrame(columns=["hardware_id", "model_id"])
    rows = validate(points).rows
    judged = rows[rows["absolute_percentage_error"].notna()]
    return judged.assign(measured=pd.to_numeric(judged["speedup"]))


def published_ids(scenario: Scenario) -> tuple[str | None, str | None]:
    """Accelerator and model under which points of the scenario are published; None for one that the user gave."""
    hardware_id = None if scenario.hardware_json else scenario.hardware_id
    return hardware_id, None if scenario.model_config_json else scenario.model_id


def applicable_errors(judged: pd.DataFrame, hardware_id: str | None, model_id: str | None) -> dict[str, Errors]:
    """Errors by group, nearest first; groups without a point are left out.

    `judged` is from `judged_points`; the ids are from `published_ids`, None where no published point can be of it.
    """
    here = judged["hardware_id"] == hardware_id
    same = judged["model_id"] == model_id
    groups = {
        "this accelerator and model": here & same,
        "this accelerator, other models": here & ~same,
        "this model, other accelerators": same & ~here,
        "all published points": here | ~here,
    }
    return {name: errors_of(judged[mask]) for name, mask in groups.items() if mask.any()}
