"""Fits of the MoE layers of a profiler's sweep, judged on values of k that the fit did not see.

The form is that of the measured kernel tables, but the touched experts were counted while
measuring. Judged is the verification ratio T(B, q) / T(B, 1) of one routed layer over q tokens of
each of B sequences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog.fit_records import IDENTITY, PARAMETERS, Dropped, FitRecord, record_id
from advisor.measured.kernel_fits import (
    FORM,
    UNKNOWN_LOG_SD,
    error_quantiles,
    fit_moe,
    held_out_errors,
    leave_one_shape_out,
    linear_parameters,
)
from advisor.measured.measurements import ProfilerSweep
from advisor.physics import laws
from advisor.physics.step import expert_work
from advisor.prediction import AdvisorError

if TYPE_CHECKING:
    import pandas as pd

BYTES = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
MATRICES = 3.0
"""The profiler's experts are gated: up, gate and down."""
ORDER = (
    "t0_s",
    "weight_s_per_byte",
    "activation_s_per_byte",
    "s_per_flop",
    "per_expert_s",
    "per_resident_expert_s",
)
"""Which of two parameters is kept when a sweep cannot tell them apart: the one named first."""
SEPARABLE = 0.02
"""Least part of a column that the kept ones must leave unexplained for it to be fitted. [-]"""
MIN_ROWS = 8
MAX_QUERIES = 8
"""Longest verification that is judged, tokens of each sequence. [-]"""
ENGINE = "advisor.profiling"
SHAPE = ["n_experts", "n_active", "expert_width", "hidden_size"]
RATIO_COLUMNS = (
    *("n_experts", "n_active", "batch_size", "tokens_per_sequence", "routing"),
    *("measured_ratio", "predicted_ratio", "error"),
)


@dataclass(frozen=True)
class SweepFit:
    """One fit, and the verification ratios it was judged on.

    ratios: RATIO_COLUMNS, one row per (shape, B, q); predictions come from a fit without any row of
    that k; error is |predicted / measured - 1|. [-]
    """

    record: FitRecord
    ratios: pd.DataFrame

    @property
    def mean_ratio_error(self) -> float | None:
        """Mean error of the held-out ratios. None where nothing could be held out. [-]"""
        return float(self.ratios["error"].mean()) if len(self.ratios) else None

    def by_k(self) -> pd.DataFrame:
        """Rows n_active, n_ratios, mean_error, worst_error: one per k that was held out."""
        grouped = (
            self.ratios.groupby("n_active")["error"].agg(["size", "mean", "max"]).reset_index()
        )
        return grouped.set_axis(["n_active", "n_ratios", "mean_error", "worst_error"], axis=1)


def fit_sweep(sweep: ProfilerSweep) -> tuple[SweepFit, ...]:
    """Fits of a sweep, one per format and kernel, best-covered first.

    Each needs MIN_ROWS rows over at least two values of k.

    Raises AdvisorError when the sweep holds no such rows.
    """
    layers = sweep.rows[(sweep.rows["op"] == "moe_layer") & (sweep.rows["status"] == "ok")]
    layers = layers[layers["dtype"].isin(list(BYTES))]
    fits = []
    for (dtype, kernel), rows in layers.groupby(["dtype", "kernel"], sort=True):
        # A shared expert runs for every token: its time would be booked as that of the routed ones.
        routed = rows[rows["shared_width"].fillna(0.0) == 0].reset_index(drop=True)
        if len(routed) >= MIN_ROWS and routed["n_active"].nunique() > 1:
            shared = len(rows) - len(routed)
            dropped = (
                (Dropped(reason="layers with a shared expert", n_rows=shared),) if shared else ()
            )
            fits.append(_fit(sweep, str(dtype), str(kernel), routed, dropped))
    if not fits:
        raise AdvisorError(
            f"sweep {sweep.name} has no kernel with {MIN_ROWS} measured MoE layers over two "
            "values of k; measure the preset quick or a longer one"
        )
    return tuple(sorted(fits, key=lambda fit: (-fit.record.n_rows, fit.record.id)))


