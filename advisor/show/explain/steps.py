"""Steps of a derivation: the laws that a forward pass runs, each with its numbers, as text and in
LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from advisor.physics import laws
from advisor.physics.architecture import BYTES_PER_WEIGHT, Architecture, Moe, effective_n_active
from advisor.physics.attention import (
    AttentionLoad,
    Core,
    MeasuredAttention,
    attending_layers,
    attention_layers,
    reread_share,
)
from advisor.physics.expert_ranks import Uneven
from advisor.physics.kernel_costs import KernelCosts, Network
from advisor.physics.laws.kernels import Law
from advisor.physics.step import (
    EIGHT_BIT_DISPATCH,
    Exchange,
    MoeShape,
    Products,
    exchanges,
    expert_shape,
    expert_sizes,
    launched_layers,
    lm_head,
    matrix_products,
    mixing_symbols,
    n_layers,
    norm_symbols,
    slowest_rank,
)
from advisor.physics.touched_experts import local_experts, touched_experts
from advisor.predict.setup import Setup
from advisor.prediction import Tier
from advisor.show.explain.formulas import (
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
from advisor.text import counted, with_prefix

Group = Literal["Answer", "Plain step", "Verification", "Drafting"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Quantity:
    """A number with its SI unit. `1` has none."""

    value: float
    unit: str = "1"


Values = Mapping[str, Quantity | float]
"""A law's arguments by its parameters; a bare number has no unit."""


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


class Head(NamedTuple):
    """Title of a step, and the unit of its result."""

    id: str
    title: str
    symbol: str
    unit: str = "1"


