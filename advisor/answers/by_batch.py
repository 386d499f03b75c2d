"""K by batch of one scenario, at its own context and at others, and what that gains on a batch
histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    within_limit,
)
from advisor.answers.schedule import (
    SWITCH_COST,
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
from advisor.predict.curve import (
    SCHEDULE_BATCHES,
    Curve,
    Odds,
    batches_with,
    curve_for,
    draft_odds,
    excess_loss,
    graph_edges,
    recommended,
)
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH, MAX_CONTEXT
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array

MAX_HISTOGRAM_ROWS = 10_000
MAX_CONTEXT_BUCKETS = 16
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

    @property
    def to_serve(self) -> tuple[KRange, ...]:
        """Ranges that an engine is given, `ranges_to_serve` at the scenario's own batch."""
        return ranges_to_serve(
            self.ranges, self.values, self.setup.scenario.batch_size, self.n_draft
        )


def schedule_values(setup: Setup, curve: Curve, odds: Odds | None = None) -> KValues:
    """Values of each K on the batches that decide every schedule, whatever others a curve shows.

    odds : `draft_odds` of the curve among all K, where they are at hand.
    """
    end = float(curve.batches[-1])
    fixed = SCHEDULE_BATCHES[: int(np.searchsorted(SCHEDULE_BATCHES, end)) + 1]
    beyond = SCHEDULE_BATCHES[-1] * 2.0 ** np.arange(
        1, np.ceil(np.log2(end / SCHEDULE_BATCHES[-1])) + 1
    )
    grid = np.unique(np.minimum([*fixed, *beyond, *graph_edges(setup)], MAX_BATCH))
    known = np.isin(curve.batches, grid)
    if np.count_nonzero(known) == len(grid):
        return values_of(curve, known, odds)
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
    scenario: Scenario, contexts: Sequence[int] = (), histogram: BatchHistogram | None = None
) -> RuntimeSchedule:
    """The schedule of a scenario, other `contexts` and a `histogram`. Raises AdvisorError for an
    impossible one."""
    extra = [max(histogram.batches)] if histogram is not None else []
    setup = load_setup(scenario)
    grid = batches_with(scenario.batch_size, *extra, *graph_edges(setup))
    if extra and 0 < setup.memory.largest_batch < extra[0]:
        raise AdvisorError(
            f"Batch {extra[0]:,} does not fit in memory; the largest that does is "
            f"{setup.memory.largest_batch:,}. Leave it out of the histogram, or make it fit: "
            "shorter context, more GPUs, smaller formats."
        )
    curve = curve_for(setup, grid)
    values = schedule_values(setup, curve)
    ranges = ranges_of(setup, curve, values)
    others = curves_at(setup, curve, contexts) if contexts else None
    gain = None
    if histogram is not None:
        gain = schedule_gain(ranges, values_of(curve), histogram.batches, histogram.weights)
    return RuntimeSchedule(setup, curve, values, ranges, gain, others)


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
    ranges: tuple[KRange, ...], values: KValues, batch_size: int, n_draft: int
) -> tuple[KRange, ...]:
    """Ranges that app, report and export give to an engine: one K where one is enough, else the
    schedule.

    The one K is that recommended at the target batch. Where that is none, the engine is started
    without a drafter: one that waits for other batches would slow it down. So too where one server
    for all batches runs another K there.

    ranges : the schedule. values : those that it was decided on. batch_size, n_draft : target batch
        and its K. [-]
    """
    gain = gain_over_doublings(ranges, values)  # as the sentence has it
    enough = one_k_is_enough(ranges, gain, n_draft)
    return served_ranges(ranges, values, batch_size, n_draft, enough)


def served_ranges(
    ranges: tuple[KRange, ...], values: KValues, batch_size: int, n_draft: int, one_is_enough: bool
) -> tuple[KRange, ...]:
    """Ranges of `ranges_to_serve` where it is known whether one K is enough."""
    if follows_schedule(ranges, batch_size, n_draft, one_is_enough):
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


