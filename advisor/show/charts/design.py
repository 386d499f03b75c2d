"""The charts of a design search: k/N over batch, shared over routed, granularity, quality against speed. No Streamlit.

Speeds are drawn either as speedup or, where `baseline_tpot_s` is given, as time per output token over the baseline's.

Designs against batch: speedup, or time per output token, of the baseline, the recommended and a picked design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from advisor.answers.design.candidates import DesignCurve, Line
from advisor.answers.design.search import DesignLine, HeatMap
from advisor.prediction import Array
from advisor.show.charts.figure import (
    BLUE,
    GREEN,
    NEUTRAL,
    PURPLE,
    SERIES,
    VERMILLION,
    Chart,
    add_band,
    add_line,
    add_vertical,
    fit_legend,
    log_axis,
    new_figure,
    series_look,
)

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
_STRONG = "#7CC4EE"
_SCALE = ("#F4F8FC", "#B9DDF5", _STRONG)
"""One hue from pale to strong, so alike for all kinds of colour vision; strong is better. None of the series' colours,
which follow the theme: the cells' text does not."""
_AROUND_ONE = ("#F0A27A", "#FBF7F3", _STRONG)
"""Worse, the same, better than the baseline: orange and blue, told apart by all kinds of colour vision."""
_CELL_TEXT = "#14202B"
"""Contrast of 6 and more on all of both scales."""
_LEAST_REACH = 0.05
"""A scale around 1 reaches at least this far, so that differences of a percent are not drawn as large. [-]"""
_STYLES = {
    "recommended": ("star", VERMILLION, 17),
    "cautious": ("diamond", GREEN, 13),
    "baseline": ("square", NEUTRAL, 12),
    "picked": ("circle-open", PURPLE, 18),
}
SPEEDUP_TITLE, TIME_TITLE = "Speedup (x)", "Time per output token (baseline = 1)"
SPEED_TITLE = "Speed per output token (baseline = 1)"


def heat_map_chart(
    found: HeatMap,
    *,
    baseline_ratio: float,
    recommended_ratio: float | None = None,
    batches: Sequence[float] = (),
    baseline_tpot_s: Array | None = None,
    describe: Callable[[int], str] = str,
) -> Chart:
    """Best design of each k/N at each batch, with the recommended one's cells framed at the target batches.

    Parameters
    ----------
    found : the map, [n ratios, nB], with at least one row.
    baseline_ratio, recommended_ratio : k/N of the baseline and of the recommended design. [-]
    batches : target batches; those of the map are framed. [-]
    baseline_tpot_s : the baseline's time per output token at the map's batches, [nB]: draws how much faster than it a
        design is. [s]
    describe : index of a design into words.
    """
    drawn = _columns_drawn(found)
    left_out = _left_out([f"{b:g}" for b in found.batches[~drawn]], "batch ")
    shown = _at(found, drawn)
    values = shown.speedup if baseline_tpot_s is None else baseline_tpot_s[drawn] / shown.tpot_s
    rows, columns = values.shape
    own = _nearest(found.ratio, baseline_ratio)
    what = SPEEDUP_TITLE if baseline_tpot_s is None else SPEED_TITLE
    title = f"{what}<br><sup>of the best design, by k/N and batch · higher is better</sup>"
    # Without a title of its own the axis leaves cells of a telephone room for their figures; the subtitle names it.
    figure = new_figure(title, "Batch size (sequences)", "", 150 + 34 * rows)
    names = [[describe(int(i)) if i >= 0 else "" for i in row] for row in shown.design]
    figure.add_heatmap(
        z=values,
        x=np.arange(columns),
        y=np.arange(rows),
        showscale=False,
        **_colors(values, baseline_tpot_s is not None),
        xgap=1,
        ygap=1,
        texttemplate="%{z:.2f}",
        textfont={"size": 10, "color": _CELL_TEXT},
        hoverinfo="skip",
    )
    _add_cell_points(figure, shown, values, names)
    ticks = [
        f"<b>baseline<br>{ratio:.1%}</b>" if row == own else f"{ratio:.1%}" for row, ratio in enumerate(found.ratio)
    ]
    figure.update_yaxes(tickvals=np.arange(rows), ticktext=ticks, showgrid=False)
    figure.update_xaxes(
        tickvals=np.arange(columns), ticktext=[_short(b) for b in shown.batches], showgrid=False, tickangle=0
    )
    figure.update_layout(hovermode="closest", clickmode="event+select")
    if recommended_ratio is not None:
        row = _nearest(found.ratio, recommended_ratio)
        for column in np.flatnonzero(np.isin(shown.batches, np.asarray(batches, float))):
            figure.add_shape(
                type="rect",
                x0=column - 0.5,
                x1=column + 0.5,
                y0=row - 0.5,
                y1=row + 0.5,
                line={"color": VERMILLION, "width": 3},
            )
    alt = _heat_alt(shown, values, what, own)
    return Chart(figure, f"{alt} {left_out}".rstrip(), _heat_table(found), left_out)


