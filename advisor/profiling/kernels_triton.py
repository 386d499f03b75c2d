"""Triton kernels: fused MoE layer and split-KV decode attention. Import fails where triton is
absent.

The MoE layer is four launches: `_align` groups (token, expert) pairs by expert on the device,
`_gate_up` and `_down` stream each touched expert's weights once per tile of tokens, torch sums over
the k experts.
"""

# Kernel parameters carry Triton's meaning of annotations, not Python's.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _align(
    ids_ptr,
    pairs_ptr,
    ends_ptr,
    block_expert_ptr,
    block_row_ptr,
    n_pairs,
    n_experts,
    max_blocks,
    TILE_M: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    expert = tl.program_id(0)
    bins = tl.arange(0, BINS)
    counts = tl.zeros([BINS], tl.int32)
    for start in range(0, n_pairs, CHUNK):
        offset = start + tl.arange(0, CHUNK)
        ids = tl.load(ids_ptr + offset, mask=offset < n_pairs, other=BINS - 1)
        counts += tl.histogram(ids, BINS)
    counts = tl.where(bins < n_experts, counts, 0)
    blocks = (counts + TILE_M - 1) // TILE_M
    row = tl.sum(tl.where(bins < expert, counts, 0), 0)
    block = tl.sum(tl.where(bins < expert, blocks, 0), 0)
    rows_here = tl.sum(tl.where(bins == expert, counts, 0), 0)
    base = row
    for start in range(0, n_pairs, CHUNK):
        offset = start + tl.arange(0, CHUNK)
        ids = tl.load(ids_ptr + offset, mask=offset < n_pairs, other=BINS - 1)
        hit = (ids == expert).to(tl.int32)
        rank = tl.cumsum(hit, 0) - 1
        tl.store(pairs_ptr + base + rank, offset, mask=hit > 0)
        base += tl.sum(hit, 0)
    tl.store(ends_ptr + expert, row + rows_here)
    my_blocks = (rows_here + TILE_M - 1) // TILE_M
    for index in range(my_blocks):
        tl.store(block_expert_ptr + block + index, expert)
        tl.store(block_row_ptr + block + index, row + index * TILE_M)
    if expert == n_experts - 1:
        for index in range(block + my_blocks, max_blocks):
            tl.store(block_expert_ptr + index, -1)


