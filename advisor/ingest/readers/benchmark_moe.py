"""Log of vLLM's or SGLang's benchmark_moe without --tune: kernel times by batch size. The shape is not printed."""

from __future__ import annotations

import re

import numpy as np

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft
from advisor.ingest.limits import MAX_TEXT_LOG_BYTES, MIB
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "benchmark_moe"
FORMAT_NAME = "a benchmark_moe log"
RECOGNISED_BY = "lines `Batch size: N, config: ...` followed by `Kernel time: X us`"

_BATCH = re.compile(r"Batch size:\s*(\d{1,9})\b")
_TIME = re.compile(r"Kernel time:\s*(\S{1,40})\s*us\b")
_ARGUMENT = re.compile(r"\b(model|tp_size|tp|ep_size|dtype)=('([^']{0,200})'|\d{1,6})")


def detect(sample: Sample) -> float:
    """0.95 when both kinds of line are in the beginning of the text."""
    return 0.95 if sample.kind == "text" and _BATCH.search(sample.head) and _TIME.search(sample.head) else 0.0


def read(sample: Sample) -> Draft:
    """One kernel row per batch size with a time; a batch without a time is refused."""
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
    draft = Draft("kernels", np.array(lines, dtype=np.int64), cells, rejects)
    draft.constant("op", "moe")
    arguments = {match[1]: match[3] or match[2] for match in _ARGUMENT.finditer(sample.head)}
    draft.metadata = arguments
    tensor_parallel = arguments.get("tp_size") or arguments.get("tp")
    if tensor_parallel and tensor_parallel.isdigit():
        draft.prefill["tp"] = int(tensor_parallel)
    if arguments.get("dtype") not in (None, "auto"):
        draft.prefill["dtype"] = arguments["dtype"]
    draft.notes.append("num_tokens is the printed batch size; the log states neither the layer's shape nor the GPU")
    return draft


def _untimed(pending: tuple[int, str]) -> Reject:
    return Reject(pending[0], "Batch size", pending[1], "no kernel time follows this batch size")
