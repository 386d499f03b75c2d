"""A map of regions in sentences, as tables, as flat rows and as one document."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.design.one_design_words import REGRET_NOTE, percent, standing_values
from advisor.design.regions import Region, RegionMap
from advisor.design.standing import CORE_CHANCE, TIE
from advisor.text import counted

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


def region_table(found: RegionMap) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows by region: the design, where it holds, and what it loses elsewhere."""
    header = (
        "region",
        "design",
        "total B",
        "active B",
        "core",
        "edge",
        "mean loss",
        "loses most elsewhere",
        "80% band",
    )
    rows: list[tuple[str, ...]] = []
    for region in found.regions:
        shape = found.cells.spaces[0].shape_of(region.index)
        worst = region.worst_outside
        rows.append(
            (
                region.letter,
                region.words,
                f"{shape['total_params'] / 1e9:.1f}",
                f"{shape['active_params'] / 1e9:.2f}",
                str(len(region.core)),
                str(len(region.edge)),
                percent(_mean_loss(region)),
                "-" if worst is None else f"{percent(worst.expected_loss)} at {found.cells.name(worst.cell)}",
                "" if worst is None else f"{percent(worst.low)} to {percent(worst.high)}",
            )
        )
    return header, rows


def map_cells_table(found: RegionMap) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows by batch: who holds each accelerator's cell."""
    header = ("batch", *map(str, found.cells.places))
    return header, [
        (f"{batch:,.0f}", *(cell_words(found, int(cell)) for cell in column))
        for batch, column in zip(found.batches, found.grid.T, strict=True)
    ]


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
