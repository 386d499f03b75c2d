"""A design for training: the answer as flat rows, tables and one document, and values of its dials
as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, SupportsIndex

import numpy as np

from advisor.answers.design.answer import (
    FLIP_REGRET,
    DesignAnswer,
    Infeasible,
    Sensitivity,
    binding_constraints,
    unmet_wishes,
)
from advisor.answers.design.candidates import Band, Candidate, tpot_gain
from advisor.answers.design.dials import Costed, Dial, experts_of
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.standing import standing_of
from advisor.answers.design.start import time_in_serve
from advisor.answers.design.targets import AtTarget, OneDesign
from advisor.answers.explore.changes import DesignStanding
from advisor.physics.quality import LIMITS as LAW_LIMITS
from advisor.show.phrases.book import CONSTRAINTS_TEXT, FORMS, ratio_text
from advisor.show.phrases.changes import STANDING
from advisor.show.phrases.design import (
    CHANGES,
    CORNERS,
    DESIGN,
    LIMITS,
    OF_BEST,
    OF_SEARCH,
    REMARKS,
    ROUTING_NOTE,
    TARGETS,
    WISHES,
)
from advisor.show.table import Column, Table

SAME_TIME = 0.002
"""Times of one design that differ by less are called the same. [-]"""


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


_PARTS = ("clear", "recommended", "one_law", "top", "dials", "rule")


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
    return DESIGN.say("headline", _facts(answer, start_name))


def verdict(answer: DesignAnswer, start_name: str = "today") -> str:
    """The headline, then gains and costs of the design."""
    none = answer.infeasible
    if none is not None:
        return infeasible_text(answer.space, none)
    return DESIGN.say("verdict", _facts(answer, start_name))


def below_headline(answer: DesignAnswer, start_name: str = "today") -> str:
    """The line under the headline: time and size of the design it names, beside the other's."""
    none = answer.infeasible
    if none is not None:
        return infeasible_text(answer.space, none)
    return DESIGN.say("below", _facts(answer, start_name))


def _facts(answer: DesignAnswer, start_name: str) -> dict[str, Any]:
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
    facts: dict[str, Any] = {
        "training_tokens": space.question.training_tokens,
        "measured": space.measured is not None,
    }
    if space.measured is not None:
        facts |= vars(space.measured)
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


def best_name(answer: DesignAnswer) -> str:
    """Name of the best design: `alternative` where the headline is to keep another."""
    space = answer.space
    is_named = answer.clear or space.baseline_problem or space.best == space.baseline_index()
    return "best" if is_named else "alternative"


def about_figures(answer: DesignAnswer, own_name: str = "today") -> str:
    """Help on the figures under the headline: quality, and the times that Serve has for the same
    designs."""
    quality_note = (
        f"Dense-equivalent size: of an equally good dense model, {own_name} = 1, by each of three "
        "scaling laws."
    )
    space = answer.space
    if answer.recommended is None:
        return quality_note
    mean_s = space.question.mean_tpot_s
    here = {
        best_name(answer): mean_s(space.tpot_s[:, space.best]),
        own_name: mean_s(space.baseline.served.tpot_s[:, 0]),
    }
    served = dict(zip(here, (time_in_serve(space, at) for at in (space.best, None)), strict=True))
    off = np.abs([served[name] / time_s - 1.0 for name, time_s in here.items()])
    if not np.all(np.isfinite(off)) or off.max() < SAME_TIME:
        return quality_note
    there = ", ".join(f"{1e3 * time_s:.2f} ms ({name})" for name, time_s in served.items())
    return (
        f"{quality_note} Here all designs share one fit, to compare; Serve takes kernels measured "
        f"at its shape: {there}."
    )


def quality_text(ends: tuple[float, float]) -> str:
    """Dense-equivalent size over the baseline's by the lowest and the highest law, `×0.9–1.0`."""
    low = ratio_text(ends[0], ".2f")
    high = ratio_text(ends[1], ".2f")
    return f"×{low}" if low == high else f"×{low}–{high}"


_Line = tuple[str, Callable[[Costed], str]]


def _said(line: _Line, *, of: Costed) -> str:
    return line[1](of)


def dial_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial: `8 of 256`, `1 : 8` or `2,048`."""
    shape = dial.designs[at]
    if dial.name == "ratio":
        return f"{shape.n_active} of {shape.n_experts}"
    return (
        f"{shape.n_shared:.3g} : {shape.n_active}"
        if dial.name == "shared"
        else f"{shape.expert_width:,}"
    )


def loss_text(loss: float) -> str:
    """Time lost as a mark says it: `+0%`, `+4%`, or `no design` where nothing keeps the limits."""
    if np.isnan(loss):
        return "no design"
    return "+0%" if loss < 5e-4 else f"+{loss:.1%}" if loss < 0.0095 else f"+{loss:.0%}"


def held_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial where the rest is solved again: k/N of whatever pair, shared experts or
    width."""
    if dial.name == "ratio":
        return f"1/{1.0 / dial.position[at]:.3g}"
    return f"{dial.position[at]:,.3g}" if dial.name == "shared" else f"{dial.position[at]:,.0f}"


HELD = {"ratio": "k/N", "shared": "shared experts", "width": "expert width"}
"""What each dial holds."""
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


