"""What a launch line, printed server arguments or a server's log say of the server: facts by name."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from advisor.catalog import engine_called
from advisor.ingest import drafter_name

MAX_TEXT = 4_000_000
"""Characters of a log that are looked at. [-]"""
_LAUNCHES = re.compile(r"(?:vllm\s+serve|vllm\.entrypoints[\w.]*|sglang\.launch_server|sglang\s+serve)\b[^\n]*")
_PRINTED = re.compile(r"(?:ServerArgs|server_args=ServerArgs|Namespace)\((?P<args>[^\n]*)\)")
_SERVES = re.compile(r"subparser='serve'|gpu_memory_utilization=|max_num_seqs=")
"""What tells a server's printed arguments from those of a benchmark."""
_NON_DEFAULT = re.compile(r"non-default args: (?P<args>\{[^\n]*\})")
_PAIR = re.compile(r"\b(?P<name>[a-z][a-z0-9_]*)=(?P<value>'[^']*'|\"[^\"]*\"|\{[^}]*\}|\[[^\]]*\]|[^,()\s]+)")
_VERSION = re.compile(
    r"(?:vLLM (?:API server )?version v?|LLM engine \(v)(?P<vllm>\d+(?:\.\d+)+\w*)"
    r"|sglang[ =]+v?(?P<sglang>\d+(?:\.\d+)+\w*)",
    re.I,
)


