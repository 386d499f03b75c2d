"""Functions that laws are written with: what is computed stays finite, what is shown is the
textbook form.

The laws of one forward pass without attention: what its kernels move and compute, and how long that
takes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numpy as np

from advisor.prediction import Array, Floats

Law = Callable[..., Floats]


def p_norm(a: Floats, b: Floats, p: Floats) -> Array:
    """Smooth maximum of two times, (a^p + b^p)^(1/p): a roofline with a rounded ridge. [as a]

    a, b: the two limits, each >= 0. [s]
    p: sharpness of the bend, > 0: a sum at 1, the larger of the two as p grows. [-]
    Own derivation: the larger one is taken out of the root, so that the result is finite for any a,
    b >= 0.
    """
    # The larger one is taken out of the root, whose powers would overflow; 0/0 is a layer that
    # neither reads nor computes.
    high = np.maximum(a, b)
    low = np.minimum(a, b)
    ratio = np.divide(low, high, out=np.zeros_like(high), where=high > 0)
    return np.asarray(high * (1.0 + ratio**p) ** (1.0 / p))


def one_minus_power(x: Floats, n: Floats) -> Array:
    """Chance of at least one hit in n trials, 1 - x^n, with x the chance of a miss. [-]

    x: from 0 to 1. [-]
    n: trials, >= 0. [-]
    Own derivation: by expm1, which stays exact where x^n is close to 1.
    """
    # log(0) is meant: where a miss cannot happen, a hit is certain.
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n * np.log(x)))


@functools.cache
def off(law: Law, name: str) -> float:
    """Default of a law's parameter, at which its term is zero or its factor one. [as the parameter]

    Read from the law's signature, `laws.Law`. Raises KeyError for a parameter without a default.
    """
    default = inspect.signature(law).parameters[name].default
    if default is inspect.Parameter.empty:
        raise KeyError(name)
    return float(default)


def columns(law: Law, coefficients: Sequence[str], **given: Floats) -> Array:
    """Terms of a law that is linear in `coefficients`, one column each, [rows, coefficients]. [as
    the law]

    A column is the law itself with that coefficient one and the others at their defaults, where
    their terms vanish: so the law is the sum of its columns times the coefficients, a rate entering
    as its inverse. Own derivation: the columns of a least-squares fit.
    """
    # The law itself makes the columns, so that a fit and a prediction cannot have two forms.
    still = {name: off(law, name) for name in coefficients}
    terms = (np.asarray(law(**given, **{**still, name: 1.0}), float) for name in coefficients)
    return np.stack(np.broadcast_arrays(*terms), axis=-1)


TILE_ROWS = 16.0
"""Rows to which an expert's block of tokens is padded at least. [-]"""
TILE_PADDING = 7.5
"""Mean rows added by padding a block to the next multiple of 16. [-]"""
SMALL_KERNEL_BYTES = 24.0
"""Moved by the small kernels of a layer for one element of the hidden state of a prompt's token
(assumed). [B]"""
ROUTED_COEFFICIENTS = ("t0", "BW", "tau", "F_peak", "BW_act", "tau_N")
"""What `routed_layers` is linear in, a rate by its inverse."""
STREAM_COEFFICIENTS = ("t0", "BW")
"""The same of `stream`."""


def step_tokens(B: Floats, q: Floats) -> Floats:
    """Tokens in a step.

    M = B × q

    B: sequences of the instance. [-]
    q: tokens of each, 1 in plain decode and K + 1 in verification. [-]
    Limits: B in plain decode, q = 1.
    Source: definition.
    """
    return B * q


def uniform_experts(N: Floats, k: Floats, M: Floats) -> Floats:
    """Distinct routed experts that M tokens touch in one layer, each choosing uniformly and
    independently.

    U = N × (1 - (1 - k / N)^M)

    N, k: routed experts of the layer, and those of one token, 1 <= k <= N. [-]
    M: tokens in the step. [-]
    Limits: k at M = 1, N for many tokens; N at k = N, whatever M is. Real routers are correlated
      and uneven: see Routing.
    Source: MoESD, arXiv:2505.19645, eq. 8.
    """
    return N * one_minus_power(1 - k / N, M)


def rows_per_expert(M: Floats, k: Floats, U: Floats) -> Floats:
    """Mean rows of a touched expert.

    m = M × k / U

    M, k: tokens in the step, routed experts of each. [-]
    U: distinct experts that they touch. [-]
    Limits: 1 at M = 1; M at k = N, as in a dense layer; M k / N for many tokens.
    Source: own derivation: M k pairs of token and expert over U experts.
    """
    return M * k / U


def counted_experts(u: Floats, U: Floats, ep: Floats, S: Floats) -> Floats:
    """Copies of experts that the slowest rank reads, where ranks were counted.

    U_rank = min(u × U, S) / ep

    u: what it reads over the mean rank, counted on loads or a trace. [-]
    U: distinct experts that the step touches on all ranks. [-]
    ep, S: ranks, and copies of experts on all of them together. [-]
    Limits: U / ep where ranks are alike; no more than the S / ep that it holds.
    Source: definition of u (`Uneven`).
    """
    return np.minimum(u * U, S) / ep


