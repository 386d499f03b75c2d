"""Does it fit: weights, drafter and KV cache per GPU, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import dataclass

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
class MemoryFit:
    """Bytes per GPU of the instance's fullest GPU, and what fits."""

    weights_bytes: float
    drafter_bytes: float
    kv_bytes_per_sequence: float
    usable_bytes: float
    largest_batch: int
    """Sequences of the whole instance that fit at this context; 0 when the weights alone do not.
    [-]"""

    def total_bytes(self, batch_size: int, attention_groups: int = 1) -> float:
        """Bytes per GPU of weights, drafter and the cache of `batch_size` sequences. [B]
        Definition: their sum."""
        return (
            self.weights_bytes
            + self.drafter_bytes
            + self.kv_bytes_per_sequence * batch_size / attention_groups
        )


def memory_fit(
    architecture: Architecture,
    placement: Placement,
    memory_bytes: float,
    context_tokens: int,
    kv_bytes_per_element: float = 2.0,
    drafter: Architecture | None = None,
) -> MemoryFit:
    """Memory of one GPU at `context_tokens` per sequence.

    Routed experts are split over tensor and expert parallel ranks, the rest over tensor parallel
    ranks; embeddings likewise. The KV cache splits at most as often as there are KV heads.
    """
    weights = weight_bytes_per_gpu(architecture, placement)
    head = weight_bytes_per_gpu(drafter, placement) if drafter is not None else 0.0
    tp = placement.tensor_parallel
    cache = cache_bytes_per_gpu(architecture, tp, context_tokens, kv_bytes_per_element)
    if drafter is not None:
        # A head attends to its own keys of every sequence, so it has a cache beside the target's.
        cache += cache_bytes_per_gpu(drafter, tp, context_tokens, kv_bytes_per_element)
    usable = USABLE_SHARE * memory_bytes
    free = usable - weights - head
    batch = (
        int(np.floor(free / cache)) * placement.attention_groups if free > 0 and cache > 0 else 0
    )
    return MemoryFit(weights, head, cache, usable, batch)


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
