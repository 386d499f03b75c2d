"""What each model_type leaves unsaid in its configuration, what cannot be imported, and how modules are named.

Sources: the configuration classes of huggingface/transformers v5.23.0 and the checkpoints in profiles/models. Patterns
of ignore lists are matched by the words they contain, never run as regular expressions: a file may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from advisor.physics.architecture import MATRICES
from advisor.prediction import Frozen

SharedRule = Literal["count_or_total", "own_width", "one_implicit", "parallel_mlp", "count_only"]
WindowRule = Literal["all", "when_enabled", "alternate", "every_nth_full"]


class Dialect(Frozen):
    """Meaning of a model_type. `ExpertCount x width` keys need no entry: they are found by name."""

    shared: SharedRule = "count_or_total"
    """count_or_total: keys of total width, else count x expert width. own_width: moe_shared_expert_intermediate_size is
    the width of one shared expert. one_implicit: always one, of the expert width. parallel_mlp: a dense MLP of
    intermediate_size always runs beside the experts."""
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
    """Queries and keys are normalised, where no key of the configuration (use_qk_norm) says so or not."""
    expert_bias: bool = False
    mtp: Literal["as the target", "dense", "dense, windowed"] = "as the target"
    """A multi-token-prediction module's block, and its attention, where no key says what it has."""
    quirk: str = ""
    """What the import leaves out; shown as a warning."""


