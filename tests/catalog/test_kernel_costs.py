"""Shipped fit records load, and every accelerator gets kernel costs with an honest tier."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog import fit_records
from advisor.catalog.fit_records import (
    FORM_VERSION,
    class_costs,
    load_held_out,
    load_measured,
    load_modules,
    load_overheads,
    load_records,
)
from advisor.catalog.kernel_choice import choose, load_small_launches, version_key
from advisor.catalog.kernel_costs import (
    NETWORK_FRACTION,
    NETWORK_T0_S,
    ROOFLINE_LOG_SD,
    kernel_costs,
    with_network,
)
from advisor.physics.architecture import BYTES_PER_WEIGHT, WeightDtypes
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.prediction import AdvisorError, Tier
from studies.calibration import GATES, gate_results, gated_tables
from studies.fits.records import recorded_devices, write_records

ALL = [record for device in recorded_devices() for record in load_records(device)]


def uniform(dtype):
    return WeightDtypes(routed=dtype, shared=dtype, attention=dtype, dense=dtype)


def test_records_exist_for_the_ten_measured_accelerators():
    devices = {load_hardware(one).kernel_table_device for one in hardware_ids()} - {None}
    assert set(recorded_devices()) == devices
    assert len(ALL) > 400


def test_record_ids_are_unique_and_of_the_current_form():
    assert len({record.id for record in ALL}) == len(ALL)
    assert {record.form_version for record in ALL} == {FORM_VERSION}


def test_every_record_has_finite_parameters_inside_their_bounds():
    for record in ALL:
        assert record.log_sd > 0
        for name, parameter in record.parameters.items():
            high = np.inf if parameter.high is None else parameter.high
            assert parameter.low <= parameter.value <= high * (1 + 1e-5), (record.id, name)


def test_records_of_every_operation_are_there():
    assert {record.op for record in ALL} == {
        "moe",
        "gemm",
        "attention",
        "mla",
        "all_reduce",
        "all_to_all",
    }


def test_moe_curves_rise_in_rows_and_stay_positive():
    for record in (r for r in ALL if r.op == "moe"):
        rows = [m for m, _ in record.curve]
        assert rows == sorted(rows)
        assert all(factor > 0 for _, factor in record.curve)


@pytest.mark.parametrize("hardware_id", hardware_ids())
def test_every_accelerator_gets_costs_for_every_engine_and_format(hardware_id):
    hardware = load_hardware(hardware_id)
    for engine in ("vllm", "sglang", "trtllm", "other"):
        for dtype in BYTES_PER_WEIGHT:
            costs = kernel_costs(hardware, engine, uniform(dtype))
            assert 0 < costs.routed.t0_s < 1e-3
            assert (
                costs.routed.bandwidth_bytes_per_s < 2.0 * hardware.bandwidth_bytes_per_s.value
                or (costs.routed.per_expert_s > 0)
            )
            for gemm in (costs.attention_projection, costs.shared, costs.dense, costs.lm_head):
                assert 0 < gemm.t0_s < 1e-4
                assert (
                    gemm.bandwidth_bytes_per_s <= hardware.bandwidth_bytes_per_s.value * 1.0001
                    or (hardware.kernel_table_device is not None)
                )
                assert gemm.flops_per_s > 0
            assert costs.routed.because
            assert costs.sources or costs.notes


def test_an_h800_uses_the_h100s_kernels_but_its_own_links():
    h100 = kernel_costs(load_hardware("h100-sxm"), "vllm", uniform("bf16"))
    h800 = kernel_costs(load_hardware("h800-sxm"), "vllm", uniform("bf16"))
    assert h800.routed == h100.routed
    ratio = (
        load_hardware("h100-sxm").link_bytes_per_s.value
        / load_hardware("h800-sxm").link_bytes_per_s.value
    )
    assert h100.all_reduce[8].bandwidth_bytes_per_s / h800.all_reduce[
        8
    ].bandwidth_bytes_per_s == pytest.approx(ratio)
    assert [note.kind for note in h800.notes["accelerator"]] == ["same_chip"]


def test_an_h20_stays_on_the_roofline_with_a_wider_band():
    costs = kernel_costs(load_hardware("h20"), "vllm", uniform("bf16"))
    assert costs.routed.tier is Tier.ROOFLINE
    assert costs.routed.log_sd == ROOFLINE_LOG_SD
    assert (
        costs.routed.log_sd
        > kernel_costs(load_hardware("h200-sxm"), "vllm", uniform("bf16")).routed.log_sd
    )
    assert [note.kind for note in costs.notes["experts"]] == ["kernels_unmeasured"]


def test_mxfp4_experts_beside_bf16_attention_take_one_record_each():
    mixed = WeightDtypes(routed="mxfp4")
    costs = kernel_costs(load_hardware("h200-sxm"), "vllm", mixed)
    assert "mxfp4" in costs.routed.because
    plain = kernel_costs(load_hardware("h200-sxm"), "vllm", WeightDtypes())
    assert costs.attention_projection == plain.attention_projection


def test_another_engines_table_is_used_with_a_warning_and_a_wider_band():
    hardware = load_hardware("h200-sxm")
    sglang = kernel_costs(hardware, "sglang", uniform("fp8"))
    assert sglang.routed.tier is Tier.FITTED
    assert [note.kind for note in sglang.notes["experts"]] == ["kernels_borrowed"]
    other = kernel_costs(hardware, "other", uniform("bf16"))
    assert [note.kind for note in other.notes["experts"]] == ["kernels_borrowed"]


def test_a_fit_that_failed_is_never_chosen():
    failed = [r for r in ALL if not r.success and r.op == "gemm"]
    assert failed, "the host-timed fp8 block GEMM tables should be on record"
    chosen = choose(load_records("h200_sxm"), "gemm", "vllm", "fp8_block")
    assert chosen.record.success


def test_version_order_knows_candidates_and_posts():
    versions = ["0.5.6.post2", "1.3.0rc20", "0.5.10", "1.3.0", "0.5.6", "1.3.0rc9"]
    in_order = ["0.5.6", "0.5.6.post2", "0.5.10", "1.3.0rc9", "1.3.0rc20", "1.3.0"]
    assert sorted(versions, key=version_key) == in_order


def test_the_curve_is_interpolated_in_the_logarithm_and_flat_outside():
    cost = kernel_costs(load_hardware("h200-sxm"), "sglang", uniform("bf16")).routed
    rows, factors = np.array(cost.curve).T
    assert cost.correction(rows) == pytest.approx(factors)
    assert cost.correction(rows[0] / 10) == pytest.approx(factors[0])
    assert cost.correction(rows[-1] * 10) == pytest.approx(factors[-1])


def test_kernel_gates_hold_on_the_shipped_records():
    results = gate_results(ALL)
    assert len(gated_tables(ALL)) >= 50
    failed = [f"{r.gate.name}: {r.n_passed} of {r.n_tables}" for r in results if not r.passed]
    assert not failed
    assert len(results) == len(GATES)


def test_a_table_without_a_held_out_error_does_not_pass_a_gate():
    record = next(r for r in ALL if r in gated_tables(ALL))
    blank = record.model_copy(update={"loso_median": None})
    assert gate_results([record])[0].n_passed >= gate_results([blank])[0].n_passed
    assert gate_results([blank])[0].n_passed == 0


def test_records_survive_a_round_trip_with_six_digits(tmp_path):
    records = list(load_records("a100_sxm"))
    write_records("copy", records, tmp_path)
    first = (tmp_path / "copy.json").read_text()
    assert list(load_records("copy", tmp_path)) == records
    write_records("copy", list(reversed(records)), tmp_path)
    assert (tmp_path / "copy.json").read_text() == first


def test_a_damaged_file_is_refused_with_its_name(tmp_path):
    (tmp_path / "bad.json").write_text('[{"id": 1}]')
    with pytest.raises(AdvisorError, match=r"bad\.json.*make calibrate"):
        load_records("bad", tmp_path)


def test_a_shipped_file_that_is_missing_is_an_error_and_not_other_constants(tmp_path):
    for read in (load_records, load_measured, load_modules):
        with pytest.raises(AdvisorError, match=r"h200_sxm\.json is missing; restore it"):
            read("h200_sxm", tmp_path)
    for read in (load_overheads, load_held_out, load_small_launches):
        with pytest.raises(AdvisorError, match=r"absent\.json is missing; restore it"):
            read(tmp_path / "absent.json")


def test_a_laboratory_that_took_part_is_never_judged_by_the_fit_that_saw_it(monkeypatch):
    name = load_overheads().sources[0]
    assert class_costs("vllm", name)
    rest = {laboratory: fit for laboratory, fit in load_held_out().items() if laboratory != name}
    monkeypatch.setattr(fit_records, "load_held_out", lambda: rest)
    with pytest.raises(AdvisorError, match=f"no fit without {name}.*make calibrate"):
        class_costs("vllm", name)
    assert class_costs("vllm", "nobody's") == class_costs("vllm")


def test_asking_for_an_unknown_parameter_lists_the_known_ones():
    with pytest.raises(AdvisorError, match=r"it has .*t0_s"):
        ALL[0].value("t1_s")


def test_the_cache_s_format_picks_the_attention_kernel() -> None:
    hardware = load_hardware("h200-sxm")
    wide = kernel_costs(hardware, "vllm", WeightDtypes(), kv_dtype="bf16").attention
    narrow = kernel_costs(hardware, "vllm", WeightDtypes(), kv_dtype="fp8").attention
    assert wide != narrow
    assert narrow.tier is Tier.FITTED


def test_ungated_experts_get_the_kernels_made_for_them() -> None:
    hardware = load_hardware("h200-sxm")
    gated = kernel_costs(hardware, "trtllm", WeightDtypes(), gated_experts=True).routed
    ungated = kernel_costs(hardware, "trtllm", WeightDtypes(), gated_experts=False).routed
    assert "nongated" in ungated.fit_id
    assert "nongated" not in gated.fit_id


def test_an_all_reduce_passes_through_every_measured_size() -> None:
    cost = kernel_costs(load_hardware("h200-sxm"), "vllm", WeightDtypes()).all_reduce[8]
    assert cost.tier is Tier.INTERPOLATED
    sizes, factors = np.array(cost.curve).T
    bare = cost.t0_s + sizes / cost.bandwidth_bytes_per_s
    assert cost.time_s(sizes) == pytest.approx(bare * factors)
    assert cost.time_s(sizes[-1] * 2) == pytest.approx(
        (cost.t0_s + 2 * sizes[-1] / cost.bandwidth_bytes_per_s) * factors[-1]
    )


def test_ranks_beyond_a_node_get_the_network_of_the_profile_and_those_within_keep_their_costs():
    for name, node, nominal in (("h200-sxm", 8, 50e9), ("b300-sxm", 8, 100e9), ("gb200", 72, 50e9)):
        hardware = load_hardware(name)
        costs = kernel_costs(hardware, "sglang", uniform("fp8_block"))
        assert with_network(costs, hardware, node) is costs
        beyond = with_network(costs, hardware, node + 1)
        tier = Tier.FITTED if name == "h200-sxm" else Tier.ROOFLINE
        assert (beyond.network.ranks_per_node, beyond.network.tier) == (node, tier)
        assert beyond.network.bandwidth_bytes_per_s == pytest.approx(NETWORK_FRACTION * nominal)
        assert beyond.network.t0_s == NETWORK_T0_S
        assert any(
            "network between nodes" in source for source in beyond.sources["expert exchange"]
        )


def test_a_network_that_is_not_published_or_as_fast_as_the_links_is_none():
    unknown = load_hardware("l40s")
    h200 = load_hardware("h200-sxm")
    fast = h200.model_copy(
        update={
            "network_bytes_per_s": h200.network_bytes_per_s.model_copy(
                update={"value": 1.1 * 450e9}
            )
        }
    )
    for hardware in (unknown, fast):
        costs = kernel_costs(hardware, "vllm", uniform("bf16"))
        assert with_network(costs, hardware, 64) is costs


def test_experts_beyond_those_of_two_tables_cost_no_more_to_hold():
    """Two gpt-oss tables (32 and 128 experts) tell nothing of 256."""
    hardware = load_hardware("rtx-pro-6000-blackwell")

    def held(experts):
        shape = (4096.0, 1024.0, 6.0, experts, 3.0, 1.0)
        cost = kernel_costs(hardware, "vllm", WeightDtypes(routed="mxfp4"), shape=shape).routed
        assert "mxfp4" in cost.fit_id
        return cost.per_resident_expert_s * experts

    assert held(256.0) == pytest.approx(held(128.0))
    assert held(64.0) == pytest.approx(held(128.0) / 2)


@pytest.mark.parametrize(
    ("hardware_id", "tier"), [("mi355x", "interpolated"), ("mi300x", "roofline"), ("h200-sxm", "")]
)
def test_hyper_connections_are_charged_where_they_were_timed(hardware_id, tier):
    cost = kernel_costs(load_hardware(hardware_id), "vllm", uniform("bf16")).stream_mixing
    assert ("" if cost is None else cost.tier) == tier
