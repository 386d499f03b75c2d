"""An answer as flat rows and as one document, and a question's batches as text: what screen and terminal share.

A map of regions in sentences, as tables, as flat rows and as one document.

One design for several targets in sentences, as a table, as flat rows and as one document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, SupportsIndex

import numpy as np

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import Band, Candidate, candidates, own_design, price_words, short_words
from advisor.answers.design.cells import CORE_CHANCE, IN_MEMORY, ON_LIMITS, ON_TIME, TIE, CellStanding
from advisor.answers.design.dials import Costed, Dial
from advisor.answers.design.grid import MAX_BATCHES
from advisor.answers.design.regions import OneDesign, Region, RegionMap, Target, TargetsChoice
from advisor.answers.design.space import DesignSpace
from advisor.prediction import AdvisorError
from advisor.show.table import Column, Table, matrix
from advisor.text import MERITS, counted, tier_text

_PIECE = re.compile(
    r"(?P<first>[0-9]{1,6})"
    r"(\s*-\s*(?P<last>[0-9]{1,6})|\s*:\s*(?P<weight>[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?))?",
    re.IGNORECASE,
)


def parse_batches(text: str) -> dict[int, float]:
    """Read batches with their weights, as {batch: weight}.

    A list `1,64`, a range `1-512` (its powers of two and its ends) or a histogram `1:0.2,64:0.8`. Raises AdvisorError
    for anything else.
    """
    found: dict[int, float] = {}
    for piece in text.split(","):
        match = _PIECE.fullmatch(piece.strip())
        if match is None:
            raise AdvisorError(
                f"batches {text[:80]!r} is no list like 1,64, range like 1-512 or histogram like 1:0.2,64:0.8"
            )
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            raise AdvisorError(f"batches {text[:80]!r}: a range runs from the smaller to the larger batch, e.g. 1-512")
        weight = float(match["weight"] or 1.0)
        for batch in _range(first, last):
            if batch in found:
                raise AdvisorError(f"batches {text[:80]!r} gives {batch} twice")
            found[batch] = weight
    if len(found) > MAX_BATCHES:
        raise AdvisorError(f"{len(found)} batches are too many for one search; give at most {MAX_BATCHES}")
    return found


def _range(first: int, last: int) -> list[int]:
    """Both ends and the powers of two between."""
    return sorted({first, last, *(2**i for i in range(last.bit_length()) if first < 2**i < last)})


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
                    for end, name in (("", "value"), ("_low", "low"), ("_high", "high"), ("_chance", "chance"))
                }
            elif field.name == "quality":
                for law in value:
                    row |= {
                        f"quality_{law.law}{end}": x
                        for end, x in (("", law.ratio), ("_low", law.low), ("_high", law.high))
                    }
            elif field.name == "corners":
                row["corners"] = "; ".join(value)
            elif isinstance(value, tuple):
                batches = answer.space.question.batches
                row |= {f"{field.name}_b{batch:g}": x for batch, x in zip(batches, value, strict=True)}
            else:
                row[field.name] = str(value) if field.name == "tier" else value
        rows.append(row)
    return rows


DIALS = {"ratio": "k/N", "shared": "shared : routed", "width": "expert width"}
"""Names of the dials."""
_TOLD = (
    "headline",
    *("clear", "recommended", "one_law", "infeasible", "top", "binding", "binding_text"),
    *("sensitivity", "dials", "rule", "limits", "warnings"),
)


def answer_document(answer: DesignAnswer) -> dict[str, Any]:
    """The answer as one JSON-able document, whose keys are part of the public contract."""
    space = answer.space
    question = space.question
    return {
        "scenario": space.setup.scenario,
        "scenario_hash": space.setup.scenario.hash,
        **{name: getattr(question, name) for name in ("objective", "batches", "batch_weights")},
        **{name: getattr(question, name) for name in ("quality_eps", "training_tokens")},
        "n_designs": len(space),
        "n_feasible": len(space.candidates),
        "verdict": answer.verdict,
        "baseline": _baseline(space),
        **{name: getattr(answer, name) for name in _TOLD},
        "pareto": [
            {
                "design": space.describe(int(i)),
                "quality": space.quality[:, i],
                "objective": question.value(float(space.score[i])),
            }
            for i in answer.pareto
        ],
    }


def below_headline(answer: DesignAnswer) -> str:
    """The line under the headline: time, quality and weights beside today's."""
    best, space = answer.recommended, answer.space
    if best is None:
        return answer.verdict
    own, gain, time_ms = space.baseline, best.objective_gain, space.question.mean_tpot_s(best.tpot_s) * 1e3
    start = f"Width {best.expert_width:,}, K = {'/'.join(map(str, dict.fromkeys(best.n_draft)))}"
    if own_design(space, best):
        return f"{start} · {time_ms:.2f} ms per token · none of {len(space):,} designs that every law keeps is faster"
    if space.baseline_problem:
        return f"{start} · {time_ms:.2f} ms per token · {space.baseline_problem}"
    band = f"{gain.low:.2f}–{gain.high:.2f}"
    low, high = best.quality_range
    guess = f"Best guess: {short_words(space, best)}, {gain.value:.2f}× ({band})"
    return (
        f"{f'{start} · {band}× in 8 of 10 cases' if answer.clear else guess} · {time_ms:.2f} ms per token, today "
        f"{space.question.mean_tpot_s(own.served.tpot_s[:, 0]) * 1e3:.2f} · quality "
        f"{_quality(low).rstrip('%')}–{_quality(high)} by three laws · {best.total_params / 1e9:,.0f} B, "
        f"today {own.total_params / 1e9:,.0f}"
    )


