"""Steps of a synthetic MoE transformer: decoding and verification. Whole rounds: those of an
engine.

Dimensions are real, weights random. Left out on purpose, since engines fuse or hide them: rotary
embedding, sampling other than argmax, paging of the KV cache. The router is computed, but which
experts a token uses is drawn (routing_draw), because random weights would route unlike any trained
model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.kernels_basic import Attention, attention_kernels, attention_reference
from advisor.profiling.kernels_moe import (
    Choice,
    Kernel,
    MoeLayer,
    available_kernels,
    checked_error,
    make_choice,
    make_layer,
    random_tensor,
    reference,
    run_layer,
)
from advisor.profiling.plan import Block as PlanBlock
from advisor.profiling.routing_draw import Routing, draw_routing, touched
from advisor.profiling.timing import (
    Case,
    Context,
    brief_seconds,
    capture,
    measured_rows,
    pass_columns,
    tried,
)

EPSILON = 1e-6
"""Added to the mean square in every normalisation. [-]"""


@dataclass
class Block:
    """Transformer layer: attention weights, and a MoE layer with its router."""

    qkv: torch.Tensor
    out: torch.Tensor
    norm1: torch.Tensor
    norm2: torch.Tensor
    router: torch.Tensor
    moe: MoeLayer


@dataclass
class Session:
    """Static buffers of one (batch, tokens per sequence). Input tokens, KV caches [B, Hkv, C, D],
    expert choices."""

    tokens: torch.Tensor
    caches: list[tuple[torch.Tensor, torch.Tensor]]
    choices: list[Choice]


class Dimensions:
    """Reads a block's params. All sizes as in the model's config. [-]"""

    def __init__(self, params: dict[str, Any]) -> None:
        self.hidden = params["hidden_size"]
        self.heads = params["n_heads"]
        self.kv_heads = params["n_kv_heads"]
        self.head_dim = params["head_dim"]
        self.vocabulary = params["vocab_size"]
        self.experts = params["n_experts"]
        self.active = params["n_active"]
        self.expert_width = params["expert_width"]
        self.shared_width = params["shared_width"]
        self.dtype = getattr(torch, params["dtype"])
        self.routing = Routing(**params["routing"])

    def model_bytes(self, n_layers: int) -> float:
        """Weights of layers, embedding and head. [bytes]"""
        layer = 3 * self.hidden * (self.experts * self.expert_width + self.shared_width)
        return float(self.dtype.itemsize * (n_layers * layer + 2 * self.vocabulary * self.hidden))


def make_block(dims: Dimensions, device: str) -> Block:
    """A layer with random weights."""
    scale = dims.hidden**-0.5
    dtype = dims.dtype
    h = dims.hidden
    rows = (dims.heads + 2 * dims.kv_heads) * dims.head_dim
    width = dims.heads * dims.head_dim
    return Block(
        random_tensor((rows, h), scale, dtype, device),
        random_tensor((h, width), width**-0.5, dtype, device),
        torch.ones(h, dtype=dtype, device=device),
        torch.ones(h, dtype=dtype, device=device),
        random_tensor((dims.experts, h), scale, dtype, device),
        make_layer(dims.experts, dims.expert_width, h, dims.shared_width, dtype, device),
    )


class SyntheticModel:
    """Target model of `n_layers` layers. `forward` is capturable when its kernels are."""

    def __init__(self, dims: Dimensions, n_layers: int, device: str) -> None:
        self.dims = dims
        self.device = device
        self.blocks = [make_block(dims, device) for _ in range(n_layers)]
        self.embedding = random_tensor((dims.vocabulary, dims.hidden), 1.0, dims.dtype, device)
        self.head = random_tensor(
            (dims.vocabulary, dims.hidden), dims.hidden**-0.5, dims.dtype, device
        )
        self.norm = torch.ones(dims.hidden, dtype=dims.dtype, device=device)

    def session(self, batch: int, per_sequence: int, context: int, n_layers: int) -> Session:
        """Buffers for passes of [batch, per_sequence] tokens over caches of `context` keys, own
        ones included."""
        dims = self.dims
        device = self.device
        shape = (batch, dims.kv_heads, context, dims.head_dim)
        caches = [
            (
                random_tensor(shape, 1.0, dims.dtype, device),
                random_tensor(shape, 1.0, dims.dtype, device),
            )
            for _ in range(n_layers)
        ]
        choices = [
            make_choice(batch * per_sequence, dims.active, dims.dtype, device)
            for _ in range(n_layers)
        ]
        tokens = torch.randint(dims.vocabulary, (batch, per_sequence), device=device)
        return Session(tokens, caches, choices)

    def hidden(self, session: Session, moe: Kernel, attention: Attention) -> torch.Tensor:
        """Hidden states before the LM head, [B * q, H]. As many layers as the session has
        caches."""
        x = F.embedding(session.tokens.flatten(), self.embedding)
        for block, cache, choice in zip(self.blocks, session.caches, session.choices, strict=False):
            x = run_block(self.dims, block, x, cache, choice, session.tokens.shape, moe, attention)
        return F.rms_norm(x, (self.dims.hidden,), self.norm, EPSILON)

    def forward(
        self, session: Session, moe: Kernel, attention: Attention
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(greedy next tokens [B, q], hidden states [B * q, H])."""
        x = self.hidden(session, moe, attention)
        return F.linear(x, self.head).argmax(dim=-1).view(session.tokens.shape), x


