"""A whole routing trace (many layers, ragged sequences): fitted parameters, and predicted against counted experts.

Routing parameters from counts of activated experts per pass: what counts alone can tell, and what they cannot.

Passes with one token per sequence touch U(B) = sum_i 1 - (1 - q_i)^B experts: B fixes the load variation and says
nothing of affinity or stickiness, which relate tokens of one sequence. Passes with several tokens (verification) do,
with both effects mixed unless the number of tokens varies. The fit is the maximum of likelihood times a prior around
the routing preset, so what the log does not tell stays at the preset, and is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.physics.touched_experts import (
    PARAMETERS,
    RoutingPreset,
    expected_experts,
    touched_experts,
    unrelated_overlap,
    write_own_routing,
)
from advisor.prediction import BAND_SIGMAS, AdvisorError, Array

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
"""Choices per expert from which on a uniform router leaves out less than 1 % of them (exp(-5)). [-]"""
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


def fit_overlaps(
    unrelated: float, overlap_lag1: float, overlap_far: float, n_experts: int, n_active: int
) -> tuple[float, float, float]:
    """(load_cv, affinity, stickiness) from three overlaps, in closed form. [-]

    `unrelated` is J, `overlap_lag1` o_1 and `overlap_far` o_inf: shares of experts that two tokens have in common [-],
    of different sequences, next to each other, and far apart in one sequence. Own derivation, for the routing of
    `routing.touched_experts`: J = k/N (1 + CV^2), o_inf = J + (1-J) phi, o_1 = o_inf + (1-o_inf) rho. Estimates below
    zero are set to zero, those above the most that k of N experts allow to that.
    """
    cv = math.sqrt(max(unrelated * n_experts / n_active - 1.0, 0.0))
    phi = (overlap_far - unrelated) / (1.0 - unrelated) if unrelated < 1.0 else 0.0
    rho = (overlap_lag1 - overlap_far) / (1.0 - overlap_far) if overlap_far < 1.0 else 0.0
    return min(cv, math.sqrt(n_experts / n_active - 1.0)), min(max(phi, 0.0), 1.0), min(max(rho, 0.0), 1.0)


@dataclass(frozen=True)
class UnionRow:
    """Distinct experts of B sequences x t consecutive tokens, as counted, as fitted, and uniform."""

    batch_size: int
    tokens: int
    counted: float
    predicted: float
    uniform: float


@dataclass(frozen=True)
class TraceFit:
    """The fit over all layers, by layer, and held against the counts."""

    fit: RoutingFit
    n_experts: int
    n_active: int
    n_sequences: int
    n_tokens: int
    layers: tuple[int, ...]
    """Layers of the trace that route; the others chose the same experts throughout, as dense layers do."""
    overlap_by_layer: Array
    """Share of experts kept, [layers, LAGS]. [-]"""
    unrelated_by_layer: Array
    """Overlap of unrelated tokens, [layers]. [-]"""
    unions: tuple[UnionRow, ...]
    warnings: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        """Largest |predicted / counted - 1| over the union table. [-]"""
        return max(abs(row.predicted / row.counted - 1.0) for row in self.unions)


def fit_trace(expert_ids: ArrayLike, n_experts: int, rng: np.random.Generator | None = None) -> RoutingFit:
    """Routing parameters of one layer's trace, with 80 % intervals: `fit_sequences` for a single layer.

    `expert_ids` [sequences, tokens, k] are whole numbers in [0, N) [-]. Raises AdvisorError for another shape, and for
    what `fit_sequences` refuses.
    """
    ids = np.asarray(expert_ids)
    if ids.ndim != 3 or not np.issubdtype(ids.dtype, np.integer):
        raise AdvisorError(
            f"expert_ids has shape {ids.shape} of {ids.dtype}; expected whole numbers [sequences, tokens, k]"
        )
    return fit_sequences([sequence[:, None, :] for sequence in ids], n_experts, rng).fit


def fit_sequences(
    sequences: Sequence[NDArray[np.integer]], n_experts: int, rng: np.random.Generator | None = None
) -> TraceFit:
    """Fit load_cv, affinity and stickiness to traces of several requests.

    Parameters
    ----------
    sequences : expert ids, one array [tokens, layers, k] per sequence, all with the same layers and k.
    n_experts : N. [-]
    rng : draws the half-samples behind the intervals and the batches that are counted; default: a fixed seed.

    Raises
    ------
    AdvisorError : no two sequences of MIN_TOKENS tokens, ids outside [0, N), an expert chosen twice by one token, or
    no layer that routes.

    Notes
    -----
    Overlaps are averaged over sequences, then over layers, and solved in closed form (`fit_overlaps`). The overlap of
    unrelated tokens, J, uses different sequences only (unbiased); o_inf is the mean of lags 4 to 7. CV is poorly
    determined when small; judge a fit by the U it predicts.
    """
    rng = rng or np.random.default_rng(0)
    long, warnings = _long_enough(sequences)
    layers, left_out = _routing_layers(long, n_experts)
    if left_out:
        warnings.append(f"{left_out} of {left_out + len(layers)} layers choose the same experts for every token: dense")
    kept = [np.ascontiguousarray(ids[:, layers]) for ids in long]
    n_active = kept[0].shape[2]
    if len(kept) * len(layers) * n_experts > MAX_USES:
        raise AdvisorError(
            f"{len(kept):,} sequences of {len(layers):,} layers with {n_experts:,} experts are too many to be counted; "
            "send fewer sequences, and check the number of experts"
        )
    use = np.empty((len(kept), len(layers), n_experts), np.float32)
    lags = np.empty((len(kept), len(layers), LAGS))
    for row, ids in enumerate(kept):
        use[row], lags[row] = _statistics(ids, n_experts)
    warnings += _never_chosen(use, sum(map(len, kept)), n_active)
    unrelated = _unrelated(use, n_active)
    point = _parameters(unrelated, lags, n_experts, n_active)
    half = max(2, len(kept) // 2)
    # A sequence drawn twice would pair with itself and pass for unrelated, so half-samples without replacement are
    # used; with n/2 of n sequences their spread equals the full sample's standard error.
    draws = []
    for _ in range(_BOOTSTRAP):
        rows = rng.permutation(len(kept))[:half]
        draws.append(_parameters(_unrelated(use[rows], n_active), lags[rows], n_experts, n_active))
    low, high = np.quantile(np.array(draws), [0.1, 0.9], axis=0)
    intervals = [(min(float(a), p), max(float(b), p)) for a, b, p in zip(low, high, point, strict=True)]
    fit = RoutingFit(
        *point,
        load_cv_interval=intervals[0],
        affinity_interval=intervals[1],
        stickiness_interval=intervals[2],
        overlap_by_lag=tuple(float(x) for x in lags.mean(axis=(0, 1))),
        unrelated_overlap=float(unrelated.mean()),
    )
    return TraceFit(
        fit=fit,
        n_experts=n_experts,
        n_active=n_active,
        n_sequences=len(kept),
        n_tokens=sum(len(ids) for ids in kept),
        layers=tuple(layers),
        overlap_by_layer=lags.mean(axis=0),
        unrelated_by_layer=unrelated,
        unions=tuple(_unions(kept, n_experts, n_active, fit, rng)),
        warnings=tuple(warnings),
    )


def _long_enough(sequences: Sequence[NDArray[np.integer]]) -> tuple[list[NDArray[np.integer]], list[str]]:
    warnings = []
    shapes = {ids.shape[1:] for ids in sequences}
    if len(shapes) > 1 or any(ids.ndim != 3 for ids in sequences):
        raise AdvisorError("the sequences differ in layers or experts per token; expected one [tokens, layers, k] each")
    long = [ids for ids in sequences if len(ids) >= MIN_TOKENS]
    if len(long) < 2:
        raise AdvisorError(
            f"{len(long)} sequences of at least {MIN_TOKENS} tokens; at least 2 are needed (several files can be "
            "given together), 20 x 64 tokens are good"
        )
    if len(long) < len(sequences):
        warnings.append(f"{len(sequences) - len(long)} sequences shorter than {MIN_TOKENS} tokens were left out")
    if len(long) < FEW_SEQUENCES:
        warnings.append(f"only {len(long)} sequences: the load variation in particular is poorly known")
    return long, warnings


def _routing_layers(sequences: list[NDArray[np.integer]], n_experts: int) -> tuple[list[int], int]:
    """Layers that route, and how many do not. Raises AdvisorError for ids that cannot be."""
    # Tracers write the layers without a router with one fixed choice.
    first = sequences[0][0]
    constant = np.all([np.all(ids == first, axis=(0, 2)) for ids in sequences], axis=0)
    layers = [int(layer) for layer in np.flatnonzero(~constant)]
    if not layers:
        raise AdvisorError("every layer chooses the same experts for every token; this is no routing trace")
    for ids in sequences:
        used = ids[:, layers]
        if used.min() < 0 or used.max() >= n_experts:
            raise AdvisorError(f"expert ids span {used.min()} to {used.max()}; expected 0 to {n_experts - 1}")
        ordered = np.sort(used, axis=2)
        if np.any(ordered[..., 1:] == ordered[..., :-1]):
            raise AdvisorError("a token chooses one expert twice; each must choose k different experts")
    return layers, int(constant.sum())


def _statistics(ids: NDArray[np.integer], n_experts: int) -> tuple[Array, Array]:
    """Mean use [layers, N] and overlap by lag [layers, LAGS] of one sequence."""
    tokens, layers, _ = ids.shape
    index = ids.astype(np.intp)
    chosen = np.zeros((tokens, layers, n_experts), bool)
    np.put_along_axis(chosen, index, True, axis=2)
    overlap = [np.take_along_axis(chosen[:-lag], index[lag:], axis=2).mean(axis=(0, 2)) for lag in range(1, LAGS + 1)]
    return chosen.mean(axis=0), np.stack(overlap, axis=1)


def _never_chosen(use: NDArray[np.float32], n_tokens: int, n_active: int) -> list[str]:
    """A sentence when more experts were never chosen than so many tokens leave out."""
    never = float((use.max(axis=0) == 0).mean())
    if never <= MAX_NEVER or n_tokens * n_active < ENOUGH_CHOICES * use.shape[2]:
        return []
    return [f"{never:.0%} of the experts are never chosen: another model's ids, or those of one rank of several?"]


def _unrelated(use: NDArray[np.float32], n_active: int) -> Array:
    """Overlap of tokens of different sequences, [layers], from mean use [sequences, layers, N]."""
    size = len(use)
    total = use.sum(axis=0, dtype=float) ** 2 - (use.astype(float) ** 2).sum(axis=0)
    return np.asarray(total.sum(axis=-1) / (size * (size - 1) * n_active))


def _parameters(unrelated: Array, lags: Array, n_experts: int, n_active: int) -> tuple[float, float, float]:
    curve = lags.mean(axis=(0, 1))
    # What is left of stickiness at lag 4 is rho^4, below 1 % for the presets, whose largest is 0.31.
    return fit_overlaps(float(unrelated.mean()), float(curve[0]), float(curve[3:].mean()), n_experts, n_active)


def _unions(
    sequences: list[NDArray[np.integer]], n_experts: int, n_active: int, fit: RoutingFit, rng: np.random.Generator
) -> list[UnionRow]:
    out = []
    for batch in (size for size in BATCHES if size <= len(sequences)):
        for tokens in TOKENS:
            counts = [_count(sequences, batch, tokens, n_experts, rng) for _ in range(_DRAWS)]
            predicted = touched_experts(batch, tokens, n_experts, n_active, fit.load_cv, fit.affinity, fit.stickiness)
            uniform = expected_experts(batch * tokens, n_experts, n_active)
            out.append(UnionRow(batch, tokens, float(np.mean(counts)), float(predicted), float(uniform)))
    return out


def _count(
    sequences: list[NDArray[np.integer]], batch: int, tokens: int, n_experts: int, rng: np.random.Generator
) -> float:
    """Distinct experts of `batch` different sequences at random places, mean over layers."""
    layers = sequences[0].shape[1]
    touched = np.zeros((layers, n_experts), bool)
    for row in rng.permutation(len(sequences))[:batch]:
        start = int(rng.integers(0, len(sequences[row]) - tokens + 1))
        window = sequences[row][start : start + tokens]
        touched[np.arange(layers)[None, :, None], window] = True
    return float(touched.sum(axis=1).mean())


def implied_overlaps(load_cv: float, affinity: float, stickiness: float, n_experts: int, n_active: int) -> list[float]:
    """Share of experts kept at lags 1 to LAGS that routing parameters imply. [-]

    o_inf + (1 - o_inf) rho^lag for `load_cv` CV, `affinity` phi and `stickiness` rho [-]: the inverse of
    `routing.fit_overlaps`.
    """
    unrelated = float(unrelated_overlap(n_experts, n_active, load_cv))
    far = unrelated + (1.0 - unrelated) * affinity
    return [far + (1.0 - far) * stickiness**lag for lag in range(1, LAGS + 1)]


PRIOR_SD = (0.5, 0.1, 0.1)
"""Least spread of the prior around the preset: other data than the preset was measured on (assumed). [-]"""
UNIDENTIFIED = 0.9
"""A parameter whose posterior spread exceeds this share of its prior's was not learnt from the log. [-]"""
APART = 0.4
"""Affinity and stickiness are told apart when each is known to this share of its prior spread. [-]"""
MODEL_LOG_SD = 0.01
"""Error of the routing form itself, log standard deviation (tests hold it to 2 % on synthetic routers). [-]"""
# One for each stretch of the log below, so that no stretch is empty.
MIN_PASSES = 20
FEW_BLOCKS = 8
"""A cell met in fewer stretches of the log takes the scatter of all cells where its own is smaller. [-]"""
# Passes of one stretch share their sequences, so stretches are resampled and not passes.
_BLOCKS, _COUNT_DRAWS = 20, 400
# A pass of one token touches k experts exactly; logs round their means.
_ONE_TOKEN_TOLERANCE = 0.01


