"""The steps of one forward pass: the same forms as `step_cost`, term by term, with their numbers."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.architecture import BYTES_PER_WEIGHT, Architecture, Mixer, WeightDtype, effective_n_active
from advisor.explain.constants import (
    ConstantUse,
    Part,
    gemm_constants,
    moe_constants,
    overhead_constant,
    stream_constants,
)
from advisor.explain.step import Builder, Quantity, Values
from advisor.kernel_costs import GemmCost, KernelCosts, stream_cost
from advisor.prediction import Tier
from advisor.setup import Setup
from advisor.step_cost import PROJECTION_GEMMS, MoeShape, expert_shape
from advisor.text import counted


@dataclass(frozen=True)
class Pass:
    """What is run: B sequences x q tokens of one architecture with its own kernel costs."""

    setup: Setup
    architecture: Architecture
    batch: float
    q: float
    touched: float | None
    """U where it is known from elsewhere (drafting); None: computed from B and q."""
    drafting: bool = False

    @property
    def costs(self) -> KernelCosts:
        """Kernel costs of this pass."""
        return self.setup.draft_costs if self.drafting else self.setup.costs

    @property
    def group_batch(self) -> float:
        """Sequences of one attention group. [1]"""
        return self.batch / self.setup.placement.attention_groups

    @property
    def rows(self) -> float:
        """Rows of a matrix product on one rank. [1]"""
        return self.group_batch * self.q


def add_pass(b: Builder, run: Pass, total_symbol: str, total_title: str) -> Quantity:
    """All components of a pass, then their sum. Host and launches are left out while drafting: charged per pass."""
    parts: dict[str, Quantity] = {}
    if run.architecture.moe is not None:
        parts["T_routed"] = _routed(b, run)
        parts["T_router"] = _router(b, run)
        if run.architecture.moe.shared_width:
            parts["T_shared"] = _shared(b, run)
    parts["T_projections"] = _projections(b, run)
    parts["T_attention"] = _attention(b, run)
    if run.architecture.dense:
        parts["T_dense"] = _dense(b, run)
    if run.setup.placement.gpus > 1:
        parts["T_links"] = _communication(b, run)
    parts["T_head"] = _head(b, run)
    if not run.drafting:
        parts["T_launch"] = _launches(b, run)
        host = ConstantUse("T_host", "host time of a step", run.costs.host_per_step_s, "s", "assumed", "docs/model.md")
        parts["T_host"] = b.given("host", "Host", "T_host", Quantity(host.value, "s"), (host,))
    return b.add("total", total_title, total_symbol, "s", " + ".join(parts), parts)


def _routed(b: Builder, run: Pass) -> Quantity:
    moe, placement = run.architecture.moe, run.setup.placement
    assert moe is not None
    cost, active, ranks = run.costs.routed, effective_n_active(moe), placement.expert_parallel
    uses = moe_constants(run.setup, cost, run.drafting)
    b.add("tokens", "Tokens in the step", "M", "1", "B * q", {"B": run.batch, "q": run.q})
    touched = _touched(b, run, active)
    local = touched
    if ranks > 1:
        local = b.add("local", "Distinct experts on the slowest rank", "U_rank", "1", "slowest_rank(U, N, ep)",
                      {"U": touched, "N": float(moe.n_experts), "ep": float(ranks)})  # fmt: skip
    tokens = run.batch * run.q
    shape: Values = {
        "h": moe.expert_input_width, "I": moe.expert_width / placement.expert_tensor_parallel, "n_mat": moe.matrices,
    }  # fmt: skip
    m = b.add("rows", "Rows of each touched expert", "m", "1", "M * k / U", {"M": tokens, "k": active, "U": touched})
    bytes_each = BYTES_PER_WEIGHT[run.architecture.dtypes.routed]
    weights = b.add(
        "weights", f"Expert weights read, {run.architecture.dtypes.routed}", "W", "B", "U * n_mat * h * I * b",
        {**shape, "U": local, "b": Quantity(bytes_each, "B")},
    )  # fmt: skip
    flops = b.add(
        "flops", "Operations, padded to tiles of 16 rows", "F", "FLOP", "2 * n_mat * h * I * U * max(16, m + 7.5)",
        {**shape, "U": local, "m": m},
    )  # fmt: skip
    activations = b.add(
        "activations", "16-bit activations moved", "A", "B",
        f"M * k{' / ep' if ranks > 1 else ''} * (4 * h + 2 * n_mat * I) + 4 * M * h",
        {**shape, "M": tokens, "k": active, **({"ep": float(ranks)} if ranks > 1 else {})},
    )  # fmt: skip
    factor = _correction(b, run, m)
    symbol = "r" if b.steps[-1].symbol == "r" else "c"
    terms = {
        "t0": "t0", "BW": "W / BW", "tau": "U * tau", "F_peak": "F / F_peak", "BW_act": "A / BW_act",
        "tau_N": "N / ep * tau_N" if ranks > 1 else "N * tau_N",
    }  # fmt: skip
    used = " + ".join(term for name, term in terms.items() if name in uses)
    values: Values = {
        symbol: factor, "L": moe.count, "W": weights, "U": local, "F": flops, "A": activations,
        "N": float(moe.n_experts), "ep": float(ranks),
    }  # fmt: skip
    expression = f"L * {symbol} * ({used})" if factor.value != 1.0 else f"L * ({used})"
    return b.add(
        "routed", f"Routed experts, {counted(moe.count, 'layer')}", "T_routed", "s", expression,
        _needed(expression, values),
        tuple(uses.values()), note=cost.because,
    )  # fmt: skip


def _touched(b: Builder, run: Pass, active: float) -> Quantity:
    moe, setup = run.architecture.moe, run.setup
    assert moe is not None
    if run.touched is not None:
        note = "As in the plain step: each sequence drafts one token at a time."
        return b.given("experts", "Distinct experts touched", "U", Quantity(run.touched), note=note)
    experts, k = float(moe.n_experts), max(active, 1.0)
    values: Values = {"B": run.batch, "q": run.q, "N": experts, "k": k}
    preset, constants = setup.routing, tuple[ConstantUse, ...]()
    if preset is None:
        expression, note = "N * (1 - (1 - k / N) ** (B * q))", f"{setup.routing_because}."
    else:
        cv, phi, rho = setup.routing_parameters()
        found = (
            ("CV", "spread of the experts' load", min(cv, math.sqrt(experts / k - 1.0)), preset.load_cv),
            ("phi", "affinity of a sequence", phi, preset.affinity),
            ("rho", "stickiness", rho, preset.stickiness),
        )
        constants = tuple(
            ConstantUse(symbol, name, value, "1", origin.kind, origin.source) for symbol, name, value, origin in found
        )
        expression = "experts(B, q, N, k, CV, phi, rho)"
        note = "Sum over experts of 1 - P(untouched)^B with correlated choices: docs/model.md, routing."
    return b.add("experts", "Distinct experts touched", "U", "1", expression, values, constants, note)


def _correction(b: Builder, run: Pass, m: Quantity) -> Quantity:
    """What the sum of terms is multiplied by: measured rows of this very shape, else the form's own curve."""
    cost, shape = run.costs.routed, MoeShape.of(run.architecture)
    layer = cost.measured
    if layer is not None and shape is not None and expert_shape(shape, run.setup.placement) == layer.shape:
        tokens = Quantity(run.batch * run.q)
        tier = list(Tier)[int(layer.tier_rank(tokens.value))]
        note = f"Measured over computed time of this very expert shape at M tokens; {tier} here."
        return _between_knots(b, "factor", "Measured rows of this shape", "r", "M", tokens, layer.knots, note)
    note = "Tile switches of the kernel: interpolated in the logarithms between knots of the fit."
    return _between_knots(b, "factor", "Correction of the kernel's form", "c", "m", m, cost.curve, note)


