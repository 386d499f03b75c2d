"""Long context: speedup and K over batch and context, attention, caches, memory's edge, and where speculation turns."""

from __future__ import annotations

from advisor.context_map.grid import DEFAULT_CONTEXTS, DEFAULT_MAP_BATCHES, ContextMap, context_map
from advisor.context_map.words import (
    acceptance_texts,
    map_document,
    map_table,
    share_table,
    turn_texts,
    turns,
    verdict,
)

__all__ = [
    "DEFAULT_CONTEXTS",
    "DEFAULT_MAP_BATCHES",
    "ContextMap",
    "acceptance_texts",
    "context_map",
    "map_document",
    "map_table",
    "share_table",
    "turn_texts",
    "turns",
    "verdict",
]
