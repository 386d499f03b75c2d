"""Steps of a derivation: the laws that a forward pass ran, from a recording, each with its numbers,
as text and in LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from advisor.physics import laws
from advisor.physics.architecture import Architecture, Mixer, effective_n_active
from advisor.physics.attention import core_cost
from advisor.physics.kernel_costs import KernelCosts, StreamCost, stream_cost
from advisor.physics.laws.kernels import Law
from advisor.physics.laws.recording import Call
from advisor.physics.step import DECODING_ONLY, MoeShape, expert_shape
from advisor.physics.touched_experts import touched_experts
from advisor.predict.curve import PADDED
from advisor.predict.setup import Setup
from advisor.prediction import Tier
from advisor.show.explain.formulas import (
    BY_SYMBOL,
    ConstantUse,
    Part,
    Style,
    computed,
    formula_of,
    kernel_constants,
    mixing_constants,
    network_constants,
    norm_constant,
    overhead_constant,
    renamed,
    symbol,
    used_names,
    written,
)
from advisor.show.explain.titles import SUMS, Title, component_of, title_of, titles, units_of
from advisor.text import counted, with_prefix

Group = Literal["Answer", "Plain step", "Verification", "Drafting"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Quantity:
    """A number with its SI unit. `1` has none."""

    value: float
    unit: str = "1"


@dataclass(frozen=True)
class Step:
    """One formula with the numbers that went in and what came out, in SI units."""

    id: str
    """Dotted: `plain.routed`, `verify.attention`, `round`, `speedup`."""
    group: Group
    title: str
    symbol: str
    expression: str
    """As Python text, read from the law's source; empty for a number that is given, not
    computed."""
    values: Mapping[str, Quantity]
    result: Quantity
    constants: tuple[ConstantUse, ...] = ()
    note: str = ""


@dataclass
class Builder:
    """Collects steps of one group after another. Each result is its law's, nobody else's."""

    steps: list[Step] = field(default_factory=list)
    group: Group = "Answer"
    prefix: str = ""

    def add(
        self,
        title: Title,
        law: Law,
        values: Mapping[str, Any],
        constants: tuple[ConstantUse, ...] = (),
        names: Mapping[str, str] | None = None,
    ) -> Quantity:
        """Keep a run of a law.

        `values` are its arguments by symbol, in the units of its docstring or with their own;
        optional terms that are absent are not shown. `names` are other names that the step gives
        the law's parameters.
        """
        units = units_of(law)
        quantities = {
            name: value
            if isinstance(value, Quantity)
            else Quantity(number_in(value), units.get(name, "1"))
            for name, value in values.items()
        }
        quantities |= {use.symbol: Quantity(use.value, use.unit) for use in constants}
        numbers = {name: quantity.value for name, quantity in quantities.items()}
        text = formula_of(law, numbers)
        names = names or {}
        used = used_names(text)
        visible = {
            names.get(name, name): quantity for name, quantity in quantities.items() if name in used
        }
        return self._keep(title, renamed(text, names), visible, computed(law, numbers), constants)

    def add_sum(self, title: Title, parts: Mapping[str, Quantity]) -> Quantity:
        """Add up parts, each under its symbol, and keep the sum."""
        return self._keep(
            title, " + ".join(parts), parts, sum(part.value for part in parts.values())
        )

    def given(
        self, title: Title, value: float, constants: tuple[ConstantUse, ...] = ()
    ) -> Quantity:
        """Keep a number that is an input, or a measured curve read off at a point."""
        return self._keep(title, "", {}, value, constants)

    def value(self, id: str) -> Quantity:
        """Value of the latest step of that id, with the prefix of the others."""
        return next(
            step.result for step in reversed(self.steps) if step.id == f"{self.prefix}.{id}"
        )

    def _keep(
        self,
        title: Title,
        text: str,
        values: Mapping[str, Quantity],
        number: float,
        constants: tuple[ConstantUse, ...] = (),
    ) -> Quantity:
        id = f"{self.prefix}.{title.id}" if self.prefix else title.id
        result = Quantity(float(number), title.unit)
        titles = title.title, title.symbol
        self.steps.append(
            Step(id, self.group, *titles, text, values, result, constants, title.note)
        )
        return result


def number_in(value: Any) -> float:
    """The number of an array with one point."""
    return float(np.ravel(value)[0])


@dataclass(frozen=True)
class Pass:
    """Pass that was run: B sequences x q tokens of one architecture with its own kernel costs."""

    setup: Setup
    architecture: Architecture
    calls: Sequence[Call]
    """Laws that ran in it."""
    uncharged: Collection[str]
    """Components that ran and are not part of its time."""
    touched: float
    """Distinct experts of a routed layer. [-]"""
    drafting: bool = False

    @property
    def costs(self) -> KernelCosts:
        """Kernel costs of this pass."""
        return self.setup.draft_costs if self.drafting else self.setup.costs

    def by_component(self) -> dict[str, list[Call]]:
        """Laws by component, in the order of `titles`, then those that have no row there."""
        is_padded = any(PADDED in call.part for call in self.calls)
        components: dict[str, list[Call]] = {name: [] for name in titles()}
        for call in self.calls:
            part = tuple(name for name in call.part if name != PADDED)
            component = component_of(call.law, part)
            # Rows of padding are computed but for what a graph leaves to the sequences asked for.
            if (PADDED in call.part) == (is_padded and component not in DECODING_ONLY):
                components.setdefault(component, []).append(call)
        return {name: calls for name, calls in components.items() if name not in self.uncharged}


def add_pass(b: Builder, run: Pass, total: Title) -> Quantity:
    """All components of a pass, then their sum. Host and launches are left out while drafting:
    charged per pass."""
    parts: dict[str, Quantity] = {}
    batches = [number_in(call.values["B"]) for call in run.calls if call.law is laws.step_tokens]
    if batches[-1] > batches[0]:
        note = (
            "Sequences of the captured graph that the step runs in: the rows between are computed "
            "for nothing."
        )
        b.given(Title("ran", "Sequences computed, with padding", "B_ran", "1", note), batches[-1])
    for component, calls in run.by_component().items():
        parts |= _component(b, run, component, calls)
    if not run.drafting:
        use = overhead_constant(run.setup, "T_host", "host time of a step", "host_per_step_s")
        parts["T_host"] = b.given(Title("host", "Host", "T_host"), use.value, (use,))
    return b.add_sum(total, parts)


def _component(b: Builder, run: Pass, component: str, calls: Sequence[Call]) -> dict[str, Quantity]:
    """Steps of one component: its time by symbol. Nothing of one with a row that takes none."""
    timed = [call for call in calls if title_of(component, call.law).unit == "s"]
    ids = [title_of(component, call.law).id for call in timed if number_in(call.result)]
    if not ids and component in titles():
        return {}
    times: dict[str, Quantity] = {}
    messages = [call for call in calls if call.law is laws.message_bytes]
    for call, mixer in _with_mixers(run, component, calls):
        title = _filled(run, component, call, mixer)
        if call in timed and not number_in(call.result):
            continue
        if call in messages[1:]:
            title = Title("fullest_message", "Message of that rank", "X_max", "B")
        place = len(times) + 1
        if len(ids) == 1 and call in timed and component in SUMS:
            title = title._replace(id=component, symbol=SUMS[component].symbol)
        elif ids.count(title.id) > 1:
            title = title._replace(id=f"{title.id}.{place}", symbol=f"{title.symbol}_{place}")
        elif component == "attention" and len(ids) > 1:
            title = title._replace(id=f"{title.id}.{place}")
        result = _shown(b, run, component, call, title, mixer)
        if call in timed:
            times[title.symbol] = result
        if call.law is laws.step_tokens:
            _touched(b, run, call)
    if len(ids) < 2:
        return times
    whole = SUMS.get(component, Title(component, component, f"T_{component}"))
    return {whole.symbol: b.add_sum(whole, times)}


def _with_mixers(
    run: Pass, component: str, calls: Sequence[Call]
) -> Iterator[tuple[Call, Mixer | None]]:
    """Laws with the mixer whose layers they are of, those of attention mixer by mixer."""
    mixers = run.architecture.mixers
    if component == "attention_projection":
        unmeasured = iter([mixer for mixer in mixers if mixer not in run.costs.modules])
        for call in calls:
            yield call, next(unmeasured) if call.law is laws.gemm else None
        return
    if component != "attention":
        yield from ((call, None) for call in calls)
        return
    laws_of_mixer = (
        (laws.cache_read, laws.state_moved),
        (laws.attention_flops, laws.state_flops),
        (laws.attention_core, laws.attention_module),
    )
    queues = [iter([call for call in calls if call.law in each]) for each in laws_of_mixer]
    for mixer in mixers:
        if mixer.kind != "none":
            is_whole = mixer in run.costs.modules
            for queue in queues[-1:] if is_whole else queues:
                yield next(queue), mixer


def _filled(run: Pass, component: str, call: Call, mixer: Mixer | None) -> Title:
    """Title of a law's step with the layers, formats and reasons of this run."""
    title = title_of(component, call.law)
    dtypes = run.architecture.dtypes
    dtype = {
        "router": "bf16",
        "attention_projection": dtypes.attention,
        "lm_head": dtypes.embedding,
    }.get(component) or getattr(dtypes, component, None)
    layers = ""
    if "{layers}" in title.title:
        kind = "layer" if mixer is None else f"{mixer.kind} layer"
        layers = counted(int(number_in(call.values["L"])), kind)
    facts = {"layers": layers, "dtype": dtype, "because": _because(run, call, mixer)}
    return title._replace(title=title.title.format(**facts), note=title.note.format(**facts))


