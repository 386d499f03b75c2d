"""Hardware profiles: every accelerator loads, every number has an origin, and derived rates stay
physical."""

from pathlib import Path

import pytest

from advisor.physics import hardware
from advisor.physics.hardware import (
    ComputeDtype,
    Hardware,
    compute_dtype,
    effective_bandwidth,
    effective_flops,
    gemm_t0,
    hardware_ids,
    load_hardware,
    peak_flops,
)
from advisor.prediction import AdvisorError, Constant
from advisor.profiles import PROFILES, close_ids, read_profile

DTYPES: tuple[ComputeDtype, ...] = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4")
MINIMAL = """
id: box
name: A box
vendor: NVIDIA
generation: test
release_year: 2026
confidence: low
sources: {specs: a data sheet}
memory_bytes: {value: 8.0e+9, unit: B, kind: vendor, source: specs, date: 2026-01-01, confidence: low}
bandwidth_bytes_per_s: {value: 1.0e+12, unit: B/s, kind: vendor, source: specs, date: 2026-01-01, confidence: low}
peak_flops_per_s:
  bf16: {value: 1.0e+14, unit: FLOP/s, kind: vendor, source: specs, date: 2026-01-01, confidence: low}
"""  # noqa: E501


def box(tmp_path: Path, old: str = "", new: str = "") -> Hardware:
    """The minimal profile with one replacement, read from a file."""
    assert old in MINIMAL
    path = tmp_path / "box.yaml"
    path.write_text(MINIMAL.replace(old, new, 1) if old else MINIMAL)
    return read_profile(path, Hardware)


def constants(node: object) -> list[Constant]:
    """All constants anywhere in a profile."""
    if isinstance(node, Constant):
        return [node]
    if isinstance(node, dict):
        return [found for item in node.values() for found in constants(item)]
    if hasattr(node, "model_fields_set"):
        return [
            found for name in type(node).model_fields for found in constants(getattr(node, name))
        ]
    return []


def test_at_least_thirty_accelerators_load_under_their_own_id():
    assert len(hardware_ids()) >= 30
    assert all(load_hardware(name).id == name for name in hardware_ids())


def test_every_constant_of_every_profile_is_positive_and_names_a_source_rather_than_a_key():
    for name in hardware_ids():
        found = constants(load_hardware(name))
        assert len(found) >= 3
        for constant in found:
            assert constant.value > 0
            assert len(constant.source) > 15, (
                f"{name}: {constant.source!r} looks like an unresolved key"
            )


def test_peaks_memory_and_links_lie_in_physical_ranges_so_that_a_wrong_power_of_ten_is_caught():
    for name in hardware_ids():
        device = load_hardware(name)
        assert 15e9 < device.memory_bytes.value < 310e9
        assert 0.25e12 < device.bandwidth_bytes_per_s.value < 8.1e12
        assert 50e12 < device.peak_flops_per_s["bf16"].value < 2.6e15
        if device.link_bytes_per_s is not None:
            assert 20e9 < device.link_bytes_per_s.value < 1e12
        assert (device.gpus_per_node is None) == (device.network_bytes_per_s is None)
        if device.gpus_per_node is not None and device.network_bytes_per_s is not None:
            assert device.gpus_per_node.value in (8, 72)
            assert device.network_bytes_per_s.value / 12.5e9 in (2, 4, 6, 8), (
                "cards of 200, 400 and 800 Gb/s, ports"
            )
            assert device.network_bytes_per_s.value < device.link_bytes_per_s.value / 3
        if device.last_level_cache_bytes is not None:
            assert 1e6 < device.last_level_cache_bytes.value < 300e6
        if device.price_usd_per_hour is not None:
            assert 0.3 < device.price_usd_per_hour.value < 10


def test_h200_matches_its_data_sheet_and_the_published_tables():
    device = load_hardware("h200-sxm")
    assert device.bandwidth_bytes_per_s.value == 4.8e12
    assert device.memory_bytes.value == 141 * 2**30  # 141 binary gigabytes
    assert device.peak_flops_per_s["bf16"].value == 989e12
    assert gemm_t0(device, "bf16").value == pytest.approx(4.45e-6)
    assert effective_bandwidth(device, "bf16").value == pytest.approx(4.108e12)
    assert effective_bandwidth(device, "bf16").kind == "measured"


@pytest.mark.parametrize("dtype", DTYPES)
def test_effective_rates_stay_below_the_peak_on_every_accelerator(dtype: ComputeDtype):
    for name in hardware_ids():
        device = load_hardware(name)
        assert (
            0.5 < effective_bandwidth(device, dtype).value / device.bandwidth_bytes_per_s.value < 1
        )
        assert 0.3 < effective_flops(device, dtype).value / peak_flops(device, dtype).value < 1
        assert 3e-6 < gemm_t0(device, dtype).value < 20e-6


def test_a_format_without_native_units_computes_at_the_bf16_rate():
    a100 = load_hardware("a100-80gb-sxm")
    h100 = load_hardware("h100-sxm")
    b300 = load_hardware("b300-sxm")
    assert compute_dtype(a100, "fp8") == "bf16"
    assert compute_dtype(a100, "fp8_block") == "bf16"
    assert effective_flops(a100, "fp8").value == effective_flops(a100, "bf16").value
    assert (
        compute_dtype(h100, "nvfp4")
        == compute_dtype(h100, "mxfp4")
        == compute_dtype(h100, "int4")
        == "bf16"
    )
    assert compute_dtype(h100, "fp8_block") == "fp8_block"
    assert peak_flops(h100, "fp8_block").value == 1979e12
    assert compute_dtype(b300, "nvfp4") == "nvfp4"


