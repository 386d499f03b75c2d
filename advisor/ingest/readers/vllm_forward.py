"""`vllm bench forward --output-json`: one forward pass of a stated batch, so T_verify(B, K) itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.ingest.draft import Draft, FieldMap, from_records
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import Sample

FORMAT_ID = "vllm_forward"
FORMAT_NAME = "vLLM bench forward JSON"
RECOGNISED_BY = "a list of cases with requests (query_len, kv_len, num_draft_tokens) and median_us"

_MAPS = (
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("draft_tokens_k", ("k",)),
    FieldMap("context_tokens", ("context",)),
    FieldMap("verify_time_s", ("median_us",), 1e-6),
    FieldMap("point_id", ("case",)),
    FieldMap("notes", ("notes",)),
)


def detect(sample: Sample) -> float:
    """0.95 when the first record has requests with draft tokens and a median."""
    first = sample.first
    requests = first.get("requests")
    if "median_us" not in first or not isinstance(requests, list) or not requests:
        return 0.0
    return 0.95 if isinstance(requests[0], dict) and "query_len" in requests[0] else 0.0


def read(sample: Sample) -> Draft:
    """One row per case: B requests that verify the same K tokens. Prefill and mixed cases are refused."""
    records, lines, rejects = keep_objects(sample)
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    ranks = set()
    for record, line in zip(records, lines, strict=True):
        row, column, reason = _row(record)
        if row is None:
            value = record.get(column) if column else record.get("case")
            rejects.append(Reject(int(line), column, shorten(value), reason))
            continue
        rows.append(row)
        kept.append(int(line))
        if isinstance(record.get("ranks"), list) and record["ranks"]:
            ranks.add(len(record["ranks"]))
    prefill = {"gpu_count": ranks.pop()} if len(ranks) == 1 else {}
    draft = Draft("points", np.array(kept, dtype=np.int64), from_records(rows, _MAPS), rejects, prefill)
    draft.constant("engine", "vllm")
    draft.constant("batch_kind", "batch")
    draft.notes.append(
        "verify_time_s is the timed forward pass itself (median); it contains no drafting and no sampling"
    )
    return draft


def _row(record: dict[str, Any]) -> tuple[dict[str, Any] | None, str, str]:
    """The row of one case, or None with the field at fault and the reason."""
    requests = record.get("requests")
    if not isinstance(requests, list) or not requests or not all(isinstance(item, dict) for item in requests):
        return None, "requests", "expected a list of requests"
    if any(isinstance(rank, dict) and rank.get("finite") is False for rank in record.get("ranks") or []):
        return None, "case", "the tool marked the output of this case as not finite"
    drafts = {_whole(item.get("num_draft_tokens")) for item in requests}
    queries = {_whole(item.get("query_len")) for item in requests}
    if None in drafts or None in queries:
        return None, "requests", "num_draft_tokens and query_len must be whole numbers"
    if len(drafts) != 1 or len(queries) != 1:
        return None, "requests", "requests of this case differ in draft length; one row needs one K"
    k, query = drafts.pop() or 0, queries.pop()
    if query != k + 1:
        return (
            None,
            "requests",
            f"query_len {query} is not K + 1 = {k + 1}: a prefill or chunked case, not a decoding step",
        )
    contexts = [item.get("kv_len") for item in requests]
    numbers = [value for value in contexts if isinstance(value, int | float) and not isinstance(value, bool)]
    context = float(np.mean(numbers)) if len(numbers) == len(contexts) else None
    routing = {rank.get("routing") for rank in record.get("ranks") or [] if isinstance(rank, dict)} - {None}
    row = {
        "batch_size": len(requests),
        "k": k,
        "context": context,
        "median_us": record.get("median_us"),
        "case": record.get("case"),
        "notes": f"routing: {', '.join(sorted(map(str, routing)))}" if routing else None,
    }
    return row, "", ""


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if np.isfinite(value) and value == int(value) and value >= 0 else None
