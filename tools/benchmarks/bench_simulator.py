"""Time of the serving-loop simulator: 10,000 requests x 1,000 iterations, one core. Goal: at most
10 s per policy.

python tools/benchmarks/bench_simulator.py
"""

from __future__ import annotations

import time

import numpy as np

from advisor.answers.best_k import KRange, round_costs
from advisor.answers.simulation.policies import BatchSchedule, Cascade, EmaAdaptive, Oracle, StaticK
from advisor.answers.simulation.simulator import Switching, closed_loop, draw_trace, simulate

REQUESTS = 10_000
ITERATIONS = 1_000
K_MAX = 7
GOAL_S = 10.0


def main() -> None:
    """Print one row per load and policy."""
    batches = [1, 4, 16, 64, 256]
    costs = round_costs(
        batches,
        np.outer([1, 1.3, 2, 3, 6], np.linspace(1, 3, K_MAX + 1)) * 0.01,
        np.ones(K_MAX + 1),
    )
    start = time.perf_counter()
    process = Switching((0.9,) * K_MAX, (0.1,) * K_MAX, 40, 60)
    trace = draw_trace(process, REQUESTS, 2048, K_MAX, np.random.default_rng(1))
    print(f"trace {trace.shape}: {time.perf_counter() - start:.2f} s")
    schedule = BatchSchedule((KRange(1, 64, 3, 1.0), KRange(65, 256, 1, 1.0)))
    loads = {
        "10,000 servers, batch 1": closed_loop(REQUESTS),
        "100 servers, batch 100": closed_loop(100, 100),
        "10,000 servers, 100-token requests": closed_loop(REQUESTS, 1, 20, 100),
    }
    for load_name, load in loads.items():
        for policy in (StaticK(3), schedule, Cascade(), EmaAdaptive(), Oracle()):
            start = time.perf_counter()
            run = simulate(costs, policy, trace, load, ITERATIONS)
            seconds = time.perf_counter() - start
            verdict = "ok" if seconds <= GOAL_S else "TOO SLOW"
            print(
                f"{load_name:36s} {policy.name:24s} {seconds:6.2f} s  {run.tokens.sum():>12,} "
                f"tokens  {verdict}"
            )


if __name__ == "__main__":
    main()
