"""Experts that baseline and verification steps load, and the time that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.physics import laws
from advisor.predict.curve import Curve
from advisor.predict.setup import Setup
from advisor.prediction import Array


@dataclass(frozen=True)
class Loading:
    """Experts of a mixture that steps load, [nB] and [nB, nK]. All 0 and 1 for a dense model."""

    share: Array
    """Share of the routed experts that a baseline step loads, [nB]. [-]"""
    growth: Array
    """Distinct experts of a verification over those, [nB, nK]. [-]"""
    time_share: Array
    """Share of a baseline step that loads them, [nB]. [-]"""

    @classmethod
    def of(cls, setup: Setup, curve: Curve) -> Loading:
        """Read off a curve."""
        moe = setup.architecture.moe
        touched = curve.touched_plain
        none = np.zeros_like(curve.plain_step_s)
        growth = np.where(
            touched[:, None] > 0, curve.touched_verify / np.maximum(touched, 1e-9)[:, None], 1.0
        )
        return cls(
            share=none if moe is None else np.asarray(touched / moe.n_experts),
            growth=np.asarray(growth),
            time_share=np.asarray(curve.plain_components.get("routed", none) / curve.plain_step_s),
        )

    @property
    def expected(self) -> Array:
        """Verification over a baseline step, were loading experts all that grows, [nB, nK]. [-]"""
        return np.asarray(laws.amdahl_ratio(self.time_share[:, None], self.growth))
