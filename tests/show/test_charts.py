"""Chart builders: figures from values alone, units in the title, the finding in words, and the data behind it."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.answers.best_k import break_even_batch
from advisor.measured.validation import read_judged
from advisor.show.charts import speedup as charts
from advisor.show.charts.figure import NEUTRAL, SERIES, Chart
from advisor.show.charts.measured import coverage_chart, error_chart, predicted_chart
from advisor.show.charts.why import components_chart
from tests.pages.ui_fixtures import PLAIN_S, ROUND_S, hand_curve


def speedup(**overrides: object) -> Chart:
    settings = {"band_level": 0.8, "sweet_spot_batch": 16.0} | overrides
    return charts.speedup_chart(hand_curve(), 2, 64, **settings)


def trace(chart: Chart, name: str) -> object:
    found = [item for item in chart.figure.data if item.name == name]
    assert len(found) == 1, f"{name!r} is not among {[item.name for item in chart.figure.data]}"
    return found[0]


def test_speedup_is_drawn_over_a_log_batch_axis_with_its_values() -> None:
    chart, curve = speedup(), hand_curve()
    line = trace(chart, "K = 2")
    assert chart.figure.layout.xaxis.type == "log"
    np.testing.assert_array_equal(line.x, curve.batches)
    np.testing.assert_array_equal(line.y, curve.speedup[:, 2])


def test_the_band_runs_along_its_upper_edge_and_back_along_the_lower() -> None:
    curve = hand_curve()
    band = trace(speedup(), "Likely range (80%)")
    np.testing.assert_array_equal(band.y, np.concatenate([curve.high[:, 2], curve.low[::-1, 2]]))


def note(chart: Chart, words: str) -> object:
    found = [item for item in chart.figure.layout.annotations if words in item.text]
    assert len(found) == 1, f"{words!r} is not among {[item.text for item in chart.figure.layout.annotations]}"
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
    assert not any("breaks even" in item.text for item in beyond.figure.layout.annotations)
    tight = speedup(largest_batch=64)
    assert "above 1x as far as memory reaches" in tight.alt
    assert "slowdown within" in speedup().alt


def test_the_target_batch_is_a_line_across_the_plot_with_its_speedup() -> None:
    lines = [shape for shape in speedup().figure.layout.shapes if shape.type == "line" and shape.x0 == shape.x1]
    assert [shape.x0 for shape in lines] == [64]
    curve = hand_curve()
    here = float(curve.speedup[int(np.flatnonzero(curve.batches == 64)[0]), 2])
    assert note(speedup(), "batch 64").text == f"<b>batch 64: {here:.2f}×</b>"


def test_the_area_below_one_is_named_slower_than_plain_and_lies_in_view() -> None:
    drawn = speedup().figure
    area = next(shape for shape in drawn.layout.shapes if shape.type == "rect")
    low, high = drawn.layout.yaxis.range
    assert area.y1 == 1.0
    assert low < 1.0 < high
    assert note(speedup(), "slower than plain").y == 1.0


def test_batches_outside_the_data_are_shaded_from_the_first_flagged_one() -> None:
    curve = hand_curve()
    first = curve.batches[curve.extrapolated[:, 2]].min()
    assert note(speedup(), "outside the data")
    assert first in [shape.x0 for shape in speedup().figure.layout.shapes if shape.type == "rect"]


def test_nothing_is_shaded_inside_the_data() -> None:
    chart = charts.speedup_chart(hand_curve(extrapolated_from=10**9), 2, 64, band_level=0.8)
    assert "outside the data" not in [item.text for item in chart.figure.layout.annotations]


def test_batches_beyond_memory_are_shaded() -> None:
    drawn = speedup(largest_batch=4)
    assert 10 ** note(drawn, "does not fit").x == pytest.approx(4)
    assert 4 in [shape.x0 for shape in drawn.figure.layout.shapes if shape.type == "rect"]


def test_further_k_are_drawn_only_when_asked_for_and_differ_by_more_than_colour() -> None:
    assert "K = 4" not in [item.name for item in speedup().figure.data]
    chart = speedup(compare=(1, 4))
    assert trace(chart, "K = 1").line.dash != trace(chart, "K = 4").line.dash
    assert set(chart.data["n_draft"]) == {1, 2, 4}


def test_a_k_outside_the_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="K = 99 is not in the curve"):
        speedup(compare=(99,))


def test_the_alt_text_states_the_value_its_band_the_peak_and_where_it_stops_paying() -> None:
    curve = hand_curve()
    row = int(np.flatnonzero(curve.batches == 64)[0])
    alt = speedup().alt
    assert f"at batch 64 {curve.speedup[row, 2]:.2f}x" in alt
    assert f"{curve.low[row, 2]:.2f} to {curve.high[row, 2]:.2f}" in alt
    assert f"highest {curve.speedup[:, 2].max():.2f}x at batch 16" in alt
    assert "slowdown within batch" in alt


@pytest.mark.parametrize(("scale", "ending"), [(10.0, "stays above 1x"), (0.1, "slowdown at every batch")])
def test_the_alt_text_names_the_extremes(scale: float, ending: str) -> None:
    assert ending in charts.speedup_chart(hand_curve(scale=scale), 2, 64, band_level=0.8).alt


def test_the_data_behind_the_speedup_chart_has_its_numbers() -> None:
    curve, data = hand_curve(), speedup().data
    assert len(data) == len(curve.batches)
    np.testing.assert_array_equal(data["speedup"], curve.speedup[:, 2])
    np.testing.assert_allclose(data["tpot_ms"], curve.tpot_s[:, 2] * 1e3)


def test_components_are_shown_in_milliseconds_and_keep_the_whole_time() -> None:
    chart = components_chart(PLAIN_S, ROUND_S, n_draft=3, batch_size=16)
    assert chart.data["plain_step_ms"].sum() == pytest.approx(sum(PLAIN_S.values()) * 1e3)
    assert chart.data["round_ms"].sum() == pytest.approx(sum(ROUND_S.values()) * 1e3)
    assert chart.data["component"].iloc[0] == "Routed experts"
    assert "Routed experts" in chart.alt


def test_components_too_small_to_see_are_summed() -> None:
    chart = components_chart(PLAIN_S, ROUND_S, n_draft=3, batch_size=16)
    assert "Router" not in set(chart.data["component"])
    assert chart.data.set_index("component").loc["Rest", "plain_step_ms"] == pytest.approx(PLAIN_S["router"] * 1e3)


def everyone() -> dict[str, Chart]:
    return {
        "speedup": speedup(compare=(1, 4)),
        "components": components_chart(PLAIN_S, ROUND_S, n_draft=3, batch_size=16),
    }


@pytest.mark.parametrize("name", list(everyone()))
def test_each_chart_has_units_in_its_title_a_finding_with_numbers_and_data(name: str) -> None:
    chart = everyone()[name]
    assert re.search(r"\(×\)|\(ms\)|\(of \d+\)|in steps without", chart.figure.layout.title.text)
    assert len(re.findall(r"\d", chart.alt)) >= 3
    assert len(chart.data) > 1
    assert chart.data.select_dtypes("number").shape[1] >= 1


@pytest.mark.parametrize("name", list(everyone()))
def test_series_use_only_the_colour_blind_safe_palette(name: str) -> None:
    allowed = {color.lower() for color in (*SERIES, NEUTRAL)} | {"white"}
    allowed |= {"rgba(0,0,0,0)"}
    text = str(everyone()[name].figure.to_dict()["data"])
    used = set(re.findall(r"#[0-9a-f]{6}|rgba\([^)]*\)", text.lower()))
    assert used <= allowed


def test_chart_builders_do_not_import_streamlit() -> None:
    folder = Path(charts.__file__).parent
    for path in folder.glob("*.py"):
        names = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {
            node.module.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module
        }
        assert "streamlit" not in names


def luminance(channels: np.ndarray) -> float:
    """Relative luminance of 8-bit sRGB, WCAG 2.2."""
    part = channels / 255.0
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("page", [(255, 255, 255), (23, 22, 20)])
def test_the_band_and_the_slowdown_stand_out_from_a_light_and_a_dark_page(page: tuple[int, int, int]) -> None:
    drawn = speedup().figure
    band = next(item for item in drawn.data if item.name == "Likely range (80%)")
    slower = next(shape for shape in drawn.layout.shapes if shape.type == "rect" and shape.y1 == 1.0)
    for fill in (band, slower):
        color = [int(fill.fillcolor[i : i + 2], 16) for i in (1, 3, 5)]
        mixed = fill.opacity * np.array(color) + (1 - fill.opacity) * np.array(page)
        light, dark = sorted((luminance(mixed), luminance(np.array(page))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 1.2


def test_validation_charts_say_how_many_rows_they_judge() -> None:
    _, judged = read_judged()
    chart = predicted_chart(judged)
    assert sum(len(item.x) for item in chart.figure.data if item.mode == "markers") == len(judged)
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
    drawn = coverage_chart(groups).figure.data[0]
    assert list(drawn.text) == ["80% in ±25%", "40% in ±35%"]
    assert "20 rows, 3 labs" in drawn.y[0]
    assert "20" in coverage_chart(groups).alt
    assert "30%" in error_chart(groups).alt
