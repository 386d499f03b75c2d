"""AIPerf's and genai-perf's files (JSON, CSV, per-request JSONL): their metrics mean the same in
all of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from advisor.measured.ingest.acceptance import histogram_shares
from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.columns import UNIT_FACTORS, header_key
from advisor.measured.ingest.derived import acceptance_by_position_text
from advisor.measured.ingest.result import ReadNote, Reject, shorten, warned
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    Format,
    RawRows,
    closed_loads,
    field_of,
    fill_k,
    mark_same_run,
    whole,
)
from advisor.prediction import AdvisorError
from advisor.text import number_of

COUNT_TOLERANCE = 0.10
"""Client and server token counts that differ by more make per-token times doubtful."""
_TIMES = {
    "inter_token_latency": "tpot_s",
    "inter_chunk_latency": "itl_s",
    "time_to_first_token": "ttft_s",
    "request_latency": "request_latency_s",
}
_OF_REQUEST = {
    "input_sequence_length": "input_tokens",
    "output_sequence_length": "output_tokens",
    "usage_completion_tokens": "_usage",
    "spec_decode_steps": "_steps",
    "spec_decode_draft_tokens": "_draft_tokens",
}
_OF_RUN = {
    "output_token_throughput": "output_tok_per_s",
    "total_token_throughput": "total_tok_per_s",
    "total_spec_decode_steps": "_total_steps",
    "total_draft_tokens": "_total_draft_tokens",
}
_ACCEPTED = ("spec_decode_token_weighted_acceptance_length", "spec_decode_acceptance_length")
"""Token-weighted first: the mean over requests weighs a short request as much as a long one."""
_OLD_TAGS = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "isl": "input_sequence_length",
    "osl": "output_sequence_length",
    "output_token_throughput_total": "output_token_throughput",
}
"""How AIPerf's first releases called today's metrics."""


@dataclass(frozen=True)
class Metric:
    """A metric's mean and its unit, as written."""

    value: Any
    unit: str


def raw_from_metrics(rows: Sequence[Mapping[str, Metric]], lines: Sequence[int]) -> RawRows:
    """One row per metric set. Raises AdvisorError on a time in an unknown unit."""
    cells: dict[str, Cells] = {}
    for source, column in (_TIMES | _OF_RUN | _OF_REQUEST).items():
        metrics = [row.get(source) for row in rows]
        if any(metric is not None for metric in metrics):
            cells[column] = Cells(
                [None if metric is None else _value(source, metric) for metric in metrics], source
            )
    accepted = [next((row[name].value for name in _ACCEPTED if name in row), None) for row in rows]
    if any(value is not None for value in accepted):
        cells["accepted_length"] = Cells(accepted, _ACCEPTED[0])
    raw = RawRows("points", np.array(lines, dtype=np.int64), cells)
    raw.notes += _count_warnings(rows)
    raw.finish = _finish
    return raw


def _value(name: str, metric: Metric) -> Any:
    """The value, times in seconds. A time that is no number is passed on so that the row is
    refused."""
    if name not in _TIMES:
        return metric.value
    factor = UNIT_FACTORS.get(metric.unit.strip().lower())
    if factor is None:
        raise AdvisorError(
            f"{name} is in {metric.unit or 'no unit'!r}; expected one of s, ms, us, ns"
        )
    number = number_of(metric.value)
    return metric.value if number is None else number * factor


def _count_warnings(rows: Sequence[Mapping[str, Metric]]) -> list[ReadNote]:
    """Where the tool's tokenizer and the server count differently, token latency and what follows
    from it are off."""
    for row in rows:
        client = row.get("output_sequence_length")
        server = row.get("usage_completion_tokens")
        if client is None or server is None:
            continue
        ours = number_of(client.value)
        theirs = number_of(server.value)
        if (
            ours is not None
            and theirs
            and theirs > 0
            and abs(ours / theirs - 1.0) > COUNT_TOLERANCE
        ):
            return [warned("counts_differ", client=ours, server=theirs)]
    return []


def _finish(frame: pd.DataFrame, raw: RawRows) -> None:
    """K from the draft counters, where they divide evenly."""
    mark_same_run(frame)
    for tokens, steps in (("_total_draft_tokens", "_total_steps"), ("_draft_tokens", "_steps")):
        if tokens not in frame or steps not in frame:
            continue
        ratio = (frame[tokens] / frame[steps].where(frame[steps] > 0)).to_numpy(dtype=float)
        fill_k(frame, whole(ratio), "steps", raw)


