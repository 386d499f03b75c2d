"""Several uploads read as one: lines, hashes, refusals and baselines across files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli import main
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.result import kept_table
from advisor.measured.ingest.rows import combine, complete
from advisor.measured.kept_uploads import kept_as, list_uploads, save_upload
from advisor.prediction import AdvisorError

HEAD = "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms,tensor_parallel,drafter,accepted_length\n"
PLAIN = f"{HEAD}h200-sxm,qwen3-30b-a3b,vllm,4,0,10,1,,\nh200-sxm,m,vllm,-4,0,10,1,,\n"
DRAFTED = f"{HEAD}h200-sxm,qwen3-30b-a3b,vllm,4,3,8,1,eagle3,2.4\nh200-sxm,m,vllm,4,3,NaN,1,eagle3,2.4\n"
FIXTURES = Path(__file__).parents[1] / "fixtures/ingest"


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))


def read(text: str, name: str = "x.csv"):
    return read_upload(name, text.encode())


def test_rows_and_refusals_count_on_through_the_files_and_baselines_are_found_across_them():
    one, two = read(PLAIN, "plain.csv"), read(DRAFTED, "drafted.csv")
    both = combine([one, two]).result
    assert both.frame.index.tolist() == [2, 5]
    assert both.rejects["line"].tolist() == [3, 6]
    assert (both.rows_read, both.rows_kept, both.rows_refused) == (4, 2, 2)
    assert both.frame.loc[5, "speedup"] == pytest.approx(1.25)
    assert "plain.csv from line 1, drafted.csv from line 4" in both.derived[0]
    assert two.result.frame["speedup"].isna().all()


def test_the_hash_names_the_set_of_files_whatever_their_order():
    one, two = read(PLAIN), read(DRAFTED)
    assert combine([one, two]).sha256 == combine([two, one]).sha256 != one.sha256
    assert combine([one]) is one


def test_context_is_filled_in_for_all_files_together():
    both = combine([read(PLAIN), read(DRAFTED)])
    assert set(complete(both, {"weight_dtype": "bf16"}).result.frame["weight_dtype"]) == {"bf16"}


def test_kernel_tables_and_runs_are_not_one_data_set():
    kernels = read_upload("k.csv", (FIXTURES / "kernel_table_constructed.csv").read_bytes())
    with pytest.raises(AdvisorError, match="upload them apart"):
        combine([read(PLAIN), kernels])


def test_bytes_that_are_kept_are_known_by_their_hash():
    one = read(PLAIN)
    assert kept_as(one.sha256) is None
    dataset_id = save_upload(kept_table(one.result), name="run 7", sha256=one.sha256)
    assert kept_as(read(PLAIN, "another name.csv").sha256) == (dataset_id, "run 7")
    assert kept_as(read(DRAFTED).sha256) is None


def test_the_command_reads_several_files_as_one(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for name, text in (("plain.csv", PLAIN), ("drafted.csv", DRAFTED), ("again.csv", PLAIN)):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("plain.csv", "drafted.csv", "again.csv")]
    with pytest.raises(SystemExit) as stopped:
        main(["ingest", *files, "--save", "run 7"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "again.csv: not read: it is the same file as plain.csv" in out
    assert "together, 2 rows read: speedup computed in 1 row from a baseline row" in out
    assert list_uploads()["name"].tolist() == ["run 7"]
    with pytest.raises(SystemExit):
        main(["ingest", *files[:2], "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["together"][0]["rows_kept"] == 2
    with pytest.raises(SystemExit):
        main(["ingest", files[0], "--save", "alone"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["ingest", files[0]])
    assert "kept already as alone (upload-" in capsys.readouterr().out


def test_the_command_prints_the_acceptance_that_a_run_measured(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["ingest", str(FIXTURES / "vllm_serve_constructed.jsonl")])
    assert "to use the acceptance measured in line 2: --acceptance 0.7,0.6429,0.5556" in capsys.readouterr().out
