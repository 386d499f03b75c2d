"""Benchmark results of any known tool -> one table, with every refused row explained.

    result = read_upload("run.json", data)
    result = complete(result, {"hardware_id": "h200-sxm", "draft_tokens_k": 3})

Nothing is stored here. Everything that can go wrong with a file is an AdvisorError with one sentence.
"""

from __future__ import annotations

from advisor.ingest.acceptance import MAX_METRICS_BYTES, AcceptanceRates, rates_from_list, read_acceptance
from advisor.ingest.activation_log import ActivationLog, open_activation_log
from advisor.ingest.canonical import COLUMNS, column_table, template_csv
from advisor.ingest.combine import combine
from advisor.ingest.derived import match_baselines
from advisor.ingest.kept import kept_csv, kept_points, kept_table
from advisor.ingest.limits import MAX_BYTES, MIB
from advisor.ingest.pipeline import complete, resolve_names
from advisor.ingest.read import FORMATS, Format, read_upload
from advisor.ingest.remap import IGNORE, Header, own_headers, targets
from advisor.ingest.result import IngestResult, rejects_csv
from advisor.ingest.trace_file import MAX_TRACE_BYTES, LayerCounts, layer_counts, read_trace, read_traces

__all__ = [
    "COLUMNS",
    "FORMATS",
    "IGNORE",
    "MAX_BYTES",
    "MAX_METRICS_BYTES",
    "MAX_TRACE_BYTES",
    "MIB",
    "AcceptanceRates",
    "ActivationLog",
    "Format",
    "Header",
    "IngestResult",
    "LayerCounts",
    "column_table",
    "combine",
    "complete",
    "kept_csv",
    "kept_points",
    "kept_table",
    "layer_counts",
    "match_baselines",
    "open_activation_log",
    "own_headers",
    "rates_from_list",
    "read_acceptance",
    "read_trace",
    "read_traces",
    "read_upload",
    "rejects_csv",
    "resolve_names",
    "targets",
    "template_csv",
]
