"""Predictions held against measured speedups: a prediction for each row, errors by source, coverage of the bands.

Those of the published rows are shipped (profiles/validation/judged_speedups.json, by `make validation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import class_costs
from advisor.measured.ingest.columns import COLUMNS as POINT_COLUMNS
from advisor.measured.laboratories import SOURCE_COLUMNS, laboratory_of_row
from advisor.measured.points import with_costs
from advisor.measured.refit_result import Errors, best_k_regret, errors_of
from advisor.measured.row_questions import RowQuestion, question_of
from advisor.predict.curve import Curve, curve_for
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES

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
    with_draws: bool = False,
    on_progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Rows with PREDICTED_COLUMNS added.

    Rows that cannot be predicted say why in predicted_reason. Raises AdvisorError for a file without NEEDED_COLUMNS.

    Parameters
    ----------
    held_out : predict rows of a laboratory that the shipped overheads were fitted on by a fit without it.
    other_models : give a row whose accepted length nobody measured its drafter's median over other models.
    refused : why rows cannot be read, by the frame's index.
    with_draws : add the speedup under each draw in the column _DRAWS.
    on_progress : called with the share done before every row.
    """
    filled = dict(assume or {})
    if unknown := [name for name in filled if name not in {*frame.columns, *POINT_COLUMNS["points"]}]:
        raise AdvisorError(f"--set {unknown[0]}=...: no column of a measured point has that name (docs/formats.md)")
    missing = [name for name in NEEDED_COLUMNS if name not in {*frame.columns, *filled}]
    if missing:
        expected = "expected the header of measurements/published_speedups"
        raise AdvisorError(f"{_unread_text(refused or {})}the file lacks the columns {', '.join(missing)}; {expected}")
    unread = refused or {}
    answers: list[Any] = []
    for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
        if on_progress is not None:
            on_progress(len(answers) / len(frame))
        try:
            if line in unread:
                raise AdvisorError(unread[line])
            question = question_of(row, assume, other_models)
            without = laboratory_of_row(row) if held_out else ""
            answers.append(_answer(question, class_costs(question.engine_class, without)))
        except AdvisorError as error:
            answers.append((None, None, None, None, f"not predicted: {error}", "none", None))
    added = pd.DataFrame(answers, columns=[*PREDICTED_COLUMNS, _DRAWS])
    return pd.concat([frame.reset_index(drop=True), added if with_draws else added.drop(columns=_DRAWS)], axis=1)


def _unread_text(refused: Mapping[int, str]) -> str:
    """Which rows cannot be read, the first ones named, before what is wrong with the whole file. Empty for none."""
    if not refused:
        return ""
    named = "; ".join(f"line {line}: {reason.rstrip('.')}" for line, reason in list(refused.items())[:MAX_NAMED])
    more = f" (and {len(refused) - MAX_NAMED} more rows)" if len(refused) > MAX_NAMED else ""
    return f"{named}{more}; and "


