"""Design search: which MoE, at the baseline's quality, serves best with speculative decoding."""

from __future__ import annotations

from advisor.design.answer import (
    NOTHING_BINDS,
    DesignAnswer,
    best_by_objective,
    binding_constraints,
    binding_start,
    design_answer,
    loss_text,
    ruled_out,
    sensitivity_text,
)
from advisor.design.candidates import Band, Candidate, candidates, setup_of
from advisor.design.curves import DesignCurve, Line, design_curves
from advisor.design.document import answer_document, candidate_rows, parse_batches
from advisor.design.from_nothing import SHAPE_EXAMPLE, Start, parse_shape, start_from_shape, start_from_size
from advisor.design.grid import DesignGrid
from advisor.design.handoff import added_keys, design_config, design_name
from advisor.design.judged import DECIDING_LAW, LAW_NAMES
from advisor.design.question import CONSTRAINT_TEXT, OBJECTIVES, Objective
from advisor.design.search import design_space
from advisor.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.design.sweeps import HeatMap, Sweep, pareto_front
from advisor.design.title import design_words

__all__ = [
    "CONSTRAINT_TEXT",
    "DECIDING_LAW",
    "LAW_NAMES",
    "MAX_MEASURED_GAP",
    "NOTHING_BINDS",
    "OBJECTIVES",
    "SHAPE_EXAMPLE",
    "Band",
    "Candidate",
    "DesignAnswer",
    "DesignCurve",
    "DesignGrid",
    "DesignSpace",
    "HeatMap",
    "Line",
    "Objective",
    "Start",
    "Sweep",
    "added_keys",
    "answer_document",
    "best_by_objective",
    "binding_constraints",
    "binding_start",
    "candidate_rows",
    "candidates",
    "design_answer",
    "design_config",
    "design_curves",
    "design_name",
    "design_space",
    "design_words",
    "loss_text",
    "pareto_front",
    "parse_batches",
    "parse_shape",
    "ruled_out",
    "sensitivity_text",
    "setup_of",
    "start_from_shape",
    "start_from_size",
]
