"""Benchmark results of any known tool -> one table, with every refused row explained.

    result = read_upload("run.json", data)
    result = complete(result, {"hardware_id": "h200-sxm", "draft_tokens_k": 3})

Nothing is stored here. Everything that can go wrong with a file is an AdvisorError with one sentence.
"""

from advisor.ingest.acceptance import AcceptanceRates, rates_from_list, read_acceptance
from advisor.ingest.activation_log import ActivationLog, open_activation_log
from advisor.ingest.canonical import COLUMNS, Column, TableKind, column_table, template_csv
from advisor.ingest.combine import combine
from advisor.ingest.derived import Matching, match_baselines
from advisor.ingest.pipeline import READER_VERSION, complete, resolve_names
from advisor.ingest.read import FORMATS, Format, read_upload
from advisor.ingest.remap import IGNORE, Header, own_headers, targets
from advisor.ingest.result import IngestResult, MissingField, rejects_csv
from advisor.ingest.trace_file import LayerCounts, TraceFile, layer_counts, read_trace, read_traces

__all__ = [
    "COLUMNS",
    "FORMATS",
    "IGNORE",
    "READER_VERSION",
    "AcceptanceRates",
    "ActivationLog",
    "Column",
    "Format",
    "Header",
    "IngestResult",
    "LayerCounts",
    "Matching",
    "MissingField",
    "TableKind",
    "TraceFile",
    "column_table",
    "combine",
    "complete",
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
