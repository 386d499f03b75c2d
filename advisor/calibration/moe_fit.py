"""Routed-expert kernels: time of one layer from touched experts, tokens and shape.

The law is `laws.routed_layers`: linear in its non-negative coefficients but for c(m), m = M k / U rows per touched
expert, a piecewise-linear factor in log m shared by all shapes of a table. Fitted on relative error with robust
re-weighting, one record per (accelerator, engine, version, format, kernel). Forms tried:
docs/decisions/0002-moe-kernel-form.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor import laws
from advisor.calibration.frames import (
    BYTES_PER_WEIGHT,
    content_hash,
    error_quantiles,
    held_out,
    keep_rows,
    labels,
    left_out_errors,
    require_columns,
)
from advisor.calibration.nnls import LinearFit, fit_relative, linear_fields
from advisor.calibration.power_law import touched_experts
from advisor.calibration.records import Dropped, FitRecord, record_id
from advisor.routing import local_experts
from advisor.step_cost import expert_work

if TYPE_CHECKING:
    import pandas as pd

FORM = "moe-additive-curve"
PARAMETERS = (
    ("t0_s", "s"),
    ("weight_s_per_byte", "s/B"),
    ("per_expert_s", "s"),
    ("s_per_flop", "s/FLOP"),
    ("activation_s_per_byte", "s/B"),
    ("per_resident_expert_s", "s"),
)
MOE_KEYS = [
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
]
SHAPE = ["hidden_size", "inter_size", "topk", "num_experts"]
MAX_TOKENS = 2048
MAX_EP = 8
EP_SAMPLE = 3000
MAX_TP = 8
"""Thinner shards (one expert cut into 16 or 32) do not occur inside a node, and their kernels pad to whole tiles."""
KNOTS = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512], dtype=float)
MIN_ROWS_PER_KNOT = 8
ROUNDS = 3
UNKNOWN_LOG_SD = 0.25
"""Least band of a table with one or two shapes, where little can be held out: the worst tables' held-out spread."""
TWO_MATRIX_SHAPES = frozenset(
    {(2688, 1856, 6, 128), (1024, 2688, 22, 512), (2048, 5120, 22, 512), (4096, 2688, 22, 512), (8192, 5120, 22, 512)}
)
"""Nemotron-3 experts (up, squared ReLU, down). Some engines run them gated in the measurement, some do not."""


@dataclass(frozen=True)
class MoeFit:
    """Coefficients (order of PARAMETERS) and the log correction at KNOTS that have data."""

    linear: LinearFit
    knots: np.ndarray
    log_factor: np.ndarray

    def predict(self, columns: np.ndarray, rows_per_expert: np.ndarray) -> np.ndarray:
        """Seconds, [rows]."""
        return (columns @ self.linear.coefficients) * np.exp(self.correction(rows_per_expert))

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Knots of c(m) as a FitRecord holds them."""
        return tuple((float(m), float(np.exp(f))) for m, f in zip(self.knots, self.log_factor, strict=True))

    def correction(self, rows_per_expert: np.ndarray) -> np.ndarray:
        """log c(m), held constant beyond the outer knots. [1]"""
        if not self.knots.size:
            return np.zeros(len(rows_per_expert))
        return np.interp(np.log(rows_per_expert), np.log(self.knots), self.log_factor)


def add_touched(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with columns touched and routed_rows, from how each row's load was generated."""
    keys = ["num_tokens", "num_experts", "topk", "distribution", "moe_ep_size"]
    points = frame[keys].drop_duplicates()
    found = [
        touched_experts(int(m), int(n), int(k), str(d), int(ep)) for m, n, k, d, ep in points.itertuples(index=False)
    ]
    points = points.assign(touched=[f.touched for f in found], routed_rows=[f.routed_rows for f in found])
    return frame.merge(points, on=keys, how="left")


def fit_moe(columns: np.ndarray, measured: np.ndarray, rows_per_expert: np.ndarray) -> MoeFit:
    """Alternate the linear fit and the correction curve. All times in seconds."""
    log_factor = np.zeros(len(measured))
    knots, values = np.array([]), np.array([])
    nearest = np.abs(np.log(rows_per_expert)[:, None] - np.log(KNOTS)[None, :]).argmin(axis=1)
    filled = [i for i in range(len(KNOTS)) if (nearest == i).sum() >= MIN_ROWS_PER_KNOT]
    for _ in range(ROUNDS):
        linear = fit_relative(columns, measured * np.exp(-log_factor))
        log_ratio = np.log(measured / (columns @ linear.coefficients))
        knots, values = KNOTS[filled], np.array([np.median(log_ratio[nearest == i]) for i in filled])
        log_factor = MoeFit(linear, knots, values).correction(rows_per_expert)
    return MoeFit(linear, knots, values)


