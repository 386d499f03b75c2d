"""The recommended K at one batch, what other K lose, batches to avoid, and where speculation stops
paying.

Below them what they weigh: the cost of an iteration by batch and K, and ranges of batches that run
one K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.catalog.engines import engine_ids, load_engine
from advisor.physics.acceptance import speedup
from advisor.physics.bands import PER_K_LOG_SD
from advisor.physics.notes import Note
from advisor.predict.curve import (
    Curve,
    Odds,
    curve_for,
    draft_odds,
    excess_loss,
    recommended,
    share_fastest,
)
from advisor.predict.load import load_setup
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array, Tier

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RoundCosts:
    """Cost and benefit of one speculative round on a grid of batch sizes (B) and draft lengths (K).

    batches [nB] increasing, from 1. drafts [nK] = 0..k_max. round_time_s [nB, nK]: a whole round,
    drafting included; column 0 is a plain decode step. accepted_length [nK]: tokens emitted per
    round and sequence, 1 at K = 0. draft_warm_s [nB]: extra time of a K = 0 iteration that still
    runs the drafter once, so that its cache stays valid (0 for n-gram and suffix drafters).
    """

    batches: Array
    drafts: IntArray
    round_time_s: Array
    accepted_length: Array
    draft_warm_s: Array

    @property
    def k_max(self) -> int:
        """Longest draft in the grid. [-]"""
        return int(self.drafts[-1])

    def dense(self, max_batch: int) -> tuple[Array, Array]:
        """Round [.., nK] and kept drafter at whole batches 0..max_batch. Row 0 is zero. [s]"""
        between = BetweenBatches.of(self.batches, np.arange(1, max_batch + 1))
        round_s = between.positive(self.round_time_s)
        warm_s = between.linear(self.draft_warm_s[:, None])
        round_s = np.concatenate([np.zeros_like(round_s[:1]), round_s])
        warm_s = np.concatenate([np.zeros_like(warm_s[:1]), warm_s])
        return round_s, warm_s[:, 0]


def round_costs(
    batches: ArrayLike,
    round_time_s: ArrayLike,
    accepted_length: ArrayLike,
    draft_warm_s: ArrayLike = 0.0,
) -> RoundCosts:
    """Costs of rounds (`RoundCosts`) from arrays over batch and K. draft_warm_s may be one
    number."""
    grid = np.asarray(batches, dtype=float)
    time = np.asarray(round_time_s, dtype=float)
    warm = np.broadcast_to(draft_warm_s, grid.shape)
    return RoundCosts(
        grid, np.arange(time.shape[1]), time, np.asarray(accepted_length, dtype=float), warm
    )


def costs_of(curve: Curve, keep_drafter_warm: bool = True) -> RoundCosts:
    """Costs of the simulator's rounds from a curve over K = 0..k_max and batches from 1.
    Raises AdvisorError for a curve that leaves a K out.
    keep_drafter_warm : an iteration at K = 0 of a policy that may draft again pays
        `kept_drafter_s`, an upper bound. False: the cache is rebuilt for free, a lower bound.

    Prefill is left out: the simulator's clock counts decode iterations only.
    """
    if curve.drafts[0] != 0 or np.any(np.diff(curve.drafts) != 1):
        raise AdvisorError("the simulator needs a curve over every K from 0 to k_max")
    warm = kept_drafter_s(curve) if keep_drafter_warm else np.zeros(curve.batches.size)
    return round_costs(curve.batches, curve.round_s, curve.accepted_length, warm)


def kept_drafter_s(curve: Curve) -> Array:
    """Time that a round of K = 0 takes longer where the drafter's cache has to stay valid, [nB].
    [s]

    One pass of the drafter, from a curve with K = 1: kernels, launches and host time. An upper
    bound, since the cache needs no LM head. 0 for drafters that run no model.
    """
    if curve.drafts.size == 1:
        return np.zeros(curve.batches.size)
    column = curve.column(1)
    return np.asarray(
        curve.round_components["draft"][:, column] + curve.round_components["draft_host"][:, column]
    )


def idle_speedup(curve: Curve) -> Array:
    """Speedup of K = 0 in a table of several K, [nB], below 1: the drafter runs once a step. [-]"""
    plain = curve.plain_step_s
    return speedup(1.0, plain, plain + kept_drafter_s(curve), curve.prefill_s)


@dataclass(frozen=True)
class BetweenBatches:
    """Places of batch sizes between those of a grid, straight in the log of the batch."""

    low: IntArray
    """Place of the batch of the grid below, [*at]."""
    share: Array
    """How far the batch lies to the next, [*at, 1]. [-]"""

    @classmethod
    def of(cls, batches: ArrayLike, at: ArrayLike) -> BetweenBatches:
        """Batch sizes `at` on a grid. Raises AdvisorError for one outside it."""
        grid = np.asarray(batches, dtype=float)
        requested = np.asarray(at, dtype=float)
        if requested.size and (requested.min() < grid[0] or requested.max() > grid[-1]):
            raise AdvisorError(
                f"batch {requested.min():g}..{requested.max():g} lies outside the costs' batches "
                f"{grid[0]:g}..{grid[-1]:g}; compute the costs over a wider range"
            )
        if grid.size == 1:
            return cls(np.zeros(requested.shape, int), np.zeros((*requested.shape, 1)))
        position = np.interp(np.log(requested), np.log(grid), np.arange(grid.size))
        low = np.minimum(position.astype(int), grid.size - 2)
        return cls(low, (position - low)[..., None])

    def linear(self, values: ArrayLike) -> Array:
        """Values [nB, n] of the grid at these batches, [*at, n], linear in log batch."""
        grid_values = np.asarray(values, dtype=float)
        next_up = np.minimum(self.low + 1, len(grid_values) - 1)
        return np.asarray(
            (1 - self.share) * grid_values[self.low] + self.share * grid_values[next_up]
        )

    def positive(self, values: ArrayLike) -> Array:
        """Positive values of the grid at these batches, log value linear in log batch."""
        return np.exp(self.linear(np.log(np.asarray(values, dtype=float))))


def interpolate_batches(batches: ArrayLike, values: ArrayLike, at: ArrayLike) -> Array:
    """Positive values [nB, n] given at `batches`, at other batch sizes: log value linear in log
    batch."""
    return BetweenBatches.of(batches, at).positive(values)


def interpolate_losses(batches: ArrayLike, losses: ArrayLike, at: ArrayLike) -> Array:
    """Losses [nB, n] given at `batches`, at other batch sizes: linear in log batch."""
    return BetweenBatches.of(batches, at).linear(losses)


@dataclass(frozen=True)
class KRange:
    """One range of the schedule: batch sizes batch_start..batch_end, both included, run n_draft
    drafts.

    speedup is the mean over the range's batch sizes, regret the largest expected loss within the
    range; K = 0 is a server without speculation. meets_limit is False where no K satisfies the
    limit on time per output token.
    """

    batch_start: int
    batch_end: int
    n_draft: int
    speedup: float
    regret: float = 0.0
    meets_limit: bool = True
    table_k: int | None = None
    """K of one server that drafts at other batches, where that differs; see `k_running`."""

    @property
    def k_running(self) -> int:
        """K that one server for all batches runs: what an engine's table holds and a simulation
        serves."""
        return self.n_draft if self.table_k is None else self.table_k


def range_values(item: KRange) -> dict[str, int | float | bool]:
    """A range as JSON and reports carry it. `k_running` is the K of one server for all batches."""
    names = ("batch_start", "batch_end", "n_draft", "k_running", "speedup", "regret", "meets_limit")
    return {name: getattr(item, name) for name in names}


def k_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """The scheduled K at each batch size (beyond the last range: the last range's K, as vLLM
    does)."""
    return _looked_up(ranges, [item.n_draft for item in ranges], batch)


def k_running_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """K that one server for all batches runs at each batch size, see `KRange.k_running`."""
    return _looked_up(ranges, [item.k_running for item in ranges], batch)


def _looked_up(ranges: Sequence[KRange], ks: Sequence[int], batch: ArrayLike) -> NDArray[np.int64]:
    starts = np.array([item.batch_start for item in ranges])
    index = np.searchsorted(starts, np.asarray(batch), side="right") - 1
    # Beyond the last range its K stays, as vLLM reads its own table.
    return np.array(ks, dtype=np.int64)[np.clip(index, 0, None)]


@dataclass(frozen=True)
class DraftRow:
    """One draft length at the target batch: what it gives, and its odds. The evidence of a
    recommendation."""

    n_draft: int
    speedup: float
    speedup_low: float
    speedup_high: float
    tpot_s: float
    tokens_per_s_per_gpu: float
    p_best: float
    """Share of draws in which it is the fastest. [-]"""
    p_gain: float
    """Chance that it is faster than plain decoding; 0 for plain decoding itself. [-]"""
    expected_loss: float
    """Share of the speedup it gives up against each draw's fastest K, mean over the draws. [-]"""
    as_good: bool
    """Whether the noise of the draws does not tell its loss from the least one."""
    meets_limit: bool
    """Whether it keeps the limit on time per output token, where there is one."""
    recommended: bool


