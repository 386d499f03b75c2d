"""The answer over any two settings: one question of the engine of sweeps, as a map and as a table.

How often a stated chance of a gain came true, as a chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from advisor.answers.explore.cells import sweep_rows
from advisor.catalog.hardware import drafter_name, hardware_called, measured_chips, model_name, own_drafter
from advisor.catalog.models import model_ids
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids, load_hardware, of_data_centre
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS
from advisor.prediction import AdvisorError, Array
from advisor.show.charts.figure import BLUE, NEUTRAL, Chart, add_gain_map, new_figure

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Choice of this project: batches that a map has. [-]"""
_CONTEXTS = (512, 2048, 8192, 32768, 131072)
_GPUS = (1, 2, 4, 8)
_FORMATS = ("bf16", "fp8", "nvfp4", "int4")
AXES = ("Batch", "Context", "K", "Accelerator", "GPUs", "Model", "Drafter", "Weight format")
SHOWN: Mapping[str, tuple[str, str, str]] = {
    "Speedup": ("speedup", "{:.2f}×", "%.2f×"),
    "Best K": ("n_draft", "{:.0f}", "%d"),
    "ms/token": ("tpot_ms", "{:.3g}", "%.3g"),
    "Tokens/s/GPU": ("tokens_per_s_per_gpu", "{:,.0f}", "localized"),
}
"""What a cell shows: its column of a sweep, how it is written, and the same as a table's number format."""


@dataclass(frozen=True)
class Explored:
    """Figures of the recommended K over two settings, [n down, n across], NaN where it cannot be."""

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: Mapping[str, Array]
    """By column of a sweep."""

    @property
    def n_answers(self) -> int:
        """Cells that have an answer. [-]"""
        return int(np.isfinite(self.values["speedup"]).sum())


def explore(scenario: Scenario, across: str, down: str) -> Explored:
    """Answers over two of AXES, all else as the scenario says. Raises AdvisorError for one setting on both."""
    if across == down:
        raise AdvisorError(f"{across} is on both axes; choose another for one of them")
    stops = {axis: _stops(scenario, axis) for axis in (down, across)}
    base = _base(scenario, {across, down})
    frames: dict[tuple[str, ...], _Cells] = {}
    found: dict[str, list[float]] = {name: [] for name, _, _ in SHOWN.values()}
    for names in product(*stops.values()):
        changed = [stops[axis][name] for axis, name in zip(stops, names, strict=True)]
        batch, k = (next((one[inner] for one in changed if inner in one), None) for inner in _INNER)
        outer = tuple(name for name, one in zip(names, changed, strict=True) if not one.keys() & set(_INNER))
        if outer not in frames:
            settings = {name: value for one in changed for name, value in one.items() if name not in _INNER}
            batches = BATCHES if "Batch" in stops else (scenario.batch_size,)
            frames[outer] = _cells(sweep_rows([base | settings], batches))
        row = frames[outer].get((batch or scenario.batch_size, k), {})
        for name, column in found.items():
            column.append(row.get(name, np.nan))
    shape = len(stops[down]), len(stops[across])
    values = {name: np.array(column).reshape(shape) for name, column in found.items()}
    return Explored(across, down, tuple(stops[across]), tuple(stops[down]), values)


_INNER = ("batch_size", "n_draft")
"""What every curve runs over anyway."""


_Cells = Mapping[tuple[int, int | None], Mapping[str, float]]
"""Figures by batch and K, None being the recommended one; what does not fit is left out."""


def _cells(frame: pd.DataFrame) -> _Cells:
    found: dict[tuple[int, int | None], Mapping[str, float]] = {}
    named = [name for name, _, _ in SHOWN.values()]
    columns = [frame[name].tolist() for name in ("batch_size", "n_draft", "recommended", "fits", *named)]
    for batch, k, is_recommended, fits, *figures in zip(*columns, strict=True):
        if fits:
            found[batch, k] = dict(zip(named, figures, strict=True))
            if is_recommended:
                found[batch, None] = found[batch, k]
    return found


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


def explored_chart(found: Explored, shown: str) -> Chart:
    """Map of one figure, empty for a scenario that cannot be.

    shown : one of SHOWN.
    """
    column, form, _ = SHOWN[shown]
    values, table = found.values[column], explored_table(found, shown)
    figure = new_figure("", found.across, found.down, 110 + 36 * len(found.rows))
    words = [[form.format(one) if np.isfinite(one) else "–" for one in row] for row in values]
    add_gain_map(figure, found.values["speedup"], words, hoverinfo="skip")
    figure.update_layout(margin={"t": 12})
    figure.data[0].textfont.size = 13
    figure.update_xaxes(tickvals=np.arange(len(found.columns)), ticktext=found.columns, showgrid=False, type="linear")
    figure.update_yaxes(
        tickvals=np.arange(len(found.rows)), ticktext=found.rows, showgrid=False, autorange="reversed", type="linear"
    )
    return Chart(figure, f"{shown} by {found.across.lower()} and {found.down.lower()}. {_best(found)}", table)


def _best(found: Explored) -> str:
    speedup = found.values["speedup"]
    if not found.n_answers:
        return "No cell fits."
    row, column = np.unravel_index(int(np.nanargmax(speedup)), speedup.shape)
    where = f"{found.across} {found.columns[column]}, {found.down} {found.rows[row]}"
    return f"Largest speedup {speedup[row, column]:.2f} times at {where}."


def explored_table(found: Explored, shown: str) -> pd.DataFrame:
    """Table of the same cells, a line for each stop of the axis down."""
    values = pd.DataFrame(found.values[SHOWN[shown][0]], columns=list(found.columns))
    return values.assign(**{found.down: list(found.rows)})[[found.down, *found.columns]]


def odds_chart(kept: pd.DataFrame) -> Chart:
    """Stated chances of a gain against the share that gained, with the 80 % interval of so many rows.

    kept : what `validation.chances_kept` gives.
    """
    stated, gained, n = (kept[name].to_numpy(float) for name in ("stated", "happened", "n"))
    spread = 1.2816 * np.sqrt(gained * (1.0 - gained) / n)
    figure = new_figure("", "Stated chance of a gain (%)", "Gained (%)", 330)
    figure.add_scatter(
        x=[0, 100], y=[0, 100], mode="lines", line={"color": NEUTRAL, "dash": "dot", "width": 1}, hoverinfo="skip"
    )
    figure.add_scatter(
        x=100 * stated,
        y=100 * gained,
        mode="markers+text",
        marker={"color": BLUE, "size": 6 + 0.8 * np.sqrt(n)},
        error_y={"array": 100 * spread, "thickness": 1.5, "width": 0},
        text=[f"n {int(c)}" if s < 0.9 or s == stated.max() else "" for s, c in zip(stated, n, strict=True)],
        textposition=["bottom center" if one > 0.9 else "bottom right" for one in stated],
        hoverinfo="skip",
    )
    figure.update_layout(showlegend=False, margin={"t": 12}, hovermode=False)
    figure.update_xaxes(range=[0, 104])
    figure.update_yaxes(range=[0, 106])
    said = "; ".join(f"{s:.0%} stated, {g:.0%} of {int(c)} gained" for s, g, c in zip(stated, gained, n, strict=True))
    return Chart(figure, f"Stated chances of a gain against what happened: {said}.", kept)
