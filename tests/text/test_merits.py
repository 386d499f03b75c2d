"""Figures of merit: their names and how their values read."""

from __future__ import annotations

import pytest

from advisor.answers.design.grid import OBJECTIVES
from advisor.answers.explore.changes import GOALS
from advisor.text import MERITS, tier_text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("speedup", 1.764, "1.76x"),
        ("tpot", 7.674e-3, "7.67 ms"),
        ("tokens_per_s_per_gpu", 2084.6, "2,085"),
        ("cost_per_million_tokens", 0.4061, "0.406"),
    ],
)
def test_values_in_si_units_read_with_their_unit(name: str, value: float, text: str) -> None:
    assert MERITS[name].text(value) == text


def test_every_goal_and_objective_has_its_row_and_names_of_their_own() -> None:
    assert {*GOALS, *OBJECTIVES, "ttft"} == set(MERITS)  # the first token is shown, and nothing aims at it
    assert len({MERITS[name].name for name in OBJECTIVES}) == len(OBJECTIVES)


def test_a_tier_says_when_the_value_lies_outside_the_data() -> None:
    assert tier_text("fitted", False) == "fitted"
    assert tier_text("fitted", True) == "fitted, outside the data"
