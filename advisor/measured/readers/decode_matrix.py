"""llm-inference-bench's decode matrix: streams by context, each cell decoded for a while at a held
concurrency.

Read in local-inference-lab/llm-inference-bench, llm_decode_bench.py (0.6), and in results that
people published.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.result import Reject, shorten
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    Format,
    RawRows,
    by_position,
    field_maps,
    field_of,
    finish_serve,
    from_records,
)
from advisor.text import number_of

_MAPS = (
    *field_maps(
        output_tok_per_s="aggregate_tps", itl_s="chunk_inter_token_latency_avg", ttft_s="ttft_avg"
    ),
    *field_maps(output_tokens="output_seq_len_avg", accepted_length="server_spec_accept_length"),
    *field_maps(_drafts="server_spec_drafts", _draft_tokens="server_spec_draft_tokens"),
    *field_maps(_accepted="server_spec_accepted_tokens"),
)
_UNMEASURED = frozenset(
    name for item in _MAPS if item.column != "output_tok_per_s" for name in item.sources
)
"""Fields whose 0 is the tool's word for what it did not measure."""
_CELL = ("concurrency", "context_tokens", "aggregate_tps")
_VERSION = re.compile(r"startup engine (?:vLLM|SGLang) (\S+)")


def _matrix(document: Any) -> list[Any]:
    """The cells of a matrix. Empty for another document."""
    cells = field_of(document, "results")
    first = cells[0] if isinstance(cells, list) and cells and isinstance(cells[0], dict) else {}
    return cells if {*_CELL} <= first.keys() else []


def detect(sample: Sample) -> float:
    """0.95 for the tool's settings beside cells with a concurrency, a context and a rate of all
    streams."""
    has_matrix = isinstance(sample.first.get("metadata"), dict) and _matrix(sample.first)
    return 0.95 if sample.kind == "json" and has_matrix else 0.0


def read(sample: Sample) -> RawRows:
    """One row per cell, under its number in `results`. Cells that failed are refused."""
    document = sample.first
    rejects = list(sample.rejects)
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, cell in enumerate(_matrix(document), start=1):
        reason = _fault(cell)
        if reason:
            refused_value = cell.get("aggregate_tps") if isinstance(cell, dict) else cell
            rejects.append(Reject(line, "aggregate_tps", shorten(refused_value), reason))
            continue
        records.append(
            {
                name: value
                for name, value in cell.items()
                if not (name in _UNMEASURED and value == 0)
            }
        )
        lines.append(line)
    raw = RawRows(
        "points",
        np.array(lines, dtype=np.int64),
        from_records(records, _MAPS),
        rejects,
        finish=finish_serve,
    )
    cells = raw.cells
    cells["tpot_s"] = Cells([_token_time(record) for record in records], "inter_token_latency_avg")
    batches = [_batch(record) for record in records]
    cells["batch_size"] = Cells([batch for batch, _ in batches], "concurrency")
    cells["batch_kind"] = Cells([kind for _, kind in batches], "concurrency")
    # As counted, else the context that was asked for; 0 of that says a short one of unknown length.
    prompts = [
        record.get("input_seq_len_avg") or record.get("context_tokens") or None
        for record in records
    ]
    cells["input_tokens"] = Cells(prompts, "input_seq_len_avg")
    raw.name_models([document["metadata"]] * len(records), "model")
    if any(record.get("server_spec_pos_accept") for record in records):
        cells |= by_position([record.get("server_spec_pos_accept") for record in records])
    for column, value in _of_server(document).items():
        raw.constant(column, value, "metadata")
    raw.prefill = _accelerator(document)
    limited = sum(kind == "concurrency" for _, kind in batches)
    if limited:
        raw.note("queued", left=(limited, "cell"))
    return raw


def _fault(cell: Any) -> str:
    """Why a cell is no measurement. Empty where it is one."""
    if not isinstance(cell, dict):
        return "expected a JSON object"
    if cell.get("failure_reason"):
        return f"the cell failed: {shorten(cell['failure_reason'])[:100]}"
    rate = number_of(cell.get("aggregate_tps"))
    return "the cell was skipped or failed, so it has no rate" if rate is None or rate <= 0 else ""


def _token_time(cell: Mapping[str, Any]) -> Any:
    """Time per token of one stream: as measured, else its share of the rate of all streams. [s]"""
    measured = cell.get("inter_token_latency_avg")
    if measured:
        return measured
    rate = number_of(cell.get("aggregate_tps"))
    streams = number_of(_batch(cell)[0])
    return streams / rate if rate and streams else None


def _batch(cell: Mapping[str, Any]) -> tuple[Any, str]:
    """Streams that decoded together and what that counts: fewer than were asked for ran where some
    had to wait."""
    running = number_of(cell.get("avg_running_reqs"))
    queued = number_of(cell.get("queue_fraction")) or cell.get("capacity_limited") is True
    return (
        (running, "concurrency")
        if running and queued
        else (cell.get("concurrency"), "max_concurrency")
    )


def _of_server(document: Mapping[str, Any]) -> dict[str, str]:
    """Engine and its version, as far as they are told."""
    events = document.get("event_log")
    versions = []
    if isinstance(events, list):
        matches = (_VERSION.search(str(event)) for event in events)
        versions = [match[1] for match in matches if match]
    engine = field_of(document, "metadata.engine")
    stated = {
        "engine": engine if isinstance(engine, str) else None,
        "engine_version": versions[0] if versions else None,
    }
    return {column: value for column, value in stated.items() if value}


def _accelerator(document: Mapping[str, Any]) -> dict[str, Any]:
    """The accelerator of the machine that the client ran on, to be confirmed: the server may be
    another."""
    listed = str(field_of(document, "startup_diagnostics.nvidia_smi_query.stdout") or "")
    rows = [line.split(",") for line in listed.splitlines()]
    names = {cells[1].strip() for cells in rows if len(cells) > 1}
    return {"hardware_id": names.pop()} if len(names) == 1 else {}


FORMATS = (
    Format(
        "decode_matrix",
        "llm-inference-bench decode matrix",
        detect,
        read,
        wants=("metadata", "results"),
    ),
)
