"""What a reader is told of links between nodes."""

from __future__ import annotations

import pytest

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario

WIDE = Scenario(acceptance="2.4@3", model_id="deepseek-v3", batch_size=256)


def told(hardware_id: str, tensor: int, expert: int) -> list[str]:
    placed = {"n_gpus": max(tensor, expert), "tensor_parallel": tensor, "expert_parallel": expert}
    setup = load_setup(WIDE.model_copy(update={"hardware_id": hardware_id, **placed}))
    return [warning for warning in setup.warnings if "node" in warning]


@pytest.mark.parametrize(
    ("hardware_id", "expert", "text"),
    [
        (
            "h200-sxm",
            32,
            "32 expert-parallel ranks lie on nodes of 8: the exchange of tokens holds the network, 47 GB/s",
        ),
        (
            "b300-sxm",
            16,
            "16 expert-parallel ranks lie on nodes of 8: the exchange of tokens holds the network, 94 GB/s",
        ),
        ("gb200", 128, "128 expert-parallel ranks lie on nodes of 72"),
        ("h20", 16, "More than 8 GPUs: what joins nodes of NVIDIA H20 96GB is not known"),
    ],
)
def test_an_exchange_between_nodes_says_what_it_holds(hardware_id: str, expert: int, text: str) -> None:
    (warning,) = told(hardware_id, 1, expert)
    assert warning.startswith(text)


@pytest.mark.parametrize(("hardware_id", "expert"), [("h200-sxm", 8), ("h20", 8), ("gb200", 64), ("gb300", 32)])
def test_one_node_or_rack_has_nothing_to_say(hardware_id: str, expert: int) -> None:
    assert told(hardware_id, 1, expert) == []


def test_all_reduces_between_nodes_stay_a_warning() -> None:
    (warning,) = told("h200-sxm", 16, 1)
    assert warning.startswith("Tensor parallelism beyond a node of 8: links between nodes are not modelled")


@pytest.mark.parametrize(
    ("hardware_id", "tensor", "expert", "texts"),
    [
        ("gb200", 1, 64, ["An exchange of tokens among 64 GPUs of NVIDIA GB200 NVL72 (per GPU) is charged as among 8"]),
        ("gb200", 8, 1, ["An all-reduce among 8 GPUs of NVIDIA GB200 NVL72 (per GPU) is charged as among 4"]),
        ("gb200", 4, 8, []),
        ("h200-sxm", 1, 32, []),
    ],
)
def test_more_ranks_in_a_node_than_were_measured_are_told(
    hardware_id: str, tensor: int, expert: int, texts: list[str]
) -> None:
    placed = {"n_gpus": max(tensor, expert), "tensor_parallel": tensor, "expert_parallel": expert}
    setup = load_setup(WIDE.model_copy(update={"hardware_id": hardware_id, **placed}))
    said = [warning for warning in setup.warnings if "is charged as among" in warning]
    assert [one.startswith(text) for one, text in zip(said, texts, strict=True)] == [True] * len(texts)