def _between_knots(
    b: Builder, id: str, title: str, symbol: str, x_symbol: str, x: Quantity, curve: Sequence[tuple[float, float]],
    note: str,
) -> Quantity:  # fmt: skip
    """A factor read off a curve: between two knots a power of x, beyond the outer ones constant; 1 without knots."""
    if not curve:
        return Quantity(1.0)
    knots = sorted(curve)
    if x.value <= knots[0][0] or x.value >= knots[-1][0]:
        edge = knots[0] if x.value <= knots[0][0] else knots[-1]
        return b.given(id, title, symbol, Quantity(edge[1]), note=note)
    right = next(number for number, knot in enumerate(knots) if knot[0] >= x.value)
    (x1, c1), (x2, c2) = knots[right - 1], knots[right]
    names = {"x": x_symbol, "x1": f"{x_symbol}_1", "x2": f"{x_symbol}_2", "c1": f"{symbol}_1", "c2": f"{symbol}_2"}
    values: Values = {
        names["x"]: x, names["x1"]: Quantity(x1, x.unit), names["x2"]: Quantity(x2, x.unit), names["c1"]: c1,
        names["c2"]: c2,
    }  # fmt: skip
    expression = "{c1} * ({c2} / {c1}) ** (log({x} / {x1}) / log({x2} / {x1}))".format(**names)
    return b.add(id, title, symbol, "1", expression, values, note=note)


