"""The figures of docs/validation.md: error tables, gates, coverage, worst cases. Frames in, frames
out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from advisor.measured.refit_result import Errors, errors_of, relative_error

MIN_ROWS = 20
MIN_SOURCES = 3
"""A gate on fewer rows or sources is not testable here."""


@dataclass(frozen=True)
class GateLine:
    """One line of the gate table. `figure` and `limit` are shares; `at_most` says which side is
    good."""

    what: str
    figure: float | None
    limit: float
    n: int
    n_sources: int
    at_most: bool = True
    note: str = ""
    needs_sources: bool = True
    key: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the page Trust calls it by, and says of the reason."""

    @property
    def shipped(self) -> dict[str, Any]:
        """The line as the page Trust reads it (`advisor.measured.validation.Gate`)."""
        names = ("key", "figure", "limit", "at_most", "n", "n_sources", "status", "facts")
        return {name: getattr(self, name) for name in names}

    @property
    def status(self) -> Literal["met", "missed", "not testable here"]:
        """Whether the gate holds, or cannot be judged on so few rows or sources."""
        few = self.n < MIN_ROWS or (self.needs_sources and self.n_sources < MIN_SOURCES)
        if self.figure is None or few:
            return "not testable here"
        good = self.figure <= self.limit if self.at_most else self.figure >= self.limit
        return "met" if good else "missed"


FIGURES = {
    "n": "n",
    "sources": "n_sources",
    "mean error": "mape",
    "median": "median_ape",
    "p90": "p90_ape",
    "bias": "bias",
    "in band": "coverage",
    "width": "mean_band_width",
}
"""Figures of a table by their headings, and the fields of `Errors` they are."""


def summary(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Figures of each group of rows.

    n, sources, mean, median and 90 % error, bias, coverage and mean width of bands.
    """
    return pd.DataFrame([{by: name, **figures(group)} for name, group in rows.groupby(by)])


def figures(rows: pd.DataFrame) -> dict[str, float | None]:
    """FIGURES of one group. Band figures are None where the rows have no bands."""
    errors = errors_of(rows)
    return {heading: getattr(errors, name) for heading, name in FIGURES.items()}


def shape_error(rows: pd.DataFrame, column: str = "predicted") -> tuple[float | None, int, int]:
    """Mean error after one scale factor per source, as (error, n, sources).

    Sources with fewer than three rows are left out.
    """
    errors = []
    for _, group in rows.groupby("source"):
        if len(group) < 3:
            continue
        ratio = np.log(group[column].to_numpy(float) / group["measured"].to_numpy(float))
        errors.append(np.abs(np.exp(ratio - np.median(ratio)) - 1.0))
    if not errors:
        return None, 0, 0
    return float(np.concatenate(errors).mean()), sum(map(len, errors)), len(errors)


def categories(rows: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Error classes of the gates, three of them. Known class with own or borrowed length, and
    everything less known."""
    fitted = rows["tier"] != "roofline"
    known = rows["known_class"] & fitted
    return {
        "same run": rows[known & (rows["acceptance"] == "same_run")],
        "borrowed": rows[known & (rows["acceptance"] == "borrowed")],
        "other model": rows[known & (rows["acceptance"] == "other_model")],
        "unknown": rows[~known],
    }


def speedup_gates(rows: pd.DataFrame) -> list[GateLine]:
    """Gates on speedups whose source was left out."""
    groups = {name: errors_of(group) for name, group in categories(rows).items()}
    same = groups["same run"]
    borrowed = groups["borrowed"]
    unknown = groups["unknown"]
    every = errors_of(rows)
    slower = errors_of(rows[rows["measured"] < 1.0])
    shape, n_shape, sources_shape = shape_error(rows)
    mature = errors_of(categories(rows[~rows["immature"]])["unknown"])
    return [
        _gate(
            "same_run",
            "speedup, known engine class, same-run AL, fitted kernels: mean error",
            same.mape,
            0.12,
            same,
        ),
        _gate("same_run_p90", "the same, 90 % of rows within", same.p90_ape, 0.25, same),
        _gate("borrowed", "speedup, borrowed AL: mean error", borrowed.mape, 0.16, borrowed),
        _gate(
            "unknown",
            "speedup, unknown engine or roofline: mean error",
            unknown.mape,
            0.22,
            unknown,
            facts={"mature": mature.mape},
        ),
        GateLine(
            "shape of the curve, one scale per source",
            shape,
            0.09,
            n_shape,
            sources_shape,
            key="shape",
            facts=_largest(rows),
        ),
        _gate(
            "sign",
            "sign, all rows",
            every.sign_accuracy,
            0.95,
            every,
            at_most=False,
            facts=_wrong_sides(rows),
        ),
        _gate(
            "slowdowns",
            "sign, rows below 1",
            slower.sign_accuracy_below_one,
            0.80,
            slower,
            at_most=False,
            facts={"of_rows": float((rows["predicted"] <= 1.0)[rows["measured"] < 1.0].mean())},
        ),
    ]


NEAR_ONE = 0.1
"""Speedups that are hardly gains or losses: so near to 1. [-]"""


def _largest(rows: pd.DataFrame) -> dict[str, Any]:
    """The laboratory with most rows, and its share of them. [-]"""
    shares = rows["source"].value_counts(normalize=True)
    return {"laboratory": str(shares.index[0]), "share": float(shares.iloc[0])}


def _wrong_sides(rows: pd.DataFrame) -> dict[str, float]:
    """Rows on the wrong side of 1: how many, shares near 1 and below it. [-]"""
    wrong = rows[(rows["predicted"] > 1.0) != (rows["measured"] > 1.0)]["measured"]
    return {
        "wrong": len(wrong),
        "near": float(((wrong - 1.0).abs() <= NEAR_ONE).mean()),
        "below": float((wrong < 1.0).mean()),
    }


def _gate(
    key: str,
    what: str,
    figure: float | None,
    limit: float,
    errors: Errors,
    *,
    at_most: bool = True,
    facts: Mapping[str, Any] | None = None,
) -> GateLine:
    sources = errors.n_sources or 0
    return GateLine(
        what, figure, limit, errors.n, sources, at_most=at_most, key=key, facts=facts or {}
    )


def worst(rows: pd.DataFrame, n: int = 12) -> pd.DataFrame:
    """The rows with the largest log error, worst first."""
    error = np.abs(np.log(rows["predicted"] / rows["measured"]))
    return rows.assign(error=relative_error(rows)).loc[error.sort_values(ascending=False).index[:n]]


def markdown_table(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Rows as a table in Markdown. Cells are printed as they come."""
    head = list(header)
    body = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent. A dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{100 * value:.{digits}f} %"


def share(limit: float) -> str:
    """A bar as per cent, with the digits it has."""
    return f"{100 * limit:.3g} %"


def frame_table(table: pd.DataFrame) -> str:
    """A frame as Markdown, its shares as per cents."""
    shares = ("mean error", "median", "p90", "bias", "in band", "width")
    lines = [
        [percent(row[name]) if name in shares else row[name] for name in table.columns]
        for row in table.to_dict("records")
    ]
    return markdown_table(list(table.columns), lines)
