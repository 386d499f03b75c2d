"""Charts of a report: figures from values alone, units in the title; validation charts say what they rest on."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from advisor.answers.advice import ComponentTime
from advisor.answers.best_k import break_even_batch
from advisor.measured.validation import chances_kept, read_judged
from advisor.physics.components import component_name
from advisor.show.charts import speedup as charts
from advisor.show.charts.figure import NEUTRAL, SERIES
from advisor.show.charts.measured import chances_chart, coverage_chart, predicted_chart
from advisor.show.charts.why import components_chart, drawn_components
from advisor.show.report.layout import curve_finding
from tests.pages.ui_fixtures import PLAIN_S, ROUND_S, hand_curve


def speedup(**overrides: object) -> go.Figure:
    settings = {"band_level": 0.8, "sweet_spot_batch": 16.0} | overrides
    return charts.speedup_chart(hand_curve(), 2, 64, **settings)


def trace(chart: go.Figure, name: str) -> object:
    found = [item for item in chart.data if item.name == name]
    assert len(found) == 1, f"{name!r} is not among {[item.name for item in chart.data]}"
    return found[0]


def test_speedup_is_drawn_over_a_log_batch_axis_with_its_values() -> None:
    chart, curve = speedup(), hand_curve()
    line = trace(chart, "K = 2")
    assert chart.layout.xaxis.type == "log"
    np.testing.assert_array_equal(line.x, curve.batches)
    np.testing.assert_array_equal(line.y, curve.speedup[:, 2])


def test_the_band_runs_along_its_upper_edge_and_back_along_the_lower() -> None:
    curve = hand_curve()
    band = trace(speedup(), "Likely range (80%)")
    np.testing.assert_array_equal(band.y, np.concatenate([curve.high[:, 2], curve.low[::-1, 2]]))


def note(chart: go.Figure, words: str) -> object:
    found = [item for item in chart.layout.annotations if words in item.text]
    assert len(found) == 1, f"{words!r} is not among {[item.text for item in chart.layout.annotations]}"
    return found[0]


def test_the_sweet_spot_is_named_on_the_line() -> None:
    curve = hand_curve()
    named = note(speedup(), "highest")
    row = int(np.flatnonzero(curve.batches == 16)[0])
    assert (10**named.x, named.y) == (pytest.approx(16), pytest.approx(curve.speedup[row, 2]))


def test_the_batch_where_drafting_stops_paying_is_marked() -> None:
    curve = hand_curve()
    end = break_even_batch(curve.batches, curve.speedup[:, 2])
    assert end is not None
    assert 10 ** note(speedup(), "breaks even").x == pytest.approx(end)
    assert note(speedup(), "breaks even").text.startswith("K = 2 breaks even at ")


def test_no_break_even_is_drawn_or_said_beyond_what_fits_in_memory() -> None:
    end = break_even_batch(hand_curve().batches, hand_curve().speedup[:, 2])
    assert end is not None
    within, beyond = speedup(largest_batch=end + 1), speedup(largest_batch=end - 1)
    assert note(within, "breaks even")
    assert not any("breaks even" in item.text for item in beyond.layout.annotations)


def test_the_target_batch_is_a_line_across_the_plot_with_its_speedup() -> None:
    lines = [shape for shape in speedup().layout.shapes if shape.type == "line" and shape.x0 == shape.x1]
    assert [shape.x0 for shape in lines] == [64]
    curve = hand_curve()
    here = float(curve.speedup[int(np.flatnonzero(curve.batches == 64)[0]), 2])
    assert note(speedup(), "batch 64").text == f"<b>batch 64: {here:.2f}×</b>"


def test_the_area_below_one_is_named_slower_than_plain_and_lies_in_view() -> None:
    drawn = speedup()
    area = next(shape for shape in drawn.layout.shapes if shape.type == "rect")
    low, high = drawn.layout.yaxis.range
    assert area.y1 == 1.0
    assert low < 1.0 < high
    assert note(speedup(), "slower than plain").y == 1.0


def test_batches_outside_the_data_are_shaded_from_the_first_flagged_one() -> None:
    curve = hand_curve()
    first = curve.batches[curve.extrapolated[:, 2]].min()
    assert note(speedup(), "outside the data")
    assert first in [shape.x0 for shape in speedup().layout.shapes if shape.type == "rect"]


def test_nothing_is_shaded_inside_the_data() -> None:
    chart = charts.speedup_chart(hand_curve(extrapolated_from=10**9), 2, 64, band_level=0.8)
    assert "outside the data" not in [item.text for item in chart.layout.annotations]


def test_batches_beyond_memory_are_shaded() -> None:
    drawn = speedup(largest_batch=4)
    assert 10 ** note(drawn, "does not fit").x == pytest.approx(4)
    assert 4 in [shape.x0 for shape in drawn.layout.shapes if shape.type == "rect"]


def test_further_k_are_drawn_only_when_asked_for_and_differ_by_more_than_colour() -> None:
    assert "K = 4" not in [item.name for item in speedup().data]
    chart = speedup(compare=(1, 4))
    assert trace(chart, "K = 1").line.dash != trace(chart, "K = 4").line.dash


@pytest.mark.parametrize(
    ("scale", "ending"),
    [
        (10.0, "pays up to batch 512, the largest looked at"),
        (1.0, "stops paying at"),
        (0.1, "slowdown at every batch"),
    ],
)
def test_the_words_under_the_chart_state_value_band_peak_and_where_it_stops_paying(scale: float, ending: str) -> None:
    curve = hand_curve(scale=scale)
    at = SimpleNamespace(batch_index=6, curve_column=2, curve_k=2, band_level=0.8, curve=curve)
    at.break_even_batch = break_even_batch(curve.batches, curve.speedup[:, 2])
    at.setup = SimpleNamespace(memory=SimpleNamespace(largest_batch=4096))
    text = curve_finding(SimpleNamespace(advice=at, drawn_curve=curve))
    low, value, high = (values[6, 2] for values in (curve.low, curve.speedup, curve.high))
    assert f"at batch 64 is {value:.2f}x (likely range {low:.2f}-{high:.2f})" in text
    assert f"highest at batch 16, {curve.speedup[:, 2].max():.2f}x" in text
    assert ending in text


TIMES = tuple(
    ComponentTime(name, component_name(name), PLAIN_S.get(name, 0.0) * 1e3, seconds * 1e3)
    for name, seconds in ROUND_S.items()
)


def test_components_keep_the_whole_time_and_those_too_small_to_see_are_summed() -> None:
    parts = drawn_components(TIMES)
    assert sum(part.plain_ms for part in parts) == pytest.approx(sum(PLAIN_S.values()) * 1e3)
    assert sum(part.round_ms for part in parts) == pytest.approx(sum(ROUND_S.values()) * 1e3)
    assert (parts[0].label, parts[-1].label) == ("Routed experts", "Rest")
    assert "Router" not in [part.label for part in parts]
    assert parts[-1].plain_ms == pytest.approx(PLAIN_S["router"] * 1e3)
    drawn = {bar.name: bar for bar in components_chart(TIMES, n_draft=3, batch_size=16).data}
    assert list(drawn["with K = 3"].x) == [part.round_ms for part in parts]
    assert list(drawn["without drafts"].y) == [part.label for part in parts]


def everyone() -> dict[str, go.Figure]:
    return {
        "speedup": speedup(compare=(1, 4)),
        "components": components_chart(TIMES, n_draft=3, batch_size=16),
    }


@pytest.mark.parametrize("name", list(everyone()))
def test_each_chart_has_units_in_its_title_and_the_colour_blind_safe_palette(name: str) -> None:
    figure = everyone()[name]
    assert re.search(r"\(×\)|\(ms\)", figure.layout.title.text)
    allowed = {color.lower() for color in (*SERIES, NEUTRAL)} | {"rgba(0,0,0,0)"}
    assert set(re.findall(r"#[0-9a-f]{6}|rgba\([^)]*\)", str(figure.to_dict()["data"]).lower())) <= allowed


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Ratio of the relative luminances of two colours of 8-bit sRGB (WCAG 2.2, 1.4.3)."""
    part = np.array([one, other]) / 255.0
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((light + 0.05) / (dark + 0.05))