def redraw(dims: Dimensions, session: Session, rng: np.random.Generator) -> float:
    """Fresh routing in every layer and fresh input tokens. Returns the mean touched experts of a
    layer. [-]"""
    batch, per_sequence = session.tokens.shape
    counts = []
    for choice in session.choices:
        ids = draw_routing(rng, batch, per_sequence, dims.experts, dims.active, dims.routing)
        choice.fill(ids.reshape(batch * per_sequence, -1))
        counts.append(touched(ids))
    session.tokens.copy_(
        torch.from_numpy(rng.integers(dims.vocabulary, size=(batch, per_sequence)))
    )
    return float(np.mean(counts)) if counts else 0.0


def run_block(
    dims: Dimensions,
    block: Block,
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    choice: Choice,
    shape: torch.Size | tuple[int, int],
    moe: Kernel,
    attention: Attention,
) -> torch.Tensor:
    """One layer over x [B * q, H]. Writes this pass's keys and values at the end of the cache."""
    batch, n_queries = shape
    h = F.rms_norm(x, (dims.hidden,), block.norm1, EPSILON)
    qkv = F.linear(h, block.qkv).view(
        batch, n_queries, dims.heads + 2 * dims.kv_heads, dims.head_dim
    )
    q, k, v = qkv.split([dims.heads, dims.kv_heads, dims.kv_heads], dim=2)
    keys, values = cache
    keys[:, :, -n_queries:].copy_(k.transpose(1, 2))
    values[:, :, -n_queries:].copy_(v.transpose(1, 2))
    mixed = attention(q.contiguous(), keys, values).reshape(batch * n_queries, -1)
    x = x + F.linear(mixed, block.out)
    h = F.rms_norm(x, (dims.hidden,), block.norm2, EPSILON)
    best = F.linear(h, block.router).topk(dims.active, dim=-1).values
    gates = torch.softmax(best, dim=-1, dtype=torch.float32).to(x.dtype)
    return x + run_layer(moe, h, block.moe, replace(choice, gates=gates))


def reference_hidden(model: SyntheticModel, session: Session) -> torch.Tensor:
    """Hidden states of a pass's last sequence in float64, [q, H]."""
    dims = model.dims
    n_queries = session.tokens.shape[1]
    first = session.tokens.numel() - n_queries
    x = model.embedding[session.tokens[-1]].double()

    def norm(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (
            value * torch.rsqrt(value.square().mean(-1, keepdim=True) + EPSILON) * weight.double()
        )

    for block, cache, choice in zip(model.blocks, session.caches, session.choices, strict=False):
        rows = block.qkv.shape[0] - 2 * dims.kv_heads * dims.head_dim
        q = (norm(x, block.norm1) @ block.qkv[:rows].double().T).view(
            1, n_queries, dims.heads, dims.head_dim
        )
        mixed = attention_reference(q, cache[0][-1:], cache[1][-1:]).reshape(n_queries, -1)
        x = x + mixed @ block.out.double().T
        h = norm(x, block.norm2)
        best = (h @ block.router.double().T).topk(dims.active, dim=-1).values
        chosen = Choice(choice.ids[first:], choice.ids32[first:], torch.softmax(best, dim=-1))
        x = x + reference(h, block.moe, chosen, list(range(n_queries)))
    return norm(x, model.norm)


STEP_TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}
"""Whole-pass tolerance: rounding of up to eight layers adds up, so three times the single layer's
or more. [-]"""


