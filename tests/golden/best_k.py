"""The recommended K at every batch of the schedule, of every model on every engine: what a change
moves is seen.

`python -m tests.golden.best_k` prints what differs; `--write` accepts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from advisor.answers.best_k import recommended_drafts
from advisor.catalog.engines import engine_ids
from advisor.catalog.models import model_ids
from advisor.predict.curve import SCHEDULE_BATCHES, curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError

FILE = Path(__file__).with_name("best_k.json")
LENGTHS = ("2.4@3", "1.7@3")


def keys() -> Iterator[tuple[str, str, str]]:
    """(model, engine, accepted length) of every case."""
    for model_id in model_ids():
        for engine in engine_ids():
            for length in LENGTHS:
                yield model_id, engine, length


def best_k(model_id: str, engine: str, length: str) -> str:
    """Runs of the recommended K over SCHEDULE_BATCHES on eight H200, as `5x8 3x20 0x8`: K, times
    batches. The reason where there is none."""
    try:
        setup = load_setup(
            build_scenario(
                hardware_id="h200-sxm",
                n_gpus=8,
                tensor_parallel=8,
                engine=engine,
                model_id=model_id,
                drafter_id="eagle3",
                acceptance=length,
            )
        )
    except AdvisorError:
        return "refused"
    curve = curve_for(setup, SCHEDULE_BATCHES)
    drafts = curve.drafts[recommended_drafts(setup, curve)[0]].tolist()
    return " ".join(f"{k}x{len(list(run))}" for k, run in groupby(drafts))


def recorded() -> dict[str, str]:
    """The accepted K by case."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def main() -> None:
    """Print what moved; with --write, accept it."""
    now = {"/".join(key): best_k(*key) for key in keys()}
    before = recorded() if FILE.exists() else {}
    for name, runs in now.items():
        if before.get(name) != runs:
            print(f"{name}: {before.get(name, 'new')} -> {runs}")
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
