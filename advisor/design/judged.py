"""What a design costs to train and to trust: training compute, quality by each law, corners of the space it lies in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.design.space import DesignSpace
from advisor.quality import (
    SPARSITY_EXPONENT_RANGE,
    activation_ratio,
    anchored_ratio,
    law_range,
    loss_as_active_params,
)

_EDGE = 0.02
"""A value within this share of a bound lies at it. [-]"""
_MOST_TOLD = 2.0
"""Ratios above this are not printed: the laws are then far outside the designs they were fitted on. [-]"""
LAW_NAMES = {
    "leverage": "efficiency leverage (arXiv:2507.17702)",
    "anchor": "N_act ~ A^0.30 (arXiv:2507.20534)",
    "loss": "expert-mix loss (arXiv:2509.23678)",
}
"""The laws for equal quality; the first decides what is at equal quality."""
DECIDING_LAW = next(iter(LAW_NAMES.values())).split(" (")[0]
"""Its name without the source."""


@dataclass(frozen=True)
class LawQuality:
    """Size of a design by one law: dense-equivalent, over the baseline's, with its known range. [-]"""

    law: str
    """A key of LAW_NAMES."""
    ratio: float
    low: float | None
    """None where the law was published without an uncertainty."""
    high: float | None

    @property
    def short(self) -> str:
        """The ratio as `96%`, or `>200%` beyond what a law can be trusted to tell."""
        return f">{_MOST_TOLD:.0%}" if self.ratio > _MOST_TOLD else f"{self.ratio:.0%}"

    @property
    def text(self) -> str:
        """The ratio, range and law, as in `96% (84-110%) by efficiency leverage (arXiv:2507.17702)`."""
        band = "no band published" if self.low is None or self.high is None else f"{self.low:.0%}-{self.high:.0%}"
        return f"{self.short} ({band}) by {LAW_NAMES[self.law]}"


def qualities(space: DesignSpace, index: int) -> tuple[LawQuality, ...]:
    """Quality of one design by each law, in the order of LAW_NAMES.

    leverage: known to what laws differ by per octave of activation ratio. anchor: between the exponents of its three
    points. loss: the loss difference as active parameters, those needed for the design's loss over those it lacks.
    """
    own = space.baseline
    mix = space.mix([index])
    activation = float(activation_ratio(mix.n_experts[0], mix.n_active[0], mix.n_shared[0]))
    total, active = float(space.total_params[index]), float(space.active_params[index])
    ratio = float(space.dense_equivalent[index] / own.dense_equivalent)
    low, high = (float(end) for end in law_range(ratio, activation, own.activation))
    anchored = [
        float(anchored_ratio(active, activation, own.active_params, own.activation, p)) for p in SPARSITY_EXPONENT_RANGE
    ]
    middle = float(anchored_ratio(active, activation, own.active_params, own.activation))
    loss = space.loss_difference(int(space.body[index]), total, active, mix.n_active[0], mix.n_shared[0])
    lacking = float(loss_as_active_params(float(loss), own.total_params, own.active_params))
    return (
        LawQuality("leverage", ratio, low, high),
        LawQuality("anchor", middle, min(anchored), max(anchored)),
        LawQuality("loss", 1.0 / (1.0 + lacking), None, None),
    )


def corners(space: DesignSpace, index: int) -> tuple[str, ...]:
    """Ends of the grid or of a law's data that a design lies at, in words.

    A better design may lie beyond.

    An end that the baseline itself has is no corner.
    """
    own, mix = space.baseline, space.mix([index])
    n, k, s = (float(axis[0]) for axis in (mix.n_experts, mix.n_active, mix.n_shared))
    found = []
    for name, value, own_value, tried in (
        ("experts", n, own.n_experts, space.n_experts),
        ("active experts", k, own.n_active, space.n_active),
        ("shared experts", s, own.n_shared, space.n_shared),
    ):
        least, most = float(tried.min()), float(tried.max())
        if value == np.float32(own_value) or least == most or (value == 0.0 and name == "shared experts"):
            continue
        if value in (least, most):
            found.append(f"{value:g} {name}, the {'most' if value == most else 'fewest'} tried")
    rails = space.rails
    if k == rails.min_active and k != own.n_active and not any("active" in text for text in found):
        found.append(f"{k:g} active experts, the fewest that the laws know")
    activation = float(activation_ratio(n, k, s))
    if activation <= rails.min_activation * (1.0 + _EDGE) and activation < own.activation:
        found.append(f"activation ratio {activation:.1%}, the least behind the law")
    share = s / (k + s)
    if share >= rails.max_shared_share * (1.0 - _EDGE) and s != own.n_shared:
        found.append(f"shared share {share:.0%}, the most allowed")
    body = space.bodies[space.body[index]].architecture
    grain = 2.0 * body.hidden_size / float(space.expert_width[index])
    for bound, words in zip(rails.granularity, ("coarsest", "finest"), strict=True):
        if abs(grain / bound - 1.0) <= _EDGE and int(space.expert_width[index]) != own.expert_width:
            found.append(f"width {int(space.expert_width[index])}, the {words} experts that the law knows")
    return tuple(found)
