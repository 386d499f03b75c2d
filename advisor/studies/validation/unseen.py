"""Speedups of the second collection, on which nothing is fitted: errors and bands by laboratory.

Laboratories set apart take no part, not even in a mean. One laboratory brought most of the rows, so every mean here is
over laboratories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from advisor.calibration import class_costs
from advisor.points import (
    COLLECTIONS,
    Point,
    laboratory_of,
    points_of,
    published_rows,
    relative_error,
    set_apart,
    with_costs,
)
from advisor.studies.validation.tables import markdown_table, percent

LEAST_BATCHES = 3
"""Batch sizes from which on a slope is printed. [1]"""
DATA_CENTRE_MEMORY = 60e9
"""Accelerators with less memory are workstation and consumer parts, where community kernels serve. [B]"""
WORKSTATION = ("rtx", "gb10")
"""How the names of other such parts begin, whatever their memory."""


def unseen_rows() -> pd.DataFrame:
    """One line a row that can be predicted: laboratory, data_centre, engine_class, batch_size, n_draft, measured,
    predicted, low, high; with the overheads shipped for its engine class."""
    points, _ = points_of(published_rows(*COLLECTIONS[1:]), other_models=True)
    return pd.DataFrame([_judged(point) for point in points if not set_apart(laboratory_of(point.source))])


def _judged(point: Point) -> dict[str, Any]:
    curve = point.curve(with_costs(point.setup, **class_costs(point.engine_class)))
    hardware = point.setup.hardware
    return {
        "laboratory": laboratory_of(point.source),
        "data_centre": hardware.memory_bytes.value > DATA_CENTRE_MEMORY and not hardware.id.startswith(WORKSTATION),
        "engine_class": point.engine_class,
        "batch_size": point.batch_size,
        "n_draft": point.n_draft,
        "measured": point.measured,
        "predicted": float(curve.speedup[0, 0]),
        "low": float(curve.low[0, 0]),
        "high": float(curve.high[0, 0]),
    }


def unseen_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md."""
    lines = {str(name): _figures(group) for name, group in rows.groupby("laboratory")}
    centre = {str(name): _figures(group) for name, group in rows[rows["data_centre"]].groupby("laboratory")}
    below, gains = rows[rows["measured"] < 1.0], rows[rows["measured"] >= 1.2]
    body = [_cells(name, *found) for name, found in lines.items()]
    means = [_cells(*_mean("mean over laboratories", lines)), _cells(*_mean("... on data-centre parts", centre))]
    header = ("laboratory", "n", "mean error", "bias", "a doubling of batch", "in the 80 % band", "width of the band")
    odds = {
        "below": percent(float((below["predicted"] < 1.0).mean()), 0),
        "warned": percent(float((below["low"] < 1.0).mean()), 0),
        "false": percent(float((gains["low"] < 1.0).mean()), 0),
    }
    return (
        "## Speedups that nothing was fitted on\n\nThe second collection (measurements/published_speedups_2), with the "
        "overheads shipped for each row's engine class. Means are over laboratories; those set apart are left alone. "
        "The bands do not hold here: they were calibrated on the first collection alone, and know of no offset "
        f"from one source to the next.\n\n{markdown_table(header, [*body, *means])}\n\n"
        f"Measured slowdowns: {odds['below']} of {len(below)} predicted below 1, {odds['warned']} with a band that "
        f"reaches below 1; of {len(gains)} gains of 1.2x or more, {odds['false']} carry such a band."
    )


_Figures = tuple[int, float, float, float, float, float]


def _figures(group: pd.DataFrame) -> _Figures:
    """n, mean error, median bias, log error per doubling of batch (NaN on few batches), share in band, mean width."""
    log_ratio = np.log(group["predicted"] / group["measured"])
    doublings = np.log2(group["batch_size"].to_numpy(float))
    slope = np.polyfit(doublings, log_ratio, 1)[0] if group["batch_size"].nunique() >= LEAST_BATCHES else np.nan
    inside = group["measured"].between(group["low"], group["high"])
    return (
        len(group),
        float(relative_error(group).mean()),
        float(np.exp(log_ratio.median()) - 1.0),
        float(slope),
        float(inside.mean()),
        float(((group["high"] - group["low"]) / group["predicted"]).mean()),
    )


def _mean(name: str, lines: dict[str, _Figures]) -> tuple[Any, ...]:
    table = np.array(list(lines.values()), float).reshape(-1, 6)
    return (name, int(table[:, 0].sum()), *(float(np.nanmean(table[:, i])) for i in range(1, 6)))


def _cells(name: str, n: int, *figures: float) -> tuple[str | int, ...]:
    return (name, n, *("" if np.isnan(value) else percent(value) for value in figures))
