"""Design search: which MoE, at the baseline's quality, serves best with speculative decoding."""

from __future__ import annotations

from advisor.design.answer import DesignAnswer, design_answer
from advisor.design.candidates import Band, Candidate, candidates, setup_of
from advisor.design.grid import DesignGrid
from advisor.design.handoff import design_config
from advisor.design.question import OBJECTIVES, Objective
from advisor.design.space import DesignSpace, design_space

__all__ = [
    "OBJECTIVES",
    "Band",
    "Candidate",
    "DesignAnswer",
    "DesignGrid",
    "DesignSpace",
    "Objective",
    "candidates",
    "design_answer",
    "design_config",
    "design_space",
    "setup_of",
]
