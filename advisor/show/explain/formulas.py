"""Formulas as text, read from the source of their laws, and the constants in them with their
origin.

`formula_of` gives a law's one returned expression with the laws that it calls written in, and
optional terms that are absent left out; `written` turns such an expression into LaTeX or plain
text. Names become symbols: `T_plain` is T with the index plain, `rho` the Greek letter.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from advisor.catalog.adjustment import Adjustment
from advisor.catalog.engines import EAGER_SOURCE, class_today
from advisor.catalog.fit_records import (
    ANY_CLASS,
    OVERHEAD_NAMES,
    FitRecord,
    load_overheads,
    load_records,
    record_of,
)
from advisor.catalog.kernel_choice import small_launch
from advisor.catalog.kernel_costs import BETWEEN_SOURCE, NETWORK_FRACTION, STREAM_MIXING_SOURCE
from advisor.physics import laws
from advisor.physics.components import KERNELS, OVERHEADS
from advisor.physics.kernel_costs import AttentionCost, GemmCost, MoeCost, Network, StreamCost
from advisor.physics.laws.kernels import Law
from advisor.physics.touched_experts import local_experts, touched_experts
from advisor.predict.setup import Setup
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.text import counted

Style = Literal["latex", "plain"]
BY_SYMBOL: Mapping[Law, tuple[str, tuple[str, ...]]] = {
    touched_experts: ("U", ("B", "q", "N", "k", "CV", "phi", "rho")),
    local_experts: ("U_slowest", ("U", "N", "ep")),
}
"""Functions that no one line holds, a sum and an interpolation (docs/model.md writes them out):
shown as a symbol of their arguments, in order."""
_FORMS = {laws.p_norm: "p_norm", laws.one_minus_power: "one_minus_power"}
_NUMPY = {"minimum": "min", "maximum": "max", "log": "log", "log2": "log2"}
_STRENGTH: Mapping[type[ast.operator], int] = {
    ast.Add: 1,
    ast.Sub: 1,
    ast.Mult: 2,
    ast.Div: 2,
    ast.Pow: 3,
}
_GREEK = {"alpha", "eta", "phi", "rho", "tau"}


def formula_of(law: Law, values: Mapping[str, float] | None = None) -> str:
    """A law's returned expression as Python text.

    Parameters
    ----------
    law : a function of `advisor.physics.laws`, or one of BY_SYMBOL.
    values : arguments by parameter. An optional parameter that is not given, or at its default,
        takes its terms and factors with it; without `values` everything is kept.
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
    return ast.unparse(
        ast.fix_missing_locations(_Shorter().visit(_Renamed(absent).visit(_body(law))))
    )


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The expression with other names for some of its quantities."""
    instead: dict[str, ast.expr] = {old: ast.Name(new) for old, new in names.items()}
    return ast.unparse(
        ast.fix_missing_locations(_Renamed(instead).visit(ast.parse(text, mode="eval").body))
    )


def computed(law: Law, values: Mapping[str, float]) -> float:
    """Value of a law for given arguments. Of a function in BY_SYMBOL, by the names it is shown
    with."""
    if law in BY_SYMBOL:
        return float(law(*(values[name] for name in BY_SYMBOL[law][1])))
    return float(law(**values))


def used_names(text: str) -> set[str]:
    """The names in an expression, those of functions included."""
    return {
        node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)
    }


def written(text: str, style: Style, shown: Mapping[str, str] | None = None) -> str:
    """The expression in LaTeX or plain text, names as in `shown`. Raises AdvisorError for anything
    but arithmetic."""
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
        raise AdvisorError(
            f"{law.__name__} does not end with a returned expression, so it cannot be shown as a "
            "law"
        )
    return last.value


def _body(law: Law) -> ast.expr:
    """`_source` with called laws written in and constants of the module as numbers."""
    return _WrittenIn(law).visit(ast.parse(ast.unparse(_source(law)), mode="eval").body)


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
            case ast.Name(id=name) if (
                inspect.isfunction(self.known.get(name)) and not node.keywords
            ):
                by_name = dict(
                    zip(inspect.signature(self.known[name]).parameters, arguments, strict=False)
                )
                return _Renamed(by_name).visit(_body(self.known[name]))
        raise AdvisorError(
            f"{self.law.__name__} has {ast.unparse(node)!r}, which cannot be shown; use a law or "
            "a form"
        )

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
    """Leaves out terms that are zero and factors that are one. Quantities are taken to be 0 or
    more."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left = self.visit(node.left)
        op = node.op
        right = self.visit(node.right)
        if isinstance(op, ast.Add | ast.Sub) and _is(right, 0):
            return left
        if isinstance(op, ast.Add) and _is(left, 0):
            return right
        if isinstance(op, ast.Mult | ast.Div) and (
            _is(left, 0) or (isinstance(op, ast.Div) and _is(right, math.inf))
        ):
            return ast.Constant(0)
        if isinstance(op, ast.Mult) and _is(right, 0):
            return ast.Constant(0)
        if isinstance(op, ast.Mult) and _is(left, 1):
            return right
        if isinstance(op, ast.Mult | ast.Div | ast.Pow) and _is(right, 1):
            return left
        if (
            isinstance(op, ast.Mult)
            and isinstance(right, ast.BinOp)
            and isinstance(right.op, ast.Mult | ast.Div)
        ):
            return self.visit(
                ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)
            )  # a (b c) = a b c
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
        # A second side whose terms are all absent goes; a zero that is written there bounds the
        # first.
        if (
            name == "max"
            and _is(arguments[1], 0)
            and (_is(arguments[0], 0) or not _is(node.args[1], 0))
        ):
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


