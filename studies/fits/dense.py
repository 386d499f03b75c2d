"""Dense projections by `laws.gemm`, and all-reduces and expert exchanges by `laws.stream`: one
record a kernel table.

An all-reduce depends on its message alone: its table is a curve, the form times a factor that
passes through every measured size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.fit_records import (
    BYTES_PER_WEIGHT,
    Dropped,
    FitParameter,
    FitRecord,
    Operation,
    record_id,
)
from advisor.measured.kernel_fits import (
    fit_relative,
    held_out,
    held_out_errors,
)
from advisor.physics import laws
from studies.fits.tables import (
    content_hash,
    correlation_fields,
    keep_rows,
    labels,
    leave_one_group_out,
    linear_fields,
    monotone,
    require_columns,
)

if TYPE_CHECKING:
    import pandas as pd

FORM = "gemm-t0-pnorm"
GEMM_KEYS = ["m", "n", "k"]
MAX_ROWS_M = 1024
MIN_WEIGHTS = 1 << 22
"""Smaller matrices (routers, norms) are launch-bound and would only blur t0."""
MIN_N = 1024
MIN_K = 512
MAX_K = 16384
"""Projections of models; a few columns with a very deep sum fill too few tiles and obey another law
(2-5 x slower)."""
MAX_KERNEL_T0_S = 30e-6
"""A larger intercept is host time (no graph capture) or not identified (only large matrices
left)."""
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
    # Only the terms that grow, each at a rate of one: what the fastest rows reach is where the
    # search starts.
    weights, arithmetic = laws.columns(laws.gemm, ("BW", "F_peak"), p=1.0, **table).T
    start = np.log(
        [5e-6, np.quantile(weights / measured, 0.95), np.quantile(arithmetic / measured, 0.99), 2.3]
    )

    def residual(x: np.ndarray) -> np.ndarray:
        return np.log(_times(np.exp(x), table) / measured)

    return least_squares(
        residual,
        np.clip(start, span_low + 1e-6, span_high - 1e-6),
        bounds=(span_low, span_high),
        loss="soft_l1",
        f_scale=0.1,
    )


def _used(
    frame: pd.DataFrame, dtype: str, cache_bytes: float
) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
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
            (
                f"weights below 2.5 x the cache of {cache_bytes / 1e6:.0f} MB",
                weights * BYTES_PER_WEIGHT[dtype] >= bound,
            )
        )
    frame, dropped = keep_rows(frame, rules)
    if len(frame) > SAMPLE:
        dropped += (
            Dropped(reason=f"beyond a seeded sample of {SAMPLE} rows", n_rows=len(frame) - SAMPLE),
        )
        frame = frame.sample(SAMPLE, random_state=1).sort_index()
    return frame, dropped


def launch_bounds(frame: pd.DataFrame) -> tuple[float, float]:
    """Bounds between which a table's t0 must lie, by its small products. [s]

    The quickest, and the median of those of at most SMALL_ROWS rows and MIN_WEIGHTS weights.

    For tables whose small matrices are left out because a cache served them: what is left says
    nothing of t0, but no launch takes longer than a whole small product, nor less than the quickest
    of all.
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
    """Fit one GEMM table. `frame` has columns m, n, k, latency_s (seconds). None when fewer than 50
    rows remain.

    The fitted bandwidth may not exceed `peak_bandwidth` [B/s]. Held-out errors leave out a fifth of
    the (n, k) shapes at a time. A fit whose intercept is host time is recorded with success =
    False. `note` says what was done to the table before, `assumed_log_sd` [-] is the spread of what
    was assumed there.
    """
    require_columns(frame, (*GEMM_KEYS, "latency_s"), "GEMM")
    digest = content_hash(frame, GEMM_KEYS) if len(frame) < 200_000 else "not hashed: too many rows"
    used, dropped = _used(frame.reset_index(drop=True), identity["dtype"], cache_bytes)
    if len(used) < 50:
        return None
    table = _symbols(used, identity["dtype"])
    measured = used["latency_s"].to_numpy()
    shapes, index = np.unique(used[["n", "k"]].to_numpy(dtype=float), axis=0, return_inverse=True)
    fold = np.random.default_rng(7).permutation(len(shapes))[index.ravel()] % FOLDS
    launch = launch_bounds(frame) if cache_bytes > 0 else (LOW[0], HIGH[0])
    bounds = np.array([(launch[0], *LOW[1:]), (launch[1], peak_bandwidth, *HIGH[2:])])

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return _times(
            np.exp(_fit(_where(table, seen), measured[seen], bounds).x), _where(table, held)
        )

    found = _fit(table, measured, bounds)
    parameters, correlation = _parameters(found, bounds)
    at_bound = [name for name, parameter in parameters.items() if parameter.at_bound]
    messages = [note] if note else []
    messages.append(
        f"at a bound: {', '.join(at_bound)}" if at_bound else "all parameters inside their bounds"
    )
    errors = held_out_errors(held_out(fold, predict), measured)
    errors["log_sd"] = math.hypot(errors["log_sd"], assumed_log_sd)
    host_bound = parameters["t0_s"].value > MAX_KERNEL_T0_S
    if host_bound:
        messages.append(
            f"t0 above {MAX_KERNEL_T0_S * 1e6:.0f} us is host time or not identified: do not use"
        )
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


STREAM_FORM = "t0-plus-stream"
CURVE_FORM = "t0-plus-stream-curve"
PARAMETERS = (("t0_s", "s"), ("s_per_byte", "s/B"))
"""Name and unit of both coefficients, in their order."""
MIN_GROUP_ROWS = 6
UNKNOWN_LOG_SD = 0.3
"""Band of a table where nothing can be held out (assumed). [-]"""


