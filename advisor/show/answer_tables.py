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
from advisor.answers.best_k import IntArray, KRange, k_running_at
from advisor.answers.by_length import (
    AtLength,
    ByBatch,
    at_length,
    by_batch_each,
    length_factor,
    length_now,
    lengths_of,
    served_columns,
)
from advisor.answers.experts_loaded import Loading
from advisor.answers.own_gap import own_drafts
from advisor.answers.summary import stated_k
from advisor.answers.zones import zones
from advisor.measured.published import runs_beside
from advisor.prediction import Array
from advisor.text import printable


def answer_tables(
    advice: Advice, loading: Loading, own: Sequence[tuple[int, int, int]] = ()
) -> dict[str, Any]:
    """Tables over the accepted lengths of the slider, as plain values for JSON.

    own : `own_schedule` of the user's runs, which decides at today's length.
    """
    lengths = lengths_of(advice)
    now = int(np.abs(np.array(lengths) - length_now(advice)).argmin())
    k = stated_k(advice)
    accepted = {
        "k": k,
        "now": length_now(advice),
        "lengths": [float(f"{length:.7g}") for length in lengths],
        "source": printable(advice.setup.acceptance.source),
    }
    rows = [_at(at_length(advice, length), loading) for length in lengths]
    advice.at_lengths.clear()  # a session keeps its answer, and these are large
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    factors = [_digits(length_factor(advice, length)) for length in lengths]
    return {
        "accepted": accepted if k else None,
        "now_at": now,
        "factor": factors,
        "own_served": last_and_k(own_drafts(advice, own)) if own else None,
        **columns,
        "k_zones": _k_zones(advice, loading),
        "best_share": _bytes(np.array(columns["best_share"])),
        "chance": _bytes(np.array(columns["chance"])),
        "loss": _two_bytes(np.array(columns["loss"])),
    }


def _at(answer: AtLength, loading: Loading) -> dict[str, Any]:
    """What the tables have at one accepted length."""
    cases = {
        "best": last_and_k(answer.table.best),
        "schedule": _schedule_runs(answer.table.ranges),
        "enough": answer.enough.astype(int).tolist(),
        "zones": _zones(answer, loading),
    }
    return cases | {
        "best_share": answer.best_share,
        "chance": answer.curve.p_gain,
        "loss": answer.odds.loss,
        "ends": _ends(answer),
        "cost": _costs(answer),
        "sides": _sides(answer),
    }


def _zones(answer: AtLength, loading: Loading) -> list[list[Any]]:
    """Zones of K by batch as [kind, last batch]."""
    served = served_columns(answer.curve, answer.table.ranges, answer.advice.curve_k)
    by_batch = zones(answer.advice.setup, answer.curve, loading, served)
    return [[zone.kind, zone.last] for zone in by_batch]


def _k_zones(advice: Advice, loading: Loading) -> list[list[list[Any]]]:
    """Zones of each K at every batch, which no accepted length moves."""
    by_k = []
    for column in range(advice.curve.drafts.size):
        throughout = np.full(advice.curve.batches.size, column)
        by_batch = zones(advice.setup, advice.curve, loading, throughout)
        by_k.append([[zone.kind, zone.last] for zone in by_batch])
    return by_k


def _digits(values: Array) -> list[float]:
    return [float(f"{value:.7g}") for value in values.tolist()]


def last_and_k(drafts: IntArray) -> list[list[int]]:
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
    batches = np.arange(1, answer.table.ranges[-1].batch_end + 1)
    by_k = np.broadcast_to(answer.curve.drafts, (batches.size, answer.curve.drafts.size))
    served = np.column_stack([k_running_at(answer.table.ranges, batches), by_k])
    return [_end(places) for places in by_batch_each(answer.advice, answer.curve, served)]


def _end(places: ByBatch) -> list[float | None]:
    first = [places.pays_to, places.loses_from, places.drafts_from, places.drafts_to]
    return [*first, float(f"{places.peak:.5g}"), places.peak_batch]


def _costs(answer: AtLength) -> list[float] | None:
    """Speedup that each K throughout gives away against K by batch; None where that is one K."""
    if len({part.k_running for part in answer.table.ranges}) == 1:
        return None
    cost = 1.0 - np.array(answer.table.gain.static_speedup) / answer.table.gain.schedule_speedup
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
