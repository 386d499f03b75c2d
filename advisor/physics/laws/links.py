"""The laws of messages between the GPUs of an instance: all-reduces, and the exchange of tokens
with experts."""

from __future__ import annotations

import numpy as np

from advisor.physics.laws.kernels import stream
from advisor.prediction import Floats

MESSAGE_BYTES = 2.0
"""Activations travel between GPUs in 16 bits. [B]"""
FP8_MESSAGE_BYTES = 1.0 + 4.0 / 128.0
"""An element in 8 bits with a 32-bit scale for each 128, as DeepEP's dispatch sends it. [B]"""
MESSAGE_HEADER_BYTES = 16.0
"""What DeepEP's low-latency dispatch puts before each message. [B]"""


def message_bytes(M: Floats, d: Floats) -> Floats:
    """Message of one exchange between GPUs, in 16 bits.

    X = M × d × 2

    M: rows of one attention group. [-]
    d: hidden size. [-]
    Limits: grows with the rows: B / groups in plain decode, q times as many in verification.
    Source: own derivation: one row of the hidden state for each token.
    """
    return M * d * MESSAGE_BYTES


def fp8_messages(M: Floats, d: Floats) -> Floats:
    """Bytes of messages of an expert exchange whose activations travel in 8 bits.

    X_8 = M × (d × 1.03125 + 16)

    M: messages, one for each token and destination. [-]
    d: hidden size; a scale of 32 bits goes with every 128 elements, a header of 16 B with every
        message. [-]
    Limits: 0.52 of the bytes of 16 bits for a wide hidden state. The header is that of low-latency
      dispatch; the normal mode sends origin, chosen experts and their weights in its place, and is
          taken to be as long.
    Source: [DeepEP] https://github.com/deepseek-ai/DeepEP, csrc/kernels/legacy/internode_ll.cu at
      dd758ca, num_bytes_per_msg.
    """
    return M * (d * FP8_MESSAGE_BYTES + MESSAGE_HEADER_BYTES)


def gathered_bytes(X: Floats, R: Floats) -> Floats:
    """Bytes that each rank receives of an all-gather, where every rank gets all tokens.

    X_all = X × (R - 1)

    X: message of the tokens of one rank, as long on each. [B]
    R: ranks. [-]
    Limits: 0 on one rank; a reduce-scatter, which brings the results back, receives as much.
    Source: own derivation: the message of every other rank, once.
    """
    return X * (R - 1)


def all_reduces(
    X: Floats, t0: Floats = 0.0, BW: Floats = np.inf, r: Floats = 1.0, L: Floats = 1.0
) -> Floats:
    """Time of the two all-reduces in each of L layers under tensor parallelism.

    T_reduce = 2 × L × r × (t0 + X / BW)

    L: layers. [-]
    t0: fixed cost of a call. [s]
    X, BW: message [B], and its rate. [B/s]
    r: measured over computed time at this size. [-]
    Limits: 2 L t0 for few rows, whatever they are; not charged on one rank.
    Source: two a layer, Megatron-LM, arXiv:1909.08053; time by the form of
        docs/decisions/0002-moe-kernel-form.md.
    """
    # One after attention, one after the feed-forward block.
    return 2 * L * stream(X, t0, BW, r)


def sent_bytes(X: Floats, k: Floats, tp: Floats = 1.0) -> Floats:
    """Bytes that one rank sends in one direction of an expert exchange.

    X_k = X / tp × k

    X: message of one attention group. [B]
    k, tp: routed experts of a token, ranks of the group. [-]
    Limits: an upper bound: experts on the same rank, or several on one other, need no message of
        their own.
    Source: own derivation: one copy of a row for each of its k experts.
    """
    return X / tp * k


def other_nodes(n: Floats, R: Floats) -> Floats:
    """Share of a token's expert choices that lie on other nodes than the token.

    s = max(0, 1 - n / R)

    n, R: ranks of one node, and expert-parallel ranks. [-]
    Limits: 0 up to one node; 1 for many nodes.
    Source: own derivation: experts spread evenly over ranks, each choice as likely on one as on
        another.
    """
    return np.maximum(0.0, 1 - n / R)


def nodes_reached(n: Floats, R: Floats, k: Floats) -> Floats:
    """Other nodes that serve a token, in the mean.

    h = max(0, R / n - 1) × (1 - max(0, 1 - n / R)^k)

    n, R: ranks of one node, and expert-parallel ranks. [-]
    k: routed experts of a token. [-]
    Limits: 0 up to one node; k × (1 - n / R) for many nodes, where no two choices share one, and
      never more. Routing that keeps a token on a few nodes, as DeepSeek-V3's does beyond four,
          reaches fewer.
    Source: own derivation: each of R/n nodes is missed by all k choices with probability (1 -
        n/R)^k.
    """
    return np.maximum(0.0, R / n - 1) * (1 - other_nodes(n, R) ** k)


