"""Tables that hold two quantities at each K: one is read, the other on demand."""

from __future__ import annotations

import pytest

from advisor.measured.ingest.read import read_given, read_upload
from advisor.measured.ingest.remap import own_headers
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

TABLE = b"""gpu,model,engine,concurrency,K0 tok/s,K1 tok/s,K3 tok/s,K0 TPOT (ms),K1 TPOT (ms),\
K3 TPOT (ms)
H200,Qwen3-30B-A3B,vLLM,1,200,260,300,5.0,3.9,3.2
H200,Qwen3-30B-A3B,vLLM,16,1600,2000,2200,10.0,8.0,7.5
"""


def test_the_time_per_token_is_read_and_how_to_read_the_rates_is_said(golden):
    result = read_upload("own.csv", TABLE).result
    assert result.rows_kept == 4
    assert result.frame["tpot_s"].tolist() == pytest.approx([3.9e-3, 3.2e-3, 8e-3, 7.5e-3])
    golden(prefer_output=lines_with(reading_texts(result.derived), "--prefer output_tok_per_s"))
    ignored = next(text for text in reading_texts(result.warnings) if "ignored" in text)
    assert "K0 tok/s" in ignored
    assert "with_drafts" not in ignored


def test_the_other_quantity_is_read_where_it_is_preferred():
    columns = {"prefer": "output_tok_per_s"}
    frame = read_upload("own.csv", TABLE, columns).result.frame
    assert frame["output_tok_per_s"].tolist() == [260, 300, 2000, 2200]
    assert frame["speedup"].tolist() == pytest.approx([1.3, 1.5, 1.25, 1.375])
    given = read_given("own.csv", TABLE, columns)
    assert set(given.asked["metric"]) == {"output_tok_per_s"}


def test_a_quantity_that_the_table_lacks_cannot_be_preferred():
    with pytest.raises(AdvisorError, match="no column holds step_time"):
        read_upload("own.csv", TABLE, {"prefer": "step_time"})


def test_what_the_form_proposes_is_taken():
    proposed = {item.theirs: item.ours for item in own_headers("own.csv", TABLE)}
    native = {item.theirs: item.native for item in own_headers("own.csv", TABLE)}
    changed = {theirs: ours for theirs, ours in proposed.items() if ours != native[theirs]}
    assert read_upload("own.csv", TABLE, changed).rows_kept == 4
