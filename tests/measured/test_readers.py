"""Each reader against a file of its format: guidellm and AIPerf files as written (reduced), the
others constructed."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from advisor.catalog.models import model_meant
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.result import noted
from advisor.measured.ingest.rows import combine, complete, resolve_names
from advisor.measured.readers import FORMATS
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden import readers
from tests.golden.sentences import lines_with
from tests.measured.open_runs import open_run

FOLDER = Path(__file__).parents[1] / "fixtures" / "ingest"
OUTCOMES = json.loads(readers.FILE.read_text(encoding="utf-8"))


def rows_of(name: str):
    return read_upload("upload", (FOLDER / name).read_bytes())


def read(document: object):
    return read_upload("x", json.dumps(document).encode()).result


def completed(rows, values: dict[str, object], override: bool = False):
    return complete(rows, values, override).result


@pytest.mark.parametrize("name", readers.names())
def test_a_fixture_is_read_as_it_was(name):
    assert readers.outcome(name) == OUTCOMES[name]


def test_every_format_has_a_fixture():
    read = {outcome["format"] for outcome in OUTCOMES.values() if outcome["rows"]}
    assert {item.id for item in FORMATS} == read | {"canonical_csv"}


def missing(result) -> dict[str, object]:
    return {item.name: item.prefill for item in result.missing if item.required}


def test_vllm_serve_counts_give_accepted_length_and_k_when_the_file_states_neither():
    records = [
        json.loads(line)
        for line in (FOLDER / "vllm_serve_constructed.jsonl").read_text().splitlines()
    ]
    for key in ("spec_decode_acceptance_length", "spec_decode_per_position_acceptance_rates"):
        del records[1][key]
    frame = read(records).frame
    assert frame["accepted_length"].iloc[1] == pytest.approx(1 + 9520 / 6800)
    assert frame["draft_tokens_k"].iloc[1] == 3
    records[1]["spec_decode_draft_tokens"] = (
        17000  # 2.5 drafts a round: K varied, so it is not guessed
    )
    result = read(records)
    assert pd.isna(result.frame["draft_tokens_k"].iloc[1])
    assert any(note.kind == "k_varied" for note in result.derived)


def test_an_old_vllm_file_without_draft_counters_asks_for_k_and_does_not_assume_zero():
    record = json.loads((FOLDER / "vllm_serve_constructed.jsonl").read_text().splitlines()[0])
    for key in ("spec_k", "gpu", "max_concurrency", "backend"):
        del record[key]
    rows = read_upload("x", json.dumps(record).encode())
    result = rows.result
    assert missing(result) == {"hardware_id": None, "engine": "vllm", "draft_tokens_k": None}
    done = completed(
        rows, {"hardware_id": "h200-sxm", "engine": "vllm", "batch_size": 16, "draft_tokens_k": "0"}
    )
    assert not [item for item in done.missing if item.required]


def forward_case(name: str, **rank: object) -> dict[str, object]:
    request = {"query_len": 4, "kv_len": 4096, "num_draft_tokens": 3, "chunked": False}
    return {
        "case": name,
        "requests": [request] * 4,
        "median_us": 7000.0,
        "ranks": [{"routing": "real", **rank}] * 2,
    }


def test_a_forward_case_with_its_drafter_is_refused_and_one_named_per_rank_counts_its_requests(
    golden,
):
    cases = [
        forward_case("verify", timing_scope="target_only"),
        forward_case("verify", timing_scope="target_and_drafter"),
        forward_case("verify", drafter={"method": "eagle3"}),
    ]
    result = read(cases)
    assert result.frame["verify_time_s"].tolist() == pytest.approx([0.007])
    assert result.rejects["line"].tolist() == [2, 3]
    assert result.rejects["reason"].str.contains("--exclude-drafter").all()
    named = read([forward_case("verify_per_rank")])
    assert named.frame["batch_kind"].tolist() == ["requests_per_rank"]
    other = read([forward_case("verify")])
    assert other.frame["batch_kind"].tolist() == ["batch"]
    golden(data_parallel=lines_with(reading_texts(other.derived), "data-parallel"))


def test_vllm_latency_and_throughput_give_a_rate_once_the_lengths_are_known():
    latency = completed(
        rows_of("vllm_latency_constructed.json"),
        {"hardware_id": "h200-sxm", "batch_size": 8, "draft_tokens_k": 0, "output_tokens": 100},
    )
    assert latency.frame["output_tok_per_s"].tolist() == pytest.approx([8 * 100 / 2.5])
    assert latency.frame["step_time_s"].isna().all()
    throughput = completed(
        rows_of("vllm_throughput_constructed.json"), {"input_tokens": 1000, "output_tokens": 200}
    )
    assert throughput.frame["output_tok_per_s"].tolist() == pytest.approx([12000 * 200 / 1200])


def test_guidellm_tokens_per_iteration_become_the_accepted_length():
    document = json.loads((FOLDER / "guidellm_0.8.1_reduced.json").read_text())
    document["benchmarks"][1]["metrics"]["iter_tokens_per_iteration"]["successful"]["mean"] = 2.5
    frame = completed(read_upload("x", json.dumps(document).encode()), {"draft_tokens_k": 3}).frame
    assert frame["accepted_length"].iloc[1] == pytest.approx(2.5)
    assert frame["step_time_s"].iloc[1] == pytest.approx(2.5 * 5.342036806127076e-3)


def test_an_accepted_length_beyond_k_plus_1_from_chunk_latency_is_left_out_and_said():
    rows = complete(rows_of("aiperf_0.13.0_reduced.json"), {"draft_tokens_k": 2})
    result = rows.result
    assert result.frame["accepted_length"].isna().all()
    assert any(note.kind == "otherwise_accepted_length" for note in result.derived)
    assert (
        completed(rows, {"draft_tokens_k": 4}, override=True).frame["accepted_length"].notna().all()
    )


def test_aiperf_spec_decode_fields_win_over_chunk_latency_and_a_cancelled_run_is_refused():
    document = json.loads((FOLDER / "aiperf_0.13.0_reduced.json").read_text())
    document["spec_decode_acceptance_length"] = {"unit": "tokens", "avg": 2.2}
    document["total_spec_decode_steps"] = {"unit": "count", "avg": 100}
    document["total_draft_tokens"] = {"unit": "count", "avg": 300}
    frame = read(document).frame
    assert frame["accepted_length"].tolist() == [2.2]
    assert frame["draft_tokens_k"].tolist() == [3]
    assert frame["step_time_s"].iloc[0] == pytest.approx(
        2.2 * 1.6034787214285713e-3
    )  # chunks are not steps here
    with pytest.raises(AdvisorError, match="cancelled"):
        read(document | {"was_cancelled": True})


def test_genai_perf_csv_with_its_own_column_order_is_read():
    text = (
        "Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1\n"
        "Time To First Token (ms),50,1,2,3,3,3,3,3,3,3,3,3\nInter Token Latency "
        "(ms),7.5,1,2,3,3,3,3,3,3,3,3,3\n"
        '\nMetric,Value\nOutput Token Throughput (per sec),"1,234.50"\n'
    )
    frame = read_upload("x", text.encode()).result.frame
    assert frame["tpot_s"].tolist() == pytest.approx([0.0075])
    assert frame["output_tok_per_s"].tolist() == pytest.approx([1234.5])


def test_kernel_table_reads_the_same_from_csv_and_parquet_and_damage_or_no_latency_is_refused():
    text = (FOLDER / "kernel_table_constructed.csv").read_bytes()
    out = io.BytesIO()
    pd.read_csv(io.BytesIO(text)).to_parquet(out)
    one = read_upload("x", text).result
    two = read_upload("x", out.getvalue()).result
    pd.testing.assert_frame_equal(
        one.frame.reset_index(drop=True), two.frame.reset_index(drop=True)
    )
    data = bytearray(out.getvalue())
    data[4:60] = b"\xff" * 56
    with pytest.raises(AdvisorError, match="damaged parquet"):
        read_upload("x", bytes(data))
    with pytest.raises(AdvisorError, match="no latency"):
        rows_of("tuned_config_constructed.json")


def test_inferencex_rates_are_scaled_to_all_gpus_and_held_to_their_range():
    rows = rows_of("inferencex_constructed.json")
    done = completed(rows, {"draft_tokens_k": 3})
    assert done.frame["draft_tokens_k"].tolist() == [
        0,
        3,
    ]  # a filled cell never replaces what the file says
    assert done.frame["speedup"].iloc[1] == pytest.approx(2.0)
    split = json.loads((FOLDER / "inferencex_constructed.json").read_text())
    split[0]["disagg"] = True
    assert pd.isna(read(split).frame["output_tok_per_s"].iloc[0])
    documents = json.loads((FOLDER / "inferencex_constructed.json").read_text())
    documents[0]["output_tput_per_gpu"] = -100.0
    result = read(documents)
    assert result.rejects[["line", "column", "value"]].to_dict("list") == {
        "line": [1],
        "column": ["output_tok_per_s"],
        "value": ["-800"],
    }
    assert 1 not in result.frame.index


@pytest.mark.parametrize(
    ("expected", "placed"),
    [
        ({"dp_attention": "false"}, [8, 8, 8, None]),
        ({"dp_attention": "true"}, [8, 8, 8, 8]),
        ({"is_multinode": True, "disagg": True, "decode_num_workers": 4}, [32, 8, 8, 4]),
        (
            {
                "is_multinode": True,
                "disagg": True,
                "decode_num_workers": 4,
                "decode_dp_attention": True,
            },
            [32, 1, 8, 32],
        ),
        (
            {
                "is_multinode": True,
                "disagg": True,
                "decode_num_workers": 1,
                "decode_dp_attention": True,
            },
            [8, 8, 8, 8],
        ),
    ],
)
def test_inferencex_attention_groups_and_decode_workers_share_the_batch(expected, placed):
    records = json.loads((FOLDER / "inferencex_constructed.json").read_text())
    sizes = {"tp": 8, "ep": 8, "decode_tp": 8, "decode_ep": 8}
    row = read([records[0] | sizes | expected]).frame.iloc[0]
    names = ("gpu_count", "tensor_parallel", "expert_parallel", "data_parallel")
    assert [None if pd.isna(row[name]) else int(row[name]) for name in names] == placed


def test_one_broken_line_of_many_is_refused_and_the_rest_are_read():
    data = (
        FOLDER / "sglang_speculative_constructed.jsonl"
    ).read_bytes() + b'{"batch_size": 1, \n[1]\n'
    result = read_upload("x", gzip.compress(data)).result
    assert result.rows_kept == 6
    assert result.rejects["line"].tolist() == [7, 8]
    assert result.rows_read == 8


def test_a_model_s_name_means_the_profile_with_its_dimensions_before_a_shorter_id():
    assert model_meant("zai-org/GLM-5.3") == "glm-5.2"
    assert model_meant("Qwen3-8B-speculator.eagle3") == "qwen3-8b"


@pytest.mark.parametrize(
    ("name", "given", "dtype", "note"),
    [
        (
            "Qwen/Qwen3-30B-A3B-FP8",
            "",
            "fp8",
            "weight_dtype fp8 read from the name 'Qwen/Qwen3-30B-A3B-FP8'",
        ),
        ("Qwen/Qwen3-30B-A3B-AWQ", "", "int4", "where none is given (awq taken for 4 bits)"),
        ("Qwen/Qwen3-30B-A3B-FP8", "bf16", "bf16", ""),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int8", "", "int8", "int8 read from the name"),
        ("Qwen/Qwen3-30B-A3B-GGUF", "", None, "gguf left out of account"),
        ("Qwen/Qwen3-30B-A3B", "", None, ""),
        ("Qwen3-30B-A3B-speculator.eagle3", "", None, "not known as a checkpoint"),
    ],
)
def test_a_format_in_a_model_s_name_fills_an_empty_cell_and_is_said(name, given, dtype, note):
    text = f"model_id,hardware_id,batch_size,tpot_s,weight_dtype\n{name},h200-sxm,8,0.01,{given}\n"
    result = resolve_names(read_upload("points.csv", text.encode())).result
    assert list(result.frame["model_id"]) == ["qwen3-30b-a3b"]
    cells = result.frame["weight_dtype"]
    assert (list(cells) == [dtype]) if dtype else cells.isna().all()
    notes = [each for each in reading_texts(result.derived) if name in each]
    assert len(notes) == bool(note)
    assert not note or note in notes[0]


def test_what_a_name_says_stands_once_with_its_files_whenever_the_files_are_joined():
    header = "model_id,hardware_id,batch_size,tpot_s,weight_dtype"
    names = ("Qwen3-8B-FP8", "Qwen3-8B-FP8", "Qwen3-8B")
    texts = [
        f"{header}\n{name},h200-sxm,{batch},0.01,\n" for batch, name in enumerate(names, start=1)
    ]
    files = [read_upload(f"{i}.csv", text.encode()) for i, text in enumerate(texts)]
    joined = resolve_names(combine(files))
    for table in (joined, combine([resolve_names(each) for each in files])):
        assert table.result.frame["weight_dtype"].tolist()[:2] == ["fp8", "fp8"]
        assert pd.isna(table.result.frame["weight_dtype"].iloc[2])
        assert lines_with(reading_texts(table.result.derived), "Qwen3-8B-FP8") == [
            "0.csv, 1.csv: weight_dtype fp8 read from the name 'Qwen3-8B-FP8' where none is given"
        ]
    again = resolve_names(complete(joined, {"engine": "vllm"}))
    assert sum("Qwen3-8B-FP8" in note for note in reading_texts(again.result.derived)) == 1


def test_an_unknown_accelerator_is_named_with_its_lines_and_counts_are_of_usable_rows():
    rows = [
        "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms,accepted_length",
        "h999,gpt-oss-20b,vllm,4,3,2.5,2.0",
        "h200-sxm,gpt-oss-20b,vllm,4,3,2.5,2.0",
        "h200-sxm,gpt-oss-20b,vllm,4,3,2.5,9.0",
        "h200-sxm,gpt-oss-20b,vllm,x,3,2.5,2.0",
    ]
    result = resolve_names(read_upload("a.csv", "\n".join(rows).encode())).result
    assert (result.rows_kept, result.rows_refused) == (2, 2)
    facts = {note.kind: dict(note.facts) for note in result.derived}
    assert facts["computed_step_time_s"]["n"] == 2
    assert reading_texts(result.warnings) == [
        "hardware_id 'h999' fits no single known id: 1 row (line 2) kept, but not predicted until "
        "you choose one"
    ]


STEP = (
    "INFO Engine {rank:03d}: Iteration({n}): {c} context requests, {ct} context tokens, {g} "
    "generation requests, {m} generation tokens, iteration elapsed time: {ms:.2f} ms{dummy}, GPU "
    "KV cache usage: 0.1%"
)


def steps(*groups: tuple[int, int, int, float], **said: object) -> bytes:
    """Log lines: (how many, requests, tokens, ms) of each group."""
    common = {"rank": 0, "n": 1, "c": 0, "ct": 0, "dummy": ""} | said
    return "\n".join(
        STEP.format(**common, g=g, m=m, ms=ms) for count, g, m, ms in groups for _ in range(count)
    ).encode()


def test_a_log_of_steps_takes_the_median_and_leaves_out_what_is_no_decoding(golden):
    text = steps(
        (3, 4, 16, 10.0),
        (3, 4, 16, 30.0),
        (1, 4, 16, 12.0),
        (4, 2, 2, 5.0),
        (6, 3, 7, 9.0),
        (2, 0, 0, 1.0),
    )
    result = read_upload("server.log", text).result
    row = result.frame.iloc[0]
    assert (row["batch_size"], row["draft_tokens_k"], row["step_time_s"]) == (
        4,
        3,
        pytest.approx(0.012),
    )
    assert len(result.frame) == 1
    golden(fewer_than=lines_with(result.rejects["reason"].iloc[0], "fewer than"))
    assert noted("left_of_unequal_k", left=(6, "step")) in result.derived
    assert noted("left_idle", left=(2, "step")) in result.derived


def decode(
    batch: int, rate: float, accepted: str = "", rank: str = "TP0", tokens: int = 4000
) -> str:
    """A line of SGLang 0.5's scheduler."""
    return (
        f"[2026-11-20 10:00:00 {rank}] Decode batch, #running-req: {batch}, #token: {tokens}, "
        f"token usage: 0.10, {accepted}cuda graph: True, gen throughput (token/s): {rate}, "
        "#queue-req: 0"
    )


