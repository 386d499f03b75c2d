"""From rows of a whole attention layer to a thin table that rises in batch and context.

A layer with more sequences or a longer context is never cheaper, since one could pad: rows above a later one are
lowered to it. Where a batch was not measured at a context, the growth with context of the measured batches is carried
on as a + b B, its fixed part and its cache traffic.
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
"""Contexts kept: between them the layers' times bend little. [1]"""
SPIKE = 1.5
"""A row whose time grows more than this much faster than its batch, to the end of the table, was not the kernel that
serves it. [1]"""
MIN_ROWS = 24


def module_table(frame: pd.DataFrame, identity: dict[str, str], n_heads: int) -> ModuleTable | None:
    """The thinned table of one layer; frame: MODULE_KEYS and latency_s [s]. None with fewer than MIN_ROWS rows.

    `identity` has op, engine, version, model, kv_dtype and gemm_dtype.
    """
    if len(frame) < MIN_ROWS:
        return None
    table = frame.pivot_table(index="batch_size", columns="context_tokens", values="latency_s", aggfunc="median")
    batches, contexts = table.index.to_numpy(dtype=float), table.columns.to_numpy(dtype=float)
    if len(batches) < 2 or len(contexts) < 2:
        return None
    kept, n_spikes = without_spikes(table.to_numpy(dtype=float), batches)
    full = filled(rising(kept), batches)
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
    errors = np.concatenate([_carry_errors(found, kept, contexts), _left_out_errors(kept, batches)])
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
    """`times` [batches, contexts] without rows at the end that grow SPIKE times faster than the batch; how many."""
    out, n_spikes = times.copy(), 0
    for column in range(times.shape[1]):
        known = np.flatnonzero(np.isfinite(out[:, column]))
        while known.size > 1:
            last, before = known[-1], known[-2]
            if out[last, column] / out[before, column] <= SPIKE * batches[last] / batches[before]:
                break
            out[last, column], known, n_spikes = np.nan, known[:-1], n_spikes + 1
    return out, n_spikes


def rising(times: np.ndarray) -> np.ndarray:
    """The lower envelope of `times` [batches, contexts] that rises along both; holes stay."""
    out = np.where(np.isfinite(times), times, np.inf)
    for axis in (0, 1):
        out = np.flip(np.minimum.accumulate(np.flip(out, axis), axis), axis)
    return np.where(np.isfinite(times), out, np.nan)


def filled(times: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """`times` [batches, contexts] with its holes filled: the first column along the batch, the others from the left."""
    out = times.copy()
    out[:, 0] = _along_batch(out[:, 0], batches)
    for column in range(1, out.shape[1]):
        known = np.isfinite(out[:, column])
        growth = out[known, column] - out[known, column - 1]
        fixed, each = _line(batches[known], growth) if known.any() else (0.0, 0.0)
        carried = out[:, column - 1] + fixed + each * batches
        out[:, column] = np.where(known, out[:, column], carried)
    return np.maximum.accumulate(np.maximum.accumulate(out, axis=0), axis=1)


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


def _line(batches: np.ndarray, growth: np.ndarray) -> tuple[float, float]:
    """(a, b), both 0 or more, of growth ~ a + b batches; of a single batch a alone."""
    if len(batches) < 2:
        return max(float(growth[0]), 0.0), 0.0
    each, fixed = np.polyfit(batches, growth, 1)
    if each < 0:
        return max(float(growth.mean()), 0.0), 0.0
    if fixed < 0:
        return 0.0, max(float((growth * batches).sum() / (batches**2).sum()), 0.0)
    return float(fixed), float(each)


def _reach(measured: np.ndarray, batches: np.ndarray, contexts: np.ndarray, context: float) -> int:
    """Largest batch measured at both neighbours of a context; 0 where none is. [1]"""
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


def _left_out_errors(times: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """Log errors of measured rows between their neighbours in batch, straight in the logarithms. [rows]"""
    logs, values = np.log(batches), np.log(times)
    share = ((logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2]))[:, None]
    errors = values[1:-1] - (values[:-2] * (1.0 - share) + values[2:] * share)
    return errors[np.isfinite(errors)]
