"""Next steps as JSON-able values, the same in `advise --json` and in reports."""

from __future__ import annotations

from typing import Any

from advisor.next_steps.effects import GOALS, Effect, NextSteps, Speed, best_effects
from advisor.next_steps.words import outcome_text


def steps_document(steps: NextSteps) -> dict[str, Any]:
    """All changes tried, the three best by each goal (their places in `tried`), and what was refused and why."""
    return {
        "design": None if steps.standing is None else steps.standing.text,
        "best": {goal: [steps.effects.index(effect) for effect in best_effects(steps, goal)] for goal in GOALS},
        "tried": [_effect(effect) for effect in steps.effects],
        "refused": [{"what": what, "why": why} for what, why in steps.refused],
    }


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
    return {
        "k_draft": speed.k_draft,
        "speedup": speed.speedup,
        "tpot_ms": speed.tpot_s * 1e3,
        "tokens_per_s_per_gpu": speed.tokens_per_s_per_gpu,
    }