def rank_choices(k: Floats, p: Floats, ep: Floats) -> Floats:
    """Expert choices of a token that the slowest rank serves, where ranks were counted.

    k_rank = k × p / ep

    k: routed experts of a token. [-]
    p: what it serves over the mean rank, counted on loads or a trace. [-]
    ep: ranks. [-]
    Limits: k / ep where ranks are alike.
    Source: definition of p (`Uneven`).
    """
    return k * p / ep


def expert_weight_bytes(n_mat: Floats, h: Floats, I: Floats, b: Floats, U: Floats) -> Floats:  # noqa: E741
    """Weights of the touched experts of one layer, on one rank.

    W = n_mat × h × I × b × U

    n_mat: matrices of an expert, 3 where it is gated, else 2. [-]
    h, I: width an expert reads, and its inner width on this rank. [-]
    b: storage of one weight, scales included. [B]
    U: distinct experts touched on this rank. [-]
    Limits: each expert is read once, whether one token uses it or fifty.
    Source: own derivation: the elements of the touched matrices.
    """
    return n_mat * h * I * b * U


def expert_flops(n_mat: Floats, h: Floats, I: Floats, U: Floats, m: Floats) -> Floats:  # noqa: E741
    """Operations of the touched experts of one layer, padded to tiles of 16 rows.

    F = 2 × n_mat × h × I × U × max(16, m + 7.5)

    n_mat, h, I, U: as in the weights. [-]
    m: mean rows of a touched expert; each block of rows is filled up to a multiple of 16, by 7.5 on
      average. [-]
    Limits: 32 operations a weight for few rows, whose block is filled up to 16; 2 M k / N a weight
      of all experts for many.
    Source: docs/decisions/0002-moe-kernel-form.md.
    """
    # A matrix instruction works on whole tiles: one row of an expert costs as much as sixteen.
    return 2 * n_mat * h * I * U * np.maximum(TILE_ROWS, m + TILE_PADDING)


