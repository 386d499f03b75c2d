"""What a change brings: in words and numbers with units, and as JSON-able values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from advisor.answers.explore.changes import GOALS, NOT_OFFERED, Effect, Goal, NextSteps, Speed, best_effects
from advisor.show.table import Column, Table
from advisor.text import MERITS, printable

_Row = tuple[Goal, Effect]


def _change_at(row: _Row, goal: Goal) -> str:
    return change_text(row[1], goal)


CHANGES: tuple[Column[_Row], ...] = (
    Column("by", lambda row: MERITS[row[0]].name, key="goal", words=True),
    Column("change", lambda row: printable(row[1].change.what), key="what", words=True),
    Column("gain", lambda row: gain_text(row[1], row[0]), key="gain"),
    *(Column[_Row](MERITS[goal].name, partial(_change_at, goal=goal), key=goal) for goal in GOALS),
    Column("tier", lambda row: row[1].tier, key="tier", words=True),
    Column(None, lambda row: tuple(map(printable, row[1].change.notes)), key="notes"),
)
"""A change with the goal that its gain is by, and the figures before and after."""


def effects_table(effects: Sequence[Effect], goal: Goal) -> Table[_Row]:
    """Changes, each with its gain by `goal` and the figures before and after."""
    return Table(CHANGES[1:], [(goal, effect) for effect in effects])


def change_text(effect: Effect, goal: Goal) -> str:
    """Figures before and after, `2,067 -> 3,105`. In words when today's scenario does not fit."""
    before = "does not fit" if effect.before is None else _figure(effect.before, goal)
    return f"{before} -> {_figure(effect.after, goal)}"


def gain_text(effect: Effect, goal: Goal) -> str:
    """Gain with its band, `1.50x (1.35-1.65)`. Empty where there is nothing to compare with."""
    gain = effect.gain[goal]
    return "" if effect.before is None else f"{gain.value:.2f}x ({gain.low:.2f}-{gain.high:.2f})"


def outcome_text(effect: Effect, goal: Goal) -> str:
    """Whether the change helps, in two or three words."""
    if effect.helps(goal):
        return "helps"
    return "slower" if effect.gain[goal].high < 1.0 else "within noise"


def none_text(steps: NextSteps, goal: Goal) -> str:
    """Sentence for the case that no change helps beyond noise."""
    return f"None of {len(steps.effects)} single changes raises {MERITS[goal].words} beyond noise."


def unoffered_texts(steps: NextSteps) -> list[str]:
    """Each change that measured pairs speak against, with what they say."""
    said = (why.partition(f"{NOT_OFFERED}: ") for _, why in steps.refused)
    return list(dict.fromkeys(why for before, found, why in said if found and not before))


def steps_document(steps: NextSteps) -> dict[str, Any]:
    """Changes tried as plain values, the three best by each goal, and those refused with the reason.

    The best are places in `tried`.
    """
    return {
        "design": None if steps.standing is None else steps.standing.text,
        "best": {goal: [steps.effects.index(effect) for effect in best_effects(steps, goal)] for goal in GOALS},
        "tried": [_effect(effect) for effect in steps.effects],
        "refused": [{"what": what, "why": why} for what, why in steps.refused],
    }


def _figure(speed: Speed, goal: Goal) -> str:
    """One speed in the goal's unit."""
    return MERITS[goal].text(getattr(speed, {"tpot": "tpot_s"}.get(goal, goal)))


def _effect(effect: Effect) -> dict[str, Any]:
    change = effect.change
    gains = effect.gain.items() if effect.before is not None else ()
    return {
        "kind": change.kind,
        "what": change.what,
        "before": None if effect.before is None else _speed(effect.before),
        "after": _speed(effect.after),
        "gain": {
            goal: {"value": gain.value, "low": gain.low, "high": gain.high, "outcome": outcome_text(effect, goal)}
            for goal, gain in gains
        },
        "tier": effect.tier,
        "extrapolated": effect.extrapolated,
        "other_acceptance": change.other_acceptance,
        "notes": change.notes,
        "share_query": change.scenario.to_query(),
    }


def _speed(speed: Speed) -> dict[str, float]:
    figures = {name: getattr(speed, name) for name in ("n_draft", "speedup", "tokens_per_s_per_gpu")}
    return figures | {"tpot_ms": speed.tpot_s * 1e3}