@pytest.mark.parametrize("page", [(255, 255, 255), (23, 22, 20)])
def test_the_band_and_the_slowdown_stand_out_from_a_light_and_a_dark_page(page: tuple[int, int, int]) -> None:
    drawn = speedup()
    band = next(item for item in drawn.data if item.name == "Likely range (80%)")
    slower = next(shape for shape in drawn.layout.shapes if shape.type == "rect" and shape.y1 == 1.0)
    for fill in (band, slower):
        mixed = fill.opacity * rgb(fill.fillcolor) + (1 - fill.opacity) * np.array(page)
        assert contrast(mixed, np.array(page)) > 1.2


def test_validation_charts_say_how_many_rows_they_judge() -> None:
    _, judged = read_judged()
    chart = predicted_chart(judged).figure
    assert sum(len(item.x) for item in chart.data if item.mode == "markers") == len(judged)
    groups = pd.DataFrame(
        {
            "group": ["all", "one"],
            "n": [20, 3],
            "coverage": [0.8, 0.4],
            "median_error": [0.07, 0.3],
            "laboratories": [3, 1],
            "width": [0.5, 0.7],
        }
    )
    by_engine = predicted_chart(judged, "engine")
    assert len({item.name for item in by_engine.figure.data if item.showlegend is not False}) > 2
    drawn, said = coverage_chart(groups).figure.data
    assert list(said.text) == ["80% in ±25%<br>error 7%", "40% in ±35%<br>error 30%"]
    assert "20 rows, 3 labs" in drawn.y[0]
    assert "20" in coverage_chart(groups).alt
    assert "median error is 7%" in coverage_chart(groups).alt


def test_stated_chances_have_the_interval_of_so_many_rows() -> None:
    _, judged = read_judged()
    kept = chances_kept(judged)
    points = chances_chart(kept).figure.data[1]
    assert list(points.y) == list(kept["happened"])
    share, n = kept["happened"].iloc[0], kept["n"].iloc[0]
    assert points.error_y.array[0] == pytest.approx(1.2816 * (share * (1 - share) / n) ** 0.5)
    assert points.text[0] == f"{n:,}"
