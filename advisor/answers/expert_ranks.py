"""A scenario's experts on its ranks: assumed, in order and balanced with copies; what dispatch and
combine move.

Experts lie whole on all ranks; attention runs as ranks / tp groups, each with sequences of its own.
vLLM: --tensor-parallel-size tp --data-parallel-size ranks/tp --enable-expert-parallel. SGLang:
--tp-size ranks --dp-size ranks/tp --enable-dp-attention --ep-size ranks. A scenario says the same
with tensor_parallel and expert_parallel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import recommended_draft
from advisor.physics import laws
from advisor.physics.expert_loads import Counted, Steps, Traffic, counted
from advisor.physics.expert_ranks import Sources
from advisor.physics.hardware import gpus_of_node
from advisor.physics.memory import weight_bytes_per_gpu
from advisor.physics.step import MoeShape, exchanges
from advisor.physics.touched_experts import local_experts
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import with_assumed_ranks
from advisor.predict.setup import Setup, filling_copies, layout_plan, touched_in_pass
from advisor.prediction import AdvisorError, Array

Travels = Literal["to each expert", "to each rank", "to all ranks"]


@dataclass(frozen=True)
class Transport:
    """One way of exchanging tokens, as engines offer it."""

    id: str
    name: str
    travels: Travels
    flags: str
    """Options of vLLM and SGLang that choose it."""


TRANSPORTS = (
    Transport(
        "low-latency",
        "DeepEP low latency",
        "to each expert",
        "--all2all-backend deepep_low_latency; --moe-a2a-backend deepep --deepep-mode low_latency",
    ),
    Transport(
        "high-throughput",
        "DeepEP normal",
        "to each rank",
        "--all2all-backend deepep_high_throughput; --moe-a2a-backend deepep --deepep-mode normal",
    ),
    Transport("all-gather", "all-gather and reduce-scatter", "to all ranks", "vLLM's default"),
)
"""From DeepEP (csrc/kernels/legacy: internode_ll.cu sends a message for each chosen expert,
layout.cu marks each destination rank once) and vLLM's docs/serving/expert_parallel_deployment.md,
read November 2026."""


@dataclass(frozen=True)
class MovedBytes:
    """Bytes of one routed layer at the rank that receives most, by draft length K [nK]."""

    transport: Transport
    drafts: NDArray[np.int64]
    dispatch: Array
    combine: Array
    per_token: Array
    """Dispatch and combine of all routed layers and all ranks, for each token emitted. [B]"""
    per_step: Array
    """Dispatch and combine of all routed layers, at the rank that receives most. [B]"""


def moved(
    setup: Setup, counts: Counted, drafts: NDArray[np.int64], accepted: Array
) -> tuple[MovedBytes, ...]:
    """Bytes that the exchange of tokens moves, by transport and K.

    drafts, accepted : K, and tokens that a round emits, [nK]. [-]

    Empty for a dense model, and where attention and experts share the same ranks.
    """
    moe = setup.architecture.moe
    placement = setup.placement
    if moe is None or placement.attention_groups == 1:
        return ()
    step = drafts
    hidden = float(setup.architecture.hidden_size)
    ranks = placement.expert_parallel
    tokens = np.asarray(setup.scenario.batch_size * (step + 1.0), float)
    out = []
    for transport in TRANSPORTS:
        if transport.travels == "to all ranks":
            each = laws.gathered_bytes(laws.message_bytes(tokens / ranks, hidden), ranks)
            dispatch = each
            combine = each
            everywhere = 2.0 * each * ranks
        else:
            per_expert = transport.travels == "to each expert"
            largest = (counts.received_pairs if per_expert else counts.received_tokens)[step]
            mean = (counts.mean_received_pairs if per_expert else counts.mean_received_tokens)[step]
            dispatch = laws.fp8_messages(largest, hidden)
            combine = laws.message_bytes(largest, hidden)
            everywhere = (
                laws.fp8_messages(mean, hidden) + laws.message_bytes(mean, hidden)
            ) * ranks
        emitted = setup.scenario.batch_size * accepted
        out.append(
            MovedBytes(
                transport,
                drafts,
                np.asarray(dispatch),
                np.asarray(combine),
                np.asarray(everywhere * moe.count / emitted),
                np.asarray((dispatch + combine) * moe.count),
            )
        )
    return tuple(out)


@dataclass(frozen=True)
class ChargedBytes:
    """Bytes of one direction and rank that an exchange is priced by, [nK]. [B] Before the fullest
    rank's share."""

    inside: Array
    """Over the links inside a node: k times the rank's tokens that stay there, in 16 bits
    (`laws.sent_bytes`).

    The rate was fitted on measured kernels with bytes counted the same way, tokens spread evenly:
    what is saved by 8 bits, or by sending a token once, is in the rate.
    """
    outside: Array
    """Over the network, as they travel; the longer of both times counts
    (`laws.expert_exchange`)."""


