"""Loads of experts as one line of text: what a scenario and its link carry."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.physics.expert_ranks import skewed_loads
from advisor.predict.scenario import loads_shape, parse_loads, write_loads
from advisor.prediction import AdvisorError

LINK_CHARACTERS = 30_000
"""What a link may have (advisor/ui/state.py)."""


def test_a_text_gives_back_the_loads_of_each_layer_to_half_a_hundredth_of_its_mean() -> None:
    loads = np.array([[1.0, 2.0, 0.0, 1.0], [40.0, 0.25, 0.0, 3.0]])
    text = write_loads(loads)
    assert loads_shape(text) == (2, 4)
    assert np.abs(parse_loads(text) - loads / loads.mean(axis=1, keepdims=True)).max() <= 0.005


def test_a_text_of_a_text_is_the_same_text() -> None:
    text = write_loads(skewed_loads(128, 8, 0.9, 6, np.random.default_rng(0)))
    assert write_loads(parse_loads(text)) == text


@pytest.mark.parametrize(("layers", "experts"), [(58, 256), (60, 384), (48, 512)])
@pytest.mark.parametrize("cv", [0.9, 2.0])
def test_the_loads_of_a_large_model_fit_a_link(layers: int, experts: int, cv: float) -> None:
    loads = skewed_loads(experts, 8, cv, layers, np.random.default_rng(0))
    text = write_loads(loads)
    assert len(text) < LINK_CHARACTERS
    off = np.abs(parse_loads(text) - loads / loads.mean(axis=1, keepdims=True)).max()
    assert off <= (0.005 if layers * experts <= 16_384 else 0.02)


def test_loads_in_any_unit_are_the_same_text() -> None:
    loads = skewed_loads(64, 4, 0.9, 3, np.random.default_rng(0))
    assert write_loads(loads * 1e307) == write_loads(loads) == write_loads(loads * 1e-300)


@pytest.mark.parametrize("loads", [np.ones(3), np.array([[1.0, -1.0]]), np.array([[np.nan, 1.0]]), np.zeros((0, 4))])
def test_what_are_no_loads_is_not_written(loads: np.ndarray) -> None:
    with pytest.raises(AdvisorError, match="expected numbers >= 0 by layer and expert"):
        write_loads(loads)


def test_a_layer_without_any_load_is_named() -> None:
    with pytest.raises(AdvisorError, match="a layer has no load at all"):
        write_loads(np.array([[1.0, 1.0], [0.0, 0.0]]))


GOOD = write_loads(np.array([[1.0, 3.0], [2.0, 2.0]]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2x2",
        "2x2:",
        "axb:eJw",
        GOOD[:-6],
        GOOD.replace("2x2", "2x3"),
        GOOD.replace("2x2", "0x2"),
        "9999999x9999999:eJw",
    ],
)
def test_a_damaged_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(AdvisorError, match="no text of loads, or damaged"):
        parse_loads(text)
