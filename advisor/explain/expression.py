"""Formulas as text, read from the source of the functions that compute them (`advisor.laws`).

`formula_of` gives a law's one returned expression with the laws that it calls written in, and optional terms that are
absent left out; `written` turns such an expression into LaTeX or plain text. Names become symbols: `T_plain` is T with
the index plain, `rho` the Greek letter.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import textwrap
from collections.abc import Mapping
from typing import Literal

from advisor import laws
from advisor.laws import Law
from advisor.prediction import AdvisorError
from advisor.routing import local_experts, touched_experts

Style = Literal["latex", "plain"]

BY_SYMBOL: Mapping[Law, tuple[str, tuple[str, ...]]] = {
    touched_experts: ("U", ("B", "q", "N", "k", "CV", "phi", "rho")),
    local_experts: ("U_slowest", ("U", "N", "ep")),
}
"""Functions that no one line holds, a sum and an interpolation (docs/model.md writes them out): shown as a symbol of
their arguments, in order."""

_FORMS = {laws.p_norm: "p_norm", laws.one_minus_power: "one_minus_power"}
_NUMPY = {"minimum": "min", "maximum": "max", "log": "log"}
_STRENGTH: Mapping[type[ast.operator], int] = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.Pow: 3}
_GREEK = {"alpha", "eta", "phi", "rho", "tau"}


def formula_of(law: Law, values: Mapping[str, float] | None = None) -> str:
    """A law's returned expression as Python text.

    Parameters
    ----------
    law : a function of `advisor.laws`, or one of BY_SYMBOL.
    values : arguments by parameter. An optional parameter that is not given, or at its default, takes its terms and
        factors with it; without `values` everything is kept.
    """
    if law in BY_SYMBOL:
        symbol, parameters = BY_SYMBOL[law]
        return f"{symbol}({', '.join(parameters)})"
    absent: dict[str, ast.expr] = {}
    if values is not None:
        for name, parameter in inspect.signature(law).parameters.items():
            default = parameter.default
            if default is not inspect.Parameter.empty and values.get(name, default) == default:
                absent[name] = ast.Constant(default)
    return ast.unparse(ast.fix_missing_locations(_Shorter().visit(_Renamed(absent).visit(_body(law)))))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The expression with other names for some of its quantities."""
    instead: dict[str, ast.expr] = {old: ast.Name(new) for old, new in names.items()}
    return ast.unparse(ast.fix_missing_locations(_Renamed(instead).visit(ast.parse(text, mode="eval").body)))


def computed(law: Law, values: Mapping[str, float]) -> float:
    """Value of a law for given arguments. Of a function in BY_SYMBOL, by the names it is shown with."""
    if law in BY_SYMBOL:
        return float(law(*(values[name] for name in BY_SYMBOL[law][1])))
    return float(law(**values))


def used_names(text: str) -> set[str]:
    """The names in an expression, those of functions included."""
    return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}


def written(text: str, style: Style, shown: Mapping[str, str] | None = None) -> str:
    """The expression in LaTeX or plain text. Names in `shown` are replaced by that text, already in the style.

    Raises AdvisorError for anything but arithmetic.
    """
    return _text(ast.parse(text, mode="eval").body, style, shown or {})[0]


def symbol(name: str, style: Style) -> str:
    """A name as a symbol: `T_plain` in LaTeX is T with an upright index."""
    if style == "plain":
        return name
    head, _, index = name.partition("_")
    head = rf"\{head}" if head in _GREEK else (head if len(head) == 1 else rf"\text{{{head}}}")
    index = index.replace("_", " ")
    return rf"{head}_{{\text{{{index}}}}}" if index else head


