"""Each row's own time, which a refit is fitted to, and whether a file's times hold their prompts.

A ratio of two rows of one file is no measurement: both rows are. What one benchmark paid for
prompts it paid in every row, so that the rows of a file are read alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import Numbers, true_in
from advisor.measured.multipliers import multiplier_prior
from advisor.measured.observations import ROUND_METRICS, joined, stacked
from advisor.measured.points import Point, Prompts, refit_points
from advisor.measured.readings import log_evidence

_WHOLE_REQUEST = "request_latency_s"
"""The one metric that holds its own prompt by its meaning."""


def own_times(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their own time in place of a speedup over another row.

    Of rates it is the time per token. Their metric is that of the time. Stated speedups and pairs
    within a row stay.
    """
    values = Numbers(frame)
    derived = frame["derived"].astype(object).fillna("")
    paired = derived.str.contains("tpot_s") | frame["metric"].isin(ROUND_METRICS)
    over_another = (derived.str.contains("speedup") & ~paired).to_numpy(dtype=bool)
    per_token = ~np.isnan(values["tpot_s"])
    timed = per_token | ~np.isnan(values["step_time_s"])
    per_rank = true_in(frame["batch_kind"] == "requests_per_rank")
    rated = ~np.isnan(values["output_tok_per_s"]) & ~per_rank
    from_rate = rated & ~timed & ((values["draft_tokens_k"] == 0) | over_another)
    token_s = values["batch_size"] / values["output_tok_per_s"]
    unsaid = frame["metric"].isna().to_numpy() | over_another
    metric = np.where(per_token, "tpot_ms", "output_tok_per_s")
    out = frame.copy(deep=False)
    out["tpot_s"] = np.where(from_rate, token_s, values["tpot_s"])
    out["speedup"] = np.where(over_another & (timed | from_rate), np.nan, values["speedup"])
    out["metric"] = frame["metric"].mask(
        unsaid & (per_token | rated), pd.Series(metric, frame.index)
    )
    return out


def without_prompts(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose times hold no prompts, but whole requests, which hold their own."""
    whole = true_in(frame["metric"] == _WHOLE_REQUEST)
    return frame.assign(prompts_cached=frame["prompts_cached"].mask(~whole, 1))


def as_probable(alone: Sequence[Point], frame: pd.DataFrame, acceptance: str | None) -> list[Point]:
    """Rows read with prompts in every time, or in none as they are: the more probable.

    alone : rows read without, of one accelerator and engine. frame : the same file with its
        prompts (`own_times`).
    """
    lines = [point.line for point in alone]
    served, _ = refit_points(frame.loc[frame.index.isin(lines)], acceptance)
    read = [joined(point.observations for point in points) for points in (alone, served)]
    if read[0].line.tolist() != read[1].line.tolist():
        return list(alone)
    if np.allclose(read[0].lower, read[1].lower) and np.allclose(read[0].upper, read[1].upper):
        return list(alone)
    both = stacked(read)
    evidence = log_evidence(both, multiplier_prior(alone), np.ones(both.measured.shape, bool))[0]
    gain = float(evidence[1] - evidence[0])
    prompts = Prompts(gain > 0.0, abs(gain))
    return [replace(point, prompts=prompts) for point in (served if prompts.held else alone)]