def contexts_from_text(text: str) -> tuple[int, ...]:
    """Context lengths from `1024,8192,32768`, sorted. Raises AdvisorError for anything but whole
    positive numbers."""
    try:
        contexts = sorted({int(piece) for piece in text.split(",")})
    except ValueError as error:
        raise AdvisorError(
            f"contexts {text!r} are not whole numbers; give e.g. 1024,8192,32768"
        ) from error
    if contexts[0] < 1 or contexts[-1] > MAX_CONTEXT:
        raise AdvisorError(
            f"contexts must lie in 1..{MAX_CONTEXT} tokens; got {contexts[0]} to {contexts[-1]}"
        )
    if len(contexts) > MAX_CONTEXT_BUCKETS:
        raise AdvisorError(
            f"{len(contexts)} contexts are too many; give at most {MAX_CONTEXT_BUCKETS}"
        )
    return tuple(contexts)


CONTEXTS = (512, 2048, 8192, 32768, 131072)
"""Choice of this project: contexts that are looked at, a factor of four apart. [tokens]"""
SHOWN_BATCHES = (1, 4, 16, 64, 256, 1024)
"""Choice of this project: batches that a table of K by batch and context shows, a factor of four
apart. [-]"""


@dataclass(frozen=True)
class KByContext:
    """The recommended K of each context and batch, beside the schedule at the scenario's own
    context."""

    own_context: int
    contexts: tuple[int, ...]
    """Increasing, the scenario's own among them. [tokens]"""
    batches: IntArray
    """[nB], increasing from 1."""
    k: IntArray
    """Recommended K, [nC, nB]; -1 where the batch does not fit in memory at that context."""
    own_k: IntArray
    """K of the schedule at the scenario's own context, [nB]."""
    loss: Array
    """What that schedule loses against the recommended K at each context, beyond the noise and
    beyond what it loses at its own, [nC, nB]; 0 where the batch fits at one of the two only. [-]"""
    misses: NDArray[np.bool_]
    """Where that schedule misses a limit on time per output token that another K keeps, and keeps
    it at its own context, [nC, nB]."""

    @property
    def matters(self) -> bool:
        """Whether the schedule loses more at some context than a switch of K has to save, or misses
        the limit."""
        return bool((self._cost > SWITCH_COST).any())

    @property
    def _cost(self) -> Array:
        """`loss`, infinite where the limit is missed."""
        return np.where(self.misses, np.inf, self.loss)

    @property
    def text(self) -> str:
        """Sentence on where context changes the answer, or that it does not."""
        others = [context for context in self.contexts if context != self.own_context]
        if not others:
            return ""
        if not self.matters:
            return (
                f"Context hardly changes the answer: from {self.contexts[0]:,} to "
                f"{self.contexts[-1]:,} tokens this schedule costs at most {self.loss.max():.1%} "
                "more than at its own, at any batch that fits."
            )
        cases = "; ".join(self._case_text(row, column) for row, column in self._worst)
        return f"Context changes the answer: {cases}."

    @property
    def _worst(self) -> list[tuple[int, int]]:
        """(context, batch) where the schedule loses most, of the two contexts at which it loses too
        much and most."""
        worst = self._cost.max(axis=1)
        rows = sorted(np.flatnonzero(worst > SWITCH_COST).tolist(), key=lambda row: -worst[row])[:2]
        return [(row, int(self._cost[row].argmax())) for row in sorted(rows)]

    def _case_text(self, row: int, column: int) -> str:
        effect = f"cost {self.loss[row, column]:.1%}"
        if self.misses[row, column]:
            effect = "miss the limit"
        return (
            f"with {self.contexts[row]:,} tokens at batch {self.batches[column]:,} K = "
            f"{self.k[row, column]}, where this schedule's {self.own_k[column]} would {effect}"
        )

    @property
    def shown(self) -> NDArray[np.int64]:
        """Places of the batches that a table has: SHOWN_BATCHES and those that `text` names."""
        worst_batches = [self.batches[column] for _, column in self._worst]
        return np.flatnonzero(np.isin(self.batches, [*SHOWN_BATCHES, *worst_batches]))


def context_values(result: KByContext) -> dict[str, object]:
    """Recommended K by context for JSON and reports, [nB] each. None where a batch does not fit."""
    return {
        "says": result.text,
        "matters": result.matters,
        "batches": result.batches.tolist(),
        "contexts": [
            {
                "context_tokens": context,
                "n_draft": [None if k < 0 else int(k) for k in result.k[row]],
                "schedule_loss": result.loss[row].tolist(),
            }
            for row, context in enumerate(result.contexts)
        ],
    }


