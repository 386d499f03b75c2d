"""Which fit record serves an operation: the chosen engine's own and newest where it is any good,
else a stand-in.

Engines pick the kernel of routed experts by shape, so what measured the very shape comes first.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from advisor.catalog.engines import engine_ids, load_engine
from advisor.catalog.fit_records import (
    BYTES_PER_WEIGHT,
    MAX_FACTOR,
    PARAMETERS,
    RECORDS,
    FitRecord,
    MeasuredTable,
    Operation,
    read_fitted,
)
from advisor.physics import laws
from advisor.physics.architecture import BYTES_PER_WEIGHT as STORED
from advisor.physics.architecture import WeightDtype
from advisor.physics.hardware import (
    ComputeDtype,
    Hardware,
    effective_bandwidth,
    effective_flops,
)
from advisor.physics.kernel_costs import ExpertShape, Knots, MoeCost, factor_at
from advisor.physics.step import expert_work
from advisor.prediction import Frozen, Tier

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
"""On fewer the cost of an expert is not told from the fixed one
(docs/decisions/history.md (0025)). [-]"""
BORROWED_LOG_SD = 0.10
"""Added in quadrature when the constants come from another engine or format of the same
accelerator. Assumed: such tables err by 19 % in the median (`choose_experts`). [-]"""


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
        return (
            math.hypot(self.record.log_sd, BORROWED_LOG_SD) if self.borrowed else self.record.log_sd
        )


@lru_cache(maxsize=512)
def version_key(version: str) -> tuple[tuple[int, ...], int, int]:
    """Sort key of an engine version: 1.3.0rc10 < 1.3.0rc20 < 1.3.0 < 1.10, 0.5.6 < 0.5.6.post2."""
    head = re.match(r"[\d.]*", version)
    numbers = tuple(int(part) for part in (head.group(0) if head else "").split(".") if part)
    candidate = re.search(r"rc(\d+)", version)
    post = re.search(r"post(\d+)", version)
    return (
        numbers,
        int(candidate.group(1)) if candidate else 10**6,
        int(post.group(1)) if post else 0,
    )


def choose(
    records: tuple[FitRecord, ...],
    op: Operation,
    engine: str,
    dtype: WeightDtype,
    n_ranks: int | None = None,
    kernel_ending: str = "",
    scales: "ActivationScales" = "static",
) -> Choice | None:
    """The record that serves (op, engine, stored format), or None. Of experts see `choose_experts`.

    Order of preference: the format itself before its stand-in; the chosen engine before others;
    fits on at least MIN_SHAPES shapes; the newest version; for attention the most head layouts; the
    lowest held-out error. `scales` picks the kernel of a GEMM table that was fitted with and
    without its quantisation launches.
    """
    names = TABLE_DTYPES[dtype] + STAND_INS.get(dtype, ())
    candidates = [
        record
        for record in records
        if record.op == op
        and record.dtype in names
        and record.n_ranks == n_ranks
        and record.success
        and record.kernel_source.endswith(kernel_ending)
        and not record.kernel_source.endswith("_eager")
    ]
    usable = _with_scales(candidates, scales) if op == "gemm" else candidates
    if not usable:
        return None
    newest = newest_versions(usable)

    def rank(record: FitRecord) -> tuple[bool, bool, bool, bool, int, float, str]:
        return (
            # The format decides which kernel runs, the engine only whose: another engine's comes
            # before a stand-in.
            record.dtype not in TABLE_DTYPES[dtype],
            record.engine != engine,
            record.n_shapes < MIN_SHAPES,
            version_key(record.version) < newest[record.engine],
            # The kernel that an engine runs by default measured most head layouts; others serve
            # what it refuses.
            -record.n_shapes if op == "attention" else 0,
            # Where nothing could be held out nothing is known of the error: last.
            math.inf if record.loso_median is None else record.loso_median,
            record.id,
        )

    best = min(usable, key=rank)
    return Choice(best, borrowed_from(best, engine, dtype))


def borrowed_from(record: FitRecord, engine: str, dtype: WeightDtype) -> str:
    """Engine, version and format of a record as far as they are not those asked for. Empty where
    all are."""
    reasons = [f"{record.engine} {record.version}"] if record.engine != engine else []
    reasons += [f"{record.dtype} kernels"] if record.dtype not in TABLE_DTYPES[dtype] else []
    return " ".join(reasons)


def newest_versions(records: Iterable[FitRecord]) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """Sort key (`version_key`) of each engine's newest record."""
    newest: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for record in records:
        key = version_key(record.version)
        newest[record.engine] = max(newest.get(record.engine, key), key)
    return newest


