"""The live answer in a real browser: its tables against the library, and what a user does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from advisor.answers import advice as advice_module
from advisor.answers import outcome as outcome_module
from advisor.answers.advice import Advice, advise
from advisor.answers.best_k import KRange, interpolate_batches
from advisor.answers.by_batch import ranges_to_serve
from advisor.answers.by_length import (
    AtLength,
    at_length,
    length_factor,
    length_now,
    served_columns,
)
from advisor.answers.experts_loaded import Loading
from advisor.answers.own_gap import as_measured, own_schedule
from advisor.answers.zones import zones
from advisor.physics.bands import unseen_gain
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import PAGE_SLOTS, live_answer
from advisor.show.phrases.answer import BOOK
from tests.e2e.app_server import wait_until_drawn
from tests.e2e.views import SCENARIO, go_to, judged, open_page
from tests.golden.phrases import BASE, FORM_TEXTS, outcomes

pytestmark = pytest.mark.browser
DEEPSEEK = {
    "model_id": "deepseek-v3",
    "hardware_id": "h200-sxm",
    "n_gpus": 8,
    "tensor_parallel": 8,
    "drafter_id": "mtp",
}
GPT_OSS = {
    "model_id": "gpt-oss-20b",
    "hardware_id": "b200-sxm",
    "acceptance": "gpt-oss-20b-eagle3-mt-bench",
}
BROWSER = Path(__file__).resolve().parents[2] / "advisor" / "ui" / "serve" / "browser"
CASES = {
    "gpt-oss": Scenario(**GPT_OSS),
    "deepseek on vllm": Scenario(**DEEPSEEK, acceptance="2.82@3", batch_size=32),
    "deepseek on sglang": Scenario(**DEEPSEEK, acceptance="2.4@3", batch_size=8, engine="sglang"),
    "a limit": Scenario(acceptance="2.4@3", batch_size=64, max_tpot_ms=12.0),
    "no gain": Scenario(acceptance="1.2@3", batch_size=256),
    "borrowed": Scenario(
        model_id="qwen3-235b-a22b",
        n_gpus=8,
        tensor_parallel=8,
        acceptance="gpt-oss-20b-eagle3-mt-bench",
    ),
    "published runs": Scenario(
        hardware_id="h100-sxm", n_gpus=2, tensor_parallel=2, acceptance="2.4@3"
    ),
    "dense": Scenario(model_id="qwen3-32b", acceptance="2.7@3", batch_size=24),
    "does not fit": Scenario(acceptance="2.4@3", batch_size=512, context_tokens=32768),
    "no drafter": Scenario(acceptance="2.4@3", drafter_id="none", batch_size=16),
}
"""Ten setups whose page is held against the library."""
HEADLINE = ".live h1"


@pytest.fixture(scope="module")
def tables(browser: Any) -> Iterator[Any]:
    """A page that holds phrases and tables alone."""
    page = browser.new_page()
    for name in ("phrases.js", "tables.js"):
        page.add_script_tag(content=(BROWSER / name).read_text(encoding="utf-8"))
    yield page
    page.close()


@pytest.fixture(scope="module", params=CASES)
def advice(request: pytest.FixtureRequest) -> Advice:
    return advise(CASES[request.param])


def lengths_of(data: dict[str, Any]) -> list[float]:
    """Accepted lengths of a payload's table; one that stands for none without a drafter."""
    return data["accepted"]["lengths"] if data["accepted"] else [1.0]


def looked_up(tables: Any, data: dict[str, Any], places: list[tuple[int, float]]) -> list[Any]:
    """What the page has at (batch, accepted length): facts, rows, served K, sentences by slot."""
    return tables.evaluate(
        """([data, places, slots]) => { const m = unpack(data), book = { phrases: m.phrases, flags: m.flags };
        return places.map(([batch, length]) => { const now = outcome(m, batch, length);
          const says = Object.fromEntries(slots.map((slot) => [slot, say(book, slot, now.facts).replaceAll("*", "")]));
          return { ...now, says, flips: flips(m, now.ranges) }; }); }""",  # noqa: E501
        [data, places, list(PAGE_SLOTS)],
    )


