"""data.csv of `python -m advisor profile`: its MoE layers become kernel rows; its other operations stay behind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft
from advisor.ingest.result import Reject, shorten
from advisor.ingest.table import Table, read_table
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "profiler_sweep"
FORMAT_NAME = "a sweep of `advisor profile` (data.csv)"
RECOGNISED_BY = "columns op, touched_experts, expert_width, time_p20_s, checked_error and control_ratio"

_NEEDED = ("op", "status", "touched_experts", "expert_width", "time_s", "time_p20_s", "checked_error", "control_ratio")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_COLUMNS = {
    "n_tokens": "num_tokens",
    "hidden_size": "hidden_size",
    "expert_width": "inter_size",
    "n_active": "topk",
    "n_experts": "num_experts",
    "routing": "distribution",
    "kernel": "kernel_source",
    "time_s": "latency_s",
}


def detect(sample: Sample) -> float:
    """0.98 when all columns that only the profiler writes are in the header."""
    return 0.98 if sample.kind == "text" and set(_NEEDED) <= set(sample.header) else 0.0


def read(sample: Sample) -> Draft:
    """One kernel row per measured MoE layer, its time the median over rounds.

    Rows that failed, and layers timed together with a shared expert, are refused with the reason. Raises AdvisorError
    when the sweep measured no MoE layer.
    """
    table = read_table(sample)
    absent = [name for name in (*_COLUMNS, "dtype", "shared_width", "notes") if name not in table.header]
    if absent:
        raise AdvisorError(
            f"{sample.name} lacks the columns {', '.join(absent)}; send data.csv as the profiler wrote it"
        )
    layers = _equals(table, "op", "moe_layer")
    if not layers.any():
        raise AdvisorError(f"{sample.name} holds no MoE layer; profile with a block named moe-...")
    status = _words(table, "status")
    measured = status == "ok"
    shared = ~np.isin(_words(table, "shared_width"), ["", "0", "0.0"])
    rejects = [
        Reject(int(table.lines[row]), "status", shorten(status[row]), f"not measured: {_word(table, 'notes', row)}")
        for row in np.flatnonzero(layers & ~measured)
    ]
    rejects += [
        Reject(int(table.lines[row]), "shared_width", _word(table, "shared_width", row), "timed with a shared expert")
        for row in np.flatnonzero(layers & measured & shared)
    ]
    kept = layers & measured & ~shared
    mask = pa.array(kept)
    cells = {ours: Cells(_column(table, theirs).filter(mask), theirs) for theirs, ours in _COLUMNS.items()}
    formats = [_DTYPES.get(word, word) for word in _words(table, "dtype")[kept]]
    cells["dtype"] = Cells(formats, "dtype")
    draft = Draft("kernels", table.lines[kept], cells, rejects)
    for name, value in (("op", "moe"), ("engine", "advisor.profiling"), ("tp", 1), ("ep", 1)):
        draft.constant(name, value)
    others = int((~layers).sum())
    draft.notes.append("latency is the median over rounds; the device is named in the meta.yaml beside the file")
    if others:
        draft.notes.append(f"{others} rows of other operations were left out: only MoE layers become kernel rows")
    return draft


def _column(table: Table, name: str) -> pa.Array:
    column = table.column(name)
    assert column is not None  # `read` has checked the header
    return column


def _words(table: Table, name: str) -> np.ndarray:
    return np.array([cell or "" for cell in _column(table, name).to_pylist()], dtype=object)


def _word(table: Table, name: str, row: int | np.integer) -> str:
    return shorten(_column(table, name)[int(row)].as_py() or "no reason given")


def _equals(table: Table, name: str, word: str) -> np.ndarray:
    found: np.ndarray = pc.fill_null(pc.equal(_column(table, name), word), False).to_numpy(zero_copy_only=False)
    return found
