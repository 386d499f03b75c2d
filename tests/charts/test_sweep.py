"""The map of a sweep as a chart: cells, colours, what the pointer says, what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.explore.files import sweep_map
from advisor.show.charts.figure import CELL_TEXT, GAIN_SCALE
from advisor.show.charts.maps import sweep_chart
from tests.sweep.made_up import frame_of, grid, row


def contrast(one: str, other: str) -> float:
    """Ratio of luminances (WCAG 2.2, 1.4.3)."""

    def luminance(color: str) -> float:
        parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_cells_say_speedup_and_k_and_the_pointer_band_odds_and_tier() -> None:
    chart = sweep_chart(sweep_map(grid(), "batch_size", "hardware_id", {"model_id": "big"}))
    drawn = chart.figure.data[0]
    assert [list(line) for line in drawn.text] == [["", ""], ["1.10x<br>K 1", "1.10x<br>K 1"]]
    for told in ("1.10x", "(1.00 to 1.20)", "K = 1", "gains in 90%", "ms per token", "fitted"):
        assert told in drawn.customdata[1][0]
    assert np.isnan(np.asarray(drawn.z, float)[0]).all()
    assert chart.left_out == "Empty cells do not fit in memory."
    assert "Model big" in chart.alt
    assert "the largest is 1.10x at b200-sxm" in chart.alt.lower()
    assert len(chart.data) == 4
    assert set(chart.data["fits"]) == {True, False}


def test_one_is_in_the_middle_of_the_colours_and_text_is_read_on_each() -> None:
    frame = frame_of(
        *(row("m", hw, b, 1, speedup=s) for hw, b, s in (("x", 1, 0.5), ("x", 8, 1.2), ("y", 1, 1), ("y", 8, 1.1)))
    )
    drawn = sweep_chart(sweep_map(frame, "batch_size", "hardware_id", {})).figure.data[0]
    assert (drawn.zmin + drawn.zmax) / 2 == pytest.approx(1.0)
    assert drawn.zmin == pytest.approx(0.5)
    assert all(contrast(CELL_TEXT, color) >= 7 for _, color in GAIN_SCALE)


def test_a_wide_map_keeps_its_cells_readable_and_says_what_is_not_in_the_grid() -> None:
    rows = [row("m", hw, batch, 1) for batch in range(1, 13) for hw in "xy" if (hw, batch) != ("y", 3)]
    chart = sweep_chart(sweep_map(frame_of(*rows), "batch_size", "hardware_id", {}))
    assert chart.figure.data[0].text[0][0] == "1.10"
    assert chart.left_out == "Empty cells are not in the grid."
