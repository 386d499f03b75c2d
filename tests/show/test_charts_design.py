"""Chart builders of the design search, on hand-made sweeps: values, marks, what does not fit, findings in words."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.answers.design.candidates import DesignCurve, Line
from advisor.answers.design.grid import Mixes
from advisor.answers.design.search import DesignLine, HeatMap
from advisor.show.charts.design import (
    _AROUND_ONE,
    _CELL_TEXT,
    _SCALE,
    Mark,
    Quantity,
    design_curves_chart,
    granularity_chart,
    heat_map_chart,
    pareto_chart,
    shared_sweep_chart,
)
from advisor.show.charts.figure import NEUTRAL, SERIES, Chart
from advisor.show.words import design as design_words

BATCHES = np.array([1.0, 16.0, 256.0])
BASELINE_TPOT_S = np.array([2e-3, 4e-3, 16e-3])


def sweep() -> DesignLine:
    """Four designs; shared experts help at batch 1 and hurt at batch 16; the last fits no batch of 256."""
    return DesignLine(
        mix=Mixes(np.array([8.0, 7.0, 6.0, 5.0]), np.array([4.0, 3.0, 2.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])),
        expert_width=np.full(4, 768.0),
        batches=BATCHES,
        speedup=np.array([[1.4, 1.5, 1.6, 1.7], [2.0, 1.9, 1.8, 1.7], [1.2, 1.2, 1.2, 1.3]]),
        tpot_s=np.array([[2.0, 1.9, 1.8, 1.7], [4.0, 4.1, 4.2, 4.3], [16.0, 16.0, 16.0, 12.0]]) * 1e-3,
        n_draft=np.full((3, 4), 3, np.int16),
        quality_ratio=np.ones(4),
        loss_difference=np.array([0.0, -0.001, 0.0, 0.002]),
        largest_batch=np.array([999.0, 999.0, 999.0, 100.0]),
    )


def heat(**overrides: object) -> Chart:
    found = HeatMap(
        ratio=np.array([0.0625, 0.125]),
        batches=BATCHES,
        speedup=np.array([[1.5, 1.7, 2.0], [1.6, 1.9, np.nan]]),
        tpot_s=np.array([[2.0, 4.4, 12.0], [1.8, 4.0, np.nan]]) * 1e-3,
        design=np.array([[10, 11, 12], [20, 21, -1]]),
    )
    settings = {"baseline_ratio": 0.13, "recommended_ratio": 0.06, "batches": (16.0,), "describe": "design {}".format}
    return heat_map_chart(found, **(settings | overrides))


def front() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "design": ["large", "middle", "small"],
            "index": [7, 8, 9],
            "quality_ratio": [1.4, 1.0, 0.7],
            "objective": [1.5, 1.8, 2.1],
        }
    )


MARKS = [
    Mark("recommended", "recommended", 0.99, 1.8, 8),
    Mark("cautious", "cautious", 1.05, 1.7, 5),
    Mark("baseline", "baseline", 1.0, 1.6, -1),
]


def pareto(marks: list[Mark] = MARKS) -> Chart:
    return pareto_chart(front(), marks, objective="Speedup", objective_unit="x", quality_eps=0.02)


def shared(**overrides: object) -> Chart:
    settings = {"batches": BATCHES.tolist(), "baseline_shared": 1.0} | overrides
    return shared_sweep_chart(sweep(), **settings)


def granularity(**overrides: object) -> Chart:
    settings = {"batches": [1.0, 16.0], "baseline_experts": 7.0} | overrides
    return granularity_chart(sweep(), **settings)


def everyone() -> dict[str, Chart]:
    times = {"baseline_tpot_s": BASELINE_TPOT_S}
    return {
        "heat": heat(),
        "heat, time": heat(**times),
        "shared": shared(),
        "shared, time": shared(**times),
        "granularity": granularity(),
        "pareto": pareto(),
    }


@pytest.mark.parametrize("name", list(everyone()))
def test_each_chart_has_a_unit_in_its_title_a_finding_with_numbers_and_data(name: str) -> None:
    chart = everyone()[name]
    assert re.search(r"\(x\)|\(baseline = 1\)", chart.figure.layout.title.text)
    assert len(re.findall(r"\d", chart.alt)) >= 4
    assert len(chart.data) > 1
    assert "nan" not in chart.alt


def test_the_map_holds_the_speedups_and_names_each_cell_s_design() -> None:
    cells, points = heat().figure.data
    np.testing.assert_array_equal(cells.z, [[1.5, 1.7, 2.0], [1.6, 1.9, np.nan]])
    named = {(x, y): tuple(data) for x, y, data in zip(points.x, points.y, points.customdata, strict=True)}
    assert named[1, 0] == ("11", "design 11", "1.700", "16", "4.40", "1.70")
    assert (2, 1) not in named, "nothing fits there, so there is nothing to pick"


def test_the_map_frames_the_recommended_row_at_the_target_batch_and_marks_the_baseline_s() -> None:
    chart = heat()
    (frame,) = chart.figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 1.5, -0.5, 0.5)
    labels = chart.figure.layout.yaxis.ticktext
    assert ["baseline" in label for label in labels] == [False, True]
    assert not heat(recommended_ratio=None).figure.layout.shapes


def test_the_map_of_speeds_is_relative_to_the_baseline_and_its_colours_reach_as_far_down_as_up() -> None:
    chart = heat(baseline_tpot_s=BASELINE_TPOT_S)
    cells = chart.figure.data[0]
    np.testing.assert_allclose(cells.z[0], [1.0, 1 / 1.1, 1 / 0.75])
    assert "at batch 1 best with k/N 12.5%: 1.11" in chart.alt
    assert cells.zmax == pytest.approx(1 / 0.75), "no value is cut off"
    assert cells.zmin + cells.zmax == pytest.approx(2.0), "white is the baseline"


def test_a_batch_at_which_nothing_fits_is_said_in_words() -> None:
    empty = HeatMap(
        np.array([0.1]),
        BATCHES,
        np.array([[1.5, 1.6, np.nan]]),
        np.array([[1e-3, 2e-3, np.nan]]),
        np.array([[1, 2, -1]]),
    )
    chart = heat_map_chart(empty, baseline_ratio=0.1)
    assert list(chart.figure.layout.xaxis.ticktext) == ["1", "16"]
    assert chart.left_out == "Left out: batch 256, where nothing fits in memory."
    assert chart.alt.endswith(chart.left_out)
    assert 256 in set(chart.data["batch_size"]), "the data keep what the axis leaves out"


def test_a_map_in_which_nothing_fits_keeps_its_axis() -> None:
    nothing = HeatMap(np.array([0.1]), BATCHES, np.full((1, 3), np.nan), np.full((1, 3), np.nan), np.full((1, 3), -1))
    chart = heat_map_chart(nothing, baseline_ratio=0.1)
    assert len(chart.figure.layout.xaxis.ticktext) == 3
    assert "at batch 1 nothing fits" in chart.alt


def test_cell_text_has_contrast_on_all_of_the_scale() -> None:
    def luminance(color: str) -> float:
        channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    ink = luminance(_CELL_TEXT)
    levels = [luminance(color) for color in _SCALE]
    around = [luminance(color) for color in _AROUND_ONE]
    assert all((level + 0.05) / (ink + 0.05) >= 4.5 for level in (*levels, *around))
    assert levels == sorted(levels, reverse=True)
    assert max(around) == around[1], "white is the baseline"
    assert not {*_SCALE, *_AROUND_ONE} & {*SERIES}, "these follow the theme"


def test_the_shared_sweep_draws_each_batch_and_leaves_out_what_does_not_fit() -> None:
    chart = shared()
    assert [line.name for line in chart.figure.data] == ["batch 1", "batch 16", "batch 256"]
    np.testing.assert_array_equal(chart.figure.data[0].y, [1.4, 1.5, 1.6, 1.7])
    assert np.isnan(chart.figure.data[2].y[3])
    assert not chart.data["fits_in_memory"].all()
    assert len({(line.line.dash, line.marker.symbol) for line in chart.figure.data}) == 3


def test_the_shared_sweep_says_which_direction_helps_at_low_and_at_high_batch() -> None:
    alt = shared().alt
    assert "at batch 1 best with 3 shared: 1.70, baseline (1) 1.50" in alt
    assert "at batch 16 best with 0 shared: 2.00, baseline (1) 1.90" in alt


def test_a_batch_that_no_design_of_a_sweep_fits_is_said_not_drawn() -> None:
    found = sweep()
    full = DesignLine(**{**vars(found), "largest_batch": np.full(4, 20.0)})
    chart = shared_sweep_chart(full, BATCHES.tolist(), baseline_shared=0.0)
    assert [line.name for line in chart.figure.data] == ["batch 1", "batch 16"]
    assert "batch 256 does not fit in memory" in chart.alt


def test_a_design_with_no_point_at_the_batches_drawn_has_no_place_on_the_axis() -> None:
    chart = shared(batches=[256.0])
    assert list(chart.figure.layout.xaxis.ticktext) == ["0", "1", "2"]
    assert chart.left_out == "Left out: 3, where nothing fits in memory."
    assert chart.left_out in chart.alt
    assert len(chart.data) == 12, "the data keep what the axis leaves out"


def test_the_baseline_keeps_its_place_and_its_line_where_it_has_no_point() -> None:
    chart = shared(batches=[256.0], baseline_shared=3.0)
    assert list(chart.figure.layout.xaxis.ticktext) == ["0", "1", "2", "3"]
    assert chart.figure.layout.shapes[0].x0 == 3
    first_missing = sweep()
    moved = DesignLine(**{**vars(first_missing), "largest_batch": np.array([100.0, 999.0, 999.0, 999.0])})
    chart = shared_sweep_chart(moved, [256.0], baseline_shared=1.0)
    assert list(chart.figure.layout.xaxis.ticktext) == ["1", "2", "3"]
    assert chart.figure.layout.shapes[0].x0 == 0


def test_times_of_a_sweep_are_relative_to_the_baseline_at_the_same_batch() -> None:
    chart = shared(baseline_tpot_s=BASELINE_TPOT_S)
    np.testing.assert_allclose(chart.figure.data[1].y, [1.0, 1.025, 1.05, 1.075])
    assert "at batch 1 best with 3 shared: 0.85" in chart.alt


def test_granularity_is_labelled_by_experts_and_active_experts_and_marks_the_baseline() -> None:
    chart = granularity()
    assert list(chart.figure.layout.xaxis.ticktext) == ["8/<br>4", "7/<br>3", "6/<br>2", "5/<br>1"]
    assert [shape.x0 for shape in chart.figure.layout.shapes] == [1]
    assert not granularity(baseline_experts=99.0).figure.layout.shapes


def test_the_sweep_s_data_has_one_row_for_each_design_and_batch() -> None:
    data = shared().data
    assert len(data) == 12
    row = data[(data["n_shared"] == 2) & (data["batch_size"] == 16)].iloc[0]
    assert (row["speedup"], row["n_experts"]) == (1.8, 6.0)
    assert row["tpot_ms"] == pytest.approx(4.2)


def test_the_quality_chart_marks_each_design_at_its_place_with_its_own_symbol() -> None:
    drawn = {trace.name: trace for trace in pareto().figure.data}
    assert set(drawn) == {"best trade-offs", "recommended", "cautious", "baseline"}
    np.testing.assert_allclose(drawn["best trade-offs"].x, [140, 100, 70])
    assert (drawn["cautious"].x[0], drawn["cautious"].y[0]) == (105.0, 1.7)
    assert len({drawn[mark.name].marker.symbol for mark in MARKS}) == 3


def test_points_of_the_quality_chart_carry_the_design_a_click_picks() -> None:
    drawn = {trace.name: trace for trace in pareto().figure.data}
    assert [row[0] for row in drawn["best trade-offs"].customdata] == ["7", "8", "9"]
    assert drawn["cautious"].customdata[0][0] == "5"
    assert pareto().figure.layout.clickmode == "event+select"


def test_the_quality_chart_draws_the_line_of_equal_quality() -> None:
    (line,) = pareto().figure.layout.shapes
    assert line.x0 == pytest.approx(98.0)


def test_symbols_do_not_depend_on_which_marks_are_there() -> None:
    alone = {trace.name: trace for trace in pareto([MARKS[2]]).figure.data}
    assert alone["baseline"].marker.symbol == "square"


@pytest.mark.parametrize("name", [name for name in everyone() if not name.startswith("heat")])
def test_series_use_only_the_colour_blind_safe_palette(name: str) -> None:
    allowed = {color.lower() for color in (*SERIES, NEUTRAL)}
    used = set(re.findall(r"#[0-9a-f]{6}", str(everyone()[name].figure.to_dict()["data"]).lower()))
    assert used <= allowed


def test_the_sentences_of_a_design_do_not_import_streamlit() -> None:
    tree = ast.parse(Path(design_words.__file__).read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not any(str(module).startswith("streamlit") for module in found)


def design_curve(name: str, scale: float, largest: int) -> DesignCurve:
    """Three batches; faster than the baseline by `scale`."""

    def line(values: list[float]) -> Line:
        value = np.array(values)
        return Line(value, 0.9 * value, 1.1 * value)

    return DesignCurve(
        name,
        -1,
        f"{name} design",
        BATCHES,
        np.array([3, 3, 2], np.int16),
        line([1.5, 2.0, 1.2]),
        line((BASELINE_TPOT_S / scale).tolist()),
        line([scale] * 3),
        largest,
    )


@pytest.mark.parametrize(
    ("quantity", "own", "unit"), [("speedup", 2.0, "x"), ("tpot", 3.2, " ms"), ("gain", 1.25, "x")]
)
def test_designs_are_drawn_against_batch_as_far_as_they_fit_with_bands_and_a_finding(
    quantity: Quantity, own: float, unit: str
) -> None:
    curves = [design_curve("baseline", 1.0, 999), design_curve("recommended", 1.25, 100), design_curve("picked", 1, 0)]
    chart = design_curves_chart(curves, [16], quantity)
    lines = {trace.name: trace for trace in chart.figure.data if trace.mode == "lines"}
    assert list(lines) == ["baseline: baseline design", "recommended: recommended design"]
    assert list(lines["recommended: recommended design"].x) == [1, 16], "batch 256 does not fit it"
    assert lines["recommended: recommended design"].y[1] == pytest.approx(own)
    assert f"recommended {own:.2f}{unit} ({0.9 * own:.2f} to {1.1 * own:.2f})" in chart.alt
    assert "Left out: picked, which fits no batch in memory." in chart.alt
    assert len(chart.data) == 9
    assert chart.data[chart.data["design"] == "recommended"]["fits_in_memory"].tolist() == [True, True, False]
    assert len([shape for shape in chart.figure.layout.shapes if shape.x0 == 16]) == 1
