"""What a change brings, in words and numbers with units."""

from __future__ import annotations

from advisor.next_steps.effects import Effect, Goal, NextSteps, Speed
from advisor.text import MERITS


def change_text(effect: Effect, goal: Goal) -> str:
    """`2,067 -> 3,105`, or what it is when today's scenario does not fit."""
    before = "does not fit" if effect.before is None else _figure(effect.before, goal)
    return f"{before} -> {_figure(effect.after, goal)}"


def gain_text(effect: Effect, goal: Goal) -> str:
    """`1.50x (1.35-1.65)`, empty where there is nothing to compare with."""
    gain = effect.gain[goal]
    return "" if effect.before is None else f"{gain.value:.2f}x ({gain.low:.2f}-{gain.high:.2f})"


def outcome_text(effect: Effect, goal: Goal) -> str:
    """Whether the change helps, in two or three words."""
    if effect.helps(goal):
        return "helps"
    return "slower" if effect.gain[goal].high < 1.0 else "within noise"


def none_text(steps: NextSteps, goal: Goal) -> str:
    """What to say where no change helps beyond noise."""
    return f"None of {len(steps.effects)} single changes raises {MERITS[goal].words} beyond noise."


def _figure(speed: Speed, goal: Goal) -> str:
    """One speed in the goal's unit."""
    return MERITS[goal].text(getattr(speed, {"tpot": "tpot_s"}.get(goal, goal)))
