"""Building the store and asking it; half-built files, two writers, queries that reach others; a
made-up table."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from advisor.measured.store import (
    Store,
    coverage,
    create_tables,
    dropped_rows,
    is_being_written,
    kernel_sources,
    kernel_table,
    only_writer,
    open_store,
    plain_decode_points,
)
from advisor.measured.store_build import build, status
from advisor.measured.store_tables import (
    HARDWARE_BY_DEVICE,
    KERNEL_TABLES,
    SPEC_BY_TABLE,
    KernelPackage,
    KernelTable,
    TableSpec,
    installed_package,
    kernel_files,
)
from advisor.prediction import AdvisorError
from tests.golden.sentences import lines_with
from tests.measured.store_package import add_table, fake_package, measured_moe, moe_rows


@pytest.fixture
def package(tmp_path: Path) -> KernelPackage:
    return fake_package(tmp_path / "package")


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "advisor.duckdb"


@pytest.fixture
def filled(store_path: Path, package: KernelPackage) -> Iterator[Store]:
    """A store of the made-up package, open."""
    build(store_path, kernels=package)
    with open_store(store_path) as store:
        yield store


def test_without_the_package_the_store_is_empty_and_says_so(store_path: Path):
    summary = build(store_path, kernels=None)
    assert summary.kernel_package_version is None
    assert "not installed" in summary.notes[0]
    with open_store(store_path) as store:
        assert measured_moe(store).empty
        assert kernel_table(store, "moe", "h200-sxm").empty
        assert "latency_s" in kernel_table(store, "moe", "h200-sxm")


def test_rows_come_back_in_seconds_and_bytes_with_our_names_and_are_counted(filled: Store):
    table = kernel_table(
        filled, "moe", "h200-sxm", engine="vllm", dtype="bf16", distribution="balanced", ep=1
    )
    assert table["num_tokens"].tolist() == [1, 2, 4]
    assert table["latency_s"].tolist() == pytest.approx([40e-6, 60e-6, 90e-6])
    assert kernel_table(filled, "moe", "h200-sxm", dtype="bfloat16").equals(
        kernel_table(filled, "moe", "h200-sxm", dtype="bf16")
    )
    assert kernel_table(filled, "moe", "h200-sxm", ep=2).empty
    assert set(measured_moe(filled)["engine"]) == {"vllm", "sglang"}
    reduced = kernel_table(filled, "all_reduce", "h200-sxm", n_ranks=8)
    assert reduced["message_elements"].tolist() == [128, 1024]
    assert reduced["message_bytes"].tolist() == [256.0, 2048.0]
    exchange = kernel_table(filled, "all_to_all", "h200-sxm").set_index("phase")["latency_s"]
    assert exchange["dispatch"] == pytest.approx(20e-6)
    assert exchange["combine"] == pytest.approx(30e-6)
    assert kernel_table(filled, "mla", "h200-sxm")["context_tokens"].tolist() == [1024]
    rows = coverage(filled)
    moe = rows[(rows["op"] == "moe") & (rows["engine"] == "vllm")].to_dict("records")
    assert len(moe) == 1
    assert (moe[0]["n_shapes"], moe[0]["n_rows"], moe[0]["min_tokens"], moe[0]["max_tokens"]) == (
        1,
        3,
        1,
        4,
    )
    assert set(rows["op"]) == {"moe", "all_reduce", "all_to_all", "mla"}


def test_shape_columns_do_not_wrap_around_in_products(store_path: Path, package: KernelPackage):
    add_table(
        package.systems.parent,
        "b200_sxm/moe/vllm/1.0",
        "moe_perf",
        moe_rows([0.1], hidden_size=8192, inter_size=8192, num_experts=512),
    )
    build(store_path, kernels=package)
    with open_store(store_path) as store:
        row = kernel_table(store, "moe", "b200-sxm")
    weights = row["hidden_size"] * row["inter_size"] * row["num_experts"]
    assert weights.iloc[0] == 8192 * 8192 * 512


def test_a_copied_table_is_counted_once_and_reported_and_one_that_differs_in_one_latency_is_no_copy(
    store_path: Path, package: KernelPackage
):
    root = package.systems.parent
    add_table(
        root,
        "gb300/moe/sglang/2.0",
        "moe_perf",
        moe_rows([0.01, 0.02, 0.04]),
        device="NVIDIA GB300",
    )
    add_table(
        root,
        "b300_sxm/moe/sglang/2.0",
        "moe_perf",
        moe_rows([0.01, 0.02, 0.04]),
        device="NVIDIA B300 SXM6 AC",
    )
    summary = build(store_path, kernels=package)
    assert summary.copies == (
        (
            "data/gb300/moe/sglang/2.0/moe_perf.parquet",
            "data/b300_sxm/moe/sglang/2.0/moe_perf.parquet",
        ),
    )
    with open_store(store_path) as store:
        assert len(kernel_table(store, "moe", "b300-sxm")) == 3
        assert kernel_table(store, "moe", "gb300").empty
        sources = kernel_sources(store).set_index("path")
    assert sources.loc["data/gb300/moe/sglang/2.0/moe_perf.parquet", "rows_kept"] == 0
    add_table(root, "gb300/moe/sglang/2.0", "moe_perf", moe_rows([0.01, 0.02, 0.04]))
    add_table(root, "b300_sxm/moe/sglang/2.0", "moe_perf", moe_rows([0.01, 0.02, 0.0400001]))
    assert build(store_path, kernels=package).copies == ()


def test_of_two_copies_the_one_whose_rows_name_their_folder_is_kept(
    store_path: Path, package: KernelPackage
):
    root = package.systems.parent
    rows = moe_rows([0.01, 0.02, 0.05])
    add_table(root, "l40s/moe/trtllm/3.0", "moe_perf", rows)
    add_table(
        root,
        "l40s/moe/sglang/0.9",
        "moe_perf",
        [{**row, "framework": "TRTLLM", "version": "3.0"} for row in rows],
    )
    summary = build(store_path, kernels=package)
    assert summary.copies == (
        ("data/l40s/moe/sglang/0.9/moe_perf.parquet", "data/l40s/moe/trtllm/3.0/moe_perf.parquet"),
    )


def test_repeats_of_one_measurement_become_one_row_with_their_mean_and_spread(
    store_path: Path, package: KernelPackage
):
    add_table(
        package.systems.parent, "l40s/moe/vllm/1.0", "moe_perf", moe_rows([0.10]) + moe_rows([0.12])
    )
    summary = build(store_path, kernels=package)
    assert summary.repeats_merged == 1
    with open_store(store_path) as store:
        (row,) = kernel_table(store, "moe", "l40s").to_dict("records")
    assert row["repeats"] == 2
    assert row["latency_s"] == pytest.approx(110e-6)
    assert row["repeat_spread"] == pytest.approx(1.2)


def test_impossible_latencies_are_dropped_and_counted_by_reason(
    store_path: Path, package: KernelPackage
):
    bad = moe_rows([0.1, 0.0, -1.0, math.nan, math.inf])
    add_table(package.systems.parent, "l40s/moe/vllm/1.0", "moe_perf", bad)
    summary = build(store_path, kernels=package)
    assert summary.dropped_rows == 4
    with open_store(store_path) as store:
        assert kernel_table(store, "moe", "l40s")["num_tokens"].tolist() == [1]
        counted = dropped_rows(store)
    kernels = (
        counted[counted["path"].str.startswith("data/")].set_index("reason")["n_rows"].to_dict()
    )
    assert kernels == {"latency is not positive": 2, "latency is not a finite number": 2}


def test_a_row_without_its_shape_is_dropped(store_path: Path, package: KernelPackage, golden):
    rows = [*moe_rows([0.1]), *moe_rows([0.2], hidden_size=None)]
    add_table(package.systems.parent, "l40s/moe/vllm/1.0", "moe_perf", rows)
    build(store_path, kernels=package)
    with open_store(store_path) as store:
        golden(no_hidden=lines_with(set(dropped_rows(store)["reason"]), "no hidden_size"))


def test_the_database_itself_refuses_infinity_and_nan(tmp_path: Path):
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        create_tables(connection)
        for value in ("'nan'", "'inf'", "0"):
            with pytest.raises(duckdb.ConstraintException):
                connection.execute(
                    f"INSERT INTO gemm VALUES (1, 'x', 'bf16', 1, 1, 1, {value}::DOUBLE, 1, 1)"
                )


def test_plain_decode_points_take_the_decode_pool_and_are_marked_for_validation(filled: Store):
    points = plain_decode_points(filled).set_index("point_id")
    assert points.index.tolist() == ["a", "b"], "the point without a time is dropped"
    assert points.loc["a", "tpot_s"] == pytest.approx(0.0125)
    assert points.loc["b", "hardware_id"] == "gb300"
    assert points.loc["b", "batch_size"] == 32
    assert points.loc["b", "expert_parallel"] == 16
    assert set(points["use"]) == {"validation only, never fitted"}
    assert ("silicon_sample.csv", "no positive time per output token", 1) in [
        tuple(row) for row in dropped_rows(filled).to_numpy()
    ]


def test_progress_rises_from_nothing_to_done(store_path: Path, package: KernelPackage):
    seen: list[tuple[str, float]] = []
    build(store_path, lambda step, fraction: seen.append((step, fraction)), kernels=package)
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert seen[-1] == ("done", 1.0)


def test_threads_with_their_own_cursors_get_their_own_rows(
    store_path: Path, package: KernelPackage
):
    build(store_path, kernels=package)
    wrong: list[object] = []
    with open_store(store_path) as store:

        def ask(engine: str, first: float) -> None:
            for _ in range(25):
                table = kernel_table(store, "moe", "h200-sxm", engine=engine)
                if len(table) != 3 or abs(table["latency_s"].iloc[0] - first) > 1e-12:
                    wrong.append((engine, table))

        threads = [
            threading.Thread(target=ask, args=who)
            for who in [("vllm", 40e-6), ("sglang", 30e-6)] * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_status_names_each_reason_to_rebuild(
    store_path: Path, package: KernelPackage, monkeypatch: pytest.MonkeyPatch, golden
):
    monkeypatch.setattr("advisor.measured.store_build.installed_package", lambda: package)
    missing = status(store_path)
    assert not missing.exists
    golden(python_advisor=lines_with(missing.problem, "python"))
    build(store_path, kernels=None)
    assert status(store_path).stale_because == (
        "kernel tables of version test-1 are installed, the store has none",
    )
    build(store_path, kernels=package)
    fresh = status(store_path)
    assert not fresh.stale
    assert fresh.rows_by_table["moe"] == 6
    monkeypatch.setattr("advisor.measured.store_build.builder_sha256", lambda: "0" * 64)
    golden(code_that=lines_with(status(store_path).stale_because, "the code"))


@pytest.mark.skipif(installed_package() is None, reason="aiconfigurator-core is not installed")
def test_the_installed_package_builds_into_a_store_with_its_known_tables(tmp_path: Path):
    """In the store that `make test` has just built where it was out of date, the code's hash
    included; else in one built here."""
    built = status()
    if not built.exists or built.stale:
        build(tmp_path / "store.duckdb")
        built = status(tmp_path / "store.duckdb")
    assert not built.stale
    package = installed_package()
    assert package is not None
    assert {file.device for file in kernel_files(package, set(SPEC_BY_TABLE))} <= set(
        HARDWARE_BY_DEVICE
    )
    assert built.rows_by_table is not None
    for table in KERNEL_TABLES:
        assert built.rows_by_table[table] > 1000, table
    with open_store(built.path) as store:
        h200 = kernel_table(
            store, "moe", "h200-sxm", "trtllm", dtype="bf16", distribution="balanced", ep=1
        )
        one = h200[
            (h200["hidden_size"] == 2048) & (h200["inter_size"] == 768) & (h200["moe_tp_size"] == 1)
        ]
        assert 250e-6 < one[one["num_tokens"] == 64]["latency_s"].min() < 350e-6, (
            "128 experts of 9.4 MB at 4.8 TB/s"
        )
        assert measured_moe(store)["hardware_id"].nunique() == 10


def test_the_documentation_names_every_table_and_column():
    from advisor.measured.store_tables import SPECS

    text = (Path(__file__).parents[2] / "docs" / "measured-tables.md").read_text(encoding="utf-8")
    missing = {f"`{spec.table}`" for spec in SPECS if f"`{spec.table}`" not in text}
    missing |= {f"`{table}`" for table in KERNEL_TABLES if f"`{table}`" not in text}
    missing |= {
        name
        for table in KERNEL_TABLES.values()
        for name in table.columns
        if f"`{name}`" not in text
    }
    assert missing == set()


def test_a_column_that_a_kernel_table_lacks_is_refused_by_name(filled: Store):
    with pytest.raises(AdvisorError, match="'gemm' has no column distribution"):
        kernel_table(filled, "gemm", "h200-sxm", distribution="balanced")


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('x.parquet')",
        "SELECT * FROM '/etc/passwd'",
        "COPY plain_decode TO 'stolen.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "DELETE FROM plain_decode",
        "DROP TABLE plain_decode",
    ],
)
def test_the_serving_connection_refuses(store_path: Path, query: str):
    build(store_path, kernels=None)
    with open_store(store_path) as store:
        with pytest.raises(duckdb.Error):
            store.rows(query)
        assert plain_decode_points(store).empty


BUILD_AND_HANG = """
    import sys, time
    from pathlib import Path
    from advisor.measured.store_build import build
    from advisor.measured.store_tables import KernelPackage

    def hang(step, fraction):
        if fraction > 0.3:
            print("halfway", flush=True)
            time.sleep(60)

    build(sys.argv[1], hang, kernels=KernelPackage(Path(sys.argv[2]), "test-2"))
