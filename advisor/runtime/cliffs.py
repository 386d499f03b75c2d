"""Batches to avoid: where a kernel switches, verification jumps, and the speedup falls and rises again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.bands import PER_K_LOG_SD
from advisor.curve import Curve
from advisor.prediction import Tier

LEAST_DEPTH = 3.0 * PER_K_LOG_SD
"""How deep a dip is at least on both sides, in log speedup: three times what neighbouring token counts scatter. [-]"""


@dataclass(frozen=True)
class Cliff:
    """Range of batches in which speculation gains less than on both sides. First to last of the curve's grid."""

    n_draft: int
    first: int
    last: int
    before_s: float
    """Verify step at the batch before it. [s]"""
    after_s: float
    """Verify step at the first batch of the grid inside. [s]"""
    before: float
    """Speedup at the batch before it. [-]"""
    least: float
    """Least speedup inside. [-]"""
    later: float
    """Highest speedup beyond. [-]"""

    @property
    def text(self) -> str:
        """The range and why, in one sentence."""
        return (
            f"Avoid {self.first}-{self.last} sequences at K = {self.n_draft}: a kernel switches above {self.first - 1} "
            f"(measured), verification jumps from {self.before_s * 1e3:.1f} to {self.after_s * 1e3:.1f} ms, and the "
            f"speedup falls from {self.before:.2f}x to {self.least:.2f}x before it rises again to {self.later:.2f}x."
        )


def kernel_cliffs(curve: Curve, column: int) -> tuple[Cliff, ...]:
    """Ranges of batches that the K in `column` does better to avoid, in order of batch.

    A verify step that grows by more than its batch is a kernel switch: the same tokens in two smaller steps would be
    faster, so no growth of work explains it. Where the speedup falls there, and later rises again by LEAST_DEPTH, the
    range reaches to the last batch of the grid that is nearer to the bottom than to the lower edge. Steps from data
    sheets have no kernels to switch.
    """
    batches, gain = np.log(curve.batches), np.log(curve.speedup[:, column])
    grows = np.diff(np.log(curve.verify_step_s[:, column])) / np.diff(batches)
    found: list[Cliff] = []
    for i in np.flatnonzero(grows > 1.0):
        if (found and curve.batches[i] < found[-1].last) or curve.tier[i + 1, column] == Tier.ROOFLINE:
            continue
        rise = np.array([gain[j:].max() for j in range(i + 1, len(gain))]) - gain[i + 1 :]
        bottom = i + 1 + int(np.argmax(np.minimum(gain[i] - gain[i + 1 :], rise)))
        edge = min(float(gain[i]), float(gain[bottom:].max()))
        if edge - gain[bottom] < LEAST_DEPTH or gain[i] <= gain[i + 1]:
            continue
        peak = bottom + int(gain[bottom:].argmax())
        low = np.flatnonzero(gain[i + 1 : peak] < (edge + gain[bottom]) / 2.0) + i + 1
        verify_s, speedup = curve.verify_step_s[:, column], curve.speedup[:, column]
        found.append(
            Cliff(
                n_draft=int(curve.drafts[column]),
                first=int(curve.batches[i]) + 1,
                last=int(curve.batches[low[-1]]),
                before_s=float(verify_s[i]),
                after_s=float(verify_s[i + 1]),
                before=float(speedup[i]),
                least=float(speedup[bottom]),
                later=float(speedup[peak]),
            )
        )
    return tuple(found)
