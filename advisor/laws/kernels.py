"""The laws of one forward pass: what its kernels move and compute, and how long that takes."""

from __future__ import annotations

import numpy as np

from advisor.arrays import Floats
from advisor.laws.forms import one_minus_power, p_norm

TILE_ROWS = 16.0
"""Rows to which an expert's block of tokens is padded at least. [1]"""
TILE_PADDING = 7.5
"""Mean rows added by padding a block to the next multiple of 16. [1]"""
STATE_BYTES = 4.0
"""Recurrent states are kept in fp32. [B]"""
SMALL_KERNEL_BYTES = 24.0
"""Moved by the small kernels of a layer for one element of the hidden state of a prompt's token (assumed). [B]"""
MESSAGE_BYTES = 2.0
"""Activations travel between GPUs in 16 bits. [B]"""

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


def cache_read(
    B: Floats,
    c: Floats,
    q: Floats,
    e: Floats,
    b: Floats,
    r: Floats = 1.0,
    w: Floats = np.inf,
    n_q: Floats = 1.0,
    w_local: Floats = 0.0,
    s: Floats = 1.0,
    e_index: Floats = 0.0,
) -> Floats:
    """Bytes of KV cache that one layer of softmax attention reads on one rank.

    R = B × ((min(min((c + q) / r, w) × n_q, (c + q) / r) + min(c + q, w_local)) × e × b / s + (c + q) / r × e_index)

    B: sequences of one attention group. [1]
    c, q: cached tokens of each, and new ones. [1]
    r: positions held by one entry of a compressed cache. [1]
    w: entries that a window, or the choice of sparse attention, lets through. [1]
    n_q: queries that choose their own entries: q in sparse attention, else 1. [1]
    w_local: uncompressed recent positions read beside a compressed cache. [1]
    e, b: elements of an entry, K and V together [1], and the storage of one. [B]
    s: ranks that split the cache, at most the KV heads; a latent cache is replicated. [1]
    e_index: index keys of an entry, all read before sparse attention chooses, in fp8. [B]
    Limits: read once per sequence, whatever q is.
    """
    return B * (
        (np.minimum(np.minimum((c + q) / r, w) * n_q, (c + q) / r) + np.minimum(c + q, w_local)) * e * b / s
        + (c + q) / r * e_index
    )


def attention_flops(
    B: Floats,
    c: Floats,
    q: Floats,
    a: Floats,
    H: Floats,
    m_0: Floats,
    n_g: Floats = 1.0,
    r: Floats = 1.0,
    w: Floats = np.inf,
    n_q: Floats = 1.0,
    tp: Floats = 1.0,
    s: Floats = 1.0,
) -> Floats:
    """Operations of one layer's softmax attention core on one rank, padded to the rows of a matrix instruction.

    F = B × n_q × max(q / n_q × H / tp, m_0 × n_g / s) × min((c + q) / r, w) × a

    B, c, q, r, w, n_q: as in the cache read. [1]
    H, a: query heads [1], and the operations of one of them against one entry: 2 (d_qk + d_v). [FLOP]
    m_0, n_g: rows of a block, and the KV heads that have blocks of their own: the queries that share a KV head, those
      of all q tokens together, fill its blocks. [1]
    tp, s: ranks that split the query heads, and those that split the KV heads. [1]
    """
    return B * n_q * np.maximum(q / n_q * H / tp, m_0 * n_g / s) * np.minimum((c + q) / r, w) * a


def prompt_flops(P: Floats, a: Floats, r: Floats = 1.0, w: Floats = np.inf, tp: Floats = 1.0) -> Floats:
    """Operations of one layer's softmax attention over a prompt, on one rank.

    F = P × min(P / 2 / r, w) × a / tp

    P: tokens of the prompt; one of them attends to half of it in the mean. [1]
    r: positions held by one entry of a compressed cache. [1]
    w: entries that a window, or the choice of sparse attention, lets through. [1]
    a: operations of one query against one entry: 2 heads (d_qk + d_v). [FLOP]
    tp: ranks that split the heads. [1]
    """
    return P * np.minimum(P / 2 / r, w) * a / tp


