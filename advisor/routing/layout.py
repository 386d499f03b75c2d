"""Which rank holds which copy of each expert: in order as engines load them, or with hot experts copied and spread.

Symbols: N routed experts, R ranks, r redundant copies, S = N + r slots; q_i the load of expert i, tokens that choose it
as a share of all tokens (sum over experts: k).

References
----------
[EPLB] https://github.com/deepseek-ai/EPLB: copy the expert with the highest load per copy, then give copies by falling
load to the least loaded rank that has a slot left; with nodes, groups of experts to nodes first. vLLM's --enable-eplb
and SGLang's --enable-eplb follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError


@dataclass(frozen=True, eq=False)
class Layout:
    """Copies of experts on ranks, layer by layer.

    One layer stands for all where they are alike.
    """

    expert_of_slot: NDArray[np.int64]
    """[layers, S]."""
    rank_of_slot: NDArray[np.int64]
    """[S], never falling."""
    copies: NDArray[np.int64]
    """How many slots hold each expert, [layers, N]. [-]"""
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

    @property
    def n_redundant(self) -> int:
        """Copies beyond one of each, r. [-]"""
        return self.n_slots - self.copies.shape[1]

    def of_layers(self, layers: NDArray[np.int64]) -> Layout:
        """The layout of some layers."""
        if len(self.copies) == 1:
            return self
        return Layout(self.expert_of_slot[layers], self.rank_of_slot, self.copies[layers], self.slot_of[layers])

    def rank_loads(self, loads: ArrayLike) -> Array:
        """Expert choices of a token that fall on each rank in the mean, [layers, R]. [-]

        `loads` [layers, N] are shares of tokens that choose each expert [-]. Definition: an expert's copies share its
        load alike, and a rank's load is the sum over the copies that it holds.
        """
        each = np.asarray(loads, float) / self.copies
        held = np.take_along_axis(each, np.broadcast_to(self.expert_of_slot, (len(each), self.n_slots)), axis=1)
        return np.asarray(np.add.reduceat(held, self.first_slots, axis=1))

    @property
    def first_slots(self) -> NDArray[np.int64]:
        """The first slot of each rank, [R]."""
        return np.searchsorted(self.rank_of_slot, np.arange(self.n_ranks))


def contiguous(n_experts: int, ranks: int) -> Layout:
    """Blocks of neighbouring experts, the default of engines.

    Where R does not divide N, the first ranks hold one more.

    Raises AdvisorError for more ranks than experts.
    """
    if not 1 <= ranks <= n_experts:
        raise AdvisorError(f"{ranks} ranks cannot each hold one of {n_experts} experts; choose 1 to {n_experts} ranks")
    sizes = n_experts // ranks + (np.arange(ranks) < n_experts % ranks)
    return _layout(np.arange(n_experts)[None], np.repeat(np.arange(ranks), sizes), n_experts)


def balanced(loads: ArrayLike, ranks: int, redundant: int = 0, nodes: int = 1, groups: int = 1) -> Layout:
    """Copies of the hottest experts, spread so that ranks carry about the same load.

    Parameters
    ----------
    loads : load of each expert, [layers, N], in any unit: only ratios count. [-]
    ranks, redundant : R and r; R divides N + r. [-]
    nodes : machines that the ranks are spread over evenly. [-]
    groups : groups of neighbouring experts that stay together on a node; used where `nodes` divides it. [-]

    Raises
    ------
    AdvisorError where ranks, nodes or groups do not divide what they share.

    Notes
    -----
    The greedy rule of [EPLB]. Where `nodes` does not divide `groups`, nodes are not looked at, as there. The hottest
    copy never grows with r; the fullest rank can by a little, since the packing is greedy.
    """
    load = np.asarray(loads, float)
    n_experts = load.shape[1]
    _check(n_experts, ranks, redundant, nodes, groups)
    # EPLB's own rule: without whole groups per node it falls back to one global packing.
    if groups % nodes or nodes == 1:
        nodes, groups = 1, 1
    size = n_experts // groups
    node_of_group = _packed(load.reshape(len(load), groups, size).sum(axis=2), nodes)
    node_of_expert = np.repeat(node_of_group, size, axis=1)
    inside = np.argsort(node_of_expert, axis=1, kind="stable").reshape(len(load) * nodes, -1)
    own = np.take_along_axis(np.repeat(load, nodes, axis=0), inside, axis=1)
    local, weight = _copied(own, redundant // nodes)
    rank = _packed(weight, ranks // nodes)
    by_rank = np.argsort(rank, axis=1, kind="stable")
    expert = np.take_along_axis(inside, np.take_along_axis(local, by_rank, axis=1), axis=1)
    slots = n_experts + redundant
    return _layout(expert.reshape(len(load), slots), np.repeat(np.arange(ranks), slots // ranks), n_experts)


def _check(n_experts: int, ranks: int, redundant: int, nodes: int, groups: int) -> None:
    slots = n_experts + redundant
    # Engines give every rank a weight buffer of one size, so slots divide evenly.
    if redundant < 0 or not 1 <= ranks <= slots or slots % ranks:
        least = -n_experts % max(ranks, 1)
        raise AdvisorError(
            f"{n_experts} experts and {redundant} copies do not fill {ranks} ranks evenly, as engines ask; choose "
            f"{least}, {least + ranks} or {least + 2 * ranks} copies"
        )
    if nodes < 1 or ranks % nodes:
        raise AdvisorError(f"{ranks} ranks do not spread evenly over {nodes} nodes; choose a divisor of {ranks}")
    if groups < 1 or n_experts % groups:
        raise AdvisorError(f"{n_experts} experts do not make {groups} groups; choose a divisor of {n_experts}")
    if groups % nodes == 0 and (redundant % nodes or slots // nodes % (ranks // nodes)):
        raise AdvisorError(
            f"{redundant} copies do not spread evenly over {nodes} nodes; choose a multiple of {nodes}, or groups=1"
        )


def _copied(loads: Array, redundant: int) -> tuple[NDArray[np.int64], Array]:
    """Expert of each copy, and its share of that expert's load; [rows, n + redundant] each."""
    rows, n = loads.shape
    copies = np.ones((rows, n))
    expert = np.empty((rows, n + redundant), np.int64)
    expert[:, :n] = np.arange(n)
    for place in range(n, n + redundant):
        expert[:, place] = np.argmax(loads / copies, axis=1)
        copies[np.arange(rows), expert[:, place]] += 1.0
    return expert, np.take_along_axis(loads / copies, expert, axis=1)


def _packed(weights: Array, packs: int) -> NDArray[np.int64]:
    """Pack of each item, [rows, n]: heaviest first, each to the lightest pack with room; n / packs items in each."""
    rows, n = weights.shape
    if packs == n:  # one each: nothing to balance
        return np.broadcast_to(np.arange(n), (rows, n)).copy()
    filled, count = np.zeros((rows, packs)), np.zeros((rows, packs), np.int64)
    found, every = np.empty((rows, n), np.int64), np.arange(rows)
    # Stable, so that equal loads fall in the order of expert ids, on every machine.
    for item in np.argsort(-weights, axis=1, kind="stable").T:
        pack = np.argmin(np.where(count < n // packs, filled, np.inf), axis=1)
        found[every, item] = pack
        filled[every, pack] += weights[every, item]
        count[every, pack] += 1
    return found


def _layout(expert_of_slot: NDArray[np.int64], rank_of_slot: NDArray[np.int64], n_experts: int) -> Layout:
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
