"""A map of regions: the design to train over batch and accelerator, in sentences, as tables and as a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from advisor.answers.design.cells import CORE_CHANCE, TIE, CellStanding
from advisor.answers.design.regions import Region, RegionMap
from advisor.show.table import Column, Table, cell_text, matrix
from advisor.text import counted

REGION_NOTE = (
    f"A core cell ({CORE_CHANCE:.0%} and more): the design is within {TIE:.0%} of the best in that share of the "
    "simulated cases, which all designs share. An edge cell (marked ?): it is not, but its loss is within noise, or it "
    "is the cell's own best. Regions are chosen one after the other, each the design with most cores left."
)
REGRET_NOTE = (
    "Losses are expected ones, the mean over simulated cases that all designs share, against the best design of each "
    "target alone by the central values, at equal quality; below none counts as none. Their likely ranges hold "
    f"the errors of both expert shapes. Under {TIE:.0%} is a tie: as much as the fit misses of one shape's kernels."
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
        noise = ", within noise" if worst.within_noise else ""
        lost = f"up to {percent(worst.expected_loss)} ({loss_band(worst)}{noise}), at {found.cells.name(worst.cell)}"
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


def cell_lines(found: RegionMap, cell: int) -> tuple[str, ...]:
    """Lines of a cell of the map: `A 8/256`, `s0 w384`, `K3 0.8%`.

    Region with k/N, shared experts and width, K and loss; `A?` stands at an edge. None where no design holds the cell.
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
    """Design that holds a cell, its K and its expected loss, as `A K3 0.8%`. A dash where none holds."""
    lines = cell_lines(found, cell)
    return f"{lines[0].split()[0]} {lines[2]}" if lines else "-"


def region_table(found: RegionMap) -> Table[Region]:
    """Each region's design, where it holds, and what it loses elsewhere."""
    shape_of = found.cells.spaces[0].shape_of

    def shape(name: str, label: str | None = None, text: Callable[[Any], str] = cell_text) -> Column[Region]:
        return Column(label, lambda row: shape_of(row.index)[name], text, name)

    def worst(name: str) -> Callable[[Region], Any]:
        return lambda row: None if row.worst_outside is None else getattr(row.worst_outside, name)

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
            lambda worst: "-" if worst is None else f"{percent(worst.expected_loss)} at {found.cells.name(worst.cell)}",
            words=True,
        ),
        Column("likely range", attrgetter("worst_outside"), loss_band, words=True),
        Column(None, worst("expected_loss"), key="worst_loss_outside"),
        Column(None, worst("low"), key="worst_loss_low"),
        Column(None, worst("high"), key="worst_loss_high"),
        Column(
            None,
            lambda row: "" if (worst := row.worst_outside) is None else found.cells.name(worst.cell),
            key="worst_at",
        ),
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
        np.mean([each.expected_loss for each in map(region.everywhere.__getitem__, region.cells) if each is not None])
    )


def _run(found: RegionMap, run: np.ndarray, row: np.ndarray, region: Region) -> str:
    first, last = (f"{found.batches[column]:g}" for column in (run[0], run[-1]))
    doubt = "?" if any(int(row[column]) in region.edge for column in run) else ""
    return f"{first}{doubt}" if first == last else f"{first}-{last}{doubt}"
