"""Tables as people write them: their words for columns, and numbers with what they put around
them."""

from __future__ import annotations

import pytest

from advisor.measured.ingest.columns import match_header
from advisor.measured.ingest.read import read_given, read_upload
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

SETUP = "hardware_id,gpu_count,model_id,engine,drafter,draft_tokens_k"
CELLS = "h200-sxm,1,qwen3-30b-a3b,vllm,eagle3"


def frame_of(text: str):
    return read_upload("own.csv", text.encode()).result.frame


@pytest.mark.parametrize("header", ["ccu", "users", "max conc.", "Max Request Concurrency"])
def test_words_for_concurrency_are_the_batch(header):
    assert match_header(header, "points") == ("batch_size", 1.0)


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("tpot_mean_ms", "tpot_s"),
        ("mean_tpot_ms", "tpot_s"),
        ("TPOT (ms, mean)", "tpot_s"),
        ("TPOT avg (ms)", "tpot_s"),
        ("itl_average_ms", "itl_s"),
    ],
)
def test_a_mean_may_be_said_before_or_behind_a_name(header, column):
    assert match_header(header, "points") == (column, 1e-3)


@pytest.mark.parametrize("header", ["tpot_p99_ms", "p99 TPOT (ms)", "tpot_max_ms", "tpot_std_ms"])
def test_another_statistic_is_no_mean(header):
    assert match_header(header, "points") is None


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("8.31 ± 0.25", 8.31),
        ("8.31±0.25", 8.31),
        ("8.31 +/- 0.25", 8.31),
        ("8.31 ± 0.25 ms", 8.31),
        ("1\u00a0008.5", 1008.5),
        ("8.31\u00a0ms", 8.31),
    ],
)
def test_a_number_keeps_its_value_in_what_people_put_around_it(cell, value):
    frame = frame_of(f"{SETUP},batch_size,tpot_ms\n{CELLS},3,8,{cell}\n{CELLS},3,16,9\n")
    assert frame["tpot_s"].tolist() == pytest.approx([value / 1e3, 9e-3])


@pytest.mark.parametrize("cell", ["1.64x", "1.64 x", "1.64×"])
def test_a_speedup_may_say_times(cell):
    frame = frame_of(f"{SETUP},batch_size,speedup\n{CELLS},3,8,{cell}\n")
    assert frame["speedup"].tolist() == [1.64]


def test_two_numbers_in_a_cell_are_none():
    text = f"{SETUP},batch_size,tpot_ms\n{CELLS},3,8,8.31 9.12\n{CELLS},3,9,8x\n{CELLS},3,16,9\n"
    result = read_upload("own.csv", text.encode()).result
    assert result.rejects["value"].tolist() == ["8.31 9.12", "8x"]


def test_lines_of_separators_and_comments_may_stand_before_the_header():
    table = f"{SETUP};batch_size;tpot_ms\n{CELLS};3;8;9\n".replace(",", ";")
    result = read_upload("own.csv", f"# by hand\n;;;\n---\n{table}".encode()).result
    assert result.frame.index.tolist() == [5]


@pytest.mark.parametrize("last", ["Total,,,,,,,12", "total", '"Average",,,,,,,9', "Mean,1,2,3,4"])
def test_a_last_line_that_sums_up_is_left_out_and_said(last, golden):
    result = read_upload(
        "own.csv", f"{SETUP},batch_size,tpot_ms\n{CELLS},3,8,9\n{last}\n".encode()
    ).result
    assert (result.rows_kept, result.rows_refused) == (1, 0)
    golden(line_left=reading_texts(result.warnings)[0])


def refusal(text: str) -> str:
    with pytest.raises(AdvisorError) as caught:
        read_upload("own.csv", text.encode())
    return str(caught.value)


@pytest.mark.parametrize(
    ("headers", "cells"),
    [
        ("successful_requests", "500"),
        ("failed requests", "3"),
        ("total requests", "1000"),
        ("request_rate", "2"),
        ("requests/s", "2.5"),
        ("request_throughput", "4.1"),
        ("p99_tpot_ms", "31"),
        ("tpot_max_ms", "31"),
        ("concurrent streams,parallel sessions", "8,8"),
        ("parallel streams", "0"),
        ("what,ever", "1,2"),
    ],
)
def test_no_command_is_offered_that_would_read_a_column_wrongly(headers, cells):
    assert "--map " not in refusal(f"gpu,{headers}\nH200,{cells}\n").replace(
        "--map theirs=ours", ""
    )


def test_a_command_that_is_offered_names_columns_of_the_file_each_once(golden):
    text = refusal("gpu,parallel streams,gen latency per token ms\nH200,8,9.1\n")
    golden(map_parallel=lines_with(text, "--map 'parallel"))
    assert text.count("=batch_size") == 1


def test_a_refusal_never_ends_in_an_empty_list():
    assert "it lacks ." not in refusal("gpu,model,users\nH200,Qwen3-30B-A3B,8\n")


TABLE = f"{SETUP},batch_size,tpot_ms\n{CELLS},3,8,9.1\n{CELLS},0,8,10.2\n"


def test_the_header_may_stand_again_where_two_files_were_joined():
    result = read_upload("own.csv", (TABLE + TABLE.replace(",8,", ",16,")).encode()).result
    assert (result.rows_kept, result.rows_refused) == (4, 0)
    assert result.frame.index.tolist() == [2, 3, 5, 6]


@pytest.mark.parametrize(
    "second",
    [
        "batch_size,hardware_id,gpu_count,model_id,engine,drafter,draft_tokens_k,tpot_ms",
        f"{SETUP},tpot_ms,batch_size",
        "gpu,tp,model,engine,drafter,users,spec_k,ttft_ms",
    ],
)
@pytest.mark.parametrize("read", [read_upload, read_given])
def test_another_header_below_the_first_is_refused_with_its_line(second, read):
    joined = f"{TABLE}{second}\n{CELLS},8,3,9.1\n"
    with pytest.raises(AdvisorError, match=r"line 4 is another header .*split the file there"):
        read("own.csv", joined.encode())


def test_a_row_of_words_is_no_header():
    text = f"{SETUP},batch_size,tpot_ms,notes\n{CELLS},3,8,9.1,\n{CELLS},none,n/a,,batch model\n"
    assert read_upload("own.csv", text.encode()).result.rows_kept == 1


LIGHT = "┌───────┬────┬──────────┐\n│ batch │ K  │ TPOT (ms)│\n├───────┼────┼──────────┤\n"
ROWS = "│ 8     │ 0  │ 9.1      │\n│ 16    │ 3  │ 8.2      │\n└───────┴────┴──────────┘\n"
LINE = "+-------+----+----------+\n"
PLAIN = (
    f"{LINE}| batch | K  | TPOT (ms)|\n{LINE}| 8     | 0  | 9.1      |\n| 16    | 3  | 8.2      |\n"
)


@pytest.mark.parametrize(
    "text", [LIGHT + ROWS, (LIGHT + ROWS).replace("│", "║"), PLAIN + LINE, PLAIN.replace("-", "=")]
)
def test_a_table_that_a_terminal_drew_in_a_box_is_read(text):
    result = read_upload("own.txt", text.encode()).result
    assert result.rows_refused == 0
    assert result.frame["tpot_s"].tolist() == pytest.approx([9.1e-3, 8.2e-3])
    assert result.frame.index.tolist() == [4, 5]
