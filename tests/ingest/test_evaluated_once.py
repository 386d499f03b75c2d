"""Reading, naming, remapping, combining and completing only add: a result is computed, checked and matched once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.models import model_ids
from advisor.cli import main
from advisor.measured.ingest import rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Rows, combine, complete, resolve_names
from advisor.physics.hardware import hardware_ids

FIXTURES = Path(__file__).parents[1] / "fixtures" / "ingest"
OWN = b"users;drafted;gain;gap (ms);gpu\n1;3;1.9;5;NVIDIA H200\n8;3;1.7;9;h999\n8;3;1.7;-9;h999\n"
COLUMNS = {"users": "batch_size", "drafted": "draft_tokens_k", "gain": "speedup", "gap (ms)": "itl_ms"}
ONCE = {"derive_rows": 1, "check_rows": 1, "match_baselines": 1}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of the three was called."""
    counted: Counter[str] = Counter()

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            counted[name] += 1
            return real(*given)

        return call

    for name in ONCE:
        monkeypatch.setattr(rows, name, watched(name, getattr(rows, name)))
    return counted


def fixture(name: str) -> Rows:
    return read_upload(name, (FIXTURES / name).read_bytes())


def named(table: Rows) -> Rows:
    return resolve_names(table, hardware_ids(), model_ids())


def test_one_file_is_evaluated_once_however_often_its_result_is_asked_for(calls: Counter[str]) -> None:
    read = named(fixture("vllm_serve_constructed.jsonl"))
    assert not calls
    assert read.result.rows_kept == 2
    assert read.result is read.result
    assert calls == ONCE


def test_two_files_combined_and_completed_are_evaluated_once(calls: Counter[str]) -> None:
    files = [named(fixture(name)) for name in ("vllm_serve_constructed.jsonl", "vllm_sweep_constructed.csv")]
    both = complete(complete(combine(files), {"weight_dtype": "bf16"}), {"drafter": "eagle3"}, override=True)
    assert not calls
    assert both.result.rows_kept == 5
    assert calls == ONCE


def test_a_remapped_file_with_refused_rows_and_unknown_names_is_evaluated_once(calls: Counter[str]) -> None:
    read = complete(named(read_upload("own.csv", OWN, COLUMNS)), {"engine": "vllm", "model_id": "qwen3-30b-a3b"})
    assert not calls
    assert (read.result.rows_kept, read.result.rows_refused) == (2, 1)
    assert "1 row (line 3) kept" in read.result.warnings[-1]
    assert calls == ONCE


def test_completing_leaves_the_table_it_started_from(calls: Counter[str]) -> None:
    read = fixture("aiperf_0.13.0_reduced.json")
    filled = complete(read, {"draft_tokens_k": 4})
    assert read.frame["draft_tokens_k"].isna().all()
    assert filled.frame["draft_tokens_k"].tolist() == [4]
    assert not calls


def test_the_command_that_refits_evaluates_all_its_files_once(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))
    files = [
        str(FIXTURES / f"{name}_constructed.{kind}") for name, kind in (("vllm_serve", "jsonl"), ("vllm_sweep", "csv"))
    ]
    with pytest.raises(SystemExit):
        main(["fit", *files])
    assert calls == ONCE


def test_the_command_that_lists_files_evaluates_each_once_and_all_together_once(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))
    one, two = (str(FIXTURES / name) for name in ("vllm_serve_constructed.jsonl", "vllm_sweep_constructed.csv"))
    with pytest.raises(SystemExit):
        main(["ingest", one, "--save", "run 7"])
    assert calls == ONCE
    with pytest.raises(SystemExit):
        main(["ingest", one, two])
    assert calls == dict.fromkeys(ONCE, 4)
