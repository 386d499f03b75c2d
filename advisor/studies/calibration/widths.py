"""`python -m advisor.studies.calibration.widths`: what to do where experts were measured at one width of a shard alone.

Every measured shape plays that part: fitted on whole experts only, carried to its shards, and judged there beside what
other engines' kernels of the same format took. `choose_experts` follows the table that this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from advisor import laws
from advisor.calibration import MOE_KEYS, SHAPE, SHARED_KERNELS, fit_moe, frame_columns, least_coefficients
from advisor.hardware import load_hardware
from advisor.store import open_store
from advisor.studies.calibration.build import KernelTables, fitted_moe_tables, tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES = ("h200-sxm", "b200-sxm")
MIN_ROWS = 30
"""Rows on either side below which a shape says too little. [-]"""
Table = tuple[str, str, str]
"""Engine, format, kernel."""


def judged_widths(tables: KernelTables, hardware_id: str) -> pd.DataFrame:
    """Median error on the shards of each shape of the newest expert tables, one row a shape.

    Columns: engine, dtype, kernel; bounded and free, the fit on whole experts with and without the memory's bound;
    borrowed and shared, the median over other engines' kernels of the format, and over those of the library that both
    run (NaN where there is none). [-]
    """
    peak = load_hardware(hardware_id).bandwidth_bytes_per_s.value
    frames = dict(fitted_moe_tables(tables, hardware_id))
    rows = [
        {
            **dict(zip(("engine", "dtype", "kernel"), table, strict=True)),
            "bounded": _carried(whole, shards, table[1], least_coefficients(peak)),
            "free": _carried(whole, shards, table[1], None),
            **_others(shards, table, frames),
        }
        for table, frame in frames.items()
        for whole, shards in _split(frame)
    ]
    return pd.DataFrame(rows)


def _split(frame: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of whole experts and of shards, shape by shape."""
    for _, one in frame.groupby(SHAPE):
        cut = one["moe_tp_size"] > 1
        if min(cut.sum(), (~cut).sum()) >= MIN_ROWS:
            yield one[~cut], one[cut]


def _carried(whole: pd.DataFrame, shards: pd.DataFrame, dtype: str, low: np.ndarray | None) -> float:
    """Median error on `shards` of the fit on `whole`."""
    columns, rows = zip(*((frame_columns(one, dtype, False), _rows_each(one)) for one in (whole, shards)), strict=True)
    fit = fit_moe(columns[0], whole["latency_s"].to_numpy(), rows[0], low)
    return _error(fit.predict(columns[1], rows[1]), shards["latency_s"])


def _rows_each(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(laws.rows_per_expert(frame["routed_rows"].to_numpy(), 1.0, frame["touched"].to_numpy()))


def _others(shards: pd.DataFrame, table: Table, frames: Mapping[Table, pd.DataFrame]) -> dict[str, float]:
    """Median errors of other engines' times at the very rows of `shards`."""
    errors: dict[str, list[float]] = {"borrowed": [], "shared": []}
    for other, frame in frames.items():
        if other[1] != table[1] or other[0] == table[0]:
            continue
        both = shards.merge(frame, on=MOE_KEYS, suffixes=("", "_other"))
        if len(both) >= MIN_ROWS:
            error = _error(both["latency_s_other"].to_numpy(), both["latency_s"])
            errors["borrowed"].append(error)
            if SHARED_KERNELS in table[2] and SHARED_KERNELS in other[2]:
                errors["shared"].append(error)
    return {name: float(np.median(found)) if found else np.nan for name, found in errors.items()}


def _error(predicted: np.ndarray, measured: pd.Series) -> float:
    return float(np.median(np.abs(predicted / measured.to_numpy() - 1.0)))


def main() -> None:
    """Print the medians and quartiles over the shapes of DEVICES."""
    with open_store() as store:
        tables = tables_of(store)
        found = pd.concat([judged_widths(tables, one) for one in DEVICES], ignore_index=True)
    figures = found[["bounded", "free", "borrowed", "shared"]].describe().loc[["count", "25%", "50%", "75%"]]
    sys.stdout.write(f"{figures.round(3).to_string()}\n")


if __name__ == "__main__":
    main()
