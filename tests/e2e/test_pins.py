"""Pinned setups, the drafters' tab and the amber line in a real browser."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.drafters import drafters_beside, gaining_most
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer
from advisor.ui.pins import MOST_PINS, pin_of
from tests.e2e.app_server import wait_until_drawn

pytestmark = pytest.mark.browser
GPT_OSS = Scenario(
    model_id="gpt-oss-20b",
    hardware_id="b200-sxm",
    drafter_id="eagle3",
    acceptance="gpt-oss-20b-eagle3-mt-bench",
)
CSS = Path(__file__).resolve().parents[2] / "advisor/ui/browser/tokens.css"
ROWS = ".live .scroll tbody tr"


def opened(page: Any, app_url: str, scenario: Scenario = GPT_OSS, **settings: str) -> Any:
    page.goto(
        f"{app_url}/?{scenario.to_query()}" + "".join(f"&{k}={v}" for k, v in settings.items())
    )
    page.wait_for_selector(".live h1")
    wait_until_drawn(page)
    return page


def pins_of(*scenarios: Scenario) -> str:
    """Setups as a link has them."""
    return quote("!".join(map(pin_of, scenarios)))


def pin(page: Any, rows: int) -> None:
    """Pin the present setup, which the table then has as its last row."""
    page.get_by_role("button", name="+ Pin").click()
    page.locator(ROWS).nth(rows).wait_for()


def figures(page: Any) -> list[list[str]]:
    """Cells of the table of pins, row by row."""
    texts: list[list[str]] = page.locator(ROWS).evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return texts


def other_engine(page: Any) -> None:
    page.get_by_text("SGLang", exact=True).first.click()
    page.get_by_role("heading", name="Launch on SGLang").wait_for()
    wait_until_drawn(page)


def test_a_link_with_pins_opens_with_the_same_rows(page: Any, app_url: str, context: Any) -> None:
    opened(page, app_url)
    pin(page, 1)
    other_engine(page)
    pin(page, 2)
    page.wait_for_url(lambda url: "pins=" in url and "!" in unquote(url))
    rows = figures(page)
    assert [row[0] for row in rows[1:]] == ["vLLM", rows[0][0].removeprefix("Now: ")]
    assert rows[2][1:6] == rows[0][1:6], "the pinned setup is the present one"
    answer = advise(GPT_OSS).recommendation
    assert rows[1][1:4] == [
        str(answer.n_draft),
        f"{answer.speedup.value:.2f}×",
        f"{answer.tpot_s * 1e3:.2f}",
    ]
    other = context.new_page()
    other.goto(page.url)
    other.locator(ROWS).nth(2).wait_for()
    assert figures(other) == rows
    other.close()


def test_rows_follow_the_handle_before_the_server_is_asked(page: Any, app_url: str) -> None:
    pinned = GPT_OSS.model_copy(update={"engine": "sglang"})
    opened(page, app_url, pins=pins_of(pinned))
    page.locator("#batch").evaluate(
        "slider => { slider.value = 6; slider.dispatchEvent(new Event('input')); }"
    )
    assert "batch_size=64" not in page.url
    at_64 = advise(pinned.model_copy(update={"batch_size": 64})).recommendation
    assert figures(page)[1][1:3] == [str(at_64.n_draft), f"{at_64.speedup.value:.2f}×"]
    assert page.get_by_role("columnheader", name=re.compile("64")).is_visible()


def test_a_bad_pin_of_a_link_is_named_and_left_out_alone(page: Any, app_url: str) -> None:
    good = pin_of(GPT_OSS.model_copy(update={"hardware_id": "h200-sxm"}))
    bad = good.replace("gpt-oss-20b~", "gpt-9~", 1)
    assert bad != good
    opened(page, app_url, pins=quote("!".join((bad, good, "junk"))))
    for piece in ("model_id.gpt-9", "'junk'"):
        page.get_by_text(re.compile(f"The link pins .*{piece}.* left out")).wait_for()
    assert [row[0] for row in figures(page)[1:]] == ["H200 SXM"]
    page.wait_for_url(lambda url: "junk" not in url and "gpt-9" not in url)


def test_a_name_opens_its_setup_and_a_cross_lets_it_go(page: Any, app_url: str) -> None:
    on_h200 = GPT_OSS.model_copy(update={"hardware_id": "h200-sxm", "batch_size": 16})
    opened(page, app_url, GPT_OSS.model_copy(update={"batch_size": 32}), pins=pins_of(on_h200))
    page.get_by_role("button", name="H200 SXM", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**hardware_id=h200-sxm**")
    wait_until_drawn(page)
    assert "batch_size=32" in page.url, "the handle stays"
    page.get_by_role("button", name=re.compile("^Unpin gpt-oss-20b")).focus()
    page.keyboard.press("Enter")
    page.locator(ROWS).first.wait_for(state="hidden")
    page.wait_for_url(lambda url: "~" not in unquote(url))


def test_what_cannot_be_pinned_says_so(page: Any, app_url: str) -> None:
    pins = [
        GPT_OSS.model_copy(update={"context_tokens": 4096 * n}) for n in range(1, MOST_PINS + 1)
    ]
    opened(page, app_url, pins=pins_of(*pins))
    page.get_by_role("button", name="+ Pin").click()
    page.get_by_role("status").get_by_text(
        f"{MOST_PINS} setups are pinned: unpin one first."
    ).wait_for()
    opened(page, app_url, pins=pins_of(GPT_OSS))
    page.get_by_role("button", name="+ Pin").click()
    page.get_by_role("status").get_by_text("This setup is pinned.").wait_for()
    assert len(figures(page)) == 2


def test_handle_pins_and_chips_speak_and_are_reached_by_keys(page: Any, app_url: str) -> None:
    opened(page, app_url, pins=pins_of(GPT_OSS.model_copy(update={"engine": "sglang"})))
    batch = page.get_by_role("slider", name="Batch")
    assert batch.get_attribute("aria-valuetext") == f"{GPT_OSS.batch_size} sequences"
    batch.focus()
    page.keyboard.press("ArrowLeft")
    assert batch.get_attribute("aria-valuetext") == f"{GPT_OSS.batch_size - 1} sequences"
    page.wait_for_url(f"**batch_size={GPT_OSS.batch_size - 1}**")
    chips = page.get_by_role("group", name="Kind of text").get_by_role("button")
    assert [chip.get_attribute("aria-pressed") for chip in chips.all()].count("true") == 1
    assert page.get_by_role("rowheader", name="SGLang").count() == 1
    assert page.get_by_role("button", name="Unpin SGLang").count() == 1
    heading = page.locator(".live h1")
    assert heading.inner_text() == heading.evaluate("one => one.textContent"), "marks are no text"
    page.get_by_role("button", name="+ Pin").focus()
    page.keyboard.press("Enter")
    page.locator(ROWS).nth(2).wait_for()


def test_use_mine_puts_the_cursor_in_the_accepted_length(page: Any, app_url: str) -> None:
    borrowed = Scenario(
        model_id="qwen3-235b-a22b",
        n_gpus=8,
        tensor_parallel=8,
        acceptance="gpt-oss-20b-eagle3-mt-bench",
    )
    opened(page, app_url, borrowed)
    page.get_by_role("button", name="Use mine").click()
    page.keyboard.type("2.2")
    page.keyboard.press("Enter")
    page.wait_for_url("**acceptance=2.2%40**")


def test_compare_drafters_opens_the_tab_where_each_can_be_used(page: Any, app_url: str) -> None:
    opened(page, app_url)
    page.get_by_role("button", name="Compare drafters").click()
    page.wait_for_url("**serve_tab=Drafters**")
    best = gaining_most(drafters_beside(GPT_OSS))
    assert best is not None
    assert best.drafter == "p-eagle"
    page.get_by_role("cell", name=f"{best.figures.speedup:.2f}×", exact=True).wait_for()
    page.get_by_role("button", name="Use P-EAGLE").click()
    page.wait_for_url("**drafter_id=p-eagle**")
    page.get_by_role("row", name=re.compile("P-EAGLE.*in use")).wait_for()


def test_the_length_of_published_runs_is_taken_by_a_button(page: Any, app_url: str) -> None:
    scenario = Scenario(
        model_id="deepseek-v3",
        hardware_id="h200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        drafter_id="mtp",
        engine="sglang",
        acceptance="3.3@3",
        batch_size=32,
    )
    outcome = live_answer(advise(scenario))["outcome"]
    assert outcome["published_below"] > outcome["published_half"], "else nothing is shown here"
    length = f"{outcome['runs_length']:.2f}"
    opened(page, app_url, scenario)
    page.get_by_role("button", name=f"Use their {length}").click()
    page.wait_for_url(f"**acceptance={float(length):g}%403**")
    wait_until_drawn(page)
    pressed = page.get_by_role("group", name="Kind of text").locator("[aria-pressed=true]")
    assert pressed.inner_text() == "random tokens"


_LINE_COUNT = 'svg => svg.querySelectorAll(\'g path[fill=none][style*="--family"], g path[fill=none][style*="--pinned"]\').length'  # noqa: E501


def test_lines_of_k_stand_only_where_every_k_asks_for_them(page: Any, app_url: str) -> None:
    opened(page, app_url)
    chart = page.locator(".plot svg").first
    assert chart.evaluate(_LINE_COUNT) == 0
    page.locator("summary", has_text="Every K").click()
    page.locator(".plot svg text.end", has_text="K = 8").wait_for()
    assert chart.evaluate(_LINE_COUNT) == 8
    page.locator(".every tbody tr").nth(5).hover()
    assert page.locator(".plot svg path[style*='--pinned']").count() == 1
    page.get_by_label("Show K = 2 in the chart").click()
    page.locator("summary", has_text="Every K").click()
    page.mouse.move(5, 5)
    page.locator(".plot svg path[style*='--pinned']").wait_for(state="attached")
    assert chart.evaluate(_LINE_COUNT) == 1


def test_names_at_line_ends_stand_fifteen_pixels_apart(page: Any, app_url: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    engines = [GPT_OSS.model_copy(update={"engine": each}) for each in ("sglang", "trtllm")]
    opened(page, app_url, pins=pins_of(*engines))
    page.locator("summary", has_text="Every K").click()
    page.locator(".plot svg text.end", has_text="K = 8").wait_for()
    heights = page.locator(".plot svg text.end").evaluate_all(
        "texts => texts.map(text => Number(text.getAttribute('y'))).sort((a, b) => a - b)"
    )
    assert len(heights) > 12
    apart = [after - before for before, after in itertools.pairwise(heights[:-2])]
    assert min(apart) >= 15 - 1e-6


def test_what_memory_leaves_out_is_said_on_request(page: Any, app_url: str) -> None:
    opened(page, app_url)
    note = page.get_by_text("prefix-cache misses")
    assert not note.is_visible()
    page.get_by_text("Not counted", exact=True).click()
    assert note.is_visible()


def test_an_answer_that_is_late_says_so(page: Any, app_url: str) -> None:
    opened(page, app_url)
    after = "one => getComputedStyle(one, '::after').content"
    heading = page.locator(".launch h2")
    assert heading.evaluate(after) == "none"
    page.locator("#batch").evaluate(
        "slider => { slider.value = 7; slider.dispatchEvent(new Event('input')); }"
    )
    assert "updating" in heading.evaluate(after), "the command is of another batch"
    page.locator("#batch").dispatch_event("change")
    page.locator(".launch.stale").wait_for(state="hidden")
    assert heading.evaluate(after) == "none"


def test_print_has_answer_picture_and_pins_without_controls(page: Any, app_url: str) -> None:
    opened(page, app_url, pins=pins_of(GPT_OSS.model_copy(update={"engine": "sglang"})))
    page.emulate_media(media="print")
    assert page.locator(".live h1").is_visible()
    assert page.locator(".plot svg").first.is_visible()
    assert page.get_by_role("rowheader", name="SGLang").is_visible()
    for control in (".sliders", ".axes", ".live .pin"):
        assert not page.locator(control).first.is_visible(), control
    page.emulate_media(media="screen")


SEEN = {
    "as they are": np.eye(3),
    "without red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "without green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "without blue": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
"""Simulated color vision on linear RGB at full severity (Machado, Oliveira and Fernandes 2009)."""
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / np.array([[0.9505], [1.0], [1.089]])
TOLD_APART = 10.0
"""Distance in CIE Lab (1976) from which two lines are told apart; 2.3 is just noticed."""


def lab(color: str, vision: np.ndarray) -> np.ndarray:
    """CIE Lab of a color as `#rrggbb`, seen so."""
    channels = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(vision @ linear, 0.0, 1.0)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", SEEN)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_pins_are_told_apart_from_each_other_and_the_answer(theme: int, vision: str) -> None:
    css = CSS.read_text(encoding="utf-8")
    names = ("schedule", *(f"pin-{number}" for number in range(1, MOST_PINS + 1)))
    pairs = {name: re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", css) for name in names}
    colors = {name: lab(pair[theme + 1], SEEN[vision]) for name, pair in pairs.items()}
    distances = {
        (first, second): float(np.linalg.norm(colors[first] - colors[second]))
        for first, second in itertools.combinations(names, 2)
    }
    assert min(distances.values()) >= TOLD_APART, distances


MODELS = ("gpt-oss-20b", "qwen3-235b-a22b", "command-a-plus", "qwen3-30b-a3b", "qwen3-32b")


@pytest.mark.thorough
@pytest.mark.parametrize("model_id", MODELS)
def test_one_k_in_headline_command_table_and_strip(page: Any, app_url: str, model_id: str) -> None:
    for engine, batch, length in itertools.product(
        ("vllm", "sglang"), (1, 8, 32, 128), ("2.1@3", "3.2@4")
    ):
        gpus = 4 if model_id != "gpt-oss-20b" else 1
        scenario = Scenario(
            model_id=model_id,
            hardware_id="h200-sxm",
            n_gpus=gpus,
            tensor_parallel=gpus,
            engine=engine,
            batch_size=batch,
            acceptance=length,
        )
        opened(page, app_url, scenario)
        where = f"{engine} batch {batch} {length}"
        headline = page.locator(".live h1").inner_text()
        page.locator("summary", has_text="Every K").click()
        marked = int(page.locator(".every tr.chosen th").inner_text())
        if headline.startswith("Does not fit"):
            continue
        k = re.search(r"(?:Draft|with) (\d+) token", headline)
        assert marked == (int(k[1]) if k else 0), where
        spans = page.locator(".plot svg").first.get_attribute("aria-label")
        schedule = re.findall(
            r"(no drafts|K = (\d+)) from batch (\d+)", spans.split("Schedule:")[1]
        )
        at_batch = [int(number or 0) for _, number, first in schedule if int(first) <= batch]
        assert at_batch[-1] == marked, where
        command = page.locator(".launch pre").inner_text().replace("\n", "")
        if marked == 0:
            assert "num_speculative_tokens" not in command, where
            assert "speculative-num-steps" not in command, where
        elif table := re.search(r"per_batch_size\":(\[\[.*?\]\])", command):
            parts = [part.split(",") for part in table[1].strip("[]").split("],[")]
            (served,) = (int(c) for a, b, c in parts if int(a) <= batch <= int(b))
            assert served == marked, where
        elif steps := re.findall(r'"(\d+)": {"candidate_steps": \[(\d+)\]', command):
            assert [int(k) for first, k in steps if int(first) <= batch][-1] == marked, where
        else:
            (fixed,) = re.findall(r'(?:num_speculative_tokens":|num-steps )(\d+)', command)
            assert int(fixed) == marked, where
