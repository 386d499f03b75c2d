"""The speedup formula with this scenario's numbers in it, as LaTeX."""

from __future__ import annotations

from advisor.ui.answers import RoundFigures


def speedup_formula(figures: RoundFigures) -> str:
    """AL (T_plain + p) / (T_round + AL p), substituted; without prefill, AL T_plain / T_round. Times in ms."""
    length = f"{figures.accepted_length:.2f}"
    plain, round_ = _ms(figures.plain_step_s), _ms(figures.round_s)
    result = f"{figures.speedup:.2f}"
    if figures.prefill_per_token_s > 0:
        prefill = _ms(figures.prefill_per_token_s)
        symbols = r"\frac{AL\,(T_\text{plain} + p)}{T_\text{round} + AL\,p}"
        numbers = rf"\frac{{{length}\,({plain} + {prefill})}}{{{round_} + {length} \cdot {prefill}}}"
    else:
        symbols = r"\frac{AL \cdot T_\text{plain}}{T_\text{round}}"
        numbers = rf"\frac{{{length} \cdot {plain}}}{{{round_}}}"
    first = rf"\rule{{0pt}}{{2em}} \text{{speedup}} &= {symbols}"  # the rule keeps the first line from being cut
    return rf"\begin{{aligned}} {first} \\[8pt] &= {numbers} = {result} \end{{aligned}}"


def _ms(seconds: float) -> str:
    return rf"{seconds * 1e3:.3g}\,\text{{ms}}"