def _gemm(
    b: Builder, run: Pass, id: str, title: str, symbol: str, cost: GemmCost, weights: float, dtype: WeightDtype,
    launches: int, count: int,
) -> Quantity:  # fmt: skip
    uses = gemm_constants(run.setup, cost, run.drafting)
    inner = "norm(W * b / BW, 2 * M * W / F_peak, p)"
    expression = f"L * ({'n * ' if launches != 1 else ''}t0 + {inner})"
    values: Values = {
        "L": count, "n": launches, "W": weights, "M": run.rows, "b": Quantity(BYTES_PER_WEIGHT[dtype], "B"),
    }  # fmt: skip
    return b.add(id, title, symbol, "s", expression, _needed(expression, values), tuple(uses.values()),
                 note=f"W weights in {dtype}, M rows.")  # fmt: skip


def _router(b: Builder, run: Pass) -> Quantity:
    moe = run.architecture.moe
    assert moe is not None
    weights = float(moe.n_experts * run.architecture.hidden_size)
    title = f"Router, {counted(moe.count, 'layer')}"
    return _gemm(b, run, "router", title, "T_router", run.costs.attention_projection, weights,
                 "bf16", 1, moe.count)  # fmt: skip


def _shared(b: Builder, run: Pass) -> Quantity:
    moe = run.architecture.moe
    assert moe is not None
    weights = moe.matrices * run.architecture.hidden_size * moe.shared_width / run.setup.placement.tensor_parallel
    title = f"Shared experts, {counted(moe.count, 'layer')}"
    return _gemm(b, run, "shared", title, "T_shared", run.costs.shared, weights,
                 run.architecture.dtypes.shared, 2, moe.count)  # fmt: skip


def _projections(b: Builder, run: Pass) -> Quantity:
    parts: dict[str, Quantity] = {}
    several = len(run.architecture.mixers) > 1
    for number, mixer in enumerate(run.architecture.mixers, 1):
        tp = run.setup.placement.tensor_parallel
        weights = (mixer.projection_params - mixer.replicated_params) / tp + mixer.replicated_params
        name = f"attention_projection.{number}" if several else "attention_projection"
        parts[f"T_proj_{number}"] = _gemm(
            b, run, name, f"Attention weights, {counted(mixer.count, f'{mixer.kind} layer')}",
            f"T_proj_{number}" if several else "T_projections", run.costs.attention_projection, weights,
            run.architecture.dtypes.attention, PROJECTION_GEMMS[mixer.kind], mixer.count,
        )  # fmt: skip
    return _summed(b, "attention_projection", "Attention weights", "T_projections", parts)