def _because(run: Pass, call: Call, mixer: Mixer | None) -> str:
    """Why a law was given what it was given."""
    costs = run.costs
    if call.law is laws.routed_layers:
        return costs.routed.because
    if call.law is laws.launches and costs.modules:
        return "Half of each layer whose attention was measured with its launches."
    if mixer is None:
        return ""
    if mixer in costs.modules:
        return str(costs.modules[mixer].because)
    if call.law is laws.cache_read and number_in(call.values["g"]) != 1.0:
        return "Read for each query head of a group where tokens are verified."
    if mixer.kind == "sparse":
        return "Each query chooses its own entries."
    return "Read once per sequence, whatever q is."


def _shown(
    b: Builder, run: Pass, component: str, call: Call, title: Title, mixer: Mixer | None
) -> Quantity:
    """The step of a run of a law, behind that of a factor that was read off a curve for it."""
    names: dict[str, str] = {"n_q": "q"}
    values: dict[str, Any] = dict(call.values)
    if call.law in BY_SYMBOL:
        values = dict(zip(BY_SYMBOL[call.law][1], values.values(), strict=True))
    if call.law is laws.routed_layers:
        names["c"], values["c"] = _correction(b, run)
    if call.law is laws.all_reduces:
        note = "Measured over computed time of a message: passes through every measured size."
        factor = Title("link_factor", "Measured message sizes", "r", "1", note)
        cost = stream_cost(run.costs.all_reduce, run.setup.placement.tensor_parallel)
        curve = () if cost is None else cost.curve
        values["r"] = _between_knots(b, factor, "X", b.value("message"), curve)
    if call.law is laws.wire_bytes:
        is_narrow = any(other.law is laws.fp8_messages for other in run.calls)
        names["X_out"] = "X_8" if is_narrow else "X"
    return b.add(title, call.law, values, _constants(run, component, call, mixer), names)


