"""A map of regions: the design to train over batch and accelerator, in sentences, as tables and as
a document.

And one design for several targets, in the same three forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from advisor.answers.design.candidates import candidates, price_words
from advisor.answers.design.cells import (
    CORE_CHANCE,
    IN_MEMORY,
    ON_LIMITS,
    ON_TIME,
    TIE,
    CellStanding,
)
from advisor.answers.design.regions import OneDesign, Region, RegionMap, Target, TargetsChoice
from advisor.show.table import Column, Table, capital, cell_text, matrix
from advisor.show.words.design import band_text
from advisor.text import MERITS, counted, listed, tier_text

REGION_NOTE = (
    f"A core cell ({CORE_CHANCE:.0%} and more): the design is within {TIE:.0%} of the best in "
    "that share of the simulated cases, which all designs share. An edge cell (marked ?): it is "
    "not, but its loss is within noise, or it is the cell's own best. Regions are chosen one "
    "after the other, each the design with most cores left."
)
REGRET_NOTE = (
    "Losses are expected ones, the mean over simulated cases that all designs share, against the "
    "best design of each target alone by the central values, at equal quality; below none counts "
    f"as none. Their 80% ranges hold the errors of both expert shapes. Under {TIE:.0%} is a "
    "tie: as much as the fit misses of one shape's kernels."
)


def percent(share: float) -> str:
    """A share as `3.0%`, and never `-0.0%`."""
    return f"{share + 0.0:.1%}".replace("-0.0%", "0.0%")


def loss_band(standing: CellStanding | None) -> str:
    """Band of a loss, as `-5.7% to 12.0%`. Empty for None."""
    return "" if standing is None else f"{percent(standing.low)} to {percent(standing.high)}"


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


def region_verdict(found: RegionMap) -> str:
    """Sentences on how few designs serve the map, what the first loses elsewhere, and where none
    serves."""
    served = int(found.cells.served.sum())
    if not served:
        return "No design keeps every limit in any cell of the map."
    first = found.regions[0]
    held = (
        f"{first.words} holds {len(first.cells)} of {counted(served, 'cell')}, {len(first.core)} "
        "as a core"
    )
    of_map = (
        "every cell of the map that any design serves,"
        if served < len(found.cells)
        else "the whole map"
    )
    if len(found.regions) == 1:
        return f"One design serves {of_map} within noise: {held}.{_not_served(found)}"
    worst = first.worst_outside
    beyond = ""
    if worst is not None:
        noise = ", within noise" if worst.within_noise else ""
        lost = (
            f"up to {percent(worst.expected_loss)} ({loss_band(worst)}{noise}), at "
            f"{found.cells.name(worst.cell)}"
        )
        beyond = f"; elsewhere it is expected to lose {lost}"
    start = f"{counted(len(found.regions), 'design')} serve {of_map} within noise"
    return f"{start}. {first.letter}: {held}{beyond}.{_not_served(found)}"


def _not_served(region_map: RegionMap) -> str:
    """Sentences on the cells that the first design cannot serve though others do, and on those that
    none serves."""
    first = region_map.regions[0]
    cells = region_map.cells
    cannot = sum(
        each is None and bool(served)
        for each, served in zip(first.everywhere, cells.served, strict=True)
    )
    none = len(cells) - int(cells.served.sum())
    sentences = (
        [f"In {counted(cannot, 'cell')} more it cannot run within the limits."] if cannot else []
    )
    sentences += (
        [f"No design serves {counted(none, 'cell')} of the map's {len(cells):,}."] if none else []
    )
    return "".join(f" {sentence}" for sentence in sentences)


def region_notes(found: RegionMap) -> tuple[str, ...]:
    """Notes on how the map was made, and what else to know of its searches."""
    return (REGION_NOTE, REGRET_NOTE, *found.cells.notes)


def cell_lines(found: RegionMap, cell: int) -> tuple[str, ...]:
    """Lines of a cell of the map: `A 8/256`, `s0 w384`, `K3 0.8%`.

    Region with k/N, shared experts and width, K and loss; `A?` stands at an edge. None where no
    design holds the cell.
    """
    each = found.standing(cell)
    if each is None:
        return ()
    region = found.regions[found.holder[cell]]
    shape = found.cells.spaces[0].shape_of(region.index)
    doubt = "" if cell in region.core else "?"
    return (
        f"{region.letter}{doubt} {shape['n_active']}/{shape['n_experts']}",
        f"s{shape['n_shared']:.3g} w{shape['expert_width']}",
        f"K{each.n_draft} {percent(each.expected_loss)}",
    )


def cell_words(found: RegionMap, cell: int) -> str:
    """Design that holds a cell, its K and its expected loss, as `A K3 0.8%`. A dash where none
    holds."""
    lines = cell_lines(found, cell)
    return f"{lines[0].split()[0]} {lines[2]}" if lines else "-"


def region_table(found: RegionMap) -> Table[Region]:
    """Each region's design, where it holds, and what it loses elsewhere."""
    shape_of = found.cells.spaces[0].shape_of

    def shape(
        name: str, label: str | None = None, text: Callable[[Any], str] = cell_text
    ) -> Column[Region]:
        return Column(label, lambda row: shape_of(row.index)[name], text, name)

    def worst(name: str) -> Callable[[Region], Any]:
        return lambda row: None if row.worst_outside is None else getattr(row.worst_outside, name)

    def worst_text(standing: CellStanding | None) -> str:
        if standing is None:
            return "-"
        return f"{percent(standing.expected_loss)} at {found.cells.name(standing.cell)}"

    def worst_place(row: Region) -> str:
        return "" if row.worst_outside is None else found.cells.name(row.worst_outside.cell)

    columns: tuple[Column[Region], ...] = (
        Column("region", attrgetter("letter"), key="region", words=True),
        Column("design", attrgetter("words"), key="design", words=True),
        *(shape(name) for name in ("n_experts", "n_active", "n_shared", "expert_width")),
        shape("total_params", "total B", lambda size: f"{size / 1e9:.1f}"),
        shape("active_params", "active B", lambda size: f"{size / 1e9:.2f}"),
        Column("core", lambda row: len(row.core), key="core_cells", paper=False),
        Column("edge", lambda row: len(row.edge), key="edge_cells", paper=False),
        Column(None, lambda row: held_where(found, row), key="holds"),
        Column("mean loss", _mean_loss, percent, key="mean_loss"),
        Column(
            "loses most elsewhere",
            attrgetter("worst_outside"),
            worst_text,
            words=True,
        ),
        Column("80% range", attrgetter("worst_outside"), loss_band, words=True),
        Column(None, worst("expected_loss"), key="worst_loss_outside"),
        Column(None, worst("low"), key="worst_loss_low"),
        Column(None, worst("high"), key="worst_loss_high"),
        Column(None, worst_place, key="worst_at"),
    )
    return Table(columns, found.regions)


