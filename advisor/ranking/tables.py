"""A leaderboard as rows of a table, as JSON, and for a spreadsheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog import drafter_name
from advisor.prediction import Prediction
from advisor.ranking.board import Leaderboard, Standing
from advisor.ranking.scores import on_front
from advisor.ranking.words import ms_text, notes, placement_text, quality_text, verdict
from advisor.scenario import FIELDS, FieldSection, Scenario
from advisor.spend import figure

Quality = Mapping[str, float]
"""A user's score by model."""

COLUMNS = (
    "rank",
    "80%",
    "model",
    "total B",
    "active B",
    "placement",
    "drafter",
    "accepted",
    "K",
    "speedup",
    "ms/token",
    "tokens/s/GPU",
    "USD/M tokens",
    "J/token",
    "memory",
    "tier",
)


def table(
    board: Leaderboard, top: int | None = None, quality: tuple[str, Quality] | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows, the best `top` (None: all), with a user's quality column where there is one."""
    limited = board.question.scenario.max_tpot_ms is not None
    columns = [*COLUMNS, *(["keeps limit"] if limited else [])]
    shown = board.standings[:top]
    rows = [[*_cells(one), *([f"{one.p_limit:.0%}"] if limited else [])] for one in shown]
    if quality is not None:
        name, scores = quality
        columns += [name, "front"]
        front = front_of(board, scores)
        for row, one in zip(rows, shown, strict=True):
            row += ["" if one.name not in scores else f"{scores[one.name]:g}", "yes" if front[one.name] else ""]
    return tuple(columns), [tuple(row) for row in rows]


def front_of(board: Leaderboard, scores: Quality) -> dict[str, bool]:
    """Models that no other beats both in what is ranked by and in the user's score."""
    flags = on_front([one.rank for one in board.standings], [scores.get(one.name) for one in board.standings])
    return {one.name: flag for one, flag in zip(board.standings, flags, strict=True)}


def _cells(one: Standing) -> list[str]:
    drafts = sorted(set(one.drafts))
    return [
        str(one.rank),
        f"{one.rank_low}-{one.rank_high}" if one.rank_low < one.rank_high else str(one.rank),
        one.name,
        f"{one.total_params / 1e9:.1f}",
        f"{one.active_params / 1e9:.1f}",
        placement_text(one),
        "" if one.accepted == "none" else drafter_name(one.drafter),
        "" if one.accepted == "none" else one.accepted,
        str(drafts[0]) if len(drafts) == 1 else f"{drafts[0]}-{drafts[-1]}",
        f"{one.speedup.value:.2f}",
        ms_text(one.tpot_s),
        figure(one.tokens_per_s_per_gpu),
        "" if one.usd_per_million is None else figure(one.usd_per_million),
        "" if one.joules_per_token is None else figure(one.joules_per_token),
        f"{one.memory_share:.0%}",
        str(one.tier),
    ]


def document(board: Leaderboard, quality: tuple[str, Quality] | None = None) -> dict[str, Any]:
    """The board as one JSON-able document."""
    question = board.question
    rows = [_row(one) for one in board.standings]
    if quality is not None:
        front = front_of(board, quality[1])
        for row, one in zip(rows, board.standings, strict=True):
            row |= {"quality": quality[1].get(one.name), "on_front": front[one.name]}
    return {
        "verdict": verdict(board),
        "by": question.by,
        "place": board.place,
        "users": dict(zip(map(str, question.users.batches), question.users.weights, strict=True)),
        "settings": _settings(question.scenario),
        "price_usd_per_gpu_hour": None if board.price is None else board.price.usd_per_hour,
        "price_origin": None if board.price is None else board.price.origin,
        "quality_column": None if quality is None else quality[0],
        "models": rows,
        "missed": [vars(each) for each in board.missed],
        "notes": [*filter(None, [quality_text(board)]), *notes(board)],
    }


_EACH_ITS_OWN = ("drafter_id", "acceptance")
_SEARCHED = ("batch_size", "tensor_parallel", "expert_parallel")
"""Fields that the users and the search stand for."""


def _settings(scenario: Scenario) -> dict[str, Any]:
    """The scenario's fields that all models share."""
    own = {name for name, row in FIELDS.items() if row.section == FieldSection.MODEL}
    return {
        name: value
        for name, value in scenario.model_dump().items()
        if name not in own and name not in _EACH_ITS_OWN and name not in _SEARCHED
    }


def _row(one: Standing) -> dict[str, Any]:
    return {**vars(one), "model": one.name, "placement": placement_text(one)}


_PLAIN = (
    "rank",
    "rank_low",
    "rank_high",
    "p_first",
    "p_limit",
    "name",
    "total_params",
    "active_params",
    "tensor_parallel",
    "expert_parallel",
    "copies",
    "gpus",
    "drafter",
    "accepted",
    "memory_share",
    "tier",
)
CSV_FIGURES = ("speedup", "tpot_s", "tokens_per_s_per_gpu", "usd_per_million", "joules_per_token")


def csv_rows(board: Leaderboard, quality: tuple[str, Quality] | None = None) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows for a spreadsheet: each figure with both ends of its band."""
    columns = [*_PLAIN, "n_draft"]
    columns += [f"{name}{end}" for name in CSV_FIGURES for end in ("", "_low", "_high")]
    columns += [] if quality is None else [quality[0]]
    rows = []
    for one in board.standings:
        row: dict[str, Any] = {name: getattr(one, name) for name in _PLAIN}
        row["tier"], row["n_draft"] = str(one.tier), "/".join(map(str, one.drafts))
        for name in CSV_FIGURES:
            value: Prediction | None = getattr(one, name)
            for end, cell in zip(("", "_low", "_high"), _ends(value), strict=True):
                row[f"{name}{end}"] = cell
        if quality is not None:
            row[quality[0]] = quality[1].get(one.name)
        rows.append(row)
    return columns, rows


def _ends(value: Prediction | None) -> Sequence[float | None]:
    return (
        (None,) * 3 if value is None else tuple(float(f"{each:.6g}") for each in (value.value, value.low, value.high))
    )
