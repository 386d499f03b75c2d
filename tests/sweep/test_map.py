"""The map of a sweep: its cells are the recommended rows, and what is chosen is in the grid."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.answers.explore.files import MAX_SIDE, choices, default_axes, sweep_map, view_of
from advisor.show.words.sweep import map_table, map_text
from tests.sweep.made_up import frame_of, grid, impossible, row, sweep


def test_cells_are_the_recommended_rows_of_the_two_settings() -> None:
    frame = grid()
    found = sweep_map(frame, "batch_size", "hardware_id", {"model_id": "big"})
    assert (found.x_values, found.y_values) == ((1, 8), ("h100-sxm", "b200-sxm"))
    for at, hardware in enumerate(found.y_values):
        for across, batch in enumerate(found.x_values):
            one = frame.loc[found.row[at, across]]
            assert (one["model_id"], one["hardware_id"], one["batch_size"]) == ("big", hardware, batch)
            assert one["recommended"]
    assert found.fits.tolist() == [[False, False], [True, True]]
    assert map_table(found)[1] == [("h100-sxm", "-", "-"), ("b200-sxm", "1.10x, K 1", "1.10x, K 1")]
    assert map_text(found) == "Speedup at the recommended K by Batch and Accelerator, at Model big."


def test_what_the_grid_has_not_is_an_empty_cell_and_what_cannot_be_no_axis() -> None:
    frame = pd.concat([grid(), frame_of(row("small", "b200-sxm", 64, 1), impossible("odd", "h", 512, "no"))])
    found = sweep_map(frame.reset_index(drop=True), "batch_size", "hardware_id", {"model_id": "small"})
    assert found.x_values == (1, 8, 64)
    assert found.has.tolist() == [[True, True, False], [True, True, True]]
    assert np.isnan(found.values("speedup")[0, 2])


def test_a_wish_that_the_grid_has_not_falls_back_to_what_goes_with_the_choices_before() -> None:
    frame = frame_of(
        *(row("small", "x", b, 1) for b in (1, 8)), *(row("big", "y", b, 1, engine="sglang") for b in (1, 8))
    )
    frame = pd.concat([frame, frame_of(row("big", "x", 1, 1, engine="sglang"))], ignore_index=True)
    found = choices(frame, "batch_size", "hardware_id", {"model_id": "nobody"})
    assert found["model_id"] == (["small", "big"], "small")
    found = choices(frame, "batch_size", "model_id", {"hardware_id": "y"})
    assert found["hardware_id"] == (["x", "y"], "y")


def test_a_sweep_of_one_axis_has_no_map_and_long_axes_are_cut() -> None:
    one = frame_of(*(row("m", "h", batch, 1) for batch in (1, 2)))
    assert default_axes(one) is None
    assert view_of(sweep(one), None, {}).map is None
    long = frame_of(*(row("m", f"h{at}", batch, 1) for at in range(MAX_SIDE + 3) for batch in (1, 2)))
    found = view_of(sweep(long), None, {}).map
    assert found is not None
    assert (found.row.shape, found.left_out) == ((MAX_SIDE, 2), 3)


def test_the_first_map_has_the_batch_across_and_the_wish_fixed() -> None:
    found = view_of(sweep(), None, {"hardware_id": "b200-sxm", "model_id": "big"}).map
    assert found is not None
    assert (found.x, found.y, found.fixed) == ("batch_size", "hardware_id", {"model_id": "big"})
