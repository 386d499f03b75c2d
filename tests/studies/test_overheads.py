"""The fit of launches that no kernel table holds: whose points it takes, and what it says of its
range."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.overheads import LAUNCH, NORM, fitted

LAYERS = 10


def points(
    model: str, engine: str, version: str, missing_us: list[float], normed: int = LAYERS
) -> pd.DataFrame:
    """Points of one server that take so long per layer beyond what is predicted without these
    constants."""
    seconds = np.array(missing_us) * 1e-6 * LAYERS
    times = {
        name: np.full(len(seconds), 1.0)
        for name in ("predicted_s", "step_s", "predicted_end_to_end_s")
    }
    held = {
        "n_layers": LAYERS,
        "normed_layers": normed,
        "launch_per_layer_s": 10e-6,
        "query_key_norm_s": 0.0,
    }
    names = {
        "model_id": model,
        "engine": engine,
        "version": version,
        "rule": "",
        "near_duplicate": False,
    }
    return pd.DataFrame(times | held | names | {"served_batch": 8, "measured_s": 1.0 + seconds})


def norm(
    rows: pd.DataFrame, before: str | None = None
) -> tuple[float, float, float, int, tuple[str, ...]]:
    """(value, low, high) in us, points and models of vLLM's constant for norms."""
    (one,) = (
        one
        for one in fitted(rows)
        if (one.engine, one.name, one.before_version) == ("vllm", NORM, before)
    )
    return one.value_s * 1e6, one.low_s * 1e6, one.high_s * 1e6, one.n_points, one.models


# The assumption, 0 us for norms and 10 us for launches, counts as one more model (decision 0025).


def test_one_model_and_the_assumption_give_their_middle_and_both_as_its_range() -> None:
    rows = points("minimax-m2", "vllm", "0.19.0", [8.0, 10.0, 12.0, 14.0, 16.0])
    assert norm(rows) == (pytest.approx(6.0), 0.0, pytest.approx(12.0), 5, ("minimax-m2",))


def test_several_models_give_the_range_with_one_left_out() -> None:
    rows = pd.concat(
        [
            points(name, "vllm", "0.19", [at] * 4)
            for name, at in (("a", 5.0), ("b", 8.0), ("c", 20.0))
        ]
    )
    value, low, high, count, _ = norm(rows)
    assert (value, low, high, count) == (
        pytest.approx(6.5),
        pytest.approx(5.0),
        pytest.approx(8.0),
        12,
    )


def test_a_nightly_build_is_fitted_as_the_kind_that_it_is_judged_as() -> None:
    rows = pd.concat(
        [
            points("minimax-m2", "vllm", "nightly-5b8c30d6", [10.0] * 4),
            points("a", "vllm", "0.17.0", [40.0] * 4),
        ]
    )
    assert norm(rows)[0] == pytest.approx(10.0 / 2)
    assert norm(rows, before="0.18")[0] == pytest.approx(40.0 / 2)


def test_where_no_model_shows_today_s_kind_the_engine_s_own_older_points_serve() -> None:
    rows = pd.concat(
        [
            points("a", "vllm", "0.17.0", [40.0] * 4),
            points("a", "trtllm", "1.0.0", [1.0] * 9),
            points("b", "sglang", "0.5.9", [90.0] * 7),
        ]
    )
    value, _, _, count, models = norm(rows)
    assert (value, count, models) == (pytest.approx(40.0 / 2), 4, ("a",))


def test_a_model_with_few_points_is_neither_fitted_nor_counted() -> None:
    rows = pd.concat(
        [
            points("a", "sglang", "0.5.9", [5.0] * 4, 0),
            points("b", "sglang", "0.5.9", [90.0] * 3, 0),
        ]
    )
    (one,) = fitted(rows)
    assert (one.name, one.n_points, one.models) == (LAUNCH, 4, ("a",))
    assert one.value_s == pytest.approx((15e-6 + 10e-6) / 2)
