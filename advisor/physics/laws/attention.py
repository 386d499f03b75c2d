"""The laws of attention: caches and recurrent states that are read, queries that meet them, layers
measured whole."""

from __future__ import annotations

import numpy as np

from advisor.physics.laws.kernels import p_norm
from advisor.prediction import Floats

STATE_BYTES = 4.0
"""Recurrent states are kept in fp32. [B]"""


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
    e_idx: Floats = 0.0,
    g: Floats = 1.0,
) -> Floats:
    """Bytes of KV cache that one layer of softmax attention reads on one rank.

    R = B × ((min(min((c + q) / r, w) × n_q, (c + q) / r) + min(c + q, w_local)) × g × e × b / s +
      (c + q) / r × e_idx)

    B: sequences of one attention group. [-]
    c, q: cached tokens of each, and new ones. [-]
    r: positions held by one entry of a compressed cache. [-]
    w: entries that a window, or the choice of sparse attention, lets through. [-]
    n_q: queries that choose their own entries: q in sparse attention, else 1. [-]
    w_local: uncompressed recent positions read beside a compressed cache. [-]
    e, b: elements of an entry, K and V together [-], and the storage of one. [B]
    s: ranks that split the cache, at most the KV heads; a latent cache is replicated. [-]
    e_idx: index keys of an entry, all read before sparse attention chooses, in fp8. [B]
    g: readings of an entry: query heads of a KV head where a kernel takes each by itself
      (`heads_apart`), else 1. [-]
    Limits: read once per sequence, whatever q is, but for g.
    Source: own derivation: the entries that a kernel must read, each once.
    """
    # Queries that choose for themselves read more together than one would, but never more than
    # there is.
    return B * (
        (np.minimum(np.minimum((c + q) / r, w) * n_q, (c + q) / r) + np.minimum(c + q, w_local))
        * g
        * e
        * b
        / s
        + (c + q) / r * e_idx
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
    """Operations of one layer's softmax attention core on one rank, padded to matrix instructions.

    F = B × n_q × max(q / n_q × H / tp, m_0 × n_g / s) × min((c + q) / r, w) × a

    B, c, q, r, w, n_q: as in the cache read. [-]
    H, a: query heads [-], and the operations of one of them against one entry: 2 (d_qk + d_v).
      [FLOP]
    m_0, n_g: rows of a block, and the KV heads that have blocks of their own: the queries that
      share a KV head, those of all q tokens together, fill its blocks. [-]
    tp, s: ranks that split the query heads, and those that split the KV heads. [-]
    Limits: grows with q at once where the heads fill a block (latent attention); at m_0 rows and
      fewer, q costs nothing.
    Source: own derivation; rows of a block by the accelerator's matrix instruction
      (`calibration.latent_block_rows`).
    """
    # Queries that share keys fill a block of rows first: until it is full, a further token costs no
    # arithmetic.
    return B * n_q * np.maximum(q / n_q * H / tp, m_0 * n_g / s) * np.minimum((c + q) / r, w) * a


def prompt_flops(
    P: Floats, a: Floats, r: Floats = 1.0, w: Floats = np.inf, tp: Floats = 1.0
) -> Floats:
    """Operations of one layer's softmax attention over a prompt, on one rank.

    F = P × min(P / 2 / r, w) × a / tp

    P: tokens of the prompt; one of them attends to half of it in the mean. [-]
    r: positions held by one entry of a compressed cache. [-]
    w: entries that a window, or the choice of sparse attention, lets through. [-]
    a: operations of one query against one entry: 2 heads (d_qk + d_v). [FLOP]
    tp: ranks that split the heads. [-]
    Limits: P^2 a / 2 without a window; P w a with one much shorter than the prompt.
    Source: own derivation: position i attends to i entries, P / 2 in the mean.
    """
    return P * np.minimum(P / 2 / r, w) * a / tp


def prompt_attention(F: Floats, eta: Floats, F_peak: Floats) -> Floats:
    """Time of the attention of a prompt's tokens on each other, in all layers.

    T_attn = F / (eta × F_peak)

    F: operations of all layers on one rank. [FLOP]
    F_peak, eta: peak arithmetic of 16 bits [FLOP/s], and the share of it that the kernel reaches.
      [-]
    Limits: never bound by reading: a prompt's keys are read once for many queries.
    Source: eta assumed, docs/decisions/history.md (0008).
    """
    return F / (eta * F_peak)


def state_moved(B: Floats, S: Floats, q: Floats, tp: Floats = 1.0) -> Floats:
    """Bytes of recurrent state that one layer of linear attention moves on one rank.

    R = B × S × 4 × (1 + q) / tp

    B, q: sequences of one attention group, tokens of each. [-]
    S: elements of the state of one sequence, kept in fp32. [-]
    tp: ranks that split it. [-]
    Limits: the state is read once, and one is written for every token, so that rejected ones can be
      rolled back. The context plays no part, nor does the cache's format. vLLM keeps states in the
      model's 16 bits where a configuration names no mamba_ssm_dtype (Qwen3-Next); that is not
      followed.
    Source: verify-phase rows of Kimi-K3's recurrent kernels (2, 4, 8 tokens; H100, H200, B200,
      B300, GB200, GB300 under vLLM and SGLang), with a start and a bandwidth fitted: median error 3
      to 10 %, against 12 to 31 % for one state written whatever q is.
    """
    # A state for each token, to roll rejected ones back: with a single one the error is 12 to 31 %,
    # not 3 to 10 %.
    return B * S * STATE_BYTES * (1 + q) / tp


def state_flops(R: Floats) -> Floats:
    """Operations of a recurrent layer.

    F = 2 × R / 4

    R: bytes of state moved, of 4 each: one multiplication and one addition for an element. [B]
    Limits: one operation for two bytes: bound by memory on every accelerator.
    Source: own derivation.
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

    L, t0: layers [-], and the fixed cost of one. [s]
    R, BW: bytes of cache or state, of one layer [B], and their rate. [B/s]
    F, F_attn: operations of one layer [FLOP], and their rate. [FLOP/s]
    p: sharpness of the bend between the two. [-]
    Limits: few query rows for each byte wait for the cache, t0 + R / BW; many, as the heads of a
      latent cache times the tokens that are verified, for arithmetic, t0 + F / F_attn.
    Source: own derivation, reading by the form of docs/decisions/0002-moe-kernel-form.md;
      arithmetic beside it, since the heads of a latent cache share what is read.
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
    """Time of L attention layers measured whole: norm, projections, core, cache write and launches.

    T_module = L × (T_m + max(T_q - T_1 + C_q - C_1 - (C_q0 - C_10), 0))

    L, T_m: layers [-], and one of them measured at these sequences and context. [s]
    T_q, T_1: one layer with a row for each token and for each sequence, at the shortest context:
      its projections. [s]
    C_q, C_1: core of all tokens of the sequences, which share a cache, and of one token each. [s]
    C_q0, C_10: core at the shortest context of as many sequences as tokens, and of the sequences:
      in T_q and T_1. [s]
    Limits: sparse attention chooses entries for each token: T_m is measured with a sequence for
      each, and is all; an upper bound, since index keys are then read for each token, not once for
      those of a sequence.
    Source: own derivation: tables time a whole layer for one token of each sequence, and what
      further tokens add is taken from projections and core.
    """
    # Differences of measurements fall below zero by their noise; a further token never makes a
    # layer cheaper.
    return L * (T_m + np.maximum(T_q - T_1 + C_q - C_1 - (C_q0 - C_10), 0))
