"""The MoE layer: its kernels in bf16 and fp8 (e4m3), the alignment before their products, the
float64 check.

Tokens and the experts' inner values are rounded to fp8 on the fly, one float32 scale a row, as an
engine with dynamic scales does; that is part of the time. Where this torch or this device has no
such product, a row says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.timing import Context

TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2, "float8_e4m3fn": 4e-2}
"""Largest accepted |out - reference| / |reference| in the 2-norm, reference in float64 from the
same inputs. [-]

fp8: the reference rounds where the kernel does, but from float64 values. The kernel's bf16 values
(2^-9) fall on the other side of a rounding boundary of e4m3 (2^-3 apart) in about 2^-6 of the
places, each then off by 2^-3: sqrt(2^-6) x 2^-3 = 1.6 %, and bf16's own share is added.
"""


@dataclass
class MoeLayer:
    """Weights of one layer: w13 [N, 2I, H] (gate rows, then up rows), w2 [N, H, I]. Shared experts
    likewise or None.

    scale13 [N, 2I], scale2 [N, H]: float32 scale of each output row where the experts' weights are
    fp8, else None.
    """

    w13: torch.Tensor
    w2: torch.Tensor
    shared13: torch.Tensor | None = None
    shared2: torch.Tensor | None = None
    scale13: torch.Tensor | None = None
    scale2: torch.Tensor | None = None


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


def random_tensor(
    shape: tuple[int, ...], scale: float, dtype: torch.dtype, device: str
) -> torch.Tensor:
    """Normal values of the given scale, filled in place (no float32 copy of large weights)."""
    return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, scale)


def make_layer(
    n_experts: int,
    expert_width: int,
    hidden: int,
    shared_width: int,
    dtype: torch.dtype,
    device: str,
) -> MoeLayer:
    """A layer with random weights that keep activations near 1. An fp8 layer has its shared experts
    in bf16."""
    inward = hidden**-0.5
    outward = expert_width**-0.5
    if dtype == torch.float8_e4m3fn:
        w13, scale13 = quantise_experts((n_experts, 2 * expert_width, hidden), inward, device)
        w2, scale2 = quantise_experts((n_experts, hidden, expert_width), outward, device)
        layer = MoeLayer(w13, w2, scale13=scale13, scale2=scale2)
        dtype = torch.bfloat16
    else:
        layer = MoeLayer(
            random_tensor((n_experts, 2 * expert_width, hidden), inward, dtype, device),
            random_tensor((n_experts, hidden, expert_width), outward, dtype, device),
        )
    if shared_width:
        layer.shared13 = random_tensor((2 * shared_width, hidden), inward, dtype, device)
        layer.shared2 = random_tensor((hidden, shared_width), shared_width**-0.5, dtype, device)
    return layer


def make_choice(n_tokens: int, n_active: int, dtype: torch.dtype, device: str) -> Choice:
    """Buffers for one layer's routing. Gates are random and sum to 1 for each token."""
    ids = torch.zeros(n_tokens, n_active, dtype=torch.int64, device=device)
    gates = torch.softmax(torch.randn(n_tokens, n_active, device=device), dim=-1).to(dtype)
    return Choice(ids, ids.to(torch.int32), gates)