def _colors(values: Array, around_one: bool) -> dict[str, object]:
    """Scale over all values, none cut off; around 1 it reaches as far down as up, so that white is the baseline."""
    if not around_one:
        return {"colorscale": list(_SCALE)}
    reach = max(_LEAST_REACH, float(np.nanmax(np.abs(values - 1.0), initial=0.0)))
    return {"colorscale": list(_AROUND_ONE), "zmin": 1.0 - reach, "zmax": 1.0 + reach}


def _columns_drawn(found: HeatMap) -> NDArray[np.bool_]:
    """Batches at which any design fits, [nB]; all of them where none does, for an axis needs a place."""
    fits: NDArray[np.bool_] = np.any(found.design >= 0, axis=0)
    return fits if fits.any() else np.ones_like(fits)


def _at(found: HeatMap, columns: NDArray[np.bool_]) -> HeatMap:
    """The map at some of its batches."""
    by_batch = {name: values[..., columns] for name, values in vars(found).items() if name != "ratio"}
    return HeatMap(found.ratio, **by_batch)


def _left_out(names: Sequence[str], what: str = "") -> str:
    """`Left out: batch 512 and 1024, where nothing fits in memory.`; empty where nothing is."""
    if not len(names):
        return ""
    *first, last = names
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"Left out: {what}{listed}, where nothing fits in memory."


def _add_cell_points(figure: go.Figure, shown: HeatMap, values: Array, names: list[list[str]]) -> None:
    """Unseen points over the cells: plotly lets points be clicked, not cells. Each carries its design's index, and
    the batch of its column."""
    rows, columns = np.nonzero(shown.design >= 0)
    cells = list(zip(rows, columns, strict=True))
    figure.add_scatter(
        x=columns,
        y=rows,
        mode="markers",
        showlegend=False,
        marker={"symbol": "square", "size": 26, "opacity": 0, "color": VERMILLION},
        customdata=[
            [
                str(shown.design[i, j]),
                names[i][j],
                f"{values[i, j]:.3f}",
                f"{shown.batches[j]:g}",
                f"{shown.tpot_s[i, j] * 1e3:.2f}",
                f"{shown.speedup[i, j]:.2f}",
            ]
            for i, j in cells
        ],
        hovertemplate="<b>%{customdata[2]}</b> at batch %{customdata[3]}<br>%{customdata[1]}<br>%{customdata[4]} ms "
        "per token; drafting gains %{customdata[5]}×<extra></extra>",
        selected={"marker": {"opacity": 0.35}},
        unselected={"marker": {"opacity": 0}},
    )


def shared_sweep_chart(
    found: DesignLine, batches: Sequence[float], *, baseline_shared: float, baseline_tpot_s: Array | None = None
) -> Chart:
    """Speed against shared experts, active and total experts held, one line for each batch."""
    labels = [f"{s:.3g}" for s in found.mix.n_shared]
    own = int(np.argmin(np.abs(found.mix.n_shared - baseline_shared)))
    return _sweep_chart(
        found,
        batches,
        labels,
        own,
        baseline_tpot_s,
        "by shared experts",
        "Shared experts s (active and total held)",
        "shared",
    )


def granularity_chart(
    found: DesignLine, batches: Sequence[float], *, baseline_experts: float, baseline_tpot_s: Array | None = None
) -> Chart:
    """Speed against the number of experts at one k/N, one line for each batch.

    The expert width is solved to equal quality.
    """
    labels = [f"{n:.0f}/{k:.0f}" for n, k in zip(found.mix.n_experts, found.mix.n_active, strict=True)]
    same = np.flatnonzero(found.mix.n_experts == baseline_experts)
    return _sweep_chart(
        found,
        batches,
        labels,
        int(same[0]) if len(same) else None,
        baseline_tpot_s,
        "by granularity",
        "Experts N/active k (width to equal quality)",
        "experts",
    )