def wire_bytes(X_out: Floats, X: Floats, k: Floats, tp: Floats = 1.0) -> Floats:
    """Bytes of one rank in an expert exchange as they travel, mean of dispatch and combine.

    X_net = (X_out + X) / 2 / tp × k

    X_out, X: message of one attention group to the experts, in 8 or 16 bits, and of the same rows
        back. [B]
    k, tp: messages of a token, and ranks of the group. [-]
    Limits: decode has one message for each chosen expert, as low-latency kernels send; prompts have
      one for each other node (`nodes_reached`), which passes it on inside.
    Source: own derivation: half of dispatch and combine.
    """
    return (X_out + X) / 2 / tp * k


def network_wait(X_net: Floats, s: Floats, t_net: Floats = 0.0, BW_net: Floats = np.inf) -> Floats:
    """Time of the messages to other nodes in one direction of an expert exchange.

    T_net = s × (t_net + X_net / BW_net)

    X_net: bytes of one rank as they travel. [B]
    s: share of them that leaves the node. [-]
    t_net, BW_net: latency [s] and rate of a GPU's share of the network. [B/s]
    Limits: 0 inside one node; t_net + X_net / BW_net for many nodes. Congestion is not in it.
    Source: docs/decisions/0016-between-nodes.md.
    """
    return s * (t_net + X_net / BW_net)


def fullest_rows(M: Floats, p: Floats) -> Floats:
    """Rows of an expert exchange at the rank that receives most, where ranks were counted.

    M_max = p × M

    M: tokens of a rank where they are spread evenly. [-]
    p: expert choices that the rank serves over the mean rank's, counted on loads or a trace. [-]
    Limits: M where ranks are alike.
    Source: own derivation: a rank's port carries what comes to it; not measured
        (docs/expert-parallel.md).
    """
    return p * M


def expert_exchange(
    X: Floats,
    k: Floats,
    tp: Floats = 1.0,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    r: Floats = 1.0,
    L: Floats = 1.0,
    X_net: Floats = 0.0,
    s: Floats = 0.0,
    t_net: Floats = 0.0,
    BW_net: Floats = np.inf,
) -> Floats:
    """Time of dispatch and combine in each of L layers under expert parallelism.

    T_exchange = 2 × L × r × (t0 + max((1 - s) × X / tp × k / BW, s × (t_net + X_net / BW_net)))

    L: routed layers. [-]
    t0: fixed cost of one direction. [s]
    X, k, tp: message [B], routed experts of a token, ranks of an attention group. [-]
    BW: rate of what one rank sends inside a node. [B/s]
    r: measured over computed time at this size. [-]
    X_net, s: bytes of one rank as they travel [B], and the share of them that leaves the node. [-]
    t_net, BW_net: latency [s] and rate of the network, per GPU. [B/s]
    Limits: 2 L t0 for few rows inside a node, where s = 0; not charged where every rank holds all
      of its tokens' experts (ep <= tp).
    Source: own derivation: one message to the experts and one back; time inside a node by the form
      of docs/decisions/0002-moe-kernel-form.md, beyond it docs/decisions/0016-between-nodes.md.
    """
    # Dispatch carries rows to their experts, combine carries the results back; links and network
    # work side by side.
    return (
        2
        * L
        * (
            r
            * (
                t0
                + np.maximum(
                    (1 - s) * sent_bytes(X, k, tp) / BW, network_wait(X_net, s, t_net, BW_net)
                )
            )
        )
    )


def prompt_exchange(
    X: Floats,
    k: Floats,
    tp: Floats = 1.0,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    r: Floats = 1.0,
    L: Floats = 1.0,
    X_net: Floats = 0.0,
    s: Floats = 0.0,
    t_net: Floats = 0.0,
    BW_net: Floats = np.inf,
) -> Floats:
    """Time of dispatch and combine in each of L layers where a token goes once to each node:
    prompts.

    T_exchange = 2 × L × r × (t0 + max(X / tp × k / BW, s × t_net + X_net / BW_net))

    L: routed layers. [-]
    t0: fixed cost of one direction. [s]
    X, k, tp: message [B], routed experts of a token, ranks of an attention group. [-]
    BW: rate of what one rank sends inside a node. [B/s]
    r: measured over computed time at this size. [-]
    X_net: bytes of one rank that leave its node, as they travel: a message for each other node that
      a token reaches. [B]
    s: share of expert choices that lie on other nodes. [-]
    t_net, BW_net: latency [s] and rate of the network, per GPU. [B/s]
    Limits: that of `expert_exchange` inside one node, where s = 0 and X_net = 0; X_net / BW_net for
      long prompts on many nodes.
    Source: own derivation: what another node receives once it passes on to each expert's rank, so
      that links carry every message, beside the network; docs/decisions/0016-between-nodes.md.
    """
    # Tokens cross the network to one rank of a node and its links to the others: the two work side
    # by side.
    return 2 * L * (r * (t0 + np.maximum(sent_bytes(X, k, tp) / BW, s * t_net + X_net / BW_net)))
