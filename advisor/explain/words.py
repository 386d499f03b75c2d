"""A step for readers: symbols, then numbers with units, then the result; in LaTeX or on one line of text."""

from __future__ import annotations

import re

from advisor.explain.expression import Style, symbol, written
from advisor.explain.step import Quantity, Step
from advisor.text import with_prefix

END_ALIGNED = r"\end{aligned}\;"
"""Ends lines aligned in LaTeX. KaTeX gives them 2 px less width than they take, which scrolls; the space fills it."""


def value_text(quantity: Quantity) -> str:
    """A quantity with its unit, four digits: `9.84 ms`, `3.9 TB/s`, `2.64`."""
    if quantity.unit == "1/s":
        return f"{quantity.value:,.4g}/s" if quantity.value < 1e3 else f"{quantity.value:,.0f}/s"
    if quantity.unit == "1" and float(quantity.value).is_integer() and abs(quantity.value) < 1e15:
        return f"{quantity.value:,.0f}"
    if quantity.unit == "1" and abs(quantity.value) >= 1e6:
        return f"{quantity.value:.4g}"
    return with_prefix(quantity.value, quantity.unit)


def step_text(step: Step) -> str:
    """Step in a line, `T_round = T_verify + T_draft = 12.3 ms + 1.2 ms = 13.5 ms`."""
    result = value_text(step.result)
    if not step.expression:
        return f"{step.symbol} = {result}"
    shown = {name: value_text(quantity) for name, quantity in step.values.items()}
    return (
        f"{step.symbol} = {written(step.expression, 'plain')} = {written(step.expression, 'plain', shown)} = {result}"
    )


def step_latex(step: Step) -> str:
    """Step in LaTeX over up to three lines, aligned at the equals signs."""
    style: Style = "latex"
    name, result = symbol(step.symbol, style), _latex(step.result)
    if not step.expression:
        return f"{name} = {result}"
    shown = {name: _latex(quantity) for name, quantity in step.values.items()}
    lines = (written(step.expression, style), written(step.expression, style, shown), result)
    if not any(r"\frac" in line for line in lines):
        return rf"\begin{{aligned}} {name} &= " + r" \\ &= ".join(lines) + f" {END_ALIGNED}"
    # The rule keeps the first line from being cut where it holds a fraction.
    return rf"\begin{{aligned}} \rule{{0pt}}{{2em}} {name} &= " + r" \\[10pt] &= ".join(lines) + f" {END_ALIGNED}"


def _latex(quantity: Quantity) -> str:
    text = value_text(quantity)
    found = re.fullmatch(r"(-?[\d.,]+)(?:e([+-]?\d+))?(?:[ ]?(.*))?", text)
    if found is None:
        return rf"\text{{{text}}}"
    number, power, unit = found[1].replace(",", "{,}"), found[2], found[3] or ""
    scaled = number if power is None else rf"{number} \cdot 10^{{{int(power)}}}"
    return scaled if not unit else rf"{scaled}\,\text{{{unit}}}"
