"""Tables of the main answer over accepted length, batch and K, which the browser looks up.

A case (which K is served, where it stops paying) is that of the nearest length; a number is
interpolated. Shares are whole per cent in a byte, losses tenths of a per cent in two.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.advice import Advice, side_of_range
from advisor.answers.best_k import IntArray, KRange, most_chance
from advisor.answers.by_batch import static_ranges
from advisor.answers.by_length import (
    SHORTEST,
    AtLength,
    ByBatch,
    at_length,
    by_batch,
    length_factor,
    length_now,
)
from advisor.answers.own_gap import own_drafts
from advisor.answers.summary import stated_k
from advisor.measured.published import runs_beside
from advisor.prediction import Array
from advisor.text import printable

LENGTH_STEP = 0.1
"""Accepted lengths of the table are this far apart. [tokens]"""


def answer_tables(advice: Advice, own: Sequence[tuple[int, int, int]] = ()) -> dict[str, Any]:
    """Tables over the accepted lengths of the slider, as plain values for JSON.

    own : `own_schedule` of the user's runs, which decides at today's length.
    """
    lengths = _lengths(advice)
    answers = [at_length(advice, length) for length in lengths]
    now = int(np.abs(np.array(lengths) - length_now(advice)).argmin())
    k = stated_k(advice)
    accepted = {
        "k": k,
        "now": length_now(advice),
        "lengths": [float(f"{length:.7g}") for length in lengths],
        "source": printable(advice.setup.acceptance.source),
    }
    odds = [answer.odds for answer in answers]
    chance = np.array([each.p_gain for each in odds])
    return {
        "accepted": accepted if k else None,
        "now_at": now,
        "factor": [_digits(length_factor(advice, length)) for length in lengths],
        "best": [_runs(answer.best) for answer in answers],
        "schedule": [_schedule_runs(answer.ranges) for answer in answers],
        "enough": [answer.enough.astype(int).tolist() for answer in answers],
        "own_served": _runs(own_drafts(advice, own)) if own else None,
        "best_share": _bytes(np.array([each.p_best for each in odds])),
        "chance": _bytes(np.minimum(chance, most_chance(advice.setup))),
        "loss": _two_bytes(np.array([each.loss for each in odds])),
        "ends": [_ends(answer) for answer in answers],
        "cost": [_costs(answer) for answer in answers],
        "sides": [_sides(answer) for answer in answers],
    }


def _lengths(advice: Advice) -> list[float]:
    """Accepted lengths of the table, today's among them. [tokens]"""
    k = stated_k(advice)
    now = length_now(advice)
    if k == 0:
        return [now]
    count = round((k + 1.0 - SHORTEST) / LENGTH_STEP) + 1
    return sorted({*np.linspace(SHORTEST, k + 1.0, count).tolist(), now})


def _digits(values: Array) -> list[float]:
    return [float(f"{value:.7g}") for value in values.tolist()]


def _runs(drafts: IntArray) -> list[list[int]]:
    """K at batches 1 to n as [last batch, K] of each run."""
    runs = []
    last = 0
    for k, group in groupby(drafts.tolist()):
        last += len(list(group))
        runs.append([last, k])
    return runs


def _schedule_runs(ranges: tuple[KRange, ...]) -> list[list[int]]:
    """K by batch as [last batch, K of one server, whether that is K by batch's own, above 0]."""
    return [
        [part.batch_end, part.k_running, int(part.n_draft > 0 and part.k_running == part.n_draft)]
        for part in ranges
    ]


def _ends(answer: AtLength) -> list[list[float | None]]:
    """Ends of the gain of K by batch, then of each K alone: [1 + nK]."""
    last = answer.ranges[-1].batch_end
    kinds = [answer.ranges]
    kinds += [static_ranges(answer.values, k, last) for k in answer.curve.drafts.tolist()]
    return [_end(by_batch(answer.advice, answer.curve, ranges)) for ranges in kinds]


def _end(places: ByBatch) -> list[float | None]:
    first = [places.pays_to, places.loses_from, places.drafts_from, places.drafts_to]
    return [*first, float(f"{places.peak:.5g}"), places.peak_batch]


def _costs(answer: AtLength) -> list[float] | None:
    """Speedup that each K throughout gives away against K by batch; None where that is one K."""
    if len({part.k_running for part in answer.ranges}) == 1:
        return None
    cost = 1.0 - np.array(answer.gain.static_speedup) / answer.gain.schedule_speedup
    return [float(f"{max(value, 0.0):.4g}") for value in cost.tolist()]


def _sides(answer: AtLength) -> list[int]:
    """Side of the 80% range on which each published run of this setup lies: -1, 0, 1."""
    scenario = answer.advice.scenario
    runs = runs_beside(scenario, answer.advice.setup.placement.gpus)
    return [side_of_range(answer.curve, run) for run in runs]


def _bytes(shares: Array) -> str:
    return base64.b64encode(np.round(100.0 * shares).astype(np.uint8).tobytes()).decode()


def _two_bytes(shares: Array) -> str:
    values: NDArray[np.uint16] = np.round(1000.0 * shares).astype("<u2")
    return base64.b64encode(values.tobytes()).decode()