def curves_at(
    setup: Setup, curve: Curve, contexts: Sequence[int] | None = None
) -> Mapping[int, tuple[Setup, Curve]]:
    """A scenario and its curve at each context, its own as given. Over the same batches.

    contexts : default CONTEXTS as far as the model goes, at least the scenario's prompt; its own
        joins them. [tokens]

    One curve for each context, over all batches, K and draws at once: as the scenario at that
    context has it.
    """
    scenario_context = setup.scenario.context_tokens
    max_tokens = setup.architecture.max_context_tokens or MAX_CONTEXT
    prompt_tokens = setup.scenario.input_tokens or 0
    reached = [context for context in CONTEXTS if prompt_tokens <= context <= max_tokens]
    all_contexts = sorted({*(reached if contexts is None else contexts), scenario_context})
    return {
        context: (setup, curve)
        if context == scenario_context
        else at_context(setup.scenario, context, curve.batches)
        for context in all_contexts
    }


def at_context(scenario: Scenario, context: int, batches: Array) -> tuple[Setup, Curve]:
    """A scenario at another context, and its curve over `batches` [nB]."""
    setup = load_setup(scenario.model_copy(update={"context_tokens": context}))
    return setup, curve_for(setup, batches)


def k_by_context(
    own_context: int, ranges: Sequence[KRange], at: Mapping[int, tuple[Setup, Curve]]
) -> KByContext:
    """The recommended K over batches and contexts, `ranges` at the scenario's own. `at`: of
    `curves_at`."""
    batches = at[own_context][1].batches
    own_k = np.asarray(k_at(ranges, batches))
    evaluated = [_judged(setup, curve, own_k) for setup, curve in at.values()]
    ks = np.array([k for k, _, _ in evaluated])
    losses = np.array([loss for _, loss, _ in evaluated])
    missed = np.array([misses for _, _, misses in evaluated])
    scenario_row = list(at).index(own_context)
    both_fit = (ks >= 0) & (ks[scenario_row] >= 0)
    beyond = np.where(both_fit, np.maximum(losses - losses[scenario_row], 0.0), 0.0)
    misses = both_fit & missed & ~missed[scenario_row]
    return KByContext(own_context, tuple(at), batches.astype(np.int64), ks, own_k, beyond, misses)


def _judged(
    setup: Setup, curve: Curve, own_k: IntArray
) -> tuple[IntArray, Array, NDArray[np.bool_]]:
    """(recommended K, -1 where a batch does not fit; loss of `own_k` beyond the noise; where it
    misses a limit that another K keeps), each [nB]."""
    within = within_limit(setup, curve)
    odds = draft_odds(curve.draws, within)
    best = recommended(odds.loss, odds.noise, within)
    rows = np.arange(curve.batches.size)
    column = np.searchsorted(curve.drafts, own_k)
    missed = within.any(axis=1) & ~within[rows, column]
    # there the loss is against all K, and its noise too: against those within it would be infinite
    if missed.any():
        within |= missed[:, None]
        odds = draft_odds(curve.draws, within)
    loss = excess_loss(odds.loss, odds.noise, within)[rows, column]
    fits = curve.batches <= last_batch(setup, curve)
    return np.where(fits, curve.drafts[best], -1), loss, missed


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
    served = np.array(best_alone)
    # A schedule ends at the largest batch of its curve, which a larger target batch extends.
    ends = np.maximum(batches, SCHEDULE_BATCHES[-1])
    for end in np.unique(ends[batches <= largest]):
        here = (ends == end) & (batches <= largest)
        at_end = values
        if at_end is None or at_end.batches[-1] < end:
            grid = batches_with(int(end), *graph_edges(setup))
            at_end = schedule_values(setup, curve_for(setup, grid))
        table = whole_batches(at_end, min(largest, int(end)), limit_s)
        alone = best_alone[here]
        enough = {k: one_k_is_enough(table.ranges, table.gain, k) for k in set(alone.tolist())}
        follows = follows_schedule(
            table.ranges, batches[here], alone, [enough[k] for k in alone.tolist()]
        )
        served[here] = np.where(follows, k_running_at(table.ranges, batches[here]), alone)
    return served
