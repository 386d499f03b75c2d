"""The figures that say how far predictions were off: one definition for every table, page and command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.arrays import Array
from advisor.curve import draft_odds, recommended


@dataclass(frozen=True)
class Errors:
    """Errors |predicted / measured - 1| over n rows, as shares. None where no row could be judged. [-]

    Where rows name their source, every source counts alike, however many rows it brought.
    """

    n: int
    median_ape: float | None = None
    """Median absolute percentage error."""
    mape: float | None = None
    """Mean absolute percentage error."""
    p90_ape: float | None = None
    """What nine of ten errors stay below."""
    sign_accuracy: float | None = None
    """Share of rows placed on the right side of 1; None for times, which have no such side."""
    sign_accuracy_below_one: float | None = None
    """The same, of rows measured below 1."""
    coverage: float | None = None
    """Share of measured values inside the 80 % band."""
    mean_band_width: float | None = None
    """Mean of (high - low) / predicted."""
    bias: float | None = None
    """Geometric mean of predicted / measured, minus 1."""
    n_sources: int | None = None


def errors_of(
    rows: pd.DataFrame,
    predicted: str = "predicted",
    low: str = "low",
    high: str = "high",
    source: str = "source",
    *,
    ratio: bool = True,
) -> Errors:
    """Errors of rows with `measured` and the column `predicted`.

    Band and sources are judged where the rows have those columns. `ratio`: values below 1 are worse than no change.
    """
    if rows.empty:
        return Errors(0)
    error, measured = relative_error(rows, predicted), rows["measured"].to_numpy(float)
    value, weight = rows[predicted].to_numpy(float), _source_weights(rows, source)
    right, slower = (value > 1.0) == (measured > 1.0), measured < 1.0
    banded = low in rows and high in rows
    ends = [rows[name].to_numpy(float) for name in ((low, high) if banded else ())]

    def mean(values: Array) -> float:
        return float(np.average(values, weights=weight))

    def below_one() -> float:
        return float(np.average(right[slower], weights=_source_weights(rows[slower], source)))

    return Errors(
        n=len(rows),
        median_ape=_quantile(error, weight, 0.5),
        mape=mean(error),
        p90_ape=_quantile(error, weight, 0.9),
        sign_accuracy=mean(right) if ratio else None,
        sign_accuracy_below_one=below_one() if ratio and slower.any() else None,
        coverage=mean((measured >= ends[0]) & (measured <= ends[1])) if banded else None,
        mean_band_width=mean((ends[1] - ends[0]) / value) if banded else None,
        bias=float(np.exp(mean(np.log(value / measured))) - 1.0),
        n_sources=int(rows[source].nunique()) if source in rows else None,
    )


def _source_weights(rows: pd.DataFrame, source: str = "source") -> Array:
    """Weight of each row, 1 in all: every source alike, and every row of one. Every row alike without that column."""
    if source not in rows:
        return np.full(len(rows), 1.0 / len(rows))
    return 1.0 / (rows[source].nunique() * rows.groupby(source)[source].transform("size").to_numpy(float))


def _quantile(values: Array, weight: Array, share: float) -> float:
    """Weighted quantile, between values in the middle of their weights. Numpy's own where all weigh the same."""
    if np.allclose(weight, weight[0]):
        return float(np.quantile(values, share))
    order = np.argsort(values)
    middle = np.cumsum(weight[order]) - weight[order] / 2.0
    return float(np.interp(share, middle, values[order]))


def relative_error(rows: pd.DataFrame, predicted: str = "predicted") -> Array:
    """Relative error |predicted / measured - 1| of each row. [-]"""
    return np.abs(rows[predicted].to_numpy(float) / rows["measured"].to_numpy(float) - 1.0)


def k_grids(rows: pd.DataFrame, keys: Sequence[str], n_draft: str = "n_draft") -> list[pd.DataFrame]:
    """Groups of rows that differ in K alone, K (column `n_draft`) increasing.

    Each comes with what the columns `keys` have in common.

    A group with two rows of one K differs in something that `keys` do not name (another draft head, another run), so
    that it compares more than K: it is no grid. Neither is a group of a single K.
    """
    groups = (group.sort_values(n_draft) for _, group in rows.groupby(list(keys), dropna=False))
    return [group for group in groups if len(group) > 1 and group[n_draft].is_unique]


def k_regret(grid: pd.DataFrame, draws: str = "draws", n_draft: str = "n_draft", always: int | None = None) -> float:
    """Loss of the recommended K against the K measured best. [-]

    Among the K measured and plain decoding (K = 0).

    Recommended is the K of least expected loss, as in an answer; `draws` names the column of the predicted speedup
    under each draw. With `always`, the regret of that K in place of the recommended one: of the nearest one measured.
    """
    measured = np.array([1.0, *grid["measured"].to_numpy(float)])
    if always is None:
        odds = draft_odds(np.stack([np.ones_like(grid[draws].iloc[0]), *grid[draws]], axis=-1))
        chosen = int(recommended(odds.loss, odds.noise))
    else:
        chosen = int(np.abs(np.array([0, *grid[n_draft]]) - always).argmin())
    return float(1.0 - measured[chosen] / measured.max())


def best_k_regret(
    rows: pd.DataFrame, keys: Sequence[str], draws: str = "draws", n_draft: str = "n_draft"
) -> tuple[float | None, int]:
    """Mean `k_regret` over the `k_grids`, None where there are none, and how many there are. [-]"""
    regrets = [k_regret(grid, draws, n_draft) for grid in k_grids(rows, keys, n_draft)]
    return (float(np.mean(regrets)) if regrets else None), len(regrets)