def _binary(
    op: ast.operator, left: tuple[str, int], right: tuple[str, int], style: Style
) -> tuple[str, int]:
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
    return (
        f"{below}^{{{exponent[0]}}}"
        if style == "latex"
        else f"{below}^{_wrapped(exponent, 4, style)}"
    )


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


def _wrapped(part: tuple[str, int], binding: int, style: Style) -> str:
    text, strength = part
    if strength >= binding:
        return text
    return rf"\left({text}\right)" if style == "latex" else f"({text})"


Part = Literal[
    "experts",
    "projections",
    "attention",
    "latent attention",
    "recurrent state",
    "all-reduce",
    "expert exchange",
]
_REFIT_FACTOR = {part: component.factor for component in KERNELS for part in component.parts}
"""The factor of a refit that scales each part's kernels."""


@dataclass(frozen=True)
class ConstantUse:
    """A constant as a step uses it. `stderr` is the fit's standard error in the same unit, where
    there is one."""

    symbol: str
    name: str
    value: float
    unit: str
    tier: str
    source: str
    stderr: float | None = None


def record_behind(
    setup: Setup, part: Part, t0_s: float, drafting: bool = False
) -> FitRecord | None:
    """The fit record that a kernel cost was taken from, a refit's factor undone. None where the
    cost is a roofline."""
    costs = setup.draft_costs if drafting else setup.costs
    name = _refit_name(part, drafting)
    shipped_s = t0_s if setup.adjustment is None else t0_s / setup.adjustment.factors.get(name, 1.0)
    device = setup.hardware.kernel_table_device
    sources = " ".join(costs.sources.get(part, ()))
    for record in load_records(device) if device else ():
        if (
            math.isclose(record.parameters["t0_s"].value, shipped_s, rel_tol=1e-9)
            and f"fit {record.id} " in sources
        ):
            return record
    return None


_RATE = "rate of arithmetic (a fitted slope, not the data sheet's peak)"


class _Row(NamedTuple):
    """How a constant is named, and the parameter of a fit record that it comes from."""

    name: str
    unit: str
    parameter: str
    inverse: bool = False
    """The record holds the inverse of the constant: seconds for each byte or operation."""


