"""A leaderboard in sentences, as a table, and as one document."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from advisor.answers.explore.entrants import By
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.bands import on_front
from advisor.predict.field_rows import FieldSection
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import Prediction
from advisor.show.table import Column, Table
from advisor.show.words.load import figure
from advisor.text import counted, printable

Quality = Mapping[str, float]
"""A user's score by model."""
_NAMED = 6
"""Models that are named with their figures, of each reason. [-]"""
_CLASSES = (0.0, 1e10, 1e11, math.inf)
"""Edges of what is called small, middling and large, in total parameters. [-]"""
_NOT_SHARED = ("drafter_id", "acceptance", "batch_size", "tensor_parallel", "expert_parallel")
"""Fields that are each model's own, and those that the users and the search stand for."""


def ms_text(value: Prediction) -> str:
    """Milliseconds with their band, as `5.3 (3.7-8.1)`."""
    return f"{value.value * 1e3:.1f} ({value.low * 1e3:.1f}-{value.high * 1e3:.1f})"


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


COLUMNS: tuple[Column[Standing], ...] = (
    Column("rank", attrgetter("rank"), key="rank"),
    Column(None, attrgetter("rank_low"), key="rank_low"),
    Column(None, attrgetter("rank_high"), key="rank_high"),
    Column(
        "likely rank",
        lambda standing: (
            f"{standing.rank_low}-{standing.rank_high}"
            if standing.rank_low < standing.rank_high
            else str(standing.rank)
        ),
    ),
    Column(None, attrgetter("p_first"), key="p_first"),
    Column(None, attrgetter("p_limit"), key="p_limit"),
    Column("model", attrgetter("name"), key="name", words=True),
    Column("total B", attrgetter("total_params"), billions, key="total_params", paper=False),
    Column("active B", attrgetter("active_params"), billions, key="active_params", paper=False),
    *(
        Column(None, attrgetter(name), key=name)
        for name in ("tensor_parallel", "expert_parallel", "copies", "gpus")
    ),
    Column("placement", lambda standing: placement_text(standing), words=True, paper=False),
    Column(None, attrgetter("drafter"), key="drafter"),
    Column(None, attrgetter("accepted"), key="accepted"),
    Column(
        "drafter",
        lambda standing: "" if standing.accepted == "none" else drafter_name(standing.drafter),
        words=True,
        paper=False,
    ),
    Column(
        "accepted",
        lambda standing: "" if standing.accepted == "none" else standing.accepted,
        words=True,
        paper=False,
    ),
    Column(
        "K",
        lambda standing: "-".join(map(str, sorted({min(standing.drafts), max(standing.drafts)}))),
    ),
    Column(None, lambda standing: "/".join(map(str, standing.drafts)), key="n_draft"),
    _band("speedup", "speedup", lambda value: f"{value.value:.2f}", paper=False),
    _band("tpot_s", "ms/token", ms_text, paper=False),
    _band("tokens_per_s_per_gpu", "tokens/s/GPU", figure, paper=False),
    _band("usd_per_million", "USD/M tokens", figure, paper=False),
    _band("joules_per_token", "J/token", figure, paper=False),
    Column("memory", attrgetter("memory_share"), "{:.0%}".format, key="memory_share", paper=False),
    Column("tier", lambda standing: str(standing.tier), key="tier", words=True, paper=False),
)
"""What each model's row says; a user's own column of quality and the chance to keep a limit come
after them."""


def table(
    board: Leaderboard, top: int | None = None, quality: tuple[str, Quality] | None = None
) -> Table[Standing]:
    """The best `top` (None: all), with a user's quality column where there is standing."""
    ranked = _RANKED[board.question.by].field
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
        {**vars(standing), "model": standing.name, "placement": placement_text(standing)}
        for standing in board.standings
    ]
    if quality is not None:
        front = front_of(board, quality[1])
        for row, standing in zip(rows, board.standings, strict=True):
            row |= {"quality": quality[1].get(standing.name), "on_front": front[standing.name]}
    users = dict(zip(map(str, question.users.batches), question.users.weights, strict=True))
    settings = {name: value for name, value in scenario.items() if name not in model_fields}
    missed = [{"model": each.name, **vars(each)} for each in board.missed]
    price = board.price
    return {
        "verdict": verdict(board),
        "by": question.by,
        "place": board.place,
        "users": users,
        "settings": settings,
        "price_usd_per_gpu_hour": None if price is None else price.usd_per_hour,
        "price_origin": None if price is None else price.origin,
        "quality_column": None if quality is None else quality[0],
        "models": rows,
        "missed": missed,
        "notes": [*filter(None, [quality_text(board)]), *notes(board)],
    }


