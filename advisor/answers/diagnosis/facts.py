"""What can be known of a run: facts by name, read off launch lines, server logs and benchmark
results."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Literal

from advisor.answers.diagnosis.physics import Comparison
from advisor.answers.engines.config import option_groups
from advisor.catalog.engines import engine_called
from advisor.catalog.models import load_model, resolve_model_name, stored_format
from advisor.measured.ingest.columns import COLUMNS, cache_dtype, drafter_name, weight_dtype
from advisor.measured.ingest.upload import open_upload
from advisor.measured.readers.sglang import WITHOUT_STEPS
from advisor.measured.run import Run, as_number
from advisor.prediction import AdvisorError
from advisor.text import number_of

Source = Literal["launch", "log", "result", "repeats"]
"""Where a fact is found: the launch line or printed arguments, the server's log while it decodes,
the benchmark's result file, or the same run repeated."""
_FACTS: Mapping[Source, str] = {
    "launch": (
        "launch_line speculation_on max_num_seqs max_running_requests max_num_batched_tokens "
        "graphs_off graph_mode largest_graph largest_graph_batch draft_graphs_off "
        "asynchronous k_table data_parallel draft_topk"
    ),
    "log": (
        "kv_pool_tokens running_requests waiting_requests logged_tok_per_s prefix_hit_share "
        "decode_without_graph"
    ),
    "result": (
        "requests_completed requests_asked request_rate mean_concurrency peak_tok_per_s "
        "tokens_generated tokens_retokenized temperature"
    ),
    "repeats": ("first_tpot_s later_tpot_s"),
}
FACTS: dict[str, Source] = {
    name: source for source, names in _FACTS.items() for name in names.split()
}
"""Facts besides the columns of a point, and where each is found."""
UNITS = {
    "max_num_batched_tokens": "tokens",
    "largest_graph": "tokens",
    "kv_pool_tokens": "tokens",
    "logged_tok_per_s": "tokens/s",
    "request_rate": "1/s",
    "peak_tok_per_s": "tokens/s",
    "tokens_generated": "tokens",
    "tokens_retokenized": "tokens",
    "first_tpot_s": "s",
    "later_tpot_s": "s",
}
"""Units of facts that have one."""


@dataclass(frozen=True, kw_only=True)
class UserRun(Run):
    """A run of the user's files held against its prediction.

    A file's row has the facts that stand there; what its server, the user and the prediction add
    comes with `replace`.
    """

    comparison: Comparison | None = None
    unpredicted: Literal["", "sampled", "nothing_measured", "too_large", "refused"] = ""
    """Why nothing is predicted for it: of many rows an even sample is, nothing was measured, the
    batch does not fit, or the model refuses it."""
    refusal: str = ""
    """The error that refuses it."""
    assumed: tuple[str, str] = ("", "")
    """Who states its accelerator and how many there are, `given` or the name of another source;
    empty where the run does."""
    form: str = ""
    """Name of its file's format; empty for a server."""

    def has(self, needed: str) -> bool:
        """Whether it knows one of the facts `a|b`, or has a prediction (`prediction`)."""
        return any(
            self.comparison is not None if name == "prediction" else self.value(name) is not None
            for name in needed.split("|")
        )


TO_PREDICT = (
    "hardware_id",
    "model_id",
    "gpu_count|tensor_parallel",
    "batch_size",
    "draft_tokens_k",
    "drafter",
)
"""Columns without which a run with drafts is not predicted."""


def unit_of(name: str) -> str:
    """Unit of a fact or column, `1` where it has none."""
    fact = name.rpartition(":")[2]
    if fact in FACTS:
        return UNITS.get(fact, "1")
    column = COLUMNS["points"].get(fact)
    return column.unit if column is not None and column.unit else "1"


