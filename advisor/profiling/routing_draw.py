"""Expert choices with a wanted skew and correlation, so that touched experts and tokens vary independently."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

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

    Sum n_active, each <= 1, population CV `load_cv`. Lognormal weights at evenly spaced quantiles, capped at 1 and
    rescaled; the spread is solved by bisection. Raises ProfilingError where the CV cannot be reached (above sqrt(N/k -
    1)).
    """
    if load_cv == 0 or n_active == n_experts:
        return np.full(n_experts, n_active / n_experts)
    limit = np.sqrt(n_experts / n_active - 1)
    if not 0 < load_cv < 0.98 * limit:
        raise ProfilingError(
            f"load_cv={load_cv} cannot be reached with {n_active} of {n_experts} experts; choose one below {limit:.2f}"
        )
    quantiles = np.array([NormalDist().inv_cdf((place + 0.5) / n_experts) for place in range(n_experts)])
    low, high = 0.0, 50.0
    for _ in range(60):
        central = 0.5 * (low + high)
        q = _capped(np.exp(np.clip(central * quantiles, -300, 300)), n_active)
        low, high = (central, high) if q.std() / q.mean() < load_cv else (low, central)
    return _capped(np.exp(np.clip(high * quantiles, -300, 300)), n_active)


def _capped(weights: np.ndarray, total: float) -> np.ndarray:
    """Scale `weights` [..., N] so that each row sums to `total` with no entry above 1."""
    weights = np.maximum(weights, 1e-300)
    q = total * weights / weights.sum(axis=-1, keepdims=True)
    for _ in range(weights.shape[-1]):
        over = q >= 1
        if not np.any(q > 1 + 1e-12):
            break
        q = np.where(over, 1.0, q)
        free = np.where(over, 0.0, q)
        room = total - over.sum(axis=-1, keepdims=True)
        q = np.where(over, 1.0, free * room / np.maximum(free.sum(axis=-1, keepdims=True), 1e-300))
    return np.minimum(q, 1.0)


def _systematic(rng: np.random.Generator, q: np.ndarray, n_active: int) -> np.ndarray:
    """Systematic sample without replacement, inclusion probabilities exactly q [rows, N] -> ids [rows, k]."""
    rows, n_experts = q.shape
    order = rng.permutation(n_experts)
    edges = np.cumsum(q[:, order], axis=1)
    edges *= n_active / edges[:, -1:]
    ticks = rng.random((rows, 1)) + np.arange(n_active)
    shift = (n_active + 1.0) * np.arange(rows)[:, None]  # one search for all rows: each row in its own range
    positions = np.searchsorted((edges + shift).ravel(), (ticks + shift).ravel(), side="right")
    position = positions.reshape(rows, n_active) - n_experts * np.arange(rows)[:, None]
    position = np.minimum(position, n_experts - 1)
    for slot in range(n_active - 1, 0, -1):  # rounding at the last edge must not repeat an expert
        clash = position[:, slot] <= position[:, slot - 1]
        position[clash, slot - 1] = position[clash, slot] - 1
    return order[position]


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
    """Expert ids of one layer, shape [batch_size, tokens_per_sequence, n_active], distinct within a token.

    Inclusion probabilities follow the load vector exactly in the mean. Two tokens of one sequence at a distance of
    l tokens overlap by o + (1 - o) stickiness^l, with o = J + (1 - J) affinity and J the overlap of strangers.
    Raises ProfilingError for impossible arguments.
    """
    routing = routing or Routing()
    pool = routing.expert_pool or n_experts
    if not 1 <= n_active <= pool <= n_experts:
        raise ProfilingError(f"need 1 <= n_active ({n_active}) <= expert_pool ({pool}) <= n_experts ({n_experts})")
    if not (0 <= routing.affinity < 1 and 0 <= routing.stickiness <= 1):
        raise ProfilingError(f"affinity {routing.affinity} and stickiness {routing.stickiness} must lie in 0..1")
    plain = routing.load_cv == 0 and routing.affinity == 0
    q = None if plain else _sequence_loads(rng, batch_size, pool, n_active, routing)
    steps: list[np.ndarray] = []
    for step in range(tokens_per_sequence):
        fresh = _uniform(rng, batch_size, pool, n_active) if q is None else _systematic(rng, q, n_active)
        if step > 0 and routing.stickiness > 0:
            fresh = np.where(rng.random((batch_size, 1)) < routing.stickiness, steps[-1], fresh)
        steps.append(fresh)
    ids = np.stack(steps, axis=1)
    if pool < n_experts or not plain:  # which experts are the popular ones is drawn afresh too
        ids = rng.permutation(n_experts)[ids]
    return ids


def _sequence_loads(
    rng: np.random.Generator, batch_size: int, n_experts: int, n_active: int, routing: Routing
) -> np.ndarray:
    """Inclusion probabilities of each sequence, [batch_size, n_experts]: beta around the load vector."""
    q = load_vector(n_experts, n_active, routing.load_cv)
    if routing.affinity == 0:
        return np.tile(q, (batch_size, 1))
    precision = 1 / routing.affinity - 1
    inside = np.clip(q, 1e-9, 1 - 1e-9)
    own = rng.beta(inside * precision, (1 - inside) * precision, size=(batch_size, n_experts))
    return _capped(own, n_active)


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
        draws.append(draw_routing(rng, batch_size, tokens_per_sequence, n_experts, n_active, routing))
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
        touched(draw_routing(rng, batch_size, tokens_per_sequence, n_experts, n_active, routing)) for _ in range(draws)
    ]
    return float(np.mean(counts))
