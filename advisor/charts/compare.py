"""Speedup against batch size of several scenarios in one chart: values in, Chart out. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.advice import Advice
from advisor.charts.figure import Chart, add_band, add_line, log_axis, marker, new_figure, series_look
from advisor.charts.speedup import add_slowdown, speedup_table

_MARKERS = ("circle", "square", "diamond", "triangle-up")


def compared_chart(advices: Sequence[Advice], names: Sequence[str]) -> Chart:
    """Speedup of each scenario at its own K over batch, with band and a marker at its own batch.


    Curves end where memory does.

    advices, names : one name for each scenario; colour, dash and marker tell them apart.
    """
    figure = new_figure(
        "Speedup over plain decoding (x) by batch size,<br>each scenario at its own K",
        "Batch size (sequences)",
        "Speedup (x)",
        height=460,
    )
    ends = [end for advice in advices for end in _range(advice)]
    low, high = min(0.9, *ends), max(1.1, *ends)
    margin = 0.06 * (high - low)
    low, high = max(0.0, low - margin), high + margin
    add_slowdown(figure, low)
    for order, (advice, name) in enumerate(zip(advices, names, strict=True)):
        curve, column, row = advice.curve, _column(advice), advice.batch_index
        color, dash = series_look(order)
        x, fits = curve.batches, _fits(advice)
        add_band(figure, x[fits], curve.low[fits, column], curve.high[fits, column], "", color, opacity=0.2)
        label = f"{name}, K = {advice.curve_k}"
        add_line(figure, x[fits], curve.speedup[fits, column], label, color, dash=dash)
        figure.add_scatter(
            x=curve.batches[[row]],
            y=curve.speedup[[row], column],
            mode="markers",
            showlegend=False,
            hoverinfo="skip",
            cliponaxis=False,
            marker=marker(_MARKERS[order % len(_MARKERS)], 11, color, line={"width": 1, "color": "white"}),
        )
    figure.update_layout(legend={"entrywidth": 1, "entrywidthmode": "fraction"})
    figure.update_yaxes(range=[low, high])
    log_axis(figure, np.concatenate([advice.curve.batches for advice in advices]))
    tables = [
        speedup_table(advice.curve, [advice.curve_k]).assign(scenario=name, hash=advice.scenario.hash)
        for advice, name in zip(advices, names, strict=True)
    ]
    return Chart(figure, _alt(advices, names), pd.concat(tables, ignore_index=True))


def _alt(advices: Sequence[Advice], names: Sequence[str]) -> str:
    parts = []
    for advice, name in zip(advices, names, strict=True):
        curve, column, row = advice.curve, _column(advice), advice.batch_index
        highest = np.where(_fits(advice), curve.speedup[:, column], 0.0)
        parts.append(
            f"{name} with K = {advice.curve_k}: {curve.speedup[row, column]:.2f}x at batch {curve.batches[row]:,.0f} "
            f"({advice.band_level:.0%} band {curve.low[row, column]:.2f} to {curve.high[row, column]:.2f}), highest "
            f"{highest.max():.2f}x at batch {curve.batches[highest.argmax()]:,.0f}"
        )
    return f"Speedup against batch size of {len(advices)} scenarios. {'. '.join(parts)}."


def _fits(advice: Advice) -> NDArray[np.bool_]:
    """Batches of the curve that fit in memory, and the scenario's own. All where none fits. [nB]"""
    largest = advice.setup.memory.largest_batch
    if largest < 1:
        return np.ones(advice.curve.batches.shape, bool)
    return np.asarray(advice.curve.batches <= max(largest, advice.scenario.batch_size))


def _column(advice: Advice) -> int:
    return advice.curve.column(advice.curve_k)


def _range(advice: Advice) -> tuple[float, float]:
    column = _column(advice)
    fits = _fits(advice)
    return float(advice.curve.low[fits, column].min()), float(advice.curve.high[fits, column].max())
