"""Files and links that version 0.3 wrote open as the same scenario, and so do those of today.

tests/fixtures/recorded_0_3 holds what its commands wrote, lists cut to three entries.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from advisor.predict.scenario import Scenario, read_scenario
from tests.command_line import Run

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "recorded_0_3"
LINKS = json.loads((FOLDER / "links.json").read_text(encoding="utf-8"))
RECORDED = sorted(path.name for path in FOLDER.glob("*.json") if path.name != "links.json")


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_file_restores_its_scenario(run: Run, name: str) -> None:
    document = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    code, out, err = run("advise", "--scenario", FOLDER / name, "--json")
    assert code == 0, err
    answer = json.loads(out)
    stated = {field: value for field, value in document["scenario"].items() if value is not None}
    restored = {name: value for name, value in answer["scenario"].items() if value is not None}
    assert restored == stated
    assert answer["scenario_hash"] == document["scenario_hash"]


def test_a_recorded_report_opens_as_a_report_of_its_date(run: Run, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    source = FOLDER / "report.json"
    code, _, err = run("report", "--scenario", source, "--format", "json", "-o", written)
    assert code == 0, err
    again = read_scenario(written.read_bytes())
    first = read_scenario(source.read_bytes())
    assert again.scenario == first.scenario
    assert first.date == dt.date(2026, 1, 1)


@pytest.mark.parametrize("scenario_hash", LINKS)
def test_a_recorded_link_restores_its_scenario(scenario_hash: str) -> None:
    scenario = Scenario.from_query(LINKS[scenario_hash])
    assert scenario.hash == scenario_hash
    assert Scenario.from_query(scenario.to_query()) == scenario


def test_what_advise_writes_as_json_today_is_read_again(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    _, out, _ = run("advise", "--scenario", FOLDER / "scenario_limited.json", "--json")
    file.write_text(out, encoding="utf-8")
    code, again, err = run("advise", "--scenario", file, "--json")
    assert code == 0, err
    assert json.loads(again) == json.loads(out)
