"""The KV cache with and without a drafter: it adds up to the memory, follows the engine's own line,
and holds a shared prefix once."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import BetweenBatches, k_running_at
from advisor.answers.outcome import SPARE, outcome_of
from advisor.physics.memory import (
    GIB,
    USABLE_SHARE,
    MemoryFit,
    StatedPool,
    cache_bytes_per_gpu,
    memory_fit,
)
from advisor.predict.load import load_setup
from advisor.predict.prefill import prompt_cost
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "memory.md"
SERVERS: list[dict[str, Any]] = [
    {"model_id": "qwen3-30b-a3b", "hardware_id": "h200-sxm"},
    {"model_id": "qwen3-235b-a22b", "hardware_id": "b200-sxm", "n_gpus": 4, "tensor_parallel": 4},
    {"model_id": "gpt-oss-120b", "hardware_id": "mi300x"},
    {"model_id": "deepseek-v3", "drafter_id": "mtp", "n_gpus": 8, "tensor_parallel": 8},
    {"model_id": "deepseek-v3", "drafter_id": "mtp", "n_gpus": 16, "expert_parallel": 16},
    {"model_id": "qwen3-next-80b-a3b", "drafter_id": "mtp", "n_gpus": 2, "tensor_parallel": 2},
    {"model_id": "glm-4.5", "hardware_id": "b300-sxm", "n_gpus": 4, "tensor_parallel": 4},
    {"model_id": "llama-3.1-70b", "hardware_id": "h100-sxm", "n_gpus": 4, "tensor_parallel": 4},
]
LONG = 65_536


def scenario_of(**values: Any) -> Scenario:
    return Scenario(**{"acceptance": "2.4@3", "context_tokens": LONG} | values)


def memory_of(**values: Any) -> MemoryFit:
    return load_setup(scenario_of(**values)).memory


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server["model_id"])
@pytest.mark.parametrize("context", [2048, LONG])
def test_the_pool_adds_up_to_the_memory(server: dict[str, Any], context: int) -> None:
    setup = load_setup(scenario_of(**server, context_tokens=context))
    stated = setup.hardware.memory_bytes.value
    for fit in (setup.memory, setup.memory.plain):
        assert fit is not None
        pool = fit.pool_tokens / fit.attention_groups * fit.kv_bytes_per_token
        reserve = (1.0 - USABLE_SHARE) * stated
        total = pool + fit.weights_bytes + fit.drafter_bytes + reserve
        assert total == pytest.approx(stated, abs=fit.kv_bytes_per_token)


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server["model_id"])
def test_a_long_context_holds_fewer_requests_with_a_drafter_than_without(
    server: dict[str, Any],
) -> None:
    setup = load_setup(scenario_of(**server))
    plain = setup.memory.plain
    assert plain is not None
    assert setup.memory.pool_tokens < plain.pool_tokens
    assert setup.memory.largest_batch <= plain.largest_batch
    # Whole requests hide small differences: eight times the memory shows them.
    room = 8 * setup.hardware.memory_bytes.value
    larger = memory_fit(
        setup.architecture,
        setup.placement,
        room,
        LONG,
        setup.kv_bytes_per_element,
        setup.draft_architecture,
    )
    assert larger.plain is not None
    assert larger.largest_batch < larger.plain.largest_batch


def test_a_drafter_without_weights_takes_nothing() -> None:
    memory = memory_of(drafter_id="ngram")
    assert memory.plain is not None
    assert memory.pool_tokens == memory.plain.pool_tokens
    assert memory.largest_batch == memory.plain.largest_batch


def test_requests_are_the_pool_over_the_context() -> None:
    memory = memory_of(n_gpus=2, tensor_parallel=2)
    assert memory.largest_batch == memory.pool_tokens // LONG
    assert memory.total_bytes(memory.largest_batch) <= memory.usable_bytes
    assert memory.total_bytes(memory.largest_batch + 1) > memory.usable_bytes


def test_an_engines_own_lines_replace_the_model() -> None:
    memory = memory_of(kv_cache_tokens=4 * LONG, kv_cache_tokens_with_drafter=3 * LONG)
    assert memory.plain is not None
    assert (memory.plain.pool_tokens, memory.pool_tokens) == (4 * LONG, 3 * LONG)
    assert (memory.plain.largest_batch, memory.largest_batch) == (4, 3)


def test_one_line_gives_the_other() -> None:
    plain_line = memory_of(kv_cache_tokens=400_000)
    assert plain_line.plain is not None
    assert plain_line.plain.pool_tokens == 400_000
    left = 400_000 * plain_line.plain.kv_bytes_per_token - plain_line.drafter_bytes
    assert plain_line.pool_tokens == int(left / plain_line.kv_bytes_per_token)
    other_line = memory_of(kv_cache_tokens_with_drafter=plain_line.pool_tokens)
    assert other_line.plain is not None
    assert other_line.plain.pool_tokens == pytest.approx(400_000, abs=2)


def test_each_data_parallel_rank_logs_its_own_line() -> None:
    server = {"model_id": "deepseek-v3", "n_gpus": 8, "expert_parallel": 8, "drafter_id": "none"}
    memory = memory_of(**server, kv_cache_tokens=LONG, weight_dtype="nvfp4")
    assert memory.attention_groups == 8
    assert (memory.pool_tokens, memory.largest_batch) == (8 * LONG, 8)


def test_lines_of_one_server_do_not_go_to_another() -> None:
    scenario = scenario_of(kv_cache_tokens=400_000)
    assert scenario.model_copy(update={"batch_size": 2}).kv_cache_tokens == 400_000
    assert scenario.model_copy(update={"hardware_id": "h200-sxm"}).kv_cache_tokens == 400_000
    for name, value in (
        ("hardware_id", "b200-sxm"),
        ("model_id", "gpt-oss-20b"),
        ("kv_dtype", "fp8"),
        ("drafter_id", "ngram"),
    ):
        assert scenario.model_copy(update={name: value}).kv_cache_tokens is None


def test_a_shared_prefix_counts_once() -> None:
    without = memory_of()
    memory = memory_of(shared_prefix_tokens=49_152)
    assert memory.pool_tokens == without.pool_tokens
    assert memory.largest_batch == (memory.pool_tokens - 49_152) // (LONG - 49_152)
    assert memory.total_bytes(1) == pytest.approx(without.total_bytes(1))
    assert memory.largest_batch > 3 * without.largest_batch


def test_a_recurrent_state_is_each_requests_own() -> None:
    server = {"model_id": "qwen3-next-80b-a3b", "n_gpus": 2, "tensor_parallel": 2}
    setup = load_setup(scenario_of(**server, drafter_id="none", shared_prefix_tokens=LONG - 1))
    state = cache_bytes_per_gpu(setup.architecture, 2, 0, setup.kv_bytes_per_element)
    assert 0 < state < setup.memory.kv_bytes_per_sequence


def test_a_prefix_is_shorter_than_context_and_prompt() -> None:
    with pytest.raises(AdvisorError, match="shared_prefix_tokens=65536 leaves nothing"):
        scenario_of(shared_prefix_tokens=LONG)
    with pytest.raises(AdvisorError, match="leaves nothing of input_tokens=1000"):
        scenario_of(input_tokens=1000, output_tokens=500, shared_prefix_tokens=1000)


def test_a_shared_prefix_is_prefilled_once() -> None:
    lengths = {"input_tokens": 8192, "output_tokens": 512, "context_tokens": 8448}
    batch = np.array([16.0])
    whole = prompt_cost(load_setup(scenario_of(**lengths)), batch)
    rest = prompt_cost(load_setup(scenario_of(**lengths, shared_prefix_tokens=4096)), batch)
    first = prompt_cost(load_setup(scenario_of(**lengths | {"input_tokens": 4096})), batch)
    assert whole is not None
    assert rest is not None
    assert first is not None
    assert rest.input_tokens == 4096
    # Causal attention: the second half costs three times the first.
    assert rest.attention_flops == pytest.approx(whole.attention_flops - first.attention_flops)
    assert rest.attention_flops == pytest.approx(3.0 * first.attention_flops)
    assert rest.time_s[0] < whole.time_s[0]


def test_a_memory_without_new_fields_is_as_before() -> None:
    setup = load_setup(scenario_of())
    free = setup.memory.usable_bytes - setup.memory.weights_bytes - setup.memory.drafter_bytes
    assert setup.memory.usable_bytes == USABLE_SHARE * setup.hardware.memory_bytes.value
    assert setup.memory.prefix_bytes == 0.0
    assert setup.memory.largest_batch == math.floor(free / setup.memory.kv_bytes_per_sequence)


def test_full_servers_are_told_apart_from_equal_requests() -> None:
    lines = {"kv_cache_tokens": 40 * 2048, "kv_cache_tokens_with_drafter": 8 * 2048}
    advice = advise(scenario_of(**lines, context_tokens=2048, batch_size=8))
    outcome = outcome_of(advice)
    assert (outcome.largest, outcome.plain_largest) == (8, 40)
    curve = advice.curve
    rate = BetweenBatches.of(curve.batches, np.arange(1, 41)).positive(curve.tokens_per_s_per_gpu)
    k = int(k_running_at(advice.to_serve, 8))
    full = rate[7, curve.column(k)]
    assert outcome.full_speedup == pytest.approx(full / rate[39, 0])
    assert outcome.full_speedup < 1.0 < outcome.speedup
    cancels = outcome.cancels_from
    assert cancels is not None
    assert rate[cancels - 2, 0] < full <= rate[cancels - 1, 0]


def test_a_roomy_memory_is_no_matter_for_the_first_screen() -> None:
    outcome = outcome_of(advise(scenario_of(context_tokens=2048)))
    assert outcome.roomy_to == outcome.largest // SPARE > outcome.batch
    assert outcome.cancels_from is None
    assert outcome.prefix_hit is None


def test_a_prefix_that_does_not_fit_is_not_hit() -> None:
    lines = {"kv_cache_tokens": LONG + 1024, "kv_cache_tokens_with_drafter": LONG - 1024}
    outcome = outcome_of(advise(scenario_of(**lines, shared_prefix_tokens=32_768, batch_size=1)))
    assert (outcome.largest, outcome.plain_largest) == (0, 1)
    assert outcome.prefix_hit == 0.0
    fitting = outcome_of(advise(scenario_of(shared_prefix_tokens=32_768, batch_size=1)))
    assert fitting.prefix_hit == 0.5


def published() -> list[dict[str, str]]:
    """Rows of the table of startup lines in docs/memory.md by its headings."""
    lines = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "|" in line]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("row", published(), ids=lambda row: f"{row['model']} {row['GPUs']}")
def test_the_published_startup_lines_are_off_by_what_the_document_states(
    row: dict[str, str],
) -> None:
    gpus, hardware = re.fullmatch(r"(\d) x (\S+)", row["GPUs"]).groups()  # type: ignore[union-attr]
    setup = load_setup(
        scenario_of(
            model_id=row["model"],
            hardware_id=hardware,
            n_gpus=int(gpus),
            tensor_parallel=int(gpus),
            weight_dtype=row["weights"] if row["weights"] != "stored" else None,
            drafter_id="none",
        )
    )
    share = float(row["share"])
    memory = memory_fit(
        setup.architecture,
        setup.placement,
        setup.hardware.memory_bytes.value * share / USABLE_SHARE,
        int(row["context"].replace(",", "")),
        setup.kv_bytes_per_element,
        stated=StatedPool(),
    )
    pool_gib = (memory.usable_bytes - memory.weights_bytes) / GIB
    logged_gib = float(row["logged GiB"])
    assert f"{pool_gib:.2f}" == row["modeled GiB"]
    assert f"{pool_gib - logged_gib:+.1f}" == row["difference GiB"]
    # What the phrase of a modeled pool states.
    assert 2.75 <= pool_gib - logged_gib <= 9.0
    if row["logged tokens"] != "-":
        tokens = int(row["logged tokens"].replace(",", ""))
        assert tokens * memory.kv_bytes_per_token / GIB == pytest.approx(logged_gib, rel=0.012)
