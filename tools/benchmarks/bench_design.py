"""Time and memory of a million-design search: at least 1e6 designs x 8 K. Goal: 3 s and 2 GiB on
two cores.

python -m tools.benchmarks design
"""

from __future__ import annotations

import resource
import time

from advisor.answers.design.answer import design_answer
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.search import design_space
from advisor.predict.scenario import Scenario

GOAL_S = 3.0
GOAL_BYTES = 2 * 1024**3
BATCHES = ((64,),)
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
        f"{time.perf_counter() - start:.2f} s"
    )


if __name__ == "__main__":
    main()
