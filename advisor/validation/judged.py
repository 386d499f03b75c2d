"""Published speedups with the predictions they judge, as shipped data: computing them takes ten seconds.

`make validation` writes profiles/validation/judged_speedups.json, which names the data and fits it rests on; reports
and pages read it, and a test fails when those have moved on.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pandas as pd

from advisor.calibration import rounded
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES
from advisor.validation.predict import validate

JUDGED = PROFILES / "validation" / "judged_speedups.json"
COLUMNS = (
    "source_title",
    "hardware_id",
    "model_id",
    "drafter",
    "draft_tokens_k",
    "batch_size",
    "measured",
    "predicted_speedup",
    "predicted_low",
    "predicted_high",
    "predicted_tier",
    "absolute_percentage_error",
    "engine",
)
_NUMBERS = COLUMNS[4:10] + COLUMNS[11:12]


def judge(points: pd.DataFrame) -> pd.DataFrame:
    """Every published speedup that can be predicted, with prediction and error, COLUMNS.

    Rows of a source that the shipped overheads were fitted on are predicted by a fit without that source.
    """
    rows = validate(points).rows
    judged = rows[rows["absolute_percentage_error"].notna()]
    judged = judged.assign(measured=pd.to_numeric(judged["speedup"]))[list(COLUMNS)]
    numbers = {name: pd.to_numeric(judged[name]) for name in _NUMBERS}
    return judged.assign(**numbers).reset_index(drop=True)


def write_judged(judged: pd.DataFrame, data_and_fits: str, path: Path = JUDGED) -> None:
    """Write the rows, one a line, with the hash of the data and fits behind them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(rounded(row), separators=(",", ":")) for row in judged.to_dict("records")]
    rows = ",\n".join(lines)
    path.write_text(f'{{"data_and_fits": "{data_and_fits}", "rows": [\n{rows}\n]}}\n', encoding="utf-8")


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
