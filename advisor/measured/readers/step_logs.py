"""Step times from a server's own log: no other tool saw the run, so a log kept in production serves
as well.

vLLM writes a line a step with --enable-logging-iteration-details (0.32 and newer). One that carries
no prompt and the same number of tokens for each sequence is a decoding step of K = tokens /
sequences - 1: a plain one, or a round.

SGLang writes `Decode batch` for every 40 steps where nothing is said, with the tokens per second
since the line before. Between two lines of the same batch with no prompt between them that is
decoding alone, and the batch times the accepted length over that rate is the time of a step.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from advisor.measured.ingest.columns import MAX_DRAFT_TOKENS
from advisor.measured.ingest.result import Reject
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    MS,
    FieldMap,
    Format,
    RawRows,
    field_maps,
    from_records,
)
from advisor.measured.readers.sglang import speculation_of
from advisor.prediction import AdvisorError
from advisor.text import counted

_LONGEST_LINE = 20_000
Key = tuple[Any, ...]
"""The batch, and what else tells rows apart."""
Step = tuple[float, ...]
"""The line, then what it says of a step."""


@dataclass
class _Log:
    """Decoding steps of a log by Key, what the server says of itself, and how many lines were left
    out by kind of note."""

    steps: dict[Key, list[Step]] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Server:
    """How one server writes its steps."""

    engine: str
    unit: str
    """What a line is of: a step, or only a line."""
    least: int
    """Of one Key that make a row: a median of fewer says little. [-]"""
    few: str
    """What fewer than `least` are of, in a refusal."""
    model: str
    """Its own name of the model's field."""
    remedy: str
    maps: tuple[FieldMap, ...]
    lines: Callable[[str], _Log]
    named: Callable[[Key], str]
    row: Callable[[Key, list[Step], dict[str, Any]], dict[str, Any]]

    def read(self, sample: Sample) -> RawRows:
        """One row for each Key, its steps' median. Raises AdvisorError for little decoding alone or
        several servers."""
        log = self.lines(sample.text)
        usable = {
            key: steps for key, steps in sorted(log.steps.items()) if len(steps) >= self.least
        }
        rejects = [
            Reject(
                int(steps[0][0]),
                f"{self.unit}s",
                str(len(steps)),
                f"{self.named(key)}: fewer than {self.least} {self.few}",
            )
            for key, steps in log.steps.items()
            if key not in usable
        ]
        if not usable:
            left_out = ", ".join(
                f"{counted(count, self.unit)} {why.removeprefix('left_').replace('_', ' ')}"
                for why, count in log.left_out.items()
            )
            raise AdvisorError(
                f"{sample.name}: no batch has {self.least} {self.unit}s of decoding alone "
                f"({left_out or f'too few {self.unit}s'}); send the log of a longer run at a "
                f"steady load{self.remedy}"
            )
        records = [self.row(key, steps, log.said) for key, steps in usable.items()]
        lines = np.array([steps[0][0] for steps in usable.values()], dtype=np.int64)
        raw = RawRows("points", lines, from_records(records, self.maps), rejects)
        raw.name_models(records, self.model)
        for column, value in (
            ("engine", self.engine),
            ("batch_kind", "batch"),
            ("prompts_cached", 1),
        ):
            raw.constant(column, value)
        for why, count in log.left_out.items():
            raw.note(why, left=(count, self.unit))
        return raw


def _with_line(pattern: re.Pattern[str]) -> Callable[[Sample], float]:
    """Detection: 0.97 for text with such a line, whose pattern stands in its `args`."""
    return partial(_of_line, pattern)


def _of_line(pattern: re.Pattern[str], sample: Sample) -> float:
    return 0.97 if sample.kind == "text" and pattern.search(sample.text) else 0.0


def _check_one_engine(ranks: Collection[str | None], example: str) -> None:
    if len(ranks) > 1:
        raise AdvisorError(
            f"the log mixes {len(ranks)} engines (data parallel), and a step of one waits for the "
            f"others; send one engine's lines, e.g. grep '{example}'"
        )


_ITERATION = re.compile(
    r"Iteration\((?P<index>\d+)\): (?P<prompts>\d+) context requests, (?P<prompt_tokens>\d+) "
    r"context tokens, "
    r"(?P<sequences>\d+) generation requests, (?P<tokens>\d+) generation tokens, "
    r"iteration elapsed time: (?P<ms>\d+(?:\.\d+)?) ms(?P<dummy> \(dummy\))?"
)
_ENGINE = re.compile(r"Engine (?P<rank>\d{1,6}): Iteration")
_START = re.compile(
    r"Initializing a V1 LLM engine \(v(?P<version>[\w.+-]{1,40})\) with config: (?P<config>.*)"
)
_CONFIG = re.compile(r"\b(model|method|tensor_parallel_size|data_parallel_size)='?([^',)]{1,300})")


