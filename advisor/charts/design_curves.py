"""Designs against batch: speedup, or time per output token, of the baseline, the recommended and a picked design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from advisor.charts.figure import (
    BLUE,
    NEUTRAL,
    PURPLE,
    SERIES,
    Chart,
    add_band,
    add_line,
    add_vertical,
    fit_legend,
    log_axis,
    new_figure,
)
from advisor.design import DesignCurve, Line

Quantity = Literal["speedup", "tpot", "gain"]
_TITLES: dict[Quantity, tuple[str, str]] = {
    "speedup": ("Speedup over its own plain decoding (x)", "Speedup (x)"),
    "tpot": ("Time per output token (ms)", "Time per output token (ms)"),
    "gain": ("Speed per output token (baseline = 1)", "Speed per output token (baseline = 1)"),
}
_HIGHER = {"speedup": "higher is better", "tpot": "lower is better", "gain": "higher is better"}
_COLORS = {"baseline": NEUTRAL, "recommended": BLUE, "picked": PURPLE}


def design_curves_chart(
    curves: Sequence[DesignCurve], batch_sizes: Sequence[float], quantity: Quantity = "speedup", goal: str = ""
) -> Chart:
    """Each design over batch with its band, as far as it fits in memory.

    Parameters
    ----------
    curves : the baseline first; drawn in this order.
    batch_sizes : target batches, drawn as lines. [-]
    quantity : speedup over each design's own plain decoding, time per output token, or speed against the baseline.
    goal : added to the title in place of which end is better.
    """
    title, axis = _TITLES[quantity]
    figure = new_figure(
        f"{title}<br>by batch size; {goal or _HIGHER[quantity]}", "Batch size (sequences)", axis, height=400
    )
    left_out = []
    for order, curve in enumerate(curves):
        fits = curve.batches <= curve.largest_batch
        if not fits.any():
            left_out.append(curve.name)
            continue
        color = _COLORS.get(curve.name, SERIES[1 + order % (len(SERIES) - 1)])
        x, line = curve.batches[fits], _line(curve, quantity)
        add_band(figure, x, line.low[fits], line.high[fits], "", color, opacity=0.22)
        add_line(figure, x, line.value[fits], f"{curve.name}: {curve.words}", color)
        figure.data[-1].update(customdata=curve.n_draft[fits].astype(int), hovertemplate="%{y:.3g}, K = %{customdata}")
    for batch in batch_sizes:
        add_vertical(figure, float(batch), f"batch {batch:,.0f}")
    if quantity != "tpot":
        figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot"})
    log_axis(figure, curves[0].batches)
    if figure.data:
        fit_legend(figure)
    out = f"Left out: {', '.join(left_out)}, which fits no batch in memory." if left_out else ""
    alt = f"{title} by batch. {_finding(curves, batch_sizes, quantity)} {out}".rstrip()
    return Chart(figure, alt, design_curves_table(curves), out)


def design_curves_table(curves: Sequence[DesignCurve]) -> pd.DataFrame:
    """One row for each design and batch: K, speedup, time per output token and gain, each with its band."""
    parts = []
    for curve in curves:
        columns = {"design": curve.name, "experts": curve.words, "batch_size": curve.batches.astype(int)}
        columns["n_draft"] = curve.n_draft.astype(int)
        for name, line, scale in (
            ("speedup", curve.speedup, 1.0),
            ("tpot_ms", curve.tpot_s, 1e3),
            ("gain", curve.gain, 1.0),
        ):
            columns |= {name: scale * line.value, f"{name}_low": scale * line.low, f"{name}_high": scale * line.high}
        columns["fits_in_memory"] = curve.batches <= curve.largest_batch
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _line(curve: DesignCurve, quantity: Quantity) -> Line:
    if quantity == "tpot":
        time = curve.tpot_s
        return Line(1e3 * time.value, 1e3 * time.low, 1e3 * time.high)
    return curve.speedup if quantity == "speedup" else curve.gain


def _finding(curves: Sequence[DesignCurve], batch_sizes: Sequence[float], quantity: Quantity) -> str:
    """Each design at the first target batch, with its band."""
    batch, unit = float(batch_sizes[0]), " ms" if quantity == "tpot" else "x"
    told = []
    for curve in curves:
        row, line = int(np.searchsorted(curve.batches, batch)), _line(curve, quantity)
        value = f"{line.value[row]:.2f}{unit} ({line.low[row]:.2f} to {line.high[row]:.2f})"
        told.append(f"{curve.name} {value if batch <= curve.largest_batch else 'does not fit'}")
    return f"At batch {batch:,.0f}: {', '.join(told)}."
