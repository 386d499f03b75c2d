"""K by batch of one scenario: the schedule behind the verdict, the table, the report and the engine configuration.

The schedule of a curve, by context where asked; what it gains on the user's batch histogram; one K throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advisor.curve import Curve, batches_with, curve_for, draft_odds
from advisor.prediction import AdvisorError
from advisor.runtime.by_context import KByContext, at_context, curves_at, k_by_context
from advisor.runtime.gain import ScheduleGain, gain_over_doublings, one_k_is_enough, schedule_gain
from advisor.runtime.judge import last_batch, recommended_draft
from advisor.runtime.ranges import ContextSchedule, KRange, buckets_by_context, k_at, k_running_at
from advisor.runtime.schedule import k_by_batch, values_of
from advisor.runtime.words import schedule_texts
from advisor.scenario import MAX_BATCH, MAX_CONTEXT, Scenario
from advisor.setup import Setup, load_setup

MAX_HISTOGRAM_ROWS = 10_000
MAX_CONTEXT_BUCKETS = 16


MAX_WEIGHT = 1e15
"""Nanoseconds of eleven days; sums of larger weights lose the small ones. [-]"""


@dataclass(frozen=True)
class BatchHistogram:
    """Share of plain decoding time that the server ran at each batch size, on any positive scale."""

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
            if not 0 <= weight <= MAX_WEIGHT:
                raise AdvisorError(
                    f"batch histogram: the weight {weight} of batch {batch} must be 0 or more, up to {MAX_WEIGHT:g}"
                )
        if sum(self.weights) <= 0:
            raise AdvisorError("batch histogram: at least one weight must be above 0")

    @classmethod
    def from_text(cls, text: str) -> BatchHistogram:
        """Histogram from `batch:weight,...`, e.g. `1:10,16:60,64:30`.

        Raises AdvisorError naming the piece that is wrong.
        """
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

    setup: Setup
    curve: Curve
    """At the scenario's own context."""
    ranges: tuple[KRange, ...]
    """At the scenario's own context."""
    by_context: tuple[ContextSchedule, ...]
    """Empty when no contexts were asked for."""
    gain: ScheduleGain | None
    """At the scenario's own context; None without a histogram."""
    others: Mapping[int, tuple[Setup, Curve]] | None = None
    """At the contexts that were asked for; None where none were."""

    @cached_property
    def at_contexts(self) -> KByContext:
        """Whether and where another context has another K: those asked for, else `by_context.CONTEXTS`."""
        at = self.others or curves_at(self.setup, self.curve)
        return k_by_context(self.setup.scenario.context_tokens, self.ranges, at)

    @property
    def texts(self) -> tuple[str, ...]:
        """Sentences on the gain of the schedule over one K, at the scenario's own context."""
        return schedule_texts(self.ranges, self.curve, self.setup.scenario.batch_size)

    @property
    def to_serve(self) -> tuple[KRange, ...]:
        """Ranges that an engine is given, `ranges_to_serve` at the scenario's own batch."""
        return ranges_to_serve(self.ranges, self.curve, self.setup.scenario.batch_size)


def ranges_of(setup: Setup, curve: Curve) -> tuple[KRange, ...]:
    """Ranges of K by batch of a curve, for the batches that fit in memory.

    Under the scenario's limit on time per output token.

    At the scenario's own batch, where the curve has it, and at its neighbours that share it, the recommended K;
    elsewhere independent of that batch. The whole curve where nothing fits: a schedule of what does not run is of use
    to nobody who could run something.
    """
    limit_ms, batch = setup.scenario.max_tpot_ms, setup.scenario.batch_size
    rows = np.flatnonzero(curve.batches == batch)
    target = None
    if rows.size:
        target = (batch, int(curve.drafts[recommended_draft(setup, curve, int(rows[0]))]))
    limit_s = None if limit_ms is None else limit_ms / 1e3
    return k_by_batch(values_of(curve, without=batch), limit_s, last_batch(setup, curve), target)


