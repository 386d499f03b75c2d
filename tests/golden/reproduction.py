"""Curves that published work describes, printed beside what it says: `python -m tests.golden.reproduction`."""

from __future__ import annotations

import numpy as np

from advisor.architecture import Architecture
from advisor.curve import Curve, curve_for, speedup_curve
from advisor.scenario import Scenario
from advisor.setup import load_setup

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
# AL(0..7) = 1, 1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25 (Cohere blog) as chances given the tokens before.
PUBLISHED_LENGTHS = np.array([1.0, 1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25])


def published_acceptance() -> str:
    """The published accepted lengths as a list of conditional acceptance probabilities."""
    gains = np.diff(PUBLISHED_LENGTHS)
    return ",".join(f"{chance:.6f}" for chance in gains / np.concatenate([[1.0], gains[:-1]]))


def cohere() -> tuple[Curve, Curve]:
    """R10, R11: Command A+ and dense Command A at K = 3 with an EAGLE head, 4 x H200."""
    return speedup_curve(COMMAND_A_PLUS, BATCHES, [3]), speedup_curve(COMMAND_A, BATCHES, [3])


def best_k() -> tuple[np.ndarray, np.ndarray]:
    """R17: best K over BATCHES for Command A+ and dense Command A with the published accepted lengths."""
    given = {"acceptance": published_acceptance()}
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
    """R12: speedup over WIDE_BATCHES as k varies at fixed N and expert width."""
    import dataclasses

    setup = load_setup(QWEN)
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
    """Longest range of batches with speedup >= peak / sqrt(2), as a ratio of its ends. [1]"""
    good = speedups >= speedups.max() / np.sqrt(2.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(int)))
    return max(
        float(WIDE_BATCHES[end - 1] / WIDE_BATCHES[start]) for start, end in zip(edges[::2], edges[1::2], strict=True)
    )


def main() -> None:
    """Print every reproduction target of this file."""
    moe, dense = cohere()
    print("R10 Command A+ (MoE), K = 3; published: about 1.95 at batch 1, R = 1.25, peak 2.2 at 4-16 (second hand)")
    print("R11 Command A (dense), K = 3; published: falls monotonically")
    print("batch     " + " ".join(f"{b:6d}" for b in BATCHES))
    for name, values in (("A+ speedup", moe.speedup), ("A+ R", moe.verify_ratio), ("A speedup", dense.speedup)):
        print(f"{name:10s}" + " ".join(f"{value:6.2f}" for value in values[:, 0]))
    print("\nR17 best K; published: 3, then 5 at batch 16-32, then 3 on the MoE; non-increasing on the dense model")
    for name, ks in zip(("A+", "A"), best_k(), strict=True):
        print(f"{name:10s}" + " ".join(f"{k:6d}" for k in ks))
    print("\nR12 k of 128 experts; published: interior maximum at larger batch and a wider plateau for smaller k")
    for k, speedups in by_active().items():
        at = WIDE_BATCHES[speedups.argmax()]
        print(f"k={k:3d} peak {speedups.max():.2f} at batch {at:.0f}, plateau x{plateau(speedups):.0f}")
    print("\nR13 peak speedup; published: higher ridge point, higher peak")
    print(", ".join(f"{name} {value:.2f}" for name, value in by_ridge().items()))


if __name__ == "__main__":
    main()
