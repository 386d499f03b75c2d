"""Decode attention over a KV cache by `laws.attention_core`, and whole attention layers as thin
tables that rise.

One query position per sequence was measured. Over a latent cache (MLA) every head meets the same
entries, so 64 to 128 heads come near arithmetic or pass it: its rate is fitted beside the
bandwidth. Over grouped heads it is not identified: of 36 tables of seven accelerators, up to 128
query heads for each KV head, none predicts its rows better by more than a point of error with a
rate than without, and the rate found depends on the assumed padding. There it is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.fit_records import FitParameter, FitRecord, ModuleTable, record_id
from advisor.catalog.kernel_costs import ASSUMED_RATE, KV_BYTES, SHARPNESS, latent_block_rows
from advisor.catalog.measured_shapes import served
from advisor.measured.kernel_fits import (
    band_log_sd,
    fit_relative,
    held_out,
    held_out_errors,
)
from advisor.physics import laws
from advisor.physics.hardware import Hardware, peak_flops
from studies.fits.dense import MIN_GROUP_ROWS, UNKNOWN_LOG_SD
from studies.fits.tables import (
    content_hash,
    correlation_fields,
    keep_rows,
    labels,
    leave_one_group_out,
    linear_fields,
    require_columns,
)

if TYPE_CHECKING:
    import pandas as pd

FORM = "attention-pnorm"
PARAMETERS = (("t0_s", "s"), ("s_per_byte", "s/B"), ("s_per_flop", "s/FLOP"))
"""Name and unit of the constants, in their order."""
LATENT_ELEMENTS = 576
"""512 latent + 64 rotary elements per token and layer (DeepSeek-V2/V3 report, arXiv 2405.04434)."""
LATENT_FLOPS = 2.0 * (576 + 512)
"""Of one head against one entry: scores over all elements, values over the latent ones. [FLOP]"""
ATTENTION_KEYS = ["batch_size", "context_tokens", "num_heads", "num_kv_heads", "head_dim"]
MLA_KEYS = ["batch_size", "context_tokens", "num_heads"]
LAUNCH_READ_S = 1e-6
"""Reading for less, at the memory's peak, is a tenth of a kernel's fixed start. [s]"""
MAX_BATCH = 1024
ASSUMED_RATE_LOG_SD = 0.15
"""Of an assumed rate, 0.5 to 0.73 of the peak at 80 %; widens the band of latent attention, where
it counts (assumed). [-]"""
MIN_BOUND_SHARE = 0.05
"""Share of a table's rows that must wait for arithmetic, at the fitted rates, for these to be told
apart. [-]"""


@dataclass(frozen=True)
class AttentionLimits:
    """Bounds of an attention kernel on one accelerator and cache format. Peaks as slopes, as the
    fits hold them."""

    s_per_byte: float
    """At the memory's peak. [s/B]"""
    s_per_flop: float
    """At the 16-bit peak, of which assumed rates are a share. [s/FLOP]"""
    cache_s_per_flop: float
    """At the peak of the cache's format: no kernel is faster. [s/FLOP]"""
    block_rows: float
    """Query rows that a latent kernel pads to. [-]"""
    cache_bytes: float = 0.0
    """Last-level cache where small tables are served from it, else 0. [B]"""


def limits(hardware: Hardware, kv_dtype: str, cache_bytes: float = 0.0) -> AttentionLimits:
    """The peaks of an accelerator that bound attention over a cache of `kv_dtype`."""
    half = _slope(peak_flops(hardware, "bf16").value)
    cached = min(half, _slope(peak_flops(hardware, "fp8").value)) if kv_dtype == "fp8" else half
    memory = _slope(hardware.bandwidth_bytes_per_s.value)
    return AttentionLimits(memory, half, cached, latent_block_rows(hardware), cache_bytes)


def _slope(rate: float) -> float:
    return 1.0 / rate


