"""Run-time control of K for one scenario: the schedule by batch and context, its gain, and costs for the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.curve import Curve, batches_with, curve_for
from advisor.prediction import AdvisorError
from advisor.runtime.by_batch import last_batch, ranges_of
from advisor.runtime.costs import RoundCosts, round_costs
from advisor.runtime.schedule import (
    DEFAULT_MARGIN,
    ContextSchedule,
    KRange,
    ScheduleGain,
    k_by_batch_and_context,
    schedule_gain,
)
from advisor.scenario import MAX_BATCH, MAX_CONTEXT, Scenario
from advisor.setup import Setup, load_setup

MAX_HISTOGRAM_ROWS = 10_000
MAX_CONTEXT_BUCKETS = 16


@dataclass(frozen=True)
class BatchHistogram:
    """How often the server ran at each batch size: share of plain decoding time, on any positive scale."""

    batches: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.batches) != len(self.weights) or not self.batches:
            raise AdvisorError("the batch histogram needs as many weights as batch sizes, and at least one")
        if len(self.batches) > MAX_HISTOGRAM_ROWS:
            raise AdvisorError(f"the batch histogram has {len(self.batches):,} rows; at most {MAX_HISTOGRAM_ROWS:,}")
        for batch, weight in zip(self.batches, self.weights, strict=True):
            if not 1 <= batch <= MAX_BATCH:
                raise AdvisorError(f"batch histogram: batch {batch} must lie in 1..{MAX_BATCH}")
            if not np.isfinite(weight) or weight < 0:
                raise AdvisorError(f"batch histogram: the weight {weight} of batch {batch} must be 0 or more")
        if sum(self.weights) <= 0:
            raise AdvisorError("batch histogram: at least one weight must be above 0")

    @classmethod
    def from_text(cls, text: str) -> BatchHistogram:
        """From `batch:weight,...`, e.g. `1:10,16:60,64:30`. Raises AdvisorError naming the piece that is wrong."""
        pairs = []
        for piece in text.split(","):
            batch, _, weight = piece.partition(":")
            try:
                pairs.append((int(batch), float(weight)))
            except ValueError as error:
                raise AdvisorError(
                    f"batch histogram: {piece.strip()!r} is not batch:weight; give e.g. 1:10,16:60,64:30"
                ) from error
        return cls(tuple(batch for batch, _ in pairs), tuple(weight for _, weight in pairs))


@dataclass(frozen=True)
class RuntimeSchedule:
    """K by batch for one scenario, by context where asked, and what it gains on a batch histogram."""

    scenario: Scenario
    curve: Curve
    """At the scenario's own context."""
    ranges: tuple[KRange, ...]
    """At the scenario's own context; what an engine is given."""
    by_context: tuple[ContextSchedule, ...]
    """Empty when no contexts were asked for."""
    gain: ScheduleGain | None
    """At the scenario's own context; None without a histogram."""


def schedule_for(
    scenario: Scenario,
    contexts: Sequence[int] = (),
    histogram: BatchHistogram | None = None,
    margin: float = DEFAULT_MARGIN,
) -> RuntimeSchedule:
    """The schedule of a scenario. Raises AdvisorError when it names something unknown or impossible.

    Parameters
    ----------
    contexts : context lengths to make buckets around, increasing; () for the scenario's own only. [tokens]
    histogram : batch sizes the server runs at; the grid is extended to reach them.
    margin : a K within this fraction of the best counts as equal. [1]
    """
    extra = [max(histogram.batches)] if histogram is not None else []
    grid = batches_with(scenario.batch_size, *extra)
    setup = load_setup(scenario)
    if histogram is not None:
        check_fits(histogram, setup)
    curve = curve_for(setup, grid)
    ranges = ranges_of(setup, curve, margin)
    by_context = _by_context(scenario, tuple(contexts), grid, margin) if len(contexts) else ()
    gain = gain_of(curve, ranges, histogram) if histogram is not None else None
    return RuntimeSchedule(scenario, curve, ranges, by_context, gain)