def _summed(b: Builder, id: str, title: str, symbol: str, parts: dict[str, Quantity]) -> Quantity:
    """The sum of several parts; a single one is its own sum."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    return b.add(id, title, symbol, "s", " + ".join(parts), parts)


def _attention(b: Builder, run: Pass) -> Quantity:
    parts: dict[str, Quantity] = {}
    cores = [mixer for mixer in run.architecture.mixers if mixer.kind != "none"]
    for number, mixer in enumerate(cores, 1):
        suffix = f".{number}" if len(cores) > 1 else ""
        parts[f"T_core_{number}"] = _attention_core(b, run, mixer, suffix)
    if not parts:
        return b.given("attention", "Attention core", "T_attention", Quantity(0.0, "s"))
    return _summed(b, "attention", "Attention core", "T_attention", parts)


def _attention_core(b: Builder, run: Pass, mixer: Mixer, suffix: str) -> Quantity:
    costs, tp = run.costs, run.setup.placement.tensor_parallel
    latent = costs.mla if mixer.kind in ("mla", "sparse") else None
    part: Part = "attention" if latent is None else "latent attention"
    uses = stream_constants(run.setup, part, latent or costs.attention, run.drafting)
    read = _linear_read(b, run, mixer, suffix) if mixer.kind == "linear" else _cache_read(b, run, mixer, suffix)
    values: Values = {"R": read, "L": mixer.count}
    inner, note = "R / BW", ""
    if math.isfinite(costs.attention_flops_per_s):
        flops = _attention_flops(run, mixer, read, tp)
        values = {**values, "F": flops, "F_attn": Quantity(costs.attention_flops_per_s, "FLOP/s")}
        inner, note = "norm(R / BW, F / F_attn, 2)", "F operations of one layer."
    symbol = f"T_core_{suffix[1:]}" if suffix else "T_attention"
    title = f"Attention core, {counted(mixer.count, f'{mixer.kind} layer')}"
    return b.add(f"attention{suffix}", title, symbol, "s", f"L * (t0 + {inner})", values, tuple(uses.values()), note)


def _attention_flops(run: Pass, mixer: Mixer, read: Quantity, tp: int) -> Quantity:
    if mixer.kind == "linear":
        return Quantity(read.value / 2.0, "FLOP")
    stored = (run.setup.scenario.context_tokens + run.q) / mixer.compression
    visible = min(stored, mixer.window_tokens or math.inf)
    return Quantity(run.rows * visible * mixer.attend_flops_per_query_key / tp, "FLOP")


def _linear_read(b: Builder, run: Pass, mixer: Mixer, suffix: str) -> Quantity:
    values = {"B": run.group_batch, "S": mixer.state_elements, "q": run.q, "tp": run.setup.placement.tensor_parallel}
    note = "Each state is read once, and one is written for every token, in fp32."
    title = "Recurrent state moved, one layer"
    return b.add(f"cache{suffix}", title, "R", "B", "B * S * 4 * (1 + q) / tp", values, note=note)


def _cache_read(b: Builder, run: Pass, mixer: Mixer, suffix: str) -> Quantity:
    """Bytes of cache that one layer reads on one rank; pieces that a kind does not have are left out."""
    squeezed = mixer.compression != 1.0
    stored = "(c + q) / r" if squeezed else "(c + q)"
    entries = stored
    if mixer.window_tokens is not None and mixer.kind == "sparse":
        entries = f"min(min({stored}, w) * q, {stored})"
    elif mixer.kind == "sparse":
        entries = f"min({stored} * q, {stored})"
    elif mixer.window_tokens is not None:
        entries = f"min({stored}, w)"
    if mixer.local_window_tokens:
        entries = f"({entries} + min(c + q, w_local))"
    shards = min(run.setup.placement.tensor_parallel, mixer.kv_shards)
    expression = f"{entries} * e * b{' / s' if shards > 1 else ''}"
    index = mixer.index_elements_per_token
    expression = f"B * ({expression} + {stored} * e_index)" if index else f"B * {expression}"
    values: Values = {
        "B": run.group_batch, "c": float(run.setup.scenario.context_tokens), "q": run.q, "r": mixer.compression,
        "w": float(mixer.window_tokens or 0), "w_local": float(mixer.local_window_tokens),
        "e": mixer.kv_elements_per_token, "b": Quantity(run.setup.kv_bytes_per_element, "B"), "s": shards,
        "e_index": Quantity(mixer.index_elements_per_token, "B"),
    }  # fmt: skip
    note = "Read once per sequence, whatever q is." if mixer.kind != "sparse" else "Each query chooses its own entries."
    title = "Cache read by one layer"
    return b.add(f"cache{suffix}", title, "R", "B", expression, _needed(expression, values), note=note)


def _dense(b: Builder, run: Pass) -> Quantity:
    parts: dict[str, Quantity] = {}
    several = len(run.architecture.dense) > 1
    for number, block in enumerate(run.architecture.dense, 1):
        weights = block.matrices * run.architecture.hidden_size * block.width / run.setup.placement.tensor_parallel
        parts[f"T_block_{number}"] = _gemm(
            b, run, f"dense.{number}" if several else "dense", f"Dense FFN, {counted(block.count, 'layer')}",
            f"T_block_{number}" if several else "T_dense", run.costs.dense, weights, run.architecture.dtypes.dense, 2,
            block.count,
        )  # fmt: skip
    return _summed(b, "dense", "Dense FFN", "T_dense", parts)


def _head(b: Builder, run: Pass) -> Quantity:
    weights = run.architecture.vocab_size * run.architecture.hidden_size / run.setup.placement.tensor_parallel
    dtype = run.architecture.dtypes.embedding
    return _gemm(b, run, "lm_head", "LM head", "T_head", run.costs.lm_head, weights, dtype, 1, 1)


def _communication(b: Builder, run: Pass) -> Quantity:
    placement, costs, moe = run.setup.placement, run.costs, run.architecture.moe
    layers = sum(mixer.count for mixer in run.architecture.mixers)
    message = b.add("message", "Message of one exchange", "X", "B", "M * d * 2",
                    {"M": run.rows, "d": run.architecture.hidden_size})  # fmt: skip
    parts: dict[str, Quantity] = {}
    reduce = stream_cost(costs.all_reduce, placement.tensor_parallel)
    both = moe is not None and placement.attention_groups > 1
    if reduce is not None:
        uses = tuple(stream_constants(run.setup, "all-reduce", reduce, run.drafting).values())
        note = "Measured over computed time of a message: passes through every measured size."
        factor = _between_knots(b, "link_factor", "Measured message sizes", "r", "X", message, reduce.curve, note)
        expression = "2 * L * r * (t0 + X / BW)" if reduce.curve else "2 * L * (t0 + X / BW)"
        values: Values = {"L": layers, "X": message, "r": factor}
        parts["T_reduce"] = b.add(
            "all_reduce" if both else "communication", f"Two all-reduces in each of {counted(layers, 'layer')}",
            "T_reduce" if both else "T_links", "s", expression, _needed(expression, values), uses,
        )  # fmt: skip
    exchange = stream_cost(costs.all_to_all, placement.expert_parallel)
    if moe is not None and both and exchange is not None:
        uses = tuple(stream_constants(run.setup, "expert exchange", exchange, run.drafting).values())
        values = {"L": moe.count, "X": message, "k": effective_n_active(moe), "tp": placement.tensor_parallel}
        alone = not parts
        parts["T_exchange"] = b.add(
            "communication" if alone else "all_to_all",
            f"Dispatch and combine in each of {counted(moe.count, 'layer')}",
            "T_links" if alone else "T_exchange", "s", "2 * L * (t0 + X / tp * k / BW)", values, uses,
        )  # fmt: skip
    if not parts:
        return b.given("communication", "GPU to GPU", "T_links", Quantity(0.0, "s"))
    return _summed(b, "communication", "GPU to GPU", "T_links", parts)


def _launches(b: Builder, run: Pass) -> Quantity:
    layers = sum(mixer.count for mixer in run.architecture.mixers)
    use = overhead_constant(run.setup, "c_l", "launch overhead of a layer", "launch_per_layer_s")
    return b.add("launch", "Kernel launches", "T_launch", "s", "c_l * L", {"L": layers}, (use,))


def _needed(expression: str, values: Values) -> Values:
    """Only the values that the expression names."""
    names = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
    return {name: value for name, value in values.items() if name in names}
