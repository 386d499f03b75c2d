"""What a reader is told of links between nodes, and of experts split within the blocks of their
weights."""

from __future__ import annotations

import pytest

from advisor.physics.notes import Rank
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.phrases.notes import note_text, note_texts

WIDE = Scenario(acceptance="2.4@3", model_id="deepseek-v3", batch_size=256)
RANKS = "expert-parallel ranks lie on nodes of"
HOLDS = "the exchange of tokens holds the network,"
CHARGED = "GPUs of NVIDIA GB200 NVL72 (per GPU) is charged as among"


@pytest.mark.parametrize(
    ("word", "hardware_id", "tensor", "expert", "texts"),
    [
        ("node", "h200-sxm", 1, 32, [f"32 {RANKS} 8: {HOLDS} 47 GB/s"]),
        ("node", "b300-sxm", 1, 16, [f"16 {RANKS} 8: {HOLDS} 94 GB/s"]),
        ("node", "gb200", 1, 128, [f"128 {RANKS} 72"]),
        (
            "node",
            "h20",
            1,
            16,
            ["More than 8 GPUs: what joins nodes of NVIDIA H20 96GB is not known"],
        ),
        ("node", "h200-sxm", 1, 8, []),
        ("node", "h20", 1, 8, []),
        ("node", "gb200", 1, 64, []),
        ("node", "gb300", 1, 32, []),
        (
            "node",
            "h200-sxm",
            16,
            1,
            ["Tensor parallelism beyond a node of 8: links between nodes are not modeled"],
        ),
        ("charged as among", "gb200", 1, 64, [f"An exchange of tokens among 64 {CHARGED} 8"]),
        ("charged as among", "gb200", 8, 1, [f"An all-reduce among 8 {CHARGED} 4"]),
        ("charged as among", "gb200", 4, 8, []),
        ("charged as among", "h200-sxm", 1, 32, []),
    ],
)
def test_an_exchange_between_nodes_or_among_more_ranks_than_were_measured_says_what_it_holds(
    word: str, hardware_id: str, tensor: int, expert: int, texts: list[str]
) -> None:
    placed = {"n_gpus": max(tensor, expert), "tensor_parallel": tensor, "expert_parallel": expert}
    setup = load_setup(WIDE.model_copy(update={"hardware_id": hardware_id, **placed}))
    said = [text for text in note_texts(setup.notes) if word in text]
    assert [one.startswith(text) for one, text in zip(said, texts, strict=True)] == [True] * len(
        texts
    )


@pytest.mark.parametrize(
    ("model_id", "weights", "tensor", "expert", "more", "expected"),
    [
        (
            "qwen3-235b-a22b",
            "fp8",
            8,
            1,
            {},
            "vLLM refuses to load this: 8 ranks cut experts 1,536 wide to 192",
        ),
        ("qwen3-235b-a22b", "fp8", 8, 1, {"engine": "sglang"}, "SGLang refuses to load this"),
        (
            "qwen3-235b-a22b",
            "fp8",
            8,
            1,
            {"hardware_id": "b200-sxm"},
            "vLLM may refuse to load this",
        ),
        (
            "qwen3-30b-a3b",
            "fp8",
            4,
            1,
            {},
            "vLLM refuses to load this: 4 ranks cut experts 768 wide to 192",
        ),
        (
            "qwen3-30b-a3b",
            "fp8",
            8,
            2,
            {"engine": "sglang"},
            "SGLang refuses to load this: 4 ranks",
        ),
        ("qwen3-30b-a3b", "fp8", 8, 2, {}, ""),
        ("qwen3-235b-a22b", "fp8", 8, 1, {"engine": "trtllm"}, ""),
        ("qwen3-235b-a22b", "fp8", 8, 8, {}, ""),
        ("qwen3-235b-a22b", "fp8", 4, 1, {}, ""),
        ("qwen3-235b-a22b", None, 8, 1, {}, ""),
        ("deepseek-v3", None, 8, 1, {}, ""),
    ],
)
def test_experts_split_within_a_block_of_their_weights_are_refused_and_what_to_do_is_said(
    model_id: str,
    weights: str | None,
    tensor: int,
    expert: int,
    more: dict[str, str],
    expected: str,
) -> None:
    placed = {
        "n_gpus": tensor,
        "tensor_parallel": tensor,
        "expert_parallel": expert,
        "weight_dtype": weights,
    }
    setup = load_setup(
        Scenario(
            acceptance="2.4@3", model_id=model_id, **{"hardware_id": "h200-sxm"} | placed | more
        )
    )
    refusals = [note for note in setup.notes if note.kind == "split_blocks"]
    assert len(refusals) == bool(expected)
    for note in refusals:
        assert note.rank is Rank.BLOCKS
        assert setup.notes[0] == note
        assert note_text(note).startswith(expected)
        whole = load_setup(setup.scenario.model_copy(update={"expert_parallel": tensor}))
        ranks = note.facts["narrower"]
        narrower = load_setup(
            setup.scenario.model_copy(update={"tensor_parallel": ranks, "expert_parallel": 1})
        )
        assert note.facts["gpus"] == tensor
        assert not [
            one for other in (whole, narrower) for one in other.notes if one.kind == "split_blocks"
        ]
