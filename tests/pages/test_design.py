"""The page Design through AppTest: its sheet, what is compared, files, what it refuses, and how it
starts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.design.answer import design_answer
from advisor.answers.design.dials import Experts, baseline_experts, costed
from advisor.answers.design.search import design_space
from advisor.answers.design.start import (
    MAX_NAME,
    design_name,
    parse_designs,
    parse_experts,
    start_from_size,
    starts,
)
from advisor.catalog.hf.config import architecture_from_config
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.book import counts_text
from advisor.show.words.design import headline
from advisor.ui.design.question import DesignQuestion, answer_for
from tests.pages.app_page import go_to, opened, press, texts
from tests.pages.test_app import charts, link

SCENARIO = Scenario(acceptance="2.4@3", batch_size=16)
ANSWER = design_answer(design_space(SCENARIO))


def page(**query: str) -> AppTest:
    return opened("design", "", **(link(SCENARIO) | query))


def sheet(test: AppTest, key: str = "design_sheet") -> dict[str, Any]:
    """A sheet as the browser gets it."""
    return next(
        json.loads(item.proto.json)
        for item in test.get("bidi_component")
        if item.proto.component_name == "sheet" and key in item.proto.id
    )


def table(test: AppTest) -> dict[str, dict[str, str]]:
    """The table of designs: texts of a row by head, by its name."""
    block = sheet(test)["rows"][1][0]
    heads = [head["label"] for head in block["heads"]]
    return {
        row["cells"][0]["text"]: dict(
            zip(heads, (cell["text"] for cell in row["cells"]), strict=True)
        )
        for row in block["rows"]
    }


def test_the_sheet_has_one_headline_two_plates_and_a_table_and_no_other_chart() -> None:
    test = page()
    shown = sheet(test)
    assert shown["headline"] == headline(ANSWER)
    assert shown["emphasis"] in shown["headline"]
    assert [block["kind"] for block in shown["rows"][0]] == ["plate", "plate"]
    assert [block["kind"] for block in shown["rows"][1]] == ["table"]
    assert not charts(test)
    keys = {item.key for item in test.get("download_button")}
    assert {
        "design_config",
        "design_best-designs.csv",
        "design_along-k-over-n.csv",
        "design_whole-answer.json",
    } <= keys


def test_a_plate_s_label_says_what_it_shows() -> None:
    gain, time = sheet(page())["rows"][0]
    along = ANSWER.by_ratio
    for row, batch in enumerate(along.batches):
        most = along.designs[along.most[row]]
        said = f"at most {along.gain[row].max():.2f}× at batch {batch:g}, with {most.n_active}/128"
        assert said in gain["label"]
        assert f"at batch {batch:g} from {along.time[row, 0]:.2f} with 1/128" in time["label"]
        ((x, y),) = gain["lines"][row]["rings"]
        assert (x, y) == (most.n_active, pytest.approx(along.gain[row].max(), rel=1e-5))
    for plate in (gain, time):
        for zone in plate["zones"]:
            assert zone["names"][0] in plate["label"]
        assert plate["zones"][0]["start"] == plate["x"]["low"]
        assert plate["zones"][-1]["end"] == plate["x"]["high"]


def test_lines_stretches_and_marks_are_the_answer_s_own() -> None:
    gain, time = sheet(page())["rows"][0]
    along = ANSWER.by_ratio
    active = [design.n_active for design in along.designs]
    for row, line in enumerate(gain["lines"]):
        assert [x for x, _ in line["points"]] == active
        assert [y for _, y in line["points"]] == pytest.approx(along.gain[row], rel=1e-5)
        assert line["bold"] == (row == along.target)
        first, last = along.near[row]
        stretch = gain["stretches"][row]
        assert (stretch["start"], stretch["end"]) == (active[first], active[last])
        assert stretch["color"] == line["color"]
    assert [mark["x"] for mark in gain["marks"]] == [8]
    for row, line in enumerate(time["lines"]):
        assert [y for _, y in line["points"]] == pytest.approx(along.time[row], rel=1e-5)


def test_designs_of_a_link_stand_beside_the_start_as_the_library_costs_them() -> None:
    link_text = "4 of 64; 8 of 256 + 1; N96 k6 s0 w896"
    test = page(design_compare=link_text)
    assert test.text_input(key="design_compare").value == link_text
    own = baseline_experts(ANSWER.space)
    designs = parse_designs(link_text, own)
    assert designs[:2] == (Experts(64, 4, 0.0, 1536), Experts(256, 8, 1.0, 384))
    today = costed(ANSWER.space, own)
    rows = table(test)
    assert rows["Today"]["Speed"] == "1.00×"
    for design in designs:
        mine = costed(ANSWER.space, design)
        row = rows[counts_text(design)]
        assert row["ms/token"] == f"{1e3 * mine.tpot_s:.2f}"
        assert row["Speed"] == f"{today.tpot_s / mine.tpot_s:.2f}×"
        assert row["Each"] == " · ".join(f"{law:.2f}" for law in mine.quality)
    again = page(design_compare="".join(test.query_params["design_compare"]))
    assert table(again) == rows
    assert sheet(again)["rows"][1][0]["rows"][-1]["cells"][7]["ticks"] == pytest.approx(
        costed(ANSWER.space, designs[-1]).quality, rel=1e-5
    )


def test_what_is_typed_as_it_is_shown_is_the_same_design() -> None:
    own = Experts(128, 8, 2.0, 768)
    for design in (own, Experts(64, 4, 0.0, 1536), Experts(256, 8, 1.0, 384)):
        assert parse_experts(counts_text(design), own) == design
    assert parse_designs(" ; 4 of 64;4/64 ;", own) == (Experts(64, 4, 0.0, 1536),)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("k9 q3", "'q3' is no part of a design; type experts alone, like 8 of 256 + 1"),
        ("k900", "exceeds"),
        ("12L k4", "12"),
        ("1 of 8; 2 of 8; 3 of 8; 4 of 8; 5 of 8", "at most 4"),
    ],
)
def test_a_typed_design_that_cannot_be_is_one_message_and_the_answer_stays(
    typed: str, message: str
) -> None:
    test = page(design_compare=typed)
    assert len(test.error) == 1
    assert message in test.error[0].value.replace("\\", "")
    assert sheet(test)["headline"] == headline(ANSWER)
    assert list(table(test)) == list(table(page()))


def test_experts_are_read_in_any_order_and_what_is_left_out_is_the_own() -> None:
    own = Experts(128, 8, 1.0, 768)
    assert parse_experts("w512 N64", own) == Experts(64, 8, 1.0, 512)
    assert parse_experts("4 of 256", own) == parse_experts("4/256", own)
    assert parse_experts("4 of 256", own) == Experts(256, 4, 0.0, 384), "of the same total size"
    assert parse_experts("k4, s0", own) == Experts(128, 4, 0.0, 768)
    assert parse_experts(own.text, Experts(2, 1, 0.0, 16)) == own


def test_a_batch_or_a_mix_is_typed_and_asks_the_question_anew() -> None:
    test = page()
    test.text_input(key="design_batches").set_value("3").run()
    asked = design_answer(design_space(SCENARIO, batches=[3]))
    assert sheet(test)["headline"] == headline(asked)
    assert [line["name"] for line in sheet(test)["rows"][0][0]["lines"] if line["bold"]] == [
        "batch 3"
    ]
    test.text_input(key="design_batches").set_value("1:0.25,64:0.75").run()
    mixed = answer_for(SCENARIO, DesignQuestion(batches="1:0.25,64:0.75"))
    assert sheet(test)["headline"] == headline(mixed)
    assert sheet(test)["rows"][1][0]["title"] == "Side by side at batches 1 and 64"


def test_a_design_opens_in_serve_as_the_model() -> None:
    test = page(design_compare="N96 k6 s0 w896", design_batches="64")
    group = next(group for group in test.get("button_group") if "6 of 96" in group.options)
    group.set_value("6 of 96").run()
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
    assert sheet(test)["headline"] == headline(expected)
    assert expected.recommended.total_params <= 29e9
    assert not [item.value for item in test.warning if "link" in item.value]


@pytest.mark.parametrize(("name", "value"), [("design_quality", "x"), ("design_other", "1")])
def test_a_link_with_a_nonsense_question_still_answers_and_says_what_it_ignored(
    name: str, value: str
) -> None:
    test = page(**{name: value})
    assert sheet(test)["headline"] == headline(ANSWER)
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
    assert test.title[0].value == "No answer for this scenario"
    assert not test.get("bidi_component")


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
    shown = sheet(test)
    assert shown["headline"] == "No design keeps every limit"
    assert name in shown["reason"]
    assert "Nearest:" in shown["reason"]
    assert list(table(test)) == ["Today"]


def test_a_config_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AdvisorError("this model's config.json cannot express the design")

    monkeypatch.setattr("advisor.ui.design.view.experts_config", refuse)
    assert "this model's config.json cannot express the design" in texts(page())


def test_a_typed_shape_becomes_the_model_with_nothing_beside_it() -> None:
    test = page(design_compare="k4")
    test.text_input(key="design_shape").set_value("24L h2048 N64 k4 s1 w1024").run()
    assert test.session_state["model_id"] == "own-24l-h2048-n64-k4-s1-w1024"
    assert test.text_input(key="design_compare").value == ""
    assert sheet(test)["rows"][1][0]["rows"][0]["cells"][0]["grey"] == (
        "4 of 64 + 1 shared, width 1,024"
    )
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
    assert sheet(test)["headline"].startswith("Build ")
    total = float(table(test)["Best of equal quality"]["Total / active"].split()[0])
    assert 38 <= total <= 42


def test_a_start_from_nothing_is_called_start_and_never_today() -> None:
    test = page()
    test.number_input(key="design_start_total").set_value(40.0).run()
    assert test.session_state["model_id"] == "own-40b-n256k8s1w592"
    assert next(iter(table(test))) == "Start"
    assert "today" not in f"{texts(test)} {json.dumps(sheet(test))}".lower()
    total = float(table(test)["Start"]["Total / active"].split()[0])
    assert total == pytest.approx(40.0, rel=0.01)


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


def test_an_accepted_length_of_another_model_is_said_to_be_borrowed() -> None:
    curve = "gpt-oss-20b-eagle3-mt-bench"
    assert sheet(page(acceptance=curve))["amber"] == (
        "Accepted length is borrowed from gpt-oss-20b."
    )
    assert not sheet(page(acceptance=curve, model_id="gpt-oss-20b"))["amber"]
    assert not sheet(page())["amber"]


@pytest.mark.parametrize(
    ("shape", "message"), [("24L h2048 N64 q4", "is no part of a shape"), ("24L", "lacks")]
)
def test_a_shape_that_cannot_be_is_refused_below_the_question(shape: str, message: str) -> None:
    test = page()
    before = test.session_state["model_id"]
    test.text_input(key="design_shape").set_value(shape).run()
    assert message in test.error[0].value.replace("\\", "")
    assert test.session_state["model_id"] == before


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
