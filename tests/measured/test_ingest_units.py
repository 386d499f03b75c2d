"""Times that a header calls milliseconds and that are seconds: another quantity tells."""

from __future__ import annotations

import re

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import complete
from advisor.show.phrases.reading import reading_texts
from tests.golden import readers
from tests.golden.sentences import lines_with

EXPORT = (readers.FIXTURES / "inferencex_export_constructed.csv").read_text()
SETUP = "hardware_id,gpu_count,model_id,engine,draft_tokens_k,batch_size,output_tok_per_s,tpot_ms"
ROW = "h200-sxm,1,qwen3-30b-a3b,vllm,0"


def test_an_export_of_the_dashboard_is_read_in_seconds_whatever_its_headers_say(golden):
    result = read_upload("x.csv", EXPORT.encode()).result
    assert result.frame["tpot_s"].tolist() == [0.01, 0.0152, 0.0071]
    assert result.frame["output_tok_per_s"].tolist() == [760, 2000, 1060]
    assert result.frame["draft_tokens_k"].isna().tolist() == [False, False, True]
    golden(seconds_whatever=lines_with(reading_texts(result.derived), "seconds, whatever"))


def test_an_export_in_the_milliseconds_that_its_headers_say_is_read_alike(golden):
    in_ms = re.sub(r"(?<=,)0\.0(\d+)(?=,)", lambda m: f"{1e3 * float(m[0]):g}", EXPORT)
    in_ms = re.sub(
        r"(?<=,)(0\.\d+|10\.4|16\.0|7\.4)(?=,)", lambda m: f"{1e3 * float(m[0]):g}", in_ms
    )
    both = [read_upload("x.csv", text.encode()).result for text in (EXPORT, in_ms)]
    for column in ("tpot_s", "itl_s", "ttft_s", "request_latency_s"):
        given, other = (result.frame[column].tolist() for result in both)
        assert given == pytest.approx(other)
    golden(milliseconds_headers=lines_with(reading_texts(both[1].derived), "milliseconds, as"))


def test_k_0_is_not_written_on_a_row_that_names_its_drafter():
    frame = complete(read_upload("x.csv", EXPORT.encode()), {"draft_tokens_k": 0}).frame
    assert frame["draft_tokens_k"].isna().tolist() == [False, False, True]


def test_a_rate_a_thousandth_of_what_the_times_say_refuses_the_row():
    wrong = f"{SETUP}\n{ROW},4,400,0.0098\n{ROW},8,790,0.0101\n"
    result = read_upload("own.csv", wrong.encode()).result
    assert (result.rows_kept, result.rows_refused) == (0, 2)
    assert result.rejects["reason"].str.contains("seconds under a header in ms").all()
    right = f"{SETUP}\n{ROW},4,400,9.8\n{ROW},8,790,10.1\n"
    assert read_upload("own.csv", right.encode()).result.rows_kept == 2
