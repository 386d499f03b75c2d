"""Ratios between choices as shipped data: which records serve a change, and what they let one say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.setup import load_setup
from advisor.validation import ratios
from advisor.validation.ratios import (
    MIN_PAIRS,
    RatioRecord,
    measured_range,
    ratio_record,
    read_ratios,
    records_between,
    unproven,
    write_ratios,
)

TRT_VLLM = RatioRecord("engine", "trtllm", "vllm", 300, 9, 270, 0.9, 0.8, 1.1)
ENGINES = RatioRecord("engine", "", "", 400, 12, 370, 0.75, 0.7, 1.2)
WITH_SGLANG = RatioRecord("engine", "sglang", "", 100, 5, 90, 0.55, 0.5, 1.3)
TENSOR = RatioRecord("tensor parallel", "", "", 1000, 30, 900, 0.96, 0.95, 1.25)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records by hand in place of the shipped ones."""
    monkeypatch.setattr(ratios, "read_ratios", lambda: (TRT_VLLM, ENGINES, WITH_SGLANG, TENSOR))


@pytest.mark.usefixtures("known")
def test_a_change_the_other_way_round_turns_its_range_about() -> None:
    assert ratio_record("engine", "trtllm", "vllm") == TRT_VLLM
    back = ratio_record("engine", "vllm", "trtllm")
    assert back is not None
    assert (back.low, back.high) == pytest.approx((1 / 1.1, 1 / 0.8))


@pytest.mark.usefixtures("known")
def test_a_change_without_pairs_of_its_own_takes_its_kinds_with_a_range_even_to_both_sides() -> None:
    found = ratio_record("tensor parallel", "8", "4")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1 / 1.25, 1.25))
    assert ratio_record("KV cache", "bf16", "fp8") is None


@pytest.mark.usefixtures("known")
def test_an_engine_is_judged_with_its_own_pairs_and_sglang_with_those_of_sglang() -> None:
    assert unproven([ratio_record("engine", "trtllm", "vllm")]) is None  # type: ignore[list-item]
    doubt = unproven([ratio_record("engine", "vllm", "sglang")])  # type: ignore[list-item]
    assert doubt is not None
    assert doubt.evidence == "right in 55% of 90 measured pairs"
    assert doubt.name == "engine vllm -> sglang"


def test_an_engine_needs_evidence_and_other_changes_need_only_not_to_fail() -> None:
    few = dataclasses.replace(TRT_VLLM, n_apart=MIN_PAIRS - 1)
    assert unproven([few]) is few
    assert unproven([dataclasses.replace(few, kind="weights", right=0.1)]) is None
    failed = dataclasses.replace(TRT_VLLM, kind="weights", right=0.79)
    assert unproven([failed]) is failed
    assert unproven([dataclasses.replace(failed, right=0.8)]) is None
    assert unproven([]) is None


def test_ranges_of_several_changes_add_as_independent_errors_and_hold_one() -> None:
    assert measured_range([]) == (1.0, 1.0)
    low, high = measured_range([TRT_VLLM, dataclasses.replace(TRT_VLLM, low=0.8, high=0.9)])
    assert low == pytest.approx(0.8**2**0.5)
    assert high == pytest.approx(1.1)


@pytest.mark.usefixtures("known")
def test_setups_are_compared_by_what_differs_between_them() -> None:
    base = Scenario(acceptance="2.4@3")

    def between(**changes: object) -> list[str]:
        other = base.model_copy(update=changes)
        return [record.kind for record in records_between(load_setup(base), load_setup(other))]

    assert between() == []
    assert between(context_tokens=2048) == []
    assert between(engine="trtllm") == ["engine"]
    assert between(engine="sglang", n_gpus=2, tensor_parallel=2) == ["engine", "tensor parallel"]


def test_shipped_records_name_pairs_and_a_range() -> None:
    found = read_ratios()
    assert {record.kind for record in found} >= {"engine", "weights", "tensor parallel", "accelerator", "batch"}
    for record in found:
        assert record.n >= record.n_apart >= 0
        assert record.low <= record.high


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = write_ratios([TRT_VLLM, dataclasses.replace(WITH_SGLANG, right=None)], "by hand", tmp_path / "ratios.json")
    assert read_ratios.__wrapped__(path) == (TRT_VLLM, dataclasses.replace(WITH_SGLANG, right=None))
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(AdvisorError, match="make validation"):
        read_ratios.__wrapped__(path)
