"""The command line's own name, as the user called it: what it prints can be copied."""

from __future__ import annotations

import re
import shlex
import sys
from functools import cache


@cache
def program() -> str:
    """Name that was typed: `advisor`, or a Python with `-m advisor`."""
    words = sys.orig_argv
    at = words.index("-m") + 1 if "-m" in words else len(words)
    return shlex.join(words[: at + 1]) if words[at : at + 1] == ["advisor"] else "advisor"


def as_called(text: str) -> str:
    """Text with its commands under the name that the user called."""
    if program() == "advisor":
        return text
    return re.sub(r"(^ *|`)(?:python -m )?advisor ", lambda found: f"{found[1]}{program()} ", text, flags=re.MULTILINE)
