"""Attention's arithmetic: fitted where tables tell it, assumed where not, finite and physical
wherever it ships.

Attention layers measured as a whole: cleaned, thinned, served to models with the same layer,
carried to q tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.adjustment import slower
from advisor.catalog.fit_records import (
    MODULES,
    FitParameter,
    FitRecord,
    ModuleTable,
    load_modules,
    load_records,
)
from advisor.catalog.kernel_costs import ASSUMED_RATE, KV_BYTES, attention_cost, kernel_costs
from advisor.catalog.measured_shapes import CHECKPOINTS, MAX_GAP, served, serving_module
from advisor.catalog.models import load_model
from advisor.physics.architecture import WeightDtypes
from advisor.physics.attention import (
    AttentionLoad,
    attention_core,
    attention_layers,
    measured_attention,
    reread_share,
)
from advisor.physics.hardware import hardware_ids, load_hardware, peak_flops
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.tiers import component_tier_ranks
from advisor.prediction import Tier
from studies.fits.attention import (
    ASSUMED_RATE_LOG_SD,
    ATTENTION_KEYS,
    attention_record,
    filled,
    limits,
    mla_record,
    module_table,
    rising,
    without_spikes,
)
from studies.fits.records import write_modules

IDENTITY = {
    "hardware_id": "h200-sxm",
    "engine": "vllm",
    "version": "1.0",
    "dtype": "bf16",
    "kernel_source": "test",
}
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
    frame = pd.DataFrame(
        grid, columns=["batch_size", "context_tokens", "num_heads", "num_kv_heads", "head_dim"]
    )
    read = (
        frame["batch_size"]
        * frame["context_tokens"]
        * 2
        * frame["num_kv_heads"]
        * frame["head_dim"]
        * 2
    )
    return frame.assign(latency_s=t0 + read / bandwidth)


def latent_table(t0, bandwidth, rate, heads=(16, 32, 64, 128)):
    grid = [(b, c, h) for b in (1, 8, 64) for c in (256, 4096, 32768) for h in heads]
    frame = pd.DataFrame(grid, columns=["batch_size", "context_tokens", "num_heads"])
    tokens = frame["batch_size"] * frame["context_tokens"]
    reading = tokens * 576 * 2 / bandwidth
    computing = tokens * np.maximum(frame["num_heads"], 64) * 2176 / rate
    return frame.assign(latency_s=t0 + (reading**4 + computing**4) ** 0.25)


def test_attention_reads_each_cache_once_and_grouped_heads_get_an_assumed_rate_and_say_so():
    record = attention_record(attention_table(10e-6, 3e12), IDENTITY, "bf16", BOUNDS)
    assert record.value("t0_s") == pytest.approx(10e-6, rel=1e-3)
    assert 1 / record.value("s_per_byte") == pytest.approx(3e12, rel=1e-3)
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
    few = mla_record(
        latent_table(15e-6, 2e12, 900e12, heads=(8, 16, 32, 64)), IDENTITY, "bf16", BOUNDS
    )
    assert 1 / few.value("s_per_flop") == pytest.approx(ASSUMED_RATE / BOUNDS.s_per_flop)
    assert "not identified" in few.message
    assert few.log_sd >= ASSUMED_RATE_LOG_SD


def test_an_assumed_rate_is_no_lower_than_what_rows_of_the_table_reach():
    bounds = limits(H200, "fp8")
    table = latent_table(1e-6, 4.8e12, np.inf, heads=(128,))
    table["latency_s"] = 1e-6 + table["batch_size"] * table["context_tokens"] * 576 / 4.8e12
    record = mla_record(table, IDENTITY, "fp8", bounds)
    reached = 128 * 2176 / 576 * 4.8e12
    assert (
        0.8 * reached < 1 / record.value("s_per_flop") <= 1 / bounds.cache_s_per_flop * (1 + 1e-9)
    )


def test_no_shipped_rate_is_infinite_or_beyond_the_peak_of_its_format():
    for hardware_id in hardware_ids():
        hardware = load_hardware(hardware_id)
        for engine in ENGINES:
            for kv_dtype in ("bf16", "fp8"):
                costs = kernel_costs(hardware, engine, WeightDtypes(), kv_dtype)
                peak = max(peak_flops(hardware, each).value for each in ("bf16", kv_dtype))
                for cost in (costs.attention, costs.mla):
                    assert (
                        0.05 * peak_flops(hardware, "bf16").value
                        < cost.flops_per_s
                        <= peak * (1 + 1e-5)
                    )
                    assert cost.bandwidth_bytes_per_s > 0


@pytest.mark.parametrize("hardware_id", hardware_ids())
def test_verifying_tokens_over_a_latent_cache_is_no_faster_than_the_peak_allows(hardware_id):
    """128 heads x q queries, each 2 (576 + 512) operations against every entry: the arithmetic of
    the matrix units."""
    hardware = load_hardware(hardware_id)
    q = np.array([1.0, 4.0, 8.0, 16.0])
    for engine in ENGINES:
        costs = kernel_costs(hardware, engine, WeightDtypes())
        (core,) = attention_layers(
            load_model("deepseek-v3"), costs, AttentionLoad(8.0, q, 32768.0, 2.0, 1)
        )
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
    load = AttentionLoad(
        sequences, np.asarray(tokens, float), 32768.0, 2.0, setup.placement.tensor_parallel
    )
    return attention_core(mixer, setup.costs, load).time_s


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_data_parallel_latent_attention_pays_for_verified_tokens_as_a_hand_computes(engine):
    """8 sequences a GPU, 128 heads. Rows of the tables with 128 heads reach 0.55 to 0.60 of 989.5
    TFLOP/s."""
    layer = {q: 8 * (32768 + q) * 128 * q * 2176 / (0.575 * 989.5e12) for q in (4, 8)}
    assert layer[4] == pytest.approx(513e-6, rel=0.01)
    # A plain layer reads 302 MB at 4.8 TB/s, 63 us, and computes for 128 us: (63^4 + 128^4)^(1/4) =
    # 130 us.
    by_hand = 61 * (15.5e-6 + np.array([130e-6, layer[4], layer[8]]))
    setup = deepseek(engine)
    assert core_times(setup, 8.0, [1, 4, 8]) == pytest.approx(by_hand, rel=0.05)
    curve = curve_for(setup, [64], [0, 3])
    least = 1.0 + (by_hand[1] - by_hand[0]) / float(curve.plain_step_s[0])
    ratio = float(curve.verify_ratio[0, 1])
    others = {
        name: time
        for name, time in curve.round_components.items()
        if name in curve.plain_components
    }
    grown = sum(
        float(time[0, 1] - curve.plain_components[name][0])
        for name, time in others.items()
        if name != "attention"
    )
    assert ratio == pytest.approx(least + grown / float(curve.plain_step_s[0]), abs=0.06)
    assert (
        1.5 < ratio < 1.85
    )  # about 1.65 in the trial; experts, projections and links grow too


def test_split_heads_verify_four_tokens_in_one_block_of_64_rows():
    """At TP 8 a rank has 16 heads: 4 x 16 rows fill the block that one token's 16 rows are padded
    to."""
    plain, four, eight = core_times(
        deepseek("trtllm", tensor_parallel=8, expert_parallel=1), 64.0, [1, 4, 8]
    )
    assert four == pytest.approx(plain, rel=0.01)
    assert eight > 1.4 * plain


def fake(kv_dtype, s_per_byte, engine="vllm", op="attention"):
    values = {"t0_s": 1e-5, "s_per_byte": s_per_byte, "s_per_flop": 2e-15}
    parameters = {name: FitParameter(value=value, unit="s") for name, value in values.items()}
    identity = {**IDENTITY, "engine": engine, "kernel_source": f"kernel+kv-{kv_dtype}"}
    name = f"{op}/{engine}/{kv_dtype}"
    fields = {
        "form": "",
        "n_rows": 9,
        "n_shapes": 9,
        "data_sha256": "",
        "log_sd": 0.1,
        "success": True,
        "message": "",
    }
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
    assert found.cost.bandwidth_bytes_per_s == pytest.approx(
        2e12
    )  # half the bytes at half the rate
    assert found.note[0] == "cache_time_assumed"
    assert found.note[1]["measured"]


def test_a_smaller_cache_that_is_slower_here():
    others = fake("bf16", 1 / 4e12, "trtllm"), fake("fp8", 1 / 3e12, "trtllm")
    found = priced(fake("bf16", 1 / 4e12), fake("fp8", 1 / 1e12), *others)
    assert found.choice.record.id == "attention/vllm/bf16"
    assert found.cost.bandwidth_bytes_per_s == pytest.approx(4e12)
    assert found.note[0] == "cache_rate_assumed"
    assert found.note[1]["reached_by"] == "trtllm"
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
            small = attention_cost(hardware, records, engine, op, "fp8")
            plain = attention_cost(hardware, records, engine, op, "bf16")
            if (
                small is None
                or plain is None
                or small.choice.record.engine != plain.choice.record.engine
            ):
                continue
            each = {"fp8": small.cost, "bf16": plain.cost}
            token = {
                name: KV_BYTES[name] / cost.bandwidth_bytes_per_s for name, cost in each.items()
            }
            assert token["fp8"] <= token["bf16"] * (1 + 1e-9), (engine, op)


@pytest.mark.parametrize("hardware_id", ["h100-sxm", "h200-sxm"])
def test_sglang_s_fp8_latent_record_on_hopper_is_refused(hardware_id):
    """It reads a cached token 5 to 7 times slower than the 16-bit record of the same engine."""
    hardware = load_hardware(hardware_id)
    found = attention_cost(
        hardware, load_records(hardware.kernel_table_device), "sglang", "mla", "fp8"
    )
    assert found.choice.record.kernel_source.endswith("+kv-bf16")
    assert found.note[0] == "cache_rate_assumed"
    assert found.note[1]["measured"]


def test_rows_that_a_last_level_cache_served_take_no_part_but_launches_do():
    rows = [
        (batch, context, 32, 8, 128)
        for batch in (1, 8, 64, 512)
        for context in (64, 1024, 16384, 131072)
    ]
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


NAN = float("nan")
MODULES_IDENTITY = {
    "op": "mla_generation_module",
    "engine": "trtllm",
    "version": "1.0",
    "model": "deepseek-ai/DeepSeek-V3",
    "kv_dtype": "bf16",
    "gemm_dtype": "fp8_block",
}
SHIPPED = {
    path.stem: tables
    for path in sorted(MODULES.glob("*.json"))
    if (tables := load_modules(path.stem))
}


def measured(batch, context):
    """A layer of 40 us whose cache takes over: 1152 bytes a token at 4 TB/s."""
    return 40e-6 + np.asarray(batch, float) * np.asarray(context, float) * 1152 / 4e12


def layer_frame(time=measured):
    batches = 2 ** np.arange(11)
    contexts = 2 ** np.arange(1, 18) + 1
    rows = pd.DataFrame(
        [(b, c) for b in batches for c in contexts], columns=["batch_size", "context_tokens"]
    )
    return rows.assign(latency_s=time(rows["batch_size"], rows["context_tokens"]))


def test_a_thinned_table_gives_back_what_lay_between_its_contexts():
    table = module_table(layer_frame(), MODULES_IDENTITY, 16)
    module = served(table, True, table.log_sd, "", False)
    batch = np.array([1.0, 3.0, 48.0, 700.0])
    context = 12_000.0
    assert module.time_s(batch, context) == pytest.approx(measured(batch, context), rel=0.06)
    assert table.log_sd < 0.04
    assert table.measured_to == (1024,) * len(table.contexts)
    last, beyond = module.time_s([1024.0, 2048.0], 131072.0)
    assert beyond == pytest.approx(2.0 * last, rel=0.01)
    assert module.time_s(0.125, 128.0) == module.time_s(1.0, 128.0)


def test_a_noisy_table_has_a_wider_band():
    rng = np.random.default_rng(1)
    noisy = layer_frame(lambda b, c: measured(b, c) * np.exp(0.2 * rng.standard_normal(len(b))))
    assert module_table(noisy, MODULES_IDENTITY, 16).log_sd > 0.1


def test_batches_after_a_jump_much_steeper_than_the_batch_are_no_rows():
    times = np.array([[50.0, 52.0], [60.0, 61.0], [1300.0, 118.0], [1250.0, 230.0]])
    kept, n_spikes = without_spikes(times, np.array([128.0, 256.0, 512.0, 1024.0]))
    assert n_spikes == 2
    assert np.isnan(kept[2:, 0]).all()
    assert kept[2:, 1] == pytest.approx([118.0, 230.0])


def test_a_longer_context_or_a_larger_batch_is_never_cheaper():
    times = np.array([[71.0, 205.0, 104.0], [75.0, 83.0, 107.0], [70.0, NAN, 110.0]])
    assert rising(times) == pytest.approx(
        np.array([[70.0, 83.0, 104.0], [70.0, 83.0, 107.0], [70.0, NAN, 110.0]]), nan_ok=True
    )


def test_holes_grow_with_the_context_as_the_measured_batches_do():
    """5 us more at a long context, and 1 ns for each cached token: of two batches at 2,000 and four
    at 9,000 tokens."""
    batches = np.array([1.0, 2.0, 4.0, 8.0, 64.0, 256.0, 512.0, 1024.0])
    contexts = np.array([1000.0, 2000.0, 9000.0])
    true = 50.0 + 5.0 * (contexts > 1000) + 1e-3 * batches[:, None] * contexts
    holes = true.copy()
    holes[2:, 1] = NAN
    holes[4:, 2] = NAN
    holes[:2, 1] += [0.3, -0.3]  # noise of small batches must not be carried to large ones
    holes[4:, 2] = NAN
    assert filled(holes, batches, contexts)[-1] == pytest.approx(true[-1], rel=0.01)


@pytest.mark.parametrize("device", SHIPPED)
def test_shipped_layers_rise_in_batch_and_context_and_are_finite(device):
    assert SHIPPED[device]
    assert len({table.id for table in SHIPPED[device]}) == len(SHIPPED[device])
    for table in SHIPPED[device]:
        times = np.array(table.time_us)
        assert times.shape == (len(table.batches), len(table.contexts))
        assert np.all(np.isfinite(times))
        assert np.all(np.diff(times, axis=0) >= -1e-2 * times[:-1]), (
            table.id
        )  # three digits are kept
        assert np.all(np.diff(times, axis=1) >= -1e-2 * times[:, :-1]), table.id
        assert 0.0 < table.log_sd < 0.5
        assert table.model in CHECKPOINTS


def test_shipped_layers_take_little_room():
    assert sum(path.stat().st_size for path in MODULES.glob("*.json")) < 5e6


def test_tables_survive_a_round_trip(tmp_path):
    table = module_table(layer_frame(), MODULES_IDENTITY, 16)
    write_modules("x", [table], tmp_path)
    (back,) = load_modules("x", tmp_path)
    assert back.id == table.id
    assert np.array(back.time_us) == pytest.approx(np.array(table.time_us), rel=6e-3)


def constant(engine, alone_us, heads=16, **changes):
    batches = (1, 1024)
    contexts = (128, 32768)
    times = ((alone_us, 2.0 * alone_us), (10.0 * alone_us, 20.0 * alone_us))
    grid = {"batches": batches, "contexts": contexts, "time_us": times, "measured_to": (1024, 1024)}
    values = (
        MODULES_IDENTITY
        | {"engine": engine, "n_heads": heads, "n_rows": 4, "log_sd": 0.05}
        | grid
        | changes
    )
    return ModuleTable(**values)


def serving(tables, engine, model_id="deepseek-v3", tensor=8, kv_dtype="bf16"):
    model = load_model(model_id)
    mixer = next(each for each in model.mixers if each.kind in ("mla", "sparse"))
    return serving_module(tables, model, mixer, tensor, engine, kv_dtype, 3.35e12)


def test_an_engine_s_own_table_serves_unless_another_s_shows_its_launch_gaps():
    close = constant("vllm", 50.0 * MAX_GAP - 1)
    gaps = constant("vllm", 50.0 * MAX_GAP + 1)
    table, module, warning = serving([constant("trtllm", 50.0), close], "vllm")
    assert (table.engine, module.stands_in, warning) == ("vllm", False, None)
    table, module, warning = serving([constant("trtllm", 50.0), gaps], "vllm")
    assert (table.engine, module.stands_in) == ("trtllm", True)
    assert warning.kind == "layers_with_gaps"
    assert module.log_sd > 0.1


def test_a_table_that_reads_its_cache_far_below_the_bandwidth_serves_nobody():
    # 32,640 positions of 1,152 B at 3.35 TB/s: 11.2 us, and 20 times that 225 us; one sequence
    # grows by 1 ms.
    whole = ((50.0, 1050.0), (500.0, 10500.0))
    assert (
        serving([constant("trtllm", 50.0, time_us=whole), constant("vllm", 90.0)], "trtllm")[
            0
        ].engine
        == "vllm"
    )
    assert serving([constant("trtllm", 50.0, time_us=whole)], "trtllm") is None
    split = ((50.0, 270.0), (500.0, 2700.0))
    assert (
        serving([constant("trtllm", 50.0, time_us=split), constant("vllm", 90.0)], "trtllm")[
            0
        ].engine
        == "trtllm"
    )


def test_latent_attention_on_workstations_is_that_of_a_kernel_which_splits_the_context():
    # Published plain steps of Kimi-K2.6 on eight RTX PRO 6000 take 13.4 ms at 16,384 tokens,
    # attention included.
    part = {
        "hardware_id": "rtx-pro-6000-blackwell",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "engine": "vllm",
    }
    setup = load_setup(
        build_scenario(model_id="kimi-k2", acceptance="2.4@3", weight_dtype="int4", **part)
    )
    (mixer,) = setup.costs.modules
    seconds = setup.costs.modules[mixer].time_s(1, [2048, 65536]) * mixer.count
    assert setup.costs.modules[mixer].because.startswith("vllm")
    assert seconds[1] < 2.0 * seconds[0] < 14.2e-3


def test_an_engine_without_a_table_borrows_the_quickest_and_says_so():
    table, _, warning = serving([constant("trtllm", 50.0), constant("vllm", 60.0)], "sglang")
    assert table.engine == "trtllm"
    assert warning.kind == "layers_borrowed"


def test_a_table_serves_models_whose_layer_has_the_same_sizes_alone():
    sixteen = constant("trtllm", 50.0)
    eight = constant("trtllm", 45.0, heads=8)
    assert serving([sixteen, eight], "trtllm")[0].n_heads == 16
    assert (
        serving([sixteen, eight], "trtllm", "kimi-k2")[0].n_heads == 8
    )  # 64 heads, else DeepSeek-V3's
    for model_id in ("deepseek-v2", "deepseek-v3.2", "glm-5", "glm-4.7-flash", "longcat-flash"):
        assert (
            serving(
                [sixteen, eight],
                "trtllm",
                model_id,
                tensor=load_model(model_id).mixers[0].query_heads // 8,
            )
            is None
        )


def test_a_table_serves_its_own_formats_alone():
    assert serving([constant("trtllm", 50.0, kv_dtype="fp8")], "trtllm") is None
    assert serving([constant("trtllm", 50.0, gemm_dtype="nvfp4")], "trtllm") is None
    assert serving([constant("trtllm", 50.0)], "trtllm", tensor=4) is None


def setup_of(model_id="deepseek-v3", engine="trtllm", **changes):
    values = {
        "hardware_id": "b200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "drafter_id": "ngram",
        "acceptance": "2.5@3",
    }
    return load_setup(
        build_scenario(**(values | {"model_id": model_id, "engine": engine, "k_max": 7} | changes))
    )


def test_deepseek_v3_s_plain_attention_is_the_row_that_was_measured():
    """B200, TensorRT-LLM, 16 heads, fp8_block, 16-bit cache, 32 sequences of 8,193 tokens: 121 us
    (1.3.0rc20)."""
    setup = setup_of(context_tokens=8192)
    curve = curve_for(setup, [32], [0])
    assert float(curve.plain_components["attention"][0]) == pytest.approx(61 * 121e-6, rel=0.02)
    assert float(curve.plain_components["attention_projection"][0]) == 0.0
    # The attention's launches are inside; those of the feed-forward half are not.
    assert float(curve.plain_components["launch"][0]) == pytest.approx(
        0.5 * 61 * setup.costs.launch_per_layer_s
    )


def test_layers_that_share_a_cache_grow_by_projections_and_arithmetic():
    setup = setup_of(context_tokens=32768)
    (mixer,) = setup.architecture.mixers
    q = np.array([1.0, 2.0, 4.0, 8.0])

    def load(sequences, tokens, context=32768.0):
        return AttentionLoad(sequences, tokens, context, 2.0, 8)

    times = measured_attention(mixer, setup.costs, load(64.0, q)).time_s / 61
    module = setup.costs.modules[mixer]
    assert times[0] == pytest.approx(module.time_s(64.0, 32769.0))
    assert np.all(np.diff(times) > 0)
    core = attention_core(mixer, setup.costs, load(64.0, q)).time_s / 61
    projections = module.time_s(64.0 * q, module.shortest) - module.time_s(64.0, module.shortest)
    assert times[3] - times[0] == pytest.approx(core[3] - core[0] + projections[3], rel=0.25)


def test_tokens_that_choose_their_own_entries_are_as_sequences_of_their_own():
    setup = setup_of("deepseek-v3.2", "trtllm", context_tokens=8192)
    (mixer,) = setup.architecture.mixers
    four = measured_attention(mixer, setup.costs, AttentionLoad(8.0, 4.0, 8192.0, 2.0, 8)).time_s
    module = setup.costs.modules[mixer]
    assert not module.shares_cache
    assert float(four) == pytest.approx(61 * float(module.time_s(32.0, 8196.0)))
    ranks = component_tier_ranks(setup, np.array([64.0, 1e5]))["attention"]
    assert [list(Tier)[rank] for rank in ranks] == [Tier.INTERPOLATED, Tier.FITTED]
    shared = component_tier_ranks(setup_of(), np.array([64.0]))["attention"]
    assert list(Tier)[shared[0]] is Tier.FITTED  # several tokens over one cache are a law's


def test_a_refit_scales_measured_layers_and_their_band():
    costs = setup_of().costs
    (module,) = costs.modules.values()
    slowed = slower(costs, 1.5, log_sd=0.3)
    (changed,) = slowed.modules.values()
    assert changed.time_s(32.0, 8192.0) == pytest.approx(1.5 * module.time_s(32.0, 8192.0))
    assert costs.attention_log_sd == module.log_sd
    assert slowed.attention_log_sd == 0.3


def test_a_model_without_measured_layers_has_none():
    assert not setup_of("qwen3-235b-a22b").costs.modules
    assert not setup_of("deepseek-v4-flash", kv_dtype="fp8").costs.modules


def latent(kv_dtype, heads, core_us):
    table = constant("vllm", 50.0)
    time = [
        [50.0 + core_us * batch * context for context in table.contexts] for batch in table.batches
    ]
    return table.model_copy(
        update={"kv_dtype": kv_dtype, "n_heads": heads, "time_us": tuple(map(tuple, time))}
    )


def test_a_latent_layer_without_an_fp8_table_saves_what_it_saves_at_other_heads():
    whole = latent("bf16", 1, 2e-3)
    small = latent("fp8", 1, 1.2e-3)
    asked = latent("bf16", 16, 2.5e-3)
    table, _, _ = serving((whole, small, asked), "vllm", kv_dtype="fp8")
    assert (table.kv_dtype, table.n_heads) == ("fp8", 16)
    assert np.allclose(table.time_us, latent("fp8", 16, 1.7e-3).time_us)
    assert table.log_sd > asked.log_sd
    assert serving((whole, asked), "vllm", kv_dtype="fp8") is None
    assert (
        serving((whole, small.model_copy(update={"version": "0.1"}), asked), "vllm", kv_dtype="fp8")
        is None
    )


def test_heads_that_are_not_packed_read_the_cache_each_where_several_tokens_are_verified():
    costs = {
        (chip, engine): setup_of("qwen3-30b-a3b", engine, hardware_id=chip).costs
        for chip, engine in (
            ("a100-80gb-sxm", "vllm"),
            ("a100-80gb-sxm", "sglang"),
            ("h100-sxm", "vllm"),
        )
    }
    assert [each.heads_apart for each in costs.values()] == [True, False, False]
    narrow = setup_of("qwen3-30b-a3b", "vllm", hardware_id="a100-80gb-sxm", kv_dtype="fp8").costs
    assert narrow.heads_apart, "as long as in 16 bits, beyond what its graph costs"
    assert not setup_of("gpt-oss-20b", "vllm", hardware_id="a100-80gb-sxm").costs.heads_apart, (
        "sinks: Triton, which packs"
    )
    apart, model = (
        costs["a100-80gb-sxm", "vllm"],
        load_model("qwen3-30b-a3b"),
    )  # 32 query heads to 4 KV heads
    packed = replace(apart, heads_apart=False)

    def read(costs, tokens, ranks=1):
        (core,) = attention_layers(
            model, costs, AttentionLoad(8.0, np.asarray(tokens), 1000.0, 2.0, ranks)
        )
        return core.read_bytes, core.time_s

    assert read(apart, 1.0) == read(packed, 1.0)
    assert read(apart, 4.0)[0] == pytest.approx(8 * read(packed, 4.0)[0])
    assert read(apart, 4.0, ranks=8)[0] == pytest.approx(4 * read(packed, 4.0, ranks=8)[0])
    assert read(apart, 4.0)[1] > 4 * read(packed, 4.0)[1]


def test_latent_kernels_that_take_rows_apart_price_each_as_a_sequence():
    costs = {
        chip: setup_of(
            "kimi-k2", "vllm", hardware_id=chip, weight_dtype="int4", kv_dtype="fp8"
        ).costs
        for chip in ("h200-sxm", "rtx-pro-6000-blackwell")
    }
    assert [costs[chip].latent_rows_apart for chip in costs] == [False, True]
    apart = costs["rtx-pro-6000-blackwell"]
    model = load_model("kimi-k2")
    assert reread_share(model, replace(apart, reread_share=0.5)) == 0.0
    assert reread_share(load_model("qwen3-30b-a3b"), replace(apart, reread_share=0.5)) == 0.5

    def time(sequences, tokens, context):
        (found,) = attention_layers(
            model, apart, AttentionLoad(sequences, np.asarray(tokens), context, 1.0, 8)
        )
        return found.time_s

    assert time(8.0, 4.0, 32768.0) == pytest.approx(time(32.0, 1.0, 32771.0))
    assert time(8.0, 4.0, 32768.0) > 2.0 * time(8.0, 1.0, 32768.0)
