"""Which kernel of experts serves: what measured the shape, then the quickest; what says little is
passed over.

A GEMM table is fitted as the kernels that serving runs: without the launches that only its
collector pays.

Launches that no kernel table holds: which record serves a version, and what the shipped ones are
made of.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.engines import load_engine
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
    ENDINGS,
    SUBSTITUTED_KERNELS,
    SmallLaunch,
    choose,
    choose_experts,
    layer_seconds,
    load_small_launches,
    measured_rows,
    version_key,
)
from advisor.catalog.kernel_costs import kernel_costs
from advisor.physics.architecture import WeightDtypes
from advisor.physics.hardware import load_hardware
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import Setup, by_form
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import note_texts
from studies.fits.dense import gemm_record, launch_bounds
from studies.fits.gemm_variants import (
    LEAST_SHARE_LEFT,
    gemm_variants,
    scale_seconds,
    without_excess,
    without_scale_launch,
)
from studies.overheads import is_before, launch_of
from tests.golden.sentences import lines_with

HARDWARE = load_hardware("h200-sxm")
SHAPE = (2048.0, 768.0, 8.0, 128.0, 3.0, 1.0)
OTHER = (4096.0, 1536.0, 8.0, 128.0, 3.0, 1.0)


def record(
    kernel: str, engine: str = "vllm", version: str = "1.0", *, slower: float = 1.0, **changed
) -> FitRecord:
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
        parameters={
            name: FitParameter(value=value, unit=unit) for name, (value, unit) in values.items()
        },
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
        fit_id=of.id,
        tokens=(1, 64, 1024),
        loads=("balanced",),
        n_rows=3,
        shapes=(known,),
        log_sd=0.05,
    )


def chosen(records, measured=(), engine="vllm", dtype="bf16", shape=SHAPE, gated=True):
    return choose_experts(tuple(records), engine, dtype, HARDWARE, gated, shape, tuple(measured))


def test_the_kernel_that_measured_this_shape_comes_first_also_on_ranks_that_share(golden):
    precise = record("a", loso_median=0.01)
    knows = record("b", loso_median=0.09)
    assert chosen([precise, knows]).record == precise
    choice = chosen([precise, knows], [rows(knows)])
    assert choice.record == knows
    golden(measured_this=choice.reason)
    assert chosen([precise, knows], [rows(knows, shape=OTHER)]).record == precise
    assert chosen([precise, knows], [rows(knows)], shape=None).record == precise
    assert chosen([precise, knows], [rows(knows)], shape=(*SHAPE[:5], 4.0)).record == knows


def test_of_several_that_measured_this_shape_the_quickest_serves_and_says_so(golden):
    found = [record(name) for name in "abc"]
    choice = chosen(found, [rows(found[0], 1.2), rows(found[1], 0.8), rows(found[2], 1.0)])
    assert choice.record == found[1]
    golden(quickest_kernels=choice.reason)


def test_the_newest_version_comes_before_one_that_measured_the_shape():
    old = record("a", version="1.2")
    new = record("a", version="1.10")
    assert chosen([old, new], [rows(old)]).record == new


def test_rows_far_from_the_form_do_not_count_as_measured():
    slow = record("a", loso_median=0.01)
    good = record("b", loso_median=0.09)
    tables = [rows(good, 1.01 * MAX_FACTOR)]
    assert measured_rows(tuple(tables), SHAPE) == {}
    assert chosen([slow, good], tables).record == slow


def test_the_engine_comes_before_another_that_measured_the_shape_unless_the_kernel_is_shared(
    golden,
):
    own = record("triton")
    other = record("cutlass", "sglang")
    assert chosen([own, other], [rows(other, 0.5)]).record == own
    shared = record("flashinfer_trtllm_moe", "sglang")
    choice = chosen([own, shared], [rows(shared, 0.5)])
    assert choice.record == shared
    assert choice.borrowed == "sglang 1.0"
    golden(kernel_that=lines_with(choice.reason, "a kernel"))


def test_a_shared_kernel_serves_only_where_it_is_clearly_quicker_and_of_the_format():
    own = record("triton")
    shared = record("flashinfer_trtllm_moe", "sglang")
    assert chosen([own, shared], [rows(shared, 1.0 / (CLEARLY_QUICKER - 0.01))]).record == own
    assert chosen([own, shared], [rows(shared, 1.0 / (CLEARLY_QUICKER + 0.01))]).record == shared
    block = record("flashinfer_trtllm_moe", "sglang", dtype="fp8_block")
    per_tensor = record("triton", dtype="fp8")
    assert chosen([per_tensor, block], [rows(block, 0.3)], dtype="fp8").record == per_tensor


def test_an_old_or_unmeasured_shared_kernel_does_not_serve():
    own = record("triton")
    shared = record("trtllm_moe", "sglang", slower=0.3)
    assert chosen([own, shared], []).record == own
    newer = record("cutlass", "sglang", version="2.0")
    assert chosen([own, shared, newer], [rows(shared)]).record == own


def test_a_fit_on_one_other_width_gives_way_to_a_shared_kernel_that_measured_this_shape(golden):
    own = record("one_width", "trtllm", n_widths=1)
    shared = record("flashinfer_trtllm_moe")
    choice = chosen([own, shared], [rows(shared)], engine="trtllm")  # no quicker, but known
    assert choice.record == shared
    assert choice.borrowed == "vllm 1.0"
    golden(one_other=lines_with(choice.reason, "one other"))
    assert chosen([own, shared], [rows(shared), rows(own)], engine="trtllm").record == own


def test_a_fit_on_one_width_serves_before_another_engine_s_kernel_and_says_what_it_is(golden):
    own = record("one_width", "trtllm", n_widths=1)
    other = record("triton")
    choice = chosen([own, other], [rows(other)], engine="trtllm")
    assert choice.record == own
    golden(one_width=lines_with(choice.reason, "one width"))
    wide = record("several_widths", "trtllm", version="0.9")
    assert chosen([own, wide], engine="trtllm").record == wide


def test_what_is_passed_over_does_not_make_older_tables_of_its_engine_old():
    old = record("a", "trtllm", "1.0")
    newest = record("a", "trtllm", "2.0", n_widths=1)
    assert chosen([old, newest, record("b")], engine="trtllm").record == old


def test_a_slow_kernel_serves_only_the_shapes_that_it_measured(golden):
    slow = record("slow", slower=2.5)
    other = record("triton", "sglang")
    choice = chosen([slow, other])
    assert choice.record == other
    golden(under_half=lines_with(choice.reason, "under half"))
    assert chosen([slow, other], [rows(slow)]).record == slow


def test_a_kernel_beyond_three_times_what_the_profile_allows_serves_where_no_other_was_measured(
    golden,
):
    far = record("far", slower=6.0)
    other = record("triton", "sglang")
    choice = chosen([far, other], [rows(far)])
    assert choice.record == other
    golden(takes_over=lines_with(choice.reason, "takes over"))
    assert chosen([far], [rows(far)]).record == far
    assert chosen([far]) is None, "nothing measured this shape: the profile's roofline serves"
    assert chosen([far], shape=None).record == far


def test_qwen35_in_fp8_takes_as_long_as_in_blocks_of_fp8_on_eight_h100():
    steps_s = {}
    for stored in ("fp8", "fp8_block", "bf16"):
        place = setup_of("qwen3.5-397b-a17b", "h100-sxm", "vllm", 8, weight_dtype=stored)
        steps_s[stored] = float(curve_for(place, [96], [0]).plain_step_s[0])
    assert steps_s["fp8_block"] == pytest.approx(24.6e-3, rel=0.03), "measured"
    assert steps_s["fp8"] == pytest.approx(steps_s["fp8_block"], rel=0.1)
    assert steps_s["bf16"] > 1.2 * steps_s["fp8"]


def test_a_slow_table_of_a_format_that_its_engine_runs_otherwise_serves_no_shape():
    named = {"engine": "sglang", "dtype": "w4a16_mxfp4"}
    slow = record("triton", slower=5.0, **named)
    quick = record("triton", **named)
    other = record("oai", "vllm", dtype="w4a16_mxfp4")
    asked = {"engine": "sglang", "dtype": "mxfp4"}
    assert chosen([slow, other], [rows(slow)], **asked).record == other
    assert chosen([quick, other], [rows(quick)], **asked).record == quick


def test_the_format_itself_comes_before_its_stand_in_that_measured_the_shape():
    own = record("a", dtype="fp8_block")
    stand_in = record("b", dtype="fp8")
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
            model_id=model_id,
            hardware_id=hardware_id,
            engine=engine,
            acceptance="1.5@1",
            **placement,
            **given,
        )
    )


def test_deepseek_on_b200_under_tensorrt_llm_borrows_the_shared_kernel_but_not(golden):
    setup = setup_of("deepseek-v3", "b200-sxm", "trtllm", 8)
    assert "/sglang/" in setup.costs.routed.fit_id
    assert setup.costs.routed.stands_in
    golden(kernel_that=lines_with(note_texts(setup.notes), "a kernel"))
    form = by_form(setup).costs.routed
    assert form.measured is None
    assert form.fit_id != setup.costs.routed.fit_id
    assert "/trtllm/" in form.fit_id


def test_gpt_oss_in_shards_on_blackwell_borrows_as_only_whole_experts_were_measured_there(golden):
    setup = setup_of("gpt-oss-120b", "b200-sxm", "trtllm", 2)
    assert "trtllm" in setup.costs.routed.fit_id.split("/")[-1]
    assert setup.costs.routed.stands_in
    hopper = setup_of("gpt-oss-120b", "h200-sxm", "trtllm", 2)  # no shared kernel there
    assert "/trtllm/" in hopper.costs.routed.fit_id
    golden(one_width=lines_with(hopper.costs.routed.because, "one width"))


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


IDENTITY = {
    "hardware_id": "h200-sxm",
    "engine": "trtllm",
    "version": "1.0",
    "dtype": "fp8",
    "kernel_source": "test",
}
LAUNCH_S = 8e-6
T0_S = 6e-6
DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300")


def products() -> pd.DataFrame:
    rows = itertools.product(
        2 ** np.arange(11), (2048, 4096, 8192, 16384), (2048, 4096, 8192, 16384)
    )
    frame = pd.DataFrame(rows, columns=["m", "n", "k"])
    weights = frame["n"] * frame["k"] / 4e12
    arithmetic = 2.0 * frame["m"] * frame["n"] * frame["k"] / 8e14
    return frame.assign(latency_s=T0_S + np.hypot(weights, arithmetic))


def launches(seconds: float = LAUNCH_S) -> pd.DataFrame:
    frame = pd.DataFrame(
        itertools.product((1, 32, 1024, 4096), (512, 4096, 16384)), columns=["m", "k"]
    )
    return frame.assign(latency_s=seconds * (1.0 + frame["m"] * frame["k"] / 1e7))


def timed_with_launch() -> pd.DataFrame:
    frame = products()
    return frame.assign(
        latency_s=frame["latency_s"] + scale_seconds(launches(), frame["m"], frame["k"])
    )


def test_subtracting_the_scale_launch_gives_back_the_product_and_its_fixed_cost(golden):
    variant = without_scale_launch(timed_with_launch(), launches())
    assert variant.frame["latency_s"].to_numpy() == pytest.approx(
        products()["latency_s"].to_numpy()
    )
    assert variant.n_at_floor == 0
    record = gemm_record(variant.frame, IDENTITY, note=variant.note)
    assert record.value("t0_s") == pytest.approx(T0_S, rel=0.05)
    golden(less_measured=lines_with(record.message, "less the"))
    assert gemm_record(timed_with_launch(), IDENTITY).value("t0_s") > 2 * T0_S


def test_a_product_keeps_a_quarter_of_its_time_whatever_the_launch_table_says():
    variant = without_scale_launch(products(), launches(1.0))
    left = (variant.frame["latency_s"] / products()["latency_s"]).to_numpy()
    assert left == pytest.approx(LEAST_SHARE_LEFT)
    assert variant.n_at_floor == len(products())


def test_launch_times_pass_through_the_table_straight_in_logarithms_flat_beyond():
    table = launches()
    at = scale_seconds(table, table["m"].to_numpy(float), table["k"].to_numpy(float))
    assert at == pytest.approx(table["latency_s"].to_numpy())
    ends = scale_seconds(table, np.array([32.0, 32.0]), np.array([512.0, 4096.0]))
    middle = scale_seconds(table, np.array([32.0]), np.array([np.sqrt(512.0 * 4096.0)]))
    assert middle[0] == pytest.approx(np.sqrt(ends[0] * ends[1]))
    beyond = scale_seconds(table, np.array([1e5]), np.array([1e6]))
    assert beyond[0] == pytest.approx(table["latency_s"].max())
    hole = table[~((table["m"] == 32) & (table["k"] == 4096))]
    filled = scale_seconds(hole, np.array([32.0]), np.array([4096.0]))[0]
    assert LAUNCH_S < filled < 1.5 * LAUNCH_S
    with pytest.raises(AdvisorError, match="lacks latency_s"):
        without_scale_launch(products(), launches().drop(columns="latency_s"))


def test_half_of_the_excess_over_another_engine_goes_and_what_is_quicker_stays(golden):
    own = products()
    other = products()
    own.loc[own["k"] == 16384, "latency_s"] *= 2.0
    own.loc[own["k"] == 2048, "latency_s"] *= 0.5
    half = without_excess(own, other, 0.5, "")
    whole = without_excess(own, other, 1.0, "+fused")
    ratio = half.frame["latency_s"] / products()["latency_s"]
    assert ratio[own["k"] == 16384].to_numpy() == pytest.approx(1.5)
    assert ratio[own["k"] == 2048].to_numpy() == pytest.approx(0.5)
    assert whole.frame["latency_s"].to_numpy() == pytest.approx(
        np.minimum(own["latency_s"], other["latency_s"]).to_numpy()
    )
    assert 0.0 < half.assumed_log_sd < whole.assumed_log_sd
    golden(no_table=lines_with(half.note, "no table"))


def test_rows_without_a_counterpart_stay_as_they_are():
    own = products()
    other = products().query("k < 16384").assign(latency_s=1e-7)
    left = without_excess(own, other, 1.0, "").frame
    deep = (own["k"] == 16384).to_numpy()
    assert left["latency_s"].to_numpy()[deep] == pytest.approx(own["latency_s"].to_numpy()[deep])
    assert (left["latency_s"].to_numpy()[~deep] < own["latency_s"].to_numpy()[~deep]).all()


@pytest.mark.parametrize(
    ("engine", "dtype", "endings"),
    [
        ("trtllm", "fp8", ["", "+dynamic"]),
        ("trtllm", "nvfp4", ["", "+fused", "+dynamic"]),
        ("trtllm", "bf16", [""]),
        ("vllm", "fp8", [""]),
        ("sglang", "nvfp4", [""]),
    ],
)
def test_only_the_tables_that_time_such_launches_are_split(engine, dtype, endings):
    made = list(gemm_variants(products(), engine, dtype, launches(), products()))
    assert [variant.ending for variant in made] == endings


@pytest.mark.parametrize("device", DEVICES)
def test_the_shipped_static_kernel_is_the_timed_one_less_about_one_launch(device):
    records = load_records(device)
    static = choose(records, "gemm", "trtllm", "fp8", scales="static").record
    dynamic = choose(records, "gemm", "trtllm", "fp8", scales="dynamic").record
    assert static.kernel_source + "+dynamic" == dynamic.kernel_source
    assert 5e-6 < static.value("t0_s") < 7e-6  # other engines' fp8 kernels: 7 us
    assert (
        7e-6 < dynamic.value("t0_s") - static.value("t0_s") < 10e-6
    )  # computescale: 7-8.5 us at few rows


def test_attention_is_priced_by_the_kernel_that_measured_most_head_layouts():
    for device, engine, kernel in (
        ("b200_sxm", "trtllm", "torch_flow"),
        ("l40s", "vllm", "vllm_flashinfer_fidecode"),
    ):
        served = choose(
            load_records(device), "attention", engine, "bf16", kernel_ending="+kv-fp8"
        ).record
        assert served.kernel_source == f"{kernel}+kv-fp8"


@pytest.mark.parametrize("device", ["b200_sxm", "b300_sxm", "gb200", "gb300"])
def test_the_nvfp4_share_lies_between_none_and_all_of_the_excess_in_time_and_widens_the_band(
    device,
    golden,
):
    found = [
        choose(load_records(device), "gemm", "trtllm", "nvfp4", scales=s).record for s in ENDINGS
    ]
    half, timed, whole = found
    assert whole.value("t0_s") < half.value("t0_s") < timed.value("t0_s")
    assert half.log_sd > half.loso_median  # the assumption's spread is in it
    golden(no_table=lines_with(half.message, "no table"))


def test_a_table_of_one_kernel_serves_whatever_scales_are_asked_for():
    records = load_records("h200_sxm")
    assert (
        len({choose(records, "gemm", "vllm", "fp8", scales=scales).record.id for scales in ENDINGS})
        == 1
    )


def test_costs_take_static_scales_unless_the_checkpoint_says_dynamic():
    hardware = load_hardware("h200-sxm")
    dtypes = WeightDtypes(attention="fp8", dense="fp8")
    static = kernel_costs(hardware, "trtllm", dtypes).dense
    dynamic = kernel_costs(hardware, "trtllm", dtypes, scales="dynamic").dense
    assert dynamic.t0_s - static.t0_s > 7e-6


def test_where_a_cache_hides_the_small_matrices_they_still_bound_the_launch():
    small = pd.DataFrame({"m": [1, 8, 1, 8], "n": [1024] * 4, "k": [1024, 1024, 2048, 2048]})
    frame = pd.concat([products(), small.assign(latency_s=5e-6)], ignore_index=True)
    low, high = launch_bounds(frame)
    assert 5e-6 <= low <= high <= 8e-6
    huge = frame.assign(latency_s=frame["latency_s"] + 20e-6 * (frame["n"] * frame["k"] > 5e7))
    free = gemm_record(huge, IDENTITY)
    bound = gemm_record(huge, IDENTITY, cache_bytes=20e6)
    assert bound.value("t0_s") <= high * 1.0001
    assert free.n_rows > bound.n_rows


@pytest.mark.parametrize("device", ["l40s", "rtx_pro_6000_server"])
def test_no_launch_of_a_part_with_a_large_cache_is_charged_as_host_time(device):
    served = [
        r
        for r in load_records(device)
        if r.op == "gemm" and r.success and "dynamic" not in r.kernel_source
    ]
    assert {"bf16", "fp8"} <= {r.dtype for r in served}
    assert all(r.value("t0_s") < 11e-6 for r in served)


def test_without_the_release_s_day_a_nightly_build_counts_as_today_s() -> None:
    assert not is_before("nightly-20200101", "0.18")


def record_small_launches(value_s: float, before: str | None = None) -> SmallLaunch:
    return SmallLaunch(
        engine="vllm",
        before_version=before,
        before_date="2026-03-20" if before else None,
        name="query_key_norm_s",
        value_s=value_s,
        low_s=0.0,
        high_s=1.0,
        n_points=9,
        models=("a",),
        source="by hand",
    )


@pytest.mark.parametrize(
    ("version", "value_s"),
    [
        ("", 3e-6),
        ("0.19.0", 3e-6),
        ("nightly", 3e-6),
        ("0.17.0", 2e-6),
        ("0.9", 1e-6),
        ("dev-20260101", 2e-6),
    ],
)
def test_a_version_takes_the_oldest_border_that_it_is_before(version: str, value_s: float) -> None:
    known = (
        record_small_launches(3e-6),
        record_small_launches(2e-6, "0.18"),
        record_small_launches(1e-6, "0.10").model_copy(update={"before_date": None}),
    )
    found = launch_of("vllm", "query_key_norm_s", version, known)
    assert found.value_s == value_s


def test_shipped_records_have_a_range_around_their_value_and_the_border_of_their_engine() -> None:
    found = load_small_launches()
    assert found
    for one in found:
        assert one.low_s <= one.value_s <= one.high_s
        if one.name == "query_key_norm_s":
            assert one.low_s < one.high_s
        if one.before_version is not None:
            engine = load_engine(one.engine)
            border = (engine.norms_apart_before, engine.norms_apart_before_date)
            assert (one.before_version, one.before_date) == border