OVERHEADS = {
    "launches": ("c_l", "launch overhead of a layer", "launch_per_layer_s"),
    "drafting": ("c_l", "launch overhead of a layer", "launch_per_layer_s"),
    "between_graphs": (
        "c_p",
        "launching attention between pieces of a graph",
        "between_graphs_s",
    ),
    "reread": ("kappa", "share of the attention for each further token", "reread_share"),
    "eager_wait": ("e", "launching a layer without a graph", "eager_per_layer_s"),
    "draft_host": ("c_d", "host time of a drafting pass", "host_per_draft_pass_s"),
    "verified": (
        "phi",
        "how soon verified tokens are as dear as plain ones",
        "verified_per_token",
    ),
    "verify_tokens": (
        "c",
        "verification's share of a baseline step for each doubling",
        "verify_per_doubling",
    ),
}
"""Constants of no kernel, by law: symbol, name and field of the costs."""


def overheads(setup: Setup, call: Call) -> tuple[ConstantUse, ...]:
    """The constant of no kernel that a law took, with the value that it took."""
    if call.law.__name__ not in OVERHEADS:
        return ()
    use = overhead_constant(setup, *OVERHEADS[call.law.__name__])
    return (replace(use, value=number_in(call.values[use.symbol])),)


def _constants(
    run: Pass, component: str, call: Call, mixer: Mixer | None
) -> tuple[ConstantUse, ...]:
    """Constants that a law took, with their origin."""
    setup = run.setup
    costs = run.costs
    placement = setup.placement
    law = call.law
    if law is laws.gemm:
        cost = getattr(costs, component) or costs.lm_head  # the router may have no cost of its own
        return kernel_constants(setup, "projections", cost, run.drafting)
    if law is laws.routed_layers:
        return kernel_constants(setup, "experts", costs.routed, run.drafting)
    if law is laws.norms:
        return (norm_constant(setup),)
    if law is laws.stream_mixing and costs.stream_mixing:
        return mixing_constants(setup, costs.stream_mixing, run.drafting)
    if law is laws.attention_core and mixer is not None:
        part: Part = "attention"
        if mixer.kind in ("mla", "sparse") and costs.mla is not None:
            part = "latent attention"
        if mixer.kind == "linear" and costs.state is not None:
            part = "recurrent state"
        return kernel_constants(setup, part, core_cost(mixer, costs), run.drafting)
    stream: StreamCost | None = None
    if law is laws.all_reduces:
        stream = stream_cost(costs.all_reduce, placement.tensor_parallel)
        part = "all-reduce"
    if law is laws.expert_exchange:
        stream = stream_cost(costs.all_to_all, placement.expert_parallel)
        part = "expert exchange"
    if stream is None:
        return overheads(setup, call)
    uses = kernel_constants(setup, part, stream, run.drafting)
    if costs.network is None or part == "all-reduce":
        return uses
    return uses + network_constants(setup, costs.network, run.drafting)