class Stage:
    """A synthetic model on a device with the kernels that were fastest for it."""

    def __init__(
        self,
        block: PlanBlock,
        context: Context,
        n_layers: int,
        probe: tuple[int, int] | None = None,
    ) -> None:
        self.block = block
        self.context = context
        self.dims = Dimensions(block.params)
        context.require_bytes(1.4 * self.dims.model_bytes(n_layers), block.name)
        self.model = SyntheticModel(self.dims, n_layers, context.torch_device)
        self.n_layers = n_layers
        self.rows: list[dict[str, Any]] = []
        if probe is None:  # kernels are compared at the middle batch and the most queries
            batches = sorted(block.params["batches"])
            probe = batches[len(batches) // 2], max(block.params["queries"])
        self.moe_name, self.moe, self.attention_name, self.attention = self._choose(*probe)

    @property
    def kernel(self) -> str:
        """Name for the result's kernel column."""
        return f"moe:{self.moe_name}+attention:{self.attention_name}"

    def _choose(self, batch: int, queries: int) -> tuple[str, Kernel, str, Attention]:
        """The fastest right kernels for a whole pass of `queries` tokens of each of `batch`
        sequences."""
        session = self.model.session(
            batch, queries, self.block.params["context"], min(2, self.n_layers)
        )
        dim = self.dims.head_dim
        attentions = attention_kernels(self.context, power_of_two=dim & (dim - 1) == 0)
        usable = {
            name: kernel for name, kernel in attentions.items() if not isinstance(kernel, str)
        }
        candidates = sorted(
            available_kernels(self.context).items(),
            key=lambda named_kernel: named_kernel[0] == "expert_loop",
        )
        moes = {n: k for n, k in candidates if not isinstance(k, str)}
        first = usable.get("two_products") or next(iter(usable.values()))
        moe_name = self._best({n: (k, first) for n, k in moes.items()}, session)
        attention_name = self._best({n: (moes[moe_name], a) for n, a in usable.items()}, session)
        return moe_name, moes[moe_name], attention_name, usable[attention_name]

    def _best(self, candidates: dict[str, tuple[Kernel, Attention]], session: Session) -> str:
        times: dict[str, float] = {}
        for name, (moe, attention) in candidates.items():
            if times and name == "expert_loop" and self.context.accelerator:
                break  # cannot be captured, so it cannot be the fastest
            columns = {"block": self.block.name, "op": self.block.op, "kernel": name}
            work = partial(self._pass_seconds, name, moe, attention, session)
            seconds = tried(work, columns, self.rows, self.context, kernel=name)
            if seconds is not None:
                times[name] = seconds
        if not times:
            raise RuntimeError("no kernel gave a right whole pass: " + str(self.rows[-1]["notes"]))
        return min(times, key=lambda name: times[name])

    def _pass_seconds(
        self, name: str, moe: Kernel, attention: Attention, session: Session
    ) -> float:
        self.check(session, moe, attention)
        forward = partial(self.model.forward, session, moe, attention)
        call, _, _ = capture(forward, self.context, wanted=name != "expert_loop")
        return brief_seconds(
            Case({}, call, lambda rng: redraw(self.dims, session, rng)), self.context
        )

    def capture(self, call: Callable[[], Any]) -> tuple[Callable[[], Any], str, str]:
        """Capture a call that uses the chosen kernels, by `timing.capture`."""
        return capture(call, self.context, wanted=self.moe_name != "expert_loop")

    def check_chosen(self, session: Session) -> float:
        """Check the chosen kernels, under the time limit for compiling, as they may be compiled for
        this shape."""
        self.context.on_kernel(self.moe_name)
        try:
            return self.check(session, self.moe, self.attention)
        finally:
            self.context.on_kernel("")

    def check(self, session: Session, moe: Kernel, attention: Attention) -> float:
        """Relative error of a whole pass against float64, last sequence. Raises ValueError when too
        large."""
        redraw(self.dims, session, self.context.rng)
        hidden = self.model.hidden(session, moe, attention)
        n_queries = session.tokens.shape[1]
        expected = reference_hidden(self.model, session)
        tolerance = STEP_TOLERANCE[self.block.params["dtype"]]
        return checked_error(hidden[-n_queries:], expected, tolerance, "output of a whole pass")

    def columns(self, op: str, batch: int, n_queries: int, n_layers: int) -> dict[str, Any]:
        """Identity of a result row."""
        params = self.block.params
        names = (
            "n_experts",
            "n_active",
            "expert_width",
            "shared_width",
            "hidden_size",
            "n_heads",
            "n_kv_heads",
        )
        columns = pass_columns(
            self.block.name, op, self.kernel, batch, n_queries, params["routing"]
        )
        columns |= {"context_tokens": params["context"], "n_layers": n_layers}
        return {
            name: params[name] for name in (*names, "head_dim", "vocab_size", "dtype", "like")
        } | columns

    def account(
        self, batch: int, n_queries: int, n_layers: int, touched: float | None
    ) -> tuple[float, float]:
        """(bytes, flops) of a pass: weights of layers and head once, KV caches once. Small
        activations left out."""
        d = self.dims
        tokens = batch * n_queries
        size = self.dims.dtype.itemsize
        context = self.block.params["context"]
        attention = d.hidden * d.head_dim * (2 * d.heads + 2 * d.kv_heads)
        routed = 3 * d.hidden * d.expert_width
        fixed = attention + 3 * d.hidden * d.shared_width + d.experts * d.hidden
        head = d.vocabulary * d.hidden
        kv = 2 * batch * context * d.kv_heads * d.head_dim
        volume = size * (n_layers * (fixed + routed * (touched or 0.0) + kv) + head)
        core = 2 * context * d.heads * d.head_dim
        work = 2 * tokens * (n_layers * (fixed + routed * d.active + core) + head)
        return float(volume), float(work)


def measure_steps(block: PlanBlock, context: Context) -> list[dict[str, Any]]:
    """Measure decode_step (one token a sequence) and verify_step (more). Two depths give a layer's
    time."""
    params = block.params
    stage = Stage(block, context, max(params["n_layers"]))
    rows: list[dict[str, Any]] = []
    for batch in params["batches"]:  # one batch at a time: its caches fit, then go
        cases: list[Case] = []
        for n_queries in params["queries"]:
            for n_layers in params["n_layers"]:
                columns = stage.columns("verify_step", batch, n_queries, n_layers)
                case = tried(
                    partial(_step_case, stage, batch, n_queries, n_layers), columns, rows, context
                )
                cases += [case] if case else []
        rows += measured_rows(cases, context)
    return rows + stage.rows


def _step_case(stage: Stage, batch: int, n_queries: int, n_layers: int) -> Case:
    model = stage.model
    session = model.session(batch, n_queries, stage.block.params["context"], n_layers)
    error = stage.check_chosen(session)
    call, mode, reason = stage.capture(lambda: model.forward(session, stage.moe, stage.attention))
    columns = stage.columns(
        "decode_step" if n_queries == 1 else "verify_step", batch, n_queries, n_layers
    )
    columns |= {"mode": mode, "checked_error": error}
    real = stage.block.params["real_n_layers"]
    note = (
        f"{n_layers} of {real} layers, random weights"
        if real
        else "synthetic dimensions, random weights"
    )
    account = partial(stage.account, batch, n_queries, n_layers)
    return Case(
        columns, call, partial(redraw, stage.dims, session), account=account, notes=[note, reason]
    )
