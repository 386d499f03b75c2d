"""The chart of speedup over batch and context: a cell for each, none where memory ends, the scenario's own framed."""

from __future__ import annotations

import numpy as np

from advisor.answers.explore.context import context_map
from advisor.predict.scenario import build_scenario
from advisor.show.charts.maps import context_chart


def test_every_cell_that_fits_shows_its_speedup_and_k() -> None:
    scenario = build_scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3", batch_size=16)
    found = context_map(scenario, (1024, 131072), (1, 256))
    chart = context_chart(found, scenario.context_tokens, 16)
    cells = chart.figure.data[0]
    assert (np.isnan(np.array(cells.z, float)) == ~found.fits).all()
    row, column = found.at(1024, 1)
    assert cells.text[row][column] == f"{found.speedup[row, column]:.2f}x<br>K {found.n_draft[row, column]}"
    assert cells.zmin + cells.zmax == 2.0  # even at 1x
    frame = chart.figure.layout.shapes[0]
    assert (frame.x0 + 0.5, frame.y0 + 0.5) == tuple(reversed(found.at(scenario.context_tokens, 16)))
    assert len(chart.data) == found.fits.size
    assert "do not fit" in chart.left_out
    assert chart.alt.startswith("Drafting is recommended")
