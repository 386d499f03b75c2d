"""The two tables every upload becomes, serving points and kernel rows, and the names that tools use for their words.

The column lists here are the only definition; docs/formats.md is checked against them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from advisor.catalog.engines import engine_called, engine_ids
from advisor.catalog.models import resolve_model_name
from advisor.physics.draft import drafter_ids
from advisor.predict.scenario_fields import MAX_BATCH, MAX_CONTEXT
from advisor.prediction import AdvisorError
from advisor.text import name_key

if TYPE_CHECKING:
    import pandas as pd

TableKind = Literal["points", "kernels"]
ValueType = Literal["text", "integer", "number", "flag"]
MAX_GPUS = 100_000
MAX_DRAFT_TOKENS = 128
MAX_TIME_S = 86_400.0
MAX_RATE_PER_S = 1e9
MAX_DIMENSION = 10_000_000
ROUTINGS = ("natural", "uniform", "round_robin", "traced")
"""Words for how tokens chose experts. natural: by the model's router; the others were simulated, `traced` by parameters
of a trace that the row does not repeat, so that its touched experts have to be counted."""
REMARKS = (
    *(
        "prefill_time_s",
        "tokens_in_step",
        "touched_law",
        "n_steps",
        "n_repeats",
        "time_p10_s",
        "spread",
        "control_ratio",
    ),
    *("graph_mode", "runner", "attention_backend"),
)
"""Columns of `advisor profile --engine` that no fit uses: they stay with the row in its notes."""
_ENGINE = f"Serving engine: {', '.join(engine_ids())}, or another name"


@dataclass(frozen=True)
class CanonicalColumn:
    """One canonical column. `low`/`high` are inclusive unless `positive`, which excludes zero. Empty means unknown."""

    name: str
    type: ValueType
    unit: str
    meaning: str
    low: float | None = None
    high: float | None = None
    positive: bool = False
    context: bool = False
    """True: describes the run (not a measurement), so the user may supply it afterwards."""
    aliases: tuple[str, ...] = ()
    opposites: tuple[str, ...] = ()
    """Headers of a flag that say the contrary; their factor is -1."""

    @property
    def title(self) -> str:
        """The meaning in a few words, as a label says it."""
        return re.split(r"[,:;(]", self.meaning)[0].strip()

    @property
    def in_text(self) -> str:
        """The title inside a sentence."""
        return self.title[0].lower() + self.title[1:]

    @property
    def numeric(self) -> bool:
        """Whether cells are numbers (flags are 0 or 1)."""
        return self.type != "text"

    @property
    def range_text(self) -> str:
        """The allowed range in words, for the documentation and for messages."""
        if self.type == "flag":
            return "0 or 1"
        if not self.numeric:
            return "any text"
        if self.positive:
            return f"above 0, up to {self.high:,.12g}"
        return f"{self.low:,.12g} to {self.high:,.12g}"


def _text(name: str, meaning: str, *aliases: str, context: bool = False) -> CanonicalColumn:
    return CanonicalColumn(name, "text", "", meaning, context=context, aliases=aliases)


def _count(name: str, unit: str, meaning: str, low: int, high: int, *aliases: str) -> CanonicalColumn:
    return CanonicalColumn(name, "integer", unit, meaning, low, high, context=True, aliases=aliases)


def _time(name: str, meaning: str, *aliases: str) -> CanonicalColumn:
    return CanonicalColumn(name, "number", "s", meaning, high=MAX_TIME_S, positive=True, aliases=aliases)


def _rate(name: str, meaning: str, *aliases: str) -> CanonicalColumn:
    return CanonicalColumn(name, "number", "tokens/s", meaning, high=MAX_RATE_PER_S, positive=True, aliases=aliases)


def _length(name: str, meaning: str, low: float, *aliases: str) -> CanonicalColumn:
    return CanonicalColumn(name, "number", "tokens", meaning, low, MAX_CONTEXT, context=True, aliases=aliases)


POINT_COLUMNS: tuple[CanonicalColumn, ...] = (
    _text("point_id", "Your own name for the row", "id"),
    _text(
        "hardware_id",
        "Accelerator: a hardware profile's id, its plain name, or a path to your own one's JSON",
        "hardware",
        "gpu",
        "hw",
        context=True,
    ),
    _count(
        "gpu_count",
        "1",
        "Number of GPUs (accelerators) that served the run",
        1,
        MAX_GPUS,
        "gpus",
        "num_gpus",
        "n_gpus",
    ),
    _count("tensor_parallel", "1", "Tensor-parallel size", 1, MAX_GPUS, "tp", "tp_size", "tensor_parallel_size"),
    _count("expert_parallel", "1", "Expert-parallel size", 1, MAX_GPUS, "ep", "ep_size", "expert_parallel_size"),
    _count(
        "data_parallel",
        "1",
        "Data-parallel size: copies of the model (of its attention alone where expert_parallel spans them) that share "
        "batch_size and the rates",
        1,
        MAX_GPUS,
        "dp",
        "dp_size",
        "data_parallel_size",
    ),
    _count(
        "decode_context_parallel",
        "1",
        "GPUs among which the KV cache of a sequence is split while decoding",
        1,
        MAX_GPUS,
        "dcp",
        "dcp_size",
        "decode_context_parallel_size",
    ),
    _text("engine", _ENGINE, "framework", "backend", context=True),
    _text("engine_version", "Version of the engine", "version", context=True),
    _text(
        "hardware_json",
        "An accelerator of your own, its whole JSON; `hardware_id` is then its name alone",
    ),
    _text("model_id", "Model: a model profile's id, its plain name, or a path to a config.json", "model", context=True),
    _text("model_config_json", "A model of your own, its whole config.json; `model_id` is then its name alone"),
    _text("weight_dtype", "Stored type of the routed experts' weights", "precision", "quantization", context=True),
    _text("kv_dtype", "Format of the KV cache, for example bf16 or fp8", "kv_cache_dtype", context=True),
    CanonicalColumn(
        "captured",
        "flag",
        "1",
        "Decoding replayed captured (CUDA) graphs: 1; ran eagerly: 0",
        context=True,
        aliases=("cuda_graphs", "cuda_graph", "cudagraph"),
        opposites=("eager", "enforce_eager", "disable_cuda_graph"),
    ),
    CanonicalColumn(
        "async_scheduling",
        "flag",
        "1",
        "The next step was scheduled while the last one ran: 1; else 0",
        context=True,
    ),
    _text(
        "routing",
        f"How tokens chose experts: {', '.join(ROUTINGS)}, a routing preset, or the parameters that `trace` prints",
        "routing_mode",
        context=True,
    ),
    CanonicalColumn(
        "touched_experts",
        "number",
        "1",
        "Distinct routed experts that the measured pass touched per MoE layer, counted, mean over layers (U)",
        1,
        MAX_DIMENSION,
        aliases=("union_mean", "activated_experts"),
    ),
    _count("n_experts", "1", "Routed experts per MoE layer (N)", 1, MAX_DIMENSION, "num_experts"),
    _count("n_active", "1", "Routed experts per token (k), at most N", 1, MAX_DIMENSION, "topk", "top_k"),
    _text(
        "drafter",
        "Drafter, for example eagle3, mtp, draft_model, ngram",
        "spec_method",
        "speculative_method",
        context=True,
    ),
    _count(
        "draft_tokens_k",
        "tokens",
        "Draft length K: tokens drafted per round (the depth of a tree); 0: no drafts",
        0,
        MAX_DRAFT_TOKENS,
        "k",
        "spec_k",
        "draft_tokens",
        "num_speculative_tokens",
        "spec_tokens",
        "n_draft",
        "k_draft",
        "drafted",
    ),
    _text(
        "draft_structure",
        "Shape of a draft: chain, tree or block_chain, then details such as topk=4;verify=8",
        context=True,
    ),
    CanonicalColumn(
        "batch_size",
        "number",
        "sequences",
        "Batch: sequences decoded together (a mean where batch_kind says so)",
        high=MAX_BATCH,
        positive=True,
        context=True,
        aliases=("batch", "bs", "concurrency", "max_concurrency", "users"),
    ),
    _text(
        "batch_kind",
        "What batch_size counts: batch, max_concurrency, concurrency, mean_running, single_stream",
        context=True,
    ),
    _length("input_tokens", "Prompt length, mean over requests", 0, "isl", "input_len", "input_length"),
    _length("output_tokens", "Generated length, mean over requests", 1, "osl", "output_len", "output_length"),
    CanonicalColumn(
        "prompts_cached",
        "flag",
        "1",
        "No prompt is prefilled in the timed window, from a prefix cache or since only decoding is timed: 1; else 0",
        context=True,
    ),
    _length("context_tokens", "Tokens in the KV cache per sequence, mean over steps", 0, "context", "kv_len"),
    _text("dataset", "Prompts used", "dataset_name", context=True),
    _text("task", "Kind of text: coding, chat, math, mixed or long_document", "kind_of_text", context=True),
    CanonicalColumn(
        "accepted_length",
        "number",
        "tokens",
        "Accepted length: tokens emitted per round, bonus token included (AL), at most K + 1",
        1,
        MAX_DRAFT_TOKENS + 1,
        aliases=("al", "accept_length", "acc_length", "acceptance_length", "mean_accepted_length"),
    ),
    CanonicalColumn(
        "accepted_length_same_run",
        "flag",
        "1",
        "Accepted length counted in this very run: 1; elsewhere, as on a model card: 0",
        context=True,
    ),
    _text("acceptance_by_position", "Share of rounds that accept draft position 1;2;...;K, separated by semicolons"),
    _time("step_time_s", "One whole round as served: drafting, verification and host time", "step_time", "round_time"),
    _time("verify_time_s", "One forward pass of the target alone, over K + 1 tokens per sequence", "verify_time"),
    _time("draft_time_s", "All draft passes of one round", "draft_time"),
    _time("itl_s", "Time between two streamed chunks", "itl", "inter_token_latency", "inter_chunk_latency"),
    _time(
        "tpot_s",
        "Time per output token of one request, first token excluded",
        "tpot",
        "time_per_output_token",
        "time_per_token",
        "latency_per_token",
    ),
    _time("ttft_s", "Time from a request to its first token", "ttft", "time_to_first_token"),
    _time("request_latency_s", "Time from a request to its last token", "request_latency", "e2el", "e2e_latency"),
    _rate("output_tok_per_s", "Generated tokens per second, all requests together", "output_throughput"),
    _rate("total_tok_per_s", "Prompt and generated tokens per second together", "total_token_throughput"),
    CanonicalColumn(
        "baseline_value",
        "number",
        "as metric",
        "The metric without drafting",
        high=1e12,
        positive=True,
    ),
    CanonicalColumn("sd_value", "number", "as metric", "The metric with drafting", high=1e12, positive=True),
    _text("metric", "What baseline_value and sd_value are, for example output_tok_per_s or tpot_ms", context=True),
    CanonicalColumn(
        "speedup",
        "number",
        "1",
        "Speedup: with drafting over without; above 1 is faster",
        high=1000.0,
        positive=True,
    ),
    _text("tier", "Provenance grade: A, B or C, where the source has one"),
    _text("source_title", "Where the row was published"),
    _text("source_url", "Address of that publication"),
    _text("date", "Day of the measurement or publication"),
    _text("derived", "Columns of this row that were computed on import, separated by semicolons"),
    _text("notes", "Anything else"),
)
KERNEL_COLUMNS: tuple[CanonicalColumn, ...] = (
    _text("op", "Operation; moe is one layer's routed experts", "op_name"),
    _text("hardware", "Accelerator as the table names it", "device", context=True),
    _text("engine", _ENGINE, "framework", context=True),
    _text("version", "Version of the engine", "engine_version", context=True),
    _text("dtype", "Type of the experts' weights and activations, in the table's own words", "moe_dtype", context=True),
    _text("kernel_source", "Kernel implementation", context=True),
    _count("num_tokens", "tokens", "Tokens in the step, as the table counts them", 1, MAX_DIMENSION),
    _count("hidden_size", "1", "Hidden width of the model", 1, MAX_DIMENSION),
    _count("inter_size", "1", "Intermediate width of one expert", 1, MAX_DIMENSION, "intermediate_size"),
    _count("topk", "1", "Routed experts per token (k), at most num_experts", 1, MAX_DIMENSION, "top_k"),
    _count("num_experts", "1", "Routed experts per layer (N)", 1, MAX_DIMENSION),
    _count("tp", "1", "Tensor-parallel size of the MoE layer", 1, MAX_GPUS, "moe_tp_size", "tp_size"),
    _count("ep", "1", "Expert-parallel size of the MoE layer", 1, MAX_GPUS, "moe_ep_size", "ep_size"),
    _text("distribution", "How tokens were dealt to experts: balanced, power_law_1.2, ...", context=True),
    _time("latency_s", "Time of one layer", "latency"),
)
COLUMNS: dict[TableKind, dict[str, CanonicalColumn]] = {
    "points": {column.name: column for column in POINT_COLUMNS},
    "kernels": {column.name: column for column in KERNEL_COLUMNS},
}
REQUIRED_CONTEXT: dict[TableKind, tuple[str, ...]] = {
    "points": ("hardware_id", "model_id", "engine", "batch_size", "draft_tokens_k"),
    "kernels": ("hardware", "engine", "dtype", "hidden_size", "inter_size", "topk", "num_experts"),
}
"""Without these a row cannot be compared with any prediction."""
USEFUL_CONTEXT: dict[TableKind, tuple[str, ...]] = {
    "points": (
        "gpu_count",
        "tensor_parallel",
        "expert_parallel",
        "data_parallel",
        "weight_dtype",
        "drafter",
        "metric",
        "accepted_length_same_run",
        "input_tokens",
        "output_tokens",
    ),
    "kernels": ("version", "tp", "ep", "distribution"),
}
"""Asked for as well; a row without them is still usable."""
MEASURED_COLUMNS: dict[TableKind, tuple[str, ...]] = {
    "points": (
        "speedup",
        "sd_value",
        "step_time_s",
        "verify_time_s",
        "itl_s",
        "tpot_s",
        "request_latency_s",
        "output_tok_per_s",
        "total_tok_per_s",
        "accepted_length",
    ),
    "kernels": ("latency_s",),
}
"""A row needs a value in at least one of these, or it measures nothing."""
UNIT_FACTORS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
FREE_TEXT = frozenset({"notes", "source_title", "source_url"})


def header_key(header: str) -> str:
    """A header reduced to lower-case words joined by `_`: `TPOT (ms)` and `tpot-ms` are both `tpot_ms`."""
    return re.sub(r"[^a-z0-9µμ]+", "_", header.strip().lower()).strip("_")


def _header_table(kind: TableKind) -> dict[str, tuple[str, float]]:
    table: dict[str, tuple[str, float]] = {}
    for column in COLUMNS[kind].values():
        stem = column.name.removesuffix("_s") if column.unit == "s" else column.name
        units = {f"_{unit}": factor for unit, factor in UNIT_FACTORS.items()} if column.unit == "s" else {"": 1.0}
        for name in (column.name, stem, *column.aliases):
            for ending, factor in units.items():
                table.setdefault(name + ending, (column.name, factor))
        table |= dict.fromkeys(column.opposites, (column.name, -1.0))
    return table


class Numbers(dict[str, np.ndarray]):
    """Columns of a frame as floats, NaN where a cell is unknown, [rows] each, made when they are asked for."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self._frame = frame

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = numbers = self._frame[name].to_numpy(dtype=float, na_value=np.nan)
        return numbers


