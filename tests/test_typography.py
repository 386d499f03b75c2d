"""How texts of the core read on screen and in reports."""

import pytest

from advisor.report import render
from advisor.report.document import TriedChange
from advisor.report.layout import sections
from advisor.typography import typeset, unbroken_ranges
from tests.report_fixtures import report_on


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("KV cache bf16 -> fp8", "KV cache bf16 \N{RIGHTWARDS ARROW} fp8"),
        ("within 25 % (at least 0.02)", "within 25% (at least 0.02)"),
        ("80% band, a - b", "80% band, a - b"),
    ],
)
def test_arrows_and_percents_are_set_as_on_screen(written: str, read: str) -> None:
    assert typeset(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1.92x (1.78-2.05)", "1.92x (1.78\N{NON-BREAKING HYPHEN}2.05)"),
        ("Qwen2.5-1.5B on 2026-11-22", "Qwen2.5-1.5B on 2026-11-22"),
    ],
)
def test_a_range_does_not_break_and_names_and_dates_stay(written: str, read: str) -> None:
    assert unbroken_ranges(written) == read
