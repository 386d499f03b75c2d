"""The formulas' speed: a million designs in one call, and one full curve with its bands."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from advisor.physics.acceptance import speedup
from advisor.physics.draft import draft_time
from advisor.physics.step import MoeShape, step_time
from advisor.physics.touched_experts import touched_experts
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup

SCENARIO = Scenario(
    hardware_id="h200-sxm", model_id="qwen3-30b-a3b", drafter_id="eagle3", acceptance="2.4@3"
)


def median_s(call: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of `call`. [s]"""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def million_designs(setup: Setup) -> np.ndarray:
    """Speedup over an open grid of k, N, s, K and B: 14 x 25 x 20 x 9 x 16 = 1,008,000 points."""
    k = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32.0]).reshape(-1, 1, 1, 1, 1)
    n = np.linspace(64, 544, 25).reshape(-1, 1, 1, 1)
    shared = (np.arange(20) * 128.0).reshape(-1, 1, 1)
    drafts = np.arange(9).reshape(-1, 1)
    batch = np.unique(np.round(np.geomspace(1, 512, 18)))[:16]
    shape = MoeShape(48, n, k, 768, 2048, 3, shared)
    cv, phi, rho = setup.routing_parameters()
    plain_u = touched_experts(batch, 1.0, n, k, cv, phi, rho)
    verify_u = touched_experts(batch, drafts + 1.0, n, k, cv, phi, rho)
    common = {"context_tokens": 2048.0, "moe": shape}
    plain = step_time(
        setup.architecture,
        setup.costs,
        setup.placement,
        batch_size=batch,
        tokens_per_sequence=1.0,
        touched=plain_u,
        **common,
    ).total  # type: ignore[arg-type]
    verify = step_time(
        setup.architecture,
        setup.costs,
        setup.placement,
        batch_size=batch,
        tokens_per_sequence=drafts + 1.0,
        touched=verify_u,
        **common,
    ).total  # type: ignore[arg-type]
    draft = draft_time(
        setup.drafting,
        batch_size=batch,
        n_draft=drafts,
        context_tokens=2048.0,
    ).time_s(0.0)
    return speedup(setup.acceptance.accepted_length[:, None], plain, verify + draft)


def main() -> None:
    """Print both budgets beside what was measured."""
    setup = load_setup(SCENARIO)
    points = million_designs(setup).size
    seconds = median_s(lambda: million_designs(setup), 3)
    tracemalloc.start()
    million_designs(setup)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    batches = np.unique(np.round(np.geomspace(1, 1024, 20)))
    curve_s = median_s(lambda: curve_for(setup, batches))
    nine = np.geomspace(1, 256, 9)
    nine_s = median_s(lambda: curve_for(setup, nine), 25)
    print(f"{'what':44s} {'measured':>22s} {'budget':>12s}")
    print(f"{f'{points:,} designs in one call':44s} {seconds:18.2f} s    {'1 s':>12s}")
    print(f"{'designs per second':44s} {points / seconds:20,.0f}")
    print(f"{'peak memory of that call':44s} {peak / 2**30:18.2f} GiB  {'1 GiB':>12s}")
    print(
        f"{f'curve, {batches.size} batches x K 0-8 with band':44s} {curve_s * 1e3:18.1f} ms   "
        f"{'200 ms':>12s}"
    )
    print(f"{'curve, 9 batches x K 0-8 with band':44s} {nine_s * 1e3:18.2f} ms   {'3 ms':>12s}")


if __name__ == "__main__":
    main()
