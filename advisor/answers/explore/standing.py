"""How options stand in a place, over draws that all of them share: losses, ties, ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.physics.bands import BAND_LEVEL
from advisor.prediction import Array


def ranks(values: Array) -> NDArray[np.int64]:
    """Rank of each model in each draw, 1 for the least value, from values [draws, models]."""
    order = np.argsort(values, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
    return found


def rank_range(found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last rank of each model's central 80 %, from ranks [draws, models].

    Both are ranks that did occur.
    """
    edge = (1.0 - BAND_LEVEL) / 2.0
    low, high = np.quantile(found, [edge, 1.0 - edge], axis=0, method="nearest")
    return np.asarray(low, np.int64), np.asarray(high, np.int64)


def on_front(values: Sequence[float], quality: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether no other model beats each in both value and quality.

    To beat is to be lower in value at a quality at least as high, or the other way round.
    """
    known = [(value, score) for value, score in zip(values, quality, strict=True) if score is not None]
    return tuple(
        score is not None and not any(v <= value and q >= score and (v, q) != (value, score) for v, q in known)
        for value, score in zip(values, quality, strict=True)
    )
