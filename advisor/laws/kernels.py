"""The laws of one forward pass without attention: what its kernels move and compute, and how long that takes."""

from __future__ import annotations

import numpy as np

from advisor.arrays import Floats
from advisor.laws.forms import one_minus_power, p_norm

TILE_ROWS = 16.0
"""Rows to which an expert's block of tokens is padded at least. [1]"""
TILE_PADDING = 7.5
"""Mean rows added by padding a block to the next multiple of 16. [1]"""
SMALL_KERNEL_BYTES = 24.0
"""Moved by the small kernels of a layer for one element of the hidden state of a prompt's token (assumed). [B]"""
MESSAGE_BYTES = 2.0
"""Activations travel between GPUs in 16 bits. [B]"""
FP8_MESSAGE_BYTES = 1.0 + 4.0 / 128.0
"""An element in 8 bits with a 32-bit scale for each 128, as DeepEP's dispatch sends it. [B]"""
MESSAGE_HEADER_BYTES = 16.0
"""What DeepEP's low-latency dispatch puts before each message. [B]"""

ROUTED_COEFFICIENTS = ("t0", "BW", "tau", "F_peak", "BW_act", "tau_N")
"""What `routed_layers` is linear in, a rate by its inverse."""
STREAM_COEFFICIENTS = ("t0", "BW")
"""The same of `stream`."""


def step_tokens(B: Floats, q: Floats) -> Floats:
    """Tokens in a step.

    M = B × q

    B: sequences of the instance. [1]
    q: tokens of each, 1 in plain decode and K + 1 in verification. [1]
    """
    return B * q


def uniform_experts(N: Floats, k: Floats, M: Floats) -> Floats:
    """Distinct routed experts that M tokens touch in one layer, each choosing uniformly and independently.

    U = N × (1 - (1 - k / N)^M)

    N, k: routed experts of the layer, and those of one token, 1 <= k <= N. [1]
    M: tokens in the step. [1]
    Limits: k at M = 1, N for many tokens. Real routers are correlated and uneven: see Routing.
    Source: MoESD, arXiv:2505.19645, eq. 8.
    """
    return N * one_minus_power(1 - k / N, M)


def rows_per_expert(M: Floats, k: Floats, U: Floats) -> Floats:
    """Mean rows of a touched expert.

    m = M × k / U

    M, k: tokens in the step, routed experts of each. [1]
    U: distinct experts that they touch. [1]
    """
    return M * k / U


def expert_weight_bytes(n_mat: Floats, h: Floats, I: Floats, b: Floats, U: Floats) -> Floats:  # noqa: E741
    """Weights of the touched experts of one layer, on one rank.

    W = n_mat × h × I × b × U

    n_mat: matrices of an expert, 3 where it is gated, else 2. [1]
    h, I: width an expert reads, and its inner width on this rank. [1]
    b: storage of one weight, scales included. [B]
    U: distinct experts touched on this rank. [1]
    Limits: each expert is read once, whether one token uses it or fifty.
    """
    return n_mat * h * I * b * U


def expert_flops(n_mat: Floats, h: Floats, I: Floats, U: Floats, m: Floats) -> Floats:  # noqa: E741
    """Operations of the touched experts of one layer, padded to tiles of 16 rows.

    F = 2 × n_mat × h × I × U × max(16, m + 7.5)

    n_mat, h, I, U: as in the weights. [1]
    m: mean rows of a touched expert; each block of rows is filled up to a multiple of 16, by 7.5 on average. [1]
    Source: docs/decisions/0002-moe-kernel-form.md.
    """
    return 2 * n_mat * h * I * U * np.maximum(TILE_ROWS, m + TILE_PADDING)


def expert_activation_bytes(M: Floats, k: Floats, h: Floats, n_mat: Floats, I: Floats, ep: Floats = 1.0) -> Floats:  # noqa: E741
    """Activations that the routed experts of one layer move on one rank, in 16 bits.

    A = M × k / ep × (4 × h + 2 × n_mat × I) + 4 × M × h

    M, k: tokens in the step, routed experts of each. [1]
    h, n_mat, I: as in the weights: an expert reads and writes h elements a row, and n_mat I between its matrices. [1]
    ep: ranks that share the experts. [1]
    Limits: the last term gathers the tokens and adds up their results.
    """
    return M * k / ep * (4 * h + 2 * n_mat * I) + 4 * M * h


