"""What a measured table must satisfy before it is fitted or shipped: no spikes, no times that fall
with size.

A step of more tokens never takes less than one of fewer must: engines can pad to it. So each time
is lowered to the least of those at more tokens, and that of a message to the least of larger ones.
On plain decode that changes little (0.1 points of the median error); without it a bump at one token
count, or an all-reduce that changes its algorithm, makes the recommended draft length jump (steps
of 8 GPUs on B200 fell by up to 14 % with batch or K, now by 2.5 %).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.fit_records import Dropped
from advisor.measured.kernel_fits import (
    SERIES,
    LinearFit,
    held_out,
    linear_parameters,
    relative_coefficients,
)
from advisor.prediction import AdvisorError

if TYPE_CHECKING:
    import pandas as pd


def leave_one_group_out(
    columns: np.ndarray, measured: np.ndarray, group: np.ndarray, low: np.ndarray | None = None
) -> np.ndarray:
    """Prediction of each row by a fit, its coefficients at least `low`, that saw no row of its
    group. Arrays [rows]; NaN with a single group."""
    relative = columns / measured[:, None]

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return np.asarray(columns[held] @ relative_coefficients(relative[seen], low)[0])

    return held_out(group, predict)


def require_columns(frame: pd.DataFrame, columns: tuple[str, ...], table: str) -> None:
    """Raise AdvisorError naming the columns that `frame` lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise AdvisorError(
            f"{table} table lacks {', '.join(missing)}; expected {', '.join(columns)}"
        )


def one_row_per_point(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Median latency of repeated measurements of a point, sorted by `keys`."""
    return (
        frame.groupby(keys, dropna=False, sort=True, observed=True)["latency_s"]
        .median()
        .reset_index()
    )


def keep_rows(
    frame: pd.DataFrame, rules: Iterable[tuple[str, ArrayLike]]
) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    """Rows that every rule (reason, mask of rows it keeps) keeps. The others by the first rule that
    drops them."""
    kept = np.ones(len(frame), bool)
    dropped = []
    for reason, keep in rules:
        before = int(kept.sum())
        kept &= np.asarray(keep, bool)
        if kept.sum() < before:
            dropped.append(Dropped(reason=reason, n_rows=before - int(kept.sum())))
    return frame[kept], tuple(dropped)


def labels(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """One text for each row, such as 2048x768x8x128: rows that agree in `columns` have the same."""
    return frame[columns].astype(str).agg("x".join, axis=1).to_numpy()


def content_hash(frame: pd.DataFrame, columns: list[str]) -> str:
    """SHA-256 of the sorted rows of `columns` plus latency_s in nanoseconds, independent of row
    order."""
    table = frame[columns].astype(str)
    table["ns"] = (frame["latency_s"] * 1e9).round().astype("int64").astype(str)
    lines = sorted("|".join(row) for row in table.itertuples(index=False, name=None))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def correlation_fields(names: Sequence[str], matrix: np.ndarray) -> dict[str, Any]:
    """Fields of a FitRecord: the correlation [names, names] of fitted parameters, four decimals."""
    return {
        "correlation_names": tuple(names),
        "correlation": tuple(tuple(round(float(v), 4) for v in row) for row in matrix),
    }


def linear_fields(named: Sequence[tuple[str, str]], fit: LinearFit) -> dict[str, Any]:
    """Fields of a FitRecord: all parameters, and the correlation of those that are not at their
    bound."""
    free = np.flatnonzero(fit.coefficients > fit.low)
    return {
        "parameters": linear_parameters(named, fit.coefficients, fit.stderr, fit.low),
        **correlation_fields([named[int(i)][0] for i in free], fit.correlation[np.ix_(free, free)]),
    }


SPIKE = 1.5
"""A time this much above both its neighbours in tokens, where times rise, is an outlier of the
measurement. [-]"""
SEEN_LOWERING = 1.03
"""Rows lowered by less lie within the repeats' scatter and are not counted. [-]"""
NOISY_SHARE = 0.10
"""A table with a larger share of counted rows is called noisy. [-]"""


def without_spikes(frame: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Table without spikes, and how many rows those were.

    A spike lies beyond SPIKE times both neighbours in num_tokens.
    """
    ordered = frame.sort_values([*SERIES, "num_tokens"])
    times = ordered.groupby(SERIES, sort=False, dropna=False, observed=True)["latency_s"]
    beside = np.maximum(
        times.shift(1), times.shift(-1)
    )  # missing at the ends, which have one neighbour
    spike = (ordered["latency_s"] > SPIKE * beside).to_numpy()
    return ordered[~spike].sort_index(), int(spike.sum())


def monotone(
    frame: pd.DataFrame, by: str = "num_tokens", series: Sequence[str] = SERIES
) -> pd.DataFrame:
    """Table with every latency_s lowered to the least at as many or more of `by`.

    Among rows that agree in `series` (none: all rows); column `lowered` says whether that was by
    more than SEEN_LOWERING.
    """
    ordered = frame.sort_values([*series, by], ascending=False)
    times = ordered["latency_s"]
    if series:
        times_of = times.groupby(
            [ordered[name] for name in series], sort=False, dropna=False, observed=True
        )
        least = times_of.cummin()
    else:
        least = times.cummin()
    return ordered.assign(latency_s=least, lowered=times > SEEN_LOWERING * least).sort_index()