@dataclass(frozen=True)
class CountCell:
    """Passes of B sequences x t tokens, with the mean experts counted, predicted by the fit, and uniform."""

    batch_size: int
    tokens: int
    passes: int
    counted: float
    predicted: float
    uniform: float


@dataclass(frozen=True)
class CountParameter:
    """One routing parameter with its 80 % interval.

    Where it is not identified the log left it open, and value and interval are the preset's.
    """

    name: str
    value: float
    low: float
    high: float
    identified: bool


@dataclass(frozen=True)
class CountFit:
    """Result of fitting the routing parameters to a log of activated experts."""

    parameters: tuple[CountParameter, ...]
    cells: tuple[CountCell, ...]
    n_passes: int
    n_experts: int
    n_active: int
    warnings: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        """Largest |predicted / counted - 1| over the cells. [-]"""
        return max(abs(cell.predicted / cell.counted - 1.0) for cell in self.cells)

    @property
    def routing(self) -> str:
        """The scenario's `routing`: what was learnt, and `-` for what the preset is left to say."""
        known = [item if item.identified else None for item in self.parameters]
        return write_own_routing(
            [item.value if item else None for item in known],
            [(item.low, item.high) if item else (0.0, 0.0) for item in known],
        )


def fit_counts(
    sequences: ArrayLike,
    tokens_per_sequence: ArrayLike,
    experts: ArrayLike,
    n_experts: int,
    n_active: int,
    preset: RoutingPreset,
    rng: np.random.Generator | None = None,
) -> CountFit:
    """Fit the routing parameters to counts of distinct experts.

    Parameters
    ----------
    sequences, tokens_per_sequence : B and t of each pass, in the order of the log. [passes]
    experts : distinct routed experts it touched, mean over layers. [passes]
    n_experts, n_active : N and k. [-]
    preset : centre of the prior.
    rng : resamples the log's stretches behind the intervals; default: a fixed seed.

    Raises
    ------
    AdvisorError : fewer than MIN_PASSES passes with two or more tokens, none that a parameter follows from, or counts
    that k of N experts cannot give.
    """
    rng = rng or np.random.default_rng(0)
    batch, tokens, counted = (np.asarray(values, float) for values in (sequences, tokens_per_sequence, experts))
    counted, warnings = _scaled(batch * tokens, counted, n_experts, n_active)
    # One token touches k experts under any routing: such passes say nothing of it.
    useful = batch * tokens > 1
    if useful.sum() < MIN_PASSES:
        raise AdvisorError(
            f"{int(useful.sum())} passes with two or more tokens; at least {MIN_PASSES} are needed, of several sizes"
        )
    shapes, cell = np.unique(np.stack([batch, tokens], axis=1)[useful], axis=0, return_inverse=True)
    cell, counted = cell.ravel(), counted[useful]
    blocks = np.arange(len(cell)) * _BLOCKS // len(cell)
    sums, counts = _by_block(cell, blocks, counted, len(shapes))
    mean = sums.sum(axis=0) / counts.sum(axis=0)
    prior, spread = _prior(preset, n_experts, n_active)
    spread_of_mean = _relative_error(sums, counts, mean)
    theta, slopes, covariance = _solve(shapes, mean, spread_of_mean, prior, spread, n_experts, n_active)
    draws = _draws(sums, counts, mean, spread_of_mean, slopes, theta, spread, rng)
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    learnt = np.sqrt(np.diag(covariance)) <= UNIDENTIFIED * spread
    if not learnt.any():
        raise AdvisorError(
            "the passes of this log fix no routing parameter; it needs passes of 2 to some dozens of sequences"
        )
    parameters = _count_parameters(theta, (low, high), learnt, preset, prior, _limits(n_experts, n_active))
    predicted = _experts(shapes, theta, n_experts, n_active)
    uniform = expected_experts(shapes[:, 0] * shapes[:, 1], float(n_experts), float(n_active))
    cells = tuple(
        CountCell(int(b), int(t), int(n), float(c), float(p), float(u))
        for (b, t), n, c, p, u in zip(shapes, counts.sum(axis=0), mean, predicted, uniform, strict=True)
    )
    warnings += _words(shapes, learnt, covariance, spread, len(cell))
    return CountFit(parameters, cells, int(useful.sum()), n_experts, n_active, tuple(warnings))


