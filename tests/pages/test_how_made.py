"""How was this made, and try next, as a user meets them on the pages."""

from __future__ import annotations

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.explore.changes import best_effects, next_steps
from advisor.predict.scenario import Scenario
from advisor.show.charts.speedup import MEASURED_POINT
from advisor.show.explain.round import derive
from advisor.show.explain.steps import value_text
from advisor.ui.own_data import START_ACCEPTANCE
from advisor.ui.widgets import (
    ANSWER,
    BAND,
    CONSTANTS,
    DRAFT,
    INPUTS,
    NEAR,
    PLAIN,
    VERIFY,
    AskedPoint,
    asked_by_chart,
    pop_question,
)
from tests.pages.test_app import app, texts

SCENARIO = Scenario(acceptance="2.4@3")


def opened(tab: str = "Remarks", key: str = "how_figures") -> AppTest:
    test = app("serve", tab, acceptance="2.4@3")
    next(button for button in test.button if button.key == key).click()
    test.run()
    assert not test.exception
    return test


def asked(question: AskedPoint) -> AppTest:
    """The first page with the dialog open on a question: AppTest cannot rerun a dialog alone, as its widgets do."""
    test = app(acceptance="2.4@3")
    test.session_state["_how_made"] = question
    test.run()
    assert not test.exception
    return test


def rank_by(test: AppTest, name: str) -> None:
    control = next(group for group in test.get("button_group") if group.key == "next_goal")
    control.set_value(name).run()


def formulas(test: AppTest) -> str:
    return "\n".join(item.value for item in test.latex)


def test_changes_ranked_by_speedup_keep_the_capitals_of_gpu_and_draw_arrows() -> None:
    test = app("serve", "What if", acceptance="2.4@3")
    rank_by(test, "speedup")
    shown = texts(test)
    assert "Tokens/s per GPU " in shown
    assert "per gpu" not in shown
    assert "->" not in shown.replace("\\", "")
    tried = next(frame.value for frame in test.dataframe if "Change" in frame.value and "Outcome" in frame.value)
    assert tried["Outcome"].isin(["helps", "within noise", "slower"]).all()
    assert tried["Change"].str.contains("\N{RIGHTWARDS ARROW}").any()


def test_the_design_sentence_stands_under_the_verdict() -> None:
    standing = next_steps(advise(SCENARIO)).standing
    assert standing is not None
    assert re.sub(r"\W", "", standing.text) in re.sub(r"\W", "", texts(app("serve", "What if", acceptance="2.4@3")))


def test_the_headline_s_figures_open_how_they_were_made() -> None:
    test = opened()
    answer = advise(SCENARIO).recommendation
    assert f"Predicted speedup {answer.speedup.value:.2f}×" in texts(test)


def test_the_dialog_shows_the_formula_with_this_scenario_s_numbers() -> None:
    test = opened()
    advice = advise(SCENARIO)
    made = derive(advice.setup, 16, advice.recommendation.n_draft)
    plain_ms = value_text(made.step("plain.total").result).removesuffix(" ms")
    assert plain_ms in formulas(test)
    assert r"T_{\text{round}}" in formulas(test)


SHOWN = {
    ANSWER: "Time per output token",
    PLAIN: "Distinct experts touched",
    VERIFY: "Verification of 4 tokens per sequence",
    DRAFT: "Kernels of one drafting pass",
    BAND: "each kind of uncertainty would give alone",
    NEAR: "No measured tables here",
    INPUTS: "Accepted length: 2.4 at K=3",
}


@pytest.mark.parametrize("section", SHOWN)
def test_a_section_of_the_dialog_says_what_its_name_promises(section: str) -> None:
    assert SHOWN[section] in texts(asked(AskedPoint(16, 3, section)))


def test_the_constants_have_value_tier_and_source() -> None:
    test = asked(AskedPoint(16, 3, CONSTANTS))
    table = next(table.value for table in test.dataframe if "Standard error" in table.value)
    assert (table["Source"] != "").all()
    assert set(table["Tier"]) >= {"fitted", "assumed"}


def test_another_batch_and_k_are_another_derivation() -> None:
    made = derive(advise(SCENARIO).setup, 64, 2)
    assert f"Predicted speedup {made.step('speedup').result.value:.2f}×" in texts(asked(AskedPoint(64, 2)))