"""


@contextlib.contextmanager
def halfway(path: Path, package: KernelPackage) -> Iterator[None]:
    """Another process in the middle of its build, killed at the end."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BUILD_AND_HANG), str(path), str(package.systems)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline().strip() == "halfway"
        yield
    finally:
        child.kill()
        child.communicate()


def test_a_killed_build_leaves_the_old_store_usable_and_the_next_build_works(
    tmp_path: Path, store_path: Path
):
    build(store_path, kernels=None)
    before = store_path.read_bytes()
    package = fake_package(tmp_path / "package")
    with halfway(store_path, package):
        assert store_path.with_name("advisor.duckdb.new").exists(), (
            "the child is in the middle of its build"
        )
    assert store_path.read_bytes() == before
    with open_store(store_path) as store:
        assert measured_moe(store).empty
    build(store_path, kernels=package)
    assert not store_path.with_name("advisor.duckdb.new").exists()
    with open_store(store_path) as store:
        assert len(measured_moe(store)) == 2


def test_a_second_process_that_builds_is_told_so(tmp_path: Path, store_path: Path):
    package = fake_package(tmp_path / "package")
    with (
        halfway(store_path, package),
        pytest.raises(AdvisorError, match="being written by another process"),
    ):
        build(store_path, kernels=None)


