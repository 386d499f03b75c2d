"""Time of placing experts on ranks: an answer of three layouts, two temperatures each, and the layouts alone.

Goal: an answer in 5 s at batch 64, K up to 3. `python -m tests.benchmarks ranks`.
"""

from __future__ import annotations

import time

import numpy as np

from advisor.expert_ranks import Placing, ranks_answer
from advisor.expert_traffic import traffic_of_preset
from advisor.routing import balanced, skewed_loads
from advisor.scenario import build_scenario
from advisor.setup import load_setup

GOAL_S = 5.0


def main() -> None:
    """Print one row for each scenario, then the time to place the experts of a model of 58 layers."""
    print(f"{'scenario':36s} {'steps drawn':>11s} {'cpu s':>7s}")
    for ranks, batch, k_max in ((8, 16, 3), (8, 64, 3), (32, 1024, 8)):
        setup = load_setup(
            build_scenario(
                hardware_id="h200-sxm",
                model_id="deepseek-v3",
                drafter_id="mtp",
                acceptance="2.4@3",
                k_max=k_max,
                batch_size=batch,
                expert_parallel=ranks,
                n_gpus=ranks,
            )
        )
        cpu = time.process_time()
        traffic = traffic_of_preset(setup.router, np.random.default_rng(0))
        found = ranks_answer(setup, traffic, Placing(heat=(0.02, 0.1))).in_order.found
        cpu = time.process_time() - cpu
        verdict = ("ok" if cpu <= GOAL_S else "MISSED") if (ranks, batch) == (8, 64) else ""
        drawn = found.n_draws if found is not None else 0
        print(f"{f'{ranks} ranks, batch {batch}, K to {k_max}':36s} {drawn:11d} {cpu:7.2f}  {verdict}".rstrip())
    loads = skewed_loads(256, 8, 0.9, 58, np.random.default_rng(0))
    cpu = time.process_time()
    balanced(loads, 32, 32, nodes=4, groups=8)
    print(f"58 layers of 256 experts and 32 copies on 32 ranks: {(time.process_time() - cpu) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
