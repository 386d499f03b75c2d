"""Which rank holds which copy of each expert, and what each expert-parallel rank does in a step,
counted.

Symbols: N routed experts, R ranks, r redundant copies, S = N + r slots; q_i the load of expert i,
tokens that choose it as a share of all tokens (sum over experts: k). Choices are expert ids [B, t,
layers, k]; counts are kept for every number of tokens from 1 to t, so that one draw serves plain
decoding and every K. A layer waits for its slowest rank: take the largest over ranks first, then
the mean over layers.

References
----------
[EPLB] https://github.com/deepseek-ai/EPLB: copy the expert with the highest load per copy, then
    give copies by falling
load to the least loaded rank that has a slot left; with nodes, groups of experts to nodes first.
vLLM's --enable-eplb and SGLang's --enable-eplb follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.prediction import AdvisorError, Array
from advisor.profiling.routing_draw import fitted_loads, scattered_loads, systematic, with_repeats


@dataclass(frozen=True, eq=False)
class Layout:
    """Copies of experts on ranks, layer by layer. One layer stands for all where they are alike."""

    expert_of_slot: NDArray[np.int64]
    """Expert that each slot holds, [layers, S]."""
    rank_of_slot: NDArray[np.int64]
    """Rank of each slot, never falling, [S]."""
    copies: NDArray[np.int64]
    """Slots that hold each expert, [layers, N]. [-]"""
    slot_of: NDArray[np.int64]
    """Slots of each expert, [layers, N, most copies]; the first is repeated beyond its copies."""

    @property
    def n_ranks(self) -> int:
        """Ranks that share the experts, R. [-]"""
        return int(self.rank_of_slot[-1]) + 1

    @property
    def n_slots(self) -> int:
        """Experts and copies together, S. [-]"""
        return len(self.rank_of_slot)

    def of_layers(self, layers: NDArray[np.int64]) -> Layout:
        """The layout of some layers."""
        if len(self.copies) == 1:
            return self
        return Layout(
            self.expert_of_slot[layers],
            self.rank_of_slot,
            self.copies[layers],
            self.slot_of[layers],
        )

    def rank_loads(self, loads: ArrayLike) -> Array:
        """Expert choices of a token that fall on each rank in the mean, [layers, R]. [-]

        `loads` [layers, N] are shares of tokens that choose each expert [-]. Definition: an
        expert's copies share its load alike, and a rank's load is the sum over the copies that it
        holds.
        """
        per_copy = np.asarray(loads, float) / self.copies
        experts = np.broadcast_to(self.expert_of_slot, (len(per_copy), self.n_slots))
        return np.asarray(
            np.add.reduceat(np.take_along_axis(per_copy, experts, axis=1), self.first_slots, axis=1)
        )

    @property
    def first_slots(self) -> NDArray[np.int64]:
        """The first slot of each rank, [R]."""
        return np.searchsorted(self.rank_of_slot, np.arange(self.n_ranks))


def contiguous(n_experts: int, ranks: int) -> Layout:
    """Blocks of neighbouring experts, the first ones larger by one. Raises AdvisorError for R >
    N."""
    if not 1 <= ranks <= n_experts:
        raise AdvisorError(
            f"{ranks} ranks cannot each hold one of {n_experts} experts; choose 1 to {n_experts} "
            "ranks"
        )
    sizes = n_experts // ranks + (np.arange(ranks) < n_experts % ranks)
    return _layout(np.arange(n_experts)[None], np.repeat(np.arange(ranks), sizes), n_experts)


def balanced(
    loads: ArrayLike, ranks: int, redundant: int = 0, nodes: int = 1, groups: int = 1
) -> Layout:
    """Copies of the hottest experts, spread so that ranks carry about the same load.

    Parameters
    ----------
    loads : load of each expert, [layers, N], in any unit: only ratios count. [-]
    ranks, redundant : R and r; R divides N + r. [-]
    nodes : machines that the ranks are spread over evenly. [-]
    groups : groups of neighbouring experts that stay together on a node; used where `nodes` divides
        it. [-]

    Raises
    ------
    AdvisorError where ranks, nodes or groups do not divide what they share.

    Notes
    -----
    The greedy rule of [EPLB]. Where `nodes` does not divide `groups`, nodes are not looked at, as
    there. The hottest copy never grows with r; the fullest rank can by a little, since the packing
    is greedy.
    """
    load = np.asarray(loads, float)
    n_experts = load.shape[1]
    _check(n_experts, ranks, redundant, nodes, groups)
    # EPLB's own rule: without whole groups per node it falls back to one global packing.
    if groups % nodes or nodes == 1:
        nodes = 1
        groups = 1
    size = n_experts // groups
    node_of_group = _packed(load.reshape(len(load), groups, size).sum(axis=2), nodes)
    node_of_expert = np.repeat(node_of_group, size, axis=1)
    inside = np.argsort(node_of_expert, axis=1, kind="stable").reshape(len(load) * nodes, -1)
    node_loads = np.take_along_axis(np.repeat(load, nodes, axis=0), inside, axis=1)
    local, weight = _copied(node_loads, redundant // nodes)
    rank = _packed(weight, ranks // nodes)
    by_rank = np.argsort(rank, axis=1, kind="stable")
    expert = np.take_along_axis(inside, np.take_along_axis(local, by_rank, axis=1), axis=1)
    slots = n_experts + redundant
    return _layout(
        expert.reshape(len(load), slots), np.repeat(np.arange(ranks), slots // ranks), n_experts
    )


def _check(n_experts: int, ranks: int, redundant: int, nodes: int, groups: int) -> None:
    slots = n_experts + redundant
    # Engines give every rank a weight buffer of one size, so slots divide evenly.
    if redundant < 0 or not 1 <= ranks <= slots or slots % ranks:
        fewest = -n_experts % max(ranks, 1)
        raise AdvisorError(
            f"{n_experts} experts and {redundant} copies do not fill {ranks} ranks evenly, as "
            f"engines ask; choose {fewest}, {fewest + ranks} or {fewest + 2 * ranks} copies"
        )
    if nodes < 1 or ranks % nodes:
        raise AdvisorError(
            f"{ranks} ranks do not spread evenly over {nodes} nodes; choose a divisor of {ranks}"
        )
    if groups < 1 or n_experts % groups:
        raise AdvisorError(
            f"{n_experts} experts do not make {groups} groups; choose a divisor of {n_experts}"
        )


def _copied(loads: Array, redundant: int) -> tuple[NDArray[np.int64], Array]:
    """Expert of each copy, and its share of that expert's load; [rows, n + redundant] each."""
    rows, n = loads.shape
    copies = np.ones((rows, n))
    expert = np.empty((rows, n + redundant), np.int64)
    expert[:, :n] = np.arange(n)
    for slot in range(n, n + redundant):
        expert[:, slot] = np.argmax(loads / copies, axis=1)
        copies[np.arange(rows), expert[:, slot]] += 1.0
    return expert, np.take_along_axis(loads / copies, expert, axis=1)


