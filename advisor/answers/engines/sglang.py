"""A schedule as SGLang loads it, and SGLang's own rules for it, checked before a user starts a server with it.

Read in SGLang 0.5.23, in our words: python/sglang/srt/speculative/adaptive_spec_params.py and adaptive_step_router.py
@015c8726. The checks are stricter where SGLang would accept a file and then do something else than it says: it ignores
keys that are not digits or known knobs.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.answers.engines.config import (
    EngineExport,
    ExportRequest,
    beyond_schedule,
    guard_warnings,
    is_whole,
    merged_rows,
    missing_graphs,
    only_k,
)
from advisor.answers.round_costs import KRange
from advisor.catalog.engines import load_engine
from advisor.prediction import AdvisorError

ADAPTIVE_METHODS = ("eagle3", "eagle", "mtp")
"""Methods whose K SGLang varies."""
_KNOBS: dict[str, tuple[float, float]] = {
    "ema_alpha": (0.0, 1.0),
    "up_hysteresis": (-math.inf, math.inf),
    "down_hysteresis": (-math.inf, math.inf),
    "ceiling_coeff": (0.0, math.inf),
    "update_interval": (1, math.inf),
    "warmup_batches": (0, math.inf),
}
_WHOLE = ("update_interval", "warmup_batches")


def export(request: ExportRequest) -> EngineExport:
    """The checked adaptive file and a launch line that points to it. Raises AdvisorError for a method it has not."""
    ranges, method, served = request.ranges, request.method, request.served
    if method not in load_engine("sglang").methods:
        raise AdvisorError(f"SGLang has no {method} drafter; choose ngram, or export for vLLM")
    rows = merged_rows(ranges)
    warnings = list(beyond_schedule(request))
    words = ["python", "-m", "sglang.launch_server", "--model-path", served.model]
    # SGLang's tp-size counts all ranks; data-parallel attention splits them into dp-size groups.
    words += ["--tp-size", str(served.tensor_parallel * served.data_parallel)]
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
    drafts = any(k for _, _, k in rows)
    # The flag counts the requests of all attention groups; the schedule is one group's.
    admitted = served.max_running_requests or (rows[-1][1] * served.data_parallel if drafts else None)
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
            f"CUDA graphs of up to {max_batch:,} requests are captured, where {request.graphs.release} by itself stops "
            f"at {request.graphs.largest(q) // q:,}: that takes memory and time at the start"
        )
    dropped = served.data_parallel > 1 or request.multi_layer
    adaptive = len(rows) > 1 and method in ADAPTIVE_METHODS and not dropped
    k = max(k for _, _, k in rows) if adaptive else only_k(request)[0]
    words += _speculation(method, request.draft_model, k)
    if not adaptive:
        if len(rows) > 1 and method not in ADAPTIVE_METHODS:
            warnings.append(f"SGLang varies K for EAGLE and EAGLE-3 only; {method} runs K = {k} {only_k(request)[1]}")
        elif len(rows) > 1:
            warnings.append(f"K = {k} {only_k(request)[1]} is exported, since SGLang would not vary it here")
        warnings += guard_warnings("sglang", request)
        return EngineExport("sglang", None, "", None, shlex.join(words), tuple(warnings))
    config = sglang_adaptive_config(ranges)
    check_sglang_adaptive_config(config, k)
    words += ["--speculative-adaptive", "--speculative-adaptive-config", request.file_name]
    warnings.append(
        "SGLang pads a batch to a captured graph size before it looks up the slot; limits move down to those sizes"
    )
    warnings += guard_warnings("sglang", request)
    return EngineExport(
        "sglang", config, json.dumps(config, indent=2), request.file_name, shlex.join(words), tuple(warnings), True
    )


def sglang_adaptive_config(ranges: Sequence[KRange]) -> dict[str, Any]:
    """Adaptive JSON of SGLang, one slot per range with that range's K as only candidate.

    A slot begins at the range's first batch size.

    With one candidate the average of accepted drafts decides nothing, so SGLang runs exactly the schedule.
    """
    config = {str(start): {"candidate_steps": [k]} for start, _, k in merged_rows(ranges)}
    check_sglang_adaptive_config(config)
    return config


def check_sglang_adaptive_config(config: object, num_steps: int | None = None) -> None:
    """Refuse a `--speculative-adaptive-config` that SGLang would reject or read otherwise.

    Raises AdvisorError with every finding: an object whose keys are batch sizes as digit strings, the first "1"
    (smaller batches fall into the first slot), each with candidate_steps (distinct, sorted whole numbers >= 0) and
    knobs within their ranges; knobs may also stand at the top level. num_steps, if given, must be a candidate.
    """
    if not isinstance(config, Mapping):
        raise AdvisorError("SGLang adaptive config: expected a JSON object")
    slots = {key: value for key, value in config.items() if isinstance(key, str) and key.isascii() and key.isdigit()}
    faults = _check_knobs("top level", {k: v for k, v in config.items() if k not in slots}, {"strategy"})
    if config.get("strategy", "ema") != "ema":
        faults.append(f"strategy={config['strategy']!r}; this file is for the 'ema' strategy")
    if not slots:
        faults.append('no batch size; expected at least {"1": {"candidate_steps": [...]}}')
    elif "1" not in slots:
        faults.append(f"no slot for batch size 1; batches below {min(map(int, slots))} would use that slot")
    if len({int(key) for key in slots}) != len(slots) or any(key != str(int(key)) or key == "0" for key in slots):
        faults.append("batch sizes must be distinct whole numbers of at least 1, without leading zeros")
    candidates: set[int] = set()
    for key, entry in slots.items():
        if not isinstance(entry, Mapping):
            faults.append(f"slot {key}: expected an object with candidate_steps")
            continue
        faults += _check_steps(key, entry.get("candidate_steps"), candidates)
        faults += _check_knobs(f"slot {key}", {k: v for k, v in entry.items() if k != "candidate_steps"}, set())
    if num_steps is not None and num_steps not in candidates:
        faults.append(f"--speculative-num-steps {num_steps} is not a candidate: {sorted(candidates)}")
    if faults:
        raise AdvisorError("SGLang adaptive config: " + "; ".join(faults))


def _speculation(method: str, draft_model: str | None, k: int) -> list[str]:
    words = ["--speculative-algorithm", load_engine("sglang").methods[method]]
    if draft_model is not None:
        words += ["--speculative-draft-model-path", draft_model]
    if method == "ngram":
        # Verified tokens per sequence: K drafts and the last emitted token. Breadth 1 keeps the drafts a chain.
        return [*words, "--speculative-num-draft-tokens", str(k + 1), "--speculative-ngram-max-bfs-breadth", "1"]
    if method == "dspark":
        return [*words, "--speculative-dspark-block-size", str(k)]
    if method == "dflash":
        return [*words, "--speculative-num-draft-tokens", str(k + 1)]
    return [
        *words,
        *("--speculative-num-steps", str(k)),
        *("--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(k + 1)),
    ]


def _check_steps(key: str, steps: object, candidates: set[int]) -> list[str]:
    if not isinstance(steps, list) or not steps or not all(is_whole(step) and step >= 0 for step in steps):
        return [f"slot {key}: candidate_steps={steps!r} must be a non-empty list of whole numbers >= 0"]
    candidates.update(steps)
    if steps != sorted(set(steps)):
        return [f"slot {key}: candidate_steps={steps!r} must increase without repeats"]
    return []


def _check_knobs(location: str, knobs: Mapping[str, Any], also: set[str]) -> list[str]:
    faults = []
    for name, value in knobs.items():
        if name in also:
            continue
        if name not in _KNOBS:
            faults.append(f"{location}: unknown key {name!r}; SGLang would ignore it")
            continue
        low, high = _KNOBS[name]
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not low <= value <= high or (name in _WHOLE and not is_whole(value)):
            kind = "a whole number" if name in _WHOLE else "a number"
            faults.append(f"{location}: {name}={value!r} must be {kind} in {low:g}..{high:g}")
    return faults
