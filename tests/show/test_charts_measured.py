"""Charts of the user's own measurements: the figures hold the numbers and the alt text states the finding."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.refit import before_after, curve_groups, refit_chosen, select_points
from advisor.physics.routing_trace import fit_sequences, implied_overlaps
from advisor.show.charts.measured import before_after_chart, layer_chart, overlap_chart, residual_chart, union_chart
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


def test_residuals_show_both_arms_and_leave_out_what_was_set_aside(fitted):
    _, result = fitted
    chart = residual_chart(result)
    assert [len(line.x) for line in chart.figure.data] == [11, 11]
    assert f"own {result.own_errors.before.n} points" in chart.alt


def test_overlaps_are_drawn_beside_presets(trace):
    others = {"a preset": implied_overlaps(0.5, 0.2, 0.3, N, 4)}
    chart = overlap_chart(trace, others)
    assert {"your trace", "a preset", "unrelated tokens"} <= {line.name for line in chart.figure.data}
    assert f"{trace.fit.overlap_by_lag[0]:.1%}" in chart.alt


def test_a_preset_with_a_long_name_is_short_in_the_legend_and_whole_everywhere_else(trace):
    name = "Cohere production MoE, 128 routed experts top-8 (shared experts present, count not published)"
    chart = overlap_chart(trace, {name: implied_overlaps(0.5, 0.2, 0.3, N, 4)})
    line = next(line for line in chart.figure.data if line.name == "Cohere production MoE")
    assert f"<extra>{name}</extra>" in line.hovertemplate
    assert name in chart.alt
    assert name in chart.data
    longest = max(len(line.name) for line in chart.figure.data)
    assert chart.figure.layout.legend.entrywidth >= 5 * longest


def test_axes_of_shares_and_counts_name_no_unit(trace):
    assert overlap_chart(trace, {}).figure.layout.yaxis.title.text == "Share"
    assert union_chart(trace.unions).figure.layout.yaxis.title.text == "Experts"


def test_implied_overlaps_invert_the_fit(trace):
    fit = trace.fit
    implied = implied_overlaps(fit.load_cv, fit.affinity, fit.stickiness, N, 4)
    assert implied[0] == pytest.approx(fit.overlap_by_lag[0], abs=1e-9)
    assert np.mean(implied[3:]) == pytest.approx(np.mean(fit.overlap_by_lag[3:]), abs=0.005)


def test_touched_experts_and_layers_have_their_finding(trace):
    assert f"{trace.largest_error:.1%}" in union_chart(trace.unions).alt
    assert f"over {len(trace.layers)} layers" in layer_chart(trace).alt
