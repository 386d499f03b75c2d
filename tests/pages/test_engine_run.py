"""Measuring the engine from Design and Measure: a run with the fake engine, and a made-up result
put to use."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from advisor.measured import profiler_runs as profile
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from tests.golden.sentences import Golden, lines_with
from tests.pages.app_page import opened, press, telling
from tests.pages.test_app import charts, link
from tests.pages.test_profile import until
from tests.profiling import fake_engine
from tests.studies.test_engine_designs import write
from tools.engine_data_set import DESIGNS, design

pytestmark = pytest.mark.usefixtures("own_runs")
CONFIG = json.dumps(design(DESIGNS["k4"]))
SCENARIO = Scenario(
    model_id="olmoe-1b-7b",
    hardware_id="h200-sxm",
    acceptance="2.4@3",
    batch_size=64,
    context_tokens=900,
)
GRID = "--batches 1,4,16,64 --context 900"
"""The batch and the context that the page shows."""


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This Python has an engine."""
    monkeypatch.setenv("PYTHONPATH", str(fake_engine.install(tmp_path / "fake")))
    monkeypatch.setenv(profile.PYTHON_VARIABLE, sys.executable)


def over() -> bool:
    run = profile.latest(engine=True)
    return run is not None and not run.alive


def measured() -> AppTest:
    """The page Measure after a run, on SYNTHETIC rows: nothing here was measured."""
    (folder,) = write(profile.runs_folder().parent, ("k4",))
    shutil.copytree(folder, profile.runs_folder() / "k4-engine")
    facts = {"preset": profile.ENGINE, "device": "k4", "pid": 1, "started": 0.0, "exit_code": 0}
    profile._note("k4-engine", facts)
    return on_measure()


def on_measure() -> AppTest:
    """The page Measure with its part on measuring open."""
    test = opened("measure", **link(SCENARIO))
    test.session_state["measure_setup"] = True
    return test.run()


def commands(test: AppTest) -> list[str]:
    """What the page offers to be typed instead."""
    return [item.value for item in test.code if "profile" in item.value]


def test_without_an_engine_there_is_the_command_alone(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(profile, "engine_python", lambda: "")
    test = on_measure()
    golden(command=commands(test), it_runs=telling(test, "It runs"))
    assert "engine_start" not in {item.key for item in test.button}


def test_a_run_is_started_cancelled_and_resumed_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setenv("FAULT", "hang:1")  # else it may be over before the page is open again
    test = on_measure()
    test.text_input(key="engine_batches").set_value("1,4")
    test.text_input(key="engine_context").set_value("16")
    test.text_input(key="engine_drafts").set_value("0,1").run()
    press(test, "engine_start")
    assert not test.error
    run = profile.latest(engine=True)
    assert profile.latest() is None, "no sweep"
    until(lambda: profile.engine_progress(run)[0] > 0)
    again = on_measure()  # a new session
    assert any("Measuring olmoe" in str(item.proto) for item in again.get("progress"))
    press(again, "engine_cancel")
    until(over)
    after = on_measure()
    golden(cancelled_what=telling(after, "Cancelled: what"))
    monkeypatch.delenv("FAULT")
    press(after, "engine_resume")
    until(over)
    done = profile.latest(engine=True)
    assert (done.name, done.exit_code) == (run.name, 0)
    assert (done.folder / "data.csv").read_text().count("\n") == 5


def test_a_grid_that_cannot_be_run_is_refused_in_the_command_s_words(golden: Golden) -> None:
    profile.start_engine(SCENARIO, "k4", CONFIG, ("1,q", "0", "16"))
    until(over)
    golden(profiler_refused=telling(on_measure(), "The profiler"))


def test_its_points_stand_on_the_curve_and_one_button_uses_them(golden: Golden) -> None:
    test = measured()
    assert test.segmented_control(key="engine_k").options == ["1", "3"]
    (chart,) = charts(test)
    golden(points_lie=lines_with(chart.alt, "5 of"))
    assert "random, K = 3" in chart.alt
    press(test, "engine_use")
    assert test.session_state["refit"]
    golden(use_every=test.button(key="engine_use").label)


def test_design_measures_the_design_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def start(
        _scenario: Scenario, name: str, config: str | None, _grid: tuple[str, str, str]
    ) -> None:
        asked.extend((name, config or ""))
        raise AdvisorError("a sweep is running on this machine already")

    monkeypatch.setattr(profile, "start_engine", start)
    test = opened("design", **link(SCENARIO))
    press(test, "engine_start")
    assert "already" in test.error[0].value
    assert commands(test) == [
        f"advisor profile --engine vllm --model {asked[0]}.json {GRID} --output measured"
    ]
    assert telling(test, f"{asked[0]}.json")
    assert json.loads(asked[1])["num_hidden_layers"] > 0
