"""The command line: answers, JSON contract, refusals, and places where heavy packages are missing.

`explain`: how one prediction was made, on a terminal and as JSON.

Scenarios on the command line: examples, files, own accelerators, and several side by side.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.changes import best_effects, next_steps
from advisor.cli.output import print_table
from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario, example_ids, load_example, scenario_json
from advisor.show.table import matrix
from advisor.show.words.compare import finding, what_text
from tests.catalog.test_hardware import POD
from tests.command_line import QWEN as SCENARIO
from tests.command_line import Run, flat, next_of
from tests.own_model import CONFIG_JSON

pytestmark = pytest.mark.usefixtures("no_store")
ROOT = Path(__file__).resolve().parents[2]


QWEN = [*SCENARIO, "--batch", "16"]


def test_advise_json_has_the_documented_keys(run: Run) -> None:
    code, out, _ = run("advise", *QWEN, "--json")
    document = json.loads(out)
    assert code == 0
    named = (
        "scenario scenario_hash engine band_level recommendation k_by_batch curve components_ms "
        "sources warnings"
    )
    assert set(named.split()) <= set(document)
    told = (
        "n_draft speedup speedup_low speedup_high tier bound tpot_ms tokens_per_s_per_gpu p_best "
        "regret verdict"
    )
    assert set(told.split()) <= set(document["recommendation"])
    assert {"batch_start", "batch_end", "n_draft", "speedup"} <= set(document["k_by_batch"][0])
    assert document["band_level"] == 0.8
    chosen = [
        r
        for r in document["curve"]
        if r["batch_size"] == 16 and r["n_draft"] == document["recommendation"]["n_draft"]
    ]
    assert chosen[0]["speedup"] == pytest.approx(document["recommendation"]["speedup"], rel=1e-3)


def test_curve_is_csv_with_one_row_for_each_batch_and_k(run: Run) -> None:
    code, out, _ = run("curve", *QWEN, "--batches", "1,8", "--k", "0,3")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [(row["batch_size"], row["n_draft"]) for row in rows] == [
        ("1", "0"),
        ("1", "3"),
        ("8", "0"),
        ("8", "3"),
    ]
    measures = "verify_ratio touched_plain touched_verify routed_ms attention_ms draft_ms"
    assert set(f"speedup speedup_low speedup_high tier {measures}".split()) <= set(rows[0])


def test_a_folder_s_quantisation_file_gives_its_config_the_formats(
    run: Run, tmp_path: Path
) -> None:
    profile = json.loads((ROOT / "profiles/models/qwen3-30b-a3b.json").read_text(encoding="utf-8"))
    folder = tmp_path / "Qwen3.0-NVFP4"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(profile["config"]), encoding="utf-8")
    block = {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "*.self_attn*"],
    }
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"quantization": block}), encoding="utf-8"
    )
    for given in (folder, folder / "config.json"):
        code, out, _ = run("advise", *QWEN[:3], str(given), *QWEN[4:], "--json")
        scenario = json.loads(out)["scenario"]
        assert (code, scenario["model_id"]) == (0, "Qwen3.0-NVFP4")
        assert json.loads(scenario["model_config_json"])["quantization_config"] == {
            "quant_method": "modelopt",
            **block,
        }


def test_a_context_is_taken_as_people_say_it_and_refused_in_words(run: Run) -> None:
    asked = [
        "advise",
        "--model",
        "gpt-oss-20b",
        "--hardware",
        "b200-sxm",
        "--drafter",
        "eagle3",
        "--json",
    ]
    asked += ["--accepted-length", "2.4@3"]
    status, out, _ = run(
        *asked, "--context", "32K", "--input-tokens", "16k", "--output-tokens", "1,000"
    )
    assert status == 0
    scenario = json.loads(out)["scenario"]
    assert [scenario[f"{name}_tokens"] for name in ("context", "input", "output")] == [
        32_768,
        16_000,
        1_000,
    ]


def test_models_and_hardware_list_every_profile(run: Run) -> None:
    for command, folder in (("models", "models"), ("hardware", "hardware")):
        _, out, _ = run(command, "--json")
        listed = {row["id"] for row in json.loads(out)}
        assert listed == {path.stem for path in (ROOT / "profiles" / folder).iterdir()}


BLOCKER = """
import sys, importlib.abc
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from advisor.cli import main
main({arguments!r})
"""


def without(
    blocked: tuple[str, ...], *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in a Python that lacks some packages."""
    script = BLOCKER.format(blocked=blocked, arguments=[*arguments])
    asked = {"capture_output": True, "text": True, "cwd": ROOT, "env": env}
    return subprocess.run([sys.executable, "-c", script], timeout=120, check=False, **asked)


