"""The engine's mode of the profiler, on a package that speaks vLLM's interface and fails on
demand."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from advisor.catalog.routing_presets import load_routing_preset, own_routing
from advisor.measured.ingest.read import read_upload
from advisor.measured.profiler_runs import ENGINE, ProfilerRun, engine_progress
from advisor.physics.touched_experts import touched_experts
from advisor.profiles import MEASUREMENTS
from advisor.profiling.device import ProfilingError
from advisor.profiling.engine import command, runner
from advisor.profiling.engine import plan as engine_plan
from advisor.profiling.engine.child import Strategy
from advisor.profiling.engine.command import SOURCE, main
from advisor.profiling.engine.plan import (
    EXTRA_ROUNDS,
    RATES_S,
    START_S,
    Cell,
    Plan,
    Work,
    cell_facts,
    control_of,
    routing_parameters,
    shallower,
)
from tests.profiling import fake_engine

CONFIG = {"model_type": "qwen3_moe", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
DEPTHS = "line through the first 2 and 4 of 8 layers"
"""What rows say that were carried from two depths."""
LIMITS_S = (120.0, 8.0)
"""Patience with a start and with a repeat, ample on a busy machine. [s]"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(fake_engine.install(tmp_path / "fake")))
    monkeypatch.setattr(runner, "GRACE_S", 1.0)
    monkeypatch.setattr(runner, "POLL_S", 0.02)
    return tmp_path / "out"


def plan(**changes: object) -> Plan:
    given: dict[str, object] = {
        "batches": (1, 4),
        "drafts": (0, 3),
        "contexts": (16,),
        "repeats": 2,
        "steps": 3,
    }
    return Plan(model=CONFIG, name="tiny", hardware="h200", **(given | changes))  # type: ignore[arg-type]


def measure(asked: Plan, out: Path, **named: object) -> runner.Outcome:
    return runner.run(
        asked, out, python=sys.executable, budget_s=600, **{"limits_s": LIMITS_S} | named
    )  # type: ignore[arg-type]