def expert_activation_bytes(
    M: Floats,
    k: Floats,
    h: Floats,
    n_mat: Floats,
    I: Floats,  # noqa: E741
    ep: Floats = 1.0,
) -> Floats:
    """Activations that the routed experts of one layer move on one rank, in 16 bits.

    A = M × k / ep × (4 × h + 2 × n_mat × I) + 4 × M × h

    M, k: tokens in the step, routed experts of each. [-]
    h, n_mat, I: as in the weights: an expert reads and writes h elements a row, and n_mat I between
      its matrices. [-]
    ep: ranks that share the experts. [-]
    Limits: the last term gathers the tokens and adds up their results.
    Source: own derivation; kept because errors on held-out shapes fall with it,
      docs/decisions/0002-moe-kernel-form.md.
    """
    # A pair reads h and writes h elements of 2 bytes; each token is gathered once and its results
    # are added up once.
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

    L, t0: layers [-], and the fixed cost of one. [s]
    W, F, A: weights read [B], operations [FLOP] and activations moved [B], of one layer.
    BW, F_peak, BW_act: rates of the three, fitted slopes and not the data sheet's. [B/s], [FLOP/s],
      [B/s]
    U, tau: distinct experts touched on the rank [-], and the cost of each. [s]
    N, ep, tau_N: experts of the layer, ranks that share them [-], and the cost of each resident
      one. [s]
    c: correction by the rows m of a touched expert, which carries the tile switches of a kernel; or
      r, measured over computed time of this very shape. [-]
    Limits: tables of up to 2048 tokens; linear in t0, tau, tau_N and the inverse rates.
    Source: chosen by leave-one-shape-out error, docs/decisions/0002-moe-kernel-form.md.
    """
    # Kernels pick their tile by the rows of an expert, so one curve c over m serves all shapes of a
    # table (decision 0002).
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
    """Time of matrix products: attention projections, dense and shared blocks, router, LM head.

    T = L × (n × t0 + [(W × b / BW)^p + (2 × M × W / F_peak)^p]^(1/p))

    L, n: layers, and launches in one layer. [-]
    t0: fixed cost of a launch. [s]
    W, b: weights of one layer on this rank [-], and the storage of one. [B]
    M: rows that are multiplied. [-]
    BW, F_peak: rates of reading weights and of arithmetic, fitted slopes and not the data sheet's.
      [B/s], [FLOP/s]
    p: sharpness of the bend between the two. [-]
    Limits: few rows wait for the weights, n t0 + W b / BW; many for arithmetic, n t0 + 2 M W /
      F_peak.
    Source: form compared on measured tables, docs/decisions/0002-moe-kernel-form.md; its bounds,
      docs/decisions/0010-kernels-as-they-run.md.
    """
    # The bend is fitted and not sharp: near the ridge a kernel still waits for some weights while
    # it computes.
    return L * (n * t0 + p_norm(W * b / BW, 2 * M * W / F_peak, p))


def stream(R: Floats, t0: Floats = 0.0, BW: Floats = np.inf, r: Floats = 1.0) -> Floats:
    """Time to move bytes after a fixed start: a cache, a message.

    T = r × (t0 + R / BW)

    t0: fixed cost of a call. [s]
    R, BW: bytes [B] and their rate. [B/s]
    r: measured over computed time at this size, where every size was measured. [-]
    Limits: t0 for a short message, R / BW for a long one.
    Source: form of docs/decisions/0002-moe-kernel-form.md; r,
      docs/decisions/history.md (0005).
    """
    return r * (t0 + R / BW)


def prompt_small(P: Floats, d: Floats, L: Floats, BW: Floats) -> Floats:
    """Time of a prompt's small kernels: norms, rotary embeddings, activations, additions,
    quantisation.

    T_small = P × L × d × 24 / BW

    P, L, d: tokens, layers, hidden size: 12 passes over rows of 16 bits in a layer (assumed). [-]
    BW: rate of reading and writing. [B/s]
    Limits: grows with the tokens alone: no row is shared between them.
    Source: assumed, docs/decisions/history.md (0008).
    """
    return P * L * d * SMALL_KERNEL_BYTES / BW


def launches(c_l: Floats, L: Floats) -> Floats:
    """Time of launching the kernels of L layers.

    T_launch = c_l × L

    c_l: launch overhead of a layer, fitted per engine class. [s]
    L: layers. [-]
    Limits: the same at every batch and K: in both arms of a speedup.
    Source: own derivation; c_l fitted, docs/decisions/0003-engine-overheads.md and
      docs/decisions/history.md (0013).
    """
    return c_l * L


def eager_wait(e: Floats, L: Floats, T_device: Floats) -> Floats:
    """Time that a step without a CUDA graph waits for its launches, beyond the device's own.

    T_eager = max(e × L - T_device, 0)

    e: launching all kernels of a layer one by one. [s]
    L: layers. [-]
    T_device: what the device computes in the step. [s]
    Limits: 0 where the device is slower than the launches, which run ahead of it; the same at every
      batch below that.
    Source: own derivation, the longer of two that run beside each other; e in
      `advisor.catalog.engines`.
    """
    return np.maximum(e * L - T_device, 0)


def between_graphs(c_p: Floats, L: Floats) -> Floats:
    """Time of launching attention between the pieces of a CUDA graph.

    T_between = c_p × L

    c_p: of a layer with attention. [s]
    L: such layers. [-]
    Limits: 0 in plain decode and where a graph holds a verification whole; not hidden by the
      device, which waits in every layer.
    Source: docs/decisions/0039-verification-outside-full-graphs.md; c_p in
      `advisor.catalog.kernel_costs`.
    """
    return c_p * L


def norms(c_q: Floats, L_q: Floats) -> Floats:
    """Time of normalising queries and keys, where an engine runs kernels of their own for that.

    T_norm = c_q × L_q

    c_q: of a layer, fitted per engine and version. [s]
    L_q: layers that do. [-]
    Limits: 0 where an engine fuses them, and for layers measured whole, which contain theirs.
    Source: docs/decisions/history.md (0013).
    """
    return c_q * L_q


def stream_mixing(
    L_x: Floats, t_x: Floats, n: Floats, h: Floats, M: Floats, BW_x: Floats
) -> Floats:
    """Time of hyper-connections, which mix n residual streams before attention and before the
    feed-forward.

    T_mix = 2 × L_x × (t_x + 4 × n × h × M / BW_x)

    L_x: layers that do. [-]
    t_x: fixed time of the kernels of one mix. [s]
    n, h: streams, and elements of each. [-]
    M: tokens in the step; each reads and writes its streams in 16 bits. [-]
    BW_x: rate at which that goes. [B/s]
    Limits: 0 for one plain stream, and where nobody has timed it.
    Source: own derivation; docs/decisions/history.md (0041).
    """
    return 2.0 * L_x * (t_x + 4.0 * n * h * M / BW_x)


def between_knots(x: Floats, x_1: Floats, x_2: Floats, c_1: Floats, c_2: Floats) -> Floats:
    """Factor between two measured sizes: straight in the logarithms.

    c = c_1 × (c_2 / c_1)^(log(x / x_1) / log(x_2 / x_1))

    x, x_1, x_2: size asked for and its measured neighbours, x_1 <= x <= x_2. [as x]
    c_1, c_2: factors measured there. [-]
    Limits: beyond the outer knots the factor is constant (`kernel_costs.factor_at` reads whole
      curves).
    Source: own choice; where rows of a shape were measured, the time itself is straight between
      them, docs/decisions/0010-kernels-as-they-run.md.
    """
    # Tables mostly double their sizes from row to row: in the logarithms those lie evenly.
    return c_1 * (c_2 / c_1) ** (np.log(x / x_1) / np.log(x_2 / x_1))


def ridge(F_peak: Floats, BW: Floats) -> Floats:
    """Arithmetic intensity at which arithmetic takes over from reading.

    ridge = F_peak / BW

    F_peak, BW: rates of arithmetic [FLOP/s] and of reading. [B/s]
    Limits: below it a kernel waits for memory, above it for arithmetic.
    Source: Williams et al., "Roofline", Communications of the ACM 52(4), 2009.
    """
    return F_peak / BW
