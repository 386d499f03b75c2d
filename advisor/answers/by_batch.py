"""K by batch of one scenario, at its own context and at others, and what that gains on a batch
histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.answers.best_k import (
    IntArray,
    KRange,
    interpolate_batches,
    interpolate_losses,
    k_at,
    k_running_at,
    last_batch,
    recommended_draft,
)
from advisor.answers.by_context import KByContext, curves_at, k_by_context
from advisor.answers.engines.config import Capture
from advisor.answers.engines.export import fixed_k_of
from advisor.answers.engines.graphs import ServedCurve, capture_of, largest_needed, with_largest
from advisor.answers.schedule import (
    KValues,
    ScheduleGain,
    WholeBatches,
    gain_over_doublings,
    one_k_is_enough,
    schedule_facts,
    schedule_gain,
    values_of,
    whole_batches,
)
from advisor.physics.notes import Kind, Note
from advisor.predict.curve import (
    SCHEDULE_BATCHES,
    Curve,
    batches_with,
    curve_for,
    graph_edges,
)
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError

MAX_HISTOGRAM_ROWS = 10_000
MAX_WEIGHT = 1e15
"""Nanoseconds of eleven days; sums of larger weights lose the small ones. [-]"""


@dataclass(frozen=True)
class BatchHistogram:
    """Share of plain decoding time that the server ran at each batch size, on any positive
    scale."""

    batches: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.batches) != len(self.weights) or not self.batches:
            raise AdvisorError(
                "the batch histogram needs as many weights as batch sizes, and at least one"
            )
        if len(self.batches) > MAX_HISTOGRAM_ROWS:
            raise AdvisorError(
                f"the batch histogram has {len(self.batches):,} rows; at most "
                f"{MAX_HISTOGRAM_ROWS:,}"
            )
        for batch, weight in zip(self.batches, self.weights, strict=True):
            if not 1 <= batch <= MAX_BATCH:
                raise AdvisorError(f"batch histogram: batch {batch} must lie in 1..{MAX_BATCH}")
            if not 0 <= weight <= MAX_WEIGHT:
                raise AdvisorError(
                    f"batch histogram: the weight {weight} of batch {batch} must be 0 or more, up "
                    f"to {MAX_WEIGHT:g}"
                )
        if sum(self.weights) <= 0:
            raise AdvisorError("batch histogram: at least one weight must be above 0")

    @classmethod
    def from_text(cls, text: str) -> BatchHistogram:
        """Histogram from `batch:weight,...`, e.g. `1:10,16:60,64:30`. Raises AdvisorError naming a
        wrong piece."""
        pairs = []
        for piece in text.split(","):
            try:
                batch, weight = piece.split(":")
                pairs.append((int(batch), float(weight)))
            except ValueError as error:
                raise AdvisorError(
                    f"batch histogram: {piece.strip()!r} is not batch:weight; give e.g. "
                    "1:10,16:60,64:30"
                ) from error
        return cls(tuple(batch for batch, _ in pairs), tuple(weight for _, weight in pairs))


@dataclass(frozen=True)
class ServeChoice:
    """Another configuration to serve than the answer's."""

    static_k: int | None = None
    """One K at every batch."""
    by_batch: bool = False
    """K by batch, whether or not one K is enough."""


