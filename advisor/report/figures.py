"""The report's interactive charts: those of the pages. No text of a user's is drawn: plotly reads markup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from advisor.charts import components_chart, speedup_chart
from advisor.report.blocks import FigureKey
from advisor.report.document import Report

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Grid:
    """The report's curve as arrays over batch and K, as the chart takes it."""

    batches: Array
    drafts: NDArray[np.int64]
    speedup: Array
    low: Array
    high: Array
    tpot_s: Array
    tier: NDArray[np.object_]
    extrapolated: NDArray[np.bool_]


def report_figure(report: Report, key: FigureKey) -> go.Figure:
    """The chart of one figure block, on white."""
    figure = _speedup(report) if key == "speedup" else _components(report)
    return figure.update_layout(template="plotly_white")


def _speedup(report: Report) -> go.Figure:
    grid = _grid(report)
    others = [int(k) for k in grid.drafts if k not in (0, report.curve_k)]
    figure = speedup_chart(
        grid,
        report.curve_k,
        report.scenario.batch_size,
        band_level=report.answer.band_level,
        sweet_spot_batch=report.sweet_spot_batch,
        compare=others,
        largest_batch=report.answer.largest_batch_that_fits,
    ).figure
    names = {f"K = {k}" for k in others}
    return figure.for_each_trace(lambda trace: trace.update(visible="legendonly") if trace.name in names else trace)


def _grid(report: Report) -> _Grid:
    batches = sorted({point.batch_size for point in report.curve})
    drafts = sorted({point.k_draft for point in report.curve})
    place = {(point.batch_size, point.k_draft): point for point in report.curve}
    points = [[place[batch, k] for k in drafts] for batch in batches]

    def column(name: str) -> NDArray[Any]:
        return np.array([[getattr(point, name) for point in row] for row in points])

    return _Grid(
        batches=np.array(batches, float),
        drafts=np.array(drafts),
        speedup=column("speedup"),
        low=column("speedup_low"),
        high=column("speedup_high"),
        tpot_s=column("tpot_ms") / 1e3,
        tier=column("tier"),
        extrapolated=column("extrapolated"),
    )


def _components(report: Report) -> go.Figure:
    plain, round_ = (
        {part.name: getattr(part, name) / 1e3 for part in report.components} for name in ("plain_ms", "round_ms")
    )
    return components_chart(plain, round_, k_draft=report.curve_k, batch_size=report.scenario.batch_size).figure
