"""The page Run-time K through AppTest: what it shows, copies, refuses, and simulates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.engines.config import one_option_a_line
from advisor.answers.engines.vllm import check_vllm_speculative_config
from advisor.cli import root
from advisor.predict.scenario import Scenario, scenario_json
from advisor.show.report.build import engine_setups
from advisor.ui.serve.while_serving import PLACEHOLDER, export_for
from tests.pages.app_page import opened


def page(tab: str = "K while serving", **query: str) -> AppTest:
    return opened("serve", tab, **{"drafter_id": "ngram", "acceptance": "1.6@3", **query})


def charts(test: AppTest) -> int:
    """Charts of the tab that is open."""
    return sum(chart.key != "speedup_points" for chart in test.get("plotly_chart"))


def test_the_page_states_the_shape_of_the_schedule_and_draws_three_charts() -> None:
    test = page()
    assert any(item.value.startswith("K ") for item in test.subheader)
    assert charts(test) == 3
    assert not test.error


def test_the_copied_vllm_configuration_passes_the_engines_rules_and_stands_in_the_launch_line() -> None:
    test = page()
    configurations = [block.value for block in test.code if block.value.startswith("{")]
    assert configurations
    check_vllm_speculative_config(json.loads(configurations[0]))
    launch = next(block.value for block in test.code if block.value.startswith("vllm serve"))
    assert configurations[0] in launch


def test_a_drafter_with_its_own_checkpoint_asks_for_the_name_and_uses_it() -> None:
    test = page(drafter_id="eagle3", acceptance="2.4@3")
    assert any("draft model's name" in item.value for item in test.info)
    test.text_input(key="draft_model").set_value("some/head").run()
    assert not any("draft model's name" in item.value for item in test.info)
    assert any('"model":"some/head"' in block.value for block in test.code)


def test_a_static_k_can_be_exported() -> None:
    test = page()
    test.selectbox(key="export_choice").set_value("K = 2 throughout").run()
    config = json.loads(next(block.value for block in test.code if block.value.startswith("{")))
    assert config["num_speculative_tokens"] == 2


def test_an_engine_without_the_drafter_says_so_beside_the_other_export() -> None:
    test = page(drafter_id="suffix")
    assert any("no sglang export" in item.value for item in test.info)
    assert any(block.value.startswith("vllm serve") for block in test.code)


@pytest.mark.parametrize("kind", ["Good and bad passages", "Independent rounds"])
def test_both_sampled_processes_are_simulated(kind: str) -> None:
    test = page("Simulation")
    test.radio[0].set_value(kind).run()
    assert not test.exception
    assert charts(test) == 1
    assert list(test.dataframe[-1].value["policy"])[-1] == "oracle (hindsight)"


def test_an_uploaded_trace_is_simulated_and_a_bad_one_refused_with_its_line() -> None:
    test = page("Simulation")
    test.radio[0].set_value("Your own trace").run()
    assert charts(test) == 0
    assert any("Give a trace" in item.value for item in test.info)
    test.file_uploader(key="trace").upload("steps.csv", b"accepted\n3\n0\n2\n").run()
    assert not test.exception
    assert charts(test) == 1
    test.file_uploader(key="trace").upload("steps.csv", b"accepted\n3\nmany\n").run()
    assert charts(test) == 0
    assert any("line 3" in item.value for item in test.error)


@pytest.mark.parametrize("text", ["soon", "0", "1.5", "-4, 8"])
def test_wrong_context_buckets_are_named_and_the_rest_of_the_page_stays(text: str) -> None:
    test = page()
    test.text_input(key="context_buckets").set_value(text).run()
    assert not test.exception
    assert len(test.error) == 1
    assert charts(test) == 3


def test_the_page_says_how_to_measure_the_prediction() -> None:
    test = page("Check it")
    assert sum("vllm bench" in block.value for block in test.code) >= 4


@pytest.mark.parametrize("tab", ["K while serving", "Simulation", "Check it"])
def test_without_a_drafter_there_is_one_message_and_no_chart(tab: str) -> None:
    test = page(tab, drafter_id="none")
    assert charts(test) == 0
    assert any("Nothing is drafted" in item.value for item in test.info)
    assert not test.error


@pytest.mark.parametrize("drafter_id", ["eagle3", "ngram"])
def test_serve_report_and_export_paste_the_same(drafter_id: str, tmp_path: Path) -> None:
    answer = advise(Scenario(drafter_id=drafter_id, acceptance="2.4@3"))
    pasted = {block.value for block in opened("serve", "Remarks", drafter_id=drafter_id, acceptance="2.4@3").code}
    reported = [engine.launch_line for engine in engine_setups(answer)]
    assert {one_option_a_line(line) for line in reported} <= pasted, "what SGLang loads besides is pasted too"
    file = tmp_path / "scenario.json"
    file.write_text(scenario_json(answer.scenario), encoding="utf-8")
    draft = ["--draft-model", PLACEHOLDER] if drafter_id == "eagle3" else []
    made = CliRunner().invoke(root, ["export", "--scenario", str(file), "--output", str(tmp_path), "--json", *draft])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["launch_line"] == reported[0]
    assert f"--max-running-requests {answer.k_by_batch[-1].batch_end}" in reported[1]


def test_the_line_to_paste_names_no_draft_checkpoint_for_a_models_own_module() -> None:
    own = {"model_id": "deepseek-v3", "drafter_id": "mtp", "n_gpus": 8, "tensor_parallel": 8, "batch_size": 64}
    answer = advise(Scenario(acceptance="2.4@3", **own))
    for engine in ("vllm", "sglang"):
        made = export_for(answer, engine, "K = 2 throughout", "m", PLACEHOLDER)
        assert not isinstance(made, str)
        assert PLACEHOLDER not in made.launch_line


def test_cost_energy_and_context_lie_behind_a_tab_of_serve() -> None:
    test = page("Cost and context", drafter_id="eagle3", acceptance="2.4@3")
    assert any("USD per million output tokens" in item.value for item in test.markdown)
    assert charts(test) == 1
    assert not test.error
