"""Drafters for a model that was never trained: a made-up head, random tokens at no cost, or what the engine has."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.profiling.device import ProfilingError
from advisor.profiling.engine.plan import Plan

NGRAM_WORDS = 8
"""Vocabulary left to sampling with drafts from n-grams: else made-up weights never repeat themselves. [tokens]"""
HEAD_VOCABULARY = 32_000
"""Rows of an EAGLE-3 head's own LM head, the usual size. (profiles/drafters/eagle3.yaml) [tokens]"""
HEAD_WIDTH = 4
"""Intermediate over hidden size of the head's dense layer, the order of released heads. [-]"""
LEAST_LAYERS = 8
"""Layers from which the three that a head reads by default, 2, L/2 and L - 3, differ; for fewer, others serve. [-]"""
ARCHITECTURES = {
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
"""Class that vLLM runs by model_type, for a config.json that names none."""


class RandomDrafter:
    """A drafter at no cost: K random tokens a sequence (vLLM's `custom_class`)."""

    n_draft = 0
    """K of the cell in hand, set between cells. [-]"""

    def __init__(self, vllm_config: Any) -> None:
        self.rng = np.random.default_rng(0)
        self.vocabulary = int(vllm_config.model_config.get_vocab_size())

    def load_model(self, *_: Any, **__: Any) -> None:
        """Nothing to load."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Drafts by sequence, none before its prompt is finished."""
        drafts = self.rng.integers(0, self.vocabulary, (len(sampled_token_ids), self.n_draft)).tolist()
        return [draft if tokens else [] for draft, tokens in zip(drafts, sampled_token_ids, strict=True)]


def speculative_config(plan: Plan, head: str) -> dict[str, Any] | None:
    """The engine's speculative configuration, a table over all batches: K is switched between cells."""
    most = max(plan.drafts)
    if plan.drafter == "none" or most == 0:
        return None
    config: dict[str, Any] = {"num_speculative_tokens": most}
    config["num_speculative_tokens_per_batch_size"] = [[1, max(plan.batches), most]]
    methods: dict[str, dict[str, Any]] = {
        "random": {"method": "custom_class", "model": f"{__name__}.RandomDrafter"},
        "eagle3": {"method": "eagle3", "model": head},
        "mtp": {"method": "mtp"},
        "ngram": {"method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 1},
    }
    config |= methods.get(plan.drafter, {"model": plan.drafter.removeprefix("draft:")})
    if plan.accepted_length is not None:
        config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": plan.accepted_length}
    return config


def model_config(plan: Plan) -> dict[str, Any]:
    """The config.json that the engine loads: the plan's, and fields that a design leaves out.

    Raises ProfilingError for a model type that no engine here runs.
    """
    config = dict(plan.model)
    if not config.get("architectures"):
        kind = str(config.get("model_type", ""))
        if kind not in ARCHITECTURES:
            raise ProfilingError(
                f"{plan.name}: config.json names no `architectures`, and model_type {kind!r} is not one of "
                f"{', '.join(ARCHITECTURES)}; add the engine's class to it"
            )
        config["architectures"] = [ARCHITECTURES[kind]]
    config.setdefault("torch_dtype", "bfloat16")
    config.setdefault("max_position_embeddings", 131_072)
    if plan.drafter == "mtp" and not (config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers")):
        config["num_nextn_predict_layers"] = 1
    return config


def head_config(plan: Plan) -> dict[str, Any]:
    """The config.json of an EAGLE-3 head: one dense layer of the model's hidden size, fewer words.

    Raises ProfilingError for a model whose sizes it cannot take.
    """
    target = plan.model.get("text_config") or plan.model
    hidden, heads = int(target["hidden_size"]), int(target.get("num_attention_heads") or 0)
    if not heads or not target.get("vocab_size"):
        raise ProfilingError(f"{plan.name}: an EAGLE-3 head needs num_attention_heads and vocab_size in config.json")
    width = int(target.get("head_dim") or hidden // heads)
    layers = int(target.get("num_hidden_layers") or 0)
    read = (2, layers // 2, layers - 3) if layers >= LEAST_LAYERS else (1, layers // 2, layers - 1)
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": HEAD_WIDTH * hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": max(1, hidden // width),
        "num_key_value_heads": max(1, hidden // width // 4),
        "head_dim": width,
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": min(HEAD_VOCABULARY, int(target["vocab_size"])),
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": sorted(set(read)), "use_aux_hidden_state": True},
        "max_position_embeddings": target.get("max_position_embeddings", 131_072),
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