def _touched(b: Builder, run: Pass, tokens: Call) -> None:
    """Distinct experts: a sum over experts and not a law, so that its arguments are put together
    here."""
    moe = run.architecture.moe
    title = title_of("routed", touched_experts)
    if run.drafting or moe is None:
        note = "As in the baseline step: each sequence drafts one token at a time."
        b.given(title._replace(note=note), run.touched)
        return
    setup = run.setup
    experts = float(moe.n_experts)
    k = max(effective_n_active(moe), 1.0)
    sizes: dict[str, Any] = {"N": experts, "k": k}
    preset = setup.routing
    if preset is None:
        title = title._replace(note=f"{setup.routing_because}.")
        b.add(title, laws.uniform_experts, sizes | {"M": b.value("tokens")})
        return
    cv, phi, rho = setup.routing_parameters()
    cv = min(cv, math.sqrt(experts / k - 1.0))
    derived = (
        ("CV", "spread of the experts' load", cv, preset.load_cv),
        ("phi", "affinity of a sequence", phi, preset.affinity),
        ("rho", "stickiness", rho, preset.stickiness),
    )
    uses = tuple(
        ConstantUse(symbol, name, value, "1", origin.kind, origin.source)
        for symbol, name, value, origin in derived
    )
    sizes = dict(tokens.values) | sizes
    note = "Sum over experts of 1 - P(untouched)^B with correlated choices: docs/model.md, routing."
    b.add(title._replace(note=note), touched_experts, sizes, uses)


