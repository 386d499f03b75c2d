"""`predict` and `validate`: the model held against rows that somebody measured."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pandas as pd

from advisor.cli.measure import read_bytes
from advisor.cli.output import json_option, print_json, print_table, write_file
from advisor.ingest import GivenRows, read_given
from advisor.points import Errors, judged_rows
from advisor.prediction import AdvisorError
from advisor.text import frame_csv, json_text
from advisor.validation import PREDICTED_COLUMNS, predict_rows
from advisor.validation import validate as validate_points

_ASSUME = click.option(
    "--assume", default="", help="column=value,...: fills cells that are empty or say not-stated, nothing else."
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@_ASSUME
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write here instead of standard output.")
@json_option("Rows as JSON instead of CSV.")
def predict(file: Path, assume: str, output: Path | None, as_json: bool) -> None:
    """Add predicted speedup, band, tier and reason to the rows of FILE.

    The columns are those of measurements/published_speedups.

    An accepted_length counts as borrowed, with a wider band, unless accepted_length_same_run is 1.
    """
    found = read_points(file)
    answers = predict_rows(found.asked, _assumptions(assume), refused=found.refused)[list(PREDICTED_COLUMNS)]
    given = found.given.drop(columns=list(PREDICTED_COLUMNS), errors="ignore")  # of an earlier prediction
    rows = pd.concat([given.reset_index(drop=True), answers], axis=1)
    text = json_text(_records(rows)) + "\n" if as_json else frame_csv(rows, float_format="%.6g")
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)
    refused = int(rows["predicted_speedup"].isna().sum())
    click.echo(f"{len(rows) - refused} rows predicted, {refused} refused (see predicted_reason).", err=True)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_ASSUME
@json_option("Machine-readable output: overall, by_laboratory, rows.")
def validate(file: Path | None, assume: str, as_json: bool) -> None:
    """Errors of the predictions on FILE, or on the shipped published measurements."""
    if file is None:
        result = validate_points(judged_rows(), _assumptions(assume))
    else:
        found = read_points(file)
        marked = found.given.get("defect", "")
        result = validate_points(found.asked.assign(defect=marked), _assumptions(assume), found.refused)
    if as_json:
        print_json(
            {
                "overall": result.overall,
                "by_laboratory": result.by_laboratory,
                "by_tier": result.by_tier,
                "by_acceptance": result.by_acceptance,
                "best_k_regret": result.best_k_regret,
                "n_best_k": result.n_best_k,
                "n_refused": result.n_refused,
                "rows": _records(result.rows),
            }
        )
        return
    groups = [("all rows", result.overall), *result.by_acceptance.items(), *result.by_tier.items()]
    header = ("rows", "n", "median error", "mean error", "p90", "sign right", "in 80% band", "band width")
    print_table(header, [_line(name, errors) for name, errors in groups])
    click.echo("\nBy laboratory; in all other lines every laboratory counts alike")
    print_table(("laboratory", *header[1:]), [_line(name, errors) for name, errors in result.by_laboratory.items()])
    if result.best_k_regret is not None:
        click.echo(f"\nBest-K regret {result.best_k_regret:.1%} over {result.n_best_k} points with several K.")
    reasons = result.rows.loc[result.rows["predicted_speedup"].isna(), "predicted_reason"]
    click.echo(f"\n{result.n_refused} rows not predicted")
    for reason, count in alike(str(each).removeprefix("not predicted: ") for each in reasons):
        click.echo(f"{count:5d}  {reason}")


_PARTICULAR = re.compile(r"(?<!\w)\d[\d.,]*(?!\w)|'[^']*'|\"[^\"]*\"|(?<=for )\S+ with \S+")
"""Numbers and names: what reasons that say the same differ in."""


def alike(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """Reasons with how many rows have them, most first. Those that differ in numbers or names alone are one.

    A group is told by its first reason, with how many others there are.
    """
    groups: dict[str, Counter[str]] = {}
    for reason in reasons:
        groups.setdefault(_PARTICULAR.sub("#", reason), Counter())[reason] += 1
    told = []
    for group in groups.values():
        first, others = next(iter(group)), len(group) - 1
        more = f" (and {others:,} more that differ in numbers or names)" if others else ""
        told.append((first + more, group.total()))
    return sorted(told, key=lambda each: -each[1])


def read_points(path: Path) -> GivenRows:
    """A CSV of measured points, what is odd about it on standard error. Raises AdvisorError for anything else."""
    found = read_given(path.name, read_bytes(path))
    for text in found.warnings:
        click.echo(f"warning: {text}", err=True)
    return found


def _assumptions(text: str) -> dict[str, str]:
    pairs = [piece.split("=", 1) for piece in text.split(",") if piece.strip()]
    if any(len(pair) != 2 or not pair[0].strip() or not pair[1].strip() for pair in pairs):
        raise AdvisorError(f"--assume {text!r} is not column=value,...; e.g. --assume hardware_id=h200-sxm")
    return {name.strip(): value.strip() for name, value in pairs}


def _line(name: str, errors: Errors) -> tuple[Any, ...]:
    shares = (errors.median_ape, errors.mape, errors.p90_ape, errors.sign_accuracy, errors.coverage)
    return (name, errors.n, *(_percent(share) for share in (*shares, errors.mean_band_width)))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: None if value != value else value for name, value in row.items()} for row in frame.to_dict("records")
    ]
