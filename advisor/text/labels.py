"""Names of components, and text made fit to print."""

from __future__ import annotations

import unicodedata

COMPONENT_NAMES = {
    "routed": "Routed experts",
    "shared": "Shared experts",
    "attention": "Attention (KV cache)",
    "attention_projection": "Attention weights",
    "dense": "Dense FFN",
    "lm_head": "LM head",
    "communication": "GPU to GPU",
    "router": "Router",
    "launch": "Kernel launches",
    "host": "Host",
    "draft": "Drafting",
    "draft_host": "Drafting, host",
    "round_host": "Accept or reject, host",
}


MAX_TEXT = 600
"""Longest piece of text printed from a scenario or a file; the JSON report keeps the whole scenario. [characters]"""


MAX_NAME = 120
"""Longest name printed. [characters]"""


def component_name(name: str) -> str:
    """A component's name for readers."""
    return COMPONENT_NAMES.get(name, name.replace("_", " "))


def printable(text: str, longest: int = MAX_TEXT) -> str:
    """`text` on one line, without control, invisible and direction-changing characters, cut at `longest`.

    What a user typed may hold terminal escapes or characters that reverse the reading order of what follows.
    """
    kept = "".join(" " if character.isspace() else character for character in text)
    kept = "".join(character for character in kept if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co"))
    kept = " ".join(kept.split())
    return kept if len(kept) <= longest else f"{kept[: longest - 4]} ..."
