"""Curves that published work describes (R10 to R13 and R17 of docs/validation.md)."""

from __future__ import annotations

import dataclasses

import numpy as np

from advisor.architecture import Architecture
from advisor.curve import Curve, curve_for, speedup_curve
from advisor.scenario import Scenario
from advisor.setup import by_form, load_setup
from advisor.studies.runtime.study import COHERE_ACCEPTED_LENGTH, conditional_acceptance

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COMMAND_A_PLUS = Scenario(
    hardware_id="h200-sxm",
    n_gpus=4,
    tensor_parallel=4,
    model_id="command-a-plus",
    weight_dtype="fp8",
    drafter_id="eagle3",
    acceptance="2.73@3",
    k_max=7,
)
COMMAND_A = COMMAND_A_PLUS.model_copy(update={"model_id": "command-a"})


def cohere() -> tuple[Curve, Curve]:
    """R10, R11: Command A+ and dense Command A at K = 3 with an EAGLE head, 4 x H200."""
    return speedup_curve(COMMAND_A_PLUS, BATCHES, [3]), speedup_curve(COMMAND_A, BATCHES, [3])


def best_k() -> tuple[np.ndarray, np.ndarray]:
    """R17: best K over BATCHES for Command A+ and dense Command A with the published accepted lengths."""
    given = {"acceptance": conditional_acceptance(COHERE_ACCEPTED_LENGTH)}
    curves = (speedup_curve(s.model_copy(update=given), BATCHES) for s in (COMMAND_A_PLUS, COMMAND_A))
    moe, dense = (curve.drafts[curve.speedup.argmax(axis=1)] for curve in curves)
    return moe, dense


def with_active(n_active: int) -> Architecture:
    """Qwen3-30B-A3B with another number of active experts, attention, depth and expert width as they are."""
    architecture = load_setup(QWEN).architecture
    assert architecture.moe is not None
    return architecture.model_copy(update={"moe": architecture.moe.model_copy(update={"n_active": n_active})})


QWEN = Scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", drafter_id="eagle3", acceptance="2.73@3", k_max=3)
WIDE_BATCHES = np.unique(np.round(np.geomspace(1, 2048, 45)))


def by_active(actives: tuple[int, ...] = (2, 4, 8, 16, 32)) -> dict[int, np.ndarray]:
    """R12: speedup over WIDE_BATCHES as k varies at fixed N and expert width, all by the form."""
    setup = by_form(load_setup(QWEN))
    return {
        k: curve_for(dataclasses.replace(setup, architecture=with_active(k)), WIDE_BATCHES, [3]).speedup[:, 0]
        for k in actives
    }


def by_ridge() -> dict[str, float]:
    """R13: peak speedup on H800 (ridge 295 FLOP/B) and A800 (153), Qwen2-57B-A14B on two GPUs."""
    base = Scenario(
        n_gpus=2, tensor_parallel=2, model_id="qwen2-57b-a14b", drafter_id="qwen2-0.5b", acceptance="0.9", k_max=4
    )
    return {
        name: float(speedup_curve(base.model_copy(update={"hardware_id": name}), WIDE_BATCHES, [4]).speedup.max())
        for name in ("h800-sxm", "a800-80gb-sxm")
    }


def plateau(speedups: np.ndarray) -> float:
    """Longest range of batches with speedup >= peak / sqrt(2), as a ratio of its ends. [-]"""
    good = speedups >= speedups.max() / np.sqrt(2.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(int)))
    return max(
        float(WIDE_BATCHES[end - 1] / WIDE_BATCHES[start]) for start, end in zip(edges[::2], edges[1::2], strict=True)
    )
