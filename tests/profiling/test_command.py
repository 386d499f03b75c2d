"""The supervisor: a kernel past its limit is given up by name, a crash is resumed, an end by hand
is respected."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.profiling import command as supervisor
from advisor.profiling.device import ProfilingError, detect_devices
from advisor.profiling.plan import make_plan
from advisor.profiling.results import read_rows
from advisor.profiling.runner import run

COMPILING = {"running": {"block": "moe-x", "kernel": "triton_fused_n64_k128", "since": "100.0"}}


def write(progress: Path, content: dict[str, Any]) -> Path:
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.write_text(json.dumps(content))
    return progress


def test_only_a_kernel_past_its_limit_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = tmp_path / "progress.json"
    monkeypatch.setattr(supervisor.time, "time", lambda: 150.0)
    assert supervisor.overdue(progress, 40.0) == "", "nothing has begun"
    write(progress, COMPILING)
    assert supervisor.overdue(progress, 60.0) == ""
    assert "triton_fused_n64_k128 took longer than 40 s" in supervisor.overdue(progress, 40.0)
    write(progress, {"running": COMPILING["running"] | {"kernel": ""}})
    assert supervisor.overdue(progress, 40.0) == "", "a block may take as long as it needs"
    progress.write_text('{"running": {"ker')
    assert supervisor.overdue(progress, 40.0) == "", "the file is being replaced"


def test_a_child_whose_kernel_hangs_is_ended_and_the_reason_left(tmp_path: Path) -> None:
    progress = write(tmp_path / "progress.json", COMPILING | {"elapsed_s": 3.0})
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    status, why = supervisor.wait(child, progress, 5.0)
    assert status < 0, "it was ended: a sleep that ends by itself returns 0"
    assert "took longer" in why
    left = json.loads(progress.read_text())
    assert left["running"]["why"] == why
    assert left["elapsed_s"] == 3.0


class Children:
    """Stands for Popen: each child writes a progress.json and runs a line of Python; keeps the
    commands."""

    def __init__(self, progress: Path, lines: list[str], contents: list[dict[str, Any]]) -> None:
        self.progress, self.lines, self.contents = progress, list(lines), list(contents)
        self.commands: list[list[str]] = []
        self.start = subprocess.Popen

    def __call__(self, command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        self.commands.append(command)
        write(self.progress, self.contents.pop(0))
        return self.start([sys.executable, "-c", self.lines.pop(0)], **how)


def test_a_hanging_compiler_costs_one_kernel_and_the_sweep_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    children = Children(
        tmp_path / "progress.json", ["import time; time.sleep(600)", ""], [COMPILING, {}]
    )
    monkeypatch.setattr(subprocess, "Popen", children)
    assert supervisor.supervise(["--preset", "quick"], tmp_path, 100.0, kernel_limit_s=5.0) == 0
    again = children.commands[1]
    assert {"--resume", "--after-crash", "--worker"} <= set(again)
    assert 0 < float(again[again.index("--time-budget-s") + 1]) < 100, (
        "the limit holds for both processes together"
    )
    assert "resuming without that kernel" in capsys.readouterr().err


def test_a_sweep_that_somebody_ended_is_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    children = Children(tmp_path / "progress.json", [line], [{}])
    monkeypatch.setattr(subprocess, "Popen", children)
    with pytest.raises(ProfilingError, match="ended by SIGTERM"):
        supervisor.supervise([], tmp_path, 100.0)


def test_the_kernel_given_up_is_named_with_its_reason_in_the_result(tmp_path: Path) -> None:
    device = next(device for device in detect_devices() if device.backend == "cpu")
    plan = make_plan("smoke", device, only=["moe-smoke"])
    out = tmp_path / "out"
    run(plan, out, None, lambda: True)
    state = json.loads((out / "progress.json").read_text())
    why = "grouped_mm took longer than 90 s at a new shape, compiling included"
    state["running"] = {"block": "moe-smoke", "kernel": "grouped_mm", "since": "1.0", "why": why}
    write(out / "progress.json", state)
    assert run(plan, out, resume=True, after_crash=True).status == "complete"
    given_up = [
        row for row in read_rows(out) if row["kernel"] == "grouped_mm" and row["op"] == "moe_layer"
    ]
    assert [(row["status"], row["notes"]) for row in given_up] == [("unavailable", why)]
    assert yaml.safe_load((out / "meta.yaml").read_text())["avoided_kernels"] == {"grouped_mm": why}
