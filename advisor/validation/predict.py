"""Predictions held against measured speedups: a prediction for each row, errors by source, coverage of the bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from advisor.calibration import class_costs
from advisor.curve import curve_for
from advisor.points import Errors, RowQuestion, best_k_regret, errors_of, laboratory_or_title, question_of, with_costs
from advisor.prediction import AdvisorError

NEEDED_COLUMNS = ("hardware_id", "model_id", "drafter", "draft_tokens_k", "batch_size")
PREDICTED_COLUMNS = (
    *("predicted_speedup", "predicted_low", "predicted_high"),
    *("predicted_tier", "predicted_reason", "accepted_length_source"),
)
_DRAWS = "draws"
MAX_NAMED = 3
"""Rows that are named where a file cannot be predicted as a whole. [-]"""
_SAME_GRID = (
    *("source_title", "source", "hardware_id", "model_id", "drafter", "batch_size"),
    *("engine", "tensor_parallel", "weight_dtype", "dataset"),
)
"""Rows that have these in common differ in K alone."""


@dataclass(frozen=True)
class Validation:
    """Errors of all rows, by laboratory and by tier, with the regret of the recommended K and the rows."""

    overall: Errors
    by_laboratory: Mapping[str, Errors]
    """By accelerator where rows name no source."""
    by_tier: Mapping[str, Errors]
    by_acceptance: Mapping[str, Errors]
    best_k_regret: float | None
    """Mean loss at the recommended K against the K measured best, over points with several K. [-]"""
    n_best_k: int
    rows: pd.DataFrame
    n_refused: int


def predict_rows(
    frame: pd.DataFrame,
    assume: Mapping[str, str] | None = None,
    *,
    held_out: bool = False,
    other_models: bool = False,
    refused: Mapping[int, str] | None = None,
) -> pd.DataFrame:
    """Rows with PREDICTED_COLUMNS added.

    Rows that cannot be predicted say why in predicted_reason.

    With `other_models`, a row whose accepted length nobody measured gets its drafter's median over other models.

    With `held_out`, rows of a laboratory that the shipped overheads were fitted on are predicted by a fit without it.
    `refused` says by the frame's index why rows cannot be read.
    """
    asked = {"held_out": held_out, "other_models": other_models}
    return _predicted(frame, assume, **asked, refused=refused).drop(columns=_DRAWS)


def _predicted(
    frame: pd.DataFrame,
    assume: Mapping[str, str] | None = None,
    *,
    held_out: bool = False,
    other_models: bool = False,
    refused: Mapping[int, str] | None = None,
) -> pd.DataFrame:
    """As `predict_rows`, with the predicted speedup under each draw in the column _DRAWS."""
    missing = [name for name in NEEDED_COLUMNS if name not in frame.columns]
    if missing:
        expected = "expected the header of measurements/published_speedups"
        raise AdvisorError(f"{_unread_text(refused or {})}the file lacks the columns {', '.join(missing)}; {expected}")
    unknown = [name for name in assume or {} if name not in frame.columns]
    if unknown:
        raise AdvisorError(f"--assume names columns the file does not have: {', '.join(unknown)}")
    unread = refused or {}
    answers = [
        _predict(row, assume, held_out, other_models) if line not in unread else _not_predicted(unread[line])
        for line, row in zip(frame.index, frame.to_dict("records"), strict=True)
    ]
    return pd.concat(
        [frame.reset_index(drop=True), pd.DataFrame(answers, columns=[*PREDICTED_COLUMNS, _DRAWS])], axis=1
    )


def _unread_text(refused: Mapping[int, str]) -> str:
    """Which rows cannot be read, the first ones named, before what is wrong with the whole file. Empty for none."""
    if not refused:
        return ""
    shown = "; ".join(f"line {line}: {reason.rstrip('.')}" for line, reason in list(refused.items())[:MAX_NAMED])
    more = f" (and {len(refused) - MAX_NAMED} more rows)" if len(refused) > MAX_NAMED else ""
    return f"{shown}{more}; and "


def validate(
    frame: pd.DataFrame, assume: Mapping[str, str] | None = None, refused: Mapping[int, str] | None = None
) -> Validation:
    """Predict every row and compare with its `speedup` column.

    `refused` as in `predict_rows`. Raises AdvisorError for a file without that column.

    Rows of a laboratory that the shipped overheads were fitted on are predicted by a fit without it; rows whose
    accepted length nobody measured by that of other models. Rows marked with a defect are not judged. All as in
    docs/validation.md.
    """
    if "speedup" not in frame.columns:
        raise AdvisorError("the file has no speedup column to validate against; use `predict` instead")
    if "defect" in frame.columns:
        marked = frame["defect"].fillna("").astype(str)
        refused = {**{i: f"set aside for a defect: {text}" for i, text in marked.items() if text}, **(refused or {})}
    rows = _predicted(frame, assume, held_out=True, other_models=True, refused=refused)
    measured = pd.to_numeric(rows["speedup"], errors="coerce")
    measured = measured.where(np.isfinite(measured) & (measured > 0))  # anything else is no speedup: not judged
    rows["absolute_percentage_error"] = (rows["predicted_speedup"] / measured - 1.0).abs()
    judged = rows[rows["absolute_percentage_error"].notna()].assign(measured=measured)
    keys = [name for name in _SAME_GRID if name in judged.columns]
    regret, n_best_k = best_k_regret(judged, keys, _DRAWS, "draft_tokens_k")
    return Validation(
        overall=judged_errors(judged),
        by_laboratory=_errors_by(_by_laboratory(judged), "laboratory" if "source_title" in judged else "hardware_id"),
        by_tier=_errors_by(judged, "predicted_tier"),
        by_acceptance=_errors_by(judged, "accepted_length_source"),
        best_k_regret=regret,
        n_best_k=n_best_k,
        rows=rows.drop(columns=_DRAWS),
        n_refused=int(rows["predicted_speedup"].isna().sum()),
    )


def judged_errors(judged: pd.DataFrame) -> Errors:
    """Errors of rows with measured and predicted speedups. Where rows name a source, every laboratory counts alike."""
    named = _by_laboratory(judged)
    return errors_of(named, "predicted_speedup", "predicted_low", "predicted_high", "laboratory")


def _by_laboratory(judged: pd.DataFrame) -> pd.DataFrame:
    """`judged` with the column laboratory, a title's own where none is listed for it."""
    if "source_title" not in judged:
        return judged
    return judged.assign(laboratory=judged["source_title"].astype(str).map(laboratory_or_title))


