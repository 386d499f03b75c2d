"""Published speedups of one setup. Read without pandas, since every answer asks for them."""

from __future__ import annotations

import csv
import functools
from collections import defaultdict
from typing import NamedTuple

from advisor.catalog.task_transfer import task_of
from advisor.physics.acceptance import every_curve
from advisor.predict.scenario import Scenario
from advisor.profiles import MEASUREMENTS

FIRST_COLLECTION = "published_speedups"
FITTED_COLLECTIONS = (FIRST_COLLECTION, "published_speedups_2", "published_speedups_3")
"""Those that the shipped constants are fitted on and chosen by."""
COLLECTIONS = (*FITTED_COLLECTIONS, "published_speedups_4")
"""Folders of measurements/ with one published speedup a row, in the same columns. Each but the
first has a line in docs/scores.csv, from before anything used it."""
UNTIL_LAST = "until_last"
"""A batch that starts together, with answers of one length, and is timed until its last sequence
has ended."""
WHOLE_BATCH_KINDS = {
    "batch",
    "mean_running",
    "max_concurrency",
    "concurrency",
    "single_stream",
    "batch_per_node",
    UNTIL_LAST,
}
"""Values of `batch_kind` that say how many sequences of the whole server decode together."""


_RAN = {
    "vLLM blog: P-EAGLE, figures 4-6": "p-eagle",
    "vLLM blog: Kimi K3": "dspark",
    "SGLang pull request 29538": "dspark",
    "vLLM pull request 52362, re-run comment": "dspark",
    "vLLM pull request 52362, description table": "dspark",
}
"""What ran in rows that say `other`, by their source, as their notes have it: the collections'
column had no word for it."""


class PublishedRun(NamedTuple):
    """One published speedup [-]: its batch and draft length, drafter, GPUs of a replica,
    publication."""

    batch_size: float
    n_draft: float
    """NaN where the source does not say."""
    speedup: float
    drafter: str
    tensor_parallel: float
    source: str
    accepted_length: float
    """NaN where the source does not say. [tokens per round]"""
    random_tokens: bool = False
    """Prompts of random tokens, of which drafts are accepted less than of text."""


def published_ids(scenario: Scenario) -> tuple[str | None, str | None]:
    """Accelerator and model under which points of the scenario are published. None for one that the
    user gave."""
    hardware_id = None if scenario.hardware_json else scenario.hardware_id
    return hardware_id, None if scenario.model_config_json else scenario.model_id


def published_runs(
    hardware_id: str | None, model_id: str | None, gpus: int
) -> tuple[PublishedRun, ...]:
    """Published speedups of an accelerator, model and number of GPUs, by batch and K, from all
    collections.

    Trees (their K is another thing), rows with a defect, of another number of GPUs or of a batch
    counted per rank are left out. None: nothing is published of what a user gave.
    """
    runs = _by_setup().get((hardware_id or "", model_id or ""), ())
    return tuple(run for run in runs if run.tensor_parallel == gpus)


def runs_beside(scenario: Scenario, gpus: int) -> tuple[PublishedRun, ...]:
    """Published speedups of a scenario's setup with its drafter, on `gpus` [-] of a replica."""
    runs = published_runs(*published_ids(scenario), gpus)
    return tuple(run for run in runs if run.drafter == scenario.drafter_id)


def other_drafters(scenario: Scenario, gpus: int) -> list[tuple[str, tuple[PublishedRun, ...]]]:
    """Published speedups of a scenario's setup with other drafters than its own, by drafter."""
    runs = published_runs(*published_ids(scenario), gpus)
    names = dict.fromkeys(run.drafter for run in runs)
    return [
        (name, tuple(run for run in runs if run.drafter == name))
        for name in names
        if name not in (scenario.drafter_id, "other")
    ]


class PublishedLength(NamedTuple):
    """One published accepted length, counted in the run that states it or read off a curve."""

    n_draft: float
    """NaN where the source does not say."""
    accepted_length: float
    task: str
    """Kind of text, empty where it is not known."""
    source: str


def published_lengths(model_id: str | None, drafter_id: str) -> list[PublishedLength]:
    """Accepted lengths [tokens per round] of a model and drafter, of curves and of single runs.

    A row whose length was counted in another run, or on random tokens, is left out. None: nothing
    is published of what a user gave.
    """
    if model_id is None:
        return []
    of_curves = [
        PublishedLength(k, length, task_of(curve.dataset), curve.source)
        for curve in every_curve(model_id, drafter_id)
        for k, length in zip(curve.n_draft, curve.accepted_length, strict=True)
    ]
    return [*of_curves, *_read()[1].get((model_id, drafter_id), ())]


def _by_setup() -> dict[tuple[str, str], list[PublishedRun]]:
    return _read()[0]


@functools.lru_cache(maxsize=1)
def _read() -> tuple[
    dict[tuple[str, str], list[PublishedRun]], dict[tuple[str, str], list[PublishedLength]]
]:
    """Speedups by accelerator and model, and accepted lengths by model and drafter."""
    runs: dict[tuple[str, str], list[PublishedRun]] = defaultdict(list)
    lengths: dict[tuple[str, str], list[PublishedLength]] = defaultdict(list)
    for name in COLLECTIONS:
        with (MEASUREMENTS / name / "data.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["defect"] or "tree" in row["draft_structure"]:
                    continue
                if row["batch_kind"] in WHOLE_BATCH_KINDS and row["batch_size"] and row["speedup"]:
                    runs[row["hardware_id"], row["model_id"]].append(_run(row))
                if row["accepted_length_same_run"] == "1" and row["task"] != "random":
                    lengths[row["model_id"], _drafter(row)].append(_length(row))
    by_setup = {
        setup: sorted(of_one, key=lambda run: (run.batch_size, run.n_draft))
        for setup, of_one in runs.items()
    }
    return by_setup, lengths


def _length(row: dict[str, str]) -> PublishedLength:
    k = float(row["draft_tokens_k"] or "nan")
    length = float(row["accepted_length"] or "nan")
    return PublishedLength(k, length, row["task"], row["source_title"])


def _drafter(row: dict[str, str]) -> str:
    return _RAN.get(row["source_title"], "other") if row["drafter"] == "other" else row["drafter"]


def _run(row: dict[str, str]) -> PublishedRun:
    return PublishedRun(
        float(row["batch_size"]),
        float(row["draft_tokens_k"] or "nan"),
        float(row["speedup"]),
        _drafter(row),
        float(row["tensor_parallel"] or row["gpu_count"] or "nan"),
        row["source_title"],
        float(row["accepted_length"] or "nan"),
        row["task"] == "random",
    )
