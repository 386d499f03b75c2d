"""The MoE layer: its kernels, their float64 check, and its sweep over k, tokens and touched experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.plan import Block
from advisor.profiling.routing_draw import Routing, draw_typical, mean_touched, touched
from advisor.profiling.timing import Case, Context, brief_seconds, capture, failed_row, measure, row_of, tried

TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
"""Largest accepted |out - reference| / |reference| in the 2-norm, reference in float64 from the same inputs. [1]"""


@dataclass
class MoeLayer:
    """Weights of one layer: w13 [N, 2I, H] (gate rows, then up rows), w2 [N, H, I]; shared experts likewise or None."""

    w13: torch.Tensor
    w2: torch.Tensor
    shared13: torch.Tensor | None = None
    shared2: torch.Tensor | None = None


@dataclass
class Choice:
    """Static input buffers of one layer: ids [T, k] int64 and int32 copies, gates [T, k]."""

    ids: torch.Tensor
    ids32: torch.Tensor
    gates: torch.Tensor

    def fill(self, ids: np.ndarray) -> None:
        """Take new expert ids, shape [T, k]."""
        host = torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))
        self.ids.copy_(host)
        self.ids32.copy_(self.ids)


Kernel = Callable[[torch.Tensor, MoeLayer, Choice], torch.Tensor]


def random_tensor(shape: tuple[int, ...], scale: float, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Normal values of the given scale, filled in place (no float32 copy of large weights)."""
    return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, scale)


def make_layer(
    n_experts: int, expert_width: int, hidden: int, shared_width: int, dtype: torch.dtype, device: str
) -> MoeLayer:
    """A layer with random weights of a scale that keeps activations near 1."""
    inward, outward = hidden**-0.5, expert_width**-0.5
    layer = MoeLayer(
        random_tensor((n_experts, 2 * expert_width, hidden), inward, dtype, device),
        random_tensor((n_experts, hidden, expert_width), outward, dtype, device),
    )
    if shared_width:
        layer.shared13 = random_tensor((2 * shared_width, hidden), inward, dtype, device)
        layer.shared2 = random_tensor((hidden, shared_width), shared_width**-0.5, dtype, device)
    return layer


def make_choice(n_tokens: int, n_active: int, dtype: torch.dtype, device: str) -> Choice:
    """Buffers for one layer's routing; gates are random and sum to 1 for each token."""
    ids = torch.zeros(n_tokens, n_active, dtype=torch.int64, device=device)
    gates = torch.softmax(torch.randn(n_tokens, n_active, device=device), dim=-1).to(dtype)
    return Choice(ids, ids.to(torch.int32), gates)