def table(out: Path) -> list[dict[str, str]]:
    with (out / "data.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_run_times_every_cell_and_counts_its_experts(engine: Path) -> None:
    outcome = measure(plan(), engine)
    rows = table(engine)
    assert not {"skipped", "error", "drafts", "routing"} & {row["status"] for row in rows}, (
        outcome.reasons
    )
    for row in rows:
        batch = int(row["batch_size"])
        k = int(row["draft_tokens_k"])
        sleeps = fake_engine.STEP_S + fake_engine.TOKEN_S * batch * (k + 1)
        assert float(row["step_time_s"]) >= sleeps
        law = 64 * (1 - (1 - 4 / 64) ** (batch * (k + 1)))
        assert float(row["touched_law"]) == pytest.approx(law, rel=1e-4)
        assert float(row["touched_experts"]) == pytest.approx(law, rel=0.06)
        assert (row["n_experts"], row["n_active"], row["tokens_in_step"]) == (
            "64",
            "4",
            str(batch * (k + 1)),
        )
        assert (row["weight_dtype"], row["captured"], row["engine_version"]) == (
            "bf16",
            "",
            "0.0.fake",
        )
    meta = yaml.safe_load((engine / "meta.yaml").read_text(encoding="utf-8"))
    assert meta["plan_hash"] == plan().hash
    assert meta["engine"]["eager"] is True
    assert json.loads((engine / "config.json").read_text(encoding="utf-8")) == CONFIG


def test_rows_that_are_not_to_be_fitted_are_refused_by_ingest(engine: Path) -> None:
    measure(plan(), engine)
    text = (engine / "data.csv").read_text(encoding="utf-8")
    lines = [line.split(",") for line in text.splitlines()]
    at = lines[0].index("status")
    for number, line in enumerate(lines[1:]):
        line[at] = "routing" if number == 0 else "ok"
    said = "\n".join(",".join(line) for line in lines)
    rows = read_upload("data.csv", said.encode())
    assert rows.format_name == "steps of `advisor profile --engine` (data.csv)"
    assert len(rows.result.rejects) == 1
    assert "not to be fitted" in rows.result.rejects["reason"].iloc[0]
    assert len(rows.result.frame) == len(lines) - 2
    assert not rows.result.missing, "an engine's rows leave nothing to ask"


@pytest.mark.parametrize(
    ("fault", "status"), [("die:4", "error"), ("hang:4", "hung"), ("memory:4", "out_of_memory")]
)
def test_a_batch_that_takes_the_engine_down_costs_itself_alone(
    engine: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    outcome = measure(plan(drafts=(0,), repeats=1), engine)
    by_batch = {row["batch_size"]: row for row in table(engine)}
    assert by_batch["4"]["status"] == status
    assert not by_batch["4"]["step_time_s"]
    assert by_batch["1"]["step_time_s"]
    assert outcome.status == "partial"
    assert any("b4-k0" in reason for reason in outcome.reasons)


def test_an_engine_that_does_not_start_says_why(
    engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "start")
    outcome = measure(plan(), engine)
    assert outcome.status == "failed"
    assert "no device" in outcome.reasons[0]
    (next_step,) = command._next(plan(), outcome, "advisor", ["--output", "x"])
    assert "engine.log" in next_step
    assert next_step.split()[-5:] == ["advisor", "profile", "--output", "x", "--resume"]
    assert {row["status"] for row in table(engine)} == {"skipped"}


@pytest.mark.parametrize("fault", ["", "graph"])
def test_long_prompts_are_read_in_chunks_and_no_sequence_ends_before_its_timed_steps(
    engine: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    chunks = {"max_num_batched_tokens": 48}
    measure(plan(batches=(4, 8), contexts=(64,), repeats=1, engine_args=chunks), engine)
    for row in table(engine):
        tokens = int(row["batch_size"]) * (int(row["draft_tokens_k"]) + 1)
        assert row["status"] in ("ok", "noisy"), row["notes"]
        assert float(row["tokens_in_step"]) == tokens
        assert float(row["touched_experts"]) == pytest.approx(float(row["touched_law"]), rel=0.1)


@pytest.mark.parametrize(
    ("fault", "status"), [("one_expert", "routing"), ("no_k", "drafts"), ("ends", "drafts")]
)
def test_an_engine_that_does_not_do_what_it_was_told_is_not_believed(
    engine: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    measure(plan(batches=(4,), drafts=(0, 3), repeats=1), engine)
    assert table(engine)[1]["status"] == status
    assert fault != "ends" or "all 4 sequences" in table(engine)[1]["notes"]


def test_a_stopped_run_goes_on_with_what_is_left(
    engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[runner.Progress] = []
    slow = plan(repeats=1)
    patient = {"limits_s": (600.0, 600.0)}  # nothing on a busy machine is hung
    monkeypatch.setenv("FAULT", f"pause:{engine / 'lines.jsonl'}")  # until the stop comes
    first = measure(
        slow,
        engine,
        on_progress=seen.append,
        should_stop=lambda: any(one.done for one in seen),
        **patient,
    )
    assert first.status in ("partial", "failed")
    done = [
        line["id"] for line in runner.Folder(engine, slow, resume=True).lines() if "times" in line
    ]
    assert done
    with (engine / "lines.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "cut off in the mid')
    with pytest.raises(ProfilingError, match="--resume"):
        measure(slow, engine)
    with pytest.raises(ProfilingError, match="this is plan"):
        measure(plan(repeats=3), engine, resume=True)
    monkeypatch.delenv("FAULT")
    measure(slow, engine, resume=True, **patient)
    assert all(row["step_time_s"] for row in table(engine))
    assert sum("started" in line for line in runner.Folder(engine, slow, resume=True).lines()) == 2
    ids = [
        line["id"] for line in runner.Folder(engine, slow, resume=True).lines() if "times" in line
    ]
    assert ids[: len(done)] == done
    assert len(set(ids)) == len(ids)


def lines(
    medians_s: list[float], control_s: list[float], touched: float, tokens: float = 4.0
) -> list[dict[str, object]]:
    """Lines of one cell (B = 1, K = 3), a control before each repeat and one after the last."""
    common = {
        "prefill_s": 1.0,
        "tokens": tokens,
        "law": 14.56,
        "accepted": 1.0,
        "context": 30.0,
        "experts": [64, 4],
    }
    out: list[dict[str, object]] = []
    for number, control in enumerate(control_s):
        base = {**common, "touched": [touched], "cell": [1, 0, 16], "control": True}
        out.append({**base, "id": f"c{number}", "times": [control]})
        if number < len(medians_s):
            cell = {**common, "touched": [touched], "cell": [1, 3, 16], "control": False}
            out.append({**cell, "id": f"r{number}", "times": [medians_s[number]]})
    return out


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (([0.010, 0.0105, 0.011], [0.005] * 4, 14.5), "ok"),
        (
            ([0.010, 0.0102, 0.0104, 0.030, 0.008], [0.005] * 6, 14.5),
            "ok",
        ),  # one of five forgiven each way
        (([0.010, 0.012, 0.014], [0.005] * 4, 14.5), "noisy"),
        (
            ([0.010, 0.0102, 0.0104, 0.030, 0.002], [0.005] * 6, 14.5),
            "noisy",
        ),  # no steady steps, as the reader says
        (([0.010, 0.0105, 0.011], [0.005, 0.005, 0.005, 0.005], 7.8), "routing"),
        (([0.010, 0.0105, 0.011], [0.005] * 4, 14.5, 1.0), "drafts"),
    ],
)
def test_a_cell_is_ok_only_when_steady_and_as_asked(
    measured: tuple[list[float], list[float], float], status: str
) -> None:
    facts = cell_facts(plan(repeats=3), Cell(1, 3, 16), lines(*measured))
    assert facts["status"] == status, facts["notes"]
    assert facts["step_time_s"] == pytest.approx(np.median(measured[0]))


def finish(asked: Plan, lines: list[Any], time_s: Callable[[Work], float]) -> None:
    """Add the lines of all that is left of a plan, each repeat one step long."""
    while work := asked.left(lines):
        for one in work:
            cell = [one.cell.batch, one.cell.n_draft, one.cell.context]
            facts = {
                "prefill_s": 1.0,
                "touched": [14.56],
                "law": 14.56,
                "accepted": 1.0,
                "context": 30.0,
            }
            facts |= {"tokens": one.cell.tokens, "experts": [64, 4], "times": [time_s(one)]}
            lines.append(
                {
                    "id": one.id,
                    "cell": cell,
                    "control": one.control >= 0,
                    "layers": one.layers,
                    **facts,
                }
            )


@pytest.mark.parametrize(
    ("control_s", "told"), [(9e-3, ("ok", 2, 8e-3)), (5e-3, ("noisy", 6, 15e-3))]
)
def test_a_resume_pools_the_repeats_but_those_of_a_disturbed_machine(
    control_s: float, told: tuple[Any, ...]
) -> None:
    asked = plan(batches=(1,))
    done = list[Any]()
    finish(asked, done, lambda one: control_s if one.cell.n_draft == 0 else 1e-2 * (1 + one.round))
    assert cell_facts(asked, Cell(1, 3, 16), done)["status"] == "noisy"
    finish(
        asked,
        done := [*done, {"again": True}],
        lambda one: 4.8e-3 if one.cell.n_draft == 0 else 8e-3,
    )
    facts = cell_facts(asked, Cell(1, 3, 16), done)
    assert (facts["status"], facts["n_repeats"], facts["step_time_s"]) == told, facts["notes"]
    again = [line for line in done[done.index({"again": True}) + 1 :] if not line["control"]]
    assert tuple(again[0]["cell"]) == (1, 3, 16)


@pytest.mark.parametrize(("off", "status"), [(0.01, "ok"), (0.1, "noisy")])
def test_two_depths_run_side_by_side_are_carried_to_the_whole_along_a_line(
    off: float, status: str
) -> None:
    asked = replace(plan(batches=(1,)), model=CONFIG | {"num_hidden_layers": 8}, depths=(2, 4))

    def time_s(one: Work) -> float:
        drift = 1.1 if one.round == 1 else 1.0  # of the machine: both depths of a round share it
        own = 1.0 + off * (one.round - 1) * (1 if one.layers == 4 and one.control < 0 else 0)
        return (1e-3 + 2e-3 * one.layers) * drift * own

    finish(asked, done := list[Any](), time_s)
    facts = cell_facts(asked, Cell(1, 3, 16), done)
    assert facts["status"] == status, facts["notes"]
    assert facts["step_time_s"] == pytest.approx(17e-3, rel=0.15)
    finish(
        asked,
        done := list[Any](),
        lambda one: (9e-3 if one.layers == 2 else 4e-3) * (1 + 9 * (one.control >= 0)),
    )
    facts = cell_facts(asked, Cell(1, 3, 16), done)
    assert (facts["status"], facts["time_p10_s"]) == ("noisy", None), "a line that falls below 0"
    assert asked.depth_note == DEPTHS


def test_every_round_has_all_cells_in_an_order_of_its_own() -> None:
    asked = plan(batches=(1, 2, 4, 8), drafts=(0, 1, 3))
    rounds = [asked.round(number, asked.cells) for number in range(2)]
    for one in rounds:
        assert sorted(work.cell for work in one if work.control < 0) == asked.cells
        assert [work.control for work in one if work.control >= 0] == [0, 1, 2]
    assert [work.cell for work in rounds[0]] != [work.cell for work in rounds[1]]


@pytest.mark.parametrize(
    "routing", ["uniform", "0.6,0.05,0.1", "0.6/0.5/0.7,0.05/0/0.1,0.1/0.05/0.2"]
)
def test_the_routing_handed_out_follows_the_advisors_own_law(routing: str) -> None:
    strategy = Strategy(routing_parameters(routing), 0)
    logits = SimpleNamespace(shape=(32, 64), device=None)
    strategy.route_tokens(SimpleNamespace(shape=(32, 8), device=None), logits, 4)
    strategy.prepare(8, 4)
    counts = []
    for _ in range(100):
        strategy.route_tokens(SimpleNamespace(shape=(32, 8), device=None), logits, 4)
        counts += strategy.counted(32)
    ours = float(touched_experts(8, 4, 64, 4, *routing_parameters(routing)))
    assert len(counts) == 100
    assert np.mean(counts) == pytest.approx(ours, rel=0.03)
    assert strategy.law() == pytest.approx(ours, rel=0.03)
    assert routing == "uniform" or own_routing(
        command.own_routing(routing), load_routing_preset("class-fine-no-shared")
    )


def test_a_table_that_a_graph_went_through_is_counted_beside_one_that_python_was_asked_for() -> (
    None
):
    strategy = Strategy(routing_parameters("uniform"), 0)
    target = SimpleNamespace(shape=(32, 64), device=None)
    drafter = SimpleNamespace(shape=(8, 16), device=None)
    for tokens, logits in ((32, target), (8, drafter)):
        strategy.route_tokens(SimpleNamespace(shape=(tokens, 8), device=None), logits, 4)
    strategy.prepare(8, 4)
    strategy.route_tokens(SimpleNamespace(shape=(8, 8), device=None), drafter, 4)
    strategy.tables[64, 4].take(32)  # as a captured graph does: no call reaches Python
    assert len(strategy.counted(32)) == 1


def test_rows_are_made_of_lines_that_stay_as_they_were() -> None:
    written: list[dict[str, object]] = [
        {"started": {"engine_version": "0.0.1", "tensor_parallel": 2}},
        *lines([0.010, 0.0105, 0.011], [0.005] * 4, 14.5),
        {"ended": {"captured": 1}},
    ]
    before = json.dumps(written)
    row = runner.rows_of(plan(batches=(1,), drafts=(3,)), written)[0]  # type: ignore[arg-type]
    assert json.dumps(written) == before
    assert (row["engine_version"], row["gpu_count"], row["captured"]) == ("0.0.1", 2, 1)


def test_a_run_says_its_price_first_and_what_to_do_with_it_last(
    engine: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = (
        json.dumps({"bandwidth_bytes_per_s": b, "peak_flops_per_s": {"bf16": 7}, "source": SOURCE})
        for b in (3, 4, 2)
    )
    monkeypatch.setattr(command, "hardware", lambda _python: next(rates))
    (tmp_path / "config.json").write_text(
        json.dumps(CONFIG | {"num_hidden_layers": 8}), encoding="utf-8"
    )
    asked = [
        "--engine",
        "vllm",
        "--model",
        str(tmp_path),
        "--batches",
        "1,4",
        "--k",
        "0,3",
        "--context",
        "16",
    ]
    for more, repeats in (([], 3), (["--layers", "2,4"], 5)):
        assert main([*asked, *more, "--plan"]) == 0
        assert f"4 cells, {repeats} x 8 steps" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(command, "hardware", Mock(side_effect=KeyboardInterrupt))
        assert main([*asked, "--output", str(engine)]) == 3
        assert "same command" in capsys.readouterr().err
    asked += ["--layers", "2,4", "--repeats", "1", "--steps", "3", "--output", str(engine)]
    assert main([*asked, "--budget-s", "1e-9"]) == 3
    said = capsys.readouterr().out
    assert "4 cells, 1 x 3 steps; about 1.0 to 1.1" in said
    assert "0.05 s, at most 0.0;" in said
    assert not (engine / "engine.log").exists(), "no time left starts no engine"
    assert "needs 3" in said
    resumed = shlex.split(said.splitlines()[-1])
    assert resumed[-len(asked) - 4 :] == ["profile", *asked, "--budget-s", "1e-9", "--resume"]
    for name, all_pass in (("NOISE_LIMIT", 1e9), ("FASTEST", (-1e9, 1e9))):
        monkeypatch.setattr(engine_plan, name, all_pass)
    assert main([*asked, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "started; eager" in said
    assert re.search(r"r0:b\S+; about \d+ s left", said)
    *printed, head, curve, fit = said.splitlines()[-7:]
    own = f"--hardware {engine}/hardware.json"
    drafting = f"--drafter eagle3 {own} --output {engine}-eagle3".split()
    assert shlex.split(head)[-10:] == ["--repeats", "1", "--steps", "3", *drafting]
    assert json.loads((engine / "hardware.json").read_text())["bandwidth_bytes_per_s"] == 4, (
        "the best of three"
    )
    assert printed[0].startswith("measured steps")
    assert printed[1].split() == ["batch", "plain", "K=3"]
    assert [len(line.split()) for line in printed[2:]] == [4, 4], (
        "batch, plain step, round and its ratio"
    )
    assert shlex.split(fit)[-4:] == ["fit", f"{engine}/data.csv", "--output", f"{engine}/refit"]
    read = table(engine)
    context = f"--context {round(float(read[0]['context_tokens']))} "
    named = (f"--model {engine}/config.json", own, "--accepted-length 2@3", context)
    assert all(part in curve for part in named)
    assert {row["notes"] for row in read} == {DEPTHS}
    for row in read:
        sleeps = (
            fake_engine.STEP_S
            + fake_engine.TOKEN_S * int(float(row["tokens_in_step"])) * 8 / fake_engine.LAYERS
        )
        assert float(row["step_time_s"]) == pytest.approx(sleeps, abs=0.02)
    assert {row["hardware_id"] for row in read} == {"hardware.json"}


@pytest.mark.parametrize(
    "folder", sorted(MEASUREMENTS.glob("engine_cpu_2_*[!s]")), ids=lambda folder: folder.name
)
def test_the_price_of_a_run_is_what_the_recorded_ones_took(folder: Path) -> None:
    rows = {
        Cell(int(row["batch_size"]), int(row["draft_tokens_k"]), 32): row for row in table(folder)
    }
    asked = replace(
        plan(),
        batches=(1, 2, 4, 8, 16, 32),
        drafts=(0, 1, 2, 3, 5),
        contexts=(32,),
        repeats=3,
        steps=8,
    )
    repeats = {cell: int(row["n_repeats"]) for cell, row in rows.items()}
    repeats[control_of(rows)] += 3 * max(repeats.values())
    taken = sum(
        n
        * (
            float(rows[cell]["prefill_time_s"])
            + (asked.steps + 3) * float(rows[cell]["step_time_s"])
        )
        for cell, n in repeats.items()
    )
    on_processor = replace(asked, hardware="hardware.json")
    least = on_processor.price_s(0) - START_S - 2 * RATES_S
    most = on_processor.price_s(EXTRA_ROUNDS) - START_S - 2 * RATES_S
    assert 0.8 * least < taken < 1.25 * most
    assert asked.price_s() > on_processor.price_s(), "an accelerator's engine compiles"


def test_controls_that_lie_apart_are_said_once_while_it_runs_and_stay_on_the_page(
    tmp_path: Path,
) -> None:
    asked = plan(batches=(1, 4))
    done = list[Any]()
    finish(asked, done, lambda one: 5e-3 * (1.2 if one.control == 1 else 1.0))
    said = [
        runner._progress(asked, done[: at + 1], done[at : at + 1], 1.0).message
        for at in range(len(done))
    ]
    (at,) = [
        at
        for at, message in enumerate(said)
        if "control steps 20 % apart: other work disturbs" in message
    ]
    assert done[at]["id"].endswith("r0:b4:k0:c16:control1")
    run = ProfilerRun(
        "tiny",
        tmp_path / "tiny",
        ENGINE,
        "tiny",
        pid=1,
        alive=True,
        exit_code=None,
        cancelled=False,
    )
    run.log.write_text(
        "tiny; plan 0\n" + "\n".join(f"[   9.0 s] {n}/9 {words}" for n, words in enumerate(said))
    )
    assert re.fullmatch(
        r"9 s, \d+ of 9 repeats; control steps 20 % apart: [^;]+", engine_progress(run)[1]
    )
    run.log.write_text(run.log.read_text() + "\ntiny; plan 0\n")
    assert engine_progress(run) == (0.0, "Starting the engine"), "resumed"
    finish(asked, calm := list[Any](), lambda _one: 5e-3)
    assert not any(
        "apart" in runner._progress(asked, calm[: at + 1], calm[at:], 1.0).message
        for at in range(9)
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 9", "give --hardware"), ("echo no torch >&2; exit 1", "no torch")],
)
def test_rates_are_measured_of_a_processor_alone(
    tmp_path: Path, script: str, expected: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(ProfilingError, match=expected):
        command.hardware(str(python))
    python.write_text("#!/bin/sh\necho '[4e10, 7e11]'\n", encoding="utf-8")
    assert json.loads(command.hardware(str(python)))["bandwidth_bytes_per_s"] == 4e10


def test_a_model_s_first_layers_keep_the_kinds_that_they_have() -> None:
    whole = {
        **CONFIG,
        "num_hidden_layers": 3,
        "layer_types": ["full", "linear", "full"],
        "eos_token_id": [1, 2],
    }
    short = shallower({"text_config": whole, "vision_config": {"num_hidden_layers": 3}}, 2)
    assert short["text_config"] == {
        **whole,
        "num_hidden_layers": 2,
        "layer_types": ["full", "linear"],
    }
    assert short["vision_config"] == {"num_hidden_layers": 3}
    for depths in ((0, 1), (2, 3), (1,)):
        with pytest.raises(ProfilingError, match="this model has 3; give two depths below all"):
            replace(plan(), model=whole, depths=depths)
    many = CONFIG | {"num_hidden_layers": 12}
    for keys, depths, would_do in (
        ({"first_k_dense_replace": 3}, (2, 5), "3,5"),
        ({"decoder_sparse_step": 2}, (2, 5), "1,3"),
        ({"layer_types": ["full", "linear", "linear"] * 4}, (2, 4), "1,4"),
    ):
        with pytest.raises(
            ProfilingError,
            match=f"not of the kinds, in those shares, of the rest; {would_do} would do",
        ):
            replace(plan(), model=many | keys, depths=depths)
        replace(plan(), model=many | keys, depths=tuple(map(int, would_do.split(","))))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--k", "a"], "whole numbers"),
        (
            ["--engine", "sglang", "--model", ""],
            "for SGLang run `python -m sglang.bench_one_batch_server",
        ),
        (["--model", ""], "give --model, a config.json or its folder"),
        (["--routing", "skewed"], "advisor trace"),
        (["--routing", "natural"], "real weights"),
        (["--drafter", "medusa"], "is not one of"),
        (["--accepted-length", "9@5"], "1..K+1"),
        (["--layers", "2,4"], "its config has none of num_hidden_layers"),
        (["--engine-python", "/nowhere/python", "--output", "OUT"], "cannot be run"),
    ],
)
def test_wrong_options_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    options = [option.replace("OUT", str(tmp_path / "out")) for option in options]
    tail = [] if "--output" in options else ["--plan"]
    assert main(["--engine", "vllm", "--model", str(tmp_path), *options, *tail]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