HEADER_TABLE: dict[TableKind, dict[str, tuple[str, float]]] = {
    "points": _header_table("points"),
    "kernels": _header_table("kernels"),
}
"""Normalised header -> canonical column and the factor that turns its unit into ours."""


def match_header(header: str, kind: TableKind) -> tuple[str, float] | None:
    """Canonical column and unit factor of a header, or None when it is not one of ours.

    A time column must carry its unit (`tpot_ms`, `TPOT (s)`, `tpot_ms_mean`): a bare `tpot` is not matched.
    """
    return HEADER_TABLE[kind].get(re.sub(r"(_[mu]?s)_(?:mean|avg|average)$", r"\1", header_key(header)))


def template_csv(kind: TableKind = "points") -> bytes:
    """An empty canonical CSV (UTF-8): the header line alone. Raises AdvisorError on an unknown kind."""
    if kind not in COLUMNS:
        raise AdvisorError(f"there is no template for {kind!r}; choose 'points' or 'kernels'")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(COLUMNS[kind])
    return out.getvalue().encode()


_DTYPES = {
    "bfloat16": "bf16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "float8": "fp8",
    "fp8_w8a8": "fp8",
    "int8_w8a16": "int8",
    "int4_w4a16": "int4",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_mxfp8": "fp8",
    "modelopt_fp8": "fp8",
    "fp8_block_scales": "fp8_block",
    "w4a8_mxfp4_fp8": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_nvfp4_fp8": "nvfp4",
    "petit_nvfp4": "nvfp4",
    "fp_quant": "mxfp4",
    "w8a8_fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "ptpc_fp8": "fp8",
    "mxfp8": "fp8",
    "w8a8_int8": "int8",
    "experts_int8": "int8",
    "w4afp8": "int4",
    "awq": "int4",
    "awq_marlin": "int4",
}
_UNSAID = frozenset(
    {"", "auto", "none", "null", "compressed_tensors", "modelopt", "quark", "gguf", "bitsandbytes", "no_quant"}
)
"""What engines call a choice left to the checkpoint, and ways of quantising that come in several formats."""
_METHODS = {
    "nextn": "mtp",
    "frozen_kv_mtp": "mtp",
    "standalone": "draft_model",
    "draft": "draft_model",
    "vanilla": "draft_model",
    "drafttarget": "draft_model",
    "ngram_gpu": "ngram",
    "prompt_lookup": "ngram",
    "p_eagle": "p-eagle",
    "eagle_3": "eagle3",
    "eagle2": "eagle",
}
"""Drafters under other names: SGLang's algorithms (NEXTN, STANDALONE), vLLM's methods, TensorRT-LLM's words."""
_NOISE = frozenset(
    {
        "nvidia",
        "amd",
        "intel",
        "google",
        "instinct",
        "geforce",
        "tensor",
        "core",
        "gpu",
        "accelerator",
        "graphics",
        "generation",
        "edition",
        "workstation",
        "server",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
    }
)


