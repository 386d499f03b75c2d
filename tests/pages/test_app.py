"""Each page through Streamlit's AppTest: what it says, links that restore it, nonsense that must not break it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.summary import accepted_text, headline
from advisor.catalog.models import model_profile
from advisor.measured.seeds import read_claims, read_findings
from advisor.physics.acceptance import acceptance_curves, load_acceptance_curve
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.text import with_prefix
from advisor.ui import OLD_PATHS
from advisor.ui import PAGES as PAGE_FILES
from advisor.ui.answers import RoundFigures
from advisor.ui.bar.fields import AT, LENGTH, TYPED, understood
from advisor.ui.own_data import NAMES, START_ACCEPTANCE, WITHOUT_WIDGET
from advisor.ui.own_data import START as fields_START
from advisor.ui.serve.why import speedup_formula
from advisor.ui.state import MAX_LINK_CHARACTERS, add_own_model, link_to
from advisor.ui.widgets import csv_bytes
from advisor.ui.widgets import plain as widgets_plain
from tests.own_model import CONFIG, CONFIG_JSON
from tests.pages.app_page import go_to
from tests.pages.app_page import opened as app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("serve", "design", "data", "report", "trust")


def link(scenario: Scenario) -> dict[str, str]:
    return dict(parse_qsl(scenario.to_query()))


def headings(test: AppTest) -> str:
    """The line over the title of the page Serve: what is served, where, at which batch."""
    return next(item.value for item in test.main.markdown if ", batch " in item.value and " on " in item.value)


def texts(test: AppTest) -> str:
    kinds = (test.title, test.markdown, test.caption, test.warning, test.error, test.info, test.text)
    return "\n".join(item.value for kind in kinds for item in kind)


def charts(test: AppTest) -> list[Any]:
    return list(test.get("plotly_chart"))


def chart(test: AppTest, key: str) -> Any:
    """The chart of that key, or None where it is not drawn."""
    return next((item for item in charts(test) if item.key == key), None)


def answered(test: AppTest) -> bool:
    """Whether the page Serve shows its answer."""
    return chart(test, "speedup_points") is not None


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_one_title_and_no_error(page: str) -> None:
    test = app(page)
    assert len(test.title) == 1
    assert not test.error


START = Scenario(**fields_START)


def test_the_first_screen_answers_and_says_how_sure_it_is() -> None:
    test = app()
    advice = advise(START)
    outcomes = advice.drafts
    answer = advice.recommendation
    assert test.title[0].value == headline(advice, answer.n_draft)
    assert str(answer.n_draft) in test.title[0].value
    assert f"{answer.speedup.value:.1f}×" in test.title[0].value
    assert "gpt-oss-20b + EAGLE-3" in headings(test)
    assert "published speedups of this accelerator and model" in texts(test)
    assert accepted_text(advice) in texts(test)
    assert test.metric[0].value == f"{answer.tpot_s * 1e3:.3g}"
    assert test.metric[0].delta == f"{outcomes[0].tpot_s * 1e3:.3g} without drafts"
    assert answered(test)


def test_the_table_judges_every_k_and_a_picked_row_drives_the_page() -> None:
    test = app()
    advice = advise(START)
    outcomes = advice.drafts
    table = test.dataframe[0].value
    assert list(table["K"]) == [one.n_draft for one in outcomes]
    assert list(table["Behind"]) == pytest.approx([100 * one.expected_loss for one in outcomes])
    other = next(one.n_draft for one in reversed(outcomes) if one.n_draft != advice.recommendation.n_draft)
    test.session_state[test.session_state["_k_table"].key] = {
        "selection": {"rows": [other], "columns": [], "cells": []}
    }
    test.run()
    assert f"Draft {other} tokens" in test.title[0].value
    assert f"You picked K = {other}" in texts(test)
    assert any(f'"num_speculative_tokens":{other}' in block.value for block in test.main.code)


def test_another_batch_leaves_the_table_standing_and_takes_back_a_picked_row() -> None:
    """A browser takes long to put up a new table; the row that was picked belongs to the answer it was picked in."""
    test = app()
    number = test.session_state["_k_table"].number
    test.number_input(key="batch_size").set_value(START.batch_size + 1).run()
    first = test.session_state["_k_table"]
    assert first.number == number
    assert first.scenario == test.session_state["_scenario"].hash
    other = first.rows - 1
    assert other != first.first_picked
    picked = {"selection": {"rows": [other], "columns": [], "cells": []}}
    test.session_state[first.key] = picked
    test.run()
    assert f"You picked K = {other}" in texts(test)
    test.session_state[first.key] = picked  # which a browser says again with each change
    test.number_input(key="batch_size").set_value(START.batch_size + 2).run()
    assert test.session_state["_k_table"].key != first.key
    assert "You picked K" not in texts(test)


def test_the_bar_starts_at_a_model_with_published_points() -> None:
    assert app().session_state["_scenario"] == START


def test_every_scenario_field_has_a_widget() -> None:
    test = app()
    shown = {item.key for kind in (test.selectbox, test.number_input) for item in kind}
    texts_typed = {item.key for item in test.text_input}
    typed = texts_typed | {name for name, key in TYPED.items() if key in texts_typed}
    assert shown | typed >= set(NAMES) - WITHOUT_WIDGET


@pytest.mark.parametrize(("typed", "tokens"), [("128k", 128_000), ("32K", 32_768), ("1M", 1_048_576), ("4096", 4096)])
def test_a_context_is_typed_as_people_say_it_and_the_link_carries_the_number(typed: str, tokens: int) -> None:
    test = app()
    test.text_input(key=TYPED["context_tokens"]).set_value(typed).run()
    assert test.session_state["_scenario"].context_tokens == tokens
    assert test.text_input(key=TYPED["context_tokens"]).value == str(tokens)
    assert str(tokens) in test.query_params["context_tokens"]
    assert "stays" not in context_remarks(test)


@pytest.mark.parametrize("typed", ["long", "", "-5", "0", "1e3", "99M", "1.5", "9" * 400])
def test_a_context_that_is_no_number_of_tokens_is_refused_in_words_and_the_last_one_stays(typed: str) -> None:
    test = app(context_tokens="4096")
    test.text_input(key=TYPED["context_tokens"]).set_value(typed).run()
    assert not test.exception
    assert test.session_state["_scenario"].context_tokens == 4096
    assert test.text_input(key=TYPED["context_tokens"]).value == "4096"
    assert "4,096 stays" in context_remarks(test)
    test.text_input(key=TYPED["context_tokens"]).set_value("8k").run()
    assert not context_remarks(test)


def test_lengths_of_a_request_are_typed_as_the_context_is_and_can_be_taken_away() -> None:
    test = app(acceptance="2.4@3", input_tokens="1000", output_tokens="500", context_tokens="200000")
    typed = {name: test.text_input(key=key) for name, key in TYPED.items()}
    assert (typed["input_tokens"].value, typed["output_tokens"].value) == ("1000", "500")
    typed["input_tokens"].set_value("128k").run()
    assert test.session_state["_scenario"].input_tokens == 128_000
    assert "128000" in test.query_params["input_tokens"]
    test.text_input(key=TYPED["output_tokens"]).set_value("9" * 400).run()
    assert not test.exception
    assert test.session_state["_scenario"].output_tokens == 500
    remarks = [item.value.replace("\\", "") for item in test.markdown if "Output tokens:" in item.value]
    assert len(remarks) == 1
    assert "is more tokens than any context has" in remarks[0]
    assert "500 stays" in remarks[0]
    for name in ("input_tokens", "output_tokens"):
        test.text_input(key=TYPED[name]).set_value("").run()
    assert test.session_state["_scenario"].input_tokens is None
    test.text_input(key=TYPED["input_tokens"]).set_value("lots").run()
    assert any("; none stays." in item.value for item in test.markdown)


def context_remarks(test: AppTest) -> str:
    return "".join(item.value for item in test.markdown if "Context:" in item.value.replace("\\", ""))


def test_a_link_restores_every_field() -> None:
    scenario = Scenario(
        hardware_id="b200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        expert_parallel=8,
        model_id="deepseek-v3",
        batch_size=64,
        context_tokens=4096,
        drafter_id="mtp",
        acceptance="2.4@3",
        engine="sglang",
        k_max=5,
        weight_dtype="fp8",
        expert_dtype="mxfp4",
        kv_dtype="fp8",
        routing="uniform",
        input_tokens=1000,
        output_tokens=500,
        max_tpot_ms=55.5,
    )
    test = app(**link(scenario))
    assert test.session_state["_scenario"] == scenario
    assert not [item.value for item in test.warning if "link" in item.value]


def test_a_link_restores_the_user_s_own_model() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, batch_size=4)
    test = app(**link(scenario))
    assert test.session_state["_scenario"] == scenario


def test_an_own_model_is_answered_for_what_its_file_says_whatever_it_is_called() -> None:
    asked = {"hardware_id": "h200-sxm", "weight_dtype": "fp8", "acceptance": "2.4@3", "batch_size": 16}
    config = json.dumps(dict(model_profile("qwen3-30b-a3b").config) | {"num_experts": 512})
    shipped = app(**link(Scenario(**asked, model_id="qwen3-30b-a3b")))
    mine, same_name = (
        app(**link(Scenario(**asked, model_id=name, model_config_json=config))) for name in ("mine", "qwen3-30b-a3b")
    )
    figures = [[(item.label, item.value) for item in test.metric] for test in (shipped, mine, same_name)]
    assert figures[1] == figures[2] != figures[0]


def test_the_launch_line_of_an_own_model_says_that_its_path_or_repository_goes_there() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, batch_size=4)
    test = app(**link(scenario))
    assert any("vllm serve YOUR-MODEL" in item.value for item in test.code)
    assert "Put the path or Hugging Face repository of your model for YOUR-MODEL." in texts(test)
    assert "for YOUR-MODEL" not in texts(app())


def test_a_curve_that_the_bar_shows_at_another_k_than_the_answer_is_said_to_be_one() -> None:
    test = app()
    test.number_input(key="accepted_k").set_value(5).run()
    assert test.number_input(key="accepted").value != 2.7
    shown = test.number_input(key="accepted").value
    assert f"The bar shows the same curve at K = 5: {shown:.2f}." in texts(test)
    assert "The bar shows" not in texts(app()), "the same K in the bar and in the answer"
    assert "The bar shows" not in texts(app(acceptance="2.4@5")), "typed, and carried from there"


def test_an_own_model_link_without_a_name_gets_one() -> None:
    test = app(**link(Scenario(acceptance="2.4@3", model_config_json=CONFIG_JSON)))
    restored = test.session_state["_scenario"]
    assert restored.model_id == "own-mixtral"
    assert restored.model_config_json == CONFIG_JSON


def test_changing_the_batch_changes_the_verdict() -> None:
    test = app()
    before = test.metric[0].value
    test.number_input(key="batch_size").set_value(512).run()
    assert "batch 512" in headings(test)
    assert test.metric[0].value != before


def test_the_slider_and_the_number_of_the_batch_are_one() -> None:
    test = app()
    test.select_slider(key="batch_slider").set_value(256).run()
    assert test.session_state["_scenario"].batch_size == 256
    test.number_input(key="batch_size").set_value(5).run()
    assert test.select_slider(key="batch_slider").value in (4, 6)


def test_a_smaller_k_max_limits_the_answer() -> None:
    test = app(acceptance="0.9,0.9,0.9,0.9,0.9")
    assert "Draft 1 token" not in test.title[0].value
    test.number_input(key="k_max").set_value(1).run()
    assert "Draft 1 token:" in test.title[0].value


def test_an_accepted_length_beyond_what_was_measured_gets_a_remark_beside_the_bar() -> None:
    def remarks(test: AppTest) -> list[str]:
        return [item.value for item in test.caption if "measured to K" in item.value or "longer than any" in item.value]

    test = app()
    last = load_acceptance_curve(START_ACCEPTANCE).n_draft[-1]
    test.number_input(key="accepted_k").set_value(last).run()
    assert not remarks(test)
    test.number_input(key="accepted_k").set_value(last + 1).run()
    assert f"measured to K = {last}; at K = {last + 1}" in remarks(test)[0]
    longest = max(curve.n_draft[-1] for curve in acceptance_curves(drafter_id="eagle3"))
    test.number_input(key="accepted").set_value(2.4).run()
    test.number_input(key="accepted_k").set_value(longest + 1).run()
    assert f"(K = {longest})" in remarks(test)[0]
    test.number_input(key="accepted_k").set_value(longest).run()
    assert not remarks(test)


def test_two_numbers_say_how_much_is_accepted() -> None:
    test = app()
    assert (test.number_input(key="accepted").value, test.number_input(key="accepted_k").value) == (2.7, 3)
    test.number_input(key="accepted").set_value(2.4).run()
    assert test.session_state["_scenario"].acceptance == "2.4@3"
    test.number_input(key="accepted_k").set_value(5).run()
    assert test.session_state["_scenario"].acceptance == "2.4@5"
    assert understood(" 2.1 ") == "2.1@3"
    test.button(key="acceptance_unknown").click().run()
    assert test.session_state["_scenario"].acceptance == START_ACCEPTANCE


def test_the_drafter_follows_the_model() -> None:
    test = app()
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    scenario = test.session_state["_scenario"]
    assert (scenario.drafter_id, scenario.acceptance) == ("mtp", "deepseek-r1-mtp-internal")
    test.selectbox(key="model_id").set_value("gpt-oss-20b").run()
    assert test.session_state["_scenario"].drafter_id == "eagle3"


def test_models_and_accelerators_are_listed_by_name_and_maker() -> None:
    test = app()
    models, places = test.selectbox(key="model_id").options, test.selectbox(key="hardware_id").options
    assert "Qwen3-30B-A3B · 8 of 128" in models
    assert "H200 SXM · 141 GiB" in places
    assert len(set(models)) == len(models)
    assert len(set(places)) == len(places)


def test_choosing_another_model_takes_its_own_measured_acceptance() -> None:
    test = app()
    test.selectbox(key="drafter_id").set_value("mtp").run()
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert test.session_state["_scenario"].acceptance == "deepseek-r1-mtp-internal"


def test_the_user_s_own_acceptance_survives_another_model() -> None:
    test = app(acceptance="2.4@3")
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert test.session_state["_scenario"].acceptance == "2.4@3"


def test_beyond_a_node_gpus_widen_no_matrix_and_experts_stay_on_as_many_ranks_as_divide_them() -> None:
    test = app(hardware_id="h200-sxm", acceptance="2.4@3", expert_parallel="32", n_gpus="32", tensor_parallel="1")
    test.number_input(key="n_gpus").set_value(16).run()
    now = test.session_state["_scenario"]
    assert (now.n_gpus, now.tensor_parallel, now.expert_parallel) == (16, 8, 16)
    test.number_input(key="n_gpus").set_value(4).run()
    now = test.session_state["_scenario"]
    assert (now.n_gpus, now.tensor_parallel, now.expert_parallel) == (4, 4, 4)


def test_an_nvl72_rack_is_one_node() -> None:
    test = app(hardware_id="gb200", acceptance="2.4@3")
    test.number_input(key="n_gpus").set_value(16).run()
    assert test.session_state["_scenario"].tensor_parallel == 16


def test_more_gpus_widen_the_tensor_parallelism_and_a_placement_buys_its_gpus() -> None:
    test = app()
    test.number_input(key="n_gpus").set_value(8).run()
    assert test.session_state["_scenario"].tensor_parallel == 8
    test.number_input(key="tensor_parallel").set_value(2).run()
    test.number_input(key="expert_parallel").set_value(16).run()
    assert test.session_state["_scenario"].n_gpus == 16


def test_a_scenario_that_does_not_fit_says_what_it_needs_and_one_click_makes_it_fit() -> None:
    test = app(model_id="deepseek-v3", acceptance="2.4@3")
    assert test.title[0].value.startswith("Needs ")
    assert "would not start" in texts(test)
    test.button(key="use_more_gpus").click().run()
    scenario = test.session_state["_scenario"]
    assert (scenario.n_gpus, scenario.tensor_parallel) == (8, 8)
    assert not test.title[0].value.startswith("Needs ")


@pytest.mark.parametrize(
    ("path", "page", "tab"),
    [(path, page, next(iter(settings.values()), "")) for path, (page, settings) in OLD_PATHS.items()],
)
def test_an_old_path_leads_to_the_page_that_shows_the_same(path: str, page: str, tab: str) -> None:
    test = app(path, acceptance="2.4@3")
    assert test.session_state["_scenario"].acceptance == "2.4@3"
    assert test.title[0].value == app(page, tab, acceptance="2.4@3").title[0].value
    if tab:
        assert test.session_state[f"{page}_tab"] == tab


def test_a_page_s_settings_survive_another_page_and_stand_in_the_address() -> None:
    test = app("trust", "Assumptions", acceptance="2.4@3")
    go_to(test, "data").run()
    assert not test.exception
    go_to(test, "trust").run()
    assert test.session_state["trust_tab"] == "Assumptions"
    assert test.query_params["trust_tab"] in ("Assumptions", ["Assumptions"])


def test_compared_k_are_drawn_on_demand() -> None:
    test = app()
    assert '"name":"K = 1"' not in chart(test, "speedup_points").proto.spec
    test.get("button_group")[0].set_value([1]).run()
    assert '"name":"K = 1"' in chart(test, "speedup_points").proto.spec


def test_a_dense_model_has_an_answer_and_says_that_it_has_no_experts() -> None:
    test = app("serve", "Why", model_id="command-a", acceptance="2.4@3")
    assert "no routed experts" in texts(test)
    assert len(charts(test)) == 1 + 3


def test_why_shows_the_formula_with_this_scenario_s_numbers() -> None:
    test = app("serve", "Why", acceptance="2.4@3", k_max="3")
    advice = advise(test.session_state["_scenario"])
    column = advice.curve_k
    plain_ms = advice.curve.plain_step_s[advice.batch_index] * 1e3
    round_ms = advice.curve.round_s[advice.batch_index, column] * 1e3
    length, plain, round_ = (float(number) for number in re.findall(r"\d+\.\d+", test.latex[0].value)[:3])
    assert length == pytest.approx(advice.curve.accepted_length[column], rel=5e-3)
    assert plain == pytest.approx(plain_ms, rel=5e-3)
    assert round_ == pytest.approx(round_ms, rel=5e-3)
    assert len(charts(test)) == 1 + 4


@pytest.mark.parametrize("prefill_s", [0.0, 1.7e-4])
def test_the_formula_s_numbers_compute_to_the_speedup_it_shows(prefill_s: float) -> None:
    for plain_s in np.linspace(4.1e-3, 13.1e-3, 60):
        length, round_s = 3.127, 20.27e-3
        speedup = length * (plain_s + prefill_s) / (round_s + length * prefill_s)
        figures = RoundFigures(4, 16, length, plain_s, 0.0, round_s, prefill_s, speedup, 1.0, {}, {})
        numbers = [float(number) for number in re.findall(r"\d+\.\d+", speedup_formula(figures))]
        if prefill_s:
            shown_length, plain, prefill, round_, again, once_more = numbers[:6]
            assert (shown_length, prefill) == (again, once_more)
        else:
            (shown_length, plain, round_), prefill = numbers[:3], 0.0
        computed = shown_length * (plain + prefill) / (round_ + shown_length * prefill)
        assert f"{computed:.2f}" == f"{numbers[-1]:.2f}" == f"{speedup:.2f}"


def test_every_chart_has_an_alt_text_with_its_finding() -> None:
    for page, tab in (("serve", "Throughput"), ("serve", "Why"), ("trust", "How often right")):
        for drawn in charts(app(page, tab)):
            assert any(letter.isdigit() for letter in drawn.proto.alt)


def test_measurements_without_a_store_name_the_command_that_builds_it() -> None:
    test = app("data", "What is shipped")
    assert "no measured tables" in test.warning[0].value
    assert any(block.value == "python -m advisor store build" for block in test.main.code)


def test_a_file_that_is_no_store_is_reported_not_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"not a database")
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(broken))
    assert "no measured tables" in app("data", "What is shipped").warning[0].value
    assert answered(app())


def test_sources_list_what_the_scenario_used() -> None:
    test = app("trust", "Sources", acceptance="2.4@3")
    advice = advise(test.session_state["_scenario"])
    shown = texts(test)
    assert all(widgets_plain(source) in shown for source in advice.setup.sources)
    assert "1. Yaniv Leviathan" in shown
    assert "[arxiv.org](https://arxiv.org/abs/2503.01840) *For: drafter.*" in shown
    constants = next(table.value for table in test.dataframe if "Confidence" in table.value).set_index("Constant")
    assert constants.loc["Memory bandwidth", "Value"] == "4.8 TB/s"
    assert set(constants["Kind"]) <= {"vendor", "measured", "paper", "fitted", "assumed"}


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (4.8e12, "B/s", "4.8 TB/s"),
        (4.45e-6, "s", "4.45 µs"),
        (1e3, "B", "1 kB"),
        (0.5, "1", "0.5"),
        (1e21, "B", "1e+06 PB"),
        (1.979e15, "FLOP/s", "1,979 TFLOP/s"),
        (1.979e15, "OP/s", "1,979 TOP/s"),
    ],
)
def test_constants_are_shown_with_a_prefix(value: float, unit: str, shown: str) -> None:
    assert with_prefix(value, unit) == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", "abc"),
        ("batch_size", "-5"),
        ("batch_size", "1e99"),
        ("batch_size", "nan"),
        ("k_max", "1000000"),
        ("hardware_id", "h999"),
        ("model_id", "<script>alert(1)</script>"),
        ("engine", ""),
        ("max_tpot_ms", "inf"),
        ("routing", "../../etc/passwd"),
        ("not_a_setting", "1"),
    ],
)
def test_a_link_with_nonsense_still_answers_and_says_what_it_ignored(name: str, value: str) -> None:
    test = app(acceptance="2.4@3", **{name: value})
    assert answered(test)
    assert any(name in item.value for item in test.warning), [item.value for item in test.warning]
    assert "<script>" not in texts(test)


@pytest.mark.parametrize("acceptance", ["9@3", "abc", "1.5,2", "@", "2.4@0", "nan@3", "2.4@3; drop"])
@pytest.mark.parametrize("page", ["serve", "design", "report"])
def test_an_impossible_accepted_length_is_one_clear_message(page: str, acceptance: str) -> None:
    test = app(page, acceptance=acceptance)
    assert len(test.error) == 1
    assert "accept" in test.error[0].value
    assert not charts(test)


def test_a_placement_that_cannot_be_is_one_clear_message() -> None:
    test = app(n_gpus="8", tensor_parallel="3", acceptance="2.4@3")
    assert len(test.error) == 1
    assert "divisor" in test.error[0].value.replace("\\", "")


def test_a_damaged_configuration_in_a_link_is_reported() -> None:
    test = app(acceptance="2.4@3", model_config_json="!!!")
    assert any("damaged" in item.value for item in test.warning)
    assert answered(test)


def test_an_uploaded_config_json_becomes_the_model() -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == "own-tiny"
    assert json.loads(scenario.model_config_json) == CONFIG
    assert answered(test)
    test.selectbox(key="model_id").set_value("qwen3-30b-a3b").run()
    assert test.session_state["_scenario"].model_config_json is None


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe\x00", b'{"model_type": "mixtral"}', b""])
def test_a_broken_config_json_is_one_message_and_the_answer_stays(content: bytes) -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("broken.json", content, "application/json").run()
    assert not test.exception
    assert len(test.error) == 1
    assert test.session_state["_scenario"].model_id == "qwen3-30b-a3b"
    assert answered(test)


def test_a_pasted_config_json_becomes_the_model() -> None:
    test = app(acceptance="2.4@3")
    test.text_area(key="config_text").set_value(CONFIG_JSON).run()
    assert test.session_state["_scenario"].model_id == "own-mixtral"


def give_text(test: AppTest, text: str) -> AppTest:
    test.text_area(key="config_text").set_value(text).run()
    assert not test.exception
    return test


def test_a_bad_paste_after_a_good_one_goes_back_to_the_shipped_model_and_says_so() -> None:
    test = app(acceptance="2.4@3", model_id="gpt-oss-20b")
    give_text(test, CONFIG_JSON)
    give_text(test, "{")
    assert test.session_state["_scenario"].model_id == "gpt-oss-20b"
    assert test.session_state["_scenario"].model_config_json is None
    assert len(test.error) == 1
    assert "answers for gpt-oss-20b" in test.warning[0].value
    assert answered(test)


def test_an_emptied_box_clears_its_error_and_its_model() -> None:
    test = app(acceptance="2.4@3")
    give_text(test, "{")
    give_text(test, "")
    assert not test.error
    assert not any("not usable" in item.value for item in test.warning)
    give_text(test, CONFIG_JSON)
    give_text(test, " ")
    assert test.session_state["_scenario"].model_id == "qwen3-30b-a3b"


def test_an_emptied_box_keeps_the_model_of_the_file() -> None:
    test = app(acceptance="2.4@3")
    give_text(test, "{")
    test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    give_text(test, "")
    assert test.session_state["_scenario"].model_id == "own-tiny"
    assert not test.error


def test_a_binary_file_is_refused_in_words() -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("model.bin", b"\x89PNG\xff\x00", "application/octet-stream").run()
    assert "not text" in test.error[0].value


def test_a_second_pasted_configuration_gets_a_name_of_its_own() -> None:
    test = app(acceptance="2.4@3")
    other = json.dumps(CONFIG | {"num_hidden_layers": 8})
    assert give_text(test, CONFIG_JSON).session_state["_scenario"].model_id == "own-mixtral"
    assert give_text(test, other).session_state["_scenario"].model_id == "own-mixtral-2"
    assert test.session_state["_scenario"].model_config_json == other
    again = give_text(test, CONFIG_JSON).session_state["_scenario"]
    assert (again.model_id, again.model_config_json) == ("own-mixtral", CONFIG_JSON)


def test_every_number_field_says_its_range() -> None:
    test = app()
    for field in test.number_input:
        if field.key in (LENGTH, AT):
            continue
        assert f"From {field.min:g} to {field.max:,.0f}." in field.help, field.key


def test_one_length_of_a_request_keeps_the_page_and_says_which_is_lacking() -> None:
    test = app(acceptance="2.4@3")
    before = test.session_state["_scenario"]
    test.text_input(key=TYPED["input_tokens"]).set_value("1k").run()
    assert test.session_state["_scenario"] == before
    assert answered(test)
    assert any("Output tokens is not set" in item.value for item in test.caption)
    test.text_input(key=TYPED["output_tokens"]).set_value("500").run()
    assert test.session_state["_scenario"].input_tokens == 1000
    assert not any("is not set" in item.value for item in test.caption)


def test_problems_use_the_labels_of_the_screen() -> None:
    words = app(n_gpus="8", tensor_parallel="3", acceptance="2.4@3").error[0].value
    assert "TP" in words
    assert "tensor" not in words


def test_the_limit_is_met_in_words_and_the_caption_names_it() -> None:
    plain = app("serve", "K while serving", acceptance="2.4@3")
    assert not [table for table in plain.dataframe if "Meets the limit" in table.value]
    test = app("serve", "K while serving", acceptance="2.4@3", max_tpot_ms="8")
    table = next(table.value for table in test.dataframe if "Meets the limit" in table.value)
    assert set(table["Meets the limit"]) == {"yes", "no"}
    assert any(
        item.value.startswith("The K of least expected loss") and "8 ms per output token" in item.value
        for item in test.main.caption
    )


def test_no_page_has_an_icon_that_the_browser_would_fetch() -> None:
    pages = re.findall(r"st\.Page\((.*?)\)", (ROOT / "app.py").read_text(encoding="utf-8"), re.DOTALL)
    assert len(pages) == 2, "the five pages and the old paths"
    assert not [page for page in pages if "icon" in page]


def test_sources_number_their_texts_and_give_parameters_in_billions() -> None:
    test = app("trust", "Sources", acceptance="2.4@3")
    constants = next(table.value for table in test.dataframe if "Confidence" in table.value)
    assert constants["Source"].min() == 1
    assert any(item.value.startswith("1. ") and "\n2. " in item.value for item in test.main.caption)
    model = next(frame.value for frame in test.dataframe if "Quantity" in frame.value).set_index("Quantity")
    assert model.loc["Parameters", "Value"] == "30.53 billion"


def test_a_link_round_trips_through_the_address_shown() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, k_max=4)
    shown = link_to(scenario, "http://127.0.0.1:8501/why?batch_size=3#x")
    assert shown.startswith("http://127.0.0.1:8501/why?")
    assert Scenario.from_query(shown.split("?", 1)[1]) == scenario


def test_a_configuration_too_large_for_an_address_stays_out_of_it() -> None:
    import secrets

    padded = json.dumps(CONFIG | {"note": secrets.token_hex(MAX_LINK_CHARACTERS)})
    assert link_to(Scenario(acceptance="2.4@3", model_config_json=padded), None) is None


def test_csv_names_the_scenario_and_defuses_formulas() -> None:
    import pandas as pd

    data = pd.DataFrame({"name": ["=1+1", "plain"], "value": [-1.5, 2.0]})
    lines = csv_bytes(data, "abc123").decode().splitlines()
    assert lines == ["scenario_hash,name,value", "abc123,'=1+1,-1.5", "abc123,plain,2.0"]


def test_text_from_users_loses_its_markup() -> None:
    assert widgets_plain("a*b [x](y) :red[z]") == r"a\*b \[x\](y) \:red\[z\]"


def test_pages_are_short_and_hold_no_error_handling() -> None:
    for path in PAGE_FILES.values():
        text = path.read_text(encoding="utf-8")
        imports = [node.end_lineno or 0 for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
        assert len(text.splitlines()) - max(imports) <= 125, path.name
        assert "try:" not in text, path.name


def test_an_own_model_is_refused_before_it_is_kept() -> None:
    with pytest.raises(AdvisorError):
        add_own_model("{}", "empty.json")


@pytest.fixture
def measured_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A store of the shipped data sets, without the kernel tables."""
    from advisor.measured.store_build import build

    path = tmp_path / "store.duckdb"
    build(path, kernels=None)
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))
    return path


