"""Scenarios on the command line: examples, files, own accelerators, and several side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.compare import finding
from advisor.predict.scenario import Scenario, example_ids, load_example, scenario_json
from tests.catalog.test_own_hardware import POD
from tests.command_line import QWEN, run


def scenario_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Scenario:
    code, out, err = run(capsys, "advise", *arguments, "--json")
    assert code == 0, err
    return Scenario.model_validate(json.loads(out)["scenario"])


def test_examples_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "examples")
    assert code == 0
    for name in example_ids():
        example = load_example(name)
        assert f"{name}\n  {example.description}" in out
        assert example.sources[0] in out
    listed = json.loads(run(capsys, "examples", "--json")[1])
    assert [Scenario.model_validate(item["scenario"]) for item in listed] == [
        load_example(name).scenario for name in example_ids()
    ]


def test_an_example_is_a_start_that_options_change(capsys: pytest.CaptureFixture[str]) -> None:
    start = load_example("mixtral").scenario
    assert scenario_of(capsys, "--example", "mixtral") == start
    changed = scenario_of(capsys, "--example", "mixtral", "--batch", "64", "--accepted-length", "2@3", "--tp", "4")
    wanted = {"batch_size": 64, "acceptance": "2@3", "tensor_parallel": 4, "n_gpus": 4}
    assert changed == start.model_copy(update=wanted)


def test_a_scenario_file_is_read_and_changed_and_an_edit_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    start = Scenario(acceptance="2.4@3", hardware_id="own-pod", hardware_json=json.dumps(POD), k_max=4)
    file = tmp_path / "s.json"
    file.write_text(scenario_json(start), encoding="utf-8")
    assert scenario_of(capsys, "--scenario", str(file)) == start
    back = scenario_of(capsys, "--scenario", str(file), "--hardware", "h100-sxm")
    assert (back.hardware_id, back.hardware_json, back.k_max) == ("h100-sxm", None, 4)
    file.write_text(scenario_json(start).replace('"k_max": 4', '"k_max": 5'), encoding="utf-8")
    code, _, err = run(capsys, "advise", "--scenario", str(file))
    assert code == 0
    assert "it was edited" in err


def test_an_accelerator_s_file_stands_where_an_id_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(POD), encoding="utf-8")
    scenario = scenario_of(capsys, *QWEN[2:], "--hardware", str(file))
    assert (scenario.hardware_id, json.loads(scenario.hardware_json or "")) == ("own-pod-of-2027", POD)
    _, out, _ = run(capsys, "advise", *QWEN[2:], "--hardware", str(file))
    assert out.startswith("At batch 16 on Pod of 2027, ")
    assert "roofline" in out.splitlines()[0]


def test_compare_prints_what_differs_and_the_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    start = load_example("mixtral").scenario
    file.write_text(scenario_json(start.model_copy(update={"batch_size": 64})), encoding="utf-8")
    code, out, err = run(capsys, "compare", "mixtral", str(file))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["batch", "16", "batch", "64"]
    assert lines[1].split() == ["Batch", "16", "64"]
    advices = [advise(start.model_copy(update={"batch_size": size})) for size in (16, 64)]
    assert f"Speedup                  {advices[0].recommendation.speedup.value:.2f}x" in out
    assert finding(advices, ["batch 16", "batch 64"]) in out
    document = json.loads(run(capsys, "compare", "mixtral", str(file), "--json")[1])
    assert [item["name"] for item in document["scenarios"]] == ["batch 16", "batch 64"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "mixtral"], "two to 4"),
        (["compare", *["mixtral"] * 5], "two to 4"),
        (["compare", "mixtral", "none.json"], "none.json"),
        (["advise", "--example", "none"], "examples"),
        (["advise", "--example", "qwen", "--scenario", "x.json"], "not both"),
        (["advise", "--scenario", "none.json"], "none.json"),
        (["advise"], "--example or --scenario"),
        (["advise", *QWEN[2:], "--hardware", "none.json"], "none.json"),
        (["advise", "--example", "qwen", "--hardware", "none"], "accelerators"),
    ],
)
def test_bad_input_exits_2_with_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["advise", "schedule"])
def test_what_a_command_printed_is_a_scenario_to_start_from_and_to_compare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    files = []
    for batch in (8, 32):
        _, out, _ = run(capsys, command, *QWEN, "--batch", batch, "--json")
        files.append(tmp_path / f"{batch}.json")
        files[-1].write_text(out, encoding="utf-8")
    _, out, err = run(capsys, "advise", "--scenario", files[0], "--json")
    assert Scenario.model_validate(json.loads(out)["scenario"]).batch_size == 8
    assert err == ""
    status, out, _ = run(capsys, "compare", *files, "--json")
    assert status == 0
    assert [item["scenario"]["batch_size"] for item in json.loads(out)["scenarios"]] == [8, 32]
