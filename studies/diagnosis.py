"""How often the doctor blames a shipped measurement, into docs/diagnose.md:
`python -m studies.diagnosis`.

Rows without a known defect are runs that worked, so every finding on one counts as a false alarm.
The page says which limits were set with these rows in sight. `--laboratories` prints which
published rows can be predicted, by laboratory, and why others cannot; no error is computed there.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.answers.diagnosis.diagnose import judged
from advisor.answers.diagnosis.facts import UserRun
from advisor.answers.diagnosis.physics import rule_sets
from advisor.answers.diagnosis.runs import with_prediction
from advisor.measured.observations import part_of
from advisor.measured.points import measured_times, published_rows
from advisor.measured.published import COLLECTIONS, FITTED_COLLECTIONS
from advisor.measured.row_questions import question_of
from advisor.physics.bands import BAND_LEVEL
from advisor.prediction import AdvisorError
from advisor.text import counted
from studies.published import laboratory_of

FILE = Path(__file__).parents[1] / "docs" / "diagnose.md"
PLAIN = "decode_no_sd"
_BLOCK = re.compile(r"(<!-- alarms -->\n).*?(?=<!-- end -->)", re.DOTALL)
_ROW_COLUMNS = {
    *(
        "hardware_id",
        "gpu_count",
        "tensor_parallel",
        "expert_parallel",
        "engine",
        "engine_version",
        "model_id",
    ),
    *(
        "weight_dtype",
        "drafter",
        "draft_tokens_k",
        "draft_structure",
        "batch_size",
        "batch_kind",
        "input_tokens",
    ),
    *(
        "output_tokens",
        "dataset",
        "accepted_length",
        "accepted_length_same_run",
        "metric",
        "speedup",
        "date",
        "notes",
    ),
}
_NUMBERS = {
    "draft_tokens_k",
    "batch_size",
    "input_tokens",
    "output_tokens",
    "accepted_length",
    "speedup",
    "gpu_count",
}


@dataclass(frozen=True)
class Tried:
    """One shipped row as a run, and what was found on it."""

    collection: str
    row_id: str
    source: str
    notes: str
    defect: str
    random_drafts: bool
    """A trained drafter on random tokens, as the row says itself."""
    found: tuple[str, ...]
    predicted: bool
    ratios: Mapping[str, float]
    """Measured over predicted, where the prediction rests on measured kernels and a known kind of
    build."""


def published_runs(collection: str, every: int = 1) -> Iterator[tuple[Mapping[str, Any], UserRun]]:
    """Rows of a collection of speedups, each with the plain run that it prints. Only each
    `every`-th row is taken."""
    for row in published_rows(collection).iloc[::every].to_dict("records"):
        facts = _cells({name: row.get(name) for name in _ROW_COLUMNS})
        before, after = measured_times(row)
        yield (
            row,
            UserRun(
                {**facts, **_measured(row, row["sd_value"], after)},
                collection,
                plain={
                    **{name: facts[name] for name in _SHARED if name in facts},
                    "draft_tokens_k": 0.0,
                    **_measured(row, row["baseline_value"], before),
                },
            ),
        )


_SHARED = (
    "hardware_id",
    "engine",
    "model_id",
    "batch_size",
    "batch_kind",
    "input_tokens",
    "output_tokens",
)


def plain_runs(every: int = 1) -> Iterator[tuple[Mapping[str, Any], UserRun]]:
    """Rows of the collection without speculation."""
    frame = published_rows(PLAIN)
    for row in frame.iloc[::every].to_dict("records"):
        time_ms = row["mean_tpot_ms"] or row["median_tpot_ms"]
        facts = _cells(
            {name: row.get(name) for name in (*_ROW_COLUMNS, "output_tok_per_s", "total_tok_per_s")}
        )
        facts |= {
            "batch_size": float(row["concurrency"]),
            "batch_kind": "max_concurrency",
            "draft_tokens_k": 0.0,
        }
        facts |= {"tpot_s": float(time_ms) / 1e3} if time_ms else {}
        yield {**row, "point_id": row["row_id"]}, UserRun(facts, PLAIN)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: cell for name, cell in row.items() if cell not in (None, "", "not-stated")}
    if "engine" in known:
        known["engine"] = str(known["engine"]).lower().partition(" ")[0]
    return {name: float(cell) if name in _NUMBERS else cell for name, cell in known.items()}


def _measured(row: Mapping[str, Any], value: str, token_s: float) -> dict[str, Any]:
    """What a published row prints of one of its arms, in our columns."""
    out = {"_token_s": token_s} if np.isfinite(token_s) else {}
    if value and row["metric"] == "tpot_ms":
        out["tpot_s"] = float(value) / 1e3
    if value and row["metric"] == "output_tok_per_s":
        out["output_tok_per_s"] = float(value)
    return out


def tried(every: int = 1) -> list[Tried]:
    """Shipped rows with what the doctor finds on them. Only each `every`-th row is taken."""
    out = []
    sets = [(name, published_runs(name, every)) for name in FITTED_COLLECTIONS] + [
        (PLAIN, plain_runs(every))
    ]
    for name, runs in sets:
        for row, bare in runs:
            run = with_prediction(bare)
            found = tuple(one.rule.id for one in judged(run) if one.state == "found")
            out.append(
                Tried(
                    name,
                    row["point_id"],
                    row["source_title"],
                    row.get("notes", ""),
                    row.get("defect", ""),
                    run.drafts and run.text("dataset").startswith("random"),
                    found,
                    run.comparison is not None,
                    _ratios(run),
                )
            )
    return out


def _ratios(run: UserRun) -> dict[str, float]:
    found = run.comparison
    if found is None or not found.supported:
        return {}
    rows = {"plain": found.row("plain")}
    if found.same_run_length:
        rows |= {name: found.row(name) for name in ("round", "speedup")}
    return {
        name: row.ratio for name, row in rows.items() if row is not None and row.ratio is not None
    }


_OWN_WORDS = re.compile(
    r"SUSPECT|prefill inflates|prefill dominates|concurrency above \d+ is not reached"
)


def clean(rows: list[Tried]) -> list[Tried]:
    """Rows without a defect that anybody noted, the notes of the rows included, and not on random
    tokens.

    A trained drafter on random tokens is what the rule `random_prompts` is about; its rows say so
    of themselves.
    """
    fine = [row for row in rows if not row.defect and not _OWN_WORDS.search(row.notes)]
    return [row for row in fine if not row.random_drafts]


def alarm_rate(rows: list[Tried]) -> float:
    """Share of rows on which a fault is found. [-]

    A loss that was measured as predicted is no fault, and the finding is true of the row's own
    numbers.
    """
    no_fault = {rule.id for each in rule_sets() for rule in each.rules if rule.expected}
    return sum(bool(set(row.found) - no_fault) for row in rows) / max(len(rows), 1)


def page(rows: list[Tried]) -> str:
    """The tables of docs/diagnose.md about the shipped measurements."""
    fine = clean(rows)
    return (
        "\n\n".join(
            [_alarm_table(fine), _ratio_table(fine), _width_table(fine), _suspect_table(rows)]
        )
        + "\n"
    )


def _names(rows: list[Tried]) -> list[str]:
    return list(dict.fromkeys(row.collection for row in rows))


def _alarm_table(rows: list[Tried]) -> str:
    head = (
        "collection",
        "clean rows",
        "with a finding",
        "with a fault",
        "predicted",
        "with a finding",
        "with a fault",
        "which",
    )
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in (*_names(rows), "all"):
        own = [row for row in rows if name in ("all", row.collection)]
        counts = Counter(rule for row in own for rule in row.found)
        which = ", ".join(f"{rule} {n}" for rule, n in counts.most_common())
        cells = [name]
        for some in (own, [row for row in own if row.predicted]):
            cells += [
                f"{len(some):,}",
                f"{sum(bool(row.found) for row in some):,}",
                f"{alarm_rate(some):.1%}",
            ]
        lines.append("| " + " | ".join((*cells, which or "none")) + " |")
    return "\n".join(lines)


def _ratio_table(rows: list[Tried]) -> str:
    """Quantiles of measured over predicted, by collection: what the limits of the physical rules
    rest on."""
    lines = [
        "| measured over predicted | collection | rows | 2.5 % | 50 % | 95 % | 97.5 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for quantity in ("plain", "round", "speedup"):
        for name in _names(rows):
            own = [
                row.ratios[quantity]
                for row in rows
                if row.collection == name and quantity in row.ratios
            ]
            if own:
                shown = (f"{value:.2f}" for value in np.quantile(own, [0.025, 0.5, 0.95, 0.975]))
                lines.append("| " + " | ".join((quantity, name, f"{len(own):,}", *shown)) + " |")
    return "\n".join(lines)


def width_of(rows: Sequence[tuple[str, float]]) -> float:
    """80 % quantile of |log ratio| over (source, ratio), every source weighted alike. [-]"""
    off = np.abs(np.log([ratio for _, ratio in rows]))
    count = Counter(source for source, _ in rows)
    weight = np.array([1.0 / count[source] for source, _ in rows])
    order = np.argsort(off)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(off[order][np.searchsorted(reached, BAND_LEVEL)])


def _width_table(rows: list[Tried]) -> str:
    """How far measured times lie from predicted ones, and what a band made of it holds of a source
    left out."""
    lines = [
        "| times | rows | sources | half-width of the 80 % band, log | held of sources left out |",
        "|---|---|---|---|---|",
    ]
    for quantity in ("plain", "round"):
        own = [(row.source, row.ratios[quantity]) for row in rows if quantity in row.ratios]
        held = []
        for left_out in sorted({source for source, _ in own}):
            width = width_of([one for one in own if one[0] != left_out])
            held.append(
                np.mean(
                    [abs(np.log(ratio)) <= width for source, ratio in own if source == left_out]
                )
            )
        cells = (
            quantity,
            f"{len(own):,}",
            str(len(held)),
            f"{width_of(own):.2f}",
            f"{np.mean(held):.0%}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _suspect_table(rows: list[Tried]) -> str:
    lines = [
        "| source | rows | what is wrong with them | found by the doctor |",
        "|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Tried]] = {}
    for row in rows:
        reason = row.defect or (re.search(r"SUSPECT:?\s*([^;]*)", row.notes) or [""] * 2)[1]
        if reason:
            shown = re.sub(r"[\d.]+ ms", "... ms", reason) if "printed round" in reason else reason
            groups.setdefault((row.source, shown), []).append(row)
    for (source, reason), own in groups.items():
        counts = Counter(rule for row in own for rule in row.found)
        said = (
            ", ".join(f"{rule} {n}" for rule, n in counts.most_common())
            or "nothing: the row holds no evidence of it"
        )
        lines.append(f"| {source} | {len(own)} | {reason} | {said} |")
    return "\n".join(lines)


def with_alarms(text: str, rows: list[Tried]) -> str:
    """The page with its tables about the shipped measurements written anew."""
    return _BLOCK.sub(lambda found: found[1] + page(rows), text)


NOT_STATED = {"", "not-stated"}
NEEDED = ("hardware_id", "draft_tokens_k", "batch_size")
"""What a row must state to count among those that should be predicted."""


def answered(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with laboratory, prediction and the times that they print.

    Laboratory, part, asked (it states NEEDED), predicted, reason (of no prediction), and the plain
    and speculative time of a token. [s]
    """
    rows = []
    for row in frame.to_dict("records"):
        cells = {str(name): cell for name, cell in row.items()}
        laboratory = laboratory_of(str(cells["source_title"]))
        reason = _refusal(cells)
        plain_s, speculative_s = measured_times(cells)
        rows.append(
            {
                "laboratory": laboratory,
                "part": part_of(laboratory),
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


def by_laboratory(rows: pd.DataFrame) -> str:
    """One line a laboratory, and beneath it each reason for which rows that state enough are not
    predicted."""
    head = ("laboratory", "part", "rows", "asked", "predicted", "defect", "both times")
    lines = [f"{head[0]:34}" + "".join(f"{name:>11}" for name in head[1:])]
    for name, group in rows.groupby("laboratory", sort=True):
        asked = group[group["asked"]]
        cells = (
            group["part"].iloc[0],
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
    """The share of rows predicted among those that state enough, over all and in the worst
    laboratories."""
    asked = rows[rows["asked"]]
    share = asked.groupby("laboratory")["predicted"].mean()
    low = share[share < 0.7]
    return (
        f"{counted(len(rows), 'row')}, {len(asked)} state accelerator, K and batch; of these "
        f"{int(asked['predicted'].sum())} ({asked['predicted'].mean():.1%}) are predicted. Below "
        f"70 %: {len(low)} of {len(share)} laboratories with "
        f"{int(asked['laboratory'].isin(low.index).sum())} rows "
        f"({', '.join(low.index) or 'none'})."
    )


def main() -> None:
    """Print the table of each collection."""
    for name in COLLECTIONS:
        rows = answered(published_rows(name))
        print(f"## {name}\n\n{by_laboratory(rows)}\n\n{summary(rows)}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--laboratories"]:
        main()
        raise SystemExit
    ROWS = tried()
    print(page(ROWS))
    print(
        f"false alarms on {counted(len(clean(ROWS)), 'clean row')}: {alarm_rate(clean(ROWS)):.1%}"
    )
    if FILE.exists():
        FILE.write_text(with_alarms(FILE.read_text(encoding="utf-8"), ROWS), encoding="utf-8")