@triton.jit
def _gate_up(
    x_ptr,
    weight_ptr,
    act_ptr,
    pairs_ptr,
    ends_ptr,
    block_expert_ptr,
    block_row_ptr,
    hidden,
    width,
    top_k,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EXACT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(1)
    expert = tl.load(block_expert_ptr + block)
    if expert < 0:
        return
    rows = tl.load(block_row_ptr + block) + tl.arange(0, TILE_M)
    live = rows < tl.load(ends_ptr + expert)
    token = tl.load(pairs_ptr + rows, mask=live, other=0) // top_k
    cols = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    base = weight_ptr + expert.to(tl.int64) * 2 * width * hidden
    gate_at = base + cols[None, :].to(tl.int64) * hidden + inner[:, None]
    x_at = x_ptr + token[:, None].to(tl.int64) * hidden + inner[None, :]
    gate = tl.zeros([TILE_M, TILE_N], tl.float32)
    up = tl.zeros([TILE_M, TILE_N], tl.float32)
    up_shift = width * hidden
    for start in range(0, hidden, TILE_K):
        if EXACT:
            x = tl.load(x_at, mask=live[:, None], other=0.0)
            w_gate = tl.load(gate_at)
            w_up = tl.load(gate_at + up_shift)
        else:
            inside = start + inner < hidden
            x = tl.load(x_at, mask=live[:, None] & inside[None, :], other=0.0)
            fits = (cols[None, :] < width) & inside[:, None]
            w_gate = tl.load(gate_at, mask=fits, other=0.0)
            w_up = tl.load(gate_at + up_shift, mask=fits, other=0.0)
        gate = tl.dot(x, w_gate, gate, input_precision=PRECISION)
        up = tl.dot(x, w_up, up, input_precision=PRECISION)
        x_at += TILE_K
        gate_at += TILE_K
    value = gate / (1.0 + tl.exp(-gate)) * up
    act_at = act_ptr + rows[:, None].to(tl.int64) * width + cols[None, :]
    tl.store(
        act_at, value.to(act_ptr.dtype.element_ty), mask=live[:, None] & (cols[None, :] < width)
    )


@triton.jit
def _down(
    act_ptr,
    weight_ptr,
    gates_ptr,
    out_ptr,
    pairs_ptr,
    ends_ptr,
    block_expert_ptr,
    block_row_ptr,
    hidden,
    width,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EXACT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(1)
    expert = tl.load(block_expert_ptr + block)
    if expert < 0:
        return
    rows = tl.load(block_row_ptr + block) + tl.arange(0, TILE_M)
    live = rows < tl.load(ends_ptr + expert)
    pair = tl.load(pairs_ptr + rows, mask=live, other=0)
    cols = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    weight_at = (
        weight_ptr
        + expert.to(tl.int64) * hidden * width
        + cols[None, :].to(tl.int64) * width
        + inner[:, None]
    )
    act_at = act_ptr + rows[:, None].to(tl.int64) * width + inner[None, :]
    total = tl.zeros([TILE_M, TILE_N], tl.float32)
    for start in range(0, width, TILE_K):
        if EXACT:
            act = tl.load(act_at, mask=live[:, None], other=0.0)
            weight = tl.load(weight_at)
        else:
            inside = start + inner < width
            act = tl.load(act_at, mask=live[:, None] & inside[None, :], other=0.0)
            weight = tl.load(weight_at, mask=(cols[None, :] < hidden) & inside[:, None], other=0.0)
        total = tl.dot(act, weight, total, input_precision=PRECISION)
        act_at += TILE_K
        weight_at += TILE_K
    gate = tl.load(gates_ptr + pair, mask=live, other=0.0).to(tl.float32)
    out_at = out_ptr + pair[:, None].to(tl.int64) * hidden + cols[None, :]
    total = total * gate[:, None]
    tl.store(
        out_at, total.to(out_ptr.dtype.element_ty), mask=live[:, None] & (cols[None, :] < hidden)
    )


Tile = tuple[int, int, int, int]
TILES: tuple[Tile, ...] = ((64, 128, 4, 4), (32, 256, 3, 4), (128, 64, 4, 4), (64, 64, 5, 4))
"""Candidate (TILE_N, TILE_K, stages, warps); the fastest at the block's probe sizes is taken."""


def tile_rows(n_pairs: int, n_experts: int) -> int:
    """Token rows of a tile: 16 while experts see few tokens (weight streaming), more when they see
    many. [-]"""
    mean = n_pairs / n_experts
    return 16 if mean <= 16 else (32 if mean <= 40 else 64)


def align(
    ids: torch.Tensor, n_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Group token-expert pairs by expert on the device, the first launch of `fused_moe`.

    ids [T, k] int32, contiguous. Returns pairs [T k] by expert, ends [N], and expert and first row
    of each tile.
    """
    n_pairs = ids.numel()
    tile_m = tile_rows(n_pairs, n_experts)
    max_blocks = min(n_experts, n_pairs) + n_pairs // tile_m
    integers: dict[str, Any] = {"dtype": torch.int32, "device": ids.device}
    pairs = torch.empty(n_pairs, **integers)
    ends = torch.empty(n_experts, **integers)
    block_expert = torch.empty(max_blocks, **integers)
    block_row = torch.empty(max_blocks, **integers)
    bins = max(128, triton.next_power_of_2(n_experts + 1))
    chunk = min(2048, max(128, triton.next_power_of_2(n_pairs)))
    _align[(n_experts,)](
        ids,
        pairs,
        ends,
        block_expert,
        block_row,
        n_pairs,
        n_experts,
        max_blocks,
        tile_m,
        bins,
        chunk,
        num_warps=4,
    )
    return pairs, ends, block_expert, block_row


def fused_moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    ids: torch.Tensor,
    gates: torch.Tensor,
    tile: Tile = TILES[0],
) -> torch.Tensor:
    """Routed experts of one layer. Capturable in a graph (no host sync, static shapes).

    x [T, H]; w13 [N, 2I, H] (gate rows, then up rows); w2 [N, H, I]; ids [T, k] int32, contiguous;
    gates [T, k]. Returns [T, H] in x's dtype. tile: (TILE_N, TILE_K, stages, warps).
    """
    n_tokens, hidden = x.shape
    n_experts, _, width = w2.shape
    top_k = ids.shape[1]
    n_pairs = n_tokens * top_k
    tile_n, tile_k, stages, warps = tile
    tile_m = tile_rows(n_pairs, n_experts)
    table = align(ids, n_experts)
    max_blocks = len(table[2])
    act = torch.empty(n_pairs, width, dtype=x.dtype, device=x.device)
    out = torch.empty(n_pairs, hidden, dtype=x.dtype, device=x.device)
    precision = "ieee" if x.dtype == torch.float32 else "tf32"
    settings = {"TILE_M": tile_m, "TILE_N": tile_n, "TILE_K": tile_k, "PRECISION": precision}
    launch = {"num_stages": stages, "num_warps": warps}
    exact = hidden % tile_k == 0 and width % tile_n == 0
    _gate_up[(triton.cdiv(width, tile_n), max_blocks)](
        x, w13, act, *table, hidden, width, top_k, EXACT=exact, **settings, **launch
    )
    exact = width % tile_k == 0 and hidden % tile_n == 0
    _down[(triton.cdiv(hidden, tile_n), max_blocks)](
        act, w2, gates, out, *table, hidden, width, EXACT=exact, **settings, **launch
    )
    return out.view(n_tokens, top_k, hidden).sum(1)


@triton.jit
def _attend(
    q_ptr,
    k_ptr,
    v_ptr,
    part_ptr,
    max_ptr,
    sum_ptr,
    n_queries,
    n_kv_heads,
    group,
    n_keys,
    split,
    scale,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    TILE_C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    head = tl.program_id(0)  # sequence * n_kv_heads + kv head
    piece = tl.program_id(1)
    sequence = head // n_kv_heads
    kv_head = head % n_kv_heads
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM)
    query = rows // group
    live = query < n_queries
    q_head = kv_head * group + rows % group
    q_row = (sequence * n_queries + query) * (n_kv_heads * group) + q_head
    q = tl.load(
        q_ptr + q_row[:, None].to(tl.int64) * DIM + dims[None, :], mask=live[:, None], other=0.0
    )
    last_key = n_keys - n_queries + query
    best = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    part = tl.zeros([ROWS, DIM], tl.float32)
    begin = piece * split
    end = tl.minimum(begin + split, n_keys)
    base = head.to(tl.int64) * n_keys * DIM
    for start in range(begin, end, TILE_C):
        keys = start + tl.arange(0, TILE_C)
        inside = keys < end
        at = base + keys[:, None].to(tl.int64) * DIM + dims[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        seen = inside[None, :] & (keys[None, :] <= last_key[:, None])
        score = tl.where(seen, score, -1.0e30)
        new = tl.maximum(best, tl.max(score, 1))
        chance = tl.where(seen, tl.exp(score - new[:, None]), 0.0)
        shrink = tl.exp(best - new)
        total = total * shrink + tl.sum(chance, 1)
        part = part * shrink[:, None] + tl.dot(chance.to(v.dtype), v, input_precision=PRECISION)
        best = new
    slot = (head * tl.num_programs(1) + piece) * ROWS + rows
    tl.store(part_ptr + slot[:, None].to(tl.int64) * DIM + dims[None, :], part)
    tl.store(max_ptr + slot, best)
    tl.store(sum_ptr + slot, total)


@triton.jit
def _combine(
    part_ptr,
    max_ptr,
    sum_ptr,
    out_ptr,
    n_queries,
    n_kv_heads,
    group,
    n_pieces,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
):
    head = tl.program_id(0)
    row = tl.program_id(1)
    dims = tl.arange(0, DIM)
    best = -1.0e30
    total = 0.0
    value = tl.zeros([DIM], tl.float32)
    for piece in range(n_pieces):
        slot = (head * n_pieces + piece) * ROWS + row
        new = tl.maximum(best, tl.load(max_ptr + slot))
        old_share = tl.exp(best - new)
        share = tl.exp(tl.load(max_ptr + slot) - new)
        total = total * old_share + tl.load(sum_ptr + slot) * share
        value = value * old_share + tl.load(part_ptr + slot.to(tl.int64) * DIM + dims) * share
        best = new
    q_row = ((head // n_kv_heads) * n_queries + row // group) * (n_kv_heads * group)
    q_row += (head % n_kv_heads) * group + row % group
    tl.store(
        out_ptr + q_row.to(tl.int64) * DIM + dims, (value / total).to(out_ptr.dtype.element_ty)
    )


def split_kv_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, n_processors: int = 132
) -> torch.Tensor:
    """Decode attention with a few queries over one KV cache, reading each key and value once.

    q [B, q, Hq, D]; k, v [B, Hkv, C, D] with the last q keys being the queries' own (query i sees C
    - q + i + 1 keys). D a power of two. Returns [B, q, Hq, D].
    """
    batch, n_queries, n_heads, dim = q.shape
    n_kv = k.shape[1]
    n_keys = k.shape[2]
    group = n_heads // n_kv
    rows = max(16, triton.next_power_of_2(n_queries * group))
    tile_c = 64 if rows <= 64 else 32
    n_splits = max(1, (4 * n_processors) // (batch * n_kv))
    pieces = max(1, min(n_splits, triton.cdiv(n_keys, 2 * tile_c), 64))
    split = triton.cdiv(triton.cdiv(n_keys, pieces), tile_c) * tile_c
    pieces = triton.cdiv(n_keys, split)
    floats: dict[str, Any] = {"dtype": torch.float32, "device": q.device}
    part = torch.empty(batch * n_kv, pieces, rows, dim, **floats)
    best = torch.empty(batch * n_kv, pieces, rows, **floats)
    total = torch.empty(batch * n_kv, pieces, rows, **floats)
    precision = "ieee" if q.dtype == torch.float32 else "tf32"
    parts = (part, best, total)
    shape = (n_queries, n_kv, group)
    launch = {"num_warps": 4, "num_stages": 3} if rows <= 64 else {"num_warps": 8, "num_stages": 2}
    settings = {"ROWS": rows, "DIM": dim, "TILE_C": tile_c, "PRECISION": precision}
    _attend[(batch * n_kv, pieces)](
        q, k, v, *parts, *shape, n_keys, split, dim**-0.5, **settings, **launch
    )
    out = torch.empty_like(q)
    _combine[(batch * n_kv, n_queries * group)](
        *parts, out, *shape, pieces, ROWS=rows, DIM=dim, num_warps=2
    )
    return out