def map_cells_table(found: RegionMap) -> Table[Sequence[Any]]:
    """Regions by batch and accelerator, one cell each."""
    header = ("batch", *map(str, found.cells.places))
    rows = [
        (f"{batch:,.0f}", *(cell_words(found, int(cell)) for cell in column))
        for batch, column in zip(found.batches, found.grid.T, strict=True)
    ]
    return matrix(header, rows, "r" + "l" * len(found.cells.places))


def held_where(found: RegionMap, region: Region) -> str:
    """Batches that a region holds, by accelerator: `h100-sxm 1-32; b200-sxm 1-256?`, with ? for an
    edge."""
    place_texts = []
    for place, row in zip(found.cells.places, found.grid, strict=True):
        held = [column for column, cell in enumerate(row) if cell in region.cells]
        if held:
            runs = np.split(np.array(held), np.flatnonzero(np.diff(held) > 1) + 1)
            place_texts.append(
                f"{place} {', '.join(_run(found, run, row, region) for run in runs)}"
            )
    return "; ".join(place_texts)


def region_rows(found: RegionMap) -> list[dict[str, Any]]:
    """A flat row for each cell: who holds it, how that stands, the cell's own best. None where
    nobody holds it."""
    rows: list[dict[str, Any]] = []
    for cell in range(len(found.cells)):
        space = found.cells.space(cell)
        place = found.cells.places[found.cells.space_of[cell]]
        row: dict[str, Any] = {
            "accelerator": place.hardware_id,
            "name": space.setup.hardware.name,
            "gpus": space.setup.placement.gpus,
            "batch_size": int(found.cells.batches[cell]),
        }
        each = found.standing(cell)
        if each is None:
            rows.append(row | {"region": "", "kind": "none", "why_not": found.cells.why_not(cell)})
            continue
        region = found.regions[found.holder[cell]]
        best_design = int(found.cells.found[found.cells.best[cell]])
        at = int(found.cells.row_of[cell])
        rows.append(
            row
            | {
                "region": region.letter,
                "kind": "core" if cell in region.core else "edge",
                "why_not": "",
            }
            | {"design": region.words, **space.shape_of(region.index)}
            | standing_values(each)
            | {
                "own_best": space.describe(best_design),
                "own_best_tpot_ms": float(space.tpot_s[at, best_design]) * 1e3,
            }
        )
    columns = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def region_document(found: RegionMap) -> dict[str, Any]:
    """The map as one JSON-able document."""
    return {
        "objective": found.cells.spaces[0].question.objective,
        "tie": TIE,
        "core_chance": CORE_CHANCE,
        "verdict": region_verdict(found),
        "regions": region_table(found).records(),
        "cells": region_rows(found),
        "notes": region_notes(found),
        "sources": found.cells.sources,
    }


