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
from advisor.design.cells import DesignCells, Place, parse_place
from advisor.design.curves import DesignCurve, Line, design_curves
from advisor.design.document import answer_document, candidate_rows, parse_batches
from advisor.design.from_nothing import SHAPE_EXAMPLE, Start, parse_shape, start_from_shape, start_from_size
from advisor.design.grid import DesignGrid
from advisor.design.handoff import added_keys, design_config, design_name
from advisor.design.judged import DECIDING_LAW, LAW_NAMES
from advisor.design.one_design import OneDesign, one_design, parse_target, parse_targets
from advisor.design.one_design_words import (
    against_baseline,
    choices_table,
    loss_words,
    one_design_document,
    one_design_notes,
    one_design_price,
    one_design_rows,
    one_design_table,
    one_design_verdict,
)
from advisor.design.question import CONSTRAINT_TEXT, OBJECTIVES, Objective
from advisor.design.region_words import (
    cell_lines,
    held_where,
    map_cells_table,
    region_document,
    region_notes,
    region_rows,
    region_table,
    region_verdict,
)
from advisor.design.regions import MAP_ACCELERATORS, Region, RegionMap, default_places, region_map
from advisor.design.search import design_space
from advisor.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.design.sweeps import DesignLine, HeatMap, pareto_front
from advisor.design.title import design_words

__all__ = [
    "CONSTRAINT_TEXT",
    "DECIDING_LAW",
    "LAW_NAMES",
    "MAP_ACCELERATORS",
    "MAX_MEASURED_GAP",
    "NOTHING_BINDS",
    "OBJECTIVES",
    "SHAPE_EXAMPLE",
    "Band",
    "Candidate",
    "DesignAnswer",
    "DesignCells",
    "DesignCurve",
    "DesignGrid",
    "DesignLine",
    "DesignSpace",
    "HeatMap",
    "Line",
    "Objective",
    "OneDesign",
    "Place",
    "Region",
    "RegionMap",
    "Start",
    "added_keys",
    "against_baseline",
    "answer_document",
    "best_by_objective",
    "binding_constraints",
    "binding_start",
    "candidate_rows",
    "candidates",
    "cell_lines",
    "choices_table",
    "default_places",
    "design_answer",
    "design_config",
    "design_curves",
    "design_name",
    "design_space",
    "design_words",
    "held_where",
    "loss_text",
    "loss_words",
    "map_cells_table",
    "one_design",
    "one_design_document",
    "one_design_notes",
    "one_design_price",
    "one_design_rows",
    "one_design_table",
    "one_design_verdict",
    "pareto_front",
    "parse_batches",
    "parse_place",
    "parse_shape",
    "parse_target",
    "parse_targets",
    "region_document",
    "region_map",
    "region_notes",
    "region_rows",
    "region_table",
    "region_verdict",
    "ruled_out",
    "sensitivity_text",
    "setup_of",
    "start_from_shape",
    "start_from_size",
]
