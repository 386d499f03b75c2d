"""`python -m studies.acceptance_transfer`: accepted lengths of one drafter on several kinds of
text.

Prints bias and spread of the log odds of acceptance between tasks by kind of drafter, what they are
worth on a laboratory left out, and what was measured over context; with --write the numbers go to
profiles/drafters/acceptance/transfer.json. Laboratories that judge or choose take no part.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.task_transfer import (
    ANY_KIND,
    FOLDER,
    TASKS,
    TRANSFERS,
    Transfer,
    log_odds,
    task_of,
)
from advisor.measured.observations import part_of
from advisor.measured.points import published_rows
from advisor.measured.published import FITTED_COLLECTIONS
from advisor.physics.acceptance import AcceptanceCurve, acceptance_curves
from advisor.physics.draft import load_drafter
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.profiles import read_yaml
from studies.fits.records import rounded
from studies.published import laboratory_of

BY_DOMAIN = FOLDER / "by_domain.yaml"
TITLES = {
    "P-EAGLE": "vLLM blog: P-EAGLE, figures 4-6",
    "Kimi K3": "vLLM blog: Kimi K3",
    "Doubleword": "Doubleword blog: Width vs depth",
    "InferenceX": "InferenceX pull request 1737",
    "TensorRT-LLM": "TensorRT-LLM technical blog 1",
}
"""A word of a curve's source, and the title in profiles/validation/laboratories.yaml that it
belongs to."""
USUAL_LABORATORIES = 2
"""Weight of the spread over all pairs of tasks beside a pair's own, in laboratories (assumed).
[-]"""
_NAMED_BLOCK = re.compile(r"\b(DSpark|DFlash|DFly|P-EAGLE)\b")
COLUMNS = ("laboratory", "title", "head", "kind", "task", "cell", "log_odds")


@dataclass(frozen=True)
class Difference:
    """Log odds of acceptance on one task less those on another, of one head.

    It is the mean over draft lengths on both.
    """

    laboratory: str
    title: str
    head: str
    kind: str
    value: float


def measured_lengths() -> pd.DataFrame:
    """Accepted lengths with a task, COLUMNS.

    They are those of the published rows, and of the shipped curves at each of their K.

    A cell is what must be equal for two lengths of a head to be compared: draft length and
    structure.
    """
    records = [*_of_rows(), *_of_curves(acceptance_curves()), *_of_curves(_domain_curves())]
    frame = pd.DataFrame(records, columns=list(COLUMNS)).drop_duplicates()
    return frame[frame["laboratory"].map(_informs)].reset_index(drop=True)


def _informs(laboratory: str) -> bool:
    return part_of(laboratory) in ("seen", "fit")


def _of_rows() -> Iterator[tuple[object, ...]]:
    for row in published_rows(*FITTED_COLLECTIONS).to_dict("records"):
        length = float(row["accepted_length"] or 0.0)
        task = row["task"]
        n_draft = float(row["draft_tokens_k"] or 0.0)
        if not 1.0 < length < n_draft + 1.0 or not task or row["defect"]:
            continue
        drafter = _drafter(row)
        if not drafter:
            continue
        named = re.search(r"draft head (\S+);", row["notes"])
        head = (
            f"{row['model_id']} {named.group(1) if named else row['drafter']} "
            f"{row['draft_structure'].split(';')[0]}"
        )
        place = laboratory_of(row["source_title"]), row["source_title"]
        reasoning = re.search(r"thinking \w+", f"{row['notes']} {row['dataset']}")
        cell = (
            f"{row['draft_tokens_k']} {row['draft_structure']} "
            f"{reasoning.group(0) if reasoning else ''}"
        )
        yield *place, head, load_drafter(drafter).kind, task, cell, float(log_odds(length, n_draft))


def _drafter(row: dict[Any, Any]) -> str:
    """Id of a row's drafter. Empty where none that is modelled is named."""
    if row["drafter"] != "other":
        return str(row["drafter"])
    named = _NAMED_BLOCK.search(row["notes"])
    return {"DFly": "dflash"}.get(named.group(1), named.group(1).lower()) if named else ""


def _domain_curves() -> list[AcceptanceCurve]:
    return [AcceptanceCurve.model_validate(each) for each in read_yaml(BY_DOMAIN)["curves"]]