def _quality(share: float) -> str:
    return f"{share:.0%}" if share <= 2.0 else ">200%"


_Line = tuple[str, Callable[[Costed], str]]


def _said(line: _Line, *, of: Costed) -> str:
    return line[1](of)


def dial_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial: `8 of 256`, `1 : 8` or `2,048`."""
    one = dial.designs[at]
    if dial.name == "ratio":
        return f"{one.n_active} of {one.n_experts}"
    return f"{one.n_shared:.3g} : {one.n_active}" if dial.name == "shared" else f"{one.expert_width:,}"


def loss_text(loss: float) -> str:
    """Time lost as a mark says it: `best`, `+4%`, or `no design` where nothing keeps the limits."""
    if np.isnan(loss):
        return "no design"
    return "best" if loss < 5e-4 else f"+{loss:.1%}" if loss < 0.0095 else f"+{loss:.0%}"


def dials_table(found: Sequence[Dial]) -> Table[Dial]:
    """Each dial held at the own design's value and what that costs, beside the value that costs least."""
    columns = (
        Column[Dial]("held", lambda dial: DIALS[dial.name], words=True),
        Column[Dial]("at", lambda dial: dial_value(dial, dial.own)),
        Column[Dial]("time lost", lambda dial: loss_text(float(dial.loss[dial.own]))),
        Column[Dial]("least at", lambda dial: "" if dial.best is None else dial_value(dial, dial.best)),
    )
    return Table(columns, found)


def beside_table(today: Costed, own: Costed, best: Costed | None) -> Table[_Line]:
    """Today's design, the user's and the best one, a line for each quantity."""
    lines: tuple[_Line, ...] = (
        ("Experts", lambda one: f"{one.experts.n_active} of {one.experts.n_experts}"),
        ("Shared", lambda one: f"{one.experts.n_shared:.3g}"),
        ("Width", lambda one: f"{one.experts.expert_width:,}"),
        ("ms/token", lambda one: f"{one.tpot_s * 1e3:.2f}" if one.fits else "does not fit"),
        ("Speed", lambda one: f"{today.tpot_s / one.tpot_s:.2f}×" if one.fits else ""),
        ("Quality, lowest law", lambda one: _quality(one.quality[0])),
        ("Quality, highest law", lambda one: _quality(one.quality[1])),
        ("Total, B", lambda one: f"{one.total_params / 1e9:,.1f}"),
        ("Active, B", lambda one: f"{one.active_params / 1e9:.2f}"),
    )
    named = {"today": today, "mine": own} | ({} if best is None else {"best": best})
    columns = [Column[_Line]("design", itemgetter(0), words=True)]
    columns += [Column[_Line](name, partial(_said, of=one)) for name, one in named.items()]
    return Table(tuple(columns), lines)


def _baseline(space: DesignSpace) -> dict[str, Any]:
    own = space.baseline
    return (
        {name: value for name, value in vars(own).items() if name not in ("activation", "shape", "served", "score")}
        | {name: values[:, 0] for name, values in vars(own.served).items()}
        | {"objective": space.question.value(own.score)}
    )


