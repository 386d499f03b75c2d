"""Journeys through the app in a real Chromium, as an architect would take them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from advisor.answers.advice import advise
from advisor.answers.design.answer import design_answer
from advisor.answers.design.search import design_space
from advisor.answers.engines.config import one_option_a_line
from advisor.answers.outcome import outcome_of
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.show.explain.round import derive
from advisor.show.phrases.answer import BOOK
from advisor.show.report.build import engine_setups
from advisor.show.words.design import headline
from advisor.ui.own_data import START as fields_START
from tests.e2e.app_server import ROOT, wait_until_drawn
from tests.e2e.views import ANSWER, SHEET, go_to, open_more, upload
from tests.own_model import CONFIG_JSON

pytestmark = pytest.mark.browser
START = Scenario(**fields_START)


def open_app(page: Any, url: str) -> None:
    page.goto(url)
    page.locator("h1").wait_for()
    wait_until_drawn(page)


def expected(scenario: Scenario) -> tuple[str, str]:
    """What the first screen says of a scenario: its title, and a sentence below it."""
    facts = outcome_of(advise(scenario)).facts
    below = BOOK.say("range", facts) or BOOK.say("memory", facts)
    return BOOK.say("headline", facts), below


def wait_for_answer(page: Any, scenario: Scenario) -> None:
    """Return once the first screen is that of a scenario, to the digit."""
    headline, below = expected(scenario)
    page.locator("h1", has_text=headline).wait_for()
    page.locator(".reason", has_text=below).wait_for()
    wait_until_drawn(page)


def title(page: Any) -> str:
    return str(page.locator("h1").inner_text())


def in_address(page: Any) -> Scenario:
    """The scenario that the address says, without the pages' settings."""
    query = parse_qsl(page.url.split("?", 1)[1], keep_blank_values=True)
    return Scenario.from_query(
        urlencode([(name, text) for name, text in query if name in FIELDS and text])
    )


def choose(page: Any, label: str, option: str) -> None:
    box = page.get_by_role("combobox", name=label)
    box.click()
    box.fill(option)
    page.get_by_role("option", name=option).first.click()
    wait_until_drawn(page)


def enter(page: Any, label: str, value: float | str) -> None:
    from playwright.sync_api import expect

    box = page.get_by_label(label, exact=True)
    expect(box).to_have_count(1, timeout=30_000)  # a rerun may hold the old one beside the new
    box.fill(str(value))
    box.press("Enter")
    wait_until_drawn(page)


def test_serve_read_the_answer_change_model_batch_and_accepted_length_and_copy_the_command(
    page: Any, app_url: str
) -> None:
    from playwright.sync_api import expect

    open_app(page, app_url)
    wait_for_answer(page, START)
    choose(page, "Model", "DeepSeek-V3 ")
    curve = "deepseek-r1-mtp-internal"
    scenario = START.model_copy(
        update={"model_id": "deepseek-v3", "drafter_id": "mtp", "acceptance": curve}
    )
    wait_for_answer(page, scenario)
    page.get_by_role("button", name=re.compile(r"^Use \d+ × ")).click()
    page.wait_for_url(lambda url: f"n_gpus={START.n_gpus}&" not in url)
    fits = in_address(page)
    assert fits.n_gpus == fits.tensor_parallel > START.n_gpus
    wait_for_answer(page, fits)
    enter(page, "Batch, exact value", 64)
    wait_for_answer(page, fits.model_copy(update={"batch_size": 64}))
    k = advise(fits.model_copy(update={"batch_size": 64})).curve_k
    page.get_by_text(
        f"Accepted length, K = {k}", exact=True
    ).wait_for()  # a length is typed at the K that is shown
    enter(page, "Accepted length, exact value", 2.4)
    final = fits.model_copy(update={"batch_size": 64, "acceptance": f"2.4@{k}"})
    wait_for_answer(page, final)
    page.wait_for_url("**batch_size=64**")
    line = one_option_a_line(engine_setups(advise(final))[0].launch_line)
    # The command follows the headline within a moment, and is what the report has.
    expect(page.locator(".launch pre")).to_have_text(line, use_inner_text=True)


def test_a_deep_link_with_a_page_s_setting_opens_there_and_survives_other_pages_and_a_reload(
    page: Any, app_url: str
) -> None:
    scenario = Scenario(
        hardware_id="h200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        expert_parallel=8,
        model_id="deepseek-v3",
        batch_size=64,
        drafter_id="mtp",
        acceptance="2.4@3",
        k_max=4,
    )
    open_app(page, f"{app_url}/?{scenario.to_query()}&serve_tab=Why")
    wait_for_answer(page, scenario)
    page.get_by_role("heading", name="One round by K at batch 64, ms").wait_for()
    go_to(page, "Trust")
    page.wait_for_url("**/trust**serve_tab=Why**")
    wait_until_drawn(page, SHEET)
    go_to(page, "Serve")
    wait_for_answer(page, scenario)
    page.get_by_role("heading", name="One round by K at batch 64, ms").wait_for()
    page.reload()
    wait_for_answer(page, scenario)
    page.get_by_role("heading", name="One round by K at batch 64, ms").wait_for()


