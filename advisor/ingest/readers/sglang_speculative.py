"""SGLang bench_speculative JSONL: step time and acceptance by batch and draft shape, with its own baseline lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, FieldMap, floats, from_records
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.upload import Sample

FORMAT_ID = "sglang_speculative"
FORMAT_NAME = "SGLang bench_speculative JSONL"
RECOGNISED_BY = "fields batch_size, steps, topk, num_draft_tokens, acc_length, step_time and speed"

_KEYS = frozenset({"batch_size", "steps", "topk", "num_draft_tokens", "acc_length", "step_time", "speed"})
_MAPS = (
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("draft_tokens_k", ("steps",)),
    FieldMap("step_time_s", ("step_time",)),
    FieldMap("_speed", ("speed",)),
)


def detect(sample: Sample) -> float:
    """0.95 for its seven fields."""
    return 0.95 if sample.kind in ("json", "jsonl") and sample.first.keys() >= _KEYS else 0.0


def read(sample: Sample) -> Draft:
    """One row per line. `speed` is tokens/s of one request; steps = 0 marks the baseline without speculation."""
    records, lines, rejects = keep_objects(sample)
    cells = from_records(records, _MAPS)
    cells["draft_structure"] = Cells([_structure(record) for record in records], "topk")
    lengths = [None if record.get("steps") == 0 else record.get("acc_length") for record in records]
    cells["accepted_length"] = Cells(lengths, "acc_length")
    draft = Draft("points", lines, cells, rejects, finish=_finish)
    draft.constant("engine", "sglang")
    draft.constant("batch_kind", "batch")
    draft.notes.append("step_time_s is the tool's 20th percentile of a whole round: drafting and verification together")
    return draft


def _structure(record: dict[str, Any]) -> str | None:
    topk, verified = record.get("topk"), record.get("num_draft_tokens")
    if record.get("steps") == 0 or not isinstance(topk, int):
        return None
    return f"tree;topk={topk};verify={verified}" if topk > 1 else f"chain;verify={verified}"


def _finish(frame: pd.DataFrame) -> list[str]:
    speed = floats(frame, "_speed")
    positive = speed > 0
    frame["tpot_s"] = np.where(positive, 1.0 / np.where(positive, speed, 1.0), np.nan)
    frame["output_tok_per_s"] = floats(frame, "batch_size") * np.where(positive, speed, np.nan)
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1
    return ["tpot_s is 1 / speed, and output_tok_per_s is speed x batch: the tool's speed is per request"]
