"""InferenceX aggregate JSON (agg_*.json): one run per object, latencies in seconds, rates per GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.cells import Cells
from advisor.ingest.raw import FieldMap, Format, RawRows, floats, raw_points, with_fields
from advisor.ingest.upload import Sample

_MAPS = (
    FieldMap("hardware_id", ("hw",)),
    FieldMap("model_id", ("model", "infmax_model_prefix")),
    FieldMap("engine", ("framework",)),
    FieldMap("weight_dtype", ("precision",)),
    FieldMap("batch_size", ("conc",)),
    FieldMap("input_tokens", ("isl",)),
    FieldMap("output_tokens", ("osl",)),
    FieldMap("tensor_parallel", ("tp",)),
    FieldMap("expert_parallel", ("ep",)),
    FieldMap("tpot_s", ("mean_tpot",)),
    FieldMap("itl_s", ("mean_itl",)),
    FieldMap("ttft_s", ("mean_ttft",)),
    FieldMap("request_latency_s", ("mean_e2el",)),
    FieldMap("_tp", ("tp",)),
    FieldMap("_pp", ("pp",)),
    FieldMap("_output_rate", ("output_tput_per_gpu",)),
    FieldMap("_rate", ("tput_per_gpu",)),
)
_OFF = frozenset({"", "none", "off", "false", "0"})


def read_aggregate(sample: Sample) -> RawRows:
    """One row per object. Speculation is named, its K is not: rows with it ask for K."""
    raw, records = raw_points(sample, _MAPS, _finish, batch_kind="max_concurrency")
    cells = raw.cells
    methods = [_method(record.get("spec_decoding")) for record in records]
    cells["draft_tokens_k"] = Cells([0 if method == "" else None for method in methods], "spec_decoding")
    cells["drafter"] = Cells([method or None for method in methods], "spec_decoding")
    cells["_split"] = Cells([1 if _true(record.get("disagg")) else 0 for record in records], "disagg")
    cells["notes"] = Cells(
        ["prefill and decode on separate GPUs" if _true(r.get("disagg")) else None for r in records], "disagg"
    )
    image = [record.get("image") if isinstance(record.get("image"), str) else None for record in records]
    cells["engine_version"] = Cells(image, "image")
    return raw


def _method(value: Any) -> str | None:
    """'' without speculation, the method's name with it, None when the file does not say."""
    if value is None:
        return None
    text = str(value).strip().lower()
    return "" if text in _OFF else text


def _true(value: Any) -> bool:
    return str(value).strip().lower() in ("true", "1", "yes")


def _finish(frame: pd.DataFrame) -> list[str]:
    """GPU count tp x pp and whole-run rates, where prefill and decode share the GPUs."""

    shared = floats(frame, "_split") == 0
    gpus = np.where(shared, floats(frame, "_tp") * np.nan_to_num(floats(frame, "_pp"), nan=1.0), np.nan)
    known = ~np.isnan(gpus) & (gpus >= 1)
    if not known.any():
        return []
    frame.loc[known, "gpu_count"] = gpus[known].astype(int)
    frame["output_tok_per_s"] = np.where(known, floats(frame, "_output_rate") * gpus, np.nan)
    frame["total_tok_per_s"] = np.where(known, floats(frame, "_rate") * gpus, np.nan)
    return ["gpu_count is tp x pp, and rates are per-GPU rates x gpu_count, where prefill and decode share the GPUs"]


AGGREGATE = Format(
    "inferencex",
    "InferenceX aggregate JSON",
    "fields hw, conc, framework, precision, isl, osl and tput_per_gpu",
    with_fields(0.95, "hw", "conc", "framework", "isl", "osl", "tput_per_gpu"),
    read_aggregate,
)
