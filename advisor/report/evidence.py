"""How far the advisor was off on published points that share the scenario's accelerator or model."""

from __future__ import annotations

import pandas as pd

from advisor.scenario import Scenario
from advisor.store import Store, published_points
from advisor.validation import Errors, errors_of, validate


def applicable_errors(scenario: Scenario, store: Store) -> dict[str, Errors]:
    """Errors on published speedups by group, nearest first; groups without a point that can be predicted are left out.

    Groups: this accelerator and model, this accelerator, this model, all published points. A model given by the user
    has no published point of its own. Raises AdvisorError when the store cannot be read.
    """
    points = published_points(store)
    if points.empty:
        return {}
    rows = validate(points).rows
    judged = rows[rows["absolute_percentage_error"].notna()]
    judged = judged.assign(measured=pd.to_numeric(judged["speedup"]))
    here = judged["hardware_id"] == scenario.hardware_id
    own = scenario.model_config_json is not None
    same = (judged["model_id"] == scenario.model_id) & (not own)
    groups = {
        "this accelerator and model": here & same,
        "this accelerator, other models": here & ~same,
        "this model, other accelerators": same & ~here,
        "all published points": here | ~here,
    }
    return {name: errors_of(judged[mask]) for name, mask in groups.items() if mask.any()}
