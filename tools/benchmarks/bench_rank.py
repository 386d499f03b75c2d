"""Time of a leaderboard: every shipped model, its drafters, placements, copies and K, ranked under
draws.

python -m tools.benchmarks rank. Goal: 60 models in 2 s of one core.
"""

from __future__ import annotations

import dataclasses
import time

from advisor.answers.explore.entrants import ModelFilter, RankQuestion, one_load
from advisor.answers.explore.leaderboard import leaderboard
from advisor.predict.scenario import build_scenario

GOAL_S = 2.0
GOAL_MODELS = 60
WANTED = ModelFilter()


def main() -> None:
    """Print one row for each question; processor time, and what it is for 60 models."""
    shared = {"hardware_id": "h200-sxm", "n_gpus": 8, "drafter_id": "none", "acceptance": "0"}
    one = RankQuestion(
        build_scenario(**shared, max_tpot_ms=20.0), one_load(64), "cost", wanted=WANTED
    )
    questions = {
        "cost, 64 users, 20 ms": one,
        "the same, expert parallel too": dataclasses.replace(one, expert_parallel=True),
        "speed, 256 users": RankQuestion(
            build_scenario(**shared), one_load(256), "speed", wanted=WANTED
        ),
    }
    leaderboard(dataclasses.replace(one, wanted=ModelFilter(("qwen3-4b",))))  # code and fits loaded
    print(
        f"{'question':32s} {'models':>6s} {'ranked':>6s} {'cpu s':>7s} {'wall s':>7s} "
        f"{'60 models':>9s}"
    )
    for name, question in questions.items():
        cpu = time.process_time()
        wall = time.perf_counter()
        board = leaderboard(question)
        cpu = time.process_time() - cpu
        wall = time.perf_counter() - wall
        models = len(board.standings) + len(board.missed)
        each = cpu * GOAL_MODELS / models
        verdict = "ok" if each <= GOAL_S else "MISSED"
        print(
            f"{name:32s} {models:6d} {len(board.standings):6d} {cpu:7.2f} {wall:7.2f} {each:9.2f} "
            f" {verdict}"
        )


if __name__ == "__main__":
    main()
