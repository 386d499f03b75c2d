"""Synthetic rows for the tests of the refit: the model's own predictions under chosen multipliers,
plus noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.observations import NAMES, joined, log_predicted
from advisor.measured.points import refit_points
from advisor.measured.refit import refit_chosen, select_points
from advisor.measured.refit_result import RefitResult

ROW = {
    "hardware_id": "h200-sxm",
    "gpu_count": 1,
    "tensor_parallel": 1,
    "engine": "vllm",
    "model_id": "qwen3-30b-a3b",
}
ROW |= {
    "drafter": "eagle3",
    "accepted_length_same_run": 1,
    "input_tokens": 1000,
    "output_tokens": 200,
}
LENGTH = {1: 1.7, 2: 2.1, 3: 2.4, 5: 2.7}


def synthetic_points(
    batches: Sequence[float],
    drafts: Sequence[int] = (1, 3, 5),
    *,
    truth: Mapping[str, float] | None = None,
    noise: float = 0.0,
    seed: int = 0,
    quantity: str = "speedup",
    **changes: object,
) -> pd.DataFrame:
    """A canonical frame of SYNTHETIC rows: predictions with each multiplier of `truth`, times
    lognormal noise.
    """
    rows = []
    for batch in batches:
        for k in drafts:
            row = {**ROW, "batch_size": batch, "draft_tokens_k": k, quantity: 1.0}
            if k:
                row["accepted_length"] = LENGTH[k]
            rows.append({**row, **changes})
    frame = pd.DataFrame(rows, index=pd.RangeIndex(2, len(rows) + 2, name="line"))
    frame = frame.reindex(columns=list(COLUMNS["points"]))
    points, refused = refit_points(frame)
    assert not refused, refused
    theta = np.array([np.log((truth or {}).get(name, 1.0)) for name in NAMES])
    observed = joined(point.observations for point in points)
    order = {int(line): i for i, line in enumerate(observed.line)}
    values = np.exp(log_predicted(observed, theta))
    wobble = np.exp(noise * np.random.default_rng(seed).standard_normal(len(frame)))
    frame[quantity] = [values[order[int(line)]] for line in frame.index] * wobble
    return frame


def benchmark_csv() -> bytes:
    """SYNTHETIC rows under a slower round than the shipped constants say, with one line that is far
    off."""
    frame = synthetic_points(
        (1, 2, 4, 8, 16, 32, 64), (1, 3), truth={"round_host": 4.0}, noise=0.02
    )
    frame.loc[8, "speedup"] /= 2.5
    return bytes(frame.dropna(axis=1, how="all").to_csv(index=False).encode())


def refit(frame: pd.DataFrame) -> RefitResult:
    """What the rows of a canonical frame say."""
    return refit_chosen(*select_points(frame))
