"""Sections of docs/validation.md on kernels: shapes left out, one common protocol, and measured
shapes carried on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import FitRecord, MeasuredTable, load_measured, load_records
from advisor.measured.kernel_fits import SHAPE, add_touched, error_quantiles, leave_one_shape_out
from advisor.measured.store import Store
from advisor.physics import laws
from studies.calibration import GATED_HARDWARE, gate_results, gated_tables, one_gpu_moe_table
from studies.fits.experts import frame_columns
from studies.fits.records import recorded_devices
from studies.fits.tables import leave_one_group_out
from studies.validation.tables import markdown_table, percent

LOAD = "power_law_1.2"
MAX_TOKENS = 128


@dataclass(frozen=True)
class KernelBar:
    """Mean absolute error that the newest vLLM table of one accelerator and format should reach.
    [-]"""

    hardware_id: str
    dtype: str
    limit: float


BARS = (
    KernelBar("h200-sxm", "bf16", 0.040),
    KernelBar("h100-sxm", "bf16", 0.040),
    KernelBar("h200-sxm", "fp8_block", 0.055),
    KernelBar("b200-sxm", "bf16", 0.080),
    KernelBar("l40s", "bf16", 0.080),
    KernelBar("rtx-pro-6000-blackwell", "bf16", 0.065),
    KernelBar("a100-80gb-sxm", "bf16", 0.110),
)


def gates_section() -> str:
    """The gates on tables left one shape out."""
    body = []
    for result in gate_results(_all_records()):
        share = result.n_passed / result.n_tables if result.n_tables else None
        body.append(
            (
                result.gate.name,
                f"<= {result.gate.limit:.0%} in {result.gate.share:.0%} of tables",
                f"{result.n_passed} of {result.n_tables} ({percent(share, 0)})",
                "met" if result.passed else "missed",
            )
        )
    return (
        "## Kernels: MoE layer, one shape left out\n\nEP = 1, at most 2048 tokens, tables of "
        "H100, H200, B200 and "
        "B300 with at least eight shapes.\n\n"
        + markdown_table(("gate", "limit", "tables that meet it", "status"), body)
        + f"\n\nMedian over tables (bars: latency 6 %, ratio 4 % on H100 and H200): {_medians()}."
    )


def _all_records() -> list[FitRecord]:
    return [record for device in recorded_devices() for record in load_records(device)]


def _medians() -> str:
    """Medians over the tables of each gated accelerator, and of H100 and H200 together."""
    tables = gated_tables(_all_records())
    groups = {hardware_id: {hardware_id} for hardware_id in sorted(GATED_HARDWARE)}
    groups["h100-sxm and h200-sxm together"] = {"h100-sxm", "h200-sxm"}
    texts = []
    for name, members in groups.items():
        own = [table for table in tables if table.hardware_id in members]
        latency = [table.loso_median for table in own if table.loso_median is not None]
        ratio = [table.ratio_median for table in own if table.ratio_median is not None]
        texts.append(
            f"{name} latency {percent(float(np.median(latency)))}, ratio "
            f"{percent(float(np.median(ratio)))}"
        )
    return "; ".join(texts)


def bars_section(opened: Store | None) -> str:
    """Section on the bars of kernels, one protocol for every table.

    Fitted on the range that is judged, one shape left out, mean absolute error.
    """
    title = "### One common protocol\n\n"
    if opened is None:
        return title + "No store here, so not judged; run `make store` first."
    body = []
    for bar in BARS:
        found = _bar_errors(opened, bar)
        body.append(
            (
                f"{bar.hardware_id} {bar.dtype}, vLLM {found.version}",
                f"{found.n_rows} / {found.n_shapes}",
                *(percent(error) for error in (found.two_parameters, found.nearest, found.ours)),
                f"<= {percent(bar.limit)}",
                "met" if found.ours <= bar.limit else "missed",
            )
        )
    return (
        f"{title}One GPU, {LOAD}, at most {MAX_TOKENS} tokens, newest vLLM version with at least "
        "eight shapes, fitted "
        "on that range, one shape left out, mean absolute percentage error over rows. Nearest: "
        "the table's nearest "
        "other shape (in log h, I, k, N), its time scaled by the weights read.\n\n"
        + markdown_table(
            ("table", "rows / shapes", "t0 + W/BW", "nearest shape", "ours", "bar", "status"), body
        )
    )


@dataclass(frozen=True)
class _BarErrors:
    version: str
    n_rows: int
    n_shapes: int
    two_parameters: float
    nearest: float
    ours: float


def _bar_errors(opened: Store, bar: KernelBar) -> _BarErrors:
    version, frame = one_gpu_moe_table(
        opened, bar.hardware_id, "vllm", bar.dtype, LOAD, MAX_TOKENS, min_shapes=8
    )
    frame = add_touched(frame)
    shape = frame[SHAPE].astype(str).agg("x".join, axis=1).to_numpy()
    measured = frame["latency_s"].to_numpy()
    rows = np.asarray(
        laws.rows_per_expert(frame["routed_rows"].to_numpy(), 1.0, frame["touched"].to_numpy())
    )

    def error(predicted: np.ndarray) -> float:
        return float(np.nanmean(np.abs(predicted / measured - 1.0)))

    def errors(two_matrices: bool) -> tuple[float, float, float]:
        columns = frame_columns(frame, bar.dtype, two_matrices)
        return (
            error(leave_one_group_out(columns[:, :2], measured, shape)),
            error(_nearest_shape(frame, columns[:, 1])),
            error(leave_one_shape_out(columns, measured, rows, shape)),
        )

    # As in the records: ungated models' experts count with the matrices that the kernel seems to
    # have run.
    two_parameters, nearest, ours = min(
        (errors(two) for two in (False, True)), key=lambda found: found[2]
    )
    return _BarErrors(version, len(frame), len(np.unique(shape)), two_parameters, nearest, ours)


def _nearest_shape(frame: pd.DataFrame, weight_bytes: np.ndarray) -> np.ndarray:
    """Each row by the nearest other shape at the same tokens, scaled by the weights read. [s]"""
    shapes = np.log(frame[SHAPE].to_numpy(dtype=float))
    tokens = frame["num_tokens"].to_numpy()
    measured = frame["latency_s"].to_numpy()
    distance = np.abs(shapes[:, None, :] - shapes[None, :, :]).sum(axis=2)
    distance = np.where((tokens[:, None] == tokens[None, :]) & (distance > 0), distance, np.inf)
    nearest = distance.argmin(axis=1)
    return np.asarray(measured[nearest] * weight_bytes / weight_bytes[nearest])


def measured_section() -> str:
    """Section on how well measured shapes carry to what was not used.

    Beside the error of the form on shapes left out.
    """
    body = []
    for device in recorded_devices():
        form = {record.id: record for record in load_records(device)}
        tables = [table for table in load_measured(device) if table.carry_median is not None]
        if not tables:
            continue
        held = [form[table.fit_id].loso_median for table in tables]
        held_out = [error for error in held if error is not None]
        body.append(
            (
                form[tables[0].fit_id].hardware_id,
                len(tables),
                sum(len(table.shapes) for table in tables),
                *(
                    _median_of(tables, name)
                    for name in ("carry_median", "carry_p90", "between_median")
                ),
                percent(float(np.median(held_out)) if held_out else None),
            )
        )
    header = (
        "accelerator",
        "tables",
        "shapes",
        "other load",
        "... 90 %",
        "other load, tokens between",
        "form alone",
    )
    return (
        "### Measured shapes\n\nWhere a model's very expert shape (h, I/tp, k, N, ranks) is in "
        "the table that serves, "
        "its rows scale the form. Median over tables of the median error on rows that were not "
        "used: of another load "
        "(so another number of touched experts) at the same tokens, and at tokens between. Last "
        "column: the form on "
        "shapes left out.\n\n" + markdown_table(header, body) + "\n\n" + _all_reduce_text()
    )


def _median_of(tables: list[MeasuredTable], name: str) -> str:
    return percent(float(np.median([getattr(table, name) for table in tables])))


def _all_reduce_text() -> str:
    records = [
        record
        for record in _all_records()
        if record.op == "all_reduce" and record.loso_median is not None
    ]
    errors = np.array([record.loso_median for record in records], float)
    median, p90 = error_quantiles(1.0 + errors, np.ones_like(errors))
    return (
        "All-reduce, one message size left out and interpolated between the others: median error "
        f"{percent(median)}, 90 % of the {len(records)} tables within {percent(p90)}."
    )