SERVER = (
    "[2026-11-20 09:58:00] server_args=ServerArgs(model_path='Qwen/Qwen3-30B-A3B', tp_size=2, "
    "dp_size=1, speculative_algorithm='EAGLE3', speculative_num_steps=3, "
    "speculative_eagle_topk=1, speculative_num_draft_tokens=4, kv_cache_dtype='auto')"
)
PROMPT = "[2026-11-20 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 100, #running-req: 3"
ROUND = "accept len: 2.00, accept rate: 0.33, "


def test_an_sglang_log_gives_rounds_by_batch_and_leaves_out_what_prompts_or_departures_touch(
    golden,
):
    text = [
        SERVER,
        PROMPT,
        decode(4, 10.0, ROUND),
        *[decode(4, rate, ROUND) for rate in (400, 500, 800)],
    ]
    text += [
        decode(4, 999.0, ROUND, rank="TP1"),
        decode(2, 5.0, ROUND),
        decode(2, 300.0, ROUND),
        decode(0, 0.0),
    ]
    result = read_upload("server.log", "\n".join(text).encode()).result
    row = result.frame.iloc[0]
    assert len(result.frame) == 1
    assert (row["batch_size"], row["draft_tokens_k"], row["accepted_length"]) == (4, 3, 2.0)
    assert row["step_time_s"] == pytest.approx(4 * 2.0 / 500)
    assert (row["drafter"], row["model_id"], row["tensor_parallel"]) == (
        "eagle3",
        "Qwen/Qwen3-30B-A3B",
        2,
    )
    assert (row["context_tokens"], row["captured"], row["accepted_length_same_run"]) == (1000, 1, 1)
    golden(lines_after=lines_with(reading_texts(result.derived), "2 lines"))
    golden(fewer_than=lines_with(result.rejects["reason"].iloc[0], "fewer than"))


