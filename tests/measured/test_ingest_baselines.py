"""Which of several runs is the baseline, where the files of a client say neither K nor what was
accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.measured_files import values_of
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import combine, complete
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with


def client(tpot_ms: float, itl_ms: float, model: str = "openai/gpt-oss-120b"):
    record = {
        "backend": "vllm",
        "model_id": model,
        "max_concurrency": 8,
        "duration": 100.0,
        "completed": 100,
        "total_input_tokens": 100_000,
        "total_output_tokens": 50_000,
        "output_throughput": 500.0,
        "total_token_throughput": 1500.0,
        "mean_tpot_ms": tpot_ms,
        "mean_itl_ms": itl_ms,
    }
    return read_upload(f"{tpot_ms}.json", json.dumps(record).encode())


def drafts(*tables) -> list[float | None]:
    k = combine(tables).frame["draft_tokens_k"]
    return [None if value != value else float(value) for value in k.astype(float)]


def test_a_run_of_single_tokens_beside_one_of_several_is_the_baseline(golden):
    assert drafts(client(10.0, 10.1), client(8.0, 16.0)) == [0.0, None]
    result = combine([client(10.0, 10.1), client(8.0, 16.0)]).result
    notes = reading_texts(result.derived)
    golden(draft_tokens=lines_with(notes, "draft_tokens_k 0"))


@pytest.mark.parametrize(
    "tables",
    [
        (client(10.0, 10.1), client(9.0, 9.1)),
        (client(10.0, 10.1), client(9.0, 10.0)),
        (client(10.0, 10.3), client(8.0, 16.0)),
        (client(10.0, 10.1), client(8.0, 16.0, "Qwen/Qwen3-30B-A3B")),
    ],
    ids=["both stream tokens", "little between them", "not single tokens", "another model"],
)
def test_where_nothing_tells_the_baseline_its_k_is_asked_for(tables):
    assert drafts(*tables) == [None, None]


def test_what_is_said_of_runs_with_drafts_is_not_written_on_the_baseline():
    both = complete(combine([client(10.0, 10.1), client(8.0, 16.0)]), {"draft_tokens_k": 3}).result
    assert both.frame["draft_tokens_k"].tolist() == [0, 3]
    assert both.frame["speedup"].tolist()[1] == pytest.approx(1.25)


def test_a_stream_of_single_tokens_tells_no_accepted_length():
    frame = complete(client(10.0, 10.05), {"draft_tokens_k": 3}).result.frame
    assert frame["accepted_length"].isna().all()
    assert frame["step_time_s"].isna().all()


def test_k_may_be_said_of_one_file_alone():
    files = [Path("a.json"), Path("b.json")]
    said = ["a.json:draft_tokens_k=0", "draft_tokens_k=7"]
    assert values_of(0, said, files) == ["draft_tokens_k=0"]
    assert values_of(1, said, files) == ["draft_tokens_k=7"]
    with pytest.raises(AdvisorError, match=r"'c\.json' is not a file given"):
        values_of(0, ["c.json:draft_tokens_k=0"], files)
