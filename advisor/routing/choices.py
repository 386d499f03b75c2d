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
    """Share of tokens that choose each expert, [layers, N], counted in traces [tokens, layers, k]. [-]

    Definition: choices of an expert over tokens, so that a row sums to k.
    """
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
    """Random stretches of consecutive tokens of a trace, [B, t, layers, k].

    `batch` sequences (B) give `tokens` consecutive tokens (t) each; `layers` picks some layers.

    Sequences are different ones as long as there are enough; beyond, the same ones come again at other places.
    Raises AdvisorError where no sequence is long enough.
    """
    long = [ids for ids in sequences if len(ids) >= tokens]
    if not long:
        raise AdvisorError(
            f"no sequence of the trace has {tokens} tokens, as many as a step verifies; give longer ones"
        )
    # Whole permutations one after the other: no sequence comes twice before all have come once.
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
    loads : share of tokens that choose each expert, [layers, N]; rows sum to k, no entry above 1. [-]
    affinity, stickiness : phi and rho of `routing.touched_experts`. [-]

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
        # Beta draws do not sum to k, and a token chooses exactly k.
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
    """Weights [..., N] scaled to expert loads that sum to k, no entry above 1. [-]

    `weights` are relative [-]. Own choice: experts that would pass 1 are held there, as a token chooses an
    expert at most once, and the others share what is left in proportion.
    """
    load = np.maximum(np.asarray(weights, float), 1e-300)
    load = n_active * load / load.sum(axis=-1, keepdims=True)
    # Each pass caps at least one more expert, so there are at most as many passes as experts.
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
    """Choices with one expert of each layer made hotter.

    The expert `hottest` [layers] is chosen `more` times [-] as often again as in `ids`, in the mean.

    Tokens that had not chosen it give up one of their choices for it, each with the same chance. The same generator
    converts a part of the same tokens for a smaller `more`, so small differences are not drowned by chance.
    Where fewer tokens are left than that, all of them convert.
    """
    expert = np.asarray(hottest)[:, None]
    has = (ids == expert).any(axis=-1)  # [B, t, layers]
    share = has.mean(axis=(0, 1))
    # more x share more tokens are wanted, out of the 1 - share that had not chosen it.
    chance = np.where(share < 1.0, more * share / np.maximum(1.0 - share, 1e-300), 0.0)
    convert = ~has & (rng.random(has.shape) < chance)
    place = rng.integers(0, ids.shape[-1], has.shape)
    out = ids.copy()
    at = np.nonzero(convert)
    out[(*at, place[at])] = np.broadcast_to(np.asarray(hottest), has.shape)[at]
    return out


def skewed_loads(n_experts: int, n_active: int, load_cv: float, layers: int, rng: np.random.Generator) -> Array:
    """Lognormal loads of a given spread, [layers, N], in a random order in each layer. [-]

    `load_cv` is their coefficient of variation [-]. Own choice of the form, a lognormal capped at 1, as in
    `routing.law`.

    Stands for loads where only their spread is known: which experts are hot, and whether neighbours are, is drawn.
    Capped at 1, so a `load_cv` near sqrt(N/k - 1), the most that is possible, is not quite reached.
    """
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((place + 0.5) / n_experts) for place in range(n_experts)])
    # The cap of 1 takes from the spread, so the sigma that gives `load_cv` is found by bisection.
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        load = fitted_loads(np.exp(middle * (quantiles - quantiles[-1])), n_active)
        low, high = (middle, high) if load.std() / load.mean() < load_cv else (low, middle)
    load = fitted_loads(np.exp(low * (quantiles - quantiles[-1])), n_active)
    return np.stack([rng.permutation(load) for _ in range(layers)])
