"""What dispatch and combine move in a step, by the way engines exchange tokens; and what the prediction charges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor import laws
from advisor.arrays import Array
from advisor.expert_traffic import Counted
from advisor.setup import Setup
from advisor.step_cost import MoeShape, exchanges

Travels = Literal["to each expert", "to each rank", "to all ranks"]


@dataclass(frozen=True)
class Transport:
    """One way of exchanging tokens, as engines offer it."""

    id: str
    name: str
    travels: Travels
    fp8_dispatch: bool
    """Whether dispatch travels in 8 bits; combine comes back in 16."""
    flags: str
    """Options of vLLM and SGLang that choose it."""


TRANSPORTS = (
    Transport(
        "low-latency",
        "DeepEP low latency",
        "to each expert",
        True,
        "--all2all-backend deepep_low_latency; --moe-a2a-backend deepep --deepep-mode low_latency",
    ),
    Transport(
        "high-throughput",
        "DeepEP normal",
        "to each rank",
        True,
        "--all2all-backend deepep_high_throughput; --moe-a2a-backend deepep --deepep-mode normal",
    ),
    Transport("all-gather", "all-gather and reduce-scatter", "to all ranks", False, "vLLM's default"),
)
"""From DeepEP (csrc/kernels/legacy: internode_ll.cu sends a message for each chosen expert, layout.cu marks each
destination rank once) and vLLM's docs/serving/expert_parallel_deployment.md, read November 2026."""


@dataclass(frozen=True)
class Moved:
    """Bytes of one routed layer at the rank that receives most, by draft length K [nK]."""

    transport: Transport
    drafts: NDArray[np.int64]
    dispatch: Array
    combine: Array
    per_token: Array
    """Dispatch and combine of all routed layers and all ranks, for each token emitted. [B]"""
    per_step: Array
    """Dispatch and combine of all routed layers, at the rank that receives most. [B]"""


def moved(setup: Setup, found: Counted, drafts: NDArray[np.int64], accepted: Array) -> tuple[Moved, ...]:
    """Bytes that the exchange of tokens moves, by transport and K.

    drafts, accepted : K, and tokens that a round emits, [nK]. [-]

    Empty for a dense model, and where attention and experts share the same ranks.
    """
    moe, placement = setup.architecture.moe, setup.placement
    if moe is None or placement.attention_groups == 1:
        return ()
    step, hidden = drafts, float(setup.architecture.hidden_size)
    ranks, tokens = placement.expert_parallel, np.asarray(setup.scenario.batch_size * (step + 1.0), float)
    out = []
    for transport in TRANSPORTS:
        if transport.travels == "to all ranks":
            each = laws.gathered_bytes(laws.message_bytes(tokens / ranks, hidden), ranks)
            dispatch, combine, everywhere = each, each, 2.0 * each * ranks
        else:
            per_expert = transport.travels == "to each expert"
            most = (found.received_pairs if per_expert else found.received_tokens)[step]
            mean = (found.mean_received_pairs if per_expert else found.mean_received_tokens)[step]
            dispatch, combine = laws.fp8_messages(most, hidden), laws.message_bytes(most, hidden)
            everywhere = (laws.fp8_messages(mean, hidden) + laws.message_bytes(mean, hidden)) * ranks
        emitted = setup.scenario.batch_size * accepted
        out.append(
            Moved(
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
class Charged:
    """Bytes of one direction and rank that an exchange is priced by, [nK]. [B]

    Before the fullest rank's share.
    """

    inside: Array
    """Over the links inside a node: k times the rank's tokens that stay there, in 16 bits (`laws.sent_bytes`).

    The rate was fitted on measured kernels with bytes counted the same way, tokens spread evenly: what is saved by 8
    bits, or by sending a token once, is in the rate.
    """
    outside: Array
    """Over the network, as they travel; the longer of both times counts (`laws.expert_exchange`)."""


def charged(setup: Setup, drafts: NDArray[np.int64]) -> Charged:
    """Bytes that a step of K drafts is charged for, by K [nK]. The scenario has several attention groups."""
    placement = setup.placement
    rows = np.asarray(setup.scenario.batch_size / placement.attention_groups * (drafts + 1.0), float)
    found = exchanges(setup.architecture, setup.costs, placement, rows, MoeShape.of(setup.architecture))
    (values,) = (one.symbols for one in found if one.kind == "expert exchange")
    share = values.get("s", 0.0)
    sent = laws.sent_bytes(values["X"], values["k"], values["tp"])
    return Charged(np.asarray((1.0 - share) * sent), np.asarray(share * values.get("X_net", 0.0) + 0.0 * rows))
