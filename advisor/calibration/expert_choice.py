"""Which kernel of routed experts serves: engines pick it by shape, so what measured the very shape comes first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor import laws
from advisor.architecture import WeightDtype
from advisor.calibration.choice import (
    MIN_SHAPES,
    STAND_INS,
    TABLE_DTYPES,
    Choice,
    borrowed_from,
    newest_versions,
    version_key,
)
from advisor.calibration.frames import BYTES_PER_WEIGHT
from advisor.calibration.measured_records import MAX_FACTOR, MeasuredTable
from advisor.calibration.moe_fit import PARAMETERS
from advisor.calibration.records import FitRecord
from advisor.hardware import Hardware, effective_bandwidth
from advisor.kernel_costs import ExpertShape, Knots, factor_at
from advisor.step_cost import expert_work

UNGATED_KERNELS = "nongated"
"""Kernels for experts of two matrices: they serve no gated model, and come first for an ungated one."""
SUBSTITUTED_KERNELS = "situ_as_silu"
"""Kernels measured with another activation in place of the model's own; they serve nothing."""
SHARED_KERNELS = "trtllm"
"""Kernels of one library (trtllm-gen) that every engine calls: what one engine measured, another runs too."""
CLEARLY_QUICKER = 1.15
"""A shared kernel measured under another engine serves where the engine's own takes more than this times as long.
[-]"""
MIN_WIDTHS = 2
"""A fit on fewer distinct widths of a shard hardly tells the cost of an expert from that of its bytes. [-]"""
TYPICAL_EXPERT_BYTES = 8e6
"""One expert of a fine-grained model, between 3 x 2048 x 768 in 16 bits and 3 x 2880 x 2880 in 4 bits. [B]"""
SLOW_FRACTION = 0.5
"""An expert kernel whose weight rate stays below this share of the accelerator's streaming rate was not tuned for it.
Engines pick kernels per shape, so such a table says what one kernel does, not what the engine does."""
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
    streaming_rate: float
    shape: ExpertShape | None
    rows: Mapping[str, Knots]
    """By record id, of those that measured the shape."""

    def seconds(self, record: FitRecord) -> float:
        """Geometric mean over COMPARED_TOKENS of one layer's time. Infinite where no shape is given. [s]"""
        if self.shape is None:
            return math.inf
        times = layer_seconds(record, self.shape, self.rows.get(record.id, ()), COMPARED_TOKENS)
        return float(np.exp(np.log(times).mean()))

    def says_little(self, record: FitRecord) -> bool:
        """Whether the fit rests on one width of a shard and did not see this shape."""
        return record.n_widths is not None and record.n_widths < MIN_WIDTHS and record.id not in self.rows

    def slow(self, record: FitRecord) -> bool:
        """Whether the kernel reads weights slowly and did not measure this shape."""
        return record.id not in self.rows and reads_slowly(record, self.streaming_rate)

    def rank(self, record: FitRecord, newest: Mapping[str, object]) -> _Rank:
        """Least serves. See `choose_experts`."""
        # Engines pick kernels by shape, so what measured the very shape beats any fit's error on other shapes.
        measured = record.id in self.rows
        return (
            self.slow(record),
            record.dtype not in TABLE_DTYPES[self.dtype],
            record.engine != self.engine,
            not self.gated and UNGATED_KERNELS not in record.kernel_source,
            self.says_little(record),
            version_key(record.version) != newest.get(record.engine),
            not measured,
            self.seconds(record) if measured else math.inf,
            record.n_shapes < MIN_SHAPES,
            math.inf if record.loso_median is None else record.loso_median,
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

    Order of preference: kernels that read weights at SLOW_FRACTION of the streaming rate of `hardware` or faster, or
    measured this shape; the format before its stand-in; the engine before others; for ungated experts a kernel made for
    them; fits on more than one width of a shard, or of this very shape; the newest version; those that measured this
    shape, the quickest at COMPARED_TOKENS first; MIN_SHAPES shapes; the lowest held-out error.
    A kernel of the library that engines share, measured at this shape under another engine, serves instead where it is
    clearly quicker, or where the engine's own was measured at one other width alone. Without `shape` (arrays of
    designs) what was measured of shapes decides nothing.

    Why a fit on one width is not simply borrowed for: carried to the other widths of 309 shapes of H200 and B200 tables
    it errs by 13 % (median; by 91 % where weights may be read faster than the memory allows), another engine's table of
    the same format by 19 %, but that of a shared kernel by 2 % (`python -m advisor.studies.calibration.widths`).
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
    streaming = effective_bandwidth(hardware, "bf16").value
    rows = {} if shape is None else measured_rows(measured, shape)
    all_of = _Candidates(usable, engine, dtype, gated, streaming, shape, rows)
    # What cannot serve does not make other tables of its engine old.
    newest = newest_versions([r for r in usable if not (all_of.says_little(r) or all_of.slow(r))])
    best = min(usable, key=lambda record: all_of.rank(record, newest))
    quicker = _shared_kernel(all_of, best, newest)
    if quicker is not None:
        return quicker
    return Choice(best, borrowed_from(best, engine, dtype), _reason(all_of, best, newest))