def _count_parameters(
    theta: Array,
    interval: tuple[Array, Array],
    learnt: NDArray[np.bool_],
    preset: RoutingPreset,
    prior: Array,
    limit: Array,
) -> tuple[CountParameter, ...]:
    """What was learnt with its interval, within its limits; the preset's own value and range for the rest."""
    found = []
    for i, (name, stated) in enumerate(zip(PARAMETERS, preset.parameters, strict=True)):
        value, low, high = float(prior[i]), stated.low, stated.high
        if learnt[i]:
            value = float(theta[i])
            low = float(max(min(interval[0][i], value), 0.0))
            high = float(min(max(interval[1][i], value), limit[i]))
        found.append(CountParameter(name, value, low, high, bool(learnt[i])))
    return tuple(found)


def _scaled(tokens: Array, counted: Array, n_experts: int, n_active: int) -> tuple[Array, list[str]]:
    """Counts with layers without experts taken out of the mean, where single-token passes show that they are in it.

    One token touches exactly k experts. Raises AdvisorError for counts that k of N cannot give.
    """
    warnings: list[str] = []
    single = counted[tokens == 1]
    if single.size:
        share = float(single.mean()) / n_active
        if not 0.5 <= share <= 1.0 + _ONE_TOKEN_TOLERANCE:
            raise AdvisorError(
                f"passes of one token touch {share * n_active:.3g} experts, and the model uses {n_active}; choose the "
                "model that was logged (a log of one rank of several cannot be used)"
            )
        if share < 1.0 - _ONE_TOKEN_TOLERANCE:
            warnings.append(
                f"passes of one token touch {share * n_active:.3g} experts instead of {n_active}: layers without "
                f"experts are in the mean, so all counts were divided by {share:.3f}"
            )
            counted = counted / share
    slack = 1.0 + _ONE_TOKEN_TOLERANCE
    if counted.max() > n_experts * slack or np.any(counted * slack < n_active):
        raise AdvisorError(
            f"a pass touches {counted.min():.3g} to {counted.max():.3g} experts; {n_active} of {n_experts} allow "
            f"{n_active} to {n_experts}; choose the model that was logged"
        )
    return np.minimum(counted, float(n_experts)), warnings