_PLAIN = Dialect()
_TIED = Dialect(tie_embeddings=True)
_NORMED = Dialect(query_key_norm=True)
_QWEN = Dialect(window="when_enabled", query_key_norm=True)
_GATED = Dialect(window="when_enabled", output_gate=True, query_key_norm=True)
_BAILING = Dialect(shared="own_width")
_TWO_MATRICES = Dialect(ffn_matrices=2)
_TWO_MATRICES_TIED = Dialect(ffn_matrices=2, tie_embeddings=True)
_COHERE = Dialect(tie_embeddings=True, window="every_nth_full", full_every=4)
_PLAIN_TYPES = [
    "mixtral",
    "phimoe",
    "granitemoe",
    "granitemoe_swa",
    "granitemoehybrid",
    "granitemoeshared",
    "dbrx",
    "deepseek",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "deepseek_v41",
    "deepseek_v41_text",
    "deepseek_ref",
    "deepseek_ocr2_text",
    "unlimited_ocr_text",
    "kimi_k2",
    "kimi_linear",
    "glm4_moe",
    "glm4_moe_lite",
    "glm4v_moe_text",
    "glm_moe_dsa",
    "dots1",
    "mistral4",
    "mistral_large4_text",
    "solar_open",
    "axk1",
    "axk2",
    "longcat_flash",
    "minimax",
    "minimax_m1",
    "minimax_text_01",
    "minimax_m2",
    "minimax_m3",
    "minimax_m3_vl",
    "minimax_m3_vl_text",
    "jamba",
    "hy_v3",
    "inkling_text",
    "inkling2_text",
    "laguna",
    "mellum",
    "beam",
    "muse_spark_text",
    "kolibri1",
    "flint",
    "glm5_next",
    "glm5_next_text",
    "dots3_note_text",
    "mimo_v2_flash",
    "aria_text",
    "grok1",
    "llama",
    "mistral",
    "ministral",
    "ministral3",
    "phi3",
    "olmo",
    "granite",
    "glm",
    "glm4",
    "internlm2",
    "internlm3",
    "baichuan",
    "yi",
    "seed_oss",
    "smollm3",
    "mimo",
    "exaone",
    "arcee",
    "ernie4_5",
    "hunyuan_v1_dense",
    "helium",
    "bamba",
    "deepseek_vl_v2",
    "bailing_hybrid_text",
]
DIALECTS: dict[str, Dialect] = {
    **dict.fromkeys(_PLAIN_TYPES, _PLAIN),
    **dict.fromkeys(("step3p5", "step3p7"), Dialect(mtp="dense, windowed")),
    "gigachat3_5": Dialect(mtp="dense"),
    "hy_v4": Dialect(output_gate=True),
    **dict.fromkeys(("olmoe", "flex_olmo", "olmo2", "olmo3"), _NORMED),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text"), _QWEN
    ),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen4_exp_text"), _GATED),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), _GATED),
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2", "bailing_hybrid"), _BAILING),
    **dict.fromkeys(("cohere2", "cohere2_moe"), _COHERE),
    **dict.fromkeys(("gpt_neox", "phi", "nemotron", "git"), _TWO_MATRICES),
    **dict.fromkeys(("gpt2", "starcoder2", "falcon", "gpt_bigcode", "biogpt"), _TWO_MATRICES_TIED),
    "apertus": Dialect(ffn_matrices=2, query_key_norm=True),
    "bitnet": Dialect(ffn_matrices=3),
    **dict.fromkeys(("lfm2", "lfm2_moe", "cohere", "ernie4_5_moe", "ernie4_5_vl_moe_text", "ernie4_5_moe_vl"), _TIED),
    "qwen2": Dialect(window="when_enabled", qkv_bias=True),
    "qwen2_moe": Dialect(window="when_enabled", qkv_bias=True),
    "qwen3_vl_moe_text": Dialect(window="when_enabled", tie_embeddings=True, query_key_norm=True),
    "gpt_oss": Dialect(window="alternate", expert_bias=True),
    "openai_privacy_filter": Dialect(expert_bias=True),
    "llama4_text": Dialect(shared="one_implicit"),
    "gemma": _TIED,
    "gemma2": Dialect(tie_embeddings=True, window="alternate"),
    "gemma3_text": Dialect(query_key_norm=True, tie_embeddings=True, window="every_nth_full", full_every=6),
    **dict.fromkeys(
        ("gemma4_text", "gemma4_unified_text"),
        Dialect(shared="parallel_mlp", tie_embeddings=True, window="every_nth_full", full_every=6),
    ),
    "opt": Dialect(ffn_matrices=2, tie_embeddings=True, quirk="its learned position embeddings are not counted"),
    "afmoe": Dialect(output_gate=True, window="every_nth_full", full_every=4),
    "exaone4": Dialect(window="every_nth_full", full_every=4),
    "exaone_moe": Dialect(window="every_nth_full", full_every=4),
    "hunyuan": Dialect(shared="count_only"),
    "hunyuan_v1_moe": Dialect(shared="count_only", default_shared=1),
    "nemotron_h": _TWO_MATRICES,
    "jetmoe": Dialect(
        tie_embeddings=True, quirk="its attention heads are themselves experts; only the active ones are counted"
    ),
    "zaya": Dialect(
        tie_embeddings=True, quirk="its compressed convolutional attention is imported as plain grouped-query attention"
    ),
    "doge": _PLAIN,
}
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        [
            "t5",
            "mt5",
            "umt5",
            "longt5",
            "t5gemma",
            "bart",
            "mbart",
            "pegasus",
            "blenderbot",
            "marian",
            "m2m_100",
            "nllb-moe",
            "switch_transformers",
            "whisper",
            "seamless_m4t",
            "bigbird_pegasus",
            "led",
            "prophetnet",
            "encoder-decoder",
            "fsmt",
        ],
        "it is an encoder-decoder, whose decode step also attends to an encoder",
    ),
    **dict.fromkeys(
        ["diffusion_gemma", "diffusion_gemma_text", "llada", "llada_moe", "dream", "sdar", "sdar_moe", "mdlm"],
        "it is a diffusion language model, which does not decode token by token",
    ),
    **dict.fromkeys(
        [
            "bert",
            "roberta",
            "xlm-roberta",
            "deberta",
            "deberta-v2",
            "distilbert",
            "electra",
            "albert",
            "modernbert",
            "nomic_bert",
            "mpnet",
            *("camembert", "data2vec-text", "ernie", "rembert", "megatron-bert", "xlm-roberta-xl", "xmod", "roc_bert"),
            *("big_bird", "roformer", "bert-generation", "roberta-prelayernorm"),
            "vit",
            "clip",
            "siglip",
            "siglip_vision_model",
            "vitpose_backbone",
            "dots3_note_vision_encoder",
            "wav2vec2",
            "hubert",
            "dinov2",
            "swin",
        ],
        "it is an encoder, which generates no text",
    ),
    **dict.fromkeys(
        [
            "mamba",
            "mamba2",
            "falcon_mamba",
            "rwkv",
            "rwkv5",
            "rwkv6",
            "rwkv7",
            "xlstm",
            "recurrent_gemma",
            "zamba",
            "zamba2",
            "falcon_h1",
        ],
        "its layer structure (no attention, or attention and state-space blocks side by side) is not modelled",
    ),
    "nemotron-nas": "every block has its own heads and width (block_configs), which is not modelled",
}
NESTED_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Blocks that hold the language model of a multimodal file."""


def dialect_of(model_type: str) -> Dialect | None:
    """The dialect of a model_type, or None when the type is unknown."""
    return DIALECTS.get(model_type)


Layers = Mapping[str, frozenset[int]]
"""Numbers of the layers that hold each of MATRICES, and `linear`: those whose attention is linear."""
_LAYER_NUMBER = re.compile(r"layers?\.(\d{1,6})(?:\D|$)")
_WHOLE_LAYER = re.compile(r"layers?\.\d{1,6}[.*]*$")
_PROJECTION = re.compile(r"(?:^|\.)((?:[a-z0-9]{1,12}_){0,4}proj(?:_[a-z0-9]{1,12}){0,3})\*?$")
_ATTENTION_WORDS = ("attn", "attention", "mixer", "mamba", "q_proj", "k_proj", "v_proj", "o_proj")
_NOT_MATRICES = ("norm", "bias", "conv1d", "rotary", "sink", "a_log", "dt_", "vision", "visual", "mtp", "indexer")


def component_of(pattern: str) -> str | None:
    """Component of a module name or pattern: routed, shared, attention, dense, embedding, ffn, or None."""
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
        name
        for name, numbers in found.items()
        if _most(numbers, layers["linear"] if name.startswith("in_proj") or name == "out_proj" else softmax)
    }


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


def _most(named: Collection[int], layers: frozenset[int]) -> bool:
    """Whether at least half of the layers are named. A part without layers is kept where any is."""
    return bool(named) and 2 * len(layers.intersection(named)) >= len(layers)