def routed_layers(
    W: Floats,
    U: Floats,
    F: Floats,
    A: Floats,
    N: Floats,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    tau: Floats = 0.0,
    F_peak: Floats = np.inf,
    BW_act: Floats = np.inf,
    tau_N: Floats = 0.0,
    ep: Floats = 1.0,
    c: Floats = 1.0,
    L: Floats = 1.0,
) -> Floats:
    """Time of the routed experts of L layers, on the slowest rank.

    T_routed = L × c × (t0 + W / BW + U × tau + F / F_peak + A / BW_act + N / ep × tau_N)

    L, t0: layers [1], and the fixed cost of one. [s]
    W, F, A: weights read [B], operations [FLOP] and activations moved [B], of one layer.
    BW, F_peak, BW_act: rates of the three, fitted slopes and not the data sheet's. [B/s], [FLOP/s], [B/s]
    U, tau: distinct experts touched on the rank [1], and the cost of each. [s]
    N, ep, tau_N: experts of the layer, ranks that share them [1], and the cost of each resident one. [s]
    c: correction by the rows m of a touched expert, which carries the tile switches of a kernel; or r, measured over
      computed time of this very shape. [1]
    Limits: tables of up to 2048 tokens; linear in t0, tau, tau_N and the inverse rates.
    Source: chosen by leave-one-shape-out error, docs/decisions/0002-moe-kernel-form.md.
    """
    return L * (c * (t0 + W / BW + U * tau + F / F_peak + A / BW_act + N / ep * tau_N))


def gemm(
    W: Floats,
    b: Floats,
    M: Floats,
    p: Floats,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    F_peak: Floats = np.inf,
    n: Floats = 1.0,
    L: Floats = 1.0,
) -> Floats:
    """Time of matrix products: attention projections, dense and shared feed-forward blocks, router, LM head.

    T = L × (n × t0 + [(W × b / BW)^p + (2 × M × W / F_peak)^p]^(1/p))

    L, n: layers, and launches in one layer. [1]
    t0: fixed cost of a launch. [s]
    W, b: weights of one layer on this rank [1], and the storage of one. [B]
    M: rows that are multiplied. [1]
    BW, F_peak: rates of reading weights and of arithmetic, fitted slopes and not the data sheet's. [B/s], [FLOP/s]
    p: sharpness of the bend between the two. [1]
    Limits: few rows wait for the weights, n t0 + W b / BW; many for arithmetic, n t0 + 2 M W / F_peak.
    """
    return L * (n * t0 + p_norm(W * b / BW, 2 * M * W / F_peak, p))


def stream(R: Floats, t0: Floats = 0.0, BW: Floats = np.inf, r: Floats = 1.0) -> Floats:
    """Time to move bytes after a fixed start: a cache, a message.

    T = r × (t0 + R / BW)

    t0: fixed cost of a call. [s]
    R, BW: bytes [B] and their rate. [B/s]
    r: measured over computed time at this size, where every size was measured. [1]
    """
    return r * (t0 + R / BW)


def prompt_small(P: Floats, d: Floats, L: Floats, BW: Floats) -> Floats:
    """Time of the small kernels of a prompt: norms, rotary embeddings, activations, additions, quantisation.

    T_small = P × L × d × 24 / BW

    P, L, d: tokens, layers, hidden size: 12 passes over rows of 16 bits in a layer (assumed). [1]
    BW: rate of reading and writing. [B/s]
    """
    return P * L * d * SMALL_KERNEL_BYTES / BW


def message_bytes(M: Floats, d: Floats) -> Floats:
    """Message of one exchange between GPUs, in 16 bits.

    X = M × d × 2

    M: rows of one attention group. [1]
    d: hidden size. [1]
    """
    return M * d * MESSAGE_BYTES


