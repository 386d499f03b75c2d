"""`python -m studies.rereading N`: N published rows to read again, drawn at random, errors hidden.

What a source says stands beside what is read from it; neither what was measured nor what is
predicted. The draw follows from the release, so that nobody picks the rows: once a release an
input may be corrected, with its source open and its residual out of sight
(docs/decisions/0044-rows-that-judge.md). Laboratories that judge are left out.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd

import advisor
from advisor.measured.observations import part_of
from advisor.measured.points import published_rows
from advisor.measured.published import COLLECTIONS
from advisor.measured.row_questions import question_of
from advisor.prediction import AdvisorError
from studies.published import laboratory_of

HIDDEN = ("speedup", "baseline_value", "sd_value")
SOURCE = ("source_title", "source_url", "date", "dataset", "notes", "defect")


def drawn(n: int, release: str = advisor.__version__) -> pd.DataFrame:
    """N rows of laboratories that do not judge, without HIDDEN, by a draw that a release fixes."""
    rows = published_rows(*COLLECTIONS).drop(columns=list(HIDDEN))
    rows = rows[rows["source_title"].map(laboratory_of).map(part_of) != "judge"]
    seed = int.from_bytes(hashlib.sha256(release.encode()).digest()[:4])
    return rows.sample(n, random_state=seed)


def page(row: Mapping[str, Any]) -> str:
    """Words of the source, the cells read from it, and the scenario that these became."""
    cells = [f"  {name}: {cell}" for name, cell in row.items() if cell and name not in SOURCE]
    try:
        question = question_of(row, other_models=True)
        scenario = question.scenario.model_dump(exclude_defaults=True)
        scenario |= {"n_draft": question.n_draft, "length_from": question.acceptance_source}
        became = [f"  {name}: {value}" for name, value in scenario.items()]
    except AdvisorError as error:
        became = [f"  refused: {error}"]
    words = [f"  {name}: {row[name]}" for name in SOURCE if row[name]]
    return "\n".join(["source", *words, "read", *cells, "predicted as", *became, ""])


if __name__ == "__main__":
    for cells_of_row in drawn(int(sys.argv[1])).to_dict("records"):
        print(page({str(name): cell for name, cell in cells_of_row.items()}))