def library_at(
    advice: Advice, length: float, batch: int, monkeypatch: pytest.MonkeyPatch
) -> outcome_module.Outcome:
    """The record at a batch of the curve, were another length accepted."""
    at = at_length(advice, length)
    scenario = advice.scenario.model_copy(update={"batch_size": batch})
    setup = replace(advice.setup, scenario=scenario)
    curve = replace(at.curve, draws=advice.curve.draws * length_factor(advice, length))
    decided = replace(
        advice.decided, setup=setup, curve=curve, values=at.values, ranges=at.table.ranges
    )
    answer = advice_module._advice(decided, served(at, batch))
    monkeypatch.setattr(outcome_module, "length_flips", lambda _: (None, None, None))
    return outcome_module.outcome_of(answer)


def served(at: AtLength, batch: int) -> tuple[KRange, ...]:
    """Ranges of the configuration for a batch, were another length accepted."""
    best = int(at.table.best[min(batch, len(at.table.best)) - 1])
    return ranges_to_serve(at.table.ranges, at.values, batch, best)


FIGURES = ("k", "best_alone", "tried", "pays_to", "loses_from", "drafts_from", "zone")
AT_REST = ("borrowed", "admit", "runs_length", "cancels_from")
"""Facts of the record that the page leaves out at another accepted length."""
CASE_FACTS = (*FIGURES, "in_limit", "any_in_limit", "switches", "varies", "here_n")