def fp8_messages(M: Floats, d: Floats) -> Floats:
    """Messages of an expert exchange whose activations travel in 8 bits.

    X_8 = M × (d × 1.03125 + 16)

    M: messages, one for each token and destination. [1]
    d: hidden size; a scale of 32 bits goes with every 128 elements, a header with every message. [1]
    Source: DeepEP, csrc/kernels/legacy/internode_ll.cu at dd758ca, num_bytes_per_msg.
    """
    return M * (d * FP8_MESSAGE_BYTES + MESSAGE_HEADER_BYTES)


def gathered_bytes(X: Floats, R: Floats) -> Floats:
    """Bytes that each rank receives where every rank gets all tokens: all-gather, and reduce-scatter as much.

    X_all = X × (R - 1)

    X: message of the tokens of one rank. [B]
    R: ranks. [1]
    """
    return X * (R - 1)


def all_reduces(X: Floats, t0: Floats = 0.0, BW: Floats = np.inf, r: Floats = 1.0, L: Floats = 1.0) -> Floats:
    """Time of the two all-reduces in each of L layers under tensor parallelism.

    T_reduce = 2 × L × r × (t0 + X / BW)

    L: layers. [1]
    t0: fixed cost of a call. [s]
    X, BW: message [B], and its rate. [B/s]
    r: measured over computed time at this size. [1]
    """
    return 2 * L * stream(X, t0, BW, r)


def sent_bytes(X: Floats, k: Floats, tp: Floats = 1.0) -> Floats:
    """Bytes that one rank sends in one direction of an expert exchange.

    X_k = X / tp × k

    X: message of one attention group. [B]
    k, tp: routed experts of a token, ranks of the group. [1]
    """
    return X / tp * k


def expert_exchange(
    X: Floats,
    k: Floats,
    tp: Floats = 1.0,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    r: Floats = 1.0,
    L: Floats = 1.0,
) -> Floats:
    """Time of dispatch and combine in each of L layers under expert parallelism.

    T_exchange = 2 × L × r × (t0 + X / tp × k / BW)

    L: routed layers. [1]
    t0: fixed cost of one direction. [s]
    X, k, tp: message [B], routed experts of a token, ranks of an attention group. [1]
    BW: rate of what one rank sends. [B/s]
    r: measured over computed time at this size. [1]
    """
    return 2 * L * stream(sent_bytes(X, k, tp), t0, BW, r)


def launches(c_l: Floats, L: Floats) -> Floats:
    """Time of launching the kernels of L layers.

    T_launch = c_l × L

    c_l: launch overhead of a layer, fitted per engine class. [s]
    L: layers. [1]
    """
    return c_l * L


def norms(c_q: Floats, L_q: Floats) -> Floats:
    """Time of normalising queries and keys, where an engine runs kernels of their own for that.

    T_norm = c_q × L_q

    c_q: of a layer, fitted per engine and version. [s]
    L_q: layers that do. [1]
    Source: docs/decisions/0013-small-launches.md.
    """
    return c_q * L_q


def between_knots(x: Floats, x_1: Floats, x_2: Floats, c_1: Floats, c_2: Floats) -> Floats:
    """Factor between two measured sizes: straight in the logarithms.

    c = c_1 × (c_2 / c_1)^(log(x / x_1) / log(x_2 / x_1))

    x, x_1, x_2: size asked for and its measured neighbours, x_1 <= x <= x_2. [as x]
    c_1, c_2: factors measured there. [1]
    Limits: beyond the outer knots the factor is constant (`kernel_costs.factor_at` reads whole curves).
    """
    return c_1 * (c_2 / c_1) ** (np.log(x / x_1) / np.log(x_2 / x_1))


def ridge(F_peak: Floats, BW: Floats) -> Floats:
    """Arithmetic intensity at which arithmetic takes over from reading.

    ridge = F_peak / BW

    F_peak, BW: rates of arithmetic [FLOP/s] and of reading. [B/s]
    Source: Williams et al., "Roofline", Communications of the ACM 52(4), 2009.
    """
    return F_peak / BW


def bandwidth_share(R: Floats, T: Floats, BW: Floats) -> Floats:
    """Share of a bandwidth that a kernel reaches.

    share = R / T / BW

    R, T: bytes moved [B], and the time that takes. [s]
    BW: the bandwidth. [B/s]
    """
    return R / T / BW