MAY_LOSE = 0.795
"""Choice of this project: a chance of a gain that is printed below 80 %, in whole per cent, is said
to be one of a loss too. [-]"""


def draft_rows(setup: Setup, curve: Curve, row: int) -> tuple[DraftRow, ...]:
    """Every K at the curve's batch `row`, exactly one of them recommended.

    That is the smallest K that the noise does not tell from the least expected loss, among those
    that keep the scenario's limit on time per output token; among all where none does.
    """
    within = within_limit(setup, curve)[row]
    odds = draft_odds(curve.draws[:, row], within)
    p_best = share_fastest(curve.draws[:, row])
    equal = excess_loss(odds.loss, odds.noise, within) == 0.0
    chosen = int(recommended(odds.loss, odds.noise, within))
    return tuple(
        DraftRow(
            n_draft=int(k),
            speedup=float(curve.speedup[row, i]),
            speedup_low=float(curve.low[row, i]),
            speedup_high=float(curve.high[row, i]),
            tpot_s=float(curve.tpot_s[row, i]),
            tokens_per_s_per_gpu=float(curve.tokens_per_s_per_gpu[row, i]),
            p_best=float(p_best[i]),
            p_gain=float(curve.p_gain[row, i]),
            expected_loss=float(odds.loss[i]),
            as_good=bool(equal[i]),
            meets_limit=bool(within[i]),
            recommended=i == chosen,
        )
        for i, k in enumerate(curve.drafts)
    )


