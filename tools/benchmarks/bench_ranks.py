"""Time of placing experts on ranks: answers of three layouts, two temperatures each, the layouts, a
report's section.

Goal: an answer in 5 s at batch 64, K up to 3. `python -m tools.benchmarks ranks`.
"""

from __future__ import annotations

import datetime as dt
import time

import numpy as np

from advisor.answers.advice import advise
from advisor.answers.expert_ranks import LayoutOptions, ranks_answer
from advisor.physics.expert_loads import traffic_of_preset
from advisor.physics.expert_ranks import balanced, skewed_loads
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import Format, render

GOAL_S = 5.0
SIZES = ((8, 16, 3), (8, 64, 3), (32, 1024, 8))
"""Ranks, batch, longest draft."""
LAYERS = 58
SECTION_BATCH = 64
FORMATS: tuple[Format, ...] = ("md", "pdf", "json")


def main() -> None:
    """Print one row for each scenario, the time to place the experts of 58 layers, and what a
    report's section adds."""
    print(f"{'scenario':36s} {'steps drawn':>11s} {'cpu s':>7s}")
    for ranks, batch, k_max in SIZES:
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
        drawn = ranks_answer(setup, traffic, LayoutOptions()).counts.n_draws
        cpu = time.process_time() - cpu
        verdict = ("ok" if cpu <= GOAL_S else "MISSED") if (ranks, batch) == (8, 64) else ""
        print(
            (
                f"{f'{ranks} ranks, batch {batch}, K to {k_max}':36s} {drawn:11d} {cpu:7.2f}  "
                f"{verdict}"
            ).rstrip()
        )
    loads = skewed_loads(256, 8, 0.9, LAYERS, np.random.default_rng(0))
    cpu = time.process_time()
    balanced(loads, 32, 32, nodes=4, groups=8)
    print(
        f"{LAYERS} layers of 256 experts and 32 copies on 32 ranks: "
        f"{(time.process_time() - cpu) * 1e3:.0f} ms"
    )
    report_section()


def report_section() -> None:
    """Print what `report --ranks` adds: counting from the preset, then writing each format with and
    without it."""
    scenario = build_scenario(
        hardware_id="h200-sxm",
        model_id="deepseek-v3",
        drafter_id="mtp",
        acceptance="2.4@3",
        k_max=3,
        batch_size=SECTION_BATCH,
        expert_parallel=8,
        n_gpus=8,
    )
    advice = advise(scenario)
    day = dt.date(2026, 11, 22)
    cpu = time.process_time()
    answer = ranks_answer(
        advice.setup, traffic_of_preset(advice.setup.router, np.random.default_rng(0))
    )
    print(
        f"section of a report, 8 ranks, batch {SECTION_BATCH}, K to 3: counting "
        f"{time.process_time() - cpu:.2f} s"
    )
    without = build_report(advice, day)
    with_it = build_report(advice, day, ranks=answer)
    for form in FORMATS:
        before = least_time(without, form)
        after = least_time(with_it, form)
        print(f"  {form:5s} {before * 1e3:6.0f} ms without, {after * 1e3:6.0f} ms with it")


def least_time(report: Report, form: Format, times: int = 3) -> float:
    """CPU time to write a report in a format, the least of several after a first one. [s]"""
    taken = []
    for _ in range(times + 1):
        cpu = time.process_time()
        render(report, form)
        taken.append(time.process_time() - cpu)
    return min(taken[1:])


if __name__ == "__main__":
    main()
