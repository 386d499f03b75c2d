"""The profiler end to end on the CPU: a smoke sweep, its files, resuming, bad input, and bare
machines."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from advisor.profiling import kernels_moe
from advisor.profiling.command import main, parser
from advisor.profiling.device import ProfilingError, detect_devices
from advisor.profiling.plan import Plan, make_plan
from advisor.profiling.results import COLUMNS, rows_text, to_yaml
from advisor.profiling.runner import Progress, run

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["bandwidth", "launch", "gemm", "lm-head", "attention-gqa"]


@pytest.fixture(scope="module")
def smoke_plan() -> Plan:
    return make_plan(
        "smoke", next(device for device in detect_devices() if device.backend == "cpu")
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory, smoke_plan: Plan) -> Path:
    """One finished smoke sweep, shared by the tests that only read it."""
    out = tmp_path_factory.mktemp("profile") / "smoke"
    outcome = run(smoke_plan, out)
    assert outcome.status == "complete", outcome.reasons
    return out


@pytest.fixture(scope="module")
def few_blocks(smoke_plan: Plan) -> Plan:
    """Five short blocks of the smoke sweep, for what any sweep does."""
    return make_plan("smoke", smoke_plan.device, only=SHORT)


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "data.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_smoke_sweep_measures_every_operation(smoke: Path) -> None:
    rows = rows_of(smoke)
    assert {row["op"] for row in rows if row["status"] == "ok"} == {
        *(
            "copy_bandwidth",
            "read_bandwidth",
            "launch",
            "gemm",
            "moe_layer",
            "attention_decode",
            "mla_decode",
        ),
        *("lm_head", "decode_step", "verify_step"),
        *("moe_align", "verify_parts"),
    }


def test_every_measured_row_has_ordered_times_and_names_its_kernel(smoke: Path) -> None:
    for row in rows_of(smoke):
        if row["status"] != "ok":
            assert row["time_s"] == ""
            assert row["notes"], "a row without times says why"
            continue
        assert row["kernel"]
        assert 0 < float(row["time_p20_s"]) <= float(row["time_s"]) <= float(row["time_p80_s"])
        assert int(row["n_rounds"]) == 3
        assert float(row["control_ratio"]) > 0


def test_every_checked_row_passed_its_float64_check(smoke: Path) -> None:
    checked = [
        row
        for row in rows_of(smoke)
        if row["op"] in ("moe_layer", "attention_decode", "verify_step", "gemm")
    ]
    for row in (row for row in checked if row["status"] == "ok"):
        limit = (
            4e-2 if row["dtype"] == "float8_e4m3fn" else 1e-3
        )  # the rest of the smoke sweep is float32
        assert 0 < float(row["checked_error"]) < limit, row["op"]


def test_meta_yaml_parses_and_its_status_is_computed(smoke: Path) -> None:
    meta = yaml.safe_load((smoke / "meta.yaml").read_text())
    assert meta["status"] == "complete"
    assert meta["kind"] == "measured"
    assert meta["rows"] == len(rows_of(smoke))
    assert meta["measured_rows"] == sum(row["status"] == "ok" for row in rows_of(smoke))
    assert isinstance(meta["elapsed_s"], float)
    assert meta["device"]["backend"] == "cpu"
    assert meta["software"]["torch"] == str(torch.__version__)
    assert meta["software"]["torch_threads"] == 1
    assert {block["status"] for block in meta["blocks"]} == {"ok"}
    assert not (smoke / "progress.json").exists()


def test_a_block_that_fails_is_reported_and_the_others_are_kept(
    tmp_path: Path, smoke_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(x: torch.Tensor, *_: object) -> torch.Tensor:
        return x * 1.5

    monkeypatch.setattr(kernels_moe, "expert_loop", broken)
    monkeypatch.setattr(kernels_moe, "grouped_mm", broken)
    device = smoke_plan.device
    outcome = run(make_plan("smoke", device, only=["moe-smoke", "launch"]), tmp_path / "out")
    assert outcome.status == "partial"
    assert "wrong output" in outcome.reasons[0]
    rows = rows_of(tmp_path / "out")
    assert {row["op"] for row in rows if row["status"] == "ok"} == {"launch"}
    assert yaml.safe_load((tmp_path / "out" / "meta.yaml").read_text())["status"] == "partial"


def test_an_interrupted_sweep_keeps_its_rows_and_resumes(tmp_path: Path, few_blocks: Plan) -> None:
    out = tmp_path / "out"
    seen: list[Progress] = []
    outcome = run(few_blocks, out, seen.append, lambda: bool(seen) and seen[-1].done_blocks >= 3)
    assert outcome.status == "partial"
    first = rows_of(out)
    assert 0 < len({row["block"] for row in first}) < len(few_blocks.blocks)
    with (out / "data.csv").open(
        "a"
    ) as stream:  # a block that was being written when the process died
        stream.write("rounds," + "," * (len(COLUMNS) - 2) + "\n")
    resumed = run(few_blocks, out, resume=True)
    assert resumed.status == "complete"
    rows = rows_of(out)
    assert rows[: len(first)] == first
    assert {row["block"] for row in rows} == {block.name for block in few_blocks.blocks}
    assert all(row["status"] for row in rows)


def test_resume_refuses_another_plan_and_a_full_folder(
    tmp_path: Path, smoke_plan: Plan, smoke: Path
) -> None:
    out = tmp_path / "out"
    run(smoke_plan, out, None, lambda: True)
    other = make_plan("smoke", smoke_plan.device, seed=1)
    with pytest.raises(ProfilingError, match="this is plan"):
        run(other, out, resume=True)
    with pytest.raises(ProfilingError, match="already holds results"):
        run(smoke_plan, out)
    with pytest.raises(ProfilingError, match="nothing to resume"):
        run(smoke_plan, smoke, resume=True)


def test_time_limit_leaves_a_partial_sweep_that_resumes(tmp_path: Path, few_blocks: Plan) -> None:
    outcome = run(few_blocks, tmp_path / "out", time_budget_s=0.01)
    assert outcome.status == "failed"  # nothing fits
    assert any("time limit" in reason for reason in outcome.reasons)
    assert run(few_blocks, tmp_path / "out", resume=True).status == "complete"


def test_the_price_is_printed_before_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert (
        main(["--preset", "smoke", "--device", "cpu", "--output", str(out), "--only", "launch"])
        == 0
    )
    text = capsys.readouterr().out
    assert "estimate" in text
    assert text.index("estimate") < text.index("launch: preparing")
    assert main(["--preset", "standard", "--device", "cpu", "--plan", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (
        0
        < facts["estimate_s"]
        == pytest.approx(sum(block["estimate_s"] for block in facts["blocks"]))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "nightly", "--device", "cpu", "--plan"], "unknown preset"),
        (["--device", "tpu:3", "--plan"], "no device 'tpu:3'"),
        (["--device", "cpu"], "give --output"),
        (["--device", "cpu", "--plan", "--only", "nothing"], "no block matches"),
        (["--device", "cpu", "--output", "x", "--time-budget-s", "-1"], "must be above 0"),
    ],
)
def test_bad_input_exits_2_with_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


BARE = """
import sys
class Blocked:
    names = ("pydantic", "duckdb", "pandas", "scipy", "streamlit", "yaml", "plotly", "pyarrow", "typer")
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
from advisor.profiling.command import main
code = main(sys.argv[1:])
used = [name for name in Blocked.names if name in sys.modules]
others = [n for n in sys.modules if n.startswith("advisor.") and not n.startswith("advisor.profiling")]
assert not used and not others, (used, others)
sys.exit(code)
"""  # noqa: E501


def test_torch_and_numpy_suffice(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        BARE,
        "--preset",
        "smoke",
        "--device",
        "cpu",
        "--output",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout


def test_sigterm_to_the_command_leaves_a_resumable_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "advisor.profiling",
        "--preset",
        "quick",
        "--device",
        "cpu",
        "--output",
        str(out),
    ]
    child = subprocess.Popen(
        [*command, "--progress", "json"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    for line in child.stdout:
        if json.loads(line).get("progress", {}).get("done_blocks") == 1:
            break
    child.terminate()
    child.stdout.read()
    assert child.wait() == 3
    assert json.loads((out / "progress.json").read_text())["blocks"]["bandwidth"]["status"] == "ok"
    assert {row["block"] for row in rows_of(out)} >= {"bandwidth"}


def test_yaml_writer_agrees_with_the_yaml_library() -> None:
    content = {
        "text": 'a "quoted": #text\nwith a line',
        "number": 1e-05,
        "large": 2.5e20,
        "whole": 3,
        "none": None,
        "no": False,
        "empty": [],
        "nothing": {},
        "not_finite": float("nan"),
        "list": ["yes", {"deep": [1.5, "2024-01-01"]}],
    }
    read = yaml.safe_load(to_yaml(content))
    assert read == content | {"not_finite": None}


def test_results_refuse_a_column_that_is_not_documented() -> None:
    with pytest.raises(ProfilingError, match="undocumented"):
        rows_text([{"block": "a", "speed": 1}], header=False)


def test_every_result_column_and_option_is_documented() -> None:
    text = (ROOT / "docs" / "profiling.md").read_text(encoding="utf-8")
    for column in COLUMNS:
        assert f"`{column}`" in text, f"docs/profiling.md does not document the column {column}"
    for action in parser()._actions:
        for option in action.option_strings:
            if action.help != "==SUPPRESS==" and option.startswith("--"):
                assert f"`{option}" in text, f"docs/profiling.md does not document {option}"
