"""From fit records to the constants that `step_cost` needs for one accelerator, engine and set of weight formats."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from advisor.architecture import BYTES_PER_WEIGHT, WeightDtype, WeightDtypes
from advisor.calibration.records import FitRecord, Operation, load_records
from advisor.hardware import ComputeDtype, Hardware, effective_bandwidth, effective_flops, gemm_t0
from advisor.prediction import Tier
from advisor.step_cost import GemmCost, KernelCosts, MoeCost, StreamCost

TABLE_DTYPES: dict[WeightDtype, tuple[str, ...]] = {
    "fp32": (),
    "bf16": ("bf16", "fp16"),
    "fp8": ("fp8", "fp8_block"),
    "fp8_block": ("fp8_block", "fp8"),
    "int8": (),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"),
    "int4": ("int4_wo",),
}
"""The tables' names of each stored format, best match first."""

GEMM_DTYPES: dict[WeightDtype, tuple[str, ...]] = {**TABLE_DTYPES, "mxfp4": (), "int4": ()}
NARROW_KERNELS = ("nongated", "situ_as_silu")
"""Kernels measured only for experts with another activation; they serve no gated model."""

MIN_SHAPES = 3
ROOFLINE_LOG_SD = 0.35
"""Spread of layer times around t0 + bytes / bandwidth where nothing was measured on the accelerator. Twice the median
held-out spread of the two-parameter roofline on the measured tables (docs/decisions/0002-moe-kernel-form.md)."""
BORROWED_LOG_SD = 0.10
"""Added in quadrature when the constants come from another engine or format of the same accelerator. [1]"""

LAUNCH_PER_LAYER_S = 10e-6
HOST_PER_STEP_S = 300e-6
HOST_PER_DRAFT_PASS_S = 300e-6
HOST_PER_ROUND_S = 400e-6
OVERHEAD_LOG_SD = math.log(3.0) / 1.2816
"""Weak prior of docs/model.md: each overhead constant is known within a factor of 3."""

ROOFLINE_ATTENTION_T0_S = 12e-6
"""Typical intercept of decode attention on measured Hopper and Blackwell parts (9-15 us)."""
ROOFLINE_ALL_REDUCE_T0_S = {2: 5e-6, 4: 6e-6, 8: 8e-6}
"""Typical intercepts of graph-captured all-reduce on NVLink parts (2.5-5 us), doubled for unmeasured ones."""
LINK_FRACTION = 0.7
"""Share of the link's unidirectional rate that large all-reduces reach on the measured NVLink parts (0.55-0.8)."""


@dataclass(frozen=True)
class Choice:
    """The record that was picked, and whether it is another engine's or format's."""

    record: FitRecord
    borrowed: str
    """Empty, or what it was borrowed from, for a warning."""

    @property
    def log_sd(self) -> float:
        """Held-out spread, widened when borrowed. [1]"""
        return math.hypot(self.record.log_sd, BORROWED_LOG_SD) if self.borrowed else self.record.log_sd


def version_key(version: str) -> tuple[tuple[int, ...], int, int]:
    """Sort key of an engine version: 1.3.0rc10 < 1.3.0rc20 < 1.3.0 < 1.10; 0.5.6 < 0.5.6.post2."""
    head = re.match(r"[\d.]*", version)
    numbers = tuple(int(part) for part in (head.group(0) if head else "").split(".") if part)
    candidate = re.search(r"rc(\d+)", version)
    post = re.search(r"post(\d+)", version)
    return numbers, int(candidate.group(1)) if candidate else 10**6, int(post.group(1)) if post else 0


def choose(
    records: tuple[FitRecord, ...], op: Operation, engine: str, dtypes: tuple[str, ...], n_ranks: int | None = None
) -> Choice | None:
    """The record that serves (op, engine, format), or None.

    Order of preference: stored format as given before its stand-in; the chosen engine before others; fits that
    succeeded on at least MIN_SHAPES shapes; the newest version; the lowest held-out error.
    """
    usable = [
        record
        for record in records
        if record.op == op
        and record.dtype in dtypes
        and record.n_ranks == n_ranks
        and record.success
        and not any(word in record.kernel_source for word in NARROW_KERNELS)
        and not record.kernel_source.endswith("_eager")
    ]
    if not usable:
        return None
    newest = {e: max(version_key(r.version) for r in usable if r.engine == e) for e in {r.engine for r in usable}}

    def rank(record: FitRecord) -> tuple[bool, bool, bool, int, bool, float, str]:
        error = record.loso_median if record.loso_median is not None else math.inf
        return (
            record.engine != engine,
            record.n_shapes < MIN_SHAPES,
            version_key(record.version) < newest[record.engine],
            dtypes.index(record.dtype),
            record.loso_median is None,
            error,
            record.id,
        )

    best = min(usable, key=rank)
    return Choice(best, "" if best.engine == engine else f"{best.engine} {best.version}")
