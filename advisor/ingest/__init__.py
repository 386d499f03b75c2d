"""Benchmark results of any known tool -> one table, with every refused row explained.

    rows = read_upload("run.json", data)
    rows = complete(rows, {"hardware_id": "h200-sxm", "draft_tokens_k": 3})
    rows.result.frame

Reading, naming, combining and completing add to an unfinished table; `result` computes and checks it, once. Nothing is
stored here. Everything that can go wrong with a file is an AdvisorError with one sentence.
"""

from __future__ import annotations

from advisor.ingest.acceptance import MAX_METRICS_BYTES, AcceptanceRates, rates_from_list
from advisor.ingest.acceptance_file import read_acceptance
from advisor.ingest.activation_log import ActivationLog, open_activation_log
from advisor.ingest.baselines import MATCH_COLUMNS
from advisor.ingest.canonical import COLUMNS, TableKind, template_csv
from advisor.ingest.given import GivenRows, read_given
from advisor.ingest.names import drafter_name, match_hardware
from advisor.ingest.power_log import read_power_log
from advisor.ingest.read import read_upload
from advisor.ingest.remap import IGNORE, Header, own_headers, target_label, targets
from advisor.ingest.result import IngestResult, MissingField, csv_of, kept_points, kept_table
from advisor.ingest.rows import NAME_COLUMNS, Rows, combine, complete, resolve_names, with_given
from advisor.ingest.trace_file import MAX_TRACE_BYTES, LayerCounts, layer_counts, read_trace, read_traces
from advisor.ingest.upload import MAX_BYTES, MIB, open_upload

__all__ = [
    "COLUMNS",
    "IGNORE",
    "MATCH_COLUMNS",
    "MAX_BYTES",
    "MAX_METRICS_BYTES",
    "MAX_TRACE_BYTES",
    "MIB",
    "NAME_COLUMNS",
    "AcceptanceRates",
    "ActivationLog",
    "GivenRows",
    "Header",
    "IngestResult",
    "LayerCounts",
    "MissingField",
    "Rows",
    "TableKind",
    "combine",
    "complete",
    "csv_of",
    "drafter_name",
    "kept_points",
    "kept_table",
    "layer_counts",
    "match_hardware",
    "open_activation_log",
    "open_upload",
    "own_headers",
    "rates_from_list",
    "read_acceptance",
    "read_given",
    "read_power_log",
    "read_trace",
    "read_traces",
    "read_upload",
    "resolve_names",
    "target_label",
    "targets",
    "template_csv",
    "with_given",
]
