"""A leaderboard in sentences, as a table, and as one document."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from advisor.answers.explore.entrants import Basis
from advisor.answers.explore.leaderboard import (
    FIGURE_OF,
    ExcludedModel,
    Leaderboard,
    Standing,
)
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.bands import on_front
from advisor.predict.field_rows import FieldSection
from advisor.predict.scenario_fields import FIELDS
from advisor.show.phrases.board import BASIS, BOARD, FILTERS, NOTES, REASONS
from advisor.show.phrases.book import figure_band, ms_band
from advisor.show.phrases.notes import note_texts
from advisor.show.table import Column, Table
from advisor.text import counted, printable

Quality = Mapping[str, float]
"""A user's score by model."""
_NAMED = 6
"""Models that are named with their figures, of each reason. [-]"""
_CLASSES = (0.0, 1e10, 1e11, math.inf)
"""Edges of what is called small, middling and large, in total parameters. [-]"""
_NOT_SHARED = ("drafter_id", "acceptance", "batch_size", "tensor_parallel", "expert_parallel")
"""Fields that are each model's own, and those that the users and the search stand for."""


def billions(count: float) -> str:
    """A count of parameters in billions."""
    return f"{count / 1e9:.1f}"


def _band(key: str, label: str, text: Callable[[Any], str], paper: bool = True) -> Column[Standing]:
    """A figure with its band, nothing where it is not known."""
    value = attrgetter(key)
    return Column(
        label,
        value,
        lambda figure: "" if figure is None else text(figure),
        key,
        paper=paper,
        band=True,
    )


def _plain(key: str, label: str | None = None) -> Column[Standing]:
    return Column(label, attrgetter(key), key=key)


def _rank_range(standing: Standing) -> str:
    if standing.rank_low == standing.rank_high:
        return str(standing.rank)
    return f"{standing.rank_low}-{standing.rank_high}"


def _if_drafting(text: Callable[[Standing], str]) -> Callable[[Standing], str]:
    return lambda standing: "" if standing.accepted == "none" else text(standing)


def _drafts(standing: Standing) -> str:
    return "-".join(map(str, sorted({min(standing.drafts), max(standing.drafts)})))


_of_drafter = _if_drafting(lambda standing: drafter_name(standing.drafter))
_RANK_COLUMNS: tuple[Column[Standing], ...] = (
    _plain("rank", "rank"),
    _plain("rank_low"),
    _plain("rank_high"),
    Column("likely rank", _rank_range),
    _plain("p_first"),
    _plain("p_limit"),
    Column("model", attrgetter("name"), key="name", words=True),
)
_SHAPE_COLUMNS: tuple[Column[Standing], ...] = (
    Column("total B", attrgetter("total_params"), billions, key="total_params", paper=False),
    Column("active B", attrgetter("active_params"), billions, key="active_params", paper=False),
    *map(_plain, ("tensor_parallel", "expert_parallel", "copies", "gpus")),
    Column("placement", lambda standing: placement_text(standing), words=True, paper=False),
)
_DRAFT_COLUMNS: tuple[Column[Standing], ...] = (
    *map(_plain, ("drafter", "accepted")),
    Column("drafter", _of_drafter, words=True, paper=False),
    Column("accepted", _if_drafting(attrgetter("accepted")), words=True, paper=False),
    Column("K", _drafts),
    Column(None, lambda standing: "/".join(map(str, standing.drafts)), key="n_draft"),
)
_FIGURE_COLUMNS: tuple[Column[Standing], ...] = (
    _band("speedup", "speedup", lambda value: f"{value.value:.2f}", paper=False),
    _band("tpot_s", "ms/token", ms_band, paper=False),
    _band("tokens_per_s_per_gpu", "tokens/s/GPU", figure_band, paper=False),
    _band("usd_per_million", "USD/M tokens", figure_band, paper=False),
    _band("joules_per_token", "J/token", figure_band, paper=False),
)
_STATE_COLUMNS: tuple[Column[Standing], ...] = (
    Column("memory", attrgetter("memory_share"), "{:.0%}".format, key="memory_share", paper=False),
    Column("tier", lambda standing: str(standing.tier), key="tier", words=True, paper=False),
)
COLUMNS = (*_RANK_COLUMNS, *_SHAPE_COLUMNS, *_DRAFT_COLUMNS, *_FIGURE_COLUMNS, *_STATE_COLUMNS)
"""What each model's row says; a user's own column of quality and the chance to keep a limit come
after them."""


def table(
    board: Leaderboard, top: int | None = None, quality: tuple[str, Quality] | None = None
) -> Table[Standing]:
    """The best `top` (None: all), with a user's quality column where there is standing."""
    ranked = FIGURE_OF[board.question.by]
    columns = [replace(column, paper=column.paper or column.key == ranked) for column in COLUMNS]
    if board.question.scenario.max_tpot_ms is not None:
        columns.append(Column("keeps limit", attrgetter("p_limit"), "{:.0%}".format))
    if quality is not None:
        name, scores = quality
        front = front_of(board, scores)
        columns.append(
            Column(
                name,
                lambda standing: scores.get(standing.name),
                lambda score: "" if score is None else f"{score:g}",
                name,
            )
        )
        columns.append(
            Column("front", lambda standing: "yes" if front[standing.name] else "", words=True)
        )
    return Table(tuple(columns), board.standings[:top])


def front_of(board: Leaderboard, scores: Quality) -> dict[str, bool]:
    """Models that no other beats both in what is ranked by and in the user's score."""
    flags = on_front(
        [standing.rank for standing in board.standings],
        [scores.get(standing.name) for standing in board.standings],
    )
    return {standing.name: flag for standing, flag in zip(board.standings, flags, strict=True)}