def test_on_the_grid_the_page_has_the_facts_and_sentences_of_the_library(
    tables: Any, advice: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = live_answer(advice)
    now = data["accepted"]["now"] if data["accepted"] else 1.0
    lengths = [now, *lengths_of(data)[1::7]]
    batches = [batch for batch in data["batches"] if batch <= data["last"]][::5]
    batches.append(data["batches"][-1])
    places = [(batch, length) for length in lengths for batch in batches]
    for (batch, length), shown in zip(places, looked_up(tables, data, places), strict=True):
        if (batch, length) == (data["batch"], now):
            continue  # the record itself
        at = length if data["accepted"] else length_now(advice)
        record = library_at(advice, at, batch, monkeypatch)
        expected = replace(
            record,
            **({} if length == now else dict.fromkeys(AT_REST)),
            accepted_length=length if data["accepted"] else None,
            wider_gpus=data["outcome"]["wider_gpus"] if batch <= data["batch"] else None,
        ).facts
        where = f"batch {batch}, length {length}"
        for name in CASE_FACTS if batch <= data["largest"] else ():
            assert shown["facts"][name] == expected[name], f"{name} at {where}"
        for slot in {*PAGE_SLOTS} - (set() if batch <= data["largest"] else {"pool_cancels"}):
            assert shown["says"][slot] == BOOK.say(slot, expected), f"{slot} at {where}"


def test_schedules_and_served_k_are_those_of_the_library_at_every_length(
    tables: Any, advice: Advice
) -> None:
    data = live_answer(advice)
    if data["accepted"] is None:
        pytest.skip("no accepted length without a drafter")
    batches = [batch for batch in data["batches"] if batch <= data["last"]][::4]
    for place, length in enumerate(data["accepted"]["lengths"]):
        at = at_length(advice, length)
        expected = [
            [[part.first, part.last, part.k] for part in merged(served(at, batch))]
            for batch in batches
        ]
        shown = tables.evaluate(
            """([data, batches, place]) => { const m = unpack(data);
            return batches.map((batch) => merged(configuration(m, batch, place, false).runs)
              .map(({ first, last, k }) => [first, last, k])); }""",
            [data, batches, place],
        )
        assert shown == expected, f"length {length}"


def merged(ranges: Any) -> list[Any]:
    """Neighbouring ranges of one K joined, as namedtuples of first, last, k."""
    joined = pd.DataFrame([(part.batch_start, part.batch_end, part.k_running) for part in ranges])
    joined.columns = ["first", "last", "k"]
    runs = joined.groupby((joined["k"] != joined["k"].shift()).cumsum())
    return list(runs.agg({"first": "min", "last": "max", "k": "first"}).itertuples(index=False))


@pytest.mark.parametrize("name", ["gpt-oss", "deepseek on vllm", "no gain", "dense"])
def test_off_the_grid_chances_and_speedups_are_near_the_library_s(tables: Any, name: str) -> None:
    base = advise(CASES[name])
    data = live_answer(base)
    lengths = lengths_of(data)
    middle = [(low + high) / 2.0 for low, high in zip(lengths[4::9], lengths[5::9], strict=False)]
    places = [(batch, length) for batch in (11, 83, 301) for length in middle]
    places = [place for place in places if place[0] <= data["last"]]
    assert places
    for (batch, length), shown in zip(places, looked_up(tables, data, places), strict=True):
        speedups = [item["speedup"] for item in shown["rows"]]
        at_base = at_length(base, length).curve
        expected = interpolate_batches(at_base.batches, at_base.speedup, [batch])[0]
        assert speedups == pytest.approx(expected.tolist(), rel=0.003)
        chances = [item["chance"] for item in shown["rows"]]
        assert chances[1:] == pytest.approx(unseen_gain(expected)[1:].tolist(), abs=0.025)


def test_flips_of_the_page_are_those_of_the_record_and_name_another_k(
    tables: Any, advice: Advice
) -> None:
    data = live_answer(advice)
    now = data["accepted"]["now"] if data["accepted"] else 1.0
    (shown,) = looked_up(tables, data, [(data["batch"], now)])
    outcome = data["outcome"]
    lengths = [
        (f"Accepted length {sign}", f"{outcome[f'{name}_length']:.2f}", k)
        for sign, name, k in (
            ("<", "below", outcome["below_k"]),
            ("<", "off", 0),
            (">", "above", outcome["above_k"]),
        )
        if outcome[f"{name}_length"] is not None
    ]
    later = [part for part in outcome["served"] if part[0] > data["batch"]]
    batches = [("Batch >", f"{first - 1:,}", k) for first, _, k in later if k != outcome["k"]][:1]
    assert [tuple(flip) for flip in shown["flips"]] == lengths + batches
    assert outcome["k"] not in [k for *_, k in shown["flips"]]


def test_own_runs_decide_at_today_s_length_alone(tables: Any) -> None:
    """K = 3 gains most at batch 8, K = 1 at batch 64, where the model has K = 3; nothing gains at
    256."""
    cells = [
        (8, 1, 1.30),
        (8, 3, 1.45),
        (64, 1, 1.04),
        (64, 3, 0.90),
        (256, 1, 0.80),
        (256, 3, 0.60),
    ]
    own = pd.DataFrame(cells, columns=["batch_size", "n_draft", "speedup"])
    own = own.assign(drafter="", source="", decides=True)
    answer = advise(Scenario(acceptance="1.8@1,2.6@3", batch_size=64))
    data = live_answer(as_measured(answer, own_schedule(own)), own=own)
    now = data["accepted"]["now"]
    places = [(64, now), (8, now), (256, now), (64, 3.0)]
    here, small, large, moved = looked_up(tables, data, places)
    assert [item["facts"]["k"] for item in (here, small, large)] == [1, 3, 0]
    assert {item["facts"]["k_from"] for item in (here, small, large)} == {"own"}
    assert small["facts"]["own_here"] == 1.45
    assert moved["facts"]["k_from"] == "model", "a length that no row has is another question"
    assert moved["facts"]["k"] > 1


def test_zones_of_the_page_are_those_of_the_library(tables: Any, advice: Advice) -> None:
    data = live_answer(advice)
    loading = Loading.of(advice.setup, advice.curve)
    now = data["accepted"]["now"] if data["accepted"] else 1.0
    (shown,) = looked_up(tables, data, [(data["batch"], now)])
    served = served_columns(advice.curve, advice.to_serve, advice.curve_k)
    expected = zones(advice.setup, advice.curve, loading, served)
    undrafted = len(data["drafts"]) < 2
    assert shown["zones"] == ([] if undrafted else [[zone.kind, zone.last] for zone in expected])
    assert undrafted or expected[-1].last == data["last"]


def test_the_browser_prints_and_says_as_the_library_does(tables: Any) -> None:
    forms = [(form, fact) for form, fact, _ in FORM_TEXTS]
    shown = tables.evaluate("all => all.map(([form, fact]) => FORMS[form](fact))", forms)
    assert shown == [text for *_, text in FORM_TEXTS]
    data = live_answer(advise(CASES["gpt-oss"]))
    book = {"phrases": data["phrases"], "flags": data["flags"]}
    records = [record.facts for record in outcomes().values()]
    says = tables.evaluate(
        """([book, records, slots]) => records.map((facts) => slots.map((slot) =>
        say(book, slot, facts).replaceAll("*", "")))""",
        [book, records, list(PAGE_SLOTS)],
    )
    assert says == [[BOOK.say(slot, facts) for slot in PAGE_SLOTS] for facts in records]
    assert BASE.facts in records


def opened(page: Any, app_url: str, query: str = "") -> Any:
    page.goto(f"{app_url}/?{query}")
    page.wait_for_selector(HEADLINE)
    wait_until_drawn(page)
    return page


def test_a_slider_moves_the_whole_screen_without_a_run_and_then_the_address(
    page: Any, app_url: str
) -> None:
    opened(page, app_url)
    before = page.locator(HEADLINE).inner_text()
    took = page.locator("#batch").evaluate(
        """slider => { const from = performance.now(); slider.value = 9;
        slider.dispatchEvent(new Event("input")); slider.getBoundingClientRect(); return performance.now() - from; }"""  # noqa: E501
    )
    assert page.locator(HEADLINE).inner_text() != before
    assert page.get_by_label("Batch, exact value").input_value() == "512"
    assert "batch 512" in page.locator(".plot svg").first.inner_html()
    assert "batch_size=512" not in page.url
    assert took < 1000, "a picture of several seconds would be no slider"
    page.locator("#batch").dispatch_event("change")
    page.wait_for_url("**batch_size=512**")


def test_arrow_keys_move_both_sliders_and_python_s_answer_follows(page: Any, app_url: str) -> None:
    opened(page, app_url, "acceptance=2.4%403&batch_size=16")
    page.locator("#length").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".slider input[type=number]").last.input_value() == "2.45"
    page.wait_for_url("**acceptance=2.45%403**")
    page.locator("#batch").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**batch_size=15**")
    expected = advise(Scenario(acceptance="2.45@3", batch_size=15)).recommendation
    page.get_by_text(f"{expected.speedup.value:.2f}×").first.wait_for()


