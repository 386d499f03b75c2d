"""A whole routing trace (many layers, ragged sequences): fitted parameters, and predicted against
counted experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.physics.touched_experts import (
    PARAMETERS,
    expected_experts,
    touched_experts,
    write_own_routing,
)
from advisor.prediction import AdvisorError, Array

# Lags that relate the 8 tokens of the longest stretches below.
LAGS = 7
MIN_TOKENS = LAGS + 1
FEW_SEQUENCES = 5
BATCHES = (1, 2, 4, 8, 16)
TOKENS = (1, 2, 4, 8)
MAX_USES = 250_000_000
"""Sequences x layers x experts counted at once, 1 GB of shares. [-]"""
MAX_NEVER = 1.0 / 3.0
"""Share of experts that a trace may leave out without a word. [-]"""
ENOUGH_CHOICES = 5.0
"""Choices per expert from which on a uniform router leaves out less than 1 % of them (exp(-5)).
[-]"""
# Batches counted for each cell of the table, and half-samples behind an interval.
_DRAWS = 128
_BOOTSTRAP = 200


@dataclass(frozen=True)
class RoutingFit:
    """Routing parameters learnt from overlaps or a trace, with 80 % intervals (low, high)."""

    load_cv: float
    affinity: float
    stickiness: float
    load_cv_interval: tuple[float, float]
    affinity_interval: tuple[float, float]
    stickiness_interval: tuple[float, float]
    overlap_by_lag: tuple[float, ...]
    unrelated_overlap: float

    @property
    def text(self) -> str:
        """Value of a scenario's `routing` with these parameters."""
        return write_own_routing(
            *([getattr(self, f"{name}{end}") for name in PARAMETERS] for end in ("", "_interval"))
        )


def fit_overlaps(
    unrelated: float, overlap_lag1: float, overlap_far: float, n_experts: int, n_active: int
) -> tuple[float, float, float]:
    """(load_cv, affinity, stickiness) from three overlaps, in closed form. [-]

    `unrelated` is J, `overlap_lag1` o_1 and `overlap_far` o_inf: shares of experts that two tokens
    have in common [-], of different sequences, next to each other, and far apart in one sequence.
    Own derivation, for the routing of `touched_experts`: J = k/N (1 + CV^2), o_inf = J + (1-J) phi,
    o_1 = o_inf + (1-o_inf) rho. Estimates below zero are set to zero, those above the most that k
    of N experts allow to that.
    """
    cv = math.sqrt(max(unrelated * n_experts / n_active - 1.0, 0.0))
    phi = (overlap_far - unrelated) / (1.0 - unrelated) if unrelated < 1.0 else 0.0
    rho = (overlap_lag1 - overlap_far) / (1.0 - overlap_far) if overlap_far < 1.0 else 0.0
    return (
        min(cv, math.sqrt(n_experts / n_active - 1.0)),
        min(max(phi, 0.0), 1.0),
        min(max(rho, 0.0), 1.0),
    )


@dataclass(frozen=True)
class UnionRow:
    """Distinct experts of B sequences x t consecutive tokens, as counted, as fitted, and
    uniform."""

    batch_size: int
    tokens: int
    counted: float
    predicted: float
    uniform: float


@dataclass(frozen=True)
class TraceFit:
    """The fit over all layers, held against the counts."""

    fit: RoutingFit
    n_experts: int
    n_active: int
    n_sequences: int
    n_tokens: int
    layers: tuple[int, ...]
    """Layers of the trace that route; the others chose the same experts throughout, as dense layers
    do."""
    unions: tuple[UnionRow, ...]
    warnings: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        """Largest |predicted / counted - 1| over the union table. [-]"""
        return max(abs(row.predicted / row.counted - 1.0) for row in self.unions)