def test_the_lock_also_holds_between_threads_of_one_process(tmp_path: Path):
    with (
        only_writer(tmp_path / "x"),
        pytest.raises(AdvisorError, match="try again"),
        only_writer(tmp_path / "x"),
    ):
        pass
    assert not is_being_written(tmp_path / "x")
    with only_writer(tmp_path / "x"):
        assert is_being_written(tmp_path / "x")
    assert not is_being_written(tmp_path / "x")


def test_a_failed_build_leaves_the_old_store_and_no_litter(tmp_path: Path, store_path: Path):
    build(store_path, kernels=None)
    before = store_path.read_bytes()
    package = fake_package(tmp_path / "package")
    (package.data / "h200_sxm/moe/vllm/1.0/moe_perf.parquet").write_bytes(b"not parquet")
    with pytest.raises(
        AdvisorError, match="kernel tables of aiconfigurator-core test-1 cannot be read"
    ):
        build(store_path, kernels=package)
    assert store_path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.glob("advisor.duckdb*")) == [
        "advisor.duckdb",
        "advisor.duckdb.lock",
    ]


def test_a_rebuild_is_seen_by_the_next_open_while_an_old_reader_keeps_its_rows(
    tmp_path: Path, store_path: Path
):
    build(store_path, kernels=None)
    with open_store(store_path) as old:
        package = fake_package(tmp_path / "package")
        add_table(tmp_path / "package", "l40s/moe/vllm/1.0", "moe_perf", moe_rows([0.1]))
        build(store_path, kernels=package)
        with open_store(store_path) as new:
            assert len(measured_moe(new)) == 3
        assert measured_moe(old).empty


