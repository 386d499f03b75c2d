"""A design for training: the answer as flat rows, tables and one document, and values of its dials
as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, SupportsIndex

import numpy as np

from advisor.answers.design.along import Along
from advisor.answers.design.answer import (
    FLIP_REGRET,
    DesignAnswer,
    Infeasible,
    Sensitivity,
    binding_constraints,
    unmet_wishes,
)
from advisor.answers.design.candidates import Band, Candidate
from advisor.answers.design.dials import Dial, experts_of
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.standing import standing_of
from advisor.answers.explore.changes import DesignStanding
from advisor.physics.quality import LIMITS as LAW_LIMITS
from advisor.show.phrases.book import CONSTRAINTS_TEXT, FORMS
from advisor.show.phrases.changes import STANDING
from advisor.show.phrases.design import (
    CHANGES,
    CORNERS,
    DESIGN,
    HELD,
    LIMITS,
    OF_BEST,
    OF_SEARCH,
    REMARKS,
    ROUTING_NOTE,
    WISHES,
)


def candidate_rows(answer: DesignAnswer) -> list[dict[str, Any]]:
    """One flat row for each distinct candidate, best first."""
    rows = []
    for rank, item in enumerate(answer.top, 1):
        row: dict[str, Any] = {"rank": rank}
        for field in fields(Candidate):
            value = getattr(item, field.name)
            if field.name in ("objective_gain", "speedup_gain", "tpot_gain"):
                row |= {
                    f"{field.name}{end}": getattr(value, name)
                    for end, name in (
                        ("", "value"),
                        ("_low", "low"),
                        ("_high", "high"),
                        ("_chance", "chance"),
                    )
                }
            elif field.name == "quality":
                for law in value:
                    row |= {
                        f"quality_{law.law}{end}": x
                        for end, x in (("", law.ratio), ("_low", law.low), ("_high", law.high))
                    }
            elif field.name == "corners":
                row["corners"] = corner_texts(value)
            elif isinstance(value, tuple):
                batches = answer.space.question.batches
                row |= {
                    f"{field.name}_b{batch:g}": x for batch, x in zip(batches, value, strict=True)
                }
            else:
                row[field.name] = str(value) if field.name == "tier" else value
        rows.append(row)
    return rows


def along_rows(along: Along) -> list[dict[str, Any]]:
    """One flat row for each design and batch of a picture."""
    return [
        {
            **design._asdict(),
            "batch_size": int(batch),
            "speedup": along.gain[row, column],
            "time_over_start": along.time[row, column],
            "laws_worse": along.losing[column],
        }
        for row, batch in enumerate(along.batches)
        for column, design in enumerate(along.designs)
    ]


_PARTS = ("clear", "recommended", "one_law", "top", "dials", "by_ratio", "by_shared")


def answer_document(answer: DesignAnswer) -> dict[str, Any]:
    """The answer as one JSON-able document, whose keys are part of the public contract."""
    space = answer.space
    question = space.question
    question_fields = ("objective", "batches", "batch_weights", "quality_eps", "training_tokens")
    pareto = [
        {
            "design": experts_text(space, int(i)),
            "quality": space.quality[:, i],
            "objective": question.value(float(space.score[i])),
        }
        for i in answer.pareto
    ]
    sizes = {"n_designs": len(space), "n_feasible": len(space.candidates)}
    texts = {
        "verdict": verdict(answer),
        "headline": headline(answer),
        "binding_text": binding_text(space),
        "limits": LIMITS_OF_LAWS,
        "warnings": warnings(answer),
    }
    return {
        "scenario": space.setup.scenario,
        "scenario_hash": space.setup.scenario.hash,
        **{name: getattr(question, name) for name in question_fields},
        **sizes,
        **texts,
        "standing": answer.standing,
        "baseline": _baseline(space),
        **{name: getattr(answer, name) for name in _PARTS},
        **_lists(answer),
        "pareto": pareto,
    }


def _lists(answer: DesignAnswer) -> dict[str, Any]:
    """Limits and changed assumptions, each with its words."""
    space = answer.space
    binding = [vars(item) | {"text": CONSTRAINTS_TEXT[item.constraint]} for item in answer.binding]
    sensitivity = [
        vars(item)
        | {
            "change": change_text(item),
            "best_text": "" if item.best is None else experts_text(space, item.best),
        }
        for item in answer.sensitivity
    ]
    none = answer.infeasible
    infeasible = None if none is None else vars(none) | {"message": infeasible_text(space, none)}
    return {"binding": binding, "sensitivity": sensitivity, "infeasible": infeasible}


def experts_text(space: DesignSpace, index: int) -> str:
    """One design of the space, `8 of 128 + 1 shared, width 768`."""
    body = space.body_name(index)
    text = FORMS["experts"](experts_of(space, index))
    return text if body is None else f"{text}, {body}"


def headline(answer: DesignAnswer, start_name: str = "today") -> str:
    """The answer in one line. start_name : `start` where nobody came with a design."""
    return DESIGN.say("headline", standing_facts(answer, start_name))


def verdict(answer: DesignAnswer, start_name: str = "today") -> str:
    """The headline, then gains and costs of the design."""
    none = answer.infeasible
    if none is not None:
        return infeasible_text(answer.space, none)
    return DESIGN.say("verdict", standing_facts(answer, start_name))


def standing_facts(answer: DesignAnswer, start_name: str) -> dict[str, Any]:
    """Facts of the book DESIGN. start_name : `start` where nobody came with a design."""
    return answer.standing.facts | {
        "start_name": start_name,
        "from_nothing": start_name == "start",
    }


_RAISED = ("total_params", "training_cost")


def infeasible_text(space: DesignSpace, none: Infeasible) -> str:
    """Sentences on the limit that rules most designs out, the nearest design and a remedy."""
    most, most_n = next(iter(none.ruled_out.items()))
    raised = next((name for name in _RAISED if name in none.breaks), None)
    remedy: str | None = next(
        (name for name in ("memory", "tpot", "quality") if name in none.breaks), None
    )
    if raised is not None and remedy in (None, "quality"):
        remedy = "limit"
    facts = {
        "most": most,
        "most_n": most_n,
        "n_designs": none.n_designs,
        "design": experts_of(space, none.nearest),
        "breaks": none.breaks,
        "beyond": none.beyond,
    }
    about = {
        "remedy": remedy,
        "broken": raised,
        "largest": none.largest_batch,
        "mostly_memory": none.mostly_memory,
    }
    return LIMITS.say("infeasible", facts | about)


def binding_text(space: DesignSpace) -> str:
    """The dearest limit in a sentence. Empty where no design keeps every limit."""
    if space.best is None:
        return ""
    first = next(iter(binding_constraints(space)), None)
    facts: dict[str, Any] = {"binding": None}
    if first is not None:
        facts = {
            "binding": first.constraint,
            "design": experts_of(space, first.index),
            "gain": first.gain - 1.0,
        }
    return LIMITS.say("binding", facts)


def standing_text(standing: DesignStanding) -> str:
    """Sentences on a scenario's design beside the best."""
    problem = DESIGN.say("why", standing_of(standing.space, None).facts)
    return STANDING.say("standing", standing.facts | {"why": problem})


