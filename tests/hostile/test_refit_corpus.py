"""A refit's gate on files with a hidden truth: right ones are written, harmful ones are not.

Thresholds were chosen on the forms and kinds of `half` 0; those of `half` 1 judge.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from tests.hostile.refit_corpus import (
    DEPLOYMENTS,
    FORMS,
    KINDS,
    Outcome,
    Shares,
    half,
    harmful_files,
    outcome,
    right_files,
    shares,
)

LEAST_RIGHT = 0.9
MOST_HARMFUL = 0.1
"""Shares of right and of harmful files that may be written. [-]"""
EVERY = 11
"""One file of this many is judged in every run. [-]"""


def test_the_corpus_has_its_forms_kinds_and_sizes():
    assert len(FORMS) >= 12
    assert len(KINDS) >= 20
    assert len(DEPLOYMENTS) >= 3
    worlds = [file.truth for file in (*right_files(), *harmful_files())]
    assert all(8 <= len(one.batches) * len(one.drafts) <= 64 for one in worlds)
    assert 0.25 <= sum(bool(one.form) for one in worlds) / len(worlds) <= 0.4
    assert {half(name) for name in FORMS} == {half(name) for name in KINDS} == {0, 1}


def test_the_corpus_is_the_same_each_time():
    first = right_files()[0]
    right_files.cache_clear()
    assert right_files()[0].data == first.data


def test_a_sample_of_the_files_is_judged_as_it_should_be():
    sampled = shares([outcome(file) for file in (*right_files(), *harmful_files())[::EVERY]])
    print(sampled.text)
    assert sampled.right_written >= LEAST_RIGHT * sampled.right - 1
    assert sampled.harmful_written <= MOST_HARMFUL * sampled.harmful + 1


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """What became of every file."""
    return [outcome(file) for file in (*right_files(), *harmful_files())]


def part(outcomes: list[Outcome], which: int) -> Shares:
    """What became of the files whose kind is in half `which`."""
    counted = shares([each for each in outcomes if half(each.file.kind) == which])
    print(f"{'judging' if which else 'chosen on'}: {counted.text}")
    return counted


def missed(which: int, reached: str) -> ParameterSet:
    """A half that misses its bar, marked with what it reached; passing it fails the test."""
    return pytest.param(which, marks=pytest.mark.xfail(strict=True, reason=reached))


@pytest.mark.thorough
@pytest.mark.parametrize("which", [0, missed(1, "83 % of the right files are written")])
def test_right_files_are_written(outcomes, which):
    counted = part(outcomes, which)
    assert counted.right_written >= LEAST_RIGHT * counted.right, counted.text


@pytest.mark.thorough
@pytest.mark.parametrize("which", [0, 1])
def test_harmful_files_are_not_written(outcomes, which):
    counted = part(outcomes, which)
    assert counted.harmful_written <= MOST_HARMFUL * counted.harmful, counted.text