def engine_name(text: str) -> str:
    """Id of the engine that a text spells (`SGLang` is `sglang`). Any other text comes back unchanged."""
    engine = engine_called(text)
    return engine.id if engine else text


def weight_dtype(text: str) -> str | None:
    """Our name of a weight type where the text is another spelling of it or an engine's `--quantization`. Else lower
    case, and None where the text leaves the format to the checkpoint (`auto`, `compressed-tensors`)."""
    key = name_key(text)
    return None if key in _UNSAID else _DTYPES.get(key, text.strip().lower())


def routing_name(text: str) -> str:
    """Our word for a way of routing (`uniform_random` is `uniform`). Any other text comes back unchanged."""
    key = name_key(text)
    return _ROUTING_WORDS.get(key, key if key in ROUTINGS else text.strip())


_ROUTING_WORDS = {
    "uniform_random": "uniform",
    "random": "uniform",
    "model": "natural",
    "real": "natural",
    "auto": "natural",
}
"""Ways of routing as engines call them: vLLM's VLLM_MOE_ROUTING_SIMULATION_STRATEGY, and our own scenario's word."""


def cache_dtype(text: str) -> str | None:
    """Our name of a KV cache's format (`fp8_e4m3` is `fp8`), else lower case. None where the text leaves it open."""
    key = name_key(text)
    if key in _UNSAID:
        return None
    return "fp8" if key.startswith(("fp8", "float8")) else _DTYPES.get(key, text.strip().lower())