REGION_NOTE = (
    f"A core cell ({CORE_CHANCE:.0%} and more): the design is within {TIE:.0%} of the best in that share of the "
    "simulated cases, which all designs share. An edge cell (marked ?): it is not, but its loss is within noise, or it "
    "is the cell's own best. Regions are chosen one after the other, each the design with most cores left."
)


def region_verdict(found: RegionMap) -> str:
    """Sentences on how few designs serve the map, what the first loses elsewhere, and where none serves."""
    served = int(found.cells.served.sum())
    if not served:
        return "No design keeps every limit in any cell of the map."
    first = found.regions[0]
    held = f"{first.words} holds {len(first.cells)} of {counted(served, 'cell')}, {len(first.core)} as a core"
    of_map = "every cell of the map that any design serves," if served < len(found.cells) else "the whole map"
    if len(found.regions) == 1:
        return f"One design serves {of_map} within noise: {held}.{_not_served(found)}"
    worst = first.worst_outside
    beyond = ""
    if worst is not None:
        band = f"{percent(worst.low)} to {percent(worst.high)}"
        noise = ", within noise" if worst.within_noise else ""
        lost = f"up to {percent(worst.expected_loss)} ({band}{noise}), at {found.cells.name(worst.cell)}"
        beyond = f"; elsewhere it is expected to lose {lost}"
    start = f"{counted(len(found.regions), 'design')} serve {of_map} within noise"
    return f"{start}. {first.letter}: {held}{beyond}.{_not_served(found)}"


def _not_served(found: RegionMap) -> str:
    """Sentences on the cells that the first design cannot serve though others do, and on those that none serves."""
    first, cells = found.regions[0], found.cells
    cannot = sum(each is None and bool(served) for each, served in zip(first.everywhere, cells.served, strict=True))
    none = len(cells) - int(cells.served.sum())
    said = [f"In {counted(cannot, 'cell')} more it cannot run within the limits."] if cannot else []
    said += [f"No design serves {counted(none, 'cell')} of the map's {len(cells):,}."] if none else []
    return "".join(f" {sentence}" for sentence in said)


def region_notes(found: RegionMap) -> tuple[str, ...]:
    """Notes on how the map was made, and what else to know of its searches."""
    return (REGION_NOTE, REGRET_NOTE, *found.cells.notes)


def cell_words(found: RegionMap, cell: int) -> str:
    """Design that holds a cell, its K and its expected loss, as `A K3 0.8%`.

    `A?` stands at an edge, and a dash where none holds.
    """
    each = found.standing(cell)
    if each is None:
        return "-"
    region = found.regions[found.holder[cell]]
    doubt = "" if cell in region.core else "?"
    return f"{region.letter}{doubt} K{each.n_draft} {percent(each.expected_loss)}"


def cell_lines(found: RegionMap, cell: int) -> tuple[str, ...]:
    """Lines of a cell of the map: `A 8/256`, `s0 w384`, `K3 0.8%`.

    Region with k/N, shared experts and width, K and loss. There are none where no design holds the cell.
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


def region_table(found: RegionMap) -> Table[Region]:
    """Each region's design, where it holds, and what it loses elsewhere."""
    shape_of = found.cells.spaces[0].shape_of
    columns: tuple[Column[Region], ...] = (
        Column("region", attrgetter("letter"), words=True),
        Column("design", attrgetter("words"), words=True),
        Column("total B", lambda row: shape_of(row.index)["total_params"] / 1e9, "{:.1f}".format),
        Column("active B", lambda row: shape_of(row.index)["active_params"] / 1e9, "{:.2f}".format),
        Column("core", lambda row: len(row.core), paper=False),
        Column("edge", lambda row: len(row.edge), paper=False),
        Column("mean loss", _mean_loss, percent),
        Column("loses most elsewhere", lambda row: _worst_text(found, row.worst_outside), words=True),
        Column("likely range", attrgetter("worst_outside"), _loss_band, words=True),
    )
    return Table(columns, found.regions)


def _worst_text(found: RegionMap, worst: CellStanding | None) -> str:
    return "-" if worst is None else f"{percent(worst.expected_loss)} at {found.cells.name(worst.cell)}"


def _loss_band(standing: CellStanding | None) -> str:
    return "" if standing is None else f"{percent(standing.low)} to {percent(standing.high)}"


