"""The one alias for arrays of numbers, and how arguments become such arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Floats = float | Array
"""A number, or an array of numbers that broadcasts with its neighbours."""


def arrays(*values: ArrayLike) -> tuple[Array, ...]:
    """Each of `values` as an array of floats, shapes as they are."""
    return tuple(np.asarray(value, float) for value in values)
