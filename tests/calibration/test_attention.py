"""Attention's arithmetic: fitted where tables tell it, assumed where not, finite and physical wherever it ships."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.fit_records import FitParameter, FitRecord, load_records
from advisor.catalog.kernel_costs import ASSUMED_RATE, KV_BYTES, attention_cost, kernel_costs
from advisor.catalog.models import load_model
from advisor.measured.fits.attention import ASSUMED_RATE_LOG_SD, ATTENTION_KEYS, attention_record, limits, mla_record
from advisor.physics.architecture import WeightDtypes
from advisor.physics.attention import AttentionLoad, attention_core, attention_layers
from advisor.physics.hardware import hardware_ids, load_hardware, peak_flops
from advisor.physics.kernel_costs import AttentionCost
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.prediction import Tier

IDENTITY = {"hardware_id": "h200-sxm", "engine": "vllm", "version": "1.0", "dtype": "bf16", "kernel_source": "test"}
H200 = load_hardware("h200-sxm")
BOUNDS = limits(H200, "bf16")
ENGINES = ("vllm", "sglang", "trtllm", "other")


def attention_table(t0, bandwidth):
    grid = [
        (b, c, h, g, d)
        for b in (1, 4, 16, 64)
        for c in (128, 1024, 8192)
        for h, g, d in ((32, 8, 128), (64, 8, 64), (16, 16, 128))
    ]
    frame = pd.DataFrame(grid, columns=["batch_size", "context_tokens", "num_heads", "num_kv_heads", "head_dim"])
    read = frame["batch_size"] * frame["context_tokens"] * 2 * frame["num_kv_heads"] * frame["head_dim"] * 2
    return frame.assign(latency_s=t0 + read / bandwidth)


def latent_table(t0, bandwidth, rate, heads=(16, 32, 64, 128)):
    grid = [(b, c, h) for b in (1, 8, 64) for c in (256, 4096, 32768) for h in heads]
    frame = pd.DataFrame(grid, columns=["batch_size", "context_tokens", "num_heads"])
    tokens = frame["batch_size"] * frame["context_tokens"]
    reading, computing = tokens * 576 * 2 / bandwidth, tokens * np.maximum(frame["num_heads"], 64) * 2176 / rate
    return frame.assign(latency_s=t0 + (reading**4 + computing**4) ** 0.25)


def test_attention_reads_each_cache_once():
    record = attention_record(attention_table(10e-6, 3e12), IDENTITY, "bf16", BOUNDS)
    assert record.value("t0_s") == pytest.approx(10e-6, rel=1e-3)
    assert 1 / record.value("s_per_byte") == pytest.approx(3e12, rel=1e-3)


def test_grouped_heads_get_an_assumed_rate_and_say_so():
    record = attention_record(attention_table(10e-6, 3e12), IDENTITY, "bf16", BOUNDS)
    assert 1 / record.value("s_per_flop") == pytest.approx(0.6 * 989.5e12, rel=1e-2)
    assert record.parameters["s_per_flop"].at_bound
    assert "not identified" in record.message


def test_sliding_window_rows_do_not_enter_the_attention_fit():
    table = attention_table(10e-6, 3e12)
    spoiled = table.assign(latency_s=1.0, window_size=1024)
    both = pd.concat([table.assign(window_size=0), spoiled], ignore_index=True)
    record = attention_record(both, IDENTITY, "bf16", BOUNDS)
    assert record.value("t0_s") == pytest.approx(10e-6, rel=1e-3)
    assert [d.reason for d in record.dropped] == ["sliding window"]


def test_a_latent_fit_tells_bandwidth_and_arithmetic_apart():
    record = mla_record(latent_table(15e-6, 3.5e12, 400e12), IDENTITY, "bf16", BOUNDS)
    assert record.value("t0_s") == pytest.approx(15e-6, rel=1e-2)
    assert 1 / record.value("s_per_byte") == pytest.approx(3.5e12, rel=1e-2)
    assert 1 / record.value("s_per_flop") == pytest.approx(400e12, rel=1e-2)
    assert record.message == "all parameters identified"


def test_a_latent_table_that_never_waits_for_arithmetic_gets_the_assumed_rate_and_a_wider_band():
    few = mla_record(latent_table(15e-6, 2e12, 900e12, heads=(8, 16, 32, 64)), IDENTITY, "bf16", BOUNDS)
    assert 1 / few.value("s_per_flop") == pytest.approx(ASSUMED_RATE / BOUNDS.s_per_flop)
    assert "not identified" in few.message
    assert few.log_sd >= ASSUMED_RATE_LOG_SD


def test_an_assumed_rate_is_no_lower_than_what_rows_of_the_table_reach():
    bounds = limits(H200, "fp8")
    table = latent_table(1e-6, 4.8e12, np.inf, heads=(128,))
    table["latency_s"] = 1e-6 + table["batch_size"] * table["context_tokens"] * 576 / 4.8e12
    record = mla_record(table, IDENTITY, "fp8", bounds)
    reached = 128 * 2176 / 576 * 4.8e12
    assert 0.8 * reached < 1 / record.value("s_per_flop") <= 1 / bounds.cache_s_per_flop * (1 + 1e-9)


def test_no_shipped_rate_is_infinite_or_beyond_the_peak_of_its_format():
    for hardware_id in hardware_ids():
        hardware = load_hardware(hardware_id)
        for engine in ENGINES:
            for kv_dtype in ("bf16", "fp8"):
                costs = kernel_costs(hardware, engine, WeightDtypes(), kv_dtype)
                peak = max(peak_flops(hardware, each).value for each in ("bf16", kv_dtype))
                for cost in (costs.attention, costs.mla):
                    assert 0.05 * peak_flops(hardware, "bf16").value < cost.flops_per_s <= peak * (1 + 1e-5)
                    assert cost.bandwidth_bytes_per_s > 0


@pytest.mark.parametrize("hardware_id", hardware_ids())
def test_verifying_tokens_over_a_latent_cache_is_no_faster_than_the_peak_allows(hardware_id):
    """128 heads x q queries, each 2 (576 + 512) operations against every entry: the arithmetic of the matrix units."""
    hardware, q = load_hardware(hardware_id), np.array([1.0, 4.0, 8.0, 16.0])
    for engine in ENGINES:
        costs = kernel_costs(hardware, engine, WeightDtypes())
        (core,) = attention_layers(load_model("deepseek-v3"), costs, AttentionLoad(8.0, q, 32768.0, 2.0, 1))
        floor = 61 * 8 * q * (32768 + q) * 128 * 2176 / peak_flops(hardware, "bf16").value
        assert np.all(core.time_s > floor)


def deepseek(engine, **changes):
    values = {
        "hardware_id": "h200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 1,
        "expert_parallel": 8,
        "model_id": "deepseek-v3",
        "drafter_id": "mtp",
        "acceptance": "2.5@3",
        "context_tokens": 32768,
        "engine": engine,
        "k_max": 7,
    }
    return load_setup(build_scenario(**(values | changes)))


def core_times(setup, sequences, tokens):
    """Seconds of the attention cores of all layers for some numbers of tokens of each sequence."""
    (mixer,) = setup.architecture.mixers
    load = AttentionLoad(sequences, np.asarray(tokens, float), 32768.0, 2.0, setup.placement.tensor_parallel)
    return attention_core(mixer, setup.costs, load).time_s


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_data_parallel_latent_attention_pays_for_verified_tokens_as_a_hand_computes(engine):
    """8 sequences a GPU, 128 heads. Rows of the tables with 128 heads reach 0.55 to 0.60 of 989.5 TFLOP/s."""
    layer = {q: 8 * (32768 + q) * 128 * q * 2176 / (0.575 * 989.5e12) for q in (4, 8)}
    assert layer[4] == pytest.approx(513e-6, rel=0.01)
    # A plain layer reads 302 MB at 4.8 TB/s, 63 us, and computes for 128 us: (63^4 + 128^4)^(1/4) = 130 us.
    by_hand = 61 * (15.5e-6 + np.array([130e-6, layer[4], layer[8]]))
    setup = deepseek(engine)
    assert core_times(setup, 8.0, [1, 4, 8]) == pytest.approx(by_hand, rel=0.05)
    curve = curve_for(setup, [64], [0, 3])
    least = 1.0 + (by_hand[1] - by_hand[0]) / float(curve.plain_step_s[0])
    ratio = float(curve.verify_ratio[0, 1])
    others = {name: time for name, time in curve.round_components.items() if name in curve.plain_components}
    grown = sum(
        float(time[0, 1] - curve.plain_components[name][0]) for name, time in others.items() if name != "attention"
    )
    assert ratio == pytest.approx(least + grown / float(curve.plain_step_s[0]), abs=0.06)
    assert 1.5 < ratio < 1.85  # about 1.65 in the trial; experts, projections and links grow too


def test_split_heads_verify_four_tokens_in_one_block_of_64_rows():
    """At TP 8 a rank has 16 heads: 4 x 16 rows fill the block that one token's 16 rows are padded to."""
    plain, four, eight = core_times(deepseek("trtllm", tensor_parallel=8, expert_parallel=1), 64.0, [1, 4, 8])
    assert four == pytest.approx(plain, rel=0.01)
    assert eight > 1.4 * plain