def _by_block(cell: NDArray[np.int_], block: NDArray[np.int_], counted: Array, n_cells: int) -> tuple[Array, Array]:
    """Sum of counts and number of passes, [blocks, cells]: passes of one stretch share their sequences."""
    sums, counts = np.zeros((_BLOCKS, n_cells)), np.zeros((_BLOCKS, n_cells))
    np.add.at(sums, (block, cell), counted)
    np.add.at(counts, (block, cell), 1.0)
    return sums, counts


def _relative_error(sums: Array, counts: Array, mean: Array) -> Array:
    """Log standard deviation of each cell's mean [cells], from how its block means scatter; model error included."""
    there = counts > 0
    blocks = there.sum(axis=0)
    deviation = np.where(there, sums / np.maximum(counts, 1.0) / mean - 1.0, 0.0)
    several = blocks >= 2
    variance = (deviation**2).sum(axis=0) / np.maximum(blocks - 1, 1)
    pooled = float(variance[several].mean()) if several.any() else 0.05**2
    variance = np.where(blocks >= FEW_BLOCKS, variance, np.maximum(variance, pooled))
    return np.sqrt(variance / blocks + MODEL_LOG_SD**2)


def _prior(preset: RoutingPreset, n_experts: int, n_active: int) -> tuple[Array, Array]:
    """Centre and standard deviation of the prior [3]."""
    items = preset.parameters
    centre = np.clip([item.value for item in items], 0.0, _limits(n_experts, n_active))
    spread = [
        max((item.high - item.low) / (2.0 * BAND_SIGMAS), least) for item, least in zip(items, PRIOR_SD, strict=True)
    ]
    return centre, np.array(spread)