@pytest.mark.usefixtures("measured_store")
def test_published_points_of_the_same_hardware_and_model_are_on_the_chart() -> None:
    here = app(hardware_id="b200-sxm", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3")
    assert '"name":"published, this drafter"' in chart(here, "speedup_points").proto.spec
    elsewhere = app(hardware_id="l40s", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3")
    assert "published, " not in chart(elsewhere, "speedup_points").proto.spec


@pytest.mark.usefixtures("measured_store")
def test_measurements_show_what_the_store_holds() -> None:
    test = app("data", "What is shipped", hardware_id="b200-sxm", model_id="gpt-oss-20b", acceptance="2.4@3")
    assert not any("no measured tables" in item.value for item in test.warning)
    assert "published_speedups" in set(test.dataframe[0].value["Data set"])
    assert "kernel tables are not installed" in texts(test)
    assert any(item.label == "aiconfigurator-core" for item in test.metric)
    assert len(test.dataframe[1].value) >= 1


def test_trust_lists_the_claims_of_the_sources_with_their_state() -> None:
    test = app("trust", "Published claims", acceptance="2.4@3")
    claims, shown = read_claims(), [item.value for item in test.table]
    assert sum(map(len, shown)) == len(claims)
    assert f"{len(claims)} claims" in texts(test)
    states = [state for table in shown for state in table["State"]]
    assert sorted(states) == sorted(found.state for found in read_findings().values())
