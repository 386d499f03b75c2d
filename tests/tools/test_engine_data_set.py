"""The data set of an engine's steps, on a package that speaks vLLM's interface and sleeps: made-up
times."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from advisor.catalog.hf.config import architecture_from_config
from advisor.measured.measurements import read_dataset
from advisor.profiling.engine import runner
from tests.profiling import fake_engine
from tests.studies.test_engine_designs import HOST
from tools.engine_data_set import DESIGNS, design, main, plan_of


def test_a_run_leaves_a_data_set_that_the_store_takes_and_goes_on(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_engine.install(tmp_path / "fake")))
    monkeypatch.setattr(runner, "GRACE_S", 1.0)
    work = tmp_path / "work"
    out = tmp_path / "measurements"
    work.mkdir()
    (work / "hardware.json").write_text(json.dumps(HOST))
    asked = [
        "--engine-python",
        sys.executable,
        "--work",
        str(work),
        "--output",
        str(out),
        "--designs",
        "k2",
    ]
    asked += ["--batches", "1,2", "--k", "0,1", "--sitting", "3"]
    assert main([*asked, "--budget-s", "0.001"]) == 3
    assert main([*asked, "--budget-s", "120"]) in (
        0,
        3,
    )  # 3: a busy machine's noisy cells are left to measure again
    meta, frame = read_dataset(out / "engine_cpu_3_k2")
    assert (meta.status, meta.row_count) == ("measured", 4)
    assert set(frame["status"]) <= {"ok", "noisy"}
    assert json.loads((out / "engine_cpu_3_k2/config.json").read_text())["num_experts_per_tok"] == 2
    assert "engine_cpu_k2" in capsys.readouterr().out


def test_a_missing_engine_is_one_sentence(tmp_path: Path, capsys) -> None:
    assert (
        main(
            ["--engine-python", str(tmp_path / "none"), "--work", str(tmp_path), "--budget-s", "9"]
        )
        == 2
    )
    assert capsys.readouterr().err.startswith("error: ")


def test_the_designs_are_what_their_names_say() -> None:
    for name, shape in DESIGNS.items():
        moe = architecture_from_config(json.dumps(design(shape)), name).moe
        assert (moe.n_active, moe.expert_width, moe.shared_width, moe.n_experts) == shape
        assert moe.count == 8
    parts = {name: design.width * design.n_active for name, design in DESIGNS.items()}
    assert parts["coarse"] == parts["fine"] == parts["k4"], (
        "the same bytes, in experts of other sizes"
    )
    assert len(plan_of("k2").cells) == 30
