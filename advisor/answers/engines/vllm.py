"""A schedule as vLLM loads it, and vLLM's own rules for it, checked before a user starts a server with it.

Read in vLLM 0.33, in our words: vllm/config/speculative.py (fields, types) and vllm/v1/spec_decode/dynamic/utils.py
(the table). The checks are stricter where vLLM would accept a file and then do something else than it says: it fills
gaps with the previous K and cuts a K above num_speculative_tokens.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.answers.engines.config import (
    NEEDS_MODEL,
    WITHOUT_MODEL,
    EngineExport,
    ExportRequest,
    beyond_schedule,
    guard_warnings,
    is_whole,
    merged_rows,
    missing_graphs,
    only_k,
    widest_k,
)
from advisor.answers.round_costs import KRange
from advisor.catalog.engines import load_engine
from advisor.prediction import AdvisorError

FIXED_K_ONLY = ("suffix",)
"""Methods whose proposer takes its length from num_speculative_tokens and nothing else."""
TABLE_TESTED_WITH = ("eagle", "eagle3", "dflash")
"""Methods that vLLM's documentation names for the table."""
DEFAULT_PROMPT_LOOKUP = (2, 5)
"""n-gram window, ours to choose: vLLM's own fallback (5, 5) calls itself arbitrary."""
TOKEN_BUDGETS = (2048, 8192, 16384)
"""Default max_num_batched_tokens of the server in 0.33: below 70 GiB of GPU memory and on A100, from 70, from 160 GiB
(vllm/engine/arg_utils.py)."""
_KEYS = {
    "method",
    "model",
    "num_speculative_tokens",
    "num_speculative_tokens_per_batch_size",
    "draft_tensor_parallel_size",
    "prompt_lookup_min",
    "prompt_lookup_max",
    "max_model_len",
    "quantization",
    "parallel_drafting",
    "suffix_decoding_max_tree_depth",
    "rejection_sample_method",
    "synthetic_acceptance_length",
    "synthetic_acceptance_rates",
}


def export(request: ExportRequest) -> EngineExport:
    """The checked configuration, inline on the launch line. Raises AdvisorError when vLLM cannot run the method."""
    ranges, method, served = request.ranges, request.method, request.served
    rows = merged_rows(ranges)
    fixed = any(k for _, _, k in rows) and len(rows) > 1 and (served.data_parallel > 1 or method in FIXED_K_ONLY)
    if fixed:
        ranges = (KRange(1, rows[-1][1], only_k(request)[0], 1.0),)
    config = vllm_speculative_config(ranges, method, request.draft_model, parallel_drafting=request.parallel_drafting)
    warnings = list(beyond_schedule(request))
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
    if served.redundant_experts is not None:
        words.append("--enable-eplb")
        if served.redundant_experts:
            words += ["--eplb-config", f'{{"num_redundant_experts":{served.redundant_experts}}}']
    if served.max_running_requests is not None:
        words += ["--max-num-seqs", str(served.max_running_requests)]
    if served.fp8_kv_cache:
        words += ["--kv-cache-dtype", "fp8"]
    if config is None:
        warnings.append("K = 0 throughout: the engine is started without speculation")
        return EngineExport("vllm", None, "", None, shlex.join(words), tuple(warnings))
    varies = "num_speculative_tokens_per_batch_size" in config
    if varies:
        if method not in TABLE_TESTED_WITH:
            warnings.append(
                f"vLLM's documentation lists the table as tested with EAGLE, EAGLE-3 and DFlash, not {method}"
            )
    elif fixed:
        reason = f"method {method} drafts a fixed K" if method in FIXED_K_ONLY else "vLLM drops the table of K by batch"
        under = "" if method in FIXED_K_ONLY else " under data parallelism"
        warnings.append(f"{reason}{under}: K = {only_k(request)[0]} {only_k(request)[1]} is exported, not the schedule")
    if method == "suffix":
        warnings.append("suffix decoding needs the package arctic-inference beside vLLM")
    warnings += _token_budget(request, config, words)
    warnings += _graphs(request, merged_rows(ranges), words)
    warnings += guard_warnings("vllm", request)
    text = json.dumps(config, separators=(",", ":"))
    line = shlex.join([*words, "--speculative-config", text])
    return EngineExport("vllm", config, text, None, line, tuple(warnings), varies)


def _token_budget(request: ExportRequest, config: Mapping[str, Any], words: list[str]) -> list[str]:
    """Sees to it that a step of all requests with their drafts fits the budget. Extends the launch line where no
    default of vLLM's is large enough."""
    last = merged_rows(request.ranges)[-1][1]
    requests = request.served.max_running_requests or last
    needed = requests * (int(config["num_speculative_tokens"]) + 1)
    if needed <= min(TOKEN_BUDGETS):
        return []
    if needed > max(TOKEN_BUDGETS):
        words += ["--max-num-batched-tokens", str(needed)]
        return [f"--max-num-batched-tokens {needed} is written, since {requests} requests with their drafts need it"]
    budgets = ", ".join(f"{budget:,}" for budget in TOKEN_BUDGETS)
    return [
        f"{requests} requests with their drafts are {needed:,} tokens a step; vLLM's own budget is {budgets} by the "
        f"size of the GPU, so give --max-num-batched-tokens {needed} or more where its default is less"
    ]