def map_cells_table(found: RegionMap) -> Table[Sequence[Any]]:
    """Regions by batch and accelerator, one cell each."""
    header = ("batch", *map(str, found.cells.places))
    rows = [
        (f"{batch:,.0f}", *(cell_words(found, int(cell)) for cell in column))
        for batch, column in zip(found.batches, found.grid.T, strict=True)
    ]
    return matrix(header, rows, "r" + "l" * len(found.cells.places))


def held_where(found: RegionMap, region: Region) -> str:
    """Batches that a region holds, by accelerator, as `h100-sxm 1-32; b200-sxm 1-256?`.

    ? marks an edge among the batches.
    """
    told = []
    for place, row in zip(found.cells.places, found.grid, strict=True):
        held = [column for column, cell in enumerate(row) if cell in region.cells]
        if held:
            runs = np.split(np.array(held), np.flatnonzero(np.diff(held) > 1) + 1)
            told.append(f"{place} {', '.join(_run(found, run, row, region) for run in runs)}")
    return "; ".join(told)


def region_rows(found: RegionMap) -> list[dict[str, Any]]:
    """A flat row for each cell: who holds it, how that design stands, and the cell's own best beside it.

    All have the same columns; None where nobody holds the cell.
    """
    rows: list[dict[str, Any]] = []
    for cell in range(len(found.cells)):
        space, place = found.cells.space(cell), found.cells.places[found.cells.space_of[cell]]
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
        own = int(found.cells.found[found.cells.best[cell]])
        at = int(found.cells.row_of[cell])
        rows.append(
            row
            | {"region": region.letter, "kind": "core" if cell in region.core else "edge", "why_not": ""}
            | {"design": region.words, **space.shape_of(region.index)}
            | standing_values(each)
            | {"own_best": space.describe(own), "own_best_tpot_ms": float(space.tpot_s[at, own]) * 1e3}
        )
    columns = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def region_document(found: RegionMap) -> dict[str, Any]:
    """The map as one JSON-able document."""
    return {
        "scenario": found.scenario,
        "scenario_hash": found.scenario.hash,
        "objective": found.cells.spaces[0].question.objective,
        "tie": TIE,
        "core_chance": CORE_CHANCE,
        "verdict": region_verdict(found),
        "regions": [region_values(found, region) for region in found.regions],
        "cells": region_rows(found),
        "notes": region_notes(found),
        "sources": found.cells.sources,
    }


def region_values(found: RegionMap, region: Region) -> dict[str, Any]:
    """One region as flat values."""
    worst = region.worst_outside
    return {
        "region": region.letter,
        "design": region.words,
        **found.cells.spaces[0].shape_of(region.index),
        "core_cells": len(region.core),
        "edge_cells": len(region.edge),
        "holds": held_where(found, region),
        "mean_loss": _mean_loss(region),
        "worst_loss_outside": None if worst is None else worst.expected_loss,
        "worst_loss_low": None if worst is None else worst.low,
        "worst_loss_high": None if worst is None else worst.high,
        "worst_at": "" if worst is None else found.cells.name(worst.cell),
    }


def _mean_loss(region: Region) -> float:
    """Expected, over the cells it holds. [-]"""
    return float(
        np.mean([each.expected_loss for each in map(region.everywhere.__getitem__, region.cells) if each is not None])
    )


def _run(found: RegionMap, run: np.ndarray, row: np.ndarray, region: Region) -> str:
    first, last = (f"{found.batches[column]:g}" for column in (run[0], run[-1]))
    doubt = "?" if any(int(row[column]) in region.edge for column in run) else ""
    return f"{first}{doubt}" if first == last else f"{first}-{last}{doubt}"


REGRET_NOTE = (
    "Losses are expected ones, the mean over simulated cases that all designs share, against the best design of each "
    "target alone by the central values, at equal quality; below none counts as none. Their likely ranges hold the "
    f"errors of both expert shapes. Under {TIE:.0%} is a tie: as much as the fit misses of one expert shape's kernels."
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
    _of_one("likely range", _loss_band),
    _of_one("central", lambda one: percent(one.loss)),
    _of_one(f"chance within {TIE:.0%}", lambda one: f"{one.chance:.0%}"),
    _of_one("over baseline", lambda one: "" if one.gain is None else band_text(one.gain)),
    _of_one("tier", lambda one: tier_text(one.tier, one.extrapolated), words=True),
)


def band_text(value: Band) -> str:
    """A figure with its band, `1.50 (1.35-1.65)`."""
    return f"{value.value:.2f} ({value.low:.2f}-{value.high:.2f})"


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
