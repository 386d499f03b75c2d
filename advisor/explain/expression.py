"""Formulas as text: computed, and written out with symbols or with numbers. One source for what is shown and tested.

An expression is a small part of Python: numbers, names, + - * / **, and the functions of FUNCTIONS. Names become
symbols: `T_plain` is T with the index plain, `rho` the Greek letter.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Literal

from advisor.prediction import AdvisorError
from advisor.routing import distinct_experts, local_experts

Style = Literal["latex", "plain"]


def _p_norm(a: float, b: float, p: float) -> float:
    return (a**p + b**p) ** (1.0 / p)


FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "max": max,
    "min": min,
    "log": math.log,
    "norm": _p_norm,
    "experts": lambda *arguments: float(distinct_experts(*arguments)),
    "slowest_rank": lambda *arguments: float(local_experts(*arguments)),
}
"""`norm(a, b, p)` is (a^p + b^p)^(1/p). `experts` is `routing.distinct_experts`, `slowest_rank` is
`routing.local_experts`: sums and interpolations that no one line holds; docs/model.md writes them out."""

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_STRENGTH: Mapping[type[ast.operator], int] = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.Pow: 3}
_GREEK = {"tau", "rho", "phi"}
_FUNCTION_NAMES = {"experts": "U", "slowest_rank": "U_slowest"}


def evaluate(expression: str, values: Mapping[str, float]) -> float:
    """The number an expression stands for. Raises AdvisorError for a name without a value or anything not allowed."""
    return _value(_parsed(expression), values)


def written(expression: str, style: Style, shown: Mapping[str, str] | None = None) -> str:
    """The expression in LaTeX or plain text; names in `shown` are replaced by that text, already in the style."""
    return _text(_parsed(expression), style, shown or {})[0]


def symbol(name: str, style: Style) -> str:
    """A name as a symbol: `T_plain` in LaTeX is T with an upright index."""
    if style == "plain":
        return name
    head, _, index = name.partition("_")
    head = rf"\{head}" if head in _GREEK else (head if len(head) == 1 else rf"\text{{{head}}}")
    index = index.replace("_", " ")
    return rf"{head}_{{\text{{{index}}}}}" if index else head


def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name) if name in values:
            return float(values[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            return float(FUNCTIONS[name](*(_value(argument, values) for argument in arguments)))
    raise AdvisorError(f"the formula has {ast.unparse(node)!r}, which has no value; give it one")


def _text(node: ast.expr, style: Style, shown: Mapping[str, str]) -> tuple[str, int]:
    """(text, how tightly it binds: 1 sum, 2 product, 3 power, 4 atom)."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return f"{number:g}", 4
        case ast.Name(id=name):
            return shown.get(name, symbol(name, style)), 4
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, [_text(argument, style, shown) for argument in arguments], style)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _text(left, style, shown), _text(right, style, shown), style)
    raise AdvisorError(f"the formula has {ast.unparse(node)!r}, which cannot be written out")


def _binary(op: ast.operator, left: tuple[str, int], right: tuple[str, int], style: Style) -> tuple[str, int]:
    strength = _STRENGTH[type(op)]
    if isinstance(op, ast.Div) and style == "latex":
        return rf"\frac{{{left[0]}}}{{{right[0]}}}", 4
    if isinstance(op, ast.Pow):
        base = _wrapped(left, 4, style)
        return (f"{base}^{{{right[0]}}}" if style == "latex" else f"{base}^{_wrapped(right, 4, style)}"), 3
    first = _wrapped(left, strength, style)
    second = _wrapped(right, strength + (isinstance(op, ast.Sub | ast.Div)), style)
    mark = {ast.Add: " + ", ast.Sub: " - ", ast.Div: " / "}.get(type(op))
    if mark is None:
        mark = r" \cdot " if style == "latex" else " × "
    return f"{first}{mark}{second}", strength


def _call(name: str, arguments: list[tuple[str, int]], style: Style) -> tuple[str, int]:
    if name == "norm":
        a, b, p = arguments
        sides = (f"{_wrapped(a, 4, style)}", f"{_wrapped(b, 4, style)}")
        if style == "latex":
            sides = (rf"\left({a[0]}\right)", rf"\left({b[0]}\right)")
            return rf"\left[{sides[0]}^{{{p[0]}}} + {sides[1]}^{{{p[0]}}}\right]^{{1/{p[0]}}}", 4
        return f"[{sides[0]}^{p[0]} + {sides[1]}^{p[0]}]^(1/{p[0]})", 4
    inside = ", ".join(argument[0] for argument in arguments)
    if name in _FUNCTION_NAMES:
        return f"{symbol(_FUNCTION_NAMES[name], style)}({inside})", 4
    return (rf"\{name}\left({inside}\right)" if style == "latex" else f"{name}({inside})"), 4


def _wrapped(part: tuple[str, int], least: int, style: Style) -> str:
    text, strength = part
    if strength >= least:
        return text
    return rf"\left({text}\right)" if style == "latex" else f"({text})"
