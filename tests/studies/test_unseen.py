"""docs/validation.md: its arithmetic, its rivals, and that it is not stale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from advisor.measured.observations import NAMES
from advisor.measured.points import Point, judged_rows, published_rows
from advisor.measured.validation import read_judged
from studies.fits.held_out import held_out, judge
from studies.published import laboratory_of, read_numbers
from studies.validation.outside import external_points, moesd_cells
from studies.validation.report import MOESD, REPORT, data_hash
from studies.validation.tables import GateLine, shape_error, speedup_gates
from studies.validation.unseen import (
    with_batch_times_tokens,
    with_uniform_experts,
)
from tests.published import judged


@pytest.fixture(scope="module")
def points() -> list[Point]:
    return list(judged())


def test_the_document_rests_on_the_data_and_fits_that_are_here() -> None:
    assert f"Data and fits {data_hash()}" in REPORT.read_text(encoding="utf-8"), (
        "stale; run `make validation`"
    )


def test_the_judged_rows_that_reports_read_rest_on_the_data_and_fits_that_are_here() -> None:
    behind, rows = read_judged()
    assert behind == data_hash(), "stale; run `make validation`"
    assert len(rows) > 20
    assert (rows["predicted_low"] <= rows["predicted_speedup"]).all()
    assert (rows["predicted_speedup"] <= rows["predicted_high"]).all()


def test_judged_rows_are_what_the_code_predicts_today_and_those_of_the_document() -> None:
    _, rows = read_judged()
    inside = rows["measured"].between(rows["predicted_low"], rows["predicted_high"])
    width = (rows["predicted_high"] - rows["predicted_low"]) / rows["predicted_speedup"]
    errors = (rows["predicted_speedup"] / rows["measured"] - 1).abs()
    line = next(
        line
        for line in REPORT.read_text(encoding="utf-8").splitlines()
        if line.startswith("All rows: ")
    )
    laboratory = rows["source_title"].map(laboratory_of)

    def mean(values: pd.Series) -> float:
        return 100 * float(values.groupby(laboratory).mean().mean())

    assert f"n {len(rows)}, sources {laboratory.nunique()}, mean error {mean(errors):.1f} %" in line
    assert f"in band {mean(inside):.1f} %, width {mean(width):.1f} %" in line
    own = rows[rows["source_title"] == rows["source_title"].value_counts().index[-1]]
    frame = judged_rows()
    again = judge(frame[frame["source_title"] == own["source_title"].iloc[0]])
    assert len(again) == len(own)
    np.testing.assert_allclose(again["predicted_speedup"], own["predicted_speedup"], rtol=2e-3)
    np.testing.assert_allclose(again["measured"], own["measured"])


def test_a_row_has_one_tier_on_the_page_and_in_the_document() -> None:
    """That of the prediction that judges it, however the row was read: constants decide which
    components count."""
    title = "rtx6kpro wiki: GLM-5.2 v14 full sweep decode"
    own = [replace(point, tier="measured") for point in judged() if point.source == title][::8]
    frame = judged_rows()
    page = judge(frame[frame["point_id"].isin([point.facts["point_id"] for point in own])])[
        "predicted_tier"
    ].tolist()
    assert held_out(own)["tier"].tolist() == page
    assert "measured" not in page


def test_a_gate_on_few_rows_or_sources_is_not_testable() -> None:
    assert GateLine("x", 0.05, 0.1, 19, 5).status == "not testable here"
    assert GateLine("x", 0.05, 0.1, 40, 2).status == "not testable here"
    assert GateLine("x", 0.05, 0.1, 40, 3).status == "met"
    assert GateLine("x", 0.15, 0.1, 40, 3).status == "missed"
    assert GateLine("x", 0.96, 0.95, 40, 3, at_most=False).status == "met"
    assert GateLine("x", None, 0.95, 40, 3).status == "not testable here"


def rows(**changes: object) -> pd.DataFrame:
    base = {
        "source": ["a"] * 3 + ["b"] * 3,
        "tier": "fitted",
        "known_class": True,
        "acceptance": "same_run",
        "measured": [1.0, 2.0, 3.0, 0.5, 2.0, 4.0],
        "predicted": [2.0, 4.0, 6.0, 1.1, 2.0, 4.0],
        "low": 0.9,
        "high": 3.5,
        "immature": False,
    }
    return pd.DataFrame(base | changes)


def test_the_shape_error_ignores_one_scale_per_source() -> None:
    error, n, sources = shape_error(rows())
    assert (n, sources) == (6, 2)
    assert error == pytest.approx(1.2 / 6)  # only b's first row is off, by 1.1 / 0.5 - 1
    assert shape_error(rows().head(2)) == (None, 0, 0)


def test_signs_are_counted_on_their_rows() -> None:
    lines = {line.what: line for line in speedup_gates(rows())}
    assert lines["sign, all rows"].figure == pytest.approx(
        4 / 6
    )  # 1.0 is not above 1, 0.5 is below
    assert lines["sign, rows below 1"].figure == 0.0


def test_uniform_experts_touch_more_at_small_batch(points: list[Point]) -> None:
    """Correlation lowers the count of distinct experts, so the uniform rival pays more to
    verify."""
    small = next(
        p for p in points if p.setup.architecture.moe and p.question.scenario.batch_size == 1
    )

    def round_in_plain_steps(point: Point) -> float:
        return float(point.observations.lower.sum() / point.observations.upper.sum())

    assert round_in_plain_steps(with_uniform_experts(small)) > round_in_plain_steps(small)


def test_charging_every_token_as_a_sequence_costs_at_least_as_much(points: list[Point]) -> None:
    # What verified tokens take beyond the kernels is no part of that step. Where the cache is read
    # again, the share stands on top of what measured layers already show of it; heads that read it
    # each are dearer than sequences.
    of_kernels = [name != "verified" for name in (*NAMES, "fixed")]
    again = {
        id(one) for one in points if one.setup.costs.reread_share or one.setup.costs.heads_apart
    }
    for point in (one for one in points[::7] if id(one) not in again):
        own = point.observations.lower[:, of_kernels].sum()
        own -= float(point.curve().round_components["verify_tokens"][0, 0])
        wide = with_batch_times_tokens(point).observations.lower[:, of_kernels].sum()
        assert wide >= own * 0.999


def test_every_moesd_cell_is_predicted_and_table_alone_decides_the_measured_value() -> None:
    published = read_numbers(MOESD)
    cells = moesd_cells(published.head(4))
    assert cells["measured"].tolist() == published["speedup_peak"].head(4).tolist()
    assert (cells["low"] <= cells["predicted"]).all()
    assert (cells["predicted"] <= cells["high"]).all()


def test_external_rows_take_the_gpus_whose_plain_step_is_nearest_to_the_published_one() -> None:
    frame = published_rows()
    bundle = frame[
        frame["source_title"].str.contains("SpecBundle") & (frame["model_id"] == "llama-3.1-70b")
    ].head(1)
    assert float(bundle["baseline_value"].iloc[0]) == pytest.approx(453.22)

    def gpus_at(throughput: float) -> int:
        (point,) = external_points(bundle.assign(baseline_value=str(throughput)))
        return point.question.scenario.n_gpus

    # 70 billion 16-bit weights: at least 29 ms a step on one H200, and far more than fits its
    # memory.
    assert gpus_at(8 / 0.025) == 2
    assert gpus_at(8 / 0.0127) == 4
    assert gpus_at(8 / 0.006) == 8
