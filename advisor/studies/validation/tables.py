"""The figures of docs/validation.md: error tables, gates, coverage, worst cases. Frames in, frames out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_ROWS, MIN_SOURCES = 20, 3
"""A gate on fewer rows or sources is not testable here."""
COVERAGE_GATE = (0.75, 0.88)


@dataclass(frozen=True)
class GateLine:
    """One line of the gate table. `figure` and `limit` are shares; `at_most` says which side is good."""

    what: str
    figure: float | None
    limit: float
    n: int
    n_sources: int
    at_most: bool = True
    note: str = ""
    needs_sources: bool = True

    @property
    def status(self) -> Literal["met", "missed", "not testable here"]:
        """Whether the gate holds, or cannot be judged on so few rows or sources."""
        few = self.n < MIN_ROWS or (self.needs_sources and self.n_sources < MIN_SOURCES)
        if self.figure is None or few:
            return "not testable here"
        good = self.figure <= self.limit if self.at_most else self.figure >= self.limit
        return "met" if good else "missed"


def relative_error(rows: pd.DataFrame, column: str = "predicted") -> Array:
    """|predicted / measured - 1| of each row. [1]"""
    return np.abs(rows[column].to_numpy(float) / rows["measured"].to_numpy(float) - 1.0)


def summary(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Figures of each group: n, sources, mean, median and 90 % error, bias, coverage and mean width of the bands."""
    out = []
    for name, group in rows.groupby(by):
        out.append({by: name, **figures(group)})
    return pd.DataFrame(out)


def figures(rows: pd.DataFrame) -> dict[str, float]:
    """The figures of one group; band figures are NaN where the rows have no bands."""
    error = relative_error(rows)
    inside, width = np.nan, np.nan
    if "low" in rows:
        inside = float(((rows["measured"] >= rows["low"]) & (rows["measured"] <= rows["high"])).mean())
        width = float(((rows["high"] - rows["low"]) / rows["predicted"]).mean())
    return {
        "n": len(rows),
        "sources": rows["source"].nunique() if "source" in rows else 1,
        "mean error": float(error.mean()),
        "median": float(np.median(error)),
        "p90": float(np.quantile(error, 0.9)),
        "bias": float(np.exp(np.log(rows["predicted"] / rows["measured"]).mean()) - 1.0),
        "in band": inside,
        "width": width,
    }


def shape_error(rows: pd.DataFrame, column: str = "predicted") -> tuple[float | None, int, int]:
    """Mean error after one scale factor per source, over sources with at least three rows: (error, n, sources)."""
    errors = []
    for _, group in rows.groupby("source"):
        if len(group) < 3:
            continue
        ratio = np.log(group[column].to_numpy(float) / group["measured"].to_numpy(float))
        errors.append(np.abs(np.exp(ratio - np.median(ratio)) - 1.0))
    if not errors:
        return None, 0, 0
    return float(np.concatenate(errors).mean()), sum(map(len, errors)), len(errors)


def sign_right(rows: pd.DataFrame, column: str = "predicted") -> float | None:
    """Share of rows placed on the right side of 1. [1]"""
    return float(((rows[column] > 1.0) == (rows["measured"] > 1.0)).mean()) if len(rows) else None


def best_k_regret(rows: pd.DataFrame, keys: Sequence[str], column: str = "predicted") -> tuple[float | None, int]:
    """Mean loss of the K predicted best against the K measured best, and the number of grids with several K. [1]"""
    regrets = []
    for _, group in rows.groupby(list(keys), dropna=False):
        if group["n_draft"].nunique() > 1:
            best = group[column].to_numpy(float).argmax()
            regrets.append(1.0 - group["measured"].iloc[best] / group["measured"].max())
    return (float(np.mean(regrets)) if regrets else None), len(regrets)


def categories(rows: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """The three error classes of the gates: known class with own or borrowed length, and everything less known."""
    fitted = rows["tier"] != "roofline"
    known = rows["known_class"] & fitted
    return {
        "same run": rows[known & (rows["acceptance"] == "same_run")],
        "borrowed": rows[known & (rows["acceptance"] == "borrowed")],
        "other model": rows[known & (rows["acceptance"] == "other_model")],
        "unknown": rows[~known],
    }


def _count(rows: pd.DataFrame) -> tuple[int, int]:
    return len(rows), int(rows["source"].nunique())


def _mean(rows: pd.DataFrame) -> float | None:
    return float(relative_error(rows).mean()) if len(rows) else None


def speedup_gates(rows: pd.DataFrame) -> list[GateLine]:
    """Gates on speedups whose source was left out."""
    groups = categories(rows)
    same, borrowed, unknown = groups["same run"], groups["borrowed"], groups["unknown"]
    shape, n_shape, sources_shape = shape_error(rows)
    slower = rows[rows["measured"] < 1.0]
    p90 = float(np.quantile(relative_error(same), 0.9)) if len(same) else None
    lines = [
        GateLine(
            "speedup, known engine class, same-run AL, fitted kernels: mean error", _mean(same), 0.12, *_count(same)
        ),
        GateLine("the same, 90 % of rows within", p90, 0.25, *_count(same)),
        GateLine("speedup, borrowed AL: mean error", _mean(borrowed), 0.16, *_count(borrowed)),
        GateLine("speedup, unknown engine or roofline: mean error", _mean(unknown), 0.22, *_count(unknown)),
        GateLine("shape of the curve, one scale per source", shape, 0.09, n_shape, sources_shape),
        GateLine("sign, all rows", sign_right(rows), 0.95, *_count(rows), at_most=False),
        GateLine("sign, rows below 1", sign_right(slower), 0.80, *_count(slower), at_most=False),
    ]
    for name, group in (("all rows", rows), *(rows.groupby("tier")), *(rows.groupby("acceptance"))):
        lines += _coverage(f"80 % band, {name}", group)
    return lines


def _coverage(what: str, rows: pd.DataFrame) -> list[GateLine]:
    low, high = COVERAGE_GATE
    inside = figures(rows)["in band"]
    limit, at_most = (high, True) if inside > high else (low, False)
    note = f"mean width {figures(rows)['width']:.0%}"
    return [GateLine(what, inside, limit, *_count(rows), at_most=at_most, note=note)]


def worst(rows: pd.DataFrame, n: int = 12) -> pd.DataFrame:
    """The rows with the largest log error, worst first."""
    error = np.abs(np.log(rows["predicted"] / rows["measured"]))
    return rows.assign(error=relative_error(rows)).loc[error.sort_values(ascending=False).index[:n]]


def markdown_table(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A Markdown table; cells are printed as they come."""
    head = list(header)
    body = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent; a dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{100 * value:.{digits}f} %"


def frame_table(table: pd.DataFrame) -> str:
    """A frame as Markdown, its shares as per cents."""
    shares = ("mean error", "median", "p90", "bias", "in band", "width")
    lines = [
        [percent(row[name]) if name in shares else row[name] for name in table.columns]
        for row in table.to_dict("records")
    ]
    return markdown_table(list(table.columns), lines)
