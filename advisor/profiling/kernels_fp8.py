"""fp8 (e4m3) numbers with one float32 scale per row: rounding to them and back."""

from __future__ import annotations

import torch

E4M3_MAX = 448.0
"""Largest e4m3 number (OCP 8-bit floating point, 2023). [-]"""


def fp8_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers in e4m3 of x's shape, with the float32 scale of each row.

    The row's largest value becomes the largest number.
    """
    scale = x.abs().amax(dim=-1).float().clamp_min(1e-12) / E4M3_MAX
    return (x.float() / scale[..., None]).to(torch.float8_e4m3fn), scale


def dequantised(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """Product of x and the scale of its rows, in float64. `x` itself where there is no scale."""
    wide = x.float().double() if x.dtype == torch.float8_e4m3fn else x.double()
    return wide if scale is None else wide * scale.double()[..., None]


def quantise_experts(shape: tuple[int, int, int], spread: float, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Random weights [N, out, in] in e4m3 with their scales [N, out]. Made expert by expert to need little memory."""
    weights = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
    scales = torch.empty(shape[:2], dtype=torch.float32, device=device)
    for weight, scale in zip(weights, scales, strict=True):
        numbers, of_rows = fp8_rows(torch.empty(shape[1:], dtype=torch.bfloat16, device=device).normal_(0.0, spread))
        weight.copy_(numbers)
        scale.copy_(of_rows)
    return weights, scales