def test_names_of_zones_lie_in_their_zones_and_apart(page: Any, app_url: str) -> None:
    outside = """svg => { const names = [...svg.querySelectorAll('.zone')].map(one => one.getBBox());
      return names.filter((one, i) => one.x < 40 || (i && one.x < names[i - 1].x + names[i - 1].width)).length; }"""  # noqa: E501
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        opened(page, app_url, f"{EIGHT}&engine=sglang")
        assert page.locator(".plot .zone").count() >= 2
        assert page.locator(".plot svg").first.evaluate(outside) == 0


def test_another_engine_changes_numbers_and_command_together(page: Any, app_url: str) -> None:
    query = "model_id=deepseek-v3&n_gpus=8&tensor_parallel=8&drafter_id=mtp&acceptance=2.4%403"
    opened(page, app_url, query)
    copy = page.get_by_role("button", name="Copy", exact=True)
    stood = copy.bounding_box()
    page.locator("summary", has_text="remark").click()
    page.locator("aside > details p").first.wait_for()
    assert copy.bounding_box() == stood, "remarks open below and move nothing"
    rates = page.locator(".every tbody tr").nth(1).text_content()
    page.get_by_role("radio", name="SGLang").or_(
        page.get_by_text("SGLang", exact=True)
    ).first.click()
    page.get_by_role("heading", name="Launch on SGLang").wait_for()
    assert "sglang.launch_server" in page.locator(".launch pre").inner_text()
    assert page.locator(".every tbody tr").nth(1).text_content() != rates