_CONSTANTS: dict[type, dict[str, _Row]] = {
    MoeCost: {
        "t0": _Row("experts: fixed cost of a layer", "s", "t0_s"),
        "BW": _Row("experts: rate of reading weights", "B/s", "weight_s_per_byte", True),
        "tau": _Row("experts: cost of each touched one", "s", "per_expert_s"),
        "F_peak": _Row(f"experts: {_RATE}", "FLOP/s", "s_per_flop", True),
        "BW_act": _Row("experts: rate of moving activations", "B/s", "activation_s_per_byte", True),
        "tau_N": _Row("experts: cost of each resident one", "s", "per_resident_expert_s"),
    },
    GemmCost: {
        "t0": _Row("GEMM: fixed cost of a launch", "s", "t0_s"),
        "BW": _Row("GEMM: rate of reading weights", "B/s", "bandwidth_bytes_per_s"),
        "F_peak": _Row(f"GEMM: {_RATE}", "FLOP/s", "flops_per_s"),
        "p": _Row("GEMM: sharpness of the bend between them", "1", "sharpness"),
    },
    StreamCost: {
        "t0": _Row("{part}: fixed cost of a call", "s", "t0_s"),
        "BW": _Row("{part}: rate of bytes", "B/s", "s_per_byte", True),
    },
    AttentionCost: {
        "t0": _Row("{part}: fixed cost of a call", "s", "t0_s"),
        "BW": _Row("{part}: rate of bytes", "B/s", "s_per_byte", True),
        "F_attn": _Row(f"{{part}}: {_RATE}", "FLOP/s", "s_per_flop", True),
        "p": _Row("{part}: sharpness of the bend between them", "1", "sharpness"),
    },
}
"""By kind of cost and the law's symbol; `{part}` stands for the part that the kernel serves."""


def network_constants(
    setup: Setup, network: Network, drafting: bool = False
) -> tuple[ConstantUse, ...]:
    """Latency of the network between nodes, and the rate that exchanges reach of the profile's
    nominal one."""
    nominal = setup.hardware.network_bytes_per_s
    decision = "docs/decisions/0016-between-nodes.md"
    nominal_source = "" if nominal is None else nominal.source
    rows = {
        "t_net": ("network between nodes: latency", "s", decision),
        "BW_net": (
            "network of one GPU: rate that exchanges reach",
            "B/s",
            f"{NETWORK_FRACTION:.2f} of the nominal rate, {decision}: {nominal_source}",
        ),
    }
    uses = []
    for symbol, (name, unit, source) in rows.items():
        use = ConstantUse(symbol, name, network.symbols[symbol], unit, str(network.tier), source)
        uses.append(_refitted(use, setup.adjustment, _refit_name("expert exchange", drafting)))
    return tuple(uses)


def overhead_constant(setup: Setup, symbol: str, name: str, field: str) -> ConstantUse:
    """A constant fitted on speedups, or the host's time, with the factor of its 80 % range in its
    source."""
    per_round = setup.costs.round_host_s(setup.placement.gpus)
    value = per_round if field == "host_per_round_s" else float(getattr(setup.costs, field))
    unit = "s" if field.endswith("_s") else "1"
    key = next(component.factor for component in OVERHEADS if field in component.priced_by)
    shared = (
        field in OVERHEAD_NAMES
    )  # fitted per engine class, so that a refit moves all of them together
    if setup.adjustment is not None and (shared or key in setup.adjustment.factors):
        return _refitted(
            ConstantUse(symbol, name, value, unit, "fitted", ""), setup.adjustment, key
        )
    if not shared:
        measured_source = {
            "eager_per_layer_s": EAGER_SOURCE,
            "between_graphs_s": BETWEEN_SOURCE,
        }.get(field)
        if field == "verify_per_doubling":
            source = "chosen for step times from outside: docs/decisions/0045-verified-tokens.md"
            return ConstantUse(symbol, name, value, unit, "assumed", source)
        return ConstantUse(
            symbol,
            name,
            value,
            "s",
            *(("measured", measured_source) if measured_source else ("assumed", "docs/model.md")),
        )
    scenario = setup.scenario
    part = setup.hardware
    today = class_today(scenario.engine, part.vendor, part.generation, scenario.engine_version)
    common = field == "verified_per_token"  # one constant for all classes
    record = record_of(load_overheads().records, ANY_CLASS if common else today)
    if record.n_rows and (common or record.engine_class != ANY_CLASS):
        index = list(record.parameters).index(field)
        factor = math.exp(BAND_SIGMAS * math.sqrt(record.log_covariance[index][index]))
        laboratories = counted(record.n_sources, "laboratory", "laboratories")
        classes = "all classes" if common else record.engine_class
        decision = "0045-verified-tokens" if common else "0003-engine-overheads"
        source = (
            f"fitted on {record.n_rows} published speedups of {laboratories} ({classes}), within "
            f"a factor of {factor:.1f} either way: docs/decisions/{decision}.md"
        )
        return ConstantUse(symbol, name, value, unit, "fitted", source)
    if launched := small_launch(setup.scenario.engine, field):
        source = f"{launched.source}: docs/decisions/history.md (0013)"
        return ConstantUse(symbol, name, value, "s", "fitted", source)
    source = (
        "weak prior of docs/decisions/0003-engine-overheads.md, within a factor of 2 either way"
    )
    return ConstantUse(symbol, name, value, unit, "assumed", source)