def measured_rows(tables: tuple[MeasuredTable, ...], shape: ExpertShape) -> dict[str, Knots]:
    """Factors of every table that measured a shape, by record id.

    They hold on one rank, whatever expert-parallel ranks `shape` has.

    Tables with rows beyond MAX_FACTOR of their form are left out, as they are where times are predicted.
    """
    found: dict[str, Knots] = {}
    for table in tables:
        for rows in table.shapes:
            # Without the ranks: tables of several are never fitted (decision 0002), so one rank's rows decide.
            if rows.shape[:5] == shape[:5]:
                known = tuple((float(t), f) for t, f in zip(table.tokens, rows.factor, strict=True) if f is not None)
                if known and max(abs(math.log(f)) for _, f in known) <= math.log(MAX_FACTOR):
                    found[table.fit_id] = known
    return found


def layer_seconds(
    record: FitRecord, shape: ExpertShape, rows: Knots, tokens: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Time of one layer of `shape` on one rank under independent uniform routing, broadcast over `tokens`. [s]

    By the measured `rows` of the shape where there are any, else by the fit.
    """
    h, width, active, experts, matrices, _ = shape
    touched = laws.uniform_experts(experts, active, tokens)
    rows_each = laws.rows_per_expert(tokens, active, touched)
    work = expert_work(
        tokens=tokens,
        n_active=active,
        rows_per_expert=rows_each,
        touched=touched,
        h=h,
        I=width,
        n_mat=matrices,
        bytes_per_weight=BYTES_PER_WEIGHT[record.dtype],
    )
    terms = laws.columns(laws.routed_layers, laws.ROUTED_COEFFICIENTS, **work, N=experts)
    factor = factor_at(rows, tokens) if rows else factor_at(record.curve, rows_each)
    return np.asarray(factor * (terms @ np.array([record.value(name) for name, _ in PARAMETERS])))


def _shared_kernel(candidates: _Candidates, best: FitRecord, newest: Mapping[str, object]) -> Choice | None:
    """A clearly quicker kernel of the shared library, of another engine's newest version and this very shape."""
    engine, dtype = candidates.engine, candidates.dtype
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
    # On the same rows two engines' tables of this library differ by 1.8 % (median of 60 shapes, decision 0010).
    quickest = min(shared, key=lambda record: (candidates.seconds(record), record.id))
    ratio = candidates.seconds(best) / candidates.seconds(quickest)
    if not candidates.says_little(best) and ratio <= CLEARLY_QUICKER:
        return None
    whose = f"that of {best.engine} {best.version}"
    why = "measured this shape, with a kernel of the library that engines share, " + (
        f"while {whose} was measured at one other width alone"
        if candidates.says_little(best)
        else f"{ratio:.1f} times as quick as {whose}"
    )
    return Choice(quickest, borrowed_from(quickest, engine, dtype), why)


def _reason(candidates: _Candidates, best: FitRecord, newest: Mapping[str, object]) -> str:
    """Why `best` serves, in words that follow its name."""
    return ", ".join(text for text in (_why_not_own(candidates, best), _why(candidates, best, newest)) if text)


def _why_not_own(candidates: _Candidates, best: FitRecord) -> str:
    """What is wrong with the kernels of the engine that was asked for. Empty where one of them serves or none is."""
    own = [record for record in candidates.records if record.engine == candidates.engine]
    if best.engine == candidates.engine or not own:
        return ""
    if not any(record.dtype in TABLE_DTYPES[candidates.dtype] for record in own):
        return f"{candidates.engine} was measured in {' and '.join(sorted({record.dtype for record in own}))} alone"
    return f"the kernel of {candidates.engine} reads weights at under half of what this accelerator streams"


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
    return "measured this shape" if len(rivals) < 2 else f"quickest of {len(rivals)} kernels that measured this shape"


def reads_slowly(record: FitRecord, streaming_rate: float) -> bool:
    """Whether an expert kernel reads weights at less than SLOW_FRACTION of `streaming_rate` [B/s]."""
    return expert_read_rate(record) < SLOW_FRACTION * streaming_rate


def expert_read_rate(record: FitRecord) -> float:
    """Rate at which a fitted kernel reads an expert of TYPICAL_EXPERT_BYTES, its cost per expert included. [B/s]"""
    seconds = record.value("weight_s_per_byte") * TYPICAL_EXPERT_BYTES + record.value("per_expert_s")
    return TYPICAL_EXPERT_BYTES / seconds if seconds > 0.0 else math.inf