@dataclass(frozen=True)
class RuntimeSchedule:
    """K by batch for one scenario, and what it gains on a batch histogram."""

    setup: Setup
    curve: Curve
    """At the scenario's own context."""
    values: KValues
    """What the schedule was decided on, at the scenario's own context."""
    ranges: tuple[KRange, ...]
    """At the scenario's own context."""
    gain: ScheduleGain | None
    """At the scenario's own context; None without a histogram."""
    others: Mapping[int, tuple[Setup, Curve]] | None = None
    """At the contexts that were asked for; None where none were."""
    choice: ServeChoice = ServeChoice()
    capture: Capture | None = None
    """CUDA graphs that `setup` has beyond those its release captures by itself."""

    @cached_property
    def at_contexts(self) -> KByContext:
        """Whether and where another context has another K: those asked for, else CONTEXTS."""
        at = self.others or curves_at(self.setup, self.curve)
        return k_by_context(self.setup.scenario.context_tokens, self.ranges, at)

    @cached_property
    def n_draft(self) -> int:
        """K recommended at the scenario's own batch. [-]"""
        row = int(np.searchsorted(self.curve.batches, self.setup.scenario.batch_size))
        return int(self.curve.drafts[recommended_draft(self.setup, self.curve, row)])

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of K by batch beside one K, at the scenario's own context."""
        scenario = self.setup.scenario
        return schedule_facts(
            self.ranges, self.values, scenario.batch_size, self.n_draft, scenario.max_tpot_ms
        ).facts

    @cached_property
    def fixed_k(self) -> Kind | None:
        """Kind of note on why the engine runs one K at every batch. None where it switches."""
        return fixed_k_of(self.setup)

    @cached_property
    def to_serve(self) -> tuple[KRange, ...]:
        """Ranges that an engine is given: `ranges_to_serve` at the scenario's own batch, or the
        user's choice."""
        if self.choice.static_k is not None:
            return static_ranges(self.values, self.choice.static_k, self.ranges[-1].batch_end)
        if self.choice.by_batch:
            return self.ranges
        batch_size = self.setup.scenario.batch_size
        switches = self.fixed_k is None
        return ranges_to_serve(self.ranges, self.values, batch_size, self.n_draft, switches)

    @property
    def drafts(self) -> bool:
        """Whether the engine drafts at some batch."""
        return any(part.k_running for part in self.to_serve)

    @property
    def served(self) -> ServedCurve:
        """The server that runs `to_serve`."""
        return ServedCurve(self.curve, self.to_serve)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Whether K by batch switches where the engine cannot."""
        switches = len({part.k_running for part in self.ranges}) > 1
        if self.fixed_k is None or not switches or self.choice != ServeChoice():
            return ()
        k = self.to_serve[0].k_running
        facts = {"method": self.setup.drafter.method, "k": k, "of_target": True}
        return (Note.of(self.fixed_k, **facts),) if k else ()


@lru_cache(maxsize=1024)
def _beyond_schedule(batch: float) -> tuple[int, ...]:
    """Doublings of the last of SCHEDULE_BATCHES up to the first that holds a batch. [-]"""
    last = SCHEDULE_BATCHES[-1]
    doublings = np.arange(1, np.ceil(np.log2(batch / last)) + 1)
    return tuple(np.minimum(last * 2.0**doublings, MAX_BATCH).astype(int).tolist())


def schedule_values(setup: Setup, curve: Curve) -> KValues:
    """Values of each K on the batches that decide every schedule, whatever others a curve shows."""
    end = float(curve.batches[-1])
    fixed = SCHEDULE_BATCHES[: int(np.searchsorted(SCHEDULE_BATCHES, end)) + 1]
    grid = np.unique([*fixed, *_beyond_schedule(end), *graph_edges(setup)])
    known = np.isin(curve.batches, grid)
    if np.count_nonzero(known) == len(grid):
        return values_of(curve.at(known))
    return values_of(curve_for(setup, grid, curve.drafts))


def table_of(setup: Setup, curve: Curve, values: KValues) -> WholeBatches:
    """Values of each K at every batch that fits in memory, under the scenario's limit.

    Of the whole curve where nothing fits: a schedule of what does not run is of use to nobody who
    could run something.
    """
    limit_ms = setup.scenario.max_tpot_ms
    limit_s = None if limit_ms is None else limit_ms / 1e3
    return whole_batches(values, last_batch(setup, curve), limit_s)


def ranges_of(setup: Setup, curve: Curve, values: KValues | None = None) -> tuple[KRange, ...]:
    """Ranges of K by batch of a curve: `k_by_batch` of `table_of`. Independent of the batch that is
    asked about.

    values : `schedule_values`, where they are at hand.
    """
    return table_of(setup, curve, values or schedule_values(setup, curve)).ranges


def schedule_for(
    scenario: Scenario | Setup,
    contexts: Sequence[int] = (),
    histogram: BatchHistogram | None = None,
    choice: ServeChoice = ServeChoice(),
) -> RuntimeSchedule:
    """The schedule of a scenario, other `contexts` and a `histogram`. Raises AdvisorError for an
    impossible one.

    Where a release is named, its graphs are those of the launch command: `_settled`.
    """
    last = None if histogram is None else max(histogram.batches)
    setup = scenario if isinstance(scenario, Setup) else load_setup(scenario)
    largest = setup.memory.largest_batch
    if last is not None and 0 < largest < last:
        raise AdvisorError(
            f"Batch {last:,} does not fit in memory; the largest that does is {largest:,}. Leave "
            "it out of the histogram, or make it fit: shorter context, more GPUs, smaller formats."
        )
    schedule = _settled(_decided(setup, last, choice), last)
    if contexts:
        others = curves_at(schedule.setup, schedule.curve, contexts)
        schedule = replace(schedule, others=others)
    if histogram is not None:
        values = values_of(schedule.curve)
        weights = histogram.weights
        gain = schedule_gain(schedule.ranges, values, histogram.batches, weights)
        schedule = replace(schedule, gain=gain)
    return schedule


def _decided(setup: Setup, last: int | None, choice: ServeChoice) -> RuntimeSchedule:
    """The schedule of a server, over batches up to `last` where that is beyond the usual."""
    targets = [setup.scenario.batch_size, *([] if last is None else [last])]
    grid = batches_with(*targets, *_beyond_schedule(max(targets)), *graph_edges(setup))
    curve = curve_for(setup, grid)
    values = schedule_values(setup, curve)
    return RuntimeSchedule(
        setup, curve, values, ranges_of(setup, curve, values), None, None, choice
    )


MOST_CAPTURES = 5
"""Servers that are priced in looking for the one whose K by batch needs the graphs it has: a choice
of this project. [-]"""


def _settled(own: RuntimeSchedule, last: int | None) -> RuntimeSchedule:
    """The schedule of the server that its launch command starts.

    The command asks for graphs that hold the rounds of K by batch; with them K by batch is another,
    and so on to a fixed point. Where nothing is drafted for want of graphs, that begins at a server
    with graphs for every K. Where it cycles, the fastest of the servers is taken: its command asks
    for the graphs that it was decided with all the same. `own` itself, of a server that captures
    what it does by itself, where more graphs gain less than MIN_GAIN.
    """
    graphs = own.setup.graphs
    if graphs is None or graphs.stated:
        return own
    groups = own.setup.placement.attention_groups
    captures: dict[int, Capture | None] = {}
    schedules: dict[int, RuntimeSchedule] = {}
    latest = own
    longest = static_ranges(own.values, int(own.values.drafts[-1]), own.ranges[-1].batch_end)
    wanted = own.to_serve if own.drafts else longest
    largest = largest_needed(graphs, wanted, groups)
    while largest is not None and largest not in schedules and len(schedules) < MOST_CAPTURES:
        server = replace(own.setup, graphs=with_largest(graphs, largest))
        latest = schedules[largest] = _decided(server, last, own.choice)
        captures[largest] = capture_of(graphs, groups, own.served, latest.served, largest)
        largest = largest_needed(graphs, latest.to_serve, groups)
    gains = {
        size: capture.gain
        for size, capture in captures.items()
        if capture is not None and schedules[size].drafts
    }
    if not gains:
        return own
    is_settled = latest is schedules.get(largest or 0)
    size = largest if is_settled and largest in gains else max(gains, key=gains.__getitem__)
    capture = captures[size]
    assert capture is not None
    return replace(schedules[size], capture=replace(capture, settled=is_settled))


def static_ranges(values: KValues, n_draft: int, last: int) -> tuple[KRange, ...]:
    """One range with the same K from batch 1 to `last`, for a static export.

    last : the batch at which the schedule ends, so that an engine admits as many requests either
        way. [-]

    Raises AdvisorError for a K that has no values.
    """
    return given_ranges(values, np.full(last, n_draft))


def given_ranges(values: KValues, drafts: IntArray) -> tuple[KRange, ...]:
    """Ranges of K that were given for batches 1 to n, [n]. Raises AdvisorError for a K that has no
    values."""
    if (unknown := drafts[~np.isin(drafts, values.drafts)]).size:
        most = int(values.drafts[-1])
        raise AdvisorError(
            f"static K={unknown[0]} must lie in 0..{most}; raise k_max for longer drafts"
        )
    at = np.arange(1, drafts.size + 1)
    column = at - 1, np.searchsorted(values.drafts, drafts)
    speedup = interpolate_batches(values.batches, values.speedup, at)[column]
    loss = interpolate_losses(values.batches, values.loss, at)[column]
    edges = [0, *(1 + np.flatnonzero(np.diff(drafts))).tolist(), drafts.size]
    return tuple(
        KRange(a + 1, b, int(drafts[a]), float(speedup[a:b].mean()), float(loss[a:b].max()))
        for a, b in pairwise(edges)
    )


def ranges_to_serve(
    ranges: tuple[KRange, ...],
    values: KValues,
    batch_size: int,
    n_draft: int,
    switches: bool = True,
) -> tuple[KRange, ...]:
    """Ranges that app, report and export give to an engine: one K where one is enough, else the
    schedule.

    The one K is that recommended at the target batch. Where that is none, the engine is started
    without a drafter: one that waits for other batches would slow it down. So too where one server
    for all batches runs another K there.

    ranges : the schedule. values : those that it was decided on. batch_size, n_draft : target batch
        and its K. [-] switches : whether the engine can run several K.
    """
    gain = gain_over_doublings(ranges, values)  # as the sentence has it
    enough = not switches or one_k_is_enough(ranges, gain, n_draft)
    if follows_schedule(ranges, batch_size, n_draft, enough):
        return ranges
    return static_ranges(values, n_draft, ranges[-1].batch_end)


def follows_schedule(
    ranges: tuple[KRange, ...], batch: ArrayLike, n_draft: ArrayLike, one_is_enough: ArrayLike
) -> NDArray[np.bool_]:
    """Whether the engine for a target batch is given the schedule rather than one K.

    batch, n_draft, one_is_enough : target batches, the K best at each alone and whether it is
        enough, arrays of one shape. [-]
    """
    scheduled = k_at(ranges, batch)
    runs_it = (scheduled > 0) & (k_running_at(ranges, batch) == scheduled)
    return np.asarray((np.asarray(n_draft) > 0) & runs_it & ~np.asarray(one_is_enough, bool))


def served_drafts(
    setup: Setup, batches: IntArray, best_alone: IntArray, values: KValues | None = None
) -> IntArray:
    """K that `advise` serves at each batch, [n].

    batches, best_alone : batches asked about, and the K that is best at each alone, [n]. [-]
    values : `schedule_values` up to the last of SCHEDULE_BATCHES, where they are at hand.

    Where a batch does not fit in memory nothing is served: its K stays the best one.
    """
    largest = setup.memory.largest_batch
    limit_ms = setup.scenario.max_tpot_ms
    limit_s = None if limit_ms is None else limit_ms / 1e3
    switches = fixed_k_of(setup) is None
    served = np.array(best_alone)
    # A schedule ends at the largest batch of its curve, which a larger target batch extends.
    ends = np.array([[SCHEDULE_BATCHES[-1], *_beyond_schedule(batch)][-1] for batch in batches])
    for end in np.unique(ends[batches <= largest]):
        here = (ends == end) & (batches <= largest)
        at_end = values
        if at_end is None or at_end.batches[-1] < end:
            grid = batches_with(*_beyond_schedule(end), *graph_edges(setup))
            at_end = schedule_values(setup, curve_for(setup, grid))
        table = whole_batches(at_end, min(largest, int(end)), limit_s)
        alone = best_alone[here]
        enough = {
            k: not switches or one_k_is_enough(table.ranges, table.gain, k)
            for k in set(alone.tolist())
        }
        follows = follows_schedule(
            table.ranges, batches[here], alone, [enough[k] for k in alone.tolist()]
        )
        served[here] = np.where(follows, k_running_at(table.ranges, batches[here]), alone)
    return served
