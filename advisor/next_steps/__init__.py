"""What to change next: single changes to a scenario, each evaluated, ranked by what it brings."""

from __future__ import annotations

from advisor.next_steps.changes import Change, changes
from advisor.next_steps.designs import DesignStanding, design_is_searched, design_standing
from advisor.next_steps.effects import GOALS, Effect, Goal, NextSteps, Speed, best_effects, evaluate, next_steps
from advisor.next_steps.own_gap import GAP_COLUMNS, OwnGap, own_gap, own_gap_text
from advisor.next_steps.own_runs import (
    OWN_ROWS,
    OwnRuns,
    half_width_after,
    own_runs_text,
    read_own_runs,
    write_own_runs,
)
from advisor.next_steps.words import change_text, gain_text, none_text, outcome_text, steps_document, unoffered_texts

__all__ = [
    "GAP_COLUMNS",
    "GOALS",
    "OWN_ROWS",
    "Change",
    "DesignStanding",
    "Effect",
    "Goal",
    "NextSteps",
    "OwnGap",
    "OwnRuns",
    "Speed",
    "best_effects",
    "change_text",
    "changes",
    "design_is_searched",
    "design_standing",
    "evaluate",
    "gain_text",
    "half_width_after",
    "next_steps",
    "none_text",
    "outcome_text",
    "own_gap",
    "own_gap_text",
    "own_runs_text",
    "read_own_runs",
    "steps_document",
    "unoffered_texts",
    "write_own_runs",
]