def document(board: Leaderboard, quality: tuple[str, Quality] | None = None) -> dict[str, Any]:
    """The board as one JSON-able document."""
    question = board.question
    scenario = board.question.scenario.model_dump()
    model_fields = {
        name for name, row in FIELDS.items() if row.section == FieldSection.MODEL
    } | set(_NOT_SHARED)
    rows = [
        {
            **vars(standing),
            "model": standing.name,
            "accepted": standing.accepted,
            "acceptance_text": basis_text(standing.basis),
            "placement": placement_text(standing),
            "warnings": note_texts(standing.notes),
        }
        for standing in board.standings
    ]
    if quality is not None:
        front = front_of(board, quality[1])
        for row, standing in zip(rows, board.standings, strict=True):
            row |= {"quality": quality[1].get(standing.name), "on_front": front[standing.name]}
    users = dict(zip(map(str, question.users.batches), question.users.weights, strict=True))
    settings = {name: value for name, value in scenario.items() if name not in model_fields}
    missed = [
        each.facts
        | {"model": each.name, "case": each.reason}
        | {"reason": reason_text(each), "detail": detail_text(each)}
        for each in board.missed
    ]
    facts = board.facts
    return {
        "verdict": verdict(board),
        "by": question.by,
        "place": BOARD.say("machine", facts),
        "users": users,
        "settings": settings,
        "price_usd_per_gpu_hour": facts["usd_per_hour"],
        "price_origin": facts["price_origin"],
        "quality_column": None if quality is None else quality[0],
        "models": rows,
        "missed": missed,
        "notes": [*filter(None, [quality_text(board)]), *notes(board)],
    }


def verdict(board: Leaderboard) -> str:
    """Sentences on which model is best, at what, and how sure that is.

    Where nobody serves the load, that and who comes nearest. Last, which models alone took part,
    where a filter left some out.
    """
    facts = board.facts
    conditions = BOARD.says(FILTERS, facts)
    only = f"Only models {' and '.join(conditions)} take part." if conditions else ""
    return f"{BOARD.say('best', facts)} {only}".rstrip()


def quality_text(board: Leaderboard, how: str = "") -> str:
    """Sentence saying that an order without quality favors the small.

    Empty where a least size, names or scores were given.

    how : what to do about it, in the words of whoever asks.
    """
    facts = board.facts
    return BOARD.say("quality", facts | ({"remedy": how} if how else {}))


def by_size(board: Leaderboard) -> str:
    """The best of each class of size, in one sentence: by price alone small models lead. Empty for
    one class."""
    class_texts = []
    for least, most in itertools.pairwise(_CLASSES):
        standings = (each for each in board.standings if least <= each.total_params < most)
        best = next(standings, None)
        if best is None:
            continue
        upper = f"to {most / 1e9:.0f} B" if math.isfinite(most) else "B and more"
        best_text = BOARD.say("of_size", board.facts | best.facts(board.question.by))
        class_texts.append(f"of {least / 1e9:.0f} {upper} parameters {best_text}")
    return f"Best by total size: {'; '.join(class_texts)}." if len(class_texts) > 1 else ""


def own_place(board: Leaderboard, name: str) -> str:
    """Sentence on the rank of one model and the drafter it was ranked with, empty where it has
    none."""
    standing = next((row for row in board.standings if row.name == name), None)
    if standing is None:
        return ""
    return BOARD.say("own", board.facts | standing.facts(board.question.by))


def placement_text(standing: Standing) -> str:
    """A placement as `1 GPU`, `2 copies of TP 4` or `TP 8 EP 8`."""
    return BOARD.say("placement", standing.facts("speed"))


def reason_text(excluded: ExcludedModel) -> str:
    """Reason that a model is not on the board, in general words."""
    return REASONS.say("reason", excluded.facts)


def detail_text(excluded: ExcludedModel) -> str:
    """The reason's figure. Empty where it has none."""
    return REASONS.say("detail", excluded.facts)


def basis_text(basis: Basis) -> str:
    """Source of an accepted length."""
    return BASIS.say("basis", vars(basis) | {"n_heads": len(basis.heads)})


def missed_texts(board: Leaderboard) -> tuple[str, ...]:
    """Sentences counting the models that are not on the board by reason, those with figures
    named."""
    by_reason: dict[str, list[ExcludedModel]] = {}
    for each in board.missed:
        by_reason.setdefault(reason_text(each), []).append(each)
    sentences = []
    for reason, models in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        details = [(model_name(each.name), printable(detail_text(each))) for each in models]
        model_texts = [f"{name} ({detail})" for name, detail in details if detail]
        examples = f": {'; '.join(model_texts[:_NAMED])}" if model_texts else ""
        more = f"; {len(model_texts) - _NAMED} more" if len(model_texts) > _NAMED else ""
        sentences.append(f"{counted(len(models), 'model')}: {reason}{examples}{more}.")
    return tuple(sentences)


def notes(board: Leaderboard) -> tuple[str, ...]:
    """Notes to know before using the order."""
    facts = board.facts
    rests = {standing.accepted: standing.basis for standing in reversed(board.standings)}
    lent = [
        f"{kind.capitalize()}, for one: {basis_text(rests[kind])}."
        for kind in ("borrowed", "carried", "uncarried")
        if kind in rests
    ]
    accepted = [BOARD.say("accepted_lengths", facts), *lent, BOARD.say("other_text", facts)]
    return (*filter(None, [" ".join(filter(None, accepted))]), *BOARD.says(NOTES, facts))
