"""How many distinct routed experts a step touches in one layer, and how to learn that from a
routing trace.

Symbols: N routed experts, k active per token, B sequences, t tokens per sequence, U distinct
experts touched, q_i the probability that a token chooses expert i (sum over experts: k), CV its
coefficient of variation, phi (affinity) how much a sequence prefers its own experts, rho
(stickiness) how often a token repeats its predecessor.

References
----------
[MoESD] arXiv:2505.19645, eq. 8 (independent uniform routing).
[Skellam] Beta-binomial occupancy: J. R. Stat. Soc. B 10 (1948) 257.
"""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from advisor.physics import laws
from advisor.physics.architecture import Moe
from advisor.prediction import AdvisorError, Array, Constant, Frozen


class Banded(Constant):
    """A constant with its 80 % band."""

    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> "Banded":
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"band [{self.low}, {self.high}] does not contain the value {self.value}"
            )
        return self


class Overlaps(Frozen):
    """Published overlap figures behind a preset, all shares of the k experts of one token. None:
    not published. [-]"""

    independent: Constant | None = None
    """Overlap of two unrelated tokens, (k/N)(1 + CV^2)."""
    lag1: Constant | None = None
    """Share of experts kept from one token to the next."""
    union2_over_k: Constant | None = None
    union4_over_k: Constant | None = None
    union8_over_k: Constant | None = None
    """Distinct experts over 2, 4, 8 consecutive tokens, divided by k."""


class RoutingPreset(Frozen):
    """Routing statistics of one model or class: dimensionless, each with origin and 80 % band."""

    id: str
    name: str
    kind: Literal["measured_model", "published_preset", "class_default", "own_trace"]
    model_id: str | None = None
    n_experts: int | None = Field(default=None, ge=2)
    n_active: int | None = Field(default=None, ge=1)
    shared_share: float | None = Field(default=None, ge=0, lt=1)
    """Shared experts' share of the active expert width, s/(k+s); None: not published."""
    load_cv: Banded
    """Coefficient of variation of the experts' load."""
    affinity: Banded
    """Intra-class correlation phi of a sequence's preferences."""
    stickiness: Banded
    """Probability rho that a token repeats its predecessor's choice."""
    gamma: Banded
    """Exponent of the one-parameter form for chains of up to 8 tokens."""
    overlaps: Overlaps = Overlaps()
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[Banded, Banded, Banded]:
        """load_cv, affinity and stickiness, in the order of PARAMETERS."""
        return self.load_cv, self.affinity, self.stickiness


PARAMETERS = ("load_cv", "affinity", "stickiness")
NOT_LEARNT = "-"
"""Stands for a parameter that the user's own data leave open: the preset's then holds."""


def write_own_routing(
    values: Sequence[float | None], intervals: Sequence[tuple[float, float]]
) -> str:
    """Text of routing parameters that `own_routing` reads back, to three significant digits.

    `values` are load_cv, affinity and stickiness, and `intervals` their (low, high) [-]. None
    writes `-`: not learnt.
    """
    groups = []
    for value, (low, high) in zip(values, intervals, strict=True):
        if value is None:
            groups.append(NOT_LEARNT)
            continue
        rounded = float(f"{value:.3g}")
        groups.append(
            f"{rounded:g}/{min(float(f'{low:.3g}'), rounded):g}/{max(float(f'{high:.3g}'), rounded):g}"  # noqa: E501
        )
    return ",".join(groups)


def shared_share(moe: Moe) -> float:
    """Shared experts' share of the active expert width, s/(k+s), as some engines fuse them. [-]
    Definition."""
    return moe.shared_width / (moe.shared_width + moe.n_active * moe.expert_width)


# A test holds 32 nodes to the full sum over experts.
_N_NODES = 32
_BLOCK = 2**15
"""Numbers computed at once: small questions take all nodes together, large ones stay within a
processor's cache. [-]"""
# Far beyond any draft; ways to choose j of t - 1 are tabulated, and overflow a float from 1030 on.
_MAX_TOKENS = 512
# Spread of logarithmic loads at which nearly all experts are either capped or idle, as unevenly as
# k of N can be.
_MAX_SIGMA = 80.0
_IMBALANCE_RANKS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
# Mean maximum of that many independent standard normals: order statistics, by numerical
# integration.
_IMBALANCE_FACTOR = np.array([0.0, 0.57, 1.03, 1.42, 1.77, 2.07])


