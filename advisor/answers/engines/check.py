"""A launch line of the user's own beside the one that serves the answer, flag by flag."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Literal

from advisor.prediction import AdvisorError

Verdict = Literal["same", "change", "set", "keep"]
MAX_LINE = 100_000
"""Characters of a launch line that are read. [-]"""
_SAME_AS = {"tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size", "dp-size": "data-parallel-size"}
_SAME_AS |= {"model": "model-path", "max-running-requests": "max-num-seqs", "dp": "data-parallel-size"}
"""Other names of a flag, in vLLM and SGLang."""
_FREE = ("YOUR-",)
"""Values that the answer leaves to the user start so."""


@dataclass(frozen=True)
class FlagCheck:
    """One flag in both lines. same: leave it; change: another value; set: it lacks; keep: ours says nothing of it."""

    flag: str
    given: str
    wanted: str
    verdict: Verdict


def check_line(given: str, wanted: str) -> tuple[FlagCheck, ...]:
    """Flags of a launch line beside those of the wanted one, changes first.

    Raises AdvisorError for a text that holds no flag, or that no shell can read.
    """
    (yours, theirs), (ours, names) = _flags(given), _flags(wanted)
    if not yours:
        raise AdvisorError("no flag was found; paste a launch line such as `vllm serve MODEL --tensor-parallel-size 1`")
    found = []
    for flag in dict.fromkeys([*ours, *yours]):
        wants, has = ours.get(flag), yours.get(flag)
        if wants is None:
            verdict: Verdict = "keep"
        elif has is None:
            verdict = "set"
        else:
            verdict = "same" if _alike(has, wants) else "change"
        found.append(FlagCheck({**theirs, **names}[flag], has or "", wants or "", verdict))
    order = ("change", "set", "same", "keep")
    return tuple(sorted(found, key=lambda one: order.index(one.verdict)))


def _flags(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Values by flag, under one name each, and the names as they are written; a served model has --model-path."""
    start = re.search(r"(?:vllm\s+serve|sglang\S*launch_server|vllm\.entrypoints\S*)", text[:MAX_LINE])
    try:
        words = shlex.split(text[start.start() if start else 0 : MAX_LINE].replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise AdvisorError(f"the line cannot be read as a shell would ({error}); check its quotes") from error
    found: dict[str, str] = {}
    written = {"--model-path": "--model-path"}
    name = ""
    for place, word in enumerate(words):
        if re.match(r"--?[a-zA-Z]", word):
            name, _, value = word.lstrip("-").replace("_", "-", word.partition("=")[0].count("_")).partition("=")
            spelled, name = f"--{name}", f"--{_SAME_AS.get(name, name)}"
            found[name], written[name] = value, spelled
        elif name:
            found[name] = f"{found[name]} {word}".strip()
        elif place == 2 and words[:2] == ["vllm", "serve"]:
            found["--model-path"] = word
    return found, written


def _alike(given: str, wanted: str) -> bool:
    """Whether two values say the same: as text, as JSON in any order, or where the answer leaves it open."""
    try:
        one, other = json.loads(given), json.loads(wanted)
    except ValueError:
        return given == wanted or wanted.startswith(_FREE)
    if isinstance(one, dict) and isinstance(other, dict):
        free = {name for name, value in other.items() if str(value).startswith(_FREE)}
        return {k: v for k, v in one.items() if k not in free} == {k: v for k, v in other.items() if k not in free}
    return bool(one == other)