def recommended_drafts(setup: Setup, curve: Curve) -> tuple[NDArray[np.int64], Odds]:
    """Index along the drafts of the K that `draft_rows` recommends, [nB], and the odds behind
    it."""
    within = within_limit(setup, curve)
    odds = draft_odds(curve.draws, within)
    return recommended(odds.loss, odds.noise, within), odds


def recommended_draft(setup: Setup, curve: Curve, row: int) -> int:
    """Index, along the curve's drafts, of the K recommended at its batch `row`. The rule of
    `draft_rows`."""
    return int(recommended_drafts(setup, curve.at(slice(row, row + 1)))[0][0])


def meets_limit(setup: Setup, curve: Curve, row: int) -> bool:
    """Whether some K keeps the scenario's limit on time per output token at the curve's batch
    `row`."""
    return bool(within_limit(setup, curve)[row].any())


def within_limit(setup: Setup, curve: Curve) -> NDArray[np.bool_]:
    """Mask of K that keep the scenario's limit on time per output token, [nB, nK]. All where there
    is none."""
    limit_ms = setup.scenario.max_tpot_ms
    if limit_ms is None:
        return np.ones(curve.tpot_s.shape, bool)
    return np.asarray(curve.tpot_s * 1e3 <= limit_ms)


def last_batch(setup: Setup, curve: Curve) -> int:
    """Largest batch of the curve that fits in memory. The curve's last where nothing fits. [-]"""
    end = int(curve.batches[-1])
    return min(setup.memory.largest_batch, end) or end


