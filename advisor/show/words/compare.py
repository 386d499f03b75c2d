"""Scenarios side by side: what differs, what comes of it, their names; and what one change of a
scenario brings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from advisor.answers.advice import Advice
from advisor.answers.explore.changes import (
    GOALS,
    Change,
    Effect,
    Goal,
    NextSteps,
    RefusedChange,
    Speed,
    best_effects,
)
from advisor.catalog.adjustment import parse_adjustment
from advisor.predict.ratios import measured_range, records_between, unproven
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, SETTINGS
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.phrases.changes import CHANGE, NOTES, REFUSED
from advisor.show.table import Column, Table, matrix
from advisor.show.words.design import standing_text
from advisor.text import MAX_NAME, MERITS, printable, tier_text

_Row = tuple[Goal, Effect]


def _change_at(row: _Row, goal: Goal) -> str:
    return change_text(row[1], goal)


_GAINS: tuple[Column[_Row], ...] = (
    Column("change", lambda row: what_text(row[1].change), key="what", words=True),
    Column("gain", lambda row: gain_text(row[1], row[0]), key="gain"),
)
_FIGURES: tuple[Column[_Row], ...] = (
    *(Column(MERITS[goal].name, partial(_change_at, goal=goal), key=goal) for goal in GOALS),
    Column("tier", lambda row: row[1].tier, key="tier", words=True, paper=False),
)
CHANGES: tuple[Column[_Row], ...] = (
    Column("by", lambda row: MERITS[row[0]].name, key="goal", words=True),
    *_GAINS,
    *_FIGURES,
    Column(None, lambda row: note_texts(row[1].change), key="notes"),
)
"""A change with the goal that its gain is by, and the figures before and after."""


def what_text(change: Change) -> str:
    """A change in a few words, `batch 16 -> 32`."""
    return printable(CHANGE.say("what", vars(change)))


def note_texts(change: Change) -> tuple[str, ...]:
    """Notes on the comparison, one sentence each."""
    facts = {"curve": change.curve, "dataset": change.dataset}
    return tuple(printable(NOTES.say("text", facts | {"note": note})) for note in change.notes)


def why_text(refused: RefusedChange, slot: str = "why") -> str:
    """Reason that a change has no effect to show."""
    names = ("name", "evidence", "needed")
    doubt = {name: getattr(refused.doubt, name, None) for name in names}
    return REFUSED.say(slot, vars(refused) | doubt)


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
    """Sentence for the case that no change helps beyond noise. Empty where none can be tried."""
    if not steps.effects:
        return ""
    return f"None of {len(steps.effects)} single changes raises {MERITS[goal].words} beyond noise."


def unoffered_texts(steps: NextSteps) -> list[str]:
    """Each change that measured pairs speak against, with what they say."""
    refusals = (refused for _, refused in steps.refused if refused.reason == "unproven")
    return list(dict.fromkeys(why_text(refused, "doubt") for refused in refusals))


def steps_document(steps: NextSteps) -> dict[str, Any]:
    """Changes tried as plain values, places of the three best by each goal, and refusals with the
    reason."""
    return {
        "design": None if steps.standing is None else standing_text(steps.standing),
        "best": {
            goal: [steps.effects.index(effect) for effect in best_effects(steps, goal)]
            for goal in GOALS
        },
        "tried": [_effect(effect) for effect in steps.effects],
        "refused": [
            {"what": what_text(change), "why": why_text(refused)}
            for change, refused in steps.refused
        ],
    }


def _figure(speed: Speed, goal: Goal) -> str:
    """One speed in the goal's unit."""
    return MERITS[goal].text(getattr(speed, {"tpot": "tpot_s"}.get(goal, goal)))


def _effect(effect: Effect) -> dict[str, Any]:
    change = effect.change
    gains = effect.gain.items() if effect.before is not None else ()
    gain_by_goal = {
        goal: {
            "value": gain.value,
            "low": gain.low,
            "high": gain.high,
            "outcome": outcome_text(effect, goal),
        }
        for goal, gain in gains
    }
    return {
        "kind": change.kind,
        "what": what_text(change),
        "before": None if effect.before is None else _speed(effect.before),
        "after": _speed(effect.after),
        "gain": gain_by_goal,
        "tier": effect.tier,
        "extrapolated": effect.extrapolated,
        "other_acceptance": change.other_acceptance,
        "notes": note_texts(change),
        "share_query": change.scenario.to_query(),
    }


