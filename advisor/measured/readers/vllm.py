"""vLLM's benchmarks (serve, sweep, latency, throughput, forward) and the block that serving
benchmarks print."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from advisor.measured.ingest.cells import Cells, read_table
from advisor.measured.ingest.result import Reject, shorten
from advisor.measured.ingest.upload import MAX_TEXT_LOG_BYTES, MIB, Sample
from advisor.measured.readers.base import (
    PER_POSITION,
    FieldMap,
    Format,
    RawRows,
    by_position,
    closed_loads,
    failures,
    field_maps,
    finish_serve,
    from_records,
    from_table,
    keep_objects,
    loads_of,
    medians_note,
    raw_points,
    serving_engine,
    time_fields,
    time_maps,
    with_header,
)
from advisor.prediction import AdvisorError
from advisor.text import number_of


# Field names that `vllm bench serve` results share, whether written as JSON or flattened into a
# sweep's CSV.
def _spellings(*names: str) -> tuple[str, ...]:
    """Each name with underscores and with dashes: sweeps keep what the user typed."""
    return tuple(dict.fromkeys(form for name in names for form in (name, name.replace("_", "-"))))


def _spelled(**sources: str) -> tuple[FieldMap, ...]:
    """A map for each column from its fields in either spelling."""
    return tuple(
        FieldMap(column, _spellings(*paths.split("|"))) for column, paths in sources.items()
    )


_MODEL = (*_spellings("model_id", "model"), "tokenizer_id", "served_model_name")
_SERVE_MAPS: tuple[FieldMap, ...] = (
    FieldMap("model_id", _MODEL),
    *time_maps(),
    *field_maps(
        output_tok_per_s="output_throughput",
        total_tok_per_s="total_token_throughput|total_throughput",
    ),
    *field_maps(accepted_length="spec_decode_acceptance_length|accept_length"),
    *_spelled(
        hardware_id="hardware_id|hardware|gpu|device|gpu_name",
        gpu_count="gpu_count|num_gpus|n_gpus|gpus",
    ),
    *_spelled(tensor_parallel="tensor_parallel_size|tensor_parallel|tp_size|tp"),
    *_spelled(expert_parallel="expert_parallel_size|ep_size|ep"),
    *_spelled(data_parallel="data_parallel_size|data_parallel|dp_size|dp"),
    *_spelled(
        decode_context_parallel="decode_context_parallel_size|dcp_size|dcp",
        kv_dtype="kv_cache_dtype|kv_dtype",
    ),
    *_spelled(n_experts="num_experts|n_experts", n_active="topk|top_k|n_active"),
    *_spelled(
        weight_dtype="weight_dtype|quantization", engine_version="engine_version|vllm_version"
    ),
    *_spelled(
        dataset="dataset|dataset_name", drafter="drafter|spec_method|speculative_config.method"
    ),
    *_spelled(
        draft_tokens_k="draft_tokens_k|spec_k|num_speculative_tokens|speculative_config.num_speculative_tokens"
    ),
    *field_maps(_drafts="spec_decode_num_drafts", _draft_tokens="spec_decode_draft_tokens"),
    *field_maps(
        _accepted="spec_decode_accepted_tokens",
        _completed="completed",
        _total_input="total_input_tokens",
    ),
    *field_maps(_total_output="total_output_tokens"),
    *_spelled(_asked_input="random_input_len", _asked_output="random_output_len"),
)
# `vllm bench serve --save-result`: one JSON object, one per line, or a list of them.
_MEASURED = ("output_throughput", "total_token_throughput", "request_throughput")
_LATENCIES = frozenset(name for names in time_fields().values() for name in names)


def detect_serve(sample: Sample) -> float:
    """0.9 for the whole file. 0.6 for one that was trimmed to a rate and a latency, as CI and
    dashboards keep it."""
    keys = sample.first.keys()
    if not sample.is_json:
        return 0.0
    if keys >= {"duration", "completed", "output_throughput", "total_token_throughput"}:
        return 0.9
    return 0.6 if keys & {*_MEASURED} and keys & _LATENCIES else 0.0


def read_serve(sample: Sample) -> RawRows:
    """One row per run. `max_concurrency` stands for the batch; K and acceptance come from the
    metadata and counters."""
    raw, records = raw_points(sample, _SERVE_MAPS, finish_serve, _MODEL)
    cells = raw.cells
    raw.notes += medians_note(records)
    if any(PER_POSITION in record for record in records):
        cells |= by_position([record.get(PER_POSITION) for record in records])
    cells |= loads_of(records)
    raw.notes += failures(records)
    cells["engine"] = Cells([serving_engine(record) for record in records], "backend")
    cells["date"] = Cells([record.get("date") for record in records], "date")
    raw.prefill = {"engine": "vllm"}
    return raw


# `vllm bench sweep serve` summary.csv: one row per run, overrides as columns named as typed.
def read_sweep(sample: Sample) -> RawRows:
    """One row per run."""
    table = read_table(sample)
    cells = from_table(table, _SERVE_MAPS)
    printed = table.column(PER_POSITION)
    if printed is not None:
        cells |= by_position(printed.to_pylist())
    values = {}
    for name in ("max_concurrency", "request_rate", "failed", "completed"):
        spelled = (table.column(spelling) for spelling in _spellings(name))
        column = next((column for column in spelled if column is not None), None)
        values[name] = [None] * len(table.lines) if column is None else column.to_pylist()
    cells |= closed_loads(values["max_concurrency"], values["request_rate"])
    raw = RawRows("points", table.lines, cells, list(table.rejects), finish=finish_serve)
    raw.notes += failures(
        [
            {"failed": failed, "completed": completed}
            for failed, completed in zip(values["failed"], values["completed"], strict=True)
        ]
    )
    raw.constant("engine", "vllm")
    return raw


# `vllm bench latency --output-json`: the time of one whole batch; lengths and batch are not in it.
_LATENCY_MAPS = (
    *field_maps(
        model_id="model_id|model", request_latency_s="avg_latency", batch_size="batch_size"
    ),
    *field_maps(input_tokens="input_len", output_tokens="output_len"),
)


def read_latency(sample: Sample) -> RawRows:
    """One row per object. The output rate follows once batch and lengths are filled in."""
    raw, _ = raw_points(sample, _LATENCY_MAPS, engine="vllm", batch_kind="batch")
    return raw


# `vllm bench throughput --output-json`: offline throughput, prompt and generated tokens together.
_THROUGHPUT_MAPS = (
    *field_maps(
        model_id="model_id|model", total_tok_per_s="tokens_per_second", input_tokens="input_len"
    ),
    *field_maps(output_tokens="output_len"),
)


def read_throughput(sample: Sample) -> RawRows:
    """One row per object. The output rate follows once the two lengths are filled in."""
    raw, _ = raw_points(sample, _THROUGHPUT_MAPS, engine="vllm")
    return raw


# `vllm bench forward --output-json`: one forward pass of a stated batch, so T_verify(B, K) itself.
_FORWARD_MAPS = (
    *field_maps(batch_size="batch_size", draft_tokens_k="k", context_tokens="context"),
    *field_maps(1e-6, verify_time_s="median_us"),
    *field_maps(point_id="case", notes="notes", batch_kind="batch_kind"),
)
_PER_RANK = ("plain_per_rank", "verify_per_rank")
"""Names that our own check commands give cases whose requests are one data-parallel rank's."""


