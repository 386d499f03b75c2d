"""The leaderboard as pictures: the best models with the doubt in their figure, and a user's score against it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from advisor.answers.explore.entrants import By
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.catalog.hardware import model_name
from advisor.prediction import Prediction
from advisor.show.charts.figure import BLUE, NEUTRAL, VERMILLION, Chart, band_bars, new_figure
from advisor.show.words.leaderboard import front_of, placement_text, rank_text, value_of
from advisor.text import printable

_AXES: Mapping[By, tuple[str, float]] = {
    "cost": ("USD per million output tokens", 1.0),
    "throughput": ("Tokens/s per GPU", 1.0),
    "speed": ("Time per output token (ms)", 1e3),
    "energy": ("J per output token", 1.0),
}
"""What is ranked by, with its unit, and the factor from SI to it."""
_ROW_PX = 38


def leaderboard_chart(board: Leaderboard, top: int = 12) -> Chart:
    """The best models, a row each: the figure they are ranked by, its 80 % band, and their likely ranks."""
    axis, _ = _AXES[board.question.by]
    shown = board.standings[:top]
    figure = new_figure(
        f"{axis}, the best {len(shown)} of {len(board.standings)}<br><sup>line: 80% band · brackets: likely rank</sup>",
        axis,
        "",
        96 + _ROW_PX * len(shown),
    )
    rows = -np.arange(len(shown), dtype=float)
    data = _table(board).head(top)
    value, low, high = (data[name].to_numpy(float) for name in ("value", "low", "high"))
    figure.add_scatter(
        x=value,
        y=rows,
        mode="markers",
        marker={"size": 9, "color": BLUE},
        error_x=band_bars(value, low, high, BLUE, 2.5),
        showlegend=False,
        hoverinfo="skip",
    )
    for row, one in zip(rows, shown, strict=True):
        figure.add_annotation(
            x=0,
            xref="paper",
            xanchor="left",
            y=row,
            yshift=13,
            text=f"{one.rank}. {_marked(model_name(one.name))}, {placement_text(one)} ({rank_text(one)})",
            showarrow=False,
            font={"size": 11},
        )
    _log_axis(figure, [*low, *high])
    figure.update_yaxes(showticklabels=False, showgrid=False, range=[-len(shown) + 0.4, 0.8], title_text="")
    figure.update_layout(hovermode="closest", showlegend=False)
    return Chart(figure, _ranks_alt(board, shown, axis), data)


def quality_chart(board: Leaderboard, score_name: str, scores: Mapping[str, float]) -> Chart:
    """A user's score against the figure that models are ranked by.

    Models that no other beats in both are joined and named.
    """
    axis, _ = _AXES[board.question.by]
    front = front_of(board, scores)
    data = _table(board).assign(
        score=[scores.get(one.name, np.nan) for one in board.standings],
        on_front=[front[one.name] for one in board.standings],
    )
    known = data[data["score"].notna()]
    figure = new_figure(
        f"{_marked(score_name)} against {axis[0].lower() if axis[1].islower() else axis[0]}{axis[1:]}<br>"
        "<sup>joined: no other model beats them in both · line: 80% band</sup>",
        axis,
        _marked(score_name),
        420,
    )
    rest, best = known[~known["on_front"]], known[known["on_front"]].sort_values("score")
    _points(figure, rest, NEUTRAL, "circle-open", "beaten by another")
    _points(figure, best, VERMILLION, "diamond", "not beaten")
    figure.data[-1].update(
        mode="lines+markers+text",
        line={"color": VERMILLION, "width": 2, "dash": "dot"},
        text=best["name"].map(_marked),
        textposition=_sides(len(best), board.question.by),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": best["high"] - best["value"],
            "arrayminus": best["value"] - best["low"],
            "color": VERMILLION,
            "thickness": 1.5,
            "width": 0,
        },
    )
    _log_axis(figure, [*known["low"], *known["high"]], spread=2.0)
    figure.update_layout(hovermode="closest")
    missing = len(data) - len(known)
    left_out = f"{missing} ranked models have no score in your table and are not drawn." if missing else ""
    return Chart(figure, _quality_alt(known, best, score_name, axis), data, left_out)


def _marked(name: str) -> str:
    """A name as a drawing shows it: plotly reads markup, and names may be a user's own."""
    return html.escape(printable(name, 40), quote=False)


def _sides(count: int, by: By) -> list[str]:
    """Where the names of joined points stand, by rising score: in turn outside, where no model is, and inside, so that
    near neighbours' names are apart; the highest outside."""
    sides = ("top right", "bottom left") if by == "throughput" else ("top left", "bottom right")
    return [sides[(count - 1 - i) % 2] for i in range(count)]


def _points(figure: go.Figure, rows: pd.DataFrame, color: str, symbol: str, name: str) -> None:
    figure.add_scatter(
        x=rows["value"],
        y=rows["score"],
        name=name,
        mode="markers",
        marker={"size": 9, "color": color, "symbol": symbol},
        customdata=rows[["name", "placement"]].assign(name=rows["name"].map(_marked)),
        hovertemplate="<b>%{customdata[0]}</b>, %{customdata[1]}<br>%{x:.3g}, score %{y:g}<extra></extra>",
    )


def _table(board: Leaderboard) -> pd.DataFrame:
    """A row for each ranked model: the figure that is ranked by with both ends of its band, in the axis's unit."""
    axis, factor = _AXES[board.question.by]
    rows = []
    for one in board.standings:
        found = _known(one, board.question.by)
        rows.append(
            {
                "model": one.name,
                "name": model_name(one.name),
                "placement": placement_text(one),
                "rank": one.rank,
                "rank_low": one.rank_low,
                "rank_high": one.rank_high,
                "figure": axis,
                "value": found.value * factor,
                "low": found.low * factor,
                "high": found.high * factor,
                "tier": str(found.tier),
            }
        )
    return pd.DataFrame(rows)


def _known(one: Standing, by: By) -> Prediction:
    found = value_of(one, by)
    assert found is not None, "a board is ranked by what is known"
    return found


def _log_axis(figure: go.Figure, values: Sequence[float], spread: float = 1.05) -> None:
    """A log axis over `values` with ticks at 1, 2 and 5; `spread` is the room beside them, a factor."""
    if not len(values):
        return
    low, high = min(values) / spread, max(values) * spread
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 60 else (1,)
    ticks = [step * power for power in powers for step in steps if low <= step * power <= high]
    figure.update_xaxes(
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,.10g}" for tick in ticks],
        range=[float(np.log10(low)), float(np.log10(high))],
    )


def _ranks_alt(board: Leaderboard, shown: Sequence[Standing], axis: str) -> str:
    _, factor = _AXES[board.question.by]
    parts = []
    for one in shown[:3]:
        found = _known(one, board.question.by)
        ends = f"{found.low * factor:.3g} to {found.high * factor:.3g}"
        parts.append(f"{model_name(one.name)} {found.value * factor:.3g} (80% band {ends}), {rank_text(one)}")
    return f"{axis} of the best {len(shown)} models. The first: {'; '.join(parts)}."


def _quality_alt(known: pd.DataFrame, best: pd.DataFrame, score_name: str, axis: str) -> str:
    if known.empty:
        return f"No ranked model has a {score_name} in the table."
    joined = "; ".join(
        f"{name} with {score:g} at {value:.3g}"
        for name, score, value in zip(best["name"], best["score"], best["value"], strict=True)
    )
    return f"{score_name} against {axis} of {len(known)} models. No other beats these in both: {joined}."