def _fit(
    sweep: ProfilerSweep, dtype: str, kernel: str, rows: pd.DataFrame, dropped: tuple[Dropped, ...]
) -> SweepFit:
    measured = rows[sweep.meta.time_column].to_numpy(dtype=float)
    columns = layer_columns(rows, BYTES[dtype])
    separable = _separable(columns, measured)
    columns = columns[:, separable]
    load = _rows_per_expert(rows)
    fit = fit_moe(columns, measured, load)
    # k is what a sweep varies most: the error told is that at a k which the fit has not seen.
    held = leave_one_shape_out(columns, measured, load, rows["n_active"].to_numpy())
    ratios = verification_ratios(rows, measured, held)
    four = ratios[ratios["tokens_per_sequence"] == 4]
    errors = held_out_errors(held, measured)
    if not np.isfinite(errors["log_sd"]):
        errors["log_sd"] = UNKNOWN_LOG_SD
    ratio_median, ratio_p90 = error_quantiles(
        four["predicted_ratio"].to_numpy(dtype=float), four["measured_ratio"].to_numpy(dtype=float)
    )
    coefficients = np.zeros(len(PARAMETERS))
    stderr = np.full(len(PARAMETERS), np.nan)
    coefficients[separable] = fit.linear.coefficients
    stderr[separable] = fit.linear.stderr
    device = "local-" + re.sub(r"[^a-z0-9]+", "-", sweep.name.lower()).strip("-")
    names = (device, ENGINE, sweep.meta.plan.code_version, NAMES[dtype], kernel)
    identity = dict(zip(IDENTITY, names, strict=True))
    absent = [name for i, (name, _) in enumerate(PARAMETERS) if i not in separable]
    messages = [f"{sweep.meta.time_column} of {sweep.meta.device.name}; held out by k"]
    messages += [f"not told apart by this sweep, left at 0: {', '.join(absent)}"] if absent else []
    record = FitRecord(
        id=record_id("moe", identity),
        op="moe",
        **identity,  # type: ignore[arg-type]
        form=FORM,
        parameters=linear_parameters(PARAMETERS, coefficients, stderr, np.zeros_like(coefficients)),
        curve=fit.curve,
        **errors,
        n_shapes=len(rows[SHAPE].drop_duplicates()),
        dropped=dropped,
        data_sha256=sweep.sha256,
        ratio_median=ratio_median,
        ratio_p90=ratio_p90,
        success=bool(coefficients.any()),
        message="; ".join(messages),
    )
    return SweepFit(record, ratios)


def layer_columns(rows: pd.DataFrame, bytes_per_weight: float) -> np.ndarray:
    """The terms of the law for MoE rows of a sweep, with the experts touched as counted. [rows,
    6]"""
    get = {
        name: rows[name].to_numpy(dtype=float)
        for name in ("n_tokens", "n_active", "expert_width", "hidden_size")
    }
    work = expert_work(
        tokens=get["n_tokens"],
        n_active=get["n_active"],
        rows_per_expert=_rows_per_expert(rows),
        touched=rows["touched_experts"].to_numpy(dtype=float),
        h=get["hidden_size"],
        I=get["expert_width"],
        n_mat=MATRICES,
        bytes_per_weight=bytes_per_weight,
    )
    experts = rows["n_experts"].to_numpy(dtype=float)
    return laws.columns(laws.routed_layers, laws.ROUTED_COEFFICIENTS, N=experts, **work)


def verification_ratios(
    rows: pd.DataFrame, measured: np.ndarray, predicted: np.ndarray
) -> pd.DataFrame:
    """T(B, q) / T(B, 1) for every pair of rows of one shape, measured and predicted, q = 2 to
    MAX_QUERIES.

    measured, predicted : seconds of each row of `rows`, [rows]. Under independent routing, B
        sequences of q tokens
    touch as many experts as B q sequences of one token, so those rows serve every q; under
    correlated routing only the rows with that q do. Their baseline is independent: single tokens of
    different sequences.
    """
    import pandas as pd

    keyed = rows[[*SHAPE, "n_tokens", "tokens_per_sequence", "routing"]].to_dict("records")
    single: dict[tuple[float, ...], int] = {}
    for i, row in enumerate(keyed):
        if row["routing"] == "independent" and row["tokens_per_sequence"] == 1:
            single[(*(row[name] for name in SHAPE), row["n_tokens"])] = i
    ratios = []
    for i, row in enumerate(keyed):
        tokens_per_sequence = row["tokens_per_sequence"]
        queries = (
            range(2, MAX_QUERIES + 1)
            if row["routing"] == "independent" and tokens_per_sequence == 1
            else [tokens_per_sequence]
        )
        if row["routing"] not in ("independent", "correlated"):
            continue
        for q in queries:
            base = single.get((*(row[name] for name in SHAPE), row["n_tokens"] / q))
            if q < 2 or base is None or not np.isfinite(predicted[[i, base]]).all():
                continue
            ratio = measured[i] / measured[base]
            guess = predicted[i] / predicted[base]
            batch = int(row["n_tokens"] // q)
            cells = (int(row["n_experts"]), int(row["n_active"]), batch, int(q), row["routing"])
            ratios.append((*cells, ratio, guess, abs(guess / ratio - 1)))
    return pd.DataFrame(ratios, columns=list(RATIO_COLUMNS))


def _rows_per_expert(rows: pd.DataFrame) -> np.ndarray:
    counts = (
        rows[name].to_numpy(dtype=float) for name in ("n_tokens", "n_active", "touched_experts")
    )
    return np.asarray(laws.rows_per_expert(*counts))


def _separable(columns: np.ndarray, measured: np.ndarray) -> list[int]:
    """Places in PARAMETERS of the columns that this sweep can tell apart.

    Weights come before what is proportional to them in a sweep with one size of expert (experts
    touched) or with few rows per expert (arithmetic, which is counted in whole tiles); a constant
    number of experts is the fixed cost.
    """
    names = [name for name, _ in PARAMETERS]
    relative = columns / measured[:, None]
    separable: list[int] = []
    for i in (names.index(name) for name in ORDER):
        remaining = relative[:, i]
        if separable:
            remaining = (
                remaining
                - relative[:, separable]
                @ np.linalg.lstsq(relative[:, separable], relative[:, i], rcond=None)[0]
            )
        if np.linalg.norm(remaining) > SEPARABLE * np.linalg.norm(relative[:, i]):
            separable.append(i)
    return sorted(separable)
