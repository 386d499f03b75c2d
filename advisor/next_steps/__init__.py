"""What to change next: single changes to a scenario, each evaluated, ranked by what it brings."""

from __future__ import annotations

from advisor.next_steps.changes import Change, changes
from advisor.next_steps.designs import DesignStanding, design_is_searched, design_standing
from advisor.next_steps.effects import GOALS, Effect, Goal, NextSteps, Speed, best_effects, evaluate, next_steps
from advisor.next_steps.words import change_text, gain_text, none_text, outcome_text, steps_document, unoffered_texts

__all__ = [
    "GOALS",
    "Change",
    "DesignStanding",
    "Effect",
    "Goal",
    "NextSteps",
    "Speed",
    "best_effects",
    "change_text",
    "changes",
    "design_is_searched",
    "design_standing",
    "evaluate",
    "gain_text",
    "next_steps",
    "none_text",
    "outcome_text",
    "steps_document",
    "unoffered_texts",
]
