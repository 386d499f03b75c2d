"""fp8 products of the experts, with the two operations torch ships: weights and tokens in e4m3, a scale for each row.

Tokens and the experts' inner values are rounded on the fly, as an engine with dynamic scales does; that is part of the
time. Raises NotImplementedError where this torch or this device has no such product; a row then says so.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from advisor.profiling.kernels_fp8 import fp8_rows
from advisor.profiling.kernels_moe import Choice, Kernel, MoeLayer, sorted_pairs

ROWS = 16
"""Rows of a product on an accelerator come in multiples of this (torch._scaled_mm on CUDA). [-]"""

NOT_BUILT = ("Could not run", "only supported", "not supported", "not compiled", "compute capability")
"""Words with which torch refuses a product that it does not have for a device."""


def scaled_grouped_mm(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Sort pairs by expert, two grouped fp8 products, put back in order, sum over k. Capturable in a graph."""
    n_tokens, n_active = choice.ids.shape
    order, ends = sorted_pairs(layer, choice)
    numbers, scale = fp8_rows(x)
    token = order // n_active
    rows = numbers.view(torch.uint8)[token].view(numbers.dtype)  # float8 cannot be gathered everywhere
    gate, up = _grouped(rows, layer.w13, scale[token], layer.scale13, ends).chunk(2, dim=-1)
    value, scale = fp8_rows(F.silu(gate) * up)
    out = _grouped(value, layer.w2, scale, layer.scale2, ends) * choice.gates.flatten()[order].unsqueeze(1)
    out = torch.empty_like(out).index_copy_(0, order, out)
    return out.view(n_tokens, n_active, -1).sum(1)


def _grouped(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, weight_scale: torch.Tensor | None, ends: torch.Tensor
) -> torch.Tensor:
    """x [P, H] sorted by expert times weight [N, O, H] transposed, bf16 out. A scale for each row of both."""
    call = getattr(torch, "_scaled_grouped_mm", None)
    if call is None:
        raise NotImplementedError("this torch has no _scaled_grouped_mm")
    columns = weight.transpose(-2, -1)
    try:
        out: torch.Tensor = call(x, columns, scale, weight_scale, offs=ends, out_dtype=torch.bfloat16)
    except (NotImplementedError, RuntimeError) as error:
        if any(word in str(error) for word in NOT_BUILT):
            first = str(error).splitlines()[0].split(". ")[0]
            raise NotImplementedError(f"torch has no grouped fp8 product for this device: {first}") from error
        raise
    return out


def scaled_mm_loop(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """Each touched expert once, in fp8. Needs the ids on the host: cannot be captured."""
    flat = choice.ids.flatten()
    order = torch.argsort(flat, stable=True)
    experts, counts = torch.unique_consecutive(flat[order], return_counts=True)
    tokens, gates = order // choice.ids.shape[1], choice.gates.flatten()[order].unsqueeze(1)
    out = torch.zeros_like(x)
    start = 0
    for expert, count in zip(experts.tolist(), counts.tolist(), strict=True):
        rows = tokens[start : start + count]
        gate, up = _product(x[rows], layer.w13[expert], layer.scale13, expert).chunk(2, dim=-1)
        value = _product(F.silu(gate) * up, layer.w2[expert], layer.scale2, expert)
        out.index_add_(0, rows, value * gates[start : start + count])
        start += count
    return out


def _product(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor | None, expert: int) -> torch.Tensor:
    """x [M, H] rounded to fp8 times weight [O, H] transposed: [M, O] in bf16."""
    if scales is None or not hasattr(torch, "_scaled_mm"):
        raise NotImplementedError("this torch has no _scaled_mm, or the layer has no scales")
    count = len(x)
    if x.device.type != "cpu" and count % ROWS:
        x = F.pad(x, (0, 0, 0, ROWS - count % ROWS))
    numbers, scale = fp8_rows(x)
    columns = scales[expert][None, :]
    out = torch._scaled_mm(numbers, weight.t(), scale_a=scale[:, None], scale_b=columns, out_dtype=torch.bfloat16)
    return (out[0] if isinstance(out, tuple) else out)[:count]


FP8_KERNELS: dict[str, Kernel] = {"scaled_grouped_mm": scaled_grouped_mm, "scaled_mm_loop": scaled_mm_loop}
"""Kernels of an fp8 layer by name."""