class _Ranked(NamedTuple):
    """How a figure that models are ranked by reads."""

    best: str
    smaller: str
    field: str
    unit: str
    text: Callable[[Prediction], str]


_RANKED: dict[By, _Ranked] = {
    "cost": _Ranked(
        "Cheapest", "are cheaper", "usd_per_million", "USD per million output tokens", figure
    ),
    "throughput": _Ranked(
        "Most tokens/s per GPU",
        "write more tokens",
        "tokens_per_s_per_gpu",
        "tokens/s per GPU",
        figure,
    ),
    "speed": _Ranked("Fastest", "are faster", "tpot_s", "ms per output token", ms_text),
    "energy": _Ranked(
        "Least energy", "take less energy", "joules_per_token", "J per output token", figure
    ),
}


def verdict(board: Leaderboard) -> str:
    """Sentences on which model is best, at what, and how sure that is.

    Where nobody serves the load, that and who comes nearest. Last, which models alone took part,
    where a filter left some out.
    """
    return f"{_best_text(board)} {_filter_text(board)}".rstrip()


def _best_text(board: Leaderboard) -> str:
    question = board.question
    limit_ms = board.question.scenario.max_tpot_ms
    under = "" if limit_ms is None else f" under {limit_ms:g} ms per token"
    place = f"at {question.load_text} on {board.place}"
    if not board.standings:
        late = (each for each in board.missed if each.reason.startswith("misses"))
        near = min(late, key=lambda each: float(each.detail.split()[0]), default=None)
        nearest = (
            "" if near is None else f" The nearest is {model_name(near.name)} with {near.detail}."
        )
        return f"No model serves {question.load_text}{under} on {board.place}.{nearest}"
    first = board.standings[0]
    p_limit = (
        ""
        if limit_ms is None or first.p_limit > 0.99
        else f", and within the limit in {_of_hundred(first.p_limit)}"
    )
    best = _RANKED[question.by].best
    return (
        f"{best}{under} {place}: {model_name(first.name)} on "
        f"{placement_text(first)}{_of_all(board)}, {_value_text(first, question.by)}; first in "
        f"{_of_hundred(first.p_first)}{p_limit}."
    )


def _of_hundred(share: float) -> str:
    """`62 of 100 cases`."""
    return f"{round(100 * share)} of 100 cases"


def _of_all(board: Leaderboard) -> str:
    """That the first leaves GPUs of the machine free; empty where it uses all."""
    first = board.standings[0]
    whole = board.question.scenario.n_gpus
    if first.gpus == whole:
        return ""
    return (
        f" of {whole:,}"
        if placement_text(first).split()[-1].startswith("GPU")
        else f" ({first.gpus} of {whole:,} GPUs)"
    )


def quality_text(board: Leaderboard, how: str = "set a least size or bring scores") -> str:
    """Sentence saying that an order without quality favours the small.

    Empty where a least size, names or scores were given.

    how : what to do about it, in the words of whoever asks.
    """
    wanted = board.question.wanted
    bounded = (wanted.min_total_params or wanted.min_active_params) is not None
    if bounded or wanted.names or wanted.listed is not None or len(board.standings) < 2:
        return ""
    return f"Smaller models {_RANKED[board.question.by].smaller}: quality is not compared; {how}."


def rank_text(one: Standing) -> str:
    """A rank as `1st`, or `3rd to 6th` where the central draws differ."""
    low = f"{one.rank_low}{_ending(one.rank_low)}"
    high = f"{one.rank_high}{_ending(one.rank_high)}"
    return low if low == high else f"{low} to {high}"


def _ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def by_size(board: Leaderboard) -> str:
    """The best of each class of size, in one sentence: by price alone small models lead. Empty for
    one class."""
    class_texts = []
    for least, most in itertools.pairwise(_CLASSES):
        best = next(
            (standing for standing in board.standings if least <= standing.total_params < most),
            None,
        )
        if best is not None:
            size = (
                f"{least / 1e9:.0f} to {most / 1e9:.0f} B"
                if math.isfinite(most)
                else f"{least / 1e9:.0f} B and more"
            )
            best_text = (
                f"{model_name(best.name)} on {placement_text(best)}, "
                f"{_value_text(best, board.question.by)}"
            )
            class_texts.append(f"of {size} parameters {best_text}")
    return f"Best by total size: {'; '.join(class_texts)}." if len(class_texts) > 1 else ""


