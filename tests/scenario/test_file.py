"""The scenario as a file: round trip, reports read as well, and a clear word for everything else."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.predict.scenario import (
    MAX_SCENARIO_BYTES,
    Scenario,
    example_ids,
    load_example,
    load_scenario_file,
    read_scenario,
    scenario_json,
)
from advisor.prediction import AdvisorError
from tests.catalog.test_own_hardware import POD

WHOLE = Scenario(
    acceptance="2.4@3",
    model_id="mine",
    model_config_json='{"model_type": "x"}',
    hardware_id="own-pod",
    hardware_json=json.dumps(POD),
    max_tpot_ms=12.5,
    input_tokens=5,
    output_tokens=6,
)


@pytest.mark.parametrize("scenario", [WHOLE, *(load_example(name).scenario for name in example_ids())], ids=str)
def test_a_file_brings_the_same_scenario_back(scenario: Scenario) -> None:
    found = read_scenario(scenario_json(scenario).encode())
    assert (found.scenario, found.stated_hash, found.date, found.note) == (scenario, scenario.hash, None, "")


def test_a_report_s_date_comes_along_and_settings_left_out_have_their_defaults() -> None:
    text = json.dumps({"schema_version": 1, "date": "2026-01-02", "scenario": {"acceptance": "2@3"}})
    found = read_scenario(b"\xef\xbb\xbf" + text.encode())
    assert (found.scenario, found.date) == (Scenario(acceptance="2@3"), dt.date(2026, 1, 2))


def test_an_edited_file_says_so() -> None:
    edited = json.loads(scenario_json(WHOLE))
    edited["scenario"]["batch_size"] = 3
    found = read_scenario(json.dumps(edited).encode())
    assert found.scenario.batch_size == 3
    assert WHOLE.hash in found.note


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b'{"schema_version": 1, "scen', "cut off"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "not text"),
        (b"[]", "JSON without a scenario"),
        (b"null", "JSON without a scenario"),
        (b'{"scenario": 3}', "JSON without a scenario"),
        (b'{"model_type": "mixtral"}', "give it as the model"),
        (json.dumps(POD).encode(), "give it as the accelerator"),
        (b'{"scenario": {"acceptance": "2@3"}}', "schema_version None"),
        (b'{"finding": "", "scenarios": [{}, {}]}', "a comparison of 2 scenarios, not one"),
        (b'{"schema_version": 2, "scenario_hash": "x", "scenario": {"acceptance": "2@3"}}', "schema_version 2"),
        (b'{"schema_version": 2, "scenario": {"acceptance": "2@3"}}', "schema_version 2"),
        (b'{"schema_version": 1, "scenario": {}}', "acceptance is missing"),
        (b'{"schema_version": 1, "scenario": {"acceptance": "2@3", "colour": "red"}}', "'colour' is not a setting"),
        (b'{"schema_version": 1, "scenario": {"acceptance": "2@3", "batch_size": 0}}', "batch_size=0"),
        (b'{"schema_version": 1, "date": "soon", "scenario": {"acceptance": "2@3"}}', "is not a day"),
        (b'{"schema_version": 1, "date": 5, "scenario": {"acceptance": "2@3"}}', "is not a day"),
        (b" " * (MAX_SCENARIO_BYTES + 1), "has at most"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_scenario_is_refused_in_one_sentence(content: bytes, said: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        read_scenario(content)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(AdvisorError):  # anything else fails the test
        read_scenario(content)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match=r"none\.json"):
        load_scenario_file(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(AdvisorError, match=r"broken\.json: the file is not JSON"):
        load_scenario_file(broken)
