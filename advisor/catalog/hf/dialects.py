"""What each model_type leaves unsaid in its configuration, what cannot be imported, and how modules
are named.

Patterns of ignore lists are matched by the words they contain, never run as regular expressions: a
file may hold any text.
"""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from advisor.physics.architecture import MATRICES, WeightDtype
from advisor.prediction import Frozen
from advisor.profiles import PROFILES, read_profile

SharedRule = Literal["count_or_total", "own_width", "one_implicit", "parallel_mlp", "count_only"]
LayerKind = Literal["full", "sliding", "linear", "csa", "hca", "none"]
WindowRule = Literal["all", "when_enabled", "alternate", "every_nth_full"]


class Dialect(Frozen):
    """Meaning of a model_type. `ExpertCount x width` keys need no entry: they are found by name."""

    shared: SharedRule = "count_or_total"
    """count_or_total: keys of total width, else count x expert width. own_width:
    moe_shared_expert_intermediate_size is the width of one shared expert. one_implicit: always one,
    of the expert width. parallel_mlp: a dense MLP of intermediate_size always runs beside the
    experts."""
    default_shared: int = 0
    """Shared experts where the count key is absent."""
    tie_embeddings: bool = False
    """Where tie_word_embeddings is missing or null."""
    window: WindowRule = "all"
    """Which layers a sliding_window covers when no per-layer list says so."""
    full_every: int = 0
    """For every_nth_full: each so-manieth layer sees the whole context."""
    ffn_matrices: Literal[2, 3] | None = None
    """2: up and down; 3: gated; None: gated unless the activation is a squared ReLU."""
    output_gate: bool = False
    """The query projection carries a gate of the same size."""
    qkv_bias: bool = False
    query_key_norm: bool = False
    """Queries and keys are normalised, where no key of the configuration (use_qk_norm) says so or
    not."""
    attention_sinks: bool = False
    expert_bias: bool = False
    mtp: Literal["as the target", "dense", "dense, windowed"] = "as the target"
    """A multi-token-prediction module's block, and its attention, where no key says what it has."""
    quirk: str = ""
    """What the import leaves out; shown as a warning."""


class _Types(Dialect):
    types: tuple[str, ...]


class _Refused(Frozen):
    types: tuple[str, ...]
    why: str


class ModelTypes(Frozen):
    """profiles/model_types.yaml, which says what each list is."""

    dialects: tuple[_Types, ...]
    refused: tuple[_Refused, ...]
    layer_names: dict[LayerKind, tuple[str, ...]]
    width_is_intermediate: frozenset[str]
    own_head_dim: tuple[str, ...]
    dense_start: tuple[str, ...]
    choice_of_experts: frozenset[str]
    placement: frozenset[str]
    of_quantisation: frozenset[str]
    always_routed: frozenset[str]
    format_words: dict[str, WeightDtype]
    guessed_words: dict[str, str]

    def routes(self, model_type: str) -> bool:
        """Whether every published model of a type has routed experts."""
        return "moe" in model_type or model_type in self.always_routed


@functools.cache
def model_types() -> ModelTypes:
    """The file, read once. Raises AdvisorError where it is missing or damaged."""
    return read_profile(PROFILES / "model_types.yaml", ModelTypes)


@functools.cache
def dialects() -> dict[str, Dialect]:
    """Dialects by model_type."""
    return {name: dialect for dialect in model_types().dialects for name in dialect.types}


@functools.cache
def layer_names() -> dict[str, LayerKind]:
    """Kinds of layers by their names in lists of layers."""
    return {name: kind for kind, names in model_types().layer_names.items() for name in names}


@functools.cache
def refused() -> dict[str, str]:
    """Reasons why a type cannot be imported, by model_type."""
    return {name: refusal.why for refusal in model_types().refused for name in refusal.types}


