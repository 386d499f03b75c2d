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
    found = []
    for what, draws in _alone(make_draws(setup.costs)):
        curve = curve_for(setup, [batch_size], [n_draft], draws=draws)
        spread = float(np.std(np.log(curve.draws[:, 0, 0])))
        found.append((what, float(curve.low[0, 0]), float(curve.high[0, 0]), spread**2))
    total = sum(variance for *_, variance in found) or 1.0
    return tuple(BandPart(what, low, high, variance / total) for what, low, high, variance in found)


def _alone(draws: Draws) -> Iterator[tuple[str, Draws]]:
    """Draws in which one kind varies and all others stay at their centre."""
    one, zero = {name: np.ones_like(x) for name, x in draws.factor.items()}, np.zeros_like(draws.routing_z)
    still = Draws(one, zero, zero, zero, np.zeros_like(draws.per_k_z))
    kernels = {part.key: draws.factor[part.key] for part in KERNELS}
    overheads = {part.key: draws.factor[part.key] for part in OVERHEADS}
    yield "Kernel times", replace(still, factor=one | kernels)
    yield "Launch and host times", replace(still, factor=one | overheads)
    yield "Routing", replace(still, routing_z=draws.routing_z)
    yield "Accepted length", replace(still, acceptance_z=draws.acceptance_z)
    yield "What the model leaves unexplained", replace(still, residual_z=draws.residual_z, per_k_z=draws.per_k_z)