def _of_curves(curves: Iterable[AcceptanceCurve]) -> Iterator[tuple[object, ...]]:
    for curve in curves:
        title = next(title for word, title in TITLES.items() if word in curve.source)
        place = laboratory_of(title)
        kind = load_drafter(curve.drafter_id).kind
        task = task_of(curve.dataset)
        head = f"{curve.checkpoint or curve.model_id} {curve.drafter_id}"
        for n_draft, length in zip(curve.n_draft, curve.accepted_length, strict=True):
            if task and 1.0 < length < n_draft + 1.0:
                yield (
                    place,
                    title,
                    head,
                    kind,
                    task,
                    f"{n_draft} {curve.reasoning}",
                    float(log_odds(length, n_draft)),
                )


def differences(lengths: pd.DataFrame, task_from: str, task_to: str) -> list[Difference]:
    """One a head that was measured on both tasks in a common cell."""
    both = lengths[lengths["task"].isin([task_from, task_to])]
    out = []
    for (laboratory, head, kind), group in both.groupby(["laboratory", "head", "kind"], sort=True):
        cells = group.pivot_table(
            index="cell", columns="task", values="log_odds", aggfunc="mean"
        ).dropna()
        if len(cells) and set(cells.columns) == {task_from, task_to}:
            value = float((cells[task_to] - cells[task_from]).mean())
            out.append(
                Difference(
                    str(laboratory), str(group["title"].iloc[0]), str(head), str(kind), value
                )
            )
    return out


def estimate(found: Sequence[Difference]) -> tuple[float, float, int]:
    """(bias, variance for a head of another laboratory, degrees of freedom) of the log odds of
    acceptance.

    The bias is the mean over laboratories of their means. The variance: heads within laboratories,
    and laboratories against each other with the error of the bias itself.
    """
    by_laboratory: dict[str, list[float]] = {}
    for one in found:
        by_laboratory.setdefault(one.laboratory, []).append(one.value)
    means = np.array([np.mean(values) for values in by_laboratory.values()])
    inside = np.array(
        [value - np.mean(values) for values in by_laboratory.values() for value in values]
    )
    free = len(inside) - len(means)
    n = len(means)
    within = float((inside**2).sum() / free) if free else 0.0
    between = float(means.var(ddof=1)) * (1.0 + 1.0 / n) if n > 1 else 0.0
    return float(means.mean()), within + between, n - 1


def transfers(lengths: pd.DataFrame) -> list[Transfer]:
    """Every pair of tasks with heads measured on both, for each kind of drafter and for all
    together.

    The spread of a pair is drawn towards that of all pairs, as if this had been seen in
    USUAL_LABORATORIES more.
    """
    of_pair = {pair: differences(lengths, *pair) for pair in combinations(TASKS, 2)}
    found = {
        (kind, *pair): [one for one in both if kind in (one.kind, ANY_KIND)]
        for pair, both in of_pair.items()
        for kind in (*sorted(set(lengths["kind"])), ANY_KIND)
    }
    known = {key: (each, *estimate(each)) for key, each in found.items() if each}
    usual = _usual(of_pair.values())
    return [
        _transfer(*key, each, bias, _drawn(variance, free, usual))
        for key, (each, bias, variance, free) in known.items()
    ]


def _usual(of_pairs: Iterable[Sequence[Difference]]) -> float:
    """Mean variance of the pairs that several laboratories measured."""
    known = [estimate(found) for found in of_pairs if found]
    return float(np.mean([variance for _, variance, free in known if free]))


def _drawn(variance: float, free: int, usual: float) -> float:
    return (free * variance + USUAL_LABORATORIES * usual) / (free + USUAL_LABORATORIES)


def _transfer(
    kind: str,
    task_from: str,
    task_to: str,
    found: Sequence[Difference],
    bias: float,
    variance: float,
) -> Transfer:
    return Transfer(
        kind=kind,
        task_from=task_from,
        task_to=task_to,
        log_bias=bias,
        log_sd=math.sqrt(variance),
        n_heads=len(found),
        n_laboratories=len({one.laboratory for one in found}),
        titles=tuple(sorted({one.title for one in found})),
    )


