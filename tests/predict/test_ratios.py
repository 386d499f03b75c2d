"""Ratios between choices as shipped data: which records serve a change, and what they let one
say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from advisor.predict import ratios
from advisor.predict.load import load_setup
from advisor.predict.ratios import (
    MIN_PAIRS,
    RatioRecord,
    measured_range,
    ratio_record,
    read_ratios,
    records_between,
    unproven,
)
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from studies.fits.records import write_ratios
from tests.golden.sentences import Golden

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
    assert (back.low, back.high) == pytest.approx((1 / 1.1, 1 / 0.8))


@pytest.mark.usefixtures("known")
def test_a_change_without_pairs_of_its_own_takes_its_kinds_with_a_range_even_to_both_sides() -> (
    None
):
    found = ratio_record("tensor parallel", "8", "4")
    assert (found.low, found.high) == pytest.approx((1 / 1.25, 1.25))
    assert ratio_record("KV cache", "bf16", "fp8") is None


@pytest.mark.usefixtures("known")
def test_an_engine_is_judged_with_its_own_pairs_and_sglang_with_those_of_sglang(
    golden: Golden,
) -> None:
    assert unproven([ratio_record("engine", "trtllm", "vllm")]) is None  # type: ignore[list-item]
    doubt = unproven([ratio_record("engine", "vllm", "sglang")])  # type: ignore[list-item]
    golden(predicted_right=doubt.evidence)
    golden(engine_vllm=doubt.name)


X2 = RatioRecord("batch", "", "", 100, 9, 90, 0.99, 0.95, 1.1, doublings=1.0)
X4 = dataclasses.replace(X2, high=1.2, right=0.97, doublings=2.0)


def test_the_range_of_a_number_follows_how_often_it_doubles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = dataclasses.replace(X2, high=9.0, n=MIN_PAIRS - 1, doublings=3.0)
    monkeypatch.setattr(ratios, "read_ratios", lambda: (X4, X2, few))

    def high(before: str, after: str) -> float:
        found = ratio_record("batch", before, after)
        assert found.low == pytest.approx(1.0 / found.high)
        return found.high

    assert high("8", "16") == high("16", "8") == pytest.approx(1.1)
    assert high("8", "32") == pytest.approx(1.2)
    assert high("100", "141.4213562") == pytest.approx(1.1**0.5)
    assert 1.1 < high("8", "24") < 1.2
    assert high("1", "64") == pytest.approx(1.2**3)  # three times as far as any that was measured
    assert ratio_record("batch", "8", "24").right == 0.97  # type: ignore[union-attr]


def test_errors_of_two_doublings_are_more_than_independent_and_less_than_twice_one_s() -> None:
    """The reason why each distance has pairs of its own: no rule from one doubling meets the
    measured ranges."""
    for kind in ("tensor parallel", "batch"):
        one, two = (
            dataclasses.replace(each, low=1.0, high=max(each.high, 1.0 / each.low))
            for doublings in (1.0, 2.0)
            for each in read_ratios()
            if (each.kind, each.before, each.doublings) == (kind, "", doublings)
        )
        assert one.high ** (2**0.5) < two.high < one.high**2


@pytest.mark.usefixtures("known")
def test_a_pool_lends_no_direction_to_a_value_that_none_of_its_pairs_has(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    pool = dataclasses.replace(ENGINES, right=0.95, among=("trtllm", "vllm"))
    monkeypatch.setattr(ratios, "read_ratios", lambda: (pool,))
    found = ratio_record("engine", "vllm", "other")
    assert (found.right, found.n, found.n_apart, found.is_right) == (None, 0, 0, False)
    assert found.high == pytest.approx(1 / 0.7)
    assert unproven([found]) is found
    golden(no_measured=found.evidence)
    seen = ratio_record("engine", "vllm", "trtllm")
    assert seen.is_right


def test_no_shipped_pair_has_an_engine_without_kernels_of_its_own() -> None:
    for engine in ("vllm", "sglang", "trtllm"):
        found = ratio_record("engine", engine, "other")
        assert not found.is_right


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
    assert {record.kind for record in found} >= {
        "engine",
        "weights",
        "tensor parallel",
        "accelerator",
        "batch",
    }
    for record in found:
        assert record.n >= record.n_apart >= 0
        assert record.low <= record.high


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    written = (TRT_VLLM, dataclasses.replace(WITH_SGLANG, right=None, among=("sglang", "vllm")), X4)
    path = write_ratios(list(written), "by hand", tmp_path / "ratios.json")
    assert read_ratios.__wrapped__(path) == written
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(AdvisorError, match="make validation"):
        read_ratios.__wrapped__(path)