def attention_record(
    frame: pd.DataFrame, identity: dict[str, str], kv_dtype: str, bounds: AttentionLimits
) -> FitRecord | None:
    """Decode attention of one table: one query per sequence, grouped heads, full context. Held out
    by head layout.

    An entry of the cache has 2 x KV heads x head size elements. t0 and bandwidth are fitted, the
    rate is assumed. None with fewer than MIN_GROUP_ROWS rows.
    """
    require_columns(frame, (*ATTENTION_KEYS, "latency_s"), "attention")
    rules = _rules(frame)
    if "window_size" in frame.columns:
        rules.insert(0, ("sliding window", frame["window_size"].fillna(0) <= 0))
    rules.append(_not_from_cache(_cache_read(frame, _elements(frame), kv_dtype), bounds))
    used, dropped = keep_rows(frame, rules)
    if len(used) < MIN_GROUP_ROWS:
        return None
    read = _cache_read(used, _elements(used), kv_dtype)
    low = np.array([0.0, bounds.s_per_byte])
    columns = laws.columns(laws.stream, laws.STREAM_COEFFICIENTS, R=read)
    measured = used["latency_s"].to_numpy()
    fit = fit_relative(columns, measured, low)
    group = labels(used, ["num_heads", "num_kv_heads", "head_dim"])
    fields = linear_fields(PARAMETERS[:2], fit)
    fields["parameters"]["s_per_flop"] = _given_slope(bounds.s_per_flop / ASSUMED_RATE, bounds)
    messages = [
        f"{name} at its bound" for name, _ in PARAMETERS[:2] if fields["parameters"][name].at_bound
    ]
    messages.append(
        f"rate of arithmetic not identified: {ASSUMED_RATE:g} of the 16-bit peak assumed"
    )
    return FitRecord(
        id=record_id("attention", identity),
        op="attention",
        **identity,  # type: ignore[arg-type]
        form=FORM,
        **fields,
        **_errors(leave_one_group_out(columns, measured, group, low), measured),
        n_shapes=len(np.unique(group)),
        dropped=dropped,
        data_sha256=content_hash(frame, ATTENTION_KEYS),
        success=bool(fit.coefficients[1] > 0),
        message="; ".join(messages),
    )


def mla_record(
    frame: pd.DataFrame, identity: dict[str, str], kv_dtype: str, bounds: AttentionLimits
) -> FitRecord | None:
    """Fit record of latent decode attention.

    The cache of 576 elements per token is read once per sequence, whatever the heads.

    Each head's queries multiply with it, padded to `bounds.block_rows` rows. Held out by heads.
    Where fewer than MIN_BOUND_SHARE of the rows wait for arithmetic, its rate is the assumed share
    of the peak, or what the table's rows reach where that is more. None with fewer than
    MIN_GROUP_ROWS rows.
    """
    require_columns(frame, (*MLA_KEYS, "latency_s"), "MLA")
    few = ("fewer than 8 heads: thinner than any split in use", frame["num_heads"] >= 8)
    resident = _not_from_cache(_cache_read(frame, LATENT_ELEMENTS, kv_dtype), bounds)
    used, dropped = keep_rows(frame, [*_rules(frame), few, resident])
    if len(used) < MIN_GROUP_ROWS:
        return None
    work = _latent_work(used, kv_dtype, bounds)
    measured = used["latency_s"].to_numpy()
    free = _Search(bounds).run(work, measured)
    known = None if free.identified(work) else _assumed_slope(used, work, measured, bounds)
    found = free if known is None else _Search(bounds, known).run(work, measured)

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        rows = {name: values[seen] for name, values in work.items()}
        fit = _Search(bounds, known).run(rows, measured[seen])
        return _times(fit.values, {name: values[held] for name, values in work.items()})

    group = used["num_heads"].to_numpy()
    errors = _errors(held_out(group, predict), measured)
    message = "all parameters identified"
    if known is not None:
        errors["log_sd"] = float(np.hypot(errors["log_sd"], ASSUMED_RATE_LOG_SD))
        share = bounds.s_per_flop / known
        message = (
            f"rate of arithmetic not identified: {share:.2f} of the 16-bit peak taken, band widened"
        )
    return FitRecord(
        id=record_id("mla", identity),
        op="mla",
        **identity,  # type: ignore[arg-type]
        form=FORM,
        parameters=found.parameters,
        **correlation_fields(*found.correlation),
        **errors,
        n_shapes=len(np.unique(group)),
        dropped=dropped,
        data_sha256=content_hash(frame, MLA_KEYS),
        success=found.success,
        message=message,
    )


def _rules(frame: pd.DataFrame) -> list[tuple[str, Any]]:
    return [
        (f"more than {MAX_BATCH} sequences", frame["batch_size"] <= MAX_BATCH),
        ("fewer than 16 cached tokens", frame["context_tokens"] >= 16),
    ]