def norm_constant(setup: Setup) -> ConstantUse:
    """Constant that normalising queries and keys adds to a layer's launches, on the scenario's
    engine."""
    name = "normalising queries and keys, of a layer"
    value = setup.costs.query_key_norm_s
    record = small_launch(setup.scenario.engine, "query_key_norm_s")
    source = "as given"
    if record is not None:
        bounds = "quartiles" if len(record.models) == 1 else "with one model left out"
        range_us = f"{record.low_s * 1e6:.0f}-{record.high_s * 1e6:.0f} us"
        models = counted(len(record.models), "model")
        source = f"{record.source}, {record.n_points} points of {models}, {bounds} {range_us}"
    return ConstantUse("c_q", name, value, "s", "fitted", source)


def mixing_constants(setup: Setup, cost: StreamCost, drafting: bool) -> tuple[ConstantUse, ...]:
    """Fixed time and rate of one mix of residual streams."""
    refitted = "drafter" if drafting else "dense"
    rows = (
        ("t_x", "hyper-connections: fixed time of a mix", cost.t0_s, "s"),
        ("BW_x", "hyper-connections: rate of bytes", cost.bandwidth_bytes_per_s, "B/s"),
    )
    uses = [ConstantUse(*row, str(cost.tier), STREAM_MIXING_SOURCE) for row in rows]
    return tuple(_refitted(use, setup.adjustment, refitted) for use in uses)


def kernel_constants(
    setup: Setup,
    part: Part,
    cost: MoeCost | GemmCost | AttentionCost | StreamCost,
    drafting: bool = False,
) -> tuple[ConstantUse, ...]:
    """Constants of the kernel that serves a part. Terms without cost are left out."""
    uses = []
    record = record_behind(setup, part, cost.t0_s, drafting)
    for symbol, value in cost.symbols.items():
        row = _CONSTANTS[type(cost)][symbol]
        if value == 0.0 or math.isinf(value):
            continue  # the kernel has no such cost
        peak = setup.hardware.bandwidth_bytes_per_s.source
        source = (
            f"profile of {setup.hardware.name} and typical kernel fractions (docs/model.md); "
            f"peak: {peak}"
        )
        stderr = None
        if record is not None:
            source = f"fit {record.id} ({record.n_rows} rows, {record.n_shapes} shapes)"
            fitted = record.parameters.get(row.parameter)
            if fitted is not None and fitted.stderr is not None and fitted.value:
                # the relative error of a rate is that of the slope it is the inverse of
                stderr = value * fitted.stderr / fitted.value if row.inverse else fitted.stderr
        use = ConstantUse(
            symbol, row.name.format(part=part), value, row.unit, str(cost.tier), source, stderr
        )
        uses.append(_refitted(use, setup.adjustment, _refit_name(part, drafting)))
    return tuple(uses)


def _refit_name(part: Part, drafting: bool) -> str:
    return "drafter" if drafting else _REFIT_FACTOR[part]


def _refitted(use: ConstantUse, adjustment: Adjustment | None, factor: str) -> ConstantUse:
    """A constant with the refit in its source, and its error as the refit knows the factor on it,
    if it does."""
    if adjustment is None:
        return use
    log_sd = adjustment.log_sd.get(factor)
    refit_source = f"{adjustment.label} (data {adjustment.data}): docs/measure-and-refit.md"
    source = "; ".join(filter(None, (use.source, refit_source)))
    return replace(use, source=source, stderr=None if log_sd is None else use.value * log_sd)