@functools.cache
def _source(law: Law) -> ast.expr:
    """The expression after `return`, as it stands in the source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(law))).body[0]
    last = tree.body[-1] if isinstance(tree, ast.FunctionDef) else None
    if not isinstance(last, ast.Return) or last.value is None:
        raise AdvisorError(f"{law.__name__} does not end with a returned expression, so it cannot be shown as a law")
    return last.value


def _body(law: Law) -> ast.expr:
    """`_source` with called laws written in and constants of the module as numbers."""
    found: ast.expr = _WrittenIn(law).visit(ast.parse(ast.unparse(_source(law)), mode="eval").body)
    return found


class _WrittenIn(ast.NodeTransformer):
    def __init__(self, law: Law) -> None:
        self.law = law
        self.known = inspect.unwrap(law).__globals__

    def visit_Call(self, node: ast.Call) -> ast.expr:
        arguments = [self.visit(argument) for argument in node.args]
        match node.func:
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in _NUMPY:
                return ast.Call(ast.Name(_NUMPY[name]), arguments, [])
            case ast.Name(id=name) if self.known.get(name) in _FORMS:
                return ast.Call(ast.Name(_FORMS[self.known[name]]), arguments, [])
            case ast.Name(id=name) if inspect.isfunction(self.known.get(name)) and not node.keywords:
                given = dict(zip(inspect.signature(self.known[name]).parameters, arguments, strict=False))
                inner: ast.expr = _Renamed(given).visit(_body(self.known[name]))
                return inner
        raise AdvisorError(f"{self.law.__name__} has {ast.unparse(node)!r}, which cannot be shown; use a law or a form")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.known.get(node.id)
        return ast.Constant(value) if isinstance(value, float) else node


class _Renamed(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, instead: Mapping[str, ast.expr]) -> None:
        self.instead = instead

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.instead.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])


class _Shorter(ast.NodeTransformer):
    """Leaves out terms that are zero and factors that are one. Quantities are taken to be 0 or more."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, op, right = self.visit(node.left), node.op, self.visit(node.right)
        if isinstance(op, ast.Add | ast.Sub) and _is(right, 0):
            return left
        if isinstance(op, ast.Add) and _is(left, 0):
            return right
        if isinstance(op, ast.Mult | ast.Div) and (_is(left, 0) or (isinstance(op, ast.Div) and _is(right, math.inf))):
            return ast.Constant(0)
        if isinstance(op, ast.Mult) and _is(right, 0):
            return ast.Constant(0)
        if isinstance(op, ast.Mult) and _is(left, 1):
            return right
        if isinstance(op, ast.Mult | ast.Div | ast.Pow) and _is(right, 1):
            return left
        if isinstance(op, ast.Mult) and isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult | ast.Div):
            return self.visit(ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right))  # a (b c) = a b c
        return ast.BinOp(left, op, right)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        arguments = [self.visit(argument) for argument in node.args]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "min":
            first, second = arguments
            if isinstance(first, ast.Call) and ast.dump(second) in map(ast.dump, first.args):
                return first  # min(min(a, b), a) = min(a, b)
            if ast.dump(first) == ast.dump(second) or _is(second, math.inf) or _is(first, 0):
                return first
            if _is(first, math.inf) or _is(second, 0):
                return second
        # A second side whose terms are all absent goes; a zero that is written there bounds the first.
        if name == "max" and _is(arguments[1], 0) and (_is(arguments[0], 0) or not _is(node.args[1], 0)):
            return arguments[0]
        if name == "p_norm" and (_is(arguments[0], 0) or _is(arguments[1], 0)):
            return arguments[1] if _is(arguments[0], 0) else arguments[0]
        return ast.Call(node.func, arguments, [])


def _is(node: ast.expr, number: float) -> bool:
    return isinstance(node, ast.Constant) and node.value == number


def _text(node: ast.expr, style: Style, shown: Mapping[str, str]) -> tuple[str, int]:
    """(text, how tightly it binds: 1 sum, 2 product, 3 power, 4 atom)."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return f"{number:g}", 4
        case ast.Name(id=name):
            return shown.get(name, symbol(name, style)), 4
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, [_text(argument, style, shown) for argument in arguments], style)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _STRENGTH:
            return _binary(op, _text(left, style, shown), _text(right, style, shown), style)
    raise AdvisorError(f"the formula has {ast.unparse(node)!r}, which cannot be written out")


def _binary(op: ast.operator, left: tuple[str, int], right: tuple[str, int], style: Style) -> tuple[str, int]:
    strength = _STRENGTH[type(op)]
    if isinstance(op, ast.Div) and style == "latex":
        return rf"\frac{{{left[0]}}}{{{right[0]}}}", 4
    if isinstance(op, ast.Pow):
        return _power(left, right, style), 3
    first = _wrapped(left, strength, style)
    second = _wrapped(right, strength + (isinstance(op, ast.Sub | ast.Div)), style)
    mark = {ast.Add: " + ", ast.Sub: " - ", ast.Div: " / "}.get(type(op))
    if mark is None:
        mark = r" \cdot " if style == "latex" else " × "
    return f"{first}{mark}{second}", strength


def _power(base: tuple[str, int], exponent: tuple[str, int], style: Style) -> str:
    below = _wrapped(base, 4, style)
    return f"{below}^{{{exponent[0]}}}" if style == "latex" else f"{below}^{_wrapped(exponent, 4, style)}"


def _call(name: str, arguments: list[tuple[str, int]], style: Style) -> tuple[str, int]:
    if name == "one_minus_power":
        x, n = arguments
        return f"1 - {_power(x, n, style)}", 1
    if name == "p_norm":
        a, b, p = arguments
        if style == "latex":
            sides = (rf"\left({side}\right)^{{{p[0]}}}" for side, _ in (a, b))
            return rf"\left[{' + '.join(sides)}\right]^{{1/{p[0]}}}", 4
        return f"[{_power(a, p, style)} + {_power(b, p, style)}]^(1/{p[0]})", 4
    inside = ", ".join(argument[0] for argument in arguments)
    if name in _NUMPY.values():
        return (rf"\{name}\left({inside}\right)" if style == "latex" else f"{name}({inside})"), 4
    return f"{symbol(name, style)}({inside})", 4


def _wrapped(part: tuple[str, int], least: int, style: Style) -> str:
    text, strength = part
    if strength >= least:
        return text
    return rf"\left({text}\right)" if style == "latex" else f"({text})"
