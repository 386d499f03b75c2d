"""Bands by draws: every component's uncertainty enters numerator and denominator of a speedup with
the same draw. `unseen` is the range of a speedup that is stated, on a machine without own rows.

Options that compete, such as models or designs, share their draws as well: losses, ties and ranks
in one place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.physics.acceptance import MAX_DRAFT
from advisor.physics.components import COMPONENTS, JOINT, Component
from advisor.physics.kernel_costs import KernelCosts, MoeCost
from advisor.prediction import BAND_SIGMAS, Array, quantiles

BAND_LEVEL = 0.8
"""Share of outcomes a band is meant to hold. [-]"""
N_DRAWS = 256
SIMULATED = f"{N_DRAWS} simulated cases"
"""The draws as a reader is told of them."""
EAGER_LOG_SD = 0.14
"""Of launching a layer's kernels one by one: a factor of 1.2 either way at 80 %, as far as five
hosts of two kinds of model lie apart (`advisor.catalog.engines`). [-]"""
_APART_LOG_SD = {"eager": EAGER_LOG_SD, "between_graphs": 0.6, "verify_tokens": 0.54}
"""Of what is drawn apart; between graphs, the spread of the three pairs behind
`catalog.kernel_costs.BETWEEN_S`; of verified tokens, a factor of 2 either way at 80 %. [-]"""
PER_K_LOG_SD = 0.02
"""Scatter of a speedup from one K to the next: measured acceptance curves depart 1.4 % from their
neighbours' interpolation, kernel times as much between neighbouring token counts. [-]"""
SHARED_LOG_SD = 0.1
"""Error of a drawn speedup that all K share: it decides between drafting and not alone. [-]"""
DRIFT_LOG_SD = 0.05
"""What it gains with each doubling of the batch beyond 4 sequences: of 0, 0.04 and 0.06 the last
two gave the narrower bands on laboratories left out
(docs/decisions/history.md (0015)). [-]"""
UNSEEN_LOG_HALF_WIDTH = 0.28
_T_AT_90 = 1.6377
"""Quantile .9 of Student's t with 3 degrees of freedom. [-]"""
_SLOW_SHARE = 0.09
_SLOW_LOG_MEAN = -0.5
_SLOW_LOG_SD = 0.2
"""Laboratories whose engine ran a slow path, and the speedup there over the predicted one. [-]"""
MOST_CHANCE = 0.95
"""Chance of a gain that is stated at most without rows of the user's own: stated certainty did not
hold on laboratories nobody had seen. [-]"""


@dataclass(frozen=True)
class Draws:
    """Relative errors, one row a draw. `factor[name]` [draws] multiplies a component; the z are
    standard normals."""

    factor: Mapping[str, Array]
    routing_z: Array
    acceptance_z: Array
    residual_z: Array
    per_k_z: Array
    """Errors that differ from one K to the next, [draws, K]: the column of a K does not depend on
    the others."""


def make_draws(
    costs: KernelCosts, n_draws: int = N_DRAWS, seed: int = 20250601, kernel_seed: int | None = None
) -> Draws:
    """Lognormal factors for each component of a step, median 1. A fixed seed: equal scenarios have
    equal bands.

    `kernel_seed` draws the errors of the kernels anew and leaves all others: for a comparison with
    kernels that were measured apart (another accelerator, engine or format), whose errors have
    nothing in common.
    """
    normals = _normals(n_draws, seed)
    errors = {
        **normals.alone,
        **({} if kernel_seed is None else _normals_of_kernels(n_draws, kernel_seed)),
    }
    factor = {
        component.key: np.exp(_log_sd(costs, component) * errors[component.key])
        for component in _ALONE
    }
    # Fitted together on the same speedups: what one of them explains, another cannot, so they are
    # drawn together.
    several = np.eye(len(JOINT))
    fitted = np.array(costs.overhead_log_covariance or several * costs.overhead_log_sd**2)
    # The tiny diagonal keeps the factor defined where two constants cannot be told apart.
    joint = np.linalg.cholesky(fitted + 1e-12 * several) @ normals.joint
    factor |= {
        component.key: values for component, values in zip(JOINT, np.exp(joint), strict=True)
    }
    factor |= {
        component.key: np.exp(_log_sd(costs, component) * normals.excluded[component.key])
        for component in _EXCLUDED
    }
    return Draws(factor, normals.routing, normals.acceptance, normals.residual, normals.per_k)


_ALONE = tuple(component for component in COMPONENTS if component.draw in ("kernel", "host"))
_EXCLUDED = tuple(component for component in COMPONENTS if component.draw == "apart")
"""Components whose errors come from a generator of their own."""