def change_text(change: Sensitivity) -> str:
    """A changed assumption in words."""
    return CHANGES.say("assumption", vars(change))


def sensitivity_text(changes: Sequence[Sensitivity]) -> str:
    """Sentence on how many changed assumptions would make another design the recommended one."""
    flips = sum(change.flips for change in changes)
    facts = {"flips": flips, "n": len(changes), "flip_regret": FLIP_REGRET}
    return CHANGES.say("flips", facts)


def corner_texts(corners: Sequence[tuple[str, float]]) -> str:
    """Ends of the search that a design lies at, `256 experts, the most tried; ...`."""
    return "; ".join(
        CORNERS.say("corner", {"corner": case, "value": value}) for case, value in corners
    )


def space_notes(space: DesignSpace) -> tuple[str, ...]:
    """Notes on a search: its guard rails, its training tokens and a measured baseline."""
    mean_s = space.question.mean_tpot_s
    baseline = space.baseline
    facts = {
        "training_tokens": space.question.training_tokens,
        "measured": space.gap is not None,
        "start_ms": 1e3 * mean_s(baseline.served.tpot_s[:, 0]),
        "fit_ms": 1e3 * mean_s(baseline.by_fit.tpot_s[:, 0]),
    }
    return (*space.notes, *REMARKS.says(OF_SEARCH, facts))


