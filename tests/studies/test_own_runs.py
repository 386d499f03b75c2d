"""What own runs do: rows of a configuration refitted and judged, and the figures behind the line of
`advise`.

The section on best K: clean grids, rivals that never change K, and what is set aside by a physical
rule.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.answers.summary import OWN_ROWS, OWN_RUNS, OwnRuns, read_own_runs
from advisor.measured.points import published_rows
from advisor.measured.refit_result import best_k_regret, k_grids, k_regret
from advisor.prediction import AdvisorError
from studies.validation.outside import (
    bundle_errors,
    external_points,
    external_round_costs,
    impossible_models,
)
from studies.validation.own_runs import (
    OURS,
    beaten_by,
    best_k_gates,
    best_k_section,
    own_run_rows,
    own_runs,
    own_runs_section,
    write_own_runs,
)
from studies.validation.unseen import simpler_wins
from tests.golden.sentences import Golden, lines_with
from tests.published import fitted


def test_the_figures_that_ship_are_those_of_the_judged_rows() -> None:
    _, kinds = read_own_runs()
    again = {one.kind: one for one in own_runs(own_run_rows(fitted()))}
    assert kinds.keys() == again.keys()
    for kind, shipped in kinds.items():
        assert (shipped.n_rows, shipped.n_laboratories) == (
            again[kind].n_rows,
            again[kind].n_laboratories,
        )
        for name in ("error_after", "coverage_after", "width_before", "width_after"):
            assert getattr(shipped, name) == pytest.approx(getattr(again[kind], name), abs=0.01), (
                "run `make validation`"
            )


def test_four_rows_of_each_configuration_are_refitted_and_none_of_them_judged() -> None:
    mine = [point for point in fitted() if point.source.startswith("vLLM")]
    rows = own_run_rows(mine)
    by_configuration = rows.groupby("configuration").size()
    assert len(rows) <= len(mine) - OWN_ROWS * len(by_configuration)
    assert (by_configuration >= 2).all()
    assert own_run_rows(mine[: OWN_ROWS + 1]).empty


def frame(after: float) -> pd.DataFrame:
    base = {
        "laboratory": "a",
        "configuration": "c",
        "engine_class": "vllm",
        "hardware_id": "h200-sxm",
        "measured": 2.0,
    }
    ends = {
        "predicted_before": 2.2,
        "low_before": 1.5,
        "high_before": 2.9,
        "low_after": 2.0 - after,
    }
    rows = [
        base | ends | {"batch_size": b, "predicted_after": 2.0, "high_after": 2.0 + after}
        for b in (1, 4, 16)
    ]
    return pd.DataFrame(rows)


def test_widths_errors_and_slopes_are_those_of_the_rows_and_bars_are_met_or_missed(
    golden: Golden,
) -> None:
    (centre, every) = own_runs(frame(0.2))
    assert (centre.kind, every.kind) == ("data centre", "all")
    assert centre.error_before == pytest.approx(0.1)
    assert centre.width_after == pytest.approx(0.2)
    assert centre.slope_after == pytest.approx(0.0, abs=1e-12)
    golden(median_width=lines_with(own_runs_section(frame(0.2)), "| median width"))
    golden(median_width_2=lines_with(own_runs_section(frame(0.4)), "| median width"))


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


def grid(**changes: object) -> pd.DataFrame:
    rows = {
        "g": "x",
        "n_draft": [3, 5, 7],
        "measured": [1.5, 2.0, 1.6],
        "draws": [np.full(8, s) for s in (1.9, 1.8, 1.2)],
    }
    return pd.DataFrame(rows | changes)


def test_two_draft_heads_make_two_grids_and_without_their_names_none() -> None:
    two = pd.concat([grid(head="a"), grid(head="b", measured=[1.1, 1.2, 1.3])])
    assert len(k_grids(two, ["g", "head"])) == 2
    assert k_grids(two, ["g"]) == []
    assert best_k_regret(two, ["g"]) == (None, 0)


def test_a_rival_takes_its_k_or_the_nearest_measured_and_plain_decoding_gains_nothing() -> None:
    assert k_regret(grid()) == pytest.approx(1 - 1.5 / 2.0)
    assert k_regret(grid(), always=5) == 0.0
    assert k_regret(grid(), always=9) == k_regret(grid(), always=7) == pytest.approx(1 - 1.6 / 2.0)
    assert k_regret(grid(), always=0) == pytest.approx(1 - 1.0 / 2.0)


def regrets(ours: float, fixed: float, n: int = 20) -> pd.DataFrame:
    one = {
        "set": "grids",
        OURS: ours,
        "always plain": 0.5,
        "always K = 3": fixed,
        "always K = 5": 0.2,
        "always K = 7": 0.2,
    }
    return pd.DataFrame([one | {"laboratory": "abc"[i % 3]} for i in range(n)])


def test_a_constant_that_does_as_well_is_named_and_a_worse_one_is_not(golden: Golden) -> None:
    assert beaten_by(regrets(0.01, 0.05)) == []
    assert "met" in best_k_section(regrets(0.01, 0.05))
    text = best_k_section(regrets(0.03, 0.02))
    golden(simpler_rule=lines_with(text, "A simpler"))
    assert "always K = 5" not in " ".join(beaten_by(regrets(0.03, 0.02)))


def test_best_k_is_met_by_three_laboratories_and_not_by_two() -> None:
    assert [line.status for line in best_k_gates(regrets(0.01, 0.05))] == ["met", "met"]
    assert [line.status for line in best_k_gates(regrets(0.05, 0.05))] == ["missed", "missed"]
    of_two = regrets(0.01, 0.05).assign(laboratory=["a", "b"] * 10)
    assert {line.status for line in best_k_gates(of_two)} == {"not testable here"}


def test_the_rule_on_reading_weights_finds_scout_in_specbundle_and_nothing_else() -> None:
    frame = published_rows()
    few = frame[frame["source_title"].str.contains("SpecBundle")].groupby("model_id").head(12)
    external = external_round_costs(external_points(few))
    assert impossible_models(external) == ["llama4-scout"]
    (every, n), (rest, n_rest) = bundle_errors(external).values()
    assert n - n_rest == (external["model_id"] == "llama4-scout").sum()
    assert rest < every
    assert external["head"].ne("").all()


def test_where_a_simpler_model_errs_less_the_document_says_so(golden: Golden) -> None:
    figures = pd.DataFrame(
        {"speedup": {"ours": 0.2, "simple": 0.1}, "shape": {"ours": 0.1, "simple": 0.2}}
    )
    golden(speedup_simpler=simpler_wins(figures))
    golden(no_simpler=lines_with(simpler_wins(figures[["shape"]]), "No simpler"))
