"""Time of a map over batch and context, and of money and energy at one point. Goal: the default map
in 0.5 s.


python -m tools.benchmarks context
"""

from __future__ import annotations

import time

from advisor.answers.advice import advise
from advisor.answers.explore.cells import DEFAULT_CONTEXTS, DEFAULT_MAP_BATCHES, context_map
from advisor.predict.scenario import build_scenario
from advisor.predict.spend import price_of, spend_at

GOAL_S = 0.5
REPEATS = 20


def main() -> None:
    """Print one row for each size of map, then the time of one answer's money and energy."""
    scenario = build_scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3")
    context_map(scenario, (1024,), (1,))  # code and fits loaded
    long = tuple(2**power for power in range(8, 20))
    print(f"{'map':24s} {'cells':>6s} {'cpu s':>7s}")
    for name, contexts, batches in (
        ("default", DEFAULT_CONTEXTS, DEFAULT_MAP_BATCHES),
        ("12 contexts, 64 batches", long, tuple(range(4, 260, 4))),
    ):
        cpu = time.process_time()
        found = context_map(scenario, contexts, batches)
        cpu = time.process_time() - cpu
        verdict = ("ok" if cpu <= GOAL_S else "MISSED") if name == "default" else ""
        print(f"{name:24s} {found.fits.size:6d} {cpu:7.2f}  {verdict}".rstrip())
    advice = advise(scenario)
    setup = advice.setup
    curve = advice.curve
    cpu = time.process_time()
    for _ in range(REPEATS):
        spend_at(setup, curve, advice.batch_index, 3, price_of(setup.hardware))
    print(f"money and energy of an answer: {(time.process_time() - cpu) / REPEATS * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
