"""What every engine's writer is given and makes, and a launch line of the user's own beside it,
flag by flag."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from advisor.answers.best_k import KRange, k_running_at
from advisor.catalog.engines import AdaptiveRule, GraphServer, load_engine
from advisor.physics.notes import Kind, Note
from advisor.prediction import AdvisorError

OWN_FORWARD = ("eagle", "eagle3", "mtp", "draft_model", "dflash", "dspark")
"""Methods whose drafter runs a model."""
NEEDS_MODEL = ("eagle", "eagle3", "draft_model", "dflash")
"""Drafting methods with a checkpoint of their own; mtp and dspark have one only where the target's
does not hold it."""
WITHOUT_MODEL = ("ngram", "suffix")


@dataclass(frozen=True)
class ServedModel:
    """Target model and placement as the launch line states them."""

    model: str
    tensor_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    redundant_experts: int | None = None
    """Copies of experts in a balanced layout; None: experts in order. [-]"""
    max_running_requests: int | None = None
    fp8_kv_cache: bool = False


class AdaptiveRange(KRange):
    """A range whose K is drafted at every step, where the engine chooses which drafts it
    verifies."""


@dataclass(frozen=True)
class Capture:
    """The largest CUDA graph that a launch command asks for, and why."""

    largest: int
    """In the engine's own count: tokens of a step, or requests."""
    by_itself: int
    """Largest that the release captures by itself, in the same count."""
    release: str
    first: int
    """First batch with a round that those do not hold. [sequences]"""
    gain: float
    """Output rate over the server without it, mean over the doublings from `first` on, less 1.
    [-]"""
    of_requests: bool
    settled: bool = True
    """Whether K by batch, decided with these graphs, needs no others."""

    @property
    def note(self) -> Note:
        """The graphs, their gain and their price."""
        kind: Kind = "graphs_of_requests" if self.of_requests else "graphs_of_tokens"
        facts = {name: value for name, value in vars(self).items() if name != "of_requests"}
        return Note.of(kind, **facts)


@dataclass(frozen=True)
class ExportRequest:
    """Values that an engine's configuration is written from.

    method: by its name in vLLM. draft_model: name or path, for the methods of NEEDS_MODEL.
    file_name: where the launch line looks for the configuration, relative to where the server
    starts. parallel_drafting: the draft model proposes all K tokens in one pass although its method
    drafts in turn (P-EAGLE).
    """

    ranges: Sequence[KRange]
    method: str
    served: ServedModel
    draft_model: str | None = None
    file_name: str = ""
    parallel_drafting: bool = False
    multi_layer: bool = False
    """The engine drafts with one worker for each MTP module of the model."""
    mtp_modules: int = 1
    """MTP modules that the engine loads; 1 for drafters of other kinds."""
    version: str | None = None
    """Release that will load it; None: the one whose rules were read."""
    context_matters: bool = False
    """Another context has another K than the schedule."""
    server: GraphServer | None = None
    """What the priced server captures; None: the scenario names no release."""
    capture: Capture | None = None
    """Graphs beyond the release's own; None: those it captures by itself."""
    target_k: int = 0
    """K at the target batch, for an engine that cannot vary it; 0: that of the widest range."""
    token_budget: int = 0
    """Tokens of a step that the engine allows by itself on the accelerator; 0: not known."""
    adaptive: AdaptiveRule | None = None
    """By which the engine chooses what it verifies of the K of `ranges`; None: it verifies all."""

    @property
    def largest_graph(self) -> int | None:
        """Largest graph to ask for, in the engine's own count. None for the release's own."""
        if self.server is not None:
            return self.server.largest
        return None if self.capture is None else self.capture.largest


@dataclass(frozen=True)
class EngineExport:
    """Configuration of an engine: the JSON object, the launch line and what to know."""

    engine: str
    config: dict[str, Any] | None = None
    """None where the engine runs without speculation, or with a static K on the launch line
    only."""
    config_json: str = ""
    file_name: str | None = None
    """Where the launch line expects `config_json` (SGLang). None when it is passed inline."""
    launch_line: str = ""
    """One shell command."""
    notes: tuple[Note, ...] = ()
    """What the engine will not do as the schedule says, and what is left to fill in."""
    admitted: int | None = None
    """Requests that the launch line admits, of all attention groups; None: the engine's own."""
    switches: bool = False
    """Whether it runs several K."""
    problem: str = ""
    """Why there is none; the other fields are then empty."""

    @property
    def file_command(self) -> str:
        """Shell command that writes the engine's file: its own entries on a line each."""
        return f"echo '{one_slot_a_line(self.config_json)}' > {shlex.quote(self.file_name or '')}"