@pytest.mark.parametrize(("tab", "key"), [("Why", "how_formula"), ("K while serving", "how_schedule")])
def test_other_tabs_open_it_too(tab: str, key: str) -> None:
    assert r"\text{speedup}" in formulas(opened(tab, key))


def test_a_click_on_a_chart_asks_for_that_point_and_an_empty_one_for_none() -> None:
    st.session_state["points"] = {"selection": {"points": [{"customdata": ["48", "3"]}]}}
    asked_by_chart("points")
    assert pop_question() == AskedPoint(48.0, 3)
    said = "Measured 1.14× at batch 1, K "
    measured = ["1", "3", "2", "eagle3", "a post", MEASURED_POINT]
    st.session_state["points"] = {"selection": {"points": [{"customdata": measured, "y": 1.136}]}}
    asked_by_chart("points", 2)
    assert pop_question() == AskedPoint(1.0, 3, NEAR, f"{said}3: eagle3, a post.")
    measured[1] = "not stated"
    asked_by_chart("points", 2)
    assert pop_question() == AskedPoint(1.0, 2, NEAR, f"{said}not stated: eagle3, a post.")
    st.session_state["points"] = {"selection": {"points": []}}
    asked_by_chart("points")
    assert pop_question() is None


def test_making_a_change_the_scenario_gives_the_speeds_it_promised() -> None:
    test = app("serve", "What if", acceptance="2.4@3")
    promised = best_effects(next_steps(advise(SCENARIO)), "tokens_per_s_per_gpu")[0]
    next(button for button in test.button if button.key == "next_apply_0").click()
    test.run()
    assert test.session_state["_scenario"] == promised.change.scenario
    assert test.metric[1].value == f"{promised.after.tokens_per_s_per_gpu:,.0f}"


def test_a_design_can_be_made_the_scenario() -> None:
    test = app("serve", "What if", acceptance="2.4@3")
    rank_by(test, "speedup")
    best = best_effects(next_steps(advise(SCENARIO)), "speedup")
    place = next(number for number, effect in enumerate(best) if effect.change.kind == "design")
    next(button for button in test.button if button.key == f"next_apply_{place}").click()
    test.run()
    adopted = test.session_state["_scenario"]
    assert adopted.model_config_json == best[place].change.scenario.model_config_json
    assert adopted.acceptance == SCENARIO.acceptance


def test_all_changes_tried_are_listed_with_their_outcome() -> None:
    test = app("serve", "What if", acceptance="2.4@3")
    table = next(table.value for table in test.dataframe if "Change" in table.value)
    steps = next_steps(advise(Scenario(acceptance="2.4@3")))
    assert len(table) == len(steps.effects)
    assert set(table["Outcome"]) <= {"helps", "within noise", "slower"}


def test_a_dense_model_s_first_screen_has_no_design_sentence() -> None:
    test = app(model_id="command-a", n_gpus="4", tensor_parallel="4", acceptance="2.4@3")
    assert "Your design" not in texts(test)


def test_the_starting_scenario_compares_nothing_across_sources_without_saying_so() -> None:
    test = app("serve", "What if", model_id="gpt-oss-20b", acceptance="gpt-oss-20b-eagle3-mt-bench")
    rank_by(test, "speedup")
    assert "another source than today's" in texts(test)
    assert START_ACCEPTANCE == "gpt-oss-20b-eagle3-mt-bench"


def test_each_opening_shows_the_point_asked_for_and_not_the_last_one_looked_at() -> None:
    test = app(acceptance="2.4@3")
    test.session_state["how_batch_size"], test.session_state["how_k_draft"] = 64, 1
    next(button for button in test.button if button.key == "how_figures").click()
    test.run()
    answer = advise(SCENARIO).recommendation
    assert f"Predicted speedup {answer.speedup.value:.2f}×" in texts(test)


def test_a_measured_point_stands_above_the_prediction_that_it_is_held_against() -> None:
    shown = texts(asked(AskedPoint(16, 3, NEAR, "Measured 1.14× at batch 16, K 3: eagle3, a post.")))
    assert shown.index("Measured 1.14× at batch 16") < shown.index("Predicted speedup")
