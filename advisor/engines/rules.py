"""The engines' own rules for a K-by-batch file, checked before a user starts a server with it.

Read in the engines' sources, in our words:
vLLM 0.33: vllm/config/speculative.py (fields, types) and vllm/v1/spec_decode/dynamic/utils.py (the table).
SGLang 0.5.23: python/sglang/srt/speculative/adaptive_spec_params.py and adaptive_step_router.py @015c8726.
These checks are stricter where an engine would accept a file and then do something else than it says: vLLM fills gaps
with the previous K and cuts a K above num_speculative_tokens; SGLang ignores keys that are not digits or known knobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from advisor.prediction import AdvisorError

VLLM_METHODS = ("eagle", "eagle3", "mtp", "ngram", "suffix", "draft_model", "dflash")
VLLM_NEEDS_MODEL = ("eagle", "eagle3", "draft_model", "dflash")
VLLM_FIXED_K_ONLY = ("suffix",)
"""Methods whose proposer takes its length from num_speculative_tokens and nothing else."""
_VLLM_KEYS = {
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
_SGLANG_KNOBS: dict[str, tuple[float, float]] = {
    "ema_alpha": (0.0, 1.0),
    "up_hysteresis": (-math.inf, math.inf),
    "down_hysteresis": (-math.inf, math.inf),
    "ceiling_coeff": (0.0, math.inf),
    "update_interval": (1, math.inf),
    "warmup_batches": (0, math.inf),
}
_SGLANG_WHOLE = ("update_interval", "warmup_batches")


def check_vllm_speculative_config(config: object) -> None:
    """Refuse a `--speculative-config` object that vLLM would reject or silently change.

    Raises AdvisorError with every finding: method and its model field, num_speculative_tokens > 0, and a table of
    [start, end, K] whole numbers, sorted, from 1, without gap or overlap, 0 <= K <= num_speculative_tokens.
    """
    if not isinstance(config, Mapping):
        raise AdvisorError("vLLM speculative config: expected a JSON object")
    found = [f"unknown key {key!r}; known keys are {', '.join(sorted(_VLLM_KEYS))}" for key in set(config) - _VLLM_KEYS]
    found += _vllm_method(config)
    tokens = config.get("num_speculative_tokens")
    if not _whole(tokens) or tokens < 1:
        found.append(f"num_speculative_tokens={tokens!r} must be a whole number of at least 1")
        tokens = None
    if "num_speculative_tokens_per_batch_size" in config:
        if config.get("method") in VLLM_FIXED_K_ONLY:
            found.append(
                f"method {config['method']!r} drafts a fixed K; leave num_speculative_tokens_per_batch_size out"
            )
        found += _vllm_table(config["num_speculative_tokens_per_batch_size"], tokens)
    if found:
        raise AdvisorError("vLLM speculative config: " + "; ".join(found))


def check_sglang_adaptive_config(config: object, num_steps: int | None = None) -> None:
    """Refuse a `--speculative-adaptive-config` object that SGLang would reject or read differently than written.

    Raises AdvisorError with every finding: an object whose keys are batch sizes as digit strings, the first "1"
    (smaller batches fall into the first slot), each with candidate_steps (distinct, sorted whole numbers >= 0) and
    knobs within their ranges; knobs may also stand at the top level. num_steps, if given, must be a candidate.
    """
    if not isinstance(config, Mapping):
        raise AdvisorError("SGLang adaptive config: expected a JSON object")
    slots = {key: value for key, value in config.items() if isinstance(key, str) and key.isascii() and key.isdigit()}
    found = _sglang_knobs("top level", {k: v for k, v in config.items() if k not in slots}, {"strategy"})
    if config.get("strategy", "ema") != "ema":
        found.append(f"strategy={config['strategy']!r}; this file is for the 'ema' strategy")
    if not slots:
        found.append('no batch size; expected at least {"1": {"candidate_steps": [...]}}')
    elif "1" not in slots:
        found.append(f"no slot for batch size 1; batches below {min(map(int, slots))} would use that slot")
    if len({int(key) for key in slots}) != len(slots) or any(key != str(int(key)) or key == "0" for key in slots):
        found.append("batch sizes must be distinct whole numbers of at least 1, without leading zeros")
    candidates: set[int] = set()
    for key, entry in slots.items():
        if not isinstance(entry, Mapping):
            found.append(f"slot {key}: expected an object with candidate_steps")
            continue
        found += _sglang_steps(key, entry.get("candidate_steps"), candidates)
        found += _sglang_knobs(f"slot {key}", {k: v for k, v in entry.items() if k != "candidate_steps"}, set())
    if num_steps is not None and num_steps not in candidates:
        found.append(f"--speculative-num-steps {num_steps} is none of the candidates {sorted(candidates)}")
    if found:
        raise AdvisorError("SGLang adaptive config: " + "; ".join(found))


def _vllm_method(config: Mapping[str, Any]) -> list[str]:
    method, model = config.get("method"), config.get("model")
    if method not in VLLM_METHODS:
        return [f"method={method!r} is not one of {', '.join(VLLM_METHODS)}"]
    found = []
    if method in VLLM_NEEDS_MODEL and not (isinstance(model, str) and model.strip()):
        found.append(f"method {method!r} needs the draft model's name or path in 'model'")
    if method in ("ngram", "suffix") and model is not None:
        found.append(f"method {method!r} has no draft model; leave 'model' out")
    if method == "ngram":
        low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
        if not _whole(high) or high < 1:
            found.append(f"method 'ngram' needs prompt_lookup_max >= 1, got {high!r}")
        elif low is not None and (not _whole(low) or not 1 <= low <= high):
            found.append(f"prompt_lookup_min={low!r} must lie in 1..prompt_lookup_max={high}")
    elif config.keys() & {"prompt_lookup_min", "prompt_lookup_max"}:
        found.append(f"prompt_lookup_min and prompt_lookup_max belong to method 'ngram', not {method!r}")
    return found


def _vllm_table(table: object, tokens: int | None) -> list[str]:
    if not isinstance(table, list) or not table:
        return ["num_speculative_tokens_per_batch_size must be a non-empty list of [start, end, K]"]
    found: list[str] = []
    expected = 1
    for number, row in enumerate(table, start=1):
        if not isinstance(row, list | tuple) or len(row) != 3 or not all(_whole(value) for value in row):
            found.append(f"row {number}: {row!r} is not [start, end, K] in whole numbers")
            return found
        start, end, k = row
        if start != expected:
            what = "must start at 1" if number == 1 else f"must start at {expected}, right after the row before"
            found.append(f"row {number}: start {start} {what}")
        if end < start:
            found.append(f"row {number}: end {end} lies before start {start}")
        if k < 0:
            found.append(f"row {number}: K={k} is negative")
        if tokens is not None and k > tokens:
            found.append(f"row {number}: K={k} exceeds num_speculative_tokens={tokens}")
        expected = end + 1
    if tokens is not None and not found and max(row[2] for row in table) < tokens:
        found.append(
            f"no row uses num_speculative_tokens={tokens}; the engine would reserve room for drafts it never makes"
        )
    return found


def _sglang_steps(key: str, steps: object, candidates: set[int]) -> list[str]:
    if not isinstance(steps, list) or not steps or not all(_whole(step) and step >= 0 for step in steps):
        return [f"slot {key}: candidate_steps={steps!r} must be a non-empty list of whole numbers >= 0"]
    candidates.update(steps)
    if steps != sorted(set(steps)):
        return [f"slot {key}: candidate_steps={steps!r} must increase without repeats"]
    return []


def _sglang_knobs(where: str, knobs: Mapping[str, Any], also: set[str]) -> list[str]:
    found = []
    for name, value in knobs.items():
        if name in also:
            continue
        if name not in _SGLANG_KNOBS:
            found.append(f"{where}: unknown key {name!r}; SGLang would ignore it")
            continue
        low, high = _SGLANG_KNOBS[name]
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not low <= value <= high or (name in _SGLANG_WHOLE and not _whole(value)):
            kind = "a whole number" if name in _SGLANG_WHOLE else "a number"
            found.append(f"{where}: {name}={value!r} must be {kind} in {low:g}..{high:g}")
    return found


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