def check_fits(histogram: BatchHistogram, setup: Setup) -> None:
    """Raises AdvisorError when the histogram has a batch that memory cannot hold, though it could hold another."""
    largest, asked = setup.memory.largest_batch, max(histogram.batches)
    if 0 < largest < asked:
        raise AdvisorError(
            f"Batch {asked:,} does not fit in memory; the largest that does is {largest:,}. Leave it out of the "
            "histogram, or make it fit: shorter context, more GPUs, smaller formats."
        )


def gain_of(curve: Curve, ranges: Sequence[KRange], histogram: BatchHistogram) -> ScheduleGain:
    """What `ranges` gains over the best static K on a histogram whose batches the curve reaches."""
    return schedule_gain(ranges, curve.batches, curve.drafts, curve.speedup, histogram.batches, histogram.weights)


def static_ranges(curve: Curve, k_draft: int) -> tuple[KRange, ...]:
    """One range over all batches with the same K, for a static export. Raises AdvisorError for a K not in the curve."""
    found = np.flatnonzero(curve.drafts == k_draft)
    if not found.size:
        raise AdvisorError(f"static K={k_draft} must lie in 0..{int(curve.drafts[-1])}; raise k_max for longer drafts")
    whole = curve.speedup[:, int(found[0])]
    regret = 1.0 - whole / curve.speedup.max(axis=1)
    return (KRange(1, int(curve.batches[-1]), k_draft, float(whole.mean()), float(regret.max())),)


def costs_of(curve: Curve, keep_drafter_warm: bool = True) -> RoundCosts:
    """Costs of the simulator's rounds from a curve over K = 0..k_max and batches from 1.

    keep_drafter_warm : an iteration at K = 0 of a policy that may draft again still runs the drafter once, so that its
        cache stays valid. Kernels, launches and host time of K = 1 are charged: an upper bound, since the cache needs
        no LM head. False: the cache is rebuilt for free, a lower bound.

    Prefill is left out: the simulator's clock counts decode iterations only.
    """
    if curve.drafts[0] != 0 or np.any(np.diff(curve.drafts) != 1):
        raise AdvisorError("the simulator needs a curve over every K from 0 to k_max")
    warm = np.zeros(curve.batches.size)
    if keep_drafter_warm and curve.drafts.size > 1:
        warm = curve.round_components["draft"][:, 1] + curve.round_components["draft_host"][:, 1]
    return round_costs(curve.batches, curve.round_s, curve.accepted_length, warm)


def contexts_from_text(text: str) -> tuple[int, ...]:
    """Context lengths from `1024,8192,32768`, sorted. Raises AdvisorError for anything but whole positive numbers."""
    try:
        contexts = sorted({int(piece) for piece in text.split(",")})
    except ValueError as error:
        raise AdvisorError(f"contexts {text!r} are not whole numbers; give e.g. 1024,8192,32768") from error
    if contexts[0] < 1 or contexts[-1] > MAX_CONTEXT:
        raise AdvisorError(f"contexts must lie in 1..{MAX_CONTEXT} tokens; got {contexts[0]} to {contexts[-1]}")
    if len(contexts) > MAX_CONTEXT_BUCKETS:
        raise AdvisorError(f"{len(contexts)} contexts are too many; give at most {MAX_CONTEXT_BUCKETS}")
    return tuple(contexts)


def _by_context(
    scenario: Scenario, contexts: tuple[int, ...], grid: np.ndarray, margin: float
) -> tuple[ContextSchedule, ...]:
    setups = [load_setup(scenario.model_copy(update={"context_tokens": context})) for context in contexts]
    curves = [curve_for(setup, grid) for setup in setups]
    speedup = np.stack([curve.speedup for curve in curves])
    limit = scenario.max_tpot_ms
    return k_by_batch_and_context(
        curves[0].batches,
        curves[0].drafts,
        contexts,
        speedup,
        margin,
        None if limit is None else np.stack([curve.tpot_s for curve in curves]),
        None if limit is None else limit / 1e3,
        [last_batch(setup, curve) for setup, curve in zip(setups, curves, strict=True)],
    )
