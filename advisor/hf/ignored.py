"""What the module names of a quantisation block speak of: parts of the model, layers, attention projections.

A part keeps the 16-bit format when an ignore list names it for every layer, or for at least half of those that have it.
Patterns are matched by the words they contain, never run as regular expressions: a file may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from advisor.architecture import MATRICES

Layers = Mapping[str, frozenset[int]]
"""Numbers of the layers that hold each of MATRICES, and `linear`: those whose attention is linear."""

_LAYER_NUMBER = re.compile(r"layers?\.(\d{1,6})(?:\D|$)")
_WHOLE_LAYER = re.compile(r"layers?\.\d{1,6}[.*]*$")
_PROJECTION = re.compile(r"(?:^|\.)((?:[a-z0-9]{1,12}_){0,4}proj(?:_[a-z0-9]{1,12}){0,3})\*?$")
_ATTENTION_WORDS = ("attn", "attention", "mixer", "mamba", "q_proj", "k_proj", "v_proj", "o_proj")
_NOT_MATRICES = ("norm", "bias", "conv1d", "rotary", "sink", "a_log", "dt_", "vision", "visual", "mtp", "indexer")


def component_of(pattern: str) -> str | None:
    """Component that a module name or pattern speaks of, or None.

    One of routed, shared, attention, dense, embedding, ffn.
    """
    name = _plain(pattern)
    if any(word in name for word in _NOT_MATRICES):
        return None
    if re.search(r"(?:^|[._*])(?:mlp\.|moe\.|ffn\.|mixer\.)?(?:gate|router|shared_expert_gate)\*?$", name):
        return None
    if "shared_expert" in name or "shared_mlp" in name:
        return "shared"
    if "expert" in name:
        return "routed"
    if any(word in name for word in _ATTENTION_WORDS):
        return "attention"
    if "embed" in name or "lm_head" in name:
        return "embedding"
    if re.search(r"(?:mlp|ffn|feed_forward|block_sparse_moe)[.*]*$", name):
        return "ffn"
    if "mlp" in name or "ffn" in name or "feed_forward" in name:
        return "dense"
    return None


def projection_of(pattern: str) -> str | None:
    """Attention projection that a name ends with (`q_a_proj`, `in_proj_qkv`). None where it names none."""
    if component_of(pattern) != "attention":
        return None
    found = _PROJECTION.search(_plain(pattern))
    return found.group(1) if found else None


def is_output_head(pattern: str) -> bool:
    """Whether the name is that of the output head."""
    return _plain(pattern).strip("*.").endswith("lm_head") or _plain(pattern) == "head"


def speaks_of_mtp(names: Iterable[str], n_layers: int) -> bool:
    """Whether some name is that of the multi-token-prediction modules, or of a whole layer beyond the last."""
    return any(
        "mtp" in _plain(name) or (_WHOLE_LAYER.search(_plain(name)) and (_layer(name) or 0) >= n_layers)
        for name in names
    )


def kept_parts(names: Iterable[str], layers: Layers, whole_block: Collection[str]) -> set[str]:
    """Parts that an ignore list keeps in 16 bits. `whole_block`: what a pattern that names all of `mlp` speaks of."""
    everywhere: set[str] = set()
    named: dict[str, set[int]] = {part: set() for part in MATRICES}
    for name in names:
        for part in _parts_of(name, whole_block):
            number = _layer(name)
            if number is None:
                everywhere.add(part)
            elif part in named:
                named[part].add(number)
    return everywhere | {part for part, found in named.items() if _most(found, layers[part])}


def kept_projections(names: Collection[str], layers: Layers) -> set[str]:
    """Attention projections that an ignore list keeps in 16 bits one by one."""
    found: dict[str, set[int]] = {}
    everywhere: set[str] = set()
    for name in names:
        projection, number = projection_of(name), _layer(name)
        if projection is not None and number is None:
            everywhere.add(projection)
        elif projection is not None and number is not None:
            found.setdefault(projection, set()).add(number)
    softmax = layers["attention"] - layers["linear"]
    return everywhere | {
        name for name, numbers in found.items() if _most(numbers, layers["linear"] if _is_linear(name) else softmax)
    }


def names_attention_as_a_whole(names: Iterable[str]) -> bool:
    """Whether some name speaks of attention without naming one projection."""
    return any(component_of(name) == "attention" and projection_of(name) is None for name in names)


def _plain(pattern: str) -> str:
    return pattern.removeprefix("re:").replace("\\", "").lower()


def _layer(name: str) -> int | None:
    found = _LAYER_NUMBER.search(name.replace("\\", ""))
    return int(found.group(1)) if found else None


def _parts_of(name: str, whole_block: Collection[str]) -> Collection[str]:
    if _WHOLE_LAYER.search(_plain(name)) and "mtp" not in _plain(name):
        return MATRICES
    component = component_of(name)
    if component == "ffn":
        return whole_block
    return () if component is None else (component,)


def _is_linear(projection: str) -> bool:
    """Projections of state-space and linear-attention layers: `in_proj`, `in_proj_qkv`, `out_proj`."""
    return projection.startswith("in_proj") or projection == "out_proj"


def _most(named: Collection[int], layers: frozenset[int]) -> bool:
    """Whether at least half of the layers are named. A part without layers is kept where any is."""
    return bool(named) and 2 * len(layers.intersection(named)) >= len(layers)
