"""Design search: which MoE, at the baseline's quality, serves best with speculative decoding."""

from __future__ import annotations

from advisor.design.grid import DesignGrid
from advisor.design.space import OBJECTIVES, DesignSpace, Objective, design_space

__all__ = ["OBJECTIVES", "DesignGrid", "DesignSpace", "Objective", "design_space"]
