"""Fit records of measured tables of routed experts, and their shapes as factors r(M) on the
additive form.

r(M) is the mean over the skewed loads of a table (real routers are skewed; a perfectly even load is
up to a fifth faster). It takes the place of the curve c(m), whose knots would put bumps between
token counts that the rows do not have, and is judged on another load, at token counts between those
used. Rows of one rank only: those of several time the busiest one under a skew that crowds whole
ranks (up to eight times the mean at 8 ranks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog.fit_records import (
    PARAMETERS,
    Dropped,
    FitRecord,
    MeasuredTable,
    ShapeRows,
    record_id,
)
from advisor.measured.kernel_fits import (
    FORM,
    MOE_KEYS,
    SHAPE,
    UNKNOWN_LOG_SD,
    LinearFit,
    MoeFit,
    add_touched,
    band_log_sd,
    error_quantiles,
    fit_moe,
    frame_work,
    held_out_errors,
    leave_one_shape_out,
    two_matrices,
)
from advisor.physics import laws
from advisor.physics.touched_experts import local_experts
from studies.fits.tables import (
    NOISY_SHARE,
    content_hash,
    keep_rows,
    labels,
    linear_fields,
    monotone,
    require_columns,
    without_spikes,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_TOKENS = 2048
MAX_EP = 8
EP_SAMPLE = 3000
MAX_TP = 8
"""Thinner shards (one expert cut into 16 or 32) do not occur inside a node, and their kernels pad
to whole tiles."""
MIN_T0_S = 1.5e-6
"""The quickest product of all GEMM tables, on any accelerator: one launch. [s]"""
TIMER_MARGIN = 1.05
"""Noise of the timer and of the count of touched experts. [-]"""
MAX_TOO_FAST = 0.10
"""Largest share of rows beyond that. [-]"""


def frame_columns(frame: pd.DataFrame, dtype: str, ungated: bool) -> np.ndarray:
    """The terms of the law in the order of PARAMETERS, [rows, 6]."""
    return laws.columns(
        laws.routed_layers, laws.ROUTED_COEFFICIENTS, **frame_work(frame, dtype, ungated)
    )


def ratio_error(frame: pd.DataFrame, predicted: np.ndarray) -> tuple[float | None, float | None]:
    """Median and 90th percentile of the error of T(4 t) / T(t) over rows of the same shape, shard
    and load."""
    keys = [*SHAPE, "moe_tp_size", "moe_ep_size", "distribution"]
    table = frame[[*keys, "num_tokens", "latency_s"]].assign(predicted=predicted)
    later = table[table["num_tokens"] % 4 == 0]
    later = later.assign(num_tokens=later["num_tokens"] // 4)
    both = table.merge(later, on=[*keys, "num_tokens"], suffixes=("", "_4"))
    predicted_ratio = (both["predicted_4"] / both["predicted"]).to_numpy()
    return error_quantiles(predicted_ratio, (both["latency_s_4"] / both["latency_s"]).to_numpy())


def expert_parallel_error(
    frame: pd.DataFrame, fit: MoeFit, dtype: str, ungated: bool
) -> tuple[float | None, float | None]:
    """Median and 90th percentile of the error on rows of 2 to 8 ranks, predicted as a scenario is.

    num_tokens counts the tokens of all ranks; U is the global expectation of the row's load,
    brought to the slowest rank by `local_experts`; its rows are M k / ep.
    """
    used = frame[
        frame["moe_ep_size"].between(2, MAX_EP)
        & (frame["num_tokens"] <= MAX_TOKENS)
        & (frame["moe_tp_size"] <= MAX_TP)
    ]
    if len(used) < 30:
        return None, None
    if len(used) > EP_SAMPLE:
        used = used.sample(EP_SAMPLE, random_state=1)
    whole = add_touched(used.assign(moe_ep_size=1))
    ranks = used["moe_ep_size"].to_numpy(dtype=float)
    experts = used["num_experts"].to_numpy(dtype=float)
    global_rows = whole["routed_rows"].to_numpy()
    global_touched = whole["touched"].to_numpy()
    local = used.assign(
        touched=local_experts(global_touched, experts, ranks), routed_rows=global_rows / ranks
    )
    columns = frame_columns(local, dtype, ungated)
    return error_quantiles(
        fit.predict(columns, global_rows / global_touched), used["latency_s"].to_numpy()
    )


def select_rows(
    frame: pd.DataFrame, cache_bytes: float, dtype: str
) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    """Rows that the fit uses with touched and routed_rows, and the others by reason."""
    rules = [
        ("expert parallel rows, kept as a test", frame["moe_ep_size"] == 1),
        (f"more than {MAX_TOKENS} tokens: prefill", frame["num_tokens"] <= MAX_TOKENS),
        (f"experts cut into more than {MAX_TP} shards", frame["moe_tp_size"] <= MAX_TP),
    ]
    used, dropped = keep_rows(frame, rules)
    used = add_touched(used)
    used, small = keep_rows(used, [not_from_cache(used, cache_bytes, dtype)])
    return used.reset_index(drop=True), dropped + small


def not_from_cache(frame: pd.DataFrame, cache_bytes: float, dtype: str) -> tuple[str, np.ndarray]:
    """Rule of `keep_rows` for rows whose weights a cache cannot hold. `frame` has touched and
    routed_rows."""
    reason = (
        f"touched weights below 2.5 x the last-level cache of {cache_bytes / 1e6:.0f} MB: served "
        "from it"
    )
    return reason, np.asarray(frame_work(frame, dtype, False)["W"] >= 2.5 * cache_bytes)


def clean_table(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    """Table without spikes and with times that never fall with tokens.

    Column `lowered` says which rows that changed clearly; the spikes come as rows dropped.
    """
    kept, n_spikes = without_spikes(frame)
    reason = "beyond 1.5 times both neighbours in tokens"
    return monotone(kept), (Dropped(reason=reason, n_rows=n_spikes),) if n_spikes else ()


def moe_record(
    frame: pd.DataFrame,
    identity: dict[str, str],
    cache_bytes: float = 0.0,
    peak_bandwidth: float = np.inf,
) -> FitRecord | None:
    """Fit one table (one kernel_source of one engine version in one format).

    Parameters
    ----------
    frame : columns MOE_KEYS and latency_s, one row per point. latency_s is one layer, seconds.
    identity : hardware_id, engine, version, dtype, kernel_source.
    cache_bytes : last-level cache when small weights are served from it, else 0. [B]
    peak_bandwidth : of the memory; weights are read no faster. [B/s]

    Returns
    -------
    FitRecord, or None when fewer than 30 rows remain. One whose rows read weights faster than the
    memory allows has success = False: what they touched is not what was counted.
    """
    require_columns(frame, (*MOE_KEYS, "latency_s"), "MoE")
    digest = content_hash(frame, MOE_KEYS)
    clean, spikes = clean_table(frame)
    used, dropped = select_rows(clean, cache_bytes, identity["dtype"])
    if len(used) < 30:
        return None
    measured = used["latency_s"].to_numpy()
    rows = np.asarray(
        laws.rows_per_expert(used["routed_rows"].to_numpy(), 1.0, used["touched"].to_numpy())
    )
    shape = labels(used, SHAPE)
    low = least_coefficients(peak_bandwidth)
    has_two = bool(two_matrices(used).any())

    def fitted(two: bool) -> tuple[bool, float, bool, np.ndarray, np.ndarray]:
        """Whether rows so read break the memory's limit, their error left out, and what gave it."""
        columns = frame_columns(used, identity["dtype"], two)
        held = leave_one_shape_out(columns, measured, rows, shape, low)
        error = np.nanmedian(np.abs(held / measured - 1)) if np.isfinite(held).any() else np.inf
        too_fast = faster_than_memory(used, identity["dtype"], two, peak_bandwidth)
        return too_fast > MAX_TOO_FAST, float(error), two, columns, held

    _, _, two, columns, held = min(
        map(fitted, (False, True) if has_two else (False,)), key=lambda c: c[:2]
    )
    fit = fit_moe(columns, measured, rows, low)
    errors = held_out_errors(held, measured)
    ratio_median, ratio_p90 = ratio_error(used, held)
    ep_median, ep_p90 = expert_parallel_error(clean, fit, identity["dtype"], two)
    n_shapes = len(np.unique(shape))
    n_lowered = int(used["lowered"].sum())
    if n_shapes < 3:
        errors["log_sd"] = max(np.nan_to_num(errors["log_sd"]), UNKNOWN_LOG_SD)
    too_fast = faster_than_memory(used, identity["dtype"], two, peak_bandwidth)
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
        n_widths=len(
            (used["hidden_size"] + 1j * used["inter_size"] / used["moe_tp_size"]).unique()
        ),
        n_lowered=n_lowered,
        dropped=spikes + dropped,
        data_sha256=digest,
        ratio_median=ratio_median,
        ratio_p90=ratio_p90,
        ep_median=ep_median,
        ep_p90=ep_p90,
        success=too_fast <= MAX_TOO_FAST,
        message=_message(
            fit.linear, n_shapes, two if has_two else None, n_lowered / len(used), too_fast
        ),
    )


