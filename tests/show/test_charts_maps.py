"""Maps as charts: cells, colours, edges, what the pointer says, what is left out, the finding in
words, the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.answers.explore.cells import Explored
from advisor.answers.explore.questions import SweepMap, sweep_map
from advisor.show.charts.figure import CELL_TEXT, GAIN_SCALE
from advisor.show.charts.maps import (
    explored_chart,
    explored_table,
    sweep_chart,
)
from tests.answers.made_up_sweep import frame_of, grid
from tests.answers.made_up_sweep import row as sweep_row
from tests.show.test_charts import contrast, rgb


def test_cells_say_speedup_and_k_and_the_pointer_band_odds_and_tier() -> None:
    chart = sweep_chart(sweep_map(grid(), "batch_size", "hardware_id", {"model_id": "big"}))
    drawn = chart.figure.data[0]
    assert [list(line) for line in drawn.text] == [["", ""], ["1.10×<br>K 1", "1.10×<br>K 1"]]
    for told in ("1.10×", "(1.00 to 1.20)", "K = 1", "gains in 90%", "ms per token", "fitted"):
        assert told in drawn.customdata[1][0]
    assert np.isnan(np.asarray(drawn.z, float)[0]).all()
    assert chart.left_out == "Empty cells do not fit in memory."
    assert "Model big" in chart.alt
    assert "The largest is 1.10x at b200-sxm" in chart.alt
    assert len(chart.data) == 4
    assert set(chart.data["fits"]) == {True, False}


def test_one_is_in_the_middle_of_the_colours_and_text_is_read_on_each() -> None:
    frame = frame_of(
        *(
            sweep_row("m", hw, b, 1, speedup=s)
            for hw, b, s in (("x", 1, 0.5), ("x", 8, 1.2), ("y", 1, 1), ("y", 8, 1.1))
        )
    )
    drawn = sweep_chart(sweep_map(frame, "batch_size", "hardware_id", {})).figure.data[0]
    assert (drawn.zmin + drawn.zmax) / 2 == pytest.approx(1.0)
    assert drawn.zmin == pytest.approx(0.5)
    assert all(contrast(rgb(CELL_TEXT), rgb(color)) >= 7 for _, color in GAIN_SCALE)


def wide_map(batches: int = 11) -> SweepMap:
    rows = [
        sweep_row("m", hw, batch, 1)
        for batch in range(1, batches + 1)
        for hw in "xy"
        if (hw, batch) != ("y", 3)
    ]
    return sweep_map(frame_of(*rows), "batch_size", "hardware_id", {})


def test_a_wide_map_keeps_its_cells_readable_and_says_what_is_not_in_the_grid() -> None:
    chart = sweep_chart(wide_map())
    assert chart.figure.data[0].text[0][0] == "1.10"
    across = sweep_map(
        frame_of(sweep_row("m", "rtx-pro-6000", 1, 1)), "hardware_id", "batch_size", {}
    )
    assert sweep_chart(across).figure.layout.xaxis.ticktext == ("rtx-<br>pro-6000",)
    full = sweep_chart(wide_map(2))
    assert (full.alt, full.figure.data[0].text[0][0]) == (full.alt.strip(), "1.10×<br>K 1")
    assert sweep_chart(wide_map(10)).figure.data[0].text[0][0] == "1.10×<br>K 1"
    assert chart.left_out == "Empty cells are not in the grid."


FIGURES = {
    "speedup": np.array([[0.8, 1.5], [np.nan, 2.25]]),
    "n_draft": np.array([[0, 3], [np.nan, 4]]),
    "tpot_ms": np.array([[12.345, 6.25], [np.nan, 6.0]]),
    "tokens_per_s_per_gpu": np.array([[1234.5, 12345.0], [np.nan, 8.0]]),
}
EXPLORED = Explored("Batch", "Context", ("1", "16"), ("512", "2,048"), FIGURES)


def test_a_map_of_two_settings_shows_each_cell_and_says_where_the_largest_speedup_is() -> None:
    figures = FIGURES
    found = EXPLORED
    for shown, values, cells in (
        ("Speedup", figures["speedup"], [["0.80", "1.50"], ["–", "2.25"]]),
        ("Best K", figures["n_draft"], [["0", "3"], ["–", "4"]]),
        ("ms/token", figures["tpot_ms"], [["12.3", "6.25"], ["–", "6"]]),
        ("Tokens/s/GPU", figures["tokens_per_s_per_gpu"], [["1,234", "12,345"], ["–", "8"]]),
    ):
        chart = explored_chart(found, shown)
        drawn = chart.figure.data[0]
        assert [list(row) for row in drawn.text] == cells
        np.testing.assert_array_equal(np.array(drawn.z, float), figures["speedup"])
        assert (drawn.zmin, drawn.zmax) == (-0.25, 2.25)
        assert chart.alt == (
            f"{shown} by batch and context. Largest speedup 2.25 times at Batch 16, Context 2,048."
        )
        assert chart.data.columns.tolist() == ["Context", "1", "16"]
        assert chart.data["Context"].tolist() == ["512", "2,048"]
        assert explored_table(found, shown).cells == [
            (name, *row) for name, row in zip(found.rows, cells, strict=True)
        ]
        np.testing.assert_array_equal(chart.data[["1", "16"]].to_numpy(), values)
    empty = replace(found, values={name: np.full((2, 2), np.nan) for name in figures})
    assert explored_chart(empty, "Speedup").alt == "Speedup by batch and context. No cell fits."
