"""`report` on the command line, and the Report page.

`advisor app`: the store in the background, and Streamlit on this machine alone; what Streamlit does
then is its own.

`advisor profile`: the profiler's own options and exit status, and a sentence where torch is
missing.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import runpy
import socket
import sys
from pathlib import Path

import pandas as pd
import pytest

from advisor.cli import app, report, store
from advisor.measured.measurements import sweeps
from advisor.measured.store_build import build as build_profile
from advisor.prediction import AdvisorError, Tier
from advisor.show.report import build
from advisor.show.report.blocks import FORMATS
from tests.command_line import QWEN as SCENARIO
from tests.command_line import Run
from tests.measured.sweep_fixture import DEVICE, write_sweep
from tests.pages.app_page import opened

pytestmark = pytest.mark.usefixtures("no_store")
ROOT = Path(__file__).resolve().parents[2]


QWEN = [*SCENARIO, "--batch", "16"]


WIDE = [*QWEN, "--ep", "8", "--k-max", "2"]


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_written_and_named(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"r.{form}"
    code, out, err = run(
        "report", *QWEN, "--format", form, "--output", str(file), "--date", "2026-11-21", "--json"
    )
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["bytes"] == file.stat().st_size > 1000
    assert said["date"] == "2026-11-21"


def test_setups_stand_beside_an_html_file_alone_and_are_four_at_most(
    run: Run, tmp_path: Path
) -> None:
    setup = tmp_path / "other.json"
    setup.write_text(run("advise", *QWEN, "--json")[1], encoding="utf-8")
    beside = ["--beside", str(setup)]
    assert run("report", *QWEN, *beside, "-o", str(tmp_path / "r.html"))[0] == 0
    for others, name in ((beside, "r.md"), (5 * beside, "r.html")):
        code, out, err = run("report", *QWEN, *others, "-o", str(tmp_path / name))
        assert (code, out) == (2, "")
        assert "--beside" in err


def test_the_ending_names_the_format(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("report", *QWEN, "--output", str(tmp_path / "r.MD"))
    assert code == 0
    assert "r.MD: md, " in out
    assert (tmp_path / "r.MD").read_text(encoding="utf-8").startswith("#")


def test_a_json_report_makes_the_same_files_again(run: Run, tmp_path: Path) -> None:
    first = tmp_path / "a"
    again = tmp_path / "b"
    for form in ("json", "pdf"):
        run("report", *QWEN, "--format", form, "-o", f"{first}.{form}", "--date", "2026-01-02")
        code, _, err = run(
            "report", "--scenario", f"{first}.json", "--format", form, "-o", f"{again}.{form}"
        )
        assert (code, err) == (0, "")
        assert Path(f"{again}.{form}").read_bytes() == Path(f"{first}.{form}").read_bytes()


def test_ranks_are_counted_in_the_report(run: Run, tmp_path: Path) -> None:
    code, _, err = run("report", *WIDE, "--no-checks", "--ranks", "-o", str(tmp_path / "r.json"))
    assert (code, err) == (0, "")
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["expert_ranks"]
    assert (told["origin"], told["routing"]) == ("preset", None)


def test_judged_rows_that_cannot_be_read_leave_a_report_without_known_errors(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged() -> None:
        raise AdvisorError(
            "profiles/validation/judged_speedups.json cannot be read; run `make validation`"
        )

    monkeypatch.setattr(build, "read_judged", damaged)
    file = tmp_path / "r.md"
    code, _, err = run("report", *QWEN, "--format", "md", "-o", str(file))
    assert code == 0
    assert err.startswith("note: ")
    assert "Not looked up" in file.read_text(encoding="utf-8")


def test_known_errors_are_grouped_by_what_the_points_share(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = pd.DataFrame(
        {
            "hardware_id": ["h200-sxm", "h200-sxm", "a100-80gb-sxm", "a100-80gb-sxm"],
            "model_id": ["qwen3-30b-a3b", "mixtral-8x7b", "qwen3-30b-a3b", "mixtral-8x7b"],
            "measured": [1.5, 1.2, 1.3, 1.1],
            "predicted_speedup": 1.4,
            "predicted_low": 1.2,
            "predicted_high": 1.6,
            "predicted_tier": ["fitted", "roofline", "roofline", "fitted"],
            "absolute_percentage_error": 0.1,
        }
    )
    monkeypatch.setattr(build, "read_judged", lambda: ("hash", judged))
    found = build.applicable_errors("h200-sxm", "qwen3-30b-a3b", Tier.FITTED)
    assert {name: errors.n for name, errors in found.items()} == {
        "this accelerator and model": 1,
        "this accelerator, other models": 1,
        "this model, other accelerators": 1,
        "all published points": 4,
    }
    own = build.applicable_errors("h200-sxm", None, Tier.FITTED)
    assert {name: errors.n for name, errors in own.items()} == {
        "this accelerator, other models": 2,
        "all published points": 4,
    }
    sheet = build.applicable_errors(None, None, Tier.ROOFLINE)
    assert {name: errors.n for name, errors in sheet.items()} == {
        "accelerators known by their data sheets alone": 2,
        "all published points": 4,
    }
    monkeypatch.setattr(build, "read_judged", lambda: ("hash", judged.iloc[:0]))
    assert build.applicable_errors("h200-sxm", "qwen3-30b-a3b", Tier.FITTED) == {}


def test_the_page_previews_the_report_of_the_chosen_date_and_offers_every_format() -> None:
    test = opened("share", acceptance="2.4@3")
    offered = [button.label for button in test.main.get("download_button")]
    assert [label for label in offered if label in ("PDF", "HTML", "Markdown", "JSON", "CSV")] == [
        *("PDF", "HTML", "Markdown", "JSON", "CSV")
    ]
    preview = [item.value for item in test.main.markdown]
    assert any(text.startswith("# Draft 3 tokens") for text in preview)
    assert any("## Sources" in text for text in preview)
    commands = [item.value for item in test.main.code]
    assert any(text.startswith("vllm serve") for text in commands)
    assert not any("```" in text for text in preview)
    test.date_input(key="report_date").set_value(dt.date(2025, 3, 4)).run()
    assert any("2025-03-04, scenario" in item.value for item in test.main.markdown)


def test_the_page_says_why_there_is_no_report() -> None:
    test = opened("share", acceptance="nonsense")
    assert len(test.error) == 1
    assert [button.label for button in test.main.get("download_button")] == ["Scenario file"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of the store's build and of Streamlit, instead of running them."""
    calls: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["advisor"])
    monkeypatch.setattr(app.subprocess, "Popen", lambda words, **_: calls.append(words[1:]))
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: calls.append([name, *sys.argv[1:]]))
    return calls


