"""Prefill as a step with many tokens: by hand, by its limits, and by what engines do."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog import load_model
from advisor.curve import curve_for
from advisor.prefill import CHUNK_TOKENS, Prompt, prompt_cost
from advisor.scenario import Scenario
from advisor.setup import load_setup

DENSE = Scenario(
    hardware_id="h100-sxm",
    model_id="llama-3.1-8b",
    drafter_id="ngram",
    acceptance="1.5@1",
    k_max=1,
    input_tokens=4096,
    output_tokens=256,
    context_tokens=4224,
)
BATCH = np.array([1.0, 16.0, 64.0])


def prompt(**changes: object) -> Prompt:
    found = prompt_cost(load_setup(DENSE.model_copy(update=changes)), BATCH)
    assert found is not None
    return found


def test_a_dense_prompt_costs_its_arithmetic_by_hand() -> None:
    found = prompt()
    assert found.n_chunks == 1
    attention = 32 * 4096 * 2048 * 4 * 32 * 128 / (0.5 * 989e12)
    assert found.attention_s == pytest.approx(attention, rel=1e-3)
    best = 2 * 6.98e9 * 4096 / 989e12  # 6.98 G weights in the layers
    products = found.with_s - found.without_s
    assert np.all((products > best) & (products < best / 0.5))
    assert found.time_s == pytest.approx(products + found.attention_s + found.small_s)


def test_prefill_needs_both_lengths() -> None:
    for left_out in ("input_tokens", "output_tokens"):
        assert prompt_cost(load_setup(DENSE.model_copy(update={left_out: None})), BATCH) is None


def test_a_user_does_not_wait_for_the_own_prompt_between_tokens_but_throughput_pays_for_it() -> None:
    found = prompt()
    others, every = found.per_token_s(others_only=True), found.per_token_s()
    assert others[0] == 0.0 < every[0]
    assert others == pytest.approx(every * (BATCH - 1) / BATCH)
    curve = curve_for(load_setup(DENSE), BATCH, [0])
    assert curve.tpot_s[:, 0] == pytest.approx(curve.plain_step_s + others)
    assert curve.tokens_per_s_per_gpu[:, 0] == pytest.approx(BATCH / (curve.plain_step_s + every))


def test_an_engine_that_stops_decoding_loses_the_whole_step_of_a_chunk() -> None:
    """The chunk's own arithmetic hides the running tokens' almost wholly, so the difference is launches and host."""
    joined, stopped = prompt(engine="vllm"), prompt(engine="sglang")
    assert np.all(stopped.without_s == 0.0)
    assert np.all(joined.without_s > 0.0)
    assert np.ptp(stopped.time_s) == 0.0


def test_long_prompts_go_in_chunks_of_one_size() -> None:
    one, two = prompt(input_tokens=CHUNK_TOKENS), prompt(input_tokens=2 * CHUNK_TOKENS)
    assert (one.n_chunks, two.n_chunks) == (1, 2)
    assert two.with_s == pytest.approx(one.with_s)
    assert two.attention_s == pytest.approx(4 * one.attention_s)


def test_the_first_token_takes_at_least_its_prefill_and_the_step_that_it_shares() -> None:
    found, curve = prompt(), curve_for(load_setup(DENSE), BATCH, [0])
    assert curve.ttft_s is not None
    assert np.all(curve.ttft_s > found.time_s + 0.5 * curve.plain_step_s)


def test_a_moe_pays_for_all_its_experts_once_a_chunk_and_no_more_than_their_arithmetic_asks() -> None:
    found = prompt(model_id="qwen3-30b-a3b", hardware_id="h200-sxm")
    weights_s, best = 29e9 * 2 / 4.8e12, 2 * 2.7e9 * 4096 / 989e12
    assert np.all(found.with_s > max(weights_s, best))
    assert np.all(found.time_s < 4 * best)


def test_latent_attention_expands_its_keys_for_a_prompt() -> None:
    mixer = load_model("deepseek-v3").mixers[0]
    assert mixer.prompt_flops_per_head_and_key == 2 * (128 + 64 + 128)
    assert mixer.prompt_flops_per_head_and_key < mixer.flops_per_head_and_key / 3
    assert (
        load_model("glm-5").mixers[0].prompt_flops_per_head_and_key == 0
    )  # sparse: a prompt reads entries as decode does


def test_data_parallel_groups_wait_for_the_prompts_of_their_own_sequences() -> None:
    changes = {"hardware_id": "h200-sxm", "model_id": "qwen3-30b-a3b", "n_gpus": 4, "expert_parallel": 4}
    found = prompt(**changes)
    assert found.sequences == pytest.approx(BATCH / 4)
