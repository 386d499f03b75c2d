"""Files as people have them: trimmed results, console blocks, relatives of known tools, near
misses, served names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import resolve_names, with_given
from advisor.measured.readers import FORMATS
from advisor.measured.readers.base import version_of_image
from advisor.measured.readers.sglang import speculation_of
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import Golden, lines_with

FOLDER = Path(__file__).parents[1] / "fixtures" / "ingest"
TRIMMED = json.loads((FOLDER / "vllm_serve_trimmed_constructed.json").read_text())


def read(document: object, **given: object) -> Any:
    rows = read_upload("x.json", json.dumps(document).encode())
    return resolve_names(with_given(rows, given)).result


def test_a_block_behind_quotation_marks_or_cut_below_its_title_is_read() -> None:
    lines = (FOLDER / "serving_console_constructed.txt").read_text().splitlines()[2:44]
    quoted = "\n".join(f"> {line}" for line in ["```", *lines, "```"])
    assert read_upload("issue.md", quoted.encode()).result.frame[
        "tpot_s"
    ].tolist() == pytest.approx([0.004])
    cut = "\n".join(lines[1:])
    assert read_upload("paste", cut.encode()).result.frame["accepted_length"].tolist() == [2.4]
    with pytest.raises(AdvisorError, match="paste the whole block"):
        read_upload("paste", lines[0].encode())


def test_warm_up_records_of_aiperf_are_left_out(golden: Golden) -> None:
    lines = [
        json.loads(line)
        for line in (FOLDER / "aiperf_0.13.0_reduced.jsonl").read_text().splitlines()
    ]
    lines[0]["metadata"]["benchmark_phase"] = "warmup"
    result = read_upload("x", "\n".join(map(json.dumps, lines)).encode()).result
    golden(warm_up=lines_with(reading_texts(result.derived), "warm-up"))


def test_separate_decode_nodes_count_their_own_gpus_and_no_shared_rate() -> None:
    document = json.loads((FOLDER / "inferencex_agentic_flat_constructed.json").read_text())
    document |= {
        "disagg": True,
        "is_multinode": True,
        "tp": 12,
        "decode_tp": 8,
        "decode_ep": 8,
        "prefill_tp": 4,
    }
    row = read(document).frame.iloc[0]
    assert (row["tensor_parallel"], row["expert_parallel"]) == (8, 8)
    assert row[["gpu_count", "output_tok_per_s"]].isna().all()
    assert "decode nodes" in row["notes"]


def test_a_fixture_without_one_of_its_fields_is_read_or_refused_with_what_it_lacks() -> None:
    wanted_by = {
        item.id: [path for wanted in item.wants for path in wanted.split("|")]
        for item in FORMATS
        if item.wants
    }
    assert len(wanted_by) >= 12
    told = 0
    for path in sorted(FOLDER.glob("*constructed.json*")):
        text = path.read_text()
        records = (
            [json.loads(line) for line in text.splitlines()]
            if path.suffix == ".jsonl"
            else [json.loads(text)]
        )
        for wanted in sorted({name for names in wanted_by.values() for name in names}):
            if not isinstance(records[0], dict) or wanted not in records[0]:
                continue
            cut = [
                {key: value for key, value in record.items() if key != wanted} for record in records
            ]
            said = refusal("\n".join(map(json.dumps, cut)).encode())
            told += bool(said)
            assert not said or "lacks" in said, (path.name, wanted, said)
    assert told >= 20


def refusal(data: bytes) -> str:
    """Why a file is refused; empty where it is read."""
    try:
        read_upload("cut", data)
    except AdvisorError as error:
        return str(error)
    return ""


def test_a_near_miss_names_what_it_has_and_what_it_lacks() -> None:
    with pytest.raises(
        AdvisorError,
        match=r"nearly vLLM bench serve JSON: it has output_throughput, and lacks mean_tpot_ms",
    ):
        read({"output_throughput": 100.0, "num_prompts": 4})
    with pytest.raises(
        AdvisorError, match=r"it has conc, framework, tput_per_gpu, and lacks hw or device"
    ):
        read({"conc": 4, "framework": "vllm", "tput_per_gpu": 10.0})
    with pytest.raises(
        AdvisorError, match=r"users.*--map|batch_size is understood; it lacks a measurement"
    ):
        read_upload("own.csv", b"batch_size,users\n1,2\n")
    with pytest.raises(
        AdvisorError,
        match=r"lacks the batch \(batch_size\); not understood: hello",
    ):
        read({"k": 4, "tpot": 8.0, "hello": 1})


def test_a_mapping_adds_to_what_a_tool_s_reader_takes_and_wins_over_it() -> None:
    document = TRIMMED | {"my": {"drafts": 3, "streams": 12}}
    data = json.dumps(document).encode()
    mapped = read_upload(
        "x", data, columns={"my.drafts": "draft_tokens_k", "my.streams": "batch_size"}
    ).result.frame
    assert mapped[["draft_tokens_k", "batch_size"]].iloc[0].tolist() == [3, 12]
    assert mapped["tpot_s"].tolist() == pytest.approx([0.0041])


def test_a_stated_name_is_overridden_its_format_kept_and_both_said(golden: Golden) -> None:
    result = read(TRIMMED, model_id="qwen3-235b-a22b")
    assert result.frame["model_id"].tolist() == ["qwen3-235b-a22b"]
    assert result.frame["weight_dtype"].tolist() == ["fp8"]
    golden(qwen_qwen=lines_with(reading_texts(result.derived), "'Qwen"))
    assert read(TRIMMED, batch_size=99).frame["batch_size"].tolist() == [
        16
    ]  # a number that the file states stays
    unknown = read(TRIMMED | {"model_id": "my-served-name"}, model_id="Qwen/Qwen3-30B-A3B")
    assert unknown.frame["model_id"].tolist() == ["qwen3-30b-a3b"]
    assert lines_with(reading_texts(unknown.warnings), "fits no") == []


def test_a_served_name_gives_way_to_the_tokenizer_that_names_the_model(golden: Golden) -> None:
    path = "/root/.cache/huggingface/hub/models--deepseek-ai--DeepSeek-R1/snapshots/4236a6af538feda4548e"  # noqa: E501
    result = read(TRIMMED | {"model_id": "r1-prod", "tokenizer_id": path})
    assert result.frame["model_id"].tolist() == ["deepseek-v3"]
    golden(model_id=lines_with(reading_texts(result.derived), "model_id taken"))
    assert read(TRIMMED | {"model_id": "r1-prod"}).frame["model_id"].tolist() == ["r1-prod"]


def test_a_format_left_to_the_checkpoint_is_read_from_its_name() -> None:
    named = TRIMMED | {
        "model_id": "nvidia/DeepSeek-V3.1-NVFP4",
        "quantization": "compressed-tensors",
    }
    assert read(named).frame["weight_dtype"].tolist() == ["nvfp4"]
    assert read(TRIMMED | {"dtype": "bfloat16"}).frame["weight_dtype"].tolist() == ["fp8"]


def test_sglang_s_eagle_is_mtp_only_where_no_other_draft_checkpoint_is_named() -> None:
    server = {
        "model_path": "zai-org/GLM-4.5",
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
    }
    assert speculation_of(server)["drafter"] == "EAGLE"  # nothing is said of a draft checkpoint
    assert speculation_of(server | {"speculative_draft_model_path": None})["drafter"] == "mtp"
    assert (
        speculation_of(server | {"speculative_draft_model_path": "zai-org/GLM-4.5"})["drafter"]
        == "mtp"
    )
    assert (
        speculation_of(server | {"speculative_draft_model_path": "lmsys/DeepSeek-R1-NextN"})[
            "drafter"
        ]
        == "mtp"
    )
    assert (
        speculation_of(server | {"speculative_draft_model_path": "org/eagle-head"})["drafter"]
        == "EAGLE"
    )
    assert (
        speculation_of({"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": None})[
            "drafter"
        ]
        == "EAGLE3"
    )


def test_sglang_s_number_of_draft_tokens_counts_the_last_emitted_one() -> None:
    block = {
        "speculative_algorithm": "DFLASH",
        "speculative_num_steps": 1,
        "speculative_num_draft_tokens": 16,
    }
    assert speculation_of(block)["draft_tokens_k"] == 15
    for algorithm in (
        "DFLASH",
        "DSPARK",
    ):  # SGLang sets the steps of a block drafter to 1, and the breadth is n-grams'
        server = block | {
            "speculative_algorithm": algorithm,
            "speculative_ngram_max_bfs_breadth": 10,
        }
        assert speculation_of(server) == {
            "draft_tokens_k": 15,
            "draft_structure": "chain",
            "drafter": algorithm,
        }
    ngram = {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": 8,
        "speculative_ngram_max_bfs_breadth": 10,
    }
    assert speculation_of(ngram)["draft_structure"] == "tree;topk=10;verify=8"


def test_versions_are_taken_from_container_tags() -> None:
    assert version_of_image("lmsysorg/sglang:v0.5.23-cu13") == "0.5.23"
    assert version_of_image("vllm/vllm-openai-rocm:nightly") == "vllm/vllm-openai-rocm:nightly"
    assert version_of_image(None) is None
