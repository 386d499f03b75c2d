"""Every shipped kernel record obeys physics: no memory, link or matrix unit is faster than its data
sheet.

Judged on the times that are served, not on single coefficients: terms of a fit trade against each
other.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from advisor.catalog.fit_records import BYTES_PER_WEIGHT, RECORDS, load_measured, load_records
from advisor.catalog.kernel_choice import layer_seconds
from advisor.catalog.measured_shapes import monotone_knots
from advisor.physics import laws
from advisor.physics.hardware import load_hardware, peak_flops
from advisor.physics.kernel_costs import MeasuredLayer, factor_at
from studies.fits.dense import MAX_KERNEL_T0_S
from studies.fits.experts import MIN_T0_S
from studies.fits.records import recorded_devices
from tests.golden.sentences import lines_with

MARGIN = 1.10
"""Timer noise, touched experts counted as an expectation, and peaks rounded on data sheets. [1]"""
ODD_TABLES = {
    # legacy table, DeepSeek's shape at 4 tokens
    "moe/a100-80gb-sxm/trtllm/1.0.0/bf16/moe_torch_flow": 1.20,
    "moe/arc-pro-b60/vllm/0.20.0/bf16/vllm_xpu_moe": 1.15,  # superseded by 0.26; serves nothing
}
"""Tables beyond MARGIN, each with how far it goes and why it may."""
COMPUTED_IN = {
    "bf16": "bf16",
    "fp16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int4_wo": "bf16",
    "w4afp8": "fp8",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "bf16",
    "w4a8_mxfp4_mxfp8": "fp8",
}
"""Matrix unit by the tables' names of formats."""
TOKENS = 2.0 ** np.arange(0, 11.01, 0.5)
SHAPES = (
    (2048.0, 768.0, 8.0, 128.0, 3.0, 1.0),
    (4096.0, 1536.0, 8.0, 128.0, 3.0, 1.0),
    (7168.0, 256.0, 8.0, 256.0, 3.0, 1.0),
    (7168.0, 2048.0, 8.0, 256.0, 3.0, 1.0),
    (2880.0, 2880.0, 4.0, 128.0, 3.0, 1.0),
)
"""Qwen3-30B-A3B, Qwen3-235B-A22B, DeepSeek-V3 in eight shards and whole, gpt-oss-120b."""


def served(device, op):
    return [record for record in load_records(device) if record.op == op and record.success]


def limit(record):
    return ODD_TABLES.get(record.id, MARGIN)


def read_share(record, shape, seconds, tokens):
    """Rate of reading the touched weights over the memory's peak, [tokens]."""
    h, width, active, experts, matrices, _ = shape
    touched = laws.uniform_experts(experts, active, tokens)
    weights = laws.expert_weight_bytes(matrices, h, width, BYTES_PER_WEIGHT[record.dtype], touched)
    return weights / seconds / load_hardware(record.hardware_id).bandwidth_bytes_per_s.value


@pytest.mark.parametrize("device", recorded_devices())
def test_expert_fits_read_weights_no_faster_than_the_memory(device):
    for record in served(device, "moe"):
        for shape in SHAPES:
            share = read_share(record, shape, layer_seconds(record, shape, (), TOKENS), TOKENS)
            assert share.max() < limit(record), (record.id, shape)


@pytest.mark.parametrize("device", recorded_devices())
def test_measured_shapes_read_weights_no_faster_than_the_memory(device):
    records = {record.id: record for record in load_records(device)}
    for table in load_measured(device):
        record = records[table.fit_id]
        for one in table.shapes:
            knots = tuple(
                (float(t), f)
                for t, f in zip(table.tokens, one.factor, strict=True)
                if f is not None
            )
            tokens = TOKENS[knots[-1][0] >= TOKENS]
            share = read_share(
                record, one.shape, layer_seconds(record, one.shape, knots, tokens), tokens
            )
            assert share.max() < limit(record), (record.id, one.shape)