def least_coefficients(peak_bandwidth: float) -> np.ndarray:
    """Lower bounds of PARAMETERS by launch and memory.

    A layer is at least one launch, and weights are not read faster than the memory allows.

    One shape alone cannot tell the cost of an expert from that of its bytes, and would give the
    bytes for nothing.
    """
    known = {"t0_s": MIN_T0_S, "weight_s_per_byte": 1.0 / peak_bandwidth}
    return np.array([known.get(name, 0.0) for name, _ in PARAMETERS])


def faster_than_memory(
    frame: pd.DataFrame, dtype: str, ungated: bool, peak_bandwidth: float
) -> float:
    """Share of rows that read their touched weights faster than the memory's peak. [-] By more than
    TIMER_MARGIN."""
    rate = frame_work(frame, dtype, ungated)["W"] / frame["latency_s"].to_numpy()
    return float(np.mean(rate > TIMER_MARGIN * peak_bandwidth))


def _message(
    linear: LinearFit, n_shapes: int, two: bool | None, lowered: float, too_fast: float
) -> str:
    parts = []
    if too_fast > MAX_TOO_FAST:
        parts.append(
            f"{too_fast:.0%} of the rows read weights faster than the memory allows: do not use"
        )
    if lowered > NOISY_SHARE:
        parts.append(f"noisy: {lowered:.0%} of the rows took longer than more tokens did")
    if n_shapes < 3:
        parts.append(f"only {n_shapes} shape(s): the held-out error says little")
    found = zip(PARAMETERS, linear.coefficients, linear.low, linear.stderr, strict=True)
    named = [(name, value, least, error) for (name, _), value, least, error in found]
    bound = [name for name, value, least, _ in named if value <= least]
    if bound:
        parts.append(f"at the bound, not identified: {', '.join(bound)}")
    weak = [name for name, value, least, error in named if value > least and error > 0.5 * value]
    if weak:
        parts.append(f"weakly identified: {', '.join(weak)}")
    if two is not None:
        parts.append(
            f"Nemotron shapes counted with {2 if two else 3} matrices (possible, and the lower "
            "held-out error)"
        )
    return "; ".join(parts) or "all parameters identified"


