"""The same ranks with attention in more or fewer groups: wide expert parallelism with data-parallel attention.

Experts lie whole on all ranks; attention runs as ranks / tp groups, each with sequences of its own. vLLM:
--tensor-parallel-size tp --data-parallel-size ranks/tp --enable-expert-parallel. SGLang: --tp-size ranks --dp-size
ranks/tp --enable-dp-attention --ep-size ranks. A scenario says the same with tensor_parallel and expert_parallel.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from advisor.curve import Curve
from advisor.expert_ranks.answer import RanksAnswer, recommended_curve
from advisor.hardware import gpus_of_node
from advisor.prediction import AdvisorError
from advisor.routing import RankBalance
from advisor.setup import Setup, with_placement
from advisor.step_cost import Placement


@dataclass(frozen=True, eq=False)
class Split:
    """Attention in groups of `tensor_parallel` ranks over the scenario's expert-parallel ranks."""

    setup: Setup
    fullest: int
    """Sequences of the fullest group: engines keep groups in step, so it is the one that counts. [-]"""
    fits: bool
    curve: Curve
    """At the batch whose groups are all as full as the fullest."""
    best: int
    exchange_s: float
    """Dispatch and combine, and all-reduces, of a round at the recommended K. [s]"""

    @property
    def groups(self) -> int:
        """Data-parallel attention groups. [-]"""
        return self.setup.placement.attention_groups

    @property
    def tensor_parallel(self) -> int:
        """Ranks of a group. [-]"""
        return self.setup.placement.tensor_parallel


def splits(answer: RanksAnswer) -> tuple[tuple[Split, ...], tuple[str, ...]]:
    """Every grouping of the ranks for attention that is possible, and why the others are not.

    Experts lie in order on all ranks. Attention costs what each group's own batch costs, the experts what all batches
    together cost, with the slowest rank that was counted at the scenario's batch. Groups of more ranks than a node has
    are refused: their all-reduces would cross the network for nothing, which the exchange of all others is charged for.
    """
    setup, found = answer.setup, answer.in_order.found
    assert found is not None
    ranks, node = setup.placement.expert_parallel, gpus_of_node(setup.hardware)
    out, refused = [], []
    for tensor in (size for size in range(1, ranks + 1) if ranks % size == 0):
        if tensor > node:
            refused.append(
                f"{ranks // tensor} x TP {tensor}: a group of {tensor} ranks is wider than a node of {node}, and what "
                "its all-reduces take between nodes is not priced; compare groups within a node"
            )
            continue
        try:
            placed = with_placement(setup, Placement(tensor, ranks))
        except AdvisorError as error:
            refused.append(str(error))
            continue
        out.append(_split(placed, found.balance(setup.scenario.batch_size)))
    return tuple(out), tuple(refused)


def _split(setup: Setup, balance: RankBalance) -> Split:
    groups = setup.placement.attention_groups
    fullest = math.ceil(setup.scenario.batch_size / groups)
    placement = dataclasses.replace(setup.placement, balance=balance)
    full = setup.scenario.model_copy(update={"batch_size": fullest * groups})
    curve, best = recommended_curve(dataclasses.replace(setup, scenario=full, placement=placement))
    return Split(
        setup,
        fullest,
        fullest * groups <= setup.memory.largest_batch,
        curve,
        best,
        float(curve.round_components["communication"][0, best]),
    )
