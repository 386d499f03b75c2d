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
    only_k,
)
from advisor.catalog.engines import load_engine
from advisor.physics.notes import Kind, Note, ranked

ADAPTIVE_METHODS = ("eagle3", "eagle", "mtp")
"""Methods whose K SGLang varies."""


def fixed_k(method: str, data_parallel: int, multi_layer: bool = False) -> Kind | None:
    """Kind of note on why the server runs one K at every batch. None where it switches."""
    if method not in ADAPTIVE_METHODS:
        return "k_of_method_not_varied"
    return "fixed_k_of_engine" if data_parallel > 1 or multi_layer else None


def export(request: ExportRequest) -> EngineExport:
    """The checked adaptive file and a launch line that points to it."""
    ranges = request.ranges
    method = request.method
    served = request.served
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
    words += _graph_words(request)
    if not drafts:
        notes.append(Note.of("nothing_drafted"))
        line = shlex.join(words)
        return EngineExport("sglang", None, "", None, line, ranked(notes), admitted)
    if request.capture is not None:
        notes.append(request.capture.note)
    kind = None if len(rows) == 1 else fixed_k(method, served.data_parallel, request.multi_layer)
    adaptive = len(rows) > 1 and kind is None
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
    elif kind is not None:
        notes.append(Note.of(kind, method=method, **only_k(request)))
    notes += guard_notes("sglang", request)
    line = shlex.join(words)
    return EngineExport(
        "sglang", config, text, file_name, line, ranked(notes), admitted, switches=adaptive
    )


def _graph_words(request: ExportRequest) -> list[str]:
    """Options that make the server capture what was priced."""
    server = request.server
    if server is not None and server.sizes == ():
        return ["--disable-cuda-graph"]
    if server is not None and server.sizes is not None:
        return ["--cuda-graph-bs-decode", *map(str, server.sizes)]
    largest = request.largest_graph
    return ["--cuda-graph-max-bs-decode", str(largest)] if largest else []


def _placement(served: ServedModel, method: str) -> list[str]:
    # SGLang's tp-size counts all ranks; data-parallel attention splits them into dp-size groups.
    ranks = str(served.tensor_parallel * served.data_parallel)
    words = ["python", "-m", "sglang.launch_server", "--model-path"]
    words += [served.model, "--tp-size", ranks]
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
    # Verified tokens per sequence: K drafts and the last emitted token.
    verified = {"num-draft-tokens": k + 1}
    of_method = {
        # Breadth 1 keeps the drafts a chain.
        "ngram": verified | {"ngram-max-bfs-breadth": 1},
        "dspark": {"dspark-block-size": k},
        "dflash": verified,
    }
    in_turn = {"num-steps": k, "eagle-topk": 1} | verified
    for name, value in of_method.get(method, in_turn).items():
        words += [f"--speculative-{name}", str(value)]
    return words