def schedule_for(
    scenario: Scenario,
    contexts: Sequence[int] = (),
    histogram: BatchHistogram | None = None,
) -> RuntimeSchedule:
    """The schedule of a scenario. Raises AdvisorError when it names something unknown or impossible.

    Parameters
    ----------
    contexts : context lengths to make buckets around, increasing; () for the scenario's own only. [tokens]
    histogram : batch sizes the server runs at; the grid is extended to reach them.
    """
    extra = [max(histogram.batches)] if histogram is not None else []
    grid = batches_with(scenario.batch_size, *extra)
    setup = load_setup(scenario)
    if histogram is not None:
        check_fits(histogram, setup)
    curve = curve_for(setup, grid)
    ranges = ranges_of(setup, curve)
    others = curves_at(setup, curve, contexts) if contexts else None
    by_context = schedules_by_context(scenario, contexts, ranges, grid, others)
    gain = gain_of(curve, ranges, histogram) if histogram is not None else None
    return RuntimeSchedule(setup, curve, ranges, by_context, gain, others)


def schedules_by_context(
    scenario: Scenario,
    contexts: Sequence[int],
    own: tuple[KRange, ...],
    batches: np.ndarray,
    known: Mapping[int, tuple[Setup, Curve]] | None = None,
) -> tuple[ContextSchedule, ...]:
    """Schedules for buckets around context lengths. () for none.

    Parameters
    ----------
    contexts : increasing. [tokens]
    own : the schedule at the scenario's own context, taken over where that is one of `contexts`.
    batches : grid the speedups are computed on, [nB]. [-]
    known : what is loaded and computed already, by context.
    """
    found = []
    for context in contexts:
        if context == scenario.context_tokens:
            found.append(own)
            continue
        setup, curve = (known or {}).get(context) or at_context(scenario, context, batches)
        found.append(ranges_of(setup, curve))
    return buckets_by_context(contexts, found)


def check_fits(histogram: BatchHistogram, setup: Setup) -> None:
    """Check that memory can hold a histogram's batches.

    Raises AdvisorError when it cannot hold one, though it could hold another.
    """
    largest, asked = setup.memory.largest_batch, max(histogram.batches)
    if 0 < largest < asked:
        raise AdvisorError(
            f"Batch {asked:,} does not fit in memory; the largest that does is {largest:,}. Leave it out of the "
            "histogram, or make it fit: shorter context, more GPUs, smaller formats."
        )


def gain_of(curve: Curve, ranges: Sequence[KRange], histogram: BatchHistogram) -> ScheduleGain:
    """Gain of a schedule over the best static K on a histogram whose batches the curve reaches."""
    return schedule_gain(ranges, values_of(curve), histogram.batches, histogram.weights)


def static_ranges(curve: Curve, n_draft: int, last: int) -> tuple[KRange, ...]:
    """One range with the same K from batch 1 to `last`, for a static export.

    last : the batch at which the schedule ends, so that an engine admits as many requests either way. [-]

    Raises AdvisorError for a K not in the curve.
    """
    if n_draft not in curve.drafts:
        raise AdvisorError(f"static K={n_draft} must lie in 0..{int(curve.drafts[-1])}; raise k_max for longer drafts")
    column, within = curve.column(n_draft), curve.batches <= last
    regret = float(draft_odds(curve.draws).loss[within, column].max())
    return (KRange(1, last, n_draft, float(curve.speedup[within, column].mean()), regret),)


def ranges_to_serve(ranges: tuple[KRange, ...], curve: Curve, batch_size: int) -> tuple[KRange, ...]:
    """Ranges that an engine is given, by app, report and export alike.

    One K where one is enough, else the schedule.

    The one K is that of the target batch, so whatever is pasted runs the recommended K there. Where that is none, the
    engine is started without a drafter: one that waits for other batches would slow it down.

    ranges : the schedule. batch_size : the target batch. [-]
    """
    n_draft = int(k_at(ranges, batch_size))
    gain = gain_over_doublings(ranges, values_of(curve, without=batch_size))  # as the sentence has it
    runs_it = int(k_running_at(ranges, batch_size)) == n_draft
    if n_draft and runs_it and not one_k_is_enough(ranges, gain, n_draft):
        return ranges
    return static_ranges(curve, n_draft, ranges[-1].batch_end)


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
