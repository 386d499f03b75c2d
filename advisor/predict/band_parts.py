"""Where a band comes from: the band that each kind of uncertainty would give alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from advisor.physics.bands import Draws, make_draws
from advisor.physics.components import KERNELS, OVERHEADS
from advisor.predict.curve import curve_for
from advisor.predict.setup import Setup


@dataclass(frozen=True)
class BandPart:
    """The band of a speedup when only one kind of constant is uncertain. [-]"""

    what: str
    low: float
    high: float
    share: float
    """Of the variance of the logarithm, over all parts. [-]"""


def band_parts(setup: Setup, batch_size: float, n_draft: int) -> tuple[BandPart, ...]:
    """One part for each kind of uncertainty, in the order of computation. The same draws as the whole band."""
    rows = []
    for label, draws in _alone(make_draws(setup.costs)):
        curve = curve_for(setup, [batch_size], [n_draft], draws=draws)
        log_sd = float(np.std(np.log(curve.draws[:, 0, 0])))
        rows.append((label, float(curve.low[0, 0]), float(curve.high[0, 0]), log_sd**2))
    total = sum(variance for *_, variance in rows) or 1.0
    return tuple(BandPart(label, low, high, variance / total) for label, low, high, variance in rows)


def _alone(draws: Draws) -> Iterator[tuple[str, Draws]]:
    """Draws in which one kind varies and all others stay at their centre."""
    central, no_error = {name: np.ones_like(x) for name, x in draws.factor.items()}, np.zeros_like(draws.routing_z)
    still = Draws(central, no_error, no_error, no_error, np.zeros_like(draws.per_k_z))
    kernels = {component.key: draws.factor[component.key] for component in KERNELS}
    overheads = {component.key: draws.factor[component.key] for component in OVERHEADS}
    yield "Kernel times", replace(still, factor=central | kernels)
    yield "Launch and host times", replace(still, factor=central | overheads)
    yield "Routing", replace(still, routing_z=draws.routing_z)
    yield "Accepted length", replace(still, acceptance_z=draws.acceptance_z)
    yield "What the model leaves unexplained", replace(still, residual_z=draws.residual_z, per_k_z=draws.per_k_z)
