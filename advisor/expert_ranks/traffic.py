"""What is known of the experts that tokens choose: a trace, loads by layer, or no more than a preset's spread."""

from __future__ import annotations

import csv
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.architecture import Moe
from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.routing import (
    Choices,
    TraceFit,
    drawn_choices,
    expert_loads,
    fit_sequences,
    fitted_loads,
    skewed_loads,
    windows,
    write_own_routing,
)
from advisor.setup import Setup

MAX_LOADS_BYTES = 50_000_000
ENOUGH_TO_HALVE = 4
"""Sequences from which on placements are planned on one half and judged on the other. [-]"""
PRESET_LAYERS = 16
"""Layers drawn where only a spread is known; they differ by chance alone. [-]"""
_COLUMNS = ("layer", "expert", "tokens")


@dataclass(frozen=True, eq=False)
class Traffic:
    """Choices of experts to place for and to judge on."""

    kind: Literal["trace", "loads", "preset"]
    loads: Array
    """Share of tokens that choose each expert, [layers, N]; rows sum to k. [-]"""
    n_active: int
    because: str
    """Where it comes from, for a reader."""
    sequences: tuple[Choices, ...] = ()
    """A trace's, [tokens, layers, k] each."""
    fit: TraceFit | None = None
    correlation: tuple[float, float] = (0.0, 0.0)
    """Affinity and stickiness of draws where there is no trace. [-]"""
    warnings: tuple[str, ...] = field(default=())

    @property
    def routing(self) -> str | None:
        """Value of a scenario's `routing` as the trace gives it, None without a trace."""
        if self.fit is None:
            return None
        found = self.fit.fit
        return write_own_routing(
            (found.load_cv, found.affinity, found.stickiness),
            (found.load_cv_interval, found.affinity_interval, found.stickiness_interval),
        )

    def folds(self) -> list[tuple[Array, tuple[Choices, ...]]]:
        """Pairs of loads to plan on and sequences to judge on.

        The two halves of a trace crosswise where it has ENOUGH_TO_HALVE sequences, else all of what there is.
        """
        if len(self.sequences) < ENOUGH_TO_HALVE:
            return [(self.loads, self.sequences)]
        halves = self.sequences[::2], self.sequences[1::2]
        n_experts = self.loads.shape[1]
        return [(expert_loads(plan, n_experts), judge) for plan, judge in (halves, halves[::-1])]

    def choices(
        self,
        judged: tuple[Choices, ...],
        batch: int,
        tokens: int,
        layers: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Choices:
        """One step's expert ids in some layers, [B, t, layers, k]."""
        if judged:
            return windows(judged, batch, tokens, rng, layers)
        return drawn_choices(self.loads[layers], self.n_active, batch, tokens, rng, *self.correlation)


def traffic_of_trace(
    sequences: Sequence[Choices], n_experts: int, longest: int, fit: TraceFit | None = None
) -> Traffic:
    """Choices of experts that a routing trace holds, with the loads and the fit of the trace.

    sequences : expert ids, [tokens, layers, k] each.
    longest : tokens of each sequence in a step; shorter sequences are left out. [-]
    fit : that of the trace, where it was made already.

    Raises AdvisorError for what `routing.fit_sequences` refuses, or where no sequence has `longest` tokens.
    """
    fit = fit or fit_sequences(sequences, n_experts)
    kept = tuple(ids[:, list(fit.layers)] for ids in sequences if len(ids) >= longest)
    if not kept:
        raise AdvisorError(
            f"no sequence of the trace has {longest} tokens, as many as a step verifies; give longer ones"
        )
    told = list(fit.warnings)
    if len(kept) < ENOUGH_TO_HALVE:
        told.append(
            f"{len(kept)} sequences cannot be halved: placements are planned and judged on the same tokens, so what "
            "balancing brings is overstated"
        )
    because = f"counted on {len(kept)} sequences, {len(fit.layers)} layers of your trace"
    return Traffic("trace", expert_loads(kept, n_experts), fit.n_active, because, kept, fit, warnings=tuple(told))


def traffic_of_loads(counts: Array, setup: Setup) -> Traffic:
    """Choices of experts to draw from each expert's load in each layer.

    counts : loads in any unit, [layers, N]. Sequences correlate as the scenario's routing says.

    Raises AdvisorError for a dense model, another number of experts, negative loads, or a layer without any.
    """
    moe, counts = _moe(setup), np.asarray(counts, float)
    if counts.ndim != 2 or counts.shape[1] != moe.n_experts:
        raise AdvisorError(f"the loads have shape {counts.shape}; expected [layers, {moe.n_experts}] for this model")
    if not np.all(np.isfinite(counts)) or counts.min() < 0.0 or not np.all(counts.sum(axis=1) > 0.0):
        raise AdvisorError("loads must be numbers >= 0, with some load in every layer")
    loads = fitted_loads(counts, moe.n_active)
    _, phi, rho = setup.routing_parameters()
    because = f"drawn from your loads of {len(loads)} layers, taken to stay as they are"
    idle = int((counts.sum(axis=0) == 0.0).sum())
    told = (
        (f"{idle} of {moe.n_experts} experts have no load in any layer; is the table of this model?",) if idle else ()
    )
    return Traffic("loads", loads, moe.n_active, because, correlation=(phi, rho), warnings=told)


def traffic_of_preset(setup: Setup, rng: np.random.Generator) -> Traffic:
    """Choices of experts to draw from a routing preset's spread of loads, hot experts placed by chance.

    Raises AdvisorError for a dense model.
    """
    moe = _moe(setup)
    cv, phi, rho = setup.routing_parameters()
    limit = float(np.sqrt(max(moe.n_experts / moe.n_active - 1.0, 0.0)))
    layers = min(int(moe.count), PRESET_LAYERS)
    loads = skewed_loads(moe.n_experts, moe.n_active, min(cv, 0.98 * limit), layers, rng)
    name = setup.routing.name if setup.routing is not None else "uniform routing"
    because = f"assumed: lognormal loads with the spread of {name} (CV {cv:.2f}), which experts are hot drawn by chance"
    return Traffic("preset", loads, moe.n_active, because, correlation=(phi, rho))


def _moe(setup: Setup) -> Moe:
    if setup.architecture.moe is None:
        raise AdvisorError(f"{setup.architecture.name} is dense: it has no experts to place; choose an MoE model")
    return setup.architecture.moe


def read_loads(name: str, data: bytes, n_experts: int = 0) -> Array:
    """Loads by layer and expert, [layers, N], of a .npy array or a CSV with columns layer, expert, tokens.

    n_experts : the model's, to which a CSV is filled up; 0: up to the last expert that it names. [-]

    Layers come in the order of their numbers; an expert that a CSV leaves out has no load. Raises AdvisorError for
    anything else, with the line where there is one.
    """
    if data[:6] == b"\x93NUMPY":
        try:
            found = np.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, OSError, EOFError, MemoryError, OverflowError, tokenize.TokenError) as error:
            # A header can ask for more than memory or an integer holds, or end within itself.
            raise AdvisorError(f"{name}: not a readable .npy array; save it with numpy.save") from error
        if found.ndim != 2 or not np.issubdtype(found.dtype, np.number) or np.iscomplexobj(found):
            raise AdvisorError(f"{name} holds {found.dtype} {found.shape}; expected numbers [layers, experts]")
        return np.asarray(found, float)
    return _csv_loads(name, data, n_experts)


