"""Words that every format of a report, and the app, share: limits, component names, and text made fit to print."""

from __future__ import annotations

import unicodedata

from advisor.curve import CALIBRATED_TOKENS
from advisor.dynamic.schedule import MIN_GAIN
from advisor.memory import USABLE_SHARE

LIMITS = (
    "The headline speedup is for decoding, per user. Prefill is charged only when prompt and output tokens are given.",
    "All sequences of a batch have the same context length and draft the same K in every round.",
    "A round drafts, verifies K + 1 tokens per sequence, then accepts or rejects; the three do not overlap.",
    f"Kernels are calibrated on steps of up to {CALIBRATED_TOKENS:,} tokens; beyond, results are marked as outside the "
    "data and their band is widened.",
    f"A gain below {MIN_GAIN:.0%} counts as noise: K = 0 is then recommended.",
    f"Memory counts weights, drafter and KV cache against {USABLE_SHARE:.0%} of each GPU.",
    "Expert-parallel imbalance follows an assumed formula that has not been measured.",
    "Draft trees, several nodes and a second model on the same GPU are outside the model.",
    "Tiers, best first: measured, interpolated, fitted, roofline. An answer has the lowest tier among the parts that "
    "take a tenth of the time or more.",
)

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
