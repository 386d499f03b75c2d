"""A schedule as vLLM loads it: launch line and speculative configuration.

Read in vLLM 0.33: vllm/config/speculative.py (fields, types) and
vllm/v1/spec_decode/dynamic/utils.py (the table). `make test-engines` loads the exports with vLLM's
own code.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.answers.best_k import KRange
from advisor.answers.engines.config import (
    EngineExport,
    ExportRequest,
    ServedModel,
    beyond_schedule,
    guard_notes,
    merged_rows,
    only_k,
    widest_k,
)
from advisor.physics.hardware import Hardware
from advisor.physics.memory import GIB
from advisor.physics.notes import Kind, Note, ranked

FIXED_K_ONLY = ("suffix",)
"""Methods whose proposer takes its length from num_speculative_tokens and nothing else."""
TABLE_TESTED_WITH = ("eagle", "eagle3", "dflash")
"""Methods that vLLM's documentation names for the table."""
PROMPT_LOOKUP = (2, 5)
"""n-gram window, ours to choose: vLLM's own fallback (5, 5) calls itself arbitrary."""
TOKEN_BUDGETS = (2048, 8192, 16384)
"""Default max_num_batched_tokens of the server in 0.33: below 70 GiB of GPU memory and on A100,
from 70, from 160 GiB (vllm/engine/arg_utils.py)."""


def fixed_k(method: str, data_parallel: int, _multi_layer: bool = False) -> Kind | None:
    """Kind of note on why the server runs one K at every batch. None where it switches."""
    if method in FIXED_K_ONLY:
        return "fixed_k_of_method"
    return "fixed_k_of_ranks" if data_parallel > 1 else None


def export(request: ExportRequest) -> EngineExport:
    """The checked configuration, inline on the launch line. Raises AdvisorError when vLLM cannot
    run the method."""
    ranges = request.ranges
    method = request.method
    served = request.served
    rows = merged_rows(ranges)
    drafts = any(k for _, _, k in rows)
    kind = fixed_k(method, served.data_parallel) if drafts and len(rows) > 1 else None
    if kind is not None:
        ranges = (KRange(1, rows[-1][1], only_k(request)["k"], 1.0),)
    config = vllm_speculative_config(
        ranges, method, request.draft_model, parallel_drafting=request.parallel_drafting
    )
    notes = beyond_schedule(request)
    words = ["vllm", "serve", served.model, *placement_words(served)]
    ranks = served.tensor_parallel * served.data_parallel
    if served.expert_parallel not in (1, ranks):
        asked_ranks = served.expert_parallel
        notes.append(Note.of("experts_over_all_ranks", ranks=ranks, not_over=asked_ranks))
    if served.redundant_experts is not None:
        words.append("--enable-eplb")
        if served.redundant_experts:
            words += ["--eplb-config", f'{{"num_redundant_experts":{served.redundant_experts}}}']
    # Else vLLM's own: it admits 256 or more and waits for room; a context is a mean, no
    # --max-model-len.
    if served.max_running_requests is not None:
        words += ["--max-num-seqs", str(served.max_running_requests)]
    if served.fp8_kv_cache:
        words += ["--kv-cache-dtype", "fp8"]
    words += _graph_words(request)
    if config is None:
        notes.append(Note.of("nothing_drafted"))
        return EngineExport("vllm", None, "", None, shlex.join(words), ranked(notes))
    switches = "num_speculative_tokens_per_batch_size" in config
    if switches and method not in TABLE_TESTED_WITH:
        notes.append(Note.of("table_untested", method=method))
    elif kind is not None:
        notes.append(Note.of(kind, method=method, **only_k(request)))
    if method == "suffix":
        notes.append(Note.of("suffix_package"))
    notes += _token_budget(request, config, words)
    if request.capture is not None:
        notes.append(request.capture.note)
    if request.adaptive is not None:
        config[request.adaptive.key] = True
    notes += guard_notes("vllm", request)
    text = json.dumps(config, separators=(",", ":"))
    line = shlex.join([*words, "--speculative-config", text])
    return EngineExport("vllm", config, text, None, line, ranked(notes), switches=switches)


def placement_words(served: ServedModel) -> list[str]:
    """Options that place a model, of the server and of vLLM's own benchmark."""
    words = ["--tensor-parallel-size", str(served.tensor_parallel)]
    if served.data_parallel > 1:
        words += ["--data-parallel-size", str(served.data_parallel)]
    return [*words, "--enable-expert-parallel"] if served.expert_parallel > 1 else words


def token_budget(hardware: Hardware) -> int:
    """Tokens of a step that the server allows by itself on an accelerator."""
    small, usual, large = TOKEN_BUDGETS
    gib = hardware.memory_bytes.value / GIB
    if gib < 70 or "A100" in hardware.name:
        return small
    return usual if gib < 160 else large


def _token_budget(
    request: ExportRequest, config: Mapping[str, Any], words: list[str]
) -> list[Note]:
    """Extends the launch line by a budget that holds a step of all requests with drafts, where
    vLLM's own does not."""
    requests = request.served.max_running_requests or merged_rows(request.ranges)[-1][1]
    # A graph of more tokens than a step may have is not captured.
    needed = max(requests * (int(config["num_speculative_tokens"]) + 1), request.largest_graph or 0)
    if needed <= (request.token_budget or min(TOKEN_BUDGETS)):
        return []
    words += ["--max-num-batched-tokens", str(needed)]
    return [Note.of("token_budget", tokens=needed, requests=requests)]


def _graph_words(request: ExportRequest) -> list[str]:
    """Options that make the server capture what was priced."""
    server = request.server
    if server is not None and server.sizes == ():
        return ["--enforce-eager"]
    sizes: dict[str, Any] = {}
    if server is not None and server.sizes is not None:
        sizes = {"cudagraph_capture_sizes": list(server.sizes)}
    elif largest := request.largest_graph:
        sizes = {"max_cudagraph_capture_size": largest}
    return ["--compilation-config", json.dumps(sizes, separators=(",", ":"))] if sizes else []


def vllm_speculative_config(
    ranges: Sequence[KRange],
    method: str,
    draft_model: str | None = None,
    parallel_drafting: bool = False,
) -> dict[str, Any] | None:
    """vLLM's `--speculative-config` object. None where K is 0 throughout.

    A schedule of one K needs no table; methods that cannot vary K get the one that covers the most
    batch sizes.
    """
    rows = merged_rows(ranges)
    k_max = max(k for _, _, k in rows)
    if k_max == 0:
        return None
    config: dict[str, Any] = {"method": method}
    if draft_model is not None:
        config["model"] = draft_model
    if method == "ngram":
        config["prompt_lookup_min"], config["prompt_lookup_max"] = PROMPT_LOOKUP
    if parallel_drafting:
        config["parallel_drafting"] = True
    fixed = method in FIXED_K_ONLY
    config["num_speculative_tokens"] = widest_k(rows) if fixed else k_max
    if len(rows) > 1 and not fixed:
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in rows]
    return config
