"""Charts of a user's own measurements: before and after a refit, residuals, overlaps of a routing trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from advisor.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    VERMILLION,
    Chart,
    add_band,
    add_line,
    fit_legend,
    log_axis,
    marker,
    new_figure,
)
from advisor.points import BeforeAfter, RefitResult, curve_name
from advisor.routing import CountCell, TraceFit, UnionRow

_TITLES = {
    "speedup": ("Speedup over plain decoding (x)", 1.0),
    "tpot_s": ("Time per output token (ms)", 1e3),
    "step_time_s": ("Time of one step (ms)", 1e3),
}


def before_after_chart(curves: BeforeAfter) -> Chart:
    """The shipped curve, the refitted one with its band, and the user's points. Set-aside points are open."""
    title, scale = _TITLES[curves.quantity]
    what = curve_name(curves.model_id, curves.drafter, curves.n_draft)
    figure = new_figure(f"{title}<br>before and after: {what}", "Batch size (sequences)", title)
    if curves.quantity == "speedup":
        add_band(figure, curves.batches, curves.after_low, curves.after_high, "80% band after", BLUE)
    add_line(figure, curves.batches, curves.before * scale, "before", NEUTRAL, dash="dash")
    add_line(figure, curves.batches, curves.after * scale, "after", BLUE)
    for used, name, symbol in ((True, "your points", "diamond"), (False, "set aside", "x")):
        some = curves.points[curves.points["used"] == used]
        if len(some):
            figure.add_scatter(
                x=some["batch_size"],
                y=some["measured"] * scale,
                mode="markers",
                name=name,
                marker=marker(symbol, 10, VERMILLION),
                customdata=some["line"],
                hovertemplate="%{y:.3g} measured, line %{customdata}<extra></extra>",
            )
    fit_legend(figure)
    log_axis(figure, curves.batches)
    change = float(np.median(curves.after / curves.before - 1.0))
    inside = curves.points[curves.points["used"]]
    off_before, off_after = (
        float((inside[when] / inside["measured"] - 1.0).abs().mean()) for when in ("before", "after")
    )
    alt = (
        f"{title} against batch size for {what}: the refit changes the curve by {change:+.1%} in the median; "
        f"{len(inside)} of your points lie {off_before:.1%} off it before and {off_after:.1%} after, in the mean."
    )
    lines = {name: getattr(curves, name) for name in ("before", "after", "after_low", "after_high")}
    return Chart(figure, alt, pd.DataFrame({"batch_size": curves.batches, **lines}))


def residual_chart(result: RefitResult) -> Chart:
    """Predicted over measured for every quantity of every row, before and by a refit that did not see it."""
    rows = result.rows
    figure = new_figure(
        "Predicted over measured - 1 (%)<br>before, and left out of the fit", "Batch size (sequences)", "Error (%)"
    )
    used = rows[rows["used"]]
    for column, name, color, symbol in (
        ("before", "before", NEUTRAL, "circle-open"),
        ("left_out", "after, row left out", BLUE, "diamond"),
    ):
        figure.add_scatter(
            x=used["batch_size"],
            y=(used[column] / used["measured"] - 1.0) * 100,
            mode="markers",
            name=name,
            marker=marker(symbol, 9, color),
            customdata=np.stack([used["line"].astype(str), used["quantity"]], axis=1),
            hovertemplate="%{y:+.1f}%, line %{customdata[0]}, %{customdata[1]}<extra></extra>",
        )
    figure.add_hline(y=0, line={"color": NEUTRAL, "dash": "dot"})
    fit_legend(figure)
    log_axis(figure, rows["batch_size"])
    errors = result.own_errors
    alt = (
        f"Errors on your own {errors.before.n} points: {errors.before.mape:.1%} in the mean with the shipped "
        f"constants, {errors.after.mape:.1%} with constants refitted without the point."
    )
    return Chart(figure, alt, rows)


def acceptance_chart(lengths: pd.DataFrame) -> Chart:
    """Accepted length by K: measured points, held beyond, with the 80 % band.

    Columns of `AcceptanceRates.accepted_lengths`.
    """
    figure = new_figure("Accepted length by K<br>with its 80% band", "Draft tokens K", "Tokens per step")
    k, length = lengths["n_draft"], lengths["accepted_length"]
    add_band(figure, k, lengths["low"], lengths["high"], "80% band", BLUE)
    add_line(figure, k, length, "last probability held", BLUE, dash="dash")
    known = lengths[lengths["measured"]]
    add_line(figure, known["n_draft"], known["accepted_length"], "measured", BLUE)
    fit_legend(figure)
    last, end = known.iloc[-1], lengths.iloc[-1]
    alt = f"Accepted length {last['accepted_length']:.2f} at K = {last['n_draft']:.0f}, the longest measured"
    if end["n_draft"] > last["n_draft"]:
        alt += (
            f"; {end['accepted_length']:.2f} ({end['low']:.2f} to {end['high']:.2f}) at K = {end['n_draft']:.0f} when "
            "the last probability is held"
        )
    return Chart(figure, alt + ".", lengths)