def fit_sequences(sequences: Sequence[NDArray[np.integer]], n_experts: int) -> TraceFit:
    """Fit load_cv, affinity and stickiness to traces of several requests.

    Parameters
    ----------
    sequences : expert ids, one array [tokens, layers, k] per sequence, all with the same layers and
        k.
    n_experts : N. [-]

    Raises
    ------
    AdvisorError : no two sequences of MIN_TOKENS tokens, ids outside [0, N), an expert chosen twice
        by one token, or
    no layer that routes.

    Notes
    -----
    Overlaps are averaged over sequences, then over layers, and solved in closed form
    (`fit_overlaps`). The overlap of unrelated tokens, J, uses different sequences only (unbiased);
    o_inf is the mean of lags 4 to 7. CV is poorly determined when small; judge a fit by the U it
    predicts.
    """
    rng = np.random.default_rng(
        0
    )  # of the half-samples behind the intervals, and of the batches that are counted
    long, warnings = _long_enough(sequences)
    layers, left_out = _routing_layers(long, n_experts)
    if left_out:
        warnings.append(
            f"{left_out} of {left_out + len(layers)} layers choose the same experts for every "
            "token: dense"
        )
    routed = [np.ascontiguousarray(ids[:, layers]) for ids in long]
    size = (len(routed), len(layers))
    n_active = routed[0].shape[2]
    if math.prod(size) * n_experts > MAX_USES:
        raise AdvisorError(
            f"{len(routed):,} sequences of {len(layers):,} layers with {n_experts:,} experts are "
            "too many to count; send fewer sequences, and check the number of experts"
        )
    use = np.empty((*size, n_experts), np.float32)
    lags = np.empty((*size, LAGS))
    for row, ids in enumerate(routed):
        use[row], lags[row] = _statistics(ids, n_experts)
    warnings += _never_chosen(use, sum(map(len, routed)), n_active)
    unrelated = _unrelated(use, n_active)
    fit = _routing_fit(use, lags, unrelated, (n_experts, n_active), rng)
    return TraceFit(
        fit=fit,
        n_experts=n_experts,
        n_active=n_active,
        n_sequences=len(routed),
        n_tokens=sum(len(ids) for ids in routed),
        layers=tuple(layers),
        unions=tuple(_unions(routed, n_experts, n_active, fit, rng)),
        warnings=tuple(warnings),
    )


