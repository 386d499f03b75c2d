"""What surrounds the kernels of a round, per engine class, fitted on published speedups by robust
least squares.

A class's log constants are a mean over classes plus a deviation, which share the prior's variance.
How much of it is common to all classes is decided by the error on laboratories left out
(docs/decisions/0003-engine-overheads.md), at least COMMON. All rows of one laboratory share an
offset and a drift over batch that are its own: they inform the constants by how they differ from
each other more than by where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.fit_records import (
    ANY_CLASS,
    OVERHEAD_NAMES,
    SYNCHRONOUS,
    SYNCHRONOUS_ROUND_S,
    WORKSTATION,
)
from advisor.catalog.kernel_choice import small_launch
from advisor.measured.observations import NAMES, Observations, joined, log_predicted, log_slopes
from advisor.physics.bands import drift
from advisor.physics.components import JOINT
from advisor.prediction import BAND_SIGMAS, Array
from studies.published import PublishedPoint


@dataclass(frozen=True)
class Prior:
    """Gaussian prior of p unknowns. `whitening` [p, p] maps their distance from `centre` [p] to
    standard normals."""

    centre: Array
    whitening: Array


@dataclass(frozen=True)
class Solution:
    """Unknowns [p] at the least cost, and what the solver says of them."""

    x: Array
    jacobian: Array
    cost: float
    success: bool
    message: str

    @property
    def covariance(self) -> Array:
        """Covariance of the unknowns [p, p], by the curvature at the solution.

        LinAlgError where it leaves some open.
        """
        return np.asarray(np.linalg.inv(self.jacobian.T @ self.jacobian))


def solve(
    error: Callable[[Array], Array],
    starts: Sequence[Array],
    *,
    slopes: Callable[[Array], Array] | None = None,
    prior: Prior | None = None,
    bounds: tuple[Array | float, Array | float] = (-np.inf, np.inf),
    robust: bool = True,
    **options: Any,
) -> Solution:
    """The best of several local minima of the robust sum of squared errors plus the prior's.

    Parameters
    ----------
    error : of the data at unknowns [p], in units of its standard deviation [n].
    starts : unknowns to start from, one local search each.
    slopes : derivative of `error` [n, p]; by finite differences where it is not given.
    prior : None lets the data speak alone.
    bounds : lowest and highest unknowns.
    robust : soft-L1, 2 (sqrt(1 + z^2) - 1), in place of z^2; on the data alone, the prior stays
        Gaussian.
    options : `xtol`, `max_nfev` of scipy.optimize.least_squares.

    Notes
    -----
    The loss is applied as the square of a transformed residual, so that the Jacobian's curvature
    holds it too.
    """
    from scipy.optimize import least_squares

    def residuals(x: Array) -> Array:
        z = error(x)
        z = z * _softening(z) if robust else z
        return z if prior is None else np.concatenate([z, prior.whitening @ (x - prior.centre)])

    def jacobian(x: Array) -> Array:
        assert slopes is not None
        slope = slopes(x)
        slope = slope * _soft_slope(error(x))[:, None] if robust else slope
        return slope if prior is None else np.concatenate([slope, prior.whitening])

    jac = "2-point" if slopes is None else jacobian
    found = [least_squares(residuals, start, jac=jac, bounds=bounds, **options) for start in starts]
    best = min(found, key=lambda result: result.cost)
    return Solution(best.x, best.jac, float(best.cost), bool(best.success), str(best.message))


def solve_observed(
    observed: Observations,
    spread: Array | float,
    prior: Prior,
    start: Array,
    matrix: Array,
    offset: Array,
    **options: Any,
) -> Solution:
    """Unknowns x [p] behind the log multipliers offset + matrix x of observations.

    Parameters
    ----------
    observed, spread : observations, and the log standard deviation of all, or what whitens their
        errors [n, n].
    prior, start : of the unknowns, and where the search starts [p].
    matrix, offset : [names, p] and [names]; with n in front for one set of multipliers each.
    options : as of `solve`.
    """
    target = observed.log_measured

    def whitened(errors: Array) -> Array:
        return np.asarray(errors / spread if np.ndim(spread) == 0 else spread @ errors)

    def error(x: Array) -> Array:
        return whitened(log_predicted(observed, offset + matrix @ x) - target)

    def slopes(x: Array) -> Array:
        slope = log_slopes(observed, offset + matrix @ x)
        slope = slope @ matrix if matrix.ndim == 2 else np.einsum("np,npz->nz", slope, matrix)
        return whitened(slope)

    return solve(error, [start], slopes=slopes, prior=prior, **options)


def _softening(z: Array) -> Array:
    """Factor f with (z f)^2 = 2 (sqrt(1 + z^2) - 1)."""
    return np.asarray(np.sqrt(2.0 / (np.sqrt(1.0 + z**2) + 1.0)))


def _soft_slope(z: Array) -> Array:
    """Derivative of z f(z)."""
    return np.asarray(1.0 / (np.sqrt(1.0 + z**2) * _softening(z)))


PRIOR = (10e-6, 0.3e-3, 0.4e-3, 0.0, 3e-4)
"""Centre of the weak prior, in the order of OVERHEAD_NAMES: times as in
docs/decisions/0003-engine-overheads.md [s], no second reading of the cache, and verified tokens
half of the way to plain ones at 3,300 of them [-], which was chosen on the rows that are fitted
(docs/decisions/history.md (0019))."""
PRIOR_LOG_SD = math.log(2.0) / BAND_SIGMAS
"""A factor of 2 either way at 80 %: factors of 1.4, 1.7 and 2 give the same error and coverage on
laboratories left out, 3 gives a larger error; chosen on the rows that are fitted
(docs/decisions/history.md (0015))."""
MEASURED_LAUNCH_LOG_SD = 0.25
"""Of a layer's launches where plain decode shows them (assumed: the scatter of their fit over
models). [-]"""
WORKSTATION_REREAD = 0.5
"""Centre of their prior for second readings of the cache: between once for all tokens and once for
each. [-]"""
SOURCE_LOG_SD = 0.15
"""Offset that all rows of one laboratory share: log standard deviation between laboratories, as the
bands of left-out ones show it (docs/validation.md). [-]"""
UNKNOWN_CLASS = "other"
OVERLAPPING = ("vllm", "trtllm")
"""Engines whose host prepares a round while the device computes the last, in all releases of their
rows. SGLang's overlap was opt-in when its rows were measured
(docs/decisions/history.md (0036))."""
COMMON = np.array([one.key == "verified" for one in JOINT], float)
"""Share of each constant's prior variance that all classes have in common, beyond what a fit is
asked for: what a verified token takes is one constant, since too few laboratories have several
batches to tell classes apart."""
_PLACES = [NAMES.index(one.factor) for one in JOINT]  # of OVERHEAD_NAMES among all multipliers


def prior_of(engine_class: str) -> Array:
    """Centre of a class's prior, in the order of OVERHEAD_NAMES. A layer's launches as plain decode
    has them where an engine was measured; 0 for what a class has none of."""
    centre = np.array(PRIOR)
    measured = _measured_launch_s(engine_class)
    if measured is not None:
        centre[_LAUNCH] = measured
    if engine_class.endswith(SYNCHRONOUS):
        centre[_ROUND] = SYNCHRONOUS_ROUND_S
    if engine_class.endswith(WORKSTATION):
        centre[_REREAD] = WORKSTATION_REREAD
    return centre


def _prior_log_sd(engine_class: str) -> Array:
    spread = np.full(len(PRIOR), PRIOR_LOG_SD)
    if _measured_launch_s(engine_class) is not None:
        spread[_LAUNCH] = MEASURED_LAUNCH_LOG_SD
    return spread


def _measured_launch_s(engine_class: str) -> float | None:
    measured = small_launch(engine_class.removesuffix(SYNCHRONOUS), "launch_per_layer_s")
    return None if measured is None else measured.value_s


_HOSTS = [OVERHEAD_NAMES.index(name) for name in ("host_per_draft_pass_s", "host_per_round_s")]
_LAUNCH = OVERHEAD_NAMES.index("launch_per_layer_s")
_ROUND = OVERHEAD_NAMES.index("host_per_round_s")
_REREAD = OVERHEAD_NAMES.index("reread_share")


@dataclass(frozen=True)
class Overheads:
    """Constants in the order of OVERHEAD_NAMES [s or 1], with the covariance of their logarithms
    [n, n]."""

    values: tuple[float, ...]
    log_covariance: Array
    n_rows: int
    n_sources: int

    def costs(self) -> dict[str, Any]:
        """Constants as fields of KernelCosts."""
        return {
            **dict(zip(OVERHEAD_NAMES, self.values, strict=True)),
            "overhead_log_covariance": tuple(
                tuple(float(x) for x in row) for row in self.log_covariance
            ),
        }


@dataclass(frozen=True)
class OverheadModel:
    """Overheads of every class seen, and of `any`."""

    by_class: dict[str, Overheads]

    def of(self, engine_class: str) -> Overheads:
        """Overheads of a class. As wide as `any`, at the centre of its own prior, when it was not
        seen."""
        return self.by_class.get(engine_class) or self.of_new_class(engine_class)

    def of_new_class(self, engine_class: str) -> Overheads:
        """Overheads of a class without rows.

        It is the mean over classes, moved by the distance between the centres of their priors.
        """
        every = self.by_class[ANY_CLASS]
        own = prior_of(engine_class)
        moved = np.where(
            np.array(PRIOR) > 0.0, np.array(every.values) * own / _positive(np.array(PRIOR)), own
        )
        return replace(every, values=tuple(float(value) for value in moved), n_rows=0, n_sources=0)


def _positive(values: Array) -> Array:
    """`values`, with 1 in place of 0: a class without a constant has nothing that its multiplier
    could scale."""
    return np.where(values > 0.0, values, 1.0)


def prior_overheads(engine_class: str) -> Overheads:
    """Prior overheads of a class before any speedup."""
    values = tuple(float(value) for value in prior_of(engine_class))
    return Overheads(values, np.diag(_prior_log_sd(engine_class) ** 2), 0, 0)


def log_speedup(points: Sequence[PublishedPoint], log_overheads: Array) -> Array:
    """Log speedup of each published point at log overheads [points, OVERHEAD_NAMES]. [-]"""
    theta = np.zeros((len(points), len(NAMES)))
    theta[:, _PLACES] = log_overheads - _own_log_overheads(points)
    return log_predicted(joined(point.observations for point in points), theta)


def speedups(points: Sequence[PublishedPoint], model: OverheadModel) -> Array:
    """Speedup of each published point with the overheads of its class [n]. [-]"""
    values = np.array([model.of(point.engine_class).values for point in points])
    return np.exp(log_speedup(points, np.log(_positive(values))))


def _own_log_overheads(points: Sequence[PublishedPoint]) -> Array:
    """Overheads that each point's observations were predicted with [points, OVERHEAD_NAMES]."""
    return np.log(
        _positive(np.array([point.overheads for point in points]).reshape(-1, len(OVERHEAD_NAMES)))
    )


