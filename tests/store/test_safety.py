"""What must not happen to the store: half-built files, two writers, queries that reach other files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

from advisor.measured.store import dataset, only_writer, open_store
from advisor.measured.store_build import build
from advisor.prediction import AdvisorError
from tests.store_package import add_table, fake_package, measured_moe, moe_rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "advisor.duckdb"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('x.parquet')",
        "SELECT * FROM '/etc/passwd'",
        "COPY datasets TO 'stolen.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "DELETE FROM datasets",
        "DROP TABLE datasets",
    ],
)
def test_the_serving_connection_refuses(store_path: Path, query: str):
    build(store_path, kernels=None)
    with open_store(store_path) as store:
        with pytest.raises(duckdb.Error):
            store.rows(query)
        assert len(dataset(store, "published_speedups")) == 755


def _child(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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


def test_a_killed_build_leaves_the_old_store_usable_and_the_next_build_works(tmp_path: Path, store_path: Path):
    build(store_path, kernels=None)
    before = store_path.read_bytes()
    package = fake_package(tmp_path / "package")
    child = _child(BUILD_AND_HANG, str(store_path), str(package.systems))
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "halfway"
        assert store_path.with_name("advisor.duckdb.new").exists(), "the child is in the middle of its build"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert store_path.read_bytes() == before
    with open_store(store_path) as store:
        assert len(dataset(store, "published_speedups")) == 755
        assert measured_moe(store).empty
    build(store_path, kernels=package)
    assert not store_path.with_name("advisor.duckdb.new").exists()
    with open_store(store_path) as store:
        assert len(measured_moe(store)) == 2


def test_a_second_process_that_builds_is_told_so(tmp_path: Path, store_path: Path):
    package = fake_package(tmp_path / "package")
    child = _child(BUILD_AND_HANG, str(store_path), str(package.systems))
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "halfway"
        with pytest.raises(AdvisorError, match="being written by another process"):
            build(store_path, kernels=None)
    finally:
        child.kill()
        child.communicate()


def test_the_lock_also_holds_between_threads_of_one_process(tmp_path: Path):
    with (
        only_writer(tmp_path / "x"),
        pytest.raises(AdvisorError, match="try again"),
        only_writer(tmp_path / "x"),
    ):
        pass
    with only_writer(tmp_path / "x"):
        pass


def test_a_failed_build_leaves_the_old_store_and_no_litter(tmp_path: Path, store_path: Path):
    build(store_path, kernels=None)
    before = store_path.read_bytes()
    package = fake_package(tmp_path / "package")
    (package.data / "h200_sxm/moe/vllm/1.0/moe_perf.parquet").write_bytes(b"not parquet")
    with pytest.raises(AdvisorError, match="kernel tables of aiconfigurator-core test-1 cannot be read"):
        build(store_path, kernels=package)
    assert store_path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.glob("advisor.duckdb*")) == ["advisor.duckdb", "advisor.duckdb.lock"]


def test_a_rebuild_is_seen_by_the_next_open_while_an_old_reader_keeps_its_rows(tmp_path: Path, store_path: Path):
    build(store_path, kernels=None)
    with open_store(store_path) as old:
        package = fake_package(tmp_path / "package")
        add_table(tmp_path / "package", "l40s/moe/vllm/1.0", "moe_perf", moe_rows([0.1]))
        build(store_path, kernels=package)
        with open_store(store_path) as new:
            assert len(measured_moe(new)) == 3
        assert measured_moe(old).empty


def test_a_missing_store_names_the_command_that_builds_it(store_path: Path):
    with pytest.raises(AdvisorError, match="run `python -m advisor store build`"):
        open_store(store_path)


def test_the_environment_variable_names_the_default_store(store_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(store_path))
    build(kernels=None)
    with open_store() as store:
        assert store.path == store_path


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
        with pytest.raises(AdvisorError, match=r"MOE_ADVISOR_STORE|being written"), only_writer(path):
            pass
