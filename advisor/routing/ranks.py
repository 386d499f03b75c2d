"""What each expert-parallel rank does in a step, counted: experts it reads, expert choices it serves, messages it gets.

Counts are kept for every number of tokens from 1 to t, so that one draw serves plain decoding and every K. A layer
waits for its slowest rank: take the largest over ranks first, then the mean over layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.routing.choices import Choices
from advisor.routing.layout import Layout


@dataclass(frozen=True)
class Sources:
    """Attention ranks that tokens come from.

    `groups` of ranks have sequences of their own, and `ranks_per_node` of them share a machine.
    """

    groups: int = 1
    ranks_per_node: int = 8


@dataclass(frozen=True)
class RankCounts:
    """Work of each rank in a step of 1 to t tokens of each sequence, in arrays [t, layers, R]."""

    touched: Array
    """Distinct copies of experts it reads. [-]"""
    pairs: Array
    """Expert choices that it serves: rows of its experts. [-]"""
    received_pairs: Array
    """Expert choices of tokens from other ranks: messages where each expert's copy of a token travels. [-]"""
    received_tokens: Array
    """Tokens of other ranks that it serves: messages where a token travels once to each rank. [-]"""
    touched_overall: Array
    """Distinct experts that the step touches on all ranks, [t, layers]. [-]"""
    reached: Array
    """Ranks that serve a token, its own included, mean over tokens, [t, layers]. [-]"""
    other_rank: Array
    """Share of expert choices served by another rank than the token's own, [t, layers]. [-]"""
    other_nodes: Array
    """Other nodes that serve a token, mean over tokens, [t, layers]. [-]"""


def rank_counts(ids: Choices, layout: Layout, rng: np.random.Generator, sources: Sources | None = None) -> RankCounts:
    """Counts of one step under `layout`. Where an expert has copies, each choice goes to one of them by chance."""
    sources = sources or Sources()
    batch, tokens, layers, active = ids.shape
    ranks, n_slots, n_experts = layout.n_ranks, layout.n_slots, layout.copies.shape[1]
    layer = np.arange(layers)[:, None]
    held = layer if len(layout.copies) > 1 else np.zeros_like(layer)
    # Engines spread the choices of an expert over its copies without looking at loads; a draw stands for that.
    copy = (rng.random(ids.shape) * layout.copies[held, ids]).astype(np.int64)
    slot = layout.slot_of[held, ids, copy]
    rank = layout.rank_of_slot[slot]
    step = np.arange(tokens)[:, None, None]
    by_slot = _counted(step * layers + layer, slot, (tokens, layers, n_slots))
    by_expert = _counted(step * layers + layer, ids.astype(np.int64), (tokens, layers, n_experts))
    pairs = np.add.reduceat(by_slot, layout.first_slots, axis=2)
    touched = np.add.reduceat((by_slot > 0).astype(float), layout.first_slots, axis=2)
    source = np.broadcast_to(_source_ranks(batch, tokens, ranks, sources.groups)[..., None, None], rank.shape)
    away = rank != source
    from_others = _counted(step * layers + layer, rank, (tokens, layers, ranks), away)
    # A token travels once to each rank, however many of its experts live there.
    once, reached = _first_visits(rank)
    visits = _counted(step * layers + layer, rank, (tokens, layers, ranks), away & once)
    node, home = rank // sources.ranks_per_node, source // sources.ranks_per_node
    first_node, _ = _first_visits(node)
    so_far = batch * np.arange(1, tokens + 1)[:, None]
    return RankCounts(
        touched=touched,
        pairs=pairs,
        received_pairs=from_others,
        received_tokens=visits,
        touched_overall=(by_expert > 0).sum(axis=2).astype(float),
        reached=np.cumsum(reached.sum(axis=0), axis=0) / so_far,
        other_rank=from_others.sum(axis=2) / (so_far * active),
        other_nodes=np.cumsum((first_node & (node != home)).sum(axis=(0, 3)), axis=0) / so_far,
    )


def _counted(
    cell: NDArray[np.int64],
    what: NDArray[np.int64],
    shape: tuple[int, int, int],
    only: NDArray[np.bool_] | None = None,
) -> Array:
    """How often each of `what` was met by the first 1 to t tokens, [t, layers, kinds]; `only` keeps some. [-]"""
    at = (cell * shape[2] + what)[slice(None) if only is None else only]
    counts = np.bincount(at.ravel(), minlength=int(np.prod(shape)))
    return np.cumsum(counts.reshape(shape), axis=0).astype(float)


def _first_visits(where: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether no earlier choice of the same token went to the same place, and the places of each token."""
    first = np.ones(where.shape, bool)
    for later in range(1, where.shape[-1]):
        first[..., later] = (where[..., later, None] != where[..., :later]).all(axis=-1)
    return first, first.sum(axis=-1)


def _source_ranks(batch: int, tokens: int, ranks: int, groups: int) -> NDArray[np.int64]:
    """Rank that sends each token, [B, t]: sequences go round the groups, tokens of a group round its ranks."""
    each = max(ranks // groups, 1)
    sequence = np.arange(batch)[:, None]
    inside = (sequence // groups * tokens + np.arange(tokens)) % each
    return sequence % groups * each + inside


@dataclass(frozen=True)
class Uneven:
    """The slowest rank of a routed layer over the mean rank, broadcast over steps."""

    touched: Array
    """Copies of experts that it reads, over distinct experts / ranks. [-]"""
    pairs: Array
    """Expert choices that it serves, over tokens x k / ranks. [-]"""
    received: Array
    """Largest share of expert choices that goes to one rank, over 1 / ranks. [-]"""
    slots: float
    """Copies of experts on all ranks, S = N + r. [-]"""


@dataclass(frozen=True, eq=False)
class RankBalance:
    """Counted loads (`Uneven`) of the ranks that may be slowest, over batches and tokens per sequence.

    Means over layers and draws. Which of the ranks [nW] a layer waits for depends on what reading and arithmetic cost.
    """

    batches: Array
    """Batches that were counted, increasing, [nB]. [-]"""
    touched: Array
    """Figures of `Uneven` for 1 to t tokens of each sequence, [nW, nB, t]. [-]"""
    pairs: Array
    """As `touched`. [-]"""
    received: Array
    """The same whichever rank is slowest, [nB, t]. [-]"""
    slots: float

    def at(self, batch: ArrayLike, tokens: ArrayLike) -> tuple[Uneven, ...]:
        """Ranks that may be slowest at given steps, interpolated in the logarithm of the batch.

        `batch` sequences of `tokens` tokens each [-]. The ends of the batches are held beyond them, and the largest
        number of tokens beyond t: nothing was counted there.
        """
        size, q = np.broadcast_arrays(np.asarray(batch, float), np.asarray(tokens, float))
        column = np.clip(np.rint(q).astype(int) - 1, 0, self.received.shape[1] - 1)
        # A ratio to the mean rank falls over powers of the batch, so steps of its logarithm are the even ones.
        at = np.interp(np.log(size), np.log(self.batches), np.arange(len(self.batches)))
        below = np.minimum(at.astype(int), max(len(self.batches) - 2, 0))
        above = np.minimum(below + 1, len(self.batches) - 1)

        def read(table: Array) -> Array:
            return np.asarray(table[below, column] * (1.0 - at + below) + table[above, column] * (at - below))

        received, pairs = read(self.received), zip(self.touched, self.pairs, strict=True)
        return tuple(Uneven(read(reads), read(serves), received, self.slots) for reads, serves in pairs)
