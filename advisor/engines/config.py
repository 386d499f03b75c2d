"""A K-by-batch schedule as the file and the launch line that vLLM and SGLang load unmodified."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from advisor.engines.rules import (
    VLLM_FIXED_K_ONLY,
    VLLM_NEEDS_MODEL,
    check_sglang_adaptive_config,
    check_vllm_speculative_config,
)
from advisor.prediction import AdvisorError
from advisor.runtime import KRange

Method = Literal["eagle3", "eagle", "mtp", "ngram", "suffix", "draft_model", "dflash"]
ExportEngine = Literal["vllm", "sglang"]

SGLANG_ALGORITHM: dict[str, str] = {
    "eagle3": "EAGLE3",
    "eagle": "EAGLE",
    "mtp": "EAGLE",
    "ngram": "NGRAM",
    "draft_model": "STANDALONE",
    "dflash": "DFLASH",
}
"""SGLang's own name; NEXTN is an alias that it resolves to EAGLE, so MTP is written as EAGLE."""
SGLANG_ADAPTIVE_METHODS = ("eagle3", "eagle", "mtp")
DEFAULT_PROMPT_LOOKUP = (2, 5)
"""n-gram window, ours to choose: vLLM's own fallback (5, 5) calls itself arbitrary."""


@dataclass(frozen=True)
class ServedModel:
    """What the launch line says about the target model and its placement."""

    model: str
    tensor_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    max_running_requests: int | None = None
    fp8_kv_cache: bool = False


@dataclass(frozen=True)
class EngineExport:
    """config: the JSON object (None: the engine runs without speculation, or with a static K on the launch line only).

    config_json: its text. file_name: where the launch line expects it (SGLang), or None when it is passed inline.
    launch_line: one shell command. warnings: what the engine will not do as the schedule says.
    """

    engine: ExportEngine
    config: dict[str, Any] | None
    config_json: str
    file_name: str | None
    launch_line: str
    warnings: tuple[str, ...]


def export_engine_config(
    engine: ExportEngine,
    ranges: Sequence[KRange],
    method: Method,
    served: ServedModel,
    draft_model: str | None = None,
    file_name: str = "speculative_adaptive.json",
    parallel_drafting: bool = False,
) -> EngineExport:
    """The checked configuration of one engine. Raises AdvisorError when the engine cannot run the method.

    draft_model: name or path, needed for eagle, eagle3, draft_model and dflash; for mtp only where the heads are a
    separate checkpoint. method uses vLLM's names. file_name: of the SGLang JSON, relative to where the server starts.
    parallel_drafting: the draft model proposes all K tokens in one pass (P-EAGLE); vLLM must be told.
    """
    _check_draft_model(method, draft_model)
    if engine == "vllm":
        return _vllm_export(ranges, method, served, draft_model, parallel_drafting)
    if engine == "sglang":
        return _sglang_export(ranges, method, served, draft_model, file_name)
    raise AdvisorError(f"no export for engine {engine!r}; choose vllm or sglang")


def vllm_speculative_config(
    ranges: Sequence[KRange],
    method: Method,
    draft_model: str | None = None,
    prompt_lookup: tuple[int, int] = DEFAULT_PROMPT_LOOKUP,
    parallel_drafting: bool = False,
) -> dict[str, Any] | None:
    """vLLM's `--speculative-config` object; None when the schedule never drafts. Already checked.

    A schedule of one K needs no table; methods that cannot vary K get the one that covers the most batch sizes.
    """
    rows = merged_rows(ranges)
    k_max = max(k for _, _, k in rows)
    if k_max == 0:
        return None
    config: dict[str, Any] = {"method": method}
    if draft_model is not None:
        config["model"] = draft_model
    if method == "ngram":
        config["prompt_lookup_min"], config["prompt_lookup_max"] = prompt_lookup
    if parallel_drafting:
        config["parallel_drafting"] = True
    fixed = method in VLLM_FIXED_K_ONLY
    config["num_speculative_tokens"] = _widest_k(rows) if fixed else k_max
    if len(rows) > 1 and not fixed:
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in rows]
    check_vllm_speculative_config(config)
    return config