def _with_scales(records: list[FitRecord], scales: "ActivationScales") -> list[FitRecord]:
    """GEMM records of the kernels that `scales` asks for. A table that has one record alone keeps
    it."""
    kernel_ending = ENDINGS[scales]
    record_ids = {record.id for record in records}
    others = tuple(ending for ending in ENDINGS.values() if ending and ending != kernel_ending)
    served = [
        record for record in records if not (others and record.kernel_source.endswith(others))
    ]
    if not kernel_ending:
        return served
    return [
        record
        for record in served
        if record.kernel_source.endswith(kernel_ending)
        or record.id + kernel_ending not in record_ids
    ]


UNGATED_KERNELS = "nongated"
"""Kernels for experts of two matrices: they serve no gated model, and come first for an ungated
one."""
SUBSTITUTED_KERNELS = "situ_as_silu"
"""Kernels measured with another activation in place of the model's own; they serve nothing."""
SHARED_KERNELS = "trtllm"
"""Kernels of one library (trtllm-gen) that every engine calls: what one engine measured, another
runs too."""
CLEARLY_QUICKER = 1.15
"""A shared kernel measured under another engine serves where the engine's own takes more than this
times as long (docs/decisions/0010-kernels-as-they-run.md). [-]"""
MIN_WIDTHS = 2
"""A fit on fewer distinct widths of a shard hardly tells the cost of an expert from that of its
bytes. [-]"""
TYPICAL_EXPERT_BYTES = 8e6
"""One expert of a fine-grained model, between 3 x 2048 x 768 in 16 bits and 3 x 2880 x 2880 in 4
bits. [B]"""
ROOFLINE_MOE_T0_S = 26e-6
ROOFLINE_PER_EXPERT_S = 0.1e-6
ROOFLINE_MOE_BANDWIDTH_FACTOR = 1.1
ROOFLINE_MOE_FLOPS_FACTOR = 1.2
ROOFLINE_MOE_ACTIVATION_FACTOR = 0.4
"""What an unmeasured accelerator gets: near the medians of the fits with >= 8 shapes (22 us, 0.07
us, 1.16, 1.45 and 0.45 of the profile's effective bandwidth and GEMM rate; terms overlap, hence
above 1), shifted until the median error over ten measured accelerators, each treated as if it had
no fits, was 2 %."""
ROOFLINE_LOG_SD = 0.32
"""Spread of those errors: 80 % of the measured rows lie within exp(1.28 x 0.32) = 1.5 of such a
prediction."""
SLOW_FRACTION = 0.5
"""An expert kernel whose weight rate stays below this share of the accelerator's streaming rate was
not tuned for it. Engines pick kernels per shape, so such a table says what one kernel does, not
what the engine does. The half is assumed. [-]"""
SLOW_TIMES = 3.0
"""A kernel that takes more than this times what the accelerator's profile allows for a shape's
bytes and operations is not the one that engines run (assumed; 80 % of rows lie within 1.5). [-]"""
COMPARED_TOKENS = 2.0 ** np.arange(3, 10, dtype=np.float64)
"""Tokens of the steps at which kernels of one shape are compared: 8 to 512. [-]"""
_Rank = tuple[bool, bool, bool, bool, bool, bool, bool, float, bool, float, str]