def _speed(speed: Speed) -> dict[str, float]:
    figures = {
        name: getattr(speed, name) for name in ("n_draft", "speedup", "tokens_per_s_per_gpu")
    }
    return figures | {"tpot_ms": speed.tpot_s * 1e3}


MAX_COMPARED = 4
"""More scenarios than this are told apart neither in a chart nor in a table."""
_MERITS = tuple(MERITS[name] for name in ("speedup", "tpot", "tokens_per_s_per_gpu"))
_NAME_PIECES = 2
_PIECE_CHARACTERS = 28


def setting_text(scenario: Scenario, field: str, setup: Setup | None = None) -> str:
    """Value of one field of a scenario as a reader sees it. With its setup, by the names of what
    was loaded."""
    loaded = None if setup is None else _loaded(setup, field)
    value, *documents = _identity(scenario, field)
    if loaded is not None:
        return loaded
    if field == "refit" and value is not None:
        return parse_adjustment(str(value)).label
    text = printable(FIELDS[field].written(value))
    digests = [
        hashlib.sha256(str(document).encode()).hexdigest()[:4]
        for document in documents
        if document is not None
    ]
    return f"{text} (own, {digests[0]})" if digests else text


def setting_lines(setup: Setup) -> dict[str, str]:
    """All settings of a scenario by label, as a report lists them. Several of them share a line."""
    lines: dict[str, str] = {}
    for row in SETTINGS:
        lines[row.line] = lines.get(row.line, "") + row.piece(
            setting_text(setup.scenario, row.name, setup)
        )
    return {label: text for label, text in lines.items() if text}


def model_name(setup: Setup) -> str:
    """The model by its own name, else by its id."""
    name = setup.architecture.name or setup.scenario.model_id
    other = setup.scenario.served_checkpoint
    return printable(name if other is None else f"{other.rpartition('/')[2]} (as {name})", MAX_NAME)


def _loaded(setup: Setup, field: str) -> str | None:
    """A field by what it stands for, where its value is only an id or says less than what was
    loaded."""
    match field:
        case "model_id":
            moe = setup.architecture.moe
            name = model_name(setup)
            model_id = printable(setup.scenario.model_id, MAX_NAME)
            shape = "dense"
            if moe is not None:
                shape = f"{moe.n_active} of {moe.n_experts} routed experts, {moe.n_shared} shared"
            return f"{name}; {shape}" if name == model_id else f"{name} ({model_id}); {shape}"
        case "hardware_id":
            return f"{setup.scenario.n_gpus} x {printable(setup.hardware.name)}"
        case "drafter_id":
            return printable(setup.drafter.name)
        case "weight_dtype":
            dtypes = setup.architecture.dtypes
            routed = f"routed {dtypes.routed}, " if setup.architecture.moe is not None else ""
            return f"{routed}attention {dtypes.attention}, dense {dtypes.dense}"
        case "refit" if setup.adjustment is not None:
            refit = setup.adjustment
            system = f"{refit.hardware_id} with {refit.engine_class}"
            return f"{refit.label} of {system} (data {refit.data})"
    return None


def differing(scenarios: Sequence[Scenario]) -> list[str]:
    """Settings in which the scenarios are not all alike, the ones that say most first."""
    return [
        row.name
        for row in SETTINGS
        if len({_identity(scenario, row.name) for scenario in scenarios}) > 1
    ]


def short_names(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """A name for each scenario from what differs, two settings at most. The hash tells apart those
    that stay alike."""
    fields = differing(scenarios)
    if "n_gpus" in fields and all(s.tensor_parallel == s.n_gpus for s in scenarios):
        fields = [field for field in fields if field != "tensor_parallel"]
    if not fields:
        fields = ["model_id", "batch_size"]
    names = [
        ", ".join(_piece(scenario, field) for field in fields[:_NAME_PIECES])
        for scenario in scenarios
    ]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({scenario.hash[:6]})"
        for name, scenario in zip(names, scenarios, strict=True)
    )


