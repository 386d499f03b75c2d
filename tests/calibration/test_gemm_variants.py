"""A GEMM table is fitted as the kernels that serving runs: without the launches that only its collector pays."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.fit_records import load_records
from advisor.catalog.kernel_choice import (
    ENDINGS,
    LEAST_SHARE_LEFT,
    choose,
    gemm_variants,
    scale_seconds,
    without_excess,
    without_scale_launch,
)
from advisor.catalog.kernel_costs import kernel_costs
from advisor.measured.fits.dense import gemm_record, launch_bounds
from advisor.physics.architecture import WeightDtypes
from advisor.physics.hardware import load_hardware
from advisor.prediction import AdvisorError

IDENTITY = {"hardware_id": "h200-sxm", "engine": "trtllm", "version": "1.0", "dtype": "fp8", "kernel_source": "test"}
LAUNCH_S, T0_S = 8e-6, 6e-6
DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300")


def products() -> pd.DataFrame:
    rows = itertools.product(2 ** np.arange(11), (2048, 4096, 8192, 16384), (2048, 4096, 8192, 16384))
    frame = pd.DataFrame(rows, columns=["m", "n", "k"])
    weights = frame["n"] * frame["k"] / 4e12
    arithmetic = 2.0 * frame["m"] * frame["n"] * frame["k"] / 8e14
    return frame.assign(latency_s=T0_S + np.hypot(weights, arithmetic))


def launches(seconds: float = LAUNCH_S) -> pd.DataFrame:
    frame = pd.DataFrame(itertools.product((1, 32, 1024, 4096), (512, 4096, 16384)), columns=["m", "k"])
    return frame.assign(latency_s=seconds * (1.0 + frame["m"] * frame["k"] / 1e7))


def timed_with_launch() -> pd.DataFrame:
    frame = products()
    return frame.assign(latency_s=frame["latency_s"] + scale_seconds(launches(), frame["m"], frame["k"]))


def test_subtracting_the_scale_launch_gives_back_the_product_and_its_fixed_cost():
    variant = without_scale_launch(timed_with_launch(), launches())
    assert variant.frame["latency_s"].to_numpy() == pytest.approx(products()["latency_s"].to_numpy())
    assert variant.n_at_floor == 0
    record = gemm_record(variant.frame, IDENTITY, note=variant.note)
    assert record.value("t0_s") == pytest.approx(T0_S, rel=0.05)
    assert "less the measured launch" in record.message
    assert gemm_record(timed_with_launch(), IDENTITY).value("t0_s") > 2 * T0_S


def test_a_product_keeps_a_quarter_of_its_time_whatever_the_launch_table_says():
    variant = without_scale_launch(products(), launches(1.0))
    left = (variant.frame["latency_s"] / products()["latency_s"]).to_numpy()
    assert left == pytest.approx(LEAST_SHARE_LEFT)
    assert variant.n_at_floor == len(products())


def test_launch_times_pass_through_the_table_and_are_straight_in_logarithms_between_and_flat_beyond():
    table = launches()
    at = scale_seconds(table, table["m"].to_numpy(float), table["k"].to_numpy(float))
    assert at == pytest.approx(table["latency_s"].to_numpy())
    ends = scale_seconds(table, np.array([32.0, 32.0]), np.array([512.0, 4096.0]))
    middle = scale_seconds(table, np.array([32.0]), np.array([np.sqrt(512.0 * 4096.0)]))
    assert middle[0] == pytest.approx(np.sqrt(ends[0] * ends[1]))
    beyond = scale_seconds(table, np.array([1e5]), np.array([1e6]))
    assert beyond[0] == pytest.approx(table["latency_s"].max())


def test_a_point_that_the_launch_table_lacks_is_filled_from_its_neighbours():
    table = launches()
    hole = table[~((table["m"] == 32) & (table["k"] == 4096))]
    filled = scale_seconds(hole, np.array([32.0]), np.array([4096.0]))[0]
    assert LAUNCH_S < filled < 1.5 * LAUNCH_S


def test_a_launch_table_without_times_is_refused():
    with pytest.raises(AdvisorError, match="lacks latency_s"):
        without_scale_launch(products(), launches().drop(columns="latency_s"))


def test_half_of_the_excess_over_another_engine_goes_and_what_is_quicker_stays():
    own, other = products(), products()
    own.loc[own["k"] == 16384, "latency_s"] *= 2.0
    own.loc[own["k"] == 2048, "latency_s"] *= 0.5
    half, whole = without_excess(own, other, 0.5, ""), without_excess(own, other, 1.0, "+fused")
    ratio = half.frame["latency_s"] / products()["latency_s"]
    assert ratio[own["k"] == 16384].to_numpy() == pytest.approx(1.5)
    assert ratio[own["k"] == 2048].to_numpy() == pytest.approx(0.5)
    assert whole.frame["latency_s"].to_numpy() == pytest.approx(
        np.minimum(own["latency_s"], other["latency_s"]).to_numpy()
    )
    assert 0.0 < half.assumed_log_sd < whole.assumed_log_sd
    assert "no table settles it" in half.note


def test_rows_without_a_counterpart_stay_as_they_are():
    own, other = products(), products().query("k < 16384").assign(latency_s=1e-7)
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
    static, dynamic = (choose(records, "gemm", "trtllm", "fp8", scales=s).record for s in ("static", "dynamic"))
    assert static.kernel_source + "+dynamic" == dynamic.kernel_source
    assert 5e-6 < static.value("t0_s") < 7e-6  # other engines' fp8 kernels: 7 us
    assert 7e-6 < dynamic.value("t0_s") - static.value("t0_s") < 10e-6  # computescale: 7-8.5 us at few rows


@pytest.mark.parametrize("device", ["b200_sxm", "b300_sxm", "gb200", "gb300"])
def test_the_nvfp4_share_lies_between_none_and_all_of_the_excess_in_time_and_widens_the_band(device):
    found = [choose(load_records(device), "gemm", "trtllm", "nvfp4", scales=s).record for s in ENDINGS]
    half, timed, whole = found
    assert whole.value("t0_s") < half.value("t0_s") < timed.value("t0_s")
    assert half.log_sd > half.loso_median  # the assumption's spread is in it
    assert "no table settles it" in half.message


def test_a_table_of_one_kernel_serves_whatever_scales_are_asked_for():
    records = load_records("h200_sxm")
    assert len({choose(records, "gemm", "vllm", "fp8", scales=scales).record.id for scales in ENDINGS}) == 1


def test_costs_take_static_scales_unless_the_checkpoint_says_dynamic():
    hardware, dtypes = load_hardware("h200-sxm"), WeightDtypes(attention="fp8", dense="fp8")
    static = kernel_costs(hardware, "trtllm", dtypes).dense
    dynamic = kernel_costs(hardware, "trtllm", dtypes, scales="dynamic").dense
    assert dynamic.t0_s - static.t0_s > 7e-6


def test_where_a_cache_hides_the_small_matrices_they_still_bound_the_launch():
    small = pd.DataFrame({"m": [1, 8, 1, 8], "n": [1024] * 4, "k": [1024, 1024, 2048, 2048]})
    frame = pd.concat([products(), small.assign(latency_s=5e-6)], ignore_index=True)
    low, high = launch_bounds(frame)
    assert 5e-6 <= low <= high <= 8e-6
    huge = frame.assign(latency_s=frame["latency_s"] + 20e-6 * (frame["n"] * frame["k"] > 5e7))
    free, bound = gemm_record(huge, IDENTITY), gemm_record(huge, IDENTITY, cache_bytes=20e6)
    assert bound.value("t0_s") <= high * 1.0001
    assert free.n_rows > bound.n_rows


@pytest.mark.parametrize("device", ["l40s", "rtx_pro_6000_server"])
def test_no_launch_of_a_part_with_a_large_cache_is_charged_as_host_time(device):
    served = [r for r in load_records(device) if r.op == "gemm" and r.success and "dynamic" not in r.kernel_source]
    assert {"bf16", "fp8"} <= {r.dtype for r in served}
    assert all(r.value("t0_s") < 11e-6 for r in served)
