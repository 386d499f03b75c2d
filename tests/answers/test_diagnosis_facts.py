"""Launch lines, printed arguments, logs and results to facts."""

from __future__ import annotations

import json

import pytest

from advisor.answers.diagnosis import facts
from advisor.answers.diagnosis.facts import client_facts, read_servers, read_settings


def test_a_vllm_launch_line_over_several_lines_is_read() -> None:
    text = """Launched with
    vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 64 \\
      --max-num-batched-tokens=4096 --enforce-eager --data-parallel-size 2 \\
      --compilation-config '{"cudagraph_capture_sizes": [1, 2, 64], "cudagraph_mode": "PIECEWISE"}' \\
      --speculative-config '{"method": "deepseek_mtp", "num_speculative_tokens": 2, "enforce_eager": true,
                             "num_speculative_tokens_per_batch_size": [[1, 4, 2], [5, 512, 0]]}'
    """.replace('true,\n                             "num', 'true, "num')  # noqa: E501
    facts = read_settings(text)
    assert str(facts.pop("launch_line")).startswith(
        "vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 64 "
    )
    assert facts == {
        "model_id": "Qwen/Qwen3-30B-A3B",
        "engine": "vllm",
        "speculation_on": True,
        "drafter": "mtp",
        "draft_tokens_k": 2,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 4096,
        "graphs_off": True,
        "draft_graphs_off": True,
        "asynchronous": True,
        "data_parallel": 2,
        "largest_graph": 64,
        "graph_mode": "PIECEWISE",
        "k_table": "1-4:2 5-512:0",
    }


def test_a_sglang_launch_line_without_speculation_is_a_plain_server() -> None:
    facts = read_settings(
        "python3 -m sglang.launch_server --model-path m --tp 4 --cuda-graph-max-bs 32"
    )
    assert facts["speculation_on"] is False
    assert facts["draft_tokens_k"] == 0
    assert facts["tensor_parallel"] == 4
    assert facts["largest_graph_batch"] == 32
    assert "max_running_requests" not in facts


def test_short_options_stand_for_themselves() -> None:
    # `-tp 2` was taken for a value of the option before it, and both were lost.
    facts = read_settings(
        "vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 64 -tp 2 -q fp8 --kv-cache-dtype fp8_e4m3"
    )
    assert (facts["max_num_seqs"], facts["tensor_parallel"]) == (64, 2)
    assert (facts["weight_dtype"], facts["kv_dtype"]) == ("fp8", "fp8")


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("vllm serve m -tp 4 --enable-expert-parallel", 4),
        ("vllm serve m -tp 2 -dp 4 --enable-expert-parallel --max-num-seqs 8", 8),
        ("python -m sglang.launch_server --model-path m --tp 8 --ep-size 4", 4),
        ("vllm serve m -tp 4", None),
    ],
)
def test_expert_parallelism_is_read_by_its_flags(line: str, ranks: int | None) -> None:
    assert read_settings(line).get("expert_parallel") == ranks


@pytest.mark.parametrize(
    "line",
    [
        "openai/gpt-oss-120b --quantization mxfp4",
        "Qwen/Qwen3-30B-A3B-FP8 --quantization fp8",
        "m --quantization fp8",
    ],
)
def test_a_checkpoint_with_a_format_of_its_own_keeps_it(line: str) -> None:
    assert "weight_dtype" not in read_settings(f"vllm serve {line} --kv-cache-dtype auto")


def test_text_that_tells_of_no_server_gives_no_facts() -> None:
    assert read_settings("the run was slow, why?") == {}
    assert read_settings("") == {}
    assert read_servers("nothing here") == []


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --speculative-config '{broken' --max-num-seqs x",
        "ServerArgs(",
        "non-default args: {'a': [1, }",
    ],
)
def test_damaged_arguments_are_left_out(text: str) -> None:
    assert read_settings(text).get("max_num_seqs") is None


@pytest.mark.parametrize(
    "place", ["non-default args: {'a': %s}", "ServerArgs(max_num_seqs=%s)", "non-default args: %s"]
)
@pytest.mark.parametrize(
    "value",
    [
        "{1, 2}",
        "{[1]: 2}",
        "{{}}",
        "1e400",
        "-" * 100_000 + "1",
        "[" * 150 + "]" * 150,
        "(" * 199 + ",)" * 199,
        "9" * 5000,
    ],
    ids=lambda value: value[:4],
)
def test_values_that_python_cannot_hold_are_no_facts(place: str, value: str) -> None:
    text = f"{place % value}\nRunning: 7 reqs, Waiting: 1 reqs"
    facts = read_settings(text)
    assert facts["running_requests"] == 7
    assert facts.get("max_num_seqs") is None
    assert (
        read_settings(f"vllm serve m --max-num-seqs 8 --speculative-config '{value}'")[
            "max_num_seqs"
        ]
        == 8
    )


