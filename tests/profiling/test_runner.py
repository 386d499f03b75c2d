"""The accelerator's code path without an accelerator: torch.cuda is replaced by stand-ins that run
on the CPU.

Proves the control flow (graphs and their fallback, events, all layers in one call, a lost device),
no timing.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import yaml

from advisor.profiling import kernels_moe, timing
from advisor.profiling.device import Device
from advisor.profiling.plan import Plan, make_plan
from advisor.profiling.runner import run
from tests.profiling.test_results import rows_of


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small operations on many threads wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class FakeEvent:
    """Reads the device's time: the host's, and as much later as the device has spun."""

    spun_s = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter() + FakeEvent.spun_s

    def elapsed_time(self, other: FakeEvent) -> float:
        return max((other.at - self.at) * 1e3, 1e-6)


class FakeGraph:
    captured: list[FakeGraph] = []  # noqa: RUF012

    def replay(self) -> None:
        time.sleep(0)


class FakeStream:
    def __init__(self, _index: int = 0) -> None:
        pass

    def wait_stream(self, _other: object) -> None:
        pass


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """torch.cuda as far as the profiler uses it, on CPU tensors; `.lost` makes it fail as a dead
    device does."""
    state = SimpleNamespace(lost=False, graphs=True, spins=0, pools=set())

    def synchronize(_index: int = 0) -> None:
        if state.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines")

    @contextlib.contextmanager
    def graph(made: FakeGraph, pool: object = None) -> Iterator[None]:
        assert pool is not None, "graphs of a block share a pool"
        state.pools.add(pool)
        if not state.graphs:
            raise RuntimeError("operation not permitted when stream is capturing")
        FakeGraph.captured.append(made)
        yield

    def spin(cycles: int) -> None:
        state.spins += 1
        FakeEvent.spun_s += cycles / 1.7e9

    replacements: dict[str, Any] = {
        "synchronize": synchronize,
        "Event": FakeEvent,
        "CUDAGraph": FakeGraph,
        "graph": graph,
        "graph_pool_handle": object,
        "Stream": FakeStream,
        "stream": lambda _stream: contextlib.nullcontext(),
        "current_stream": lambda _index=0: FakeStream(),
        "set_device": lambda _index: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda _index=0: (8 * 2**30, 8 * 2**30),
        "_sleep": spin,
    }
    for name, value in replacements.items():
        monkeypatch.setattr(torch.cuda, name, value, raising=False)
    monkeypatch.setattr(Device, "torch_device", property(lambda _self: "cpu"))
    monkeypatch.setattr(timing, "CONTROL_SIZE", 64)  # a processor takes 50 ms for the accelerator's
    FakeGraph.captured.clear()
    return state


@pytest.fixture
def plan() -> Plan:
    device = Device(
        "cuda", 0, "stand-in", 8 * 2**30, 2**16, True, 1e11, str(torch.__version__), "9.0", 4
    )
    return make_plan("smoke", device)


def test_every_block_runs_through_graphs_and_events(
    fake_cuda: SimpleNamespace, plan: Plan, tmp_path: Path
) -> None:
    outcome = run(plan, tmp_path / "out")
    assert outcome.status == "complete", outcome.reasons
    rows = [row for row in rows_of(tmp_path / "out") if row["status"] == "ok"]
    assert {row["op"] for row in rows} >= {"moe_layer", "attention_decode", "verify_step", "launch"}
    graphs = {row["op"] for row in rows if row["mode"] == "graph"}
    assert graphs >= {
        "moe_layer",
        "attention_decode",
        "mla_decode",
        "lm_head",
        "gemm",
        "verify_step",
    }
    loops = [row for row in rows if row["kernel"] == "expert_loop"]
    assert {row["mode"] for row in loops} == {"eager"}
    assert FakeGraph.captured
    assert fake_cuda.spins > 0


def test_a_graph_that_cannot_be_captured_is_recorded_and_timed_eagerly(
    fake_cuda: SimpleNamespace, plan: Plan, tmp_path: Path
) -> None:
    fake_cuda.graphs = False
    assert run(plan, tmp_path / "out").status == "complete"
    rows = [
        row
        for row in rows_of(tmp_path / "out")
        if row["op"] == "moe_layer" and row["kernel"] == "grouped_mm"
    ]
    assert {row["mode"] for row in rows} == {"eager"}
    assert all("no graph: RuntimeError: operation not permitted" in row["notes"] for row in rows)
    findings = yaml.safe_load((tmp_path / "out" / "meta.yaml").read_text())["findings"]
    assert any("timed without a graph" in text and "moe_layer" in text for text in findings)


def test_a_lost_device_ends_the_process_and_a_new_one_avoids_the_kernel(
    fake_cuda: SimpleNamespace, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kernels_moe.grouped_mm

    def crashing(*arguments: Any) -> torch.Tensor:
        fake_cuda.lost = True
        return right(*arguments)

    monkeypatch.setattr(kernels_moe, "grouped_mm", crashing)
    out = tmp_path / "out"
    begun = time.time()
    outcome = run(plan, out)
    assert outcome.device_lost
    assert outcome.status == "partial"
    running = json.loads((out / "progress.json").read_text())["running"]
    assert (running["block"], running["kernel"]) == ("moe-smoke", "grouped_mm")
    since = float(running["since"])
    assert begun - 1.0 <= since <= time.time(), (
        "a supervisor must see since when the kernel has been tried"
    )
    fake_cuda.lost = False
    monkeypatch.setattr(kernels_moe, "grouped_mm", right)
    assert run(plan, out, resume=True, after_crash=True).status == "complete"
    moe = {row["kernel"]: row["status"] for row in rows_of(out) if row["op"] == "moe_layer"}
    assert moe["grouped_mm"] == "unavailable"
    assert moe["expert_loop"] == "ok"


@pytest.mark.usefixtures("fake_cuda")
def test_a_pass_whose_other_kernels_fail_falls_back_on_the_loop_over_experts(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        kernels_moe, "grouped_mm", Mock(side_effect=RuntimeError("no kernel image"))
    )
    run(make_plan("smoke", plan.device, only=["decode_step"]), tmp_path / "out")
    rows = [
        row
        for row in rows_of(tmp_path / "out")
        if row["op"] == "decode_step" and row["status"] == "ok"
    ]
    assert {row["kernel"].partition("+")[0] for row in rows} == {"moe:expert_loop"}


def test_running_out_of_memory_costs_one_block_only(
    fake_cuda: SimpleNamespace, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., None] = timing.Context.require_bytes

    def tight(self: timing.Context, wanted: float, what: str) -> None:
        original(self, 1e18 if what == "steps" else wanted, what)

    monkeypatch.setattr(timing.Context, "require_bytes", tight)
    outcome = run(plan, tmp_path / "out")
    assert outcome.status == "partial"
    assert len(outcome.reasons) == 1
    assert outcome.reasons[0].startswith("steps: out_of_memory")
    assert not fake_cuda.lost