MAX_TEXT = 4_000_000
"""Characters of a log that are looked at. [-]"""
_LAUNCHES = re.compile(
    r"(?:vllm\s+serve|vllm\.entrypoints[\w.]*|sglang\.launch_server|sglang\s+serve)\b[^\n]{0,50000}"
)
"""A launch line, as far as it is looked at: splitting it into words takes time that grows with its
square."""
_BEFORE_LAUNCH = re.compile(
    r"(?:\b[A-Z][A-Z0-9_]*=[^\s'\"]*[ \t]+)*(?:\S*python[\d.]*[ \t]+-m[ \t]+)?\Z"
)
"""What stands on a launch line before the server's name: settings of the environment, Python."""
_MAX_BEFORE = 500  # characters
_PRINTED = re.compile(r"(?:ServerArgs|server_args=ServerArgs|Namespace)\((?P<args>[^\n]*)\)")
_SERVES = re.compile(r"subparser='serve'|gpu_memory_utilization=|max_num_seqs=")
"""What tells a server's printed arguments from those of a benchmark."""
_NON_DEFAULT = re.compile(r"non-default args: (?P<args>\{[^\n]*\})")
_PAIR = re.compile(
    r"\b(?P<name>[a-z][a-z0-9_]*)=(?P<value>'[^']*'|\"[^\"]*\"|\{[^}]*\}|\[[^\]]*\]|[^,()\s]+)"
)
_VERSION = re.compile(
    r"(?:vLLM (?:API server )?version v?|LLM engine \(v)(?P<vllm>[0-9]+(?:\.[0-9]+)+\w*)"
    r"|sglang[ =]+v?(?P<sglang>[0-9]+(?:\.[0-9]+)+\w*)",
    re.I,
)


def _whole(value: Any) -> int | None:
    number = number_of(value)
    return None if number is None or number != int(number) else int(number)


def _true(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes", "")


def _false(value: Any) -> bool:
    return not _true(value)


def _largest(value: Any) -> int | None:
    """The largest of a list of sizes, as typed after a flag or printed."""
    sizes = [int(size) for size in re.findall(r"\b[0-9]{1,12}\b", str(value))]
    return max(sizes, default=None)


_FLAGS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "max_num_seqs": ("max_num_seqs", _whole),
    "max_num_batched_tokens": ("max_num_batched_tokens", _whole),
    "enforce_eager": ("graphs_off", _true),
    "disable_cuda_graph": ("graphs_off", _true),
    "cudagraph_mode": ("graph_mode", lambda value: str(value).rpartition(".")[2].upper()),
    "cudagraph_capture_sizes": ("largest_graph", _largest),
    "cuda_graph_sizes": ("largest_graph", _largest),
    "max_cudagraph_capture_size": ("largest_graph", _whole),
    "cuda_graph_max_bs_decode": ("largest_graph_batch", _whole),
    "cuda_graph_max_bs": ("largest_graph_batch", _whole),
    "cuda_graph_bs": ("largest_graph_batch", _largest),
    "max_running_requests": ("max_running_requests", _whole),
    "async_scheduling": ("asynchronous", _true),
    "no_async_scheduling": ("asynchronous", _false),
    "disable_overlap_schedule": ("asynchronous", _false),
    "data_parallel_size": ("data_parallel", _whole),
    "dp_size": ("data_parallel", _whole),
    "dp": ("data_parallel", _whole),
    "tensor_parallel_size": ("tensor_parallel", _whole),
    "tp_size": ("tensor_parallel", _whole),
    "tp": ("tensor_parallel", _whole),
    "ep_size": ("expert_parallel", _whole),
    "expert_parallel_size": ("expert_parallel", _whole),
    "ep": ("expert_parallel", _whole),
    "speculative_eagle_topk": ("draft_topk", _whole),
    "speculative_num_steps": ("draft_tokens_k", _whole),
    "num_speculative_tokens": ("draft_tokens_k", _whole),
    "kv_cache_dtype": ("kv_dtype", lambda value: cache_dtype(str(value))),
    "temperature": ("temperature", number_of),
    "model": ("model_id", str),
    "model_path": ("model_id", str),
}
"""Fact and how its value is read, by flag as launch lines, `ServerArgs(...)` and `non-default args`
write it."""
_UNSAID = {"graphs_off": False, "draft_graphs_off": False, "asynchronous": True, "data_parallel": 1}
"""What holds where a launch line says nothing of it."""
_BARE = frozenset(
    {"enforce_eager", "disable_cuda_graph", "no_async_scheduling", "disable_overlap_schedule"}
)
_WHOLE = r"([0-9]{1,12})\b"
_DECIMAL = r"([0-9]{1,12}(?:\.[0-9]{0,12})?)"
_VLLM_LINE = re.compile(rf"Running: {_WHOLE} reqs, Waiting: {_WHOLE} reqs")
_SGLANG_LINE = re.compile(rf"Decode batch[^\n]*?#running-req: {_WHOLE}[^\n]*")
_QUEUE = re.compile(rf"#queue-req: {_WHOLE}")
_HITS = re.compile(rf"Prefix cache hit rate: {_DECIMAL}%")
_POOL = re.compile(
    rf"GPU KV cache size: ([0-9][0-9,]{{0,15}}) tokens|max_total_num_tokens={_WHOLE}"
)
_CAPTURED = re.compile(
    rf"max_cudagraph_capture_size['\"]?[:=] ?{_WHOLE}|cudagraph_capture_sizes['\"]?[:=] ?\[([0-9, "
    r"]+)\]"
)
_CAPTURED_REQUESTS = re.compile(r"(?:Capture [^\n]*?graph[^\n]*?\bbs[= ])\[([0-9, ]+)\]", re.I)
_LOWERED = re.compile(r"[Ss]etting cudagraph_mode=(?:CUDAGraphMode\.)?(\w+)")
_VLLM_RATE = re.compile(
    rf"Avg generation throughput: {_DECIMAL} tokens/s, Running: ([1-9][0-9]{{0,11}}) reqs"
)
_SGLANG_RATE = re.compile(
    rf"#running-req: ([1-9][0-9]{{0,11}})[^\n]*?gen throughput \(token/s\): {_DECIMAL}\b"
)
_POSITIONS = re.compile(r"Per-position acceptance rate: ([0-9., ]+)")
_MEAN_LENGTH = re.compile(rf"Mean acceptance length: {_DECIMAL}|accept len: {_DECIMAL}")


