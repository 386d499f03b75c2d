"""Speedups by laboratory, each left out of the fit: errors, slopes over batch, bands, and slowdowns foreseen.

Laboratories set apart take no part, not even in a mean. One laboratory brought most of the rows, so every mean here is
over laboratories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from advisor.calibration import WORKSTATION
from advisor.hardware import load_hardware, of_data_centre
from advisor.points import relative_error
from advisor.studies.validation.tables import markdown_table, percent

LEAST_BATCHES = 3
"""Batch sizes from which on a slope is printed. [-]"""
ERROR_BARS, SLOPE_BAR, COVERAGE_BAR, WIDTH_BARS = (0.14, 0.18), 0.03, (0.75, 0.88), (0.42, 0.60)
"""What was asked of laboratories left out: mean error and median width on data-centre parts and over all, slopes over
batch, and coverage. [-]"""


def in_data_centre(rows: pd.DataFrame) -> pd.Series:
    """Whether each row ran on a data-centre part."""
    own = {name: of_data_centre(load_hardware(name)) for name in rows["hardware_id"].unique()}
    return rows["hardware_id"].map(own).astype(bool) & ~rows["engine_class"].str.endswith(WORKSTATION)


def held_out_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md. `rows` as `held_out` gives them."""
    centre, mature = in_data_centre(rows), ~rows["immature"]
    header = ("laboratory", "n", "mean error", "bias", "a doubling of batch", "in the 80 % band", "width of the band")
    lines = {str(name): _figures(group) for name, group in rows.groupby("source")}
    body = [_cells(name, *found) for name, found in lines.items()]
    means = [
        ("mean over laboratories", rows),
        ("... without engines that call themselves immature", rows[mature]),
        ("... of these, data-centre parts", rows[mature & centre]),
        ("... and workstation parts", rows[mature & ~centre]),
    ]
    body += [_cells(*_mean(name, chosen)) for name, chosen in means]
    return (
        "## Speedups by laboratory, each left out\n\nConstants and bands from a fit without the laboratory; width is "
        "the median of its rows. The form of a round was chosen on these same rows (docs/decisions/"
        "0015-what-a-round-lacked.md), so they are development scores: laboratories added later are the test.\n\n"
        f"{markdown_table(header, body)}\n\n{_asked(rows[mature], centre[mature])}\n\n{_losses(rows[mature])}"
    )


def _asked(rows: pd.DataFrame, centre: pd.Series) -> str:
    """The bars, line by line, met or missed."""
    _, _, error, _, slope, inside, width = _mean("", rows)
    _, _, error_dc, _, slope_dc, inside_dc, width_dc = _mean("", rows[centre])
    (low, high), (bar_dc, bar), (wide_dc, wide), bend = COVERAGE_BAR, ERROR_BARS, WIDTH_BARS, SLOPE_BAR
    classes = {name: float(_inside(group).mean()) for name, group in rows.groupby("engine_class")}
    worst = min(classes, key=lambda name: classes[name])
    asked = [
        ("mean error, data centre", error_dc, bar_dc, error_dc <= bar_dc),
        ("mean error, all", error, bar, error <= bar),
        ("slope over batch, data centre", slope_dc, bend, abs(slope_dc) <= bend),
        ("slope over batch, all", slope, bend, abs(slope) <= bend),
        ("median width, data centre", width_dc, wide_dc, width_dc <= wide_dc),
        ("median width, all", width, wide, width <= wide),
    ]
    body = [(what, percent(figure), f"<= {percent(limit, 0)}", _met(good)) for what, figure, limit, good in asked]
    body += [
        (what, percent(figure), f"{percent(low, 0)} to {percent(high, 0)}", _met(low <= figure <= high))
        for what, figure in (("coverage, data centre", inside_dc), ("coverage, all", inside))
    ]
    body.append((f"coverage, worst class ({worst})", percent(classes[worst]), ">= 60 %", _met(classes[worst] >= 0.6)))
    return markdown_table(("asked, immature engines apart", "figure", "bar", "status"), body)


def _losses(rows: pd.DataFrame) -> str:
    """Whether slowdowns were foreseen, and at what price."""
    below, gains = rows[rows["measured"] < 1.0], rows[rows["measured"] >= 1.2]
    certain = rows[(rows["low"] > 1.0) | (rows["high"] < 1.0)]
    right = float(((certain["low"] > 1.0) == (certain["measured"] > 1.0)).mean())
    foreseen, warned, false = (
        float(share.mean()) for share in (below["predicted"] < 1.0, below["low"] < 1.0, gains["low"] < 1.0)
    )
    return (
        f"Where the band excludes 1 ({len(certain)} rows), the sign is right in {percent(right)} (bar 95 %: "
        f"{_met(right >= 0.95)}). Of {len(below)} measured slowdowns {percent(foreseen, 0)} are predicted below 1, and "
        f"{percent(warned, 0)} carry a band that reaches below 1 (bar 80 %: {_met(warned >= 0.8)}); of {len(gains)} "
        f"gains of 1.2x or more {percent(false, 0)} carry such a band (bar 15 %: {_met(false <= 0.15)})."
    )


def _met(good: bool) -> str:
    return "met" if good else "missed"


def _inside(group: pd.DataFrame) -> pd.Series:
    return group["measured"].between(group["low"], group["high"])


_Figures = tuple[int, float, float, float, float, float]


def _figures(group: pd.DataFrame) -> _Figures:
    """n, mean error, median bias, log error per doubling of batch (NaN on few batches), share in band, median width."""
    log_ratio = np.log(group["predicted"] / group["measured"])
    doublings = np.log2(group["batch_size"].to_numpy(float))
    slope = np.polyfit(doublings, log_ratio, 1)[0] if group["batch_size"].nunique() >= LEAST_BATCHES else np.nan
    return (
        len(group),
        float(relative_error(group).mean()),
        float(np.exp(log_ratio.median()) - 1.0),
        float(slope),
        float(_inside(group).mean()),
        float(((group["high"] - group["low"]) / group["predicted"]).median()),
    )


def _mean(name: str, rows: pd.DataFrame) -> tuple[Any, ...]:
    table = np.array([_figures(group) for _, group in rows.groupby("source")], float)
    means = [float(np.nanmean(table[:, i])) for i in range(1, 5)]
    return (name, int(table[:, 0].sum()), *means, float(np.median(table[:, 5])))


def _cells(name: str, n: int, *figures: float) -> tuple[str | int, ...]:
    return (name, n, *("" if np.isnan(value) else percent(value) for value in figures))
