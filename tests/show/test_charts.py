"""Charts of measured and published runs say what they rest on."""

import numpy as np
import pandas as pd
import pytest

from advisor.measured.validation import chances_kept, read_judged
from advisor.show.charts.measured import chances_chart, coverage_chart, predicted_chart


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Ratio of the relative luminances of two colours of 8-bit sRGB (WCAG 2.2, 1.4.3)."""
    part = np.array([one, other]) / 255.0
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((light + 0.05) / (dark + 0.05))


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
