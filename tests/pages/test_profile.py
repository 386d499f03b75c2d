"""The page Profile this machine: what it offers, a run in its own process, what it makes of the
result.

Runs here are started with a stand-in for the profiler's process unless torch is installed; sweeps
are made up.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from advisor.catalog.hardware import read_own_hardware
from advisor.measured import profiler_runs as profile
from advisor.measured.measurements import read_sweep
from advisor.measured.sweep_fit import fit_sweep
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import ratio_chart
from tests.golden.sentences import Golden
from tests.measured.sweep_fixture import sweep_rows, write_sweep
from tests.pages.app_page import WAIT_S, opened, press, telling

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("own_runs")
DEVICES = [{"label": "cpu", "name": "stand-in CPU"}]
PLAN = {
    "estimate_s": 99.4,
    "limit_s": 120.0,
    "blocks": [{"name": "launch", "op": "launch", "estimate_s": 0.4}],
}

STAND_IN = """
import json, signal, sys, time
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--output") + 1])
out.mkdir(parents=True, exist_ok=True)
(out / "progress.json").write_text("{}")
at = dict(done_blocks=2, total_blocks=5, block="moe", round=3, rounds=24, elapsed_s=10.0, remaining_s=30.0, message="m")
def stop(*_):
    print("stopping after this round", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"plan": {}}), flush=True)
print(json.dumps({"progress": at}), flush=True)
if "--resume" in sys.argv:
    sys.exit(0)
time.sleep(60)
"""  # noqa: E501


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with torch whose profiler is STAND_IN."""
    st.cache_data.clear()
    monkeypatch.setattr(profile, "find_spec", lambda _: object())
    monkeypatch.setattr(profile, "devices", lambda: DEVICES)
    monkeypatch.setattr(profile, "plan", lambda _preset, _device: PLAN)
    monkeypatch.setattr(
        profile, "_command", lambda options: [sys.executable, "-c", STAND_IN, *options]
    )


def page() -> AppTest:
    test = opened("measure")
    test.session_state["measure_machine"] = True
    return test.run()


def until(done: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def started() -> profile.ProfilerRun:
    run = profile.start("quick", "cpu")
    until(lambda: profile.progress(run) is not None)
    return run


def ended() -> profile.ProfilerRun:
    """The latest run, once it is over."""
    until(lambda: not profile.latest().alive)  # type: ignore[union-attr]
    run = profile.latest()
    assert run is not None
    return run


def finished(
    name: str = "cpu-made-up-quick", code: int | None = 0, **meta: Any
) -> profile.ProfilerRun:
    """A made-up run that is over, on disk as a real one would be."""
    write_sweep(profile.runs_folder() / name, sweep_rows(noise=0.03), **meta)
    profile._note(
        name, {"preset": "quick", "device": "cpu", "pid": 1, "started": 0.0, "exit_code": code}
    )
    run = profile.latest()
    assert run is not None
    return run


def test_without_torch_the_page_says_so_in_one_sentence_and_offers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile, "find_spec", lambda _: None)
    test = page()
    assert test.info[0].value == f"Not offered: {profile.TORCH_MISSING}."
    assert "profile_start" not in {button.key for button in test.button}
    assert not test.error