LEAST_DEPTH = 3.0 * PER_K_LOG_SD
"""How deep a dip is at least on both sides, in log speedup: three times what neighbouring token
counts scatter. [-]"""


@dataclass(frozen=True)
class Cliff:
    """Range of batches in which speculation gains less than on both sides. First to last of the
    curve's grid."""

    n_draft: int
    first: int
    last: int
    before_s: float
    """Verify step at the batch before it. [s]"""
    after_s: float
    """Verify step at the first batch of the grid inside. [s]"""
    before: float
    """Speedup at the batch before it. [-]"""
    least: float
    """Least speedup inside. [-]"""
    later: float
    """Highest speedup beyond. [-]"""

    @property
    def note(self) -> Note:
        """The range and why."""
        return Note.of(
            "kernel_cliff",
            k=self.n_draft,
            first=self.first,
            last=self.last,
            switches_above=self.first - 1,
            before_ms=self.before_s * 1e3,
            after_ms=self.after_s * 1e3,
            before=self.before,
            least=self.least,
            later=self.later,
        )


def kernel_cliffs(curve: Curve, column: int) -> tuple[Cliff, ...]:
    """Ranges of batches that the K in `column` does better to avoid, in order of batch.

    A verify step that grows by more than its batch is a kernel switch: the same tokens in two
    smaller steps would be faster, so no growth of work explains it. Where the speedup falls there,
    and later rises again by LEAST_DEPTH, the range reaches to the last batch of the grid that is
    nearer to the bottom than to the lower edge. Steps from data sheets have no kernels to switch.
    """
    batches = np.log(curve.batches)
    gain = np.log(curve.speedup[:, column])
    # Rows of captured graphs grow by steps, and leaving all graphs is no kernel's doing:
    # `graph_notes` has it.
    left = np.zeros(len(batches), bool) if curve.eager is None else curve.eager[:, column]
    rows = batches if curve.padding is None else batches + np.log(curve.padding[:, column])
    grows = np.diff(np.log(curve.verify_step_s[:, column])) / np.maximum(
        np.diff(batches), np.diff(rows)
    )
    cliffs: list[Cliff] = []
    for i in np.flatnonzero((grows > 1.0) & (left[1:] == left[:-1])):
        if (cliffs and curve.batches[i] < cliffs[-1].last) or curve.tier[
            i + 1, column
        ] == Tier.ROOFLINE:
            continue
        rise = np.array([gain[j:].max() for j in range(i + 1, len(gain))]) - gain[i + 1 :]
        bottom = i + 1 + int(np.argmax(np.minimum(gain[i] - gain[i + 1 :], rise)))
        edge = min(float(gain[i]), float(gain[bottom:].max()))
        if edge - gain[bottom] < LEAST_DEPTH or gain[i] <= gain[i + 1]:
            continue
        peak = bottom + int(gain[bottom:].argmax())
        low = np.flatnonzero(gain[i + 1 : peak] < (edge + gain[bottom]) / 2.0) + i + 1
        verify_s = curve.verify_step_s[:, column]
        speedup = curve.speedup[:, column]
        first = int(curve.batches[i]) + 1
        cliffs.append(
            Cliff(
                n_draft=int(curve.drafts[column]),
                first=first,
                last=int(curve.batches[low[-1]]),
                before_s=float(verify_s[i]),
                after_s=float(verify_s[i + 1]),
                before=float(speedup[i]),
                least=float(speedup[bottom]),
                later=float(speedup[peak]),
            )
        )
    return tuple(cliffs)