def detect_forward(sample: Sample) -> float:
    """0.95 when the first record has requests with draft tokens and a median."""
    first = sample.first
    requests = first.get("requests")
    if "median_us" not in first or not isinstance(requests, list) or not requests:
        return 0.0
    return 0.95 if isinstance(requests[0], dict) and "query_len" in requests[0] else 0.0


def read_forward(sample: Sample) -> RawRows:
    """One row per case: B requests that verify the same K tokens. Prefill and mixed cases are
    refused."""
    records, lines, rejects = keep_objects(sample)
    rows: list[dict[str, Any]] = []
    row_lines: list[int] = []
    ranks = set[int]()
    for record, line in zip(records, lines, strict=True):
        row, column, reason = _forward_row(record)
        if row is None:
            value = record.get(column) if column else record.get("case")
            rejects.append(Reject(int(line), column, shorten(value), reason))
            continue
        rows.append(row)
        row_lines.append(int(line))
        if isinstance(record.get("ranks"), list) and record["ranks"]:
            ranks.add(len(record["ranks"]))
    prefill = {"gpu_count": next(iter(ranks))} if len(ranks) == 1 else {}
    raw = RawRows(
        "points",
        np.array(row_lines, dtype=np.int64),
        from_records(rows, _FORWARD_MAPS),
        rejects,
        prefill,
    )
    raw.constant("engine", "vllm")
    if max(ranks, default=1) > 1 and not any(
        row["batch_kind"] == "requests_per_rank" for row in rows
    ):
        raw.note("of_one_rank")
    return raw


