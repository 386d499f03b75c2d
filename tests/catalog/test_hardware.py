"""An accelerator of the user's own: what is taken, what is refused, and what an answer on it is
worth."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from advisor.answers.advice import advise
from advisor.catalog.hardware import (
    SAME_CHIP_TOLERANCE,
    OwnHardware,
    figure_range,
    hardware_from_own,
    hardware_slug,
    read_own_hardware,
)
from advisor.physics.hardware import load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import Tier

ROOT = Path(__file__).resolve().parents[2]
POD = {
    "name": "Pod of 2027",
    "memory_bytes": 2.0e11,
    "bandwidth_bytes_per_s": 9.0e12,
    "peak_flops_per_s": {"bf16": 2.0e15, "fp8": 4.0e15},
    "link_bytes_per_s": 9.0e11,
    "date": "2026-11-20",
}
H200 = load_hardware("h200-sxm")
SAME_CHIP = POD | {
    "bandwidth_bytes_per_s": 4.8e12,
    "peak_flops_per_s": {"bf16": 9.89e14, "fp8": 1.979e15},
    "same_chip_as": "h200-sxm",
}


def on(document: dict[str, object], **more: object) -> Scenario:
    return Scenario(
        acceptance="2.4@3", hardware_id="own-pod", hardware_json=json.dumps(document), **more
    )


def test_every_constant_says_that_the_user_gave_it() -> None:
    hardware = hardware_from_own(json.dumps(POD | {"source": "vendor's brief"}), "own-pod")
    constants = [
        hardware.memory_bytes,
        hardware.bandwidth_bytes_per_s,
        *hardware.peak_flops_per_s.values(),
    ]
    assert hardware.link_bytes_per_s is not None
    for constant in [*constants, hardware.link_bytes_per_s]:
        assert (constant.kind, constant.source, constant.confidence) == (
            "user",
            "vendor's brief",
            "low",
        )
    assert (hardware.id, hardware.is_own, load_hardware("h200-sxm").is_own) == (
        "own-pod",
        True,
        False,
    )


def test_its_network_is_charged_beyond_its_own_node() -> None:
    wide = {"model_id": "deepseek-v3", "n_gpus": 32, "expert_parallel": 32, "batch_size": 256}
    nodes = {"gpus_per_node": 16, "network_bytes_per_s": 5.0e10}
    alone = load_setup(on(POD | {}, **wide))
    joined = load_setup(on(POD | nodes, **wide))
    rack = load_setup(on(POD | (nodes | {"gpus_per_node": 32}), **wide))
    assert alone.costs.network is None
    assert "network_unknown" in {note.kind for note in alone.notes}
    assert joined.costs.network.ranks_per_node == 16
    assert "network_unknown" not in {note.kind for note in joined.notes}
    assert rack.costs.network is None
    assert not {note.kind for note in rack.notes} & {"network_unknown", "network_charged"}


def test_an_answer_on_it_is_a_roofline_with_the_range_of_machines_nobody_has_seen() -> None:
    """Left out, rooflines of seven laboratories scatter as fitted answers do."""
    ours = advise(on(POD)).recommendation
    measured = advise(Scenario(acceptance="2.4@3")).recommendation
    assert (ours.speedup.tier, measured.speedup.tier) == (Tier.ROOFLINE, Tier.FITTED)
    widths = [each.speedup.high / each.speedup.low for each in (ours, measured)]
    assert widths[0] == pytest.approx(widths[1])


def test_the_same_chip_has_its_measured_kernels_and_the_user_s_memory_and_links() -> None:
    advice = advise(on(SAME_CHIP))
    h200 = advise(Scenario(acceptance="2.4@3"))
    assert advice.recommendation.speedup.value == h200.recommendation.speedup.value
    assert advice.recommendation.speedup.tier is Tier.FITTED
    assert advice.setup.memory.largest_batch > h200.setup.memory.largest_batch
    assert "same_chip" in {note.kind for note in advice.notes}
    slow = SAME_CHIP | {"link_bytes_per_s": 4.5e10}
    two = {"n_gpus": 2, "tensor_parallel": 2}
    slower = advise(on(slow, **two))
    usual = advise(on(SAME_CHIP, **two))
    assert slower.recommendation.tpot_s > usual.recommendation.tpot_s


def test_it_travels_in_a_link_and_belongs_to_the_hash() -> None:
    scenario = on(POD)
    plain = Scenario(acceptance="2.4@3", hardware_id="own-pod")
    assert Scenario.from_query(scenario.to_query()) == scenario
    assert len({scenario.hash, plain.hash, on(POD | {"memory_bytes": 1e11}).hash}) == 3


def test_names_become_ids_that_no_profile_has() -> None:
    assert [hardware_slug(name) for name in ("H200, 2 MW pod", "h200-sxm", "日本", "own-x")] == [
        "own-h200-2-mw-pod",
        "own-h200-sxm",
        "own-accelerator",
        "own-x",
    ]


def test_the_documented_example_is_valid_and_every_field_is_listed_with_its_range() -> None:
    text = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    example = re.search(r"\n(    \{\n.*?\n    \})\n", text, flags=re.S)
    assert read_own_hardware(example.group(1)).same_chip_as == "h200-sxm"
    listed = {
        row[0]: row[1] for row in re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|", text, flags=re.M)
    }
    assert listed.keys() >= OwnHardware.model_fields.keys()
    sizes = ("memory_bytes", "bandwidth_bytes_per_s", "peak_flops_per_s", "link_bytes_per_s")
    figures = (*sizes, "price_usd_per_hour", "board_power_w")
    for field in figures:
        low, high = (float(end) for end in listed[field].split(" to "))
        assert (low, high) == figure_range(field)
    assert f"agree within {SAME_CHIP_TOLERANCE:.0%}" in text
