"""A synthetic MoE transformer with real dimensions and random weights, and two drafters built like EAGLE and MTP.

Left out on purpose, since engines fuse or hide them: rotary embedding, sampling other than argmax, paging of the
KV cache. The router is computed, but which experts a token uses is drawn (routing_draw), because random weights
would route unlike any trained model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.kernels_attention import Attention, attention_reference
from advisor.profiling.kernels_moe import (
    Choice,
    Kernel,
    MoeLayer,
    make_choice,
    make_layer,
    random_tensor,
    reference,
    run_layer,
    swiglu,
)
from advisor.profiling.routing_draw import Routing, draw_routing, touched

EPSILON = 1e-6
"""Added to the mean square in every normalisation. [-]"""


@dataclass
class Block:
    """Transformer layer: attention weights, and a MoE layer with its router or a dense feed-forward."""

    qkv: torch.Tensor
    out: torch.Tensor
    norm1: torch.Tensor
    norm2: torch.Tensor
    router: torch.Tensor | None = None
    moe: MoeLayer | None = None
    dense13: torch.Tensor | None = None
    dense2: torch.Tensor | None = None


@dataclass
class Session:
    """Static buffers of one (batch, tokens per sequence). Input tokens, KV caches [B, Hkv, C, D], expert choices."""

    tokens: torch.Tensor
    caches: list[tuple[torch.Tensor, torch.Tensor]]
    choices: list[Choice]


class Dimensions:
    """Reads a block's params. All sizes as in the model's config. [-]"""

    def __init__(self, params: dict[str, Any]) -> None:
        self.hidden, self.heads, self.kv_heads = params["hidden_size"], params["n_heads"], params["n_kv_heads"]
        self.head_dim, self.vocabulary = params["head_dim"], params["vocab_size"]
        self.draft_vocabulary, self.dense_width = params["draft_vocab_size"], params["dense_width"]
        self.experts, self.active = params["n_experts"], params["n_active"]
        self.expert_width, self.shared_width = params["expert_width"], params["shared_width"]
        self.dtype = getattr(torch, params["dtype"])
        self.routing = Routing(**params["routing"])

    def model_bytes(self, n_layers: int) -> float:
        """Weights of target and both drafters. [bytes]"""
        layer = 3 * self.hidden * (self.experts * self.expert_width + self.shared_width)
        heads = 2 * self.vocabulary * self.hidden + self.draft_vocabulary * self.hidden
        return float(self.dtype.itemsize * ((n_layers + 1) * layer + heads))


def make_block(dims: Dimensions, device: str, *, moe: bool) -> Block:
    """A layer with random weights."""
    scale, dtype, h = dims.hidden**-0.5, dims.dtype, dims.hidden
    rows = (dims.heads + 2 * dims.kv_heads) * dims.head_dim
    block = Block(
        random_tensor((rows, h), scale, dtype, device),
        random_tensor((h, dims.heads * dims.head_dim), (dims.heads * dims.head_dim) ** -0.5, dtype, device),
        torch.ones(h, dtype=dtype, device=device),
        torch.ones(h, dtype=dtype, device=device),
    )
    if moe:
        block.router = random_tensor((dims.experts, h), scale, dtype, device)
        block.moe = make_layer(dims.experts, dims.expert_width, h, dims.shared_width, dtype, device)
    else:
        block.dense13 = random_tensor((2 * dims.dense_width, h), scale, dtype, device)
        block.dense2 = random_tensor((h, dims.dense_width), dims.dense_width**-0.5, dtype, device)
    return block


class SyntheticModel:
    """Target model of `n_layers` layers. `forward` is capturable when its kernels are."""

    def __init__(self, dims: Dimensions, n_layers: int, device: str) -> None:
        self.dims, self.device = dims, device
        self.blocks = [make_block(dims, device, moe=True) for _ in range(n_layers)]
        self.embedding = random_tensor((dims.vocabulary, dims.hidden), 1.0, dims.dtype, device)
        self.head = random_tensor((dims.vocabulary, dims.hidden), dims.hidden**-0.5, dims.dtype, device)
        self.norm = torch.ones(dims.hidden, dtype=dims.dtype, device=device)

    def session(self, batch: int, per_sequence: int, context: int, n_layers: int) -> Session:
        """Buffers for passes of [batch, per_sequence] tokens over caches of `context` keys.

        The pass's own keys are included.
        """
        return make_session(self.dims, self.device, batch, per_sequence, context, n_layers)

    def hidden(self, session: Session, moe: Kernel, attention: Attention) -> torch.Tensor:
        """Hidden states before the LM head, [B * q, H]. As many layers as the session has caches."""
        x = F.embedding(session.tokens.flatten(), self.embedding)
        for block, cache, choice in zip(self.blocks, session.caches, session.choices, strict=False):
            x = run_block(self.dims, block, x, cache, choice, session.tokens.shape, moe, attention)
        return F.rms_norm(x, (self.dims.hidden,), self.norm, EPSILON)

    def forward(self, session: Session, moe: Kernel, attention: Attention) -> tuple[torch.Tensor, torch.Tensor]:
        """(greedy next tokens [B, q], hidden states [B * q, H])."""
        x = self.hidden(session, moe, attention)
        return F.linear(x, self.head).argmax(dim=-1).view(session.tokens.shape), x


def make_session(dims: Dimensions, device: str, batch: int, per_sequence: int, context: int, n_layers: int) -> Session:
    """Static buffers. Caches are random."""
    tokens = torch.randint(dims.vocabulary, (batch, per_sequence), device=device)
    shape = (batch, dims.kv_heads, context, dims.head_dim)
    caches = [
        (random_tensor(shape, 1.0, dims.dtype, device), random_tensor(shape, 1.0, dims.dtype, device))
        for _ in range(n_layers)
    ]
    choices = [make_choice(batch * per_sequence, dims.active, dims.dtype, device) for _ in range(n_layers)]
    return Session(tokens, caches, choices)


def redraw(dims: Dimensions, session: Session, rng: np.random.Generator) -> float:
    """Fresh routing in every layer and fresh input tokens. Returns the mean touched experts of a layer. [-]"""
    batch, per_sequence = session.tokens.shape
    counts = []
    for choice in session.choices:
        ids = draw_routing(rng, batch, per_sequence, dims.experts, dims.active, dims.routing)
        choice.fill(ids.reshape(batch * per_sequence, -1))
        counts.append(touched(ids))
    session.tokens.copy_(torch.from_numpy(rng.integers(dims.vocabulary, size=(batch, per_sequence))))
    return float(np.mean(counts)) if counts else 0.0


def run_block(
    dims: Dimensions,
    block: Block,
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    choice: Choice | None,
    shape: torch.Size | tuple[int, int],
    moe: Kernel,
    attention: Attention,
) -> torch.Tensor:
    """One layer over x [B * q, H]. Writes this pass's keys and values at the end of the cache."""
    batch, n_queries = shape
    h = F.rms_norm(x, (dims.hidden,), block.norm1, EPSILON)
    q, k, v = _split(dims, F.linear(h, block.qkv), batch, n_queries)
    keys, values = cache
    keys[:, :, -n_queries:].copy_(k.transpose(1, 2))
    values[:, :, -n_queries:].copy_(v.transpose(1, 2))
    mixed = attention(q, keys, values).reshape(batch * n_queries, -1)
    x = x + F.linear(mixed, block.out)
    h = F.rms_norm(x, (dims.hidden,), block.norm2, EPSILON)
    if block.moe is None or block.router is None or choice is None:
        return x + dense(block, h)
    best = F.linear(h, block.router).topk(dims.active, dim=-1).values
    gates = torch.softmax(best, dim=-1, dtype=torch.float32).to(x.dtype)
    return x + run_layer(moe, h, block.moe, replace(choice, gates=gates))


