"""Journeys through the app in a real Chromium, as an architect would take them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from advisor.advice import advise
from advisor.design import design_answer, design_space
from advisor.explain import derive
from advisor.next_steps import GOALS, best_effects, next_steps
from advisor.scenario.scenario import Scenario
from advisor.setup import load_setup
from advisor.ui.design.question import CANDIDATES
from advisor.ui.shared.fields import START_ACCEPTANCE
from tests.e2e.app_server import wait_until_drawn
from tests.e2e.views import CHART, upload
from tests.own_model import CONFIG_JSON

pytestmark = pytest.mark.browser


def open_app(page: Any, url: str) -> None:
    page.goto(url)
    wait_until_drawn(page, CHART)


def verdict(page: Any) -> str:
    return str(page.locator("h1").inner_text()).replace("\N{NON-BREAKING HYPHEN}", "-")


def expected(scenario: Scenario) -> str:
    return advise(scenario).recommendation.verdict


def wait_for_verdict(page: Any, scenario: Scenario) -> None:
    words = expected(scenario)
    page.wait_for_function(
        "words => document.querySelector('h1')?.innerText.replaceAll('\\u2011', '-').trim() === words", arg=words
    )
    wait_until_drawn(page)


def choose(page: Any, label: str, option: str) -> None:
    box = page.get_by_role("combobox", name=label)
    box.click()
    box.fill(option)
    page.get_by_role("option", name=option, exact=True).click()
    wait_until_drawn(page)


def enter(page: Any, label: str, value: int) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(str(value))
    box.press("Enter")
    wait_until_drawn(page)


def drawn_traces(page: Any) -> list[str]:
    return list(page.evaluate("document.querySelector('.js-plotly-plot').data.map(trace => trace.name)"))


def test_change_model_batch_and_k_and_read_the_verdict(page: Any, app_url: str) -> None:
    open_app(page, app_url)
    assert verdict(page) == expected(Scenario(acceptance=START_ACCEPTANCE))
    choose(page, "Model", "gpt-oss-20b")
    scenario = Scenario(acceptance="gpt-oss-20b-p-eagle-humaneval", model_id="gpt-oss-20b")
    own = page.get_by_role("combobox", name=re.compile("Accepted length"))
    assert own.input_value().startswith("gpt-oss-20b-eagle3")
    scenario = Scenario(acceptance=own.input_value(), model_id="gpt-oss-20b")
    wait_for_verdict(page, scenario)
    enter(page, "Batch", 128)
    wait_for_verdict(page, scenario.model_copy(update={"batch_size": 128}))
    enter(page, "Longest draft to consider (K max)", 2)
    final = scenario.model_copy(update={"batch_size": 128, "k_max": 2})
    wait_for_verdict(page, final)
    assert "batch_size=128" in page.url
    assert "k_max=2" in page.url
    assert page.get_by_text("Loading expert weights").or_(page.get_by_text("of a plain step")).first.is_visible()


def test_follow_a_deep_link_to_another_page_and_reload(page: Any, app_url: str) -> None:
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
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    wait_for_verdict(page, scenario)
    page.get_by_role("link", name="Why").first.click()
    page.wait_for_url("**/why**")
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length === 4")
    page.get_by_role("link", name="Advise").first.click()
    wait_for_verdict(page, scenario)
    page.reload()
    wait_until_drawn(page, CHART)
    wait_for_verdict(page, scenario)


def test_type_an_accepted_length_and_compare_two_k(page: Any, app_url: str) -> None:
    open_app(page, app_url)
    box = page.get_by_role("combobox", name=re.compile("Accepted length"))
    box.click()
    box.fill("2.9@4")
    box.press("Enter")
    wait_for_verdict(page, Scenario(acceptance="2.9@4"))
    before = drawn_traces(page)
    page.get_by_role("button", name="1", exact=True).click()
    page.wait_for_function("n => document.querySelector('.js-plotly-plot').data.length === n", arg=len(before) + 1)
    assert "K = 1" in drawn_traces(page)


def test_the_copied_link_of_an_own_model_opens_it_in_another_session(page: Any, app_url: str, context: Any) -> None:
    open_app(page, f"{app_url}/?acceptance=2.4%403")
    page.get_by_text("Your own config.json").click()
    upload(page, "config.json", "tiny.json", CONFIG_JSON.encode())
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON)
    wait_for_verdict(page, scenario)
    page.get_by_role("button", name="Share or open").click()
    link = page.get_by_test_id("stCode").inner_text().strip()
    other = context.new_page()
    other.goto(link)
    wait_until_drawn(other, CHART)
    wait_for_verdict(other, scenario)
    assert other.get_by_role("combobox", name="Model", exact=True).input_value() == "own-tiny"
    other.close()


def test_the_chart_s_data_downloads_as_csv_with_the_scenario_s_hash(page: Any, app_url: str, tmp_path: Path) -> None:
    scenario = Scenario(acceptance="2.4@3")
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    with page.expect_download() as caught:
        page.get_by_role("button", name="Data as CSV").click()
    file = tmp_path / "data.csv"
    caught.value.save_as(file)
    header, first, *_ = file.read_text(encoding="utf-8").splitlines()
    assert header.startswith("scenario_hash,batch_size,k_draft,speedup")
    assert first.startswith(scenario.hash)


def test_a_nonsense_link_shows_an_answer_and_what_was_ignored(page: Any, app_url: str) -> None:
    open_app(page, f"{app_url}/?batch_size=abc&model_id=%3Cscript%3E&k_max=99999&acceptance=2.4%403")
    assert verdict(page) == expected(Scenario(acceptance="2.4@3"))
    assert page.get_by_text("The link asks for").count() >= 3


def test_search_designs_click_a_trade_off_and_take_it_as_the_scenario(page: Any, app_url: str) -> None:
    scenario = Scenario(acceptance="2.4@3", batch_size=16)
    open_app(page, f"{app_url}/design?{scenario.to_query()}")
    answer = design_answer(design_space(scenario), CANDIDATES)
    best = answer.recommended
    assert best is not None
    assert f"Train {answer.space.describe(best.index)}: {best.objective_gain.value:.2f}x" in verdict(page)

    choose(page, "Objective", "Time per output token")
    fastest = answer.space.describe(answer.by_objective["tpot"].index)
    page.wait_for_function("words => document.querySelector('h1')?.innerText.includes(words)", arg=fastest)
    page.wait_for_url("**design_objective=Time*")

    page.wait_for_function(
        "document.querySelector('.js-plotly-plot')?.layout?.title?.text?.includes('Time per output token')"
    )
    wait_until_drawn(page)
    names = page.evaluate("document.querySelector('.js-plotly-plot').data[0].customdata.map(row => row[1])")
    points = page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace").first.locator(".point")
    points.first.click(force=True)  # plotly's drag layer lies on top and takes the click
    page.locator("strong", has_text=re.compile(f"^{re.escape(names[0])}$")).wait_for()
    page.get_by_role("button", name="Make this the scenario").click()
    page.get_by_text("is now the model").wait_for()
    page.get_by_role("link", name="Advise on it").click()
    wait_until_drawn(page, CHART)
    model = page.get_by_role("combobox", name="Model", exact=True).input_value()
    experts, active = re.match(r"(\d+) experts top-(\d+)", names[0]).groups()
    assert model.startswith(f"own-qwen3-30b-a3b-n{experts}k{active}s")
    page.wait_for_url("**model_id=own-*")  # the chart is drawn before the browser has its new address
    taken = Scenario.from_query(page.url.split("?", 1)[1])
    assert taken.model_id == model
    wait_for_verdict(page, taken)


def test_a_file_that_is_no_configuration_is_refused_in_words(page: Any, app_url: str) -> None:
    open_app(page, f"{app_url}/?acceptance=2.4%403")
    page.get_by_text("Your own config.json").click()
    upload(page, "config.json", "model.png", b"\x89PNG\xff\x00")
    page.get_by_text("The file is not text").wait_for()
    page.get_by_text("Your config.json is not usable; this answers for qwen3-30b-a3b").wait_for()
    assert verdict(page) == expected(Scenario(acceptance="2.4@3"))


def test_a_number_outside_its_range_leaves_the_answer_and_the_range_is_on_screen(page: Any, app_url: str) -> None:
    open_app(page, f"{app_url}/?acceptance=2.4%403")
    enter(page, "Batch", 100_000)
    page.get_by_text("Batch 1 to 65,536").wait_for()
    assert verdict(page) == expected(Scenario(acceptance="2.4@3"))


def test_click_a_point_of_the_curve_and_read_how_it_was_made(page: Any, app_url: str) -> None:
    scenario = Scenario(acceptance="2.4@3")
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    wait_for_verdict(page, scenario)
    k = advise(scenario).curve_k
    place = page.evaluate(
        """k => {
            const chart = document.querySelector('.js-plotly-plot'), layout = chart._fullLayout;
            const trace = chart.calcdata.find(points => points[0].trace.name === 'K = ' + k);
            const point = trace.find(item => item.x === 48), box = chart.getBoundingClientRect();
            return [box.left + layout.xaxis._offset + layout.xaxis.l2p(Math.log10(point.x)),
                    box.top + layout.yaxis._offset + layout.yaxis.l2p(point.y)];
        }""",
        k,
    )
    page.mouse.move(*place)
    page.wait_for_selector(".js-plotly-plot .hoverlayer .legend, .js-plotly-plot .hoverlayer path")
    page.mouse.click(*place)
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    speedup = derive(load_setup(scenario), 48, k).step("speedup").result.value
    dialog.get_by_text(f"Speedup {speedup:.2f}x").wait_for()
    dialog.get_by_text("Plain step", exact=True).first.click()
    dialog.get_by_text("Distinct experts touched").wait_for()


def test_take_a_change_of_try_next_and_undo_it_by_the_browser(page: Any, app_url: str) -> None:
    scenario = Scenario(acceptance="2.4@3")
    open_app(page, f"{app_url}/?{scenario.to_query()}")
    change = best_effects(next_steps(advise(scenario)), GOALS[0])[0].change
    page.get_by_role("button", name="Make it the scenario").first.click()
    wait_for_verdict(page, change.scenario)
    page.go_back()
    wait_for_verdict(page, scenario)


def test_a_long_simulation_shows_its_progress_and_is_cancelled(page: Any, app_url: str) -> None:
    page.goto(f"{app_url}/runtime_k?{Scenario(acceptance='2.4@3').to_query()}")
    wait_until_drawn(page, CHART)
    enter(page, "Requests", 5000)
    page.get_by_label("Tokens each", exact=True).fill("4096")
    page.get_by_label("Tokens each", exact=True).press("Enter")
    page.get_by_text("Simulating: static K=").wait_for()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_text("The simulation was cancelled.").wait_for()
    wait_until_drawn(page)
    enter(page, "Tokens each", 250)
    page.get_by_text("The simulation was cancelled.").wait_for(state="detached")
    page.get_by_text("The oracle sees each round's outcome").wait_for()