def _not_from_cache(read: np.ndarray, bounds: AttentionLimits) -> tuple[str, Any]:
    """Rows whose KV cache, `read` bytes, the last-level cache cannot hold, and those that are a
    launch and no more wherever it lies: between two steps of a layer the caches of all others pass
    through."""
    launch = read * bounds.s_per_byte <= LAUNCH_READ_S
    reason = (
        f"KV cache below 2.5 x the last-level cache of {bounds.cache_bytes / 1e6:.0f} MB: served "
        "from it"
    )
    return reason, (read >= 2.5 * bounds.cache_bytes) | launch


def _elements(frame: pd.DataFrame) -> np.ndarray:
    """Elements of an entry of the cache, K and V of all KV heads. [rows]"""
    return 2.0 * (frame["num_kv_heads"] * frame["head_dim"]).to_numpy(dtype=float)


def _cache_read(frame: pd.DataFrame, elements: np.ndarray | float, kv_dtype: str) -> np.ndarray:
    """Bytes by `laws.cache_read`. The tables count the new token in the context. [rows]"""
    batch = frame["batch_size"].to_numpy(dtype=float)
    context = frame["context_tokens"].to_numpy(dtype=float)
    return np.asarray(laws.cache_read(batch, context, 0.0, elements, KV_BYTES[kv_dtype]))


def _latent_work(
    frame: pd.DataFrame, kv_dtype: str, bounds: AttentionLimits
) -> dict[str, np.ndarray]:
    """Bytes R and operations F of each row, by the symbols of `laws.attention_core`."""
    batch, context, heads = (frame[name].to_numpy(dtype=float) for name in MLA_KEYS)
    # The tables count the new token in the context, the law beside it.
    flops = laws.attention_flops(batch, context - 1.0, 1.0, LATENT_FLOPS, heads, bounds.block_rows)
    return {"R": _cache_read(frame, LATENT_ELEMENTS, kv_dtype), "F": np.asarray(flops)}


def _assumed_slope(
    used: pd.DataFrame, work: dict[str, np.ndarray], measured: np.ndarray, bounds: AttentionLimits
) -> float:
    """At ASSUMED_RATE of the peak, or what the fastest rows with full blocks reach where that is
    faster. [s/FLOP]"""
    full = used["num_heads"].to_numpy() >= bounds.block_rows
    reached = float(np.quantile(measured[full] / work["F"][full], 0.05)) if full.any() else np.inf
    return min(bounds.s_per_flop / ASSUMED_RATE, max(reached, bounds.cache_s_per_flop))


def _given_slope(s_per_flop: float, bounds: AttentionLimits) -> FitParameter:
    """A slope that was not fitted, as records hold it."""
    return FitParameter(
        value=s_per_flop, unit=PARAMETERS[2][1], low=bounds.cache_s_per_flop, at_bound=True
    )


def _errors(held: np.ndarray, measured: np.ndarray) -> dict[str, Any]:
    errors = held_out_errors(held, measured)
    if not np.isfinite(errors["log_sd"]):
        errors["log_sd"] = UNKNOWN_LOG_SD
    return errors