def sglang_adaptive_config(ranges: Sequence[KRange]) -> dict[str, Any]:
    """SGLang's adaptive JSON: one slot per range, from its first batch size, with that range's K as only candidate.

    With one candidate the average of accepted drafts decides nothing, so SGLang runs exactly the schedule.
    """
    config = {str(start): {"candidate_steps": [k]} for start, _, k in merged_rows(ranges)}
    check_sglang_adaptive_config(config)
    return config


def merged_rows(ranges: Sequence[KRange]) -> tuple[tuple[int, int, int], ...]:
    """(start, end, K) with neighbours of equal K joined; refuses an empty schedule, a gap or an overlap."""
    if not ranges:
        raise AdvisorError("the schedule is empty; compute it first")
    rows: list[tuple[int, int, int]] = []
    for item in ranges:
        expected = rows[-1][1] + 1 if rows else 1
        if item.batch_start != expected or item.batch_end < item.batch_start or item.k_draft < 0:
            raise AdvisorError(
                f"schedule range {item.batch_start}-{item.batch_end} with K={item.k_draft}: expected it to start at "
                f"batch {expected}, not to end before it starts, and K >= 0"
            )
        if rows and rows[-1][2] == item.k_draft:
            rows[-1] = (rows[-1][0], item.batch_end, item.k_draft)
        else:
            rows.append((item.batch_start, item.batch_end, item.k_draft))
    return tuple(rows)


def _vllm_export(
    ranges: Sequence[KRange], method: Method, served: ServedModel, draft_model: str | None, parallel_drafting: bool
) -> EngineExport:
    config = vllm_speculative_config(ranges, method, draft_model, parallel_drafting=parallel_drafting)
    warnings = list(_covering(ranges, served))
    words = ["vllm", "serve", served.model, "--tensor-parallel-size", str(served.tensor_parallel)]
    if served.data_parallel > 1:
        words += ["--data-parallel-size", str(served.data_parallel)]
    if served.expert_parallel > 1:
        words.append("--enable-expert-parallel")
        if served.expert_parallel != served.tensor_parallel * served.data_parallel:
            warnings.append(
                f"vLLM spreads experts over all tensor x data parallel ranks "
                f"({served.tensor_parallel * served.data_parallel}), not over {served.expert_parallel}"
            )
    if served.max_running_requests is not None:
        words += ["--max-num-seqs", str(served.max_running_requests)]
    if served.fp8_kv_cache:
        words += ["--kv-cache-dtype", "fp8"]
    if config is None:
        warnings.append("the schedule never drafts: start the engine without speculative decoding")
        return EngineExport("vllm", None, "", None, shlex.join(words), tuple(warnings))
    if "num_speculative_tokens_per_batch_size" in config:
        if served.data_parallel > 1:
            warnings.append(
                "vLLM drops the table when data parallelism is on and runs num_speculative_tokens throughout"
            )
        if method not in ("eagle", "eagle3", "dflash"):
            warnings.append(
                f"vLLM's documentation lists the table as tested with EAGLE, EAGLE-3 and DFlash, not {method}"
            )
    elif len(merged_rows(ranges)) > 1:
        warnings.append(f"method {method} drafts a fixed K; the K of the widest range is used, not the schedule")
    if method == "suffix":
        warnings.append("suffix decoding needs the package arctic-inference beside vLLM")
    text = json.dumps(config, separators=(",", ":"))
    return EngineExport("vllm", config, text, None, shlex.join([*words, "--speculative-config", text]), tuple(warnings))