def fit_overheads(
    points: Sequence[PublishedPoint], common_share: float, also: Iterable[str] = ()
) -> OverheadModel:
    """Fit all classes together.

    Parameters
    ----------
    points : published rows; those of UNKNOWN_CLASS inform the mean over classes only, those whose
      plain step is not the one predicted nothing (`PublishedPoint.informs`).
    common_share : share of the weak prior's variance that all classes have in common, 0 to 1; at
      least COMMON. Host times have a mean of their own where the device hides part of them
      (`hides_its_host`). [-]
    also : classes that may have no rows; one of the latter is then that mean.

    Notes
    -----
    Minimises sum soft_l1(z) + prior terms, where z are the log errors of a laboratory's rows,
    whitened by the covariance that its offset, its drift and each row's own spread give them. A
    class seen in one laboratory only keeps the prior's width, whatever its rows say.
    """
    points = [point for point in points if point.informs]
    unseen = filter(hides_its_host, also)
    classes = sorted({*(p.engine_class for p in points), *unseen} - {UNKNOWN_CLASS})
    place = {name: number for number, name in enumerate(classes)}
    at = np.array([place.get(p.engine_class, len(classes)) for p in points], int)
    # The table of log overheads, a row per class and one of their mean: centre + to_table z, z
    # independent and normal.
    spread = np.array([*map(_prior_log_sd, classes), _prior_log_sd(UNKNOWN_CLASS)])
    common = np.maximum(COMMON, common_share)
    to_table = _prior_map(spread, common)
    priors = np.array([*map(prior_of, classes), PRIOR])
    to_table = _hosts_apart(
        to_table, np.array([hides_its_host(name) for name in classes] + [False])
    )
    centre = np.log(_positive(priors))
    prior = Prior(np.zeros(to_table.shape[2]), np.eye(to_table.shape[2]))
    offset = np.zeros((len(points), len(NAMES)))
    matrix = np.zeros((len(points), len(NAMES), to_table.shape[2]))
    offset[:, _PLACES], matrix[:, _PLACES] = centre[at] - _own_log_overheads(points), to_table[at]
    observed = joined(point.observations for point in points)
    found = solve_observed(observed, whitening(points), prior, prior.centre, matrix, offset)
    values = np.where(priors > 0.0, np.exp(centre + to_table @ found.x), 0.0)
    # How often one laboratory's kernels read the cache is no property of its class.
    alone = [number for name, number in place.items() if len(_laboratories(points, name)) < 2]
    values[alone, _REREAD] = priors[alone, _REREAD]
    covariances = np.einsum("cpz,zy,cqy->cpq", to_table, found.covariance, to_table)
    by_class = {
        name: _overheads(
            values[number],
            covariances[number],
            [p for p in points if p.engine_class == name],
            spread[number],
        )
        for name, number in place.items()
    }
    new_class = covariances[-1] + np.diag(spread[-1] ** 2 * (1.0 - common))
    by_class[ANY_CLASS] = _overheads(values[-1], new_class, points, spread[-1])
    return OverheadModel(by_class)