def charged(setup: Setup, drafts: NDArray[np.int64]) -> ChargedBytes:
    """Bytes that a step of K drafts is charged for, by K [nK]. The scenario has several attention
    groups."""
    placement = setup.placement
    rows = np.asarray(
        setup.scenario.batch_size / placement.attention_groups * (drafts + 1.0), float
    )
    steps = exchanges(
        setup.architecture, setup.costs, placement, rows, MoeShape.of(setup.architecture)
    )
    (values,) = [exchange.symbols for exchange in steps if exchange.kind == "expert exchange"]
    share = values.get("s", 0.0)
    sent = laws.sent_bytes(values["X"], values["k"], values["tp"])
    return ChargedBytes(
        np.asarray((1.0 - share) * sent), np.asarray(share * values.get("X_net", 0.0) + 0.0 * rows)
    )


@dataclass(frozen=True)
class LayoutOptions:
    """Layouts to try: copies of experts, machines, and groups of experts that stay together on
    one."""

    redundant: tuple[int, ...] = ()
    """Copies to try; empty: none, and one for each rank. [-]"""
    ranks_per_node: int | None = None
    """None: the GPUs of the accelerator's own node. [-]"""
    groups: int = 1


@dataclass(frozen=True, eq=False)
class LayoutCost:
    """One layout of experts and what it costs at the scenario's batch, over draft lengths K."""

    name: str
    redundant: int
    touched: Array
    """Experts read in a layer by the rank that reads most, by K; it need not be the slowest. [-]"""
    pairs_ratio: Array
    """Expert choices of the fullest rank over the mean rank's, by K. [-]"""
    curve: Curve
    """Curve at the one batch."""
    extra_bytes: float
    """Weights of the copies on one rank. [B]"""
    best: int
    """Column of the recommended K."""
    is_balanced: bool = False
    """Whether experts are placed by their load; else they lie in order."""


@dataclass(frozen=True, eq=False)
class RanksAnswer:
    """Everything about a scenario's experts on its ranks."""

    setup: Setup
    traffic: Traffic
    placing: LayoutOptions
    arms: tuple[LayoutCost, ...]
    """Assumed, in order, then balanced by number of copies."""
    moved: tuple[MovedBytes, ...]
    """Bytes moved with the experts in order."""
    counts: Counted
    """Loads of the ranks with the experts in order, by tokens that a sequence has in a step."""

    @property
    def assumed(self) -> LayoutCost:
        """The arm of the prediction without counts."""
        return self.arms[0]

    @property
    def in_order(self) -> LayoutCost:
        """The engines' default."""
        return self.arms[1]

    @property
    def best(self) -> LayoutCost:
        """The counted arm of least time per token, each at its own K, that fits, else of those
        without copies."""
        counted_arms = self.arms[1:]
        able = [arm for arm in counted_arms if self.fits(arm)] or [
            arm for arm in counted_arms if not arm.extra_bytes
        ]
        return min(able, key=_tpot)

    @property
    def quickest(self) -> LayoutCost:
        """The counted arm of the least time per token, whether or not it fits in memory."""
        return min(self.arms[1:], key=_tpot)

    def fits(self, arm: LayoutCost) -> bool:
        """Whether the scenario's batch and the copies of an arm fit in a GPU's memory."""
        memory = self.setup.memory
        setup = self.setup
        used = memory.total_bytes(setup.scenario.batch_size)
        return bool(used + arm.extra_bytes <= memory.usable_bytes)


