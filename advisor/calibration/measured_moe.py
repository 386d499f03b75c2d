"""Where the very expert shape was measured: its rows over the additive form, and how well that carries.

The factor r(M) = measured / additive at M tokens is the mean over the skewed loads of a table (real routers are skewed;
a perfectly even load is up to a fifth faster, because no expert waits for a crowded one). It takes the place of the
table's own curve c(m), whose knots would put bumps between token counts that the rows do not have. The form then
carries the measurement to the scenario's own number of touched experts. Judged on what the factor did not see: another
load, at token counts between those used.

One rank with all experts only: the rows of several ranks time the busiest one under a skew that crowds whole ranks (up
to eight times the mean at 8 ranks), which says more about that load than about the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.calibration.frames import band_log_sd, error_quantiles
from advisor.calibration.measured_records import MeasuredTable, ShapeRows
from advisor.calibration.moe_fit import PARAMETERS, add_touched, frame_columns, not_from_cache, two_matrices
from advisor.calibration.records import FitRecord

if TYPE_CHECKING:
    import pandas as pd

MAX_TOKENS = 8192
"""Steps with more tokens are prefill. [-]"""
SHAPE = ["hidden_size", "shard_width", "topk", "num_experts", "matrices", "moe_ep_size"]
"""Columns of an `ExpertShape`, in its order."""


def measured_table(frame: pd.DataFrame, record: FitRecord, cache_bytes: float = 0.0) -> MeasuredTable | None:
    """Factors of every shape of one table on its own fit.

    `frame` has the columns of `moe_fit.MOE_KEYS` and latency_s [s], all ranks and loads. Rows whose weights a cache of
    `cache_bytes` [B] held when they were timed are left out, as in the fit: between two layers of a model others pass
    through it. None when no row qualifies.
    """
    rows = _with_factor(frame, record, cache_bytes)
    if not len(rows):
        return None
    loads = sorted(name for name in rows["distribution"].unique() if name != "balanced") or ["balanced"]
    rows = rows[rows["distribution"].isin(loads)]
    by_load = rows.pivot_table(index=SHAPE, columns=["distribution", "num_tokens"], values="log_factor")
    mean = rows.pivot_table(index=SHAPE, columns="num_tokens", values="log_factor")
    carry, between = _carry_errors(by_load, loads)
    carried, spread = (error_quantiles(np.exp(log_error), np.ones_like(log_error)) for log_error in (carry, between))
    return MeasuredTable(
        fit_id=record.id,
        tokens=tuple(int(tokens) for tokens in mean.columns),
        loads=tuple(loads),
        n_rows=len(rows),
        shapes=tuple(
            ShapeRows(
                shape=tuple(float(x) for x in shape),  # type: ignore[arg-type]
                factor=tuple(None if np.isnan(value) else float(np.exp(value)) for value in values),
            )
            for shape, values in zip(mean.index, mean.to_numpy(), strict=True)
        ),
        carry_median=carried[0],
        carry_p90=carried[1],
        between_median=spread[0],
        between_p90=spread[1],
        log_sd=band_log_sd(between) if between.size else record.log_sd,
    )


def _with_factor(frame: pd.DataFrame, record: FitRecord, cache_bytes: float) -> pd.DataFrame:
    """Rows in range with matrices, shard_width and log_factor = log(measured / additive)."""
    rows = frame[(frame["num_tokens"] <= MAX_TOKENS) & (frame["moe_ep_size"] == 1)].reset_index(drop=True)
    if not len(rows):
        return rows
    rows = add_touched(rows)
    rows = rows[not_from_cache(rows, cache_bytes, record.dtype)[1]].reset_index(drop=True)
    if not len(rows):
        return rows
    columns = frame_columns(rows, record.dtype, record.ungated_matrices == 2)
    additive = columns @ np.array([record.value(name) for name, _ in PARAMETERS])
    special = two_matrices(rows)
    return rows.assign(
        log_factor=np.log(rows["latency_s"].to_numpy() / additive),
        shard_width=rows["inter_size"] / rows["moe_tp_size"],
        matrices=np.where(special, record.ungated_matrices or 3, 3).astype(float),
    )


def _carry_errors(by_load: pd.DataFrame, loads: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Log errors of predicting one load from another: at the same tokens, and at tokens left out in between."""
    same, between = [np.array([])], [np.array([])]
    for own in loads:
        for other in loads:
            if own == other and len(loads) > 1:
                continue
            table = by_load[own].dropna(axis=1, how="all")
            source = by_load[other].reindex(columns=table.columns)
            if own != other:
                same.append((table - source).to_numpy().ravel())
            between.append(_interpolated(source, table))
    joined = [np.concatenate(parts) for parts in (same, between)]
    return joined[0][np.isfinite(joined[0])], joined[1][np.isfinite(joined[1])]


def _interpolated(source: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """`table` at every second token count less `source` interpolated there from the others, in log tokens."""
    tokens = np.log(table.columns.to_numpy(dtype=float))
    held = np.arange(1, len(tokens) - 1, 2)
    kept = np.setdiff1d(np.arange(len(tokens)), held)
    errors = [
        row[held] - np.interp(tokens[held], tokens[kept], known[kept])
        for row, known in zip(table.to_numpy(), source.to_numpy(), strict=True)
    ]
    return np.concatenate(errors) if errors and held.size else np.array([])