def test_a_launch_line_without_end_is_cut_before_it_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The words of a line of 600,000 letters took 17 s."""
    split: list[str] = []
    monkeypatch.setattr(facts.shlex, "split", lambda line, **_: split.append(line) or line.split())
    found = read_settings(
        "vllm serve m --max-num-seqs 8 --speculative-config '" + '{"a":' * 120_000
    )
    assert found["max_num_seqs"] == 8
    assert 10_000 < len(split[0]) < 60_000


@pytest.mark.parametrize("number", ["1.2.3", ".", ",", "9" * 5000, "nan"])
def test_numbers_of_a_log_that_are_none_are_left_out(number: str) -> None:
    text = (
        f"Running: {number} reqs, Waiting: 1 reqs\nGPU KV cache size: {number} tokens\n"
        f"Prefix cache hit rate: {number}%\nMean acceptance length: {number},\n"
        f"Avg generation throughput: {number} tokens/s, Running: 3 reqs\nvLLM API server version "
        "0.24.1"
    )
    told = read_settings(text)
    assert told["engine_version"] == "0.24.1"
    assert not {"running_requests", "kv_pool_tokens", "prefix_hit_share", "logged_tok_per_s"} & set(
        told
    )


def test_what_follows_a_launch_line_is_of_that_server() -> None:
    text = (
        "vllm serve m --max-num-seqs 4\nGPU KV cache size: 10 tokens\nvllm serve m "
        "--max-num-seqs 8\n"
    )
    found = read_servers(text)
    assert [(line, facts["max_num_seqs"]) for line, facts in found] == [(1, 4), (3, 8)]
    assert "kv_pool_tokens" in found[0][1]
    assert "kv_pool_tokens" not in found[1][1]


def test_sglang_s_arguments_as_an_object_are_read_without_defaults() -> None:
    record = {"server_info": {"speculative_algorithm": "NEXTN", "max_running_requests": 48}}
    facts = client_facts("r.jsonl", json.dumps(record).encode())[1]
    assert facts["drafter"] == "mtp"
    assert facts["max_running_requests"] == 48
    assert "graphs_off" not in facts


def test_client_facts_stand_under_the_line_of_their_record() -> None:
    lines = [
        {"num_prompts": 10, "completed": 9, "request_rate": "inf"},
        {"completed": 3, "request_rate": 4.0},
    ]
    found = client_facts("r.jsonl", "\n".join(json.dumps(one) for one in lines).encode())
    assert found == {
        1: {"requests_asked": 10.0, "requests_completed": 9.0},
        2: {"requests_completed": 3.0, "request_rate": 4.0},
    }


def test_client_facts_of_console_blocks_stand_under_their_titles() -> None:
    block = (
        "x\n=== Serving Benchmark Result ===\nSuccessful requests:  16\nConcurrency:  "
        "7.31\nTraffic request rate: inf\n"
    )
    found = client_facts("log", (block + block).encode())
    assert found == {
        line: {"requests_completed": 16.0, "mean_concurrency": 7.31} for line in (2, 7)
    }


def test_a_file_that_cannot_be_opened_has_no_client_facts() -> None:
    assert client_facts("x", b"\x93NUMPY") == {}


@pytest.mark.parametrize(
    ("line", "k"),
    [
        ("--speculative-algorithm DSPARK --speculative-dspark-block-size 7", 7),
        (
            (
                "--speculative-algorithm DSPARK --speculative-num-steps 1 "
                "--speculative-num-draft-tokens 8"
            ),
            7,
        ),
        ("--speculative-algorithm DFLASH --speculative-num-draft-tokens 16", 15),
        ("--speculative-algorithm DSPARK", None),
    ],
)
def test_a_block_drafter_s_k_is_its_block_and_not_its_one_step(line: str, k: int | None) -> None:
    facts = read_settings(f"python -m sglang.launch_server --model-path m {line}")
    assert facts["drafter"] == line.split()[1].lower()
    assert facts.get("draft_tokens_k") == k


def test_vllm_s_dspark_is_known_to_the_doctor() -> None:
    facts = read_settings(
        'vllm serve m --speculative-config \'{"method":"dspark","num_speculative_tokens":7}\''
    )
    assert (facts["drafter"], facts["draft_tokens_k"]) == ("dspark", 7)


def test_shares_by_position_tell_the_draft_length_where_no_launch_line_does():
    line = (
        "INFO 07-12 19:00:43 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 1.60, "
        "Per-position acceptance rate: 0.400, 0.150, 0.050, Avg Draft acceptance rate: 20.0%"
    )
    assert read_settings(line)["draft_tokens_k"] == 3
    launch = 'vllm serve m --speculative-config \'{"method":"mtp","num_speculative_tokens":5}\'\n'
    assert read_settings(launch + line)["draft_tokens_k"] == 5