def drafter_name(text: str) -> str:
    """Our name of a drafter (`EAGLE3` is `eagle3`, `NEXTN` and `deepseek_mtp` are `mtp`). Else lower case."""
    key = name_key(text)
    if key.endswith("_mtp"):
        return "mtp"
    known = {name_key(drafter_id): drafter_id for drafter_id in drafter_ids()}
    return _METHODS.get(key) or known.get(key, text.strip().lower())


def match_hardware(text: str, ids: Collection[str]) -> str | None:
    """Hardware id that a free name means (`NVIDIA H200` is `h200-sxm`).

    None when none or several fit.

    An id fits when the words of the text that are no vendor or filler all occur in it. Of several, the one whose
    only further word is `sxm` is taken: tools print data-centre parts without it.
    """
    words = {re.sub(r"^sxm\d$", "sxm", word) for word in name_key(text).split("_")} - _NOISE - {""}
    if not words:
        return None
    # Drivers add the memory size to names that need none ("H100 80GB HBM3"): it counts only where some id has it.
    without_size = {word for word in words if not re.fullmatch(r"\d+g(i?b)?", word)}
    for wanted in (words, without_size):
        fits = [item for item in ids if wanted and wanted <= set(name_key(item).split("_"))]
        exact = [item for item in fits if set(name_key(item).split("_")) - wanted <= {"sxm"}]
        chosen = exact if len(exact) == 1 else fits
        if chosen:
            return chosen[0] if len(chosen) == 1 else None
    return None


def match_model(text: str, ids: Iterable[str]) -> str | None:
    """The model id that a checkpoint name means (`Qwen/Qwen3-30B-A3B-FP8` is `qwen3-30b-a3b`), or None.

    The profile whose dimensions the name says, else the longest id that the last part of the name begins with.
    """
    known, named = tuple(ids), resolve_model_name(text)
    if named is not None and named.model_id in known:
        return named.model_id
    words = name_key(text.rstrip("/").rsplit("/", 1)[-1]).split("_")
    fits = [item for item in known if name_key(item).split("_") == words[: len(name_key(item).split("_"))]]
    return max(fits, key=lambda item: len(name_key(item)), default=None)


def named_format(text: str) -> tuple[str | None, str]:
    """Weight format that a checkpoint name says, in a table's words, with remarks on the name.

    None where the name says no format.
    """
    named = resolve_model_name(text)
    if named is None:
        return None, "not known as a checkpoint; a profile's id that it begins with stands for it"
    if named.weight_format is None:
        return None, named.note
    return named.weight_format.removesuffix("_block"), named.note
