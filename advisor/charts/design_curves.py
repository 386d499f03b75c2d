"""Designs against batch: speedup and time per token of baseline, recommended and picked design. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from advisor.charts.figure import BLUE, NEUTRAL, PURPLE, Chart, add_band, add_line, add_vertical, log_axis, new_figure
from advisor.charts.speedup import add_slowdown
from advisor.curve import Curve

_LOOKS = {"baseline": (NEUTRAL, "dash"), "recommended": (BLUE, "solid"), "picked": (PURPLE, "dot")}


@dataclass(frozen=True)
class DesignCurve:
    """One design's curve with the K that is run at each of its batches."""

    role: Literal["baseline", "recommended", "picked"]
    words: str
    curve: Curve
    k_draft: ArrayLike
    """[nB]. [1]"""

    def at_k(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values [nB, nK] at the K that is run, [nB]."""
        columns = [self.curve.column(int(k)) for k in np.asarray(self.k_draft)]
        return np.asarray(values[np.arange(len(columns)), columns], float)


def design_curves_chart(designs: Sequence[DesignCurve], batch_size: float, *, of_time: bool = False) -> Chart:
    """Speedup by batch of some designs, each over its own plain decoding; or, `of_time`, their time per token.

    designs : one or more; bands are drawn for speedups. batch_size : target batch. [1]
    """
    what = "Time per token by batch (ms)" if of_time else "Speedup over its own plain decoding, by batch"
    better = "lower is better" if of_time else "higher is better · shaded: 80% band"
    figure = new_figure(f"{what}<br><sup>{better}</sup>", "Batch (sequences in one instance)", "", height=360)
    tables = []
    for one in designs:
        color, dash = _LOOKS[one.role]
        x, curve = one.curve.batches, one.curve
        value = one.at_k(curve.tpot_s * 1e3 if of_time else curve.speedup)
        low, high = one.at_k(curve.low), one.at_k(curve.high)
        if not of_time:
            add_band(figure, x, low, high, "", color, 0.15)
        add_line(figure, x, value, one.role, color, dash=dash)
        figure.data[-1].update(
            customdata=np.stack([np.asarray(one.k_draft), [one.words] * len(x)], axis=1),
            hovertemplate="%{y:.3g}, K = %{customdata[0]}: %{customdata[1]}<extra></extra>",
        )
        tables.append(
            pd.DataFrame(
                {
                    "role": one.role, "design": one.words, "batch_size": x.astype(int),
                    "k_draft": np.asarray(one.k_draft), "speedup": one.at_k(curve.speedup), "speedup_low": low,
                    "speedup_high": high, "tpot_ms": one.at_k(curve.tpot_s) * 1e3,
                }
            )
        )  # fmt: skip
    data = pd.concat(tables, ignore_index=True)
    if of_time:
        figure.update_yaxes(type="log", dtick="D2")
    else:
        low_edge = min(0.9, float(data["speedup_low"].min())) - 0.05
        add_slowdown(figure, low_edge)
        figure.update_yaxes(range=[low_edge, max(1.1, float(data["speedup_high"].max())) + 0.05], ticksuffix="×")
    add_vertical(figure, batch_size, f"batch {batch_size:,.0f}")
    log_axis(figure, data["batch_size"].to_numpy(float))
    return Chart(figure, _alt(data, batch_size, of_time), data)


def _alt(data: pd.DataFrame, batch_size: float, of_time: bool) -> str:
    column, unit = ("tpot_ms", " ms") if of_time else ("speedup", "x")
    near = data.loc[(data["batch_size"] - batch_size).abs().groupby(data["role"], sort=False).idxmin()]
    said = ", ".join(f"{row.role} {getattr(row, column):.2f}{unit}" for row in near.itertuples())
    return f"{'Time per token' if of_time else 'Speedup'} against batch; at batch {batch_size:,.0f}: {said}."
