"""Designs against batch: speedup, time per output token and gain over the baseline, with bands from shared draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor import bands
from advisor.arrays import Array
from advisor.design.candidates import DrawnDesigns, drawn_at, setup_of, shape_errors
from advisor.design.grid import Mixes
from advisor.design.space import DesignSpace
from advisor.design.sweeps import SWEEP_BATCHES, serve

BASELINE = "baseline"


@dataclass(frozen=True)
class Line:
    """One quantity over batches [nB], with its 80 % band."""

    value: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, value: Array, draws: Array) -> Line:
        """The band of `draws` [draws, nB] around central values, which it always holds."""
        low, high = bands.band(draws)
        return cls(value, np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True)
class DesignCurve:
    """One design over batches, at the K of highest central speedup at each, as the search runs it."""

    name: str
    """Title of the design: `baseline`, `recommended`, or the words it was asked for by."""
    index: int
    """Into the space; -1 for the baseline."""
    words: str
    batches: Array
    n_draft: NDArray[np.int16]
    speedup: Line
    """Over its own plain decoding. [-]"""
    tpot_s: Line
    """Time per output token. [s]"""
    gain: Line
    """The baseline's time per output token over its own: above 1 it is faster. [-]"""
    largest_batch: int
    """The largest batch that fits in memory. [-]"""


def design_curves(
    space: DesignSpace, designs: Mapping[str, int], batches: tuple[int, ...] = SWEEP_BATCHES
) -> tuple[DesignCurve, ...]:
    """The baseline, then the designs asked for: {name: index into the space}. The question's batches are added."""
    at = np.unique([*map(float, batches), *space.question.batches])
    own = space.baseline
    body = space.bodies[0]
    mix = Mixes(*(np.array([count]) for count in own.counts))
    found = serve(space, body, mix, np.array([float(own.expert_width)]), at)
    speedup, tpot, k = found.speedup[:, 0], found.tpot_s[:, 0], found.n_draft[:, 0]
    base = drawn_at(body.setup, at, k)
    ones = np.ones_like(at)
    first = DesignCurve(
        name=BASELINE,
        index=-1,
        words=own.words,
        batches=at,
        n_draft=k,
        speedup=Line.of(speedup, base.speedup),
        tpot_s=Line.of(tpot, base.tpot_s),
        gain=Line(ones, ones, ones),
        largest_batch=space.setup.memory.largest_batch,
    )
    return (first, *(_curve(space, name, index, at, first, base) for name, index in designs.items()))


def _curve(
    space: DesignSpace, name: str, index: int, batches: Array, baseline: DesignCurve, base: DrawnDesigns
) -> DesignCurve:
    body = space.bodies[space.body[index]]
    found = serve(space, body, space.mix([index]), space.expert_width[[index]].astype(float), batches)
    speedup, tpot, k = found.speedup[:, 0], found.tpot_s[:, 0], found.n_draft[:, 0]
    drawn = drawn_at(setup_of(space, index), batches, k)
    errors = shape_errors(space, index, len(drawn.speedup))[:, None]
    return DesignCurve(
        name=name,
        index=index,
        words=space.describe(index),
        batches=batches,
        n_draft=k,
        speedup=Line.of(speedup, drawn.speedup),
        tpot_s=Line.of(tpot, drawn.tpot_s / errors),
        gain=Line.of(baseline.tpot_s.value / tpot, base.tpot_s / drawn.tpot_s * errors),
        largest_batch=int(space.largest_batch[index]),
    )
