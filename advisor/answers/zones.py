"""What decides the gain at each batch: few experts, new ones that drafts load, the sweet spot,
arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.answers.best_k import IntArray, last_batch
from advisor.answers.experts_loaded import Loading
from advisor.predict.curve import Curve
from advisor.predict.setup import Setup
from advisor.prediction import Array

_RISE = 1.03
"""Choice of this project: a dip is followed by a gain this many times its own, and counts as a fall
where the gain before it is. [-]"""
_TOP = 0.95
"""Choice of this project: a flat top holds while the gain is within 5 % of its highest. [-]"""
_HALF = 0.5


@dataclass(frozen=True)
class Zone:
    """Batches in which one cause decides."""

    kind: str
    """few: a step loads few of the experts, and a round shares its other costs. new: drafts load
    experts that the step would not. sweet: the step loads most of them anyway. arithmetic: drafts
    cost time of their own. free: a dense model whose step reads its weights."""
    last: int
    """Last batch; the first follows the zone before. [sequences]"""


def zones(setup: Setup, curve: Curve, loading: Loading, columns: IntArray) -> tuple[Zone, ...]:
    """Zones of a configuration, in the order of the batch up to the last that fits.

    columns : places along the drafts of the K that it runs at each batch of the curve, [nB].

    A batch between two of the curve belongs to the zone of the one above it.
    """
    end = last_batch(setup, curve)
    rows = np.flatnonzero(curve.batches <= end)
    batches = curve.batches[rows].astype(int)
    speedup = curve.speedup[rows, columns[rows]]
    if setup.architecture.moe is None:
        flat = _while_flat(speedup, int(speedup.argmax()))
        return _joined(batches, ["free"] * flat + ["arithmetic"] * (rows.size - flat), end)
    dip = _dip(speedup)
    start = 0 if dip is None else dip
    peak = start + int(speedup[start:].argmax())
    flat = _while_flat(speedup, peak)
    rising = start + int(np.argmax(speedup[start:] >= _TOP * speedup[peak]))
    few = 0 if dip is None else _before_fall(speedup, dip)
    below = "few" if dip is None else "new"
    kinds = ["few"] * few + [below] * (rising - few)
    is_half = loading.share[rows[rising:flat]] >= _HALF
    kinds += ["sweet" if half else below for half in is_half.tolist()]
    if not is_half[-1]:
        costs = curve.verify_step_s / curve.plain_step_s[:, None] - 1.0
        loads = (loading.expected - 1.0 >= _HALF * np.maximum(costs, 1e-9))[rows, columns[rows]]
        kinds += ["new"] * int(np.argmin(np.append(loads[flat:], False)))
    return _joined(batches, kinds + ["arithmetic"] * (rows.size - len(kinds)), end)


def _dip(speedup: Array) -> int | None:
    """Place of the lowest gain that a later one exceeds by `_RISE`. None without one."""
    later = np.maximum.accumulate(speedup[::-1])[::-1]
    places = np.flatnonzero(later >= _RISE * speedup)
    return int(places[speedup[places].argmin()]) if places.size else None


def _before_fall(speedup: Array, dip: int) -> int:
    """Places from the first on before a fall to a dip is half done. 0 where there is no fall."""
    crest = int(speedup[: dip + 1].argmax())
    if speedup[crest] < _RISE * speedup[dip]:
        return 0
    middle = (speedup[crest] + speedup[dip]) / 2.0
    return crest + int(np.argmax(speedup[crest : dip + 1] < middle))


def _while_flat(speedup: Array, peak: int) -> int:
    """Places up to the last after the peak that is within the flat top."""
    falling = np.append(speedup[peak:] < _TOP * speedup[peak], True)
    return peak + int(np.argmax(falling))


def _joined(batches: IntArray, kinds: list[str], end: int) -> tuple[Zone, ...]:
    """Neighbors of one kind as one zone, the last up to `end`."""
    lasts = [*batches[:-1].tolist(), end]
    places = [at for at in range(len(kinds)) if kinds[at : at + 2] != [kinds[at]] * 2]
    return tuple(Zone(kinds[at], int(lasts[at])) for at in places)


def zone_at(found: tuple[Zone, ...], batch: int) -> str:
    """Kind of the zone of a batch, beyond the last that of the last."""
    return next((zone.kind for zone in found if batch <= zone.last), found[-1].kind)
