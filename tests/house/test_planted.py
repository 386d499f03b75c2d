"""Faults that once went unnoticed (planted.yaml): they can still be planted, and each is
noticed."""

from __future__ import annotations

import dataclasses

import pytest

from tools.planted_faults import ROOT, plants, unnoticed

PLANTS = plants()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.fault)
def test_a_fault_can_be_planted_and_has_tests(plant) -> None:
    source = (ROOT / plant.file).read_text(encoding="utf-8")
    compile(plant.into(source), plant.file, "exec")
    for test in plant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_fault_whose_text_is_gone_is_an_error_that_names_it() -> None:
    gone = dataclasses.replace(PLANTS[0], text="no such line")
    with pytest.raises(ValueError, match=f"{gone.fault}.*0 times in {gone.file}"):
        gone.into((ROOT / gone.file).read_text(encoding="utf-8"))


@pytest.mark.thorough
def test_every_planted_fault_is_noticed() -> None:
    assert list(unnoticed(PLANTS)) == []
