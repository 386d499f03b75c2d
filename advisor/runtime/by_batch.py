"""K by batch of one curve: the schedule behind the verdict, the table, the report and the engine configuration."""

from __future__ import annotations

import numpy as np

from advisor.curve import Curve
from advisor.runtime.schedule import DEFAULT_MARGIN, KRange, k_at, k_by_batch
from advisor.setup import Setup


def ranges_of(
    setup: Setup, curve: Curve, margin: float = DEFAULT_MARGIN, beyond_memory: bool = False
) -> tuple[KRange, ...]:
    """K by batch of a curve, under the scenario's limit on time per output token, for the batches that fit in memory.

    The whole curve with `beyond_memory`, or where nothing fits: a schedule of what does not run is of use to nobody
    who could run something.
    """
    limit = setup.scenario.max_tpot_ms
    tpot, limit_s = (None, None) if limit is None else (curve.tpot_s, limit / 1e3)
    last = None if beyond_memory else last_batch(setup, curve)
    return k_by_batch(curve.batches, curve.drafts, curve.speedup, margin, tpot, limit_s, last)


def scheduled_draft(setup: Setup, curve: Curve, row: int) -> int:
    """Index of the K that the schedule runs at the curve's batch `row`, as if it fitted where it does not."""
    ranges = ranges_of(setup, curve)
    if curve.batches[row] > ranges[-1].batch_end:
        ranges = ranges_of(setup, curve, beyond_memory=True)
    return int(np.flatnonzero(curve.drafts == k_at(ranges, curve.batches[row]))[0])


def last_batch(setup: Setup, curve: Curve) -> int:
    """Largest batch of the curve that fits in memory; the curve's last where nothing fits. [1]"""
    end = int(curve.batches[-1])
    return min(setup.memory.largest_batch, end) or end
