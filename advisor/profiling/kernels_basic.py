"""Bandwidth, launch overhead, matrix products and the LM head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from advisor.profiling.graphs import capture
from advisor.profiling.kernels_moe import TOLERANCE, checked_error, random_tensor, relative_error
from advisor.profiling.plan import Block
from advisor.profiling.timing import Case, Context, measure, row_of, tried

FP8_TOLERANCE = 2e-2
"""An fp8 product is checked against float64 of the same rounded operands, so only its bf16 output rounds. [-]"""


def measure_bandwidth(block: Block, context: Context) -> list[dict[str, Any]]:
    """Measure device copy (bytes read + written) and read bandwidth beyond the cache.

    Buffers are far larger than the cache. RuntimeError where the copy does not equal its source.
    """
    size = max(int(block.params["bytes"]), 0)
    context.require_bytes(2.2 * size, block.name)
    source = torch.empty(size // 4, dtype=torch.float32, device=context.torch_device).uniform_()
    target = torch.empty_like(source)
    target.copy_(source)
    if not torch.equal(target[-1024:], source[-1024:]):
        raise RuntimeError("the copy does not equal its source")
    partial = float(source[: 2**16].double().sum())
    read_error = abs(float(source[: 2**16].sum()) - partial) / partial
    common = {"block": block.name, "mode": "eager", "dtype": "float32"}
    read = {"op": "read_bandwidth", "kernel": "torch.sum", "checked_error": read_error}
    cases = [
        Case(
            common | {"op": "copy_bandwidth", "kernel": "torch.copy_", "checked_error": 0.0},
            lambda: target.copy_(source),
            account=lambda _: (2.0 * source.nbytes, 0.0),
        ),
        Case(common | read, lambda: source.sum(), account=lambda _: (1.0 * source.nbytes, float(source.numel()))),
    ]
    for case in cases:
        case.call()
        case.call()
    measure(cases, context)
    rows = [row_of(case, context) for case in cases]
    context.copy_bytes_per_s = rows[0]["bytes"] / rows[0]["time_s"]
    return rows


def measure_launch(block: Block, context: Context) -> list[dict[str, Any]]:
    """Time per small operation: eager by the host's clock, as nodes of a graph, and one synchronise."""
    count = int(block.params["launches"])
    small = torch.zeros(16, device=context.torch_device)

    def many() -> None:
        for _ in range(count):
            small.add_(1.0)

    common = {"block": block.name, "op": "launch", "dtype": "float32"}
    many()
    cases = [Case(common | {"kernel": "eager_add", "mode": "eager"}, many, divisor=count, host_clock=True)]
    if context.accelerator:
        replay, mode, why = capture(many, context)
        case = Case(common | {"kernel": "graph_node_add", "mode": mode}, replay, divisor=count, notes=[why])
        cases.append(case)
        single, mode, why = capture(lambda: small.add_(1.0), context)
        columns = common | {"kernel": "graph_replay_and_synchronize", "mode": mode}
        cases.append(Case(columns, single, host_clock=True, notes=[why]))
    measure(cases, context)
    return [row_of(case, context) for case in cases]


def _constant(volume: float, work: float, _touched: float | None) -> tuple[float, float]:
    return volume, work


