"""A faulty run for each rule beside its honest twin: the doctor names that fault, and only that."""

from __future__ import annotations

import pytest

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.rules import rule_sets
from tests.diagnosis.fake_runs import BATCH, LENGTH, OUTPUT, SGLANG, SGLANG_SPECULATIVE, SPECULATIVE, VLLM, Pair
from tests.diagnosis.fake_runs import predicted as at

TABLE = """ --speculative-config '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3, %s}'"""
K_TABLE = '"num_speculative_tokens_per_batch_size": [[1, 32, 3], [33, 256, 1]]'
ZERO_TABLE = '"num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 256, 0]]'
DECODE = "Decode batch. #running-req: 16, #token: 20000, accept len: 2.40, cuda graph: %s, #queue-req: 0,\n"


def sent(**changes: object) -> dict[str, object]:
    return {"drafting": changes, "plain": changes}


def whole_rate(token_s: float) -> float:
    """Output rate of all GPUs at a time per token. [tokens/s]"""
    return BATCH * OUTPUT / (1.2 * at()["first"] + (OUTPUT - 1) * token_s)


def arms(plain: dict[str, object], drafting: dict[str, object]) -> Pair:
    return Pair(plain=plain, drafting=drafting)


def per_gpu(token_s: float, gpus: int = 4) -> dict[str, object]:
    """What an arm says that states its rates per GPU."""
    rate = whole_rate(token_s) / gpus
    return {"output_throughput": rate, "total_token_throughput": 3 * rate, "num_gpus": gpus, "tp": str(gpus)}


def with_prefill(token_s: float, first_s: float = 5.0) -> dict[str, object]:
    """What an arm says whose time per token is its latency over its tokens, after a long wait for the first."""
    latency = first_s + (OUTPUT - 1) * token_s
    rate = BATCH * OUTPUT / latency
    return {
        "mean_ttft_ms": first_s * 1e3,
        "mean_e2el_ms": latency * 1e3,
        "mean_tpot_ms": latency / OUTPUT * 1e3,
        "mean_itl_ms": None,
        "output_throughput": rate,
        "total_token_throughput": 3 * rate,
    }


def accepting(length: float, shares: list[float]) -> dict[str, object]:
    """What the speculative arm says that accepts otherwise, in rounds as long as those of the honest one."""
    token_s = at()["drafting"] * LENGTH / length
    return {
        "spec_decode_acceptance_length": length,
        "spec_decode_accepted_tokens": round(10_000 * (length - 1)),
        "spec_decode_per_position_acceptance_rates": shares,
        "mean_tpot_ms": token_s * 1e3,
        "mean_itl_ms": at()["drafting"] * LENGTH * 1e3,
        "mean_e2el_ms": None,
        "output_throughput": whole_rate(token_s),
        "total_token_throughput": 3 * whole_rate(token_s),
    }


