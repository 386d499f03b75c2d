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
    """Errors |predicted / measured - 1| over n rows, as shares; None where no row could be judged. [1]"""

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
    value = rows[predicted].to_numpy(float)
    right, slower = (value > 1.0) == (measured > 1.0), measured < 1.0
    banded = low in rows and high in rows
    ends = [rows[name].to_numpy(float) for name in ((low, high) if banded else ())]
    return Errors(
        n=len(rows),
        median_ape=float(np.median(error)),
        mape=float(error.mean()),
        p90_ape=float(np.quantile(error, 0.9)),
        sign_accuracy=float(right.mean()) if ratio else None,
        sign_accuracy_below_one=float(right[slower].mean()) if ratio and slower.any() else None,
        coverage=float(((measured >= ends[0]) & (measured <= ends[1])).mean()) if banded else None,
        mean_band_width=float(((ends[1] - ends[0]) / value).mean()) if banded else None,
        bias=float(np.exp(np.log(value / measured).mean()) - 1.0),
        n_sources=int(rows[source].nunique()) if source in rows else None,
    )


def relative_error(rows: pd.DataFrame, predicted: str = "predicted") -> Array:
    """|predicted / measured - 1| of each row. [1]"""
    return np.abs(rows[predicted].to_numpy(float) / rows["measured"].to_numpy(float) - 1.0)


def best_k_regret(
    rows: pd.DataFrame, keys: Sequence[str], draws: str = "draws", n_draft: str = "n_draft"
) -> tuple[float | None, int]:
    """Mean loss of the recommended K against the K measured best, and the number of grids with several K. [1]

    A grid is what the columns `keys` have in common; `n_draft` names the column of K, `draws` that of the predicted
    speedup under each draw. Recommended is the K of least expected loss, as in an answer: among the K measured and
    plain decoding, which measures 1.
    """
    regrets = []
    for _, group in rows.groupby(list(keys), dropna=False):
        if group[n_draft].nunique() > 1:
            by_k = group.sort_values(n_draft)
            samples = np.stack([np.ones_like(by_k[draws].iloc[0]), *by_k[draws]], axis=-1)
            odds = draft_odds(samples)
            measured = np.array([1.0, *by_k["measured"].to_numpy(float)])
            regrets.append(1.0 - measured[int(recommended(odds.loss, odds.noise))] / measured.max())
    return (float(np.mean(regrets)) if regrets else None), len(regrets)
