"""Bandwidth, launches, matrix products, the LM head, and decode attention with 1..K+1 queries (GQA,
MLA-like)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.kernels_moe import TOLERANCE, checked_error, random_tensor
from advisor.profiling.plan import Block
from advisor.profiling.timing import (
    Case,
    Context,
    brief_seconds,
    capture,
    failed_row,
    measured_rows,
    pass_columns,
    tried,
)

FP8_TOLERANCE = 2e-2
"""An fp8 product is checked against float64 of the same rounded operands, so only its bf16 output
rounds. [-]"""


def measure_bandwidth(block: Block, context: Context) -> list[dict[str, Any]]:
    """Measure copy and read bandwidth far beyond the cache. Raises RuntimeError for a copy that is
    not equal."""
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
        Case(
            common | read,
            lambda: source.sum(),
            account=lambda _: (1.0 * source.nbytes, float(source.numel())),
        ),
    ]
    for case in cases:
        case.call()
        case.call()
    rows = measured_rows(cases, context)
    context.copy_bytes_per_s = rows[0]["bytes"] / rows[0]["time_s"]
    return rows


def measure_launch(block: Block, context: Context) -> list[dict[str, Any]]:
    """Time per small operation: eager by the host's clock, as nodes of a graph, and one
    synchronise."""
    count = int(block.params["launches"])
    small = torch.zeros(16, device=context.torch_device)

    def many() -> None:
        for _ in range(count):
            small.add_(1.0)

    common = {"block": block.name, "op": "launch", "dtype": "float32"}
    many()
    cases = [
        Case(
            common | {"kernel": "eager_add", "mode": "eager"}, many, divisor=count, host_clock=True
        )
    ]
    if context.accelerator:
        replay, mode, reason = capture(many, context)
        case = Case(
            common | {"kernel": "graph_node_add", "mode": mode},
            replay,
            divisor=count,
            notes=[reason],
        )
        cases.append(case)
        single, mode, reason = capture(lambda: small.add_(1.0), context)
        columns = common | {"kernel": "graph_replay_and_synchronize", "mode": mode}
        cases.append(Case(columns, single, host_clock=True, notes=[reason]))
    return measured_rows(cases, context)


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
    """x [rows, in] times each of several rotating weights [out, in], checked against float64. Time
    is per product."""
    out_features, in_features = weights[0].shape
    # Through float32: float8 converts to nothing wider.
    expected = x[:16].float().double() @ weights[0].float().double().T
    fp8 = columns["dtype"].startswith("float8")
    tolerance = FP8_TOLERANCE if fp8 else TOLERANCE[columns["dtype"]]
    error = checked_error(product(x, weights[0])[:16], expected, tolerance)

    def every() -> None:
        for weight in weights:
            product(x, weight)

    call, mode, reason = capture(every, context)
    rows = len(x)
    size = x.dtype.itemsize
    out_size = 2 if fp8 else size
    volume = float(size * in_features * (out_features + rows) + out_size * rows * out_features)
    work = 2.0 * tokens * in_features * out_features
    identity = columns | {"checked_error": error, "mode": mode}
    note = f"rows padded to {rows}" if rows != tokens else ""
    return Case(
        identity, call, divisor=len(weights), account=lambda _: (volume, work), notes=[note, reason]
    )


def _linear_case(
    columns: dict[str, Any], tokens: int, shape: tuple[int, int], context: Context
) -> Case:
    dtype = getattr(torch, columns["dtype"])
    device = context.torch_device
    x = random_tensor((tokens, shape[1]), 1.0, dtype, device)
    count = _buffers(shape[0] * shape[1] * dtype.itemsize, context)
    weights = [random_tensor(shape, shape[1] ** -0.5, dtype, device) for _ in range(count)]
    return _product_case(
        columns | {"kernel": "torch.linear"}, tokens, x, weights, F.linear, context
    )


def _fp8_case(
    columns: dict[str, Any], tokens: int, shape: tuple[int, int], context: Context
) -> Case:
    """As `_linear_case` in float8 e4m3 with one scale per tensor through torch._scaled_mm, bf16
    out."""
    fp8 = torch.float8_e4m3fn
    device = context.torch_device
    padded = max(16, -(-tokens // 16) * 16)  # the product wants rows in multiples of 16
    x = random_tensor((padded, shape[1]), 1.0, torch.bfloat16, device).to(fp8)
    count = _buffers(shape[0] * shape[1], context)
    weights = [random_tensor(shape, 1.0, torch.bfloat16, device).to(fp8) for _ in range(count)]
    unit_scale = torch.ones((), dtype=torch.float32, device=device)

    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = torch._scaled_mm(
            x, weight.t(), scale_a=unit_scale, scale_b=unit_scale, out_dtype=torch.bfloat16
        )
        return out[0] if isinstance(out, tuple) else out

    return _product_case(
        columns | {"kernel": "torch._scaled_mm"}, tokens, x, weights, product, context
    )


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
                cases += [case] if case else []
        rows += measured_rows(cases, context)
    return rows


def measure_lm_head(block: Block, context: Context) -> list[dict[str, Any]]:
    """Measure the output projection [T, H] x [H, vocabulary] with its argmax. ValueError where it
    is wrong."""
    params = block.params
    dtype = getattr(torch, params["dtype"])
    hidden = params["hidden_size"]
    vocabulary = params["vocab_size"]
    count = min(_buffers(hidden * vocabulary * dtype.itemsize, context), 8)
    context.require_bytes(1.3 * count * hidden * vocabulary * dtype.itemsize, block.name)
    shape = (vocabulary, hidden)
    weights = [
        random_tensor(shape, hidden**-0.5, dtype, context.torch_device) for _ in range(count)
    ]
    cases = []
    for tokens in params["tokens"]:
        x = random_tensor((tokens, hidden), 1.0, dtype, context.torch_device)
        expected = x[:4].double() @ weights[0].double().T
        error = checked_error(F.linear(x[:4], weights[0]), expected, TOLERANCE[params["dtype"]])

        def every(x: torch.Tensor = x) -> None:
            for weight in weights:
                F.linear(x, weight).argmax(dim=-1)

        call, mode, reason = capture(every, context)
        columns = {
            "block": block.name,
            "op": "lm_head",
            "dtype": params["dtype"],
            "n_tokens": tokens,
        }
        columns |= {
            "kernel": "torch.linear+argmax",
            "hidden_size": hidden,
            "vocab_size": vocabulary,
        }
        columns |= {"mode": mode, "checked_error": error}
        volume = float(dtype.itemsize * (hidden * vocabulary + tokens * (hidden + 2 * vocabulary)))
        work = 2.0 * tokens * hidden * vocabulary

        def account(
            _: float | None, cost: tuple[float, float] = (volume, work)
        ) -> tuple[float, float]:
            return cost

        cases.append(Case(columns, call, divisor=count, account=account, notes=[reason]))
    return measured_rows(cases, context)


Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(q [B, q, Hq, D], k [B, Hkv, C, D], v [B, Hkv, C, Dv]) -> [B, q, Hq, Dv]; query i sees C - q + i
+ 1 keys."""