def _limits(n_experts: int, n_active: int) -> Array:
    return np.array([np.sqrt(max(n_experts / n_active - 1.0, 0.0)), 1.0, 1.0])


def _experts(shapes: Array, theta: Array, n_experts: int, n_active: int) -> Array:
    return touched_experts(shapes[:, 0], shapes[:, 1], n_experts, n_active, *(float(value) for value in theta))


def _solve(
    shapes: Array, mean: Array, error: Array, prior: Array, spread: Array, n_experts: int, n_active: int
) -> tuple[Array, Array, Array]:
    """Parameters [3], slopes of the log counts [cells, 3], posterior covariance [3, 3]."""
    from scipy.optimize import least_squares

    limit = _limits(n_experts, n_active)

    def residuals(theta: Array) -> Array:
        off = np.log(_experts(shapes, theta, n_experts, n_active) / mean) / error
        return np.concatenate([off, (theta - prior) / spread])

    # The solver takes no start on a bound, where a prior of 0 lies.
    start = np.clip(prior, 1e-3, limit - 1e-3)
    found = least_squares(residuals, start, bounds=(np.zeros(3), limit), diff_step=1e-4, x_scale=spread)
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    return np.asarray(found.x), np.asarray(found.jac[: len(shapes)] * error[:, None]), covariance


