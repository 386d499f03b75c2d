"""AIPerf profile_export_aiperf.csv and genai-perf CSV: a table of metrics, a table of totals, and GPU telemetry."""

from __future__ import annotations

import csv
import io
import re

from advisor.ingest.canonical import header_key
from advisor.ingest.draft import Draft
from advisor.ingest.readers.aiperf_metrics import Metric, draft_from_metrics
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "aiperf_csv"
FORMAT_NAME = "AIPerf or genai-perf CSV"
RECOGNISED_BY = "a first line that begins Metric,avg,min,max"

_UNIT = re.compile(r"^(?P<name>.*?)\s*(?:\((?P<unit>[^()]*)\))?\s*$")


def detect(sample: Sample) -> float:
    """0.95 for its first section's header."""
    start = tuple(cell.strip().lower() for cell in sample.header[:4])
    return 0.95 if sample.kind == "text" and start == ("metric", "avg", "min", "max") else 0.0


def read(sample: Sample) -> Draft:
    """One row for the file. Neither the concurrency nor the model is in it: both are asked for."""
    metrics, gpus = _parse(sample)
    draft = draft_from_metrics([metrics], [1])
    draft.notes.append("the CSV rounds to two decimals; the JSON of the same run is more exact")
    if "effective_concurrency_max" in metrics:
        draft.prefill["batch_size"] = _number(metrics["effective_concurrency_max"].value)
    names = {name for name, _ in gpus}
    if len(names) == 1:
        draft.prefill["hardware_id"] = names.pop()
        draft.prefill["gpu_count"] = len({uuid for _, uuid in gpus})
    return draft


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _parse(sample: Sample) -> tuple[dict[str, Metric], set[tuple[str, str]]]:
    """Mean of every metric under its snake-case name, and (name, uuid) of every GPU in the telemetry."""
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
            elif header[:1] == ["metric"]:
                _add_metric(metrics, header, row)
            elif header[:1] == ["endpoint"] and {"gpu_name", "gpu_uuid"} <= set(header) and len(row) >= len(header):
                gpus.add((row[header.index("gpu_name")].strip(), row[header.index("gpu_uuid")].strip()))
    except csv.Error as error:
        raise AdvisorError(f"{sample.name} is not a readable CSV ({error}); send it unedited") from error
    return metrics, gpus


def _add_metric(metrics: dict[str, Metric], header: list[str], row: list[str]) -> None:
    match = _UNIT.match(row[0].strip())
    if match is None or len(row) < 2:
        return
    key, unit = header_key(match["name"]), match["unit"] or ""
    metrics[key] = Metric(row[1], unit)
    if "max" in header and key == "effective_concurrency" and len(row) > header.index("max"):
        metrics["effective_concurrency_max"] = Metric(row[header.index("max")], unit)
