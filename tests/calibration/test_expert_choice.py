"""Which kernel of experts serves: what measured the shape, then the quickest; what says little is passed over."""

from __future__ import annotations

import pytest

from advisor.catalog.fit_records import (
    MAX_FACTOR,
    FitParameter,
    FitRecord,
    MeasuredTable,
    ShapeRows,
    load_measured,
    load_records,
)
from advisor.catalog.kernel_choice import (
    CLEARLY_QUICKER,
    COMPARED_TOKENS,
    SUBSTITUTED_KERNELS,
    choose_experts,
    layer_seconds,
    measured_rows,
    version_key,
)
from advisor.physics.hardware import load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import Setup, by_form

HARDWARE = load_hardware("h200-sxm")
SHAPE = (2048.0, 768.0, 8.0, 128.0, 3.0, 1.0)
OTHER = (4096.0, 1536.0, 8.0, 128.0, 3.0, 1.0)


def record(kernel: str, engine: str = "vllm", version: str = "1.0", *, slower: float = 1.0, **changed) -> FitRecord:
    values = {
        "t0_s": (20e-6 * slower, "s"),
        "weight_s_per_byte": (slower / 4e12, "s/B"),
        "per_expert_s": (0.0, "s"),
        "s_per_flop": (0.0, "s/FLOP"),
        "activation_s_per_byte": (0.0, "s/B"),
        "per_resident_expert_s": (0.0, "s"),
    }
    fields = {"dtype": "bf16", "n_shapes": 8, "n_widths": 8, "loso_median": 0.05, **changed}
    return FitRecord(
        id=f"moe/h200-sxm/{engine}/{version}/{fields['dtype']}/{kernel}",
        op="moe",
        hardware_id="h200-sxm",
        engine=engine,
        version=version,
        kernel_source=kernel,
        form="f",
        parameters={name: FitParameter(value=value, unit=unit) for name, (value, unit) in values.items()},
        n_rows=100,
        data_sha256="0",
        log_sd=0.1,
        success=True,
        message="",
        **fields,
    )


def rows(of: FitRecord, factor: float = 1.0, shape=SHAPE) -> MeasuredTable:
    known = ShapeRows(shape=shape, factor=(factor, factor, factor))
    return MeasuredTable(
        fit_id=of.id, tokens=(1, 64, 1024), loads=("balanced",), n_rows=3, shapes=(known,), log_sd=0.05
    )


def chosen(records, measured=(), engine="vllm", dtype="bf16", shape=SHAPE, gated=True):
    return choose_experts(tuple(records), engine, dtype, HARDWARE, gated, shape, tuple(measured))


def test_the_kernel_that_measured_this_shape_comes_before_the_lower_error():
    precise, knows = record("a", loso_median=0.01), record("b", loso_median=0.09)
    assert chosen([precise, knows]).record == precise
    choice = chosen([precise, knows], [rows(knows)])
    assert choice.record == knows
    assert choice.reason == "measured this shape"
    assert chosen([precise, knows], [rows(knows, shape=OTHER)]).record == precise


def test_of_several_that_measured_this_shape_the_quickest_serves_and_says_so():
    found = [record(name) for name in "abc"]
    choice = chosen(found, [rows(found[0], 1.2), rows(found[1], 0.8), rows(found[2], 1.0)])
    assert choice.record == found[1]
    assert choice.reason == "quickest of 3 kernels that measured this shape"


def test_without_a_shape_what_was_measured_of_shapes_decides_nothing():
    precise, knows = record("a", loso_median=0.01), record("b", loso_median=0.09)
    assert chosen([precise, knows], [rows(knows)], shape=None).record == precise


def test_the_newest_version_comes_before_one_that_measured_the_shape():
    old, new = record("a", version="1.2"), record("a", version="1.10")
    assert chosen([old, new], [rows(old)]).record == new


def test_rows_far_from_the_form_do_not_count_as_measured():
    slow, good = record("a", loso_median=0.01), record("b", loso_median=0.09)
    tables = [rows(good, 1.01 * MAX_FACTOR)]
    assert measured_rows(tuple(tables), SHAPE) == {}
    assert chosen([slow, good], tables).record == slow


def test_ranks_that_share_the_experts_do_not_change_which_kernel_they_run():
    precise, knows = record("a", loso_median=0.01), record("b", loso_median=0.09)
    assert chosen([precise, knows], [rows(knows)], shape=(*SHAPE[:5], 4.0)).record == knows


def test_the_engine_comes_before_another_that_measured_the_shape_unless_the_kernel_is_shared():
    own, other = record("triton"), record("cutlass", "sglang")
    assert chosen([own, other], [rows(other, 0.5)]).record == own
    shared = record("flashinfer_trtllm_moe", "sglang")
    choice = chosen([own, shared], [rows(shared, 0.5)])
    assert choice.record == shared
    assert choice.borrowed == "sglang 1.0"
    assert "library that engines share, 2.0 times as quick as that of vllm 1.0" in choice.reason


def test_a_shared_kernel_serves_only_where_it_is_clearly_quicker_and_of_the_format():
    own = record("triton")
    shared = record("flashinfer_trtllm_moe", "sglang")
    assert chosen([own, shared], [rows(shared, 1.0 / (CLEARLY_QUICKER - 0.01))]).record == own
    assert chosen([own, shared], [rows(shared, 1.0 / (CLEARLY_QUICKER + 0.01))]).record == shared
    block = record("flashinfer_trtllm_moe", "sglang", dtype="fp8_block")
    per_tensor = record("triton", dtype="fp8")
    assert chosen([per_tensor, block], [rows(block, 0.3)], dtype="fp8").record == per_tensor


