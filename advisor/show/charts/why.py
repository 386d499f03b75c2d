"""Where the time of a step and a round goes, as reports draw it. No Streamlit."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from advisor.physics.components import component_name
from advisor.show.charts.figure import (
    BLUE,
    ORANGE,
    Chart,
    new_figure,
)

_SMALL = 0.005
"""Components below this share of both steps are summed as `Rest`. [-]"""


def components_table(plain: Mapping[str, float], round_: Mapping[str, float]) -> pd.DataFrame:
    """Milliseconds by component of a plain step and of a whole round, largest first. Tiny ones summed as `Rest`.

    plain, round_ : seconds by component name. [s]
    """
    totals = sum(plain.values()), sum(round_.values())
    rows, rest = [], [0.0, 0.0]
    for name in dict.fromkeys([*plain, *round_]):
        times = plain.get(name, 0.0), round_.get(name, 0.0)
        if max(time / total for time, total in zip(times, totals, strict=True)) < _SMALL:
            rest = [rest[0] + times[0], rest[1] + times[1]]
        else:
            rows.append((component_name(name), times[0] * 1e3, times[1] * 1e3))
    rows.sort(key=lambda row: -row[2])
    if any(rest):
        rows.append(("Rest", rest[0] * 1e3, rest[1] * 1e3))
    return pd.DataFrame(rows, columns=["component", "plain_step_ms", "round_ms"])


def components_chart(
    plain: Mapping[str, float], round_: Mapping[str, float], *, n_draft: int, batch_size: int
) -> Chart:
    """Milliseconds by component of a plain step and of one speculative round (draft and verify).

    plain, round_ : seconds by component name. [s]
    """
    data = components_table(plain, round_)
    figure = new_figure(
        f"Where the time goes (ms), batch {batch_size:,}<br>one step without drafts and one with K = {n_draft}",
        "Milliseconds",
        "",
        height=160 + 40 * len(data),
    )
    for column, name, color in (("round_ms", f"with K = {n_draft}", BLUE), ("plain_step_ms", "without drafts", ORANGE)):
        figure.add_bar(
            x=data[column],
            y=data["component"],
            orientation="h",
            name=name,
            marker_color=color,
            marker_pattern_shape="/" if column == "plain_step_ms" else "",
            hovertemplate="%{x:.3g} ms",
            text=[f"{value:.2f}" if value else "" for value in data[column]],
            textposition="outside",
            textangle=0,
            cliponaxis=False,
        )
    figure.update_xaxes(range=[0, 1.12 * float(data[["plain_step_ms", "round_ms"]].max(axis=None))])
    figure.update_layout(
        barmode="group",
        bargap=0.25,
        hovermode="y unified",
        legend={"xref": "paper", "yref": "paper", "y": 1.0, "yanchor": "bottom", "traceorder": "reversed"},
        margin={"t": 104},
    )
    figure.update_yaxes(autorange="reversed")
    first = data.iloc[0]
    plain_ms, round_ms = sum(plain.values()) * 1e3, sum(round_.values()) * 1e3
    alt = (
        f"Milliseconds by component at batch {batch_size}: a step without drafts takes {plain_ms:.2f} ms, one with "
        f"K = {n_draft} takes {round_ms:.2f} ms. The largest part of it is {first['component']}: "
        f"{first['round_ms']:.2f} ms, against {first['plain_step_ms']:.2f} ms without drafts."
    )
    return Chart(figure, alt, data)
