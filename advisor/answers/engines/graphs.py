"""CUDA graphs that a launch command asks for beyond those its release captures by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.answers.best_k import BetweenBatches, IntArray, KRange, k_running_at
from advisor.answers.engines.config import Capture, merged_rows, per_rank
from advisor.answers.schedule import MIN_GAIN, doublings
from advisor.catalog.engines import Graphs
from advisor.predict.curve import Curve, batches_with, curve_for, graph_edges
from advisor.predict.setup import Setup
from advisor.prediction import Array

_GRID = 16
"""vLLM captures multiples of this from 256 tokens on. [tokens]"""


def with_largest(graphs: Graphs, largest: int | None) -> Graphs:
    """The graphs of a server with this largest size. None: its release's own."""
    return replace(graphs, server=replace(graphs.server, largest=largest))


def largest_needed(
    graphs: Graphs, ranges: Sequence[KRange], groups: int, limit: int | None = None
) -> int | None:
    """Largest size to capture, in the rule's count, that holds every round of a configuration.

    None where it drafts nothing, or `graphs` hold every round.

    groups : attention groups, each with graphs of its own. limit : requests that one admits. [-]
    """
    rows = merged_rows(per_rank(ranges, groups))
    last_batch = min(limit or rows[-1][1], rows[-1][1])
    last_by_q = {k + 1: min(last, last_batch) for first, last, k in rows if first <= last_batch}
    if max(last_by_q) == 1 or _hold(graphs, last_by_q):
        return None
    if graphs.rule.counts == "requests":
        return last_batch
    # Rounding to whole rounds drops sizes near the top, so the first that holds all is looked for.
    first = -(-max(last * q for q, last in last_by_q.items()) // _GRID) * _GRID
    sizes = range(first, 2 * first + _GRID, _GRID)
    return next(size for size in sizes if _hold(with_largest(graphs, size), last_by_q))


def _hold(graphs: Graphs, last_by_q: dict[int, int]) -> bool:
    """Whether graphs hold rounds of q tokens at up to the last batch of each q."""
    longest = max(last_by_q)
    # One list of sizes, rounded for the longest drafts, holds the steps of every K.
    of_tokens = graphs.rule.counts == "tokens"
    return all(
        last * q <= min(graphs.largest(q), graphs.largest(longest if of_tokens else q))
        for q, last in last_by_q.items()
    )


@dataclass(frozen=True)
class ServedCurve:
    """A server's curve and the K that it runs by batch."""

    curve: Curve
    ranges: Sequence[KRange]

    def drafts(self, batches: IntArray) -> IntArray:
        """K at each batch, [n]. [-]"""
        return np.asarray(k_running_at(self.ranges, batches))

    def token_times_s(self, batches: IntArray) -> Array:
        """Time per output token at each batch, [n]. [s]"""
        times_s = BetweenBatches.of(self.curve.batches, batches).positive(self.curve.tpot_s)
        column = np.searchsorted(self.curve.drafts, self.drafts(batches))
        return np.asarray(times_s[np.arange(batches.size), column])


def capture_of(
    graphs: Graphs, groups: int, without: ServedCurve, server: ServedCurve, largest: int
) -> Capture | None:
    """Gain of a server that captures up to `largest`. None where that is less than MIN_GAIN.

    graphs : what the release captures by itself, as the server `without` does.
    """
    batches = np.arange(1, server.ranges[-1].batch_end + 1)
    of_group = -(-batches // groups)
    most = 2 + max(part.k_running for each in (without, server) for part in each.ranges)
    limits = np.array([0, *(graphs.largest(q) for q in range(1, most))])
    tokens = [1 + each.drafts(batches) for each in (without, server)]
    is_outside = np.any([of_group * q > limits[q] for q in tokens], axis=0)
    if not is_outside.any():
        return None
    outside = batches[is_outside.argmax() :]
    rates = without.token_times_s(outside) / server.token_times_s(outside)
    gain = float(np.average(rates, weights=doublings(outside))) - 1.0
    if gain < MIN_GAIN:
        return None
    q = most - 1
    of_requests = graphs.rule.counts == "requests"
    by_itself = graphs.largest(q) // q if of_requests else graphs.largest(q)
    return Capture(largest, by_itself, graphs.release, int(outside[0]), gain, of_requests)


def assumed_capture(
    setup: Setup, graphs: Graphs, ranges: Sequence[KRange], limit: int | None
) -> Capture | None:
    """Capture with which every round runs in a graph, as a scenario without a release is priced.

    graphs : what the release that is exported for captures by itself. limit : requests that a
        group admits. [-]
    """
    groups = setup.placement.attention_groups
    largest = largest_needed(graphs, ranges, groups, limit)
    if largest is None:
        return None
    drafts = sorted({0, *(part.k_running for part in ranges)})
    by_itself = replace(setup, graphs=graphs)
    last = ranges[-1].batch_end
    grid = batches_with(last, *graph_edges(by_itself))
    whole = replace(setup, graphs=with_largest(graphs, largest))
    grid = grid[grid <= last]
    without = ServedCurve(curve_for(by_itself, grid, drafts, central_only=True), ranges)
    server = ServedCurve(curve_for(whole, grid, drafts, central_only=True), ranges)
    return capture_of(graphs, groups, without, server, largest)
