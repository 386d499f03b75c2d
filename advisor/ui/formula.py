"""The speedup formula with this scenario's numbers in it, as LaTeX."""

from __future__ import annotations

import math

from advisor.explain import END_ALIGNED
from advisor.ui.answers import RoundFigures

_MOST_DIGITS = 7


def speedup_formula(figures: RoundFigures) -> str:
    """AL (T_plain + p) / (T_round + AL p), substituted; without prefill, AL T_plain / T_round. Times in ms.

    The numbers carry as many digits as it takes for a reader who computes with them to get the result shown.
    """
    result = f"{figures.speedup:.2f}"
    exact = (figures.accepted_length, figures.plain_step_s * 1e3, figures.round_s * 1e3)
    prefill_ms = figures.prefill_per_token_s * 1e3
    for digits in range(3, _MOST_DIGITS + 1):
        length, plain, round_, prefill = (_digits(value, digits) for value in (*exact, prefill_ms))
        al, p = float(length), float(prefill)
        if f"{al * (float(plain) + p) / (float(round_) + al * p):.2f}" == result:
            break
    plain, round_, prefill = (rf"{time}\,\text{{ms}}" for time in (plain, round_, prefill))
    if figures.prefill_per_token_s > 0:
        symbols = r"\frac{AL\,(T_\text{plain} + p)}{T_\text{round} + AL\,p}"
        numbers = rf"\frac{{{length}\,({plain} + {prefill})}}{{{round_} + {length} \cdot {prefill}}}"
    else:
        symbols = r"\frac{AL \cdot T_\text{plain}}{T_\text{round}}"
        numbers = rf"\frac{{{length} \cdot {plain}}}{{{round_}}}"
    first = rf"\rule{{0pt}}{{2em}} \text{{speedup}} &= {symbols}"  # the rule keeps the first line from being cut
    return rf"\begin{{aligned}} {first} \\[8pt] &= {numbers} = {result} {END_ALIGNED}"


def _digits(value: float, digits: int) -> str:
    """A number with this many significant digits, trailing zeros kept, never in powers of ten."""
    before_point = math.floor(math.log10(value)) + 1 if value > 0 else 1
    return f"{value:.{max(digits - before_point, 0)}f}"
