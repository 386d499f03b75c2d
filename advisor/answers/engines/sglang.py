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
    guard_notes,
    merged_rows,
    missing_graphs,
    only_k,
)
from advisor.catalog.engines import load_engine
from advisor.physics.notes import Note, ranked
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
    notes = beyond_schedule(request)
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
        notes.append(Note.of("nothing_drafted"))
        return EngineExport("sglang", None, "", None, shlex.join(words), ranked(notes))
    if missing_graphs(request, rows) and request.graphs is not None:
        q = max(k for _, _, k in rows) + 1
        max_batch = admitted // served.data_parallel if admitted is not None else rows[-1][1]
        words += ["--cuda-graph-max-bs-decode", str(max_batch)]
        note = Note.of(
            "graphs_of_requests",
            requests=max_batch,
            release=request.graphs.release,
            by_itself=request.graphs.largest(q) // q,
            ask_again=max_batch if request.priced else None,
        )
        notes.append(note)
    dropped = served.data_parallel > 1 or request.multi_layer
    adaptive = len(rows) > 1 and method in ADAPTIVE_METHODS and not dropped
    k = max(k for _, _, k in rows) if adaptive else only_k(request)["k"]
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
        notes.append(Note.of("batches_padded"))
    elif len(rows) > 1 and method not in ADAPTIVE_METHODS:
        notes.append(Note.of("k_of_method_not_varied", method=method, **only_k(request)))
    elif len(rows) > 1:
        notes.append(Note.of("fixed_k_of_engine", **only_k(request)))
    notes += guard_notes("sglang", request)
    return EngineExport("sglang", config, text, file_name, shlex.join(words), ranked(notes))


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
