"""Prefill as a step with many tokens: by hand, by its limits, and by what engines do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.models import load_model
from advisor.physics.step import MoeShape, exchanges
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.prefill import (
    CHUNK_TOKENS,
    Prompt,
    prefill_per_token_s,
    prefill_shares_s,
    prompt_beside,
    prompt_cost,
    step_tokens,
)
from advisor.predict.scenario import Scenario, write_loads
from advisor.predict.setup import Setup

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


def cost(setup: Setup, batch: np.ndarray = BATCH) -> Prompt:
    found = prompt_cost(setup, batch)
    assert found is not None
    return found


def prompt(**changes: object) -> Prompt:
    return cost(load_setup(DENSE.model_copy(update=changes)))


def test_a_dense_prompt_costs_its_arithmetic_by_hand() -> None:
    found = prompt()
    assert found.n_chunks == 1
    attention = 32 * 4096 * 2048 * 4 * 32 * 128 / (0.5 * 989e12)
    assert found.attention_s == pytest.approx(attention, rel=1e-3)
    best = 2 * 6.98e9 * 4096 / 989e12  # 6.98 G weights in the layers
    products = found.with_s - found.without_s
    assert np.all((products > best) & (products < best / 0.5))
    assert found.time_s == pytest.approx(products + found.attention_s + found.small_s)


def test_cached_prompts_cost_nothing_and_their_length_is_the_context() -> None:
    cached = DENSE.model_copy(update={"prompts": "cached"})
    assert prompt_cost(load_setup(cached), BATCH) is None
    bare = DENSE.model_copy(update={"input_tokens": None, "output_tokens": None})
    with_lengths = curve_for(load_setup(cached), BATCH, [0, 1])
    without = curve_for(load_setup(bare), BATCH, [0, 1])
    assert with_lengths.tpot_s == pytest.approx(without.tpot_s)
    assert np.all(with_lengths.tpot_s < curve_for(load_setup(DENSE), BATCH, [0, 1]).tpot_s + 1e-12)
    assert with_lengths.ttft_s is None
    assert cached.hash != DENSE.hash


def test_prefill_needs_both_lengths() -> None:
    for left_out in ("input_tokens", "output_tokens"):
        assert prompt_cost(load_setup(DENSE.model_copy(update={left_out: None})), BATCH) is None


def test_shares_of_a_token_are_all_prompts_and_its_own_and_nothing_without_lengths() -> None:
    setup = load_setup(DENSE)
    found = prompt()
    every, own = prefill_shares_s(setup, BATCH)
    assert (every == found.per_token_s()).all()
    assert (prefill_per_token_s(setup, BATCH) == every).all()
    assert own == pytest.approx(every / BATCH)
    bare = load_setup(DENSE.model_copy(update={"prompts": "cached"}))
    assert [
        each.tolist() for each in (prefill_per_token_s(bare, BATCH), *prefill_shares_s(bare, BATCH))
    ] == [[0.0] * 3] * 3


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_chunk_of_its_own_pays_host_launches_and_logits_and_one_that_rides_along_finds_them_paid(
    engine: str,
) -> None:
    setup = load_setup(DENSE.model_copy(update={"engine": engine}))
    parts = curve_for(setup, BATCH, [0]).plain_components
    found = prompt_beside(setup, BATCH, np.full(3, 2.0), np.full(3, 0.5))
    logits = parts["lm_head"] if engine == "vllm" else parts["lm_head"][0]
    outside = parts["host"] + parts["launch"] + logits
    rides = engine == "vllm"
    assert found.with_s == pytest.approx(2.0 + (0.0 if rides else outside))
    assert found.first_step_s == pytest.approx(
        outside + parts["attention"] if rides else np.zeros(3)
    )
    first = found.n_chunks * (found.with_s + found.first_step_s) + found.attention_s + found.small_s
    assert found.first_token_s == pytest.approx(first)


def test_without_a_chunk_layers_take_what_they_take_in_a_plain_step() -> None:
    setup = load_setup(
        DENSE.model_copy(update={"model_id": "mixtral-8x7b", "hardware_id": "h200-sxm"})
    )
    parts = curve_for(setup, BATCH, [0]).plain_components
    layers = sum(
        parts[name] for name in parts if name not in ("attention", "lm_head", "host", "launch")
    )
    found = cost(setup)
    assert found.without_s == pytest.approx(layers)


def test_between_nodes_the_step_beside_a_chunk_is_exchanged_as_the_chunk_is() -> None:
    setup = load_setup(DENSE.model_copy(update={**WIDE, "n_gpus": 32, "expert_parallel": 32}))
    setup = replace(setup, costs=replace(setup.costs, modules={}))
    parts = curve_for(setup, BESIDE, [0]).plain_components
    step = (
        setup.architecture,
        setup.costs,
        setup.placement,
        BESIDE / 32,
        MoeShape.of(setup.architecture),
    )
    chunk = sum(each.time_s for each in exchanges(*step, for_prompt=True))
    products = sum(
        parts[name] for name in ("attention_projection", "dense", "router", "shared", "routed")
    )
    found = cost(setup, BESIDE)
    assert found.without_s == pytest.approx(products + chunk)


@pytest.mark.parametrize(
    ("model", "pairs"),
    [
        (
            "gpt-oss-20b",
            64 * 64 * 12 * (4096 * 2048 + 4096 * 128),
        ),  # every second layer sees 128 tokens
        ("qwen3.5-35b-a3b", 16 * 256 * 10 * 4096 * 2048),  # three in four layers are recurrent
    ],
)
def test_attention_over_a_prompt_is_that_of_each_kind_of_layer(model: str, pairs: int) -> None:
    assert prompt(model_id=model, hardware_id="h200-sxm").attention_flops == pytest.approx(
        4 * pairs, rel=1e-12
    )


def test_an_engine_that_stops_decoding_loses_the_whole_step_of_a_chunk() -> None:
    """The chunk's own arithmetic hides the running tokens' almost wholly, so the difference is
    launches and host."""
    joined = prompt(engine="vllm")
    stopped = prompt(engine="sglang")
    assert np.all(stopped.without_s == 0.0)
    assert np.all(joined.without_s > 0.0)
    assert np.ptp(stopped.time_s) == 0.0


def test_long_prompts_go_in_chunks_of_one_size() -> None:
    one = prompt(input_tokens=CHUNK_TOKENS)
    two = prompt(input_tokens=2 * CHUNK_TOKENS)
    assert (one.n_chunks, two.n_chunks) == (1, 2)
    assert two.with_s == pytest.approx(one.with_s)
    assert two.attention_s == pytest.approx(4 * one.attention_s)


def test_a_moe_pays_for_all_its_experts_once_a_chunk_and_no_more_than_their_arithmetic_asks() -> (
    None
):
    found = prompt(model_id="qwen3-30b-a3b", hardware_id="h200-sxm")
    weights_s = 29e9 * 2 / 4.8e12
    best = 2 * 2.7e9 * 4096 / 989e12
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
    changes = {
        "hardware_id": "h200-sxm",
        "model_id": "qwen3-30b-a3b",
        "n_gpus": 4,
        "expert_parallel": 4,
    }
    found = prompt(**changes)
    assert found.sequences == pytest.approx(BATCH / 4)


WIDE = {
    "hardware_id": "h200-sxm",
    "model_id": "deepseek-v3",
    "drafter_id": "none",
    "batch_size": 256,
}
BESIDE = np.array([256.0])


def wide(ranks: int, **changes: object) -> Prompt:
    """A prompt of 4,000 tokens of DeepSeek-V3 beside 256 sequences, attention on each rank of its
    own."""
    given = {**WIDE, "n_gpus": ranks, "expert_parallel": ranks, "input_tokens": 4000, **changes}
    return cost(load_setup(DENSE.model_copy(update=given)), BESIDE)


def block_loads(hot: float) -> str:
    """Loads whose first 32 experts, one of eight ranks, are `hot` times as popular as the
    others."""
    return write_loads(np.repeat(np.r_[np.full(32, hot), np.ones(224)][None], 4, axis=0))


def test_a_prompt_waits_for_the_rank_that_loads_of_experts_fill() -> None:
    assumed = wide(8, expert_loads=None)
    even = wide(8, expert_loads=block_loads(1.0))
    hot = wide(8, expert_loads=block_loads(9.0))
    assert np.all(hot.first_token_s > 1.3 * even.first_token_s)
    assert even.first_token_s == pytest.approx(assumed.first_token_s, rel=0.05)


def test_without_a_chunk_loads_add_to_layers_what_they_add_to_a_plain_step() -> None:
    """Both are the same 256 tokens on the same ranks."""
    setups = [
        load_setup(
            DENSE.model_copy(
                update={**WIDE, "n_gpus": 8, "expert_parallel": 8, "expert_loads": loads}
            )
        )
        for loads in (None, block_loads(9.0))
    ]
    assumed, hot = (curve_for(setup, BESIDE, [0]).plain_step_s for setup in setups)
    layers = [wide(8, expert_loads=setup.scenario.expert_loads).without_s for setup in setups]
    assert hot > 1.1 * assumed
    assert layers[1] - layers[0] == pytest.approx(hot - assumed, rel=1e-9)


@pytest.mark.parametrize(("hardware", "ranks"), [("h200-sxm", 8), ("mi300x", 8), ("gb200", 32)])
def test_on_one_node_a_prompt_is_exchanged_as_decode_is_to_the_bit(
    hardware: str, ranks: int
) -> None:
    setup = load_setup(
        DENSE.model_copy(
            update={**WIDE, "hardware_id": hardware, "n_gpus": ranks, "expert_parallel": ranks}
        )
    )
    rows = np.array([1.0, 64.0, 1024.0])
    shape = MoeShape.of(setup.architecture)
    step = (setup.architecture, setup.costs, setup.placement, rows)
    decode = exchanges(*step, shape, for_prompt=False)
    chunk = exchanges(*step, shape, for_prompt=True)
    assert (decode[0].time_s == chunk[0].time_s).all()


def test_between_nodes_a_prompt_s_token_travels_once_to_each_node() -> None:
    """Four nodes, 8 choices: 2.7 other nodes of 3 by hand, where a message for each choice makes
    6."""
    setup = load_setup(DENSE.model_copy(update={**WIDE, "n_gpus": 32, "expert_parallel": 32}))
    network = setup.costs.network
    rows = np.array([4096.0])
    shape = MoeShape.of(setup.architecture)
    step = (setup.architecture, setup.costs, setup.placement, rows)
    decode = exchanges(*step, shape, for_prompt=False)[0]
    chunk = exchanges(*step, shape, for_prompt=True)[0]
    each_message = (7168 * 1.03125 + 16 + 7168 * 2) / 2
    assert chunk.symbols["X_net"] == pytest.approx(4096 * 3 * (1 - 0.75**8) * each_message)
    waits = 0.75 * network.t0_s + chunk.symbols["X_net"] / network.bandwidth_bytes_per_s
    assert chunk.time_s == pytest.approx(
        2 * 58 * (chunk.symbols["t0"] + waits) * chunk.symbols["r"]
    )
    assert decode.time_s > 2 * chunk.time_s


def test_a_longer_prompt_is_never_quicker_between_nodes_however_short() -> None:
    """A chunk of few tokens beside many sequences costs its own tokens, not another way of sending
    theirs."""
    lengths = (1, 16, 256, 4096)
    times = [float(wide(32, input_tokens=length).time_s[0]) for length in lengths]
    assert times[0] > 0.0
    assert times == sorted(times)


GROUPS = Scenario(
    hardware_id="h200-sxm",
    n_gpus=8,
    tensor_parallel=1,
    expert_parallel=8,
    model_id="minimax-m2",
    drafter_id="ngram",
    acceptance="1.5@1",
    k_max=1,
    input_tokens=8192,
    output_tokens=1024,
)


def test_a_data_parallel_group_waits_for_the_others_prompts_while_they_are_rare() -> None:
    """At batch 8 each of 8 groups brings a chunk in 1 of 1,024 steps: they never fall together."""
    few = np.array([8.0])
    many = np.array([8.0 * 4096])
    found = cost(load_setup(GROUPS), few)
    assert found.waits == pytest.approx(8.0, rel=0.01)
    assert found.time_s == pytest.approx(
        8.0 * (found.with_s - found.without_s + found.attention_s + found.small_s), rel=0.01
    )
    whole = found.n_chunks * (found.with_s + found.first_step_s) + found.attention_s + found.small_s
    assert found.first_token_s == pytest.approx(whole), "nothing is waited for twice"
    always = cost(load_setup(GROUPS), many)
    assert always.waits == pytest.approx(1.0)
    tokens = [step_tokens(load_setup(GROUPS), batch)[0] for batch in (few, many)]
    assert tokens[0] == pytest.approx(8 + CHUNK_TOKENS, rel=0.01)
    assert tokens[1] == pytest.approx(8 * 4096 + 8 * CHUNK_TOKENS)


def test_one_group_waits_for_its_own_prompts_alone_and_so_do_groups_that_prefill_together() -> None:
    batch = np.array([8.0, 64.0])
    one = GROUPS.model_copy(update={"tensor_parallel": 8})
    for scenario in (one, GROUPS.model_copy(update={"engine": "trtllm"})):
        found = cost(load_setup(scenario), batch)
        assert found.waits == pytest.approx(1.0)
