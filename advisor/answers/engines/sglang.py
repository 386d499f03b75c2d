"""A schedule as SGLang loads it: launch line and, where K varies, the file of adaptive steps.

Read in SGLang 0.5.23: python/sglang/srt/speculative/adaptive_spec_params.py and
adaptive_step_router.py @015c8726. `make test-engines` loads the exports with SGLang's own code.
"""

from __future__ import annotations

import json
import shlex

from advisor.answers.engines.config import (
    EngineExport,
    ExportRequest,
    ServedModel,
    beyond_schedule,
    guard_warnings,
    merged_rows,
    missing_graphs,
    only_k,
)
from advisor.catalog.engines import load_engine
from advisor.prediction import AdvisorError

ADAPTIVE_METHODS = ("eagle3", "eagle", "mtp")
"""Methods whose K SGLang varies."""


def export(request: ExportRequest) -> EngineExport:
    """The checked adaptive file and a launch line that points to it. Raises AdvisorError for a
    method it has not."""
    ranges = request.ranges
    method = request.method
    served = request.served
    if method not in load_engine("sglang").methods:
        raise AdvisorError(f"SGLang has no {method} drafter; choose ngram, or export for vLLM")
    rows = merged_rows(ranges)
    warnings = list(beyond_schedule(request))
    words = _placement(served, method)
    drafts = any(k for _, _, k in rows)
    # The flag counts the requests of all attention groups; the schedule is one group's.
    admitted = served.max_running_requests or (
        rows[-1][1] * served.data_parallel if drafts else None
    )
    if admitted is not None:
        words += ["--max-running-requests", str(admitted)]
    if served.fp8_kv_cache:
        words += ["--kv-cache-dtype", "fp8_e4m3"]
    if not drafts:
        warnings.append("K = 0 throughout: the engine is started without speculation")
        return EngineExport("sglang", None, "", None, shlex.join(words), tuple(warnings))
    if missing_graphs(request, rows) and request.graphs is not None:
        q = max(k for _, _, k in rows) + 1
        max_batch = admitted // served.data_parallel if admitted is not None else rows[-1][1]
        words += ["--cuda-graph-max-bs-decode", str(max_batch)]
        warnings.append(
            f"CUDA graphs of up to {max_batch:,} requests are captured, where "
            f"{request.graphs.release} by itself stops at {request.graphs.largest(q) // q:,}: "
            "that takes memory and time at the start" + request.priced_again(max_batch)
        )
    dropped = served.data_parallel > 1 or request.multi_layer
    adaptive = len(rows) > 1 and method in ADAPTIVE_METHODS and not dropped
    k = max(k for _, _, k in rows) if adaptive else only_k(request)[0]
    words += _speculation(method, request.draft_model, k)
    config = None
    text = ""
    file_name = None
    if adaptive:
        # With one candidate K a slot, SGLang runs exactly the schedule.
        config = {str(first): {"candidate_steps": [k]} for first, _, k in rows}
        file_name = request.file_name
        text = json.dumps(config, indent=2)
        words += ["--speculative-adaptive", "--speculative-adaptive-config", file_name]
        warnings.append(
            "SGLang pads a batch to a captured graph size before it looks up the slot; limits "
            "move down to those sizes"
        )
    elif len(rows) > 1 and method not in ADAPTIVE_METHODS:
        warnings.append(
            f"SGLang varies K for EAGLE and EAGLE-3 only; {method} runs K = {k} "
            f"{only_k(request)[1]}"
        )
    elif len(rows) > 1:
        warnings.append(
            f"K = {k} {only_k(request)[1]} is exported, since SGLang would not vary it here"
        )
    warnings += guard_warnings("sglang", request)
    return EngineExport("sglang", config, text, file_name, shlex.join(words), tuple(warnings))


def _placement(served: ServedModel, method: str) -> list[str]:
    # SGLang's tp-size counts all ranks; data-parallel attention splits them into dp-size groups.
    ranks = str(served.tensor_parallel * served.data_parallel)
    words = [
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        served.model,
        "--tp-size",
        ranks,
    ]
    if served.data_parallel > 1:
        words += ["--dp-size", str(served.data_parallel), "--enable-dp-attention"]
        if method == "dspark":
            words.append("--enable-dp-lm-head")  # it refuses to start without
    if served.expert_parallel > 1:
        words += ["--ep-size", str(served.expert_parallel)]
    if served.redundant_experts is not None:
        words.append("--enable-eplb")
        if served.redundant_experts:
            words += ["--ep-num-redundant-experts", str(served.redundant_experts)]
    return words


def _speculation(method: str, draft_model: str | None, k: int) -> list[str]:
    words = ["--speculative-algorithm", load_engine("sglang").methods[method]]
    if draft_model is not None:
        words += ["--speculative-draft-model-path", draft_model]
    if method == "ngram":
        # Verified tokens per sequence: K drafts and the last emitted token. Breadth 1 keeps the
        # drafts a chain.
        return [
            *words,
            "--speculative-num-draft-tokens",
            str(k + 1),
            "--speculative-ngram-max-bfs-breadth",
            "1",
        ]
    if method == "dspark":
        return [*words, "--speculative-dspark-block-size", str(k)]
    if method != "dflash":
        words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
    return [*words, "--speculative-num-draft-tokens", str(k + 1)]