def expected_experts(n_tokens: ArrayLike, n_experts: ArrayLike, n_active: ArrayLike) -> Array:
    """Distinct routed experts touched when every token chooses uniformly and independently. [-]

    Parameters
    ----------
    n_tokens : tokens in the step, B (K+1). [-]
    n_experts : routed experts per layer, N. [-]
    n_active : routed experts per token, k, 1 <= k <= N. [-]

    Returns
    -------
    U = N (1 - (1 - k/N)^n_tokens), broadcast over the arguments, in [k, N] for n_tokens >= 1. [-]

    Raises
    ------
    AdvisorError for counts outside these ranges.

    Source: eq. 8 of [MoESD], as `laws.uniform_experts`.
    """
    tokens = np.asarray(n_tokens, float)
    experts = np.asarray(n_experts, float)
    active = np.asarray(n_active, float)
    _check_counts(experts, active)
    return np.asarray(laws.uniform_experts(experts, active, tokens))


def touched_experts(
    batch_size: ArrayLike,
    tokens_per_sequence: ArrayLike,
    n_experts: ArrayLike,
    n_active: ArrayLike,
    load_cv: ArrayLike = 0.0,
    affinity: ArrayLike = 0.0,
    stickiness: ArrayLike = 0.0,
) -> Array:
    """Mean distinct routed experts touched by B sequences of t consecutive tokens each. [-]

    Parameters
    ----------
    batch_size : sequences, B >= 1. [-]
    tokens_per_sequence : consecutive tokens of each, t >= 1, whole numbers. [-]
    n_experts, n_active : N and k, 1 <= k <= N. [-]
    load_cv : coefficient of variation of expert load, 0 <= CV <= sqrt(N/k - 1). [-]
    affinity : phi in [0, 1], intra-class correlation of a sequence's choices. [-]
    stickiness : rho in [0, 1], chance that a token repeats its predecessor's choice. [-]

    Returns
    -------
    U, broadcast over all arguments, k <= U <= min(N, B t k). [-]

    Raises
    ------
    AdvisorError for arguments outside these ranges.

    Notes
    -----
    U = sum_i 1 - P0_i(t)^B with P0_i(t) = sum_j Binom(j; t-1, 1-rho) m_{j+1}(q_i) and
    m_n(q) = prod_{r<n} ((1-q) a + r) / (a + r), a = 1/phi - 1 [Skellam]. Exact in the mean whatever
    the dependence between experts. The sum over experts is a 32-node Gauss-Legendre integral over
    the load quantiles, so N broadcasts too; a test holds it to the full sum. phi = rho = CV = 0 is
    `expected_experts`.
    """
    batch = np.asarray(batch_size, float)
    tokens = np.asarray(tokens_per_sequence, float)
    experts = np.asarray(n_experts, float)
    active = np.asarray(n_active, float)
    cv = np.asarray(load_cv, float)
    phi = np.asarray(affinity, float)
    rho = np.asarray(stickiness, float)
    _check_counts(experts, active)
    _check_tokens(batch, tokens)
    _check_unit("affinity", phi)
    _check_unit("stickiness", rho)
    load, _ = _load_nodes(active / experts, cv, experts, active)
    shape = np.broadcast_shapes(
        batch.shape, tokens.shape, experts.shape, load.shape[:-1], phi.shape
    )
    touched = _summed(batch, load, _fresh_chances(tokens, rho), phi, shape)
    return np.asarray(
        np.clip(experts * touched, active, np.minimum(experts, batch * tokens * active))
    )


