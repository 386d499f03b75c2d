"""InferenceX and its relatives: aggregates (one run per object, seconds, rates per GPU), multi-turn
and local runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from advisor.measured.ingest.cells import Cells, read_table
from advisor.measured.ingest.result import rows_noted
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    MS,
    Format,
    RawRows,
    failures,
    field_maps,
    field_of,
    finish_serve,
    floats,
    loads_of,
    medians_note,
    raw_points,
    time_fields,
    time_maps,
    version_of_image,
    with_header,
)
from advisor.text import YES, number_of, says

# agg_*.json of single runs with fixed lengths, of agentic replays (flat in 2026-04, nested since
# 2026-07), and the rows that vLLM's own performance CI keeps in the same words.
_REQUESTS = "request_metrics"
_LATENCY = f"{_REQUESTS}.latency"
_AGGREGATE_MAPS = (
    *field_maps(
        batch_size="conc", input_tokens=f"isl|{_REQUESTS}.tokens.input.mean|mean_input_tokens"
    ),
    *field_maps(
        output_tokens=f"osl|{_REQUESTS}.tokens.output_actual.mean|mean_output_tokens_actual"
    ),
    *field_maps(tpot_s=f"mean_tpot|{_LATENCY}.tpot.mean|median_tpot"),
    *field_maps(ttft_s=f"mean_ttft|{_LATENCY}.ttft.mean|median_ttft"),
    *field_maps(
        request_latency_s=f"mean_e2el|{_LATENCY}.e2el.mean|median_e2el", date="date", _pp="pp"
    ),
    *field_maps(
        _pcp="pcp_size",
        _output_rate=f"output_tput_per_gpu|{_REQUESTS}.throughput.per_gpu.output_tput_tps",
    ),
    *field_maps(_rate=f"tput_per_gpu|{_REQUESTS}.throughput.per_gpu.total_tput_tps"),
    *field_maps(
        _whole_output_rate=f"{_REQUESTS}.throughput.output.tokens_per_second|output_tput_tps"
    ),
)
_MODEL = ("model", "infmax_model_prefix")
_OFF = frozenset({"", "none", "off", "false", "0"})


def read_aggregate(sample: Sample) -> RawRows:
    """One row per object. Speculation is named, its K is not: rows with it ask for K."""
    raw, records = raw_points(
        sample, _AGGREGATE_MAPS, _finish, _MODEL, batch_kind="max_concurrency"
    )
    cells = raw.cells
    cells["hardware_id"] = Cells(
        [_accelerator(record.get("hw", record.get("device"))) for record in records], "hw"
    )
    cells["engine"] = Cells([_engine(record.get("framework")) for record in records], "framework")
    methods = [_method(record.get("spec_decoding")) for record in records]
    cells["draft_tokens_k"] = Cells(
        [0 if method == "" else None for method in methods], "spec_decoding"
    )
    cells["drafter"] = Cells([method or None for method in methods], "spec_decoding")
    agentic = [
        isinstance(record.get(_REQUESTS), dict) or "agentic" in str(record.get("scenario_type", ""))
        for record in records
    ]
    # AIPerf's inter-token latency stands under both names in an agentic run: it is a time per
    # token, not per chunk.
    chunks = [
        None if replay else record.get("mean_itl")
        for replay, record in zip(agentic, records, strict=True)
    ]
    cells["itl_s"] = Cells(chunks, "mean_itl")
    split = [says(record.get("disagg"), YES) for record in records]
    many = [says(record.get("is_multinode"), YES) for record in records]
    cells["_split"] = Cells([int(is_split) for is_split in split], "disagg")
    placed = [_decode_placement(record, nodes) for nodes, record in zip(many, records, strict=True)]
    for name, key in _PLACED.items():
        cells[name] = Cells([place.get(name) for place in placed], key)
    cells["_tp"] = Cells(
        [None if nodes else record.get("tp") for nodes, record in zip(many, records, strict=True)],
        "tp",
    )
    cells["notes"] = Cells([_notes(record) for record in records], "disagg")
    kinds = [record.get("scenario_type") for record in records]
    cells["dataset"] = Cells(
        [kind if isinstance(kind, str) else None for kind in kinds], "scenario_type"
    )
    cells["engine_version"] = Cells(
        [version_of_image(record.get("image")) for record in records], "image"
    )
    fallback = ["device" in record and record.get("precision") == "bf16" for record in records]
    formats = [
        None if guessed else record.get("precision")
        for guessed, record in zip(fallback, records, strict=True)
    ]
    cells["weight_dtype"] = Cells(formats, "precision")
    if any(fallback):
        raw.note("precision")
    if any(agentic):
        raw.note("agentic")
    return raw


_PLACED = {
    "gpu_count": "num_decode_gpu",
    "tensor_parallel": "tp",
    "expert_parallel": "ep",
    "data_parallel": "dp_attention",
}


def _decode_placement(record: dict[str, Any], nodes: bool) -> dict[str, Any]:
    """Where a run decodes: parallel sizes, attention groups and copies (decode workers), as our
    columns.

    tp counts the GPUs of one worker. With data-parallel attention each of them is a group of its
    own: SGLang and TensorRT-LLM split their tp ranks so, and the recipes of vLLM start tp ranks of
    one GPU.
    """
    prefix = "decode_" if nodes else ""
    tp = record.get(f"{prefix}tp") or None
    ep = record.get(f"{prefix}ep") or None
    groups = says(record.get(f"{prefix}dp_attention"), YES)
    workers = record.get("decode_num_workers") if nodes else 1
    placement = {"tensor_parallel": tp, "expert_parallel": ep}
    if not isinstance(tp, int) or not isinstance(workers, int):
        return placement
    if groups or workers > 1:
        placement |= {"gpu_count": tp * workers, "data_parallel": workers * (tp if groups else 1)}
    if (
        groups and workers > 1 and ep == tp
    ):  # whole experts on every rank, as a server of groups of one GPU
        placement["tensor_parallel"] = 1
    return placement


def _notes(record: dict[str, Any]) -> str | None:
    notes = []
    if says(record.get("disagg"), YES):
        notes.append("prefill and decode on separate GPUs: decode nodes alone")
    if says(record.get("dp_attention") or record.get("decode_dp_attention"), YES):
        notes.append("data-parallel attention")
    return "; ".join(notes) or None


def _accelerator(text: Any) -> str | None:
    """`h200` of the runner `h200-cw_1`: the cluster that the part stands in says nothing of it."""
    return re.split(r"[-_]", text)[0] if isinstance(text, str) else None


def _engine(text: Any) -> str | None:
    """`sglang` of `dynamo-sglang` and `trt` of `dynamo-trt`: Dynamo is the front, not what runs the
    model."""
    return (
        re.sub(r"^(dynamo|mori|llmd)[-_]", "", text.strip().lower())
        if isinstance(text, str)
        else None
    )


def _method(value: Any) -> str | None:
    """'' without speculation, the method's name with it, None when the file does not say."""
    if value is None:
        return None
    text = str(value).strip().lower()
    return "" if text in _OFF else text


