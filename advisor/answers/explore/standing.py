"""How options stand in a place, over draws that all of them share: losses, ties, ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.physics.bands import BAND_LEVEL
from advisor.prediction import Array


def loss(merit: Array) -> Array:
    """Share of the merit that each option loses against the best of its place, [..., options]. [-]

    1 where no option of a place is allowed.

    merit : higher is better; 0 where an option keeps not every limit. [any]
    """
    most = merit.max(axis=-1, initial=0.0, keepdims=True)
    return np.asarray(1.0 - np.divide(merit, most, out=np.zeros_like(merit), where=most > 0.0))


def chance_of_tie(drawn: Array, tie: float) -> Array:
    """Share of draws [draws, places, options] [any] that lose less than `tie` to the best. [-]"""
    most = drawn.max(axis=2, keepdims=True, initial=0.0)
    return np.asarray((drawn >= (1.0 - tie) * most).mean(axis=0))


def drawn_ratio(drawn: Array, best: NDArray[np.intp]) -> Array:
    """Merit of each option over that of one of its place, [draws, places, options]. [-]

    1 minus it is the loss.

    drawn : merit under each draw, [draws, places, options]; higher is better. [any]
    best : that option, [places].
    """
    if not drawn.shape[2]:
        return np.zeros_like(drawn)
    own = np.take_along_axis(drawn, best[None, :, None], axis=2)
    return np.asarray(np.divide(drawn, own, out=np.zeros_like(drawn), where=own > 0.0))


def ranks(values: Array) -> NDArray[np.int64]:
    """Rank of each model in each draw, 1 for the least value, from values [draws, models]."""
    order = np.argsort(values, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
    return found


def rank_range(found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last rank of each model's central 80 %, from ranks [draws, models]. Both are ranks that did occur."""
    edge = (1.0 - BAND_LEVEL) / 2.0
    low, high = np.quantile(found, [edge, 1.0 - edge], axis=0, method="nearest")
    return np.asarray(low, np.int64), np.asarray(high, np.int64)


def on_front(values: Sequence[float], quality: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether no other model has a lower value at no less quality, or more quality at no higher value."""
    known = [(value, score) for value, score in zip(values, quality, strict=True) if score is not None]
    return tuple(
        score is not None and not any(v <= value and q >= score and (v, q) != (value, score) for v, q in known)
        for value, score in zip(values, quality, strict=True)
    )