def _buffers(weight_bytes: float, context: Context) -> int:
    """Copies of a weight to rotate among so that together they exceed the cache threefold. [-]"""
    return int(min(max(2, -(-3 * context.device.cache_bytes // max(weight_bytes, 1))), 256))


def _product_case(
    columns: dict[str, Any],
    tokens: int,
    x: torch.Tensor,
    weights: list[torch.Tensor],
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    context: Context,
) -> Case:
    """x [rows, in] times each of several rotating weights [out, in], checked against float64. Time is per product."""
    out_features, in_features = weights[0].shape
    # Through float32: float8 converts to nothing wider.
    wanted = x[:16].float().double() @ weights[0].float().double().T
    fp8 = columns["dtype"].startswith("float8")
    tolerance = FP8_TOLERANCE if fp8 else TOLERANCE[columns["dtype"]]
    error = checked_error(product(x, weights[0])[:16], wanted, tolerance)

    def every() -> None:
        for weight in weights:
            product(x, weight)

    call, mode, why = capture(every, context)
    rows, size = len(x), x.dtype.itemsize
    out_size = 2 if fp8 else size
    volume = float(size * in_features * (out_features + rows) + out_size * rows * out_features)
    work = 2.0 * tokens * in_features * out_features
    identity = columns | {"checked_error": error, "mode": mode}
    note = f"rows padded to {rows}" if rows != tokens else ""
    return Case(identity, call, divisor=len(weights), account=lambda _: (volume, work), notes=[note, why])


def _linear_case(columns: dict[str, Any], tokens: int, shape: tuple[int, int], context: Context) -> Case:
    dtype, device = getattr(torch, columns["dtype"]), context.torch_device
    x = random_tensor((tokens, shape[1]), 1.0, dtype, device)
    count = _buffers(shape[0] * shape[1] * dtype.itemsize, context)
    weights = [random_tensor(shape, shape[1] ** -0.5, dtype, device) for _ in range(count)]
    return _product_case(columns | {"kernel": "torch.linear"}, tokens, x, weights, F.linear, context)


def _fp8_case(columns: dict[str, Any], tokens: int, shape: tuple[int, int], context: Context) -> Case:
    """As `_linear_case` in float8 e4m3 with one scale per tensor through torch._scaled_mm, bf16 out."""
    fp8, device = torch.float8_e4m3fn, context.torch_device
    padded = max(16, -(-tokens // 16) * 16)  # the product wants rows in multiples of 16
    x = random_tensor((padded, shape[1]), 1.0, torch.bfloat16, device).to(fp8)
    count = _buffers(shape[0] * shape[1], context)
    weights = [random_tensor(shape, 1.0, torch.bfloat16, device).to(fp8) for _ in range(count)]
    one = torch.ones((), dtype=torch.float32, device=device)

    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = torch._scaled_mm(x, weight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        return out[0] if isinstance(out, tuple) else out

    return _product_case(columns | {"kernel": "torch._scaled_mm"}, tokens, x, weights, product, context)


def measure_gemm(block: Block, context: Context) -> list[dict[str, Any]]:
    """Products [tokens, in] x [in, out] by dtype, weights rotating through more than the cache."""
    rows: list[dict[str, Any]] = []
    for dtype in block.params["dtypes"]:  # one dtype's weights at a time
        cases: list[Case] = []
        for out_features, in_features in block.params["sizes"]:
            for tokens in block.params["tokens"]:
                columns = {"block": block.name, "op": "gemm", "dtype": dtype, "n_tokens": tokens}
                columns |= {"in_features": in_features, "out_features": out_features}
                build = _fp8_case if dtype.startswith("float8") else _linear_case
                work = partial(build, columns, tokens, (out_features, in_features), context)
                case = tried(work, columns | {"kernel": "torch"}, rows, context)
                if case is not None:
                    cases.append(case)
        if cases:
            measure(cases, context)
            rows += [row_of(case, context) for case in cases]
    return rows


def measure_lm_head(block: Block, context: Context) -> list[dict[str, Any]]:
    """Measure the output projection, hidden [T, H] x [H, vocabulary], with the argmax over the vocabulary.

    RuntimeError where its result is wrong.
    """
    params = block.params
    dtype = getattr(torch, params["dtype"])
    hidden, vocabulary = params["hidden_size"], params["vocab_size"]
    count = min(_buffers(hidden * vocabulary * dtype.itemsize, context), 8)
    context.require_bytes(1.3 * count * hidden * vocabulary * dtype.itemsize, block.name)
    shape = (vocabulary, hidden)
    weights = [random_tensor(shape, hidden**-0.5, dtype, context.torch_device) for _ in range(count)]
    cases = []
    for tokens in params["tokens"]:
        x = random_tensor((tokens, hidden), 1.0, dtype, context.torch_device)
        error = relative_error(F.linear(x[:4], weights[0]), x[:4].double() @ weights[0].double().T)
        if not error <= TOLERANCE[params["dtype"]]:
            raise RuntimeError(f"wrong output: relative error {error:.2g}")

        def every(x: torch.Tensor = x) -> None:
            for weight in weights:
                F.linear(x, weight).argmax(dim=-1)

        call, mode, why = capture(every, context)
        columns = {"block": block.name, "op": "lm_head", "dtype": params["dtype"], "n_tokens": tokens}
        columns |= {"kernel": "torch.linear+argmax", "hidden_size": hidden, "vocab_size": vocabulary}
        columns |= {"mode": mode, "checked_error": error}
        volume = float(dtype.itemsize * (hidden * vocabulary + tokens * (hidden + 2 * vocabulary)))
        work = 2.0 * tokens * hidden * vocabulary
        account = partial(_constant, volume, work)
        cases.append(Case(columns, call, divisor=count, account=account, notes=[why]))
    measure(cases, context)
    return [row_of(case, context) for case in cases]