def held_out_lengths(lengths: pd.DataFrame) -> pd.DataFrame:
    """Errors of each pair of tasks on laboratories left out.

    Log odds carried over unchanged, with the bias of all other laboratories, with that of their
    heads of the same kind; and whether the others' 80 % band holds them.
    """
    rows = []
    of_pair = {pair: differences(lengths, *pair) for pair in combinations(TASKS, 2)}
    usual = _usual(of_pair.values())
    for pair, found in of_pair.items():
        for one in found:
            rest = [each for each in found if each.laboratory != one.laboratory]
            alike = [each for each in rest if each.kind == one.kind]
            if rest:
                bias, variance, free = estimate(rest)
                inside = abs(one.value - bias) <= BAND_SIGMAS * math.sqrt(
                    _drawn(variance, free, usual)
                )
                own = estimate(alike)[0] if alike else bias
                rows.append(
                    (*pair, one.laboratory, one.value, one.value - bias, one.value - own, inside)
                )
    return pd.DataFrame(
        rows, columns=["from", "to", "laboratory", "unchanged", "bias", "bias_of_kind", "inside"]
    )


def contexts() -> list[dict[str, object]]:
    """AL - 1 over context in rows of one head and text that differ in it. Accepted shares of
    drafts, or lengths."""
    frame = published_rows(*FITTED_COLLECTIONS)
    out: list[dict[str, object]] = []
    for (title, drafter, task_text), group in frame[frame["input_tokens"] != ""].groupby(
        ["source_title", "drafter", "dataset"]
    ):
        group = group[(group["batch_size"] == "1") & _informs(laboratory_of(str(title)))]
        accepted = group.apply(_accepted, axis=1) if len(group) else pd.Series(dtype=float)
        known = group.assign(accepted=accepted).dropna(subset=["accepted"]) if len(group) else group
        by_context = (
            known.groupby(known["input_tokens"].astype(int))["accepted"].mean()
            if len(known)
            else known
        )
        # One length for a whole run, printed beside each of its contexts, says nothing of them.
        if len(known) == 0 or by_context.nunique() < 2 or task_text == "":
            continue
        shortest = int(by_context.index[0])
        for context, value in list(by_context.items())[1:]:
            out.append(
                {
                    "kind": load_drafter(str(drafter)).kind,
                    "title": str(title),
                    "task": task_of(str(task_text)) or str(task_text),
                    "shortest_tokens": shortest,
                    "context_tokens": int(str(context)),
                    "factor": float(value / by_context.iloc[0]),
                }
            )
    return out


def _accepted(row: pd.Series) -> float:
    """Accepted draft tokens of a round, or the accepted share of drafts that a note prints. NaN
    without either."""
    printed = re.search(r"acceptance ([\d.]+) % of drafts", row["notes"])
    if printed:
        return float(printed.group(1))
    return float(row["accepted_length"]) - 1.0 if row["accepted_length"] else math.nan


def table(found: Sequence[Transfer]) -> str:
    """One line a pair of tasks and kind."""
    lines = [f"{'kind':10}{'from':15}{'to':15}{'x odds':>9}{'log sd':>8}{'heads':>7}{'labs':>6}"]
    lines += [
        f"{one.kind:10}{one.task_from:15}{one.task_to:15}{one.factor:9.2f}{one.log_sd:8.2f}{one.n_heads:7}"
        f"{one.n_laboratories:6}"
        for one in found
    ]
    return "\n".join(lines)


def held_out_table(judged: pd.DataFrame) -> str:
    """Root mean squares of `held_out_lengths` by laboratory, and over all with one weight for
    each."""
    by = judged.groupby("laboratory")
    squares = by[["unchanged", "bias", "bias_of_kind"]].agg(lambda each: float((each**2).mean()))
    inside = by["inside"].mean()
    lines = [f"{'laboratory':24}{'unchanged':>11}{'bias':>8}{'of kind':>9}{'in 80 % band':>14}"]
    for name, row, share in [
        *zip(squares.index, squares.to_numpy(), inside, strict=True),
        ("all", squares.mean(), inside.mean()),
    ]:
        unchanged, bias, of_kind = np.sqrt(np.asarray(row, float))
        lines.append(f"{name!s:24}{unchanged:11.3f}{bias:8.3f}{of_kind:9.3f}{share:14.0%}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Print the tables. With --write, write the data file. Raises AdvisorError for any other
    argument."""
    if set(arguments) - {"--write"}:
        raise AdvisorError(f"{' '.join(arguments)}: only --write is known")
    lengths = measured_lengths()
    found = transfers(lengths)
    over_context = contexts()
    judged = held_out_table(held_out_lengths(lengths))
    print(f"{table(found)}\n\nLaboratories left out, root mean square of the log odds\n{judged}\n")
    for one in over_context:
        print(one)
    if "--write" in arguments:
        content = {
            "transfers": [one.model_dump(mode="json") for one in found],
            "contexts": over_context,
        }
        TRANSFERS.write_text(json.dumps(rounded(content), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
