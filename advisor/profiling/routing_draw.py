"""Expert choices with a wanted skew and correlation, so that touched experts and tokens vary
independently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from advisor.profiling.device import ProfilingError


@dataclass(frozen=True)
class Routing:
    """Parameters of how tokens choose experts.

    load_cv: coefficient of variation of the experts' load over the layer. [-]
    affinity: intra-class correlation of a sequence's own expert preferences, 0..1 (1 excluded). [-]
    stickiness: chance that a token repeats its predecessor's choice, 0..1. [-]
    expert_pool: experts that a whole step may choose from, drawn afresh each time; 0 means all. [-]
    """

    name: str = "independent"
    load_cv: float = 0.0
    affinity: float = 0.0
    stickiness: float = 0.0
    expert_pool: int = 0


def load_vector(n_experts: int, n_active: int, load_cv: float) -> np.ndarray:
    """Inclusion probability of each expert, [n_experts], with a given spread.

    Sum n_active, each <= 1, population CV `load_cv`. Lognormal weights at evenly spaced quantiles,
    capped at 1 and rescaled; the spread is solved by bisection. Raises ProfilingError where the CV
    cannot be reached (above sqrt(N/k - 1)).
    """
    if load_cv == 0 or n_active == n_experts:
        return np.full(n_experts, n_active / n_experts)
    limit = np.sqrt(n_experts / n_active - 1)
    if not 0 < load_cv < 0.98 * limit:
        raise ProfilingError(
            f"load_cv={load_cv} cannot be reached with {n_active} of {n_experts} experts; choose "
            f"one below {limit:.2f}"
        )
    quantiles = np.array(
        [NormalDist().inv_cdf((place + 0.5) / n_experts) for place in range(n_experts)]
    )
    low = 0.0
    high = 50.0
    for _ in range(60):
        central = 0.5 * (low + high)
        q = fitted_loads(np.exp(np.clip(central * quantiles, -300, 300)), n_active)
        low, high = (central, high) if q.std() / q.mean() < load_cv else (low, central)
    return fitted_loads(np.exp(np.clip(high * quantiles, -300, 300)), n_active)


def fitted_loads(weights: ArrayLike, n_active: int) -> np.ndarray:
    """Weights [..., N] scaled to expert loads that sum to k, no entry above 1. [-]

    `weights` are relative [-]. Own choice: experts that would pass 1 are held there, as a token
    chooses an expert at most once, and the others share what is left in proportion.
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
        load = np.where(
            full, 1.0, free * room / np.maximum(free.sum(axis=-1, keepdims=True), 1e-300)
        )
    return np.minimum(load, 1.0)


def scattered_loads(
    rng: np.random.Generator, loads: np.ndarray, n_active: int, affinity: float
) -> np.ndarray:
    """Loads of single sequences: beta draws around `loads` [..., N], correlated within by
    `affinity`. [-]"""
    precision = 1.0 / min(affinity, 1.0 - 1e-9) - 1.0
    inside = np.clip(loads, 1e-9, 1.0 - 1e-9)
    # Beta draws do not sum to k, and a token chooses exactly k.
    return fitted_loads(rng.beta(inside * precision, (1.0 - inside) * precision), n_active)


def systematic(rng: np.random.Generator, loads: np.ndarray, n_active: int) -> np.ndarray:
    """Different experts of each row, [rows, k], chosen with chances `loads` [rows, N]."""
    rows, n_experts = loads.shape
    order = rng.permutation(n_experts)
    edges = np.cumsum(loads[:, order], axis=1)
    edges *= n_active / edges[:, -1:]
    edges[:, -1] = n_active + 0.5  # rounding must not put the last tick beyond the last expert
    ticks = rng.random((rows, 1)) + np.arange(n_active)
    offset = (n_active + 1.0) * np.arange(rows)[
        :, None
    ]  # each row in a range of its own: one search for all
    at = np.searchsorted((edges + offset).ravel(), (ticks + offset).ravel(), side="right").reshape(
        rows, n_active
    )
    at = np.minimum(at - n_experts * np.arange(rows)[:, None], n_experts - 1)
    for slot in range(n_active - 1, 0, -1):  # an expert of load 1 may meet two ticks by rounding
        clash = at[:, slot] <= at[:, slot - 1]
        at[clash, slot - 1] = at[clash, slot] - 1
    return order[np.maximum(at, 0)]


