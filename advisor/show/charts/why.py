"""Where the time of a step and a round goes, as reports draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go

from advisor.answers.advice import ComponentTime
from advisor.show.charts.figure import BLUE, ORANGE, add_bars, new_figure

_SMALL = 0.005
"""Components below this share of both steps are drawn as one, `Rest`. [-]"""


def drawn_components(times: Sequence[ComponentTime]) -> list[ComponentTime]:
    """Components as charts show them: tiny ones summed."""
    plain_ms, round_ms = sum(part.plain_ms for part in times), sum(part.round_ms for part in times)
    large = [part for part in times if max(part.plain_ms / plain_ms, part.round_ms / round_ms) >= _SMALL]
    rest = [part for part in times if part not in large]
    if not rest:
        return large
    sums = {"plain_ms": sum(part.plain_ms for part in rest), "round_ms": sum(part.round_ms for part in rest)}
    return [*large, replace(rest[0], name="rest", label="Rest", **sums)]


def components_chart(times: Sequence[ComponentTime], *, n_draft: int, batch_size: int) -> go.Figure:
    """Milliseconds by component of a plain step and of one speculative round (draft and verify)."""
    parts = drawn_components(times)
    figure = new_figure(
        f"Where the time goes (ms), batch {batch_size:,}<br>one step without drafts and one with K = {n_draft}",
        "Milliseconds",
        "",
        height=160 + 40 * len(parts),
    )
    drawn = (("round_ms", f"with K = {n_draft}", BLUE, ""), ("plain_ms", "without drafts", ORANGE, "/"))
    for field, name, color, pattern in drawn:
        values = [getattr(part, field) for part in parts]
        add_bars(
            figure,
            [part.label for part in parts],
            values,
            color,
            name=name,
            marker_pattern_shape=pattern,
            hovertemplate="%{x:.3g} ms",
            text=[f"{value:.2f}" if value else "" for value in values],
            textposition="outside",
            cliponaxis=False,
            showlegend=True,
        )
    figure.update_xaxes(range=[0, 1.12 * max(max(part.plain_ms, part.round_ms) for part in parts)])
    return figure.update_layout(
        barmode="group",
        bargap=0.25,
        hovermode="y unified",
        legend={"xref": "paper", "yref": "paper", "y": 1.0, "yanchor": "bottom", "traceorder": "reversed"},
        margin={"t": 104},
    )