def _mean_loss(region: Region) -> float:
    """Expected, over the cells it holds. [-]"""
    return float(
        np.mean(
            [
                each.expected_loss
                for each in map(region.everywhere.__getitem__, region.cells)
                if each is not None
            ]
        )
    )


def _run(region_map: RegionMap, run: np.ndarray, row: np.ndarray, region: Region) -> str:
    first = f"{region_map.batches[run[0]]:g}"
    last = f"{region_map.batches[run[-1]]:g}"
    doubt = "?" if any(int(row[column]) in region.edge for column in run) else ""
    return f"{first}{doubt}" if first == last else f"{first}-{last}{doubt}"


_REMEDIES = {
    IN_MEMORY: (
        "What does not fit needs more GPUs (2xACCELERATOR:BATCH), a smaller batch or a smaller "
        "format."
    ),
    ON_TIME: (
        "What is too slow needs a longer limit on time, a smaller batch or more GPUs "
        "(2xACCELERATOR:BATCH)."
    ),
    ON_LIMITS: (
        "Where no design keeps every limit, loosen those on quality, size, price or memory, or "
        "widen the grid."
    ),
}
"""What to do, by why no design serves a target."""


def loss_words(each: CellStanding) -> str:
    """A loss with its band, as `3.0% (-5.7% to 12.0%)`. A target's own best loses
    `nothing, it is the best there`."""
    if each.loss == each.low == each.high == 0.0:
        return "nothing: it is the best there"
    return f"{percent(each.expected_loss)} ({loss_band(each)})"


def one_design_verdict(found: OneDesign) -> str:
    """The one design, what it gives up at each target, and whether several would clearly be
    better."""
    best = found.best
    name = found.cells.name
    places = listed([name(cell) for cell in found.cell_of])
    if best is None:
        return f"No design serves {places} at equal quality. {_why_none(found)}"
    merit = MERITS[found.cells.spaces[0].question.objective].words
    drafts = listed(list(dict.fromkeys(f"K = {each.n_draft}" for each in best.at)))
    if len(best.at) > 1 and len({each.n_draft for each in best.at}) > 1:
        drafts = listed([f"K = {each.n_draft} at {name(each.cell)}" for each in best.at])
    if all(each.loss == each.low == each.high == 0.0 for each in best.at):
        alone = "that target" if len(best.at) == 1 else "each of these targets"
        return (
            f"{capital(best.words)}, with {drafts}, for {places}: the best design of {alone} alone."
        )
    given_up = listed([f"{loss_words(each)} at {name(each.cell)}" for each in best.at])
    return (
        f"{capital(best.words)}, with {drafts}. Beside the best design of each target it gives "
        f"up, in {merit}, {given_up}. {_apart(found, best)}{_least_worst(found, best)}"
    )


