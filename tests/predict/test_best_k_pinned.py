"""The recommended K of every shipped model on every engine: a change that moves one is seen
(`python -m tests.golden.best_k`, then --write)."""

from __future__ import annotations

import pytest

from tests.golden.best_k import best_k, keys, recorded


def test_every_model_and_engine_is_recorded() -> None:
    assert list(recorded()) == ["/".join(key) for key in keys()]


@pytest.mark.parametrize("key", list(keys())[::7], ids="/".join)
def test_the_recommended_k_of_a_sample_has_not_moved_unnoticed(key: tuple[str, str, str]) -> None:
    assert best_k(*key) == recorded()["/".join(key)]


@pytest.mark.thorough
def test_no_recommended_k_has_moved_unnoticed() -> None:
    now = {"/".join(key): best_k(*key) for key in keys()}
    assert now == recorded(), (
        "run `python -m tests.golden.best_k`, say in the CHANGELOG what moved and why, then --write"
    )