def warnings(answer: DesignAnswer) -> tuple[str, ...]:
    """Remarks to read before training by this answer."""
    space = answer.space
    wishes = [WISHES.say("wish", vars(wish)) for wish in unmet_wishes(space)]
    texts = [*space_notes(space), *wishes]
    best = answer.recommended
    if best is None:
        return tuple(texts)
    one_law = answer.one_law
    priced = space.question.objective == "cost_per_million_tokens"
    facts = {
        "one_law": None if one_law is None else experts_of(space, one_law.index),
        "one_law_gain": None if one_law is None else one_law.objective_gain.value,
        "one_law_quality": None if one_law is None else one_law.quality_range[0],
        "tokens_per_parameter": best.tokens_per_parameter,
        "corners": best.corners,
        "corner_texts": corner_texts(best.corners),
    }
    gains = {
        "compared": space.baseline_problem is None,
        "gain_low": best.objective_gain.low,
        "tpot_gain": best.tpot_gain.value,
        "slower": 1.0 / best.tpot_gain.value,
        "price_usd": space.question.price_usd_per_hour if priced else None,
        "extrapolated": best.extrapolated,
    }
    problem = DESIGN.say("why", answer.standing.facts)
    texts += [*filter(None, [problem]), *REMARKS.says(OF_BEST, facts | gains)]
    return tuple(dict.fromkeys(texts))


LIMITS_OF_LAWS = (*LAW_LIMITS, ROUTING_NOTE)
"""Gaps in the laws for quality and routing."""


def loss_text(loss: float) -> str:
    """Time lost as a mark says it: `+0%`, `+4%`, or `no design` where nothing keeps the limits."""
    if np.isnan(loss):
        return "no design"
    return "+0%" if loss < 5e-4 else f"+{loss:.1%}" if loss < 0.0095 else f"+{loss:.0%}"


def held_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial where the rest is solved again: k/N of whatever pair, or shared
    experts."""
    place = dial.position[at]
    return f"1/{1.0 / place:.3g}" if dial.name == "ratio" else f"{place:,.3g}"


_MOST_VALUES = 9


def losses_text(dial: Dial) -> str:
    """Time lost at each value of a dial that some design keeps, the baseline's marked."""
    known = np.flatnonzero(~np.isnan(dial.loss))
    index = known[np.linspace(0, len(known) - 1, min(len(known), _MOST_VALUES)).round().astype(int)]
    positions = sorted({*index.tolist(), dial.own, *([] if dial.best is None else [dial.best])})
    values = []
    for at in positions:
        baseline = " (baseline)" if at == dial.own else ""
        values.append(f"{held_value(dial, at)} {loss_text(float(dial.loss[at]))}{baseline}")
    return f"{HELD[dial.name]}: {', '.join(values)}"


def _baseline(space: DesignSpace) -> dict[str, Any]:
    baseline = space.baseline
    return (
        {
            name: value
            for name, value in vars(baseline).items()
            if name not in ("activation", "shape", "served", "by_fit", "score")
        }
        | {name: values[:, 0] for name, values in vars(baseline.served).items()}
        | {"objective": space.question.value(baseline.score)}
    )


def band_text(value: Band) -> str:
    """A figure with its band, `1.50 (1.35-1.65)`."""
    return f"{value.value:.2f} ({value.low:.2f}-{value.high:.2f})"
