"""Functions that laws are written with: what is computed stays finite, what is shown is the textbook form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

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


def off(law: Law, name: str) -> float:
    """The default of a law's parameter: where its term is zero or its factor one. Raises KeyError without one."""
    default = inspect.signature(law).parameters[name].default
    if default is inspect.Parameter.empty:
        raise KeyError(name)
    return float(default)


def columns(law: Law, coefficients: Sequence[str], **given: Floats) -> Array:
    """The terms of a law that is linear in `coefficients`, one column each, [rows, coefficients].

    A column is the law itself with that coefficient one and the others at their defaults, where their terms vanish: so
    the law is the sum of its columns times the coefficients, a rate entering as its inverse.
    """
    still = {name: off(law, name) for name in coefficients}
    found = (np.asarray(law(**given, **{**still, name: 1.0}), float) for name in coefficients)
    return np.stack(np.broadcast_arrays(*found), axis=-1)