@dataclass(frozen=True)
class _Candidates:
    """Records that could serve one layer, with what each measured of its shape."""

    records: list[FitRecord]
    engine: str
    dtype: WeightDtype
    gated: bool
    hardware: Hardware
    shape: ExpertShape | None
    rows: Mapping[str, Knots]
    """By record id, of those that measured the shape."""

    def seconds(self, record: FitRecord) -> float:
        """Geometric mean over COMPARED_TOKENS of one layer's time. Infinite where no shape is
        given. [s]"""
        return self.seconds_of.get(record.id, math.inf)

    @cached_property
    def seconds_of(self) -> dict[str, float]:
        """`seconds` by record id."""
        if self.shape is None:
            return {}
        times = {
            record.id: layer_seconds(
                record, self.shape, self.rows.get(record.id, ()), COMPARED_TOKENS
            )
            for record in self.records
        }
        return {name: float(np.exp(np.log(each).mean())) for name, each in times.items()}

    def says_little(self, record: FitRecord) -> bool:
        """Whether the fit rests on one width of a shard and did not see this shape."""
        return (
            record.n_widths is not None
            and record.n_widths < MIN_WIDTHS
            and record.id not in self.rows
        )

    @cached_property
    def allowed_s(self) -> float:
        """What the profile allows one layer, as `seconds`. [s]"""
        if self.shape is None:
            return math.inf
        work = _layer_work(self.shape, COMPARED_TOKENS, STORED[self.dtype])
        cost = routed_roofline(self.hardware, self.dtype)
        times = laws.routed_layers(**work, N=self.shape[3], **cost.symbols)
        return float(np.exp(np.log(times).mean()))

    def far(self, record: FitRecord) -> bool:
        """Whether a layer takes more than SLOW_TIMES what the profile allows."""
        return self.shape is not None and self.seconds(record) > SLOW_TIMES * self.allowed_s

    def slow(self, record: FitRecord) -> bool:
        """Whether the kernel is far from what this shape allows, reads weights slowly and did not
        measure this shape, or is not what its engine picks."""
        if self.far(record):
            return True
        seconds = record.value("weight_s_per_byte") * TYPICAL_EXPERT_BYTES + record.value(
            "per_expert_s"
        )
        rate = TYPICAL_EXPERT_BYTES / seconds if seconds > 0.0 else math.inf
        others = load_engine(record.engine).other_kernels if record.engine in engine_ids() else ()
        return (
            record.id not in self.rows or record.dtype in others
        ) and rate < SLOW_FRACTION * effective_bandwidth(self.hardware, "bf16").value

    def rank(self, record: FitRecord, newest: Mapping[str, object]) -> _Rank:
        """Least serves. See `choose_experts`."""
        # Engines pick kernels by shape, so what measured the very shape beats any fit's error on
        # other shapes.
        measured = record.id in self.rows
        measured_s = self.seconds(record) if measured else math.inf
        fit_error = math.inf if record.loso_median is None else record.loso_median
        return (
            self.slow(record),
            record.dtype not in TABLE_DTYPES[self.dtype],
            record.engine != self.engine,
            not self.gated and UNGATED_KERNELS not in record.kernel_source,
            self.says_little(record),
            version_key(record.version) != newest.get(record.engine),
            not measured,
            measured_s,
            record.n_shapes < MIN_SHAPES,
            fit_error,
            record.id,
        )


def choose_experts(
    records: tuple[FitRecord, ...],
    engine: str,
    dtype: WeightDtype,
    hardware: Hardware,
    gated: bool = True,
    shape: ExpertShape | None = None,
    measured: tuple[MeasuredTable, ...] = (),
) -> Choice | None:
    """The record that serves the routed experts of an engine in a stored format, or None.

    Order of preference: kernels within SLOW_TIMES of what `hardware` allows this shape, that read
    weights at SLOW_FRACTION of its streaming rate or faster or measured this shape; the format
    before its stand-in; the engine before others; for ungated experts a kernel made for them; fits
    on more than one width of a shard, or of this very shape; the newest version; those that
    measured this shape, the quickest at COMPARED_TOKENS first; MIN_SHAPES shapes; the lowest held-
    out error. A kernel of the library that engines share, measured at this shape under another
    engine, serves instead where it is clearly quicker, or where the engine's own was measured at
    one other width alone. Without `shape` (arrays of designs) what was measured of shapes decides
    nothing. None also where the best did not measure this shape and is beyond SLOW_TIMES.

    Why a fit on one width is not simply borrowed for: carried to the other widths of 309 shapes of
    H200 and B200 tables it errs by 13 % (median; by 91 % where weights may be read faster than the
    memory allows), another engine's table of the same format by 19 %, but that of a shared kernel
    by 2 % (`python -m studies.calibration --widths`).
    """
    names = TABLE_DTYPES[dtype] + STAND_INS.get(dtype, ())
    usable = [
        record
        for record in records
        if record.op == "moe"
        and record.dtype in names
        and record.success
        and SUBSTITUTED_KERNELS not in record.kernel_source
        and not (gated and UNGATED_KERNELS in record.kernel_source)
    ]
    if not usable:
        return None
    rows = {} if shape is None else measured_rows(measured, shape)
    all_of = _Candidates(usable, engine, dtype, gated, hardware, shape, rows)
    # What cannot serve does not make other tables of its engine old.
    newest = newest_versions([r for r in usable if not (all_of.says_little(r) or all_of.slow(r))])
    best = min(usable, key=lambda record: all_of.rank(record, newest))
    quicker = _shared_kernel(all_of, best, newest)
    if quicker is not None:
        return quicker
    if all_of.far(best) and best.id not in rows:
        return None
    reasons = _why_not_own(all_of, best), _why(all_of, best, newest)
    return Choice(best, borrowed_from(best, engine, dtype), ", ".join(filter(None, reasons)))