@dataclass
class Builder:
    """Collects steps of one group after another. Each result is its law's, nobody else's."""

    steps: list[Step] = field(default_factory=list)
    group: Group = "Answer"
    prefix: str = ""

    def add(
        self,
        head: Head,
        law: Law,
        values: Values,
        constants: tuple[ConstantUse, ...] = (),
        note: str = "",
        names: Mapping[str, str] | None = None,
    ) -> Quantity:
        """Compute a step by its law and keep it.

        `values` are the law's arguments, without those in `constants`; optional terms that are
        absent are not shown. `names` are other names that the step gives the law's parameters.
        """
        quantities = {
            name: value if isinstance(value, Quantity) else Quantity(float(value))
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
        return self._keep(
            head, renamed(text, names), visible, computed(law, numbers), constants, note
        )

    def add_sum(self, head: Head, parts: Mapping[str, Quantity]) -> Quantity:
        """Add up parts, each under its symbol, and keep the sum."""
        return self._keep(
            head, " + ".join(parts), parts, sum(part.value for part in parts.values())
        )

    def given(
        self, head: Head, value: float, constants: tuple[ConstantUse, ...] = (), note: str = ""
    ) -> Quantity:
        """Keep a number that is an input, or a measured curve read off at a point."""
        return self._keep(head, "", {}, value, constants, note)

    def _keep(
        self,
        head: Head,
        text: str,
        values: Mapping[str, Quantity],
        number: float,
        constants: tuple[ConstantUse, ...] = (),
        note: str = "",
    ) -> Quantity:
        id = f"{self.prefix}.{head.id}" if self.prefix else head.id
        result = Quantity(float(number), head.unit)
        self.steps.append(
            Step(id, self.group, head.title, head.symbol, text, values, result, constants, note)
        )
        return result


@dataclass(frozen=True)
class Pass:
    """Pass that is run: B sequences x q tokens of one architecture with its own kernel costs."""

    setup: Setup
    architecture: Architecture
    batch: float
    q: float
    touched: float | None
    """U where it is known from elsewhere (drafting); None: computed from B and q."""
    drafting: bool = False
    padding: float = 1.0
    """Rows that a captured graph computes over those asked for. [-]"""

    @property
    def costs(self) -> KernelCosts:
        """Kernel costs of this pass."""
        return self.setup.draft_costs if self.drafting else self.setup.costs

    @property
    def group_batch(self) -> float:
        """Sequences of one attention group. [-]"""
        return self.batch / self.setup.placement.attention_groups

    @property
    def rows(self) -> float:
        """Rows of a matrix product on one rank. [-]"""
        return self.group_batch * self.q * self.padding

    @property
    def ran(self) -> float:
        """Sequences whose rows are computed, those of padding among them. [-]"""
        return self.batch * self.padding

    def uneven(self, touched: float) -> Uneven | None:
        """Load of the slowest rank for `touched` distinct experts of a pass [-]. None where no
        ranks were counted."""
        shape = self.shape
        dtype = self.architecture.dtypes.routed
        step = (np.asarray(self.ran), np.asarray(self.q), np.asarray(touched), dtype)
        return (
            None
            if shape is None
            else slowest_rank(self.costs.routed, self.setup.placement, shape, *step)
        )

    @property
    def shape(self) -> MoeShape | None:
        """Shape of the routed layers. None for a dense model."""
        return MoeShape.of(self.architecture)


def add_pass(b: Builder, run: Pass, total_symbol: str, total_title: str) -> Quantity:
    """All components of a pass, then their sum. Host and launches are left out while drafting:
    charged per pass."""
    parts: dict[str, Quantity] = {}
    moe = run.architecture.moe
    shape = run.shape
    uneven = None
    products = matrix_products(run.architecture, run.costs, run.setup.placement, shape)
    if run.padding > 1.0:
        note = (
            "Sequences of the captured graph that the step runs in: the rows between are computed "
            "for nothing."
        )
        b.given(Head("ran", "Sequences computed, with padding", "B_ran"), run.ran, note=note)
    if moe is not None and shape is not None:
        layers = counted(moe.count, "layer")
        active = effective_n_active(moe)
        tokens = b.add(
            Head("tokens", "Tokens in the step", "M"), laws.step_tokens, {"B": run.ran, "q": run.q}
        )
        touched = _touched(b, run, moe, active, tokens)
        uneven = run.uneven(touched.value)
        parts["T_routed"] = _routed(b, run, (moe, shape), tokens, touched, uneven)
        parts["T_router"] = _gemm(
            b, run, Head("router", f"Router, {layers}", "T_router", "s"), products["router"][0]
        )
        if moe.shared_width:
            head = Head("shared", f"Shared experts, {layers}", "T_shared", "s")
            parts["T_shared"] = _gemm(b, run, head, products["shared"][0])
    unmeasured = [mixer for mixer in run.architecture.mixers if mixer not in run.costs.modules]
    titles = [
        f"Attention weights, {counted(mixer.count, f'{mixer.kind} layer')}" for mixer in unmeasured
    ]
    sum_head = Head("attention_projection", "Attention weights", "T_projections", "s")
    if unmeasured:
        parts["T_projections"] = _projections(
            b, run, sum_head, titles, products["attention_projection"]
        )
    parts["T_attention"], cached = _attention(b, run)
    if cached is not None and reread_share(run.architecture, run.costs):
        kappa = overhead_constant(
            run.setup, "kappa", "share of the attention for each further token", "reread_share"
        )
        head = Head("reread", "KV cache, read again", "T_reread", "s")
        parts["T_reread"] = b.add(head, laws.reread, {"q": run.q, "T_attn": cached}, (kappa,))
    if run.architecture.dense:
        titles = [f"Dense FFN, {counted(block.count, 'layer')}" for block in run.architecture.dense]
        sum_head = Head("dense", "Dense FFN", "T_dense", "s")
        parts["T_dense"] = _gemms(b, run, sum_head, "T_block", titles, products["dense"])
    if run.setup.placement.gpus > 1:
        parts["T_links"] = _communication(b, run, uneven)
    scored = replace(run, padding=1.0)  # nothing is asked of the rows of padding
    product = lm_head(run.architecture, run.costs, run.setup.placement)
    parts["T_head"] = _gemm(b, scored, Head("lm_head", "LM head", "T_head", "s"), product)
    if not run.drafting:
        parts["T_launch"] = _launches(b, run)
        if run.costs.between_graphs_s and run.q > 1:
            use = overhead_constant(
                run.setup,
                "c_p",
                "launching attention between pieces of a graph",
                "between_graphs_s",
            )
            head = Head("between_graphs", "Launches between graphs", "T_between", "s")
            layers_with = {"L": attending_layers(run.architecture)}
            parts["T_between"] = b.add(head, laws.between_graphs, layers_with, (use,))
        host = overhead_constant(run.setup, "T_host", "host time of a step", "host_per_step_s")
        parts["T_host"] = b.given(Head("host", "Host", "T_host", "s"), host.value, (host,))
    return b.add_sum(Head("total", total_title, total_symbol, "s"), parts)


def _routed(
    b: Builder,
    run: Pass,
    layers: tuple[Moe, MoeShape],
    tokens: Quantity,
    touched: Quantity,
    uneven: Uneven | None,
) -> Quantity:
    (moe, shape) = layers
    placement = run.setup.placement
    cost = run.costs.routed
    active = effective_n_active(moe)
    experts = float(moe.n_experts)
    ep = float(placement.expert_parallel)
    rank = _on_slowest(b, touched, Quantity(active), (experts, ep), uneven)
    head = Head("rows", "Rows of each touched expert", "m")
    m = b.add(head, laws.rows_per_expert, {"M": tokens, "k": rank.active, "U": rank.shared_by})
    dtype = run.architecture.dtypes.routed
    sizes = {name: float(size) for name, size in expert_sizes(shape, placement).items()}
    head = Head("weights", f"Expert weights read, {dtype}", "W", "B")
    bytes_per_weight = Quantity(BYTES_PER_WEIGHT[dtype], "B")
    weights = b.add(
        head, laws.expert_weight_bytes, {**sizes, "U": rank.touched, "b": bytes_per_weight}
    )
    head = Head("flops", "Operations, padded to tiles of 16 rows", "F", "FLOP")
    flops = b.add(head, laws.expert_flops, {**sizes, "U": rank.touched, "m": m})
    head = Head("activations", "16-bit activations moved", "A", "B")
    moved = b.add(
        head,
        laws.expert_activation_bytes,
        {**sizes, "M": tokens, "k": rank.active, "ep": rank.ranks},
    )
    symbol, factor = _correction(b, run, shape, tokens, m)
    work: Values = {"W": weights, "U": rank.touched, "F": flops, "A": moved}
    values: Values = {"L": moe.count, "c": factor, "N": rank.experts, "ep": ep, **work}
    head = Head("routed", f"Routed experts, {counted(moe.count, 'layer')}", "T_routed", "s")
    uses = kernel_constants(run.setup, "experts", cost, run.drafting)
    return b.add(head, laws.routed_layers, values, uses, cost.because, names={"c": symbol})


@dataclass(frozen=True)
class _Slowest:
    """Work of the rank that a routed layer waits for."""

    touched: Quantity
    """Experts that it reads."""
    active: Quantity
    """Choices of a token that `ranks` ranks share evenly."""
    ranks: float
    shared_by: Quantity
    """Experts that those choices fall on."""
    experts: float
    """Copies of experts on all ranks."""


def _on_slowest(
    b: Builder,
    touched: Quantity,
    active: Quantity,
    spread: tuple[float, float],
    uneven: Uneven | None,
) -> _Slowest:
    """Work of the slowest rank; `spread` are the experts and the ranks that share them."""
    experts, ep = spread
    head = Head("local", "Distinct experts on the slowest rank", "U_rank")
    if uneven is None:
        local = (
            b.add(head, local_experts, {"U": touched, "N": experts, "ep": ep})
            if ep > 1
            else touched
        )
        return _Slowest(local, active, ep, touched, experts)
    note = (
        "u and p: what the slowest rank reads and serves over the mean rank, counted step by step."
    )
    arguments: Values = {"u": float(uneven.touched), "U": touched, "ep": ep, "S": uneven.slots}
    local = b.add(head, laws.counted_experts, arguments, note=note)
    head = Head("choices", "Choices of a token that the slowest rank serves", "k_rank")
    active_here = b.add(head, laws.rank_choices, {"k": active, "p": float(uneven.pairs), "ep": ep})
    return _Slowest(local, active_here, 1.0, local, uneven.slots)


def _touched(b: Builder, run: Pass, moe: Moe, active: float, tokens: Quantity) -> Quantity:
    head = Head("experts", "Distinct experts touched", "U")
    if run.touched is not None:
        return b.given(
            head,
            run.touched,
            note="As in the plain step: each sequence drafts one token at a time.",
        )
    setup = run.setup
    experts = float(moe.n_experts)
    k = max(active, 1.0)
    preset = setup.routing
    if preset is None:
        values: Values = {"N": experts, "k": k, "M": tokens}
        return b.add(head, laws.uniform_experts, values, note=f"{setup.routing_because}.")
    cv, phi, rho = setup.routing_parameters()
    derived = (
        (
            "CV",
            "spread of the experts' load",
            min(cv, math.sqrt(experts / k - 1.0)),
            preset.load_cv,
        ),
        ("phi", "affinity of a sequence", phi, preset.affinity),
        ("rho", "stickiness", rho, preset.stickiness),
    )
    uses = tuple(
        ConstantUse(symbol, name, value, "1", origin.kind, origin.source)
        for symbol, name, value, origin in derived
    )
    note = "Sum over experts of 1 - P(untouched)^B with correlated choices: docs/model.md, routing."
    return b.add(
        head, touched_experts, {"B": run.ran, "q": run.q, "N": experts, "k": k}, uses, note
    )


def _correction(
    b: Builder, run: Pass, shape: MoeShape, tokens: Quantity, m: Quantity
) -> tuple[str, Quantity]:
    """What the sum of terms is multiplied by: measured rows of this very shape, else the form's own
    curve."""
    cost = run.costs.routed
    layer = run.costs.routed.measured
    if layer is not None and expert_shape(shape, run.setup.placement) == layer.shape:
        tier = list(Tier)[int(layer.tier_rank(tokens.value))]
        note = f"Measured over computed time of this very expert shape at M tokens; {tier} here."
        head = Head("factor", "Measured rows of this shape", "r")
        return "r", _between_knots(b, head, "M", tokens, layer.knots, note)
    note = "Tile switches of the kernel: interpolated in the logarithms between knots of the fit."
    return "c", _between_knots(
        b, Head("factor", "Correction of the kernel's form", "c"), "m", m, cost.curve, note
    )


def _between_knots(
    b: Builder,
    head: Head,
    x_symbol: str,
    x: Quantity,
    curve: Sequence[tuple[float, float]],
    note: str,
) -> Quantity:
    """A factor read off a curve: between two knots a power of x, beyond the outer ones constant. 1
    without knots."""
    if not curve:
        return Quantity(1.0)
    knots = sorted(curve)
    if x.value <= knots[0][0] or x.value >= knots[-1][0]:
        edge = knots[0] if x.value <= knots[0][0] else knots[-1]
        return b.given(head, edge[1], note=note)
    right = next(number for number, knot in enumerate(knots) if knot[0] >= x.value)
    x_1, c_1 = knots[right - 1]
    x_2, c_2 = knots[right]
    values: Values = {
        "x": x,
        "x_1": Quantity(x_1, x.unit),
        "x_2": Quantity(x_2, x.unit),
        "c_1": c_1,
        "c_2": c_2,
    }
    names = {name: name.replace("x", x_symbol).replace("c", head.symbol) for name in values}
    return b.add(head, laws.between_knots, values, note=note, names=names)


def _gemm(b: Builder, run: Pass, head: Head, products: Products) -> Quantity:
    values = {**products.symbols(run.rows), "b": Quantity(BYTES_PER_WEIGHT[products.dtype], "B")}
    uses = kernel_constants(run.setup, "projections", products.cost, run.drafting)
    return b.add(head, laws.gemm, values, uses, f"W weights in {products.dtype}, M rows.")


def _projections(
    b: Builder, run: Pass, whole: Head, titles: Sequence[str], products: Sequence[Products]
) -> Quantity:
    """The products of all attention layers, norms in kernels of their own, and the mixing of
    residual streams."""
    symbols = norm_symbols(run.architecture, run.costs)
    mixing = mixing_symbols(run.architecture, run.costs)
    normed = symbols["c_q"] * symbols["L_q"]
    if not normed and not mixing:
        return _gemms(b, run, whole, "T_proj", titles, products)
    inner = whole._replace(id=f"{whole.id}.products", symbol="T_products")
    parts = {"T_products": _gemms(b, run, inner, "T_proj", titles, products)}
    if normed:
        head = Head(f"{whole.id}.norms", "Norms of queries and keys", "T_norm", "s")
        parts["T_norm"] = b.add(
            head, laws.norms, {"L_q": symbols["L_q"]}, (norm_constant(run.setup),)
        )
    if mixing and (cost := run.costs.stream_mixing):
        head = Head(f"{whole.id}.streams", "Hyper-connections", "T_mix", "s")
        sizes = {name: mixing[name] for name in ("L_x", "n", "h")} | {"M": run.rows}
        parts["T_mix"] = b.add(
            head, laws.stream_mixing, sizes, mixing_constants(run.setup, cost, run.drafting)
        )
    return b.add_sum(whole, parts)


def _gemms(
    b: Builder,
    run: Pass,
    whole: Head,
    part_symbol: str,
    titles: Sequence[str],
    products: Sequence[Products],
) -> Quantity:
    """Several groups of products and their sum. A single one is its own sum."""
    if len(products) == 1:
        return _gemm(b, run, whole._replace(title=titles[0]), products[0])
    parts: dict[str, Quantity] = {}
    for number, (title, item) in enumerate(zip(titles, products, strict=True), 1):
        symbol = f"{part_symbol}_{number}"
        parts[symbol] = _gemm(b, run, Head(f"{whole.id}.{number}", title, symbol, "s"), item)
    return b.add_sum(whole, parts)


def _attention(b: Builder, run: Pass) -> tuple[Quantity, Quantity | None]:
    """Attention of all layers, and of those that keep a cache: the same, a part or None."""
    setup = run.setup
    sum_head = Head("attention", "Attention core", "T_attention", "s")
    context = float(setup.scenario.context_tokens)
    kv = setup.kv_bytes_per_element
    load = AttentionLoad(run.group_batch, run.q, context, kv, setup.placement.tensor_parallel)
    layers = attention_layers(run.architecture, run.costs, load)
    if not layers:
        return b.given(sum_head, 0.0), None
    if len(layers) == 1:
        whole = _attention_item(b, run, layers[0], "", sum_head.symbol)
        return whole, None if layers[0].mixer.kind == "linear" else whole
    parts = {
        f"T_core_{n}": _attention_item(b, run, layer, f".{n}", f"T_core_{n}")
        for n, layer in enumerate(layers, 1)
    }
    whole = b.add_sum(sum_head, parts)
    cached_parts = {
        name: part
        for (name, part), layer in zip(parts.items(), layers, strict=True)
        if layer.mixer.kind != "linear"
    }
    if (
        len(cached_parts) == len(parts)
        or not cached_parts
        or not reread_share(run.architecture, run.costs)
    ):
        return whole, whole if cached_parts else None
    return whole, b.add_sum(
        Head("cached", "Attention of layers with a cache", "T_cached", "s"), cached_parts
    )


def _attention_item(
    b: Builder, run: Pass, layer: Core | MeasuredAttention, suffix: str, symbol: str
) -> Quantity:
    if isinstance(layer, Core):
        return _attention_core(b, run, layer, suffix, symbol)
    mixer = layer.mixer
    quantities = {name: Quantity(float(value), "s") for name, value in layer.symbols.items()}
    title = f"Attention measured whole, {counted(mixer.count, f'{mixer.kind} layer')}"
    head = Head(f"attention{suffix}", title, symbol, "s")
    note = (
        f"{layer.module.because}. Projections, core, cache write and launches of a layer together."
    )
    return b.add(head, laws.attention_module, quantities | {"L": mixer.count}, note=note)


def _attention_core(b: Builder, run: Pass, core: Core, suffix: str, symbol: str) -> Quantity:
    mixer = core.mixer
    if mixer.kind == "linear":
        title = "Recurrent state moved, one layer"
        note = "Each state is read once, and one is written for every token, in fp32."
        reading: Values = core.read
    else:
        title = "Cache read by one layer"
        sparse = mixer.kind == "sparse"
        note = (
            "Each query chooses its own entries."
            if sparse
            else "Read once per sequence, whatever q is."
        )
        note = (
            note
            if np.max(core.read["g"]) == 1
            else "Read for each query head of a group where tokens are verified."
        )
        reading = {
            **core.read,
            "b": Quantity(core.read["b"], "B"),
            "e_idx": Quantity(core.read["e_idx"], "B"),
        }
    read_bytes = b.add(
        Head(f"cache{suffix}", title, "R", "B"),
        core.read_law,
        reading,
        note=note,
        names={"n_q": "q"},
    )
    part: Part = (
        "latent attention"
        if mixer.kind in ("mla", "sparse") and run.costs.mla is not None
        else "attention"
    )
    part = "recurrent state" if mixer.kind == "linear" and run.costs.state is not None else part
    uses = kernel_constants(run.setup, part, core.cost, run.drafting)
    head = Head(f"attention_flops{suffix}", "Operations of one layer's core", "F", "FLOP")
    operations = (
        {"R": read_bytes}
        if mixer.kind == "linear"
        else {**core.work, "a": Quantity(core.work["a"], "FLOP")}
    )
    note = (
        ""
        if mixer.kind == "linear"
        else "Query rows padded to blocks of m_0, which each KV head fills on its own."
    )
    flops = b.add(head, core.work_law, operations, note=note, names={"n_q": "q"})
    head = Head(
        f"attention{suffix}",
        f"Attention core, {counted(mixer.count, f'{mixer.kind} layer')}",
        symbol,
        "s",
    )
    return b.add(head, laws.attention_core, {**core.symbols, "R": read_bytes, "F": flops}, uses)


def _communication(b: Builder, run: Pass, uneven: Uneven | None) -> Quantity:
    d = run.architecture.hidden_size
    head = Head("message", "Message of one exchange", "X", "B")
    message = b.add(head, laws.message_bytes, {"M": run.rows, "d": d})
    messages = exchanges(
        run.architecture, run.costs, run.setup.placement, run.rows, run.shape, uneven
    )
    sum_head = Head("communication", "GPU to GPU", "T_links", "s")
    if not messages:
        return b.given(sum_head, 0.0)
    parts = {}
    for exchange in messages:
        if exchange.kind == "all-reduce":
            name = "all_reduce"
            label = "Two all-reduces"
            symbol = "T_reduce"
            layers = n_layers(run.architecture)
        else:
            name = "all_to_all"
            label = "Dispatch and combine"
            symbol = "T_exchange"
            layers = int(exchange.symbols["L"])
        title = f"{label} in each of {counted(layers, 'layer')}"
        head = (
            Head(name, title, symbol, "s") if len(messages) > 1 else sum_head._replace(title=title)
        )
        parts[symbol] = _exchange(b, run, head, exchange, message, uneven)
    return b.add_sum(sum_head, parts) if len(parts) > 1 else next(iter(parts.values()))


def _exchange(
    b: Builder, run: Pass, head: Head, exchange: Exchange, message: Quantity, uneven: Uneven | None
) -> Quantity:
    rows = Quantity(run.rows)
    if exchange.kind == "expert exchange" and uneven is not None:
        received: Values = {"M": rows, "p": float(uneven.received)}
        rows = b.add(
            Head("fullest", "Rows of the rank that receives most", "M_max"),
            laws.fullest_rows,
            received,
        )
        sizes: Values = {"M": rows, "d": run.architecture.hidden_size}
        message = b.add(
            Head("fullest_message", "Message of that rank", "X_max", "B"), laws.message_bytes, sizes
        )
    values = {**exchange.symbols, "X": message}
    if exchange.kind == "all-reduce":
        note = "Measured over computed time of a message: passes through every measured size."
        factor = Head("link_factor", "Measured message sizes", "r")
        values["r"] = _between_knots(b, factor, "X", message, exchange.cost.curve, note)
    uses = kernel_constants(run.setup, exchange.kind, exchange.cost, run.drafting)
    if exchange.kind == "expert exchange" and run.costs.network is not None:
        values |= _between_nodes(b, run, exchange, run.costs.network, (rows, message))
        uses += network_constants(run.setup, run.costs.network, run.drafting)
    return b.add(head, exchange.law, values, uses)


def _between_nodes(
    b: Builder, run: Pass, exchange: Exchange, network: Network, sent: tuple[Quantity, Quantity]
) -> dict[str, Quantity]:
    """Bytes of what a rank sends of an expert exchange, as they travel, and the share that leaves
    the node."""
    rows, message = sent
    head = Head("other_nodes", "Share of choices on other nodes", "s")
    share = b.add(
        head,
        laws.other_nodes,
        {"n": network.ranks_per_node, "R": run.setup.placement.expert_parallel},
    )
    out = message
    names = {"X_out": "X"}
    if run.architecture.dtypes.routed in EIGHT_BIT_DISPATCH:
        head = Head("dispatch", "Message to the experts, in 8 bits", "X_8", "B")
        names = {"X_out": "X_8"}
        out = b.add(head, laws.fp8_messages, {"M": rows, "d": run.architecture.hidden_size})
    ranks = {name: float(exchange.symbols[name]) for name in ("k", "tp")}
    head = Head("wire", "Bytes of one rank and direction as they travel", "X_net", "B")
    travels = b.add(head, laws.wire_bytes, {"X_out": out, "X": message, **ranks}, names=names)
    return {"s": share, "X_net": travels}


def _launches(b: Builder, run: Pass) -> Quantity:
    use = overhead_constant(run.setup, "c_l", "launch overhead of a layer", "launch_per_layer_s")
    layers = {"L": launched_layers(run.architecture, run.costs)}
    note = (
        "Half of each layer whose attention was measured with its launches."
        if run.costs.modules
        else ""
    )
    return b.add(
        Head("launch", "Kernel launches", "T_launch", "s"), laws.launches, layers, (use,), note
    )


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
