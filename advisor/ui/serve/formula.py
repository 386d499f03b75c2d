"""The speedup formula with this scenario's numbers in it, as LaTeX."""

from __future__ import annotations

import math

from advisor import laws
from advisor.explain import END_ALIGNED, formula_of, written
from advisor.ui.shared.answers import RoundFigures

_MOST_DIGITS = 7


def speedup_formula(figures: RoundFigures) -> str:
    """Formula of the speedup (`laws.speedup`) with its figures, times in ms.

    The numbers carry as many digits as it takes for a reader who computes with them to get the result shown.
    """
    result = f"{figures.speedup:.2f}"
    times_s = {"T_plain": figures.plain_step_s, "T_round": figures.round_s, "pf": figures.prefill_per_token_s}
    exact = {"AL": figures.accepted_length} | {symbol: time_s * 1e3 for symbol, time_s in times_s.items()}
    for digits in range(3, _MOST_DIGITS + 1):
        shown = {symbol: _digits(value, digits) for symbol, value in exact.items()}
        if f"{laws.speedup(**{symbol: float(text) for symbol, text in shown.items()}):.2f}" == result:
            break
    numbers = {symbol: text if symbol == "AL" else rf"{text}\,\text{{ms}}" for symbol, text in shown.items()}
    formula = formula_of(laws.speedup, exact)
    first = rf"\rule{{0pt}}{{2em}} \text{{speedup}} &= {written(formula, 'latex')}"  # the rule keeps it from being cut
    return rf"\begin{{aligned}} {first} \\[8pt] &= {written(formula, 'latex', numbers)} = {result} {END_ALIGNED}"


def _digits(value: float, digits: int) -> str:
    """A number with this many significant digits, trailing zeros kept, never in powers of ten."""
    before_point = math.floor(math.log10(value)) + 1 if value > 0 else 1
    return f"{value:.{max(digits - before_point, 0)}f}"
