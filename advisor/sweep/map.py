"""A sweep as a map: the speedup at the recommended K over two settings, all others fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.scenario import FIELDS
from advisor.sweep.questions import axes, predicted, values_of, where
from advisor.sweep.read import Sweep

MAX_SIDE = 24
"""Values of an axis that a map shows. [-]"""


@dataclass(frozen=True)
class SweepMap:
    """Cells [nY, nX] of a sweep: places of rows in its frame, -1 where the grid has none."""

    x: str
    y: str
    x_values: tuple[object, ...]
    y_values: tuple[object, ...]
    fixed: Mapping[str, object]
    """The other axes, each at one value."""
    row: NDArray[np.int64]
    cells: pd.DataFrame
    """Rows of the sweep that the cells stand for, by their place in its frame."""
    left_out: int = 0
    """Values of an axis beyond MAX_SIDE. [-]"""

    def values(self, column: str, unless: float = np.nan) -> NDArray[np.float64]:
        """One column of the cells, `unless` where nothing was predicted. [as the column]"""
        found = np.full(self.row.shape, unless)
        has = self.has
        found[has] = self.cells[column].reindex(self.row[has]).to_numpy(float)
        return found

    @property
    def has(self) -> NDArray[np.bool_]:
        """Cells with a prediction."""
        return self.row >= 0

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Cells whose batch fits in memory."""
        return np.asarray(self.values("fits", 0.0) > 0)

    def tier(self, row: int, column: int) -> str:
        """Tier of a cell."""
        return str(self.cells["tier"].loc[self.row[row, column]])


def default_axes(frame: pd.DataFrame) -> tuple[str, str] | None:
    """Two settings to look at first, the batch across and the one of most values down.

    None where fewer than two vary.
    """
    free = axes(frame)
    if len(free) < 2:
        return None
    x = "batch_size" if "batch_size" in free else free[-1]
    # Of as many values the first, which is model or accelerator.
    return x, max((name for name in free if name != x), key=lambda name: predicted(frame)[name].nunique(dropna=False))


def choices(frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]) -> dict[str, tuple[list[object], object]]:
    """Values of each further axis that the grid has beside those chosen before it, and the chosen one.

    fixed : wishes by name; the first value stands where a wish is not in the grid.
    """
    rest, found = predicted(frame), {}
    for name in axes(frame):
        if name in (x, y):
            continue
        values = values_of(rest, name)
        chosen = fixed[name] if name in fixed and fixed[name] in values else values[0]
        found[name] = (values, chosen)
        rest = where(rest, {name: chosen})
    return found


def sweep_map(frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]) -> SweepMap:
    """The map over two axes of a sweep, the others as `choices` settles them."""
    settled = {name: chosen for name, (_, chosen) in choices(frame, x, y, fixed).items()}
    best = where(predicted(frame), settled)
    best = best[best["recommended"]]
    sides = {name: values_of(best, name) for name in (x, y)}
    left_out = sum(max(0, len(values) - MAX_SIDE) for values in sides.values())
    sides = {name: values[:MAX_SIDE] for name, values in sides.items()}
    row = np.full((len(sides[y]), len(sides[x])), -1)
    places = {name: {value: at for at, value in enumerate(values)} for name, values in sides.items()}
    for index, across, down in zip(best.index, best[x], best[y], strict=True):
        at = [places[name].get(None if pd.isna(value) else value) for name, value in ((y, down), (x, across))]
        if None not in at:
            row[tuple(at)] = index
    return SweepMap(x, y, tuple(sides[x]), tuple(sides[y]), settled, row, best, left_out)


@dataclass(frozen=True)
class SweepView:
    """A sweep and what of it is shown."""

    sweep: Sweep
    max_tpot_ms: float | None
    """Limit on the time per output token of one user; None: none. [ms]"""
    map: SweepMap | None
    """None where fewer than two settings vary."""


def view_of(sweep: Sweep, max_tpot_ms: float | None, wishes: Mapping[str, object]) -> SweepView:
    """A sweep with its first map.

    wishes : values by setting for what the map fixes, where the sweep has them.
    """
    sides = default_axes(sweep.frame)
    return SweepView(sweep, max_tpot_ms, None if sides is None else sweep_map(sweep.frame, *sides, wishes))


def setting_text(name: str, value: object) -> str:
    """A setting's value as a reader sees it, without its name."""
    row = FIELDS[name]
    if value is None or pd.isna(value):
        return row.unset
    return row.written(row.kind(value))
