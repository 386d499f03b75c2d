"""Sections about the load: cost and energy of a token, speculation over context, and other models on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.context_map import ContextMap, acceptance_texts, map_document, map_table, share_table, turn_texts, verdict
from advisor.ranking import Leaderboard, by_size, document, missed_texts, notes, own_place, quality_text, table
from advisor.ranking import verdict as board_verdict
from advisor.report.blocks import Block, Listing, Paragraph, Table
from advisor.report.build import Report
from advisor.report.document import RankedModel
from advisor.spend import does_not_fit, power_text, spend_document, spend_text
from advisor.text import printable

_SHOWN = 12
"""Models in a report's table; JSON has all. [-]"""
_PLACED = {"rank": "r", "model": "l", "placement": "l", "drafter": "l", "accepted": "l", "K": "r", "memory": "r"}
_FIGURES = {
    "rank": "r",
    "model": "l",
    "USD/M tokens": "r",
    "ms/token": "r",
    "tokens/s/GPU": "r",
    "J/token": "r",
    "keeps limit": "r",
}
"""Columns of the leaderboard that fit the width of a page, in two tables, and how they are aligned."""


def cost_and_energy(report: Report) -> tuple[Block, ...]:
    """Paragraph on the cost of a token with speculation and without.

    The JSON report has both arms in figures.
    """
    spend, setup = report.spend, report.advice.setup
    if spend is None:
        return (Paragraph(does_not_fit(setup)),)
    text = f"{spend_text(spend, setup.hardware)} {power_text(spend)}".rstrip()
    return (Paragraph(printable(text, 3000)),)


def over_context(report: Report, found: ContextMap) -> tuple[Block, ...]:
    """Speedup, K and attention's share over batch and context, and where speculation turns."""
    scenario = report.scenario
    said = (verdict(found, scenario.context_tokens, scenario.batch_size), *turn_texts(found))
    columns, rows = map_table(found)
    shares, share_rows = share_table(found)
    return (
        Paragraph(printable(" ".join(said), 2000)),
        Table(columns, tuple(rows), "r" * len(columns), "Speedup and recommended K; a dash: it does not fit."),
        Table(shares, tuple(share_rows), "r" * len(shares), "Attention's share of a plain step."),
        *(Paragraph(printable(text, 2000)) for text in acceptance_texts(found)),
    )


def other_models(board: Leaderboard, own_id: str) -> tuple[Block, ...]:
    """The best models at this load on this machine, with the doubt in their ranks."""
    every, rows = table(board, _SHOWN)
    cells = [dict(zip(every, map(printable, row), strict=True)) for row in rows]
    for row, one in zip(cells, board.standings, strict=False):
        row["rank"] = row["rank"] if one.rank_low == one.rank_high else f"{one.rank} ({row['80%']})"
    more = len(board.standings) - len(rows)
    caption = f"The best {len(rows)}; {more} more were ranked." if more > 0 else ""
    said = (board_verdict(board), quality_text(board), by_size(board), own_place(board, own_id))
    blocks: list[Block] = [Paragraph(" ".join(filter(None, said)))]
    if rows:
        blocks += [_columns(cells, _PLACED, f"{caption} In brackets: likely ranks, 80% band.".lstrip())]
        blocks += [_columns(cells, _FIGURES, "The same models, with 80% bands.")]
    return (*blocks, Listing((*notes(board), *missed_texts(board))))


def _columns(cells: Sequence[Mapping[str, str]], wanted: Mapping[str, str], caption: str) -> Table:
    """The columns among `wanted` that the leaderboard has."""
    names = tuple(name for name in wanted if name in cells[0])
    rows = tuple(tuple(row[name] for name in names) for row in cells)
    return Table(names, rows, "".join(wanted[name] for name in names), caption)


def load_values(report: Report) -> dict[str, Any]:
    """The three sections as the JSON report carries them, null for what was not looked up."""
    spend = None if report.spend is None else spend_document(report.spend)
    found, board, scenario = report.over_context, report.board, report.scenario
    over = None
    if found is not None:
        said = (verdict(found, scenario.context_tokens, scenario.batch_size), *turn_texts(found))
        over = {"says": said, "cells": map_document(found)["cells"]}
    other = None
    if board is not None:
        ranked = document(board)
        rows = [{name: row[name] for name in RankedModel.model_fields} for row in ranked["models"]]
        missed = [{"model": each.name, "reason": each.reason, "detail": each.detail} for each in board.missed]
        other = {"verdict": ranked["verdict"], "notes": ranked["notes"], "models": rows, "missed": missed}
    return {"spend": spend, "over_context": over, "other_models": other}
