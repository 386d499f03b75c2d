"""Drafters side by side as a table, with the reasons why some are not in it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from advisor.answers.explore.drafters import DrafterRow, LengthFrom
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.memory import GIB
from advisor.show.table import Column, Table

_FROM: dict[LengthFrom, str] = {
    "own": "measured with it",
    "runs": "its published runs",
    "given": "as given",
    "family": "family: ",
    "drafter": "other family: ",
    "kind": "other drafter: ",
    "other": "other kind: ",
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