def with_repeats(
    rng: np.random.Generator, fresh: Callable[[], np.ndarray], tokens: int, stickiness: float
) -> np.ndarray:
    """Choices of so many tokens, on axis 1. Each repeats its predecessor's with chance
    `stickiness`, else is fresh."""
    steps: list[np.ndarray] = []
    for step in range(tokens):
        ids = fresh()
        if step and stickiness > 0:
            ids = np.where(rng.random((*ids.shape[:-1], 1)) < stickiness, steps[-1], ids)
        steps.append(ids)
    return np.stack(steps, axis=1)


def _uniform(rng: np.random.Generator, rows: int, n_experts: int, n_active: int) -> np.ndarray:
    if n_active == n_experts:
        return np.tile(np.arange(n_experts), (rows, 1))
    keys = rng.random((rows, n_experts), dtype=np.float32)
    return np.argpartition(keys, n_active, axis=1)[:, :n_active]


def draw_routing(
    rng: np.random.Generator,
    batch_size: int,
    tokens_per_sequence: int,
    n_experts: int,
    n_active: int,
    routing: Routing | None = None,
) -> np.ndarray:
    """Expert ids of one layer, shape [batch_size, tokens_per_sequence, n_active], distinct within a
    token.

    Inclusion probabilities follow the load vector exactly in the mean. Two tokens of one sequence
    at a distance of l tokens overlap by o + (1 - o) stickiness^l, with o = J + (1 - J) affinity and
    J the overlap of strangers. Raises ProfilingError for impossible arguments.
    """
    routing = routing or Routing()
    pool = routing.expert_pool or n_experts
    if not 1 <= n_active <= pool <= n_experts:
        raise ProfilingError(
            f"need 1 <= n_active ({n_active}) <= expert_pool ({pool}) <= n_experts ({n_experts})"
        )
    if not (0 <= routing.affinity < 1 and 0 <= routing.stickiness <= 1):
        raise ProfilingError(
            f"affinity {routing.affinity} and stickiness {routing.stickiness} must lie in 0..1"
        )
    plain = routing.load_cv == 0 and routing.affinity == 0
    if plain:
        ids = with_repeats(
            rng,
            lambda: _uniform(rng, batch_size, pool, n_active),
            tokens_per_sequence,
            routing.stickiness,
        )
    else:
        q = np.broadcast_to(load_vector(pool, n_active, routing.load_cv), (batch_size, pool))
        if routing.affinity:
            q = scattered_loads(rng, q, n_active, routing.affinity)
        ids = with_repeats(
            rng, lambda: systematic(rng, q, n_active), tokens_per_sequence, routing.stickiness
        )
    if pool < n_experts or not plain:  # which experts are the popular ones is drawn afresh too
        ids = rng.permutation(n_experts)[ids]
    return ids


def touched(ids: np.ndarray) -> int:
    """Distinct experts in `ids` of any shape. [-]"""
    return len(np.unique(ids))


CANDIDATES = 6
"""Draws of which the most typical is taken. [-]"""


def draw_typical(
    rng: np.random.Generator,
    batch_size: int,
    tokens_per_sequence: int,
    n_experts: int,
    n_active: int,
    routing: Routing | None = None,
    *,
    target: float,
) -> np.ndarray:
    """Draw of `draw_routing`, of at most CANDIDATES the one nearest to a target touched count."""
    draws: list[np.ndarray] = []
    while not draws or (len(draws) < CANDIDATES and abs(touched(draws[-1]) - target) > 0.5):
        draws.append(
            draw_routing(rng, batch_size, tokens_per_sequence, n_experts, n_active, routing)
        )
    return min(draws, key=lambda ids: abs(touched(ids) - target))


def mean_touched(
    rng: np.random.Generator,
    batch_size: int,
    tokens_per_sequence: int,
    n_experts: int,
    n_active: int,
    routing: Routing | None = None,
    draws: int = 24,
) -> float:
    """Mean number of distinct experts over `draws` fresh draws. [-]"""
    counts = [
        touched(draw_routing(rng, batch_size, tokens_per_sequence, n_experts, n_active, routing))
        for _ in range(draws)
    ]
    return float(np.mean(counts))
