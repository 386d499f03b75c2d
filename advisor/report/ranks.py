"""The section on experts on expert-parallel ranks: the slowest one counted, layouts, hotter experts, what travels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.charts import rank_chart
from advisor.expert_ranks import (
    RanksAnswer,
    document,
    exchange_table,
    exchange_text,
    heat_table,
    layout_table,
    notes,
    rank_table,
    split_table,
    splits,
    verdict,
    warnings,
)
from advisor.report.blocks import Block, FigureBlock, Listing, Paragraph, Table
from advisor.report.build import Report
from advisor.text import printable

_LENGTH = 3000
"""Longest sentence printed, in characters."""
_ORIGINS = {
    "trace": "counted on a routing trace",
    "loads": "drawn from given loads by layer",
    "preset": "drawn from the routing preset's spread, hot experts placed by chance: assumed",
}
"""Where the choices of experts come from, by kind."""
_PLACED = {"layout": "l", "experts read": "r", "rows, fullest/mean": "r", "K": "r", "copies/GPU": "r"}
_TIMES = {
    "layout": "l",
    "plain step ms": "r",
    "K": "r",
    "round ms": "r",
    "speedup": "r",
    "band": "r",
    "time per token ms": "r",
    "tier": "l",
}
"""Columns of the layouts that fit the width of a page, in two tables, and how they are aligned."""
_GROUPED = {
    "attention": "l",
    "sequences/group": "r",
    "fits": "l",
    "plain step ms": "r",
    "K": "r",
    "round ms": "r",
    "exchange ms": "r",
}
_GAINED = {
    "attention": "l",
    "K": "r",
    "speedup": "r",
    "band": "r",
    "time per token ms": "r",
    "tokens/s/GPU": "r",
    "tier": "l",
}
"""The same of the attention groups."""
_LEFT = ("layout", "exchange")
"""Columns of words in the other tables."""


def ranks_blocks(report: Report, answer: RanksAnswer) -> tuple[Block, ...]:
    """Verdict and origin, then layouts, the picture, rows by K, hotter experts, exchange and groups."""
    kind, band = answer.traffic.kind, f"{report.advice.band_level:.0%} bands"
    of_counts = f"Origin of the counts: {kind}."
    groups, refused = splits(answer)
    moved = (_table(exchange_table(answer), f"Bytes of one layer at the rank that receives most. {of_counts}"),)
    # Sentences that the answer carries already are not told again.
    told = [text for text in warnings(answer) if printable(text) not in report.warnings]
    return (
        Paragraph(_said(verdict(answer))),
        Paragraph(f"{of_counts} Choices of experts are {_ORIGINS[kind]}. {_routing_text(report, answer)}".rstrip()),
        _table(
            layout_table(answer),
            "Layouts of the experts, each at its recommended K. The first row is what predictions assume without "
            f"counts; copies are extra weights on each GPU. {of_counts}",
            _PLACED,
        ),
        _table(layout_table(answer), f"What the same layouts cost; {band} of the speedup. {of_counts}", _TIMES),
        FigureBlock("ranks", _said(rank_chart(answer).alt)),
        _table(rank_table(answer), f"Experts in order, by K: counted, and what is assumed without counts. {of_counts}"),
        _table(
            heat_table(answer),
            "What hotter experts cost at each layout's K: each layer's hottest is chosen more often than the layout "
            f"was planned for. {of_counts}",
        ),
        Paragraph(_said(exchange_text(answer))),
        *(moved if answer.moved else ()),
        _table(
            split_table(groups),
            f"The same ranks with attention in other groups, experts in order. {of_counts}",
            _GROUPED,
        ),
        _table(split_table(groups), f"What the same groups bring; {band} of the speedup. {of_counts}", _GAINED),
        Listing((*map(_said, notes(answer)), *(f"Not possible: {_said(text)}" for text in refused))),
        *([Paragraph("Note before use:"), Listing(tuple(_sentence(text) for text in told))] if told else []),
    )


def _routing_text(report: Report, answer: RanksAnswer) -> str:
    """Sentence on a routing that a trace gives this section and the rest of the report does not have."""
    routing, own = answer.setup.scenario.routing, report.scenario.routing
    if routing == own:
        return ""
    return (
        f"This section takes the trace's routing, {printable(routing)}, and not the {printable(own)} of the rest: with "
        "it in the scenario, the whole report has it."
    )


def _table(
    table: tuple[tuple[str, ...], Sequence[tuple[str, ...]]], caption: str, wanted: Mapping[str, str] | None = None
) -> Table:
    """A table of the room, or the columns `wanted` of it with their alignment, headings with a capital."""
    every, rows = table
    kept = [place for place, name in enumerate(every) if wanted is None or name in wanted]
    align = "".join((wanted or {}).get(every[place], "l" if every[place] in _LEFT else "r") for place in kept)
    heading = tuple(printable(f"{every[place][0].upper()}{every[place][1:]}") for place in kept)
    return Table(heading, tuple(tuple(printable(row[place]) for place in kept) for row in rows), align, caption)


def _said(text: str) -> str:
    return printable(text, _LENGTH)


def _sentence(text: str) -> str:
    """A warning as a sentence: those of a trace begin small and have no full stop."""
    return _said(f"{text[0].upper()}{text[1:]}".rstrip(".") + ".")


def ranks_values(answer: RanksAnswer | None) -> dict[str, Any]:
    """The section as the JSON report carries it, null where no ranks were counted."""
    if answer is None:
        return {"expert_ranks": None}
    groups, refused = splits(answer)
    told = {name: _printed(value) for name, value in document(answer, groups).items()}
    said = {"verdict": _said(verdict(answer)), "not_possible": [_said(text) for text in refused]}
    return {"expert_ranks": told | said}


def _printed(value: Any) -> Any:
    """Texts of a document as they are printed, all else as it is."""
    if isinstance(value, str):
        return _said(value)
    return (
        tuple(map(_said, value)) if isinstance(value, tuple) and all(isinstance(one, str) for one in value) else value
    )