def touched_under(
    batch_size: ArrayLike,
    tokens_per_sequence: ArrayLike,
    n_experts: float,
    n_active: float,
    routings: Sequence[tuple[float, float, float]],
) -> Array:
    """Mean distinct experts under several routings in one computation, [routings, ...]. [-]

    Each is bit for bit what `touched_experts` gives alone.

    batch_size, tokens_per_sequence: B and t, broadcast. [-]
    n_experts, n_active: N and k. [-]
    routings: CV, phi and rho of each. [-]
    Source: `touched_experts`.
    """
    batch = np.asarray(batch_size, float)
    tokens = np.asarray(tokens_per_sequence, float)
    experts = np.asarray(n_experts, float)
    active = np.asarray(n_active, float)
    _check_counts(experts, active)
    _check_tokens(batch, tokens)
    shape = np.broadcast_shapes(batch.shape, tokens.shape)
    ones = (1,) * len(shape)
    _, affinities, stickinesses = zip(*routings, strict=True)
    phis = np.array(affinities).reshape(-1, *ones)
    rhos = np.array(stickinesses).reshape(-1, *ones)
    _check_unit("affinity", phis)
    _check_unit("stickiness", rhos)
    # One at a time, as alone: the roots of several, found together, may differ in the last bit.
    loads = [_known_loads(n_experts, n_active, cv).reshape(*ones, -1) for cv, _, _ in routings]
    tokens_at = tokens.reshape(ones[tokens.ndim :] + tokens.shape)
    chances = [_known_chances(tokens_at.tobytes(), tokens_at.shape, rho) for _, _, rho in routings]
    fresh = [np.stack(of_routings) for of_routings in zip(*chances, strict=True)]
    touched = _summed(batch, np.stack(loads), fresh, phis, (len(routings), *shape))
    return np.asarray(
        np.clip(experts * touched, active, np.minimum(experts, batch * tokens * active))
    )


