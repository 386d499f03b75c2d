"""The study of engine rows, on SYNTHETIC rows: nothing here was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.adjustment import adjusted, parse_adjustment, write_adjustment
from advisor.measured.multipliers import multiplier_prior
from advisor.measured.points import refit_points
from advisor.measured.readings import expert_time
from advisor.measured.refit import adjustment_of, refit_chosen
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.profiling.engine.runner import COLUMNS
from advisor.profiling.results import rows_text
from advisor.show.words.refit import notes
from studies.engine_designs import (
    PREFIX,
    cells_of,
    granularity,
    main,
    mean_error,
    order,
    points_held,
    report,
    sittings,
    table_of,
)
from tests.golden.sentences import lines_with
from tests.measured.refit_synthetic import synthetic_points
from tools.engine_data_set import BATCHES, DESIGNS, design, write_data_set

HOST = {
    "name": "two cores",
    "memory_bytes": 16e9,
    "bandwidth_bytes_per_s": 40e9,
    "peak_flops_per_s": {"bf16": 0.7e12},
    "source": "made up for this test",
    "date": "2026-11-01",
}


def step_s(name: str, batch: int, k: int, touched_s: float = 0.0) -> float:
    """A made-up law: 0.5 ms a layer, the touched experts' bytes at 30 GB/s, 25 us a layer for each
    token. [s]

    touched_s : a time for each touched expert of a layer besides. [s]
    """
    active, width, shared, experts = DESIGNS[name]
    layers = 8
    touched = experts * (1 - (1 - active / experts) ** (batch * (k + 1)))
    return (
        layers * touched_s * touched
        + layers * 5e-4
        + layers * 6 * 512 * (touched * width + shared) / 30e9
        + layers * 2.5e-5 * batch * (k + 1)
    )


def write(
    root: Path,
    names: tuple[str, ...],
    slower: dict[str, float] | None = None,
    touched_s: float = 0.0,
) -> list[Path]:
    """Folders of designs as a run leaves them. Every cell at batch 32 was disturbed."""
    folders = []
    for name in names:
        ran = root / "runs" / name
        out = root / f"{PREFIX}{name}"
        ran.mkdir(parents=True)
        rows = [
            {
                "point_id": f"{PREFIX}{name}-b{batch}-k{k}-c32",
                "status": "ok" if batch < 32 else "noisy",
                "hardware_id": "hardware.json",
                "gpu_count": 1,
                "tensor_parallel": 1,
                "engine": "vllm",
                "engine_version": "0.32.0",
                "model_id": "config.json",
                "weight_dtype": "bf16",
                "drafter": "random" if k else "none",
                "draft_tokens_k": k,
                "batch_size": batch,
                "batch_kind": "batch",
                "context_tokens": 40,
                "prompts_cached": 1,
                "accepted_length": 1.0 if k else None,
                "accepted_length_same_run": 1 if k else None,
                "step_time_s": (slower or {}).get(name, 1.0)
                * step_s(name, batch, k, touched_s)
                * (1 if batch < 32 else 9),
                "routing": "uniform",
                "spread": 0.05 if batch > 1 else 0.4,
                "control_ratio": 1.02 if batch < 32 else 2.0,
                "notes": "",
            }
            for batch in BATCHES
            for k in (0, 1, 3)
        ]
        (ran / "data.csv").write_text(rows_text(rows, header=True, columns=COLUMNS, digits=6))
        (ran / "config.json").write_text(json.dumps(design(DESIGNS[name])))
        (ran / "hardware.json").write_text(json.dumps(HOST))
        (ran / "meta.yaml").write_text("engine: {engine_version: 0.32.0}")
        write_data_set(ran, out)
        folders.append(out)
    return folders


def test_cells_whose_control_moved_take_no_part_and_those_with_repeats_apart_do(tmp_path):
    folders = write(tmp_path, ("k2",))
    cells = cells_of(folders)
    assert cells["held"].sum() == 15
    points = points_held(folders, cells)
    assert sorted({point.batch_size for point in points}) == [1, 2, 4, 8, 16]
    assert {point.n_draft for point in points} == {0, 1, 3}


def test_errors_are_of_cells_that_the_fit_did_not_see(tmp_path, golden):
    folders = write(tmp_path, ("k2", "k4", "k8"), slower={"k8": 2.0})
    cells = cells_of(folders)
    rows = table_of(points_held(folders, cells), cells)
    own = rows["design"] == "k8"
    assert mean_error(rows, "half") < mean_error(rows, "before")
    assert mean_error(rows[own], "design_out") > 1.2 * mean_error(rows[own], "half")
    text = report(folders)
    golden(designs_cells=lines_with(text, "3 designs"))
    golden(control_within=lines_with(text, "control within"))
    golden(design_left=lines_with(text, "a design"))


def test_equal_bytes_are_judged_by_a_fit_on_the_others(tmp_path, golden):
    names = ("k2", "k4", "k8", "coarse", "fine")
    folders = write(tmp_path, names, slower={"fine": 1.5})
    cells = cells_of(folders)
    points = points_held(folders, cells)
    (fine,) = granularity(points, cells)
    golden(fine_experts=fine)


@pytest.mark.parametrize(("touched_s", "taken"), [(0.0, False), (20e-6, True)])
def test_a_time_per_touched_expert_is_taken_where_an_expert_costs_time(tmp_path, touched_s, taken):
    """Rows with 5 % noise: the time comes back within its band, a scenario carries it, and none is
    taken of none."""
    folders = write(tmp_path, ("k2", "k8", "coarse", "fine"), touched_s=touched_s)
    rng = np.random.default_rng(1)
    points = points_held(folders, cells_of(folders))
    noisy = [
        replace(p.observations, measured=p.observations.measured * rng.lognormal(0, 0.05))
        for p in points
    ]
    points = [replace(point, observations=one) for point, one in zip(points, noisy, strict=True)]
    result = refit_chosen(points, ask=False)
    assert result.experts.taken == taken
    assert result.experts.text in notes(result)
    text = write_adjustment(adjustment_of(result))
    assert ("expert=" in text) == taken
    if not taken:
        return
    assert (
        abs(result.experts.mean_s - touched_s) < BAND_SIGMAS * result.experts.sd_s < 0.3 * touched_s
    )
    assert result.experts.error <= 0.75 * result.experts.given_error
    setup = points[-1].setup
    served = parse_adjustment(text)
    routed = adjusted(setup.costs, setup.draft_costs, served)[0].routed
    assert routed.per_expert_s == pytest.approx(touched_s, rel=0.3)
    with pytest.raises(AdvisorError, match="expert=SECONDS"):
        parse_adjustment(write_adjustment(replace(served, expert_s=1.0)))


@pytest.mark.parametrize("names", [("k4",), ("k2", "k4", "k8", "k4w256"), ("k4", "coarse")])
def test_designs_that_cannot_tell_a_time_per_expert_are_not_asked(tmp_path, names):
    """Without experts of equal bytes and a fourth of the size, a launch or a byte explains such
    rows as well."""
    points = points_held(folders := write(tmp_path, names, touched_s=20e-6), cells_of(folders))
    assert expert_time(points, multiplier_prior(points)) is None


def test_no_time_per_touched_expert_is_asked_of_a_chip_whose_kernels_were_fitted():
    points, _ = refit_points(synthetic_points((1, 8, 64)))
    assert expert_time(points, multiplier_prior(points)) is None


def test_folders_of_a_sitting_stand_together(tmp_path):
    for name in ("k4", "2_k4", "2_fine"):
        (tmp_path / f"{PREFIX}{name}").mkdir()
        (tmp_path / f"{PREFIX}{name}/data.csv").touch()
    assert {number: len(folders) for number, folders in sittings(tmp_path).items()} == {
        "1": 1,
        "2": 2,
    }


@pytest.mark.parametrize(("expected", "right"), [((10.0, 20.0), 1), ((20.0, 10.0), 0)])
def test_the_order_counts_pairs_that_lie_further_apart_than_their_repeats(expected, right):
    rows = pd.DataFrame(
        {
            "design": ["a", "b", "a", "b", "a", "b"],
            "batch": [1, 1, 1, 1, 2, 2],
            "n_draft": [0, 0, 3, 3, 3, 3],
            "spread": 0.05,
            "measured": [5.0, 5.0, 10.0, 20.0, 1.0, 2.0],
            "half": [5.0, 5.0, *expected, 1.0, 2.0],
        }
    )
    assert order(rows, "half") == (right, 1)
    assert order(rows.assign(spread=0.4), "half") == (0, 0)


def test_no_rows_and_rows_far_off_are_one_sentence(tmp_path, capsys, golden):
    assert main([str(tmp_path)]) == 2
    golden(make_engine=lines_with(capsys.readouterr().out, "make engine"))
    write(tmp_path, ("k2",), slower={"k2": 40.0})
    assert main([str(tmp_path)]) == 2
    golden(rows_cannot=lines_with(capsys.readouterr().out, "the rows"))
