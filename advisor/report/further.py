"""Sections beyond the answer itself: what to try next, designs, how the speedup was made, works cited."""

from __future__ import annotations

from advisor.advice import Advice
from advisor.design import LAW_NAMES, NOTHING_BINDS, Band, Candidate, binding_constraints, binding_start
from advisor.explain import Step, cited, derive, step_text
from advisor.next_steps import (
    GOALS,
    DesignStanding,
    Effect,
    Goal,
    NextSteps,
    best_effects,
    change_text,
    gain_text,
)
from advisor.report.blocks import Block, Listing, Paragraph, Table
from advisor.report.build import Report
from advisor.text import MERITS, printable

_SHOWN_STEPS = ("experts", "weights", "routed", "total", "kernels", "host", "round_host")
"""Endings of the steps that a report prints beside the answer's own; `explain` prints all."""


def tried(steps: NextSteps) -> list[tuple[Goal, Effect]]:
    """The three changes that help most by each goal."""
    return [(goal, effect) for goal in GOALS for effect in best_effects(steps, goal)]


def best_designs(standing: DesignStanding) -> list[tuple[str, Candidate, Band]]:
    """The best designs at equal quality: for what, which, and the gain over the scenario's own."""
    best, fastest = standing.best, standing.fastest
    return [("speedup", best, best.speedup_gain), ("time per output token", fastest, fastest.tpot_gain)]


def what_binds(standing: DesignStanding) -> str:
    """The limit that holds designs back most."""
    binding = binding_constraints(standing.space)
    if not binding:
        return NOTHING_BINDS
    merit = MERITS[standing.space.question.objective]
    return printable(
        f"{binding_start(standing.space, binding[0])} would be {binding[0].gain - 1:.1%} better in {merit.words}."
    )


def shown_steps(advice: Advice) -> list[Step]:
    """The formulas of the speedup at the target batch that a report prints."""
    made = derive(advice.setup, advice.scenario.batch_size, advice.curve_k)
    return [step for step in made.steps if step.group == "Answer" or step.id.split(".")[-1] in _SHOWN_STEPS]


def try_next(report: Report) -> tuple[Block, ...]:
    """The single changes that help most, by goal."""
    if report.steps is None:
        return (Paragraph("Not looked up: this report was made without trying single changes."),)
    found = tried(report.steps)
    if not found:
        return (Paragraph("No single change that was tried helps beyond noise."),)
    columns = ("By", "Change", "Gain", "Tokens/s per GPU", "Time per token", "Speedup", "Tier")
    rows = tuple(_change(goal, effect) for goal, effect in found)
    text = (
        f"Single changes beyond noise, the best of each kind, {report.advice.band_level:.0%} bands; before and after, "
        "each at its own best K."
    )
    notes = tuple(dict.fromkeys(printable(note) for _, effect in found for note in effect.change.notes))
    table = Table(columns, rows, "llrrrrl")
    return (Paragraph(text), table, Listing(notes)) if notes else (Paragraph(text), table)


def _change(goal: Goal, effect: Effect) -> tuple[str, ...]:
    figures = (change_text(effect, shown) for shown in GOALS)
    return (MERITS[goal].name, printable(effect.change.what), gain_text(effect, goal), *figures, str(effect.tier))


def design(standing: DesignStanding) -> tuple[Block, ...]:
    """The best designs at equal quality beside the scenario's own."""
    columns = ("Best for", "Design", "Training", "Speedup", "ms per token", "Gain", "Quality by law", "Tier")
    rows = tuple(
        (
            goal,
            printable(standing.space.describe(item.index)),
            f"{item.training_cost:.2f}x",
            f"{item.speedup[0]:.2f}x",
            f"{item.tpot_s[0] * 1e3:.2f}",
            f"{gain.value:.2f} ({gain.low:.2f}-{gain.high:.2f})",
            " / ".join(law.short for law in item.quality),
            str(item.tier),
        )
        for goal, item, gain in best_designs(standing)
    )
    caption = (
        "Gain over the scenario's own design. Training: compute at equal tokens over its own. Quality: dense "
        f"equivalent over its own, by {', '.join(LAW_NAMES.values())}."
    )
    blocks: tuple[Block, ...] = (
        Paragraph(printable(standing.text)),
        Table(columns, rows, "llrrrrrl", caption),
        Paragraph(what_binds(standing)),
    )
    notes = tuple(printable(note) for note in standing.space.notes)
    return (*blocks, Listing(notes)) if notes else blocks


def derivation(report: Report) -> tuple[Block, ...]:
    """The formulas behind the speedup with their numbers."""
    rows = tuple(
        (f"{step.group}: {printable(step.title)}", printable(step_text(step))) for step in shown_steps(report.advice)
    )
    text = (
        f"Batch {report.scenario.batch_size:,}, K = {report.advice.curve_k}; four digits are shown. `explain` prints "
        "all steps with their constants."
    )
    return Paragraph(text), Table(("Step", "Formula, numbers, result"), rows, "ll")


def cited_works(report: Report) -> list[tuple[str, str, str]]:
    """The works behind the formulas and constants used: what, where, and what for."""
    found = cited(report.advice.setup, designs=report.standing is not None)
    return [(item.citation.text, item.citation.url, ", ".join(item.used_for)) for item in found]


def works(report: Report) -> Listing:
    """Works behind formulas and constants, with what was taken from them."""
    return Listing(tuple(f"{text} {url} ({used})" for text, url, used in cited_works(report)), numbered=True)