@dataclass(frozen=True)
class _Normals:
    """Standard normals behind draws, all [draws] but where it says so: scenarios of one seed share
    them."""

    alone: Mapping[str, Array]
    excluded: Mapping[str, Array]
    joint: Array
    """[constants, draws]."""
    routing: Array
    acceptance: Array
    residual: Array
    per_k: Array
    """[draws, K]."""


@functools.lru_cache(maxsize=32)
def _normals(n_draws: int, seed: int) -> _Normals:
    """The normals of a seed: drawing them takes longer than all that is done with them."""
    rng = np.random.default_rng(seed)
    alone = {component.key: rng.standard_normal(n_draws) for component in _ALONE}
    joint = rng.standard_normal((len(JOINT), n_draws))
    # A generator of its own: a component that few scenarios have leaves the bands of all others as
    # they are.
    excluded = {
        component.key: np.random.default_rng([seed, place]).standard_normal(n_draws)
        for place, component in enumerate(_EXCLUDED, start=1)
    }
    z = tuple(rng.standard_normal((3, n_draws)))
    normals = _Normals(
        alone, excluded, joint, z[0], z[1], z[2], rng.standard_normal((MAX_DRAFT + 1, n_draws)).T
    )
    for values in (*alone.values(), *excluded.values(), joint, *z, normals.per_k):
        values.setflags(write=False)  # they are shared
    return normals


@functools.lru_cache(maxsize=8)
def _normals_of_kernels(n_draws: int, seed: int) -> Mapping[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        component.key: rng.standard_normal(n_draws)
        for component in _ALONE
        if component.draw == "kernel"
    }


def _log_sd(costs: KernelCosts, component: Component) -> float:
    """Log standard deviation of a component's time, of several links the widest. The drafter's is
    the target's. [-]"""
    if component.draw == "apart":
        return _APART_LOG_SD[component.key]
    if component.bound == "host":
        return costs.overhead_log_sd
    if component.key == "attention" and costs.attention_log_sd is not None:
        return costs.attention_log_sd
    record = getattr(costs, component.priced_by[0])
    if isinstance(record, MoeCost):
        return record.band_log_sd
    if component.bound == "links":
        network = () if costs.network is None else (costs.network.log_sd,)
        return max((*(cost.log_sd for cost in record.values()), *network), default=0.0)
    return record.log_sd


def draw_total(
    components: Mapping[str, Array],
    draws: Draws,
    routed_low: Array | None,
    routed_high: Array | None,
) -> Array:
    """Total time under each draw [draws, ...] of components that broadcast together. [s]

    routed_low, routed_high: the routed component at the ends of the routing preset's 80 % range;
        None without one. [s]
    Own derivation: each component times its drawn factor; routing moves the routed experts between
    the preset's ends, a split normal, and never takes away more than nine tenths of them.
    """
    shape = np.broadcast_shapes(*(np.shape(time) for time in components.values()))
    names = list(components)
    times = np.empty((len(names), *shape))
    factors = np.empty((len(draws.routing_z), len(names)))
    for place, name in enumerate(names):
        times[place] = components[name]
        factors[:, place] = draws.factor[name]
    total = _weighted_sums(factors, times.reshape(len(names), -1)).reshape(-1, *shape)
    if routed_low is not None and routed_high is not None:
        routed = components["routed"]
        up = (draws.factor["routed"] * np.maximum(draws.routing_z, 0.0) / BAND_SIGMAS)[
            :, *(None,) * len(shape)
        ]
        down = (draws.factor["routed"] * np.maximum(-draws.routing_z, 0.0) / BAND_SIGMAS)[
            :, *(None,) * len(shape)
        ]
        # The preset's ends are 10 and 90 %: a normal draw reaches them at BAND_SIGMAS, to each side
        # on its own.
        shift = up * (routed_high - routed)
        shift -= down * (routed - routed_low)
        total += np.maximum(shift, -0.9 * routed, out=shift)
    return np.asarray(total)


def unseen(z: ArrayLike) -> Array:
    """Chance that a speedup on a machine nobody has seen is below exp(z) times the predicted. [-]

    z: logarithm of measured over predicted, any shape. [-]
    Definition: Student's t with 3 degrees of freedom, UNSEEN_LOG_HALF_WIDTH wide at 80 %, mixed
    with a slow path. Source: docs/decisions/0043-one-range.md.
    """
    x = np.asarray(z, float) * (_T_AT_90 / UNSEEN_LOG_HALF_WIDTH / math.sqrt(3.0))
    usual = 0.5 + (x / (1.0 + x**2) + np.arctan(x)) / math.pi
    slow = 0.5 + 0.5 * _erf((np.asarray(z, float) - _SLOW_LOG_MEAN) / _SLOW_LOG_SD / math.sqrt(2.0))
    return np.asarray((1.0 - _SLOW_SHARE) * usual + _SLOW_SHARE * slow)


_erf = np.vectorize(math.erf, otypes=[float])


