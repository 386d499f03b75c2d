"""Step times from a vLLM server's own log, written with --enable-logging-iteration-details (0.32 and newer).

A step that carries no prompt and the same number of tokens for each sequence is a decoding step of K = tokens /
sequences - 1: a plain one, or a round. No other tool saw the run, so a log kept in production serves as well.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from advisor.measured.ingest.result import Reject
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import FieldMap, Format, RawRows, from_records, model_cells
from advisor.prediction import AdvisorError
from advisor.text import counted

_STEP = re.compile(
    r"Iteration\((?P<index>\d+)\): (?P<prompts>\d+) context requests, (?P<prompt_tokens>\d+) context tokens, "
    r"(?P<sequences>\d+) generation requests, (?P<tokens>\d+) generation tokens, "
    r"iteration elapsed time: (?P<ms>\d+(?:\.\d+)?) ms(?P<dummy> \(dummy\))?"
)
_ENGINE = re.compile(r"Engine (?P<rank>\d{1,6}): Iteration")
_START = re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[\w.+-]{1,40})\) with config: (?P<config>.*)")
_CONFIG = re.compile(r"\b(model|method|tensor_parallel_size|data_parallel_size)='?([^',)]{1,300})")
_LONGEST_LINE = 20_000
LEAST_STEPS = 5
"""Steps of one batch and K that make a row: a median of fewer says little. [-]"""
MAX_DRAFT = 128
"""Longest draft that a row may have (docs/formats.md). [tokens]"""
_MAPS = (
    FieldMap("batch_size", ("batch",)),
    FieldMap("draft_tokens_k", ("k",)),
    FieldMap("step_time_s", ("ms",), 1e-3),
    FieldMap("engine_version", ("version",)),
    FieldMap("tensor_parallel", ("tensor_parallel_size",)),
    FieldMap("data_parallel", ("data_parallel_size",)),
    FieldMap("drafter", ("drafter", "method")),
    FieldMap("notes", ("notes",)),
)


def detect(sample: Sample) -> float:
    """0.97 for text with such a line."""
    return 0.97 if sample.kind == "text" and _STEP.search(sample.data.decode("utf-8", errors="replace")) else 0.0


def read(sample: Sample) -> RawRows:
    """One row for each batch and K, the median of its steps.

    Left out and told: steps with prompts, idle ones, and those whose sequences differ in K. Raises AdvisorError where
    nothing is left.
    """
    steps, said, left_out = _steps(sample.data.decode("utf-8", errors="replace"))
    few = {key: len(found) for key, found in steps.items() if len(found) < LEAST_STEPS}
    rejects = [
        Reject(steps[key][0][0], "steps", str(count), f"B = {key[0]}, K = {key[1]}: fewer than {LEAST_STEPS} steps")
        for key, count in few.items()
    ]
    kept = {key: found for key, found in sorted(steps.items()) if key not in few}
    if not kept:
        reasons = ", ".join(f"{counted(count, 'step')} {why}" for why, count in left_out.items())
        raise AdvisorError(
            f"{sample.name}: no batch has {LEAST_STEPS} steps of decoding alone ({reasons or 'too few steps'}); "
            "send the log of a longer run at a steady load"
        )
    copies = int(said.get("data_parallel_size", 1))  # one engine's lines; the others hold as many
    records = [said | _row(copies * batch, k, found) for (batch, k), found in kept.items()]
    lines = np.array([found[0][0] for found in kept.values()], dtype=np.int64)
    raw = RawRows("points", lines, from_records(records, _MAPS), rejects)
    raw.cells["model_id"], notes = model_cells(records, ("model",))
    for column, value in (("engine", "vllm"), ("batch_kind", "batch"), ("prompts_cached", 1)):
        raw.constant(column, value)
    raw.notes += [*notes, "step times are medians of the engine's own log; drafts accepted are not in these lines"]
    if left_out:
        raw.notes.append("left out: " + ", ".join(f"{counted(count, 'step')} {why}" for why, count in left_out.items()))
    return raw


def _steps(text: str) -> tuple[dict[tuple[int, int], list[tuple[int, float]]], dict[str, str], Counter[str]]:
    """(line and time of each decoding step by batch and K [ms], what the server said of itself, what was left out)."""
    steps: dict[tuple[int, int], list[tuple[int, float]]] = {}
    said: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    ranks = set()
    for number, line in enumerate(text.splitlines(), start=1):
        short = line[:_LONGEST_LINE]
        if start := _START.search(short):
            said |= {
                "version": start["version"],
                **dict(reversed(_CONFIG.findall(start["config"]))),
            }  # a drafter's follow
        if not (step := _STEP.search(short)):
            continue
        if rank := _ENGINE.search(short):
            ranks.add(rank["rank"])
        sequences, tokens, ms = int(step["sequences"]), int(step["tokens"]), float(step["ms"])
        why = _why_not(step, sequences, tokens, ms)
        if why:
            left_out[why] += 1
            continue
        steps.setdefault((sequences, tokens // sequences - 1), []).append((number, ms))
    if len(ranks) > 1:
        raise AdvisorError(
            f"the log mixes {len(ranks)} engines (data parallel), and a step of one waits for the others; send one "
            "engine's lines, e.g. grep 'Engine 000'"
        )
    return steps, said, left_out


def _why_not(step: re.Match[str], sequences: int, tokens: int, ms: float) -> str:
    if step["dummy"] or not sequences or not ms:
        return "idle"
    if int(step["prompts"]) or int(step["prompt_tokens"]):
        return "with prompts"
    if tokens % sequences or not sequences <= tokens <= (MAX_DRAFT + 1) * sequences:
        return "whose sequences differ in K"
    return ""


def _row(batch: int, k: int, found: list[tuple[int, float]]) -> dict[str, Any]:
    times = np.array([ms for _, ms in found])
    low, high = np.quantile(times, (0.1, 0.9))
    note = f"{len(found)} steps, 80 % between {low:.2f} and {high:.2f} ms"
    return {"batch": batch, "k": k, "ms": float(np.median(times)), "notes": note} | ({} if k else {"drafter": "none"})


STEPS = Format(
    "vllm_steps",
    "a vLLM server's log of its steps",
    "lines `Iteration(n): c context requests, ..., iteration elapsed time: x ms`",
    detect,
    read,
)
