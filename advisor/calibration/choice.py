"""Which fit record serves an operation: the chosen engine's own and newest where it is any good, else a stand-in."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from advisor.architecture import WeightDtype
from advisor.calibration.records import FitRecord, Operation
from advisor.hardware import Hardware, effective_bandwidth

TABLE_DTYPES: dict[WeightDtype, tuple[str, ...]] = {
    "fp32": (),
    "bf16": ("bf16", "fp16"),
    "fp8": ("fp8",),
    "fp8_block": ("fp8_block",),
    "int8": (),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"),
    "int4": ("int4_wo",),
}
"""The tables' names of each stored format."""
STAND_INS: dict[WeightDtype, tuple[str, ...]] = {"fp8": ("fp8_block",), "fp8_block": ("fp8",)}
"""Formats that read as many bytes on the same matrix units."""

UNGATED_KERNELS = "nongated"
"""Kernels for experts of two matrices: they serve no gated model, and come first for an ungated one."""
SUBSTITUTED_KERNELS = "situ_as_silu"
"""Kernels measured with another activation in place of the model's own; they serve nothing."""

MIN_SHAPES = 3
TYPICAL_EXPERT_BYTES = 8e6
"""One expert of a fine-grained model, between 3 x 2048 x 768 in 16 bits and 3 x 2880 x 2880 in 4 bits. [B]"""
SLOW_FRACTION = 0.5
"""An expert kernel whose weight rate stays below this share of the accelerator's streaming rate was not tuned for it.
Engines pick kernels per shape, so such a table says what one kernel does, not what the engine does."""
BORROWED_LOG_SD = 0.10
"""Added in quadrature when the constants come from another engine or format of the same accelerator. [1]"""


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
    records: tuple[FitRecord, ...],
    op: Operation,
    engine: str,
    dtype: WeightDtype,
    n_ranks: int | None = None,
    kernel_ending: str = "",
    streaming_rate: float = 0.0,
    gated_experts: bool = True,
) -> Choice | None:
    """The record that serves (op, engine, stored format), or None.

    Order of preference: a kernel that reads weights at SLOW_FRACTION of `streaming_rate` [B/s] or faster; the format
    itself before its stand-in; the chosen engine before others; for ungated experts a kernel made for them; fits on at
    least MIN_SHAPES shapes; the newest version; the lowest held-out error.
    """
    names = TABLE_DTYPES[dtype] + STAND_INS.get(dtype, ())
    usable = [
        record
        for record in records
        if record.op == op
        and record.dtype in names
        and record.n_ranks == n_ranks
        and record.success
        and record.kernel_source.endswith(kernel_ending)
        and SUBSTITUTED_KERNELS not in record.kernel_source
        and not (gated_experts and UNGATED_KERNELS in record.kernel_source)
        and not record.kernel_source.endswith("_eager")
    ]
    if not usable:
        return None
    newest = {e: max(version_key(r.version) for r in usable if r.engine == e) for e in {r.engine for r in usable}}

    def rank(record: FitRecord) -> tuple[bool, bool, bool, bool, bool, bool, float, str]:
        return (
            reads_slowly(record, streaming_rate),
            record.dtype not in TABLE_DTYPES[dtype],
            record.engine != engine,
            not gated_experts and UNGATED_KERNELS not in record.kernel_source,
            record.n_shapes < MIN_SHAPES,
            version_key(record.version) < newest[record.engine],
            math.inf if record.loso_median is None else record.loso_median,
            record.id,
        )

    best = min(usable, key=rank)
    reasons = [f"{best.engine} {best.version}"] if best.engine != engine else []
    reasons += [f"{best.dtype} kernels"] if best.dtype not in TABLE_DTYPES[dtype] else []
    return Choice(best, " ".join(reasons))


def choose_experts(
    records: tuple[FitRecord, ...], engine: str, dtype: WeightDtype, hardware: Hardware, gated: bool = True
) -> Choice | None:
    """The expert kernel that serves; as `choose`, kernels that read weights slowly on `hardware` last."""
    streaming = effective_bandwidth(hardware, "bf16").value
    return choose(records, "moe", engine, dtype, streaming_rate=streaming, gated_experts=gated)


def reads_slowly(record: FitRecord, streaming_rate: float) -> bool:
    """Whether an expert kernel reads weights at less than SLOW_FRACTION of `streaming_rate` [B/s]."""
    if "weight_s_per_byte" not in record.parameters:
        return False
    return expert_read_rate(record) < SLOW_FRACTION * streaming_rate


def expert_read_rate(record: FitRecord) -> float:
    """Rate at which a fitted kernel reads an expert of TYPICAL_EXPERT_BYTES, its cost per expert included. [B/s]"""
    seconds = record.value("weight_s_per_byte") * TYPICAL_EXPERT_BYTES + record.value("per_expert_s")
    return TYPICAL_EXPERT_BYTES / seconds if seconds > 0.0 else math.inf