def _vllm_steps(text: str) -> _Log:
    """Steps by batch and K: time [ms]."""
    log = _Log()
    ranks = set()
    for number, line in enumerate(text.splitlines(), start=1):
        short = line[:_LONGEST_LINE]
        if start := _START.search(short):
            # Reversed, so that the target's values stand: those of a drafter follow.
            log.said |= {
                "version": start["version"],
                **dict(reversed(_CONFIG.findall(start["config"]))),
            }
        if not (step := _ITERATION.search(short)):
            continue
        if rank := _ENGINE.search(short):
            ranks.add(rank["rank"])
        sequences = int(step["sequences"])
        tokens = int(step["tokens"])
        ms = float(step["ms"])
        if why := _why_not(step, sequences, tokens, ms):
            log.left_out[why] += 1
        else:
            log.steps.setdefault((sequences, tokens // sequences - 1), []).append((number, ms))
    _check_one_engine(ranks, "Engine 000")
    return log


def _why_not(step: re.Match[str], sequences: int, tokens: int, ms: float) -> str:
    if step["dummy"] or not sequences or not ms:
        return "left_idle"
    if int(step["prompts"]) or int(step["prompt_tokens"]):
        return "left_with_prompts"
    if tokens % sequences or not sequences <= tokens <= (MAX_DRAFT_TOKENS + 1) * sequences:
        return "left_of_unequal_k"
    return ""


def _vllm_row(key: Key, steps: list[Step], said: dict[str, Any]) -> dict[str, Any]:
    batch, k = key
    times_ms = np.array([ms for _, ms in steps])
    batch *= int(said.get("data_parallel_size", 1))  # one engine's lines; the others hold as many
    low, high = np.quantile(times_ms, (0.1, 0.9))
    note = f"{len(steps)} steps, 80 % between {low:.2f} and {high:.2f} ms"
    row = {"batch": batch, "k": k, "ms": float(np.median(times_ms)), "notes": note}
    return said | row | ({} if k else {"drafter": "none"})


_VLLM = _Server(
    engine="vllm",
    unit="step",
    least=5,
    few="steps",
    model="model",
    remedy="",
    maps=(
        *field_maps(batch_size="batch", draft_tokens_k="k"),
        *field_maps(MS, step_time_s="ms"),
        *field_maps(
            engine_version="version",
            tensor_parallel="tensor_parallel_size",
            data_parallel="data_parallel_size",
        ),
        *field_maps(drafter="drafter|method", notes="notes"),
    ),
    lines=_vllm_steps,
    named=lambda key: f"B = {key[0]}, K = {key[1]}",
    row=_vllm_row,
)
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


def _sglang_lines(text: str) -> _Log:
    """Steps by batch, whether drafts were verified, and the word on a CUDA graph: time [s], AL and
    context [tokens]."""
    log = _Log()
    ranks = set()
    before = 0  # the batch of the line before, 0 where a prompt came since
    for number, full in enumerate(text.splitlines(), start=1):
        line = full[:_LONGEST_LINE]
        if arguments := _ARGUMENTS.search(line):
            log.said |= {
                name: ast.literal_eval(value) for name, value in _ARGUMENT.findall(arguments["all"])
            }
        if "Prefill batch" in line:
            before = 0
        if not (step := _DECODE.search(line)):
            continue
        rank = _RANK.search(line)
        if rank and int(rank["tp"]):
            continue  # of the same step
        ranks.add(rank["dp"] if rank else None)
        batch = int(step["batch"])
        rate = float(step["rate"])
        why = "left_after_a_prompt" if batch != before else ""
        if not batch or not rate:
            why = "left_idle"
        before = batch
        if why:
            log.left_out[why] += 1
            continue
        length = _LENGTH.search(step["rest"])
        graph = _GRAPH.search(step["rest"])
        tokens = _TOKENS.search(step["rest"])
        accepted = float(length[1]) if length else 1.0
        context = int(tokens[1]) / batch if tokens else np.nan
        key = (batch, length is not None, graph[1] if graph else "")
        log.steps.setdefault(key, []).append((number, batch * accepted / rate, accepted, context))
    _check_one_engine(ranks, "DP0 TP0")
    return log


def _sglang_row(key: Key, steps: list[Step], said: dict[str, Any]) -> dict[str, Any]:
    batch, drafted, graph = key
    _, step_s, accepted, context = np.array(steps).T
    note = f"{len(steps)} lines, steps of {1e3 * step_s.min():.3g} to {1e3 * step_s.max():.3g} ms"
    batch *= said.get("dp_size") or 1  # one engine's lines; the others hold as many
    row: dict[str, Any] = {"batch": batch, "step_s": float(np.median(step_s)), "notes": note}
    row |= {name: said[name] for name in ("model_path", "tp_size", "dp_size") if said.get(name)}
    row |= {"captured": int(graph == "True")} if graph else {}
    row |= (
        {"context": float(context.mean())} if np.isfinite(context).all() and context.all() else {}
    )
    if not drafted:
        return row | {"draft_tokens_k": 0, "drafter": "none"}
    return row | speculation_of(said) | {"accepted": float(accepted.mean()), "same_run": 1}


_SGLANG = _Server(
    engine="sglang",
    unit="line",
    least=3,
    few="lines of decoding alone",
    model="model_path",
    remedy=", or start the server with --decode-log-interval 1",
    maps=(
        *field_maps(batch_size="batch"),
        *(FieldMap(name, (name,)) for name in ("draft_tokens_k", "draft_structure", "drafter")),
        *field_maps(
            step_time_s="step_s", accepted_length="accepted", accepted_length_same_run="same_run"
        ),
        *field_maps(
            context_tokens="context",
            captured="captured",
            tensor_parallel="tp_size",
            data_parallel="dp_size",
        ),
        *field_maps(notes="notes"),
    ),
    lines=_sglang_lines,
    named=lambda key: f"B = {key[0]}",
    row=_sglang_row,
)


FORMATS = (
    Format("vllm_steps", "a vLLM server's log of its steps", _with_line(_ITERATION), _VLLM.read),
    Format("sglang_steps", "an SGLang server's log", _with_line(_DECODE), _SGLANG.read),
)
