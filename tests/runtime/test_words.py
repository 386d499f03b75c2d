"""What is said of accepted lengths that nobody measured or gave."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.schedule import accepted_length_text, carried_text
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario


@pytest.mark.parametrize(
    ("acceptance", "said"),
    [
        ("2.4@3", "At K = 1, 2 and 4 to 8 it is carried from there, neither measured nor given: its band is wider."),
        ("0.7,0.6,0.5,0.5,0.5,0.4", "At K = 7 and 8 it is carried"),
        ("0.7,0.6,0.5,0.5,0.5,0.4,0.4", "At K = 8 it is carried"),
        ("0.7,0.6,0.5,0.5,0.5,0.4,0.4,0.4", ""),
    ],
)
def test_accepted_lengths_at_k_beyond_those_given_carry_a_remark(acceptance: str, said: str) -> None:
    setup = load_setup(Scenario(acceptance=acceptance))
    found = carried_text(setup, np.arange(9))
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert accepted_length_text(setup).startswith("Accepted length: ")
    assert accepted_length_text(setup).endswith(found)


def test_only_the_k_that_are_shown_are_remarked_on() -> None:
    setup = load_setup(Scenario(acceptance="2.4@3"))
    assert carried_text(setup, np.array([0, 3])) == ""
    assert carried_text(setup, np.array([0, 3, 5])).startswith("At K = 5 it is carried")