def test_paste_a_slow_run_and_read_what_to_change(page: Any, app_url: str) -> None:
    page.goto(f"{app_url}/measure?{Scenario(acceptance='2.4@3').to_query()}")
    page.get_by_role("button", name="Paste text").click()
    box = page.get_by_label("Launch line, log, console block, CSV, JSON or rates")
    box.fill((ROOT / "tests/fixtures/diagnosis/misconfigured.txt").read_text())
    box.press("Control+Enter")
    page.get_by_role("heading", name="The engine is misconfigured").wait_for()
    page.keyboard.press("Escape")
    wait_until_drawn(page)
    assert "--max-running-requests 128" in page.locator(".launch pre").inner_text()
    page.locator("summary", has_text="Diagnosis").click()
    assert "128 sequences, above 48 sequences" in page.locator(".st-key-finding_0").inner_text()
    beside = page.get_by_test_id("stExpander").filter(has_text="Diagnosis")
    beside.get_by_test_id(
        "stDataFrame"
    ).first.wait_for()  # drawn on a canvas: tests/pages reads its cells


def test_the_published_sample_sets_the_bar_and_becomes_k_by_batch(page: Any, app_url: str) -> None:
    """One K: that of the headline, of the strip and of the command."""
    page.goto(f"{app_url}/measure")
    page.get_by_role("button", name="Try a sample: Qwen3-30B-A3B on GB200").click()
    page.get_by_role("heading", name="Keep K = 3 at batch").wait_for()
    wait_until_drawn(page, SHEET)
    scenario = in_address(page)
    assert (scenario.model_id, scenario.hardware_id) == ("qwen3-30b-a3b", "gb200")
    strip = page.locator(".plate svg text").all_text_contents()
    drafted = [text for text in strip if text.startswith("K = ")]
    assert drafted == ["K = 3", "K = 5", "K = 3"]
    command = page.locator(".launch pre").inner_text().replace("\n", "")
    assert '"num_speculative_tokens":5' in command
    assert "[[1,2,3],[3,64,5],[65," in command
    go_to(page, "Serve")
    page.locator(ANSWER).wait_for()
    wait_until_drawn(page)
    assert not page.get_by_text("Yours: ").count(), "a sample decides nothing on Serve"
    assert not page.get_by_text("You measured").count()


def test_a_file_that_is_no_configuration_is_refused(page: Any, app_url: str, context: Any) -> None:
    open_app(page, f"{app_url}/?acceptance=2.4%403")
    open_more(page)
    page.get_by_text("Your own config.json").click()
    upload(page, "config.json", "model.png", b"\x89PNG\xff\x00")
    page.get_by_text("The file is not text").wait_for()
    page.get_by_text("Your config.json is not usable; this answers for Qwen3-30B-A3B").wait_for()
    wait_for_answer(page, Scenario(acceptance="2.4@3"))
    upload(page, "config.json", "tiny.json", CONFIG_JSON.encode())
    # The length was given for another model: this one gets the nearest that is measured.
    measured = "gpt-oss-20b-eagle3-mt-bench"
    scenario = Scenario(acceptance=measured, model_id="own-tiny", model_config_json=CONFIG_JSON)
    wait_for_answer(page, scenario)
    page.get_by_text("The accepted length 2.4@3 was given for Qwen3-30B-A3B").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Share", exact=True).click()
    link = page.get_by_test_id("stPopoverBody").get_by_test_id("stCode").inner_text().strip()
    other = context.new_page()
    other.goto(link)
    wait_for_answer(other, scenario)
    assert other.get_by_role("combobox", name="Model", exact=True).input_value() == "own-tiny"
    other.close()


def test_the_curve_s_data_downloads_and_the_headline_says_how_it_was_computed(
    page: Any, app_url: str, tmp_path: Path
) -> None:
    scenario = Scenario(acceptance="2.4@3")
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    wait_for_answer(page, scenario)
    with page.expect_download() as caught:
        page.get_by_role("link", name="CSV", exact=True).click()
    file = tmp_path / "data.csv"
    caught.value.save_as(file)
    rows = file.read_text(encoding="utf-8").splitlines()
    advice = advise(scenario)
    assert rows[0].startswith("batch_size,n_draft,speedup,speedup_low")
    fits = advice.curve.batches <= advice.setup.memory.largest_batch
    assert len(rows) == 1 + advice.curve.speedup[fits].size, "no batch beyond the memory"
    page.get_by_role("button", name="How computed").click()
    dialog = page.get_by_role("dialog")
    speedup = (
        derive(load_setup(scenario), 16, advice.recommendation.n_draft).step("speedup").result.value
    )
    dialog.get_by_text(f"Predicted speedup {speedup:.2f}×").wait_for()
    dialog.get_by_text("Plain step", exact=True).first.click()
    dialog.get_by_text("Distinct experts touched").wait_for()


def test_compare_with_a_design_and_take_it_as_the_scenario(page: Any, app_url: str) -> None:
    scenario = Scenario(acceptance="2.4@3", batch_size=16)
    open_app(page, f"{app_url}/design?{scenario.to_query()}")
    page.locator(".sheet h1").wait_for()
    assert page.locator(".sheet h1").inner_text() == headline(design_answer(design_space(scenario)))
    enter(page, "Compare with", "N128 k8 s0 w800")
    page.wait_for_url("**design_compare=N128+k8+s0+w800**")
    wait_until_drawn(page)
    page.locator(".sheet tbody tr", has_text="width 800").wait_for()
    page.get_by_role("radio", name="8 of 128").or_(
        page.get_by_role("button", name="8 of 128")
    ).first.click()
    page.get_by_role("button", name="Open in Serve").click()
    page.wait_for_url("**model_id=own-*")
    page.locator(ANSWER).wait_for()
    taken = in_address(page)
    assert taken.model_id == "own-qwen3-30b-a3b-n128k8s0w800"
    wait_for_answer(page, taken)
