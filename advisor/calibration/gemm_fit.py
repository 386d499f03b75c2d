"""Dense projections by `laws.gemm` with one launch, one record per kernel table, newest version.

The n k weights count in their stored format. The activations of a decode step are few beside them, and their cost
stays in the other terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor import laws
from advisor.calibration.frames import (
    BYTES_PER_WEIGHT,
    content_hash,
    held_out,
    held_out_errors,
    keep_rows,
    require_columns,
)
from advisor.calibration.nnls import correlation_fields
from advisor.calibration.records import Dropped, FitParameter, FitRecord, record_id

if TYPE_CHECKING:
    import pandas as pd

FORM = "gemm-t0-pnorm"
GEMM_KEYS = ["m", "n", "k"]
MAX_ROWS_M = 1024
MIN_WEIGHTS = 1 << 22
"""Smaller matrices (routers, norms) are launch-bound and would only blur t0."""
MIN_N, MIN_K, MAX_K = 1024, 512, 16384
"""Projections of models; a few columns with a very deep sum fill too few tiles and obey another law (2-5 x slower)."""
MAX_KERNEL_T0_S = 30e-6
"""A larger intercept is host time (no graph capture) or not identified (only large matrices left)."""
SMALL_ROWS = 16
"""A product of so few rows and MIN_WEIGHTS weights is a launch and little else. [-]"""
SAMPLE = 6000
FOLDS = 5
LOW = np.array([5e-7, 1e10, 1e11, 1.0])
HIGH = np.array([2e-4, 2e13, 5e16, 8.0])
NAMES = (
    ("t0_s", "s"),
    ("bandwidth_bytes_per_s", "B/s"),
    ("flops_per_s", "FLOP/s"),
    ("sharpness", "1"),
)
SYMBOLS = ("t0", "BW", "F_peak", "p")
"""Of the same, in the law."""


def _times(parameters: np.ndarray, table: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of one GEMM for each row. Parameters in the order of NAMES, `table` as `_symbols`."""
    return np.asarray(laws.gemm(**table, **dict(zip(SYMBOLS, parameters, strict=True))))


def _symbols(frame: pd.DataFrame, dtype: str) -> dict[str, np.ndarray]:
    """What `laws.gemm` takes of a table's rows, but for the fitted constants."""
    m, n, k = (frame[name].to_numpy(dtype=float) for name in GEMM_KEYS)
    return {"M": m, "W": n * k, "b": np.full(len(m), BYTES_PER_WEIGHT[dtype])}


def _fit(table: Mapping[str, np.ndarray], measured: np.ndarray, bounds: np.ndarray) -> Any:
    from scipy.optimize import least_squares

    span_low, span_high = np.log(bounds)
    # Only the terms that grow, each at a rate of one: what the fastest rows reach is where the search starts.
    weights, arithmetic = laws.columns(laws.gemm, ("BW", "F_peak"), p=1.0, **table).T
    start = np.log([5e-6, np.quantile(weights / measured, 0.95), np.quantile(arithmetic / measured, 0.99), 2.3])

    def residual(x: np.ndarray) -> np.ndarray:
        return np.log(_times(np.exp(x), table) / measured)

    return least_squares(
        residual,
        np.clip(start, span_low + 1e-6, span_high - 1e-6),
        bounds=(span_low, span_high),
        loss="soft_l1",
        f_scale=0.1,
    )


def _used(frame: pd.DataFrame, dtype: str, cache_bytes: float) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    weights = frame["n"] * frame["k"]
    rules = [
        (f"more than {MAX_ROWS_M} rows: prefill", frame["m"] <= MAX_ROWS_M),
        (f"fewer than {MIN_WEIGHTS} weights", weights >= MIN_WEIGHTS),
        (
            f"not the form of a projection: n < {MIN_N}, k < {MIN_K} or k > {MAX_K}",
            (frame["n"] >= MIN_N) & (frame["k"] >= MIN_K) & (frame["k"] <= MAX_K),
        ),
    ]
    if cache_bytes > 0:
        bound = 2.5 * cache_bytes
        rules.append(
            (f"weights below 2.5 x the cache of {cache_bytes / 1e6:.0f} MB", weights * BYTES_PER_WEIGHT[dtype] >= bound)
        )
    frame, dropped = keep_rows(frame, rules)
    if len(frame) > SAMPLE:
        dropped += (Dropped(reason=f"beyond a seeded sample of {SAMPLE} rows", n_rows=len(frame) - SAMPLE),)
        frame = frame.sample(SAMPLE, random_state=1).sort_index()
    return frame, dropped


