"""Drafters side by side as a table, with the reasons why some are not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from advisor.answers.explore.drafters import DrafterRow, LengthFrom
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.memory import GIB
from advisor.predict.scenario import Scenario
from advisor.show.phrases.book import Book, Phrase
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


_PAGE = Book.of(
    Phrase(
        "finding",
        "measured",
        "At batch {batch:int}, by lengths measured with this model, {drafter:drafter} gains most: "
        "{speedup:x} with K = {n_draft}; {room}.",
    ),
    Phrase(
        "finding",
        "",
        "At batch {batch:int} only borrowed lengths are known; by these, {drafter:drafter} gains "
        "most: {speedup:x} with K = {n_draft}; {room}.",
    ),
    Phrase("room", "", "it leaves room for {largest:int} of {plain_largest:int} requests"),
    Phrase("accepted", "", "{accepted_length:x2}"),
    Phrase("k", "", "{n_draft}"),
    Phrase("gain", "", "{speedup:x}"),
    Phrase("range", "", "{speedup_low:x2}–{speedup_high:x}"),
    Phrase("published", "here", "{here_low:x2}–{here_high:x} ({here_n})"),
    Phrase("fits", "", "{largest:int} of {plain_largest:int}"),
    Phrase("takes", "", "{cache_more:signed_pct} KV per request, {weights_gib:1} GiB"),
    Phrase(
        "basis",
        "",
        "Each drafter at its own accepted length and best K. Published: this GPU, model and batch "
        "(nearest doubling).",
    ),
    Phrase("unpriced", "", "Not compared, as no accepted length is measured: {names:commas}."),
)


def _facts(row: DrafterRow, batch: int) -> dict[str, Any]:
    """Facts of a row that has figures, at a batch. [sequences]"""
    assert row.figures is not None
    assert row.memory is not None
    plain = row.memory.plain or row.memory
    here = [run.speedup for run in row.here]
    return {
        "here": bool(here),
        "here_n": len(here),
        "here_low": min(here, default=None),
        "here_high": max(here, default=None),
        "batch": batch,
        "drafter": row.drafter,
        "measured": row.is_measured,
        "accepted_length": row.accepted_length,
        **asdict(row.figures),
        "largest": row.memory.largest_batch,
        "plain_largest": plain.largest_batch,
        "cache_more": row.memory.kv_bytes_per_token / plain.kv_bytes_per_token - 1.0,
        "weights_gib": row.memory.drafter_bytes / GIB,
    }


def drafters_side_by_side(rows: Sequence[DrafterRow], scenario: Scenario) -> dict[str, Any]:
    """What the page shows of `drafters_beside`, as plain values for JSON."""
    priced = [row for row in rows if row.figures is not None and not row.refused]
    facts = [_facts(row, scenario.batch_size) for row in priced]
    unpriced = [
        drafter_name(row.drafter) for row in rows if row.figures is None and not row.refused
    ]
    notes = [_PAGE.say("basis", {}), *refused_texts(rows)]
    if unpriced:
        notes.insert(1, _PAGE.say("unpriced", {"names": unpriced}))
    shown = [
        _page_row(row, row_facts, scenario) for row, row_facts in zip(priced, facts, strict=True)
    ]
    finding = _PAGE.say("finding", facts[0]) if facts else ""
    return {"finding": finding, "heads": _HEADS, "rows": shown, "notes": [*map(printable, notes)]}


_HEADS = (
    *("Drafter, text", "Accepted", "Best K", "Gain", "80% range", "Published here"),
    *("Requests that fit", ""),
)


def _page_row(row: DrafterRow, facts: Mapping[str, Any], scenario: Scenario) -> dict[str, Any]:
    """A row: what its button sets, and its cells as (text, second line)."""
    assert row.length is not None
    curve = acceptance_curve(row.length.acceptance)
    text = _known(row) if curve is None else f"{_known(row)}, {curve.dataset}"
    numbers = [_PAGE.say(slot, facts) for slot in ("accepted", "k", "gain", "range", "published")]
    name = drafter_name(row.drafter)
    room = (_PAGE.say("fits", facts), _PAGE.say("takes", facts))
    return {
        "name": name,
        "chosen": {"drafter_id": row.drafter, "acceptance": row.length.acceptance},
        "in_use": row.drafter == scenario.drafter_id,
        "cells": [(name, printable(text)), *((number, "") for number in numbers), room],
    }