def _laboratories(points: Sequence[PublishedPoint], engine_class: str) -> set[str]:
    return {point.laboratory for point in points if point.engine_class == engine_class}


def _prior_map(spread: Array, common: Array) -> Array:
    """Log overheads as a linear map of independent standard normals: [classes and their mean, n, n
    + n classes].

    `spread` holds the prior's log sd [classes and their mean, n], `common` the share of its
    variance that all have in common [n].
    """
    rows, n = spread.shape
    out = np.zeros((rows, n, n * rows))
    out[:, :, :n] = np.einsum("cp,pq->cpq", spread, np.diag(np.sqrt(common)))
    for number in range(rows - 1):
        out[number, :, n * (number + 1) : n * (number + 2)] = np.diag(
            spread[number] * np.sqrt(1.0 - common)
        )
    return out


def hides_its_host(engine_class: str) -> bool:
    """Whether the device hides part of a class's host times: engines of OVERLAPPING, where they run
    ahead of it."""
    return engine_class.split("-")[0] in OVERLAPPING and not engine_class.endswith(
        (SYNCHRONOUS, WORKSTATION)
    )


def _hosts_apart(to_table: Array, apart: NDArray[np.bool_]) -> Array:
    """The map with host times of some classes, `apart` [classes and their mean], about a mean of
    their own.

    The device hides a part of these, so what is fitted is another quantity than where a round waits
    for all of it.
    """
    rows, n, _ = to_table.shape
    own = np.zeros((rows, n, n))
    for place in _HOSTS:
        own[apart, place, place] = to_table[apart, place, place]
        to_table[apart, place, place] = 0.0
    return np.concatenate([to_table, own], axis=2)


