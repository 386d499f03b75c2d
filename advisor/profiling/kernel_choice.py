"""Which kernels of the MoE layer are to be had here, and the part of each that aligns tokens with experts."""

from __future__ import annotations

from collections.abc import Callable

import torch

from advisor.profiling import kernels_moe
from advisor.profiling.kernels_moe import Choice, Kernel, MoeLayer
from advisor.profiling.moe_fp8 import FP8_KERNELS
from advisor.profiling.timing import Context


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


def available_kernels(context: Context, dtype: str = "bfloat16") -> dict[str, Kernel | str]:
    """Kernels by name, or the reason why one is not to be had. Triton tiles count as kernels of their own."""
    if dtype == "float8_e4m3fn":
        fp8: dict[str, Kernel | str] = dict(FP8_KERNELS)
        return {name: context.avoid.get(name, kernel) for name, kernel in fp8.items()}
    found: dict[str, Kernel | str] = {"grouped_mm": kernels_moe.grouped_mm, "expert_loop": kernels_moe.expert_loop}
    if context.accelerator:
        found |= _accelerator_kernels()
    else:
        found |= {"triton_fused": "needs an accelerator", "vllm_fused": "needs an accelerator"}
    return {name: context.avoid.get(name, kernel) for name, kernel in found.items()}


Alignment = Callable[[MoeLayer, Choice], tuple[torch.Tensor, torch.Tensor]]
"""What a kernel does before its products: (pairs by expert [T k], end of each expert's part [N])."""


def alignment_of(kernel: str) -> Alignment | None:
    """The alignment of a kernel, None where it has none of its own that could be run apart."""
    if kernel.startswith("triton_fused"):
        from advisor.profiling.kernels_triton import align

        return lambda layer, choice: align(choice.ids32, layer.w2.shape[0])[:2]
    return kernels_moe.sorted_pairs if kernel in ("grouped_mm", "scaled_grouped_mm") else None


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
