"""Time and memory of a million-design search: at least 1e6 designs x 8 K. Goal: 3 s and 2 GiB on
two cores. Then the map of regions, 6 accelerators x 9 batches; goal: 3 s of one core.

python -m tools.benchmarks design
"""

from __future__ import annotations

import resource
import time

from advisor.answers.design.answer import design_answer
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.regions import one_design, parse_targets, region_map
from advisor.answers.design.search import design_space
from advisor.predict.scenario import Scenario

GOAL_S = 3.0
GOAL_BYTES = 2 * 1024**3
GOAL_MAP_CPU_S = 3.0
MAPPED = {
    "qwen3-30b-a3b": {},
    "mixtral-8x7b": {"n_gpus": 2, "tensor_parallel": 2},
    "deepseek-v3": {"n_gpus": 8, "tensor_parallel": 8, "drafter_id": "mtp"},
}
BATCHES = ((64,), (1, 64, 512), (1, 16, 64, 256, 512))
WHOLE_MAP: tuple[int, ...] | None = None
"""Its batches: those of the product."""
GRID = DesignGrid(
    n_experts=tuple(range(16, 513, 16)),
    n_active=(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32),
    n_shared=(0, 1, 2, 3, 4, 6),
    width_step=16,
    depth_factors=(0.75, 1.0, 1.25),
)


def main() -> None:
    """Print one row per set of batches."""
    scenario = Scenario(
        model_id="qwen3-30b-a3b", hardware_id="h200-sxm", acceptance="2.4@3", batch_size=64
    )
    design_space(
        scenario, grid=DesignGrid(n_experts=(64,), n_active=(4,), n_shared=(0,))
    )  # profiles read, code loaded
    names = ("batches", "designs", "K", "feasible", "seconds", "designs/s", "peak GiB")
    print(
        " ".join(
            name.rjust(width) for name, width in zip(names, (18, 10, 3, 9, 8, 12, 9), strict=True)
        )
    )
    for batches in BATCHES:
        start = time.perf_counter()
        space = design_space(scenario, objective="tpot", batches=batches, grid=GRID)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        verdict = "ok" if seconds <= GOAL_S and peak <= GOAL_BYTES else "MISSED"
        print(
            f"{','.join(map(str, batches)):>18s} {len(space):>10,} {len(space.drafts):>3d} "
            f"{len(space.candidates):>9,} {seconds:8.2f} {len(space) / seconds:>12,.0f} "
            f"{peak / 1024**3:9.2f}  {verdict}"
        )
    start = time.perf_counter()
    design_answer(space)
    print(
        "whole answer (bands, sweeps, sensitivity) on the last: "
        f"{time.perf_counter() - start:.2f} s\n"
    )
    map_times()


def map_times() -> None:
    """Print one row for each map and for one design of two targets: processor time."""
    names = ("map of", "cells", "regions", "cpu s", "wall s", "2 targets, cpu s")
    print(
        " ".join(name.rjust(width) for name, width in zip(names, (15, 6, 8, 7, 7, 17), strict=True))
    )
    for model_id, placed in MAPPED.items():
        scenario = Scenario(
            model_id=model_id, hardware_id="h200-sxm", acceptance="2.4@3", batch_size=16, **placed
        )
        region_map(scenario, batches=(16,))  # profiles read, code loaded
        cpu = time.process_time()
        wall = time.perf_counter()
        found = region_map(scenario, batches=WHOLE_MAP)
        cpu = time.process_time() - cpu
        wall = time.perf_counter() - wall
        start = time.process_time()
        one_design(scenario, parse_targets(["h100-sxm:8", "b200-sxm:128"]))
        targets = time.process_time() - start
        verdict = "ok" if cpu <= GOAL_MAP_CPU_S else "MISSED"
        print(
            f"{model_id:>15s} {len(found.cells):6d} {len(found.regions):8d} {cpu:7.2f} "
            f"{wall:7.2f} {targets:17.2f}  {verdict}"
        )


if __name__ == "__main__":
    main()