def read_settings(text: str) -> dict[str, Any]:
    """Facts of a server from a text that holds its launch line, its printed arguments or its log.
    Empty for none.

    Of a log, means over its lines while requests run; the first of several launch lines counts.
    """
    text = re.sub(r"\\\r?\n\s*", " ", text[:MAX_TEXT])
    arguments = {**_from_printed(text), **_from_launch(text)}
    facts = {**_UNSAID, **_facts_of(arguments)} if arguments else {}
    if match := _VERSION.search(text):
        engine = "vllm" if match["vllm"] else "sglang"
        facts.setdefault("engine", engine)
        facts["engine_version"] = match["vllm"] or match["sglang"]
    logged = _from_log(text)
    if facts.get("draft_tokens_k") is not None:
        logged.pop("draft_tokens_k", None)  # the largest of a schedule by batch
    return {name: value for name, value in {**facts, **logged}.items() if value is not None}


def read_servers(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Line and facts of each server that a text tells of.

    What stands behind a launch line is of that server.

    The line is that of the launch; what a log says before the first launch line is of its server
    too.
    """
    starts = [_begins(text, match.start()) for match in _LAUNCHES.finditer(text[:MAX_TEXT])]
    edges = [0, *starts[1:], len(text)]
    lines = [text.count("\n", 0, start) + 1 for start in starts or [0]]
    pieces = [
        (line, read_settings(text[start:end]))
        for line, (start, end) in zip(lines, pairwise(edges), strict=True)
    ]
    return [(line, facts) for line, facts in pieces if facts]


def _begins(text: str, start: int) -> int:
    """Place where the command begins that names a server at `start`."""
    before = _BEFORE_LAUNCH.search(text[max(start - _MAX_BEFORE, 0) : start])
    return start - len(before[0] if before else "")


def _from_launch(text: str) -> dict[str, Any]:
    match = _LAUNCHES.search(text)
    if match is None:
        return {}
    line = match[0].split(" && ")[0]
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    whole = text[_begins(text, match.start()) : match.start()] + line
    out: dict[str, Any] = {"_engine": re.split(r"[\s.]", line)[0], "_line": whole}
    if "serve" in words[:-1] and not words[words.index("serve") + 1].startswith("-"):
        out["model"] = words[words.index("serve") + 1]
    for word, *following in option_groups(words)[1:]:
        name, equals, value = word.lstrip("-").partition("=")
        values = [value] if equals else following
        out[name.replace("-", "_").replace(".", "_")] = " ".join(values)
    return out


def _from_printed(text: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for match in _PRINTED.finditer(text):
        if "ServerArgs" in match[0] or _SERVES.search(match[0]):
            out |= {pair["name"]: _literal(pair["value"]) for pair in _PAIR.finditer(match["args"])}
            out["_engine"] = "sglang" if "ServerArgs" in match[0] else out.get("_engine", "vllm")
    stated = _NON_DEFAULT.search(text)
    if stated and isinstance(arguments := _literal(stated["args"]), dict):
        out |= {**arguments, "_engine": "vllm", "_line": _line_of(arguments)}
    return out


def _line_of(arguments: Mapping[str, Any]) -> str:
    """The command line of vLLM's printed arguments that are not its defaults."""
    options = {
        name: value
        for name, value in arguments.items()
        if value not in (None, False) and name != "model_tag"
    }
    model = options.pop("model", arguments.get("model_tag", ""))
    words = ["vllm", "serve", str(model)] if model else []
    for name, value in options.items() if words else ():
        text = json.dumps(value) if isinstance(value, dict | list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
    return shlex.join(words)


def _literal(text: str) -> Any:
    """A printed Python value. The text itself where it is none: `...`, a set of lists, brackets
    nested too deeply."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def _object(value: Any) -> dict[str, Any]:
    """An argument that is a JSON object, as given or printed. Empty for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        parsed = json.loads(str(value))
    except (ValueError, RecursionError):
        parsed = _literal(str(value))
    return parsed if isinstance(parsed, dict) else {}


def _facts_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Facts by name from arguments by their own names."""
    if not arguments:
        return {}
    graphs = _object(arguments.get("compilation_config"))
    spec = _object(arguments.get("speculative_config"))
    flat = {
        **arguments,
        **graphs,
        **{k: v for k, v in spec.items() if k == "num_speculative_tokens"},
    }
    facts: dict[str, Any] = {"launch_line": arguments.get("_line") or True}
    for name, value in flat.items():
        if name in _FLAGS and value is not None and (value != "" or name in _BARE):
            fact, read = _FLAGS[name]
            facts[fact] = read(value)
    algorithm = arguments.get("speculative_algorithm")
    facts["speculation_on"] = bool(spec) or algorithm not in (None, "", "None")
    if not facts["speculation_on"]:
        facts["draft_tokens_k"] = 0
    elif (method := spec.get("method") or algorithm) is not None:
        # SGLang runs a model's own MTP module as EAGLE without a checkpoint of a head
        # (profiles/drafters/mtp.yaml).
        heads = "speculative_draft_model_path", "speculative_draft_model"
        is_mtp = str(algorithm).upper() == "EAGLE" and not any(
            arguments.get(name) for name in heads
        )
        facts["drafter"] = "mtp" if is_mtp else drafter_name(str(method))
        if str(algorithm).upper() in WITHOUT_STEPS:
            # A drafter without steps: K of the block, else of the verified tokens less the last.
            block = _whole(arguments.get("speculative_dspark_block_size"))
            verified = _whole(arguments.get("speculative_num_draft_tokens"))
            facts["draft_tokens_k"] = (
                block if block is not None or verified is None else verified - 1
            )
    if any(
        _true(arguments[name])
        for name in ("enable_expert_parallel", "enable_ep_moe")
        if name in arguments
    ):
        facts["expert_parallel"] = (facts.get("tensor_parallel") or 1) * (
            facts.get("data_parallel") or 1
        )
    if "enforce_eager" in spec:
        facts["draft_graphs_off"] = _true(spec["enforce_eager"])
    facts["k_table"] = _table(spec.get("num_speculative_tokens_per_batch_size"))
    quantization = arguments.get("quantization", arguments.get("q"))
    if quantization and facts.get("model_id"):
        facts["weight_dtype"] = _quantized(str(facts["model_id"]), str(quantization))
    engine = engine_called(str(arguments.get("_engine", ""))) if arguments.get("_engine") else None
    facts["engine"] = engine.id if engine else None
    return facts


def _quantized(model: str, quantization: str) -> str | None:
    """Format that `--quantization` makes of 16-bit weights. None where the checkpoint has a format
    of its own."""
    resolved = resolve_model_name(model)
    if (
        resolved is None
        or (resolved.weight_format or stored_format(load_model(resolved.model_id))) != "bf16"
    ):
        return None
    return weight_dtype(quantization)


def _table(value: Any) -> str | None:
    """vLLM's rows [first, last, K] as `1-4:2 5-512:0`."""
    rows = value if isinstance(value, list) else []
    if not all(
        isinstance(row, list | tuple)
        and [type(cell) for cell in row] == [int] * 3
        and min(row) >= 0
        for row in rows
    ):
        return None
    return " ".join(f"{first}-{last}:{k}" for first, last, k in rows) or None


def _from_log(text: str) -> dict[str, Any]:
    """Facts from the lines that servers print while they decode."""
    vllm = [(int(run), int(wait)) for run, wait in _VLLM_LINE.findall(text)]
    lines = list(_SGLANG_LINE.finditer(text))
    queues = [(line[1], _QUEUE.search(line[0])) for line in lines]
    sglang = [(int(running), int(queue[1])) for running, queue in queues if queue]
    busy = [(run, wait) for run, wait in (*vllm, *sglang) if run > 0]
    facts: dict[str, Any] = {}
    if busy:
        facts |= {
            "running_requests": fmean(run for run, _ in busy),
            "waiting_requests": fmean(wait for _, wait in busy),
        }
    graphs = [line[0] for line in lines if "cuda graph:" in line[0]]
    if graphs:
        facts["decode_without_graph"] = fmean("cuda graph: False" in line for line in graphs)
    if hits := _HITS.findall(text):
        facts["prefix_hit_share"] = float(hits[-1]) / 100.0
    if pool := _POOL.search(text):
        facts["kv_pool_tokens"] = int((pool[1] or pool[2]).replace(",", ""))
    if sizes := _CAPTURED.findall(text):
        facts["largest_graph"] = max(_largest(" ".join(each)) or 0 for each in sizes) or None
    if requests := _CAPTURED_REQUESTS.search(text):
        facts["largest_graph_batch"] = _largest(requests[1])
    if lowered := _LOWERED.search(text):
        facts["graph_mode"] = lowered[1].upper()
    rates = [float(rate) for rate, _ in _VLLM_RATE.findall(text)] + [
        float(rate) for _, rate in _SGLANG_RATE.findall(text)
    ]
    if rates:
        facts["logged_tok_per_s"] = median(rates)
    if shares := _POSITIONS.findall(text):
        positions = re.findall(r"[0-9.]*[0-9]", shares[-1])
        facts |= {"acceptance_by_position": ";".join(positions), "draft_tokens_k": len(positions)}
    lengths = [
        float(vllm_length or sglang_length)
        for vllm_length, sglang_length in _MEAN_LENGTH.findall(text)
    ]
    if lengths:
        facts |= {"accepted_length": fmean(lengths), "accepted_length_same_run": 1}
    return facts


_FIELDS = {
    "completed": "requests_completed",
    "num_prompts": "requests_asked",
    "request_rate": "request_rate",
    "concurrency": "mean_concurrency",
    "max_output_tokens_per_s": "peak_tok_per_s",
    "total_output_tokens": "tokens_generated",
    "total_output_tokens_retokenized": "tokens_retokenized",
    "temperature": "temperature",
    "prefix_cache_hit_rate": "prefix_hit_share",
}
"""Fields of vLLM's and SGLang's result files, and the facts they are."""
_LABELS = {
    "successful requests": "requests_completed",
    "traffic request rate": "request_rate",
    "concurrency": "mean_concurrency",
    "peak output token throughput (tok/s)": "peak_tok_per_s",
    "total generated tokens": "tokens_generated",
    "total generated tokens (retokenized)": "tokens_retokenized",
}
"""Labels of the console block, likewise."""
_CLIENT_LINE = re.compile(r"^[\s>|*`]*([A-Za-z][\w ()/]*?)\s*:\s*([0-9.]+)", re.MULTILINE)
_BLOCK = "Serving Benchmark Result"
_ASKED = re.compile(r"num_prompts=([0-9]+)")


def client_facts(name: str, data: bytes) -> dict[int, dict[str, Any]]:
    """Facts of a result file's records by line, a console block's by its title's. Empty where it
    cannot be opened."""
    try:
        sample = open_upload(name, data)
    except AdvisorError:
        return {}
    if sample.kind == "text":
        return _from_blocks(sample.text)
    records = zip(sample.lines, sample.records, strict=True)
    return {line: _from_record(record) for line, record in records if isinstance(record, Mapping)}


def _from_record(record: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {ours: as_number(record.get(theirs)) for theirs, ours in _FIELDS.items()}
    facts = {name: number for name, number in numbers.items() if number is not None}
    server = record.get("server_info")
    return {**server_facts(server), **facts} if isinstance(server, Mapping) else facts


def server_facts(server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the arguments that an SGLang server gives of itself."""
    settings = _facts_of({**server_info, "_engine": "sglang"})
    return {name: value for name, value in settings.items() if value is not None}


def _from_blocks(text: str) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    pieces = text.split(_BLOCK)
    line = pieces[0].count("\n") + 1
    for before, piece in pairwise(pieces):
        facts: dict[str, Any] = {}
        for label, value in _CLIENT_LINE.findall(piece):
            fact = _LABELS.get(" ".join(label.lower().split()))
            if fact and fact not in facts:
                facts[fact] = as_number(value)
        if requests := _ASKED.findall(before):
            facts["requests_asked"] = float(requests[-1])
        out[line] = facts
        line += piece.count("\n")
    return out