def _finish(frame: pd.DataFrame, raw: RawRows) -> None:
    """GPU count tp x pp x pcp and whole-run rates, where prefill and decode share the GPUs."""
    sizes = [np.nan_to_num(floats(frame, name), nan=1.0) for name in ("_pp", "_pcp")]
    gpus = np.where(
        floats(frame, "_split") == 0, floats(frame, "_tp") * sizes[0] * sizes[1], np.nan
    )
    known = ~np.isnan(gpus) & (gpus >= 1)
    if not known.any():
        return
    frame.loc[known, "gpu_count"] = gpus[known].astype(int)
    whole = floats(frame, "_whole_output_rate")
    frame["output_tok_per_s"] = np.where(
        known, np.where(np.isnan(whole), floats(frame, "_output_rate") * gpus, whole), np.nan
    )
    frame["total_tok_per_s"] = np.where(known, floats(frame, "_rate") * gpus, np.nan)
    raw.note("gpus_from_ranks")


# The table that the dashboard exports: one run a row. Its headers say ms, its values are seconds.
_EXPORTED = {
    "Model": "model",
    "ISL": "isl",
    "OSL": "osl",
    "Hardware": "hw",
    "Framework": "framework",
    "Precision": "precision",
    "TP": "tp",
    "EP": "ep",
    "Concurrency": "conc",
    "Date": "date",
    "Throughput/GPU (tok/s)": "tput_per_gpu",
    "Output Throughput/GPU (tok/s)": "output_tput_per_gpu",
    "Mean TTFT (ms)": "mean_ttft",
    "Mean TPOT (ms)": "mean_tpot",
    "Mean ITL (ms)": "mean_itl",
    "Mean E2E Latency (ms)": "mean_e2el",
    "Disaggregated": "disagg",
    "Spec Decoding": "spec_decoding",
    "DP Attention": "dp_attention",
    "Is Multinode": "is_multinode",
}
_TIMES = ("mean_ttft", "mean_tpot", "mean_itl", "mean_e2el")
_MOST_PER_TOKEN = 30.0
"""Times the rate a batch can give, read in seconds, above which times are in ms: seconds give
about 1, ms about 1,000. [-]"""