def _forward_row(record: dict[str, Any]) -> tuple[dict[str, Any] | None, str, str]:
    """The row of one case, or None with the field at fault and the reason."""
    requests = record.get("requests")
    if (
        not isinstance(requests, list)
        or not requests
        or not all(isinstance(item, dict) for item in requests)
    ):
        return None, "requests", "expected a list of requests"
    ranks = [rank for rank in record.get("ranks") or [] if isinstance(rank, dict)]
    if any(rank.get("finite") is False for rank in ranks):
        return None, "case", "the tool marked the output of this case as not finite"
    if any(
        rank.get("timing_scope", "target_only") != "target_only" or "drafter" in rank
        for rank in ranks
    ):
        reason = (
            "timed with its drafter, so it is neither a forward pass of the target nor a round as "
            "served; "
        )
        return None, "timing_scope", f"{reason}run it again with --exclude-drafter"
    drafts = {_whole(item.get("num_draft_tokens")) for item in requests}
    queries = {_whole(item.get("query_len")) for item in requests}
    if None in drafts or None in queries:
        return None, "requests", "num_draft_tokens and query_len must be whole numbers"
    if len(drafts) != 1 or len(queries) != 1:
        return None, "requests", "requests of this case differ in draft length; one row needs one K"
    k = drafts.pop() or 0
    query = queries.pop()
    if query != k + 1:
        reason = (
            f"query_len {query} is not K + 1 = {k + 1}: a prefill or chunked case, not a decoding "
            "step"
        )
        return None, "requests", reason
    contexts = [item.get("kv_len") for item in requests]
    numbers = [
        value
        for value in contexts
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    context = float(np.mean(numbers)) if len(numbers) == len(contexts) else None
    routing = {
        rank.get("routing") for rank in record.get("ranks") or [] if isinstance(rank, dict)
    } - {None}
    row = {
        "batch_size": len(requests),
        "k": k,
        "context": context,
        "median_us": record.get("median_us"),
        "case": record.get("case"),
        "notes": f"routing: {', '.join(sorted(map(str, routing)))}" if routing else None,
        "batch_kind": "requests_per_rank"
        if str(record.get("case")).startswith(_PER_RANK)
        else "batch",
    }
    return row, "", ""


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if np.isfinite(value) and value == int(value) and value >= 0 else None


_TITLE = "Serving Benchmark Result"
_LINE = re.compile(
    r"^[\s>|*`]*(?P<label>[A-Za-z][\w .()/%&,-]*?)\s*:\s*(?P<value>[^\s|`]+(?: set)?)[\s|`]*$"
)
"""`label: value`, also behind the marks of a quotation, a list or a table."""
_ENOUGH = 3
"""Figures under known labels that make a block of text without a title."""
_LONGEST_LINE = 300
_LABELS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "accept length": "accept_length",
    "acceptance length": "accept_length",
    "drafts": "spec_decode_num_drafts",
    "draft tokens": "spec_decode_draft_tokens",
    "accepted tokens": "spec_decode_accepted_tokens",
    "backend": "backend",
}
_LOAD = frozenset({"max_concurrency", "request_rate"})
"""Figures that a client also prints before its run, above the title of that run's block."""
_TIME = re.compile(r"^(mean|median) (ttft|tpot|itl|e2el|e2e latency) \(ms\)$")
_POSITION = re.compile(r"^position ([0-9]+)$")
_ARGUMENT = re.compile(
    r"\b(model|tokenizer|served_model_name|dataset_name|max_concurrency|request_rate|random_input_len|random_output_len)"
    r"=(?:'([^']*)'|([\w.]+))"
)
"""Of the arguments that the tools print before they start (`Namespace(...)`), the ones that say
something here."""


def detect(sample: Sample) -> float:
    """0.9 for text with the title Serving Benchmark Result and lines as `Mean TPOT (ms): 8.31`.

    The title stands in the first 256 KiB. 0.8 for a block that was cut below its title.
    """
    if sample.kind != "text":
        return 0.0
    if _TITLE in sample.head:
        return 0.9
    return (
        0.8
        if sum(_figure(line) is not None for line in sample.head.splitlines()[:200]) >= _ENOUGH
        else 0.0
    )