def test_beyond_this_machine_measuring_is_off_unless_allowed(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setattr(profile, "find_spec", lambda _: object())
    here = "http://127.0.0.1:8501/profile"
    proxied = "https://advisor.example.org/profile"
    assert profile.refusal("127.0.0.1", here) == ""
    assert profile.refusal("localhost", None) == ""
    for address, url in (("0.0.0.0", here), (None, here), ("127.0.0.1", proxied)):
        golden(served_beyond=profile.refusal(address, url))
    monkeypatch.setenv(profile.ALLOW_VARIABLE, "1")
    assert profile.refusal("0.0.0.0", proxied) == ""


@pytest.mark.usefixtures("stand_in")
def test_the_page_shows_device_and_price_before_anything_runs(golden: Golden) -> None:
    test = page()
    golden(devices=test.selectbox(key="profile_device").options)
    golden(about_blocks=telling(test, "About **99"))
    assert test.button(key="profile_start").label == "Measure"
    assert profile.latest() is None


@pytest.mark.usefixtures("stand_in")
def test_a_device_that_cannot_be_asked_is_reported_not_raised(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    st.cache_data.clear()

    def broken() -> list[dict[str, Any]]:
        raise AdvisorError("the driver does not answer")

    monkeypatch.setattr(profile, "devices", broken)
    golden(driver_does=page().error[0].value)


@pytest.mark.usefixtures("stand_in")
def test_measure_starts_a_run_that_a_reloaded_page_finds_and_can_cancel(golden: Golden) -> None:
    press(page(), "profile_start")
    run = profile.latest()
    until(lambda: profile.progress(run) is not None)
    again = page()  # a new session: nothing of the old one is left
    golden(measuring_cpu=telling(again, "Measuring cpu"))
    golden(progress=[item.proto.text for item in again.get("progress")])
    press(again, "profile_cancel")
    ended()
    after = page()
    golden(cancelled_what=telling(after, "Cancelled: what"))
    press(after, "profile_resume")
    done = ended()
    assert (done.name, done.exit_code) == (run.name, 0)


@pytest.mark.usefixtures("stand_in")
def test_a_second_sweep_at_the_same_time_is_refused() -> None:
    run = started()
    with pytest.raises(AdvisorError, match="a sweep is running on this machine already"):
        profile.start("quick", "cpu")
    assert profile.share_done(profile.progress(run) or {}) == pytest.approx(0.25)
    assert "[  10.0 s] moe: m 3/24" in profile.log_text(run)


def test_sessions_that_look_at_the_same_time_never_take_each_other_for_a_sweep() -> None:
    profile.runs_folder().mkdir(parents=True)
    (profile.runs_folder() / "running.lock").touch()
    with ThreadPoolExecutor(8) as sessions:
        assert not any(sessions.map(lambda _: profile._is_running(), range(400)))


@pytest.mark.usefixtures("stand_in")
def test_a_killed_run_is_explained(golden: Golden) -> None:
    run = started()
    os.kill(run.pid, signal.SIGKILL)
    over = ended()
    assert over.exit_code == -signal.SIGKILL
    golden(ended_sigkill=profile.ending(over))


@pytest.mark.usefixtures("stand_in")
def test_an_app_started_again_finds_the_run_alive_and_sees_it_end(golden: Golden) -> None:
    run = started()
    child = profile._CHILDREN.pop(run.name)  # the new app is not its parent
    found = profile.latest()
    assert found.alive
    child.kill()
    child.wait(timeout=WAIT_S)
    over = profile.latest()
    assert not over.alive
    golden(ended_before=profile.ending(over))


def test_a_refusal_of_the_profiler_is_shown_in_its_own_words(golden: Golden) -> None:
    run = finished(code=2)
    run.log.write_text("error: no device 'cuda:3' here; choose one of cpu\n")
    golden(profiler_refused=profile.ending(run))


@pytest.mark.usefixtures("stand_in")
def test_a_finished_sweep_shows_findings_bandwidth_and_the_held_out_chart(golden: Golden) -> None:
    run = finished()
    test = page()
    assert {item.label: item.value for item in test.metric} == {
        "Status": "complete",
        "Measured rows": "52",
        "Copy bandwidth": "30.0 GB/s",
    }
    downloads = test.get("download_button")
    assert [item.proto.id.endswith("-profile_zip") for item in downloads].count(True) == 1
    golden(made_up=telling(test, "made"))
    fit = fit_sweep(read_sweep(run.folder))[0]
    assert f"mean error {fit.mean_ratio_error:.1%}" in test.get("plotly_chart")[0].proto.alt


@pytest.mark.usefixtures("stand_in")
def test_a_damaged_result_is_reported_not_raised(golden: Golden) -> None:
    run = finished()
    (run.folder / "data.csv").write_text("block,op\n")
    golden(columns_are=page().error[0].value)


def test_a_measured_machine_is_the_accelerator_in_one_click() -> None:
    sweep = read_sweep(ROOT / "measurements/cpu-epyc-turin-quick")
    values = json.loads(profile.accelerator_of(sweep))
    assert values["bandwidth_bytes_per_s"] == pytest.approx(profile.copy_bandwidth(sweep))
    rows = sweep.rows[(sweep.rows["op"] == "gemm") & (sweep.rows["dtype"] == "bfloat16")]
    assert values["peak_flops_per_s"]["bf16"] == pytest.approx(
        (rows["flops"] / rows["time_s"]).max()
    )
    own = read_own_hardware(json.dumps(values))
    assert own.memory_bytes == sweep.meta.device.memory_bytes
    bare = replace(sweep, rows=sweep.rows[sweep.rows["op"] != "gemm"])
    with pytest.raises(AdvisorError, match="no BF16 GEMM"):
        profile.accelerator_of(bare)


def test_the_download_is_a_folder_to_unpack_under_measurements(tmp_path: Path) -> None:
    run = finished()
    with zipfile.ZipFile(io.BytesIO(profile.archive(run))) as packed:
        assert sorted(packed.namelist()) == [f"{run.name}/data.csv", f"{run.name}/meta.yaml"]
        packed.extractall(tmp_path / "measurements")
    assert read_sweep(tmp_path / "measurements" / run.name).sha256 == read_sweep(run.folder).sha256


def test_the_ratio_chart_holds_every_held_out_pair_and_says_its_error(tmp_path: Path) -> None:
    fit = fit_sweep(read_sweep(write_sweep(tmp_path / "made-up", sweep_rows(noise=0.05))))[0]
    chart = ratio_chart(fit)
    points = [trace for trace in chart.figure.data if trace.mode == "markers"]
    assert [trace.name for trace in points] == ["k = 1", "k = 2", "k = 4", "k = 8"]
    assert sum(len(trace.x) for trace in points) == len(chart.data) == len(fit.ratios)
    assert f"worst {fit.ratios['error'].max():.1%}" in chart.alt


def test_a_smoke_sweep_runs_in_its_own_process_from_plan_to_result() -> None:
    pytest.importorskip("torch", reason="the profiler itself needs torch (requirements.txt has it)")
    assert "cpu" in [item["label"] for item in profile.devices()]
    assert profile.plan("smoke", "cpu")["estimate_s"] > 0
    run = profile.start("smoke", "cpu", extra=("--only", "moe-smoke", "--only", "bandwidth"))
    over = ended()
    assert (over.exit_code, profile.ending(over)) == (0, "")
    sweep = read_sweep(run.folder)
    assert sweep.meta.status == "complete"
    assert (profile.copy_bandwidth(sweep) or 0) > 0
    assert (profile.progress(over) or {})["done_blocks"] == 2
