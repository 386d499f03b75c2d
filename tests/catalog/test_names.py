"""Names of models as they are written, and the profile and weight format that they mean."""

from __future__ import annotations

import pytest

from advisor.catalog.models import model_ids, model_profile, resolve_model_name, short_name

CACHE = "/root/.cache/huggingface/hub"
# name, profile, weight format, whether something is said to be concluded
NAMES = [
    # ids, names and repositories of profiles
    ("deepseek-v3", "deepseek-v3", None, False),
    ("openai/gpt-oss-20b", "gpt-oss-20b", None, False),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b", None, False),
    ("CohereLabs/command-a-plus-05-2026", "command-a-plus", None, False),
    ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b", None, False),
    ("Kimi-K3", "kimi-k3", None, False),
    ("MiniMax-M3", "minimax-m3", None, False),
    ("Hy3-295B-A21B", "hy3", None, False),
    ("Step-3.5-Flash", "step-3.5-flash", None, False),
    ("Qwen3.8-Flash-Next", "qwen3.8-flash-next", None, False),
    ("gemma-4-31B", "gemma-4-31b", None, False),
    ("qwen3.6-27b (dense)", "qwen3.5-27b", None, False),
    # checkpoints with the dimensions of a profile
    ("deepseek-ai/DeepSeek-R1", "deepseek-v3", None, False),
    ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3", None, False),
    ("deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek-v3", None, False),
    ("GLM-5.1", "glm-5", None, False),
    ("zai-org/GLM-5.3", "glm-5.2", None, False),
    ("MiniMaxAI/MiniMax-M2.7", "minimax-m2", None, False),
    ("Qwen3-Coder-Next", "qwen3-next-80b-a3b", None, False),
    ("qwen3-coder-30b-a3b", "qwen3-30b-a3b", None, False),
    ("Qwen3-VL-30B-A3B-Instruct", "qwen3-30b-a3b", None, False),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b", None, False),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4-scout", None, False),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano", "bf16", False),
    # case, separators, paths
    ("DeepSeekV3", "deepseek-v3", None, False),
    ("minimax_m2", "minimax-m2", None, False),
    ("GLM5", "glm-5", None, False),
    ("/models/Qwen3-8B/", "qwen3-8b", None, False),
    (f"{CACHE}/models--deepseek-ai--DeepSeek-R1-0528/snapshots/4236a6af538feda4548e", "deepseek-v3", None, False),
    ("models--nvidia--DeepSeek-V3.1-NVFP4/snapshots/abc1234", "deepseek-v3", "nvfp4", False),
    (f"{CACHE}/models--gpt2-xl/snapshots/15ea56dee5df4983c59b2538573817e1667135e2", None, None, False),
    # known releases
    ("zai-org/GLM-5.2-FP8", "glm-5.2", "fp8_block", False),
    ("Qwen/Qwen3-32B-FP8-Static-PerTensor", "qwen3-32b", "fp8", False),
    ("nvidia/Kimi-K2.7-Code-NVFP4", "kimi-k2", "nvfp4", False),
    ("moonshotai/Kimi-K2.5", "kimi-k2", "int4", False),
    ("moonshotai/Kimi-K2.5-Instruct", "kimi-k2", "int4", True),
    ("nvidia/Qwen3.6-27B-NVFP4", "qwen3.5-27b", "nvfp4", False),
    # formats said by the name
    ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", "qwen3-30b-a3b", "int4", False),
    ("Qwen/Qwen3-235B-A22B-GPTQ-Int8", "qwen3-235b-a22b", "int8", False),
    ("QuantTrio/Qwen3-30B-A3B-Instruct-2507-AWQ", "qwen3-30b-a3b", "int4", True),
    ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "llama-3.1-70b", "int4", False),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b", "fp8", False),
    ("amd/Step-3.5-Flash-MXFP4", "step-3.5-flash", "mxfp4", False),
    ("nvidia/DeepSeek-R1-0528-FP4", "deepseek-v3", "nvfp4", True),
    ("deepseek-v3.2-fp8", "deepseek-v3.2", "fp8_block", True),
    ("tencent/Hy3-FP8", "hy3", "fp8", False),
    ("lmsys/gpt-oss-20b-bf16", "gpt-oss-20b", "bf16", False),
    ("Qwen3-8B-INT8", "qwen3-8b", "int8", False),
    # concluded, and said
    ("unsloth/Kimi-K2.6-GGUF", "kimi-k2", None, True),
    ("MiniMax-M2.9", "minimax-m2", None, True),
    # other models
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", None, None, False),
    ("zai-org/GLM-5.3-Flash", None, None, False),
    ("cerebras/GLM-4.6-REAP-218B-A32B-FP8", None, None, False),
    ("RedHatAI/Qwen3-8B-speculator.eagle3", None, None, False),
    ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", None, None, False),
    ("Qwen3-14B", None, None, False),
    ("DeepSeek (variant not stated)", None, None, False),
    ("not-stated", None, None, False),
    ("", None, None, False),
    ("///", None, None, False),
    ("qwen3-8b" * 100, None, None, False),
]


@pytest.mark.parametrize(("text", "model_id", "weight_format", "concluded"), NAMES)
def test_a_name_means_a_profile_and_a_format(
    text: str, model_id: str | None, weight_format: str | None, concluded: bool
) -> None:
    named = resolve_model_name(text)
    if model_id is None:
        assert named is None
        return
    assert named is not None
    assert (named.model_id, named.weight_format, bool(named.note)) == (model_id, weight_format, concluded)


@pytest.mark.parametrize("model_id", model_ids())
def test_every_profile_is_found_by_each_of_its_own_names(model_id: str) -> None:
    profile = model_profile(model_id)
    for name in (model_id, profile.hf_repo, profile.hf_repo.lower(), profile.name, *profile.also_applies_to):
        named = resolve_model_name(name)
        assert named is not None, name
        assert named.model_id == model_id, name


@pytest.mark.parametrize("model_id", model_ids())
def test_every_known_release_is_found_by_its_name_in_its_format(model_id: str) -> None:
    for release in model_profile(model_id).published_formats:
        named = resolve_model_name(release.checkpoint)
        assert named is not None
        assert (named.model_id, named.checkpoint) == (model_id, release.checkpoint)
        assert named.weight_format == release.weight_format


def test_what_was_concluded_is_said_in_words() -> None:
    notes = {text: (named := resolve_model_name(text)) and named.note for text, *_, concluded in NAMES if concluded}
    assert notes["nvidia/DeepSeek-R1-0528-FP4"] == "fp4 taken for nvfp4"
    assert notes["unsloth/Kimi-K2.6-GGUF"] == "gguf left out of account"
    assert notes["MiniMax-M2.9"] == "version .9 taken to have the same dimensions"
    assert notes["moonshotai/Kimi-K2.5-Instruct"] == "moonshotai/Kimi-K2.5 is released in int4"


def test_the_short_name_leaves_out_organisations_folders_and_hashes() -> None:
    assert short_name("org/Name-7B") == short_name("/data/org/Name-7B/") == "Name-7B"
    assert short_name("models--org--Name-7B/snapshots/0123abcd/config.json") == "Name-7B"
    assert short_name("C:\\models\\Name-7B\\main") == "Name-7B"
    assert short_name("0123abcd") == "0123abcd"