LEAST_PADDING = 1.2
"""Choice of this project: padding to a captured size is reported from this ratio of rows on. [-]"""


def graph_notes(setup: Setup, curve: Curve, row: int, column: int) -> list[Note]:
    """Rounds at the curve's batch `row` that no captured CUDA graph holds, and padding.

    column : of the recommended K, or 0. Where no release was named its captures are unknown.
    """
    groups = setup.placement.attention_groups
    batch = int(np.ceil(curve.batches[row] / groups - 1e-9))
    k = int(curve.drafts[column])
    place = {"batch": batch, "of_rank": groups > 1}
    graphs = setup.graphs
    if graphs is None or curve.eager is None or curve.padding is None:
        return []
    notes = []
    outside = np.flatnonzero(curve.eager[row])
    if outside.size:
        first = int(column if curve.eager[row, column] else outside[0])
        first_k = int(curve.drafts[first])
        note = Note.of(
            "graph_missing",
            k=first_k,
            tokens=batch * (first_k + 1),
            release=graphs.release,
            largest=graphs.largest(first_k + 1),
            speedup=float(curve.speedup[row, first]),
            every_larger_k=bool(first == outside[0] and outside.size > 1),
            baseline_too=bool(first_k and curve.eager[row, 0]),
            **place,
        )
        notes.append(note)
    rows = float(curve.padding[row, column])
    if rows >= LEAST_PADDING:
        tokens = batch * (k + 1)
        runs_as = round(rows * tokens)
        facts = {"tokens": tokens, "runs_as": runs_as, "release": graphs.release}
        notes.append(Note.of("graph_padding", k=k, **facts, **place))
    return notes


LEAST_PIECES = 0.05
"""Share of a speedup that pieces of graphs have to take to be said: this project's choice. [-]"""


def graph_mode_notes(setup: Setup, curve: Curve, row: int, column: int, table: bool) -> list[Note]:
    """Both speedups where rounds may run in full CUDA graphs or in pieces of them.

    So it is, while nobody states the mode, of a model with recurrent layers and of a `table` of K.
    row, column : of the curve, the latter the K that is asked about.
    """
    scenario = setup.scenario
    recurrent = any(mixer.kind == "linear" for mixer in setup.architecture.mixers)
    k = int(curve.drafts[column])
    known = scenario.graph_mode is not None or setup.costs.between_graphs_s
    cuts = scenario.engine in engine_ids() and load_engine(scenario.engine).graph_pieces
    if known or not (k and cuts and (recurrent or table)):
        return []
    stated = scenario.model_copy(update={"graph_mode": "pieces"})
    pieces = replace(load_setup(stated), graphs=setup.graphs)
    in_pieces = float(curve_for(pieces, curve.batches[row], [k], central_only=True).speedup[0, 0])
    full = float(curve.speedup[row, column])
    if in_pieces > (1.0 - LEAST_PIECES) * full:
        return []
    facts = {"full": full, "in_pieces": in_pieces, "recurrent": recurrent}
    return [Note.of("graph_mode_unknown", k=k, batch=int(curve.batches[row]), **facts)]


def sweet_spot(batches: Array, speedup: Array) -> float:
    """Batch size with the highest speedup. [-]"""
    return float(batches[int(np.argmax(speedup))])


def break_even_batch(batches: Array, speedup: Array) -> float | None:
    """Smallest batch above the sweet spot at which the speedup falls to 1, interpolated on log
    batch. None if never."""
    peak = int(np.argmax(speedup))
    if speedup[peak] <= 1.0:
        return None
    below = np.flatnonzero(speedup[peak:] < 1.0)
    if below.size == 0:
        return None
    after = peak + int(below[0])
    x = np.log(batches[after - 1 : after + 1])
    y = speedup[after - 1 : after + 1]
    return float(np.exp(x[0] + (1.0 - y[0]) * (x[1] - x[0]) / (y[1] - y[0])))