def comparison_table(advices: Sequence[Advice], names: Sequence[str]) -> Table[Sequence[str]]:
    """Settings that differ, then the answers. Raises AdvisorError for none or more than
    MAX_COMPARED."""
    if not 1 <= len(advices) <= MAX_COMPARED:
        raise AdvisorError(
            f"{len(advices)} scenarios cannot be compared; give two to {MAX_COMPARED}"
        )
    scenarios = [advice.scenario for advice in advices]
    answers = [_answers(advice) for advice in advices]
    settings = [
        (FIELDS[field].label, *(setting_text(scenario, field) for scenario in scenarios))
        for field in differing(scenarios)
    ]
    return matrix(
        ("", *names),
        [*settings, *((label, *(each[label] for each in answers)) for label in answers[0])],
    )


def finding(advices: Sequence[Advice], names: Sequence[str]) -> str:
    """Sentence on the highest speedup, the shortest time per output token and the most tokens/s per
    GPU.

    It says which of them measured pairs of such a choice do not tell apart.
    """
    answers = [advice.recommendation for advice in advices]
    ratio = max(answers, key=lambda answer: answer.speedup.value)
    fastest = min(answers, key=lambda answer: answer.tpot_s)
    busiest = max(answers, key=lambda answer: answer.tokens_per_s_per_gpu)
    speedup, tpot, rate = _MERITS
    best = (
        (ratio, f"the highest {speedup.words} ({speedup.text(ratio.speedup.value)})"),
        (fastest, f"the shortest {tpot.words} ({tpot.text(fastest.tpot_s)})"),
        (busiest, f"the most {rate.words} ({rate.text(busiest.tokens_per_s_per_gpu)})"),
    )
    win_texts = []
    for name, answer in zip(names, answers, strict=True):
        if won := [what for winner, what in best if winner is answer]:
            wins = " and ".join(won) if len(won) < 3 else f"{won[0]}, {won[1]} and {won[2]}"
            win_texts.append(f"{name} has {wins}")
    return " ".join(("; ".join(win_texts) + ".", *reservations(advices, names)))


def reservations(advices: Sequence[Advice], names: Sequence[str]) -> list[str]:
    """Doubts that measured pairs raise against the order of time per output token.

    One sentence for each scenario that follows the fastest: a choice whose direction is unproven,
    or a difference within what such ratios are off by.
    """
    order = sorted(range(len(advices)), key=lambda index: advices[index].recommendation.tpot_s)
    first, *rest = order
    doubts = []
    for index in rest:
        fastest = advices[first]
        other = advices[index]
        if fastest.setup.architecture.name != other.setup.architecture.name:
            continue
        records = records_between(fastest.setup, other.setup)
        ratio = other.recommendation.tpot_s / fastest.recommendation.tpot_s
        doubt = unproven(records)
        if doubt is not None:
            doubts.append(
                f"Whether {names[first]} is faster than {names[index]} is open: changes like "
                f"{doubt.name} were {doubt.evidence} ({doubt.needed})."
            )
        elif ratio * measured_range(records)[0] < 1.0 and records:
            off = 1.0 - measured_range(records)[0]
            doubts.append(
                f"{names[first]} and {names[index]} differ in time per output token by "
                f"{ratio - 1.0:.0%}, within the {off:.0%} by which measured ratios of such "
                "choices fall short."
            )
    return doubts


def _answers(advice: Advice) -> dict[str, str]:
    answer = advice.recommendation
    largest = advice.setup.memory.largest_batch
    speedup = answer.speedup
    ratio, tpot, rate = _MERITS
    largest_text = f"{largest:,}" if largest else "does not fit"
    likely = f"{speedup.low:.2f} to {speedup.high:.2f}"
    return {
        "Draft length K": str(answer.n_draft),
        ratio.name: ratio.text(speedup.value),
        "80% range": likely,
        "Tier": tier_text(speedup.tier, speedup.extrapolated),
        tpot.name: tpot.text(answer.tpot_s),
        rate.name: rate.text(answer.tokens_per_s_per_gpu),
        "Plain step is bound by": answer.bound.kind,
        "Largest batch that fits": largest_text,
        "Gains most at": f"batch {advice.sweet_spot_batch:,.0f}",
    }


def _identity(scenario: Scenario, field: str) -> tuple[object, ...]:
    documents = [document for document, owner in DOCUMENTS.items() if owner == field]
    return getattr(scenario, field), *(getattr(scenario, document) for document in documents)


def _piece(scenario: Scenario, field: str) -> str:
    text = FIELDS[field].in_a_name(setting_text(scenario, field))
    return text if len(text) <= _PIECE_CHARACTERS else text[: _PIECE_CHARACTERS - 1] + "…"