def launch_bounds(frame: pd.DataFrame) -> tuple[float, float]:
    """Bounds between which a table's t0 must lie, by its small products. [s]

    The quickest, and the median of those of at most SMALL_ROWS rows and MIN_WEIGHTS weights.

    For tables whose small matrices are left out because a cache served them: what is left says nothing of t0, but no
    launch takes longer than a whole small product, nor less than the quickest of all.
    """
    small = (frame["m"] <= SMALL_ROWS) & (frame["n"].astype("int64") * frame["k"] <= MIN_WEIGHTS)
    low = float(frame["latency_s"].quantile(0.01))
    high = float(frame.loc[small, "latency_s"].median()) if small.any() else float(HIGH[0])
    return max(low, float(LOW[0])), max(high, 1.01 * low)


def gemm_record(
    frame: pd.DataFrame,
    identity: dict[str, str],
    cache_bytes: float = 0.0,
    peak_bandwidth: float = float(HIGH[1]),
    note: str = "",
    assumed_log_sd: float = 0.0,
) -> FitRecord | None:
    """Fit one GEMM table. `frame` has columns m, n, k, latency_s (seconds). None when fewer than 50 rows remain.

    The fitted bandwidth may not exceed `peak_bandwidth` [B/s]. Held-out errors leave out a fifth of the (n, k)
    shapes at a time. A fit whose intercept is host time is recorded with success = False. `note` says what was done to
    the table before, `assumed_log_sd` [-] is the spread of what was assumed there.
    """
    require_columns(frame, (*GEMM_KEYS, "latency_s"), "GEMM")
    digest = content_hash(frame, GEMM_KEYS) if len(frame) < 200_000 else "not hashed: too many rows"
    used, dropped = _used(frame.reset_index(drop=True), identity["dtype"], cache_bytes)
    if len(used) < 50:
        return None
    table, measured = _symbols(used, identity["dtype"]), used["latency_s"].to_numpy()
    shapes, index = np.unique(used[["n", "k"]].to_numpy(dtype=float), axis=0, return_inverse=True)
    fold = np.random.default_rng(7).permutation(len(shapes))[index.ravel()] % FOLDS
    launch = launch_bounds(frame) if cache_bytes > 0 else (LOW[0], HIGH[0])
    bounds = np.array([(launch[0], *LOW[1:]), (launch[1], peak_bandwidth, *HIGH[2:])])

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return _times(np.exp(_fit(_where(table, seen), measured[seen], bounds).x), _where(table, held))

    found = _fit(table, measured, bounds)
    parameters, correlation = _parameters(found, bounds)
    at_bound = [name for name, parameter in parameters.items() if parameter.at_bound]
    messages = [note] if note else []
    messages.append(f"at a bound: {', '.join(at_bound)}" if at_bound else "all parameters inside their bounds")
    errors = held_out_errors(held_out(fold, predict), measured)
    errors["log_sd"] = math.hypot(errors["log_sd"], assumed_log_sd)
    host_bound = parameters["t0_s"].value > MAX_KERNEL_T0_S
    if host_bound:
        messages.append(f"t0 above {MAX_KERNEL_T0_S * 1e6:.0f} us is host time or not identified: do not use")
    return FitRecord(
        id=record_id("gemm", identity),
        op="gemm",
        **identity,  # type: ignore[arg-type]
        form=FORM,
        parameters=parameters,
        **correlation_fields([name for name, _ in NAMES], correlation),
        **errors,
        n_shapes=len(shapes),
        dropped=dropped,
        data_sha256=digest,
        success=bool(found.success) and not host_bound,
        message="; ".join(messages),
    )


def _where(table: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {symbol: values[rows] for symbol, values in table.items()}


def _parameters(found: Any, bounds: np.ndarray) -> tuple[dict[str, FitParameter], np.ndarray]:
    """Parameters with standard errors (delta method on the logarithms), and their correlation."""
    values = np.exp(found.x)
    variance = 2.0 * found.cost / max(len(found.fun) - len(values), 1)
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * variance
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    bound = found.active_mask != 0
    parameters = {
        name: FitParameter(
            value=float(values[i]),
            unit=unit,
            stderr=None if bound[i] else float(values[i] * deviation[i]),
            low=float(bounds[0, i]),
            high=float(bounds[1, i]),
            at_bound=bool(bound[i]),
        )
        for i, (name, unit) in enumerate(NAMES)
    }
    return parameters, covariance / np.outer(deviation, deviation)
