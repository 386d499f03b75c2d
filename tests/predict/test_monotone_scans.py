"""A step of more sequences or more drafted tokens never costs clearly less, for thirty models on
three engines."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog.models import load_model, model_ids
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256)
MODELS = [one for one in model_ids() if load_model(one).moe is not None][:30]
LARGEST_FALL = 0.03
"""What interpolation between measured sizes may leave. [1]"""


def fall(times: np.ndarray, axis: int) -> float:
    """Largest fall below an earlier value along `axis`. [1]"""
    return float((1.0 - times / np.maximum.accumulate(times, axis=axis)).max())


@pytest.mark.parametrize("hardware_id", ["b200-sxm", "h200-sxm"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_steps_and_rounds_do_not_fall_with_batch_or_draft_length(engine, hardware_id):
    judged = 0
    for model_id in MODELS:
        settings = {
            "n_gpus": 8,
            "tensor_parallel": 8,
            "drafter_id": "ngram",
            "acceptance": "1.5@7",
            "k_max": 7,
        }
        try:
            setup = load_setup(
                build_scenario(
                    model_id=model_id, engine=engine, hardware_id=hardware_id, **settings
                )
            )
        except AdvisorError:  # the experts or heads do not divide
            continue
        judged += 1
        curve = curve_for(setup, BATCHES, range(8))
        assert fall(curve.plain_step_s, 0) < LARGEST_FALL, model_id
        assert fall(curve.round_s, 0) < LARGEST_FALL, model_id
        assert fall(curve.round_s[:, 1:], 1) < LARGEST_FALL, model_id
    assert judged >= 25
