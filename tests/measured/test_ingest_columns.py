"""Row-level honesty: every refused row is listed with line, column, value and reason, and the good
rows stay.

docs/formats.md says what the code does.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.measured.ingest import derived
from advisor.measured.ingest import derived as baselines
from advisor.measured.ingest.columns import (
    COLUMNS,
    MEASURED_COLUMNS,
    REQUIRED_CONTEXT,
    USEFUL_CONTEXT,
    match_header,
    template_csv,
)
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.result import csv_of, open_questions
from advisor.measured.ingest.rows import complete, resolve_names
from advisor.measured.ingest.upload import (
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_JSON_BYTES,
    MAX_JSON_RECORDS,
    MAX_LINE_BYTES,
    MAX_REJECTS,
    MAX_ROWS,
    MAX_TEXT_LOG_BYTES,
    MIB,
)
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from advisor.text import RENAMED
from tests.golden import formats_page
from tests.golden.sentences import lines_with

HEAD = "hardware_id,model_id,engine,batch_size,draft_tokens_k,accepted_length,tpot_ms"
GOOD = "h200-sxm,m,vllm,4,3,2.5,10"


def rows_of(*rows: str, head: str = HEAD):
    return read_upload("t.csv", "\n".join((head, *rows, "")).encode())


def table(*rows: str, head: str = HEAD):
    return rows_of(*rows, head=head).result


def only_reject(*rows: str, head: str = HEAD) -> dict[str, object]:
    result = table(*rows, head=head)
    assert len(result.rejects) == 1, result.rejects.to_string()
    return result.rejects.iloc[0].to_dict()


@pytest.mark.parametrize(
    ("row", "column", "value", "reason"),
    [
        ("h200-sxm,m,vllm,4,3,2.5,NaN", "tpot_ms", "NaN", "leave the cell empty"),
        ("h200-sxm,m,vllm,4,3,2.5,-inf", "tpot_ms", "-inf", "infinite"),
        ("h200-sxm,m,vllm,4,3,2.5,1e400", "tpot_ms", "1e400", "too large"),
        ("h200-sxm,m,vllm,4,3,2.5,0", "tpot_ms", "0", "outside the range"),
        ("h200-sxm,m,vllm,4,3,2.5,-3", "tpot_ms", "-3", "outside the range"),
        ("h200-sxm,m,vllm,4,3,2.5,12 min", "tpot_ms", "12 min", "not a number"),
        ("h200-sxm,m,vllm,4,3,2.5,0x10", "tpot_ms", "0x10", "not a number"),
        ("h200-sxm,m,vllm,4,3,2.5,=A1*2", "tpot_ms", "=A1*2", "formula"),
        ('h200-sxm,m,vllm,4,3,2.5,"1,234"', "tpot_ms", "1,234", "ambiguous"),
        ("h200-sxm,m,vllm,4,2.5,2.5,10", "draft_tokens_k", "2.5", "integer"),
        ("h200-sxm,m,vllm,4,-1,,10", "draft_tokens_k", "-1", "0 to 128"),
        ("h200-sxm,m,vllm,0,3,2.5,10", "batch_size", "0", "outside the range"),
        ("h200-sxm,m,vllm,4,3,0.5,10", "accepted_length", "0.5", "outside the range"),
        (
            "h200-sxm,m,vllm,4,3,4.5,10",
            "accepted_length / draft_tokens_k",
            "4.5 / 3",
            "exceeds K + 1",
        ),
        (
            "h200-sxm,m,vllm,4,0,1.5,10",
            "accepted_length / draft_tokens_k",
            "1.5 / 0",
            "exceeds K + 1",
        ),
        ("=cmd|'/C calc'!A0,m,vllm,4,3,2.5,10", "hardware_id", "=cmd|'/C calc'!A0", "formula"),
        ("h200-sxm,@SUM(A1),vllm,4,3,2.5,10", "model_id", "@SUM(A1)", "formula"),
        ("h200-sxm,m,vllm,4,3,,", "", "", "nothing measured"),
        ("h200-sxm,m,vllm", "", "h200-sxm,m,vllm", "3 cells where the header has 7"),
    ],
)
def test_a_bad_row_is_listed_with_line_column_value_and_reason_and_good_rows_stay(
    row, column, value, reason
):
    result = table(GOOD, row, f"{GOOD}.5")
    assert result.rows_kept == 2
    assert result.rows_refused == 1
    assert result.rows_read == 3
    reject = result.rejects.iloc[0]
    assert (reject["line"], reject["column"], reject["value"]) == (3, column, value)
    assert reject["reason"].find(reason) >= 0


def test_a_row_with_two_faults_counts_once_and_an_accepted_length_of_exactly_k_plus_1_is_allowed():
    assert table("h200-sxm,m,vllm,4,3,4,10").rows_refused == 0
    result = table(GOOD, "h200-sxm,m,vllm,x,3,2.5,y")
    assert result.rejects["column"].tolist() == ["batch_size", "tpot_ms"]
    assert result.rows_refused == 1


@pytest.mark.parametrize(
    ("head", "row", "columns"),
    [
        ("n_experts,n_active", "8,128", "n_active / n_experts"),
        ("gpu_count,tensor_parallel", "2,4", "tensor_parallel / gpu_count"),
        ("gpu_count,tensor_parallel", "8,3", "tensor_parallel / gpu_count"),
        ("gpu_count,expert_parallel", "2,4", "expert_parallel / gpu_count"),
        ("ttft_ms,request_latency_ms", "50,40", "ttft_s / request_latency_s"),
        (
            "speedup,baseline_value,sd_value,metric",
            "1.9,100,150,output_tok_per_s",
            "speedup / sd_value / baseline_value",
        ),
        (
            "speedup,baseline_value,sd_value,metric",
            "1.5,100,150,tpot_ms",
            "speedup / sd_value / baseline_value",
        ),
    ],
)
def test_rules_across_columns_refuse_rows_that_contradict_themselves(head, row, columns):
    assert only_reject(f"{GOOD},{row}", head=f"{HEAD},{head}")["column"] == columns


def test_swapped_columns_are_named_not_silently_exchanged_and_one_wrong_row_is_no_swap(golden):
    result = table(*[f"{GOOD},8,128"] * 5, head=f"{HEAD},n_experts,n_active")
    assert result.rows_kept == 0
    golden(active_experts=lines_with(reading_texts(result.warnings), "n_active and"))
    result = table(*["4,m,vllm,h200-sxm,3,2.5,10"] * 3)
    golden(batch_size=lines_with(reading_texts(result.warnings), "batch_size holds"))
    rows = [f"h200-sxm,m,vllm,{batch},3,2.5,10,128,8" for batch in range(1, 6)]
    assert not table(*rows, f"{GOOD},8,128", head=f"{HEAD},n_experts,n_active").warnings


def test_duplicate_headers_are_refused_when_they_differ_and_named_when_they_agree():
    with pytest.raises(AdvisorError, match=r"columns 7 .* and 8 .* differ"):
        table(f"{GOOD},11", head=f"{HEAD},tpot_ms")
    result = table(f"{GOOD},10", head=f"{HEAD},tpot_ms")
    assert result.rows_kept == 1
    assert any("repeats column 7" in warning for warning in reading_texts(result.warnings))


def test_decimal_commas_are_read_and_said_and_thousands_where_a_decimal_point_proves_them():
    result = table(
        "h200-sxm;m;vllm;4;3;2,5;1.234,5", "h200-sxm;m;vllm;4;3;2;7", head=HEAD.replace(",", ";")
    )
    assert result.frame["accepted_length"].tolist() == [2.5, 2]
    assert result.frame["tpot_s"].tolist() == pytest.approx([1.2345, 0.007])
    assert any("decimal points" in warning for warning in reading_texts(result.warnings))
    frame = table('h200-sxm,m,vllm,4,3,2.5,"1,234.5"', 'h200-sxm,m,vllm,4,3,2.5,"1,000"').frame
    assert frame["tpot_s"].tolist() == pytest.approx([1.2345, 1.0])


def test_empty_means_unknown_and_never_zero():
    result = table("h200-sxm,m,vllm,,,,10", "h200-sxm,m,vllm,n/a,-,None,10")
    assert result.frame["batch_size"].isna().all()
    assert result.frame["draft_tokens_k"].isna().all()
    assert result.frame["speedup"].isna().all()


def test_line_numbers_survive_comments_and_quoted_breaks_and_a_quote_that_never_closes_is_refused(
    golden,
):
    text = (
        "# "
        f'note\n\n{HEAD},notes\n{GOOD},"two\nlines"\n\nh200-sxm,m,vllm,4,3,2.5,bad,x\nshort,row\n{GOOD},ok\n'
    )
    result = read_upload("t.csv", text.encode()).result
    assert result.rejects["line"].tolist() == [7, 8]
    assert result.frame.index.tolist() == [4, 9]
    result = read_upload(
        "t.csv", f'{HEAD},notes\n{GOOD},a\n{GOOD},"oops\n{GOOD},c\n{GOOD},d\n'.encode()
    ).result
    assert result.rows_kept == 1
    golden(never_closed=lines_with(result.rejects["reason"].iloc[0], "never closed"))


def test_short_form_asks_for_required_context_first_and_completing_checks_again():
    rows = rows_of("4,2.5,10", head="batch_size,accepted_length,tpot_ms")
    result = rows.result
    asked = [item.name for item in result.missing]
    assert asked[:4] == ["hardware_id", "model_id", "engine", "draft_tokens_k"]
    done = complete(
        rows, {"hardware_id": "h200-sxm", "model_id": "m", "engine": "vLLM", "draft_tokens_k": 3}
    ).result
    assert not [item for item in done.missing if item.required]
    assert done.frame["engine"].tolist() == ["vllm"]
    refused = complete(rows, {"draft_tokens_k": 1})
    assert refused.result.rows_kept == 0
    assert "K + 1" in refused.result.rejects["reason"].iloc[0]
    assert complete(refused, {"draft_tokens_k": 3}, override=True).result.rows_kept == 1


def test_rejects_download_as_csv_with_formulas_quoted_and_numbers_left():
    result = table(GOOD, "h200-sxm,m,vllm,4,3,2.5,=1+1", "h200-sxm,m,vllm,4,3,2.5,-3")
    rows = list(csv.reader(io.StringIO(csv_of(result.rejects).decode())))
    assert rows[0] == ["line", "column", "value", "reason"]
    assert [row[2] for row in rows[1:]] == ["'=1+1", "-3"]


@pytest.mark.parametrize("kind", ["points", "kernels"])
def test_the_template_is_short_has_what_is_required_and_two_rows_that_are_read(kind):
    header, *rows = csv.reader(io.StringIO(template_csv(kind).decode()))
    assert {*REQUIRED_CONTEXT[kind]} <= {*header}
    assert len(header) <= 13
    result = read_upload("t.csv", template_csv(kind)).result
    assert result.rows_kept == len(rows) == 2
    assert not [item for item in result.missing if item.required]
    if kind == "points":
        text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(
            encoding="utf-8"
        )
        said = re.search(r"\*\*The template\*\*.*?\n\n", text, re.DOTALL)[0]
        assert {*re.findall(r"`(\w+)`", said)} == {*header}
        assert {*re.findall(r"`(\w+)` \(required\)", said)} == {*REQUIRED_CONTEXT[kind]}


def test_what_was_read_can_be_written_as_the_template_and_read_again():
    first = table(GOOD, "h200-sxm,m,vllm,4,0,,20").frame
    again = read_upload("t.csv", first.to_csv(index=False).encode()).result.frame
    pd.testing.assert_frame_equal(first.reset_index(drop=True), again.reset_index(drop=True))
    assert first["speedup"].iloc[0] == pytest.approx(2.0)


def test_types_are_stable_whatever_the_file_lacks():
    frame = table(GOOD).frame
    assert list(frame.columns) == list(COLUMNS["points"])
    assert str(frame["draft_tokens_k"].dtype) == "Int64"
    assert frame["tpot_s"].dtype == np.float64
    assert str(frame["model_id"].dtype) == "str"


def test_a_name_that_the_user_replaced_is_not_warned_of_any_more():
    text = "hardware_id,model_id,batch_size,tpot_s\nmybox,qwen3-30b-a3b,8,0.01\n"
    rows = resolve_names(read_upload("points.csv", text.encode()))
    assert any("mybox" in warning for warning in reading_texts(rows.result.warnings))
    chosen = complete(rows, {"hardware_id": "h200-sxm"}, override=True).result
    assert not any("mybox" in warning for warning in reading_texts(chosen.warnings))


DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["points", "kernels"])
def test_column_lists_are_consistent(kind):
    for name in (*REQUIRED_CONTEXT[kind], *USEFUL_CONTEXT[kind]):
        assert COLUMNS[kind][name].context
    assert set(MEASURED_COLUMNS[kind]) <= set(COLUMNS[kind])
    for column in COLUMNS[kind].values():
        assert match_header(column.name, kind) == (column.name, 1.0)
        assert column.meaning
        for alias in column.aliases:
            found = match_header(f"{alias}_ms" if column.unit == "s" else alias, kind)
            assert found == (column.name, 1e-3 if column.unit == "s" else 1.0), alias


def test_the_tables_of_formats_are_written_from_the_readers():
    assert formats_page.page(DOCS) == DOCS, "python -m tests.golden.formats_page writes them"


def test_limits_derivations_and_required_context_are_documented_as_the_code_has_them():
    for value in (MAX_BYTES, MAX_JSON_BYTES, MAX_TEXT_LOG_BYTES, MAX_LINE_BYTES):
        assert f"| {value // MIB} MiB |" in DOCS
    for value in (MAX_ROWS, MAX_COLUMNS, MAX_JSON_RECORDS, MAX_REJECTS):
        assert f"| {value:,} |" in DOCS
    names = set(re.findall(r"\(`([a-z]\w+)`\)", DOCS))
    assert len(names) >= 7
    assert all(callable(vars(derived).get(name) or vars(baselines).get(name)) for name in names)
    sentence = re.search(r"Required before a row[^:]*: ([^.]*)\.", DOCS)
    assert tuple(name.strip() for name in sentence[1].split(",")) == REQUIRED_CONTEXT["points"]


def test_a_column_of_before_is_read_under_its_old_name_which_is_said():
    old = table(GOOD, head=HEAD.replace("draft_tokens_k", "k_draft"))
    new = table(GOOD)
    pd.testing.assert_frame_equal(old.frame, new.frame)
    assert lines_with(reading_texts(old.warnings), "k_draft as n_draft")
    assert not lines_with(reading_texts(new.warnings), "k_draft")


def test_every_renamed_name_stands_in_the_table_of_renames():
    page = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| `k_draft`", "| `distinct_"))]
    for old, new in RENAMED.items():
        stem, end = next((old.removesuffix(e), e) for e in ("_low", "_high", "") if old.endswith(e))
        assert any(
            f"`{stem}`" in row
            and (not end or f"`{end}`" in row)
            and f"`{new.removesuffix(end)}`" in row
            for row in rows
        )


def test_a_comma_that_nothing_settles_is_asked_about_and_the_answer_reads_the_rows(golden):
    text = b"batch_size;draft_tokens_k;accepted_length;tpot_ms\n1;3;2.5;8,310\n8;3;2.5;12,450\n"
    open_ = read_upload("t.csv", text).result
    assert open_.rows_kept == 0
    (asked,) = open_questions(open_.rejects)
    golden(map_decimal=asked.options)
    golden(what_does=asked.text)
    for meaning, wanted in (("decimal", [0.00831, 0.01245]), ("thousands", [8.31, 12.45])):
        result = read_upload("t.csv", text, {",": meaning}).result
        assert result.frame["tpot_s"].tolist() == pytest.approx(wanted)
        assert open_questions(result.rejects) == ()
    assert "8,310" in text.decode()
    both = read_upload(
        "t.csv", text.replace(b"batch_size", b"users"), {",": "decimal", "users": "batch_size"}
    ).result
    assert both.frame["batch_size"].tolist() == [1, 8]
    with pytest.raises(AdvisorError, match="a comma marks decimal or thousands, not 'dot'"):
        read_upload("t.csv", text, {",": "dot"})


BARE = "batch,K,TPOT,TTFT\n1,0,4.1,80\n1,3,2.4,90\n"


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e-3), ("s", 1.0), ("us", 1e-6)])
def test_times_without_a_unit_are_asked_about_once_and_the_answer_reads_all_of_them(
    unit, factor, golden
):
    records = [
        dict(zip(("batch", "K", "TPOT"), row, strict=True)) for row in ((1, 0, 4.1), (1, 3, 2.4))
    ]
    questions = []
    for data in (BARE.encode(), json.dumps({"runs": records}).encode()):
        result = read_upload("t", data).result
        (asked,) = open_questions(result.rejects)
        assert result.rows_kept == 0
        questions.append(asked.text)
        found = read_upload("t", data, {"times": unit}).result
        assert open_questions(found.rejects) == ()
        assert found.frame["tpot_s"].tolist() == pytest.approx([4.1 * factor, 2.4 * factor])
    golden(which_unit=questions)


def test_a_time_without_a_unit_beside_one_that_has_it_is_left_out_with_a_word(golden):
    result = read_upload("t.csv", BARE.replace("TPOT", "TPOT (ms)").encode()).result
    assert (result.rows_kept, open_questions(result.rejects)) == (2, ())
    golden(ttft_was=lines_with(reading_texts(result.warnings), "'TTFT' was"))
    with pytest.raises(AdvisorError, match="times are in ms or s or us, not 'minutes'"):
        read_upload("t.csv", BARE.encode(), {"times": "minutes"})


def test_units_that_stand_in_the_cells_are_read():
    for header in ("TPOT", "TPOT (s)", "TPOT (ms)"):
        data = f"batch,K,{header}\n1,0,4.1 ms\n1,3,2400us\n8,3,0.0052 s\n"
        assert read_upload("t.csv", data.encode()).result.frame["tpot_s"].tolist() == pytest.approx(
            [4.1e-3, 2.4e-3, 5.2e-3]
        )
    some = read_upload("t.csv", b"batch,K,TPOT\n1,0,4.1 ms\n1,3,2.4\n").result
    assert len(open_questions(some.rejects)) == 1


def test_a_rate_in_a_cell_is_read_where_the_column_counts_rates():
    for plain, spec in (("tps_no_spec", "tps_k3"), ("plain (ms)", "k3 (ms)")):
        data = (
            f"concurrency,{plain},{spec}\n1,fast,410\n16,2350 tok/s,3200 tokens/s\n32,3900,4950 "
            "tps\n"
        )
        found = read_upload("t.csv", data.encode()).result
        reasons = dict(zip(found.rejects["line"], found.rejects["reason"], strict=False))
        assert all("the unit in the column's header" in reason for reason in reasons.values())
        assert (sorted(reasons) == [2]) == (plain == "tps_no_spec"), reasons
        if plain == "tps_no_spec":
            assert found.frame["sd_value"].tolist() == [3200, 4950]
    rate = read_upload("t.csv", b"concurrency,K,output_tok_per_s\n1,0,245 tok/s\n4,0,820\n").result
    assert rate.frame["output_tok_per_s"].tolist() == [245, 820]


@pytest.mark.parametrize(
    "header", ["ms_per_token", "ms/token", "ms per output token", "mean ms/tok"]
)
def test_a_time_per_token_may_begin_with_its_unit(header):
    assert match_header(header, "points") == ("tpot_s", 1e-3)


@pytest.mark.parametrize(
    "header", ["captured", "CUDA graphs", "eager", "enforce_eager", "disable-cuda-graph"]
)
def test_a_flag_under_a_name_that_says_the_contrary_is_turned_round(header):
    given = f"batch,{header},K,tpot_ms\n1,True,0,5\n2,0,0,6\n3,,0,6\n".encode()
    captured = [1, 0] if header in ("captured", "CUDA graphs") else [0, 1]
    for columns, data in (
        (None, given),
        ({"mode": header}, given.replace(header.encode(), b"mode")),
    ):
        found = read_upload("x.csv", data, columns).result.frame["captured"]
        assert found.dropna().tolist() == captured
        assert found.isna().tolist() == [False, False, True]
