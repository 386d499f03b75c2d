"""One design for several targets in sentences, as a table, as flat rows and as one document."""

from __future__ import annotations

from typing import Any

from advisor.design.candidates import candidates
from advisor.design.cells import IN_MEMORY, ON_LIMITS, ON_TIME
from advisor.design.one_design import OneDesign, TargetsChoice
from advisor.design.standing import CORE_CHANCE, TIE, CellStanding
from advisor.design.title import price_words
from advisor.text import MERITS, tier_text

REGRET_NOTE = (
    "Losses are expected ones, the mean over simulated cases that all designs share, against the best design of each "
    "target alone by the central values, at equal quality; below none counts as none. Their 80% bands hold the errors "
    f"of both expert shapes. Under {TIE:.0%} is a tie: as much as the fit misses of one expert shape's kernels."
)


_REMEDIES = {
    IN_MEMORY: "What does not fit needs more GPUs (2xACCELERATOR:BATCH), a smaller batch or a smaller format.",
    ON_TIME: "What is too slow needs a longer limit on time, a smaller batch or more GPUs (2xACCELERATOR:BATCH).",
    ON_LIMITS: "Where no design keeps every limit, loosen those on quality, size, price or memory, or widen the grid.",
}
"""What to do, by why no design serves a target."""


def percent(share: float) -> str:
    """A share as `3.0%`, and never `-0.0%`."""
    return f"{share + 0.0:.1%}".replace("-0.0%", "0.0%")


def loss_words(each: CellStanding) -> str:
    """A loss with its band, as `3.0% (-5.7% to 12.0%)`.

    A target's own best loses `nothing, it is the best there`.
    """
    if each.loss == each.low == each.high == 0.0:
        return "nothing: it is the best there"
    return f"{percent(each.expected_loss)} ({percent(each.low)} to {percent(each.high)})"


def one_design_verdict(found: OneDesign) -> str:
    """The one design, what it gives up at each target, and whether several would clearly be better."""
    best, name = found.best, found.cells.name
    places = _listed([name(cell) for cell in found.cell_of])
    if best is None:
        return f"No design serves {places} at equal quality. {_why_none(found)}"
    merit = MERITS[found.cells.spaces[0].question.objective].words
    drafts = _listed(list(dict.fromkeys(f"K = {each.n_draft}" for each in best.at)))
    if len(best.at) > 1 and len({each.n_draft for each in best.at}) > 1:
        drafts = _listed([f"K = {each.n_draft} at {name(each.cell)}" for each in best.at])
    if all(each.loss == each.low == each.high == 0.0 for each in best.at):
        alone = "that target" if len(best.at) == 1 else "each of these targets"
        return f"{_upper(best.words)}, with {drafts}, for {places}: the best design of {alone} alone."
    given_up = _listed([f"{loss_words(each)} at {name(each.cell)}" for each in best.at])
    return (
        f"{_upper(best.words)}, with {drafts}. Beside the best design of each target it gives up, in {merit}, "
        f"{given_up}. {_apart(found, best)}{_least_worst(found, best)}"
    )


def _apart(found: OneDesign, best: TargetsChoice) -> str:
    """Whether designing for each target apart would clearly be better."""
    lost = [each for each in best.at if not each.within_noise]
    if not lost:
        return "Every band includes no loss: a design for each target would not clearly be better."
    where = _listed([found.cells.name(each.cell) for each in lost])
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
    """The one design beside the baseline at each target.

    An honest word stands where the band includes no gain.
    """
    best, space = found.best, found.cells.spaces[0]
    if best is None:
        return ""
    own = space.baseline
    if best.index == space.baseline_index():
        return "That is the baseline itself: no design searched is expected to serve these targets better."
    gains = [each for each in best.at if each.gain is not None]
    if not gains:
        return "At none of these targets is there a baseline to hold it against."
    told = _listed(
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
    told = [f"At {_listed(worse)} it is clearly worse: the baseline serves better there."] if worse else []
    told += [f"At {_listed(unclear)} it is not clearly better: the band includes 1."] if unclear else []
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


def one_design_table(found: OneDesign) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows by target: the one design beside the target's own best and the baseline."""
    best = found.best
    header = (
        *(
            "target",
            "own best",
            "ms/token",
            "one design's",
            "K",
            "gives up",
            "80% band",
            "central",
            f"chance within {TIE:.0%}",
        ),
        *("over baseline", "tier"),
    )
    rows: list[tuple[str, ...]] = []
    for number, (target, own, cell) in enumerate(zip(found.targets, found.own, found.cell_of, strict=True)):
        if own is None:
            rows.append((str(target), found.cells.why_not(cell), *("",) * (len(header) - 2)))
            continue
        start = (str(target), found.cells.space(cell).describe(own.index), f"{own.tpot_s * 1e3:.2f}")
        if best is None:
            rows.append((*start, *("",) * (len(header) - 3)))
            continue
        each = best.at[number]
        gain = "" if each.gain is None else f"{each.gain.value:.2f} ({each.gain.low:.2f}-{each.gain.high:.2f})"
        losses = (percent(each.expected_loss), f"{percent(each.low)} to {percent(each.high)}", percent(each.loss))
        tier = tier_text(each.tier, each.extrapolated)
        rows.append((*start, f"{each.tpot_s * 1e3:.2f}", str(each.n_draft), *losses, f"{each.chance:.0%}", gain, tier))
    return header, rows


def choices_table(found: OneDesign) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows of the best designs and the baseline: expected loss over the targets and at each."""
    header = ("design", "mean loss", "worst loss", *map(str, found.targets))
    named = {each.index: each.words for each in found.choices}
    if found.baseline is not None:
        named[found.baseline.index] = f"{found.baseline.words} (baseline)"
    every = {each.index: each for each in (*found.choices, *([found.baseline] if found.baseline else []))}
    return header, [
        (named[each.index], percent(each.expected), percent(each.worst), *(percent(at.expected_loss) for at in each.at))
        for each in every.values()
    ]


def standing_values(each: CellStanding) -> dict[str, Any]:
    """One design in one cell as flat values: shares, milliseconds, tier."""
    gain = each.gain
    return {
        "n_draft": each.n_draft,
        "speedup": each.speedup,
        "tpot_ms": each.tpot_s * 1e3,
        "loss": each.loss,
        "loss_low": each.low,
        "loss_high": each.high,
        "loss_expected": each.expected,
        "chance_of_tie": each.chance,
        "gain": None if gain is None else gain.value,
        "gain_low": None if gain is None else gain.low,
        "gain_high": None if gain is None else gain.high,
        "tier": str(each.tier),
        "extrapolated": each.extrapolated,
    }


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


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
