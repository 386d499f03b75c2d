"""The profiler over a local Ray cluster of two workers."""

from __future__ import annotations

import csv
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from advisor.profiling.command import main
from advisor.profiling.fleet import Fleet, Member, slots


def test_each_accelerator_and_each_cpu_only_node_is_one_worker() -> None:
    nodes = [
        {"Alive": True, "NodeID": "bbbbbbbbbb", "Resources": {"CPU": 8.0, "node:10.0.0.2": 1.0}},
        {"Alive": True, "NodeID": "aaaaaaaaaa", "Resources": {"CPU": 8.0, "GPU": 2.0, "node:10.0.0.1": 1.0}},
        {"Alive": False, "NodeID": "cccccccccc", "Resources": {"GPU": 4.0}},
    ]
    assert [name for name, _, _ in slots(nodes, "auto")] == ["aaaaaaaa/gpu0", "aaaaaaaa/gpu1", "bbbbbbbb/cpu"]
    assert slots(nodes, "cpu")[0] == ("aaaaaaaa/cpu", {"node:10.0.0.1": 0.001, "CPU": 1.0}, "cpu")
    assert [wanted for _, _, wanted in slots(nodes, "cuda")] == ["auto", "auto"]


def test_a_missing_ray_or_a_wrong_combination_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--ray", "nowhere.invalid:1", "--output", str(tmp_path / "o"), "--preset", "smoke"]
    assert main([*command, "--plan"]) == 2
    assert "cannot be combined" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(command) == 2
    assert "needs the package ray" in capsys.readouterr().err


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "data.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_two_workers_share_a_plan_and_write_one_dataset(cluster: Any, tmp_path: Path) -> None:
    out, blocks = tmp_path / "out", ("launch", "gemm")
    only = [word for block in blocks for word in ("--only", block)]
    command = ["--ray", cluster.address, "--preset", "smoke", "--device", "cpu", "--output", str(out), *only]
    assert main(command) == 0
    rows = rows_of(out)
    assert {row["block"] for row in rows} == set(blocks)
    assert len({row["worker"] for row in rows}) == 2
    assert (out / "meta.yaml").exists()
    assert main(command) == 2


def test_a_lost_worker_is_replaced_and_its_block_measured_again(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    killed: list[str] = []
    hand_out = Fleet.start

    def start_and_kill(self: Fleet, member: Member, index: int, block: Any) -> Any:
        if block.name == "launch" and not killed:
            killed.append(block.name)
            os.kill(self.ray.get(member.actor.process.remote()), signal.SIGKILL)
        return hand_out(self, member, index, block)

    monkeypatch.setattr(Fleet, "start", start_and_kill)
    out = tmp_path / "out"
    command = ["--ray", cluster.address, "--preset", "smoke", "--device", "cpu", "--output", str(out)]
    assert main([*command, "--only", "launch", "--only", "gemm"]) == 0
    assert killed
    assert {row["block"] for row in rows_of(out)} == {"launch", "gemm"}
