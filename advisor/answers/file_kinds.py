"""What a file is, by its content alone: the one question before any reader is chosen."""

from __future__ import annotations

import io
import re
import tokenize
import zipfile
from typing import Literal

import numpy as np

from advisor.answers.diagnosis.facts import read_servers
from advisor.measured.ingest.read import detect
from advisor.measured.ingest.upload import Sample, open_upload
from advisor.prediction import AdvisorError

Kind = Literal["benchmark", "server", "config", "trace", "loads", "acceptance", "power"]
KIND_NAMES: dict[Kind, str] = {
    "benchmark": "benchmark",
    "server": "launch line or server log",
    "config": "config.json of a model",
    "trace": "routing trace",
    "loads": "loads of experts",
    "acceptance": "acceptance by position",
    "power": "power log",
}
_METRICS = re.compile(rb"^(?:#.*\s)?(?:vllm:spec_decode_|sglang:spec_)|golden AL", re.MULTILINE)
_RATES = re.compile(r"[\s\[]*(?:0?\.\d+|1(?:\.0+)?)(?:\s*[,;]\s*(?:0?\.\d+|1(?:\.0+)?))*[\s\]]*")
_DCGM = re.compile(r"^#\s*Entity\b.*POWER|power\.draw", re.IGNORECASE | re.MULTILINE)
_TRACE_KEYS = ("routed_experts", "expert_ids", "experts", "topk_ids")
_HEAD = 64 * 1024
_MAX_DEPTH = 6


def kind_of(name: str, data: bytes) -> Kind:
    """The kind of a file. What is of no other kind is a benchmark, whose reader says what it
    lacks."""
    if data.startswith(b"\x93NUMPY"):
        return _of_array(data)
    if data.startswith(b"PK\x03\x04"):
        return "trace" if _only_arrays(data) else "benchmark"
    head = data[:_HEAD]
    if _METRICS.search(head):
        return "acceptance"
    text = head.decode("utf-8-sig", errors="replace")
    if _DCGM.search(text[:4096]):
        return "power"
    if _RATES.fullmatch(text):
        return "acceptance"
    try:
        sample = open_upload(name, data)
    except AdvisorError:
        return "benchmark"
    if sample.kind == "text":
        return _of_text(text, sample)
    return "benchmark" if sample.kind == "parquet" else _of_json(sample)


def _of_json(sample: Sample) -> Kind:
    first = sample.first
    if isinstance(sample.document, dict) and {"model_type", "architectures"} & first.keys():
        return "config"
    if _is_benchmark(sample):
        return "benchmark"
    if _holds(first, _TRACE_KEYS):
        return "trace"
    return "acceptance" if _holds(first, ("acceptance_histogram",), part=True) else "benchmark"


def _of_text(text: str, sample: Sample) -> Kind:
    header = {cell.strip().lower() for cell in sample.header}
    if {"sequence", "token"} <= header:
        return "trace"
    if {"layer", "expert", "tokens"} <= header:
        return "loads"
    servers = read_servers(text)
    if any("launch_line" in facts for _, facts in servers):
        # with the runs printed below it: K and settings of a run stand in its launch line
        return "server"
    if _is_benchmark(sample):
        return "benchmark"
    return "server" if servers else "benchmark"


def _is_benchmark(sample: Sample) -> bool:
    try:
        detect(sample)
    except AdvisorError:
        return False
    return True


def _holds(node: object, keys: tuple[str, ...], depth: int = 0, *, part: bool = False) -> bool:
    """Whether a document has one of these fields, however deep; `part`: or one whose name holds
    it."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, dict):
        has_key = any(
            key in keys or (part and any(name in str(key) for name in keys)) for key in node
        )
        return has_key or any(_holds(item, keys, depth + 1, part=part) for item in node.values())
    return isinstance(node, list) and any(
        _holds(item, keys, depth + 1, part=part) for item in node[:20]
    )


def _of_array(data: bytes) -> Kind:
    """Loads are [layers, experts]; a trace has a third axis."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape = read(file)[0]
    except (ValueError, OSError, EOFError, SyntaxError, OverflowError, tokenize.TokenError):
        return "trace"  # a header that cannot be read: the trace reader says so
    return "loads" if len(shape) == 2 else "trace"


def _only_arrays(data: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            return all(member.endswith(".npy") for member in packed.namelist())
    except zipfile.BadZipFile:
        return False