def _tpot(arm: LayoutCost) -> float:
    return float(arm.curve.tpot_s[0, arm.best])


def ranks_answer(
    setup: Setup, traffic: Traffic, placing: LayoutOptions | None = None
) -> RanksAnswer:
    """Place experts in several ways, the slowest rank counted. Raises AdvisorError where that
    cannot be."""
    placing = placing or LayoutOptions()
    setup = with_assumed_ranks(setup)
    node = placing.ranks_per_node or gpus_of_node(setup.hardware)
    ranks = setup.placement.expert_parallel
    n_experts = traffic.loads.shape[1]
    if ranks < 2:
        raise AdvisorError(
            "the scenario has one expert-parallel rank, which holds all experts; give --ep, e.g. "
            "--ep 8"
        )
    nodes = -(-ranks // node) if placing.groups > 1 else 1
    sources = Sources(setup.placement.attention_groups, node)
    least = filling_copies(n_experts, ranks, 0)
    # Copies of each counted layout; None: experts lie in order.
    copies = [None, *sorted(set(placing.redundant or (least, least + ranks)))]
    plans = [
        layout_plan(n_experts, ranks, n, *(() if n is None else (nodes, placing.groups)))
        for n in copies
    ]
    steps = Steps(setup.scenario.batch_size, setup.longest_step)
    counts = counted(setup.routed_layer.rank_seconds, traffic, plans, sources, steps)
    arms = [
        _assumed(setup),
        *(_arm(setup, n, count) for n, count in zip(copies, counts, strict=True)),
    ]
    curve = arms[1].curve
    travels = moved(setup, counts[0], curve.drafts, curve.accepted_length)
    return RanksAnswer(setup, traffic, placing, tuple(arms), travels, counts[0])


def _assumed(setup: Setup) -> LayoutCost:
    curve = curve_for(setup, [setup.scenario.batch_size])
    experts = float(setup.architecture.moe.n_experts)  # type: ignore[union-attr]
    ranks = setup.placement.expert_parallel
    touched_overall = touched_in_pass(setup, float(setup.scenario.batch_size), curve.drafts + 1.0)
    slowest = local_experts(touched_overall, experts, ranks)
    return LayoutCost(
        "assumed",
        0,
        slowest,
        slowest / (touched_overall / ranks),
        curve,
        0.0,
        recommended_draft(setup, curve, 0),
    )


def _arm(setup: Setup, copies: int | None, counts: Counted) -> LayoutCost:
    balance = counts.balance(setup.scenario.batch_size)
    counted_setup = replace(setup, placement=replace(setup.placement, balance=balance))
    curve = curve_for(counted_setup, [setup.scenario.batch_size])
    name = "in order"
    if copies is not None:
        name = f"balanced, {copies} copies" if copies else "balanced"
    redundant = copies or 0
    with_copies = replace(setup.placement, redundant=redundant)
    own_bytes = weight_bytes_per_gpu(setup.architecture, setup.placement)
    bytes_with_copies = weight_bytes_per_gpu(setup.architecture, with_copies)
    return LayoutCost(
        name,
        redundant,
        counts.touched[curve.drafts],
        (counts.pairs / counts.mean_pairs)[curve.drafts],
        curve,
        bytes_with_copies - own_bytes,
        recommended_draft(setup, curve, 0),
        is_balanced=copies is not None,
    )