NESTED_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Blocks that hold the language model of a multimodal file."""


Layers = Mapping[str, frozenset[int]]
"""Numbers of the layers that hold each of MATRICES, and `linear`: those whose attention is
linear."""
_LAYER_NUMBER = re.compile(r"layers?\.(\d{1,6})(?:\D|$)")
_WHOLE_LAYER = re.compile(r"layers?\.\d{1,6}[.*]*$")
_PROJECTION = re.compile(r"(?:^|\.)((?:[a-z0-9]{1,12}_){0,4}proj(?:_[a-z0-9]{1,12}){0,3})\*?$")
_ATTENTION_WORDS = ("attn", "attention", "mixer", "mamba", "q_proj", "k_proj", "v_proj", "o_proj")
_NOT_MATRICES = (
    "norm",
    "bias",
    "conv1d",
    "rotary",
    "sink",
    "a_log",
    "dt_",
    "vision",
    "visual",
    "mtp",
    "indexer",
)


def component_of(pattern: str) -> str | None:
    """Component of a module name or pattern: routed, shared, attention, dense, embedding, ffn, or
    None."""
    name = _plain(pattern)
    if any(word in name for word in _NOT_MATRICES):
        return None
    if re.search(
        r"(?:^|[._*])(?:mlp\.|moe\.|ffn\.|mixer\.)?(?:gate|router|shared_expert_gate)\*?$", name
    ):
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
    """Attention projection that a name ends with (`q_a_proj`, `in_proj_qkv`). None where it names
    none."""
    if component_of(pattern) != "attention":
        return None
    match = _PROJECTION.search(_plain(pattern))
    return match.group(1) if match else None


def is_output_head(pattern: str) -> bool:
    """Whether the name is that of the output head."""
    return _plain(pattern).strip("*.").endswith("lm_head") or _plain(pattern) == "head"


def speaks_of_mtp(names: Iterable[str], n_layers: int) -> bool:
    """Whether some name is that of the multi-token-prediction modules, or of a whole layer beyond
    the last."""
    return any(
        "mtp" in _plain(name)
        or (_WHOLE_LAYER.search(_plain(name)) and (_layer(name) or 0) >= n_layers)
        for name in names
    )


def kept_parts(names: Iterable[str], layers: Layers, whole_block: Collection[str]) -> set[str]:
    """Parts that an ignore list keeps in 16 bits. `whole_block`: what a pattern that names all of
    `mlp` speaks of."""
    everywhere: set[str] = set()
    layers_of_part: dict[str, set[int]] = {part: set() for part in MATRICES}
    for name in names:
        for part in _parts_of(name, whole_block):
            number = _layer(name)
            if number is None:
                everywhere.add(part)
            elif part in layers_of_part:
                layers_of_part[part].add(number)
    return everywhere | {
        part for part, numbers in layers_of_part.items() if _most(numbers, layers[part])
    }


def kept_projections(names: Collection[str], layers: Layers) -> set[str]:
    """Attention projections that an ignore list keeps in 16 bits one by one."""
    layers_of_projection: dict[str, set[int]] = {}
    everywhere: set[str] = set()
    for name in names:
        projection = projection_of(name)
        number = _layer(name)
        if projection is not None and number is None:
            everywhere.add(projection)
        elif projection is not None and number is not None:
            layers_of_projection.setdefault(projection, set()).add(number)
    softmax = layers["attention"] - layers["linear"]
    return everywhere | {
        name
        for name, numbers in layers_of_projection.items()
        if _most(
            numbers,
            layers["linear"] if name.startswith("in_proj") or name == "out_proj" else softmax,
        )
    }


def _plain(pattern: str) -> str:
    return pattern.removeprefix("re:").replace("\\", "").lower()


def _layer(name: str) -> int | None:
    match = _LAYER_NUMBER.search(name.replace("\\", ""))
    return int(match.group(1)) if match else None


def _parts_of(name: str, whole_block: Collection[str]) -> Collection[str]:
    if _WHOLE_LAYER.search(_plain(name)) and "mtp" not in _plain(name):
        return MATRICES
    component = component_of(name)
    if component == "ffn":
        return whole_block
    return () if component is None else (component,)


def _most(named: Collection[int], layers: frozenset[int]) -> bool:
    """Whether at least half of the layers are named. A part without layers is kept where any is."""
    return bool(named) and 2 * len(layers.intersection(named)) >= len(layers)
