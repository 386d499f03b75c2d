"""The Design space page through AppTest: what it answers, what it refuses, and a design that becomes the scenario.

The tab Several targets of the page Design: one design for typed targets, the map, and what it costs the page.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.design.answer import design_answer
from advisor.answers.design.candidates import candidates, design_words
from advisor.answers.design.regions import one_design, parse_targets, region_map
from advisor.answers.design.search import design_space
from advisor.answers.design.start import MAX_NAME, design_name
from advisor.catalog.hf.config import architecture_from_config
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.words.design import one_design_verdict, region_verdict
from advisor.ui.design import pick
from advisor.ui.design.question import OBJECTIVE_NAMES, DesignQuestion, answer_for
from advisor.ui.design.tables import at_batch, baseline_footing, below_headline, headline, pareto
from advisor.ui.widgets import plain
from tests.pages.app_page import go_to, opened
from tests.pages.test_app import charts, link, texts

SCENARIO = Scenario(acceptance="2.4@3", batch_size=16)


ANSWER = design_answer(design_space(SCENARIO, objective="tpot"), 12)


QUESTION = DesignQuestion()


def page(tab: str = "", **query: str) -> AppTest:
    return opened("design", tab, **(link(SCENARIO) | query))


def button(test: AppTest, key: str) -> object:
    return next(item for item in test.button if item.key == key)


def frame_with(test: AppTest, column: str) -> object:
    return next(item.value for item in test.dataframe if column in item.value.columns)


def ranked(test: AppTest) -> Any:
    """The table of the best designs that differ in kind."""
    tables = [item.value for item in test.dataframe if "Band" in item.value.columns]
    return next(table for table in tables if table.iloc[0, 0] == "1")


def pick_row(test: AppTest, row: int) -> AppTest:
    key, _, _ = pick.selection_keys(QUESTION.tag(SCENARIO))
    test.session_state[key] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    return test.run()


def click_point(test: AppTest, index: int) -> AppTest:
    _, key, _ = pick.selection_keys(QUESTION.tag(SCENARIO))
    point = {"customdata": [str(index), "a design"], "x": 100.0, "y": 2.0}
    test.session_state[key] = {"selection": {"points": [point], "point_indices": [0], "box": [], "lasso": []}}
    return test.run()


def test_a_click_on_a_cell_of_the_map_picks_its_design_and_explains_it() -> None:
    test = page()
    found = ANSWER.heat_map.design
    index = int(next(i for i in found.reshape(-1) if i >= 0 and i != ANSWER.space.best))
    _, _, key = pick.selection_keys(QUESTION.tag(SCENARIO))
    point = {"customdata": [str(index), "a design", "1.5"], "x": 1, "y": 1}
    test.session_state[key] = {"selection": {"points": [point], "point_indices": [0], "box": [], "lasso": []}}
    test.run()
    assert f"**{ANSWER.space.describe(index)}**" in texts(test)
    next(item for item in test.button if item.key == "how_design").click()
    test.run()
    tpot_ms = float(ANSWER.space.tpot_s[0, index]) * 1e3
    assert f"{tpot_ms:.4g} ms per output token" in texts(test)


def test_a_cell_of_the_map_is_told_at_its_own_batch() -> None:
    found = ANSWER.heat_map
    row, column = (int(index) for index in np.argwhere(found.design >= 0)[-1])
    (item,) = candidates(ANSWER.space, [int(found.design[row, column])])
    batch = float(found.batches[column])
    said = at_batch(ANSWER, item, batch)
    assert said.startswith(f"At batch {batch:g}, the cell's: {found.tpot_s[row, column] * 1e3:.2f} ms per token")
    assert f"drafting gains {found.speedup[row, column]:.2f}×" in said
    assert at_batch(ANSWER, item, 3.0) == "", "no column of the map"


def test_the_verdict_comes_first_with_its_band_and_both_kinds_of_speed() -> None:
    test, best = page(), ANSWER.recommended
    assert best is not None
    title = test.title[0].value
    assert ANSWER.clear
    assert title.startswith(design_words(ANSWER.space, best))
    assert f"{best.objective_gain.value:.2f}×" in title
    assert f"{best.objective_gain.low:.2f}–{best.objective_gain.high:.2f}" in title
    table = frame_with(test, "Band")
    assert table.iloc[0, 0] == "Baseline"
    recommended = table[table.iloc[:, 0].str.startswith("Recommended")].iloc[0]
    assert recommended["Speedup"] == pytest.approx(best.speedup[0])
    assert recommended["ms per token"] == pytest.approx(best.tpot_s[0] * 1e3)
    below = below_headline(ANSWER)
    assert f"{best.tpot_s[0] * 1e3:.2f} ms per output token" in below
    assert design_words(ANSWER.space, best) not in below, "the headline says it already"
    assert [item.value for item in test.markdown].count(plain(below)) == 1
    assert f"Drafting gains {best.speedup[0]:.2f}×" in texts(test)
    assert "The gain by drafting is no speed" in texts(page(design_objective="sd_speedup"))


@pytest.mark.parametrize(
    ("tab", "keys"),
    [
        ("Best designs", []),
        ("Quality against speed", ["design_points"]),
        ("Sharing and width", ["design_shared", "design_granularity"]),
    ],
)
def test_map_and_curves_come_first_and_every_chart_has_a_finding(tab: str, keys: list[str]) -> None:
    drawn = charts(page(tab))
    first = ["design_cells", "design_curves", "design_times"]
    assert [re.sub(r"_[0-9a-f]{12}$", "", chart.key) for chart in drawn] == first + keys
    assert all(any(letter.isdigit() for letter in chart.proto.alt) for chart in drawn)


def test_the_charts_show_time_per_token_on_request() -> None:
    test = page("Sharing and width", design_objective="sd_speedup")
    shown = next(item for item in test.get("button_group") if item.key == "design_shown")
    assert sum("Time per output token" in chart.proto.alt for chart in charts(test)) == 1
    shown.set_value("Time per output token").run()
    assert not test.exception
    assert sum("Time per output token" in chart.proto.alt for chart in charts(test)) == 3


def test_the_table_lists_the_candidates_of_the_core_in_order() -> None:
    table = ranked(page())
    assert list(table["Design"]) == [ANSWER.space.describe(item.index) for item in ANSWER.top]


def test_limits_of_each_law_stand_beside_its_result_and_rails_are_counted() -> None:
    test = page("Laws and limits")
    laws = test.table[0].value
    assert f"{ANSWER.recommended.quality_ratio:.1%}" in laws.iloc[0, 0]
    assert "inferred" in laws.iloc[0, 1]
    ruled_out = frame_with(test, "Designs ruled out")
    assert ruled_out["Designs ruled out"].sum() > 0
    assert "The attention share of active parameters (20-50%)" in set(ruled_out["Limit"])


def test_a_row_and_a_point_pick_a_design_and_the_last_one_counts() -> None:
    test = pick_row(page(), 2)
    third = ANSWER.space.describe(ANSWER.top[2].index)
    assert f"**{third}**" in texts(test)
    other = int(ANSWER.pareto[0])
    click_point(test, other)
    assert f"**{ANSWER.space.describe(other)}**" in texts(test)
    pick_row(test, 3)
    assert f"**{ANSWER.space.describe(ANSWER.top[3].index)}**" in texts(test)


def test_a_click_on_the_baseline_s_mark_picks_the_recommended_design() -> None:
    assert f"**{ANSWER.space.describe(ANSWER.recommended.index)}**" in texts(click_point(page(), -1))


def test_a_headline_without_a_clear_design_names_the_best_guess_and_its_gain_stands_below() -> None:
    verdict = "No design is clearly better than top-8 of 128 at batch 32 on a GPU; the best guess is top-6 of 96: 1 ms."
    unclear, best = replace(ANSWER, verdict=verdict, clear=False), ANSWER.recommended
    words, gain = design_words(ANSWER.space, best), best.objective_gain
    said = f"No design is clearly better; the best guess is {words[0].lower()}{words[1:]}"
    assert headline(unclear) == said
    below = below_headline(unclear)
    assert below.startswith(f"{gain.value:.2f}× ")
    assert f"({gain.low:.2f}–{gain.high:.2f})" in below
    assert below.endswith(below_headline(ANSWER)), "what a clear one gives and costs, all the same"


def test_where_no_measured_baseline_can_be_held_against_designs_the_whole_verdict_stands_below() -> None:
    verdict = "No design is held against top-8 of 128: a plain step by its own measured kernels differs by +40%."
    assert below_headline(replace(ANSWER, verdict=verdict, clear=False)) == verdict


def test_a_long_name_of_an_own_model_is_told_whole_and_a_borrowed_acceptance_is_marked() -> None:
    test = pick_row(page(acceptance="gpt-oss-20b-eagle3-mt-bench"), 1)
    button(test, "design_adopt").click().run()
    name = test.session_state["_scenario"].model_id
    assert name in test.selectbox(key="model_id").help.replace("\\", "")
    assert test.number_input(key="accepted").label == ":orange[Accepted?]"
    said = texts(test)
    assert "Accepted is borrowed from gpt-oss-20b with EAGLE-3: fill in your own." in said
    assert "acceptance borrowed from gpt-oss-20b" in said
    test.number_input(key="accepted").set_value(2.4).run()
    assert test.number_input(key="accepted").label == "Accepted"
    assert "borrowed" not in texts(test)


def test_a_picked_candidate_becomes_the_scenario_and_advise_then_shows_it() -> None:
    test = pick_row(page(), 1)
    chosen = ANSWER.top[1]
    button(test, "design_adopt").click().run()
    assert not test.exception
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == (
        f"own-qwen3-30b-a3b-n{chosen.n_experts}k{chosen.n_active}s{chosen.n_shared:.3g}w{chosen.expert_width}"
    )
    assert test.selectbox(key="model_id").value == scenario.model_id
    moe = architecture_from_config(scenario.model_config_json, "design").moe
    assert (moe.n_experts, moe.n_active, moe.expert_width) == (
        chosen.n_experts,
        chosen.n_active,
        chosen.expert_width,
    )
    assert scenario.acceptance == SCENARIO.acceptance
    assert "contradicts the name" not in texts(test)
    assert any("is now the model" in item.value for item in test.success)
    assert f"top-{chosen.n_active} of {chosen.n_experts}" in texts(test) or "Keep" in texts(test)
    go_to(test, "serve").run()
    verdict = advise(scenario).recommendation
    assert f"{verdict.speedup.value:.1f}×" in test.title[0].value
    assert test.metric[0].value == f"{verdict.tpot_s * 1e3:.3g}"


def test_names_of_designs_derived_from_a_design_do_not_grow() -> None:
    own = SCENARIO.model_copy(update={"model_id": "own-qwen3-30b-a3b-n96k14s1w800"})
    space = ANSWER.space
    setup = type(space.setup)(**{**vars(space.setup), "scenario": own})
    name = design_name(type(space)(**{**vars(space), "setup": setup}), ANSWER.top[0])
    assert name.count("-n") == 1
    assert len(name) <= MAX_NAME


def test_controls_change_the_question() -> None:
    test = page()
    before = test.title[0].value
    next(group for group in test.get("button_group") if group.key == "design_objective").set_value("sd_speedup").run()
    steepest = ANSWER.by_objective["sd_speedup"]
    assert test.title[0].value.startswith(design_words(ANSWER.space, steepest))
    assert test.title[0].value != before
    test.text_input(key="design_batches").set_value("1-4").run()
    assert "batch 1, 2, 4, context 2,048, at equal quality" in texts(test)


def test_a_limit_is_kept_by_every_candidate() -> None:
    test = page(design_total_params="24")
    table = ranked(test)
    assert len(table) > 0
    assert table["Total B"].max() <= 24
    test = page("Laws and limits", design_total_params="24")
    assert (
        frame_with(test, "Designs ruled out")
        .set_index("Limit")
        .loc["The limit on total parameters", "Designs ruled out"]
        > 0
    )


def test_a_link_restores_the_question_and_the_scenario() -> None:
    test = page(
        design_objective="Tokens per second per GPU",
        design_batches="1:0.25,64:0.75",
        design_quality="5",
        design_tokens="15",
        hardware_id="b200-sxm",
    )
    expected = answer_for(
        test.session_state["_scenario"],
        DesignQuestion(
            objective="tokens_per_s_per_gpu", batches="1:0.25,64:0.75", quality_eps=0.05, training_tokens=15e12
        ),
    )
    assert test.session_state["_scenario"].hardware_id == "b200-sxm"
    assert test.title[0].value == headline(expected)
    assert not [item.value for item in test.warning if "link" in item.value]


@pytest.mark.parametrize(
    ("name", "value"), [("design_objective", "nonsense"), ("design_quality", "x"), ("design_other", "1")]
)
def test_a_link_with_a_nonsense_question_still_answers_and_says_what_it_ignored(name: str, value: str) -> None:
    test = page(**{name: value})
    assert len(charts(test)) == 3
    assert any(name in item.value.replace("\\", "") for item in test.warning)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"model_id": "command-a"}, "is dense; give a mixture-of-experts model"),
        ({"design_batches": "1,x"}, "histogram like"),
        ({"design_batches": "1:0,2:0"}, "positive sum"),
        ({"drafter_id": "none", "design_objective": "sd_speedup"}, "give a drafter"),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_message_and_the_controls_stay(
    query: dict[str, str], message: str
) -> None:
    test = page(**query)
    assert len(test.error) == 1
    assert message in test.error[0].value.replace("\\", "")
    assert [group for group in test.get("button_group") if group.key == "design_objective"]
    assert not charts(test)


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        ("design_tpot", "the limit on time per output token"),
        ("design_memory", "memory per GPU"),
        ("design_total_params", "the limit on total parameters"),
    ],
)
def test_limits_that_nothing_meets_say_which_one_binds_and_the_nearest_design(limit: str, name: str) -> None:
    test = page("Laws and limits", **{limit: "0.1"})
    assert "No design keeps every limit" in test.title[0].value
    message = test.error[0].value.replace("\\", "")
    assert name in message
    assert "Nearest:" in message
    counts = frame_with(test, "Designs ruled out")
    assert counts["Share"].max() == pytest.approx(100.0)
    assert not [item for item in test.button if item.key == "design_adopt"]


def test_an_own_model_is_searched() -> None:
    """In its own session: tests/pages/test_answers.py."""
    from tests.own_model import CONFIG_JSON

    own = Scenario(acceptance="2.4@3", batch_size=4, model_id="own-tiny", model_config_json=CONFIG_JSON)
    test = page(**link(own))
    assert test.session_state["_scenario"] == own
    answer = design_answer(design_space(own, objective="tpot"), 12)
    assert test.title[0].value == headline(answer)
    assert answer.recommended is not None


def test_every_objective_has_a_name_a_unit_and_a_phrase() -> None:
    from advisor.answers.design.grid import OBJECTIVES
    from advisor.text import MERITS

    assert set(OBJECTIVE_NAMES.values()) == set(OBJECTIVES)
    assert all(MERITS[name].unit and MERITS[name].gain_of for name in OBJECTIVES)


def test_a_config_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AdvisorError("this model's config.json cannot express the design")

    monkeypatch.setattr(pick, "design_config", refuse)
    assert pick.config_of(ANSWER, ANSWER.recommended.index) == (
        None,
        "this model's config.json cannot express the design",
    )


def test_the_better_of_two_speeds_is_named_in_the_table_of_trade_offs() -> None:
    front = pareto(ANSWER, "tpot")
    assert (front["objective"].diff().dropna() < 0).all()
    assert (front["quality_ratio"].diff().dropna() < 0).all()
    front = pareto(ANSWER, "sd_speedup")
    assert (front["objective"].diff().dropna() > 0).all()


def test_a_typed_shape_becomes_the_model_that_the_search_starts_from() -> None:
    test = page()
    test.text_input(key="design_shape").set_value("24L h2048 N64 k4 s1 w1024")
    test.button(key="design_from_shape").click().run()
    assert not test.exception
    assert test.session_state["model_id"] == "own-24l-h2048-n64-k4-s1-w1024"
    assert "64 experts top-4 + 1 shared, width 1024" in set(frame_with(test, "Band")["Design"])
    assert "Assumed: 16 attention heads of 128" in test.info[0].value.replace("\\", "")


def test_a_target_size_starts_from_a_model_near_it_and_holds_for_every_design() -> None:
    test = page(design_target_total="40")
    test.button(key="design_from_size").click().run()
    assert not test.exception
    assert test.session_state["model_id"].startswith("own-")
    assert ranked(test)["Total B"].between(38, 42).all()


@pytest.mark.parametrize(("shape", "message"), [("24L h2048 N64 q4", "is no part of a shape"), ("", "lacks")])
def test_a_shape_that_cannot_be_is_refused_beside_its_button(shape: str, message: str) -> None:
    test = page()
    before = test.session_state["model_id"]
    test.text_input(key="design_shape").set_value(shape)
    test.button(key="design_from_shape").click().run()
    assert not test.exception
    assert message in test.error[0].value.replace("\\", "")
    assert test.session_state["model_id"] == before


BOTH = "h100-sxm:8, b200-sxm:128"


def page_design_targets(tab: str = "Several targets", **query: str) -> AppTest:
    return opened("design", tab, **(link(SCENARIO) | query))


def shown(test: AppTest) -> str:
    """All text of the page, without the marks that escape it."""
    return texts(test).replace("\\", "").replace("–", "-")


def test_targets_in_a_link_are_answered_with_the_words_of_the_command() -> None:
    test = page_design_targets(design_targets=BOTH)
    expected = one_design(SCENARIO, parse_targets(BOTH.split(",")), objective="tpot")
    assert expected.best is not None
    assert one_design_verdict(expected).split(".")[0] in shown(test)
    frame = next(item.value for item in test.dataframe if "Gives up" in item.value.columns)
    assert frame["Target"].tolist() == ["h100-sxm:8", "b200-sxm:128"]
    assert [item.key for item in test.get("download_button") if item.key == "design_one_csv"]


def test_the_map_is_drawn_with_its_verdict_and_its_table() -> None:
    test = page_design_targets()
    assert region_verdict(region_map(SCENARIO, objective="tpot")) in shown(test)
    frame = next(item.value for item in test.dataframe if "Region" in item.value.columns)
    assert frame["Region"].iloc[0] == "A"
    assert any(item.key == "design_regions" for item in test.get("plotly_chart"))
    test.multiselect(key="design_places").set_value([]).run()
    assert "Choose at least one accelerator" in shown(test)


def test_a_limit_that_no_design_keeps_is_told_for_the_targets_and_the_map() -> None:
    test = page_design_targets(design_targets=BOTH, design_tpot="0.1")
    assert not test.exception
    assert "No design serves batch 8 on NVIDIA H100" in shown(test)
    assert "No design keeps every limit in any cell of the map." in shown(test)
    assert not any(item.key == "design_regions" for item in test.get("plotly_chart"))


def test_a_wrong_target_is_one_message_and_the_map_stays() -> None:
    test = page_design_targets(design_targets="h100:8")
    assert [item.value for item in test.error if "is unknown" in item.value]
    assert any(item.key == "design_regions" for item in test.get("plotly_chart"))


def test_the_first_screen_computes_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("drawn before it is asked for")

    monkeypatch.setattr(pick, "region_map", refuse)
    monkeypatch.setattr(pick, "one_design", refuse)
    assert not page_design_targets("").exception


def test_the_baseline_s_figure_says_that_it_is_by_the_fit_where_serve_has_measured_kernels() -> None:
    space = ANSWER.space
    assert space.measured_tpot_s is not None
    said = baseline_footing(ANSWER)
    assert f"{space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0]) * 1e3:.2f} ms is by the fitted" in said
    assert f"as on Serve, it is {space.measured_tpot_s * 1e3:.2f} ms" in said
    assert said in shown(page_design_targets(""))