def test_what_does_not_fit_has_no_figures_beside_it(page: Any, app_url: str) -> None:
    opened(page, app_url, "model_id=deepseek-v3&drafter_id=mtp&acceptance=2.4%403")
    assert page.locator(HEADLINE).inner_text() == "Does not fit in memory"
    assert not page.locator(".live tbody tr").first.is_visible()
    assert page.get_by_role("heading", name="as if it fitted").is_visible()
    page.get_by_text(
        "experts loaded", exact=False
    ).first.wait_for()  # the tab Why, whose script shares the rules


def test_a_row_pins_its_k_and_an_axis_changes_the_picture(page: Any, app_url: str) -> None:
    opened(page, app_url, "acceptance=2.4%403")
    lines = page.locator(".plot svg g path[fill=none]")
    few = lines.count()
    page.locator("summary", has_text="Every K").click()
    page.get_by_label("Show K = 2 in the chart").click()
    page.locator("tr.pinned").wait_for()
    assert lines.count() >= few + 8, "a line for each K while the table is open"
    page.get_by_text("Tokens/s/GPU", exact=True).click()
    page.locator('.plot svg[aria-label^="Tokens per second and GPU"]').wait_for()
    assert "at batch 16" in page.locator(".plot svg").first.get_attribute("aria-label")


EIGHT = (
    "&".join(f"{name}={value}" for name, value in DEEPSEEK.items())
    + "&acceptance=2.4%403&batch_size=32"
)


@pytest.mark.parametrize(
    "query",
    ["", EIGHT, f"{EIGHT}&engine=sglang", f"{EIGHT}&engine=trtllm", "max_tpot_ms=2"],
)
def test_the_first_screen_has_at_most_a_hundred_words(
    first_page: Any, app_url: str, query: str
) -> None:
    opened(first_page, app_url, query)
    assert len(words_on_screen(first_page)) <= 100, " ".join(words_on_screen(first_page))


def test_measure_after_a_drop_has_no_more(first_page: Any, app_url: str) -> None:
    judged(first_page, app_url)
    assert len(words_on_screen(first_page)) <= 100, " ".join(words_on_screen(first_page))


def test_panels_stay_on_their_page(first_page: Any, app_url: str) -> None:
    judged(first_page, app_url)
    assert first_page.locator("[data-testid=stMain] button[kind=primary]:visible").count() == 1
    first_page.get_by_role("button", name="Share", exact=True).click()
    go_to(first_page, "Serve")
    first_page.wait_for_selector(HEADLINE)
    wait_until_drawn(first_page)
    assert not first_page.get_by_text("Link to this page").is_visible(), "a panel stays on its page"
    assert not first_page.locator("#shell").is_visible(), "and the shell does not come back"


def test_serve_with_own_points_has_no_more(first_page: Any, app_url: str) -> None:
    judged(first_page, app_url)
    go_to(first_page, "Serve")
    first_page.wait_for_selector(HEADLINE)
    wait_until_drawn(first_page)
    assert len(words_on_screen(first_page)) <= 100, " ".join(words_on_screen(first_page))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        *((name, "") for name in ("measure", "trust", "share", "design")),
        ("design", EIGHT),
    ],
)
def test_no_other_page_has_more(first_page: Any, app_url: str, name: str, query: str) -> None:
    open_page(first_page, app_url, name, query or SCENARIO)
    assert len(words_on_screen(first_page)) <= 100, " ".join(words_on_screen(first_page))


