"""Which fit record serves an operation: the chosen engine's own and newest where it is any good, else a stand-in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.architecture import WeightDtype
from advisor.calibration.gemm_variants import ENDINGS, ActivationScales
from advisor.calibration.records import FitRecord, Operation

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

MIN_SHAPES = 3
BORROWED_LOG_SD = 0.10
"""Added in quadrature when the constants come from another engine or format of the same accelerator. [-]"""


@dataclass(frozen=True)
class Choice:
    """The record that was picked, and whether it is another engine's or format's."""

    record: FitRecord
    borrowed: str
    """Empty, or what it was borrowed from, for a warning."""
    reason: str = ""
    """Why this one of several, in words; empty where nothing has to be said."""

    @property
    def log_sd(self) -> float:
        """Held-out spread, widened when borrowed. [-]"""
        return math.hypot(self.record.log_sd, BORROWED_LOG_SD) if self.borrowed else self.record.log_sd


def version_key(version: str) -> tuple[tuple[int, ...], int, int]:
    """Sort key of an engine version: 1.3.0rc10 < 1.3.0rc20 < 1.3.0 < 1.10, 0.5.6 < 0.5.6.post2."""
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
    scales: ActivationScales = "static",
) -> Choice | None:
    """The record that serves (op, engine, stored format), or None. Of experts see `choose_experts`.

    Order of preference: the format itself before its stand-in; the chosen engine before others; fits on at least
    MIN_SHAPES shapes; the newest version; the lowest held-out error. `scales` picks the kernel of a GEMM table that
    was fitted with and without its quantisation launches.
    """
    names = TABLE_DTYPES[dtype] + STAND_INS.get(dtype, ())
    found = [
        record
        for record in records
        if record.op == op
        and record.dtype in names
        and record.n_ranks == n_ranks
        and record.success
        and record.kernel_source.endswith(kernel_ending)
        and not record.kernel_source.endswith("_eager")
    ]
    usable = _with_scales(found, scales) if op == "gemm" else found
    if not usable:
        return None
    newest = newest_versions(usable)

    def rank(record: FitRecord) -> tuple[bool, bool, bool, bool, float, str]:
        return (
            # The format decides which kernel runs at all, the engine only whose: another engine's comes before a
            # stand-in.
            record.dtype not in TABLE_DTYPES[dtype],
            record.engine != engine,
            record.n_shapes < MIN_SHAPES,
            version_key(record.version) < newest[record.engine],
            # Where nothing could be held out nothing is known of the error: last.
            math.inf if record.loso_median is None else record.loso_median,
            record.id,
        )

    best = min(usable, key=rank)
    return Choice(best, borrowed_from(best, engine, dtype))


def borrowed_from(record: FitRecord, engine: str, dtype: WeightDtype) -> str:
    """Engine, version and format of a record as far as they are not those asked for. Empty where all are."""
    reasons = [f"{record.engine} {record.version}"] if record.engine != engine else []
    reasons += [f"{record.dtype} kernels"] if record.dtype not in TABLE_DTYPES[dtype] else []
    return " ".join(reasons)


def newest_versions(records: Iterable[FitRecord]) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """Sort key (`version_key`) of each engine's newest record."""
    found: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for record in records:
        key = version_key(record.version)
        found[record.engine] = max(found.get(record.engine, key), key)
    return found


def _with_scales(records: list[FitRecord], scales: ActivationScales) -> list[FitRecord]:
    """GEMM records of the kernels that `scales` asks for. A table that has one record alone keeps it."""
    asked, every = ENDINGS[scales], {record.id for record in records}
    others = tuple(ending for ending in ENDINGS.values() if ending and ending != asked)
    own = [record for record in records if not (others and record.kernel_source.endswith(others))]
    if not asked:
        return own
    return [record for record in own if record.kernel_source.endswith(asked) or record.id + asked not in every]