def read_export(sample: Sample) -> RawRows:
    """One row per run. The rates of the rows tell whether times are seconds or, as headers say, ms.

    Rows that decode on separate GPUs ask for their number.
    """
    table = read_table(sample)
    by_key = {key: table.column(header) for header, key in _EXPORTED.items()}
    columns = {key: column.to_pylist() for key, column in by_key.items() if column is not None}
    records = [
        {key: _cell(cell) for key, cell in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
    in_ms = _median_share(records) > _MOST_PER_TOKEN
    if in_ms:
        for record in records:
            times_ms = {key: number_of(record.get(key)) for key in _TIMES}
            record |= {key: MS * time for key, time in times_ms.items() if time is not None}
    lines = tuple(table.lines.tolist())
    raw = read_aggregate(replace(sample, kind="json", records=tuple(records), lines=lines))
    raw.rejects += table.rejects
    raw.note("times_read", in_ms=in_ms)
    return raw


def _cell(text: str | None) -> Any:
    """A cell as JSON has it: a number where it is one, None where it says nothing."""
    number = number_of(text or "")
    if number is None:
        return text or None
    return int(number) if number.is_integer() else number


def _median_share(records: Sequence[Mapping[str, Any]]) -> float:
    """Rate of all GPUs over what the batch gives at its time per token, read in seconds; the median
    of the rows. 1 where none tells. [-]"""
    names = ("output_tput_per_gpu", "tp", "mean_tpot", "conc")
    numbers = [[number_of(record.get(name)) or 0.0 for name in names] for record in records]
    shares = [row[0] * row[1] * row[2] / row[3] for row in numbers if all(row)]
    return float(np.median(shares)) if shares else 1.0


# Multi-turn runs: conc*.json with times as objects in milliseconds, or the server's and the
# client's view apart.
_TURN_MAPS = (
    *field_maps(
        batch_size="concurrency",
        gpu_count="server.n_gpu",
        input_tokens="isl.mean",
        output_tokens="osl.mean",
    ),
    *field_maps(
        output_tok_per_s="output_throughput_tok_per_s",
        total_tok_per_s="total_token_throughput_tok_per_s",
    ),
    *field_maps(MS, tpot_s="tpot_ms.mean|server.tpot_steady_ms", itl_s="itl_ms.mean"),
    *field_maps(
        MS,
        ttft_s="ttft_ms.mean|server.ttft_ms.mean",
        request_latency_s="e2e_ms.mean|server.e2e_ms.mean",
    ),
    *field_maps(_steady_rate="server.output_tput_per_gpu_steady"),
)


def detect_turns(sample: Sample) -> float:
    """0.9 for a concurrency with completed turns, at the top or in the client's view."""
    turns = (
        field_of(sample.first, "completed_turns") is not None
        or field_of(sample.first, "client.completed_turns") is not None
    )
    return 0.9 if sample.is_json and "concurrency" in sample.first and turns else 0.0


def read_turns(sample: Sample) -> RawRows:
    """One row per run. Neither accelerator nor K is in the file: both are asked for."""
    kind = "max_concurrency"
    return raw_points(
        sample, _TURN_MAPS, _finish_turns, ("model",), batch_kind=kind, dataset="multi-turn"
    )[0]


def _finish_turns(frame: pd.DataFrame, raw: RawRows) -> None:
    """The rate of all GPUs from the steady rate of one, where the file has no whole rate."""
    steady = floats(frame, "_steady_rate") * floats(frame, "gpu_count")
    empty = frame["output_tok_per_s"].isna().to_numpy() & ~np.isnan(steady)
    frame.loc[empty, "output_tok_per_s"] = steady[empty]
    raw.notes += rows_noted(steady_rate=empty)


# together_runner: a run of SGLang's or vLLM's client, its metrics beside the keys of an aggregate.
_LOCAL_MAPS = (
    *field_maps(
        hardware_id="hw",
        engine="framework",
        weight_dtype="precision",
        batch_size="conc",
        input_tokens="isl",
    ),
    *field_maps(
        output_tokens="osl",
        tensor_parallel="tp",
        expert_parallel="ep",
        gpu_count="gpu.n_gpus|tp",
        date="ts",
    ),
    *field_maps(
        output_tok_per_s="metrics.output_token_throughput",
        total_tok_per_s="metrics.total_token_throughput",
    ),
    *time_maps(within="metrics."),
)


def read_local(sample: Sample) -> RawRows:
    """One row per run. The file has no word on speculation, so K is asked for."""
    raw, records = raw_points(
        sample, _LOCAL_MAPS, models=("model", "profile"), batch_kind="max_concurrency"
    )
    raw.cells["engine_version"] = Cells(
        [version_of_image(record.get("image")) for record in records], "image"
    )
    raw.notes += medians_note(records, within="metrics.")
    return raw


# Runs that keep the client's arguments under benchmark_args, as results of ATOM and its contests
# are handed in.
_ARGUMENTS = "benchmark_args"
_LATENCIES = {name for names in time_fields().values() for name in names}
_MEASURED = frozenset({"output_throughput", "total_token_throughput", *_LATENCIES})
_ARGUED_MAPS = (
    *field_maps(
        dataset=f"{_ARGUMENTS}.dataset_name", _asked_input=f"{_ARGUMENTS}.random_input_len"
    ),
    *field_maps(_asked_output=f"{_ARGUMENTS}.random_output_len"),
    *field_maps(
        output_tok_per_s="output_throughput|output_token_throughput",
        total_tok_per_s="total_token_throughput",
    ),
    *field_maps(accepted_length="accept_length", _completed="successful_requests|completed"),
    *field_maps(
        _total_input="total_input_tokens",
        _total_output="total_generated_tokens|total_output_tokens",
    ),
    *field_maps(_rate="tput_per_gpu"),
    *time_maps(),
)


def detect_argued(sample: Sample) -> float:
    """0.95 for an object under benchmark_args beside a rate or a latency."""
    argued = isinstance(sample.first.get(_ARGUMENTS), dict) and sample.first.keys() & _MEASURED
    return 0.95 if sample.is_json and argued else 0.0


def read_argued(sample: Sample) -> RawRows:
    """One row per run. `backend` is the client's protocol, so the engine is asked for."""
    models = (f"{_ARGUMENTS}.model", f"{_ARGUMENTS}.tokenizer")
    raw, records = raw_points(sample, _ARGUED_MAPS, _finish_argued, models)
    raw.notes += medians_note(records)
    raw.cells |= loads_of(records, f"{_ARGUMENTS}.")
    raw.notes += failures(records, "failed_requests", "successful_requests")
    return raw


def _finish_argued(frame: pd.DataFrame, raw: RawRows) -> None:
    """What `finish_serve` fills, and the number of GPUs where the total rate is given per GPU
    too."""
    finish_serve(frame, raw)
    with np.errstate(invalid="ignore", divide="ignore"):
        gpus = floats(frame, "total_tok_per_s") / floats(frame, "_rate")
    known = np.isfinite(gpus) & (np.abs(gpus - np.round(gpus)) < 0.01) & (np.round(gpus) >= 1)
    if known.any():
        frame.loc[known, "gpu_count"] = np.round(gpus[known]).astype(int)
        raw.note("gpus_from_rates")


FORMATS = (
    Format.of_fields(
        "inferencex",
        "InferenceX aggregate JSON (single runs, agentic replays, vLLM's performance CI)",
        0.95,
        read_aggregate,
        ("hw|device", "conc", "framework", f"output_tput_per_gpu|{_REQUESTS}|tput_per_gpu"),
    ),
    Format(
        "inferencex_export",
        "InferenceX dashboard CSV",
        with_header(0.97, "Hardware Key", "Concurrency", "Mean TPOT (ms)", "Spec Decoding"),
        read_export,
    ),
    Format(
        "inferencex_multiturn",
        "InferenceX multi-turn JSON",
        detect_turns,
        read_turns,
        wants=(
            "concurrency",
            "completed_turns|client.completed_turns",
            "tpot_ms.mean|server.tpot_steady_ms",
        ),
    ),
    Format.of_fields(
        "together_runner",
        "together_runner JSON",
        0.96,
        read_local,
        ("hw", "conc", "framework", "isl", "osl", "metrics"),
    ),
    Format(
        "atom_results",
        "ATOM results JSON",
        detect_argued,
        read_argued,
        wants=(_ARGUMENTS, "|".join(sorted(_MEASURED))),
    ),
)
