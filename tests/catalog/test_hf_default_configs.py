"""Default configs of transformers 5.23.0 whose keys mean what no other type's mean, beside its own
count of them."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.catalog.hf.config import architecture_from_config
from advisor.physics.architecture import parameter_counts
from tests.golden.sentences import Golden, lines_with

PLAIN = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)


def config(model_type: str, *sizes: int, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, **dict(zip(PLAIN, sizes, strict=True)), **more}


FALCON = config("falcon", 65024, 4544, 32, 71, 71, ffn_hidden_size=18176, multi_query=True)
LFM2 = config(
    "lfm2", 65536, 2560, 32, 32, 8, intermediate_size=12288, layer_types=["full_attention"] * 32
)
SLIDING = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "index_topk": 2048,
}


@pytest.mark.parametrize(
    ("given", "total"),
    [
        (FALCON, 6_921_720_704),
        (LFM2 | {"block_auto_adjust_ff_dim": True, "block_multiple_of": 256}, 2_705_497_600),
        (
            config("bitnet", 128256, 2560, 30, 20, 5, intermediate_size=6912, hidden_act="relu2"),
            2_741_155_840,
        ),
        (
            config(
                "apertus", 131072, 4096, 32, 32, 32, intermediate_size=14336, hidden_act="xielu"
            ),
            6_979_596_352,
        ),
    ],
)
def test_the_total_is_that_of_transformers(given: dict[str, Any], total: int) -> None:
    assert parameter_counts(architecture_from_config(given)).total == pytest.approx(total, rel=1e-3)


def test_multi_query_is_one_head_of_the_cache_unless_the_architecture_is_new() -> None:
    one = architecture_from_config(FALCON | {"new_decoder_architecture": False})
    new = architecture_from_config(FALCON | {"new_decoder_architecture": True})
    assert new.mixers[0].kv_elements_per_token == 71 * one.mixers[0].kv_elements_per_token


def test_bamba_attends_in_the_layers_that_it_names() -> None:
    state = {
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 256,
        "intermediate_size": 14336,
    }
    given = config("bamba", 128000, 4096, 32, 32, 8, **state)
    for named, expected in (([9, 18], {"linear": 30, "full": 2}), (None, {"linear": 32})):
        made = architecture_from_config(given | {"attn_layer_indices": named})
        assert {one.kind: one.count for one in made.mixers} == expected


def test_a_window_of_latent_attention_keeps_latents() -> None:
    given = config(
        "dots3_note_text", 1000, 512, 2, 8, 8, intermediate_size=64, sliding_window=256, **SLIDING
    )
    index = {
        "index_n_heads": 4,
        "index_head_dim": 32,
        "layer_types": ["indexed_attention", "sliding_attention"],
    }
    sparse, sliding = architecture_from_config(given | index).mixers
    assert (sparse.kind, sliding.kind) == ("sparse", "sliding")
    assert (
        sliding.kv_elements_per_token,
        sliding.window_tokens,
        sliding.index_elements_per_token,
    ) == (576, 256, 0)


def test_sizes_of_single_layers_are_named_as_unread(golden: Golden) -> None:
    printed = architecture_from_config(
        LFM2 | {"per_layer_config": {"02": {"num_attention_heads": 64}}}
    ).warnings
    golden(per_layer=lines_with(printed, "per_layer_config is"))
