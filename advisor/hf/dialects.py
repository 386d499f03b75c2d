"""How each Hugging Face model_type spells its configuration: what a file leaves unsaid, and what cannot be imported.

Sources: the configuration classes of huggingface/transformers v5.23.0 (src/transformers/models/*/configuration_*.py),
and the config.json files of the checkpoints listed in profiles/models. Keys that mean the same everywhere are read in
`ffn`, `mixers` and `weight_format`; this table holds only what the file itself does not say.
"""

from __future__ import annotations

from typing import Literal

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
    ffn_matrices: Literal[2, 3] = 3
    output_gate: bool = False
    """The query projection carries a gate of the same size."""
    qkv_bias: bool = False
    query_key_norm: bool = False
    """Queries and keys are normalised, where no key of the configuration (use_qk_norm) says so or not."""
    expert_bias: bool = False
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
    "step3p5",
    "step3p7",
    "hy_v3",
    "hy_v4",
    "inkling_text",
    "inkling2_text",
    "laguna",
    "mellum",
    "beam",
    "muse_spark_text",
    "kolibri1",
    "flint",
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
    **dict.fromkeys(("olmoe", "flex_olmo", "olmo2", "olmo3"), _NORMED),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text"), _QWEN
    ),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen4_exp_text"), _GATED),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), _GATED),
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2", "bailing_hybrid"), _BAILING),
    **dict.fromkeys(("cohere2", "cohere2_moe"), _COHERE),
    **dict.fromkeys(("gpt_neox", "phi", "nemotron"), _TWO_MATRICES),
    **dict.fromkeys(("gpt2", "starcoder2", "falcon", "opt", "gpt_bigcode"), _TWO_MATRICES_TIED),
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
    "gemma4_text": Dialect(shared="parallel_mlp", tie_embeddings=True, window="every_nth_full", full_every=6),
    "afmoe": Dialect(output_gate=True, window="every_nth_full", full_every=4),
    "exaone4": Dialect(window="every_nth_full", full_every=4),
    "exaone_moe": Dialect(window="every_nth_full", full_every=4),
    "hunyuan": Dialect(shared="count_only"),
    "hunyuan_v1_moe": Dialect(shared="count_only", default_shared=1),
    "nemotron_h": _TWO_MATRICES,
    "jetmoe": Dialect(
        tie_embeddings=True,
        quirk="its attention heads are themselves experts; only the active ones are counted",
    ),
    "zaya": Dialect(
        tie_embeddings=True,
        quirk="its compressed convolutional attention is imported as plain grouped-query attention",
    ),
    "git": _PLAIN,
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
