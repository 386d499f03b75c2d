"""What own runs do: rows of a configuration refitted and judged, and the figures behind the line of `advise`."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from advisor.answers.explore.own_runs import OWN_ROWS, OWN_RUNS, OwnRuns, read_own_runs, write_own_runs
from advisor.measured.points import Point
from advisor.prediction import AdvisorError
from studies.validation.own_runs import mature_points, own_run_rows, own_runs, own_runs_section
from studies.validation.report import judged_points


@pytest.fixture(scope="module")
def points() -> list[Point]:
    return mature_points(judged_points()[0])


def test_the_figures_that_ship_are_those_of_the_judged_rows(points: list[Point]) -> None:
    _, kinds = read_own_runs()
    again = {one.kind: one for one in own_runs(own_run_rows(points))}
    assert kinds.keys() == again.keys()
    for kind, shipped in kinds.items():
        assert (shipped.n_rows, shipped.n_laboratories) == (again[kind].n_rows, again[kind].n_laboratories)
        for name in ("error_after", "coverage_after", "width_before", "width_after"):
            assert getattr(shipped, name) == pytest.approx(getattr(again[kind], name), abs=0.01), (
                "run `make validation`"
            )


def test_four_rows_of_each_configuration_are_refitted_and_none_of_them_judged(points: list[Point]) -> None:
    mine = [point for point in points if point.source.startswith("vLLM")]
    rows = own_run_rows(mine)
    by_configuration = rows.groupby("configuration").size()
    assert len(rows) <= len(mine) - OWN_ROWS * len(by_configuration)
    assert (by_configuration >= 2).all()
    assert own_run_rows(mine[: OWN_ROWS + 1]).empty


def frame(after: float) -> pd.DataFrame:
    base = {"laboratory": "a", "configuration": "c", "engine_class": "vllm", "hardware_id": "h200-sxm", "measured": 2.0}
    ends = {"predicted_before": 2.2, "low_before": 1.5, "high_before": 2.9, "low_after": 2.0 - after}
    rows = [base | ends | {"batch_size": b, "predicted_after": 2.0, "high_after": 2.0 + after} for b in (1, 4, 16)]
    return pd.DataFrame(rows)


def test_widths_errors_and_slopes_are_those_of_the_rows_and_bars_are_met_or_missed() -> None:
    (centre, every) = own_runs(frame(0.2))
    assert (centre.kind, every.kind) == ("data centre", "all")
    assert centre.error_before == pytest.approx(0.1)
    assert centre.width_after == pytest.approx(0.2)
    assert centre.slope_after == pytest.approx(0.0, abs=1e-12)
    assert "| median width, data centre | 20.0 % | <= 24 % | met |" in own_runs_section(frame(0.2))
    assert "| median width, data centre | 40.0 % | <= 24 % | missed |" in own_runs_section(frame(0.4))


def test_what_is_written_is_read_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    one = OwnRuns("all", 8, 2, 0.2, 0.1, 0.8, 0.9, 0.6, 0.4, math.nan, 0.01)
    path = write_own_runs([one], "hash", tmp_path / OWN_RUNS.name)
    behind, kinds = read_own_runs(path)
    assert behind == "hash"
    assert math.isnan(kinds["all"].slope_before)
    assert kinds["all"].width_after == 0.4
    path.write_text("{", encoding="utf-8")
    read_own_runs.cache_clear()
    with pytest.raises(AdvisorError, match="make validation"):
        read_own_runs(path)
    read_own_runs.cache_clear()