# AIPerf profile_export_aiperf.json and the older genai-perf *_genai_perf.json: one run per file.
def detect_json(sample: Sample) -> float:
    """Confidence 0.95 when request_latency is an object with a unit and a mean, else lower.

    It stands at the top or (before 0.3) under `records`.
    """
    metric = _metrics_of(sample.first).get("request_latency")
    return (
        0.95
        if sample.kind == "json" and isinstance(metric, dict) and {"unit", "avg"} <= metric.keys()
        else 0.0
    )


def _metrics_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metrics of a run by today's names: the first releases kept them under `records` and
    called some by tags."""
    records = document.get("records")
    return _renamed(records if isinstance(records, dict) else document)


def _renamed(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    return {_OLD_TAGS.get(name, name): value for name, value in metrics.items()}


def read_json(sample: Sample) -> RawRows:
    """One row. Raises AdvisorError for a run that was cancelled before its end."""
    document = sample.first
    if document.get("is_complete") is False or document.get("was_cancelled") is True:
        raise AdvisorError(
            f"{sample.name} records a run that was cancelled before its end; send a finished one"
        )
    metrics = {
        key: Metric(value.get("avg"), str(value.get("unit", "")))
        for key, value in _metrics_of(document).items()
        if isinstance(value, dict) and "avg" in value
    }
    raw = raw_from_metrics([metrics], [1])
    shares = histogram_shares(document.get("pooled_spec_decode_acceptance_histogram"))
    if shares is not None:
        raw.constant(
            "acceptance_by_position", acceptance_by_position_text(shares), "acceptance histogram"
        )
        if "accepted_length" not in raw.cells:
            raw.constant("accepted_length", 1.0 + sum(shares), "acceptance histogram")
    config = document.get("input_config")
    model = _model(config)
    if model:
        raw.constant("model_id", model, "input_config")
    concurrency = _of_load(config, "concurrency")
    limit = concurrency.pop() if len(concurrency) == 1 else None  # of the one profiling phase
    # Requests a second of a phase that sends at a rate, whatever it capped; none where all might
    # come at once.
    rate = max(_of_load(config, "request_rate") | _of_load(config, "rate"), default=None)
    raw.cells |= closed_loads([limit], [rate], "input_config concurrency")
    return raw


def _model(config: Any) -> str | None:
    items = field_of(config, "models.items")
    if isinstance(items, list) and len(items) == 1 and isinstance(items[0], dict):
        name = items[0].get("name")
        return name if isinstance(name, str) else None
    for path in ("model", "model_names", "formatted_model_name"):
        value = field_of(config, path)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return None


def _of_load(config: Any, name: str) -> set[Any]:
    """What the profiling phases state under a name, or the places where earlier releases kept
    it."""
    phases = field_of(config, "phases")
    if isinstance(phases, list):
        values = [
            phase.get(name)
            for phase in phases
            if isinstance(phase, dict) and phase.get("kind", "profiling") == "profiling"
        ]
        return {value for value in values if _is_number(value)}
    places = ("", "perf_analyzer.stimulus.", "loadgen.")
    values = [field_of(config, f"{place}{name}") for place in places]
    numbers = [value for value in values if _is_number(value)]
    return set(numbers[:1])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# AIPerf profile_export_aiperf.csv and genai-perf CSV: a table of metrics, a table of totals, and
# GPU telemetry.
_UNIT = re.compile(r"^(?P<name>.*?)\s*(?:\((?P<unit>[^()]*)\))?\s*$")


def detect_csv(sample: Sample) -> float:
    """0.95 for a first line that begins Metric,avg,min,max."""
    start = tuple(cell.strip().lower() for cell in sample.header[:4])
    return 0.95 if sample.kind == "text" and start == ("metric", "avg", "min", "max") else 0.0


def read_csv(sample: Sample) -> RawRows:
    """One row for the file. The model is not in it and is asked for."""
    metrics, gpus = _parse_csv(sample)
    raw = raw_from_metrics([metrics], [1])
    names = {name for name, _ in gpus}
    if len(names) == 1:
        raw.prefill["hardware_id"] = names.pop()
        raw.prefill["gpu_count"] = len({uuid for _, uuid in gpus})
    return raw


def _parse_csv(sample: Sample) -> tuple[dict[str, Metric], set[tuple[str, str]]]:
    """Mean of every metric under its snake-case name, and (name, uuid) of every GPU in the
    telemetry."""
    metrics: dict[str, Metric] = {}
    gpus: set[tuple[str, str]] = set()
    header: list[str] = []
    try:
        for row in csv.reader(io.StringIO(sample.data.decode("utf-8")), delimiter=sample.delimiter):
            if not row or not any(cell.strip() for cell in row):
                continue
            first = row[0].strip()
            if first in ("Metric", "Endpoint"):
                header = [cell.strip().lower() for cell in row]
            elif header[:1] == ["metric"] and (match := _UNIT.match(first)) and len(row) > 1:
                metrics[header_key(match["name"])] = Metric(row[1], match["unit"] or "")
            elif (
                header[:1] == ["endpoint"]
                and {"gpu_name", "gpu_uuid"} <= set(header)
                and len(row) >= len(header)
            ):
                gpus.add(
                    (row[header.index("gpu_name")].strip(), row[header.index("gpu_uuid")].strip())
                )
    except csv.Error as error:
        raise AdvisorError(
            f"{sample.name} is not a readable CSV ({error}); send it unedited"
        ) from error
    return metrics, gpus


# AIPerf profile_export.jsonl: one line per request; the requests of the file become one row of
# means.
_WANTED = (*_TIMES, *_OF_REQUEST, "spec_decode_acceptance_length")


def detect_records(sample: Sample) -> float:
    """Confidence 0.95 for per-request metrics, under `metrics` or bare (early
    record_metrics.jsonl)."""
    latency = _of_request(sample.first).get("request_latency")
    return 0.95 if isinstance(latency, dict) and {"value", "unit"} <= latency.keys() else 0.0


def _of_request(record: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = record.get("metrics")
    return _renamed(metrics if isinstance(metrics, dict) else record)


def read_records(sample: Sample) -> RawRows:
    """One row of means over good requests, of chunk latency over chunks. Raises AdvisorError when
    none is left."""
    rejects = list(sample.rejects)
    values: dict[str, list[Any]] = {name: [] for name in _WANTED}
    units: dict[str, str] = {}
    n_used = n_warm = 0
    for record, line in zip(sample.records, sample.lines, strict=True):
        metrics = _of_request(record) if isinstance(record, dict) else {}
        if "request_latency" not in metrics or record.get("error"):
            failure = record.get("error") if isinstance(record, dict) else record
            rejects.append(
                Reject(line, "error", shorten(failure), "a failed request; it has no times")
            )
            continue
        if field_of(record, "metadata.benchmark_phase") not in (None, "profiling"):
            n_warm += 1
            continue
        request_values, problem = _numbers(metrics, units)
        if problem:
            reason = "not a finite number in the file's unit, or a time that is not above 0"
            rejects.append(Reject(line, problem, shorten(metrics.get(problem)), reason))
            continue
        n_used += 1
        for name, numbers in request_values.items():
            values[name] += numbers
    if not n_used:
        raise AdvisorError(
            f"{sample.name} holds no successful request; send a run with at least one"
        )
    means = {
        name: Metric(float(np.mean(list_)), units.get(name, ""))
        for name, list_ in values.items()
        if list_
    }
    raw = raw_from_metrics([means], [min(sample.lines)])
    raw.rejects = rejects
    raw.note("means_of_requests", n=n_used)
    if n_warm:
        raw.note("warm_up", left=(n_warm, "request"))
    return raw


def _numbers(
    metrics: Mapping[str, Any], units: dict[str, str]
) -> tuple[dict[str, list[float]], str]:
    """The wanted metrics of one request as lists of finite numbers, or the name of the first that
    is not."""
    numbers_by_name: dict[str, list[float]] = {}
    for name in _WANTED:
        metric = metrics.get(name)
        if not isinstance(metric, dict) or metric.get("value") is None:
            continue
        unit = str(metric.get("unit", ""))
        value = metric["value"]
        numbers = value if isinstance(value, list) else [value]
        good = all(_is_number(n) and abs(n) < 1e15 for n in numbers)
        # A time within a list may be 0, of chunks that came at once; that of a request may not, nor
        # any be negative.
        if name in _TIMES and good:
            good = all(n > 0 or (n == 0 and isinstance(value, list)) for n in numbers)
        if not good or units.setdefault(name, unit) != unit:
            return {}, name
        numbers_by_name[name] = [float(number) for number in numbers]
    return numbers_by_name, ""


FORMATS = (
    Format(
        "aiperf_json",
        "AIPerf or genai-perf JSON",
        detect_json,
        read_json,
        wants=(
            "request_latency.avg|records.request_latency.avg",
            "request_latency.unit|records.request_latency.unit",
        ),
    ),
    Format("aiperf_csv", "AIPerf or genai-perf CSV", detect_csv, read_csv),
    Format(
        "aiperf_records",
        "AIPerf per-request JSONL",
        detect_records,
        read_records,
        wants=(
            "metrics.request_latency.value|request_latency.value",
            "metrics.request_latency.unit|request_latency.unit",
        ),
    ),
)
