"""What rows hold for a refit: each its own time, with every prompt in it or none."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.refit import refit_chosen, select_points
from advisor.show.words.refit import notes
from tests.golden.sentences import lines_with
from tests.measured.refit_synthetic import synthetic_points

BATCHES = (1, 4, 16, 64, 128)
GPT_OSS = {"hardware_id": "h100-sxm", "model_id": "gpt-oss-120b", "gpu_count": 4}
GPT_OSS |= {"tensor_parallel": 4}


def refit_of_file(frame):
    result = read_upload("mine.csv", frame.dropna(axis=1, how="all").to_csv(index=False).encode())
    return refit_chosen(*select_points(result.result.frame))


@pytest.mark.parametrize("changes", [{}, GPT_OSS])
@pytest.mark.parametrize("metric", [None, "tpot_ms"])
def test_a_files_noise_free_own_times_are_predicted_by_the_shipped_constants(metric, changes):
    frame = synthetic_points(BATCHES, (0, 1, 3), quantity="tpot_s", metric=metric, **changes)
    rows = refit_of_file(frame.assign(metric=None)).rows
    assert set(rows["quantity"]) == {"tpot_s"}
    assert len(rows) == len(frame)
    assert rows["before"].to_numpy() == pytest.approx(rows["measured"].to_numpy(), rel=1e-6)


@pytest.mark.parametrize("metric", [None, "output_tok_per_s"])
def test_so_are_rates_served_or_of_decoding_alone(metric):
    frame = synthetic_points(BATCHES, (0, 1, 3), quantity="tpot_s", metric=metric, **GPT_OSS)
    rate = frame["batch_size"] / frame["tpot_s"]
    rows = refit_of_file(frame.assign(metric=None, tpot_s=np.nan, output_tok_per_s=rate)).rows
    assert len(rows) == len(frame)
    assert rows["before"].to_numpy() == pytest.approx(rows["measured"].to_numpy(), rel=1e-6)


@pytest.mark.parametrize("metric", [None, "output_tok_per_s"])
def test_how_prompts_were_read_is_said_with_its_odds(metric):
    frame = synthetic_points(BATCHES, (0, 1, 3), quantity="tpot_s", metric=metric, **GPT_OSS)
    rate = frame["batch_size"] / frame["tpot_s"]
    result = refit_of_file(frame.assign(metric=None, tpot_s=np.nan, output_tok_per_s=rate))
    assert result.prompts.held is (metric is not None)
    assert result.prompts.log_odds > 6.0
    how = "with the prefill of prompts" if metric else "as decoding alone"
    assert f"The times are read {how}" in " ".join(notes(result))


def test_a_file_that_says_its_prompts_were_cached_is_not_read_otherwise():
    frame = synthetic_points(
        BATCHES, (0, 1, 3), quantity="tpot_s", metric="output_tok_per_s", **GPT_OSS
    )
    result = refit_of_file(frame.assign(metric=None, prompts_cached=1))
    assert result.prompts is None


def test_residuals_that_follow_the_batch_are_a_remark_and_no_reason(golden):
    frame = synthetic_points(
        (1, 2, 4, 8, 16, 32, 64, 128), (0, 1, 3), quantity="tpot_s", noise=0.003
    )
    bent = 1.0 + 0.12 * np.exp(-((np.log2(frame["batch_size"].astype(float)) - 4.0) ** 2) / 3.0)
    result = refit_of_file(frame.assign(tpot_s=frame["tpot_s"] * bent))
    assert result.bend is not None
    golden(what_left=lines_with(" ".join(notes(result)), "What is"))
    assert lines_with(result.reasons_against, "follows the") == []