def test_the_app_is_served_to_this_machine_alone_from_any_folder_the_store_built_beside_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, started: list[list[str]], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run("app", "--port", 8611)
    build = ["-m", "advisor", "store", "build", "--if-stale", "--json"]
    options = ["--server.address", "127.0.0.1", "--server.port", "8611"]
    assert started == [build, ["streamlit", "run", str(ROOT / "serve.py"), *options]]


def test_a_port_in_use_says_how_to_take_another(run: Run, started: list[list[str]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("app", "--port", port)
    assert (code, started) == (2, [])
    assert re.findall(r"PORT=(\d+)", err) == [str(port + 1)]


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_cannot_be_is_refused(run: Run, started: list[list[str]], port: str) -> None:
    code, _, err = run("app", "--port", port)
    assert (code, started) == (2, [])
    assert "--port" in err


def test_profile_without_torch_exits_2_with_one_sentence_and_explains_its_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    code, out, err = run("profile", "--preset", "quick", "--output", "x")
    assert (code, out) == (2, "")
    assert err == f"error: {report.TORCH_MISSING}\n"
    code, out, _ = run("profile", "--help")
    assert code == 0
    assert "--resume" in out


@pytest.mark.parametrize("status", [0, 2, 3])
def test_profile_hands_on_options_and_exit_status(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    seen: list[list[str]] = []

    def profiler(options: list[str]) -> int:
        seen.append(options)
        return status

    monkeypatch.setattr(report, "find_spec", lambda _: object())
    monkeypatch.setattr(report, "profiler", profiler)
    options = [
        "--preset",
        "smoke",
        "--only",
        "launch",
        "--only=gemm",
        "--json",
        "--output",
        "a folder",
    ]
    assert run("profile", *options)[0] == status
    assert seen == [options]


def test_profile_refuses_a_wrong_option_in_one_line(run: Run) -> None:
    code, out, err = run("profile", "--preset", "quick", "--plan", "--presets")
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_store_status_names_the_sweeps(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    write_sweep(tmp_path / "measurements" / "made-up", status="partial")
    path = tmp_path / "advisor.duckdb"
    build_profile(path, kernels=None)
    monkeypatch.setattr(store, "sweeps", lambda: sweeps(tmp_path / "measurements"))
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))
    code, out, _ = run("store", "status")
    assert code == 0
    assert "Sweeps of the profiler:" in out
    line = next(line for line in out.splitlines() if line.startswith("made-up"))
    assert DEVICE in line
    assert "partial" in line