def one_slot_a_line(text: str) -> str:
    """A JSON object with each of its own entries on one line."""
    entries = [
        f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in json.loads(text).items()
    ]
    return "{\n" + ",\n".join(entries) + "\n}"


def option_texts(command: str) -> list[str]:
    """Pieces of a shell command, the program first, then each option with its values. A shell reads
    the same words."""
    return list(map(shlex.join, option_groups(shlex.split(command))))


def option_groups(words: Sequence[str]) -> list[list[str]]:
    """Words of a command, the program's first, then each option with its values."""
    is_option = [
        word != "-m" and re.match(r"--|-[a-zA-Z]", word) for word in words
    ]  # `python -m` has none
    option_starts = [place for place, starts_option in enumerate(is_option) if starts_option]
    starts = [0, *option_starts, len(words)]
    return [list(words[start:end]) for start, end in pairwise(starts)]


def one_option_a_line(command: str) -> str:
    """A shell command with each option on its own line. A shell reads the same words."""
    return " \\\n  ".join(option_texts(command))


def merged_rows(ranges: Sequence[KRange]) -> tuple[tuple[int, int, int], ...]:
    """Rows (start, end, K of one server), equal K joined. Raises AdvisorError for none, a gap or an
    overlap."""
    if not ranges:
        raise AdvisorError("the schedule is empty; compute it first")
    rows: list[tuple[int, int, int]] = []
    for item in ranges:
        expected = rows[-1][1] + 1 if rows else 1
        if item.batch_start != expected or item.batch_end < item.batch_start or item.k_running < 0:
            raise AdvisorError(
                f"schedule range {item.batch_start}-{item.batch_end} with K={item.k_running}: "
                f"expected it to start at batch {expected}, not to end before it starts, and K >= "
                "0"
            )
        if rows and rows[-1][2] == item.k_running:
            rows[-1] = (rows[-1][0], item.batch_end, item.k_running)
        else:
            rows.append((item.batch_start, item.batch_end, item.k_running))
    return tuple(rows)


