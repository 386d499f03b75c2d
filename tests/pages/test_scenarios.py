"""Scenarios in the app: examples, own accelerators, files, links that restore them, pins. Back is
in tests/e2e."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.physics.hardware import load_hardware
from advisor.predict.scenario import (
    MAX_LINK_CHARACTERS,
    Scenario,
    example_ids,
    load_example,
    scenario_json,
)
from tests.catalog.test_hardware import POD
from tests.golden.sentences import Golden
from tests.own_model import CONFIG, CONFIG_JSON
from tests.pages.app_page import live, press
from tests.pages.test_app import START, answered, app, link

OWN = Scenario(
    acceptance="2.4@3", hardware_id="own-pod", hardware_json=json.dumps(POD), batch_size=4
)


def shown(test: AppTest) -> Scenario:
    assert not test.exception, [item.value for item in test.exception]
    scenario: Scenario = test.session_state["_scenario"]
    return scenario


def open_file(test: AppTest, content: bytes) -> AppTest:
    uploader = next(
        item for item in test.file_uploader if str(item.key).startswith("scenario_file_")
    )
    uploader.upload("scenario.json", content, "application/json").run()
    return test


@pytest.mark.parametrize("name", example_ids())
def test_one_click_makes_an_example_the_scenario(name: str) -> None:
    test = app()
    press(test, f"example_{name}")
    example = load_example(name)
    assert shown(test) == example.scenario


def test_an_example_after_the_user_s_own_settings_leaves_none_of_them() -> None:
    test = app(
        acceptance="2.4@3", max_tpot_ms="5", weight_dtype="fp8", input_tokens="5", output_tokens="6"
    )
    press(test, "example_mixtral")
    assert shown(test) == load_example("mixtral").scenario


def test_the_address_says_what_is_on_screen_after_every_change() -> None:
    test = app()
    test.number_input(key="batch_size").set_value(512).run()
    test.selectbox(key="weight_dtype").set_value("fp8").run()
    test.number_input(key="batch_size").set_value(START.batch_size).run()
    test.selectbox(key="weight_dtype").set_value(None).run()
    query = {
        name: value[0] if isinstance(value, list) else value
        for name, value in test.query_params.items()
    }
    assert query["batch_size"] == str(START.batch_size)
    again = app(**query)
    assert shown(again) == shown(test) == START
    assert not any("link" in item.value for item in again.warning)


def test_a_note_on_a_link_goes_when_the_user_moves_on() -> None:
    test = app(acceptance="2.4@3", batch_size="many")
    assert any("many" in item.value for item in test.warning)
    test.number_input(key="batch_size").set_value(32).run()
    assert not any("many" in item.value for item in test.warning)


def test_a_link_without_an_accepted_length_takes_its_model_s_own_or_one() -> None:
    for model in ("gpt-oss-20b", "gpt-oss-120b"):
        test = app(model_id=model, drafter_id="eagle3")
        assert (shown(test).acceptance[:11], len(test.warning)) == ("gpt-oss-20b", 0)


def test_the_form_makes_an_accelerator_and_the_answer_a_roofline() -> None:
    test = app(acceptance="2.4@3")
    test.text_input(key="hw_name").set_value("Pod of 2027")
    test.number_input(key="hw_memory").set_value(200.0)
    test.number_input(key="hw_bandwidth").set_value(9.0)
    test.number_input(key="hw_link").set_value(900.0)
    test.number_input(key="hw_bf16").set_value(2000.0)
    test.number_input(key="hw_fp8").set_value(4000.0)
    press(test, "hw_use")
    scenario = shown(test)
    assert scenario.hardware_id == "own-pod-of-2027"
    given = json.loads(scenario.hardware_json or "")
    assert {name: given[name] for name in POD if name != "date"} == {
        k: v for k, v in POD.items() if k != "date"
    }
    assert any("1 × Pod of 2027" in item.value for item in test.markdown)
    test.selectbox(key="hardware_id").set_value("h200-sxm").run()
    assert shown(test).hardware_json is None


def test_the_form_says_what_is_missing_and_the_answer_stays(golden: Golden) -> None:
    test = app(acceptance="2.4@3")
    press(test, "hw_use")
    golden(still_needed=test.error[0].value)
    assert shown(test) == Scenario(acceptance="2.4@3")
    assert answered(test)


def test_an_accelerator_without_a_name_gets_one_and_several_need_a_link(golden: Golden) -> None:
    test = app(acceptance="2.4@3", n_gpus=2, tensor_parallel=2)
    test.number_input(key="hw_memory").set_value(96.0)
    test.number_input(key="hw_bandwidth").set_value(2.0)
    test.number_input(key="hw_bf16").set_value(400.0)
    press(test, "hw_use")
    golden(still_needed=test.error[0].value)
    test.number_input(key="hw_link").set_value(300.0)
    press(test, "hw_use")
    assert any("2 × My accelerator" in item.value for item in test.markdown)


def test_filling_in_from_a_profile_and_using_it_changes_nothing_but_the_origin() -> None:
    test = app(acceptance="2.4@3")
    before = live(test)["speedup"]
    press(test, "hw_fill")
    assert test.text_input(key="hw_name").value == load_hardware("h200-sxm").name
    press(test, "hw_use")
    assert shown(test).hardware_id == "own-nvidia-h200-sxm-141gb"
    assert live(test)["speedup"] == before


@pytest.mark.parametrize("content", [b"{", b"x" * 20_001])
def test_a_broken_accelerator_file_is_one_message_and_the_answer_stays(content: bytes) -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="hw_file").upload("pod.json", content, "application/json").run()
    assert len(test.error) == 1
    assert shown(test).hardware_id == "h200-sxm"


def test_a_link_restores_an_own_accelerator_and_another_session_does_not_see_it() -> None:
    test = app(**link(OWN))
    assert shown(test) == OWN
    assert not any("link" in item.value for item in test.warning)
    assert "own-pod" not in app().selectbox(key="hardware_id").options


def test_an_accelerator_that_cannot_be_is_one_message_on_every_page() -> None:
    bad = OWN.model_copy(update={"hardware_json": json.dumps(POD | {"memory_bytes": 1})})
    for page in ("serve", "design", "share"):
        test = app(page, **link(bad))
        assert "memory" in test.error[0].value
        assert not answered(test)


@pytest.mark.parametrize(
    "scenario",
    [
        OWN,
        Scenario(
            acceptance="0.7,0.5",
            model_id="own-tiny",
            model_config_json=CONFIG_JSON,
            max_tpot_ms=9.5,
        ),
    ],
    ids=["accelerator", "model"],
)
def test_a_scenario_file_opens_with_everything_in_it(scenario: Scenario) -> None:
    test = open_file(app(acceptance="2@3", k_max="3"), scenario_json(scenario).encode())
    assert shown(test) == scenario
    assert not test.error


def test_a_json_report_opens_too_and_an_edited_one_is_said() -> None:
    import datetime as dt

    from advisor.show.report.build import build_report
    from advisor.show.report.formats import render

    content = render(build_report(advise(OWN), dt.date(2026, 1, 2)), "json")
    test = open_file(app(), content)
    assert shown(test) == OWN
    test = open_file(app(), content.replace(b'"batch_size": 4,', b'"batch_size": 5,', 1))
    assert shown(test).batch_size == 5
    assert ["was edited" in item.value for item in test.warning] == [True]


@pytest.mark.parametrize("content", [b"", b'{"schema_version": 9, "scenario": {}}'])
def test_a_file_that_is_no_scenario_is_one_message_and_the_answer_stays(content: bytes) -> None:
    test = open_file(app(acceptance="2@3"), content)
    assert len(test.error) == 1
    assert shown(test) == Scenario(acceptance="2@3")


def test_what_a_file_names_and_this_advisor_lacks_is_said(golden: Golden) -> None:
    text = scenario_json(Scenario(acceptance="2@3", hardware_id="h999", batch_size=8))
    test = open_file(app(), text.encode())
    assert (shown(test).hardware_id, shown(test).batch_size) == ("h200-sxm", 8)
    golden(unknown=[item.value for item in test.warning])


def test_a_document_too_large_for_an_address_stays_out_of_it(golden: Golden) -> None:
    import secrets

    padded = json.dumps(CONFIG | {"note": secrets.token_hex(MAX_LINK_CHARACTERS)})
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload(
        "big.json", padded.encode(), "application/json"
    ).run()
    assert shown(test).model_config_json == padded
    assert "model_config_json" not in test.query_params
    golden(too_large=[item.value for item in test.warning])
