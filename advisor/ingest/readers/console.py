"""The block `======= Serving Benchmark Result =======` that serving benchmarks print, from a log or pasted."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from advisor.ingest.cells import Cells
from advisor.ingest.raw import FieldMap, Format, RawRows, from_records
from advisor.ingest.readers.serve_fields import by_position, finish_serve, medians_note, model_cells, time_maps
from advisor.ingest.upload import MAX_TEXT_LOG_BYTES, MIB, Sample
from advisor.prediction import AdvisorError

_TITLE = "Serving Benchmark Result"
_LINE = re.compile(r"^[\s>|*`]*(?P<label>[A-Za-z][\w .()/%&,-]*?)\s*:\s*(?P<value>[^\s|`]+(?: set)?)[\s|`]*$")
"""`label: value`, also behind the marks of a quotation, a list or a table."""
_ENOUGH = 3
"""Figures under known labels that make a block of text without a title."""
_LONGEST_LINE = 300
_LABELS = {
    "successful requests": "_completed",
    "failed requests": "_failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "total input tokens": "_total_input",
    "total generated tokens": "_total_output",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "peak concurrent requests": "_peak",
    "concurrency": "_concurrency",
    "accept length": "accept_length",
    "acceptance length": "accept_length",
    "drafts": "_drafts",
    "draft tokens": "_draft_tokens",
    "accepted tokens": "_accepted",
    "backend": "backend",
}
_TIME = re.compile(r"^(mean|median) (ttft|tpot|itl|e2el|e2e latency) \(ms\)$")
_POSITION = re.compile(r"^position (\d+)$")
_ARGUMENT = re.compile(
    r"\b(model|tokenizer|served_model_name|dataset_name|max_concurrency|random_input_len|random_output_len)=(?:'([^']*)'|([\w.]+))"
)
"""Of the arguments that the tools print before they start (`Namespace(...)`), the ones that say something here."""
_MAPS = (
    FieldMap("batch_size", ("max_concurrency",)),
    FieldMap("dataset", ("dataset_name",)),
    FieldMap("output_tok_per_s", ("output_throughput",)),
    FieldMap("total_tok_per_s", ("total_token_throughput",)),
    FieldMap("accepted_length", ("accept_length",)),
    FieldMap("_asked_input", ("random_input_len",)),
    FieldMap("_asked_output", ("random_output_len",)),
    *(FieldMap(name, (name,)) for name in ("_completed", "_total_input", "_total_output")),
    *(FieldMap(name, (name,)) for name in ("_drafts", "_draft_tokens", "_accepted")),
    *time_maps(),
)


def detect(sample: Sample) -> float:
    """0.9 for text with the title of the block in its first 256 KiB. 0.8 for a block that was cut below its title."""
    if sample.kind != "text":
        return 0.0
    if _TITLE in sample.head:
        return 0.9
    return 0.8 if sum(_figure(line) is not None for line in sample.head.splitlines()[:200]) >= _ENOUGH else 0.0


def read(sample: Sample) -> RawRows:
    """One row per block. What the tools print before it (their arguments) is used where it is there.

    Raises AdvisorError for a log that is too long, or a block without a figure.
    """
    if len(sample.data) > MAX_TEXT_LOG_BYTES:
        raise AdvisorError(f"{sample.name} is longer than the {MAX_TEXT_LOG_BYTES // MIB} MiB of a log; cut it")
    records, lines = _blocks(sample.data.decode("utf-8", errors="replace"))
    if not any(records):
        raise AdvisorError(
            f"{sample.name} has the title {_TITLE!r} and no figures under it; paste the whole block, with lines such "
            "as `Mean TPOT (ms): 8.31`"
        )
    raw = RawRows("points", np.array(lines, dtype=np.int64), from_records(records, _MAPS), finish=finish_serve)
    raw.cells["model_id"], said = model_cells(records, ("model", "tokenizer", "served_model_name"))
    raw.notes += [*said, *medians_note(records), "the block is rounded to two decimals; the result file is more exact"]
    positions = [record.get("_by_position") for record in records]
    if any(positions):
        raw.cells |= by_position(positions)
    engines = [_engine(record) for record in records]
    raw.cells["engine"] = Cells(engines, "(block)")
    limited = ["max_concurrency" if "max_concurrency" in record else None for record in records]
    raw.cells["batch_kind"] = Cells(limited, "max_concurrency")
    if len(records) == 1:
        mean = records[0].get("_concurrency", records[0].get("_peak"))
        raw.prefill = {"batch_size": mean, "engine": engines[0]}
    return raw


def _blocks(text: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The figures of each block with the arguments printed before it, and the line of its title."""
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    arguments: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if _TITLE in line:
            records.append(dict(arguments))
            lines.append(number)
            arguments = {}
        elif "Namespace(" in line:
            arguments |= {
                name: quoted or bare for name, quoted, bare in _ARGUMENT.findall(line) if (quoted or bare) != "None"
            }
        elif found := _figure(line):
            if not records:
                records.append(dict(arguments))
                lines.append(number)
            _take(records[-1], *found)
    return records, lines


def _figure(line: str) -> tuple[str, str] | None:
    """Label and value of a line of the block. None for any other line."""
    found = _LINE.match(line[:_LONGEST_LINE])
    if found is None:
        return None
    label = " ".join(found["label"].lower().split())
    known = label in _LABELS or _TIME.match(label) or _POSITION.match(label)
    return (label, found["value"]) if known else None


def _take(record: dict[str, Any], label: str, value: str) -> None:
    """Keep one figure of a block. The first of a label counts, since logs go on behind the block."""
    if time := _TIME.match(label):
        record.setdefault(f"{time[1]}_{time[2].replace(' ', '_')}_ms", value)
    elif position := _POSITION.match(label):
        shares = record.setdefault("_by_position", [])
        if int(position[1]) == len(shares):
            shares.append(_share(value))
    elif label in _LABELS and value not in ("not", "not set", "None"):
        record.setdefault(_LABELS[label], value)


def _share(percent: str) -> float | None:
    """A share of a printed percentage. None where it is no number."""
    try:
        return float(percent) / 100.0
    except ValueError:
        return None


def _engine(record: dict[str, Any]) -> str | None:
    """SGLang's client names its backend. Draft counters are scraped from vLLM's server alone."""
    if "_drafts" in record:
        return "vllm"
    backend = str(record.get("backend", ""))
    return "sglang" if backend.startswith("sglang") else "vllm" if backend == "vllm" else None


BLOCK = Format(
    "serving_console",
    "the console block of a serving benchmark",
    "text with the title Serving Benchmark Result and lines such as `Mean TPOT (ms): 8.31`",
    detect,
    read,
)