def per_rank(ranges: Sequence[KRange], groups: int) -> tuple[KRange, ...]:
    """K by the batch of one data-parallel rank, without its speedups.

    A rank with b sequences is an instance with b x groups.
    """
    if groups == 1:
        return tuple(ranges)
    last = max(1, ranges[-1].batch_end // groups)
    running = k_running_at(ranges, np.arange(1, last + 1) * groups)
    edges = [0, *(1 + np.flatnonzero(np.diff(running))).tolist(), last]
    return tuple(KRange(a + 1, b, int(running[a]), 1.0) for a, b in pairwise(edges))


LEAST_COUNTS = ((1, 1), (2, 2), (4, 4), (8, 8), (256, 16))
"""Numbers of requests that a capture list has: vLLM's own grid. [-]"""


def check_draft_model(method: str, draft_model: str | None, needed: bool = False) -> None:
    """Check that a method has its draft model, and none where there can be none. Raises
    AdvisorError otherwise.

    needed : the target's checkpoint does not hold the drafter of a method that may lie there (mtp,
        dspark).
    """
    if (needed or method in NEEDS_MODEL) and not (draft_model or "").strip():
        raise AdvisorError(
            f"method {method} needs --draft-model (draft_model), the Hugging Face name or path of "
            "the draft model"
        )
    if method in WITHOUT_MODEL and draft_model is not None:
        raise AdvisorError(
            f"method {method} has no draft model; leave draft_model={draft_model!r} out"
        )


def only_k(request: ExportRequest) -> dict[str, Any]:
    """The K of an engine that cannot vary it, and whether it is the target batch's."""
    k = request.target_k or widest_k(merged_rows(request.ranges))
    return {"k": k, "of_target": bool(request.target_k)}


def widest_k(rows: Sequence[tuple[int, int, int]]) -> int:
    """K > 0 that covers the most batch sizes on a log scale. So small batches count as much as
    large ones."""
    weight: dict[int, float] = {}
    for start, end, k in rows:
        if k > 0:
            weight[k] = weight.get(k, 1.0) * (end + 1) / start
    return max(weight, key=lambda k: weight[k])


def beyond_schedule(request: ExportRequest) -> list[Note]:
    """A note where the engine admits more requests than the schedule covers."""
    last = merged_rows(request.ranges)[-1][1]
    limit = request.served.max_running_requests
    if limit is not None and limit > last:
        return [Note.of("schedule_ends", last=last, limit=limit)]
    return []


def on_older_runner(method: str, parallel_drafting: bool) -> bool:
    """Whether vLLM runs a method on Model Runner V1 alone: suffix decoding, and P-EAGLE."""
    return method == "suffix" or (parallel_drafting and method != "dflash")


def export_tags(request: ExportRequest) -> set[str]:
    """Tags of an export in the words of an engine's guards (`catalog.engines.GuardTag`)."""
    rows = merged_rows(request.ranges)
    most_drafts = max(k for _, _, k in rows)
    drafts = most_drafts > 0
    varies = drafts and len(rows) > 1
    held = {
        "speculation": drafts,
        "table": varies and request.method != "suffix",
        "zero_in_table": varies and any(k == 0 for _, _, k in rows),
        "data_parallel": request.served.data_parallel > 1,
        "multi_layer_eagle": request.multi_layer,
        "own_forward": request.method in OWN_FORWARD,
        "older_runner": on_older_runner(request.method, request.parallel_drafting),
        "context_matters": drafts and request.context_matters,
        "dspark": drafts and request.method == "dspark",
        "adaptive": request.adaptive is not None,
        "part_of_modules": most_drafts > request.mtp_modules
        and most_drafts % request.mtp_modules > 0,
    }
    return {tag for tag, holds in held.items() if holds}


def guard_notes(engine_id: str, request: ExportRequest) -> list[Note]:
    """Notes on the engine's version, and the rules of the check. Raises AdvisorError for no
    release number."""
    engine = load_engine(engine_id)
    notes = []
    for guard in engine.warned_of(export_tags(request), request.version):
        of_effect: Kind = "guard_safe" if guard.effect == "safe" else "guard"
        kind: Kind = "guard_void" if guard.voids else of_effect
        facts = {"says": guard.says, "do": guard.do or None, "source": guard.source}
        notes.append(Note.of(kind, effect=guard.effect, **facts))
    if engine.reviewed is not None:
        note = Note.of(
            "rules_checked",
            engine=engine.name,
            rules=engine.reviewed.version,
            read=engine.reviewed.date,
            version=request.version or None,
        )
        notes.append(note)
    return notes


Verdict = Literal["same", "change", "set", "keep"]
MAX_LINE = 100_000
"""Characters of a launch line that are read. [-]"""
_SAME_AS = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "dp-size": "data-parallel-size",
}
_SAME_AS |= {
    "model": "model-path",
    "max-running-requests": "max-num-seqs",
    "dp": "data-parallel-size",
}
"""Other names of a flag, in vLLM and SGLang."""
DRAFT_MODEL_PLACEHOLDER = "DRAFT-MODEL"
"""Stands on a launch line for the draft checkpoint that the user has to name."""


@dataclass(frozen=True)
class FlagCheck:
    """One flag in both lines. same: leave it; change: another value; set: it lacks; keep: ours says
    nothing of it."""

    flag: str
    given: str
    wanted: str
    verdict: Verdict


def check_line(
    given: str, wanted: str, is_served_as: Callable[[str], bool] = lambda _: False
) -> tuple[FlagCheck, ...]:
    """Flags of a launch line beside those of the wanted one, changes first. Raises AdvisorError
    without any.

    is_served_as : whether another checkpoint than the wanted one is as good.
    """
    yours, theirs = _flags(given)
    ours, names = _flags(wanted)
    if not yours:
        raise AdvisorError(
            "no flag was found; paste a launch line such as `vllm serve MODEL "
            "--tensor-parallel-size 1`"
        )
    checks = []
    for flag in dict.fromkeys([*ours, *yours]):
        wants = ours.get(flag)
        has = yours.get(flag)
        verdict: Verdict = "keep" if wants is None else "set"
        if wants is not None and has is not None:
            is_same = _alike(has, wants) or (flag == "--model-path" and is_served_as(has))
            verdict = "same" if is_same else "change"
        checks.append(FlagCheck({**theirs, **names}[flag], has or "", wants or "", verdict))
    order = ("change", "set", "same", "keep")
    return tuple(sorted(checks, key=lambda check: order.index(check.verdict)))