def swiglu(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Gated feed-forward, x [T, H] -> [T, H]."""
    gate, up = F.linear(x, w13).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, w2)


def _each_expert(
    x: torch.Tensor, choice: Choice, products: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Each touched expert once, over the tokens that chose it. Needs the ids on the host: cannot be
    captured."""
    flat = choice.ids.flatten()
    order = torch.argsort(flat, stable=True)
    experts, counts = torch.unique_consecutive(flat[order], return_counts=True)
    tokens = order // choice.ids.shape[1]
    gates = choice.gates.flatten()[order].unsqueeze(1)
    out = torch.zeros_like(x)
    start = 0
    for expert, count in zip(experts.tolist(), counts.tolist(), strict=True):
        rows = tokens[start : start + count]
        out.index_add_(0, rows, products(x[rows], expert) * gates[start : start + count])
        start += count
    return out


def expert_loop(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Experts in a loop, by plain products."""
    return _each_expert(
        x, choice, lambda rows, expert: swiglu(rows, layer.w13[expert], layer.w2[expert])
    )


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """x [P, H] sorted by expert times weight [N, O, H] transposed. `ends` [N] int32: last row of
    each expert."""
    call = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if call is None:
        raise NotImplementedError("this torch has no grouped_mm")
    return call(x, weight.transpose(-2, -1), offs=ends)


def sorted_pairs(layer: MoeLayer, choice: Choice) -> tuple[torch.Tensor, torch.Tensor]:
    """Token-expert pairs [T k] by expert, with the end of each expert's part [N] int32, on the
    device."""
    ranked, order = torch.sort(choice.ids32.flatten())
    experts = torch.arange(layer.w2.shape[0], dtype=torch.int32, device=ranked.device)
    return order, torch.searchsorted(ranked, experts, right=True, out_int32=True)


def _summed(values: torch.Tensor, order: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Values of pairs in order of their expert, weighted, put back in order and summed over k: [T,
    H]."""
    value = values * choice.gates.flatten()[order].unsqueeze(1)
    return torch.empty_like(value).index_copy_(0, order, value).view(*choice.ids.shape, -1).sum(1)


def grouped_mm(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Sort pairs by expert on the device, two grouped products, sum over k."""
    order, ends = sorted_pairs(layer, choice)
    gate, up = _grouped(x[order // choice.ids.shape[1]], layer.w13, ends).chunk(2, dim=-1)
    return _summed(_grouped(F.silu(gate) * up, layer.w2, ends), order, choice)


def reference(x: torch.Tensor, layer: MoeLayer, choice: Choice, rows: list[int]) -> torch.Tensor:
    """The layer in float64 for some tokens, as plainly as can be: [len(rows), H]. fp8 is rounded as
    in a kernel."""
    out = torch.zeros(len(rows), x.shape[1], dtype=torch.float64, device=x.device)
    ids = choice.ids[rows].tolist()
    fp8 = layer.scale13 is not None
    for expert in sorted({expert for line in ids for expert in line}):
        w13 = dequantised(
            layer.w13[expert], None if layer.scale13 is None else layer.scale13[expert]
        )
        w2 = dequantised(layer.w2[expert], None if layer.scale2 is None else layer.scale2[expert])
        for position, line in enumerate(ids):
            if expert in line:
                token = x[rows[position]]
                hidden = w13 @ (dequantised(*fp8_rows(token)) if fp8 else token.double())
                gate = hidden[: len(hidden) // 2]
                up = hidden[len(hidden) // 2 :]
                value = gate / (1 + torch.exp(-gate)) * up
                gate_weight = choice.gates[rows[position], line.index(expert)].double()
                out[position] += gate_weight * (
                    w2 @ (dequantised(*fp8_rows(value)) if fp8 else value)
                )
    if layer.shared13 is not None and layer.shared2 is not None:
        gate, up = (x[rows].double() @ layer.shared13.double().T).chunk(2, dim=-1)
        out += (gate / (1 + torch.exp(-gate)) * up) @ layer.shared2.double().T
    return out


def relative_error(out: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative error |out - wanted| / |wanted|, 2-norm. NaN where anything is not finite. [-]"""
    if not bool(torch.isfinite(out).all()):
        return float("nan")
    return float((out.double() - wanted).norm() / wanted.norm())


def checked_error(
    out: torch.Tensor, wanted: torch.Tensor, tolerance: float, what: str = "output"
) -> float:
    """Relative error of an output. Raises ValueError above `tolerance`, or where it is not a
    number."""
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


E4M3_MAX = 448.0
"""Largest e4m3 number (OCP 8-bit floating point, 2023). [-]"""


def fp8_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers in e4m3 of x's shape, and each row's float32 scale. A row's largest becomes the
    format's."""
    scale = x.abs().amax(dim=-1).float().clamp_min(1e-12) / E4M3_MAX
    return (x.float() / scale[..., None]).to(torch.float8_e4m3fn), scale


def dequantised(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """Product of x and the scale of its rows, in float64. `x` itself where there is no scale."""
    wide = x.float().double() if x.dtype == torch.float8_e4m3fn else x.double()
    return wide if scale is None else wide * scale.double()[..., None]


def quantise_experts(
    shape: tuple[int, int, int], spread: float, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random weights [N, out, in] in e4m3 with their scales [N, out]. Made expert by expert to need
    little memory."""
    weights = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
    scales = torch.empty(shape[:2], dtype=torch.float32, device=device)
    for weight, scale in zip(weights, scales, strict=True):
        numbers, of_rows = fp8_rows(
            torch.empty(shape[1:], dtype=torch.bfloat16, device=device).normal_(0.0, spread)
        )
        weight.copy_(numbers)
        scale.copy_(of_rows)
    return weights, scales


ROWS = 16
"""Rows of a product on an accelerator come in multiples of this (torch._scaled_mm on CUDA). [-]"""
NOT_BUILT = (
    "Could not run",
    "only supported",
    "not supported",
    "not compiled",
    "compute capability",
)
"""Words with which torch refuses a product that it does not have for a device."""


def scaled_grouped_mm(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Sort pairs by expert, two grouped fp8 products, sum over k. Capturable in a graph."""
    order, ends = sorted_pairs(layer, choice)
    numbers, scale = fp8_rows(x)
    token = order // choice.ids.shape[1]
    rows = numbers.view(torch.uint8)[token].view(
        numbers.dtype
    )  # float8 cannot be gathered everywhere
    gate, up = _grouped_fp8(rows, layer.w13, scale[token], layer.scale13, ends).chunk(2, dim=-1)
    value, scale = fp8_rows(F.silu(gate) * up)
    return _summed(_grouped_fp8(value, layer.w2, scale, layer.scale2, ends), order, choice)


def _grouped_fp8(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    weight_scale: torch.Tensor | None,
    ends: torch.Tensor,
) -> torch.Tensor:
    """x [P, H] sorted by expert times weight [N, O, H] transposed, bf16 out. A scale for each row
    of both."""
    call = getattr(torch, "_scaled_grouped_mm", None)
    if call is None:
        raise NotImplementedError("this torch has no _scaled_grouped_mm")
    columns = weight.transpose(-2, -1)
    try:
        out: torch.Tensor = call(
            x, columns, scale, weight_scale, offs=ends, out_dtype=torch.bfloat16
        )
    except (NotImplementedError, RuntimeError) as error:
        if any(word in str(error) for word in NOT_BUILT):
            first = str(error).splitlines()[0].split(". ")[0]
            raise NotImplementedError(
                f"torch has no grouped fp8 product for this device: {first}"
            ) from error
        raise
    return out


def scaled_mm_loop(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Experts in a loop, by fp8 products."""

    def products(rows: torch.Tensor, expert: int) -> torch.Tensor:
        gate, up = _product(rows, layer.w13[expert], layer.scale13, expert).chunk(2, dim=-1)
        return _product(F.silu(gate) * up, layer.w2[expert], layer.scale2, expert)

    return _each_expert(x, choice, products)


def _product(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor | None, expert: int
) -> torch.Tensor:
    """x [M, H] rounded to fp8 times weight [O, H] transposed: [M, O] in bf16."""
    if scales is None or not hasattr(torch, "_scaled_mm"):
        raise NotImplementedError("this torch has no _scaled_mm, or the layer has no scales")
    count = len(x)
    if x.device.type != "cpu" and count % ROWS:
        x = F.pad(x, (0, 0, 0, ROWS - count % ROWS))
    numbers, scale = fp8_rows(x)
    columns = scales[expert][None, :]
    out = torch._scaled_mm(
        numbers, weight.t(), scale_a=scale[:, None], scale_b=columns, out_dtype=torch.bfloat16
    )
    return (out[0] if isinstance(out, tuple) else out)[:count]


def _triton(tile: tuple[int, int, int, int]) -> Kernel:
    from advisor.profiling.kernels_triton import fused_moe

    return lambda x, layer, choice: fused_moe(
        x, layer.w13, layer.w2, choice.ids32, choice.gates, tile
    )


def available_kernels(context: Context, dtype: str = "bfloat16") -> dict[str, Kernel | str]:
    """Kernels by name, or the reason why one is not to be had. Triton tiles count as kernels of
    their own."""
    kernels: dict[str, Kernel | str] = {"grouped_mm": grouped_mm, "expert_loop": expert_loop}
    if dtype == "float8_e4m3fn":
        kernels = {"scaled_grouped_mm": scaled_grouped_mm, "scaled_mm_loop": scaled_mm_loop}
    elif context.accelerator:
        kernels |= _accelerator_kernels()
    else:
        kernels |= dict.fromkeys(("triton_fused", "vllm_fused"), "needs an accelerator")
    return {name: context.avoid.get(name, kernel) for name, kernel in kernels.items()}


Alignment = Callable[[MoeLayer, Choice], tuple[torch.Tensor, torch.Tensor]]
"""What a kernel does before its products: (pairs by expert [T k], end of each expert's part
[N])."""


def alignment_of(kernel: str) -> Alignment | None:
    """The alignment of a kernel, None where it has none of its own that could be run apart."""
    if kernel.startswith("triton_fused"):
        from advisor.profiling.kernels_triton import align

        return lambda layer, choice: align(choice.ids32, layer.w2.shape[0])[:2]
    return sorted_pairs if kernel in ("grouped_mm", "scaled_grouped_mm") else None


def _accelerator_kernels() -> dict[str, Kernel | str]:
    kernels: dict[str, Kernel | str] = {}
    try:
        from advisor.profiling.kernels_triton import TILES

        kernels |= {f"triton_fused_n{tile[0]}_k{tile[1]}": _triton(tile) for tile in TILES}
    except Exception as error:
        kernels["triton_fused"] = f"{type(error).__name__}: {error}"
    try:
        from vllm.model_executor.layers.fused_moe import fused_experts

        kernels["vllm_fused"] = lambda x, layer, choice: fused_experts(
            x, layer.w13, layer.w2, choice.gates.float(), choice.ids32
        )
    except Exception as error:
        kernels["vllm_fused"] = f"{type(error).__name__}: {error}"
    return kernels
