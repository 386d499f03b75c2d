"""Reading, naming, remapping, combining and completing only add: a result is computed, checked and
matched once.

Several uploads read as one: lines, hashes, refusals and baselines across files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from advisor.cli import main
from advisor.measured.ingest import rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Measured, combine, complete, resolve_names
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import Golden, lines_with

pytestmark = pytest.mark.usefixtures("no_store")
FIXTURES = Path(__file__).parents[1] / "fixtures" / "ingest"
OWN = b"users;drafted;gain;gap (ms);gpu\n1;3;1.9;5;NVIDIA H200\n8;3;1.7;9;h999\n8;3;1.7;-9;h999\n"
COLUMNS = {
    "users": "batch_size",
    "drafted": "draft_tokens_k",
    "gain": "speedup",
    "gap (ms)": "itl_ms",
}
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


def fixture(name: str) -> Measured:
    return read_upload(name, (FIXTURES / name).read_bytes())


def named(table: Measured) -> Measured:
    return resolve_names(table)


def test_two_files_combined_and_completed_are_evaluated_once(calls: Counter[str]) -> None:
    files = [
        named(fixture(name))
        for name in ("vllm_serve_constructed.jsonl", "vllm_sweep_constructed.csv")
    ]
    both = complete(
        complete(combine(files), {"weight_dtype": "bf16"}), {"drafter": "eagle3"}, override=True
    )
    assert not calls
    assert both.result.rows_kept == 5
    assert calls == ONCE


def test_a_remapped_file_with_refused_rows_and_unknown_names_is_evaluated_once(
    calls: Counter[str],
    golden: Golden,
) -> None:
    read = complete(
        named(read_upload("own.csv", OWN, COLUMNS)), {"engine": "vllm", "model_id": "qwen3-30b-a3b"}
    )
    assert not calls
    assert (read.result.rows_kept, read.result.rows_refused) == (2, 1)
    golden(row_line=lines_with(reading_texts(read.result.warnings)[-1], "1 row"))
    assert calls == ONCE


def test_completing_leaves_the_table_it_started_from(calls: Counter[str]) -> None:
    read = fixture("aiperf_0.13.0_reduced.json")
    filled = complete(read, {"draft_tokens_k": 4})
    assert read.frame["draft_tokens_k"].isna().all()
    assert filled.frame["draft_tokens_k"].tolist() == [4]
    assert not calls


HEAD = "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms,tensor_parallel,drafter,accepted_length\n"  # noqa: E501
PLAIN = f"{HEAD}h200-sxm,qwen3-30b-a3b,vllm,4,0,10,1,,\nh200-sxm,m,vllm,-4,0,10,1,,\n"
DRAFTED = (
    f"{HEAD}h200-sxm,qwen3-30b-a3b,vllm,4,3,8,1,eagle3,2.4\nh200-sxm,m,vllm,4,3,NaN,1,eagle3,2.4\n"
)


def read(text: str, name: str = "x.csv"):
    return read_upload(name, text.encode())


def test_rows_and_refusals_count_on_through_the_files_and_baselines_are_found_across_them(golden):
    one = read(PLAIN, "plain.csv")
    two = read(DRAFTED, "drafted.csv")
    both = combine([one, two]).result
    assert both.frame.index.tolist() == [2, 5]
    assert both.rejects["line"].tolist() == [3, 6]
    assert (both.rows_read, both.rows_kept, both.rows_refused) == (4, 2, 2)
    assert both.frame.loc[5, "speedup"] == pytest.approx(1.25)
    golden(plain_csv=lines_with(reading_texts(both.derived)[0], "plain"))
    assert two.result.frame["speedup"].isna().all()


def test_the_hash_names_the_set_of_files_in_any_order_and_kernel_tables_are_not_of_it():
    one = read(PLAIN)
    two = read(DRAFTED)
    assert combine([one, two]).sha256 == combine([two, one]).sha256 != one.sha256
    assert combine([one]) is one
    kernels = read_upload("k.csv", (FIXTURES / "kernel_table_constructed.csv").read_bytes())
    with pytest.raises(AdvisorError, match="upload them apart"):
        combine([read(PLAIN), kernels])


def test_the_command_reads_several_files_as_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, golden
):
    for name, text in (("plain.csv", PLAIN), ("drafted.csv", DRAFTED), ("again.csv", PLAIN)):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("plain.csv", "drafted.csv", "again.csv")]
    with pytest.raises(SystemExit) as stopped:
        main(["ingest", *files, "--output", str(tmp_path / "rows.csv")])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    golden(skipped_file=lines_with(out, "skipped file"))
    golden(together_rows=lines_with(out, "together, 2"))
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 2
    with pytest.raises(SystemExit):
        main(["ingest", *files[:2], "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["together"][0]["rows_kept"] == 2


NO_BATCH = "hardware_id,model_id,engine,k,tpot_ms\nh200-sxm,qwen3-30b-a3b,vllm,0,{}\nh200-sxm,qwen3-30b-a3b,vllm,3,{}\n"  # noqa: E501


def test_files_of_a_folder_may_be_given_a_batch_each():
    tables = [read_upload(f"{ms}.csv", NO_BATCH.format(ms, ms - 1).encode()) for ms in (5, 6, 7)]
    whole = combine(tables)
    assert complete(whole, {"batch_size": "8, 16, 32"}).frame["batch_size"].tolist() == [
        8,
        8,
        16,
        16,
        32,
        32,
    ]
    assert complete(whole, {"batch_size": "8"}).frame["batch_size"].tolist() == [8] * 6
    with pytest.raises(
        AdvisorError, match=r"names 2 values for 3 files that lack it \(5.csv, 6.csv, 7.csv\)"
    ):
        complete(whole, {"batch_size": "8,16"})
    more = [read_upload(f"{ms}.csv", NO_BATCH.format(ms, ms - 1).encode()) for ms in range(5, 11)]
    with pytest.raises(AdvisorError, match=r"\(5.csv, 6.csv, 7.csv, 8.csv, 9.csv\.\.\.\)"):
        complete(combine(more), {"batch_size": "8,16"})
    some = combine([complete(tables[0], {"batch_size": 8}), *tables[1:]])
    assert complete(some, {"batch_size": "16 32"}).frame["batch_size"].tolist() == [
        8,
        8,
        16,
        16,
        32,
        32,
    ]
    with pytest.raises(AdvisorError, match="ambiguous: the comma"):
        complete(tables[0], {"batch_size": "8,16"})