def test_a_native_rate_below_bf16_is_not_used():
    device = load_hardware("b300-sxm")
    assert device.peak_flops_per_s["int8"].value < device.peak_flops_per_s["bf16"].value
    assert compute_dtype(device, "int8") == "bf16"


def test_what_was_not_measured_with_this_format_on_this_chip_is_labelled_assumed():
    assert effective_bandwidth(load_hardware("tpu-v5e"), "bf16").kind == "assumed"
    assert effective_bandwidth(load_hardware("h100-sxm"), "int4").kind == "assumed"
    assert gemm_t0(load_hardware("h200-sxm"), "fp8_block").kind == "assumed"  # fp8's intercept
    assert effective_bandwidth(load_hardware("h800-sxm"), "bf16").kind == "assumed"  # the H100's
    assert "0.84" in effective_bandwidth(load_hardware("l4"), "bf16").source


def test_an_unreliable_launch_intercept_is_replaced_by_the_assumed_one():
    device = load_hardware("rtx-pro-6000-blackwell")
    assert device.kernels["fp8"].gemm_t0_s is None
    assert gemm_t0(device, "fp8").value == 7.5e-6
    assert gemm_t0(device, "fp8").kind == "assumed"


def test_export_variants_keep_the_chip_and_lose_links():
    for variant, original in (("a800-80gb-sxm", "a100-80gb-sxm"), ("h800-sxm", "h100-sxm")):
        less = load_hardware(variant)
        full = load_hardware(original)
        assert effective_bandwidth(less, "bf16").value == effective_bandwidth(full, "bf16").value
        assert less.link_bytes_per_s.value < full.link_bytes_per_s.value
        assert less.kernel_table_device == full.kernel_table_device


def test_a_profile_is_read_once(monkeypatch: pytest.MonkeyPatch):
    first = load_hardware("l4")
    monkeypatch.setattr(hardware, "load_profile", lambda *_: pytest.fail("read again"))
    assert load_hardware("l4") is first


def test_floats_parse_even_when_written_as_people_write_them(tmp_path: Path):
    device = box(tmp_path, "1.0e+12", "1e12")  # YAML 1.1 reads 1e12 as a string
    assert device.bandwidth_bytes_per_s.value == 1e12


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: specs, ", "", r"box.yaml: memory_bytes has a value but no source"),
        (
            "source: specs, ",
            "source: rumour, ",
            r"box.yaml: memory_bytes.source='rumour' is not a key of `sources`",
        ),
        ("kind: vendor, ", "", r"box.yaml: memory_bytes.kind"),
        ("unit: B, ", "", r"box.yaml: memory_bytes.unit"),
        ("date: 2026-01-01, ", "", r"box.yaml: memory_bytes.date"),
        ("8.0e+9", ".nan", r"box.yaml: memory_bytes.value.*finite"),
        ("8.0e+9", "eight", r"box.yaml: memory_bytes.value"),
        (
            "sources: {specs: a data sheet}",
            "sources: [specs]",
            r"box.yaml: sources must map keys to texts",
        ),
        ("release_year: 2026", "release_yaer: 2026", r"box.yaml:.*release_yaer"),
        ("  bf16:", "  bf17:", r"box.yaml: peak_flops_per_s.bf17"),
        ("id: box", "id: [box", r"box.yaml: not readable as YAML"),
    ],
)
def test_a_damaged_profile_is_refused_with_file_and_field(
    tmp_path: Path, old: str, new: str, message: str
):
    with pytest.raises(AdvisorError, match=message):
        box(tmp_path, old, new)


def test_the_minimal_profile_is_fine_before_it_is_damaged(tmp_path: Path):
    device = box(tmp_path)
    assert device.memory_bytes.source == "a data sheet"
    assert effective_bandwidth(device, "fp8").value == pytest.approx(0.84e12)
    assert effective_flops(device, "fp8").value == pytest.approx(0.78e14)


def test_every_file_uses_exactly_the_sources_it_declares():
    import yaml

    for path in sorted(PROFILES.glob("hardware/*.yaml")) + sorted(PROFILES.glob("routing/*.yaml")):
        text = path.read_text()
        declared = set(yaml.safe_load(text).get("sources", {}))
        used = {key for key in declared if f"source: {key}," in text}
        assert used == declared, f"{path.name}: {declared - used} never used"


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ("h300", ["h200-sxm", "h100-sxm", "h800-sxm"]),
        ("h2", ["h20"]),
        ("rtx4090", ["rtx-4090"]),
        ("mi400x", ["mi300x"]),
        ("h100-sxn", ["h100-sxm"]),
    ],
)
def test_a_mistyped_accelerator_is_answered_with_those_of_its_letters_first(
    given: str, offered: list[str]
) -> None:
    assert close_ids(given, hardware_ids())[: len(offered)] == offered


def test_nothing_is_offered_for_what_is_like_no_accelerator() -> None:
    assert close_ids("zzzzzz", hardware_ids()) == []