def measured_rows(tables: tuple[MeasuredTable, ...], shape: ExpertShape) -> dict[str, Knots]:
    """Factors of every table that measured a shape near its form, by record id. They hold on one
    rank."""
    factors: dict[str, Knots] = {}
    for table in tables:
        for rows in table.shapes:
            # Without the ranks: tables of several are never fitted (decision 0002), so one rank's
            # rows decide.
            if rows.shape[:5] == shape[:5]:
                measured = tuple(
                    (float(t), f)
                    for t, f in zip(table.tokens, rows.factor, strict=True)
                    if f is not None
                )
                if measured and max(abs(math.log(f)) for _, f in measured) <= math.log(MAX_FACTOR):
                    factors[table.fit_id] = measured
    return factors


def layer_seconds(
    record: FitRecord, shape: ExpertShape, rows: Knots, tokens: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Time of a layer on one rank under uniform routing, by `rows` where there are any, else by the
    fit. [s]"""
    work = _layer_work(shape, tokens, BYTES_PER_WEIGHT[record.dtype])
    terms = laws.columns(laws.routed_layers, laws.ROUTED_COEFFICIENTS, **work, N=shape[3])
    rows_each = laws.rows_per_expert(tokens, shape[2], work["U"])
    factor = factor_at(rows, tokens) if rows else factor_at(record.curve, rows_each)
    return np.asarray(factor * (terms @ np.array([record.value(name) for name, _ in PARAMETERS])))


def routed_roofline(hardware: Hardware, dtype: WeightDtype) -> MoeCost:
    """Constants of routed experts that no table serves, from the accelerator's profile."""
    stored = computed(dtype)
    return MoeCost(
        t0_s=ROOFLINE_MOE_T0_S,
        bandwidth_bytes_per_s=effective_bandwidth(hardware, stored).value
        * ROOFLINE_MOE_BANDWIDTH_FACTOR,
        flops_per_s=effective_flops(hardware, stored).value * ROOFLINE_MOE_FLOPS_FACTOR,
        tier=Tier.ROOFLINE,
        per_expert_s=ROOFLINE_PER_EXPERT_S,
        activation_bandwidth_bytes_per_s=effective_bandwidth(hardware, "bf16").value
        * ROOFLINE_MOE_ACTIVATION_FACTOR,
        log_sd=ROOFLINE_LOG_SD,
        because=(
            f"no measured expert kernels for {dtype} on {hardware.id}: profile bandwidth and a "
            "typical fixed cost"
        ),
    )


def computed(dtype: WeightDtype) -> ComputeDtype:
    """fp32 weights go through the bf16 constants. Their bytes are counted where they are read."""
    return "bf16" if dtype == "fp32" else dtype


def _layer_work(
    shape: ExpertShape, tokens: NDArray[np.float64], bytes_per_weight: float
) -> dict[str, Any]:
    """Arguments of `laws.routed_layers` for a layer on one rank under uniform routing, by
    symbol."""
    h, width, active, experts, matrices, _ = shape
    touched = laws.uniform_experts(experts, active, tokens)
    return expert_work(
        tokens=tokens,
        n_active=active,
        rows_per_expert=laws.rows_per_expert(tokens, active, touched),
        touched=touched,
        h=h,
        I=width,
        n_mat=matrices,
        bytes_per_weight=bytes_per_weight,
    )


def _shared_kernel(
    candidates: _Candidates, best: FitRecord, newest: Mapping[str, object]
) -> Choice | None:
    """A clearly quicker kernel of the shared library, of another engine's newest version and this
    very shape."""
    engine = candidates.engine
    dtype = candidates.dtype
    shared = [
        record
        for record in candidates.records
        if SHARED_KERNELS in record.kernel_source
        and record.engine != best.engine
        and record.dtype in TABLE_DTYPES[dtype]
        and record.id in candidates.rows
        and version_key(record.version) == newest.get(record.engine)
    ]
    if not shared:
        return None
    # On the same rows two engines' tables of this library differ by 1.8 % (median of 60 shapes,
    # decision 0010).
    quickest = min(shared, key=lambda record: (candidates.seconds(record), record.id))
    ratio = candidates.seconds(best) / candidates.seconds(quickest)
    if not candidates.says_little(best) and ratio <= CLEARLY_QUICKER:
        return None
    slower = f"that of {best.engine} {best.version}"
    reason = "it was measured at this shape with a kernel that both engines load, " + (
        f"while {slower} was measured at one other width alone"
        if candidates.says_little(best)
        else f"{ratio:.1f} times as quick as {slower}"
    )
    return Choice(quickest, borrowed_from(quickest, engine, dtype), reason)


def _why_not_own(candidates: _Candidates, best: FitRecord) -> str:
    """What is wrong with the kernels of the engine that was asked for. Empty where one of them
    serves or none is."""
    engine_records = [record for record in candidates.records if record.engine == candidates.engine]
    if best.engine == candidates.engine or not engine_records:
        return ""
    formats = sorted({record.dtype for record in engine_records})
    if not set(formats) & set(TABLE_DTYPES[candidates.dtype]):
        return f"{candidates.engine} was measured in {' and '.join(formats)} alone"
    of_format = [r for r in engine_records if r.dtype in TABLE_DTYPES[candidates.dtype]]
    if all(map(candidates.far, of_format)):
        return (
            f"the kernel of {candidates.engine} takes over {SLOW_TIMES:g} times what this "
            "accelerator allows"
        )
    return (
        f"the kernel of {candidates.engine} reads weights at under half of what this accelerator "
        "streams"
    )


def _why(candidates: _Candidates, best: FitRecord, newest: Mapping[str, object]) -> str:
    """What speaks for a record."""
    if candidates.says_little(best) and candidates.shape is not None:
        return "this shape was not measured, only others at one width of a shard"
    if best.id not in candidates.rows:
        return "" if candidates.shape is None else "this shape was not measured"
    rivals = [
        record
        for record in candidates.records
        if record.id in candidates.rows
        and record.engine == best.engine
        and record.dtype in TABLE_DTYPES[candidates.dtype]
        and version_key(record.version) == newest.get(record.engine)
    ]
    return (
        "measured this shape"
        if len(rivals) < 2
        else f"quickest of {len(rivals)} kernels that measured this shape"
    )


ActivationScales = Literal["static", "dynamic", "fused"]
"""How the activations of a quantised product get their scale: known from the checkpoint, found on
every call, or (a bound for studies) without any time that a table has beyond another engine's."""
ENDINGS: dict[ActivationScales, str] = {"static": "", "dynamic": "+dynamic", "fused": "+fused"}
"""What the kernel's name ends in. A table without such launches has one record, which serves all
three."""
SMALL_LAUNCHES_FILE = RECORDS / "end_to_end" / "small_launches.json"


class SmallLaunch(Frozen):
    """Seconds that one layer takes beside the measured kernels, on one engine before one
    version."""

    engine: str
    before_version: str | None = None
    """None: today's."""
    before_date: str | None = Field(default=None, pattern=r"\d{4}-\d{2}-\d{2}")
    """Day of that release, for builds without a release number; None: not known."""
    name: str = Field(pattern="launch_per_layer_s|query_key_norm_s")
    """Field of KernelCosts: of every layer, or of a layer that normalises queries and keys."""
    value_s: float = Field(ge=0)
    low_s: float = Field(ge=0)
    high_s: float = Field(ge=0)
    """Range of the values with one model left out; with one model alone, the quartiles of its
    points, which hold the noise of runs and not the spread between models."""
    n_points: int = Field(ge=1)
    """Points of `models` that it was fitted on."""
    models: tuple[str, ...]
    source: str


@lru_cache(maxsize=4)
def load_small_launches(path: Path = SMALL_LAUNCHES_FILE) -> tuple[SmallLaunch, ...]:
    """The shipped records. Raises AdvisorError when the file is missing or damaged."""
    return read_fitted(path, tuple[SmallLaunch, ...], "small launches")


def small_launch(engine: str, name: str) -> SmallLaunch | None:
    """Today's record of an engine and field. None where the engine has none."""
    of_today = (record for record in load_small_launches() if record.before_version is None)
    return next(
        (record for record in of_today if (record.engine, record.name) == (engine, name)), None
    )
