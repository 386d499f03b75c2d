"""Parts of a report beyond the answer itself: designs, what to try next, how the speedup was made, works cited."""

from __future__ import annotations

from advisor.advice import Advice
from advisor.curve import digits
from advisor.design import NOTHING_BINDS, Candidate, binding_constraints, binding_start
from advisor.explain import cited, derive, step_text
from advisor.next_steps import GOAL_NAMES, GOALS, DesignStanding, NextSteps, best_effects, change_text, gain_text
from advisor.report.document import CitedWork, DerivationStep, DesignChoice, DesignSection, TriedChange
from advisor.text import printable

_SHOWN_STEPS = ("experts", "weights", "routed", "total", "kernels", "host", "round_host")
"""Endings of the steps that a report prints beside the answer's own; `explain` prints all."""


def design_section(standing: DesignStanding) -> DesignSection:
    """The best designs at equal quality for speedup and for time per token, and what holds them back."""
    space = standing.space
    binding = binding_constraints(space)
    first = NOTHING_BINDS
    if binding:
        first = f"{binding_start(space, binding[0])} would have {binding[0].gain:.2f} times the speedup."
    return DesignSection(
        text=printable(standing.text),
        binding=printable(first),
        choices=(
            _choice(standing, "speedup", standing.best),
            _choice(standing, "time per output token", standing.fastest),
        ),
        notes=tuple(printable(note) for note in space.notes),
    )


def _choice(standing: DesignStanding, goal: str, item: Candidate) -> DesignChoice:
    gain = item.speedup_gain if goal == "speedup" else item.tpot_gain
    return DesignChoice(
        goal=goal,
        design=printable(standing.space.describe(item.index)),
        n_experts=item.n_experts,
        n_active=item.n_active,
        n_shared=digits(item.n_shared),
        shared_share=digits(item.shared_share),
        expert_width=item.expert_width,
        total_params=digits(item.total_params),
        active_params=digits(item.active_params),
        k_draft=item.k_draft[0],
        speedup=digits(item.speedup[0]),
        tpot_ms=digits(item.tpot_s[0] * 1e3),
        gain=digits(gain.value),
        gain_low=digits(gain.low),
        gain_high=digits(gain.high),
        quality=digits(item.quality_ratio),
        quality_pessimistic=digits(item.quality_ratio_pessimistic),
        tier=item.tier,
    )


def tried_changes(steps: NextSteps) -> tuple[TriedChange, ...]:
    """The three changes that help most by each goal."""
    return tuple(
        TriedChange(
            goal=GOAL_NAMES[goal],
            what=printable(effect.change.what),
            gain=gain_text(effect, goal),
            speedup=change_text(effect, "speedup"),
            tpot=change_text(effect, "tpot"),
            tokens_per_s_per_gpu=change_text(effect, "tokens_per_s_per_gpu"),
            tier=effect.tier,
            notes=tuple(printable(note) for note in effect.change.notes),
        )
        for goal in GOALS
        for effect in best_effects(steps, goal)
    )


def derivation_steps(advice: Advice) -> tuple[DerivationStep, ...]:
    """The formulas of the speedup at the target batch, with their numbers."""
    made = derive(advice.setup, advice.scenario.batch_size, advice.curve_k)
    return tuple(
        DerivationStep(group=step.group, title=printable(step.title), text=printable(step_text(step)))
        for step in made.steps
        if step.group == "Answer" or step.id.split(".")[-1] in _SHOWN_STEPS
    )


def cited_works(advice: Advice, designs: bool) -> tuple[CitedWork, ...]:
    """The works behind the formulas and constants used."""
    return tuple(
        CitedWork(text=item.citation.text, url=item.citation.url, used_for=", ".join(item.used_for))
        for item in cited(advice.setup, designs)
    )
