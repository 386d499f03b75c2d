"""What a change brings, in words and numbers with units."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.next_steps.effects import Effect, Goal, NextSteps, Speed

GOAL_NAMES: Mapping[Goal, str] = {
    "tokens_per_s_per_gpu": "Tokens/s per GPU",
    "tpot": "Time per output token",
    "speedup": "Speedup",
}

GOAL_WORDS: Mapping[Goal, str] = {
    "tokens_per_s_per_gpu": "tokens/s per GPU",
    "tpot": "time per output token",
    "speedup": "speedup",
}
"""The same inside a sentence."""


def figure_text(speed: Speed, goal: Goal) -> str:
    """One speed in the goal's unit."""
    return {
        "speedup": f"{speed.speedup:.2f}x",
        "tpot": f"{speed.tpot_s * 1e3:.2f} ms",
        "tokens_per_s_per_gpu": f"{speed.tokens_per_s_per_gpu:,.0f}",
    }[goal]


def change_text(effect: Effect, goal: Goal) -> str:
    """`2,067 -> 3,105`, or what it is when today's scenario does not fit."""
    before = "does not fit" if effect.before is None else figure_text(effect.before, goal)
    return f"{before} -> {figure_text(effect.after, goal)}"


def gain_text(effect: Effect, goal: Goal) -> str:
    """`1.50x (1.35-1.65)`, empty where there is nothing to compare with."""
    gain = effect.gain[goal]
    return "" if effect.before is None else f"{gain.value:.2f}x ({gain.low:.2f}-{gain.high:.2f})"


def effect_text(effect: Effect, goal: Goal) -> str:
    """The whole effect on one line: what is ranked first, the other two behind it."""
    others = "; ".join(f"{GOAL_WORDS[other]} {change_text(effect, other)}" for other in GOAL_WORDS if other != goal)
    gain = gain_text(effect, goal)
    first = f"{GOAL_WORDS[goal]} {change_text(effect, goal)}{', ' if gain else ''}{gain}"
    outside = ", outside the data" if effect.extrapolated else ""
    return f"{first}, {effect.tier}{outside}; {others}"


def outcome_text(effect: Effect, goal: Goal) -> str:
    """Whether the change helps, in two or three words."""
    if effect.helps(goal):
        return "helps"
    return "slower" if effect.gain[goal].high < 1.0 else "within noise"


def none_text(steps: NextSteps, goal: Goal) -> str:
    """What to say where no change helps beyond noise."""
    return f"None of {len(steps.effects)} single changes raises {GOAL_WORDS[goal]} beyond noise."