def fake(kv_dtype, s_per_byte, engine="vllm", op="attention"):
    values = {"t0_s": 1e-5, "s_per_byte": s_per_byte, "s_per_flop": 2e-15}
    parameters = {name: FitParameter(value=value, unit="s") for name, value in values.items()}
    identity = {**IDENTITY, "engine": engine, "kernel_source": f"kernel+kv-{kv_dtype}"}
    name = f"{op}/{engine}/{kv_dtype}"
    fields = {"form": "", "n_rows": 9, "n_shapes": 9, "data_sha256": "", "log_sd": 0.1, "success": True, "message": ""}
    return FitRecord(id=name, op=op, parameters=parameters, **identity, **fields)


def priced(*records, engine="vllm"):
    return attention_cost(H200, records, engine, "attention", "fp8")


def test_a_smaller_cache_that_reads_tokens_faster_is_priced_by_its_own_record():
    found = priced(fake("bf16", 1 / 4e12), fake("fp8", 1 / 3e12))
    assert found.choice.record.id == "attention/vllm/fp8"
    assert not found.note


def test_a_smaller_cache_that_is_slower_is_refused_and_takes_the_16_bit_time():
    found = priced(fake("bf16", 1 / 4e12), fake("fp8", 1 / 1e12))
    assert found.choice.record.id == "attention/vllm/bf16"
    assert found.cost.bandwidth_bytes_per_s == pytest.approx(2e12)  # half the bytes at half the rate
    assert "no faster" in found.note
    assert "16-bit cache's time is assumed" in found.note