def read(sample: Sample) -> RawRows:
    """One row per block, with arguments printed before it. Raises AdvisorError for too long a log
    or an empty block."""
    if len(sample.data) > MAX_TEXT_LOG_BYTES:
        raise AdvisorError(
            f"{sample.name} is longer than the {MAX_TEXT_LOG_BYTES // MIB} MiB of a log; cut it"
        )
    records, lines = _blocks(sample.text)
    if not any(records):
        raise AdvisorError(
            f"{sample.name} has the title {_TITLE!r} and no figures under it; paste the whole "
            "block, with lines such as `Mean TPOT (ms): 8.31`"
        )
    raw = RawRows(
        "points",
        np.array(lines, dtype=np.int64),
        from_records(records, _SERVE_MAPS),
        finish=finish_serve,
    )
    raw.name_models(records, "model", "tokenizer", "served_model_name")
    raw.notes += medians_note(records)
    positions = [record.get("_by_position") for record in records]
    if any(positions):
        raw.cells |= by_position(positions)
    engines = [_engine(record) for record in records]
    raw.cells["engine"] = Cells(engines, "(block)")
    raw.cells |= loads_of(records)
    raw.notes += failures(records)
    if len(records) == 1:
        raw.prefill = {"engine": engines[0]}
    return raw


def _blocks(text: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The figures of each block with what its client printed before it, and the line of its
    title."""
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    before: dict[str, Any] = {}
    inside = _TITLE not in text
    for number, line in enumerate(text.splitlines(), start=1):
        if _TITLE in line:
            records.append(before)
            lines.append(number)
            before = {}
            inside = True
        elif line and not line.strip("= "):
            inside = False
        elif "Namespace(" in line:
            before |= {
                name: quoted or bare
                for name, quoted, bare in _ARGUMENT.findall(line)
                if (quoted or bare) != "None"
            }
        elif figure := _figure(line):
            ahead = not inside and (not records or _LABELS.get(figure[0]) in _LOAD)
            if not ahead and not records:
                records.append(before)
                lines.append(number)
            _take(before if ahead else records[-1], *figure)
    return records, lines


def _figure(line: str) -> tuple[str, str] | None:
    """Label and value of a line of the block. None for any other line."""
    match = _LINE.match(line[:_LONGEST_LINE])
    if match is None:
        return None
    label = " ".join(match["label"].lower().split())
    known = label in _LABELS or _TIME.match(label) or _POSITION.match(label)
    return (label, match["value"]) if known else None


def _take(record: dict[str, Any], label: str, value: str) -> None:
    """Keep one figure of a block. The first of a label counts, since logs go on behind the
    block."""
    if time := _TIME.match(label):
        record.setdefault(f"{time[1]}_{time[2].replace(' ', '_')}_ms", value)
    elif position := _POSITION.match(label):
        shares = record.setdefault("_by_position", [])
        if int(position[1]) == len(shares):
            number = number_of(value)
            shares.append(None if number is None else number / 100.0)
    elif label in _LABELS and value not in ("not", "not set", "None"):
        record.setdefault(_LABELS[label], value)


def _engine(record: dict[str, Any]) -> str | None:
    """SGLang's client names its backend. Draft counters are scraped from vLLM's server alone."""
    if "spec_decode_num_drafts" in record:
        return "vllm"
    backend = str(record.get("backend", ""))
    return "sglang" if backend.startswith("sglang") else "vllm" if backend == "vllm" else None


FORMATS = (
    Format(
        "vllm_serve",
        "vLLM bench serve JSON",
        detect_serve,
        read_serve,
        wants=(
            "|".join(_MEASURED),
            "|".join(name for names in time_fields().values() for name in names),
        ),
    ),
    Format.of_fields(
        "vllm_latency",
        "vLLM bench latency JSON",
        0.9,
        read_latency,
        ("avg_latency", "latencies", "percentiles"),
    ),
    Format.of_fields(
        "vllm_throughput",
        "vLLM bench throughput JSON",
        0.9,
        read_throughput,
        ("elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second"),
    ),
    # Above our own template, which shares some names.
    Format(
        "vllm_sweep",
        "vLLM bench sweep summary.csv",
        with_header(
            0.95, "run_number", "output_throughput", "total_token_throughput", "mean_tpot_ms"
        ),
        read_sweep,
    ),
    Format(
        "vllm_forward",
        "vLLM bench forward JSON",
        detect_forward,
        read_forward,
        wants=("case", "requests", "median_us"),
    ),
    Format("serving_console", "the console block of a serving benchmark", detect, read),
)