def _correction(b: Builder, run: Pass) -> tuple[str, Quantity]:
    """What the sum of terms is multiplied by: measured rows of this very shape, else the form's own
    curve."""
    cost = run.costs.routed
    layer = cost.measured
    shape = MoeShape.of(run.architecture)
    if layer and shape and expert_shape(shape, run.setup.placement) == layer.shape:
        tokens = b.value("tokens")
        tier = list(Tier)[int(layer.tier_rank(tokens.value))]
        note = f"Measured over computed time of this very expert shape at M tokens; {tier} here."
        title = Title("factor", "Measured rows of this shape", "r", "1", note)
        return "r", _between_knots(b, title, "M", tokens, layer.knots)
    note = "Tile switches of the kernel: interpolated in the logarithms between knots of the fit."
    title = Title("factor", "Correction of the kernel's form", "c", "1", note)
    return "c", _between_knots(b, title, "m", b.value("rows"), cost.curve)


def _between_knots(
    b: Builder, title: Title, x_symbol: str, x: Quantity, curve: Sequence[tuple[float, float]]
) -> Quantity:
    """A factor read off a curve: between two knots a power of x, beyond the outer ones constant. 1
    without knots."""
    if not curve:
        return Quantity(1.0)
    knots = sorted(curve)
    if x.value <= knots[0][0] or x.value >= knots[-1][0]:
        edge = knots[0] if x.value <= knots[0][0] else knots[-1]
        return b.given(title, edge[1])
    right = next(number for number, knot in enumerate(knots) if knot[0] >= x.value)
    x_1, c_1 = knots[right - 1]
    x_2, c_2 = knots[right]
    sizes = {"x": x, "x_1": Quantity(x_1, x.unit), "x_2": Quantity(x_2, x.unit)}
    values = sizes | {"c_1": Quantity(c_1), "c_2": Quantity(c_2)}
    names = {name: name.replace("x", x_symbol).replace("c", title.symbol) for name in values}
    return b.add(title, laws.between_knots, values, names=names)


END_ALIGNED = r"\end{aligned}\;"
"""Ends lines aligned in LaTeX. KaTeX gives them 2 px less width than they take, which scrolls; the
space fills it."""


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
    visible = {name: value_text(quantity) for name, quantity in step.values.items()}
    return (
        f"{step.symbol} = {written(step.expression, 'plain')} = "
        f"{written(step.expression, 'plain', visible)} = {result}"
    )


def step_latex(step: Step) -> str:
    """Step in LaTeX over up to three lines, aligned at the equals signs."""
    style: Style = "latex"
    name = symbol(step.symbol, style)
    result = _latex(step.result)
    if not step.expression:
        return f"{name} = {result}"
    visible = {name: _latex(quantity) for name, quantity in step.values.items()}
    lines = (written(step.expression, style), written(step.expression, style, visible), result)
    if not any(r"\frac" in line for line in lines):
        return rf"\begin{{aligned}} {name} &= " + r" \\ &= ".join(lines) + f" {END_ALIGNED}"
    # The rule keeps the first line from being cut where it holds a fraction.
    return (
        rf"\begin{{aligned}} \rule{{0pt}}{{2em}} {name} &= "
        + r" \\[10pt] &= ".join(lines)
        + f" {END_ALIGNED}"
    )


def _latex(quantity: Quantity) -> str:
    text = value_text(quantity)
    match = re.fullmatch(r"(-?[\d.,]+)(?:e([+-]?\d+))?(?:[ ]?(.*))?", text)
    if match is None:
        return rf"\text{{{text}}}"
    number = match[1].replace(",", "{,}")
    power = match[2]
    unit = match[3] or ""
    scaled = number if power is None else rf"{number} \cdot 10^{{{int(power)}}}"
    return scaled if not unit else rf"{scaled}\,\text{{{unit}}}"