@dataclass(frozen=True)
class StreamTable:
    """Measured rows of one operation that streams bytes, and where they are from. Arrays [rows]."""

    op: Operation
    identity: dict[str, str]
    n_ranks: int
    n_bytes: np.ndarray
    """Bytes that one call moves. [B]"""
    measured: np.ndarray
    """Time of the call. [s]"""
    group: np.ndarray
    """Label of what is left out at a time for the held-out errors: a layout of experts, or a
    message size."""
    digest: str
    dropped: tuple[Dropped, ...] = ()
    note: str = ""
    single_curve: bool = False
    """Whether the time depends on the bytes alone, so that the record carries the factor at each
    measured size."""


def stream_record(table: StreamTable) -> FitRecord | None:
    """Fit t0 + bytes / BW to a table. None with fewer than MIN_GROUP_ROWS rows."""
    n_bytes = table.n_bytes
    measured = table.measured
    if len(measured) < MIN_GROUP_ROWS:
        return None
    columns = laws.columns(laws.stream, laws.STREAM_COEFFICIENTS, R=n_bytes)
    fit = fit_relative(columns, measured)
    held = leave_one_group_out(columns, measured, table.group)
    curve: tuple[tuple[float, float], ...] = ()
    if table.single_curve:
        held = held * _neighbours_factor(n_bytes, measured)
        curve = tuple(
            sorted(
                zip(
                    n_bytes.tolist(),
                    (measured / (columns @ fit.coefficients)).tolist(),
                    strict=True,
                )
            )
        )
    errors = held_out_errors(held, measured)
    if not np.isfinite(errors["log_sd"]):
        errors["log_sd"] = UNKNOWN_LOG_SD
    messages = [table.note] if table.note else []
    at_bound = zip(PARAMETERS, fit.coefficients == 0, strict=True)
    messages += [f"{name} at the bound 0" for (name, _), bound in at_bound if bound]
    return FitRecord(
        id=record_id(table.op, table.identity, table.n_ranks),
        op=table.op,
        **table.identity,  # type: ignore[arg-type]
        form=CURVE_FORM if table.single_curve else STREAM_FORM,
        **linear_fields(PARAMETERS, fit),
        **errors,
        curve=curve,
        n_ranks=table.n_ranks,
        n_shapes=len(np.unique(table.group)),
        dropped=table.dropped,
        data_sha256=table.digest,
        success=bool(fit.coefficients[1] > 0),
        message="; ".join(messages) or "all parameters identified",
    )


def _neighbours_factor(n_bytes: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """For each size, what the other sizes' factors say of it: form and factors without its own row,
    [rows]."""
    out = np.ones(len(measured))
    columns = laws.columns(laws.stream, laws.STREAM_COEFFICIENTS, R=n_bytes)
    for row, size in enumerate(n_bytes):
        rest = n_bytes != size
        form = columns[rest] @ fit_relative(columns[rest], measured[rest]).coefficients
        order = np.argsort(n_bytes[rest])
        factor = np.log(measured[rest] / form)[order]
        out[row] = np.exp(np.interp(np.log(size), np.log(n_bytes[rest][order]), factor))
    return out


def all_reduce_record(
    frame: pd.DataFrame, identity: dict[str, str], n_ranks: int
) -> FitRecord | None:
    """All-reduce of 16-bit messages among `n_ranks`. `frame` has message_elements and latency_s.
    Held out size by size.

    A larger message never takes less: engines could pad to it, and a fall would make a larger batch
    quicker.
    """
    require_columns(frame, ("message_elements", "latency_s"), "all-reduce")
    used, dropped = keep_rows(
        frame, [("messages above 128 MB: prefill", frame["message_elements"] <= 64 << 20)]
    )
    used = monotone(used, "message_elements", ())
    n_bytes = np.asarray(laws.message_bytes(used["message_elements"].to_numpy(dtype=float), 1.0))
    digest = content_hash(frame, ["message_elements"])
    rows = {"n_bytes": n_bytes, "measured": used["latency_s"].to_numpy(), "group": n_bytes}
    found = StreamTable(
        "all_reduce", identity, n_ranks, **rows, digest=digest, dropped=dropped, single_curve=True
    )
    return stream_record(found)


def all_to_all_record(
    frame: pd.DataFrame, identity: dict[str, str], n_ranks: int
) -> FitRecord | None:
    """One direction of the expert exchange of a layer: the mean of dispatch and combine.

    frame: num_tokens (per rank), hidden_size, topk, num_experts, phase, latency_s. bytes = tokens x
    k x hidden x 2, the 16-bit rows that one rank sends in one direction.
    """
    keys = ["num_tokens", "hidden_size", "topk", "num_experts"]
    require_columns(frame, (*keys, "phase", "latency_s"), "all-to-all")
    phases = (
        frame.pivot_table(index=keys, columns="phase", values="latency_s", aggfunc="median")
        .dropna()
        .reset_index()
    )
    if not {"dispatch", "combine"} <= set(phases.columns):
        return None
    phases = phases[phases["num_tokens"] <= 2048]
    measured = 0.5 * (phases["dispatch"] + phases["combine"]).to_numpy()
    tokens = phases["num_tokens"].to_numpy(dtype=float)
    active = phases["topk"].to_numpy(dtype=float)
    hidden = phases["hidden_size"].to_numpy(dtype=float)
    n_bytes = np.asarray(laws.sent_bytes(laws.message_bytes(tokens, hidden), active))
    rows = {"n_bytes": n_bytes, "measured": measured, "group": labels(phases, keys[1:])}
    digest = content_hash(frame, [*keys, "phase"])
    note = "mean of dispatch and combine; bytes = tokens per rank x k x hidden x 2"
    return stream_record(
        StreamTable("all_to_all", identity, n_ranks, **rows, digest=digest, note=note)
    )
