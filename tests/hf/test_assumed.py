"""Every key that a config.json leaves out and that is assumed stands in a warning, with its size in GB."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.physics.architecture import weight_bytes, weight_bytes_by_component


def config(model_id: str, **changes: Any) -> dict[str, Any]:
    """A shipped configuration without the keys whose change is None."""
    changed = {**model_profile(model_id).config, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def warning(configuration: dict[str, Any], key: str) -> str:
    (found,) = [text for text in architecture_from_config(configuration).warnings if text.startswith(key)]
    return found


def test_a_missing_expert_width_is_said_with_the_size_it_comes_to() -> None:
    """Qwen3-30B-A3B without it: its experts would be 6144 wide, 464 GB of them where there are 58."""
    without = config("qwen3-30b-a3b", moe_intermediate_size=None)
    read = architecture_from_config(without)
    routed = weight_bytes_by_component(read)["routed"]
    assert routed / weight_bytes_by_component(load_model("qwen3-30b-a3b"))["routed"] == pytest.approx(6144 / 768)
    said = warning(without, "moe_intermediate_size is missing")
    assert "6144 wide" in said
    assert f"{routed / 1e9:.3g} GB" in said


@pytest.mark.parametrize(
    ("model_id", "key", "words"),
    [
        ("qwen3-30b-a3b", "num_key_value_heads", "GB of cache per million tokens"),
        ("qwen3-30b-a3b", "head_dim", "GB of attention weights"),
        ("qwen3-30b-a3b", "torch_dtype", "taken to be in bf16"),
        ("qwen3-30b-a3b", "tie_word_embeddings", "the output has its own table, 0.622 GB each"),
        ("deepseek-v3", "first_k_dense_replace", "are taken to route"),
        ("deepseek-v3", "n_shared_experts", "one in each layer would be"),
    ],
)
def test_every_other_missing_key_is_said_with_its_size(model_id: str, key: str, words: str) -> None:
    complete = config(model_id)
    changes: dict[str, Any] = {key: None}
    if model_id == "deepseek-v3":
        changes["moe_layer_freq"] = None
    assert not [text for text in architecture_from_config(complete).warnings if text.startswith(f"{key} is missing")]
    said = warning(config(model_id, **changes), f"{key} is missing")
    assert words in said
    assert " GB" in said


def test_the_whole_size_is_that_of_the_weights() -> None:
    without = config("qwen3-30b-a3b", torch_dtype=None)
    size = weight_bytes(architecture_from_config(without)) / 1e9
    assert f"{size:.3g} GB" in warning(without, "torch_dtype is missing")


@pytest.mark.parametrize("model_id", ["mixtral-8x7b", "gpt-oss-120b", "llama4-scout", "olmoe-1b-7b"])
def test_a_width_that_the_type_defines_by_another_key_is_no_assumption(model_id: str) -> None:
    said = architecture_from_config(config(model_id)).warnings
    assert not any(text.startswith("moe_intermediate_size") for text in said)


def test_shipped_models_carry_no_such_warning() -> None:
    assert not [text for name in model_ids() for text in load_model(name).warnings if "is missing:" in text]
