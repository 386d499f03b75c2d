"""The answer over any two settings of a scenario, each cell at its own best K unless K is one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from advisor.answers.explore.cells import sweep_rows
from advisor.catalog.hardware import drafter_name, hardware_called, measured_chips, model_name, own_drafter
from advisor.catalog.models import model_ids
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids, load_hardware, of_data_centre
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS
from advisor.prediction import AdvisorError, Array

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Choice of this project: batches that a map has. [-]"""
_CONTEXTS = (512, 2048, 8192, 32768, 131072)
_GPUS = (1, 2, 4, 8)
_FORMATS = ("bf16", "fp8", "nvfp4", "int4")
AXES = ("Batch", "Context", "K", "Accelerator", "GPUs", "Model", "Drafter", "Weight format")
FIGURES = ("speedup", "n_draft", "tpot_ms", "tokens_per_s_per_gpu")
"""Columns of a sweep that a cell has."""
_OF_EVERY_CURVE = ("batch_size", "n_draft")
"""What one curve runs over anyway."""


@dataclass(frozen=True)
class Explored:
    """Figures of the recommended K over two settings, [n down, n across], NaN where it cannot be."""

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: Mapping[str, Array]
    """By FIGURES."""

    @property
    def n_answers(self) -> int:
        """Cells that have an answer. [-]"""
        return int(np.isfinite(self.values["speedup"]).sum())


def explore(scenario: Scenario, across: str, down: str) -> Explored:
    """Answers over two of AXES, all else as the scenario says. Raises AdvisorError for one setting on both."""
    if across == down:
        raise AdvisorError(f"{across} is on both axes; choose another for one of them")
    base, batches = _base(scenario, {across, down}), BATCHES if "Batch" in (across, down) else (scenario.batch_size,)

    @cache
    def curve(settings: tuple[tuple[str, Any], ...]) -> dict[tuple[int, int | None], Array]:
        """FIGURES of what fits, by batch and K, None being the recommended one."""
        rows = sweep_rows([base | dict(settings)], batches)
        rows = rows[rows["fits"]]
        figures, best = rows[list(FIGURES)].to_numpy(float), rows[rows["recommended"]]
        by_k = dict(zip(zip(rows["batch_size"], rows["n_draft"], strict=True), figures, strict=True))
        return by_k | {
            (batch, None): by_k[batch, k] for batch, k in zip(best["batch_size"], best["n_draft"], strict=True)
        }

    def cell(settings: Mapping[str, Any]) -> Array:
        others = tuple((name, value) for name, value in settings.items() if name not in _OF_EVERY_CURVE)
        at = settings.get("batch_size", scenario.batch_size), settings.get("n_draft")
        return curve(others).get(at, np.full(len(FIGURES), np.nan))

    rows, columns = _stops(scenario, down), _stops(scenario, across)
    values = np.moveaxis(np.array([[cell(row | column) for column in columns.values()] for row in rows.values()]), 2, 0)
    return Explored(across, down, tuple(columns), tuple(rows), dict(zip(FIGURES, values, strict=True)))


def _base(scenario: Scenario, axes: set[str]) -> dict[str, Any]:
    """The scenario's settings without its batch, and without what belongs to a setting that an axis changes."""
    found = {name: value for name, value in scenario.model_dump().items() if value is not None and name != "batch_size"}
    if axes <= {"Batch", "K", "Context"}:
        return found
    kept = {"Model": "hardware_json", "Accelerator": "model_config_json"}
    dropped = {name for name in DOCUMENTS if any(axis in kept and kept[axis] != name for axis in axes)}
    dropped |= {name for name, row in FIELDS.items() if row.is_private and name not in DOCUMENTS}
    return {name: value for name, value in found.items() if name not in dropped}


def _stops(scenario: Scenario, axis: str) -> dict[str, dict[str, Any]]:
    """What an axis changes at each of its stops, by the stop's name."""
    if axis == "Batch":
        return {f"{batch:,}": {"batch_size": batch} for batch in BATCHES}
    if axis == "Context":
        least = scenario.input_tokens or 1
        return {
            f"{one:,}": {"context_tokens": one} for one in sorted({*_CONTEXTS, scenario.context_tokens}) if one >= least
        }
    if axis == "K":
        return {str(k): {"n_draft": k} for k in range(1, scenario.k_max + 1)}
    if axis == "GPUs":
        return {
            str(n): {"n_gpus": n, "tensor_parallel": n, "expert_parallel": 1} for n in sorted({*_GPUS, scenario.n_gpus})
        }
    if axis == "Accelerator":
        names = [scenario.hardware_id, *(name for name in measured_chips() if of_data_centre(load_hardware(name)))]
        names = [name for name in dict.fromkeys(names) if name in hardware_ids()]
        return {hardware_called(name, None): {"hardware_id": name} for name in names}
    if axis == "Model":
        measured = dict.fromkeys([scenario.model_id, *(curve.model_id for curve in acceptance_curves())])
        return {model_name(name): _of_model(scenario, name) for name in measured if name in model_ids()}
    if axis == "Drafter":
        return {
            drafter_name(name): _drafted(scenario, scenario.model_id, name) for name in drafter_ids() if name != "none"
        }
    return {one: {"weight_dtype": one, "expert_dtype": one} for one in _FORMATS}


def _of_model(scenario: Scenario, model_id: str) -> dict[str, Any]:
    """A model with its own draft module, where it has one, else the scenario's drafter or EAGLE-3."""
    drafter = own_drafter(model_id) or ("eagle3" if scenario.drafter_id == "mtp" else scenario.drafter_id)
    return {"model_id": model_id} | _drafted(scenario, model_id, drafter)


def _drafted(scenario: Scenario, model_id: str, drafter_id: str) -> dict[str, Any]:
    """A drafter with the accepted length measured with it; the user's own number stays."""
    curves = {curve.id: curve for curve in acceptance_curves()}
    acceptance = scenario.acceptance
    if acceptance in curves:
        near = [one for one in curves.values() if one.drafter_id == drafter_id]
        own = [one for one in near if one.model_id == model_id]
        acceptance = (own or near or [curves[acceptance]])[0].id
    return {"drafter_id": drafter_id, "acceptance": acceptance}
