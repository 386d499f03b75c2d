"""Rows of every block on their way into the store, the fit and the ingest: taken as what they are,
or left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.result import noted
from advisor.measured.measurements import read_sweep
from advisor.measured.sweep_fit import fit_sweep
from advisor.profiling.results import COLUMNS
from tests.measured.sweep_fixture import layer_row, sweep_rows, write_sweep

NEW = ("part", "engine", "engine_version")
TIMES = {
    "status": "ok",
    "time_s": 1e-3,
    "time_p20_s": 9e-4,
    "time_p80_s": 2e-3,
    "n_rounds": 24,
    "control_ratio": 1.0,
}


def other_rows() -> list[dict[str, Any]]:
    """Rows of the blocks that are no MoE layer in bf16, with times that would spoil a fit of
    those."""
    aligned = (
        layer_row(32, 4, 16, 1)
        | {"op": "moe_align", "kernel": "grouped_mm", "touched_experts": None}
        | TIMES
    )
    parts = (
        layer_row(32, 4, 4, 4)
        | {"op": "verify_parts", "part": "layers+head+top_p", "n_draft": 3}
        | TIMES
    )
    absent = {
        "block": "lm-head",
        "op": "lm_head",
        "status": "unavailable",
        "notes": "not to be had",
    }
    fp8 = layer_row(32, 4, 16, 1, dtype="float8_e4m3fn", kernel="scaled_mm_loop") | TIMES
    return [aligned, parts, absent, fp8]


def test_a_sweep_from_before_the_new_columns_is_still_read(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "old")
    frame = pd.read_csv(folder / "data.csv", dtype="str").drop(columns=list(NEW))
    frame.to_csv(folder / "data.csv", index=False)
    read = read_sweep(folder)
    assert list(read.rows.columns) == list(COLUMNS)
    assert read.rows[list(NEW)].isna().all().all()
    assert fit_sweep(read)


def test_the_fit_of_the_moe_layers_does_not_see_the_other_rows(tmp_path: Path) -> None:
    alone = fit_sweep(read_sweep(write_sweep(tmp_path / "a" / "made-up", sweep_rows())))
    beside = fit_sweep(
        read_sweep(write_sweep(tmp_path / "b" / "made-up", [*sweep_rows(), *other_rows()]))
    )
    assert [fit.record.parameters for fit in beside] == [fit.record.parameters for fit in alone]
    assert [(fit.record.dtype, fit.record.n_rows) for fit in beside] == [("bf16", n_layers())]


def n_layers() -> int:
    """Measured bf16 layers without a shared expert among the made-up rows."""
    rows = [row for row in sweep_rows() if row["op"] == "moe_layer" and row["status"] == "ok"]
    return sum(row["shared_width"] == 0 for row in rows)


def test_an_upload_takes_fp8_layers_as_fp8_and_names_what_it_left_out(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "made-up", [*sweep_rows(), *other_rows()])
    result = read_upload("data.csv", (folder / "data.csv").read_bytes()).result
    assert (result.frame["dtype"] == "fp8").sum() == 1
    n_others = sum(row["op"] != "moe_layer" for row in [*sweep_rows(), *other_rows()])
    assert noted("other_operations", n=n_others) in result.derived
