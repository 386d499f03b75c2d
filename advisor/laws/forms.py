"""Functions that laws are written with: what is computed stays finite, what is shown is the textbook form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from advisor.arrays import Array, Floats

Law = Callable[..., Floats]


def p_norm(a: Floats, b: Floats, p: Floats) -> Array:
    """(a^p + b^p)^(1/p): nearly the larger of two limits, smoothly joined. Finite for any a, b >= 0."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = np.divide(low, high, out=np.zeros(np.broadcast_shapes(low.shape, high.shape)), where=high > 0)
    return np.asarray(high * (1.0 + ratio**p) ** (1.0 / p))


def one_minus_power(x: Floats, n: Floats) -> Array:
    """1 - x^n for 0 <= x <= 1, exact also where x^n is close to 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n * np.log(x)))


def columns(law: Law, off: Mapping[str, float], **given: Floats) -> Array:
    """The terms of a law that is linear in its coefficients, one column each, [rows, len(off)].

    `off` has, in order, the value at which each coefficient's term vanishes: 0 for a time, infinity for a rate. A
    column is the law itself with that coefficient one and all others off, so the law is the sum of its columns times
    the coefficients, a rate entering as its inverse.
    """
    found = (np.asarray(law(**given, **{**off, name: 1.0}), float) for name in off)
    return np.stack(np.broadcast_arrays(*found), axis=-1)
