"""The section on one design for several accelerators and batches: the map of regions, when it was asked for."""

from __future__ import annotations

from typing import Any

from advisor.charts import design_regions_chart
from advisor.design import (
    RegionMap,
    held_where,
    map_cells_table,
    region_document,
    region_notes,
    region_table,
    region_verdict,
)
from advisor.report.blocks import Block, FigureBlock, Listing, Paragraph, Table
from advisor.report.document_design import DesignRegion, RegionCell
from advisor.text import printable

_COLUMNS = {
    "region": "l",
    "design": "l",
    "total B": "r",
    "active B": "r",
    "mean loss": "r",
    "loses most elsewhere": "l",
    "80% band": "l",
}
"""Columns of the table of regions that fit a page, with their alignment."""


def regions_blocks(found: RegionMap) -> tuple[Block, ...]:
    """The map as a figure and as a table of cells, then its regions."""
    verdict = Paragraph(printable(region_verdict(found), 2000))
    notes = Listing(tuple(printable(note, 2000) for note in region_notes(found)))
    if not found.regions:
        return verdict, notes
    columns, rows = map_cells_table(found)
    every, regions = region_table(found)
    shown = tuple(
        tuple(printable(cell) for name, cell in zip(every, row, strict=True) if name in _COLUMNS) for row in regions
    )
    held = tuple(f"{region.letter} holds {printable(held_where(found, region), 2000)}." for region in found.regions)
    caption = (
        "Who holds each batch and accelerator, with which K, and the expected loss against its own best; ? at an edge."
    )
    return (
        verdict,
        FigureBlock("regions", printable(design_regions_chart(found).alt, 4000)),
        Table(tuple(map(printable, columns)), tuple(rows), "r" + "l" * (len(columns) - 1), caption),
        Table(tuple(_COLUMNS), shown, "".join(_COLUMNS.values())),
        Listing((*held, *notes.items)),
    )


def regions_values(found: RegionMap | None) -> dict[str, Any]:
    """The section as the JSON report carries it, null where no map was asked for."""
    if found is None:
        return {"design_regions": None}
    told = region_document(found)
    same = {name: told[name] for name in ("objective", "tie", "core_chance")}
    rows = {
        "regions": [{name: row[name] for name in DesignRegion.model_fields} for row in told["regions"]],
        "cells": [{name: row[name] for name in RegionCell.model_fields} for row in told["cells"]],
    }
    said = {"verdict": printable(told["verdict"], 2000), "notes": [printable(note, 2000) for note in told["notes"]]}
    return {"design_regions": same | rows | said}
