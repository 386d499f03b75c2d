"""Context, money and energy: where speculation turns over batch and context, and what a token
costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.explore.cells import ContextMap
from advisor.catalog.hardware import drafter_name
from advisor.catalog.task_transfer import context_factors
from advisor.physics.hardware import Hardware
from advisor.predict.setup import Setup
from advisor.predict.spend import Arm, MeasuredPower, Spend, price_of, spend_at
from advisor.prediction import Prediction, Tier
from advisor.show.phrases.book import FORMS
from advisor.show.phrases.book import figure_band as figure
from advisor.show.table import Column, Table
from advisor.text import counted

_CELL = (
    *("fits", "n_draft", "speedup", "low", "high", "p_gain", "drafting_k", "drafting_speedup"),
    *("tpot_s", "attention_share", "verify_ratio", "draft_share", "tier"),
)
"""Figures of a cell in files."""
_MOVED = 0.01
"""Change from which on a ratio or share counts as moved. [-]"""
_EVEN = 0.02
"""Speedups closer than this to each other are called the same. [-]"""


@dataclass(frozen=True)
class Turn:
    """Crossing at one batch: the context from which drafting starts or stops being recommended."""

    batch: int
    before: int
    after: int
    """Rows of the map on both sides."""
    to_gain: bool


def turns(found: ContextMap) -> tuple[Turn, ...]:
    """Changes of the recommended K along context between 0 and more, at batches that fit on both
    sides.

    By the recommendation, the least expected loss, and not by the central speedup: the two differ
    near 1.
    """
    pays = found.n_draft > 0
    crossings = []
    for column, batch in enumerate(found.batches):
        for row in range(found.contexts.size - 1):
            to_gain = bool(pays[row + 1, column])
            fits = found.fits[row : row + 2, column].all()
            if pays[row, column] != to_gain and fits:
                crossings.append(Turn(int(batch), row, row + 1, to_gain))
    return tuple(crossings)


def verdict(found: ContextMap, context: int, batch: int) -> str:
    """Whether drafting pays at one context and batch of the map, against the shortest context."""
    row, column = found.at(context, batch)
    setup = found.setups[row]
    head = f"At {context:,} tokens of context and batch {batch:,} on {setup.place}"
    if not found.fits[row, column]:
        smaller = found.batches[found.fits[row]]
        instead = f" {verdict(found, context, int(smaller[-1]))}" if smaller.size else ""
        largest = int(found.largest_batch[row])
        edge = (
            f"the largest batch that does is {largest:,}."
            if largest
            else "not even one sequence does."
        )
        return f"{head}: it does not fit; {edge}{instead}"
    drafter = drafter_name(setup.drafter)
    k = int(found.drafting_k[row, column])
    speedup = float(found.drafting_speedup[row, column])
    gain = FORMS["chance"](found.p_gain[row, column])
    if k == 0:
        return (
            f"{head}: nothing is drafted; {found.tpot_s[row, column] * 1e3:.2f} ms per output "
            "token."
        )
    if found.n_draft[row, column] == 0:
        return (
            f"{head}, {drafter} does not pay: its best, K = {k}, gives {speedup:.2f}x, chance of a "
            f"gain {gain}.{_against(found, row, column)}"
        )
    band = f"{found.low[row, column]:.2f}-{found.high[row, column]:.2f}"
    return (
        f"{head}, {drafter} pays with K = {found.n_draft[row, column]}: "
        f"{found.speedup[row, column]:.2f}x ({band}), {found.tier[row, column]}; chance of a gain "
        f"{gain}.{_against(found, row, column)}"
    )


def _against(context_map: ContextMap, row: int, column: int) -> str:
    """What it is at the shortest context, where that is another."""
    if row == 0:
        return ""
    here = float(context_map.drafting_speedup[row, column])
    first = float(context_map.drafting_speedup[0, column])
    word = (
        "as at"
        if abs(here / first - 1.0) < _EVEN
        else "more than at"
        if here > first
        else "less than at"
    )
    return f" That is {word} {context_map.contexts[0]:,} tokens ({first:.2f}x)."


def turn_texts(found: ContextMap) -> tuple[str, ...]:
    """A sentence for each crossing, the context at which speculation turns and why. One where
    nothing turns."""
    if not found.drafting_k.any():
        return ("Nothing is drafted, so nothing turns.",)
    crossings = turns(found)
    if crossings:
        return tuple(_turn_text(found, turn) for turn in crossings)
    pays = found.n_draft[found.fits] > 0
    if not pays.size:
        return ("No batch of the map fits in memory.",)
    if pays.all():
        text = "Drafting is recommended at every context and batch shown that fits."
    elif not pays.any():
        text = "Drafting is recommended at no context and batch shown."
    else:
        text = (
            "Whether drafting is recommended depends on the batch here; at no batch does it turn "
            "with context."
        )
    return (text, *_trend(found))


def _turn_text(context_map: ContextMap, turn: Turn) -> str:
    column = int(np.flatnonzero(context_map.batches == turn.batch)[0])
    first = float(context_map.drafting_speedup[turn.before, column])
    then = float(context_map.drafting_speedup[turn.after, column])
    way = "from a loss to a gain" if turn.to_gain else "from a gain to a loss"
    # Two neighbours differ little: what moved is told from the shortest context on, where that goes
    # the same way.
    shortest = float(context_map.drafting_speedup[0, column])
    start = 0 if (then >= shortest) == turn.to_gain else turn.before
    return (
        f"At batch {turn.batch:,} speculation turns {way} between "
        f"{context_map.contexts[turn.before]:,} and {context_map.contexts[turn.after]:,} tokens "
        f"(the best draft gives {first:.2f}x, then {then:.2f}x): since "
        f"{context_map.contexts[start]:,} tokens, {_why(context_map, start, turn.after, column)}"
    )


def _trend(context_map: ContextMap) -> tuple[str, ...]:
    """What context does at the batch where it moves the speedup most."""
    best: tuple[float, int, int] | None = None
    for column in range(context_map.batches.size):
        last = (
            int(np.flatnonzero(context_map.fits[:, column])[-1])
            if context_map.fits[:, column].any()
            else 0
        )
        move = abs(
            float(
                np.log(
                    context_map.drafting_speedup[last, column]
                    / context_map.drafting_speedup[0, column]
                )
            )
        )
        if last > 0 and (best is None or move > best[0]):
            best = (move, last, column)
    if best is None or best[0] < _EVEN:
        return ()
    _, row, column = best
    first = float(context_map.drafting_speedup[0, column])
    then = float(context_map.drafting_speedup[row, column])
    word = "rises" if then > first else "falls"
    return (
        f"Context moves it most at batch {context_map.batches[column]:,}: it {word} from "
        f"{first:.2f}x at {context_map.contexts[0]:,} tokens to {then:.2f}x at "
        f"{context_map.contexts[row]:,}: {_why(context_map, 0, row, column)}",
    )


def _why(context_map: ContextMap, before: int, after: int, column: int) -> str:
    """What moved with the speedup between two contexts at one batch: verification, drafting, and
    attention behind."""
    attention = tuple(f"{context_map.attention_share[row, column]:.0%}" for row in (before, after))
    ratio = tuple(float(context_map.verify_ratio[row, column]) for row in (before, after))
    share = tuple(float(context_map.draft_share[row, column]) for row in (before, after))
    rises = (
        context_map.drafting_speedup[after, column] >= context_map.drafting_speedup[before, column]
    )
    reasons = []
    if abs(ratio[1] - ratio[0]) >= _MOVED and (ratio[1] < ratio[0]) == rises:
        # Where no layer's queries choose entries of their own.
        shared = all(mixer.kind != "sparse" for mixer in context_map.setups[0].architecture.mixers)
        once = (
            ", since the cache is read once for all tokens of a sequence"
            if rises and shared
            else ""
        )
        reasons.append(
            f"a verification takes {ratio[1]:.2f} baseline steps in place of {ratio[0]:.2f}{once}"
        )
    if abs(share[1] - share[0]) >= _MOVED and (share[1] < share[0]) == rises:
        cache_note = "" if rises else ", with a cache of its own to read"
        reasons.append(
            f"drafting takes {share[1]:.0%} of a round in place of {share[0]:.0%}{cache_note}"
        )
    grows = f"attention goes from {attention[0]} to {attention[1]} of a plain step"
    return f"{'; '.join((grows, *reasons))}."


def acceptance_texts(found: ContextMap) -> tuple[str, ...]:
    """Sentences on accepted length held over context. How far that was measured with this kind of
    drafter."""
    kind = found.setups[0].drafter.kind
    if kind == "none":
        return ()
    text = (
        "The accepted length is taken to be the same at every context (its band may be wider); "
        "give your own."
    )
    known = [
        f"{record.factor:.2f} of its drafted part at {record.context_tokens:,} tokens over "
        f"{record.shortest_tokens:,} ({record.task}; {record.title})"
        for record in context_factors(kind)
    ]
    if not known:
        return (f"{text} For this kind of drafter nothing was measured of it.",)
    return (f"{text} Measured for this kind of drafter, single heads: {'; '.join(known)}.",)


def map_table(found: ContextMap) -> Table[int]:
    """Speedup and K over context and batch, a dash where a batch does not fit."""
    cache = found.cache_bytes
    drafter = found.drafter_cache_bytes
    columns = [
        *_by_batch(found, lambda *cell: f"{found.speedup[cell]:.2f}x K={found.n_draft[cell]}"),
        Column[int]("largest batch", lambda row: found.largest_batch[row], "{:,}".format),
        Column[int]("cache/seq/GPU", lambda row: cache[row] / 1e6, "{:,.0f} MB".format),
    ]
    if drafter.any():
        columns.append(
            Column[int](
                "drafter's cache",
                lambda row: f"{drafter[row] / cache[row]:.0%}" if cache[row] else "",
            )
        )
    return Table(tuple(columns), range(len(found.contexts)))


def share_table(found: ContextMap) -> Table[int]:
    """Share of a plain step that attention takes, over context and batch."""
    columns = _by_batch(found, lambda *cell: f"{found.attention_share[cell]:.0%}")
    return Table(tuple(columns), range(len(found.contexts)))


def _by_batch(context_map: ContextMap, text: Callable[[int, int], str]) -> list[Column[int]]:
    """The context, then the text of a cell for each batch that fits."""

    def cell(row: int, *, column: int) -> str:
        return text(row, column) if context_map.fits[row, column] else "-"

    batches = (
        Column[int](f"batch {batch}", partial(cell, column=at))
        for at, batch in enumerate(context_map.batches)
    )
    return [Column[int]("context", lambda row: context_map.contexts[row], "{:,}".format), *batches]


def map_document(found: ContextMap) -> dict[str, Any]:
    """The map as JSON: a cell for each context and batch, with band, tier and whether it fits."""
    cells = [
        {
            "context_tokens": context,
            "batch_size": batch,
            **{name: getattr(found, name)[row, column] for name in _CELL},
        }
        for row, context in enumerate(found.contexts)
        for column, batch in enumerate(found.batches)
    ]
    return {
        "contexts": found.contexts,
        "batches": found.batches,
        "largest_batch": found.largest_batch,
        "cache_bytes_per_sequence_per_gpu": found.cache_bytes,
        "drafter_cache_bytes_per_sequence_per_gpu": found.drafter_cache_bytes,
        "turns": [vars(turn) for turn in turns(found)],
        "cells": cells,
    }


def spend_text(spend: Spend, hardware: Hardware) -> str:
    """Money and energy in one line, and what to give where one of them cannot be told."""
    return f"{_money(spend, hardware)} {_energy(spend, hardware)}"


def spend_of(
    advice: Advice, usd_per_hour: float | None = None, measured: MeasuredPower | None = None
) -> Spend | None:
    """Money and energy of a token at the recommended K. None where the batch does not fit.

    usd_per_hour : None: the accelerator's own price. measured : power of a run. None: the TDP.
    """
    curve = advice.curve
    setup = advice.setup
    price = price_of(setup.hardware, usd_per_hour)
    if does_not_fit(setup):
        return None
    column = curve.column(advice.recommendation.n_draft)
    return spend_at(setup, curve, advice.batch_index, column, price, measured)


def does_not_fit(setup: Setup) -> str:
    """Sentence on a batch that does not fit in memory, of which no spending is told. Empty where it
    fits."""
    batch = setup.scenario.batch_size
    largest = setup.memory.largest_batch
    if batch <= largest:
        return ""
    most = f"at most {counted(largest, 'sequence')} do" if largest else "not even one sequence does"
    return f"Cost and energy unknown: batch {batch:,} does not fit in memory, {most}."


def power_text(spend: Spend) -> str:
    """Sentence on where the power is from. Empty where none is known."""
    watts = spend.chosen.power_w
    plain = spend.plain.power_w
    if watts is None:
        return "" if plain is None else f"Power without speculation: {plain.because}."
    if plain is None or plain.tier is watts.tier:
        return f"Power: {watts.because}."
    return f"Power: {watts.because}. Without speculation: {plain.because}."


def _money(spend: Spend, hardware: Hardware) -> str:
    usd = spend.chosen.usd_per_million
    plain = spend.plain.usd_per_million
    if usd is None or plain is None or spend.price is None:
        return f"Cost unknown: no price for {hardware.name}; give --usd-per-hour."
    without = "" if spend.chosen is spend.plain else f", {figure(plain)} without speculation"
    return f"Cost {figure(usd)} USD per million output tokens{without}, at {spend.price.short}."


def _energy(spend: Spend, hardware: Hardware) -> str:
    joules = spend.chosen.joules_per_token
    watts = spend.chosen.power_w
    if joules is None or watts is None:
        return f"Energy unknown: no power for {hardware.name}; give a measured --power-log."
    ratio = (
        ""
        if spend.joules_ratio is None
        else f", {figure(spend.joules_ratio)} times plain decoding's"
    )
    energy_text = f"Energy {figure(joules)} J per output token{ratio}, {_at(spend.chosen, watts)}"
    plain = spend.plain.joules_per_token
    plain_w = spend.plain.power_w
    if plain is None or plain_w is None or plain_w.tier is watts.tier:
        return f"{energy_text}."
    return f"{energy_text}; {figure(plain)} without speculation, {_at(spend.plain, plain_w)}."


def _at(arm: Arm, watts: Prediction) -> str:
    """`at 598 W a GPU, measured, taken to have run with K = 3`."""
    measured = watts.tier is Tier.MEASURED
    how = (
        f"measured, taken to have run with K = {arm.n_draft}" if measured else "modeled (roofline)"
    )
    return f"at {watts.value:.0f} W a GPU, {how}"


def spend_document(spend: Spend) -> dict[str, Any]:
    """Both arms as JSON: each figure with band, tier and reason. Null where it is not known."""
    return {
        "price_usd_per_gpu_hour": None if spend.price is None else spend.price.usd_per_hour,
        "price_origin": None if spend.price is None else spend.price.origin,
        "plain": _arm(spend.plain),
        "recommended": _arm(spend.chosen),
        "joules_ratio": spend.joules_ratio,
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "n_draft": arm.n_draft,
        "tokens_per_s_per_gpu": arm.tokens_per_s_per_gpu,
        "usd_per_million_tokens": arm.usd_per_million,
        "power_w_per_gpu": arm.power_w,
        "joules_per_token": arm.joules_per_token,
        "share_of_time": {
            name: getattr(arm.regimes, name) for name in ("reading", "arithmetic", "waiting")
        },
    }
