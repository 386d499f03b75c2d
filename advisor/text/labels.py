"""Text made fit to print."""

from __future__ import annotations

import re
import unicodedata

MAX_TEXT = 600
"""Longest piece of text printed from a scenario or a file; the JSON report keeps the whole scenario. [characters]"""


MAX_NAME = 120
"""Longest name printed. [characters]"""


def name_key(text: str) -> str:
    """A name without regard to case and punctuation: `tensorrt_llm` of `TensorRT-LLM`."""
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_")


def printable(text: str, longest: int = MAX_TEXT) -> str:
    """Text on one line, without control and direction-changing characters.

    Invisible ones go, too; cut at `longest`.

    What a user typed may hold terminal escapes or characters that reverse the reading order of what follows.
    """
    kept = "".join(" " if character.isspace() else character for character in text)
    kept = "".join(character for character in kept if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co"))
    kept = " ".join(kept.split())
    return kept if len(kept) <= longest else f"{kept[: longest - 4]} ..."