@dataclass(frozen=True)
class _Flag:
    """Which fact a flag gives, and how its value is read."""

    fact: str
    read: Callable[[Any], Any]


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _true(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes", "")


def _false(value: Any) -> bool:
    return not _true(value)


def _largest(value: Any) -> int | None:
    """The largest of a list of sizes, as typed after a flag or printed."""
    sizes = [int(size) for size in re.findall(r"\d+", str(value))]
    return max(sizes, default=None)


def _decimal(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


_FLAGS: Mapping[str, _Flag] = {
    "max_num_seqs": _Flag("max_num_seqs", _whole),
    "max_num_batched_tokens": _Flag("max_num_batched_tokens", _whole),
    "enforce_eager": _Flag("graphs_off", _true),
    "disable_cuda_graph": _Flag("graphs_off", _true),
    "cudagraph_mode": _Flag("graph_mode", lambda value: str(value).rpartition(".")[2].upper()),
    "cudagraph_capture_sizes": _Flag("largest_graph", _largest),
    "cuda_graph_sizes": _Flag("largest_graph", _largest),
    "max_cudagraph_capture_size": _Flag("largest_graph", _whole),
    "cuda_graph_max_bs": _Flag("largest_graph_batch", _whole),
    "cuda_graph_bs": _Flag("largest_graph_batch", _largest),
    "max_running_requests": _Flag("max_running_requests", _whole),
    "async_scheduling": _Flag("asynchronous", _true),
    "no_async_scheduling": _Flag("asynchronous", _false),
    "disable_overlap_schedule": _Flag("asynchronous", _false),
    "data_parallel_size": _Flag("data_parallel", _whole),
    "dp_size": _Flag("data_parallel", _whole),
    "dp": _Flag("data_parallel", _whole),
    "tensor_parallel_size": _Flag("tensor_parallel", _whole),
    "tp_size": _Flag("tensor_parallel", _whole),
    "tp": _Flag("tensor_parallel", _whole),
    "speculative_eagle_topk": _Flag("draft_topk", _whole),
    "speculative_num_steps": _Flag("draft_tokens_k", _whole),
    "num_speculative_tokens": _Flag("draft_tokens_k", _whole),
    "temperature": _Flag("temperature", _decimal),
    "model": _Flag("model_id", str),
    "model_path": _Flag("model_id", str),
}
"""Flags by their name without dashes, as launch lines, `ServerArgs(...)` and `non-default args` write them."""
_UNSAID = {"graphs_off": False, "draft_graphs_off": False, "asynchronous": True, "data_parallel": 1}
"""What holds where a launch line says nothing of it."""
_BARE = frozenset({"enforce_eager", "disable_cuda_graph", "no_async_scheduling", "disable_overlap_schedule"})
_VLLM_LINE = re.compile(r"Running: (\d+) reqs, Waiting: (\d+) reqs")
_SGLANG_LINE = re.compile(r"Decode batch[^\n]*?#running-req: (\d+)[^\n]*")
_QUEUE = re.compile(r"#queue-req: (\d+)")
_HITS = re.compile(r"Prefix cache hit rate: ([\d.]+)%")
_POOL = re.compile(r"GPU KV cache size: ([\d,]+) tokens|max_total_num_tokens=(\d+)")
_LOWERED = re.compile(r"[Ss]etting cudagraph_mode=(?:CUDAGraphMode\.)?(\w+)")
_VLLM_RATE = re.compile(r"Avg generation throughput: ([\d.]+) tokens/s, Running: ([1-9]\d*) reqs")
_SGLANG_RATE = re.compile(r"#running-req: ([1-9]\d*)[^\n]*?gen throughput \(token/s\): ([\d.]+)")
_POSITIONS = re.compile(r"Per-position acceptance rate: ([\d., ]+)")
_MEAN_LENGTH = re.compile(r"Mean acceptance length: ([\d.]+)|accept len: ([\d.]+)")


def read_settings(text: str) -> dict[str, Any]:
    """Facts of a server from a text that holds its launch line, its printed arguments or its log. Empty for none.

    Of a log, means over its lines while requests run; the first of several launch lines counts.
    """
    text = re.sub(r"\\\r?\n\s*", " ", text[:MAX_TEXT])
    arguments = {**_from_printed(text), **_from_launch(text)}
    facts = {**_UNSAID, **_facts_of(arguments)} if arguments else {}
    if found := _VERSION.search(text):
        engine = "vllm" if found["vllm"] else "sglang"
        facts.setdefault("engine", engine)
        facts["engine_version"] = found["vllm"] or found["sglang"]
    return {name: value for name, value in {**facts, **_from_log(text)}.items() if value is not None}


def read_servers(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Line and facts of each server that a text tells of.

    What stands behind a launch line is of that server.

    The line is that of the launch; what a log says before the first launch line is of its server too.
    """
    starts = [found.start() for found in _LAUNCHES.finditer(text[:MAX_TEXT])]
    edges = [0, *starts[1:], len(text)]
    lines = [text.count("\n", 0, start) + 1 for start in starts or [0]]
    pieces = [(line, read_settings(text[start:end])) for line, (start, end) in zip(lines, pairwise(edges), strict=True)]
    return [(line, facts) for line, facts in pieces if facts]


def settings_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a server from its arguments as an object, as SGLang's benchmark stores them."""
    return {name: value for name, value in _facts_of(arguments).items() if value is not None}


def _from_launch(text: str) -> dict[str, Any]:
    found = _LAUNCHES.search(text)
    if found is None:
        return {}
    try:
        words = shlex.split(found[0].split(" && ")[0], comments=True)
    except ValueError:
        words = found[0].split()
    out: dict[str, Any] = {"_engine": re.split(r"[\s.]", found[0])[0]}
    if "serve" in words[:-1] and not words[words.index("serve") + 1].startswith("-"):
        out["model"] = words[words.index("serve") + 1]
    for place, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = words[place + 1 :]
        values = [value] if equals else list(_until_flag(following))
        out[name.replace("-", "_").replace(".", "_")] = " ".join(values)
    return out


def _until_flag(words: list[str]) -> list[str]:
    end = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    return words[:end]


def _from_printed(text: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for found in _PRINTED.finditer(text):
        if "ServerArgs" in found[0] or _SERVES.search(found[0]):
            out |= {pair["name"]: _literal(pair["value"]) for pair in _PAIR.finditer(found["args"])}
            out["_engine"] = "sglang" if "ServerArgs" in found[0] else out.get("_engine", "vllm")
    if stated := _NON_DEFAULT.search(text):
        try:
            out |= ast.literal_eval(stated["args"])
            out["_engine"] = "vllm"
        except (ValueError, SyntaxError, RecursionError):
            pass
    return out


def _literal(value: str) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError):
        return value


def _object(value: Any) -> dict[str, Any]:
    """An argument that is a JSON object, as given or printed. Empty for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(str(value))
        except (ValueError, SyntaxError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def _facts_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Facts by name from arguments by their own names."""
    if not arguments:
        return {}
    graphs = _object(arguments.get("compilation_config"))
    spec = _object(arguments.get("speculative_config"))
    flat = {**arguments, **graphs, **{k: v for k, v in spec.items() if k == "num_speculative_tokens"}}
    facts: dict[str, Any] = {"launch_line": True}
    for name, value in flat.items():
        if name in _FLAGS and value is not None and (value != "" or name in _BARE):
            facts[_FLAGS[name].fact] = _FLAGS[name].read(value)
    algorithm = arguments.get("speculative_algorithm")
    facts["speculation_on"] = bool(spec) or algorithm not in (None, "", "None")
    if not facts["speculation_on"]:
        facts["draft_tokens_k"] = 0
    elif (method := spec.get("method") or algorithm) is not None:
        facts["drafter"] = drafter_name(str(method))
    if "enforce_eager" in spec:
        facts["draft_graphs_off"] = _true(spec["enforce_eager"])
    facts["k_table"] = _table(spec.get("num_speculative_tokens_per_batch_size"))
    engine = engine_called(str(arguments.get("_engine", ""))) if arguments.get("_engine") else None
    facts["engine"] = engine.id if engine else None
    return facts


def _table(value: Any) -> str | None:
    """vLLM's rows [first, last, K] as `1-4:2 5-512:0`."""
    rows = value if isinstance(value, list) else []
    if not all(isinstance(row, list | tuple) and len(row) == 3 and all(map(_is_count, row)) for row in rows):
        return None
    return " ".join(f"{first}-{last}:{k}" for first, last, k in rows) or None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _from_log(text: str) -> dict[str, Any]:
    """Facts from the lines that servers print while they decode."""
    vllm = [(int(run), int(wait)) for run, wait in _VLLM_LINE.findall(text)]
    lines = list(_SGLANG_LINE.finditer(text))
    sglang = [(int(line[1]), int(queue[1])) for line in lines if (queue := _QUEUE.search(line[0]))]
    busy = [(run, wait) for run, wait in (*vllm, *sglang) if run > 0]
    facts: dict[str, Any] = {}
    if busy:
        facts |= {"running_requests": fmean(run for run, _ in busy), "waiting_requests": fmean(w for _, w in busy)}
    graphs = [line[0] for line in lines if "cuda graph:" in line[0]]
    if graphs:
        facts["decode_without_graph"] = fmean("cuda graph: False" in line for line in graphs)
    if hits := _HITS.findall(text):
        facts["prefix_hit_share"] = float(hits[-1]) / 100.0
    if pool := _POOL.search(text):
        facts["kv_pool_tokens"] = int((pool[1] or pool[2]).replace(",", ""))
    if lowered := _LOWERED.search(text):
        facts["graph_mode"] = lowered[1].upper()
    rates = [float(rate) for rate, _ in _VLLM_RATE.findall(text)] + [
        float(rate) for _, rate in _SGLANG_RATE.findall(text)
    ]
    if rates:
        facts["logged_tok_per_s"] = median(rates)
    if shares := _POSITIONS.findall(text):
        facts["acceptance_by_position"] = ";".join(re.findall(r"[\d.]*\d", shares[-1]))
    lengths = [float(one or other) for one, other in _MEAN_LENGTH.findall(text)]
    if lengths:
        facts |= {"accepted_length": fmean(lengths), "accepted_length_same_run": 1}
    return facts
