"""Published rows that a study may take: as points, and those that shipped constants are fitted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from advisor.measured.points import COLLECTIONS, Point, judged_rows, point_of
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS

COLLECTION_FILES = tuple(MEASUREMENTS / name / "data.csv" for name in COLLECTIONS)
_IMMATURE = "immature"
"""What the notes of a row call an engine whose authors measured it before they tuned it."""


def immature(rows: pd.DataFrame) -> pd.Series:
    """Mask of rows whose notes say that their engine was not ready. Such rows are judged, and inform no fit."""
    return rows["notes"].fillna("").str.contains(_IMMATURE, case=False)


def points_of(
    frame: pd.DataFrame, assume: Mapping[str, str] | None = None, other_models: bool = False
) -> tuple[list[Point], dict[str, int]]:
    """Points of the published rows that can be predicted, carry a speedup and no defect.

    The others come as reasons with counts.
    """
    points: list[Point] = []
    refused: Counter[str] = Counter()
    for row in frame.to_dict("records"):
        try:
            if row.get("defect"):
                raise AdvisorError(f"set aside for a defect: {row['defect']}")
            points.append(point_of({str(name): cell for name, cell in row.items()}, assume, other_models))
        except AdvisorError as error:
            refused[str(error)] += 1
    return points, refused


def fitted_rows() -> pd.DataFrame:
    """The rows that the shipped overheads are fitted on: those judged, without engines called immature."""
    rows = judged_rows()
    return rows[~immature(rows)].reset_index(drop=True)