def _times(values: np.ndarray, work: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds of one layer for each row. `values` in the order of PARAMETERS."""
    t0, per_byte, per_flop = values
    return np.asarray(
        laws.attention_core(**work, p=SHARPNESS, t0=t0, BW=1.0 / per_byte, F_attn=1.0 / per_flop)
    )


@dataclass(frozen=True)
class _Found:
    """What a search ended with. The values [3] in the order of PARAMETERS."""

    values: np.ndarray
    parameters: dict[str, FitParameter]
    correlation: tuple[list[str], np.ndarray]
    success: bool

    def identified(self, work: dict[str, np.ndarray]) -> bool:
        """Whether the rate lies inside its bounds and enough rows wait for arithmetic at it."""
        waits = work["F"] * self.values[2] > work["R"] * self.values[1]
        return not self.parameters["s_per_flop"].at_bound and float(waits.mean()) >= MIN_BOUND_SHARE


@dataclass(frozen=True)
class _Search:
    """Robust least squares on log errors, inside what the accelerator allows. A known slope
    [s/FLOP] stays as it is."""

    bounds: AttentionLimits
    known: float | None = None

    def run(self, work: dict[str, np.ndarray], measured: np.ndarray) -> _Found:
        """The best of three starts."""
        from scipy.optimize import least_squares

        least = np.array([1e-7, self.bounds.s_per_byte, self.bounds.cache_s_per_flop])
        low = np.log(least)
        high = np.log(least * [1e4, 1e3, 1e3])
        n, rest = (3, []) if self.known is None else (2, [self.known])

        def residual(x: np.ndarray) -> np.ndarray:
            return np.log(_times(np.array([*np.exp(x), *rest]), work) / measured)

        starts = [np.log([1e-5, 1.5, s])[:n] for s in (1.2, 2.0, 5.0)[: 3 if n == 3 else 1]]
        shift = np.array([0.0, low[1], low[2]])[:n]
        runs = [
            least_squares(
                residual, start + shift, bounds=(low[:n], high[:n]), loss="soft_l1", f_scale=0.1
            )
            for start in starts
        ]
        best = min(runs, key=lambda run: float(run.cost))
        return self._found(best, np.exp(low), np.exp(high), rest)

    def _found(self, run: Any, low: np.ndarray, high: np.ndarray, rest: list[float]) -> _Found:
        """Parameters with standard errors (delta method on the logarithms), and their
        correlation."""
        values = np.exp(run.x)
        bound = run.active_mask != 0
        covariance = (
            np.linalg.pinv(run.jac.T @ run.jac)
            * 2.0
            * run.cost
            / max(len(run.fun) - len(values), 1)
        )
        deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        names = [name for name, _ in PARAMETERS][: len(values)]
        parameters = {
            name: FitParameter(
                value=float(values[i]),
                unit=unit,
                stderr=None if bound[i] else float(values[i] * deviation[i]),
                low=float(low[i]),
                high=float(high[i]),
                at_bound=bool(bound[i]),
            )
            for i, (name, unit) in enumerate(PARAMETERS[: len(values)])
        }
        if self.known is not None:
            parameters["s_per_flop"] = _given_slope(self.known, self.bounds)
        correlation = covariance / np.outer(deviation, deviation)
        return _Found(
            np.array([*values, *rest]), parameters, (names, correlation), bool(run.success)
        )


MODULE_KEYS = ["batch_size", "context_tokens"]
CONTEXTS = (16, 128, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Contexts kept: between them the layers' times bend little. [-]"""
SPIKE = 1.5
"""A batch whose time grows this many times faster than it, and larger ones, ran a kernel that does
not serve. [-]"""
WELL = 0.25
"""Share of the largest batch up to which a context must be measured to be carried on by its own
rows. [-]"""
MIN_ROWS = 24


def module_table(frame: pd.DataFrame, identity: dict[str, str], n_heads: int) -> ModuleTable | None:
    """Thinned table of one layer. `frame` has MODULE_KEYS and latency_s [s]; None with fewer than
    MIN_ROWS rows.

    `identity` has op, engine, version, model, kv_dtype and gemm_dtype.
    """
    if len(frame) < MIN_ROWS:
        return None
    table = frame.pivot_table(
        index="batch_size", columns="context_tokens", values="latency_s", aggfunc="median"
    )
    batches = table.index.to_numpy(dtype=float)
    contexts = table.columns.to_numpy(dtype=float)
    if len(batches) < 2 or len(contexts) < 2:
        return None
    kept, n_spikes = without_spikes(table.to_numpy(dtype=float), batches)
    full = filled(rising(kept), batches, contexts)
    wanted = np.array([each for each in CONTEXTS if contexts[0] <= each < 1.2 * contexts[-1]])
    thin = np.exp(
        np.array([np.interp(np.log(wanted), np.log(contexts), row) for row in np.log(full)])
    )
    measured = np.isfinite(kept)
    reach = [_reach(measured, batches, contexts, each) for each in wanted]
    found = ModuleTable(
        **identity,
        n_heads=n_heads,
        batches=tuple(int(each) for each in batches),
        contexts=tuple(int(each) for each in wanted),
        time_us=tuple(tuple(1e6 * each for each in row) for row in thin),
        measured_to=tuple(reach),
        n_rows=int(measured.sum()),
        n_spikes=n_spikes,
        log_sd=1.0,
    )
    errors = np.concatenate([_carry_errors(found, kept, contexts), _held_out_errors(kept, batches)])
    return found.model_copy(update={"log_sd": band_log_sd(errors)})


def without_spikes(times: np.ndarray, batches: np.ndarray) -> tuple[np.ndarray, int]:
    """Times [batches, contexts] without what follows a jump, and how many rows that took.

    A jump is SPIKE times steeper than the batch.
    """
    out = times.copy()
    for column in range(times.shape[1]):
        known = np.flatnonzero(np.isfinite(times[:, column]))
        steps = times[known[1:], column] / times[known[:-1], column]
        jumps = np.flatnonzero(steps > SPIKE * batches[known[1:]] / batches[known[:-1]])
        if jumps.size:
            out[known[jumps[0] + 1] :, column] = np.nan
    return out, int(np.isfinite(times).sum() - np.isfinite(out).sum())


def rising(times: np.ndarray) -> np.ndarray:
    """The lower envelope of `times` [batches, contexts] that rises along both. Holes stay."""
    out = np.where(np.isfinite(times), times, np.inf)
    for axis in (0, 1):
        out = np.flip(np.minimum.accumulate(np.flip(out, axis), axis), axis)
    return np.where(np.isfinite(times), out, np.nan)


def filled(times: np.ndarray, batches: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Times [batches, contexts] with their holes filled, rising along both.

    A column that reaches WELL of the largest batch is carried on along the batch. Another grows
    from the last such column before it by a fixed part, its own, and by cache traffic, the same for
    each token of all columns.
    """
    out = times.copy()
    known = np.isfinite(times)
    reach = np.max(np.where(known, batches[:, None], 0.0), axis=0)
    well = reach >= min(WELL * batches[-1], reach.max())
    for column in np.flatnonzero(well):
        out[:, column] = _along_batch(out[:, column], batches)
    first = int(np.flatnonzero(well)[0])
    base = np.maximum.accumulate(np.where(well, np.arange(len(contexts)), first))
    per_token = _traffic(out, known, batches, contexts, base)
    for column in np.flatnonzero(~well):
        start = base[column]
        rows = known[:, column]
        carried = out[:, start] + per_token * max(contexts[column] - contexts[start], 0.0) * batches
        fixed = (
            max(float(np.mean(times[rows, column] - carried[rows])), 0.0) if column > start else 0.0
        )
        out[:, column] = np.where(rows, times[:, column], carried + fixed)
    return np.maximum.accumulate(rising(out), axis=0)


def _traffic(
    times: np.ndarray,
    known: np.ndarray,
    batches: np.ndarray,
    contexts: np.ndarray,
    base: np.ndarray,
) -> float:
    """Seconds by which each cached token of each sequence lengthens a layer: where batches and
    contexts lie furthest apart among the measured rows. [s]"""
    found = [(0.0, 0.0)]
    for column in range(len(contexts)):
        start = base[column] if base[column] < column else max(column - 1, 0)
        rows = known[:, column] & known[:, start]
        more = contexts[column] - contexts[start]
        if rows.sum() > 1 and more > 0:
            slope = np.polyfit(batches[rows], times[rows, column] - times[rows, start], 1)[0]
            found.append((float(np.ptp(batches[rows]) * more), max(float(slope / more), 0.0)))
    return max(found)[1]


def _along_batch(times: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """A column with its holes filled: straight in the logarithms, beyond the ends constant below
    and by the last slope above, in proportion to the batch at most."""
    known = np.flatnonzero(np.isfinite(times))
    logs = np.log(batches)
    values = np.log(times[known])
    out = np.interp(logs, logs[known], values)
    if known.size > 1:
        slope = np.clip((values[-1] - values[-2]) / (logs[known[-1]] - logs[known[-2]]), 0.0, 1.0)
        out = out + slope * np.maximum(logs - logs[known[-1]], 0.0)
    return np.exp(out)


def _reach(measured: np.ndarray, batches: np.ndarray, contexts: np.ndarray, context: float) -> int:
    """Largest batch measured at both neighbours of a context. 0 where none is. [-]"""
    right = int(np.clip(np.searchsorted(contexts, context), 1, len(contexts) - 1))
    near = [right] if contexts[right] <= context else [right - 1, right]
    both = measured[:, near].all(axis=1)
    return int(batches[both].max()) if both.any() else 0


def _carry_errors(table: ModuleTable, times: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Log errors of measured rows against the thinned table, inside its contexts. [rows]"""
    module = served(table, True, 0.0, "", False)
    inside = (contexts >= table.contexts[0]) & (contexts <= table.contexts[-1])
    predicted = module.time_s(np.array(table.batches, float)[:, None], contexts[inside])
    errors = np.log(times[:, inside] / predicted)
    return errors[np.isfinite(errors)]


def _held_out_errors(times: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """Log errors of measured rows between their neighbours in batch, straight in the logarithms.
    [rows]"""
    logs = np.log(batches)
    values = np.log(times)
    share = ((logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2]))[:, None]
    errors = values[1:-1] - (values[:-2] * (1.0 - share) + values[2:] * share)
    return errors[np.isfinite(errors)]
