"""What an answer is judged by: the names of each figure of merit, and how its values read. One row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Merit:
    """One figure of merit in words. Values come in SI units; `scale` and `form` make them text."""

    name: str
    words: str
    """The name inside a sentence."""
    best: str
    """Heading of the design that is best by it."""
    gain_of: str
    """What a gain in it multiplies."""
    unit: str
    """Of a chart's axis."""
    form: str
    scale: float = 1.0
    short: str = ""
    """The name where room is scarce."""
    long: str = ""
    """The name where it is chosen from a list."""

    def text(self, value: float) -> str:
        """A value as a reader sees it."""
        return self.form.format(value * self.scale)


_SPEEDUP = Merit("Speedup", "speedup", "Best speedup", "the baseline's speedup", "x", "{:.2f}x")
MERITS: Mapping[str, Merit] = {
    "speedup": _SPEEDUP,
    "sd_speedup": replace(_SPEEDUP, words="speculative speedup", gain_of="the baseline's speculative speedup"),
    "tpot": Merit(
        "Time per output token",
        "time per output token",
        "Best time per token",
        "the baseline's speed per output token",
        "ms",
        "{:.2f} ms",
        scale=1e3,
        short="Time per token",
    ),
    "ttft": Merit(
        "Time to first token",
        "time to first token",
        "Best time to first token",
        "the baseline's speed to the first token",
        "ms",
        "{:,.0f} ms",
        scale=1e3,
    ),
    "tokens_per_s_per_gpu": Merit(
        "Tokens/s per GPU",
        "tokens/s per GPU",
        "Best tokens/s",
        "the baseline's tokens/s per GPU",
        "tokens/s",
        "{:,.0f}",
        long="Tokens per second per GPU",
    ),
    "cost_per_million_tokens": Merit(
        "Cost per million tokens",
        "USD per million tokens",
        "Best cost",
        "the baseline's tokens per dollar",
        "USD",
        "{:.3f}",
    ),
}
"""By the name under which the library, the command line and addresses know it."""


def tier_text(tier: str, extrapolated: bool) -> str:
    """A tier, and whether the value lies outside the data."""
    return f"{tier}{', outside the data' if extrapolated else ''}"