def prompt_attention(F: Floats, eta: Floats, F_peak: Floats) -> Floats:
    """Time of the attention of a prompt's tokens on each other, in all layers.

    T_attn = F / (eta × F_peak)

    F: operations of all layers on one rank. [FLOP]
    F_peak, eta: peak arithmetic of 16 bits [FLOP/s], and the share of it that the kernel reaches. [1]
    Limits: never bound by reading: a prompt's keys are read once for many queries.
    """
    return F / (eta * F_peak)


def prompt_small(P: Floats, d: Floats, L: Floats, BW: Floats) -> Floats:
    """Time of the small kernels of a prompt: norms, rotary embeddings, activations, additions, quantisation.

    T_small = P × L × d × 24 / BW

    P, L, d: tokens, layers, hidden size: 12 passes over rows of 16 bits in a layer (assumed). [1]
    BW: rate of reading and writing. [B/s]
    """
    return P * L * d * SMALL_KERNEL_BYTES / BW


def state_moved(B: Floats, S: Floats, q: Floats, tp: Floats = 1.0) -> Floats:
    """Bytes of recurrent state that one layer of linear attention moves on one rank.

    R = B × S × 4 × (1 + q) / tp

    B, q: sequences of one attention group, tokens of each. [1]
    S: elements of the state of one sequence, kept in fp32. [1]
    tp: ranks that split it. [1]
    Limits: the state is read once, and one is written for every token, so that rejected ones can be rolled back. The
      context plays no part.
    Source: verify-phase rows of Kimi-K3's recurrent kernels (2, 4, 8 tokens; H100, H200, B200, B300, GB200, GB300 under
      vLLM and SGLang), with a start and a bandwidth fitted: median error 3 to 10 %, against 12 to 31 % for one state
      written whatever q is.
    """
    return B * S * STATE_BYTES * (1 + q) / tp


def state_flops(R: Floats) -> Floats:
    """Operations of a recurrent layer.

    F = 2 × R / 4

    R: bytes of state moved, of 4 each: one multiplication and one addition for an element. [B]
    """
    return 2 * R / STATE_BYTES


def attention_core(
    R: Floats,
    F: Floats,
    p: Floats,
    t0: Floats = 0.0,
    BW: Floats = np.inf,
    F_attn: Floats = np.inf,
    L: Floats = 1.0,
) -> Floats:
    """Time of the attention core of L layers.

    T_attention = L × (t0 + [(R / BW)^p + (F / F_attn)^p]^(1/p))

    L, t0: layers [1], and the fixed cost of one. [s]
    R, BW: bytes of cache or state, of one layer [B], and their rate. [B/s]
    F, F_attn: operations of one layer [FLOP], and their rate. [FLOP/s]
    p: sharpness of the bend between the two. [1]
    Limits: few query rows for each byte wait for the cache, t0 + R / BW; many, as the heads of a latent cache times the
      tokens that are verified, for arithmetic, t0 + F / F_attn.
    """
    return L * (t0 + p_norm(R / BW, F / F_attn, p))


def attention_module(
    T_m: Floats,
    T_q: Floats = 0.0,
    T_1: Floats = 0.0,
    C_q: Floats = 0.0,
    C_1: Floats = 0.0,
    C_q0: Floats = 0.0,
    C_10: Floats = 0.0,
    L: Floats = 1.0,
) -> Floats:
    """Time of L attention layers measured as a whole: norm, projections, core, cache write and their launches.

    T_module = L × (T_m + max(T_q - T_1 + C_q - C_1 - (C_q0 - C_10), 0))

    L, T_m: layers [1], and one of them measured at these sequences and context. [s]
    T_q, T_1: one layer with a row for each token and for each sequence, at the shortest context: its projections. [s]
    C_q, C_1: core of all tokens of the sequences, which share a cache, and of one token each. [s]
    C_q0, C_10: core at the shortest context of as many sequences as tokens, and of the sequences: in T_q and T_1. [s]
    Limits: sparse attention chooses entries for each token: T_m is measured with a sequence for each, and is all; an
      upper bound, since index keys are then read for each token, not once for those of a sequence.
    """
    return L * (T_m + np.maximum(T_q - T_1 + C_q - C_1 - (C_q0 - C_10), 0))


def message_bytes(M: Floats, d: Floats) -> Floats:
    """Message of one exchange between GPUs, in 16 bits.

    X = M × d × 2

    M: rows of one attention group. [1]
    d: hidden size. [1]
    """
    return M * d * MESSAGE_BYTES


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