def test_an_sglang_log_of_several_ranks_counts_the_batch_of_all():
    text = [SERVER.replace("dp_size=1", "dp_size=4"), *[decode(4, 500.0, rank="DP0 TP0")] * 4]
    row = read_upload("server.log", "\n".join(text).encode()).result.frame.iloc[0]
    assert (row["batch_size"], row["draft_tokens_k"], row["data_parallel"]) == (16, 0, 4)
    assert row["step_time_s"] == pytest.approx(4 / 500)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([steps((9, 1, 1, 5.0), c=1, ct=100)], "9 steps with prompts"),
        ([steps((9, 1, 1, 5.0), dummy=" (dummy)")], "9 steps idle"),
        ([steps((9, 2, 2, 5.0)), steps((9, 2, 2, 5.0), rank=1)], "one engine's lines"),
        ([PROMPT.encode(), decode(4, 10.0).encode()] * 4, "4 lines after a prompt"),
        ([decode(4, 10.0, rank=f"DP{i} TP0").encode() for i in (0, 0, 0, 0, 1)], "mixes 2 engines"),
    ],
)
def test_a_log_without_decoding_of_one_engine_says_so(lines, expected):
    with pytest.raises(AdvisorError, match=expected):
        read_upload("server.log", b"\n".join(lines))


