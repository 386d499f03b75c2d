"""One design for several targets, in sentences, as tables and as a document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from advisor.answers.design.candidates import candidates, price_words
from advisor.answers.design.cells import CORE_CHANCE, IN_MEMORY, ON_LIMITS, ON_TIME, TIE, CellStanding
from advisor.answers.design.regions import OneDesign, Target, TargetsChoice
from advisor.show.table import Column, Table
from advisor.show.words.design import band_text
from advisor.show.words.regions import REGRET_NOTE, loss_band, percent, standing_values
from advisor.text import MERITS, listed, tier_text

_REMEDIES = {
    IN_MEMORY: "What does not fit needs more GPUs (2xACCELERATOR:BATCH), a smaller batch or a smaller format.",
    ON_TIME: "What is too slow needs a longer limit on time, a smaller batch or more GPUs (2xACCELERATOR:BATCH).",
    ON_LIMITS: "Where no design keeps every limit, loosen those on quality, size, price or memory, or widen the grid.",
}
"""What to do, by why no design serves a target."""


def loss_words(each: CellStanding) -> str:
    """A loss with its band, as `3.0% (-5.7% to 12.0%)`. A target's own best loses `nothing, it is the best there`."""
    if each.loss == each.low == each.high == 0.0:
        return "nothing: it is the best there"
    return f"{percent(each.expected_loss)} ({loss_band(each)})"


def one_design_verdict(found: OneDesign) -> str:
    """The one design, what it gives up at each target, and whether several would clearly be better."""
    best, name = found.best, found.cells.name
    places = listed([name(cell) for cell in found.cell_of])
    if best is None:
        return f"No design serves {places} at equal quality. {_why_none(found)}"
    merit = MERITS[found.cells.spaces[0].question.objective].words
    drafts = listed(list(dict.fromkeys(f"K = {each.n_draft}" for each in best.at)))
    if len(best.at) > 1 and len({each.n_draft for each in best.at}) > 1:
        drafts = listed([f"K = {each.n_draft} at {name(each.cell)}" for each in best.at])
    if all(each.loss == each.low == each.high == 0.0 for each in best.at):
        alone = "that target" if len(best.at) == 1 else "each of these targets"
        return f"{_upper(best.words)}, with {drafts}, for {places}: the best design of {alone} alone."
    given_up = listed([f"{loss_words(each)} at {name(each.cell)}" for each in best.at])
    return (
        f"{_upper(best.words)}, with {drafts}. Beside the best design of each target it gives up, in {merit}, "
        f"{given_up}. {_apart(found, best)}{_least_worst(found, best)}"
    )


def _apart(found: OneDesign, best: TargetsChoice) -> str:
    """Whether designing for each target apart would clearly be better."""
    lost = [each for each in best.at if not each.within_noise]
    if not lost:
        return "Every band includes no loss: a design for each target would not clearly be better."
    where = listed([found.cells.name(each.cell) for each in lost])
    return f"A design of its own is clearly better at {where}, beyond noise."


def _least_worst(found: OneDesign, best: TargetsChoice) -> str:
    other = found.least_worst
    if other is None or other.index == best.index:
        return ""
    return (
        f" Its mean loss is {percent(best.expected)}, its largest {percent(best.worst)}; that of {other.words} is at "
        f"most {percent(other.worst)}."
    )


def against_baseline(found: OneDesign) -> str:
    """The one design beside the baseline at each target. An honest word stands where the band includes no gain."""
    best, space = found.best, found.cells.spaces[0]
    if best is None:
        return ""
    own = space.baseline
    if best.index == space.baseline_index():
        return "That is the baseline itself: no design searched is expected to serve these targets better."
    gains = [each for each in best.at if each.gain is not None]
    if not gains:
        return "At none of these targets is there a baseline to hold it against."
    told = listed(
        [
            f"{each.gain.value:.2f} ({each.gain.low:.2f}-{each.gain.high:.2f}) at {found.cells.name(each.cell)}"
            for each in gains
            if each.gain is not None
        ]
    )
    start = f"Times {MERITS[space.question.objective].gain_of} (top-{own.n_active} of {own.n_experts}): {told}."
    return f"{start} {_clearly(found, best)}"


def _clearly(found: OneDesign, best: TargetsChoice) -> str:
    """Where the bands of the gains lie above 1, include it, or lie below."""
    gains = [(found.cells.name(each.cell), each.gain) for each in best.at if each.gain is not None]
    worse = [name for name, gain in gains if gain.high < 1.0]
    unclear = [name for name, gain in gains if gain.low <= 1.0 <= gain.high]
    if not worse and not unclear:
        return "It is clearly better at every target that can be compared."
    if len(unclear) == len(gains):
        return "It is not clearly better than the baseline anywhere: every band includes 1."
    told = [f"At {listed(worse)} it is clearly worse: the baseline serves better there."] if worse else []
    told += [f"At {listed(unclear)} it is not clearly better: the band includes 1."] if unclear else []
    return " ".join(told)


def one_design_price(found: OneDesign) -> str:
    """Sizes, training cost and quality by each law of the one design, or nothing without one."""
    if found.best is None:
        return ""
    space = found.cells.spaces[0]
    return price_words(space, candidates(space, [found.best.index])[0])


def one_design_notes(found: OneDesign) -> tuple[str, ...]:
    """Notes on how losses are meant, and what else to know of these searches."""
    return (REGRET_NOTE, *found.cells.notes)


