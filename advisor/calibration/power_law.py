"""How many experts a row of a measured mixture-of-experts table touched.

The tables name their synthetic load `balanced` or `power_law_<exponent>` and store no expert counts, so the counts are
rebuilt here from the published description of the generator: power-law weights per expert by inverse-transform
sampling, scaled to tokens x k, rounded, capped at one choice per token, and levelled back to the exact sum.

References
----------
[aiconfigurator] collector/helper.py and its power-law note, ai-dynamo/aiconfigurator (Apache-2.0). Description only;
own code.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from advisor.prediction import AdvisorError

DRAWS = 32
"""Draws averaged per table row; U of one draw scatters by 1-4 %, so its mean is known within 1 %."""
SEED = 20240824


@dataclass(frozen=True)
class TouchedExperts:
    """Averages over draws for one (tokens, N, k, ep, load)."""

    touched: float
    """Distinct experts of the measured rank that receive at least one token. [-]"""
    routed_rows: float
    """Token-expert pairs of the measured rank; tokens x k when ep = 1. [-]"""


def _raise_minima(counts: np.ndarray, amount: int, cap: int) -> np.ndarray:
    """Add `amount` units one by one to the currently smallest entry (none beyond `cap`): water-filling."""
    out = counts.copy()
    order = np.argsort(out, kind="stable")
    ordered = out[order]
    amount = min(amount, int((cap - ordered).sum()))
    # Units needed to bring all earlier entries up to each entry in turn.
    need = ordered * np.arange(len(ordered)) - np.concatenate([[0], np.cumsum(ordered)[:-1]])
    n_raised = int(np.searchsorted(need, amount, side="right"))
    level, extra = divmod(amount + int(ordered[:n_raised].sum()), n_raised)
    ordered[:n_raised] = level
    ordered[:extra] += 1
    out[order] = ordered
    return out


def _lower_maxima(counts: np.ndarray, amount: int) -> np.ndarray:
    """Take `amount` units one by one from the currently largest entry, never below 0."""
    top = int(counts.max())
    return top - _raise_minima(top - counts, amount, top)


def _split_evenly(amount: int, parts: int) -> np.ndarray:
    """Round-robin shares of `amount` over `parts` ranks."""
    return np.full(parts, amount // parts) + (np.arange(parts) < amount % parts)


def sample_counts(
    n_tokens: int, n_experts: int, n_active: int, exponent: float, rng: np.random.Generator, expert_parallel: int = 1
) -> np.ndarray:
    """Tokens per expert of one draw of the power-law load.

    The busiest rank's experts come first. Raises AdvisorError for tokens below 1, more experts used than there are,
    ranks that do not divide them, or an exponent of 1.

    Parameters
    ----------
    n_tokens : tokens of all ranks together. [-]
    n_experts, n_active : N and k. [-]
    exponent : of the power law, > 0, not 1. [-]
    expert_parallel : ranks that share the experts; must divide N. [-]

    Returns
    -------
    int array [n_experts], each entry in 0..n_tokens, sum n_tokens * n_active.
    """
    if n_active > n_experts or n_experts % expert_parallel or n_tokens < 1 or exponent == 1.0:
        raise AdvisorError(
            f"cannot sample a load for tokens={n_tokens}, N={n_experts}, k={n_active}, ep={expert_parallel}, "
            f"exponent={exponent}; expected tokens >= 1, k <= N, ep dividing N, exponent not 1"
        )
    crowded = n_tokens * n_active > n_experts
    low, high = (1.0, 0.8 * n_tokens) if crowded else (0.01, 2.0)
    power = 1.0 - exponent
    weights = (low**power + (high**power - low**power) * rng.random(n_experts)) ** (1.0 / power)
    target = n_tokens * n_active
    rounded = np.rint(weights / weights.sum() * target).astype(np.int64)
    counts = np.minimum(rounded, n_tokens).reshape(expert_parallel, -1)
    for amount in (int((rounded - counts.ravel()).sum()), None):
        missing = target - int(counts.sum()) if amount is None else amount
        if missing == 0:
            continue
        shares = _split_evenly(abs(missing), expert_parallel)
        for rank, share in enumerate(shares):
            counts[rank] = (
                _raise_minima(counts[rank], int(share), n_tokens)
                if missing > 0
                else _lower_maxima(counts[rank], int(share))
            )
    rest = target - int(counts.sum())  # a full or an empty rank passes its share on
    flat = counts.ravel()
    if rest:
        flat = _raise_minima(flat, rest, n_tokens) if rest > 0 else _lower_maxima(flat, -rest)
    loads = flat.reshape(expert_parallel, -1)
    busiest = int(np.argmax(loads.sum(axis=1)))
    loads[[0, busiest]] = loads[[busiest, 0]]
    return loads.ravel()


def balanced_counts(n_tokens: int, n_experts: int, n_active: int) -> np.ndarray:
    """Tokens per expert of the `balanced` load.

    Choice i of token t is expert t + i ceil(N/k), wrapped at N.

    With fewer tokens than ceil(N/k) the tokens are spread over the stride, so all choices differ: U = min(N, tokens k)
    up to the few that wrap where k does not divide N.
    """
    stride = -(-n_experts // n_active)
    tokens = np.arange(n_tokens)
    start = tokens if n_tokens >= stride else np.floor(tokens * stride / n_tokens).astype(np.int64)
    chosen = (start[:, None] + stride * np.arange(n_active)[None, :]) % n_experts
    return np.bincount(chosen.ravel(), minlength=n_experts)


@lru_cache(maxsize=16384)  # the same few thousand loads recur in every table
def touched_under_power_law(
    n_tokens: int, n_experts: int, n_active: int, distribution: str, expert_parallel: int = 1, draws: int = DRAWS
) -> TouchedExperts:
    """Experts the measured rank reads in one table row, averaged over seeded draws of its load.

    `distribution` is `balanced` or `power_law_<exponent>`; anything else raises AdvisorError.
    """
    local = n_experts // expert_parallel
    if distribution == "balanced":
        counts = balanced_counts(n_tokens, n_experts, n_active)[:local]
        return TouchedExperts(float((counts > 0).sum()), float(counts.sum()))
    if not distribution.startswith("power_law_"):
        raise AdvisorError(f"unknown load {distribution!r}; expected 'balanced' or 'power_law_<exponent>'")
    exponent = float(distribution.removeprefix("power_law_"))
    key = f"{n_tokens}/{n_experts}/{n_active}/{exponent}/{expert_parallel}".encode()
    rng = np.random.default_rng([SEED, zlib.crc32(key)])
    sample = np.array(
        [sample_counts(n_tokens, n_experts, n_active, exponent, rng, expert_parallel)[:local] for _ in range(draws)]
    )
    return TouchedExperts(float((sample > 0).sum(axis=1).mean()), float(sample.sum(axis=1).mean()))