def dense(block: Block, h: torch.Tensor) -> torch.Tensor:
    """Feed-forward of a drafter's dense layer. Raises ValueError for a layer without one."""
    if block.dense13 is None or block.dense2 is None:
        raise ValueError("a layer has neither experts nor a dense feed-forward")
    return swiglu(h, block.dense13, block.dense2)


def _split(dims: Dimensions, qkv: torch.Tensor, batch: int, n_queries: int) -> tuple[torch.Tensor, ...]:
    """[B * q, ...] -> q [B, q, Hq, D] (contiguous), k and v [B, q, Hkv, D]."""
    shaped = qkv.view(batch, n_queries, dims.heads + 2 * dims.kv_heads, dims.head_dim)
    q, k, v = shaped.split([dims.heads, dims.kv_heads, dims.kv_heads], dim=2)
    return q.contiguous(), k, v


def reference_hidden(model: SyntheticModel, session: Session) -> torch.Tensor:
    """Hidden states of the last sequence in float64, [q, H].

    Run after a pass: the caches hold its keys and values. Raises ValueError for a layer without experts.
    """
    dims, n_queries = model.dims, session.tokens.shape[1]
    first = session.tokens.numel() - n_queries
    x = model.embedding[session.tokens[-1]].double()

    def norm(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return value * torch.rsqrt(value.square().mean(-1, keepdim=True) + EPSILON) * weight.double()

    for block, cache, choice in zip(model.blocks, session.caches, session.choices, strict=False):
        rows = block.qkv.shape[0] - 2 * dims.kv_heads * dims.head_dim
        q = (norm(x, block.norm1) @ block.qkv[:rows].double().T).view(1, n_queries, dims.heads, dims.head_dim)
        mixed = attention_reference(q, cache[0][-1:], cache[1][-1:]).reshape(n_queries, -1)
        x = x + mixed @ block.out.double().T
        h = norm(x, block.norm2)
        if block.moe is None or block.router is None:
            raise ValueError("the target's layers have experts")
        best = (h @ block.router.double().T).topk(dims.active, dim=-1).values
        chosen = Choice(choice.ids[first:], choice.ids32[first:], torch.softmax(best, dim=-1))
        x = x + reference(h, block.moe, chosen, list(range(n_queries)))
    return norm(x, model.norm)


class Drafter:
    """Draft loop of K passes. `eagle` (one dense layer, reduced vocabulary) or `mtp` (one MoE layer, full head)."""

    def __init__(self, kind: str, model: SyntheticModel) -> None:
        dims, device = model.dims, model.device
        self.kind, self.model, self.dims = kind, model, dims
        self.join = random_tensor((dims.hidden, 2 * dims.hidden), (2 * dims.hidden) ** -0.5, dims.dtype, device)
        self.block = make_block(dims, device, moe=kind == "mtp")
        if kind == "eagle":
            shape = (dims.draft_vocabulary, dims.hidden)
            self.head = random_tensor(shape, dims.hidden**-0.5, dims.dtype, device)
            self.to_target = torch.randperm(dims.vocabulary, device=device)[: dims.draft_vocabulary]
        else:
            self.head = model.head

    def session(self, batch: int, context: int, n_draft: int) -> Session:
        """Buffers: first token [B, 1], one cache, and for `mtp` one expert choice for each pass."""
        session = make_session(self.dims, self.model.device, batch, 1, context, n_draft if self.kind == "mtp" else 1)
        session.caches = session.caches[:1]
        if self.kind != "mtp":
            session.choices = []
        return session

    def draft(
        self, session: Session, hidden: torch.Tensor, n_draft: int, moe: Kernel, attention: Attention
    ) -> torch.Tensor:
        """Drafted tokens [B, K] from the last token of `session` and the target's hidden state [B, H]."""
        token, drafted = session.tokens[:, 0], []
        for index in range(n_draft):
            x = F.linear(torch.cat([F.embedding(token, self.model.embedding), hidden], dim=-1), self.join)
            choice = session.choices[index] if session.choices else None
            shape = (token.shape[0], 1)
            hidden = run_block(self.dims, self.block, x, session.caches[0], choice, shape, moe, attention)
            best = F.linear(F.rms_norm(hidden, (self.dims.hidden,), self.model.norm, EPSILON), self.head).argmax(dim=-1)
            token = self.to_target[best] if self.kind == "eagle" else best
            drafted.append(token)
        return torch.stack(drafted, dim=1)


def accept(
    target: torch.Tensor, hidden: torch.Tensor, accepted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Synthetic acceptance: `accepted` [B, K] booleans stand for the comparison of draft and target.

    target [B, K+1] are the verify pass's tokens, hidden [B * (K+1), H]. Returns (emitted tokens of each sequence
    [B], its next token [B], its hidden state [B, H]).
    """
    batch, width = target.shape
    count = accepted.to(torch.int64).cumprod(dim=1).sum(dim=1)
    next_token = target.gather(1, count[:, None])[:, 0]
    index = torch.arange(batch, device=target.device) * width + count
    return count + 1, next_token, hidden[index]