def _apart(one_design: OneDesign, best: TargetsChoice) -> str:
    """Whether designing for each target apart would clearly be better."""
    lost = [each for each in best.at if not each.within_noise]
    if not lost:
        return (
            "Every 80% range includes no loss: a design for each target would not clearly be "
            "better."
        )
    where = listed([one_design.cells.name(each.cell) for each in lost])
    return f"A design of its own is clearly better at {where}, beyond noise."


def _least_worst(one_design: OneDesign, best: TargetsChoice) -> str:
    other = one_design.least_worst
    if other is None or other.index == best.index:
        return ""
    return (
        f" Its mean loss is {percent(best.expected)}, its largest {percent(best.worst)}; that of "
        f"{other.words} is at most {percent(other.worst)}."
    )


def against_baseline(found: OneDesign) -> str:
    """The one design beside the baseline at each target. An honest word stands where the band
    includes no gain."""
    best = found.best
    space = found.cells.spaces[0]
    if best is None:
        return ""
    baseline = space.baseline
    if best.index == space.baseline_index():
        return (
            "That is the baseline itself: no design searched is expected to serve these targets "
            "better."
        )
    gains = [each for each in best.at if each.gain is not None]
    if not gains:
        return "At none of these targets is there a baseline to hold it against."
    gain_texts = listed(
        [
            (
                f"{each.gain.value:.2f} ({each.gain.low:.2f}-{each.gain.high:.2f}) at "
                f"{found.cells.name(each.cell)}"
            )
            for each in gains
            if each.gain is not None
        ]
    )
    start = (
        f"Times {MERITS[space.question.objective].gain_of} (top-{baseline.n_active} of "
        f"{baseline.n_experts}): {gain_texts}."
    )
    return f"{start} {_clearly(found, best)}"


def _clearly(one_design: OneDesign, best: TargetsChoice) -> str:
    """Where the bands of the gains lie above 1, include it, or lie below."""
    gains = [
        (one_design.cells.name(each.cell), each.gain) for each in best.at if each.gain is not None
    ]
    worse = [name for name, gain in gains if gain.high < 1.0]
    unclear = [name for name, gain in gains if gain.low <= 1.0 <= gain.high]
    if not worse and not unclear:
        return "It is clearly better at every target that can be compared."
    if len(unclear) == len(gains):
        return "It is not clearly better than the baseline anywhere: every 80% range includes 1."
    sentences = (
        [f"At {listed(worse)} it is clearly worse: the baseline serves better there."]
        if worse
        else []
    )
    sentences += (
        [f"At {listed(unclear)} it is not clearly better: the 80% range includes 1."]
        if unclear
        else []
    )
    return " ".join(sentences)


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
    """What the table says of one target: why nothing fits, or its own best and the one design
    there."""

    target: Target
    why_not: str
    own_best: str
    best_alone: CellStanding | None
    one_design: CellStanding | None


def one_design_table(found: OneDesign) -> Table[_AtTarget]:
    """The one design beside each target's own best and the baseline."""
    rows = []
    for number, (target, best_alone, cell) in enumerate(
        zip(found.targets, found.own, found.cell_of, strict=True)
    ):
        if best_alone is None:
            rows.append(_AtTarget(target, found.cells.why_not(cell), "", None, None))
            continue
        shared = None if found.best is None else found.best.at[number]
        rows.append(
            _AtTarget(
                target, "", found.cells.space(cell).describe(best_alone.index), best_alone, shared
            )
        )
    return Table(_ONE_DESIGN, rows)


def _of_one(
    label: str, text: Callable[[CellStanding], Any], *, words: bool = False
) -> Column[_AtTarget]:
    """A column on the one design, empty where the target has none."""
    return Column(
        label,
        attrgetter("one_design"),
        lambda standing: "" if standing is None else str(text(standing)),
        words=words,
    )


