"""The page Design through AppTest: its headline, dials, table and files, what it refuses, and how
it starts.

One design for several targets: a section that is computed once it is opened.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.design.answer import design_answer
from advisor.answers.design.dials import Experts, baseline_experts, costed, dials, experts_of
from advisor.answers.design.search import design_space
from advisor.answers.design.start import (
    MAX_NAME,
    design_name,
    experts_config,
    parse_experts,
    routing_in_serve,
    start_from_size,
    starts,
)
from advisor.answers.design.targets import one_design, parse_targets
from advisor.catalog.hf.config import architecture_from_config
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError
from advisor.show.words.design import (
    SAME_TIME,
    about_figures,
    below_headline,
    beside_table,
    best_name,
    dial_value,
    headline,
    one_design_text,
)
from advisor.ui.design import view
from advisor.ui.design.question import DesignQuestion, answer_for
from tests.pages.app_page import go_to, opened, press, texts
from tests.pages.test_app import charts, link

SCENARIO = Scenario(acceptance="2.4@3", batch_size=16)
ANSWER = design_answer(design_space(SCENARIO))
DIALS = ("ratio", "shared", "width")


def page(**query: str) -> AppTest:
    return opened("design", "", **(link(SCENARIO) | query))


def beside(test: AppTest) -> Any:
    """The table of today's design, the user's and the best."""
    return next(item.value for item in test.dataframe if "Mine" in item.value.columns)


def dial(test: AppTest, name: str) -> Any:
    return next(one for one in test.select_slider if one.key.startswith(f"design_dial_{name}_"))


def test_headline_line_files_and_command_are_the_answer_s_own_and_every_chart_has_a_finding() -> (
    None
):
    test = page()
    assert test.title[0].value == headline(ANSWER)
    assert below_headline(ANSWER) in texts(test)
    assert len(charts(test)) == 6
    assert all(any(letter.isdigit() for letter in chart.alt) for chart in charts(test))
    keys = {item.key for item in test.get("download_button")}
    assert {
        "design_config",
        "design_best-designs.csv",
        "design_dials.csv",
        "design_whole-answer.json",
    } <= keys
    named = design_name(ANSWER.space, baseline_experts(ANSWER.space))
    assert any(
        item.value.startswith("advisor profile --engine vllm --model ") for item in test.code
    )
    assert named.startswith("qwen3-30b-a3b-n128k8s0w768")


def test_the_dials_start_at_today_s_design_and_mine_is_today_s() -> None:
    test = page()
    own = baseline_experts(ANSWER.space)
    assert [dial(test, name).value for name in DIALS] == [
        dial_value(found, found.own) for found in dials(ANSWER.space, own)
    ]
    table = beside(test)
    assert table["Today"].tolist() == table["Mine"].tolist()
    assert table["Design"].tolist().count("K") == 1


def test_a_turned_dial_moves_mine_alone_and_stands_in_the_typed_design() -> None:
    test = page()
    before = beside(test)
    dial(test, "width").set_value("1,024").run()
    assert not test.exception
    assert test.text_input(key="design_mine").value == "N128 k8 s0 w1024"
    after = beside(test)
    assert after["Mine"].tolist() != before["Mine"].tolist()
    assert after["Today"].tolist() == before["Today"].tolist()
    assert after["Best"].tolist() == before["Best"].tolist()


def test_the_design_behind_a_held_dial_is_named_under_the_pointer_and_to_a_screen_reader() -> None:
    test = page(design_mine="N64 k8 s0 w768")
    dial_held = dials(ANSWER.space, Experts(64, 8, 0.0, 768))[0]
    held = dial_held.held[dial_held.own]
    loss = dial_held.loss[dial_held.own]
    best = costed(ANSWER.space, experts_of(ANSWER.space, ANSWER.space.best or 0))
    retuned = costed(ANSWER.space, parse_experts(held, Experts(1, 1, 0.0, 1)))
    assert loss == pytest.approx(retuned.tpot_s / best.tpot_s - 1, abs=1e-3)
    assert any(f"by {held}." in chart.alt for chart in charts(test))


def test_twice_the_active_experts_is_twice_the_k_of_as_many_experts_and_weighs_the_same() -> None:
    test = page()
    dial(test, "ratio").set_value("16 of 128").run()
    assert not test.exception
    assert test.text_input(key="design_mine").value == "N128 k16 s0 w768"
    size = beside(test).set_index("Design").loc["Total, B"]
    assert size["Mine"] == size["Today"]


def test_a_typed_design_sets_the_dials_and_is_costed_as_the_library_does_beside_the_grid_too() -> (
    None
):
    test = page(design_mine="k4 N96 w768")
    assert [dial(test, name).value for name in DIALS] == ["4 of 96", "0 : 4", "768"]
    mine = costed(ANSWER.space, Experts(96, 4, 0.0, 768))
    today = costed(ANSWER.space, baseline_experts(ANSWER.space))
    assert beside(test)["Mine"].tolist() == [
        cells[2] for cells in beside_table(today, mine, mine).cells
    ]
    time = f"{today.tpot_s / mine.tpot_s:.2f}× as fast as 8 of 128 (80% range "
    assert f"4 of 96, 0 shared, width 768: {time}" in texts(test)
    active = f"{mine.active_params / 1e9:.3g} B active, not {today.active_params / 1e9:.3g}"
    assert (
        f"), {mine.tpot_s * 1e3:.2f} ms per token; {active}; quality worse by all three scaling "
        "laws ("
    ) in texts(test)
    assert "as fast as 8 of 128" not in texts(page()), "nothing of the baseline itself"
    test = page(design_mine="N100 k5")
    assert dial(test, "ratio").value == "5 of 100"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            "k9 q3",
            "'q3' is no part of a design; type experts alone, like N128 k8 s0 w768 or 8 of 256",
        ),
        ("k900", "exceeds"),
        ("12L k4", "12"),
    ],
)
def test_a_typed_design_that_cannot_be_is_one_message_and_the_dials_stay(
    typed: str, message: str
) -> None:
    test = page(design_mine=typed)
    assert len(test.error) == 1
    assert message in test.error[0].value.replace("\\", "")
    assert dial(test, "ratio").value == "8 of 128"


def test_experts_are_read_in_any_order_and_what_is_left_out_is_the_own() -> None:
    own = Experts(128, 8, 1.0, 768)
    assert parse_experts("w512 N64", own) == Experts(64, 8, 1.0, 512)
    assert parse_experts("4 of 256", own) == parse_experts("4/256", own)
    assert parse_experts("4 of 256", own) == Experts(256, 4, 1.0, 384), "of the same total size"
    assert parse_experts("k4, s0", own) == Experts(128, 4, 0.0, 768)
    assert parse_experts(own.text, Experts(2, 1, 0.0, 16)) == own


def test_a_batch_or_a_mix_is_typed_and_asks_the_question_anew() -> None:
    test = page()
    before = dial(test, "width").key
    test.text_input(key="design_batches").set_value("3").run()
    assert dial(test, "width").key != before, (
        "a browser still sends the dials of the question before: no turn of these"
    )
    assert (
        test.title[0].value
        == headline(design_answer(design_space(SCENARIO, batches=[3])))
        != headline(ANSWER)
    )
    test.text_input(key="design_batches").set_value("1:0.25,64:0.75").run()
    assert test.title[0].value == headline(
        answer_for(SCENARIO, DesignQuestion(batches="1:0.25,64:0.75"))
    )


def test_a_design_opens_in_serve_as_the_model() -> None:
    test = page(design_mine="N96 k6 s0 w896", design_batches="64")
    next(group for group in test.get("button_group") if "Mine" in group.options).set_value(
        "Mine"
    ).run()
    press(test, "design_adopt")
    scenario = test.session_state["_scenario"]
    assert (scenario.model_id, scenario.batch_size) == ("own-qwen3-30b-a3b-n96k6s0w896", 64)
    moe = architecture_from_config(scenario.model_config_json, "design").moe
    assert (moe.n_experts, moe.n_active, moe.expert_width) == (96, 6, 896)
    assert scenario.acceptance == SCENARIO.acceptance
    go_to(test, "serve").run()
    assert not test.exception


def test_names_of_designs_derived_from_a_design_do_not_grow() -> None:
    own = SCENARIO.model_copy(update={"model_id": "own-qwen3-30b-a3b-n96k14s1w800"})
    space = ANSWER.space
    setup = type(space.setup)(**{**vars(space.setup), "scenario": own})
    name = design_name(type(space)(**{**vars(space), "setup": setup}), ANSWER.top[0])
    assert name.count("-n") == 1
    assert len(name) <= MAX_NAME


def test_a_limit_is_kept_by_the_best_design_and_restored_from_a_link() -> None:
    test = page(
        design_total_params="29", design_quality="5", design_tokens="15", hardware_id="b200-sxm"
    )
    asked = DesignQuestion(max_total_params=29e9, quality_eps=0.05, training_tokens=15e12)
    expected = answer_for(test.session_state["_scenario"], asked)
    assert test.title[0].value == headline(expected)
    assert expected.recommended.total_params <= 29e9
    assert not [item.value for item in test.warning if "link" in item.value]


@pytest.mark.parametrize(("name", "value"), [("design_quality", "x"), ("design_other", "1")])
def test_a_link_with_a_nonsense_question_still_answers_and_says_what_it_ignored(
    name: str, value: str
) -> None:
    test = page(**{name: value})
    assert len(charts(test)) == 6
    assert any(name in item.value.replace("\\", "") for item in test.warning)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"model_id": "command-a"}, "is dense; give a mixture-of-experts model"),
        ({"design_batches": "1,x"}, "histogram like"),
        ({"design_batches": "1:0,2:0"}, "positive sum"),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_message_and_the_controls_stay(
    query: dict[str, str], message: str
) -> None:
    test = page(**query)
    assert len(test.error) == 1
    assert message in test.error[0].value.replace("\\", "")
    assert test.text_input(key="design_batches")
    assert not charts(test)


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        ("design_tpot", "the limit on time per output token"),
        ("design_memory", "memory per GPU"),
        ("design_total_params", "the limit on total parameters"),
    ],
)
def test_limits_that_nothing_meets_say_which_one_binds_and_the_nearest_design(
    limit: str, name: str
) -> None:
    test = page(**{limit: "0.1"})
    assert test.title[0].value == "No design keeps every limit"
    assert name in texts(test)
    assert "Nearest:" in texts(test)
    assert len(beside(test).columns) == 3


def test_a_config_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AdvisorError("this model's config.json cannot express the design")

    monkeypatch.setattr("advisor.ui.design.view.experts_config", refuse)
    assert "this model's config.json cannot express the design" in texts(page())


def test_a_typed_shape_becomes_the_model_and_the_dials_its_values() -> None:
    test = page(design_mine="k4")
    test.text_input(key="design_shape").set_value("24L h2048 N64 k4 s1 w1024").run()
    assert test.session_state["model_id"] == "own-24l-h2048-n64-k4-s1-w1024"
    assert [dial(test, name).value for name in DIALS] == ["4 of 64", "1 : 4", "1,024"]
    assert any("Assumed: 16 attention heads of 128" in (one.help or "") for one in test.caption)


def test_a_target_size_starts_from_the_model_that_is_chosen_and_holds_for_the_best_design() -> None:
    test = page()
    assert "design_like" not in [item.key for item in test.selectbox], (
        "layers are asked about once there is a start"
    )
    test.number_input(key="design_start_total").set_value(40.0).run()
    test.selectbox(key="design_like").set_value("mixtral-8x7b").run()
    assert "Mixtral 8x7B (" in texts(test)
    assert test.session_state["model_id"].startswith("own-40b-n8k2")
    assert test.title[0].value.startswith("Use ")
    assert 38 <= float(beside(test).set_index("Design")["Alternative"]["Total, B"]) <= 42


def test_a_start_from_nothing_is_called_start_and_never_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(view, "show_plot", lambda chart, *_: drawn.append(chart))
    test = page()
    drawn.clear()
    test.number_input(key="design_start_total").set_value(40.0).run()
    assert test.session_state["model_id"] == "own-40b-n256k8s1w592"
    assert beside(test).columns.tolist() == ["Design", "Start", "Mine", "Alternative"]
    assert "today" not in texts(test).lower()
    assert "today" not in " ".join(beside(test)["Design"])
    assert drawn
    assert not [chart.alt for chart in drawn if "today" in f"{chart.alt} {chart.figure}"]
    assert float(beside(test).set_index("Design")["Start"]["Total, B"]) == pytest.approx(
        40.0, rel=0.01
    )


def test_another_model_forgets_the_size_that_the_last_was_started_from() -> None:
    test = page()
    test.number_input(key="design_start_total").set_value(40.0).run()
    assert test.session_state["design_target_total"] == 40.0
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert test.session_state["design_target_total"] is None
    assert test.number_input(key="design_start_total").value is None
    test.number_input(key="design_start_total").set_value(1e-3).run()
    assert test.error
    test.number_input(key="design_start_total").set_value(None).run()
    assert not test.error


def test_the_command_measures_at_every_target_batch() -> None:
    said = "advisor profile --engine vllm"
    for typed, batches in (("64", "1,4,16,64"), ("8:0.5,128:0.5", "1,4,8,16,128")):
        command = next(
            item.value for item in page(design_batches=typed).code if item.value.startswith(said)
        )
        assert f" --batches {batches} " in command


@pytest.mark.parametrize("model_id", ["qwen3-30b-a3b", "gpt-oss-20b", "nemotron-3-nano"])
def test_the_times_of_serve_stand_under_the_pointer_where_they_are_others(model_id: str) -> None:
    asked = SCENARIO.model_copy(
        update={"model_id": model_id, "hardware_id": "b200-sxm", "batch_size": 64}
    )
    answer = design_answer(design_space(asked))
    space = answer.space
    best = answer.recommended
    config = json.dumps(experts_config(space, experts_of(space, best.index)))
    own = {"model_id": "own", "model_config_json": config}
    if routing := routing_in_serve(space, experts_of(space, best.index)):
        own["routing"] = routing
    opened_there = build_scenario(**(dict(asked) | own))
    k = [0, best.n_draft[0], int(space.baseline.served.n_draft[0, 0])]
    served = [
        1e3 * float(curve_for(load_setup(scenario), [64], k).tpot_s[0, at])
        for scenario, at in ((opened_there, 1), (asked, 2))
    ]
    own_ms = 1e3 * space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0])
    line = below_headline(answer)
    about = about_figures(answer)
    assert f"{own_ms:.2f}" in line
    assert "Serve" not in line
    here = [1e3 * space.question.mean_tpot_s(space.tpot_s[:, best.index]), own_ms]
    said = f"{served[0]:.2f} ms ({best_name(answer)}), {served[1]:.2f} ms (today)."
    assert about.endswith(said) == (
        max(abs(a / b - 1.0) for a, b in zip(served, here, strict=True)) >= SAME_TIME
    )


def test_an_accepted_length_of_another_model_is_said_to_be_borrowed() -> None:
    curve = "gpt-oss-20b-eagle3-mt-bench"
    assert "Acceptance, on which K rests, borrowed from gpt-oss-20b" in texts(
        page(acceptance=curve)
    )
    assert "borrowed" not in texts(page(acceptance=curve, model_id="gpt-oss-20b"))
    assert "borrowed" not in texts(page())


@pytest.mark.parametrize(
    ("shape", "message"), [("24L h2048 N64 q4", "is no part of a shape"), ("24L", "lacks")]
)
def test_a_shape_that_cannot_be_is_refused_below_the_question(shape: str, message: str) -> None:
    test = page()
    before = test.session_state["model_id"]
    test.text_input(key="design_shape").set_value(shape).run()
    assert message in test.error[0].value.replace("\\", "")
    assert test.session_state["model_id"] == before


BOTH = "h100-sxm:8, b200-sxm:128"


def test_targets_in_a_link_are_answered_as_the_command_does() -> None:
    test = page(design_targets=BOTH)
    expected = one_design(SCENARIO, parse_targets(BOTH.split(",")))
    assert expected.index is not None
    assert one_design_text(expected) in texts(test)
    frame = next(item.value for item in test.dataframe if "Behind" in item.value.columns)
    assert [cell.replace("\\", "") for cell in frame["Target"]] == ["h100-sxm:8", "b200-sxm:128"]
    assert [item.key for item in test.get("download_button") if item.key == "design_one_csv"]


def test_a_wrong_target_is_one_message() -> None:
    test = page(design_targets="h100:8")
    assert [item.value for item in test.error if "is unknown" in item.value]


def test_the_first_screen_searches_no_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("searched before it is asked for")

    monkeypatch.setattr(view, "one_design", refuse)
    assert not page().exception


def test_a_size_starts_from_no_model_that_cannot_be_brought_to_it() -> None:
    known = starts(40e9)
    assert "glm-4.5-air" not in known
    with pytest.raises(
        AdvisorError, match=r"glm-4\.5-air cannot be widened or thinned to 40 B total"
    ):
        start_from_size(SCENARIO, 40e9, like="glm-4.5-air")
    assert (
        start_from_size(SCENARIO, 40e9).scenario
        == start_from_size(SCENARIO, 40e9, like=known[0]).scenario
    )
