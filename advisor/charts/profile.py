"""The chart of a profiler sweep: verification ratios predicted for k that the fit did not see. No Streamlit."""

from __future__ import annotations

import numpy as np

from advisor.calibration import SweepFit
from advisor.charts.figure import NEUTRAL, SERIES, Chart, marker, new_figure

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross")


def ratio_chart(fit: SweepFit) -> Chart:
    """Measured against predicted T(B, q) / T(B, 1) of one MoE layer, a colour and symbol per held-out k.

    `fit` needs at least one held-out ratio. Times of a layer, so the ratio has no unit.
    """
    ratios, record = fit.ratios, fit.record
    figure = new_figure(
        f"MoE layer over q tokens against one, k held out<br>{record.dtype}, {record.kernel_source}: T(B, q) / T(B, 1)",
        "Measured ratio",
        "Predicted ratio",
        height=420,
    )
    ends = np.array([ratios[["measured_ratio", "predicted_ratio"]].to_numpy(dtype=float).max() * 1.05])
    line = np.concatenate([[0.9], ends])
    figure.add_scatter(
        x=line,
        y=line,
        mode="lines",
        name="predicted = measured",
        line={"color": NEUTRAL, "dash": "dot"},
        hoverinfo="skip",
    )
    for order, (k, rows) in enumerate(ratios.groupby("n_active", sort=True)):
        figure.add_scatter(
            x=rows["measured_ratio"],
            y=rows["predicted_ratio"],
            mode="markers",
            name=f"k = {k}",
            marker=marker(_SYMBOLS[order % len(_SYMBOLS)], 8, SERIES[order % len(SERIES)]),
            customdata=rows[["batch_size", "tokens_per_sequence", "n_experts"]],
            hovertemplate="B = %{customdata[0]}, q = %{customdata[1]}, N = %{customdata[2]}: measured %{x:.2f}, "
            "predicted %{y:.2f}<extra></extra>",
        )
    figure.update_layout(hovermode="closest")
    mean, worst = float(ratios["error"].mean()), float(ratios["error"].max())
    alt = (
        f"Predicted against measured verification ratio for {len(ratios)} pairs over {ratios['n_active'].nunique()} "
        f"held-out values of k: mean error {mean:.1%}, worst {worst:.1%}."
    )
    return Chart(figure, alt, ratios)