def _filter_text(board: Leaderboard) -> str:
    """Which models alone take part, in a sentence; empty where all do."""
    wanted = board.question.wanted
    conditions = []
    for what, most, least in (
        ("parameters", wanted.max_total_params, wanted.min_total_params),
        ("active parameters", wanted.max_active_params, wanted.min_active_params),
    ):
        ends = [f"at least {least / 1e9:g} B"] if least is not None else []
        ends += [f"at most {most / 1e9:g} B"] if most is not None else []
        conditions += [f"with {' and '.join(ends)} {what}"] if ends else []
    conditions += ["chosen by name"] if wanted.names else []
    conditions += ["left by the table of scores"] if wanted.listed is not None else []
    return f"Only models {' and '.join(conditions)} take part." if conditions else ""


def own_place(board: Leaderboard, name: str) -> str:
    """Sentence on the rank of one model and the drafter it was ranked with, empty where it has
    none."""
    standing = next((row for row in board.standings if row.name == name), None)
    if standing is None:
        return ""
    how = (
        "no drafter: no accepted length of one is measured for it"
        if standing.accepted == "none"
        else f"{drafter_name(standing.drafter)}, whose accepted length is {standing.accepted}"
    )
    return (
        f"{printable(model_name(name))} stands {rank_text(standing)} of {len(board.standings)}, "
        f"ranked with {how}."
    )


def placement_text(one: Standing) -> str:
    """A placement as `1 GPU`, `2 copies of TP 4` or `TP 8 EP 8`."""
    ranks = f"TP {one.tensor_parallel}" + (
        f" EP {one.expert_parallel}" if one.expert_parallel > 1 else ""
    )
    alone = max(one.tensor_parallel, one.expert_parallel) == 1
    if one.copies == 1:
        return "1 GPU" if alone else ranks
    return f"{one.copies} GPUs" if alone else f"{one.copies} copies of {ranks}"


def _value_text(standing: Standing, by: By) -> str:
    ranked = _RANKED[by]
    return f"{ranked.text(getattr(standing, ranked.field))} {ranked.unit}"


def missed_texts(board: Leaderboard) -> tuple[str, ...]:
    """Sentences counting the models that are not on the board by reason, those with figures
    named."""
    count = Counter(each.reason for each in board.missed)
    sentences = []
    for reason, number in count.most_common():
        detailed = (each for each in board.missed if each.reason == reason and each.detail)
        model_texts = [f"{model_name(each.name)} ({printable(each.detail)})" for each in detailed]
        examples = f": {'; '.join(model_texts[:_NAMED])}" if model_texts else ""
        more = f"; {len(model_texts) - _NAMED} more" if len(model_texts) > _NAMED else ""
        sentences.append(f"{counted(number, 'model')}: {reason}{examples}{more}.")
    return tuple(sentences)


def notes(board: Leaderboard) -> tuple[str, ...]:
    """Notes to know before using the order."""
    question = board.question
    sentences = [_accepted_text(board)] if board.standings else []
    if board.price is not None:
        sentences.append(f"Price: {board.price.text}.")
    paid = "only the GPUs that serve are paid, unless the whole machine is asked for"
    if question.whole_machine:
        paid = "every GPU of the machine is used and paid"
    sentences.append(
        f"Placement: tensor parallelism within a node and copies are searched; {paid}."
    )
    if question.expert_parallel:
        sentences.append(
            "Expert parallelism is searched as asked, although its effect was predicted in the "
            "right direction in few measured pairs (docs/validation.md) and its imbalance follows "
            "an assumed formula."
        )
    sentences.append(
        "Likely ranks hold 80% of the simulated cases: errors of the machine are shared by all "
        "models, those of a model's experts, acceptance and absolute time are its own. Formats "
        "are those of the releases."
    )
    sentences.append("Quality is not judged: scores, where there are any, are yours.")
    return tuple(sentences)


def _accepted_text(board: Leaderboard) -> str:
    """Where the accepted lengths are from, by how many."""
    kinds = Counter(standing.accepted for standing in board.standings)
    plain = kinds.pop("none", 0)
    count_texts = [f"{number} {kind}" for kind, number in kinds.most_common()]
    if plain:
        why = ", without a known drafter" if board.question.drafter is None else ""
        decode = "decodes" if plain == 1 else "decode"
        count_texts.append(f"{counted(plain, 'model')} {decode} plainly{why}")
    rests = {standing.accepted: standing.acceptance_text for standing in reversed(board.standings)}
    lent = [kind for kind in ("borrowed", "carried", "uncarried") if kind in rests]
    lent_text = "".join(f" {kind.capitalize()}, for one: {rests[kind]}." for kind in lent)
    ask = ""
    if board.question.scenario.task is None:
        ask = (
            " Text of another kind is accepted differently: say which yours is (--task, Kind of "
            "text)."
        )
    return f"Accepted lengths: {'; '.join(count_texts)}.{lent_text}{ask}"
