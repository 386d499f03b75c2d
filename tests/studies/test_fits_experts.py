"""The fit machinery recovers known constants from generated data, and says when it cannot."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.measured.kernel_fits import MOE_KEYS, add_touched, fit_relative, leave_one_shape_out
from advisor.physics import laws
from advisor.prediction import AdvisorError
from studies.fits.dense import MAX_KERNEL_T0_S, all_reduce_record, all_to_all_record, gemm_record
from studies.fits.experts import frame_columns, moe_record
from studies.fits.tables import leave_one_group_out

IDENTITY = {
    "hardware_id": "h200-sxm",
    "engine": "vllm",
    "version": "1.0",
    "dtype": "bf16",
    "kernel_source": "test",
}
SHAPES = [
    (2048, 768, 8, 128),
    (4096, 1536, 8, 128),
    (3072, 1024, 8, 256),
    (4096, 14336, 2, 8),
    (7168, 2048, 8, 256),
]
TRUE = np.array([25e-6, 1 / 4e12, 1e-7, 1 / 8e14, 1 / 2e12, 0.0])


def moe_table(noise=0.0, coefficients=TRUE, shapes=SHAPES, curve=None, ep=(1,)):
    rows = [
        (tokens, h, i, k, n, tp, e, load)
        for h, i, k, n in shapes
        for tp in (1, 2, 4)
        for e in ep
        for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
        for load in ("balanced", "power_law_1.2")
    ]
    frame = pd.DataFrame(rows, columns=MOE_KEYS)
    full = add_touched(frame)
    time = frame_columns(full, "bf16", False) @ coefficients
    if curve is not None:
        time = time * curve((full["routed_rows"] / full["touched"]).to_numpy())
    rng = np.random.default_rng(3)
    return frame.assign(latency_s=time * np.exp(noise * rng.standard_normal(len(frame))))


def test_moe_fit_recovers_the_constants_it_was_generated_with():
    record = moe_record(moe_table(noise=0.02), IDENTITY)
    assert record.value("t0_s") == pytest.approx(25e-6, rel=0.05)
    assert 1 / record.value("weight_s_per_byte") == pytest.approx(4e12, rel=0.05)
    assert record.value("per_expert_s") == pytest.approx(1e-7, rel=0.25)
    assert record.loso_median < 0.03
    assert record.log_sd == pytest.approx(0.02, abs=0.01)
    assert all(abs(np.log(factor)) < 0.05 for _, factor in record.curve)


def test_moe_curve_finds_a_tile_switch():
    def step(rows):
        return np.where(rows > 20, 1.4, 1.0)

    table = moe_table(noise=0.01, curve=step)
    record = moe_record(table, IDENTITY)
    low = [f for m, f in record.curve if m <= 12]
    high = [f for m, f in record.curve if 32 <= m <= 96]
    assert min(high) > 1.05 * max(low)  # part of the switch goes into the terms that grow with m
    full = add_touched(table)
    columns = frame_columns(full, "bf16", False)
    measured = table["latency_s"].to_numpy()
    without = leave_one_group_out(columns, measured, table["hidden_size"].to_numpy())
    assert record.loso_p90 < 0.6 * np.quantile(np.abs(without / measured - 1), 0.9)


def test_left_out_shape_is_predicted_by_a_fit_that_never_saw_it():
    table = moe_table()
    odd = (table["hidden_size"] == 7168).to_numpy()
    table.loc[odd, "latency_s"] *= (
        2.0  # one shape obeys another law: only its own rows may be predicted badly
    )
    full = add_touched(table)
    columns = frame_columns(full, "bf16", False)
    rows = (full["routed_rows"] / full["touched"]).to_numpy()
    held = leave_one_shape_out(
        columns, table["latency_s"].to_numpy(), rows, table["hidden_size"].to_numpy()
    )
    error = np.abs(held / table["latency_s"].to_numpy() - 1)
    assert np.median(error[odd]) == pytest.approx(0.5, abs=0.1)
    assert np.median(error[~odd]) < 0.1


def test_expert_parallel_rows_are_never_fitted_but_judged():
    table = moe_table(ep=(1, 4))
    spoiled = table.copy()
    spoiled.loc[spoiled["moe_ep_size"] == 4, "latency_s"] *= 10
    clean = moe_record(table, IDENTITY)
    wrong = moe_record(spoiled, IDENTITY)
    assert clean.parameters == wrong.parameters
    assert clean.n_rows + sum(d.n_rows for d in clean.dropped) == len(table)
    assert any("expert parallel" in d.reason for d in clean.dropped)
    assert clean.ep_median < 0.2
    assert wrong.ep_median > 0.7


def test_coefficients_are_never_negative_and_bounds_are_said_in_words():
    record = moe_record(
        moe_table(noise=0.05, coefficients=np.array([25e-6, 1 / 4e12, 0, 0, 0, 0])), IDENTITY
    )
    assert all(parameter.value >= 0 for parameter in record.parameters.values())
    at_bound = [name for name, parameter in record.parameters.items() if parameter.at_bound]
    for name in at_bound:
        assert record.parameters[name].value == 0
        assert record.parameters[name].stderr is None
        assert name in record.message


def test_two_matrix_experts_are_told_from_gated_ones_by_held_out_error():
    shapes = [*SHAPES, (2688, 1856, 6, 128)]
    frame = moe_table(shapes=shapes).drop(columns="latency_s")
    for two in (False, True):
        time = frame_columns(add_touched(frame), "bf16", two) @ TRUE
        record = moe_record(frame.assign(latency_s=time), IDENTITY)
        assert f"with {2 if two else 3} matrices" in record.message


def test_cache_resident_weights_are_dropped_with_a_reason():
    record = moe_record(moe_table(), IDENTITY, cache_bytes=100e6)
    reasons = {d.reason: d.n_rows for d in record.dropped}
    assert any("last-level cache" in reason for reason in reasons)
    assert record.n_rows < len(moe_table())


def test_the_data_hash_depends_on_values_not_on_row_order():
    table = moe_table()
    first = moe_record(table, IDENTITY).data_sha256
    assert moe_record(table.sample(frac=1.0, random_state=1), IDENTITY).data_sha256 == first
    changed = table.assign(latency_s=table["latency_s"] * 1.01)
    assert moe_record(changed, IDENTITY).data_sha256 != first


def test_a_table_without_needed_columns_is_refused():
    with pytest.raises(AdvisorError, match="lacks distribution"):
        moe_record(moe_table().drop(columns="distribution"), IDENTITY)


def test_too_few_rows_give_no_record():
    assert moe_record(moe_table().head(10), IDENTITY) is None


def test_outliers_barely_move_a_robust_fit():
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(400), rng.uniform(0, 100, 400)])
    measured = columns @ np.array([5.0, 2.0])
    measured[:20] *= 5
    assert fit_relative(columns, measured).coefficients == pytest.approx([5.0, 2.0], rel=0.02)


def test_one_group_alone_cannot_be_left_out():
    columns = np.ones((5, 1))
    assert np.isnan(leave_one_group_out(columns, np.ones(5), np.zeros(5))).all()


def gemm_table(t0=5e-6, bandwidth=4e12, rate=8e14, noise=0.02):
    grid = [
        (m, n, k)
        for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
        for n in (2048, 4096, 8192, 16384)
        for k in (2048, 4096, 8192, 16384)
    ]
    frame = pd.DataFrame(grid, columns=["m", "n", "k"])
    m = frame["m"].to_numpy(dtype=float)
    n = frame["n"].to_numpy(dtype=float)
    k = frame["k"].to_numpy(dtype=float)
    time = laws.gemm(n * k, 2.0, m, 2.0, t0, bandwidth, rate)
    return frame.assign(
        latency_s=time * np.exp(noise * np.random.default_rng(1).standard_normal(len(frame)))
    )


def test_gemm_fit_recovers_intercept_bandwidth_and_rate():
    record = gemm_record(gemm_table(), IDENTITY)
    assert record.success
    assert record.value("t0_s") == pytest.approx(5e-6, rel=0.05)
    assert record.value("bandwidth_bytes_per_s") == pytest.approx(4e12, rel=0.03)
    assert record.value("flops_per_s") == pytest.approx(8e14, rel=0.05)
    assert record.loso_median < 0.03


def test_gemm_bandwidth_stays_below_the_datasheet():
    record = gemm_record(gemm_table(), IDENTITY, peak_bandwidth=3e12)
    assert record.value("bandwidth_bytes_per_s") <= 3e12 * 1.0001
    assert record.parameters["bandwidth_bytes_per_s"].at_bound


def test_a_gemm_table_timed_with_host_launches_is_marked_unusable():
    record = gemm_record(gemm_table(t0=80e-6), IDENTITY)
    assert record.value("t0_s") > MAX_KERNEL_T0_S
    assert not record.success
    assert "host time" in record.message


def test_all_reduce_fit_counts_two_bytes_per_element():
    frame = pd.DataFrame({"message_elements": [2**i for i in range(7, 25)]})
    frame["latency_s"] = 5e-6 + 2 * frame["message_elements"] / 2e11
    record = all_reduce_record(frame, IDENTITY, 4)
    assert record.n_ranks == 4
    assert record.value("t0_s") == pytest.approx(5e-6, rel=1e-3)
    assert 1 / record.value("s_per_byte") == pytest.approx(2e11, rel=1e-3)


def test_all_to_all_fit_is_the_mean_of_both_directions():
    keys = ["num_tokens", "hidden_size", "topk", "num_experts"]
    frame = pd.DataFrame(
        [(t, h, 8, 256) for t in (1, 16, 64, 256, 1024) for h in (4096, 7168)], columns=keys
    )
    sent = frame["num_tokens"] * frame["topk"] * frame["hidden_size"] * 2
    dispatch = frame.assign(phase="dispatch", latency_s=20e-6 + sent / 4e11)
    combine = frame.assign(phase="combine", latency_s=40e-6 + sent / 4e11)
    record = all_to_all_record(pd.concat([dispatch, combine]), IDENTITY, 8)
    assert record.value("t0_s") == pytest.approx(30e-6, rel=1e-3)
    assert 1 / record.value("s_per_byte") == pytest.approx(4e11, rel=1e-3)
