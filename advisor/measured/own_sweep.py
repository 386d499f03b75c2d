"""The plain sweep among measured rows: steps without drafts on a scenario's accelerator, model and GPUs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.measured.ingest.documents import DOCUMENT_OF, lacks_document
from advisor.measured.own_points import rows_of
from advisor.predict.plain_sweep import LEAST_BATCHES, MOST_BATCHES, write_sweep
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.text import counted


def plain_sweep_of(frame: pd.DataFrame, scenario: Scenario) -> str:
    """Sweep of plain decoding (K = 0) in a points frame, as a scenario carries it.

    Equal batches count by their median.

    Rows that do not say where they were measured count as the scenario's.
    Raises AdvisorError saying what was found where these are not enough batches.
    """
    rows = rows_of(_placed(frame, scenario), scenario)
    rows = rows[rows["draft_tokens_k"].eq(0).to_numpy(dtype=bool, na_value=False)]
    context = rows["context_tokens"].fillna(scenario.context_tokens)
    same = rows["engine"].eq(scenario.engine) & np.isclose(context.astype(float), scenario.context_tokens, rtol=0.5)
    others = "".join(f"; there are rows at context {each:,.0f}" for each in context[~np.asarray(same, bool)].unique())
    rows = rows[same.to_numpy(dtype=bool, na_value=False)]
    times = rows["tpot_s"].fillna(rows["step_time_s"]).astype(float)
    steps = times.groupby(rows["batch_size"].astype(float)).median().dropna()
    if not LEAST_BATCHES <= len(steps) <= MOST_BATCHES:
        raise AdvisorError(
            f"{counted(len(steps), 'batch', 'batches')} of plain decoding (draft_tokens_k 0, with tpot_s or "
            f"step_time_s) were measured on {scenario.hardware_id} with {scenario.model_id}, {scenario.engine}, "
            f"{counted(scenario.n_gpus, 'GPU')} at about {scenario.context_tokens:,} tokens of context; a plain sweep "
            f"has {LEAST_BATCHES} to {MOST_BATCHES}{others}"
        )
    return write_sweep(vars(scenario), steps.index.tolist(), steps.tolist())


def _placed(frame: pd.DataFrame, scenario: Scenario) -> pd.DataFrame:
    """Points whose rows without a place are the scenario's, and its own by name where they hold no document."""
    out = frame.assign(engine=frame["engine"].fillna(scenario.engine))
    for column, document in DOCUMENT_OF.items():
        out[column] = out[column].fillna(getattr(scenario, column))
        if (text := getattr(scenario, document)) is not None:
            meant = lacks_document(out, column) & out[column].eq(getattr(scenario, column)).to_numpy(dtype=bool)
            said = out[document] if document in out else pd.Series(None, index=out.index, dtype=object)
            out[document] = said.astype(object).mask(meant, text)
    return out
