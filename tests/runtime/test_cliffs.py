"""Batches to avoid: a jump of the verify step beyond its batch, with a speedup that falls and rises again."""

from __future__ import annotations

import dataclasses

import numpy as np

from advisor.answers.advice import advise
from advisor.answers.best_k import kernel_cliffs
from advisor.predict.curve import Curve, speedup_curve
from advisor.predict.scenario import Scenario
from advisor.prediction import Tier

MAVERICK = Scenario(
    hardware_id="h200-sxm",
    n_gpus=8,
    tensor_parallel=8,
    model_id="llama4-maverick",
    engine="sglang",
    drafter_id="eagle3",
    acceptance="2.6@3",
    k_max=3,
    batch_size=4,
)
"""SGLang's measured MoE kernel of this shape slows abruptly beyond 128 tokens: 32 sequences at K = 3."""
BATCHES = [1.0, 8.0, 16.0, 32.0, 64.0, 128.0]
PLAIN = speedup_curve(Scenario(acceptance="2.4@3", k_max=3), BATCHES, [3])


def curve(verify_s: list[float], speedup: list[float], tier: Tier = Tier.FITTED) -> Curve:
    return dataclasses.replace(
        PLAIN,
        verify_step_s=np.array(verify_s)[:, None],
        speedup=np.array(speedup)[:, None],
        tier=np.full((len(BATCHES), 1), tier, dtype=object),
    )


JUMP = [0.005, 0.006, 0.007, 0.020, 0.022, 0.024]
DIP = [2.0, 1.8, 1.7, 1.1, 1.15, 1.5]


def test_a_jump_with_a_dip_is_named_with_the_batches_inside() -> None:
    (found,) = kernel_cliffs(curve(JUMP, DIP), 0)
    assert (found.first, found.last) == (17, 64)
    assert (found.before, found.least, found.later) == (1.7, 1.1, 1.5)
    assert found.text.startswith(
        "Avoid 17-64 sequences at K = 3: a kernel switches above 16 (measured), verification jumps"
    )


def test_a_dip_without_a_jump_a_jump_without_a_return_and_a_data_sheet_are_no_cliffs() -> None:
    smooth = [0.005, 0.006, 0.007, 0.0139, 0.022, 0.024]
    assert kernel_cliffs(curve(smooth, DIP), 0) == ()
    assert kernel_cliffs(curve(JUMP, [2.0, 1.8, 1.7, 1.1, 1.05, 1.0]), 0) == ()
    assert kernel_cliffs(curve(JUMP, [2.0, 1.8, 1.7, 1.6, 1.62, 1.65]), 0) == ()
    assert kernel_cliffs(curve(JUMP, DIP, Tier.ROOFLINE), 0) == ()


def test_a_model_whose_table_shows_a_switch_is_warned_of_and_one_without_is_not() -> None:
    advice = advise(MAVERICK)
    (found,) = kernel_cliffs(advice.curve, advice.curve.column(3))
    assert (found.first, found.least < 1.0 < found.before) == (33, True)
    assert found.first <= 48 <= found.last
    assert any(text.startswith("Avoid 33-") for text in advice.warnings)
    assert not any(text.startswith("Avoid") for text in advise(Scenario(acceptance="2.4@3")).warnings)
