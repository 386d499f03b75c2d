"""The shipped published measurements: one reader for all collections, and the times that their rows print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor.points.laboratories import laboratory_of, set_apart
from advisor.points.observation import number
from advisor.profiles import MEASUREMENTS

FIRST_COLLECTION = "published_speedups"
SECOND_COLLECTION = "published_speedups_2"
COLLECTIONS = (FIRST_COLLECTION, SECOND_COLLECTION)
"""Folders of measurements/ with one published speedup a row, in the same columns."""
COLLECTION_FILES = tuple(MEASUREMENTS / name / "data.csv" for name in COLLECTIONS)
_IMMATURE = "immature"
"""What the notes of a row call an engine whose authors measured it before they tuned it."""
_PER_SEQUENCE = {"output_tok_per_s_per_user", "decode_tok_per_s_per_user"}
_OF_ALL = {"output_tok_per_s", "decode_tok_per_s", "total_tok_per_s"}
_PER_GPU = {"output_tok_per_s_per_gpu", "total_tok_per_s_per_gpu"}


def published_rows(*collections: str) -> pd.DataFrame:
    """The rows of `collections`, every cell as text. The first collection where none is named. COLLECTIONS are all."""
    names = collections or (FIRST_COLLECTION,)
    frames = [pd.read_csv(MEASUREMENTS / name / "data.csv", dtype=str, keep_default_na=False) for name in names]
    return pd.concat(frames, ignore_index=True)


def judged_rows() -> pd.DataFrame:
    """The rows that predictions are held against: of all collections, but for laboratories set apart."""
    rows = published_rows(*COLLECTIONS)
    kept = [not set_apart(laboratory_of(title)) for title in rows["source_title"]]
    return rows[kept].reset_index(drop=True)


def fitted_rows() -> pd.DataFrame:
    """The rows that the shipped overheads are fitted on: those judged, without engines called immature."""
    rows = judged_rows()
    return rows[~immature(rows)].reset_index(drop=True)


def immature(rows: pd.DataFrame) -> pd.Series:
    """Mask of rows whose notes say that their engine was not ready. Such rows are judged, and inform no fit."""
    return rows["notes"].fillna("").str.contains(_IMMATURE, case=False)


def measured_times(row: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds for one output token of one sequence without and with speculation, as a row prints them.

    A plain time is that of a plain step, a speculative one times the accepted length that of a round; both with the
    prefill that the row's metric holds (`PREFILL_METRICS` of `advisor.points.question`). NaN where the row prints a
    ratio alone, or where its batch or lengths do not tell.
    """
    return _time_s(row, number(row, "baseline_value")), _time_s(row, number(row, "sd_value"))


def _time_s(row: Mapping[str, Any], value: float | None) -> float:
    metric, batch = str(row.get("metric", "")), number(row, "batch_size") or np.nan
    if not value:
        return float("nan")
    if metric == "tpot_ms":
        return value / 1000.0
    if metric == "request_latency_s":
        return value / (number(row, "output_tokens") or np.nan)
    if metric in _PER_SEQUENCE:
        return 1.0 / value
    sequences = batch
    if metric in _PER_GPU:
        sequences = batch / (number(row, "gpu_count") or np.nan)
    elif metric == "output_tok_per_s_per_rank":
        sequences = batch if row.get("batch_kind") == "requests_per_rank" else np.nan
    elif metric not in _OF_ALL:
        return float("nan")
    return sequences * _output_share(row, metric) / value


def _output_share(row: Mapping[str, Any], metric: str) -> float:
    """Generated tokens among those that the metric counts. [-]"""
    if not metric.startswith("total"):
        return 1.0
    prompt, output = number(row, "input_tokens"), number(row, "output_tokens")
    return output / (prompt + output) if output and prompt is not None else float("nan")