def test_an_old_or_unmeasured_shared_kernel_does_not_serve():
    own, shared = record("triton"), record("trtllm_moe", "sglang", slower=0.3)
    assert chosen([own, shared], []).record == own
    newer = record("cutlass", "sglang", version="2.0")
    assert chosen([own, shared, newer], [rows(shared)]).record == own


def test_a_fit_on_one_other_width_gives_way_to_a_shared_kernel_that_measured_this_shape():
    own, shared = record("one_width", "trtllm", n_widths=1), record("flashinfer_trtllm_moe")
    choice = chosen([own, shared], [rows(shared)], engine="trtllm")  # no quicker, but known
    assert choice.record == shared
    assert choice.borrowed == "vllm 1.0"
    assert "one other width alone" in choice.reason
    assert chosen([own, shared], [rows(shared), rows(own)], engine="trtllm").record == own


def test_a_fit_on_one_width_serves_before_another_engine_s_kernel_and_says_what_it_is():
    own, other = record("one_width", "trtllm", n_widths=1), record("triton")
    choice = chosen([own, other], [rows(other)], engine="trtllm")
    assert choice.record == own
    assert "one width of a shard" in choice.reason
    wide = record("several_widths", "trtllm", version="0.9")
    assert chosen([own, wide], engine="trtllm").record == wide


def test_what_is_passed_over_does_not_make_older_tables_of_its_engine_old():
    old, newest = record("a", "trtllm", "1.0"), record("a", "trtllm", "2.0", n_widths=1)
    assert chosen([old, newest, record("b")], engine="trtllm").record == old


def test_a_slow_kernel_serves_only_the_shapes_that_it_measured():
    slow, other = record("slow", slower=5.0), record("triton", "sglang")
    choice = chosen([slow, other])
    assert choice.record == other
    assert "under half of what this accelerator streams" in choice.reason
    assert chosen([slow, other], [rows(slow)]).record == slow


def test_the_format_itself_comes_before_its_stand_in_that_measured_the_shape():
    own, stand_in = record("a", dtype="fp8_block"), record("b", dtype="fp8")
    choice = chosen([own, stand_in], [rows(stand_in, 0.5)], dtype="fp8_block")
    assert choice.record == own
    assert chosen([stand_in], dtype="fp8_block").borrowed == "fp8 kernels"


def test_layer_times_follow_the_measured_rows_in_place_of_the_fit():
    one = record("a", curve=((1.0, 2.0), (512.0, 2.0)))
    by_fit = layer_seconds(one, SHAPE, (), COMPARED_TOKENS)
    by_rows = layer_seconds(one, SHAPE, ((1.0, 1.0), (1024.0, 1.0)), COMPARED_TOKENS)
    assert by_fit == pytest.approx(2.0 * by_rows)


def setup_of(model_id: str, hardware_id: str, engine: str, tp: int, **given) -> Setup:
    placement = {"n_gpus": tp, "tensor_parallel": tp}
    return load_setup(
        build_scenario(
            model_id=model_id, hardware_id=hardware_id, engine=engine, acceptance="1.5@1", **placement, **given
        )
    )


def test_deepseek_on_b200_takes_the_kernel_that_measured_it_under_sglang():
    setup = setup_of("deepseek-v3", "b200-sxm", "sglang", 8)
    assert "flashinfer_trtllm" in setup.costs.routed.fit_id
    assert "measured this shape" in setup.costs.routed.because
    assert not setup.costs.routed.stands_in


def test_deepseek_on_b200_under_tensorrt_llm_borrows_the_shared_kernel_and_says_so():
    setup = setup_of("deepseek-v3", "b200-sxm", "trtllm", 8)
    assert "/sglang/" in setup.costs.routed.fit_id
    assert setup.costs.routed.stands_in
    assert any("library that engines share" in warning for warning in setup.warnings)


def test_gpt_oss_in_shards_on_blackwell_borrows_as_only_whole_experts_were_measured_there():
    setup = setup_of("gpt-oss-120b", "b200-sxm", "trtllm", 2)
    assert "trtllm" in setup.costs.routed.fit_id.split("/")[-1]
    assert setup.costs.routed.stands_in
    hopper = setup_of("gpt-oss-120b", "h200-sxm", "trtllm", 2)  # no shared kernel there
    assert "/trtllm/" in hopper.costs.routed.fit_id
    assert "one width of a shard" in hopper.costs.routed.because


def test_designs_are_compared_by_kernels_chosen_without_looking_at_shapes():
    setup = setup_of("deepseek-v3", "b200-sxm", "trtllm", 8)
    form = by_form(setup).costs.routed
    assert form.measured is None
    assert form.fit_id != setup.costs.routed.fit_id
    assert "/trtllm/" in form.fit_id


@pytest.mark.parametrize("device", ["h200_sxm", "b200_sxm", "b300_sxm"])
def test_every_kernel_that_may_serve_a_shape_ships_its_measured_rows(device):
    shipped = {table.fit_id for table in load_measured(device)}
    newest: dict[tuple[str, str], list[FitRecord]] = {}
    for one in load_records(device):
        if one.op == "moe" and one.success and SUBSTITUTED_KERNELS not in one.kernel_source:
            newest.setdefault((one.engine, one.dtype), []).append(one)
    for group in newest.values():
        version = max((one.version for one in group), key=version_key)
        assert {one.id for one in group if one.version == version} <= shipped
