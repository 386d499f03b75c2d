"""`python -m advisor.studies.answered`: which published rows can be predicted, by laboratory, and why others cannot.

No error is computed here: the table may be read for the laboratories set apart as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from advisor.points import COLLECTIONS, laboratory_of, measured_times, published_rows, question_of, set_apart
from advisor.prediction import AdvisorError
from advisor.text import counted

NOT_STATED = {"", "not-stated"}
NEEDED = ("hardware_id", "draft_tokens_k", "batch_size")
"""What a row must state to count among those that should be predicted."""


def answered(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with laboratory, prediction and the times that they print.

    Laboratory, apart, asked (it states NEEDED), predicted, reason (of no prediction), and the plain and speculative
    time of a token. [s]
    """
    rows = []
    for row in frame.to_dict("records"):
        cells = {str(name): cell for name, cell in row.items()}
        laboratory, reason = laboratory_of(str(cells["source_title"])), _refusal(cells)
        plain_s, speculative_s = measured_times(cells)
        rows.append(
            {
                "laboratory": laboratory,
                "apart": set_apart(laboratory),
                "asked": not any(cells[name] in NOT_STATED for name in NEEDED),
                "predicted": not reason,
                "reason": reason,
                "plain_s": plain_s,
                "speculative_s": speculative_s,
            }
        )
    return pd.concat([frame.reset_index(drop=True), pd.DataFrame(rows)], axis=1)


def _refusal(row: Mapping[str, Any]) -> str:
    try:
        question_of(row, other_models=True).setup()
    except AdvisorError as error:
        return str(error)
    return ""


def apart_section(rows: pd.DataFrame) -> str:
    """Section on what the laboratories set apart hold, and how much of it could judge.

    Computes no error (docs/set-apart.md).
    """
    apart = rows[rows["apart"]]
    asked = apart[apart["asked"]]
    sound = asked[asked["predicted"] & (asked["defect"] == "")]
    names = sorted(apart["laboratory"].unique())
    judged = (
        "They judge nothing yet; laboratories added later that fall among them will."
        if sound.empty
        else "Their errors are computed once a release, and each look is logged in docs/set-apart.md."
    )
    return (
        f"## Laboratories set apart\n\n{counted(len(names), 'laboratory', 'laboratories')} ({', '.join(names)}): "
        f"{counted(len(apart), 'row')}, of which {len(asked)} state accelerator, K and batch; {len(sound)} of these "
        f"can be predicted and have no known defect. {judged}"
    )


def by_laboratory(rows: pd.DataFrame) -> str:
    """One line a laboratory, and beneath it each reason for which rows that state enough are not predicted."""
    head = ("laboratory", "apart", "rows", "asked", "predicted", "defect", "both times")
    lines = [f"{head[0]:34}" + "".join(f"{name:>11}" for name in head[1:])]
    for name, group in rows.groupby("laboratory", sort=True):
        asked = group[group["asked"]]
        cells = (
            "yes" if group["apart"].any() else "",
            len(group),
            len(asked),
            int(asked["predicted"].sum()),
            int((group["defect"] != "").sum()),
            int((group["plain_s"].notna() & group["speculative_s"].notna()).sum()),
        )
        lines.append(f"{str(name)[:33]:34}" + "".join(f"{cell:>11}" for cell in cells))
        reasons = Counter(asked[~asked["predicted"]]["reason"])
        lines += [f"    {times} x {reason[:130]}" for reason, times in reasons.most_common()]
    return "\n".join(lines)


def summary(rows: pd.DataFrame) -> str:
    """The share of rows predicted among those that state enough, over all and in the worst laboratories."""
    asked = rows[rows["asked"]]
    share = asked.groupby("laboratory")["predicted"].mean()
    low = share[share < 0.7]
    return (
        f"{counted(len(rows), 'row')}, {len(asked)} state accelerator, K and batch; of these "
        f"{int(asked['predicted'].sum())} ({asked['predicted'].mean():.1%}) are predicted. Below 70 %: "
        f"{len(low)} of {len(share)} laboratories with {int(asked['laboratory'].isin(low.index).sum())} rows "
        f"({', '.join(low.index) or 'none'})."
    )


def main() -> None:
    """Print the table of each collection."""
    for name in COLLECTIONS:
        rows = answered(published_rows(name))
        print(f"## {name}\n\n{by_laboratory(rows)}\n\n{summary(rows)}\n")


if __name__ == "__main__":
    main()
