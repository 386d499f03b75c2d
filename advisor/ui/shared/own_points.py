"""The user's own measured speedups of a scenario, from the upload of this session, as charts draw them."""

from __future__ import annotations

import pandas as pd

from advisor.ingest import IngestResult
from advisor.next_steps import GAP_COLUMNS
from advisor.scenario import Scenario
from advisor.ui.shared.session import Slot, nothing

UPLOAD: Slot[IngestResult | None] = Slot("_upload", nothing)
"""The upload of this session as read."""
_COLUMNS = (*GAP_COLUMNS, "tensor_parallel", "source")


def own_points(scenario: Scenario) -> pd.DataFrame | None:
    """Rows of the upload with a speedup of this accelerator and model, or None without."""
    read = UPLOAD.get()
    if read is None or read.kind != "points":
        return None
    rows = read.frame
    here = (rows["hardware_id"] == scenario.hardware_id) & (rows["model_id"] == scenario.model_id)
    found = rows[here].dropna(subset=["speedup", "batch_size"])
    if "gpu_count" in found:
        found = found[found["gpu_count"].fillna(scenario.n_gpus) == scenario.n_gpus]
    found = found.rename(columns={"draft_tokens_k": "n_draft"}).assign(source="your upload")
    found = found.reindex(columns=list(_COLUMNS))
    return found[found["n_draft"].fillna(1) > 0].reset_index(drop=True) if len(found) else None