def words_on_screen(page: Any) -> list[str]:
    """Words and numbers in the first screen, shadow roots included; chart, command, tables and bar
    apart."""
    found: list[str] = page.evaluate(
        """() => { const words = [], apart = "pre, style, script, title, svg, table, [data-testid=stDataFrame], [data-testid=stPlotlyChart], [data-testid=stIconMaterial], a[href^='#'], .st-key-bar, [data-testid=stHeader]";
        const seen = (node, box) => box.height && box.top < innerHeight && box.bottom > 0 && !node.closest(apart)
            && node.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true });
        const walk = (node) => {
          if (node.nodeType === 3) {
            const range = document.createRange();
            range.selectNodeContents(node);
            if (node.parentElement && seen(node.parentElement, range.getBoundingClientRect()))
              words.push(...node.textContent.split(/\\s+/).filter(one => /[\\p{L}\\d]/u.test(one)));
          } else
            for (const child of [...(node.shadowRoot ? [node.shadowRoot] : []), ...node.childNodes]) walk(child);
        };
        walk(document.body);
        return words; }"""  # noqa: E501
    )
    return found


def test_the_payload_s_curves_are_the_same_whatever_batch_of_the_grid_is_asked_about() -> None:
    one = live_answer(advise(Scenario(**GPT_OSS, batch_size=16)))
    other = live_answer(advise(Scenario(**GPT_OSS, batch_size=64)))
    assert one["speedup"] == other["speedup"]
    assert one["best"] == other["best"]
    assert one["schedule"] == other["schedule"]


def test_a_typed_length_keeps_its_k_and_one_beyond_it_is_refused_in_words(
    page: Any, app_url: str
) -> None:
    """The K that is recommended changes on the way; the K that the length is stated at does not."""
    opened(page, app_url, "acceptance=2.2%403")
    exact = page.locator("#length").locator("xpath=..").locator("input[type=number]")
    for typed in ("2.0", "1.5", "1.2"):
        exact.fill(typed)
        exact.press("Enter")
        page.wait_for_url(re.compile(rf"acceptance={float(typed):g}%403"))
        page.locator(".live .stale").first.wait_for(
            state="hidden"
        )  # an answer on its way would take the next key back
        page.wait_for_timeout(500)
    exact.fill("4.5")
    exact.press("Enter")
    assert page.get_by_text("4.5 not taken: a round of K = 3 emits").is_visible()
    assert exact.input_value() == "1.20"
    assert (
        page.locator("#length")
        .locator("xpath=..")
        .inner_text()
        .startswith("Accepted length, K = 3")
    )


def test_the_chart_s_csv_ends_where_memory_does(page: Any, app_url: str) -> None:
    scenario = Scenario(**DEEPSEEK, acceptance="2.4@3", batch_size=32)
    opened(page, app_url, scenario.to_query())
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV", exact=True).click()
    lines = Path(found.value.path()).read_text(encoding="utf-8").split()[1:]
    curve = advise(scenario).curve
    largest = advise(scenario).setup.memory.largest_batch
    batches = [int(batch) for batch in curve.batches if batch <= largest]
    assert max(batches) < max(curve.batches)
    assert sorted({int(line.split(",")[0]) for line in lines}) == batches


def test_a_click_that_closes_a_menu_is_none_on_the_chart(first_page: Any, app_url: str) -> None:
    open_page(first_page, app_url, "serve")
    plot = first_page.locator(".live .plot").first
    batch = first_page.get_by_label("Batch, exact value")
    first_page.get_by_role("button", name="Share", exact=True).click()
    first_page.get_by_text("Link to this page").wait_for()
    plot.click(position={"x": 200, "y": 300}, force=True)
    first_page.get_by_text("Link to this page").wait_for(state="hidden")
    assert batch.input_value() == "16"
    plot.click(position={"x": 200, "y": 300})
    assert batch.input_value() != "16"