def test_a_profiler_sweep_without_layers_or_with_a_lost_column_is_refused():
    text = (FOLDER / "profiler_sweep_constructed.csv").read_text()
    with pytest.raises(AdvisorError, match="holds no MoE layer"):
        read_upload("x", "\n".join(text.splitlines()[:2]).encode())
    with pytest.raises(AdvisorError, match="lacks the columns notes"):
        read_upload("x", text.replace(",notes", ",remarks", 1).encode())


def test_a_chunk_of_negative_time_is_refused_with_its_request_and_not_averaged_in():
    lines = (FOLDER / "aiperf_0.13.0_reduced.jsonl").read_text().splitlines()
    whole = read_upload("x", "\n".join(lines).encode()).result
    record = json.loads(lines[0])
    record["metrics"]["inter_chunk_latency"]["value"][0] = -7.0
    result = read_upload("x", "\n".join([json.dumps(record), *lines[1:]]).encode()).result
    assert result.rejects[["line", "column"]].to_dict("list") == {
        "line": [1],
        "column": ["inter_chunk_latency"],
    }
    others = read_upload("x", "\n".join(lines[1:]).encode()).result
    assert (
        result.frame["itl_s"].tolist()
        == others.frame["itl_s"].tolist()
        != whole.frame["itl_s"].tolist()
    )
    record["metrics"]["inter_chunk_latency"]["value"][0] = 0.0  # two chunks may come at once
    assert not len(read_upload("x", json.dumps(record).encode()).result.rejects)


