"""Operations that stream bytes after a fixed start, by `laws.stream`.

All-reduce and expert all-to-all. Linear in t0 and 1/BW, both >= 0, fitted on relative error with robust re-weighting.
An all-reduce depends on its message alone: its table is a curve, the form times a factor that passes through every
measured size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor import laws
from advisor.calibration.frames import content_hash, held_out_errors, keep_rows, labels, require_columns
from advisor.calibration.nnls import fit_relative, leave_one_group_out, linear_fields
from advisor.calibration.records import Dropped, FitRecord, Operation, record_id
from advisor.calibration.table_hygiene import monotone

if TYPE_CHECKING:
    import pandas as pd

FORM = "t0-plus-stream"
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
    """Label of what is left out at a time for the held-out errors: a layout of experts, or a message size."""
    digest: str
    dropped: tuple[Dropped, ...] = ()
    note: str = ""
    single_curve: bool = False
    """Whether the time depends on the bytes alone, so that the record carries the factor at each measured size."""


def stream_record(table: StreamTable) -> FitRecord | None:
    """Fit t0 + bytes / BW to a table. None with fewer than MIN_GROUP_ROWS rows."""
    n_bytes, measured = table.n_bytes, table.measured
    if len(measured) < MIN_GROUP_ROWS:
        return None
    columns = laws.columns(laws.stream, laws.STREAM_COEFFICIENTS, R=n_bytes)
    fit = fit_relative(columns, measured)
    held = leave_one_group_out(columns, measured, table.group)
    curve: tuple[tuple[float, float], ...] = ()
    if table.single_curve:
        held = held * _neighbours_factor(n_bytes, measured)
        curve = tuple(sorted(zip(n_bytes.tolist(), (measured / (columns @ fit.coefficients)).tolist(), strict=True)))
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
        form=CURVE_FORM if table.single_curve else FORM,
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
    """For each size, what the other sizes' factors say of it: form and factors without its own row, [rows]."""
    out = np.ones(len(measured))
    columns = laws.columns(laws.stream, laws.STREAM_COEFFICIENTS, R=n_bytes)
    for row, size in enumerate(n_bytes):
        rest = n_bytes != size
        form = columns[rest] @ fit_relative(columns[rest], measured[rest]).coefficients
        order = np.argsort(n_bytes[rest])
        factor = np.log(measured[rest] / form)[order]
        out[row] = np.exp(np.interp(np.log(size), np.log(n_bytes[rest][order]), factor))
    return out


def all_reduce_record(frame: pd.DataFrame, identity: dict[str, str], n_ranks: int) -> FitRecord | None:
    """All-reduce of 16-bit messages among `n_ranks`. `frame` has message_elements and latency_s. Held out size by size.

    A larger message never takes less: engines could pad to it, and a fall would make a larger batch quicker.
    """
    require_columns(frame, ("message_elements", "latency_s"), "all-reduce")
    used, dropped = keep_rows(frame, [("messages above 128 MB: prefill", frame["message_elements"] <= 64 << 20)])
    used = monotone(used, "message_elements", ())
    n_bytes = np.asarray(laws.message_bytes(used["message_elements"].to_numpy(dtype=float), 1.0))
    digest = content_hash(frame, ["message_elements"])
    rows = {"n_bytes": n_bytes, "measured": used["latency_s"].to_numpy(), "group": n_bytes}
    found = StreamTable("all_reduce", identity, n_ranks, **rows, digest=digest, dropped=dropped, single_curve=True)
    return stream_record(found)


def all_to_all_record(frame: pd.DataFrame, identity: dict[str, str], n_ranks: int) -> FitRecord | None:
    """One direction of the expert exchange of a layer: the mean of dispatch and combine.

    frame: num_tokens (per rank), hidden_size, topk, num_experts, phase, latency_s. bytes = tokens x k x hidden x 2, the
    16-bit rows that one rank sends in one direction.
    """
    keys = ["num_tokens", "hidden_size", "topk", "num_experts"]
    require_columns(frame, (*keys, "phase", "latency_s"), "all-to-all")
    phases = frame.pivot_table(index=keys, columns="phase", values="latency_s", aggfunc="median").dropna().reset_index()
    if not {"dispatch", "combine"} <= set(phases.columns):
        return None
    phases = phases[phases["num_tokens"] <= 2048]
    measured = 0.5 * (phases["dispatch"] + phases["combine"]).to_numpy()
    tokens, active, hidden = (phases[name].to_numpy(dtype=float) for name in ("num_tokens", "topk", "hidden_size"))
    n_bytes = np.asarray(laws.sent_bytes(laws.message_bytes(tokens, hidden), active))
    rows = {"n_bytes": n_bytes, "measured": measured, "group": labels(phases, keys[1:])}
    digest = content_hash(frame, [*keys, "phase"])
    note = "mean of dispatch and combine; bytes = tokens per rank x k x hidden x 2"
    return stream_record(StreamTable("all_to_all", identity, n_ranks, **rows, digest=digest, note=note))
