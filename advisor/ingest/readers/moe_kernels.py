"""MoE kernel times: measured tables, and logs of benchmark_moe."""

from __future__ import annotations

import re

import numpy as np

from advisor.ingest.canonical import header_key, match_header
from advisor.ingest.cells import Cells
from advisor.ingest.checks import misplaced_columns
from advisor.ingest.raw import Format, RawRows, from_mapped
from advisor.ingest.result import Reject, shorten
from advisor.ingest.table import BARE_LATENCY, load_table, map_header, table_header
from advisor.ingest.upload import MAX_TEXT_LOG_BYTES, MIB, Sample
from advisor.prediction import AdvisorError

# Measured MoE kernel tables, one row per timed shape (CSV or parquet): framework, version, device, ..., latency.

_SHAPE = {"num_tokens", "hidden_size", "topk", "num_experts"}
_MS = 1e-3


def detect_table(sample: Sample) -> float:
    """0.95 when the shape columns and a latency are in the header."""
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    found = {match[0] for cell in header if (match := match_header(cell, "kernels"))}
    timed = "latency_s" in found or bool({header_key(cell) for cell in header} & BARE_LATENCY)
    return 0.95 if found >= _SHAPE and timed else 0.0


def read_table(sample: Sample) -> RawRows:
    """Every row. A latency column without a unit is in milliseconds, as these tables define it."""
    table = load_table(sample, "kernels")
    mapped = map_header(table, "kernels", sample.name)
    cells = from_mapped(table, mapped)
    swaps = misplaced_columns(table, mapped.columns, "kernels")
    notes = []
    bare = next((index for index, cell in enumerate(table.header) if header_key(cell) in BARE_LATENCY), None)
    if "latency_s" not in cells and bare is not None:
        cells["latency_s"] = Cells(table.columns[bare], table.header[bare], _MS)
        notes.append("latency read as milliseconds, the unit of this table layout")
    raw = RawRows("kernels", table.lines, cells, list(table.rejects), notes=notes, swaps=swaps)
    raw.warnings += mapped.warnings
    if "op" not in cells:
        raw.constant("op", "moe")
    return raw


TABLE = Format(
    "kernel_table",
    "a measured MoE kernel table",
    "columns num_tokens, hidden_size, topk, num_experts and a latency, as CSV or parquet",
    detect_table,
    read_table,
)


# Log of vLLM's or SGLang's benchmark_moe without --tune: kernel times by batch size. The shape is not printed.

_BATCH = re.compile(r"Batch size:\s*(\d{1,9})\b")
_TIME = re.compile(r"Kernel time:\s*(\S{1,40})\s*us\b")
_ARGUMENT = re.compile(r"\b(model|tp_size|tp|ep_size|dtype)=('([^']{0,200})'|\d{1,6})")


def detect_log(sample: Sample) -> float:
    """0.95 when both kinds of line are in the beginning of the text."""
    return 0.95 if sample.kind == "text" and _BATCH.search(sample.head) and _TIME.search(sample.head) else 0.0


def read_log(sample: Sample) -> RawRows:
    """Read one kernel row per batch size with a time.

    A batch without a time is refused. Raises AdvisorError for a log that is too long.
    """
    if len(sample.data) > MAX_TEXT_LOG_BYTES:
        raise AdvisorError(f"{sample.name} is more than {MAX_TEXT_LOG_BYTES // MIB} MiB of log; cut it to the results")
    lines: list[int] = []
    tokens: list[str] = []
    times: list[str] = []
    rejects: list[Reject] = []
    pending: tuple[int, str] | None = None
    for number, line in enumerate(sample.data.decode("utf-8").split("\n"), start=1):
        batch, time = _BATCH.search(line), _TIME.search(line)
        if batch:
            if pending:
                rejects.append(_untimed(pending))
            pending = (number, batch[1])
        if time and pending:
            lines.append(number)
            tokens.append(pending[1])
            times.append(time[1])
            pending = None
        elif time:
            rejects.append(
                Reject(number, "Kernel time", shorten(line.strip()), "no batch size was printed before this time")
            )
    if pending:
        rejects.append(_untimed(pending))
    cells = {"num_tokens": Cells(tokens, "Batch size"), "latency_s": Cells(times, "Kernel time", 1e-6)}
    raw = RawRows("kernels", np.array(lines, dtype=np.int64), cells, rejects)
    raw.constant("op", "moe")
    arguments = {match[1]: match[3] or match[2] for match in _ARGUMENT.finditer(sample.head)}
    tensor_parallel = arguments.get("tp_size") or arguments.get("tp")
    if tensor_parallel and tensor_parallel.isdigit():
        raw.prefill["tp"] = int(tensor_parallel)
    if arguments.get("dtype") not in (None, "auto"):
        raw.prefill["dtype"] = arguments["dtype"]
    raw.notes.append("num_tokens is the printed batch size; the log states neither the layer's shape nor the GPU")
    return raw


def _untimed(pending: tuple[int, str]) -> Reject:
    return Reject(pending[0], "Batch size", pending[1], "no kernel time follows this batch size")


LOG = Format(
    "benchmark_moe",
    "a benchmark_moe log",
    "lines `Batch size: N, config: ...` followed by `Kernel time: X us`",
    detect_log,
    read_log,
)