def test_digits_of_another_script_are_no_number_in_any_reader():
    six = "\N{FULLWIDTH DIGIT SIX}"
    for name, place in (
        ("aiperf_0.13.0_reduced.csv", r"(Inter Token Latency \(ms\),)[\d.]+"),
        ("guidellm_0.8.1_reduced.csv", r"(concurrent@)4"),
        ("serving_console_constructed.txt", r"(Mean TPOT \(ms\): +)[\d.]+"),
    ):
        text, places = re.subn(place, rf"\g<1>1{six}", (FOLDER / name).read_text())
        assert places, name
        result = read_upload("x", text.encode()).result
        assert any(f"1{six}" in value for value in result.rejects["value"]), name


def test_llama_benchy_is_read_from_a_quotation_and_a_rate_of_all_users_is_no_rate_of_one():
    text = (
        "> | model | test | t/s | peak t/s | ttfr (ms) |\n> |:--|--:|--:|--:|--:|\n"
        "> | m | tg480 @ d1000 | 60.65 \u00b1 4.41 | 81.67 \u00b1 0.47 | |\n> | m | tg480x | 1 | "
        "| |\n"
    )
    result = read_upload("x", text.encode()).result
    assert result.frame["tpot_s"].tolist() == [pytest.approx(1 / 60.65)]
    assert result.frame["input_tokens"].isna().all()
    assert result.rejects["value"].tolist() == ["tg480x"]
    text = "| model | test | t/s | ttfr (ms) |\n|--|--|--|--|\n| m | tg32 (c4) | 100.0 | |\n"
    row = read_upload("x", text.encode()).result.frame.iloc[0]
    assert row["output_tok_per_s"] == 100.0
    assert pd.isna(row["tpot_s"])