@functools.cache
def unseen_ends() -> tuple[float, float]:
    """Ends of the 80 % range of a speedup over the predicted one, on such a machine. [-]

    Definition: quantiles of `unseen`.
    """
    tail = (1.0 - BAND_LEVEL) / 2.0
    z = np.linspace(-1.0, 1.0, 2001)
    low, high = np.exp(np.interp([tail, 1.0 - tail], unseen(z), z))
    return float(low), float(high)


def unseen_gain(speedup: Array) -> Array:
    """Chance that a predicted speedup is a gain there, at most MOST_CHANCE. [-]

    speedup: predicted, any shape. [-]
    Definition: of `unseen`.
    """
    return np.minimum(1.0 - unseen(-np.log(speedup)), MOST_CHANCE)


def drift(batch: Array) -> Array:
    """Log standard deviation that larger batches add to a drawn speedup, [nB]. [-]

    batch: sequences, [nB]. [-]
    Source: DRIFT_LOG_SD.
    """
    return np.asarray(DRIFT_LOG_SD * np.maximum(np.log2(batch / 4.0), 0.0))


def _weighted_sums(factors: Array, times: Array) -> Array:
    """`factors` [draws, components] times `times` [components, points], [draws, points].

    The components of a point are added one after another, whatever points stand beside it: a
    product of matrices would round by its shape, and by the machine's library.
    """
    if times.shape[1] == 1:  # along one point numpy adds in another order
        return _weighted_sums(factors, np.repeat(times, 2, axis=1))[:, :1]
    return np.asarray(np.einsum("dc,cp->dp", factors, times))


def wobble(draws: Draws, unexplained: float, beyond: Array, k: NDArray[np.int64]) -> Array:
    """Factor on a speedup for errors that the components do not explain, under each draw, [nK,
    draws, nB]. [-]

    unexplained: SHARED_LOG_SD, or the scatter of the user's own rows: log standard deviation. [-]
    beyond: the same of larger batches, and of steps longer than the measured ones, [nB, nK]. [-]
    k: draft lengths, columns of the draws. [-]
    Own derivation: most of the spread is common to all K of a scenario; PER_K_LOG_SD of it differs
    from one K to the
      next.
    """
    # The common part cancels when two K are compared and the part by K does not: it says how well
    # one K is told from the next.
    common = np.sqrt(max(unexplained**2 - PER_K_LOG_SD**2, 0.0) + np.square(beyond.T))
    per_k = PER_K_LOG_SD * draws.per_k_z.T[k][..., None]
    return np.asarray(np.exp(draws.residual_z[:, None] * common[:, None] + per_k))


def draw_acceptance(low: Array, central: Array, high: Array, draws: Draws) -> Array:
    """Accepted length under each draw [draws, K], at least 1. [tokens per round]

    low, central, high: centre and ends of its 80 % band, [K]. [tokens per round]
    Own derivation: a split lognormal through the three, since a band that is clipped at K + 1 is
    not symmetric.
    """
    z = draws.acceptance_z[:, None]
    up = np.log(high / central) / BAND_SIGMAS
    down = np.log(central / low) / BAND_SIGMAS
    return np.asarray(np.maximum(central * np.exp(np.where(z > 0, up, down) * z), 1.0))


def band(values: Array) -> tuple[Array, Array]:
    """Ends (low, high) of the central 80 % over the first axis, at each point of the rest. [as the
    values]

    values: draws of a quantity, [draws, ...], in any unit. [as the result]
    Definition: the quantiles (1 - BAND_LEVEL) / 2 to each side.
    """
    tail = (1.0 - BAND_LEVEL) / 2.0
    low, high = quantiles(values, (tail, 1.0 - tail))
    return low, high


def ranks(values: Array) -> NDArray[np.int64]:
    """Rank of each model in each draw, 1 for the least value.

    values : what ranks them, [draws, models]. [any]
    """
    order = np.argsort(values, axis=1, kind="stable")
    model_ranks = np.empty_like(order)
    np.put_along_axis(model_ranks, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
    return model_ranks


def rank_range(found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last rank of each model's central 80 %, from ranks [draws, models]. Both are ranks
    that did occur."""
    edge = (1.0 - BAND_LEVEL) / 2.0
    low, high = np.quantile(found, [edge, 1.0 - edge], axis=0, method="nearest")
    return np.asarray(low, np.int64), np.asarray(high, np.int64)


def on_front(values: Sequence[float], quality: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether no other model has a lower value at no less quality, or more quality at no higher
    value.

    values : of each model; lower is better. [any]
    quality : of each model; higher is better, None where unknown. [any]
    """
    known = [
        (value, score) for value, score in zip(values, quality, strict=True) if score is not None
    ]
    return tuple(
        score is not None
        and not any(v <= value and q >= score and (v, q) != (value, score) for v, q in known)
        for value, score in zip(values, quality, strict=True)
    )