def _draws(
    sums: Array,
    counts: Array,
    mean: Array,
    error: Array,
    slopes: Array,
    theta: Array,
    spread: Array,
    rng: np.random.Generator,
) -> Array:
    """Parameters under resampled stretches of the log, model error and prior [draws, 3]: one Newton step each."""
    out = np.empty((_COUNT_DRAWS, 3))
    weighted = slopes / error[:, None] ** 2
    precision = weighted.T @ slopes + np.diag(spread**-2.0)
    for draw in range(_COUNT_DRAWS):
        rows = rng.integers(0, len(sums), len(sums))
        n = counts[rows].sum(axis=0)
        moved = np.where(n > 0, np.log(np.maximum(sums[rows].sum(axis=0), 1e-9) / np.maximum(n, 1.0) / mean), 0.0)
        moved = moved + MODEL_LOG_SD * rng.standard_normal(len(mean))
        pulled = rng.standard_normal(3) / spread
        out[draw] = theta + np.linalg.solve(precision, weighted.T @ moved + pulled)
    return out


def _words(shapes: Array, learnt: NDArray[np.bool_], covariance: Array, spread: Array, n_passes: int) -> list[str]:
    """What counts alone leave open, in sentences."""
    words = []
    several = np.unique(shapes[shapes[:, 1] > 1, 1])
    if not several.size:
        words.append(
            "all passes bring one token per sequence, and counts of such passes say nothing about affinity and "
            "stickiness, which relate tokens of one sequence: both stay at the preset; a log with speculative "
            "decoding on, or a trace of expert ids, would tell"
        )
    else:
        apart = np.sqrt(np.diag(covariance)[1:]) <= APART * spread[1:]
        if learnt[1:].any() and not apart.all():
            words.append(
                "counts tell how much affinity and stickiness save together, hardly how much each does: their "
                "intervals belong together"
            )
        open_ones = [name for name, known in zip(PARAMETERS[1:], learnt[1:], strict=True) if not known]
        if open_ones:
            words.append(f"{' and '.join(open_ones)} stay at the preset: the log does not tell")
    if not learnt[0]:
        words.append("load variation stays at the preset: the log does not tell")
    if n_passes < 10 * _BLOCKS:
        words.append(f"only {n_passes} passes: the intervals are rough")
    return words