def swiglu(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Gated feed-forward, x [T, H] -> [T, H]."""
    gate, up = F.linear(x, w13).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, w2)


def expert_loop(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Each touched expert once, over the tokens that chose it. Needs the ids on the host: cannot be captured."""
    flat = choice.ids.flatten()
    order = torch.argsort(flat, stable=True)
    experts, counts = torch.unique_consecutive(flat[order], return_counts=True)
    tokens = order // choice.ids.shape[1]
    gates = choice.gates.flatten()[order].unsqueeze(1)
    out = torch.zeros_like(x)
    start = 0
    for expert, count in zip(experts.tolist(), counts.tolist(), strict=True):
        rows = tokens[start : start + count]
        value = swiglu(x[rows], layer.w13[expert], layer.w2[expert]) * gates[start : start + count]
        out.index_add_(0, rows, value)
        start += count
    return out


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """x [P, H] sorted by expert times weight [N, O, H] transposed; ends [N] int32: last row of each expert."""
    call = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if call is None:
        raise NotImplementedError("this torch has no grouped_mm")
    return call(x, weight.transpose(-2, -1), offs=ends)


def grouped_mm(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Sort pairs by expert on the device, two grouped products, put back in order, sum over k."""
    n_tokens, n_active = choice.ids.shape
    flat = choice.ids32.flatten()
    ranked, order = torch.sort(flat)
    experts = torch.arange(layer.w2.shape[0], dtype=torch.int32, device=x.device)
    ends = torch.searchsorted(ranked, experts, right=True, out_int32=True)
    gate, up = _grouped(x[order // n_active], layer.w13, ends).chunk(2, dim=-1)
    value = _grouped(F.silu(gate) * up, layer.w2, ends) * choice.gates.flatten()[order].unsqueeze(1)
    out = torch.empty_like(value).index_copy_(0, order, value)
    return out.view(n_tokens, n_active, -1).sum(1)


def _triton(tile_index: int) -> Kernel:
    from advisor.profiling.kernels_triton import TILES, fused_moe

    tile = TILES[tile_index]

    def call(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
        return fused_moe(x, layer.w13, layer.w2, choice.ids32, choice.gates, tile)

    return call


def _vllm() -> Kernel:
    from vllm.model_executor.layers.fused_moe import fused_experts

    def call(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
        weights = choice.gates.float()
        return fused_experts(x, layer.w13, layer.w2, weights, choice.ids32)

    return call


def available_kernels(context: Context) -> dict[str, Kernel | str]:
    """Kernels by name, or the reason why one is not to be had. Triton tiles count as kernels of their own."""
    found: dict[str, Kernel | str] = {"grouped_mm": grouped_mm, "expert_loop": expert_loop}
    if context.accelerator:
        found |= _accelerator_kernels()
    else:
        found |= {"triton_fused": "needs an accelerator", "vllm_fused": "needs an accelerator"}
    return {name: "crashed before in this sweep" if name in context.avoid else kernel for name, kernel in found.items()}


def _accelerator_kernels() -> dict[str, Kernel | str]:
    found: dict[str, Kernel | str] = {}
    try:
        from advisor.profiling.kernels_triton import TILES

        for index, tile in enumerate(TILES):
            found[f"triton_fused_n{tile[0]}_k{tile[1]}"] = _triton(index)
    except Exception as error:
        found["triton_fused"] = f"{type(error).__name__}: {error}"
    try:
        found["vllm_fused"] = _vllm()
    except Exception as error:
        found["vllm_fused"] = f"{type(error).__name__}: {error}"
    return found


def reference(x: torch.Tensor, layer: MoeLayer, choice: Choice, rows: list[int]) -> torch.Tensor:
    """The layer in float64 for some tokens, written as plainly as can be: [len(rows), H]."""
    out = torch.zeros(len(rows), x.shape[1], dtype=torch.float64, device=x.device)
    ids = choice.ids[rows].tolist()
    for expert in sorted({expert for line in ids for expert in line}):
        w13, w2 = layer.w13[expert].double(), layer.w2[expert].double()
        for position, line in enumerate(ids):
            if expert in line:
                hidden = w13 @ x[rows[position]].double()
                gate, up = hidden[: len(hidden) // 2], hidden[len(hidden) // 2 :]
                gate_weight = choice.gates[rows[position], line.index(expert)].double()
                out[position] += gate_weight * (w2 @ (gate / (1 + torch.exp(-gate)) * up))
    if layer.shared13 is not None and layer.shared2 is not None:
        gate, up = (x[rows].double() @ layer.shared13.double().T).chunk(2, dim=-1)
        out += (gate / (1 + torch.exp(-gate)) * up) @ layer.shared2.double().T
    return out


def relative_error(out: torch.Tensor, wanted: torch.Tensor) -> float:
    """|out - wanted| / |wanted|, 2-norm; NaN where anything is not finite. [1]"""
    if not bool(torch.isfinite(out).all()):
        return float("nan")
    return float((out.double() - wanted).norm() / wanted.norm())


def checked_error(out: torch.Tensor, wanted: torch.Tensor, tolerance: float, what: str = "output") -> float:
    """As `relative_error`; raises ValueError when it is above `tolerance` or not a number."""
    error = relative_error(out, wanted)
    if not error <= tolerance:
        raise ValueError(f"wrong {what}: relative error {error:.2g} over {tolerance:.0e}")
    return error


def run_layer(kernel: Kernel, x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Routed experts by `kernel` plus the shared experts, [T, H]."""
    out = kernel(x, layer, choice)
    if layer.shared13 is not None and layer.shared2 is not None:
        out = out + swiglu(x, layer.shared13, layer.shared2)
    return out


class MoeSweep:
    """One block's layers and points; builds the case of a point for a kernel."""

    def __init__(self, block: Block, context: Context) -> None:
        self.block, self.context, self.params = block, context, block.params
        params = block.params
        self.dtype = getattr(torch, params["dtype"])
        expert = 3 * params["hidden_size"] * params["expert_width"] * self.dtype.itemsize
        context.require_bytes(1.3 * params["layers"] * params["n_experts"] * expert, block.name)
        sizes = ("n_experts", "expert_width", "hidden_size", "shared_width")
        n_experts, width, hidden, shared = (params[name] for name in sizes)
        self.layers = [
            make_layer(n_experts, width, hidden, shared, self.dtype, context.torch_device)
            for _ in range(params["layers"])
        ]
        self._targets: dict[str, float] = {}

    def columns(self, point: list[Any], kernel: str) -> dict[str, Any]:
        """Identity of a result row."""
        k, batch, per_sequence, routing = point
        params = self.params
        names = ("n_experts", "expert_width", "hidden_size", "shared_width", "dtype")
        return {name: params[name] for name in names} | {
            "block": self.block.name,
            "op": "moe_layer",
            "kernel": kernel,
            "n_active": k,
            "batch_size": batch,
            "tokens_per_sequence": per_sequence,
            "n_tokens": batch * per_sequence,
            "routing": routing["name"],
            "load_cv": routing.get("load_cv", 0.0),
            "affinity": routing.get("affinity", 0.0),
            "stickiness": routing.get("stickiness", 0.0),
            "expert_pool": routing.get("expert_pool", 0),
            "n_layers": params["layers"],
            "like": params["like"],
        }

    def account(self, point: list[Any], touched_experts: float | None) -> tuple[float, float]:
        """(bytes, flops): weights of the touched and shared experts once, activations in and out of each product."""
        k, batch, per_sequence, _ = point
        tokens, params, size = batch * per_sequence, self.params, self.dtype.itemsize
        hidden, width, shared = params["hidden_size"], params["expert_width"], params["shared_width"]
        weights = 3 * hidden * (width * (touched_experts or 0.0) + shared)
        activations = tokens * k * (2 * hidden + 4 * width) + tokens * (2 * hidden + (4 * shared if shared else 0))
        return float(size * (weights + activations)), float(6.0 * tokens * hidden * (k * width + shared))

    def draw(self, point: list[Any], rng: np.random.Generator) -> np.ndarray:
        """Fresh expert ids [T, k] whose touched count is close to the point's mean."""
        k, batch, per_sequence, how = point
        routing, n = Routing(**how), self.params["n_experts"]
        key = repr(point)
        if key not in self._targets:
            self._targets[key] = mean_touched(rng, batch, per_sequence, n, k, routing)
        ids = draw_typical(rng, batch, per_sequence, n, k, routing, target=self._targets[key])
        return ids.reshape(batch * per_sequence, k)

    def case(self, point: list[Any], name: str, kernel: Kernel) -> Case:
        """The checked, warmed-up and where possible captured case; raises ValueError when the output is wrong."""
        k, batch, per_sequence, _ = point
        tokens, context = batch * per_sequence, self.context
        x = random_tensor((tokens, self.params["hidden_size"]), 1.0, self.dtype, context.torch_device)
        choices = [make_choice(tokens, k, self.dtype, context.torch_device) for _ in self.layers]
        columns = self.columns(point, name)
        columns["checked_error"] = self._check(point, kernel, x, choices[-1])
        turn = [0]

        def prepare(rng: np.random.Generator) -> float:
            if context.accelerator:  # all layers run in one graph, each with its own fresh routing
                drawn = [self.draw(point, rng) for _ in choices]
                for choice, ids in zip(choices, drawn, strict=True):
                    choice.fill(ids)
                return float(np.mean([touched(ids) for ids in drawn]))
            turn[0] = (turn[0] + 1) % len(self.layers)
            ids = self.draw(point, rng)
            choices[turn[0]].fill(ids)
            return float(touched(ids))

        def one() -> None:
            run_layer(kernel, x, self.layers[turn[0]], choices[turn[0]])

        def every() -> None:
            for layer, choice in zip(self.layers, choices, strict=True):
                run_layer(kernel, x, layer, choice)

        prepare(context.rng)
        call, mode, why = capture(every if context.accelerator else one, context, wanted=name != "expert_loop")
        columns["mode"] = mode
        divisor = len(self.layers) if context.accelerator else 1
        return Case(columns, call, prepare, divisor, account=lambda u: self.account(point, u), notes=[why])

    def _check(self, point: list[Any], kernel: Kernel, x: torch.Tensor, choice: Choice) -> float:
        """Largest relative error against float64 on fresh routing; touched experts asserted on the device."""
        ids = self.draw(point, self.context.rng)
        choice.fill(ids)
        on_device = int(torch.unique(choice.ids).numel())
        if on_device != touched(ids) or any(len(set(line)) != len(line) for line in ids.tolist()):
            raise ValueError(f"routing arrived wrong: {on_device} experts touched, {touched(ids)} drawn")
        count = min(len(ids), 12 if self.context.accelerator else 3)
        rows = sorted(self.context.rng.choice(len(ids), count, replace=False).tolist())
        out = run_layer(kernel, x, self.layers[-1], choice)
        wanted = reference(x, self.layers[-1], choice, rows)
        return checked_error(out[rows], wanted, TOLERANCE[self.params["dtype"]])


def _probes(points: list[list[Any]]) -> list[list[Any]]:
    """A small and a middle point of a block, where kernels are compared. First k of the middle of the list."""
    by_tokens = sorted(points, key=lambda point: (point[1] * point[2], point[0]))
    few = [point for point in by_tokens if point[1] * point[2] <= 64] or by_tokens
    return [few[len(few) // 4], few[-1]] if len(few) > 1 else few


def _probe_seconds(sweep: MoeSweep, probes: list[list[Any]], name: str, kernel: Kernel) -> list[float]:
    return [brief_seconds(sweep.case(point, name, kernel), sweep.context) for point in probes]


def _try_kernels(
    sweep: MoeSweep, probes: list[list[Any]], rows: list[dict[str, Any]]
) -> tuple[dict[str, float], dict[str, Kernel]]:
    """Mean log time of each working kernel at the probes; what does not work becomes a row that says why."""
    context = sweep.context
    scores: dict[str, float] = {}
    working: dict[str, Kernel] = {}
    for name, kernel in available_kernels(context).items():
        identity = {"block": sweep.block.name, "op": "moe_layer", "kernel": name, "dtype": sweep.params["dtype"]}
        if isinstance(kernel, str):
            rows.append(failed_row(identity, "unavailable", kernel))
            continue
        context.on_kernel(name)
        time_all = partial(_probe_seconds, sweep, probes, name, kernel)
        times = tried(time_all, identity, rows, context, wrong="wrong")
        if times is not None:
            scores[name], working[name] = float(np.mean(np.log(times))), kernel
    context.on_kernel("")
    return scores, working


def measure_moe(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows of a MoE block: every point with the fastest right kernel, the other kernels at the probe points."""
    rows: list[dict[str, Any]] = []
    sweep = MoeSweep(block, context)
    points = block.params["points"]
    probes = _probes(points)
    scores, working = _try_kernels(sweep, probes, rows)
    if not working:
        raise RuntimeError("no kernel gave a right result: " + "; ".join(str(row["notes"]) for row in rows))
    best = min(scores, key=lambda name: scores[name])
    cases: list[Case] = []
    wanted = [(point, best) for point in points]
    wanted += [(point, name) for name in working if name != best for point in probes]
    for point, name in wanted:
        case = tried(partial(sweep.case, point, name, working[name]), sweep.columns(point, name), rows, context)
        if case is not None:
            cases.append(case)
    for case in cases:
        if case.columns["kernel"] == best:
            case.notes.append("fastest at the probe sizes")
    measure(cases, context)
    return [row_of(case, context) for case in cases] + rows
