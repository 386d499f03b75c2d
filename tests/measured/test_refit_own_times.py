"""What rows hold for a refit: each its own time, with every prompt in it or none."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.refit import refit_chosen, select_points
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