def sweep_table(found: DesignLine) -> pd.DataFrame:
    """One row for each design and batch of a sweep."""
    n_batches, n = found.speedup.shape
    repeated = vars(found.mix) | {
        "expert_width": found.expert_width,
        "quality_ratio": found.quality_ratio,
        "loss_difference_nats": found.loss_difference,
    }
    return pd.DataFrame(
        {name: np.tile(values, n_batches) for name, values in repeated.items()}
        | {
            "batch_size": np.repeat(found.batches, n).astype(int),
            "n_draft": found.n_draft.reshape(-1),
            "speedup": found.speedup.reshape(-1),
            "tpot_ms": found.tpot_s.reshape(-1) * 1e3,
            "fits_in_memory": (found.batches[:, None] <= found.largest_batch).reshape(-1),
        }
    )


@dataclass(frozen=True)
class Mark:
    """A design that stands out on the quality chart."""

    kind: Literal["recommended", "cautious", "baseline", "picked"]
    name: str
    quality_ratio: float
    objective: float
    index: int
    """Into the design space; -1 for the baseline."""


def pareto_chart(
    front: pd.DataFrame, marks: Sequence[Mark], *, objective: str, objective_unit: str, quality_eps: float
) -> Chart:
    """Designs that no other beats in both quality and the objective, with the marked ones.

    Parameters
    ----------
    front : columns design, index, quality_ratio, objective, from best quality to best objective; at least one row.
    marks : drawn on top in this order. Points and marks carry their index as custom data.
    objective, objective_unit : words for the vertical axis.
    quality_eps : share of dense-equivalent size that may be lost. [-]
    """
    title = f"{objective} ({objective_unit})"
    figure = new_figure(
        f"{title}<br>against quality (size of a dense model as good, % of the baseline's)", "Quality (%)", title, 430
    )
    figure.add_scatter(
        x=front["quality_ratio"] * 100,
        y=front["objective"],
        name="best trade-offs",
        mode="lines+markers",
        line={"color": BLUE, "width": 2},
        marker={"size": 9, "color": BLUE},
        customdata=np.stack([front["index"].astype(str), front["design"]], axis=1),
        hovertemplate="%{customdata[1]}<br>%{x:.1f}% quality, %{y:.4g}<extra></extra>",
    )
    for mark in marks:
        symbol, color, size = _STYLES[mark.kind]
        figure.add_scatter(
            x=[mark.quality_ratio * 100],
            y=[mark.objective],
            name=mark.name,
            mode="markers",
            marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 1.5, "color": "white"}},
            customdata=[[str(mark.index), mark.name]],
            hovertemplate="%{customdata[1]}<br>%{x:.1f}% quality, %{y:.4g}<extra></extra>",
        )
    floor = (1.0 - quality_eps) * 100
    figure.add_vline(x=floor, line={"color": NEUTRAL, "dash": "dot"})
    figure.add_annotation(
        x=floor,
        y=1,
        yref="paper",
        yanchor="bottom",
        xanchor="left",
        text="equal quality and above",
        showarrow=False,
        font={"size": 11},
    )
    figure.update_layout(hovermode="closest", clickmode="event+select", legend={"entrywidth": 130})
    first, last = front.iloc[0], front.iloc[-1]
    ends = (
        f"from {first['design']} ({first['quality_ratio']:.0%} of the baseline's quality, "
        f"{first['objective']:.4g} {objective_unit}) to {last['design']} ({last['quality_ratio']:.0%}, "
        f"{last['objective']:.4g} {objective_unit})"
    )
    marked = "; ".join(f"{m.name} {m.objective:.4g} {objective_unit} at {m.quality_ratio:.0%}" for m in marks)
    return Chart(
        figure, f"{len(front)} best trade-offs of quality and {objective.lower()}, {ends}. Marked: {marked}.", front
    )


