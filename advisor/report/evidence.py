"""How far the advisor was off on published points that share the scenario's accelerator or model."""

from __future__ import annotations

import pandas as pd

from advisor.store import Store, published_points
from advisor.validation import Errors, errors_of, validate


def applicable_errors(store: Store, hardware_id: str, model_id: str | None) -> dict[str, Errors]:
    """Errors on published speedups by group, nearest first; groups without a point that can be predicted are left out.

    `model_id` is None for a model that the user gave: it has no published point of its own. Raises AdvisorError when
    the store cannot be read.
    """
    points = published_points(store)
    if points.empty:
        return {}
    rows = validate(points).rows
    judged = rows[rows["absolute_percentage_error"].notna()]
    judged = judged.assign(measured=pd.to_numeric(judged["speedup"]))
    here = judged["hardware_id"] == hardware_id
    same = judged["model_id"] == model_id
    groups = {
        "this accelerator and model": here & same,
        "this accelerator, other models": here & ~same,
        "this model, other accelerators": same & ~here,
        "all published points": here | ~here,
    }
    return {name: errors_of(judged[mask]) for name, mask in groups.items() if mask.any()}
