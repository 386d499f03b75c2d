"""The scheduler of an installed engine is timed, or a sentence says why not; never a number that was not measured."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="profiling is tested only where torch is installed (requirements.txt has it)")

from advisor.profiling import detect_devices, make_plan, run
from advisor.profiling.device import Clock
from advisor.profiling.plan import Block
from advisor.profiling.results import read_rows
from advisor.profiling.timing import Context, StoppedError
from advisor.profiling.vllm_host import measure_engine_host
from tests.profiling import stub_vllm

POINTS = [[2, 0, 1], [4, 0, 1], [4, 3, 2]]


@pytest.fixture
def context() -> Context:
    device = next(device for device in detect_devices() if device.backend == "cpu")
    return Context(device, Clock(device), 3, np.random.default_rng(0))


def block(points: list[list[int]] | None = None, schedulers: tuple[str, ...] = ("async", "sync")) -> Block:
    params: dict[str, Any] = {"schedulers": list(schedulers), "points": points or POINTS, "steps": 8, "warm_steps": 3}
    return Block("engine-host", "engine_host", params | {"prompt_tokens": 32}, 1.0)


@pytest.fixture
def with_stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**how: Any) -> None:
        path = stub_vllm.install(tmp_path / "site", **how)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(path), *filter(None, [os.environ.get("PYTHONPATH")])]))

    return install


def time_of(rows: list[dict[str, Any]], scheduler: str, sizes: list[int], part: str) -> float:
    for row in rows:
        key = [row["batch_size"], row["n_draft"], int(row["accepted_length"])]
        if (row["kernel"], key, row["part"]) == (f"vllm.{scheduler}", sizes, part):
            return float(row["time_s"])
    raise AssertionError(f"no row {scheduler} {sizes} {part}")


def test_both_schedulers_are_timed_part_by_part(context: Context, with_stub: Any) -> None:
    with_stub()
    rows = measure_engine_host(block(), context)
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["engine_version"] for row in rows} == {"0.0.stub"}
    assert {row["n_rounds"] for row in rows} == {8}
    for name in ("AsyncScheduler", "Scheduler"):
        for batch, k, emitted in POINTS:
            schedule = time_of(rows, name, [batch, k, emitted], "schedule")
            update = time_of(rows, name, [batch, k, emitted], "update_from_output")
            assert schedule >= stub_vllm.SCHEDULE_S * batch
            assert update >= stub_vllm.UPDATE_S * batch * emitted
            assert time_of(rows, name, [batch, k, emitted], "sum") >= 0.9 * (schedule + update)
    drafted = [row for row in rows if row["part"] == "update_draft_token_ids"]
    assert {(row["kernel"], row["n_draft"]) for row in drafted} == {("vllm.Scheduler", 3)}
    assert all(row["time_p20_s"] <= row["time_s"] <= row["time_p80_s"] for row in rows)


def test_other_processes_do_not_count_as_the_engine_s_time_but_are_named(context: Context, with_stub: Any) -> None:
    with_stub(waits=0.02)
    rows = measure_engine_host(block([[2, 0, 1]], ("sync",)), context)
    assert time_of(rows, "Scheduler", [2, 0, 1], "sum") < 0.02
    (note,) = {row["notes"] for row in rows}
    assert "by the wall's clock a step took" in note
    assert float(note.split(" took ")[1].split()[0]) > 5


def test_a_version_that_refuses_ngrams_with_overlap_is_driven_all_the_same(context: Context, with_stub: Any) -> None:
    with_stub(refuses=True)
    rows = measure_engine_host(block(), context)
    assert {row["status"] for row in rows} == {"ok"}
    assert time_of(rows, "AsyncScheduler", [4, 3, 2], "schedule") >= 4 * stub_vllm.SCHEDULE_S


def test_without_the_engine_one_row_says_so_and_the_sweep_is_complete(tmp_path: Path) -> None:
    if __import__("importlib.util").util.find_spec("vllm") is not None:
        pytest.skip("vLLM is installed here")
    yaml = pytest.importorskip("yaml")
    device = next(device for device in detect_devices() if device.backend == "cpu")
    outcome = run(make_plan("smoke", device, only=["launch", "engine_host"]), tmp_path / "out")
    assert outcome.status == "complete"
    rows = [row for row in read_rows(tmp_path / "out") if row["op"] == "engine_host"]
    assert [(row["status"], row["time_s"]) for row in rows] == [("unavailable", "")]
    assert "vLLM is not installed here" in rows[0]["notes"]
    findings = yaml.safe_load((tmp_path / "out" / "meta.yaml").read_text())["findings"]
    assert any("engine-host: not measured, vLLM is not installed here" in text for text in findings)


def test_another_interface_is_a_sentence_not_a_number(context: Context, with_stub: Any) -> None:
    with_stub(without="v1.request")
    (row,) = measure_engine_host(block(), context)
    assert row["status"] == "unavailable"
    assert "vllm.v1.request:Request" in row["notes"]
    assert "time_s" not in row


def test_a_step_that_did_not_do_what_was_meant_gives_no_time(context: Context, with_stub: Any) -> None:
    with_stub(loses=1)
    rows = measure_engine_host(block([[2, 0, 1]], ("sync",)), context)
    assert [row["status"] for row in rows] == ["error"]
    assert "emitted 0 tokens in a step, 2 were meant" in rows[0]["notes"]
    assert "time_s" not in rows[0]


def test_running_out_of_time_ends_the_child_and_keeps_finished_points(context: Context, with_stub: Any) -> None:
    with_stub()
    context.deadline_s = time.monotonic() - 1
    with pytest.raises(StoppedError, match="time limit"):
        measure_engine_host(block([[4, 0, 1]] * 200), context)


def test_a_request_to_stop_is_heard_while_the_engine_runs(context: Context, with_stub: Any) -> None:
    with_stub()
    context.should_stop = lambda: True
    with pytest.raises(StoppedError, match="request"):
        measure_engine_host(block([[4, 0, 1]] * 200), context)
