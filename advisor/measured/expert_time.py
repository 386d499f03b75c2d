"""A time per touched expert on a chip that nobody fitted: rows may ask for it, and get it where rows left out gain.

A kernel that calls one product for each expert pays for the call, which no byte and no operation tells. Shipped
rooflines hold the share of grouped kernels on GPUs; how much it is elsewhere depends on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.measured.multipliers import MultiplierPrior
from advisor.measured.observations import NAMES, Observations, joined, log_predicted, stacked
from advisor.measured.points import Point, repriced
from advisor.measured.readings import LEAST_GAIN, MAX_LEFT_OUT, log_evidence
from advisor.physics.architecture import Moe
from advisor.predict.setup import Setup
from advisor.prediction import BAND_SIGMAS

TRIED_S = np.array([0.0, *np.geomspace(0.5e-6, 128e-6, 25)])
"""Times that compete, equally likely a priori. [s]"""
LEAST_SIZES = 4.0
"""Sizes of the experts of two designs, one over the other, from which on they tell the time. [-]"""
SAME_BYTES = 0.1
"""Difference of the logarithms of two layers' bytes up to which they count as equal. [-]"""
_UNIT_S = 10e-6
"""A step is linear in the time, so that one prediction with this much tells all. [s]"""
_ROUTED = NAMES.index("routed")


@dataclass(frozen=True)
class ExpertTime:
    """Time per touched expert of a layer that rows ask for."""

    constant_s: float
    """What a refit adds to the shipped constant, before the factor of the routed experts; the most probable. [s]"""
    mean_s: float
    """Mean and standard deviation of the time itself over all that competed. [s]"""
    sd_s: float
    given_error: float
    """Mean error of values left out, without such a time and with the one that suits the others. [-]"""
    error: float
    gain: float
    """Log odds of the most probable one against none. [-]"""

    @property
    def taken(self) -> bool:
        """Whether a refit takes it: by the rule of every other reading of the rows."""
        return bool(self.constant_s and self.gain >= LEAST_GAIN and self.error <= MAX_LEFT_OUT * self.given_error)

    @property
    def text(self) -> str:
        """Sentence on what was found, and whether it was taken."""
        if not self.constant_s:
            return "The rows ask for no time per touched expert."
        low, high = (max(self.mean_s + side * BAND_SIGMAS * self.sd_s, 0.0) * 1e6 for side in (-1.0, 1.0))
        about = f"{self.mean_s * 1e6:.1f} us ({low:.1f} to {high:.1f}) for each touched expert of a layer"
        errors = f"designs left out of the fit are off by {self.error:.1%} in place of {self.given_error:.1%}"
        if self.taken:
            return f"Taken: {about}; with it {errors}."
        need = f"{MAX_LEFT_OUT * self.given_error:.1%}"
        odds = f"{np.exp(self.gain):.0f} times as probable as none, {np.exp(LEAST_GAIN):.0f} times is asked for"
        sure = "" if self.gain >= LEAST_GAIN else f"; it is {odds}"
        return f"Not taken: {about}; with it {errors}, {need} is asked for{sure}."

    def repriced(self, points: Sequence[Point]) -> list[Point]:
        """Rows as predicted with it."""
        return _with_time(points, self.constant_s)


def expert_time(points: Sequence[Point], prior: MultiplierPrior) -> ExpertTime | None:
    """The time per touched expert that rows ask for. None where they cannot tell, or the chip's kernels were fitted.

    Only experts of other sizes but equal bytes tell it from a byte and from a launch: without such a pair six measured
    designs agreed on 28 us, where the pair says 9 (docs/decisions/0032-launches-of-shared-experts.md).
    """
    shapes = {id(point.setup): point.setup.architecture.moe for point in points}
    if any(point.setup.hardware.generation for point in points) or not isolated(list(shapes.values())):
        return None
    designs = [(point.scenario.model_id, point.scenario.model_config_json) for point in points]
    names = list(dict.fromkeys(designs))
    given, read = (joined(point.observations for point in some) for some in (points, _with_time(points, _UNIT_S)))
    if len(read.line) != len(given.line):
        return None
    by_line = {point.line: names.index(design) for point, design in zip(points, designs, strict=True)}
    part = np.array([by_line[line] for line in given.line])
    every = stacked([_at(given, read, float(seconds)) for seconds in TRIED_S])
    used = np.ones(every.measured.shape, bool)
    evidence, posterior = log_evidence(every, prior, used)
    likely = np.exp(evidence - evidence.max())
    likely /= likely.sum()
    times = TRIED_S * np.exp(posterior.theta[:, _ROUTED])
    known = times**2 * posterior.covariance[:, _ROUTED, _ROUTED]
    mean, best = float(likely @ times), int(evidence.argmax())
    errors = _left_out(every, prior, part)
    return ExpertTime(
        constant_s=float(f"{TRIED_S[best]:.3g}"),
        mean_s=mean,
        sd_s=float(np.sqrt(likely @ ((times - mean) ** 2 + known))),
        given_error=errors[0],
        error=errors[1],
        gain=float(evidence[best] - evidence[0]),
    )


def isolated(layers: Sequence[Moe | None]) -> bool:
    """Whether two of these layers have equal bytes in experts at least LEAST_SIZES apart in size."""
    sizes = [
        (np.log(moe.expert_width * moe.expert_input_width), np.log(moe.n_experts)) for moe in layers if moe is not None
    ]
    return len(sizes) == len(layers) and any(
        size - other >= np.log(LEAST_SIZES) and abs(size + count - other - others) <= SAME_BYTES
        for size, count in sizes
        for other, others in sizes
    )


def _left_out(every: Observations, prior: MultiplierPrior, part: NDArray[np.int_]) -> tuple[float, float]:
    """Mean error of values left out, part by part: without a time, and with the one that suits the other parts. [-]"""
    out = np.zeros((2, part.size))
    for one in np.unique(part):
        left = part == one
        used = np.broadcast_to(~left, every.measured.shape)
        evidence, posterior = log_evidence(every, prior, used)
        said = log_predicted(every, posterior.theta[:, None]) - every.log_measured
        out[:, left] = said[[0, int(evidence.argmax())]][:, left]
    plain, chosen = np.abs(np.expm1(out)).mean(axis=1)
    return float(plain), float(chosen)


def _at(given: Observations, read: Observations, seconds: float) -> Observations:
    """Observations with another time per touched expert, along the line through none and _UNIT_S. [s]"""
    parts = {
        name: getattr(given, name) + (getattr(read, name) - getattr(given, name)) * (seconds / _UNIT_S)
        for name in ("upper", "lower")
    }
    return replace(given, **parts)


def _with_time(points: Sequence[Point], seconds: float) -> list[Point]:
    """Rows as predicted with a further time per touched expert. [s]"""

    def slower(setup: Setup) -> Setup:
        return replace(setup, costs=setup.costs.with_expert_time(seconds))

    return repriced(points, slower)