def test_the_environment_variable_names_the_default_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    named = tmp_path / "made" / "advisor.duckdb"
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(named))
    build(kernels=None)
    with open_store() as store:
        assert store.path == named


def test_a_foreign_file_and_another_schema_are_refused_with_advice(store_path: Path):
    store_path.write_text("hello")
    with pytest.raises(AdvisorError, match="not a usable store"):
        open_store(store_path)
    store_path.unlink()
    build(store_path, kernels=None)
    with duckdb.connect(str(store_path)) as connection:
        connection.execute("UPDATE store_info SET value = '999' WHERE key = 'schema_version'")
    with pytest.raises(AdvisorError, match="schema version 999"):
        open_store(store_path)


def test_a_folder_that_cannot_be_made_or_locked_is_said_in_a_sentence(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    locked = tmp_path / "y.duckdb"
    locked.with_name("y.duckdb.lock").mkdir()
    for path in (in_the_way / "x.duckdb", locked):
        with (
            pytest.raises(AdvisorError, match=r"MOE_ADVISOR_STORE|being written"),
            only_writer(path),
        ):
            pass


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
    rows = [
        {"norm_dtype": "bfloat16", "n": 4096, "m": m, "latency": ms}
        for m, ms in ((8, 0.003), (1, 0.002))
    ]
    add_table(tmp_path / "package", "h200_sxm/norm/vllm/1.0", "norm_perf", rows)
    summary = build(tmp_path / "advisor.duckdb", kernels=package)
    assert summary.rows_by_table["norm"] == 2
    with open_store(tmp_path / "advisor.duckdb") as store:
        table = kernel_table(store, "norm", "h200-sxm", "vllm", dtype="bf16")
        covered = coverage(store).set_index("op").loc["norm"]
    assert table["rows"].tolist() == [1, 8]
    assert table["latency_s"].tolist() == pytest.approx([2e-6, 3e-6])
    assert (covered["n_shapes"], covered["n_rows"], covered["max_tokens"]) == (1, 2, 8)
