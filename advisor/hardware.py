"""Accelerators: peaks, memory, links, and measured kernel constants, each with its origin."""

from __future__ import annotations

from typing import Literal

from advisor.prediction import Confidence, Constant, Frozen

ComputeDtype = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"]


class KernelConstants(Frozen):
    """Small-batch GEMM behaviour in one data type: time = gemm_t0_s + bytes / bandwidth, capped by gemm_flops_per_s."""

    gemm_t0_s: Constant | None = None
    stream_bandwidth_bytes_per_s: Constant | None = None
    gemm_flops_per_s: Constant | None = None


class Hardware(Frozen):
    """One accelerator (one GPU of a node). SI units throughout; dense peaks, no structured sparsity."""

    id: str
    name: str
    vendor: str
    generation: str
    release_year: int
    confidence: Confidence
    memory_bytes: Constant
    bandwidth_bytes_per_s: Constant
    peak_flops_per_s: dict[ComputeDtype, Constant]
    last_level_cache_bytes: Constant | None = None
    link_bytes_per_s: Constant | None = None
    """Unidirectional, per accelerator, all links together."""
    link_type: str = ""
    price_usd_per_hour: Constant | None = None
    kernels: dict[ComputeDtype, KernelConstants] = {}
    kernel_table_device: str | None = None
    """Folder name of this device in the measured kernel tables, where there is one."""
    notes: tuple[str, ...] = ()
