"""The charts of a design on hand-made answers: values, marks, tints, findings in words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from advisor.answers.design.dials import BatchRule, Dial, Experts
from advisor.show.charts.design import Mark, dial_chart, pareto_chart, rule_chart, rule_table
from advisor.show.charts.figure import BLUE, GREEN, NEUTRAL, VERMILLION, Chart
from advisor.show.words.design import dial_value, loss_text

RATIO = Dial(
    "ratio",
    tuple(Experts(n, 8, 1.0, 2048) for n in (512, 256, 128, 64)),
    np.array([8 / 512, 8 / 256, 8 / 128, 8 / 64]),
    np.array([0.0, 0.047, 0.031, np.nan]),
    np.array([1.2, 1.0, 0.8, 0.3]),
    np.array([1.9, 1.0, 0.9, 0.7]),
    1,
)
SHARED = replace(
    RATIO,
    name="shared",
    designs=tuple(Experts(256, 8, float(s), 2048) for s in range(4)),
    position=np.arange(4.0),
)
WIDTH = replace(
    RATIO,
    name="width",
    designs=tuple(Experts(256, 8, 1.0, w) for w in (1024, 2048, 3072, 4096)),
    position=np.array([1024.0, 2048.0, 3072.0, 4096.0]),
)
RULE = BatchRule(
    batches=np.array([1.0, 8.0, 64.0]),
    design=np.array([[1, 1, 2], [3, 4, 2]]),
    tpot_s=np.array([[0.004, 0.006, 0.012], [0.005, 0.007, 0.012]]),
    speedup=np.array([[1.6, 1.5, 1.4], [2.0, 1.8, 1.4]]),
    active_share=np.array([[0.0125, 0.0125, 0.078], [0.01, 0.078, 0.078]]),
    shared_share=np.array([[0.0, 0.0, 0.25], [0.2, 0.0, 0.25]]),
    near_active=np.array([[0.0125, 0.0125, 0.05], [0.02, 0.0125, 0.078]]),
    near_shared=np.array([[0.0, 0.0, 0.2], [0.0, 0.1, 0.3]]),
)
MARKS = [
    Mark("mine", "mine", 1.18, (0.80, 0.99)),
    Mark("today", "today", 1.0, (1.0, 1.0)),
    Mark("best", "best", 1.06, (0.995, 1.04)),
]


def pareto(marks: list[Mark] = MARKS) -> Chart:
    front = pd.DataFrame({"design": ["a", "b"], "speed": [0.9, 1.1], "quality_low": [1.3, 0.9]})
    return pareto_chart(front, front.assign(speed=0.8), marks, 0.99)


CHARTS = {
    "ratio": dial_chart(RATIO),
    "shared": dial_chart(SHARED),
    "width": dial_chart(WIDTH),
    "pareto": pareto(),
    "active": rule_chart(RULE, "active", 8, ("today", 0.1)),
    "shared share": rule_chart(RULE, "shared", 8, ("today", 0.1)),
}


@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_names_its_axes_tells_a_finding_with_data_and_uses_the_colour_blind_safe_palette(
    name: str,
) -> None:
    chart = CHARTS[name]
    layout = chart.figure.layout
    assert layout.xaxis.title.text
    assert layout.yaxis.title.text
    assert any(letter.isdigit() for letter in chart.alt)
    assert len(chart.data)
    used = {
        trace.line.color
        for trace in CHARTS[name].figure.data
        if trace.mode != "markers" and trace.line.color
    }
    used |= {trace.marker.color for trace in CHARTS[name].figure.data if trace.marker.color}
    assert used <= {BLUE, GREEN, VERMILLION, NEUTRAL}


def test_a_strip_draws_and_says_what_each_value_costs() -> None:
    line = next(trace for trace in dial_chart(RATIO).figure.data if trace.mode == "lines+markers")
    assert line.y[:3] == pytest.approx([0.0, 4.7, 3.1])
    assert np.isnan(line.y[3])
    assert list(line.customdata) == ["8 of 512", "8 of 256", "8 of 128", "8 of 64"]
    assert set(dial_chart(RATIO).figure.layout.xaxis.ticktext) <= {
        "8/512",
        "8/256",
        "8/128",
        "8/64",
    }
    alt = dial_chart(RATIO).alt
    assert "least time is at 1/64;" in alt
    assert "held at yours, 8 of 256, 4.7% of the time is lost" in alt
    assert (
        dial_chart(replace(RATIO, loss=np.full(4, np.nan))).alt
        == "By k/N: nothing keeps every limit."
    )
    band = next(trace for trace in dial_chart(RATIO).figure.data if trace.fill == "toself")
    assert max(band.y) == 160.0
    assert dial_chart(RATIO).data["quality_high"].max() == 1.9


@pytest.mark.parametrize(("at", "lost"), [(0, 0.02), (1, -0.3), (2, 0.9), (3, 0.0)])
def test_the_users_design_is_marked_at_its_own_loss_apart_from_the_best_at_each_value(
    at: int, lost: float
) -> None:
    held = ("N512 k8 s1 w2048", "N192 k8 s0 w768", "", "")
    figure = dial_chart(replace(RATIO, own=at, held=held), lost).figure
    mark = next(trace for trace in figure.data if trace.mode == "markers")
    assert (mark.x[0], mark.y[0]) == (at, pytest.approx(100 * lost))
    low, high = figure.layout.yaxis.range
    assert low < mark.y[0] < high
    assert [one.text for one in figure.layout.annotations] == ["best design at each k/N"]
    assert figure.data[-2].customdata[1] == "8 of 256 with N192 k8 s0 w768", (
        "whose it is, under the pointer"
    )


def test_losses_below_a_percent_keep_their_decimal_and_values_read_as_the_field_writes_them() -> (
    None
):
    assert [loss_text(x) for x in (0.0, 0.004, 0.012)] == ["+0%", "+0.4%", "+1%"]
    assert [dial_value(dial, 1) for dial in (RATIO, SHARED, WIDTH)] == [
        "8 of 256",
        "1 : 8",
        "2,048",
    ]


def test_marks_stand_at_the_lowest_law_with_a_whisker_to_the_highest() -> None:
    figure = pareto().figure
    marks = {trace.name: trace for trace in figure.data if trace.showlegend is None}
    assert set(marks) == {"mine", "today", "best"}
    assert (marks["best"].x[0], marks["best"].y[0]) == (1.06, 99.5)
    assert len({trace.marker.symbol for trace in marks.values()}) == 3
    whiskers = [
        tuple(trace.y) for trace in figure.data if trace.mode == "lines" and len(set(trace.x)) == 1
    ]
    assert (80.0, 99.0) in whiskers
    assert "mine 1.18× at 80% to 99% of today's quality" in pareto().alt
    assert [shape.y0 for shape in pareto().figure.layout.shapes] == [99.0]


@pytest.mark.parametrize("quality", [(0.43, 0.6), (1.9, 2.2)])
def test_a_mark_far_from_equal_quality_widens_the_axis_to_itself(
    quality: tuple[float, float],
) -> None:
    figure = pareto([*MARKS[1:], Mark("mine", "mine, 43–60%", 1.28, quality)]).figure
    mark = next(trace for trace in figure.data if trace.name == "mine, 43–60%")
    low, high = figure.layout.yaxis.range
    assert mark.y[0] == pytest.approx(100 * quality[0])
    assert low + 5 < mark.y[0] < high - 5


def test_the_quality_chart_calls_the_baseline_by_its_mark_s_name() -> None:
    chart = pareto(
        [replace(mark, name="start") if mark.kind == "today" else mark for mark in MARKS]
    )
    assert chart.figure.layout.xaxis.title.text == "Speed per token against start (×)"
    assert "today" not in str(chart.figure) + chart.alt


def test_the_rule_draws_both_designs_apart_tints_what_is_as_good_and_says() -> None:
    figure = rule_chart(RULE, "active", 8, ("today", 0.1)).figure
    solid, dotted, own = (trace for trace in figure.data if trace.mode == "lines")
    assert (solid.line.dash, dotted.line.dash, own.line.dash) == ("solid", "dot", "dash")
    assert list(own.y) == [10.0, 10.0]
    tint = next(trace for trace in figure.data if trace.fill == "toself")
    assert (min(tint.y), max(tint.y)) == pytest.approx((1.25, 7.8))
    named = [trace.name for trace in figure.data if trace.showlegend]
    assert named == ["within 1% of least time", "least time", "largest speedup", "today"]
    alt = rule_chart(RULE, "active", 8, ("today", 0.1)).alt
    assert alt.startswith("Active share k / N of the best design by batch.")
    assert "Least time: 1.2% from batch 1, 7.8% from batch 64." in alt
    assert "Largest speedup, a ratio: 1.0% from batch 1, 7.8% from batch 8." in alt
    assert len(rule_table(RULE)) == 6