def test_a_trtllm_report_without_draft_statistics_asks_for_k():
    text = (FOLDER / "trtllm_bench_constructed.log").read_text()
    start = text.index("= DECODING")
    end = text.index("= DATASET")
    result = read_upload("x", (text[:start] + text[end:]).encode()).result
    assert missing(result)["draft_tokens_k"] is None
    two = read_upload("x", (text + text.replace("10.0000", "11.0000")).encode()).result
    assert two.frame["tpot_s"].tolist() == [0.01, 0.011]


@pytest.mark.parametrize(
    "start", ["[07/22/2026-19:12:43] [TRT-LLM] [I] x", "[1,0]<stdout>: x", "[TensorRT-LLM] x"]
)
def test_a_log_that_begins_with_a_bracket_is_text_and_a_list_stays_json(start: str):
    body = (FOLDER / "trtllm_bench_constructed.log").read_text()
    assert read_upload("x", f"{start}\n{body}".encode()).result.format_id == "trtllm_bench"
    with pytest.raises(AdvisorError, match=r"starts like JSON|is cut off"):
        read_upload("x", b"[1.5, 2")


@pytest.mark.parametrize(
    ("per_draft", "k", "shares"),
    [(2.0, 2, "0.8;0.5"), (3.0, 3, "0.8;0.5;0"), (2.97, 3, "0.8;0.5;0"), (2.4, None, None)],
)
def test_k_of_a_run_with_a_table_is_what_it_drafted_and_not_its_number_of_positions(
    per_draft, k, shares
) -> None:
    counts = {
        "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": round(1000 * per_draft),
        "spec_decode_accepted_tokens": 1300,
        "spec_decode_per_position_acceptance_rates": [0.8, 0.5, 0.0],
    }
    run = json.loads(open_run()) | counts
    del run["spec_k"]
    result = read_upload("table.json", json.dumps(run).encode()).result
    row = result.frame.iloc[0]
    assert (None if pd.isna(row["draft_tokens_k"]) else row["draft_tokens_k"]) == k
    assert (
        None if pd.isna(row["acceptance_by_position"]) else row["acceptance_by_position"]
    ) == shares
    assert row["accepted_length"] == pytest.approx(2.3)