def _routing_fit(
    use: NDArray[np.float32],
    lags: Array,
    unrelated: Array,
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> RoutingFit:
    """Parameters with 80 % intervals. `use` and `lags` by sequence; `sizes`: N and k."""
    point = _parameters(unrelated, lags, *sizes)
    half = max(2, len(use) // 2)
    # A sequence drawn twice would pair with itself and pass for unrelated, so half-samples without
    # replacement are used; with n/2 of n sequences their spread equals the full sample's standard
    # error.
    draws = []
    for _ in range(_BOOTSTRAP):
        rows = rng.permutation(len(use))[:half]
        draws.append(_parameters(_unrelated(use[rows], sizes[1]), lags[rows], *sizes))
    low, high = np.quantile(np.array(draws), [0.1, 0.9], axis=0)
    intervals = [
        (min(float(a), p), max(float(b), p)) for a, b, p in zip(low, high, point, strict=True)
    ]
    return RoutingFit(
        *point,
        load_cv_interval=intervals[0],
        affinity_interval=intervals[1],
        stickiness_interval=intervals[2],
        overlap_by_lag=tuple(float(x) for x in lags.mean(axis=(0, 1))),
        unrelated_overlap=float(unrelated.mean()),
    )


def _long_enough(
    sequences: Sequence[NDArray[np.integer]],
) -> tuple[list[NDArray[np.integer]], list[str]]:
    warnings = []
    shapes = {ids.shape[1:] for ids in sequences}
    if len(shapes) > 1 or any(ids.ndim != 3 for ids in sequences):
        raise AdvisorError(
            "the sequences differ in layers or experts per token; expected one [tokens, layers, "
            "k] each"
        )
    long = [ids for ids in sequences if len(ids) >= MIN_TOKENS]
    if len(long) < 2:
        raise AdvisorError(
            f"{len(long)} sequences of at least {MIN_TOKENS} tokens; at least 2 are needed "
            "(several files can be given together), 20 x 64 tokens are good"
        )
    if len(long) < len(sequences):
        warnings.append(
            f"{len(sequences) - len(long)} sequences shorter than {MIN_TOKENS} tokens were left out"
        )
    if len(long) < FEW_SEQUENCES:
        warnings.append(
            f"only {len(long)} sequences: the load variation in particular is poorly known"
        )
    return long, warnings


def _routing_layers(sequences: list[NDArray[np.integer]], n_experts: int) -> tuple[list[int], int]:
    """Layers that route, and how many do not. Raises AdvisorError for ids that cannot be."""
    # Tracers write the layers without a router with one fixed choice.
    first = sequences[0][0]
    constant = np.all([np.all(ids == first, axis=(0, 2)) for ids in sequences], axis=0)
    layers = [int(layer) for layer in np.flatnonzero(~constant)]
    if not layers:
        raise AdvisorError(
            "every layer chooses the same experts for every token; this is no routing trace"
        )
    for ids in sequences:
        used = ids[:, layers]
        if used.min() < 0 or used.max() >= n_experts:
            raise AdvisorError(
                f"expert ids span {used.min()} to {used.max()}; expected 0 to {n_experts - 1}"
            )
        ordered = np.sort(used, axis=2)
        if np.any(ordered[..., 1:] == ordered[..., :-1]):
            raise AdvisorError(
                "a token chooses one expert twice; each must choose k different experts"
            )
    return layers, int(constant.sum())


def _statistics(ids: NDArray[np.integer], n_experts: int) -> tuple[Array, Array]:
    """Mean use [layers, N] and overlap by lag [layers, LAGS] of one sequence."""
    tokens, layers, _ = ids.shape
    index = ids.astype(np.intp)
    chosen = np.zeros((tokens, layers, n_experts), bool)
    np.put_along_axis(chosen, index, True, axis=2)
    overlap = [
        np.take_along_axis(chosen[:-lag], index[lag:], axis=2).mean(axis=(0, 2))
        for lag in range(1, LAGS + 1)
    ]
    return chosen.mean(axis=0), np.stack(overlap, axis=1)


def _never_chosen(use: NDArray[np.float32], n_tokens: int, n_active: int) -> list[str]:
    """A sentence when more experts were never chosen than so many tokens leave out."""
    never = float((use.max(axis=0) == 0).mean())
    if never <= MAX_NEVER or n_tokens * n_active < ENOUGH_CHOICES * use.shape[2]:
        return []
    return [
        f"{never:.0%} of the experts are never chosen: another model's ids, or those of one rank "
        "of several?"
    ]


def _unrelated(use: NDArray[np.float32], n_active: int) -> Array:
    """Overlap of tokens of different sequences, [layers], from mean use [sequences, layers, N]."""
    size = len(use)
    total = use.sum(axis=0, dtype=float) ** 2 - (use.astype(float) ** 2).sum(axis=0)
    return np.asarray(total.sum(axis=-1) / (size * (size - 1) * n_active))


def _parameters(
    unrelated: Array, lags: Array, n_experts: int, n_active: int
) -> tuple[float, float, float]:
    curve = lags.mean(axis=(0, 1))
    # What is left of stickiness at lag 4 is rho^4, below 1 % for the presets, whose largest is
    # 0.31.
    return fit_overlaps(
        float(unrelated.mean()), float(curve[0]), float(curve[3:].mean()), n_experts, n_active
    )


def _unions(
    sequences: list[NDArray[np.integer]],
    n_experts: int,
    n_active: int,
    fit: RoutingFit,
    rng: np.random.Generator,
) -> list[UnionRow]:
    out = []
    for batch in (size for size in BATCHES if size <= len(sequences)):
        for tokens in TOKENS:
            counts = [_count(sequences, batch, tokens, n_experts, rng) for _ in range(_DRAWS)]
            predicted = touched_experts(
                batch, tokens, n_experts, n_active, fit.load_cv, fit.affinity, fit.stickiness
            )
            uniform = expected_experts(batch * tokens, n_experts, n_active)
            out.append(
                UnionRow(batch, tokens, float(np.mean(counts)), float(predicted), float(uniform))
            )
    return out


def _count(
    sequences: list[NDArray[np.integer]],
    batch: int,
    tokens: int,
    n_experts: int,
    rng: np.random.Generator,
) -> float:
    """Distinct experts of `batch` different sequences at random places, mean over layers."""
    layers = sequences[0].shape[1]
    touched = np.zeros((layers, n_experts), bool)
    for row in rng.permutation(len(sequences))[:batch]:
        start = int(rng.integers(0, len(sequences[row]) - tokens + 1))
        window = sequences[row][start : start + tokens]
        touched[np.arange(layers)[None, :, None], window] = True
    return float(touched.sum(axis=1).mean())