def whitening(points: Sequence[PublishedPoint]) -> Array:
    """Matrix that makes the log errors of points independent with unit variance, [n, n].

    It is the inverse Cholesky factor of their covariance, one block a laboratory.
    """
    from scipy.linalg import solve_triangular

    out = np.zeros((len(points), len(points)))
    for own in by_laboratory(points):
        own_drift = drift(np.array([points[i].batch_size for i in own]))
        covariance = SOURCE_LOG_SD**2 + np.outer(own_drift, own_drift)
        covariance = covariance + np.diag([points[i].log_sd ** 2 for i in own])
        out[np.ix_(own, own)] = solve_triangular(
            np.linalg.cholesky(covariance), np.eye(len(own)), lower=True
        )
    return out


def by_laboratory(points: Sequence[PublishedPoint]) -> Iterator[list[int]]:
    """Places of each laboratory's points, laboratories in the order of their names."""
    names = [point.laboratory for point in points]
    for name in sorted(set(names)):
        yield [i for i, one in enumerate(names) if one == name]


def _overheads(
    values: Array, covariance: Array, points: list[PublishedPoint], spread: Array
) -> Overheads:
    n_sources = len({point.laboratory for point in points})
    if n_sources < 2:  # but what all classes have in common is known from the others
        own = COMMON == 0.0
        covariance = np.where(
            np.outer(own, own), np.diag(spread**2), np.where(np.outer(~own, ~own), covariance, 0.0)
        )
    return Overheads(tuple(float(value) for value in values), covariance, len(points), n_sources)
