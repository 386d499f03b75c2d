"""Attention layers measured as a whole: cleaned, thinned, served to models with the same layer, carried to q tokens."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.adjustment import slower
from advisor.catalog.fit_records import MODULES, ModuleTable, load_modules, write_modules
from advisor.catalog.measured_shapes import CHECKPOINTS, MAX_GAP, served, serving_module
from advisor.catalog.models import load_model
from advisor.measured.fits.attention import filled, module_table, rising, without_spikes
from advisor.physics.attention import AttentionLoad, attention_core, measured_attention
from advisor.predict.curve import component_tier_ranks, curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import by_form
from advisor.prediction import Tier

NAN = float("nan")
IDENTITY = {
    "op": "mla_generation_module",
    "engine": "trtllm",
    "version": "1.0",
    "model": "deepseek-ai/DeepSeek-V3",
    "kv_dtype": "bf16",
    "gemm_dtype": "fp8_block",
}
SHIPPED = {path.stem: load_modules(path.stem) for path in sorted(MODULES.glob("*.json"))}


def measured(batch, context):
    """A layer of 40 us whose cache takes over: 1152 bytes a token at 4 TB/s."""
    return 40e-6 + np.asarray(batch, float) * np.asarray(context, float) * 1152 / 4e12


def layer_frame(time=measured):
    batches, contexts = 2 ** np.arange(11), 2 ** np.arange(1, 18) + 1
    rows = pd.DataFrame([(b, c) for b in batches for c in contexts], columns=["batch_size", "context_tokens"])
    return rows.assign(latency_s=time(rows["batch_size"], rows["context_tokens"]))


def test_a_thinned_table_gives_back_what_was_measured_between_its_contexts():
    table = module_table(layer_frame(), IDENTITY, 16)
    module = served(table, True, table.log_sd, "", False)
    batch, context = np.array([1.0, 3.0, 48.0, 700.0]), 12_000.0
    assert module.time_s(batch, context) == pytest.approx(measured(batch, context), rel=0.06)
    assert table.log_sd < 0.04
    assert table.measured_to == (1024,) * len(table.contexts)


def test_a_noisy_table_has_a_wider_band():
    rng = np.random.default_rng(1)
    noisy = layer_frame(lambda b, c: measured(b, c) * np.exp(0.2 * rng.standard_normal(len(b))))
    assert module_table(noisy, IDENTITY, 16).log_sd > 0.1


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
    """5 us more at a long context, and 1 ns for each cached token: of two batches at 2,000 and four at 9,000 tokens."""
    batches, contexts = np.array([1.0, 2.0, 4.0, 8.0, 64.0, 256.0, 512.0, 1024.0]), np.array([1000.0, 2000.0, 9000.0])
    true = 50.0 + 5.0 * (contexts > 1000) + 1e-3 * batches[:, None] * contexts
    holes = true.copy()
    holes[2:, 1], holes[4:, 2] = NAN, NAN
    holes[:2, 1] += [0.3, -0.3]  # noise of small batches must not be carried to large ones
    holes[4:, 2] = NAN
    assert filled(holes, batches, contexts)[-1] == pytest.approx(true[-1], rel=0.01)


def test_a_table_is_carried_beyond_its_last_batch_no_faster_than_in_proportion():
    table = module_table(layer_frame(), IDENTITY, 16)
    module = served(table, True, table.log_sd, "", False)
    last, beyond = module.time_s([1024.0, 2048.0], 131072.0)
    assert beyond == pytest.approx(2.0 * last, rel=0.01)
    assert module.time_s(0.125, 128.0) == module.time_s(1.0, 128.0)


@pytest.mark.parametrize("device", SHIPPED)
def test_shipped_layers_rise_in_batch_and_context_and_are_finite(device):
    assert SHIPPED[device]
    assert len({table.id for table in SHIPPED[device]}) == len(SHIPPED[device])
    for table in SHIPPED[device]:
        times = np.array(table.time_us)
        assert times.shape == (len(table.batches), len(table.contexts))
        assert np.all(np.isfinite(times))
        assert np.all(np.diff(times, axis=0) >= -1e-2 * times[:-1]), table.id  # three digits are kept
        assert np.all(np.diff(times, axis=1) >= -1e-2 * times[:, :-1]), table.id
        assert 0.0 < table.log_sd < 0.5
        assert table.model in CHECKPOINTS


def test_shipped_layers_take_little_room():
    assert sum(path.stat().st_size for path in MODULES.glob("*.json")) < 5e6


def test_tables_survive_a_round_trip(tmp_path):
    table = module_table(layer_frame(), IDENTITY, 16)
    write_modules("x", [table], tmp_path)
    (back,) = load_modules("x", tmp_path)
    assert back.id == table.id
    assert np.array(back.time_us) == pytest.approx(np.array(table.time_us), rel=6e-3)


def constant(engine, alone_us, heads=16, **changes):
    batches, contexts = (1, 1024), (128, 32768)
    times = ((alone_us, 2.0 * alone_us), (10.0 * alone_us, 20.0 * alone_us))
    grid = {"batches": batches, "contexts": contexts, "time_us": times, "measured_to": (1024, 1024)}
    values = IDENTITY | {"engine": engine, "n_heads": heads, "n_rows": 4, "log_sd": 0.05} | grid | changes
    return ModuleTable(**values)


def serving(tables, engine, model_id="deepseek-v3", tensor=8, kv_dtype="bf16"):
    model = load_model(model_id)
    mixer = next(each for each in model.mixers if each.kind in ("mla", "sparse"))
    return serving_module(tables, model, mixer, tensor, engine, kv_dtype)


def test_an_engine_s_own_table_serves_unless_another_s_shows_its_launch_gaps():
    close, gaps = constant("vllm", 50.0 * MAX_GAP - 1), constant("vllm", 50.0 * MAX_GAP + 1)
    table, module, warning = serving([constant("trtllm", 50.0), close], "vllm")
    assert (table.engine, module.stands_in, warning) == ("vllm", False, "")
    table, module, warning = serving([constant("trtllm", 50.0), gaps], "vllm")
    assert (table.engine, module.stands_in) == ("trtllm", True)
    assert "launch gaps" in warning
    assert module.log_sd > 0.1


def test_an_engine_without_a_table_borrows_the_quickest_and_says_so():
    table, _, warning = serving([constant("trtllm", 50.0), constant("vllm", 60.0)], "sglang")
    assert table.engine == "trtllm"
    assert "not measured for sglang" in warning


def test_a_table_serves_models_whose_layer_has_the_same_sizes_alone():
    sixteen, eight = constant("trtllm", 50.0), constant("trtllm", 45.0, heads=8)
    assert serving([sixteen, eight], "trtllm")[0].n_heads == 16
    assert serving([sixteen, eight], "trtllm", "kimi-k2")[0].n_heads == 8  # 64 heads, else DeepSeek-V3's
    for model_id in ("deepseek-v2", "deepseek-v3.2", "glm-5", "glm-4.7-flash", "longcat-flash"):
        assert (
            serving([sixteen, eight], "trtllm", model_id, tensor=load_model(model_id).mixers[0].query_heads // 8)
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
    return load_setup(build_scenario(**(values | {"model_id": model_id, "engine": engine, "k_max": 7} | changes)))


def test_deepseek_v3_s_plain_attention_is_the_row_that_was_measured():
    """B200, TensorRT-LLM, 16 heads, fp8_block, 16-bit cache, 32 sequences of 8,193 tokens: 121 us (1.3.0rc20)."""
    setup = setup_of(context_tokens=8192)
    curve = curve_for(setup, [32], [0])
    assert float(curve.plain_components["attention"][0]) == pytest.approx(61 * 121e-6, rel=0.02)
    assert float(curve.plain_components["attention_projection"][0]) == 0.0
    # The attention's launches are inside; those of the feed-forward half are not.
    assert float(curve.plain_components["launch"][0]) == pytest.approx(0.5 * 61 * setup.costs.launch_per_layer_s)


def test_designs_are_compared_by_forms_alone():
    plain = by_form(setup_of())
    assert not plain.costs.modules
    assert float(curve_for(plain, [32], [0]).plain_components["attention_projection"][0]) > 0.0


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


def test_what_was_measured_is_told_from_what_is_carried_on():
    setup = setup_of("deepseek-v3.2", "trtllm", context_tokens=8192)
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
