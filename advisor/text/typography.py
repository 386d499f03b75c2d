"""How texts of the core read on screen and in reports: the core and the command line keep to what a keyboard has."""

from __future__ import annotations

import re

_RANGE = re.compile(r"(?<![\w.])(\d+\.\d+)-(\d+\.\d+)(?![\w.])")


def typeset(text: str) -> str:
    """`a -> b` with an arrow, and `80 %`, as profiles and documents write it, without the space."""
    return re.sub(r"(?<=\d) %", "%", text.replace("->", "\N{RIGHTWARDS ARROW}"))


def unbroken_ranges(text: str) -> str:
    """Ranges of decimals, `1.78-2.05`, with a hyphen at which no line breaks; names such as Qwen3-30B stay."""
    return _RANGE.sub("\\1\N{NON-BREAKING HYPHEN}\\2", text)