def _csv_loads(name: str, data: bytes, n_experts: int) -> Array:
    try:
        cells = _csv_cells(name, data)
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name}: neither a .npy array nor a CSV in UTF-8") from error
    if not cells:
        raise AdvisorError(f"{name} has no rows; expected one for each layer and expert")
    layers = sorted({layer for layer, _ in cells})
    found = np.zeros((len(layers), max(n_experts, 1 + max(expert for _, expert in cells))))
    for (layer, expert), load in cells.items():
        found[layers.index(layer), expert] = load
    return found


def _csv_cells(name: str, data: bytes) -> dict[tuple[int, int], float]:
    """Loads by layer and expert; what is no CSV raises as the reader of CSVs does, while its rows are read too."""
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig")))
    columns = tuple(rows.fieldnames or ())
    if not set(_COLUMNS) <= set(columns):
        raise AdvisorError(f"{name} has columns {', '.join(columns[:8])}; expected {', '.join(_COLUMNS)}")
    cells: dict[tuple[int, int], float] = {}
    for line, row in enumerate(rows, start=2):
        try:
            layer, expert, load = int(row["layer"]), int(row["expert"]), float(row["tokens"])
        except (TypeError, ValueError) as error:
            raise AdvisorError(
                f"{name}, line {line}: expected whole layer and expert, and a number of tokens"
            ) from error
        if not 0 <= expert < 65_536 or not 0 <= layer < 2_000:
            raise AdvisorError(f"{name}, line {line}: layer {layer}, expert {expert} cannot be; counting starts at 0")
        if (layer, expert) in cells:
            raise AdvisorError(f"{name}, line {line}: layer {layer}, expert {expert} comes twice; give each once")
        cells[layer, expert] = load
    return cells