def _sweep_chart(
    found: DesignLine,
    batches: Sequence[float],
    labels: list[str],
    own: int | None,
    baseline_tpot_s: Array | None,
    by: str,
    x_title: str,
    alt_unit: str,
) -> Chart:
    what = SPEEDUP_TITLE if baseline_tpot_s is None else TIME_TITLE
    values = found.speedup if baseline_tpot_s is None else found.tpot_s / baseline_tpot_s[:, None]
    values = np.where(found.batches[:, None] <= found.largest_batch, values, np.nan)
    chosen = np.flatnonzero(np.isin(found.batches, np.asarray(batches, float)))
    drawn = _designs_drawn(values[chosen], own)
    left_out = _left_out([labels[i] for i in np.flatnonzero(~drawn)])
    values, labels = values[:, drawn], [labels[i] for i in np.flatnonzero(drawn)]
    own = None if own is None else int(drawn[:own].sum())
    figure = new_figure(f"{what}<br>{by}, at each batch", x_title, what, 380)
    x, findings = np.arange(len(labels), dtype=float), list[str]()
    for order, row in enumerate(chosen):
        batch = found.batches[row]
        if np.isnan(values[row]).all():
            findings.append(f"batch {batch:g} does not fit in memory")
            continue
        _add_series(figure, x, values[row], f"batch {batch:g}", order)
        best = int(np.nanargmin(values[row]) if baseline_tpot_s is not None else np.nanargmax(values[row]))
        here = "" if own is None else f", baseline ({labels[own]}) {values[row, own]:.2f}"
        findings.append(f"at batch {batch:g} best with {labels[best]} {alt_unit}: {values[row, best]:.2f}{here}")
    if own is not None:
        _mark_baseline(figure, own)
    # On two lines, 512/32 stands upright on a telephone too.
    figure.update_xaxes(tickvals=x, ticktext=[label.replace("/", "/<br>") for label in labels], tickangle=0)
    alt = f"{what} {by}: {'; '.join(findings)}. {left_out}".rstrip()
    return Chart(figure, alt, sweep_table(found), left_out)


def _designs_drawn(values: Array, own: int | None) -> NDArray[np.bool_]:
    """Designs of [batches, n] with a point to draw; the baseline's place stays for its line, all where none has one."""
    drawn: NDArray[np.bool_] = np.any(~np.isnan(values), axis=0)
    if not drawn.any():
        return np.ones_like(drawn)
    if own is not None:
        drawn[own] = True
    return drawn


def _mark_baseline(figure: go.Figure, place: float) -> None:
    figure.add_vline(x=place, line={"color": NEUTRAL, "dash": "dot"})
    figure.add_annotation(x=place, y=1, yref="paper", yanchor="bottom", text="baseline", showarrow=False)


def _add_series(figure: go.Figure, x: Array, y: Array, name: str, order: int) -> None:
    """A line told apart by colour, dash and marker."""
    color, dash = series_look(order)
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers",
        hovertemplate="%{y:.3f}",
        line={"color": color, "width": 2.2, "dash": dash},
        marker={"symbol": _SYMBOLS[order % len(_SYMBOLS)], "size": 8, "color": color},
    )


def _nearest(ratios: Array, ratio: float) -> int:
    return int(np.argmin(np.abs(np.log(ratios / ratio))))


def _short(batch: float) -> str:
    """1024 as 1k, so that eleven labels fit a telephone."""
    return f"{batch / 1024:g}k" if batch >= 1024 and batch % 1024 == 0 else f"{batch:g}"


def _heat_alt(found: HeatMap, values: Array, what: str, own: int) -> str:
    findings = []
    for column in dict.fromkeys((0, len(found.batches) // 2, len(found.batches) - 1)):
        if np.isnan(values[:, column]).all():
            findings.append(f"at batch {found.batches[column]:g} nothing fits")
            continue
        row = int(np.nanargmax(values[:, column]))
        findings.append(
            f"at batch {found.batches[column]:g} best with k/N {found.ratio[row]:.1%}: {values[row, column]:.2f}"
        )
    return f"{what} by k/N and batch: {'; '.join(findings)}. The baseline's k/N is near {found.ratio[own]:.1%}."


def _heat_table(found: HeatMap) -> pd.DataFrame:
    rows, columns = found.speedup.shape
    return pd.DataFrame(
        {
            "k_over_n": np.repeat(found.ratio, columns),
            "batch_size": np.tile(found.batches, rows).astype(int),
            "speedup": found.speedup.reshape(-1),
            "tpot_ms": found.tpot_s.reshape(-1) * 1e3,
            "design": found.design.reshape(-1),
        }
    )


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
