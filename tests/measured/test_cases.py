"""Small inputs that came out wrong once, each with its right answer. They lie beside the project:
skipped without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.remap import own_headers
from advisor.measured.ingest.rows import combine, complete, with_baselines
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

CASES = Path(__file__).parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases lie beside the project")


def result_of(name: str, **given: object):
    return complete(read_upload(name, (CASES / name).read_bytes()), given).result


def test_a_log_with_a_progress_bar_is_one_row():
    (row,) = result_of("c01_tqdm_bar.log", gpu_count=1).frame.to_dict("records")
    assert (row["batch_size"], row["draft_tokens_k"]) == (8, 3)
    assert (row["tpot_s"], row["output_tok_per_s"]) == pytest.approx((0.0069, 1070))
    assert row["accepted_length"] == 1.41
    assert row["acceptance_by_position"] == "0.3258;0.0706;0.0098"


def test_a_servers_log_with_a_loading_bar_gives_its_decoding_steps():
    (row,) = result_of("c02_sglang_server_cr.log", gpu_count=8).frame.to_dict("records")
    assert (row["batch_size"], row["draft_tokens_k"]) == (4, 0)
    assert row["step_time_s"] == pytest.approx(0.0131, rel=0.01)


def test_of_two_counterless_runs_the_one_that_streams_single_tokens_is_the_baseline():
    plain, drafting = with_baselines(
        [
            read_upload(name, (CASES / name).read_bytes())
            for name in ("c03_plain.json", "c03_eagle3_k7.json")
        ]
    )
    assert plain.frame["draft_tokens_k"].tolist() == [0]
    assert drafting.frame["draft_tokens_k"].isna().all()
    both = combine([plain, complete(drafting, {"draft_tokens_k": 7})]).result.frame
    assert both["accepted_length"].tolist()[1] == pytest.approx(2.16, abs=0.005)
    assert both["speedup"].tolist()[1] == pytest.approx(0.89, abs=0.005)


def test_an_untidy_table_is_read_row_by_row(golden):
    result = result_of("untidy.csv", gpu_count=1)
    assert (result.rows_kept, result.rows_refused) == (10, 1)
    assert result.frame["draft_tokens_k"].tolist() == [0, 0, 0, 0, 2, 2, 2, 4, 4, 4]
    assert result.frame["tpot_s"].iloc[0] == pytest.approx(0.00792)
    assert result.frame["output_tok_per_s"].iloc[0] == 1010.5
    assert result.rejects["line"].tolist() == [11]
    golden(line_left=lines_with(reading_texts(result.warnings), "line 16"))


def test_concurrency_and_a_statistic_behind_a_name_are_understood():
    frame = result_of("c10_wide_own.csv").frame
    assert frame["batch_size"].tolist() == [1, 10]
    assert frame["tpot_s"].tolist() == pytest.approx([0.00803, 0.01987])
    assert frame["output_tok_per_s"].tolist() == [123.91, 492.88]


def test_of_two_quantities_for_each_k_the_time_per_token_is_read_and_said(golden):
    result = result_of("wide.csv", gpu_count=1, drafter="eagle3")
    assert result.rows_kept == 24
    assert sorted(set(result.frame["draft_tokens_k"])) == [1, 2, 3, 5]
    assert set(result.frame["metric"]) == {"tpot_ms"}
    golden(prefer_output=lines_with(reading_texts(result.derived), "--prefer output_tok_per_s"))
    data = (CASES / "wide.csv").read_bytes()
    preferred = read_upload("wide.csv", data, {"prefer": "output_tok_per_s"}).result
    assert set(preferred.frame["metric"]) == {"output_tok_per_s"}
    assert preferred.frame["speedup"].iloc[0] == pytest.approx(271 / 212)


def test_the_page_proposes_nothing_that_it_then_rejects():
    data = (CASES / "wide.csv").read_bytes()
    headers = own_headers("wide.csv", data)
    asked = {header.theirs: header.ours for header in headers if header.ours != header.native}
    assert read_upload("wide.csv", data, asked).rows_kept == 24


def test_a_dashboards_seconds_are_not_read_as_the_milliseconds_of_its_headers():
    frame = result_of("c04_dashboard.csv", draft_tokens_k=0).frame
    assert (frame["tpot_s"] * 1e3).round(2).tolist() == [9.70, 11.73, 6.35]
    assert frame["output_tok_per_s"].iloc[0] == pytest.approx(393.4, abs=0.1)
    assert frame["draft_tokens_k"].isna().tolist() == [False, False, True]
