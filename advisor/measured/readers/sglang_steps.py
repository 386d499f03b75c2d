"""Step times from an SGLang server's own log: its `Decode batch` lines, one for every 40 steps where nothing is said.

A line gives the tokens per second since the one before. Between two lines of the same batch with no prompt between
them that is decoding alone, and the batch times the accepted length over that rate is the time of a step.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

import numpy as np

from advisor.measured.ingest.result import Reject
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import FieldMap, Format, RawRows, from_records, model_cells
from advisor.measured.readers.sglang import speculation_of
from advisor.prediction import AdvisorError
from advisor.text import counted

_DECODE = re.compile(
    r"Decode batch[,.] #running-req: (?P<batch>\d{1,9}),(?P<rest>.*?)"
    r"gen throughput \(token/s\): (?P<rate>\d+(?:\.\d+)?)"
)
_RANK = re.compile(r"^[^\]\n]*?\b(?:DP(?P<dp>\d+)\b[^\]]*?)?\bTP(?P<tp>\d+)\b[^\]]*\]")
_TOKENS = re.compile(r"#(?:full )?token: (\d{1,15})")
_LENGTH = re.compile(r"accept len: (\d+(?:\.\d+)?)")
_GRAPH = re.compile(r"cuda graph: (True|False)")
_ARGUMENTS = re.compile(r"server_args=ServerArgs\((?P<all>.*)\)")
_ARGUMENT = re.compile(
    r"\b(model_path|tp_size|dp_size|kv_cache_dtype|speculative_\w{1,60})=('[^']{0,300}'|None|-?\d{1,9}\b)"
)
_LONGEST_LINE = 20_000
LEAST_LINES = 3
"""Lines of one batch that make a row; each is a mean over many steps. [-]"""
_MAPS = (
    FieldMap("batch_size", ("batch",)),
    FieldMap("draft_tokens_k", ("draft_tokens_k",)),
    FieldMap("draft_structure", ("draft_structure",)),
    FieldMap("drafter", ("drafter",)),
    FieldMap("step_time_s", ("step_s",)),
    FieldMap("accepted_length", ("accepted",)),
    FieldMap("accepted_length_same_run", ("same_run",)),
    FieldMap("context_tokens", ("context",)),
    FieldMap("captured", ("captured",)),
    FieldMap("tensor_parallel", ("tp_size",)),
    FieldMap("data_parallel", ("dp_size",)),
    FieldMap("notes", ("notes",)),
)
Key = tuple[int, bool, str]
"""Batch, whether drafts were verified, and what the line says of its CUDA graph."""


def detect(sample: Sample) -> float:
    """0.97 for text with such a line."""
    return 0.97 if sample.kind == "text" and _DECODE.search(sample.data.decode("utf-8", errors="replace")) else 0.0


def read(sample: Sample) -> RawRows:
    """One row for each batch, the median over its lines.

    Raises AdvisorError where no batch decoded alone for long enough, or several servers speak in one log.
    """
    lines, said, left_out = _lines(sample.data.decode("utf-8", errors="replace"))
    rejects = [
        Reject(found[0][0], "lines", str(len(found)), f"B = {key[0]}: fewer than {LEAST_LINES} lines of decoding alone")
        for key, found in lines.items()
        if len(found) < LEAST_LINES
    ]
    kept = {key: found for key, found in sorted(lines.items()) if len(found) >= LEAST_LINES}
    if not kept:
        reasons = ", ".join(f"{counted(count, 'line')} {why}" for why, count in left_out.items())
        raise AdvisorError(
            f"{sample.name}: no batch has {LEAST_LINES} lines of decoding alone ({reasons or 'too few lines'}); send "
            "the log of a longer run at a steady load, or start the server with --decode-log-interval 1"
        )
    records = [_row(key, found, said) for key, found in kept.items()]
    numbers = np.array([found[0][0] for found in kept.values()], dtype=np.int64)
    raw = RawRows("points", numbers, from_records(records, _MAPS), rejects)
    raw.cells["model_id"], notes = model_cells(records, ("model_path",))
    for column, value in (("engine", "sglang"), ("batch_kind", "batch"), ("prompts_cached", 1)):
        raw.constant(column, value)
    raw.notes += [*notes, "step times are batch x accepted length over the rate that the server's log gives"]
    if left_out:
        raw.notes.append("left out: " + ", ".join(f"{counted(count, 'line')} {why}" for why, count in left_out.items()))
    return raw


def _lines(text: str) -> tuple[dict[Key, list[tuple[int, float, float, float]]], dict[str, Any], Counter[str]]:
    """(line, step [s], accepted length and context [tokens] by Key, the server's arguments, what was left out)."""
    out: dict[Key, list[tuple[int, float, float, float]]] = {}
    said: dict[str, Any] = {}
    left_out: Counter[str] = Counter()
    ranks, before = set(), 0  # the batch of the line before, 0 where a prompt came since
    for number, full in enumerate(text.splitlines(), start=1):
        line = full[:_LONGEST_LINE]
        if given := _ARGUMENTS.search(line):
            said |= {name: ast.literal_eval(value) for name, value in _ARGUMENT.findall(given["all"])}
        if "Prefill batch" in line:
            before = 0
        if not (step := _DECODE.search(line)):
            continue
        rank = _RANK.search(line)
        if rank and int(rank["tp"]):
            continue  # of the same step
        ranks.add(rank["dp"] if rank else None)
        batch, rate = int(step["batch"]), float(step["rate"])
        why = "idle" if not batch or not rate else "after a prompt or another batch" if batch != before else ""
        before = batch
        if why:
            left_out[why] += 1
            continue
        length, graph = _LENGTH.search(step["rest"]), _GRAPH.search(step["rest"])
        tokens = _TOKENS.search(step["rest"])
        accepted = float(length[1]) if length else 1.0
        context = int(tokens[1]) / batch if tokens else np.nan
        key = (batch, length is not None, graph[1] if graph else "")
        out.setdefault(key, []).append((number, batch * accepted / rate, accepted, context))
    if len(ranks) > 1:
        raise AdvisorError(
            f"the log mixes {len(ranks)} engines (data parallel), and a step of one waits for the others; send one "
            "engine's lines, e.g. grep 'DP0 TP0'"
        )
    return out, said, left_out


def _row(key: Key, found: list[tuple[int, float, float, float]], said: dict[str, Any]) -> dict[str, Any]:
    batch, drafted, graph = key
    _, step_s, accepted, context = np.array(found).T
    note = f"{len(found)} lines, steps of {1e3 * step_s.min():.3g} to {1e3 * step_s.max():.3g} ms"
    batch *= said.get("dp_size") or 1  # one engine's lines; the others hold as many
    out: dict[str, Any] = {"batch": batch, "step_s": float(np.median(step_s)), "notes": note}
    out |= {name: said[name] for name in ("model_path", "tp_size", "dp_size") if said.get(name)}
    out |= {"captured": int(graph == "True")} if graph else {}
    out |= {"context": float(context.mean())} if np.isfinite(context).all() and context.all() else {}
    if not drafted:
        return out | {"draft_tokens_k": 0, "drafter": "none"}
    return out | speculation_of(said) | {"accepted": float(accepted.mean()), "same_run": 1}


STEPS = Format(
    "sglang_steps",
    "an SGLang server's log",
    "lines `Decode batch, #running-req: B, ..., gen throughput (token/s): X`",
    detect,
    read,
)
