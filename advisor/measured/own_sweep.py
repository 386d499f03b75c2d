"""Rows of an upload that were measured on a scenario's accelerator, model and GPUs, and the plain sweep among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.models import model_ids
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import resolve_names
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.row_questions import copies_sharing
from advisor.physics.hardware import hardware_ids
from advisor.predict.plain_sweep import LEAST_BATCHES, MOST_BATCHES, write_sweep
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.profiles import read_file
from advisor.text import counted


def rows_here(frame: pd.DataFrame, scenario: Scenario) -> pd.DataFrame:
    """Rows of a points frame of this accelerator, model and number of GPUs, their batch that of one copy."""
    here = (frame["hardware_id"] == scenario.hardware_id) & (frame["model_id"] == scenario.model_id)
    found = frame[here].dropna(subset=["batch_size"])
    copies = copies_sharing(found)
    found = found.assign(batch_size=found["batch_size"] / copies)
    gpus = found["gpu_count"].fillna(scenario.n_gpus)
    return found[((gpus == scenario.n_gpus) | (gpus == copies * scenario.n_gpus)).to_numpy(dtype=bool, na_value=False)]


def sweep_of_file(path: Path, scenario: Scenario) -> str:
    """Plain sweep in a benchmark file. Raises AdvisorError, also when it cannot be read."""
    rows = read_upload(path.name, read_file(path, MAX_BYTES, "a benchmark file"))
    rows = resolve_names(rows, hardware_ids(), model_ids())
    if rows.kind != "points":
        raise AdvisorError(f"{path.name} holds kernel times; a plain sweep needs served runs")
    return plain_sweep_of(rows.result.frame, scenario)


def plain_sweep_of(frame: pd.DataFrame, scenario: Scenario) -> str:
    """Sweep of plain decoding (K = 0) in a points frame, as a scenario carries it.

    Equal batches count by their median.

    Rows that do not say where they were measured count as the scenario's.
    Raises AdvisorError saying what was found where these are not enough batches.
    """
    stated = {name: frame[name].fillna(getattr(scenario, name)) for name in ("hardware_id", "model_id", "engine")}
    rows = rows_here(frame.assign(**stated), scenario)
    rows = rows[rows["draft_tokens_k"].eq(0).to_numpy(dtype=bool, na_value=False)]
    context = rows["context_tokens"].fillna(scenario.context_tokens)
    same = rows["engine"].eq(scenario.engine) & np.isclose(context.astype(float), scenario.context_tokens, rtol=0.5)
    rows = rows[same.to_numpy(dtype=bool, na_value=False)]
    times = rows["tpot_s"].fillna(rows["step_time_s"]).astype(float)
    steps = times.groupby(rows["batch_size"].astype(float)).median().dropna()
    if not LEAST_BATCHES <= len(steps) <= MOST_BATCHES:
        raise AdvisorError(
            f"{counted(len(steps), 'batch', 'batches')} of plain decoding (draft_tokens_k 0, with tpot_s or "
            f"step_time_s) were measured on {scenario.hardware_id} with {scenario.model_id}, {scenario.engine}, "
            f"{counted(scenario.n_gpus, 'GPU')} at about {scenario.context_tokens:,} tokens of context; a plain sweep "
            f"has {LEAST_BATCHES} to {MOST_BATCHES}"
        )
    return write_sweep(vars(scenario), steps.index.tolist(), steps.tolist())
