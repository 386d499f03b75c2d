"""Charts of the user's own measurements: the figures hold the numbers and the alt text states the finding."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.refit import before_after, curve_groups, refit_chosen, select_points
from advisor.physics.routing_trace import fit_sequences
from advisor.show.charts.measured import before_after_chart, union_chart
from tests.measured.refit_synthetic import synthetic_points
from tests.measured.test_ingest_traces import N, synthetic


@pytest.fixture(scope="module")
def fitted():
    frame = synthetic_points((1, 2, 4, 8, 16, 32), (1, 3), truth={"round_host": 4.0})
    frame.loc[6, "speedup"] *= 3
    points, refused = select_points(frame)
    return points, refit_chosen(points, refused)


@pytest.fixture(scope="module")
def trace():
    return fit_sequences(list(synthetic()), N)


def test_the_after_curve_passes_nearer_to_the_points_and_the_outlier_is_drawn_apart(fitted):
    points, result = fitted
    groups = curve_groups(result)
    assert {group[2] for group in groups} == {1, 3}
    curves = before_after(points, result, next(group for group in groups if group[2] == 1))
    used = curves.points[curves.points["used"]]
    off = [
        np.abs(np.interp(used["batch_size"], curves.batches, y) - used["measured"]).mean()
        for y in (curves.before, curves.after)
    ]
    assert off[1] < off[0]
    chart = before_after_chart(curves)
    assert {"before", "after", "your points", "set aside"} <= {line.name for line in chart.figure.data}
    assert "changes the curve by -" in chart.alt
    assert list(chart.data.columns) == ["batch_size", "before", "after", "after_low", "after_high"]


def test_a_curve_of_step_times_is_in_milliseconds():
    frame = synthetic_points((1, 4, 16), (3,), quantity="step_time_s")
    points, refused = select_points(frame)
    result = refit_chosen(points, refused)
    curves = before_after(points, result, curve_groups(result)[0])
    chart = before_after_chart(curves)
    drawn = next(line for line in chart.figure.data if line.name == "before")
    assert np.asarray(drawn.y) == pytest.approx(curves.before * 1e3)
    assert "(ms)" in chart.figure.layout.yaxis.title.text


def test_touched_experts_have_their_finding(trace):
    assert f"{trace.largest_error:.1%}" in union_chart(trace.unions).alt
    assert union_chart(trace.unions).figure.layout.yaxis.title.text == "Experts", "a count has no unit"
