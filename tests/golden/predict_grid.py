"""A fixed grid of predictions, so that a change of the model shows what it moves.

`python -m tests.golden.predict_grid` prints old against new (`make predict-diff`); `--write`
accepts the new ones. The grid: accelerators and models of each confidence, at K = 3 and three batch
sizes. What is pinned stays in it, so that a new profile prints no difference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

from advisor.catalog.models import load_model, model_ids
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario

FILE = Path(__file__).with_name("predictions.json")
BATCHES = (1, 16, 128)
N_DRAFT = 3
PER_CONFIDENCE = 5


def chosen(ids: list[str], confidence_of: dict[str, str], pinned: Collection[str]) -> list[str]:
    """Five of each confidence, those pinned first, then spread over the sorted ids; all where there
    are fewer."""
    picked: list[str] = []
    for confidence in ("high", "medium", "low"):
        group = [name for name in ids if confidence_of[name] == confidence]
        kept = [name for name in group if name in pinned]
        new = [name for name in group if name not in pinned]
        missing = max(0, PER_CONFIDENCE - len(kept))
        picked += kept + new[:: max(1, len(new) // PER_CONFIDENCE)][:missing]
    return picked


def scenarios() -> dict[str, Scenario]:
    """One scenario for each chosen profile: accelerators with one model, models on one
    accelerator."""
    hardware = {name: load_hardware(name).confidence for name in hardware_ids()}
    models = {name: load_model(name).confidence for name in model_ids()}
    pinned = {key.partition("/")[2] for key in pinned_predictions()}
    base = Scenario(acceptance="2.4@3", k_max=N_DRAFT, drafter_id="eagle3")
    grid = {
        f"hardware/{name}": base.model_copy(update={"hardware_id": name})
        for name in chosen(list(hardware), dict(hardware), pinned)
    }
    grid |= {
        f"model/{name}": base.model_copy(
            update={"model_id": name, "n_gpus": 8, "tensor_parallel": 8}
        )
        for name in chosen(list(models), dict(models), pinned)
    }
    return grid


def pinned_predictions() -> dict[str, list[float]]:
    """The accepted grid, or an empty one."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def predictions() -> dict[str, list[float]]:
    """Speedup at K = 3 over BATCHES for each scenario of the grid."""
    return {
        name: [
            float(f"{value:.5g}")
            for value in speedup_curve(scenario, BATCHES, [N_DRAFT]).speedup[:, 0]
        ]
        for name, scenario in scenarios().items()
    }


def main() -> None:
    """Print what moved; with --write, accept it."""
    old = pinned_predictions()
    new = predictions()
    print(f"speedup at K = {N_DRAFT}, batch {', '.join(map(str, BATCHES))}")
    for name, values in new.items():
        before = old.get(name)
        if before != values:
            change = (
                "new"
                if before is None
                else " ".join(f"{b / a - 1:+.1%}" for a, b in zip(before, values, strict=True))
            )
            print(f"{name:36s} {before or '-'} -> {values}  {change}")
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