def _graphs(request: ExportRequest, rows: Sequence[tuple[int, int, int]], words: list[str]) -> list[str]:
    """Extends the launch line by sizes to capture where the release's own do not hold every round."""
    sizes = missing_graphs(request, rows)
    if not sizes or request.graphs is None:
        return []
    own = request.graphs.largest(max(k for _, _, k in rows) + 1)
    words += ["--compilation-config", json.dumps({"cudagraph_capture_sizes": list(sizes)}, separators=(",", ":"))]
    return [
        f"CUDA graphs of up to {sizes[-1]:,} tokens are captured, since rounds of the schedule are above the {own:,} "
        f"that {request.graphs.release} captures by itself: that takes memory and time at the start"
    ]


def vllm_speculative_config(
    ranges: Sequence[KRange],
    method: str,
    draft_model: str | None = None,
    prompt_lookup: tuple[int, int] = DEFAULT_PROMPT_LOOKUP,
    parallel_drafting: bool = False,
) -> dict[str, Any] | None:
    """vLLM's `--speculative-config` object. None where K is 0 throughout. Already checked.

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
    fixed = method in FIXED_K_ONLY
    config["num_speculative_tokens"] = widest_k(rows) if fixed else k_max
    if len(rows) > 1 and not fixed:
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in rows]
    check_vllm_speculative_config(config)
    return config


def check_vllm_speculative_config(config: object) -> None:
    """Refuse a `--speculative-config` object that vLLM would reject or silently change.

    Raises AdvisorError with every finding: method and its model field, num_speculative_tokens > 0, and a table of
    [start, end, K] whole numbers, sorted, from 1, without gap or overlap, 0 <= K <= num_speculative_tokens.
    """
    if not isinstance(config, Mapping):
        raise AdvisorError("vLLM speculative config: expected a JSON object")
    faults = [f"unknown key {key!r}; known keys are {', '.join(sorted(_KEYS))}" for key in set(config) - _KEYS]
    faults += _check_method(config)
    tokens = config.get("num_speculative_tokens")
    if not is_whole(tokens) or tokens < 1:
        faults.append(f"num_speculative_tokens={tokens!r} must be a whole number of at least 1")
        tokens = None
    if "num_speculative_tokens_per_batch_size" in config:
        if config.get("method") in FIXED_K_ONLY:
            faults.append(
                f"method {config['method']!r} drafts a fixed K; leave num_speculative_tokens_per_batch_size out"
            )
        faults += _check_table(config["num_speculative_tokens_per_batch_size"], tokens)
    if faults:
        raise AdvisorError("vLLM speculative config: " + "; ".join(faults))


def _check_method(config: Mapping[str, Any]) -> list[str]:
    method, model = config.get("method"), config.get("model")
    methods = load_engine("vllm").methods.values()
    if method not in methods:
        return [f"method={method!r} is not one of {', '.join(methods)}"]
    faults = []
    if method in NEEDS_MODEL and not (isinstance(model, str) and model.strip()):
        faults.append(f"method {method!r} needs the draft model's name or path in 'model'")
    if method in WITHOUT_MODEL and model is not None:
        faults.append(f"method {method!r} has no draft model; leave 'model' out")
    if method == "ngram":
        low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
        if not is_whole(high) or high < 1:
            faults.append(f"method 'ngram' needs prompt_lookup_max >= 1, got {high!r}")
        elif low is not None and (not is_whole(low) or not 1 <= low <= high):
            faults.append(f"prompt_lookup_min={low!r} must lie in 1..prompt_lookup_max={high}")
    elif config.keys() & {"prompt_lookup_min", "prompt_lookup_max"}:
        faults.append(f"prompt_lookup_min and prompt_lookup_max belong to method 'ngram', not {method!r}")
    return faults


def _check_table(table: object, tokens: int | None) -> list[str]:
    if not isinstance(table, list) or not table:
        return ["num_speculative_tokens_per_batch_size must be a non-empty list of [start, end, K]"]
    faults: list[str] = []
    expected = 1
    for number, row in enumerate(table, start=1):
        if not isinstance(row, list | tuple) or len(row) != 3 or not all(is_whole(value) for value in row):
            faults.append(f"row {number}: {row!r} is not [start, end, K] in whole numbers")
            return faults
        start, end, k = row
        if start != expected:
            rule = "must start at 1" if number == 1 else f"must start at {expected}, right after the row before"
            faults.append(f"row {number}: start {start} {rule}")
        if end < start:
            faults.append(f"row {number}: end {end} lies before start {start}")
        if k < 0:
            faults.append(f"row {number}: K={k} is negative")
        if tokens is not None and k > tokens:
            faults.append(f"row {number}: K={k} exceeds num_speculative_tokens={tokens}")
        expected = end + 1
    if tokens is not None and not faults and max(row[2] for row in table) < tokens:
        faults.append(
            f"no row uses num_speculative_tokens={tokens}; the engine would reserve room for drafts it never makes"
        )
    return faults
