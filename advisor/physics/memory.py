"""Does it fit: weights, drafter and KV cache per GPU, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.physics.architecture import (
    Architecture,
    WeightDtypes,
    kv_bytes,
    table_bytes,
    weight_bytes_by_component,
)
from advisor.physics.step import Placement

GIB = 2**30
"""The unit of an accelerator's memory on screen. [B]"""
USABLE_SHARE = 0.9
"""Share of device memory an engine gives to weights and cache; vLLM's gpu_memory_utilization
default."""


@dataclass(frozen=True)
class StatedPool:
    """Tokens that an engine's start-up line states its KV cache to hold, of one data-parallel rank.
    None: not known. [tokens]"""

    plain: int | None = None
    """Of the server without a drafter."""
    with_drafter: int | None = None


NOTHING_STATED = StatedPool()


@dataclass(frozen=True)
class MemoryFit:
    """Bytes per GPU of the instance's fullest GPU, and what fits."""

    weights_bytes: float
    drafter_bytes: float
    kv_bytes_per_sequence: float
    """Cache that each sequence adds: all of its context but a shared prefix."""
    usable_bytes: float
    """Of weights, drafter and cache together: USABLE_SHARE of the memory, or what an engine's line
    says."""
    largest_batch: int
    """Sequences of the whole instance that fit at this context; 0 when the weights alone do not.
    [-]"""
    kv_bytes_per_token: float
    """Cache of one whole context over its tokens, as engines count theirs. [B]"""
    prefix_bytes: float
    """Cache of the shared prefix, once for all sequences of a GPU. [B]"""
    attention_groups: int
    plain: MemoryFit | None = None
    """The same server without its drafter; None: this is it."""

    @property
    def pool_tokens(self) -> int:
        """Tokens of this context that the whole instance's cache holds. [tokens]

        Definition: what weights and drafter leave, over the bytes of a token, on each attention
        group.
        """
        pool = max(self.usable_bytes - self.weights_bytes - self.drafter_bytes, 0.0)
        return _whole(pool, self.kv_bytes_per_token) * self.attention_groups

    def total_bytes(self, batch_size: int) -> float:
        """Bytes per GPU of weights, drafter and the cache of `batch_size` sequences. [B]
        Definition: their sum."""
        cache = self.kv_bytes_per_sequence * batch_size / self.attention_groups
        return self.weights_bytes + self.drafter_bytes + self.prefix_bytes + cache


def memory_fit(
    architecture: Architecture,
    placement: Placement,
    memory_bytes: float,
    context_tokens: int,
    kv_bytes_per_element: float = 2.0,
    drafter: Architecture | None = None,
    prefix_tokens: int = 0,
    stated: StatedPool = NOTHING_STATED,
) -> MemoryFit:
    """Memory of one GPU at `context_tokens` per sequence, with its drafter and without.

    Routed experts are split over tensor and expert parallel ranks, the rest over tensor parallel
    ranks; embeddings likewise. The KV cache splits at most as often as there are KV heads.

    prefix_tokens : tokens that all sequences share, fewer than the context; their cache is held
        once. [-]
    stated : tokens of the cache by the engine's own lines, which then replace the share of the
        memory: either line gives the bytes that the server has for weights and cache.
    """
    tp = placement.tensor_parallel
    weights = weight_bytes_per_gpu(architecture, placement)
    # A head attends to its own keys of every sequence, so it has a cache beside the target's.
    models = (architecture,) if drafter is None else (architecture, drafter)

    def cache(parts: tuple[Architecture, ...], tokens: int) -> float:
        return sum(cache_bytes_per_gpu(part, tp, tokens, kv_bytes_per_element) for part in parts)

    def fit(parts: tuple[Architecture, ...], head: float, usable: float) -> MemoryFit:
        each = cache(parts, context_tokens - prefix_tokens)
        prefix = cache(parts, prefix_tokens) if prefix_tokens else 0.0
        groups = placement.attention_groups
        batch = _whole(usable - weights - head - prefix, each) * groups
        token = cache(parts, context_tokens) / context_tokens
        return MemoryFit(weights, head, each, usable, batch, token, prefix, groups)

    head = weight_bytes_per_gpu(drafter, placement) if drafter is not None else 0.0
    usable = USABLE_SHARE * memory_bytes
    if stated.with_drafter is not None:
        token = cache(models, context_tokens) / context_tokens
        usable = weights + head + stated.with_drafter * token
    plain_usable = usable
    if stated.plain is not None:
        token = cache(models[:1], context_tokens) / context_tokens
        plain_usable = weights + stated.plain * token
    if stated.with_drafter is None:
        usable = plain_usable
    plain = fit(models[:1], 0.0, plain_usable)
    return replace(fit(models, head, usable), plain=plain)


def _whole(room_bytes: float, each_bytes: float) -> int:
    """Whole things of `each_bytes` in some room, at least 0; 0 of those without a size. [-]"""
    if room_bytes <= 0 or each_bytes <= 0:
        return 0
    # Room that is a multiple of a thing by definition must not lose one to rounding.
    return int(np.floor(room_bytes / each_bytes + 1e-9))


def weight_bytes_per_gpu(architecture: Architecture, placement: Placement) -> float:
    """Bytes of weights on one GPU, MTP modules apart. [B]

    Own derivation: routed experts and their copies are split over all expert ranks, the other
    matrices over tensor-parallel ranks, n-gram tables over all GPUs; router and norms are
    replicated.
    """
    tp = placement.tensor_parallel
    split = dict.fromkeys(WeightDtypes.model_fields, tp)
    split["routed"] = placement.expert_parallel * placement.expert_tensor_parallel
    parts = weight_bytes_by_component(architecture)
    if architecture.moe is not None:
        parts["routed"] *= 1.0 + placement.redundant / architecture.moe.n_experts
    tables = table_bytes(architecture) / (tp * placement.attention_groups)
    return sum(size / split.get(name, 1) for name, size in parts.items() if name != "mtp") + tables


def cache_bytes_per_gpu(
    architecture: Architecture,
    tensor_parallel: int,
    context_tokens: int,
    kv_bytes_per_element: float,
) -> float:
    """Bytes of one sequence's cache on one GPU of its attention group, over all layers. [B]

    Own derivation: a layer's cache is split by its KV heads, at most once for each; a recurrent
    state by all tensor-parallel ranks.
    """
    total = 0.0
    for mixer in architecture.mixers:
        layer = architecture.model_copy(update={"mixers": (mixer,)})
        # Ranks beyond the KV heads hold copies: a latent cache has one head, so every rank holds
        # all of it.
        ways = tensor_parallel if mixer.kind == "linear" else min(tensor_parallel, mixer.kv_shards)
        total += float(kv_bytes(layer, context_tokens, 1, kv_bytes_per_element)) / ways
    return total
