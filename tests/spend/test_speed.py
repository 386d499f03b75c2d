"""Absolute times under draws: the error of a model's own, and what follows for throughput."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.spend import PLAIN_LOG_SD, drawn_times, own_log_sd, token_time_s

VALIDATION = Path(__file__).resolve().parents[2] / "docs/validation.md"


def test_the_error_of_an_absolute_time_is_the_one_that_validation_found() -> None:
    row = re.search(
        r"^\| fitted without the point's model \| \d+ \| [\d.]+ % \| ([\d.]+) % \|",
        VALIDATION.read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert row is not None
    assert math.log(1 + float(row[1]) / 100) / 1.645 == pytest.approx(PLAIN_LOG_SD, abs=0.015)


def test_an_error_of_its_own_moves_a_model_s_times_and_not_its_centre() -> None:
    scenario = build_scenario(
        hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3", input_tokens=2000, output_tokens=500
    )
    setup = load_setup(scenario)
    curve = curve_for(setup, [4.0, 64.0])
    columns = np.array([3, 2])
    still, slower = (drawn_times(setup, curve, columns, z) for z in (0.0, np.ones(len(curve.draws))))
    assert slower.token_s == pytest.approx(still.token_s * np.exp(own_log_sd(curve.plain_draws_s)))
    middle = token_time_s(curve, 1)[[0, 1], columns]
    assert np.median(still.token_s, axis=0) == pytest.approx(middle, rel=0.1)
    assert (still.tpot_s < still.token_s).all()  # a user has waited for its own prompt before
    assert middle == pytest.approx(curve.batches / curve.tokens_per_s_per_gpu[[0, 1], columns])


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "llama-3.1-8b", "gpt-oss-20b"])
def test_a_plain_time_scatters_by_the_error_that_validation_found_and_no_more(model: str) -> None:
    setup = load_setup(build_scenario(hardware_id="h200-sxm", model_id=model, acceptance="2.4@3"))
    curve = curve_for(setup, [1.0, 16.0, 256.0], [0])
    own_z = np.random.default_rng(7).standard_normal(len(curve.draws))
    drawn = drawn_times(setup, curve, np.zeros(3, np.int64), own_z).token_s
    assert np.log(drawn).std(axis=0) == pytest.approx(PLAIN_LOG_SD, rel=0.12)
    assert (np.log(curve.plain_draws_s).std(axis=0) > 0.03).all()


def test_draws_that_scatter_more_than_validation_found_get_nothing_added() -> None:
    wide = np.exp(np.random.default_rng(1).normal(0.0, [0.05, 0.3], (4000, 2)))
    assert own_log_sd(wide) == pytest.approx([math.sqrt(PLAIN_LOG_SD**2 - 0.05**2), 0.0], rel=0.02)
