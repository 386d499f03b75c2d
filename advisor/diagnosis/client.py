"""What a benchmark's result says of its client beside the measured columns: facts by line of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from advisor.diagnosis.facts import as_number
from advisor.diagnosis.settings import settings_of
from advisor.ingest import open_upload
from advisor.prediction import AdvisorError

_FIELDS = {
    "completed": "requests_completed",
    "num_prompts": "requests_asked",
    "request_rate": "request_rate",
    "concurrency": "mean_concurrency",
    "max_output_tokens_per_s": "peak_tok_per_s",
    "total_output_tokens": "tokens_generated",
    "total_output_tokens_retokenized": "tokens_retokenized",
    "temperature": "temperature",
    "prefix_cache_hit_rate": "prefix_hit_share",
}
"""Fields of vLLM's and SGLang's result files, and the facts they are."""
_LABELS = {
    "successful requests": "requests_completed",
    "traffic request rate": "request_rate",
    "concurrency": "mean_concurrency",
    "peak output token throughput (tok/s)": "peak_tok_per_s",
    "total generated tokens": "tokens_generated",
    "total generated tokens (retokenized)": "tokens_retokenized",
}
"""Labels of the console block, likewise."""
_LINE = re.compile(r"^[\s>|*`]*([A-Za-z][\w ()/]*?)\s*:\s*([\d.]+)", re.MULTILINE)
_BLOCK = "Serving Benchmark Result"
_ASKED = re.compile(r"num_prompts=(\d+)")


def client_facts(name: str, data: bytes) -> dict[int, dict[str, Any]]:
    """Facts of each record of a result file by its line. Those of one that cannot be opened are none.

    What a console block says stands under the line of its title.
    """
    try:
        sample = open_upload(name, data)
    except AdvisorError:
        return {}
    if sample.kind == "text":
        return _from_blocks(data.decode("utf-8", errors="replace"))
    records = zip(sample.lines, sample.records, strict=True)
    return {line: _from_record(record) for line, record in records if isinstance(record, Mapping)}


def _from_record(record: Mapping[str, Any]) -> dict[str, Any]:
    found = {ours: number for theirs, ours in _FIELDS.items() if (number := as_number(record.get(theirs))) is not None}
    server = record.get("server_info")
    return {**(settings_of({**server, "_engine": "sglang"}) if isinstance(server, Mapping) else {}), **found}


def _from_blocks(text: str) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    pieces = text.split(_BLOCK)
    line = pieces[0].count("\n") + 1
    for before, piece in pairwise(pieces):
        facts: dict[str, Any] = {}
        for label, value in _LINE.findall(piece):
            fact = _LABELS.get(" ".join(label.lower().split()))
            if fact and fact not in facts:
                facts[fact] = as_number(value)
        if asked := _ASKED.findall(before):
            facts["requests_asked"] = float(asked[-1])
        out[line] = facts
        line += piece.count("\n")
    return out
