"""From rows of a whole attention layer to a thin table that rises in batch and context.

A layer with more sequences or a longer context is never cheaper, since one could pad: rows above a later one are
lowered to it. Where only small batches were measured at a context, the layer's growth up to it is carried on to the
others as a fixed part and cache traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.calibration.frames import band_log_sd
from advisor.calibration.module_records import ModuleTable
from advisor.kernel_costs import AttentionModule

if TYPE_CHECKING:
    import pandas as pd

MODULE_KEYS = ["batch_size", "context_tokens"]
CONTEXTS = (16, 128, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Contexts kept: between them the layers' times bend little. [-]"""
SPIKE = 1.5
"""A batch whose time grows this many times faster than it, and larger ones, ran a kernel that does not serve. [-]"""
WELL = 0.25
"""Share of the largest batch up to which a context must be measured to be carried on by its own rows. [-]"""
MIN_ROWS = 24


def module_table(frame: pd.DataFrame, identity: dict[str, str], n_heads: int) -> ModuleTable | None:
    """Thinned table of one layer. `frame` has MODULE_KEYS and latency_s [s]; None with fewer than MIN_ROWS rows.

    `identity` has op, engine, version, model, kv_dtype and gemm_dtype.
    """
    if len(frame) < MIN_ROWS:
        return None
    table = frame.pivot_table(index="batch_size", columns="context_tokens", values="latency_s", aggfunc="median")
    batches, contexts = table.index.to_numpy(dtype=float), table.columns.to_numpy(dtype=float)
    if len(batches) < 2 or len(contexts) < 2:
        return None
    kept, n_spikes = without_spikes(table.to_numpy(dtype=float), batches)
    full = filled(rising(kept), batches, contexts)
    wanted = np.array([each for each in CONTEXTS if contexts[0] <= each < 1.2 * contexts[-1]])
    thin = np.exp(np.array([np.interp(np.log(wanted), np.log(contexts), row) for row in np.log(full)]))
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


def served(table: ModuleTable, shares_cache: bool, log_sd: float, because: str, stands_in: bool) -> AttentionModule:
    """A table as `attention` reads it."""
    return AttentionModule(
        batches=tuple(map(float, table.batches)),
        contexts=tuple(map(float, table.contexts)),
        seconds=tuple(tuple(1e-6 * each for each in row) for row in table.time_us),
        measured_to=tuple(map(float, table.measured_to)),
        shares_cache=shares_cache,
        log_sd=log_sd,
        because=because,
        stands_in=stands_in,
    )


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

    A column that reaches WELL of the largest batch is carried on along the batch. Another grows from the last such
    column before it by a fixed part, its own, and by cache traffic, the same for each token of all columns.
    """
    out, known = times.copy(), np.isfinite(times)
    reach = np.max(np.where(known, batches[:, None], 0.0), axis=0)
    well = reach >= min(WELL * batches[-1], reach.max())
    for column in np.flatnonzero(well):
        out[:, column] = _along_batch(out[:, column], batches)
    first = int(np.flatnonzero(well)[0])
    base = np.maximum.accumulate(np.where(well, np.arange(len(contexts)), first))
    per_token = _traffic(out, known, batches, contexts, base)
    for column in np.flatnonzero(~well):
        start, rows = base[column], known[:, column]
        carried = out[:, start] + per_token * max(contexts[column] - contexts[start], 0.0) * batches
        fixed = max(float(np.mean(times[rows, column] - carried[rows])), 0.0) if column > start else 0.0
        out[:, column] = np.where(rows, times[:, column], carried + fixed)
    return np.maximum.accumulate(rising(out), axis=0)


def _traffic(
    times: np.ndarray, known: np.ndarray, batches: np.ndarray, contexts: np.ndarray, base: np.ndarray
) -> float:
    """Seconds by which each cached token of each sequence lengthens a layer: where batches and contexts lie furthest
    apart among the measured rows. [s]"""
    found = [(0.0, 0.0)]
    for column in range(len(contexts)):
        start = base[column] if base[column] < column else max(column - 1, 0)
        rows, more = known[:, column] & known[:, start], contexts[column] - contexts[start]
        if rows.sum() > 1 and more > 0:
            slope = np.polyfit(batches[rows], times[rows, column] - times[rows, start], 1)[0]
            found.append((float(np.ptp(batches[rows]) * more), max(float(slope / more), 0.0)))
    return max(found)[1]


def _along_batch(times: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """A column with its holes filled: straight in the logarithms, beyond the ends constant below and by the last slope
    above, in proportion to the batch at most."""
    known = np.flatnonzero(np.isfinite(times))
    logs, values = np.log(batches), np.log(times[known])
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
    """Log errors of measured rows between their neighbours in batch, straight in the logarithms. [rows]"""
    logs, values = np.log(batches), np.log(times)
    share = ((logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2]))[:, None]
    errors = values[1:-1] - (values[:-2] * (1.0 - share) + values[2:] * share)
    return errors[np.isfinite(errors)]