def _errors_by(judged: pd.DataFrame, column: str) -> dict[str, Errors]:
    return {str(key): judged_errors(group) for key, group in judged.groupby(column)}


def _predict(
    row: Mapping[str, Any],
    assume: Mapping[str, str] | None,
    held_out: bool,
    other_models: bool,
) -> tuple[Any, ...]:
    try:
        question = question_of(row, assume, other_models)
        without = laboratory_or_title(str(row.get("source_title", ""))) if held_out else ""
        return _answer(question, class_costs(question.engine_class, without))
    except AdvisorError as error:
        return _not_predicted(str(error))


def _not_predicted(reason: str) -> tuple[Any, ...]:
    return None, None, None, None, f"not predicted: {reason}", "none", None


def _answer(question: RowQuestion, costs: Mapping[str, Any]) -> tuple[Any, ...]:
    setup = with_costs(question.setup(), **costs)
    curve = curve_for(setup, [question.scenario.batch_size], [question.n_draft], question.verify_tokens)
    notes = [setup.costs.routed.because if setup.architecture.moe else "dense model"]
    if question.assumed:
        notes.append("assumed " + ", ".join(question.assumed))
    if question.verify_tokens is not None:
        notes.append(f"verifies {question.verify_tokens} tokens; overlap inside a draft tree is unmeasured")
    if setup.memory.largest_batch < question.scenario.batch_size:
        notes.append("exceeds the memory estimate")
    return (
        float(curve.speedup[0, 0]),
        float(curve.low[0, 0]),
        float(curve.high[0, 0]),
        str(curve.tier[0, 0]),
        "; ".join(note for note in notes if note),
        question.acceptance_source,
        curve.draws[:, 0, 0],
    )
