"""In which formats a model's weights and cache are served: as stored, as published, or as chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor.catalog.models import load_model, model_ids, published_architecture, stored_format
from advisor.physics.architecture import MATRICES, Architecture, CacheDtype, WeightDtype, parameter_counts, with_dtype
from advisor.physics.hardware import Hardware
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

ServedCache = Literal["bf16", "fp8"]
CACHE_BYTES: dict[ServedCache, float] = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of one element of the cache. [B]"""
_PER_TENSOR: frozenset[WeightDtype] = frozenset({"fp8", "nvfp4"})
"""ModelOpt's formats: TensorRT-LLM serves its releases with an fp8 cache. Releases in blocks keep 16 bits."""
_NAMES = {"routed": "routed experts", "shared": "shared experts"}
"""Of a component's weights in a sentence, where that is not its own."""


def served_weights(architecture: Architecture, scenario: Scenario) -> Architecture:
    """Architecture with the weights that the scenario asks for.

    A checkpoint that is in the format already is taken as it is stored. A model with the dimensions of a shipped one
    that is published in the format is taken as published: parts that the release leaves in 16 bits stay so, and a
    warning names them. Other models get the format in every matrix.
    """
    requested = scenario.weight_dtype
    if requested is not None:
        architecture = _as_published(architecture, requested) or with_dtype(architecture, requested)
    if scenario.expert_dtype is not None and architecture.moe is not None:
        dtypes = architecture.dtypes.model_copy(update={"routed": scenario.expert_dtype})
        architecture = architecture.model_copy(update={"dtypes": dtypes})
    return architecture


def _as_published(architecture: Architecture, requested: WeightDtype) -> Architecture | None:
    """The model as a release in `wanted` stores it. None where none is known."""
    shipped = load_model(architecture.id) if architecture.id in model_ids() else None
    as_stored = stored_format(architecture) in ((requested, "fp8_block") if requested == "fp8" else (requested,))
    if as_stored and (shipped is None or architecture.dtypes != shipped.dtypes):
        return architecture  # the user's own quantisation
    try:
        published = published_architecture(architecture.id, requested)
    except AdvisorError:
        return None
    dtypes, counts = published.dtypes, parameter_counts(architecture)
    used = [part for part in MATRICES if getattr(counts, part)]
    in_bf16 = [_NAMES.get(part, part) for part in used if getattr(dtypes, part) == "bf16"]
    blocks = requested == "fp8" and "fp8_block" in {getattr(dtypes, part) for part in used}
    notes = (
        [f"Published in fp8 with scales for blocks of 128 x 128: {architecture.name} is costed so."] if blocks else []
    )
    if in_bf16 and requested != "bf16":
        notes.append(f"As published in {requested}, {architecture.name} keeps its {' and '.join(in_bf16)} in bf16.")
    as_released = {name: getattr(published, name) for name in ("dtypes", "kv_cache_dtype", "activation_scheme")}
    sources = tuple(dict.fromkeys((*architecture.sources, *published.sources)))
    warnings = (*architecture.warnings, *notes)
    return architecture.model_copy(update={**as_released, "sources": sources, "warnings": warnings})


@dataclass(frozen=True)
class CacheFormat:
    """The format of the KV cache, and why it is that one."""

    dtype: ServedCache
    because: str

    @property
    def bytes_per_element(self) -> float:
        """Bytes of one element. [B]"""
        return CACHE_BYTES[self.dtype]

    @property
    def sentence(self) -> str:
        """The format and its reason, for a reader."""
        return f"KV cache in {self.dtype}: {self.because}"


def served_cache(architecture: Architecture, scenario: Scenario, hardware: Hardware) -> CacheFormat:
    """Cache that the scenario names, or the engine's own choice for this checkpoint with `auto`.

    As the checkpoint says, where it does. Else fp8 where TensorRT-LLM serves weights in fp8 or nvfp4 (its recipes do;
    no server states it) or SGLang sparse attention with token-level index on Blackwell; else bf16.
    """
    if scenario.kv_dtype != "auto":
        return CacheFormat(scenario.kv_dtype, "as chosen")
    of_checkpoint: CacheDtype | None = architecture.kv_cache_dtype
    if of_checkpoint == "fp8" or of_checkpoint == "bf16":
        return CacheFormat(of_checkpoint, "as the checkpoint says")
    if of_checkpoint is not None:
        return CacheFormat("fp8", f"the checkpoint says {of_checkpoint}, which is not modelled; fp8 stands in")
    # Right by outcome on the plain-decode check, stated by no server of it (decision 0009).
    if scenario.engine == "trtllm" and stored_format(architecture) in _PER_TENSOR:
        return CacheFormat("fp8", "TensorRT-LLM's choice for fp8 and nvfp4 weights")
    indexed = any(m.kind == "sparse" and m.compression == 1.0 and m.kv_shards == 1 for m in architecture.mixers)
    if scenario.engine == "sglang" and indexed and hardware.generation.startswith("Blackwell"):
        return CacheFormat("fp8", "SGLang's choice for sparse attention on Blackwell")
    return CacheFormat("bf16", "the checkpoint names none")