def validate(
    frame: pd.DataFrame,
    assume: Mapping[str, str] | None = None,
    refused: Mapping[int, str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Validation:
    """Predict every row and compare with its `speedup` column.

    `refused` and `on_progress` as in `predict_rows`. Raises AdvisorError for a file without that column.

    Rows of a laboratory that the shipped overheads were fitted on are predicted by a fit without it; rows whose
    accepted length nobody measured by that of other models. Rows marked with a defect are not judged. All as in
    docs/validation.md.
    """
    if "speedup" not in frame.columns:
        raise AdvisorError("the file has no speedup column to validate against; use `predict` instead")
    if "defect" in frame.columns:
        marked = frame["defect"].fillna("").astype(str)
        refused = {**{i: f"set aside for a defect: {text}" for i, text in marked.items() if text}, **(refused or {})}
    asked = {"held_out": True, "other_models": True, "with_draws": True}
    rows = predict_rows(frame, assume, refused=refused, on_progress=on_progress, **asked)
    rows = rows.assign(**{name: assume[name] for name in NEEDED_COLUMNS if assume and name in {*assume} - {*rows}})
    measured = pd.to_numeric(rows["speedup"], errors="coerce")
    measured = measured.where(np.isfinite(measured) & (measured > 0))  # anything else is no speedup: not judged
    predicted = pd.to_numeric(rows["predicted_speedup"], errors="coerce")  # a column of None alone holds no numbers
    rows["absolute_percentage_error"] = (predicted / measured - 1.0).abs()
    rows["predicted_chance"] = [np.nan if draws is None else np.mean(np.asarray(draws) > 1.0) for draws in rows[_DRAWS]]
    judged = rows.assign(measured=measured)[rows["absolute_percentage_error"].notna()]
    keys = [name for name in _SAME_GRID if name in judged.columns]
    regret, n_best_k = best_k_regret(judged, keys, _DRAWS, "draft_tokens_k")
    named = _by_laboratory(judged)
    return Validation(
        overall=judged_errors(judged),
        by_laboratory=_errors_by(named, "laboratory" if "laboratory" in named else "hardware_id"),
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
    """`judged` with the column laboratory, where rows name their source."""
    named = [name for name in SOURCE_COLUMNS if name in judged]
    if not named:
        return judged
    return judged.assign(laboratory=[laboratory_of_row(row) for row in judged[named].to_dict("records")])


def _errors_by(judged: pd.DataFrame, column: str) -> dict[str, Errors]:
    return {str(key): judged_errors(group) for key, group in judged.groupby(column)}


def _answer(question: RowQuestion, costs: Mapping[str, Any]) -> tuple[Any, ...]:
    setup = with_costs(question.setup(), **costs)
    curve = curve_for(setup, [question.scenario.batch_size], [question.n_draft], question.verify_tokens)
    notes = [setup.costs.routed.because if setup.architecture.moe else "dense model"]
    if question.assumed:
        notes.append("assumed " + ", ".join(question.assumed))
    if question.scenario.task is not None:
        notes += [remark.rstrip(".") for remark in setup.acceptance.remarks]
    if question.verify_tokens is not None:
        notes.append(f"verifies {question.verify_tokens} tokens; overlap inside a draft tree is unmeasured")
    if setup.memory.largest_batch < question.scenario.batch_size:
        notes.append("exceeds the memory estimate")
    return (
        float(curve.speedup[0, 0]),
        float(curve.low[0, 0]),
        float(curve.high[0, 0]),
        tier_of(curve),
        "; ".join(note for note in notes if note),
        question.acceptance_source,
        curve.draws[:, 0, 0],
    )


def tier_of(curve: Curve) -> str:
    """Tier of a judged row: that of the very prediction which judges it.

    The parts that carry a step depend on its constants, and so does the tier.

    curve : of one batch and one K, by the fit without the row's laboratory.
    """
    return str(curve.tier[0, 0])


JUDGED = PROFILES / "validation" / "judged_speedups.json"
COLUMNS = (
    *("source_title", "hardware_id", "model_id", "drafter", "draft_tokens_k", "batch_size", "measured"),
    *("predicted_speedup", "predicted_low", "predicted_high", "predicted_tier", "absolute_percentage_error"),
    *("engine", "predicted_chance"),
)


@lru_cache(maxsize=1)
def read_judged(path: Path = JUDGED) -> tuple[str, pd.DataFrame]:
    """(hash of data and fits, rows with COLUMNS). Raises AdvisorError when the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return str(content["data_and_fits"]), pd.DataFrame(content["rows"], columns=list(COLUMNS))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdvisorError(
            f"profiles/validation/{path.name} cannot be read ({error}); run `make validation`"
        ) from error


CHANCES = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 1.0)
"""Ends of the ranges of stated chances of a gain that are held against what happened. [-]"""


def chances_kept(judged: pd.DataFrame) -> pd.DataFrame:
    """Stated chances of a gain, left out, against the share of rows that were gains.

    `judged` has COLUMNS. One line for each range of CHANCES that has rows: least and most [-], n, laboratories,
    stated (mean) and happened [-], rows counting alike. No map of the stated chances comes closer on laboratories left
    out (docs/decisions/0019-rounds-by-tokens.md), so they are shown as they are.
    """
    index = np.clip(np.searchsorted(CHANCES, judged["predicted_chance"], "right") - 1, 0, len(CHANCES) - 2)
    named = _by_laboratory(judged).assign(gain=judged["measured"] > 1.0)
    lines = [
        {
            "least": CHANCES[i],
            "most": CHANCES[i + 1],
            "n": len(group),
            "laboratories": group["laboratory"].nunique(),
            "stated": float(group["predicted_chance"].mean()),
            "happened": float(group["gain"].mean()),
        }
        for i, group in named.groupby(index)
    ]
    return pd.DataFrame(lines)


def chance_kept_text(p_gain: float, judged: pd.DataFrame) -> str:
    """Record of published speedups with such a chance of a gain, in one sentence. Empty for fewer than LEAST_KEPT."""
    records = chances_kept(judged)
    matching = records[(records["least"] <= p_gain) & ((p_gain < records["most"]) | (records["most"] == 1.0))]
    if matching.empty or matching.iloc[0]["n"] < LEAST_KEPT:
        return ""
    one = matching.iloc[0]
    return (
        f"Of {int(one['n']):,} published runs given {one['least']:.0%} to {one['most']:.0%}, each by a fit that had "
        f"not seen its laboratory, {one['happened']:.0%} gained."
    )


LEAST_KEPT = 20
"""Published runs of a range from which on its record is told. [-]"""