def _sglang_export(
    ranges: Sequence[KRange], method: Method, served: ServedModel, draft_model: str | None, file_name: str
) -> EngineExport:
    if method not in SGLANG_ALGORITHM:
        raise AdvisorError(f"SGLang has no {method} drafter; choose ngram, or export for vLLM")
    rows = merged_rows(ranges)
    warnings = list(_covering(ranges, served))
    words = ["python", "-m", "sglang.launch_server", "--model-path", served.model]
    # SGLang's tp-size counts all ranks; data-parallel attention splits them into dp-size groups.
    words += ["--tp-size", str(served.tensor_parallel * served.data_parallel)]
    if served.data_parallel > 1:
        words += ["--dp-size", str(served.data_parallel), "--enable-dp-attention"]
    if served.expert_parallel > 1:
        words += ["--ep-size", str(served.expert_parallel)]
    if served.max_running_requests is not None:
        words += ["--max-running-requests", str(served.max_running_requests)]
    if served.fp8_kv_cache:
        words += ["--kv-cache-dtype", "fp8_e4m3"]
    if max(k for _, _, k in rows) == 0:
        warnings.append("the schedule never drafts: start the engine without speculative decoding")
        return EngineExport("sglang", None, "", None, shlex.join(words), tuple(warnings))
    adaptive = len(rows) > 1 and method in SGLANG_ADAPTIVE_METHODS
    k = max(k for _, _, k in rows) if adaptive else _widest_k(rows)
    words += _sglang_speculation(method, draft_model, k)
    if not adaptive:
        if len(rows) > 1:
            warnings.append(f"SGLang varies K for EAGLE and EAGLE-3 only; {method} runs the K of the widest range")
        return EngineExport("sglang", None, "", None, shlex.join(words), tuple(warnings))
    config = sglang_adaptive_config(ranges)
    check_sglang_adaptive_config(config, k)
    words += ["--speculative-adaptive", "--speculative-adaptive-config", file_name]
    warnings.append(
        "SGLang pads a batch to a captured graph size before it looks up the slot; limits move down to those sizes"
    )
    if any(row_k == 0 for _, _, row_k in rows):
        warnings.append("candidate 0 (no drafting) needs an SGLang release that accepts it; 0.5.23 does")
    return EngineExport("sglang", config, json.dumps(config, indent=2), file_name, shlex.join(words), tuple(warnings))


def _sglang_speculation(method: Method, draft_model: str | None, k: int) -> list[str]:
    words = ["--speculative-algorithm", SGLANG_ALGORITHM[method]]
    if draft_model is not None:
        words += ["--speculative-draft-model-path", draft_model]
    if method == "ngram":
        # Verified tokens per sequence: K drafts and the last emitted token. Breadth 1 keeps the drafts a chain.
        return [*words, "--speculative-num-draft-tokens", str(k + 1), "--speculative-ngram-max-bfs-breadth", "1"]
    if method == "dflash":
        return [*words, "--speculative-num-draft-tokens", str(k + 1)]
    return [
        *words,
        *("--speculative-num-steps", str(k)),
        *("--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(k + 1)),
    ]


def _check_draft_model(method: str, draft_model: str | None) -> None:
    if method not in (*SGLANG_ALGORITHM, "suffix"):
        known = ", ".join([*SGLANG_ALGORITHM, "suffix"])
        raise AdvisorError(f"drafting method {method!r} is unknown; choose one of {known}")
    if method in VLLM_NEEDS_MODEL and not (draft_model or "").strip():
        raise AdvisorError(f"method {method} needs a draft model; give its Hugging Face name or path")
    if method in ("ngram", "suffix") and draft_model is not None:
        raise AdvisorError(f"method {method} has no draft model; leave draft_model={draft_model!r} out")


def _widest_k(rows: Sequence[tuple[int, int, int]]) -> int:
    """K > 0 that covers the most batch sizes on a log scale, so that small batches count as much as large ones."""
    weight: dict[int, float] = {}
    for start, end, k in rows:
        if k > 0:
            weight[k] = weight.get(k, 1.0) * (end + 1) / start
    return max(weight, key=lambda k: weight[k])


def _covering(ranges: Sequence[KRange], served: ServedModel) -> tuple[str, ...]:
    last = merged_rows(ranges)[-1][1]
    if served.max_running_requests is not None and served.max_running_requests > last:
        return (f"the schedule ends at batch {last}; the engine runs its last K up to {served.max_running_requests}",)
    return ()