def beside_table(
    today: Costed, own: Costed, best: Costed | None, names: tuple[str, str] = ("today", "best")
) -> Table[_Line]:
    """The baseline, the user's design and the best one, a line for each quantity. names : of the
    first and the last."""
    shape: tuple[_Line, ...] = (
        ("Experts", lambda design: f"{design.experts.n_active} of {design.experts.n_experts}"),
        ("Shared", lambda design: f"{design.experts.n_shared:.3g}"),
        ("Width", lambda design: f"{design.experts.expert_width:,}"),
        ("K", lambda design: FORMS["by_batch"](design.n_draft)),
    )
    speed: tuple[_Line, ...] = (
        (
            "ms/token",
            lambda design: f"{design.tpot_s * 1e3:.2f}" if design.fits else "does not fit",
        ),
        (
            f"Speed, {names[0]} = 1",
            lambda design: f"{today.tpot_s / design.tpot_s:.2f}×" if design.fits else "",
        ),
    )
    size: tuple[_Line, ...] = (
        ("Dense-equivalent size", lambda design: quality_text(design.quality)),
        ("Total, B", lambda design: f"{design.total_params / 1e9:,.1f}"),
        ("Active, B", lambda design: f"{design.active_params / 1e9:.2f}"),
    )
    design_by_name = {names[0]: today, "mine": own} | ({} if best is None else {names[1]: best})
    columns = [Column[_Line]("design", itemgetter(0), words=True)]
    columns += [
        Column[_Line](name, partial(_said, of=design)) for name, design in design_by_name.items()
    ]
    return Table(tuple(columns), (*shape, *speed, *size))


def time_lost(own: Costed, best: Costed | None) -> float:
    """Time per token of a design over that of the best, less 1. NaN where either is none that fits.
    [-]"""
    return own.tpot_s / best.tpot_s - 1.0 if best is not None and own.fits else float("nan")


_LOSING = (
    "quality as good or better by all three scaling laws",
    "quality open, one of three scaling laws finds it worse",
    "quality open, two of three scaling laws find it worse",
    "quality worse by all three scaling laws",
)
"""Words on quality by the number of laws that find a design worse."""


def mine_text(space: DesignSpace, today: Costed, own: Costed) -> str:
    """Sentence on what the user's design loses or gains against the baseline. Empty for the
    baseline itself."""
    if own.experts == today.experts:
        return ""
    expert_counts = [
        f"{costed.experts.n_active} of {costed.experts.n_experts}" for costed in (own, today)
    ]
    design = (
        f"{expert_counts[0]}, {own.experts.n_shared:.3g} shared, width {own.experts.expert_width:,}"
    )
    if not own.fits:
        return f"{design}: does not fit in memory."
    gain = tpot_gain(space, own)
    range_text = f"80% range {gain.low:.2f}–{gain.high:.2f}×"
    tpot = f"{1e3 * own.tpot_s:.2f} ms per token"
    time = f"{gain.value:.2f}× as fast as {expert_counts[1]} ({range_text}), {tpot}"
    active = f"{own.active_params / 1e9:.3g} B active, not {today.active_params / 1e9:.3g}"
    return f"{design}: {time}; {active}; {_LOSING[own.losing]} ({quality_text(own.quality)})."


def _baseline(space: DesignSpace) -> dict[str, Any]:
    baseline = space.baseline
    return (
        {
            name: value
            for name, value in vars(baseline).items()
            if name not in ("activation", "shape", "served", "score")
        }
        | {name: values[:, 0] for name, values in vars(baseline.served).items()}
        | {"objective": space.question.value(baseline.score)}
    )


def band_text(value: Band) -> str:
    """A figure with its band, `1.50 (1.35-1.65)`."""
    return f"{value.value:.2f} ({value.low:.2f}-{value.high:.2f})"


def one_design_text(answer: OneDesign) -> str:
    """The one design for several targets, and what it gives away, in a sentence."""
    return TARGETS.say("one_design", answer.facts)


def one_design_notes(answer: OneDesign) -> tuple[str, ...]:
    """Notes on ties and on the searches, each once."""
    notes = (note for space in answer.spaces for note in space_notes(space))
    return (TARGETS.say("tie", answer.facts), *dict.fromkeys(notes))


def one_design_table(answer: OneDesign) -> Table[AtTarget]:
    """Each target: its own best design, and what the one design gives there."""

    def best(row: AtTarget) -> str:
        if row.why_not is not None:
            return TARGETS.say(row.why_not, answer.facts)
        return FORMS["experts"](row.best)

    def known(text: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda value: "" if value is None else text(value)

    def ms(tpot_s: float) -> str:
        return f"{tpot_s * 1e3:.2f}"

    of_target: tuple[Column[AtTarget], ...] = (
        Column("target", attrgetter("target"), key="target", words=True),
        Column("its best", best, key="best", words=True),
        Column("ms/token", attrgetter("best_tpot_s"), known(ms), key="best_tpot_s"),
    )
    columns: tuple[Column[AtTarget], ...] = (
        Column("one design's", attrgetter("tpot_s"), known(ms), key="tpot_s"),
        Column("K", attrgetter("n_draft"), known(str), key="n_draft"),
        Column("behind", attrgetter("loss"), known("{:.1%}".format), key="loss"),
        Column("over baseline", attrgetter("gain"), known(band_text), key="gain", band=True),
    )
    return Table((*of_target, *columns), answer.at)


def one_design_document(answer: OneDesign) -> dict[str, Any]:
    """The answer as one JSON-able document."""
    facts = answer.facts
    shape = facts["design"]
    at = [
        vars(row)
        | {"target": str(row.target), "best": None if row.best is None else row.best._asdict()}
        for row in answer.at
    ]
    return {
        "scenario": answer.scenario,
        "scenario_hash": answer.scenario.hash,
        "objective": answer.spaces[0].question.objective,
        "verdict": one_design_text(answer),
        **facts,
        "design": None if shape is None else shape._asdict(),
        "targets": at,
        "notes": one_design_notes(answer),
    }