@pytest.mark.parametrize(
    "blocked",
    [
        ("torch", "aiconfigurator_core"),
        ("streamlit", "plotly"),
        ("torch", "streamlit", "duckdb", "pandas"),
    ],
)
def test_advise_runs_where_heavy_packages_are_missing(blocked: tuple[str, ...]) -> None:
    done = without(blocked, "advise", *QWEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Qwen3-30B-A3B + EAGLE-3 on 1 × H200")


def test_the_store_is_built_without_the_kernel_package_and_says_so(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "MOE_ADVISOR_STORE": str(tmp_path / "store.duckdb")}
    done = without(("aiconfigurator_core",), "store", "build", env=env)
    assert (done.returncode, done.stderr) == (0, "")  # of leaks too
    assert "shipped fits" in done.stdout


@pytest.fixture
def kernel_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A store with a few made-up kernel tables."""
    from advisor.measured.store_build import build
    from tests.measured.store_package import add_table, fake_package, moe_rows

    path = tmp_path / "store.duckdb"
    package = fake_package(tmp_path)
    add_table(
        tmp_path,
        "gb300/moe/sglang/2.0",
        "moe_perf",
        moe_rows([0.01, 0.02, 0.05]),
        device="NVIDIA GB300",
    )
    build(path, kernels=package)
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))


def table_lines(out: str, hardware_id: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith(hardware_id)]


@pytest.mark.usefixtures("no_store", "kernel_store")
def test_store_status_is_one_line_per_accelerator_and_every_table_on_demand(run: Run) -> None:
    _, short, _ = run("store", "status")
    (line,) = table_lines(short, "h200-sxm")
    assert "all_to_all" in line
    assert "sglang, vllm" in line
    assert len(table_lines(short, "gb300")) == 1
    _, whole, _ = run("store", "status", "--all")
    assert len(table_lines(whole, "h200-sxm")) > 1
    assert table_lines(whole, "gb300")
    _, one, _ = run("store", "status", "--hardware", "h200-sxm")
    assert table_lines(one, "h200-sxm") == table_lines(whole, "h200-sxm")
    assert not table_lines(one, "gb300")
    code, _, err = run("store", "status", "--hardware", "h2")
    assert code != 0
    assert "did you mean h20" in err


@pytest.mark.usefixtures("no_store", "kernel_store")
def test_a_table_without_a_format_leaves_its_cell_empty(run: Run) -> None:
    _, out, _ = run("store", "status", "--all")
    exchange = next(line for line in out.splitlines() if "all_to_all" in line)
    assert "nan" not in out.lower()
    assert "None" not in out
    assert len(exchange.split()) == 6  # every column but the format


def test_what_to_try_next_is_printed_where_nothing_fits(run: Run) -> None:
    scenario = Scenario(model_id="qwen3-235b-a22b", acceptance="2.6@3", batch_size=32)
    best = best_effects(next_steps(advise(scenario)), "tokens_per_s_per_gpu")
    asked = (
        "--hardware h200-sxm --model qwen3-235b-a22b --drafter eagle3 --accepted-length 2.6@3 "
        "--batch 32 -v"
    )
    code, out, _ = run("advise", *asked.split())
    assert code == 0
    assert out.splitlines()[2].startswith("Needs ")
    assert "Cost and energy unknown" in out
    listed = out.split("Try next")[1]
    assert best
    assert all(what_text(effect.change) in listed for effect in best)
    assert "does not fit -> " in listed


def test_a_column_of_a_table_keeps_its_decimals(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(matrix(("what", "speedup", "loss"), [("a", "1.68", "2.0%"), ("b", "12.00", "-")]))
    assert capsys.readouterr().out.splitlines() == [
        "what  speedup  loss",
        "a        1.68  2.0%",
        "b       12.00     -",
    ]


def test_it_prints_each_formula_with_its_numbers_and_says_that_there_is_no_store(run: Run) -> None:
    code, out, err = run("explain", *SCENARIO, "--k", "3")
    speedup = speedup_curve(Scenario(acceptance="2.4@3"), [16], [3]).speedup[0, 0]
    assert code == 0
    assert "speedup = AL × T_plain / T_round = 2.4 × " in out
    assert f"= {speedup:.4g}\n" in out
    assert "Where the 80% range comes from" in out
    assert "no measured kernels" in err


def test_json_carries_values_expressions_and_constants(run: Run) -> None:
    _, out, _ = run("explain", *SCENARIO, "--json", "--no-nearby")
    document = json.loads(out)
    speedup = next(step for step in document["steps"] if step["id"] == "speedup")
    assert speedup["expression"] == "AL * T_plain / T_round"
    assert set(speedup["values"]) == {"AL", "T_plain", "T_round"}
    assert all(use["source"] for use in document["constants"])


def scenario_of(run: Run, *arguments: str) -> Scenario:
    code, out, err = run("advise", *arguments, "--json")
    assert code == 0, err
    return Scenario.model_validate(json.loads(out)["scenario"])


def test_examples_are_listed_with_their_sources(run: Run) -> None:
    code, out, _ = run("examples")
    assert code == 0
    for name in example_ids():
        example = load_example(name)
        assert f"{name}\n  {example.description}" in out
        assert example.sources[0] in out
    listed = json.loads(run("examples", "--json")[1])
    assert [Scenario.model_validate(item["scenario"]) for item in listed] == [
        load_example(name).scenario for name in example_ids()
    ]


def test_an_example_is_a_start_that_options_change(run: Run) -> None:
    start = load_example("mixtral").scenario
    assert scenario_of(run, "--example", "mixtral") == start
    changed = scenario_of(
        run, "--example", "mixtral", "--batch", "64", "--accepted-length", "2@3", "--tp", "4"
    )
    wanted = {"batch_size": 64, "acceptance": "2@3", "tensor_parallel": 4, "n_gpus": 4}
    assert changed == start.model_copy(update=wanted)


def test_a_scenario_file_is_read_and_changed_and_an_edit_is_said(run: Run, tmp_path: Path) -> None:
    start = Scenario(
        acceptance="2.4@3", hardware_id="own-pod", hardware_json=json.dumps(POD), k_max=4
    )
    file = tmp_path / "s.json"
    file.write_text(scenario_json(start), encoding="utf-8")
    assert scenario_of(run, "--scenario", str(file)) == start
    back = scenario_of(run, "--scenario", str(file), "--hardware", "h100-sxm")
    assert (back.hardware_id, back.hardware_json, back.k_max) == ("h100-sxm", None, 4)
    file.write_text(scenario_json(start).replace('"k_max": 4', '"k_max": 5'), encoding="utf-8")
    code, _, err = run("advise", "--scenario", str(file))
    assert code == 0
    assert "it was edited" in err


def test_beside_an_accelerator_of_ones_own_stand_other_batches(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sequence, the batch that is asked about and four times as many."""
    monkeypatch.chdir(tmp_path)
    Path("pod.json").write_text(json.dumps(POD), encoding="utf-8")
    for batch, varied in ((16, "1,16,64"), (1, "1,4")):
        asked = (*SCENARIO[2:], "--hardware", "pod.json", "--batch", batch)
        words = next_of(run("advise", *asked)[1])
        assert words[words.index("--vary") + 1] == f"batch={varied}"


def test_an_accelerator_s_file_stands_where_an_id_does(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(POD), encoding="utf-8")
    scenario = scenario_of(run, *SCENARIO[2:], "--hardware", str(file))
    assert (scenario.hardware_id, json.loads(scenario.hardware_json or "")) == (
        "own-pod-of-2027",
        POD,
    )
    _, out, _ = run("advise", *SCENARIO[2:], "--hardware", str(file))
    assert " on 1 × Pod of 2027, batch 16" in out.splitlines()[0]
    assert "Times are from the data sheet" in out


def test_compare_prints_what_differs_and_the_finding(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    start = load_example("mixtral").scenario
    file.write_text(scenario_json(start.model_copy(update={"batch_size": 64})), encoding="utf-8")
    code, out, err = run("explore", "mixtral", str(file))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["batch", "16", "batch", "64"]
    assert lines[1].split() == ["Batch", "16", "64"]
    advices = [advise(start.model_copy(update={"batch_size": size})) for size in (16, 64)]
    speedup = next(line.split() for line in lines if line.startswith("Speedup "))
    assert speedup[1] == f"{advices[0].recommendation.speedup.value:.2f}x"
    assert finding(advices, ["batch 16", "batch 64"]) in flat(out)
    document = json.loads(run("explore", "mixtral", str(file), "--json")[1])
    assert [item["name"] for item in document["scenarios"]] == ["batch 16", "batch 64"]


def test_a_scenario_file_may_name_a_config_and_an_accelerator_of_ones_own(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.json").write_text(CONFIG_JSON)
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    asked = {
        "model_id": "mine.json",
        "hardware_id": "pod.json",
        "drafter_id": "ngram",
        "acceptance": "2.4@3",
    }
    for name, batch in (("one.json", 1), ("two.json", 64)):
        scenario = asked | {"batch_size": batch}
        (tmp_path / name).write_text(json.dumps({"schema_version": 1, "scenario": scenario}))
    code, out, err = run("explore", tmp_path / "one.json", tmp_path / "two.json", "--json")
    assert code == 0, err
    for found in json.loads(out)["scenarios"]:
        assert found["scenario"]["model_config_json"] == CONFIG_JSON
        assert json.loads(found["scenario"]["hardware_json"])["name"] == POD["name"]


@pytest.mark.parametrize("command", ["advise", "schedule"])
def test_what_a_command_printed_is_a_scenario_to_start_from_and_to_compare(
    run: Run, tmp_path: Path, command: str
) -> None:
    files = []
    for batch in (8, 32):
        _, out, _ = run(command, *SCENARIO, "--batch", batch, "--json")
        files.append(tmp_path / f"{batch}.json")
        files[-1].write_text(out, encoding="utf-8")
    _, out, err = run("advise", "--scenario", files[0], "--json")
    assert Scenario.model_validate(json.loads(out)["scenario"]).batch_size == 8
    assert err == ""
    status, out, _ = run("explore", *files, "--json")
    assert status == 0
    assert [item["scenario"]["batch_size"] for item in json.loads(out)["scenarios"]] == [8, 32]