MAX_MEASURED_TOKENS = 8192
"""Steps with more tokens are prefill. [-]"""
MEASURED_SHAPE = ["hidden_size", "shard_width", "topk", "num_experts", "matrices", "moe_ep_size"]
"""Columns of an `ExpertShape`, in its order."""


def measured_table(
    frame: pd.DataFrame, record: FitRecord, cache_bytes: float = 0.0
) -> MeasuredTable | None:
    """Factors of every shape of one table on its own fit.

    `frame` has the columns of `MOE_KEYS` and latency_s [s], all ranks and loads. Rows whose weights
    a cache of `cache_bytes` [B] held when they were timed are left out, as in the fit: between two
    layers of a model others pass through it. None when no row qualifies.
    """
    rows = _with_factor(frame, record, cache_bytes)
    if not len(rows):
        return None
    loads = sorted(name for name in rows["distribution"].unique() if name != "balanced") or [
        "balanced"
    ]
    rows = rows[rows["distribution"].isin(loads)]
    by_load = rows.pivot_table(
        index=MEASURED_SHAPE, columns=["distribution", "num_tokens"], values="log_factor"
    )
    mean = rows.pivot_table(index=MEASURED_SHAPE, columns="num_tokens", values="log_factor")
    carry, between = _carry_errors(by_load, loads)
    carried = error_quantiles(np.exp(carry), np.ones_like(carry))
    spread = error_quantiles(np.exp(between), np.ones_like(between))
    return MeasuredTable(
        fit_id=record.id,
        tokens=tuple(int(tokens) for tokens in mean.columns),
        loads=tuple(loads),
        n_rows=len(rows),
        shapes=tuple(
            ShapeRows(
                shape=tuple(float(x) for x in shape),  # type: ignore[arg-type]
                factor=tuple(None if np.isnan(value) else float(np.exp(value)) for value in values),
            )
            for shape, values in zip(mean.index, mean.to_numpy(), strict=True)
        ),
        carry_median=carried[0],
        carry_p90=carried[1],
        between_median=spread[0],
        between_p90=spread[1],
        log_sd=band_log_sd(between) if between.size else record.log_sd,
    )