def leave_one_shape_out(columns: np.ndarray, measured: np.ndarray, rows: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Each row predicted by a fit (coefficients and curve) that saw no row of its shape; NaN with a single shape."""

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return fit_moe(columns[seen], measured[seen], rows[seen]).predict(columns[held], rows[held])

    return held_out(shape, predict)


def ratio_error(frame: pd.DataFrame, predicted: np.ndarray) -> tuple[float | None, float | None]:
    """Median and 90th percentile of the error of T(4 t) / T(t) over rows of the same shape, shard and load."""
    keys = [*SHAPE, "moe_tp_size", "moe_ep_size", "distribution"]
    table = frame[[*keys, "num_tokens", "latency_s"]].assign(predicted=predicted)
    later = table[table["num_tokens"] % 4 == 0]
    later = later.assign(num_tokens=later["num_tokens"] // 4)
    both = table.merge(later, on=[*keys, "num_tokens"], suffixes=("", "_4"))
    predicted_ratio = (both["predicted_4"] / both["predicted"]).to_numpy()
    return error_quantiles(predicted_ratio, (both["latency_s_4"] / both["latency_s"]).to_numpy())


def two_matrices(frame: pd.DataFrame) -> np.ndarray:
    """Which rows are of TWO_MATRIX_SHAPES, [rows]."""
    return np.array([shape in TWO_MATRIX_SHAPES for shape in frame[SHAPE].itertuples(index=False, name=None)], bool)


def frame_work(frame: pd.DataFrame, dtype: str, ungated: bool) -> dict[str, Any]:
    """What `laws.routed_layers` takes of the rows of a table with touched and routed_rows added, but for the costs."""
    get = {name: frame[name].to_numpy(dtype=float) for name in MOE_KEYS if name != "distribution"}
    touched, rows = frame["touched"].to_numpy(), frame["routed_rows"].to_numpy()
    work = expert_work(
        tokens=get["num_tokens"],
        n_active=rows / get["num_tokens"],  # of the measured rank, so that the rows are those it was given
        rows_per_expert=np.asarray(laws.rows_per_expert(rows, 1.0, touched)),
        touched=touched,
        h=get["hidden_size"],
        I=get["inter_size"] / get["moe_tp_size"],
        n_mat=np.where(two_matrices(frame) & ungated, 2.0, 3.0),
        bytes_per_weight=BYTES_PER_WEIGHT[dtype],
    )
    return {**work, "N": get["num_experts"] / get["moe_ep_size"]}


def frame_columns(frame: pd.DataFrame, dtype: str, ungated: bool) -> np.ndarray:
    """The terms of the law in the order of PARAMETERS, [rows, 6]."""
    return laws.columns(laws.routed_layers, laws.ROUTED_COEFFICIENTS, **frame_work(frame, dtype, ungated))


def expert_parallel_error(
    frame: pd.DataFrame, fit: MoeFit, dtype: str, ungated: bool
) -> tuple[float | None, float | None]:
    """Median and 90th percentile of the error on rows of 2 to 8 expert-parallel ranks, predicted as a scenario is.

    num_tokens counts the tokens of all ranks; U is the global expectation of the row's load, brought to the slowest
    rank by `routing.local_experts`; its rows are M k / ep.
    """
    used = frame[
        frame["moe_ep_size"].between(2, MAX_EP) & (frame["num_tokens"] <= MAX_TOKENS) & (frame["moe_tp_size"] <= MAX_TP)
    ]
    if len(used) < 30:
        return None, None
    if len(used) > EP_SAMPLE:
        used = used.sample(EP_SAMPLE, random_state=1)
    whole = add_touched(used.assign(moe_ep_size=1))
    ranks, experts = used["moe_ep_size"].to_numpy(dtype=float), used["num_experts"].to_numpy(dtype=float)
    global_rows, global_touched = whole["routed_rows"].to_numpy(), whole["touched"].to_numpy()
    local = used.assign(touched=local_experts(global_touched, experts, ranks), routed_rows=global_rows / ranks)
    columns = frame_columns(local, dtype, ungated)
    return error_quantiles(fit.predict(columns, global_rows / global_touched), used["latency_s"].to_numpy())


def _select(frame: pd.DataFrame, cache_bytes: float, dtype: str) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    """Rows that the fit uses with touched and routed_rows, and the others by reason."""
    rules = [
        ("expert parallel rows, kept as a test", frame["moe_ep_size"] == 1),
        (f"more than {MAX_TOKENS} tokens: prefill", frame["num_tokens"] <= MAX_TOKENS),
        (f"experts cut into more than {MAX_TP} shards", frame["moe_tp_size"] <= MAX_TP),
    ]
    used, dropped = keep_rows(frame, rules)
    used = add_touched(used)
    reason = f"touched weights below 2.5 x the last-level cache of {cache_bytes / 1e6:.0f} MB: served from it"
    used, small = keep_rows(used, [(reason, frame_work(used, dtype, False)["W"] >= 2.5 * cache_bytes)])
    return used.reset_index(drop=True), dropped + small


def moe_record(frame: pd.DataFrame, identity: dict[str, str], cache_bytes: float = 0.0) -> FitRecord | None:
    """Fit one table (one kernel_source of one engine version in one format).

    Parameters
    ----------
    frame : columns MOE_KEYS and latency_s, one row per point. latency_s is one layer, seconds.
    identity : hardware_id, engine, version, dtype, kernel_source.
    cache_bytes : last-level cache when small weights are served from it, else 0. [B]

    Returns
    -------
    FitRecord, or None when fewer than 30 rows remain.
    """
    require_columns(frame, (*MOE_KEYS, "latency_s"), "MoE")
    digest = content_hash(frame, MOE_KEYS)
    used, dropped = _select(frame, cache_bytes, identity["dtype"])
    if len(used) < 30:
        return None
    measured = used["latency_s"].to_numpy()
    rows = np.asarray(laws.rows_per_expert(used["routed_rows"].to_numpy(), 1.0, used["touched"].to_numpy()))
    shape = labels(used, SHAPE)
    candidates: list[tuple[float, bool, np.ndarray, np.ndarray]] = []
    has_two = bool(two_matrices(used).any())
    for two in (False, True) if has_two else (False,):
        columns = frame_columns(used, identity["dtype"], two)
        held = leave_one_shape_out(columns, measured, rows, shape)
        error = np.nanmedian(np.abs(held / measured - 1)) if np.isfinite(held).any() else np.inf
        candidates.append((float(error), two, columns, held))
    _, two, columns, held = min(candidates, key=lambda c: c[0])
    fit = fit_moe(columns, measured, rows)
    errors = left_out_errors(held, measured)
    ratio_median, ratio_p90 = ratio_error(used, held)
    ep_median, ep_p90 = expert_parallel_error(frame, fit, identity["dtype"], two)
    n_shapes = len(np.unique(shape))
    if n_shapes < 3:
        errors["log_sd"] = max(np.nan_to_num(errors["log_sd"]), UNKNOWN_LOG_SD)
    return FitRecord(
        id=record_id("moe", identity),
        op="moe",
        **identity,  # type: ignore[arg-type]
        form=FORM,
        **linear_fields(PARAMETERS, fit.linear),
        curve=fit.curve,
        ungated_matrices=(2 if two else 3) if has_two else None,
        **errors,
        n_shapes=n_shapes,
        dropped=dropped,
        data_sha256=digest,
        ratio_median=ratio_median,
        ratio_p90=ratio_p90,
        ep_median=ep_median,
        ep_p90=ep_p90,
        success=True,
        message=_message(fit.linear, n_shapes, two if has_two else None),
    )


def _message(linear: LinearFit, n_shapes: int, two: bool | None) -> str:
    parts = []
    if n_shapes < 3:
        parts.append(f"only {n_shapes} shape(s): the held-out error says little")
    found = [(name, *pair) for (name, _), *pair in zip(PARAMETERS, linear.coefficients, linear.stderr, strict=True)]
    zero = [name for name, value, _ in found if value == 0]
    if zero:
        parts.append(f"at the bound 0, not identified: {', '.join(zero)}")
    weak = [name for name, value, error in found if value > 0 and error > 0.5 * value]
    if weak:
        parts.append(f"weakly identified: {', '.join(weak)}")
    if two is not None:
        parts.append(f"Nemotron shapes counted with {2 if two else 3} matrices (lower held-out error)")
    return "; ".join(parts) or "all parameters identified"