@dataclass(frozen=True)
class _AtTarget:
    """What the table says of one target: why nothing fits, or its own best and the one design there."""

    target: Target
    why_not: str
    own_best: str
    own: CellStanding | None
    one: CellStanding | None


def one_design_table(found: OneDesign) -> Table[_AtTarget]:
    """The one design beside each target's own best and the baseline."""
    rows = []
    for number, (target, own, cell) in enumerate(zip(found.targets, found.own, found.cell_of, strict=True)):
        if own is None:
            rows.append(_AtTarget(target, found.cells.why_not(cell), "", None, None))
            continue
        one = None if found.best is None else found.best.at[number]
        rows.append(_AtTarget(target, "", found.cells.space(cell).describe(own.index), own, one))
    return Table(_ONE_DESIGN, rows)


def _of_one(label: str, text: Callable[[CellStanding], Any], *, words: bool = False) -> Column[_AtTarget]:
    """A column on the one design, empty where the target has none."""
    return Column(label, attrgetter("one"), lambda one: "" if one is None else str(text(one)), words=words)


_ONE_DESIGN: tuple[Column[_AtTarget], ...] = (
    Column("target", attrgetter("target"), words=True),
    Column("own best", lambda row: row.why_not or row.own_best, words=True),
    Column("ms/token", attrgetter("own"), lambda own: "" if own is None else f"{own.tpot_s * 1e3:.2f}"),
    _of_one("one design's", lambda one: f"{one.tpot_s * 1e3:.2f}"),
    _of_one("K", attrgetter("n_draft")),
    _of_one("gives up", lambda one: percent(one.expected_loss)),
    _of_one("likely range", loss_band),
    _of_one("central", lambda one: percent(one.loss)),
    _of_one(f"chance within {TIE:.0%}", lambda one: f"{one.chance:.0%}"),
    _of_one("over baseline", lambda one: "" if one.gain is None else band_text(one.gain)),
    _of_one("tier", lambda one: tier_text(one.tier, one.extrapolated), words=True),
)


def _loss_at(row: TargetsChoice, *, at: int) -> float:
    return row.at[at].expected_loss


def choices_table(found: OneDesign) -> Table[TargetsChoice]:
    """Expected loss of the best designs and the baseline, over the targets and at each."""
    rows = {each.index: each for each in (*found.choices, *([found.baseline] if found.baseline else []))}
    own = None if found.baseline is None else found.baseline.index
    columns: list[Column[TargetsChoice]] = [
        Column("design", lambda row: f"{row.words} (baseline)" if row.index == own else row.words, words=True),
        Column("mean loss", attrgetter("expected"), percent),
        Column("worst loss", attrgetter("worst"), percent),
    ]
    for at, target in enumerate(found.targets):
        columns.append(Column(str(target), partial(_loss_at, at=at), percent))
    return Table(tuple(columns), list(rows.values()))


def one_design_rows(found: OneDesign) -> list[dict[str, Any]]:
    """A flat row for each design and target, best design first, the targets' own best last."""
    rows = []
    space = found.cells.spaces[0]
    for rank, choice in enumerate(found.choices, 1):
        for target, each in zip(found.targets, choice.at, strict=True):
            row = {"rank": rank, "target": str(target), "design": choice.words, **space.shape_of(choice.index)}
            rows.append(row | standing_values(each))
    for target, own in zip(found.targets, found.own, strict=True):
        if own is not None:
            row = {"rank": "own best", "target": str(target), "design": space.describe(own.index)}
            rows.append(row | space.shape_of(own.index) | standing_values(own))
    return rows


def one_design_document(found: OneDesign) -> dict[str, Any]:
    """The answer as one JSON-able document."""
    space = found.cells.spaces[0]

    def told(choice: TargetsChoice | None) -> dict[str, Any] | None:
        if choice is None:
            return None
        at = [
            {"target": str(target), **standing_values(each)}
            for target, each in zip(found.targets, choice.at, strict=True)
        ]
        losses = {"mean_loss": choice.expected, "worst_loss": choice.worst}
        return {"design": choice.words, **space.shape_of(choice.index), **losses, "targets": at}

    own: list[dict[str, Any]] = []
    for target, each, cell in zip(found.targets, found.own, found.cell_of, strict=True):
        row: dict[str, Any] = {"target": str(target), "why_not": found.cells.why_not(cell)}
        if each is not None:
            row |= {"design": space.describe(each.index), **space.shape_of(each.index), **standing_values(each)}
        own.append(row)
    return {
        "scenario": found.scenario,
        "scenario_hash": found.scenario.hash,
        "objective": space.question.objective,
        "tie": TIE,
        "core_chance": CORE_CHANCE,
        "verdict": one_design_verdict(found),
        "against_baseline": against_baseline(found),
        "clear": found.is_clear,
        "quality": one_design_price(found),
        "best": told(found.best),
        "least_worst": told(found.least_worst),
        "others": [told(choice) for choice in found.choices[1:]],
        "baseline": told(found.baseline),
        "own": own,
        "notes": one_design_notes(found),
        "sources": found.cells.sources,
    }


def _why_none(found: OneDesign) -> str:
    """Which target no design serves, why, and what changes that; else that none serves all."""
    blocked = {cell: why for cell in found.cell_of if (why := found.cells.why_not(cell))}
    if blocked:
        named = "; ".join(f"{found.cells.name(cell)}: {why}" for cell, why in blocked.items())
        return f"{named}. {' '.join(_REMEDIES[why] for why in dict.fromkeys(blocked.values()))}"
    return "Each is served by designs of its own, but no design serves all."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
