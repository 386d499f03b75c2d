"""A new table of measured kernels is a row of KERNEL_TABLES and one of SPECS: a dry run with a made-up one."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.measured.store import coverage, kernel_table, open_store
from advisor.measured.store_build import build
from advisor.measured.store_tables import KERNEL_TABLES, SPEC_BY_TABLE, KernelTable, TableSpec
from tests.measured.store_package import add_table, fake_package

NORM = KernelTable(
    "A made-up table: one normalisation over rows of a width.",
    {"dtype": "VARCHAR NOT NULL", "width": "INTEGER NOT NULL", "rows": "INTEGER NOT NULL"},
    shape="width",
    tokens="rows",
)
SPEC = TableSpec("norm_perf", "norm", {"dtype": "norm_dtype", "width": "n", "rows": "m"})


def test_a_new_kernel_table_is_loaded_asked_and_covered_by_two_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KERNEL_TABLES, "norm", NORM)
    monkeypatch.setitem(SPEC_BY_TABLE, "norm_perf", SPEC)
    package = fake_package(tmp_path / "package")
    rows = [{"norm_dtype": "bfloat16", "n": 4096, "m": m, "latency": ms} for m, ms in ((8, 0.003), (1, 0.002))]
    add_table(tmp_path / "package", "h200_sxm/norm/vllm/1.0", "norm_perf", rows)
    summary = build(tmp_path / "advisor.duckdb", kernels=package)
    assert summary.rows_by_table["norm"] == 2
    with open_store(tmp_path / "advisor.duckdb") as store:
        table = kernel_table(store, "norm", "h200-sxm", "vllm", dtype="bf16")
        covered = coverage(store).set_index("op").loc["norm"]
    assert table["rows"].tolist() == [1, 8]
    assert table["latency_s"].tolist() == pytest.approx([2e-6, 3e-6])
    assert (covered["n_shapes"], covered["n_rows"], covered["max_tokens"]) == (1, 2, 8)
