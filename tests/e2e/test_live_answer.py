"""The live answer in a real browser: its rules against the library's on the same draws, and what a
user does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import Advice, advise, gain_chance
from advisor.answers.best_k import interpolate_batches, k_at
from advisor.answers.summary import _FINE, accepted_length_flips
from advisor.predict.curve import draft_odds, recommended
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import live_answer, packed
from tests.e2e.app_server import wait_until_drawn
from tests.e2e.views import SCENARIO, go_to, judged, open_page

pytestmark = pytest.mark.browser
RULES = Path(__file__).resolve().parents[2] / "advisor" / "ui" / "serve" / "browser" / "rules.js"
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
CASES = {
    "gpt-oss": Scenario(**GPT_OSS),
    "gpt-oss at an odd batch": Scenario(**GPT_OSS, batch_size=37),
    "deepseek on vllm": Scenario(**DEEPSEEK, acceptance="2.82@3", batch_size=32),
    "deepseek on sglang": Scenario(**DEEPSEEK, acceptance="2.4@3", batch_size=8, engine="sglang"),
    "a limit": Scenario(acceptance="2.4@3", batch_size=64, max_tpot_ms=12.0),
    "no gain": Scenario(acceptance="1.2@3", batch_size=256),
}
HEADLINE = "h1"


@pytest.fixture(scope="module")
def rules(browser: Any) -> Iterator[Any]:
    """A page that holds the rules alone."""
    page = browser.new_page()
    page.add_script_tag(content=RULES.read_text(encoding="utf-8"))
    yield page
    page.close()


@pytest.fixture(scope="module", params=CASES)
def advice(request: pytest.FixtureRequest) -> Advice:
    return advise(CASES[request.param])


def asked(rules: Any, advice: Advice, what: str) -> Any:
    """An expression of the rules over a payload `m`, its batch `b` and its accepted length `al`."""
    given = "d => { const m = unpack(d), b = d.batch, al = d.accepted ? d.accepted.now : 1;"
    return rules.evaluate(f"{given} return {what}; }}", live_answer(advice))


def test_the_browser_recommends_and_judges_every_k_as_the_library_does(
    rules: Any, advice: Advice
) -> None:
    found = asked(rules, advice, "outcome(m, b, al)")
    assert found["k"] == advice.recommendation.n_draft
    for shown, own in zip(found["rows"], advice.drafts, strict=True):
        assert (shown["speedup"], shown["low"], shown["high"]) == pytest.approx(
            (own.speedup, own.speedup_low, own.speedup_high), rel=1e-5
        )
        assert shown["tpot"] == pytest.approx(own.tpot_s * 1e3, rel=1e-5)
        assert (shown["pBest"], shown["pGain"]) == pytest.approx(
            (own.p_best, gain_chance(own.p_gain, advice.gain_factor)), abs=1e-6
        )
        assert shown["loss"] == pytest.approx(own.expected_loss, abs=1e-6)
        assert shown["kept"] == own.meets_limit


def test_published_runs_of_the_setup_count_in_the_headline_s_chance(rules: Any) -> None:
    data = live_answer(
        replace(
            advise(CASES["gpt-oss"]),
            gain_factor=0.5,
            counting="counting 2 published runs, 2 slower",
        )
    )
    parts = rules.evaluate(
        "d => { const m = unpack(d), al = m.accepted.now, b = m.batch;"
        "return verdict(m, b, al, outcome(m, b, al), schedule(m, al)).parts.flat().join(''); }",
        data | {"borrowed": "another"},
    )
    assert "acceptance borrowed from another" in parts
    assert re.search(
        (
            r"likely \(fitted\) · (49|50|51)% chance of gain \(9\d% modelled; 2 published runs, 2 "
            r"slower\) · "
        ),
        parts,
    )


def test_the_batch_that_may_lose_is_where_the_library_s_range_reaches_below_1(
    rules: Any, advice: Advice
) -> None:
    """The likely range of the schedule's K, from there to the last batch that drafts; none where it
    stays above."""
    found = asked(rules, advice, "[mayLose(m, al, schedule(m, al)), schedule(m, al)]")
    curve = advice.curve
    lose = 0
    batches = np.arange(1, found[1][-1]["last"] + 1)
    low = interpolate_batches(curve.batches, curve.low, batches)
    for batch in batches[::-1].tolist():
        k = next(one["k"] for one in found[1] if one["first"] <= batch <= one["last"])
        if k and low[batch - 1, curve.column(k)] >= 1.0:
            break
        lose = batch if k else lose
    assert found[0] == lose


@pytest.mark.parametrize(("batch", "words"), [(32, "by batch, "), (128, "by batch, "), (1, "")])
def test_what_is_said_of_k_by_batch_names_it(rules: Any, batch: int, words: str) -> None:
    """DeepSeek-V3 has other K at other batches; where one K is drafted throughout there is nothing
    to name."""
    alone = {"k_max": 1} if not words else {}
    advice = advise(CASES["deepseek on vllm"].model_copy(update={"batch_size": batch, **alone}))
    assert (len({one.n_draft for one in advice.k_by_batch if one.n_draft}) > 1) == bool(words)
    shown = "verdict(m, b, al, outcome(m, b, al), schedule(m, al)).parts.flat().join('')"
    said = asked(rules, advice, shown)
    assert re.search(
        rf" · {words}pays (on average )?to (full memory \(|{'' if words else 'batch '})\d", said
    )


def test_the_browser_s_schedule_is_the_library_s(rules: Any, advice: Advice) -> None:
    found = asked(rules, advice, "schedule(m, al)")
    library = [list(group) for _, group in groupby(advice.k_by_batch, key=lambda one: one.n_draft)]
    assert [one["k"] for one in found] == [group[0].n_draft for group in library]
    for shown, group in zip(found, library, strict=True):
        assert shown["first"] == pytest.approx(group[0].batch_start, rel=0.01, abs=0.5)
        assert shown["last"] == pytest.approx(group[-1].batch_end, rel=0.01, abs=0.5)


@pytest.mark.parametrize(
    ("scenario", "cause"),
    [
        (Scenario(**DEEPSEEK, acceptance="2.4@3"), "experts"),
        (
            Scenario(model_id="gpt-oss-120b", hardware_id="b200-sxm", acceptance="2.4@3"),
            "",
        ),  # they grow by 4 %
    ],
)
def test_a_dip_is_laid_to_the_experts_where_they_explain_it(
    rules: Any, scenario: Scenario, cause: str
) -> None:
    assert asked(rules, advise(scenario), "landmarks(m, al, schedule(m, al)).dip.cause") == cause


@pytest.mark.parametrize(("batch", "said"), [(16, ""), (24, "keeps 3 here"), (400, "keeps 2 here")])
def test_no_batch_moves_the_schedule_and_a_k_beside_it_says_why(
    rules: Any, batch: int, said: str
) -> None:
    found = asked(
        rules,
        advise(CASES["gpt-oss"]),
        f"[schedule(m, al), keeps(outcome(m, {batch}, al), scheduled(schedule(m, al), {batch}))]",
    )
    assert [(one["first"], one["k"]) for one in found[0]] == [
        (one.batch_start, one.n_draft) for one in advise(CASES["gpt-oss"]).k_by_batch
    ]
    assert (said in found[1]) if said else (found[1] == "")


@pytest.mark.parametrize("batch", [1, 16, 64, 200])
@pytest.mark.parametrize("name", ["gpt-oss", "deepseek on vllm", "deepseek on sglang"])
def test_the_strip_is_what_an_engine_is_given(rules: Any, name: str, batch: int) -> None:
    """One K throughout where that is enough, else K by batch: as the command beside it."""
    advice = advise(CASES[name].model_copy(update={"batch_size": batch}))
    found = asked(rules, advice, f"served(m, outcome(m, {batch}, al), schedule(m, al))")
    assert advice.recommendation.n_draft
    assert [(one["first"], one["k"]) for one in found] == [
        (one.batch_start, one.n_draft) for one in advice.to_serve
    ]


def test_a_batch_changes_the_headline_s_k_to_another_one_alone(rules: Any) -> None:
    """At 24 the headline has K = 2 and the schedule 3: its change to 2 is none of the headline."""
    advice = advise(CASES["gpt-oss"])
    found = asked(rules, advice, "[outcome(m, 24, al).k, flips(m, 24, al, schedule(m, al))]")
    own = found[0]
    later = [one for one in advice.k_by_batch if one.batch_start > 24 and one.n_draft != found[0]]
    batches = [one for one in found[1] if one["what"] == "batch"]
    assert own != int(k_at(advice.k_by_batch, 24))
    assert [(one["value"], one["k"]) for one in batches] == [
        (later[0].batch_start - 1, later[0].n_draft)
    ]


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (0.05, "faster centrally, but loses more on average (5.0%, not 2.0%)."),
        (0.02, "tied; the smaller"),
    ],
)
def test_a_k_that_is_not_the_fastest_says_why(rules: Any, loss: float, said: str) -> None:
    rows = [
        {"k": k, "speedup": s, "loss": x, "kept": True}
        for k, s, x in ((0, 1, 0.3), (1, 1.4, 0.02), (2, 1.42, loss))
    ]
    assert rules.evaluate("rows => besides({rows, chosen: 1})", rows).startswith(f"K = 2: {said}")


def test_the_browser_flips_where_the_library_does(rules: Any, advice: Advice) -> None:
    found = [
        one
        for one in asked(rules, advice, "flips(m, b, al, schedule(m, al))")
        if one["what"] == "length"
    ]
    library = {
        one.is_below: one for one in reversed(accepted_length_flips(advice))
    }  # the nearest below comes first
    assert {not one["above"] for one in found} == set(library)
    for one in found:
        own = library[not one["above"]]
        assert one["value"] == pytest.approx(
            own.accepted_length, abs=4 * _FINE
        )  # between lengths of the payload
        assert one["k"] == own.k_after


@pytest.mark.parametrize(("length", "apart"), [(2.9, 0.0), (3.0, 0.01), (3.2, 0.01)])
def test_another_accepted_length_is_what_the_library_would_scale_to(
    rules: Any, length: float, apart: float
) -> None:
    """The library computes anew for the length typed; its factors of K are those that the browser
    interpolates.

    At two of them K are tied by 1 %: the browser, which has the range of the first length, may take
    the longer.
    """
    base, other = (advise(Scenario(acceptance=f"{x}@3", batch_size=16)) for x in (2.4, length))
    found = asked(rules, base, f"outcome(m, b, {length})")
    for shown, own in zip(found["rows"], other.drafts, strict=True):
        assert shown["speedup"] == pytest.approx(own.speedup, rel=3e-3)
    own = other.recommendation
    assert abs(other.drafts[found["k"]].speedup / own.speedup.value - 1.0) <= apart
    assert apart or found["k"] == own.n_draft


@pytest.mark.parametrize("kind", ["equal", "within the noise", "beyond the noise", "forbidden"])
def test_ties_go_to_the_smaller_k_as_in_the_library(rules: Any, kind: str) -> None:
    rng = np.random.default_rng(7)
    shared = np.exp(rng.normal(0.3, 0.1, (256, 1)))
    lead = {"equal": 0.0, "within the noise": 0.0005, "beyond the noise": 0.05, "forbidden": 0.05}[
        kind
    ]
    own = np.concatenate(
        [shared, shared * np.exp(rng.normal(lead, 0.02 if lead else 0.0, (256, 1)))], axis=1
    )
    draws = np.concatenate([np.ones((256, 1)), own], axis=1)
    allowed = np.array([True, True, kind != "forbidden"])
    odds = draft_odds(draws, allowed)
    library = int(recommended(odds.loss, odds.noise, allowed))
    assert library == (2 if kind == "beyond the noise" else 1)
    given = {"draws": packed(draws[:, None, 1:]), "drafts": [0, 1, 2], "batches": [1]}
    found = rules.evaluate(
        (
            "([d, may]) => { const m = unpack(d), f = [1, 1, 1]; return recommended(odds(drawn(m, "
            "1), "
            "f, may), may); }"
        ),
        [given, allowed.tolist()],
    )
    assert found == library


def test_the_draws_come_whole(rules: Any) -> None:
    advice = advise(CASES["gpt-oss"])
    back = np.array(
        rules.evaluate(
            "d => unpack(d).logs.map(row => row.map(k => Array.from(k)))", live_answer(advice)
        )
    )
    assert np.exp(back).transpose(2, 0, 1) == pytest.approx(advice.curve.draws, rel=1e-6)


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


def test_on_a_telephone_no_note_covers_a_line(page: Any, app_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    covered = """svg => [...svg.querySelectorAll('.note.halo')].filter(note => {
      const b = note.getBBox(), c = b.x + b.width / 2, d = b.y + b.height / 2;
      const inside = p => Math.abs(p.x - c) < b.width / 2 && Math.abs(p.y - d) < b.height / 2 - 2;
      return [...svg.querySelectorAll('g path[fill=none]')].some(line => Array.from({length: 800},
        (_, i) => line.getPointAtLength(i / 800 * line.getTotalLength())).some(inside));
    }).map(note => note.textContent)"""
    for model in (
        "model_id=deepseek-v3&n_gpus=8&tensor_parallel=8&drafter_id=mtp",
        "model_id=gpt-oss-120b",
    ):
        opened(page, app_url, f"{model}&acceptance=2.4%403")
        assert page.locator(".plot svg").first.evaluate(covered) == []


def test_another_engine_changes_numbers_and_command_together(page: Any, app_url: str) -> None:
    query = "model_id=deepseek-v3&n_gpus=8&tensor_parallel=8&drafter_id=mtp&acceptance=2.4%403"
    opened(page, app_url, query)
    copy = page.get_by_role("button", name="Copy", exact=True)
    stood = copy.bounding_box()
    page.locator(".sub summary").click()
    page.locator(".sub details p").first.wait_for()
    assert copy.bounding_box() == stood, "remarks lie over the page and move nothing"
    rates = page.locator(".live tbody tr").first.inner_text()
    page.get_by_role("radio", name="SGLang").or_(
        page.get_by_text("SGLang", exact=True)
    ).first.click()
    page.get_by_role("heading", name="Launch on SGLang").wait_for()
    assert "sglang.launch_server" in page.locator(".launch pre").inner_text()
    assert page.locator(".live tbody tr").first.inner_text() != rates


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
    page.get_by_label("Show K = 2 in the chart").click()
    page.locator("tr.pinned").wait_for()
    page.get_by_text("Tokens/s/GPU", exact=True).click()
    page.get_by_role("heading", name="Tokens per second and GPU").wait_for()
    assert "At batch 16" in page.locator(".plot svg").first.get_attribute("aria-label")


EIGHT = (
    "&".join(f"{name}={value}" for name, value in DEEPSEEK.items())
    + "&acceptance=2.4%403&batch_size=32"
)


@pytest.mark.parametrize(
    "query", ["", EIGHT, f"{EIGHT}&engine=sglang", f"{EIGHT}&engine=trtllm", "max_tpot_ms=2"]
)
def test_the_first_screen_has_at_most_a_hundred_and_twenty_words(
    first_page: Any, app_url: str, query: str
) -> None:
    opened(first_page, app_url, query)
    assert len(words_on_screen(first_page)) <= 120, " ".join(words_on_screen(first_page))


def test_neither_have_measure_after_a_drop_and_serve_with_own_points(
    first_page: Any, app_url: str
) -> None:
    judged(first_page, app_url)
    assert len(words_on_screen(first_page)) <= 120, " ".join(words_on_screen(first_page))
    assert first_page.locator("[data-testid=stMain] button[kind=primary]:visible").count() == 1
    first_page.get_by_role("button", name="Share", exact=True).click()
    go_to(first_page, "Serve")
    first_page.wait_for_selector(HEADLINE)
    wait_until_drawn(first_page)
    assert not first_page.get_by_text("Link to this page").is_visible(), "a panel stays on its page"
    assert not first_page.locator("#shell").is_visible(), "and the shell does not come back"
    assert len(words_on_screen(first_page)) <= 120, " ".join(words_on_screen(first_page))


@pytest.mark.parametrize(
    ("name", "query"),
    [*((name, "") for name in ("design", "trust", "lab", "share")), ("design", EIGHT)],
)
def test_no_other_page_has_more(first_page: Any, app_url: str, name: str, query: str) -> None:
    open_page(first_page, app_url, name, query or SCENARIO)
    assert len(words_on_screen(first_page)) <= 120, " ".join(words_on_screen(first_page))


@pytest.mark.parametrize(
    ("speedup", "said"),
    [([0.72, 0.79], "0.72× and 0.79×"), ([0.7, 0.8, 0.9], "0.70–0.90×"), ([1.7, 1.7], None)],
)
def test_published_runs_outside_the_likely_range_stand_beside_the_headline(
    rules: Any, speedup: list[float], said: str | None
) -> None:
    scenario = Scenario(acceptance="2.4@3")
    rows = {
        "batch_size": 16.0,
        "n_draft": 3,
        "speedup": speedup,
        "drafter": scenario.drafter_id,
        "source": "made up",
    }
    data = live_answer(
        advise(scenario), pd.DataFrame(rows | {"accepted_length": np.nan, "random_tokens": True})
    )
    found = rules.evaluate("d => against(unpack(d), d.accepted.now, 32, 3)", data)
    assert [part for part in found if part[0]] == (
        [[said, " at batch 16, random tokens"]] if said else []
    )
    assert all("runs below the range: " in before for _, before in found[:1])
    here = rules.evaluate("d => against(unpack(d), d.accepted.now, 16, 3)", data)
    title, parts = rules.evaluate(
        "d => { const m = unpack(d), al = d.accepted.now;"
        " const told = verdict(m, 16, al, outcome(m, 16, al), schedule(m, al));"
        " return [told.title, told.parts.flat().join('')]; }",
        data,
    )
    assert title.endswith(f"× modelled, {said} published" if said else "× faster")
    assert ("published runs below the range, random tokens" in parts) == bool(said)
    assert ("published here" in parts) == (not said), "what the title says is not said twice"
    below = f"; {len(speedup)} below the range" if said else ""
    assert here == [
        ["", " · ◆ published here: "],
        [said or "1.70× and 1.70×", f", random tokens{below}"],
    ]


def test_shares_are_rounded_as_the_library_prints_them(rules: Any) -> None:
    shares = [0.0, 0.125, 0.525, 0.535, 0.994]
    assert rules.evaluate("all => all.map(percent)", shares) == [f"{one:.0%}" for one in shares]


def test_runs_published_at_the_batch_with_another_k_are_named_with_it(rules: Any) -> None:
    rows = {
        "batch_size": [16.0],
        "n_draft": 3,
        "speedup": [1.6],
        "drafter": "eagle3",
        "source": "a",
    }
    data = live_answer(advise(Scenario(acceptance="2.4@3")), published=pd.DataFrame(rows))
    said = [
        rules.evaluate(f"d => against(unpack(d), d.accepted.now, {batch}, 2)", data)
        for batch in (16, 8)
    ]
    assert ["".join("".join(part) for part in one) for one in said] == [
        " · ◆ published here: 1.60× at K = 3",
        "",
    ]


def test_where_nothing_pays_the_batch_below_which_it_does_is_named(rules: Any) -> None:
    two = {"hardware_id": "a100-80gb-sxm", "n_gpus": 2, "tensor_parallel": 2}
    advice = advise(Scenario(acceptance="2.2@3", batch_size=192, **two))
    given = "const now = outcome(m, 192, al), s = schedule(m, al);"
    shown = "return [verdict(m, 192, al, now, s).parts.flat().join(''), flips(m, 192, al, s), s];"
    said, found, ranges = asked(rules, advice, f"(() => {{ {given} {shown} }})()")
    first = ranges[-1]["first"]
    assert (ranges[-1]["k"], first > 1) == (0, True)
    assert said.endswith(f"pays to batch {first - 1}")
    below = [one for one in found if one["what"] == "batch"]
    assert [(one["above"], one["value"]) for one in below] == [(False, first)]


def test_own_runs_at_the_batch_and_k_of_the_answer_stand_beside_the_headline(rules: Any) -> None:
    rows = {
        "batch_size": [16.0, 64.0],
        "n_draft": 3,
        "speedup": [1.53, 0.8],
        "drafter": "",
        "source": "made up",
    }
    rows |= {"accepted_length": np.nan, "decides": False}
    data = live_answer(advise(Scenario(acceptance="2.4@3")), own=pd.DataFrame(rows))
    asked = ((16, 3), (16, 2), (64, 3), (4, 3))
    said = [
        rules.evaluate(f"d => against(unpack(d), d.accepted.now, {batch}, {k})", data)
        for batch, k in asked
    ]
    text = ["".join("".join(part) for part in one) for one in said]
    assert text[0] == " · ● you measured 1.53× here"
    assert text[1] == " · ● you measured 1.53× here, K = 3"
    assert text[2] == " · ● you measured 0.80× here"
    assert text[3] == " · ● 1 of 2 runs of yours below the range: 0.80× at batch 64"


def test_own_speedups_decide_k_in_headline_and_schedule_up_to_another_accepted_length(
    rules: Any,
) -> None:
    """K = 3 gains most at batch 8, K = 1 at batch 64, where the model has K = 3 and more; nothing
    gains at 256."""
    cells = [
        (8, 1, 1.30),
        (8, 3, 1.45),
        (64, 1, 1.04),
        (64, 3, 0.90),
        (256, 1, 0.80),
        (256, 3, 0.60),
    ]
    own = pd.DataFrame(cells, columns=["batch_size", "n_draft", "speedup"]).assign(
        drafter="", source="", decides=True
    )
    answer = advise(Scenario(acceptance="1.8@1,2.6@3", batch_size=64))
    assert answer.recommendation.n_draft > 1
    data = live_answer(answer, own=own)

    def said(batch: int, length: float = data["accepted"]["now"]) -> tuple[str, str, int]:
        given = (
            f"const m = unpack(d), b = {batch}, al = {length}, now = outcome(m, b, al), s = "
            "schedule(m, al);"
        )
        shown = "const said = verdict(m, b, al, now, s);"
        return tuple(
            rules.evaluate(
                f"d => {{ {given} {shown} return [said.title, besides(now), scheduled(s, b)]; }}",
                data,
            )
        )

    title, why, k = said(64)
    assert title.startswith("Yours: K = 1: 1.04× at batch 64 (model: K = ")
    assert (why, k) == ("Modelled; yours decide.", 1)
    assert said(8)[2] == 3
    assert said(256)[::2] == (said(256)[0], 0)
    assert said(256)[0].startswith("Yours: no drafts at batch 256 (model: K = ")
    moved = said(64, 3.0)
    assert moved[0].startswith("Draft "), "a length that no row has is another question"
    assert moved[2] > 1


def words_on_screen(page: Any) -> list[str]:
    """Words with letters that stand in the first screen, the launch command apart, shadow roots
    included."""
    found: list[str] = page.evaluate(
        """() => { const words = [], apart = "pre, style, script, title, [data-testid=stIconMaterial], a[href^='#']";
        const seen = (node, box) => box.height && box.top < innerHeight && box.bottom > 0 && !node.closest(apart)
            && node.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true });
        const walk = (node) => {
          if (node.nodeType === 3) {
            const range = document.createRange();
            range.selectNodeContents(node);
            if (node.parentElement && seen(node.parentElement, range.getBoundingClientRect()))
              words.push(...node.textContent.split(/\\s+/).filter(one => /\\p{L}/u.test(one)));
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
    assert one["draws"] == other["draws"]


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
        page.locator(".live .legend button").click()
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