def _with_factor(frame: pd.DataFrame, record: FitRecord, cache_bytes: float) -> pd.DataFrame:
    """Rows in range with matrices, shard_width and log_factor = log(measured / additive)."""
    rows = frame[
        (frame["num_tokens"] <= MAX_MEASURED_TOKENS) & (frame["moe_ep_size"] == 1)
    ].reset_index(drop=True)
    if not len(rows):
        return rows
    rows = add_touched(rows)
    rows = rows[not_from_cache(rows, cache_bytes, record.dtype)[1]].reset_index(drop=True)
    if not len(rows):
        return rows
    columns = frame_columns(rows, record.dtype, record.ungated_matrices == 2)
    additive = columns @ np.array([record.value(name) for name, _ in PARAMETERS])
    special = two_matrices(rows)
    return rows.assign(
        log_factor=np.log(rows["latency_s"].to_numpy() / additive),
        shard_width=rows["inter_size"] / rows["moe_tp_size"],
        matrices=np.where(special, record.ungated_matrices or 3, 3).astype(float),
    )


def _carry_errors(by_load: pd.DataFrame, loads: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Log errors of predicting one load from another: at the same tokens, and at tokens left out in
    between."""
    same = [np.array([])]
    between = [np.array([])]
    for own in loads:
        for other in loads:
            if own == other and len(loads) > 1:
                continue
            table = by_load[own].dropna(axis=1, how="all")
            source = by_load[other].reindex(columns=table.columns)
            if own != other:
                same.append((table - source).to_numpy().ravel())
            between.append(_interpolated(source, table))
    joined = [np.concatenate(parts) for parts in (same, between)]
    return joined[0][np.isfinite(joined[0])], joined[1][np.isfinite(joined[1])]


def _interpolated(source: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """`table` at every second token count less `source` interpolated there from the others, in log
    tokens."""
    tokens = np.log(table.columns.to_numpy(dtype=float))
    held = np.arange(1, len(tokens) - 1, 2)
    kept = np.setdiff1d(np.arange(len(tokens)), held)
    errors = [
        row[held] - np.interp(tokens[held], tokens[kept], known[kept])
        for row, known in zip(table.to_numpy(), source.to_numpy(), strict=True)
    ]
    return np.concatenate(errors) if errors and held.size else np.array([])
