"""The script for a GPU that is at hand only briefly, where there is neither GPU nor engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from advisor.profiling.engine.command import parser as engine_options
from advisor.profiling.plan import make_plan
from tests.profiling import fake_engine
from tools import gpu_blocks

ENGINE = [block for block in gpu_blocks.BLOCKS if "--engine" in block.arguments]


def test_verification_by_parts_comes_first() -> None:
    assert "verify_parts" in gpu_blocks.BLOCKS[0].arguments
    assert len({block.name for block in gpu_blocks.BLOCKS}) == len(gpu_blocks.BLOCKS)


def test_without_an_engine_or_time_it_says_so_and_writes_below_its_folder_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    only = [part for block in (*ENGINE, gpu_blocks.BLOCKS[0]) for part in ("--only", block.name)]
    assert gpu_blocks.main(["--output", str(out), "--hardware", "h200-sxm", "--budget-s", "1", *only]) == 3
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert {summary["blocks"][block.name] for block in ENGINE} == {"no engine: vLLM is not importable here"}
    assert summary["blocks"]["verify"] == "no time left"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_block_that_is_complete_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_engine.install(tmp_path / "fake")))
    small = gpu_blocks.Block("small", ("--engine", "vllm", "--model", "MODEL", "--batches", "1", "--k", "0,1"), 0.9)
    monkeypatch.setattr(gpu_blocks, "BLOCKS", (small,))
    out = tmp_path / "out"
    first = gpu_blocks.main(["--output", str(out), "--hardware", "h200-sxm", "--budget-s", "60"])
    rows = (out / "small" / "data.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3
    assert gpu_blocks.done(out / "small") == (first == 0)
    (out / "small" / "meta.yaml").write_text('status: "complete"\n', encoding="utf-8")
    lines = (out / "small" / "lines.jsonl").read_bytes()
    assert gpu_blocks.main(["--output", str(out), "--hardware", "h200-sxm", "--budget-s", "60"]) == 0
    assert (out / "small" / "lines.jsonl").read_bytes() == lines


@pytest.mark.parametrize("block", gpu_blocks.BLOCKS, ids=lambda block: block.name)
def test_every_block_is_a_command_that_the_profiler_knows(block: gpu_blocks.Block) -> None:
    if block in ENGINE:
        options = engine_options().parse_args(list(block.arguments))
        assert options.model == "MODEL"
        return
    from advisor.profiling.device import pick_device

    only = [block.arguments[place + 1] for place, part in enumerate(block.arguments) if part == "--only"]
    assert make_plan(block.arguments[1], pick_device("cpu"), only=only).blocks, sys.version
