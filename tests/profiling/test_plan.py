"""Memory in the plan: what captured graphs hold is estimated before, shared within a block, and
counted after."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from advisor.profiling.device import Device, GraphPool
from advisor.profiling.plan import GRAPH_NODE_BYTES, Block, Plan, make_plan, memory
from advisor.profiling.results import read_rows
from advisor.profiling.runner import run
from tests.profiling.test_runner import fake_cuda, plan  # noqa: F401

H200 = Device("cuda", 0, "NVIDIA H200", 139 * 2**30, 60 * 2**20, True, 4.8e12, "2.13.0", "9.0", 132)
CPU = Device("cpu", 0, "a processor", 2**35, 2**25, True, 8e9, "2.13.0")


@pytest.mark.parametrize("device", [H200, CPU], ids=["h200", "cpu"])
@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_estimates_keep_the_promise(preset: str, device: Device) -> None:
    made = make_plan(preset, device)
    assert made.estimate_s <= made.promise_s
    assert len({block.name for block in made.blocks}) == len(made.blocks)


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_every_block_of_a_preset_fits_an_80_gb_device(preset: str) -> None:
    for block in make_plan(preset, H200).blocks:
        assert 0 <= block.memory_bytes < 0.85 * 79 * 2**30, block.name
    assert "GiB" in make_plan(preset, H200).describe()


def test_graphs_add_their_nodes_and_the_widest_pass_once() -> None:
    blocks = {block.op: block for block in make_plan("standard", H200).blocks}
    parts = blocks["verify_parts"].params
    on_cpu = memory("verify_parts", parts, CPU)
    on_gpu = memory("verify_parts", parts, H200)
    fewer = memory("verify_parts", parts | {"samplers": ["greedy"]}, H200)
    assert on_gpu - on_cpu > 100 * 40 * GRAPH_NODE_BYTES, "some hundred graphs of four layers"
    assert 0 < on_gpu - fewer < 2 * 2**30, (
        "a graph more costs its nodes, not another copy of the logits"
    )
    wider = memory("verify_parts", parts | {"tokens": [*parts["tokens"], 4096]}, H200)
    assert wider - on_gpu > 3 * 1024 * parts["vocab_size"] * 4, (
        "the logits of the widest pass count"
    )


def test_the_first_layer_of_weights_is_in_the_estimate() -> None:
    for block in make_plan("standard", H200).blocks:
        if block.op == "moe_layer":
            p = block.params
            weights = p["layers"] * p["n_experts"] * 3 * p["hidden_size"] * p["expert_width"]
            size = 1 if p["dtype"].startswith("float8") else 2
            assert weights * size < block.memory_bytes < 1.5 * weights * size + 4 * 2**30


def test_a_block_that_does_not_fit_is_said_before_anything_is_built(
    fake_cuda: SimpleNamespace,  # noqa: F811
    plan: Plan,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert not fake_cuda.lost
    huge = Block(plan.blocks[2].name, "moe_layer", plan.blocks[2].params, 1.0, memory_bytes=1e12)
    outcome = run(Plan("smoke", plan.device, (plan.blocks[1], huge), 3), tmp_path / "out")
    assert outcome.reasons == (
        f"{huge.name}: out_of_memory, " + outcome.reasons[0].split(", ", 1)[1],
    )
    assert "931.3 GiB" in outcome.reasons[0]
    assert {row["status"] for row in read_rows(tmp_path / "out") if row["block"] == huge.name} == {
        "out_of_memory"
    }


def test_graphs_of_a_block_share_a_pool_and_their_memory_is_recorded(
    fake_cuda: SimpleNamespace,  # noqa: F811
    plan: Plan,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    free = [8.0 * 2**30]

    def mem_get_info(_index: int = 0) -> tuple[float, float]:
        free[0] -= 2**20  # every look finds a MiB less
        return free[0], 8.0 * 2**30

    monkeypatch.setattr(torch.cuda, "mem_get_info", mem_get_info)
    two = tuple(block for block in plan.blocks if block.op in ("gemm", "lm_head"))
    assert run(Plan("smoke", plan.device, two, 3), tmp_path / "out").status == "complete"
    blocks = yaml.safe_load((tmp_path / "out" / "meta.yaml").read_text())["blocks"]
    assert [entry["graphs"] for entry in blocks] == [2, 2]
    assert all(entry["graph_bytes"] == 2.0 * 2**20 for entry in blocks)
    assert len(fake_cuda.pools) == 2, "one pool for each block"


def test_memory_that_came_back_is_not_counted_as_negative() -> None:
    pool = GraphPool()
    pool.took(100.0, 40.0)
    pool.took(40.0, 90.0)
    assert (pool.n_graphs, pool.held_bytes) == (2, 60.0)
    handle: Any = pool.open() if __import__("torch").cuda.is_available() else None
    assert handle is pool.handle
