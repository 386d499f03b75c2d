"""Launches that no kernel table holds: which record serves a version, and what the shipped ones are made of."""

from __future__ import annotations

import pytest

from advisor.catalog.engines import load_engine
from advisor.catalog.kernel_choice import SmallLaunch, is_before, load_small_launches, small_launch


@pytest.mark.parametrize(
    ("version", "older"),
    [
        ("0.17.0", True),
        ("v0.17.1", True),
        ("0.18.0", False),
        ("0.9", True),
        ("1.0", False),
        ("nightly", False),
        ("nightly-5b8c30d62b754b57", False),
        ("nightly-dev-20260319-d7256eb6", True),
        ("nightly-dev-20260320", False),
        ("nightly-2025-12-31", True),
        ("unstated", False),
        ("gpt-oss-dev", False),
        ("", False),
    ],
)
def test_a_build_is_older_by_its_number_else_by_the_day_it_names_else_not(version: str, older: bool) -> None:
    assert is_before(version, "0.18", "2026-03-20") is older


def test_without_the_release_s_day_a_nightly_build_counts_as_today_s() -> None:
    assert not is_before("nightly-20200101", "0.18")


def record(value_s: float, before: str | None = None) -> SmallLaunch:
    return SmallLaunch(
        engine="vllm",
        before_version=before,
        before_date="2026-03-20" if before else None,
        name="query_key_norm_s",
        value_s=value_s,
        low_s=0.0,
        high_s=1.0,
        n_points=9,
        models=("a",),
        source="by hand",
    )


@pytest.mark.parametrize(
    ("version", "value_s"),
    [("", 3e-6), ("0.19.0", 3e-6), ("nightly", 3e-6), ("0.17.0", 2e-6), ("0.9", 1e-6), ("dev-20260101", 2e-6)],
)
def test_a_version_takes_the_oldest_border_that_it_is_before(version: str, value_s: float) -> None:
    known = (record(3e-6), record(2e-6, "0.18"), record(1e-6, "0.10").model_copy(update={"before_date": None}))
    found = small_launch("vllm", "query_key_norm_s", version, known)
    assert found is not None
    assert found.value_s == value_s


def test_shipped_records_have_a_range_around_their_value_and_the_border_of_their_engine() -> None:
    found = load_small_launches()
    assert found
    for one in found:
        assert one.low_s <= one.value_s <= one.high_s
        if one.name == "query_key_norm_s":
            assert one.low_s < one.high_s
        if one.before_version is not None:
            engine = load_engine(one.engine)
            border = (engine.norms_apart_before, engine.norms_apart_before_date)
            assert (one.before_version, one.before_date) == border
