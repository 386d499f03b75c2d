"""How fast a sweep goes against its plan, and which blocks that leaves time for."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_SHARE = 0.15
"""Part of the plan's price that counts as measured at the planned pace before anything is. One small block that carries
the set-up of a device then moves the pace little, a block of the plan's size moves it fully. [-]"""
MARGIN = 1.15
"""A block may be this much dearer than the time left and is still begun: it can end early with fewer rounds. [-]"""


@dataclass
class Pace:
    """Measured over estimated time of the blocks done. priced_s and spent_s are sums over those blocks. [s]"""

    prior_s: float
    priced_s: float = 0.0
    spent_s: float = 0.0

    def add(self, estimate_s: float, seconds: float) -> None:
        """Count a block that was measured."""
        self.priced_s += estimate_s
        self.spent_s += seconds

    @property
    def ratio(self) -> float:
        """Expected time of a block over its estimate. [-]"""
        return (self.prior_s + self.spent_s) / (self.prior_s + self.priced_s) if self.prior_s > 0 else 1.0

    def fits(self, estimate_s: float, left_s: float) -> bool:
        """Whether a block of this estimate is worth beginning with `left_s` to go. [s]"""
        return estimate_s * self.ratio <= MARGIN * left_s
