"""Functions that laws are written with: what is computed stays finite, what is shown is the textbook form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from advisor.arrays import Array, Floats

Law = Callable[..., Floats]


def p_norm(a: Floats, b: Floats, p: Floats) -> Array:
    """Smooth maximum of two times, (a^p + b^p)^(1/p): a roofline with a rounded ridge. [as a]

    a, b: the two limits, each >= 0. [s]
    p: sharpness of the bend, > 0: a sum at 1, the larger of the two as p grows. [-]
    Own derivation: the larger one is taken out of the root, so that the result is finite for any a, b >= 0.
    """
    # The larger one is taken out of the root, whose powers would overflow; 0/0 is a layer that neither reads nor
    # computes.
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = np.divide(low, high, out=np.zeros(np.broadcast_shapes(low.shape, high.shape)), where=high > 0)
    return np.asarray(high * (1.0 + ratio**p) ** (1.0 / p))


def one_minus_power(x: Floats, n: Floats) -> Array:
    """Chance of at least one hit in n trials, 1 - x^n, with x the chance of a miss. [-]

    x: from 0 to 1. [-]
    n: trials, >= 0. [-]
    Own derivation: by expm1, which stays exact where x^n is close to 1.
    """
    # log(0) is meant: where a miss cannot happen, a hit is certain.
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n * np.log(x)))


def off(law: Law, name: str) -> float:
    """Default of a law's parameter, at which its term is zero or its factor one. [as the parameter]

    Read from the law's signature, `laws.Law`. Raises KeyError for a parameter without a default.
    """
    default = inspect.signature(law).parameters[name].default
    if default is inspect.Parameter.empty:
        raise KeyError(name)
    return float(default)


def columns(law: Law, coefficients: Sequence[str], **given: Floats) -> Array:
    """Terms of a law that is linear in `coefficients`, one column each, [rows, coefficients]. [as the law]

    A column is the law itself with that coefficient one and the others at their defaults, where their terms vanish: so
    the law is the sum of its columns times the coefficients, a rate entering as its inverse. Own derivation: the
    columns of a least-squares fit.
    """
    # The law itself makes the columns, so that a fit and a prediction cannot have two forms.
    still = {name: off(law, name) for name in coefficients}
    found = (np.asarray(law(**given, **{**still, name: 1.0}), float) for name in coefficients)
    return np.stack(np.broadcast_arrays(*found), axis=-1)