OLD = {"engine_version": "0.5.6"}
OPEN = {"request_rate": 4.0, "max_concurrency": None}
SLOWER = {
    "output_throughput": 0.6 * whole_rate(at()["drafting"]),
    "total_token_throughput": 1.8 * whole_rate(at()["drafting"]),
    "mean_e2el_ms": None,
}
FAULTS: dict[str, Pair] = {
    "token_time_is_chunk_time": Pair(drafting={"mean_tpot_ms": at()["drafting"] * 2.4e3, "mean_e2el_ms": None}),
    "rate_is_per_gpu": arms(per_gpu(at()["plain"]), per_gpu(at()["drafting"])),
    "prefill_in_token_time": arms(with_prefill(at()["plain"]), with_prefill(at()["drafting"])),
    "arrivals_set_the_batch": arms(OPEN, OPEN),
    "arms_run_other_batches": Pair(drafting=SLOWER),
    "first_token_waits": Pair(drafting={"mean_ttft_ms": 9e3 * BATCH * at()["first"], "mean_e2el_ms": None}),
    "k_too_long": Pair(drafting=accepting(1.62, [0.6, 0.015, 0.005])),
    "release_does_not_overlap": Pair("sglang", plain=OLD, drafting=OLD, batch=2),
    "tokens_lost_in_retokenizing": Pair(
        drafting={"total_output_tokens_retokenized": 400 * 160, "total_output_tokens": 512 * 160}
    ),
    "peak_counts_chunks": Pair(drafting={"max_output_tokens_per_s": 300.0}),
    "concurrency_not_reached": Pair(drafting={"concurrency": 5.0}),
    "too_few_requests": Pair(
        **sent(num_prompts=BATCH, completed=BATCH, total_input_tokens=1024 * BATCH, total_output_tokens=512 * BATCH)
    ),
    "requests_missing": Pair(drafting={"num_prompts": 200}),
    "first_run_cold": Pair(repeats=(1.3, 1.0, 1.01)),
    "random_prompts": Pair(**sent(dataset="random")),
    "nearly_all_accepted": Pair(
        drafting={
            "spec_decode_acceptance_length": 3.95,
            "spec_decode_accepted_tokens": 29_500,
            "spec_decode_per_position_acceptance_rates": [0.99, 0.985, 0.975],
            "mean_tpot_ms": 1e3 * LENGTH / 3.95 * at()["drafting"],
            "mean_e2el_ms": None,
            "output_throughput": None,
            "total_token_throughput": None,
            "request_throughput": 3.0,
        }
    ),
    "prompts_in_the_prefix_cache": Pair(
        log="Engine 000: Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.1%, Prefix cache hit rate: 61.0%"
    ),
    "arms_differ": Pair(plain={"dataset": "mt-bench"}),
    "graphs_off": Pair(launch=VLLM + SPECULATIVE + " --enforce-eager"),
    "round_not_captured": Pair(
        launch=VLLM + SPECULATIVE + """ --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}'"""
    ),
    "graphs_lowered": Pair(
        log="CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode; setting cudagraph_mode=PIECEWISE"
    ),
    "drafter_without_graphs": Pair(launch=VLLM + TABLE % '"enforce_eager": true'),
    "round_above_token_budget": Pair(launch=VLLM.replace("8192", "48") + SPECULATIVE),
    "admits_too_few": Pair(launch=VLLM.replace("256", "8") + SPECULATIVE),
    "requests_wait": Pair(
        log="Engine 000: Running: 12 reqs, Waiting: 4 reqs, GPU KV cache usage: 40.1%, Prefix cache hit rate: 0.0%"
    ),
    "cache_too_small": Pair(log="GPU KV cache size: 15,000 tokens"),
    "table_ignored_by_version": Pair(launch=VLLM + TABLE % K_TABLE, **sent(engine_version="0.25.0")),
    "table_not_known_to_version": Pair(launch=VLLM + TABLE % K_TABLE, **sent(engine_version="0.22.1")),
    "table_dropped_in_parallel": Pair(launch=VLLM + " --data-parallel-size 8" + TABLE % K_TABLE),
    "zero_still_drafts": Pair(launch=VLLM + TABLE % ZERO_TABLE),
    "rounds_not_overlapped": Pair(launch=VLLM + SPECULATIVE + " --no-async-scheduling"),
    "decodes_without_graph": Pair("sglang", log=DECODE % "False"),
    "sglang_admits_48": Pair(
        "sglang",
        launch=SGLANG + SGLANG_SPECULATIVE.replace(" --max-running-requests 128", ""),
        **sent(batch=64, requests=640),
    ),
    "tree_at_batch": Pair("sglang", launch=SGLANG + SGLANG_SPECULATIVE.replace("topk 1", "topk 4")),
    "drafter_hardly_accepted": Pair(
        drafting={
            "spec_decode_acceptance_length": 1.1,
            "spec_decode_accepted_tokens": 1_000,
            "spec_decode_per_position_acceptance_rates": None,
            "mean_tpot_ms": 1e3 * at()["drafting"] * LENGTH / 1.1,
            "mean_itl_ms": 1e3 * at()["drafting"] * LENGTH,
            "mean_e2el_ms": None,
            "output_throughput": None,
            "total_token_throughput": None,
            "request_throughput": 1.0,
        }
    ),
}
"""One fault in an otherwise honest pair of runs, by the rule that is to name it."""
TWINS = {
    "release_does_not_overlap": Pair("sglang", batch=2),
    "decodes_without_graph": Pair("sglang", log=DECODE % "True"),
    "round_not_captured": Pair(
        launch=VLLM + SPECULATIVE + """ --compilation-config '{"cudagraph_capture_sizes": [4, 16, 64]}'"""
    ),
    "table_ignored_by_version": Pair(launch=VLLM + TABLE % K_TABLE),
    "table_not_known_to_version": Pair(launch=VLLM + TABLE % K_TABLE),
    "table_dropped_in_parallel": Pair(launch=VLLM + TABLE % K_TABLE),
    "zero_still_drafts": Pair(launch=VLLM + TABLE % ZERO_TABLE.replace("0]]", "1]]")),
    "requests_wait": Pair(log="Engine 000: Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.1%"),
    "cache_too_small": Pair(log="GPU KV cache size: 150,000 tokens"),
    "first_run_cold": Pair(repeats=(1.01, 1.0, 0.99)),
    "graphs_lowered": Pair(log="INFO cudagraph_mode=FULL_AND_PIECEWISE"),
    "sglang_admits_48": Pair("sglang", **sent(batch=64, requests=640)),
    "tree_at_batch": Pair("sglang"),
}
"""The honest twin, where it is more than the pair as it stands."""


def found_by(pair: Pair) -> list[str]:
    return [one.rule.id for one in diagnose(pair.files()).findings]


@pytest.mark.parametrize("rule", FAULTS)
def test_the_doctor_names_the_fault_and_only_that(rule: str) -> None:
    assert found_by(FAULTS[rule]) == [rule]


@pytest.mark.parametrize("rule", FAULTS)
def test_the_doctor_finds_nothing_on_the_honest_twin(rule: str) -> None:
    assert found_by(TWINS.get(rule, Pair())) == []


def test_there_are_faults_of_every_question() -> None:
    kinds = {rule.id: one.id for one in rule_sets() for rule in one.rules}
    assert len(FAULTS) >= 30
    assert {kinds[name] for name in FAULTS} == {"measurement", "configuration", "physics"}