def overlap_chart(trace: TraceFit, others: dict[str, list[float]]) -> Chart:
    """Share of experts kept from one token to a later one, by lag. The trace with its layers' range, and presets."""
    lags = np.arange(1, trace.overlap_by_layer.shape[1] + 1)
    mean = trace.overlap_by_layer.mean(axis=0)
    figure = new_figure("Experts kept (share of k)<br>by distance between tokens", "Distance (tokens)", "Share")
    low, high = trace.overlap_by_layer.min(axis=0), trace.overlap_by_layer.max(axis=0)
    add_band(figure, lags, low, high, "range over layers", BLUE)
    add_line(figure, lags, mean, "your trace", BLUE)
    for (name, values), color in zip(others.items(), (VERMILLION, GREEN), strict=False):
        add_line(figure, lags, values, _short_name(name), color, dash="dash", width=1.8)
        figure.data[-1].update(hovertemplate=f"%{{y:.3g}}<extra>{name}</extra>", hoverlabel={"namelength": -1})
    add_line(figure, lags, np.full(len(lags), trace.fit.unrelated_overlap), "unrelated tokens", NEUTRAL, dash="dot")
    fit_legend(figure)
    figure.update_yaxes(rangemode="tozero")
    alt = (
        f"A token keeps {mean[0]:.1%} of its predecessor's experts and {mean[-1]:.1%} of those {lags[-1]} tokens back; "
        f"unrelated tokens share {trace.fit.unrelated_overlap:.1%}.{_presets_in_words(others)}"
    )
    table = pd.DataFrame({"lag": lags, "trace": mean, "layer_low": low, "layer_high": high, **others})
    return Chart(figure, alt, table)


def _short_name(name: str) -> str:
    """`Cohere production MoE` of `Cohere production MoE, 128 routed experts ...`, so that a legend can hold it."""
    return name.split(",")[0]


def _presets_in_words(others: dict[str, list[float]]) -> str:
    return "".join(f" {name} keeps {values[0]:.1%} and {values[-1]:.1%}." for name, values in others.items())


def layer_chart(trace: TraceFit) -> Chart:
    """Overlap at lag 1 and of unrelated tokens, by layer."""
    layers = np.array(trace.layers)
    figure = new_figure("Experts in common (share of k)<br>by layer", "Layer of the trace", "Share", height=320)
    add_line(figure, layers, trace.overlap_by_layer[:, 0], "next token", BLUE)
    add_line(figure, layers, trace.unrelated_by_layer, "unrelated tokens", NEUTRAL, dash="dot")
    fit_legend(figure)
    figure.update_yaxes(rangemode="tozero")
    lag1 = trace.overlap_by_layer[:, 0]
    alt = f"Overlap with the next token ranges from {lag1.min():.1%} to {lag1.max():.1%} over {len(layers)} layers."
    table = pd.DataFrame({"layer": layers, "next_token": lag1, "unrelated": trace.unrelated_by_layer})
    return Chart(figure, alt, table)


def union_chart(rows: Sequence[UnionRow] | Sequence[CountCell]) -> Chart:
    """Distinct experts touched: counted in the trace or log, predicted by the fit, and by uniform routing."""
    frame = pd.DataFrame([vars(row) for row in rows])
    figure = new_figure(
        "Distinct experts of one layer<br>counted and predicted", "Tokens in the step (B x t)", "Experts"
    )
    total = frame["batch_size"] * frame["tokens"]
    frame = frame.assign(step_tokens=total).sort_values(["step_tokens", "batch_size"])
    add_line(figure, frame["step_tokens"], frame["uniform"], "uniform routing", NEUTRAL, dash="dash")
    for column, name, color, symbol in (
        ("counted", "counted", VERMILLION, "diamond-open"),
        ("predicted", "predicted by the fit", BLUE, "circle"),
    ):
        figure.add_scatter(
            x=frame["step_tokens"],
            y=frame[column],
            mode="markers",
            name=name,
            marker=marker(symbol, 10, color, line={"width": 2}),
            customdata=frame[["batch_size", "tokens"]],
            hovertemplate="%{y:.1f}, %{customdata[0]} sequences x %{customdata[1]} tokens<extra></extra>",
        )
    fit_legend(figure)
    log_axis(figure, frame["step_tokens"])
    largest = (frame["predicted"] / frame["counted"] - 1.0).abs().max()
    alt = f"Predicted distinct experts differ from those counted by at most {largest:.1%}."
    return Chart(figure, alt, frame)
