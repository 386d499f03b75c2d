"""Drafters side by side as a table, with the reasons why some are not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from advisor.answers.explore.drafters import DrafterRow, LengthFrom
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.memory import GIB, MemoryFit
from advisor.predict.scenario import Scenario
from advisor.show.phrases.book import Book, phrases_of
from advisor.show.table import Column, Table
from advisor.text import printable

_FROM: Mapping[LengthFrom, str] = {
    "own": "measured with it",
    "runs": "its published runs",
    "given": "as given",
    "family": "family: ",
    "drafter": "other family: ",
    "kind": "other drafter: ",
}


def _known(row: DrafterRow) -> str:
    """Origin of a row's accepted length, with what it is borrowed from."""
    if row.length is None:
        return "none measured"
    curve = acceptance_curve(row.length.acceptance)
    origin = _FROM[row.length.known_from]
    if curve is None or row.length.known_from == "own":
        return origin
    drafter = "" if curve.drafter_id == row.drafter else f", {drafter_name(curve.drafter_id)}"
    return f"{origin}{curve.checkpoint or model_name(curve.model_id)}{drafter}"


def _figure(
    label: str, name: str, form: str, key: str = "", scale: float = 1
) -> Column[DrafterRow]:
    """A number of a row, a dash where it is not known. `name` may lead through the row's parts."""
    part, _, field = name.rpartition(".")

    def value(row: DrafterRow) -> Any:
        holder = getattr(row, part) if part else row
        number = None if holder is None else getattr(holder, field)
        return None if number is None else number / scale

    return Column(
        label, value, lambda number: "-" if number is None else format(number, form), key or field
    )


def _published(row: DrafterRow) -> str:
    speedups = [run.speedup for run in row.published]
    return f"{len(speedups)}: {min(speedups):.2f}-{max(speedups):.2f}" if speedups else ""


_ANSWER: tuple[Column[DrafterRow], ...] = (
    Column("drafter", attrgetter("drafter"), drafter_name, "drafter", words=True),
    _figure("K", "figures.n_draft", ".0f"),
    _figure("speedup", "figures.speedup", ".2f"),
    _figure("low", "figures.speedup_low", ".2f"),
    _figure("high", "figures.speedup_high", ".2f"),
    _figure("gains in", "figures.p_gain", ".0%"),
)
_BASIS: tuple[Column[DrafterRow], ...] = (
    _figure("accepted", "accepted_length", ".2f"),
    Column("length from", _known, key="length_from", words=True),
    Column(None, lambda row: row.length and row.length.acceptance, key="acceptance"),
    _figure("GiB/GPU", "memory.drafter_bytes", ".1f", "drafter_gib_per_gpu", GIB),
    _figure("most requests", "memory.largest_batch", ",.0f"),
    Column("published", _published, key="published", words=True),
)


def drafter_table(rows: Sequence[DrafterRow]) -> Table[DrafterRow]:
    """The drafters that can run. Speedups in multiples of the baseline. [-]"""
    return Table((*_ANSWER, *_BASIS), [row for row in rows if not row.refused])


def refused_texts(rows: Sequence[DrafterRow]) -> list[str]:
    """Drafters that cannot run, each with its reason."""
    return [f"{drafter_name(row.drafter)}: {row.refused}" for row in rows if row.refused]


_SAYS = {
    "finding": {
        "measured": "At batch {batch:int}, by lengths measured with this model, {drafter:drafter} "
        "gains most: {speedup:x} with K = {n_draft}; {room}.",
        "": "At batch {batch:int} only borrowed lengths are known; by these, {drafter:drafter} "
        "gains most: {speedup:x} with K = {n_draft}; {room}.",
    },
    "room": {"": "it leaves room for {largest:int} of {plain_largest:int} requests"},
    "accepted": {"": "{accepted_length:x2}"},
    "best": {"": "{n_draft}"},
    "gain": {"": "{speedup:x}"},
    "range": {"": "{speedup_low:x2}–{speedup_high:x}"},
    "published": {"here": "{here_low:x2}–{here_high:x} ({here_n})"},
    "fits": {"": "{largest:int} of {plain_largest:int}"},
    "takes": {"": "{cache_more:signed_pct} KV per request, {weights_gib:1} GiB"},
    "basis": {
        "": "Each drafter at its own accepted length and best K. Published: this GPU, model and "
        "batch (nearest doubling)."
    },
    "unpriced": {"some": "Not compared, as no accepted length is measured: {names:commas}."},
}
_PAGE = Book.of(*phrases_of(_SAYS), flags={"some": ("names", "!=", [])})
_NUMBERS = ("accepted", "best", "gain", "range", "published")


_HEADS = (
    *("Drafter, text", "Accepted", "Best K", "Gain", "80% range", "Published here"),
    *("Requests that fit", ""),
)


def _facts(row: DrafterRow, memory: MemoryFit, batch: int) -> dict[str, Any]:
    """Facts of a row that has figures, at a batch. [sequences]"""
    plain = memory.plain or memory
    here = [run.speedup for run in row.here]
    return {
        **vars(row),
        **vars(row.figures),
        "batch": batch,
        "measured": row.is_measured,
        "here": bool(here),
        "here_n": len(here),
        "here_low": min(here, default=None),
        "here_high": max(here, default=None),
        "largest": memory.largest_batch,
        "plain_largest": plain.largest_batch,
        "cache_more": memory.kv_bytes_per_token / plain.kv_bytes_per_token - 1.0,
        "weights_gib": memory.drafter_bytes / GIB,
    }


def drafters_side_by_side(rows: Sequence[DrafterRow], scenario: Scenario) -> dict[str, Any]:
    """The page's table of `drafters_beside`, as plain values for JSON.

    A row has what its button sets, and cells as (text, second line).
    """
    able = [row for row in rows if row.memory is not None]
    unpriced = [drafter_name(row.drafter) for row in able if row.figures is None]
    page_rows = []
    findings = []
    for row in able:
        if row.memory is None or row.length is None or row.figures is None:
            continue
        facts = _facts(row, row.memory, scenario.batch_size)
        name = drafter_name(row.drafter)
        curve = acceptance_curve(row.length.acceptance)
        text = _known(row) if curve is None else f"{_known(row)}, {curve.dataset}"
        numbers = [_PAGE.say(slot, facts) for slot in _NUMBERS]
        room = (_PAGE.say("fits", facts), _PAGE.say("takes", facts))
        page_row = {
            "name": name,
            "chosen": {"drafter_id": row.drafter, "acceptance": row.length.acceptance},
            "in_use": row.drafter == scenario.drafter_id,
            "cells": [(name, printable(text)), *((number, "") for number in numbers), room],
        }
        page_rows.append(page_row)
        findings.append(_PAGE.say("finding", facts))
    notes = [*_PAGE.says(("basis", "unpriced"), {"names": unpriced}), *refused_texts(rows)]
    return {
        "finding": next(iter(findings), ""),
        "heads": _HEADS,
        "rows": page_rows,
        "notes": [*map(printable, notes)],
    }