def _flags(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Values by flag, under one name each, and the names as they are written; a served model has
    --model-path."""
    start = re.search(
        r"(?:vllm\s+serve|sglang\S*launch_server|vllm\.entrypoints\S*)", text[:MAX_LINE]
    )
    try:
        words = shlex.split(
            text[start.start() if start else 0 : MAX_LINE].replace("\\\n", " "), comments=True
        )
    except ValueError as error:
        raise AdvisorError(
            f"the line cannot be read as a shell would ({error}); check its quotes"
        ) from error
    program, *options = option_groups(words)
    is_served = program[:2] == ["vllm", "serve"] and len(program) > 2
    values = {"--model-path": program[2]} if is_served else {}
    written = {"--model-path": "model" if is_served else "--model-path"}
    for option, *rest in options:
        name, _, value = option.lstrip("-").partition("=")
        name = name.replace("_", "-")
        flag = f"--{_SAME_AS.get(name, name)}"
        values[flag] = " ".join(filter(None, [value, *rest]))
        written[flag] = f"--{name}"
    return values, written


def _alike(given: str, wanted: str) -> bool:
    """Whether two values say the same: as text, as JSON in any order, or where the answer leaves it
    open."""
    try:
        given_value = json.loads(given)
        wanted_value = json.loads(wanted)
    except ValueError:
        return given == wanted or wanted == DRAFT_MODEL_PLACEHOLDER
    if isinstance(given_value, dict) and isinstance(wanted_value, dict):
        free = {name for name, value in wanted_value.items() if value == DRAFT_MODEL_PLACEHOLDER}
        return {k: v for k, v in given_value.items() if k not in free} == {
            k: v for k, v in wanted_value.items() if k not in free
        }
    return bool(given_value == wanted_value)


def changed_line(line: str, changes: Sequence[Mapping[str, Any]]) -> str:
    """A launch line with options changed, an option a line. Empty where none changes it.

    changes : new values by option. None leaves an option out, an object changes its keys and leaves
        those that are None out, and a name that ends in `*` stands for all that begin so.
    """
    try:
        groups = option_groups(shlex.split(line, comments=True))
        changed = reduce(_with_change, changes, groups) if line else groups
    except ValueError:  # quotes that are not closed, or an object that is no JSON
        return ""
    return "" if changed == groups else " \\\n  ".join(map(shlex.join, changed))


def _with_change(groups: list[list[str]], change: Mapping[str, Any]) -> list[list[str]]:
    """Options, each with its values, after one change."""
    for flag, value in change.items():
        if flag.endswith("*"):
            groups = [group for group in groups if not group[0].startswith(flag[:-1])]
            continue
        is_there = any(group[0].partition("=")[0] == flag for group in groups)
        if is_there:
            options = [_option(group, flag, value) for group in groups]
            groups = [option for option in options if option]
        elif isinstance(value, Mapping):
            entries = {key: entry for key, entry in value.items() if entry is not None}
            groups = [*groups, *([[flag, json.dumps(entries)]] if entries else [])]
        elif value is not None:
            groups = [*groups, [flag, str(value)]]
    return groups


def _option(words: list[str], flag: str, value: Any) -> list[str]:
    """An option as it is where its flag is another; else with the value, its object's keys changed,
    or left out."""
    name, equals, inline_value = words[0].partition("=")
    if name != flag:
        return words
    if value is None:
        return words[1:]
    current, rest = (inline_value, words[1:]) if equals else (words[1], words[2:])
    if isinstance(value, Mapping):
        entries = {**json.loads(current), **value}
        value = json.dumps({key: entry for key, entry in entries.items() if entry is not None})
    return [name, str(value), *rest]