def causal_tail(n_queries: int, n_keys: int, device: str | torch.device) -> torch.Tensor:
    """Boolean mask [q, C]: query i sees the first C - q + i + 1 keys."""
    keys = torch.arange(n_keys, device=device)
    return keys[None, :] <= (n_keys - n_queries + torch.arange(n_queries, device=device))[:, None]


def sdpa_grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention by torch's scaled_dot_product_attention with enable_gqa."""
    mask = None if q.shape[1] == 1 else causal_tail(q.shape[1], k.shape[2], q.device)
    grouped = q.shape[2] != k.shape[1]
    return F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=mask, enable_gqa=grouped
    ).transpose(1, 2)


def _fold(q: torch.Tensor, n_kv: int) -> torch.Tensor:
    """[B, q, Hq, D] -> [B, Hkv, q * group, D], so that one product serves all heads that share a
    key."""
    batch, n_queries, n_heads, dim = q.shape
    return (
        q.view(batch, n_queries, n_kv, n_heads // n_kv, dim)
        .transpose(1, 2)
        .reshape(batch, n_kv, -1, dim)
    )


def _unfold(out: torch.Tensor, n_queries: int) -> torch.Tensor:
    batch, n_kv, rows, dim = out.shape
    return (
        out.view(batch, n_kv, n_queries, rows // n_queries, dim)
        .transpose(1, 2)
        .reshape(batch, n_queries, -1, dim)
    )


def _fold_mask(n_queries: int, group: int, n_keys: int, device: torch.device) -> torch.Tensor:
    return causal_tail(n_queries, n_keys, device).repeat_interleave(group, dim=0)


def sdpa_folded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """scaled_dot_product_attention over rows = queries x heads of a group: the cache is read
    once."""
    n_queries = q.shape[1]
    group = q.shape[2] // k.shape[1]
    mask = None if n_queries == 1 else _fold_mask(n_queries, group, k.shape[2], q.device)
    return _unfold(
        F.scaled_dot_product_attention(_fold(q, k.shape[1]), k, v, attn_mask=mask), n_queries
    )


def two_products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scores, softmax in float32, values: two batched products over folded rows."""
    n_queries = q.shape[1]
    group = q.shape[2] // k.shape[1]
    score = torch.matmul(_fold(q, k.shape[1]), k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if n_queries > 1:
        score = score.masked_fill(
            ~_fold_mask(n_queries, group, k.shape[2], q.device), float("-inf")
        )
    chance = torch.softmax(score, dim=-1, dtype=torch.float32).to(v.dtype)
    return _unfold(torch.matmul(chance, v), n_queries)


def attention_kernels(
    context: Context, *, power_of_two: bool, latent: bool = False
) -> dict[str, Attention | str]:
    """Kernels by name, or why not. power_of_two: of the head size, for Triton. latent: one key head
    for all queries."""
    kernels: dict[str, Attention | str] = {"sdpa_folded": sdpa_folded, "two_products": two_products}
    if not latent:  # with one key head it copies the cache once per query head
        kernels["sdpa_grouped"] = sdpa_grouped
    if not context.accelerator or not power_of_two:
        kernels["triton_split_kv"] = "needs an accelerator and a head size that is a power of two"
    else:
        try:
            from advisor.profiling.kernels_triton import split_kv_attention

            processors = context.device.n_multiprocessors or 108
            kernels["triton_split_kv"] = lambda q, k, v: split_kv_attention(q, k, v, processors)
        except Exception as error:
            kernels["triton_split_kv"] = f"{type(error).__name__}: {error}"
    return {name: context.avoid.get(name, kernel) for name, kernel in kernels.items()}


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The last sequence in float64, head by head: [1, q, Hq, Dv]."""
    n_queries = q.shape[1]
    n_heads = q.shape[2]
    group = n_heads // k.shape[1]
    out = torch.zeros(1, n_queries, n_heads, v.shape[-1], dtype=torch.float64, device=q.device)
    for head in range(n_heads):
        keys = k[-1, head // group].double()
        values = v[-1, head // group].double()
        for index in range(n_queries):
            seen = k.shape[2] - n_queries + index + 1
            score = (keys[:seen] @ q[-1, index, head].double()) * q.shape[-1] ** -0.5
            out[0, index, head] = torch.softmax(score, dim=0) @ values[:seen]
    return out


class AttentionSweep:
    """One block: builds the case of a point (B, q, context) for a kernel. Latent caches have one
    key head."""

    def __init__(self, block: Block, context: Context) -> None:
        self.block = block
        self.context = context
        params = block.params
        self.latent = block.op == "mla_decode"
        self.dtype = getattr(torch, params["dtype"])
        self.n_heads = params["n_heads"]
        self.n_kv = 1 if self.latent else params["n_kv_heads"]
        self.dim = (
            params["latent_width"] + params["rope_width"] if self.latent else params["head_dim"]
        )
        self.value_dim = params["latent_width"] if self.latent else params["head_dim"]
        self._caches: dict[tuple[int, int], list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def columns(self, point: list[int], kernel: str) -> dict[str, Any]:
        """Identity of a result row."""
        batch, n_queries, n_context = point
        return pass_columns(self.block.name, self.block.op, kernel, batch, n_queries) | {
            "dtype": self.block.params["dtype"],
            "context_tokens": n_context,
            "n_heads": self.n_heads,
            "n_kv_heads": self.n_kv,
            "head_dim": self.dim,
            "value_dim": self.value_dim,
        }

    def kv_bytes(self, batch: int, n_keys: int) -> float:
        """Bytes of one cache: keys and values, which are one and the same in a latent cache."""
        width = self.dim if self.latent else self.dim + self.value_dim
        return float(batch * self.n_kv * n_keys * width * self.dtype.itemsize)

    def caches(self, batch: int, n_keys: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Rotating caches that exceed the last-level cache threefold, shared by all kernels and q
        of a point."""
        key = (batch, n_keys)
        if key not in self._caches:
            self._caches.clear()
            cache_size_bytes = self.kv_bytes(batch, n_keys)
            count = int(
                min(max(2, -(-3 * self.context.device.cache_bytes // cache_size_bytes)), 128)
            )
            self.context.require_bytes(1.2 * count * cache_size_bytes, self.block.name)
            shape = (batch, self.n_kv, n_keys, self.dim)
            cache_pairs = []
            for _ in range(count):
                k = random_tensor(shape, 1.0, self.dtype, self.context.torch_device)
                v = k[..., : self.value_dim] if self.latent else torch.empty_like(k).normal_()
                cache_pairs.append((k, v))
            self._caches[key] = cache_pairs
        return self._caches[key]

    def case(self, point: list[int], name: str, kernel: Attention) -> Case:
        """The checked, warmed-up, where possible captured case. Raises ValueError when the output
        is wrong."""
        batch, n_queries, n_keys = point
        context = self.context
        caches = self.caches(batch, n_keys)
        q = random_tensor(
            (batch, n_queries, self.n_heads, self.dim), 1.0, self.dtype, context.torch_device
        )
        k, v = caches[-1]
        expected = attention_reference(q, k, v)
        error = checked_error(kernel(q, k, v)[-1:], expected, TOLERANCE[self.block.params["dtype"]])
        turn = [0]

        def every() -> None:
            for k, v in caches:
                kernel(q, k, v)

        def one() -> None:
            turn[0] = (turn[0] + 1) % len(caches)
            kernel(q, *caches[turn[0]])

        def prepare(
            rng: np.random.Generator,
        ) -> None:  # fresh queries, so that nothing but shapes repeats
            if not context.accelerator:
                q.normal_(generator=torch.Generator().manual_seed(int(rng.integers(2**31))))

        call, mode, reason = capture(every if context.accelerator else one, context)
        columns = self.columns(point, name) | {"checked_error": error, "mode": mode}
        size = self.dtype.itemsize
        volume = self.kv_bytes(batch, n_keys) + size * batch * n_queries * self.n_heads * (
            self.dim + self.value_dim
        )
        work = 2.0 * batch * n_queries * self.n_heads * n_keys * (self.dim + self.value_dim)
        divisor = len(caches) if context.accelerator else 1
        return Case(
            columns, call, prepare, divisor, account=lambda _: (volume, work), notes=[reason]
        )


def measure_attention(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows of an attention block, each point with the kernel fastest there. The others' ratio
    stands in the notes."""
    sweep = AttentionSweep(block, context)
    kernels = attention_kernels(
        context,
        power_of_two=not sweep.latent and sweep.dim & (sweep.dim - 1) == 0,
        latent=sweep.latent,
    )
    common = {"block": block.name, "op": block.op, "dtype": block.params["dtype"]}
    rows = [
        failed_row(common | {"kernel": n}, "unavailable", k)
        for n, k in kernels.items()
        if isinstance(k, str)
    ]
    working = {name: kernel for name, kernel in kernels.items() if not isinstance(kernel, str)}
    groups: dict[tuple[int, int], list[list[int]]] = {}
    for point in block.params["points"]:
        groups.setdefault((point[0], point[2]), []).append(point)
    for points in groups.values():  # one batch and context at a time: its caches fit, then go
        fastest = [_fastest(sweep, point, working, rows) for point in points]
        cases = [case for case in fastest if case is not None]
        rows += measured_rows(cases, context)
    return rows


def _timed_case(
    sweep: AttentionSweep, point: list[int], name: str, kernel: Attention
) -> tuple[float, str, Case]:
    case = sweep.case(point, name, kernel)
    return brief_seconds(case, sweep.context, 3), name, case


def _fastest(
    sweep: AttentionSweep,
    point: list[int],
    kernels: dict[str, Attention],
    rows: list[dict[str, Any]],
) -> Case | None:
    """The case of the fastest right kernel at a point. A kernel that fails becomes a row and is
    dropped."""
    context = sweep.context
    timed: list[tuple[float, str, Case]] = []
    for name, kernel in list(kernels.items()):
        columns = sweep.columns(point, name)
        cases = tried(
            partial(_timed_case, sweep, point, name, kernel), columns, rows, context, "wrong", name
        )
        if cases is None:
            del kernels[name]
        else:
            timed.append(cases)
    if not timed:
        return None
    (best_s, _, best), *others = sorted(timed, key=lambda item: item[0])
    best.notes += [
        f"{name} took {seconds / best_s:.2f} times as long" for seconds, name, _ in others
    ]
    return best