_ONE_DESIGN: tuple[Column[_AtTarget], ...] = (
    Column("target", attrgetter("target"), words=True),
    Column("own best", lambda row: row.why_not or row.own_best, words=True),
    Column(
        "ms/token",
        attrgetter("best_alone"),
        lambda best: "" if best is None else f"{best.tpot_s * 1e3:.2f}",
    ),
    _of_one("one design's", lambda standing: f"{standing.tpot_s * 1e3:.2f}"),
    _of_one("K", attrgetter("n_draft")),
    _of_one("gives up", lambda standing: percent(standing.expected_loss)),
    _of_one("80% range", loss_band),
    _of_one("central", lambda standing: percent(standing.loss)),
    _of_one(f"chance within {TIE:.0%}", lambda standing: f"{standing.chance:.0%}"),
    _of_one(
        "over baseline", lambda standing: "" if standing.gain is None else band_text(standing.gain)
    ),
    _of_one("tier", lambda standing: tier_text(standing.tier, standing.extrapolated), words=True),
)


def _loss_at(row: TargetsChoice, *, at: int) -> float:
    return row.at[at].expected_loss


def choices_table(found: OneDesign) -> Table[TargetsChoice]:
    """Expected loss of the best designs and the baseline, over the targets and at each."""
    rows = {
        each.index: each for each in (*found.choices, *([found.baseline] if found.baseline else []))
    }
    baseline_index = None if found.baseline is None else found.baseline.index

    def name(row: TargetsChoice) -> str:
        return f"{row.words} (baseline)" if row.index == baseline_index else row.words

    columns: list[Column[TargetsChoice]] = [
        Column("design", name, words=True),
        Column("mean loss", attrgetter("expected"), percent),
        Column("worst loss", attrgetter("worst"), percent),
        *(
            Column(str(target), partial(_loss_at, at=at), percent)
            for at, target in enumerate(found.targets)
        ),
    ]
    return Table(tuple(columns), list(rows.values()))


def one_design_rows(found: OneDesign) -> list[dict[str, Any]]:
    """A flat row for each design and target, best design first, the targets' own best last."""
    rows = []
    space = found.cells.spaces[0]
    for rank, choice in enumerate(found.choices, 1):
        for target, each in zip(found.targets, choice.at, strict=True):
            row = {
                "rank": rank,
                "target": str(target),
                "design": choice.words,
                **space.shape_of(choice.index),
            }
            rows.append(row | standing_values(each))
    for target, best_alone in zip(found.targets, found.own, strict=True):
        if best_alone is not None:
            row = {
                "rank": "own best",
                "target": str(target),
                "design": space.describe(best_alone.index),
            }
            rows.append(row | space.shape_of(best_alone.index) | standing_values(best_alone))
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

    target_bests: list[dict[str, Any]] = []
    for target, each, cell in zip(found.targets, found.own, found.cell_of, strict=True):
        row: dict[str, Any] = {"target": str(target), "why_not": found.cells.why_not(cell)}
        if each is not None:
            row |= {
                "design": space.describe(each.index),
                **space.shape_of(each.index),
                **standing_values(each),
            }
        target_bests.append(row)
    others = [told(choice) for choice in found.choices[1:]]
    question = space.question
    return {
        "scenario": found.scenario,
        "scenario_hash": found.scenario.hash,
        "objective": question.objective,
        "tie": TIE,
        "core_chance": CORE_CHANCE,
        "verdict": one_design_verdict(found),
        "against_baseline": against_baseline(found),
        "clear": found.is_clear,
        "quality": one_design_price(found),
        "best": told(found.best),
        "least_worst": told(found.least_worst),
        "others": others,
        "baseline": told(found.baseline),
        "own": target_bests,
        "notes": one_design_notes(found),
        "sources": found.cells.sources,
    }


def _why_none(one_design: OneDesign) -> str:
    """Which target no design serves, why, and what changes that; else that none serves all."""
    reasons = {cell: one_design.cells.why_not(cell) for cell in one_design.cell_of}
    blocked = {cell: why for cell, why in reasons.items() if why}
    if blocked:
        target_texts = "; ".join(
            f"{one_design.cells.name(cell)}: {why}" for cell, why in blocked.items()
        )
        return (
            f"{target_texts}. {' '.join(_REMEDIES[why] for why in dict.fromkeys(blocked.values()))}"
        )
    return "Each is served by designs of its own, but no design serves all."