@pytest.mark.parametrize("device", recorded_devices())
def test_expert_fits_compute_no_faster_than_the_matrix_units(device):
    for record in served(device, "moe"):
        peak = peak_flops(load_hardware(record.hardware_id), COMPUTED_IN[record.dtype]).value
        for shape in SHAPES:
            h, width, active, _, matrices, _ = shape
            flops = 2.0 * matrices * h * width * active * TOKENS  # unpadded
            assert (flops / layer_seconds(record, shape, (), TOKENS)).max() <= peak, (
                record.id,
                shape,
            )


@pytest.mark.parametrize("device", recorded_devices())
def test_products_stay_within_both_peaks_and_launch_like_a_captured_kernel(device):
    for record in served(device, "gemm"):
        hardware = load_hardware(record.hardware_id)
        assert (
            record.value("bandwidth_bytes_per_s") <= hardware.bandwidth_bytes_per_s.value * 1.0001
        ), record.id
        peak = peak_flops(hardware, COMPUTED_IN[record.dtype]).value
        assert record.value("flops_per_s") <= peak * MARGIN, record.id
        assert 0.5e-6 <= record.value("t0_s") <= MAX_KERNEL_T0_S, record.id


@pytest.mark.parametrize("device", recorded_devices())
def test_attention_reads_its_cache_no_faster_than_the_memory(device):
    for record in (*served(device, "attention"), *served(device, "mla")):
        peak = load_hardware(record.hardware_id).bandwidth_bytes_per_s.value
        assert 1.0 / record.value("s_per_byte") <= 1.0001 * peak, record.id


HOST_LAUNCHED = ("arc-pro-b60",)
"""Accelerators whose tables were timed without captured graphs: the launches of a layer are in
t0."""


@pytest.mark.parametrize("device", recorded_devices())
def test_a_layer_of_experts_starts_within_a_few_launches(device):
    for record in served(device, "moe"):
        least, most = (
            MIN_T0_S,
            150e-6 if record.hardware_id in HOST_LAUNCHED else 75e-6,
        )  # about ten launches of 7 us
        assert least * 0.999 <= record.value("t0_s") <= most, record.id


@pytest.mark.parametrize("device", recorded_devices())
def test_measured_shapes_take_no_less_time_for_more_tokens(device):
    records = {record.id: record for record in load_records(device)}
    tokens = 2.0 ** np.arange(0, 13.01, 0.1)  # off the knots, where the form bends between them
    for table in load_measured(device):
        record = records[table.fit_id]
        for one in table.shapes:
            knots = tuple(
                (float(t), f)
                for t, f in zip(table.tokens, one.factor, strict=True)
                if f is not None
            )
            layer = MeasuredLayer(one.shape, knots, 0.1)

            def form(at, record=record, shape=one.shape):
                return layer_seconds(record, shape, ((1.0, 1.0),), at)

            grid = tokens[(tokens >= knots[0][0]) & (tokens <= knots[-1][0])]
            times = form(grid) * factor_at(monotone_knots(layer, form), grid)
            assert (times > 0.0).all()
            assert (times >= 0.998 * np.maximum.accumulate(times)).all(), (record.id, one.shape)


@pytest.mark.parametrize("device", recorded_devices())
def test_every_parameter_is_shipped_with_its_bounds_and_every_record_with_its_versions(device):
    for record in json.loads((RECORDS / f"{device}.json").read_text()):
        assert record["code_version"], record["id"]
        assert record["form_version"], record["id"]
        for name, parameter in record["parameters"].items():
            assert {"low", "high"} <= parameter.keys(), (record["id"], name)


def test_a_kernel_whose_rows_outrun_the_memory_is_on_record_and_serves_nothing(golden):
    (fast,) = (r for r in load_records("b200_sxm") if r.kernel_source.endswith("min_latency"))
    assert not fast.success
    golden(faster_than=lines_with(fast.message, "faster than"))