def test_a_smaller_cache_that_is_slower_here_but_pays_elsewhere_takes_its_bytes_at_the_16_bit_rate():
    others = fake("bf16", 1 / 4e12, "trtllm"), fake("fp8", 1 / 3e12, "trtllm")
    found = priced(fake("bf16", 1 / 4e12), fake("fp8", 1 / 1e12), *others)
    assert found.choice.record.id == "attention/vllm/bf16"
    assert found.cost.bandwidth_bytes_per_s == pytest.approx(4e12)
    assert "as trtllm reaches" in found.note


def test_an_engine_without_a_table_borrows_the_smaller_cache_s_record_of_one_where_it_pays():
    others = fake("bf16", 1 / 4e12, "trtllm"), fake("fp8", 1 / 3e12, "trtllm")
    slow = fake("bf16", 1 / 4e12, "sglang"), fake("fp8", 1 / 1e12, "sglang")
    found = priced(*slow, *others, engine="vllm")
    assert found.choice.record.id == "attention/trtllm/fp8"
    assert found.choice.borrowed


@pytest.mark.parametrize("hardware_id", hardware_ids())
def test_no_shipped_price_of_an_fp8_cache_is_above_the_16_bit_price_of_the_same_engine(hardware_id):
    hardware = load_hardware(hardware_id)
    records = load_records(hardware.kernel_table_device) if hardware.kernel_table_device else ()
    for engine in ENGINES:
        for op in ("attention", "mla"):
            small, plain = (attention_cost(hardware, records, engine, op, each) for each in ("fp8", "bf16"))
            if small is None or plain is None or small.choice.record.engine != plain.choice.record.engine:
                continue
            each = {"fp8": small.cost, "bf16": plain.cost}
            token = {name: KV_BYTES[name] / cost.bandwidth_bytes_per_s for name, cost in each.items()}
            assert token["fp8"] <= token["bf16"] * (1 + 1e-9), (engine, op)


@pytest.mark.parametrize("hardware_id", ["h100-sxm", "h200-sxm"])
def test_sglang_s_fp8_latent_record_on_hopper_is_refused(hardware_id):
    """It reads a cached token 5 to 7 times slower than the 16-bit record of the same engine."""
    hardware = load_hardware(hardware_id)
    found = attention_cost(hardware, load_records(hardware.kernel_table_device), "sglang", "mla", "fp8")
    assert found.choice.record.kernel_source.endswith("+kv-bf16")
    assert "no faster" in found.note


def test_an_attention_core_waits_for_bytes_and_arithmetic_together():
    cost = AttentionCost(1e-5, 4e12, 6e14, Tier.FITTED)
    assert float(cost.time_s(4e9, 6e11)) == pytest.approx(1e-5 + 1e-3 * 2**0.25)


def test_rows_that_a_last_level_cache_served_take_no_part_but_launches_do():
    rows = [(batch, context, 32, 8, 128) for batch in (1, 8, 64, 512) for context in (64, 1024, 16384, 131072)]
    frame = pd.DataFrame(rows, columns=ATTENTION_KEYS)
    read = 2.0 * 8 * 128 * 2.0 * frame["batch_size"] * frame["context_tokens"]
    cached = read < 100e6
    frame["latency_s"] = 8e-6 + read / np.where(cached, 12e12, 4e12)
    free = attention_record(frame, IDENTITY, "bf16", limits(H200, "bf16"))
    told = attention_record(frame, IDENTITY, "bf16", limits(H200, "bf16", 40e6))
    assert 1.0 / told.value("s_per_byte") == pytest.approx(4e12, rel=0.02)
    assert told.value("t0_s") == pytest.approx(8e-6, rel=0.1)
    assert any("last-level cache" in dropped.reason for dropped in told.dropped)
    assert 1.0 / free.value("s_per_byte") <= H200.bandwidth_bytes_per_s.value * 1.0001