def test_sglang_with_data_parallel_attention_counts_its_gpus_once() -> None:
    run = json.loads((FOLDER / "sglang_serving_constructed.jsonl").read_text().splitlines()[0])
    server = run["server_info"] | {
        "tp_size": 8,
        "dp_size": 8,
        "ep_size": 8,
        "kv_cache_dtype": "fp8_e4m3",
    }
    rows = []
    for attention in (True, False):
        info = server | {"enable_dp_attention": attention, "disable_cuda_graph": attention}
        rows.append(
            read_upload(
                "run.jsonl", json.dumps(run | {"server_info": info}).encode()
            ).result.frame.iloc[0]
        )
    assert [(row["gpu_count"], row["data_parallel"], row["kv_dtype"]) for row in rows] == [
        (8, 8, "fp8"),
        (64, 8, "fp8"),
    ]
    assert rows[0]["captured"] == 0
    assert pd.isna(rows[1]["captured"])


def test_replies_of_llama_cpp_give_accepted_length_and_k_by_their_timings():
    lines = (FOLDER / "llama_cpp_constructed.jsonl").read_text().splitlines()
    replies = [json.loads(line) for line in lines]
    plain, drafting, cut_short = read(replies).frame.to_dict("records")
    assert pd.isna(plain["draft_tokens_k"])  # a server that drafted nothing may have been able to
    assert plain["tpot_s"] == pytest.approx(2.04 / 255)
    assert drafting["accepted_length"] == pytest.approx(255 / (255 - 151))
    assert drafting["step_time_s"] == pytest.approx(1.53 / (255 - 151))
    assert (drafting["draft_tokens_k"], cut_short["draft_tokens_k"]) == (3, 3)
    replies[2]["timings"]["draft_n"] = 70  # rounds of fewer drafts than the server allows
    assert pd.isna(read(replies).frame["draft_tokens_k"].iloc[2])
    replies[1]["timings"]["predicted_ms"] = "soon"
    assert read(replies).rejects["line"].tolist() == [2]