def _packed(weights: Array, packs: int) -> NDArray[np.int64]:
    """Pack of each item, [rows, n]: heaviest first, each to the lightest pack with room; n / packs
    items in each."""
    rows, n = weights.shape
    if packs == n:  # one each: nothing to balance
        return np.broadcast_to(np.arange(n), (rows, n)).copy()
    filled = np.zeros((rows, packs))
    count = np.zeros((rows, packs), np.int64)
    pack_of = np.empty((rows, n), np.int64)
    all_rows = np.arange(rows)
    # Stable, so that equal loads fall in the order of expert ids, on every machine.
    for column in np.argsort(-weights, axis=1, kind="stable").T:
        pack = np.argmin(np.where(count < n // packs, filled, np.inf), axis=1)
        pack_of[all_rows, column] = pack
        filled[all_rows, pack] += weights[all_rows, column]
        count[all_rows, pack] += 1
    return pack_of


def _layout(
    expert_of_slot: NDArray[np.int64], rank_of_slot: NDArray[np.int64], n_experts: int
) -> Layout:
    """The layout with its tables from experts to slots."""
    layers, slots = expert_of_slot.shape
    at = expert_of_slot + n_experts * np.arange(layers)[:, None]
    copies = np.bincount(at.ravel(), minlength=layers * n_experts)
    order = np.argsort(at.ravel(), kind="stable")  # slots by layer and expert
    first = np.cumsum(copies) - copies
    pick = np.arange(copies.max())
    places = first[:, None] + np.where(pick < copies[:, None], pick, 0)
    slot_of = order[places] % slots
    shape = (layers, n_experts)
    return Layout(expert_of_slot, rank_of_slot, copies.reshape(shape), slot_of.reshape(*shape, -1))


@dataclass(frozen=True)
class Sources:
    """Attention ranks that tokens come from, in `groups`, `ranks_per_node` to a machine."""

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
    """Expert choices of tokens from other ranks: messages where each expert's copy of a token
    travels. [-]"""
    received_tokens: Array
    """Tokens of other ranks that it serves: messages where a token travels once to each rank.
    [-]"""
    touched_overall: Array
    """Distinct experts that the step touches on all ranks, [t, layers]. [-]"""
    reached: Array
    """Ranks that serve a token, its own included, mean over tokens, [t, layers]. [-]"""
    other_rank: Array
    """Share of expert choices served by another rank than the token's own, [t, layers]. [-]"""
    other_nodes: Array
    """Other nodes that serve a token, mean over tokens, [t, layers]. [-]"""


def rank_counts(
    ids: Choices, layout: Layout, rng: np.random.Generator, sources: Sources | None = None
) -> RankCounts:
    """Counts of one step under `layout`. Where an expert has copies, each choice goes to one of
    them by chance."""
    sources = sources or Sources()
    batch, tokens, layers, active = ids.shape
    ranks = layout.n_ranks
    n_slots = layout.n_slots
    n_experts = layout.copies.shape[1]
    layer = np.arange(layers)[:, None]
    placed = (
        layer if len(layout.copies) > 1 else np.zeros_like(layer)
    )  # one layout stands for all layers
    # Engines spread the choices of an expert over its copies without looking at loads; a draw
    # stands for that.
    copy = (rng.random(ids.shape) * layout.copies[placed, ids]).astype(np.int64)
    slot = layout.slot_of[placed, ids, copy]
    rank = layout.rank_of_slot[slot]
    step = np.arange(tokens)[:, None, None]
    by_slot = _counted(step * layers + layer, slot, (tokens, layers, n_slots))
    by_expert = _counted(step * layers + layer, ids.astype(np.int64), (tokens, layers, n_experts))
    pairs = np.add.reduceat(by_slot, layout.first_slots, axis=2)
    touched = np.add.reduceat((by_slot > 0).astype(float), layout.first_slots, axis=2)
    source = np.broadcast_to(
        _source_ranks(batch, tokens, ranks, sources.groups)[..., None, None], rank.shape
    )
    away = rank != source
    from_others = _counted(step * layers + layer, rank, (tokens, layers, ranks), away)
    # A token travels once to each rank, however many of its experts live there.
    once, reached = _first_visits(rank)
    visits = _counted(step * layers + layer, rank, (tokens, layers, ranks), away & once)
    node = rank // sources.ranks_per_node
    home = source // sources.ranks_per_node
    first_node, _ = _first_visits(node)
    other_nodes = (first_node & (node != home)).sum(axis=(0, 3))
    so_far = batch * np.arange(1, tokens + 1)[:, None]
    return RankCounts(
        touched=touched,
        pairs=pairs,
        received_pairs=from_others,
        received_tokens=visits,
        touched_overall=(by_expert > 0).sum(axis=2).astype(float),
        reached=np.cumsum(reached.sum(axis=0), axis=0) / so_far,
        other_rank=from_others.sum(axis=2) / (so_far * active),
        other_nodes=np.cumsum(other_nodes, axis=0) / so_far,
    )


def _counted(
    cell: NDArray[np.int64],
    kind: NDArray[np.int64],
    shape: tuple[int, int, int],
    only: NDArray[np.bool_] | None = None,
) -> Array:
    """How often each of `kind` was met by the first 1 to t tokens, [t, layers, kinds]; `only` keeps
    some. [-]"""
    at = (cell * shape[2] + kind)[slice(None) if only is None else only]
    counts = np.bincount(at.ravel(), minlength=int(np.prod(shape)))
    return np.cumsum(counts.reshape(shape), axis=0).astype(float)


def _first_visits(location: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether no earlier choice of the same token went to the same place, and the places of each
    token."""
    first = np.ones(location.shape, bool)
    for later in range(1, location.shape[-1]):
        first[..., later] = (location[..., later, None] != location[..., :later]).all(axis=-1)
    return first, first.sum(axis=-1)


def _source_ranks(batch: int, tokens: int, ranks: int, groups: int) -> NDArray[np.int64]:
    """Rank that sends each token, [B, t]: sequences go round the groups, tokens of a group round
    its ranks."""
    ranks_of_group = max(ranks // groups, 1)
    sequence = np.arange(batch)[:, None]
    inside = (sequence // groups * tokens + np.arange(tokens)) % ranks_of_group
    return sequence % groups * ranks_of_group + inside


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
    """Counted loads (`Uneven`) of the ranks that may be slowest, over batches and tokens per
    sequence.

    Means over layers and draws. Which of the ranks [nW] a layer waits for depends on what reading
    and arithmetic cost.
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

        `batch` sequences of `tokens` tokens each [-]. The ends of the batches are held beyond them,
        and the largest number of tokens beyond t: nothing was counted there.
        """
        size, q = np.broadcast_arrays(np.asarray(batch, float), np.asarray(tokens, float))
        column = np.clip(np.rint(q).astype(int) - 1, 0, self.received.shape[1] - 1)
        # A ratio to the mean rank falls over powers of the batch, so steps of its logarithm are the
        # even ones.
        at = np.interp(np.log(size), np.log(self.batches), np.arange(len(self.batches)))
        below = np.minimum(at.astype(int), max(len(self.batches) - 2, 0))
        above = np.minimum(below + 1, len(self.batches) - 1)

        def read(table: Array) -> Array:
            return np.asarray(
                table[below, column] * (1.0 - at + below) + table[above, column] * (at - below)
            )

        received = read(self.received)
        pairs = zip(self.touched, self.pairs, strict=True)
        return tuple(
            Uneven(read(reads), read(serves), received, self.slots) for reads, serves in pairs
        )


Choices = NDArray[np.integer]
"""Expert ids, [sequences, tokens, layers, k]; a trace's own sequences have no first axis."""


def expert_loads(sequences: Sequence[Choices], n_experts: int) -> Array:
    """Share of tokens that choose each expert, [layers, N], k in a row, from [tokens, layers, k].
    [-] Definition."""
    layers = sequences[0].shape[1]
    total = np.zeros(layers * n_experts)
    offset = n_experts * np.arange(layers)[:, None]
    for ids in sequences:
        total += np.bincount((ids.astype(np.int64) + offset).ravel(), minlength=layers * n_experts)
    return total.reshape(layers, n_experts) / sum(map(len, sequences))


def windows(
    sequences: Sequence[Choices],
    batch: int,
    tokens: int,
    rng: np.random.Generator,
    layers: NDArray[np.int64] | None = None,
) -> Choices:
    """Random stretches of consecutive tokens of a trace, [B, t, layers, k].

    `batch` sequences (B) give `tokens` consecutive tokens (t) each; `layers` picks some layers.
    Sequences are different ones as long as there are enough; beyond, the same ones come again at
    other places. Raises AdvisorError where no sequence is long enough.
    """
    long = [ids for ids in sequences if len(ids) >= tokens]
    if not long:
        raise AdvisorError(
            f"no sequence of the trace has {tokens} tokens, as many as a step verifies; give "
            "longer ones"
        )
    # Whole permutations one after the other: no sequence comes twice before all have come once.
    order = np.concatenate([rng.permutation(len(long)) for _ in range(-(-batch // len(long)))])[
        :batch
    ]
    some = np.arange(long[0].shape[1]) if layers is None else layers
    out = np.empty((batch, tokens, len(some), long[0].shape[2]), np.int64)
    for row, sequence_index in enumerate(order):
        start = int(rng.integers(0, len(long[sequence_index]) - tokens + 1))
        out[row] = long[sequence_index][start : start + tokens, some]
    return out


def drawn_choices(
    loads: Array,
    n_active: int,
    batch: int,
    tokens: int,
    rng: np.random.Generator,
    affinity: float = 0.0,
    stickiness: float = 0.0,
) -> Choices:
    """Choices of a router with these expert loads, [B, t, layers, k].

    Parameters
    ----------
    loads : share of tokens that choose each expert, [layers, N]; rows sum to k, no entry above 1.
        [-]
    affinity, stickiness : phi and rho of `touched_experts`. [-]

    Notes
    -----
    A sequence's own chances scatter about the loads as a beta distribution of intra-class
    correlation phi; a token repeats its predecessor's choice with chance rho, else it draws k
    different experts with exactly these chances (systematic sampling over experts in random order).
    Layers and sequences are independent.
    """
    layers, n_experts = loads.shape
    chances = np.broadcast_to(loads, (batch, layers, n_experts))
    if affinity > 0.0:
        chances = scattered_loads(rng, chances, n_active, affinity)
    rows = chances.reshape(-1, n_experts)
    return with_repeats(
        rng,
        lambda: systematic(rng, rows, n_active).reshape(batch, layers, n_active),
        tokens,
        stickiness,
    )


def skewed_loads(
    n_experts: int, n_active: int, load_cv: float, layers: int, rng: np.random.Generator
) -> Array:
    """Lognormal loads of a given spread, [layers, N], in a random order in each layer. [-]

    `load_cv` is their coefficient of variation [-]. Own choice of the form, a lognormal capped at
    1, as in the law of touched experts.

    Stands for loads where only their spread is known: which experts are hot, and whether neighbours
    are, is drawn. Capped at 1, so a `load_cv` near sqrt(N/k - 1), the most that is possible, is not
    quite reached.
    """
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((rank + 0.5) / n_experts) for rank in range(n_experts)])
    # The cap of 1 takes from the spread, so the sigma that gives `load_cv` is found by bisection.
    low = 0.0
    high = 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        load = fitted_loads(np.exp(middle * (quantiles - quantiles[-1])), n_active)
        low, high = (middle, high) if load.std() / load.mean() < load_cv else (low, middle)
    load = fitted_loads(np.exp(low * (quantiles - quantiles[-1])), n_active)
    return np.stack([rng.permutation(load) for _ in range(layers)])
