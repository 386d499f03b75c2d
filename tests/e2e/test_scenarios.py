"""Journeys with scenarios in a real Chromium: undo by Back, examples, pins, files, an accelerator
of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from advisor.predict.scenario import Scenario, load_example, read_scenario
from tests.catalog.test_hardware import POD
from tests.e2e.app_server import DONE, wait_until, wait_until_drawn
from tests.e2e.test_journeys import START, enter, open_app, wait_for_answer
from tests.e2e.views import PAGES, go_to, open_more, open_page, upload

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def wait_for_value(page: Any, label: str, value: int) -> None:
    wait_until(
        page,
        (
            "([label, value]) => document.querySelector(`input[aria-label='${label}']`)?.value "
            "=== value"
        ),
        arg=[label, str(value)],
    )
    wait_until_drawn(page)


def history_length(page: Any) -> int:
    return int(page.evaluate("history.length"))


def test_back_undoes_a_change_and_forward_does_it_again(page: Any, app_url: str) -> None:
    open_app(page, app_url)
    before = history_length(page)
    enter(page, "Context", 4096)
    wait_for_answer(page, START.model_copy(update={"context_tokens": 4096}))
    enter(page, "Batch, exact value", 128)
    wait_for_answer(page, START.model_copy(update={"context_tokens": 4096, "batch_size": 128}))
    assert history_length(page) == before + 2
    page.go_back()
    wait_for_answer(page, START.model_copy(update={"context_tokens": 4096}))
    page.go_back()
    wait_for_value(page, "Context", 2048)
    wait_for_answer(page, START)
    page.go_forward()
    wait_for_value(page, "Context", 4096)
    page.go_forward()
    wait_for_answer(page, START.model_copy(update={"context_tokens": 4096, "batch_size": 128}))
    assert history_length(page) == before + 2


def test_a_narrow_field_of_the_bar_says_that_enter_applies_what_is_typed(
    page: Any, app_url: str
) -> None:
    open_app(page, app_url)
    context = page.get_by_label("Context", exact=True)
    context.fill("64")
    said = "e => getComputedStyle(e.closest('.stNumberInput, .stTextInput'), '::after').content"
    assert context.evaluate(said) == '"Press Enter to apply"'
    assert not page.locator(".st-key-bar_fields [data-testid=InputInstructions]").count(), (
        "not said twice"
    )
    context.press("Escape")
    assert page.get_by_label("GPUs", exact=True).evaluate(said) == "none", "where nobody types"


def test_a_change_that_sets_several_fields_is_one_step_back(page: Any, app_url: str) -> None:
    open_app(page, app_url)
    before = history_length(page)
    enter(page, "GPUs", 2)
    page.wait_for_url("**n_gpus=2**tensor_parallel=2**")
    open_more(page)
    page.get_by_text("Start from an example").click()
    page.get_by_role("button", name=load_example("deepseek").title).click()
    wait_for_answer(page, load_example("deepseek").scenario)
    page.wait_for_url("**model_id=deepseek-v3**")
    page.keyboard.press("Escape")
    assert history_length(page) == before + 2
    page.go_back()
    wait_for_answer(page, START.model_copy(update={"n_gpus": 2, "tensor_parallel": 2}))
    page.go_back()
    wait_for_answer(page, START)


def test_what_was_typed_under_more_gives_way_to_what_the_bar_sets(page: Any, app_url: str) -> None:
    """A browser goes on sending what was typed into a widget that is folded away, whatever the app
    set since."""
    open_app(page, app_url)
    open_more(page)
    enter(page, "TP", 2)
    page.wait_for_url("**tensor_parallel=2**")
    page.keyboard.press("Escape")
    enter(page, "GPUs", 8)
    page.wait_for_url("**tensor_parallel=8**")
    page.get_by_role("tab", name="Why").click()
    wait_until_drawn(page)
    enter(page, "Batch, exact value", 32)
    wait_for_answer(
        page, START.model_copy(update={"n_gpus": 8, "tensor_parallel": 8, "batch_size": 32})
    )
    open_more(page)
    assert page.get_by_label("TP", exact=True).input_value() == "8"


def test_a_panel_that_was_opened_and_closed_takes_nothing_back(page: Any, app_url: str) -> None:
    """A browser goes on sending what a widget showed that is folded away, whatever the app set
    since."""
    open_app(page, app_url)
    open_more(page)
    page.keyboard.press("Escape")
    enter(page, "Batch, exact value", 40)
    wait_for_answer(page, START.model_copy(update={"batch_size": 40}))
    page.get_by_role("radio", name="SGLang").click()
    wait_for_answer(page, START.model_copy(update={"batch_size": 40, "engine": "sglang"}))
    page.goto(f"{app_url}/design?{START.to_query()}&design_target_total=40&design_quality=5")
    wait_until_drawn(page, PAGES["design"][1])
    for batch in (1000, 2000):
        enter(page, "Target batch", batch)
        page.wait_for_url(f"**design_batches={batch}**")
        wait_until_drawn(page)
        page.get_by_role("button", name="Limits").click()
        # Streamlit mounts a field at its least value and fills it in the next frame.
        wait_until(
            page, "document.querySelector('[aria-label=\"Quality loss (%)\"]')?.value === '5.00'"
        )
        page.keyboard.press("Escape")
    enter(page, "Compare with", "4 of 64")
    page.wait_for_url("**design_compare=4+of+64**")
    asked = parse_qs(urlsplit(page.url).query)
    assert [asked.get(f"design_{name}") for name in ("batches", "target_total", "quality")] == [
        ["2000"],
        ["40"],
        ["5"],
    ]


def test_back_crosses_pages_in_the_order_they_were_seen(page: Any, app_url: str) -> None:
    scenario = Scenario(acceptance="2.4@3", batch_size=32)
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    before = history_length(page)
    go_to(page, "Trust")
    page.wait_for_url("**/trust?**batch_size=32**")
    wait_until_drawn(page, ".sheet svg")
    enter(page, "Context", 4096)
    page.wait_for_url("**context_tokens=4096**")
    assert history_length(page) == before + 2
    page.go_back()
    page.wait_for_url("**/trust?**batch_size=32**")
    wait_for_value(page, "Context", 2048)
    page.go_back()
    page.wait_for_url(lambda url: "/trust" not in url)
    wait_for_answer(page, scenario)
    page.reload()
    wait_for_answer(page, scenario)
    page.go_forward()
    page.wait_for_url("**/trust?**batch_size=32**")
    wait_for_value(page, "Context", 2048)


def test_quick_typing_loses_nothing(page: Any, app_url: str) -> None:
    open_app(page, f"{app_url}/?acceptance=2.4%403")
    box = page.get_by_label("Batch, exact value")
    for size in (20, 30, 40, 50, 60):
        box.fill(str(size))
        box.press("Enter")
    wait_for_answer(page, Scenario(acceptance="2.4@3", batch_size=60))
    page.wait_for_url("**batch_size=60**")


def test_a_downloaded_scenario_opens_in_another_session(
    page: Any, app_url: str, context: Any, tmp_path: Path
) -> None:
    scenario = Scenario(
        acceptance="2.4@3",
        batch_size=8,
        hardware_id="own-pod-of-2027",
        hardware_json=json.dumps(POD),
        k_max=4,
    )
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    wait_for_answer(page, scenario)
    page.get_by_role("button", name="Share", exact=True).click()
    with page.expect_download() as caught:
        page.get_by_role("button", name="Scenario file").click()
    file = tmp_path / "scenario.json"
    caught.value.save_as(file)
    assert read_scenario(file.read_bytes()).scenario == scenario
    other = context.new_page()
    open_app(other, app_url)
    assert "own-pod" not in other.content()
    other.get_by_role("button", name="Share", exact=True).click()
    upload(other, "Open a scenario file", "scenario.json", b"{")
    other.get_by_text("the file is not JSON").wait_for()
    wait_for_answer(other, START)
    upload(other, "Open a scenario file", "scenario.json", file.read_bytes())
    wait_for_answer(other, scenario)
    other.reload()
    wait_for_answer(other, scenario)
    other.close()


@pytest.mark.parametrize("pause_ms", [30, 90, 150])
def test_size_and_batch_typed_in_one_go_leave_no_other_design(
    page: Any, app_url: str, pause_ms: int
) -> None:
    open_page(page, app_url, "design")
    page.get_by_label("New size (B)").click()
    for key in ("4", "0", "Tab", "6", "4", "Enter"):
        page.keyboard.press(key)
        page.wait_for_timeout(pause_ms)
    page.wait_for_url(lambda url: "design_target_total=40" in url, wait_until="commit")
    page.locator(DONE).wait_for()
    page.wait_for_timeout(2500)
    assert page.get_by_role("textbox", name="Target batch").input_value() == "64"
    assert page.get_by_role("textbox", name="Compare with").input_value() == ""
