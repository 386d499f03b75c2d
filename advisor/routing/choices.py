"""Expert choices of whole steps: windows of a trace, draws from known loads, and the same with a hotter expert.

Choices are expert ids [B, t, layers, k]: t consecutive tokens of B sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError

Choices = NDArray[np.integer]
"""Expert ids, [sequences, tokens, layers, k]; a trace's own sequences have no first axis."""


def expert_loads(sequences: Sequence[Choices], n_experts: int) -> Array:
    """Share of tokens that choose each expert, [layers, N], of traces [tokens, layers, k]; a row sums to k. [1]"""
    layers = sequences[0].shape[1]
    total, offset = np.zeros(layers * n_experts), n_experts * np.arange(layers)[:, None]
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
    """`tokens` consecutive tokens at a random place of `batch` sequences, [B, t, layers, k]; `layers` picks some.

    Sequences are different ones as long as there are enough; beyond, the same ones come again at other places.
    Raises AdvisorError where no sequence is long enough.
    """
    long = [ids for ids in sequences if len(ids) >= tokens]
    if not long:
        raise AdvisorError(
            f"no sequence of the trace has {tokens} tokens, as many as a step verifies; give longer ones"
        )
    order = np.concatenate([rng.permutation(len(long)) for _ in range(-(-batch // len(long)))])[:batch]
    some = np.arange(long[0].shape[1]) if layers is None else layers
    out = np.empty((batch, tokens, len(some), long[0].shape[2]), np.int64)
    for row, which in enumerate(order):
        start = int(rng.integers(0, len(long[which]) - tokens + 1))
        out[row] = long[which][start : start + tokens, some]
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
    loads : share of tokens that choose each expert, [layers, N]; rows sum to k, no entry above 1. [1]
    affinity, stickiness : phi and rho of `routing.distinct_experts`. [1]

    Notes
    -----
    A sequence's own chances scatter about the loads as a beta distribution of intra-class correlation phi; a token
    repeats its predecessor's choice with chance rho, else it draws k different experts with exactly these chances
    (systematic sampling over experts in random order). Layers and sequences are independent.
    """
    layers, n_experts = loads.shape
    own = np.broadcast_to(loads, (batch, layers, n_experts))
    if affinity > 0.0:
        precision = 1.0 / min(affinity, 1.0 - 1e-9) - 1.0
        inside = np.clip(own, 1e-9, 1.0 - 1e-9)
        own = fitted_loads(rng.beta(inside * precision, (1.0 - inside) * precision), n_active)
    rows = own.reshape(-1, n_experts)
    steps: list[NDArray[np.int64]] = []
    for step in range(tokens):
        ids = _systematic(rng, rows, n_active).reshape(batch, layers, n_active)
        if step and stickiness > 0.0:
            ids = np.where(rng.random((batch, layers, 1)) < stickiness, steps[-1], ids)
        steps.append(ids)
    return np.stack(steps, axis=1)


def fitted_loads(weights: Array, n_active: int) -> Array:
    """`weights` [..., N] scaled to sum k over experts with no entry above 1. [1]"""
    load = np.maximum(np.asarray(weights, float), 1e-300)
    load = n_active * load / load.sum(axis=-1, keepdims=True)
    for _ in range(load.shape[-1]):
        if load.max() <= 1.0 + 1e-12:
            break
        full = load >= 1.0
        free = np.where(full, 0.0, load)
        room = n_active - full.sum(axis=-1, keepdims=True)
        load = np.where(full, 1.0, free * room / np.maximum(free.sum(axis=-1, keepdims=True), 1e-300))
    return np.minimum(load, 1.0)


def _systematic(rng: np.random.Generator, loads: Array, n_active: int) -> NDArray[np.int64]:
    """k different experts for each row, chosen with chances `loads` [rows, N]; [rows, k]."""
    rows, n_experts = loads.shape
    order = rng.permutation(n_experts)
    edges = np.cumsum(loads[:, order], axis=1)
    edges *= n_active / edges[:, -1:]
    edges[:, -1] = n_active + 0.5  # rounding must not put the last tick beyond the last expert
    ticks = rng.random((rows, 1)) + np.arange(n_active)
    apart = (n_active + 1.0) * np.arange(rows)[:, None]  # each row in a range of its own: one search for all
    at = np.searchsorted((edges + apart).ravel(), (ticks + apart).ravel(), side="right").reshape(rows, n_active)
    at = np.minimum(at - n_experts * np.arange(rows)[:, None], n_experts - 1)
    for slot in range(n_active - 1, 0, -1):  # an expert of load 1 may meet two ticks by rounding
        clash = at[:, slot] <= at[:, slot - 1]
        at[clash, slot - 1] = at[clash, slot] - 1
    return order[np.maximum(at, 0)]


def heated(ids: Choices, hottest: ArrayLike, more: float, rng: np.random.Generator) -> Choices:
    """`ids` with the expert `hottest` [layers] of each layer chosen `more` times as often again in the mean. [1]

    Tokens that had not chosen it give up one of their choices for it, each with the same chance. The same generator
    converts a part of the same tokens for a smaller `more`, so small differences are not drowned by chance.
    Where fewer tokens are left than that, all of them convert.
    """
    expert = np.asarray(hottest)[:, None]
    has = (ids == expert).any(axis=-1)  # [B, t, layers]
    share = has.mean(axis=(0, 1))
    chance = np.where(share < 1.0, more * share / np.maximum(1.0 - share, 1e-300), 0.0)
    convert = ~has & (rng.random(has.shape) < chance)
    place = rng.integers(0, ids.shape[-1], has.shape)
    out = ids.copy()
    at = np.nonzero(convert)
    out[(*at, place[at])] = np.broadcast_to(np.asarray(hottest), has.shape)[at]
    return out


def skewed_loads(n_experts: int, n_active: int, load_cv: float, layers: int, rng: np.random.Generator) -> Array:
    """Lognormal loads with coefficient of variation `load_cv`, in an order of its own in each layer; [layers, N]. [1]

    Stands for loads where only their spread is known: which experts are hot, and whether neighbours are, is drawn.
    Capped at 1, so a `load_cv` near sqrt(N/k - 1), the most that is possible, is not quite reached.
    """
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((place + 0.5) / n_experts) for place in range(n_experts)])
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        load = fitted_loads(np.exp(middle * (quantiles - quantiles[-1])), n_active)
        low, high = (middle, high) if load.std() / load.mean() < load_cv else (low, middle)
    load = fitted_loads(np.exp(low * (quantiles - quantiles[-1])), n_active)
    return np.stack([rng.permutation(load) for _ in range(layers)])
