"""guidellm benchmarks.csv: three header rows (group, field, statistic), one row per benchmark."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft
from advisor.ingest.limits import MAX_JSON_RECORDS, MAX_LINE_BYTES
from advisor.ingest.readers.guidellm_json import CHUNK_NOTE, TPOT_NOTE, batch_of_strategy, chunk_latency
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "guidellm_csv"
FORMAT_NAME = "guidellm CSV"
RECOGNISED_BY = "three header rows whose first has Run Info, Benchmark and Inter Token Latency"

Key = tuple[str, str, str]
_MS = 1e-3
_ITL: Key = ("Inter Token Latency", "Successful ms", "Mean")
_ITERATION: Key = ("Token Streaming", "Successful Iter Tokens/Iter", "Mean")
_COLUMNS: dict[str, tuple[Key, float]] = {
    "tpot_s": (_ITL, _MS),
    "ttft_s": (("Time to First Token", "Successful ms", "Mean"), _MS),
    "request_latency_s": (("Request Latency", "Successful Sec", "Mean"), 1.0),
    "output_tok_per_s": (("Token Throughput", "Successful Output Tokens/Sec", "Mean"), 1.0),
    "total_tok_per_s": (("Token Throughput", "Successful Total Tokens/Sec", "Mean"), 1.0),
    "input_tokens": (("Token Metrics", "Successful Input Tokens", "Mean"), 1.0),
    "output_tokens": (("Token Metrics", "Successful Output Tokens", "Mean"), 1.0),
}


def detect(sample: Sample) -> float:
    """0.95 for its group row."""
    groups = set(sample.header)
    return 0.95 if sample.kind == "text" and {"Benchmark", "Inter Token Latency"} <= groups else 0.0


def read(sample: Sample) -> Draft:
    """One row per benchmark. Raises AdvisorError when the three header rows are incomplete."""
    header, rows, lines, rejects = _parse(sample)
    index = {key: place for place, key in reversed(list(enumerate(header)))}
    if _ITL not in index:
        raise AdvisorError(
            f"{sample.name} is a guidellm CSV without inter-token latencies; benchmark with streaming on"
        )

    def column(key: Key) -> list[str | None]:
        place = index.get(key)
        return [None] * len(rows) if place is None else [row[place] for row in rows]

    cells = {
        name: Cells(column(key), " | ".join(key), scale) for name, (key, scale) in _COLUMNS.items() if key in index
    }
    chunks = [chunk_latency(a, b) for a, b in zip(column(_ITL), column(_ITERATION), strict=True)]
    cells["itl_s"] = Cells(chunks, " | ".join(_ITERATION), _MS)
    mean = column(("Server Throughput", "Successful Concurrency", "Mean"))
    strategies = column(("Benchmark", "Strategy", ""))
    batches = [batch_of_strategy(kind or "", size) for kind, size in zip(strategies, mean, strict=True)]
    cells["batch_size"] = Cells([size for size, _ in batches], "Benchmark | Strategy")
    cells["batch_kind"] = Cells([kind for _, kind in batches], "Benchmark | Strategy")
    cells["model_id"] = Cells([_model(cell) for cell in column(("Run Info", "Backend", ""))], "Run Info | Backend")
    return Draft("points", np.array(lines, dtype=np.int64), cells, rejects, notes=[TPOT_NOTE, CHUNK_NOTE])


def _parse(sample: Sample) -> tuple[list[Key], list[list[str]], list[int], list[Reject]]:
    # The csv module's own limit on a cell is process-wide, so it is left alone; guidellm's cells stay far below it.
    reader = csv.reader(io.StringIO(sample.data.decode("utf-8")), delimiter=sample.delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    header: list[list[str]] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(header) < 3:
                header.append([cell.strip() for cell in row])
            elif len(row) != len(header[0]):
                reason = f"{len(row)} cells where the header has {len(header[0])}"
                rejects.append(Reject(reader.line_num, "", shorten(",".join(row)[:400]), reason))
            elif len(rows) >= MAX_JSON_RECORDS:
                raise AdvisorError(f"{sample.name} has more than {MAX_JSON_RECORDS:,} benchmarks; split it")
            else:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        limit = MAX_LINE_BYTES // 1024
        raise AdvisorError(
            f"{sample.name} is not a readable CSV ({error}); cells above {limit} KiB are refused"
        ) from error
    if len(header) < 3 or len({len(row) for row in header}) != 1:
        raise AdvisorError(
            f"{sample.name} looks like a guidellm CSV but lacks its three equal header rows; send it unedited"
        )
    return list(zip(*header, strict=True)), rows, lines, rejects


def _model(cell: Any) -> str | None:
    """The model's name from the backend's JSON description."""
    try:
        backend = json.loads(cell or "")
    except (ValueError, RecursionError):
        return None
    model = backend.get("model") if isinstance(backend, dict) else None
    return model if isinstance(model, str) else None