def _summed(
    batch: Array, load: Array, fresh: Sequence[Array], phi: Array, shape: tuple[int, ...]
) -> Array:
    """Mean chance over the load nodes that a step touches an expert, of that shape. [-]"""
    weight = _nodes()[1]
    total: Array = np.zeros(shape)
    chances = [chance[..., None] for chance in fresh]
    together = max(1, _BLOCK // max(total.size, 1))
    for first in range(0, load.shape[-1], together):
        nodes = slice(first, first + together)
        untouched = _log_untouched(load[..., nodes], chances, phi[..., None])
        share = weight[nodes] * np.expm1(batch[..., None] * untouched)
        # One after the other, so that the rounding of a sum does not hang on how many nodes are
        # taken together.
        for node in range(share.shape[-1]):
            total = total - share[..., node]
    return total


def local_experts(touched: ArrayLike, n_experts: ArrayLike, expert_parallel: ArrayLike) -> Array:
    """Distinct experts on the slowest of some expert-parallel ranks. [-]

    Parameters
    ----------
    touched : distinct experts on all ranks, U, in [0, N]. [-]
    n_experts : N. [-]
    expert_parallel : ranks that share the experts, ep, 1 to 32; beyond, the excess of 32 is held.
        [-]

    Returns
    -------
    U/ep + e_ep sqrt(U/ep (1 - U/N)), at most N/ep, broadcast. e_ep is the mean maximum of ep
    standard normals. [-]

    Assumed until measured: results that use it are flagged.
    """
    experts = np.asarray(n_experts, float)
    ranks = np.asarray(expert_parallel, float)
    mean = np.asarray(touched, float) / ranks
    # The mean maximum grows with the logarithm of the ranks nearly in a straight line, so read
    # there.
    factor = np.interp(np.log2(ranks), np.log2(_IMBALANCE_RANKS), _IMBALANCE_FACTOR)
    sd = np.sqrt(mean * np.clip(1.0 - np.asarray(touched, float) / experts, 0.0, 1.0))
    return np.asarray(np.minimum(mean + factor * sd, experts / ranks))


def unrelated_overlap(n_experts: ArrayLike, n_active: ArrayLike, load_cv: ArrayLike) -> Array:
    """J, the share of experts that two unrelated tokens have in common. [-]

    k/N (1 + CV^2) for `n_experts` N, `n_active` k and `load_cv` CV [-]. Own derivation: two
    independent choices meet in sum_i q_i^2 experts, over k.
    """
    return np.asarray(
        np.asarray(n_active, float) / np.asarray(n_experts, float) * (1.0 + np.square(load_cv))
    )


def one_prompt_cv(
    n_experts: ArrayLike, n_active: ArrayLike, load_cv: ArrayLike, affinity: ArrayLike
) -> Array:
    """CV of the loads of sequences that share a prompt, and so the experts that one of them
    prefers. [-]

    sqrt((J + (1 - J) phi) N/k - 1), J = k/N (1 + CV^2): two sequences then meet as two distant
    tokens of one do. For `n_experts` N, `n_active` k, `load_cv` CV and `affinity` phi [-] of
    sequences with prompts of their own. Own derivation.
    """
    overlap = unrelated_overlap(n_experts, n_active, load_cv)
    alike = overlap + (1.0 - overlap) * np.asarray(affinity, float)
    return np.sqrt(alike * np.asarray(n_experts, float) / np.asarray(n_active, float) - 1.0)


def _log_untouched(load: Array, fresh_chances: Sequence[Array], affinity: Array) -> Array:
    """log P0(t): log-chance that none of one sequence's t tokens chooses an expert of load q.

    `fresh_chances` of `_fresh_chances`: the same for every load, so callers with many loads compute
    it once. All arguments broadcast.
    """
    # phi = 0 makes a infinite (tokens independent) and phi = 1 makes it 0 (all alike): both ends
    # are limits.
    a = 1.0 / np.clip(affinity, 1e-9, 1.0 - 1e-9) - 1.0
    no_choice = 1.0 - load  # m_1
    total: Array = np.asarray(0.0)
    for fresh, chance in enumerate(fresh_chances):
        if fresh:
            no_choice = no_choice * ((1.0 - load) * a + fresh) / (a + fresh)
        total = total + chance * no_choice
    # An expert of load 1 is never left out: -inf, whose exponential is the right 0.
    with np.errstate(divide="ignore"):
        return np.log(np.clip(total, 0.0, 1.0))


def _fresh_chances(tokens: Array, stickiness: Array) -> list[Array]:
    """Chance that j of a sequence's t - 1 later tokens choose anew, for j = 0 to the longest t -
    1."""
    trials = tokens - 1
    chance = 1.0 - stickiness
    ways = _combinations(int(tokens.max()))[trials.astype(int)]
    return [
        np.asarray(ways[..., j] * chance**j * (1.0 - chance) ** np.maximum(trials - j, 0))
        for j in range(ways.shape[-1])
    ]


@functools.lru_cache(maxsize=128)
def _known_chances(tokens: bytes, shape: tuple[int, ...], stickiness: float) -> list[Array]:
    """`_fresh_chances` of tokens packed, so that curves of the same K share them."""
    return _fresh_chances(np.frombuffer(tokens).reshape(shape), np.asarray(stickiness))


@functools.lru_cache(maxsize=16)
def _combinations(count: int) -> Array:
    """Ways to choose j of n, [n, j] for both from 0 to count - 1; 0 where j > n."""
    return np.array([[float(math.comb(n, j)) for j in range(count)] for n in range(count)])


@functools.cache
def _nodes() -> tuple[Array, Array]:
    """Normal quantiles at, and weights of, the Gauss-Legendre nodes on (0, 1)."""
    points, weights = np.polynomial.legendre.leggauss(_N_NODES)
    normal = NormalDist()
    return np.array([normal.inv_cdf((point + 1.0) / 2.0) for point in points]), weights / 2.0


def _load_nodes(share: Array, load_cv: Array, experts: Array, active: Array) -> tuple[Array, Array]:
    """Expert load q at the quantile nodes [..., nodes] and the node weights [nodes]; mean k/N, CV
    as asked."""
    if not np.all(np.isfinite(load_cv)) or np.any(load_cv < 0.0):
        raise AdvisorError("load_cv must be a finite number >= 0")
    limit = np.sqrt(np.maximum(experts / active - 1.0, 0.0))
    if np.any(load_cv > limit + 1e-9):
        raise AdvisorError(
            f"load_cv={float(load_cv.max()):.3g} exceeds sqrt(N/k - 1)={float(limit.min()):.3g}, "
            "the most uneven load k of N experts can have; choose a smaller load_cv"
        )
    share, cv, experts = np.broadcast_arrays(share, load_cv, experts)
    if share.size == 1:  # most often: nothing to look for twice
        row = np.array([share.item(), cv.item(), experts.item()])
        return _solved_loads(row.tobytes())[0].reshape(*share.shape, _N_NODES), _nodes()[1]
    rows = np.stack([share.ravel(), cv.ravel(), experts.ravel()], axis=1)
    unique, index = np.unique(rows, axis=0, return_inverse=True)
    solved = _solved_loads(unique.tobytes())
    return solved[index.ravel()].reshape(*share.shape, _N_NODES), _nodes()[1]


@functools.lru_cache(maxsize=128)
def _known_loads(experts: float, active: float, load_cv: float) -> Array:
    """`_load_nodes` of one layer, [nodes], so that all steps of a setup share them."""
    count = np.asarray(experts, float)
    chosen = np.asarray(active, float)
    return _load_nodes(chosen / count, np.asarray(load_cv), count, chosen)[0]


@functools.lru_cache(maxsize=64)
def _solved_loads(packed: bytes) -> Array:
    """Capped lognormal loads [rows, nodes] for rows of (k/N, CV, N), packed so that equal questions
    are cached.

    The load of the busiest expert is the quantile of its mid-rank 1 - 1/(2N), so node quantiles
    stop there.
    """
    share, cv, experts = np.frombuffer(packed).reshape(-1, 3).T
    normal = NormalDist()
    bound = np.array([normal.inv_cdf(1.0 - 0.5 / max(count, 2.0)) for count in experts])
    quantiles, weights = _nodes()
    quantiles = np.clip(quantiles, -bound[:, None], bound[:, None])
    # Bisection on the second moment, which rises with sigma: the cap leaves no closed form for
    # sigma.
    target = share**2 * (1.0 + cv**2)
    low = np.zeros_like(share)
    high = np.full_like(share, _MAX_SIGMA)
    for _ in range(50):
        middle = (low + high) / 2.0
        short = _capped_load(share, middle, quantiles, weights) ** 2 @ weights < target
        low = np.where(short, middle, low)
        high = np.where(short, high, middle)
    sigma = np.where(cv > 0.0, (low + high) / 2.0, 0.0)
    return _capped_load(share, sigma, quantiles, weights)


def _capped_load(share: Array, sigma: Array, quantiles: Array, weights: Array) -> Array:
    """min(1, c exp(sigma z)) [rows, nodes] with c such that the weighted mean is `share`; the cap
    is exact.

    Entry m of `scale` is the c that holds if just the nodes above m are capped; the largest m that
    needs no further cap is the solution.
    """
    shape = np.exp(sigma[:, None] * (quantiles - quantiles[:, -1:]))
    below = np.cumsum(weights * shape, axis=1)
    scale = (share[:, None] - (1.0 - np.cumsum(weights))) / below
    fits = (scale >= 0.0) & (scale * shape <= 1.0 + 1e-12)
    last = shape.shape[1] - 1 - np.argmax(fits[:, ::-1], axis=1)
    chosen = np.where(fits.any(axis=1), last, 0)
    load = np.minimum(np.take_along_axis(scale, chosen[:, None], axis=1) * shape, 1.0)
    return np.where(np.arange(shape.shape[1]) > chosen[:, None], 1.0, load)


def _check_counts(experts: Array, active: Array) -> None:
    if not (np.isfinite(experts).all() and np.isfinite(active).all()):
        raise AdvisorError("n_experts and n_active must be finite")
    if not ((active >= 1) & (active <= experts)).all():
        raise AdvisorError(
            f"n_active must lie between 1 and n_experts; got n_active up to {active.max():g} with "
            f"n_experts from {experts.min():g}"
        )


def _check_tokens(batch: Array, tokens: Array) -> None:
    if not ((batch >= 1) & (batch < np.inf)).all():
        raise AdvisorError("batch_size must be >= 1")
    if not ((tokens >= 1) & (tokens == np.floor(tokens)) & (tokens <= _MAX_TOKENS)).all():
        raise AdvisorError(f"tokens_per_sequence must be whole numbers from 1 to {_MAX_TOKENS}")


def _check_unit(name: str, value: Array) -> None:
    if not ((value >= 0.0) & (value <= 1.0)).all():
        raise AdvisorError(f"{name} must lie between 0 and 1")
