"""Journeys with files in a real Chromium: a benchmark, a refit, a trace, an engine's schedule, the
report's formats."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from advisor.answers.advice import advise
from advisor.answers.outcome import outcome_of
from advisor.predict.scenario import Scenario, read_scenario
from advisor.show.phrases.answer import BOOK
from tests.e2e.app_server import new_context, wait_until, wait_until_drawn
from tests.e2e.test_journeys import in_address, wait_for_answer
from tests.e2e.views import ANSWER, open_more, open_page, refitted, upload
from tests.own_model import CONFIG_JSON

pytestmark = pytest.mark.browser
START = Scenario(acceptance="2.4@3")


def download(page: Any, label: str, folder: Path) -> tuple[str, bytes]:
    """Click a download button; the file's name and bytes."""
    with page.expect_download() as caught:
        page.get_by_test_id("stMain").get_by_role("button", name=label, exact=True).click()
    file = folder / caught.value.suggested_filename
    caught.value.save_as(file)
    return file.name, file.read_bytes()


def test_a_refit_is_used_on_every_page_and_undone(page: Any, app_url: str) -> None:
    refitted(page, app_url)
    page.get_by_text("Your data moved host time per speculative round").wait_for()
    page.get_by_role("button", name="Use this refit on every page").click()
    page.get_by_role("button", name="Back to the shipped constants").wait_for()
    page.wait_for_url("**refit=**")
    page.get_by_role("link", name="Serve").first.click()
    page.locator(ANSWER).wait_for()
    taken = in_address(page)
    assert taken.refit is not None
    wait_for_answer(page, taken)
    page.get_by_role("button", name="Back to the shipped constants").click()
    wait_for_answer(page, START)
    wait_until(page, "!location.search.includes('refit')")
    page.go_back()
    wait_for_answer(page, taken)
    page.go_forward()
    wait_for_answer(page, START)


def test_the_report_downloads_in_every_format_and_each_opens(
    page: Any, app_url: str, context: Any, tmp_path: Path
) -> None:
    open_page(page, app_url, "share")
    words = BOOK.say("headline", outcome_of(advise(START)).facts)
    hash_ = START.hash
    files = {
        label: download(page, label, tmp_path)
        for label in ("PDF", "HTML", "Markdown", "JSON", "CSV")
    }
    assert {name for name, _ in files.values()} == {
        f"advice-{START.model_id}-{START.hardware_id}-{dt.date.today()}-{hash_}.{end}"
        for end in ("pdf", "html", "md", "json", "csv")
    }

    pdf = PdfReader(io.BytesIO(files["PDF"][1]))
    text = " ".join(" ".join(sheet.extract_text() for sheet in pdf.pages).split())
    assert hash_ in text
    assert f"{advise(START).recommendation.speedup.value:.2f}×" in text
    assert pdf.trailer["/Root"]["/MarkInfo"]["/Marked"]

    markdown = files["Markdown"][1].decode()
    assert markdown.splitlines()[0].replace("\\", "") == f"# {words}"
    assert hash_ in markdown

    assert read_scenario(files["JSON"][1]).scenario == START
    assert json.loads(files["JSON"][1])["scenario"]

    rows = list(csv.DictReader(io.StringIO(files["CSV"][1].decode())))
    assert {row["scenario_hash"] for row in rows} == {hash_}
    assert {int(row["n_draft"]) for row in rows} >= {1, 2, 3}

    opened = context.new_page()
    asked = []
    opened.on("request", lambda sent: asked.append(sent.url))
    opened.goto((tmp_path / files["HTML"][0]).as_uri())
    assert opened.locator(ANSWER).inner_text() == words
    assert opened.locator(".plot svg").count() == 2
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    opened.close()


LINE = (
    "vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8 --max-num-seqs 128 "
    "--speculative-config "
)
LINE += '\'{"method": "mtp", "num_speculative_tokens": 3}\''
SERVER = "model_id=deepseek-v3&hardware_id=h200-sxm&n_gpus=8&tensor_parallel=8&drafter_id=mtp&acceptance=1.9%401"  # noqa: E501


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (LINE, "Predicted to gain"),
        ("", "Turn speculation off at batch 64"),
        (
            "concurrency,TPOT ms without,TPOT ms with\n1,16,10\n16,22,18\n64,34,43",
            "turn speculation off at batch 64",
        ),
        (LINE.replace("seqs 128", "seqs 256"), "The engine is misconfigured"),
    ],
)
def test_slower_with_drafts_ends_in_a_verdict_a_remedy_and_one_step(
    page: Any, app_url: str, text: str, title: str
) -> None:
    open_page(page, app_url, "measure", SERVER)
    if text:
        page.get_by_role("button", name="Paste text").click()
        page.get_by_role("textbox", name="Launch line, log").fill(text)
        page.get_by_role("button", name="Read the text").click()
    else:
        page.get_by_role("button", name="Two numbers").click()
        values = {"Without speculation": "18", "With speculation": "24", "Batch": "64"}
        for label, value in (values | {"Draft length K": "1"}).items():
            page.get_by_role("spinbutton", name=label, exact=True).fill(value)
        page.get_by_role("button", name="Compare", exact=True).click()
    if title.startswith("turn"):
        page.get_by_role("textbox", name="Draft length K").fill("1")
        page.get_by_role("button", name="Confirm and compare", exact=True).click()
    page.get_by_role("heading", name=title).wait_for()
    page.get_by_text("K = ").filter(visible=True).first.wait_for()
    assert not re.search("--(set|map)", page.get_by_test_id("stMain").inner_text())
    if title == "Turn speculation off at batch 64":  # nothing measured pays
        assert not page.get_by_role("button", name="on Serve").count()
        return
    button = page.get_by_role("button", name="on Serve")
    batch = re.findall(r"batch ([\d,]+)", button.inner_text())[0]
    button.click()
    page.locator(ANSWER).wait_for()
    assert page.get_by_label("Batch, exact value").input_value() == batch


def test_a_session_sees_nothing_of_another(browser: Any, app_url: str) -> None:
    """Own model, accelerator, upload and refit of one browser; another, and a second tab of it, are
    untouched."""
    first, second = (new_context(browser) for _ in range(2))
    try:
        mine = first.new_page()
        theirs = second.new_page()
        open_page(theirs, app_url, "measure")
        refitted(mine, app_url)
        mine.get_by_role("link", name="Serve").first.click()
        mine.locator(ANSWER).wait_for()
        open_more(mine)
        mine.get_by_text("Your own config.json").click()
        upload(mine, "config.json", "secret-model.json", CONFIG_JSON.encode())
        mine.get_by_text("Your own accelerator").click()
        mine.get_by_label("Name", exact=True).fill("Secret pod")
        for label, value in (
            ("Memory (GB)", 200),
            ("Memory bandwidth (TB/s)", 9),
            ("Peak bf16 (TFLOP/s)", 2000),
        ):
            mine.get_by_label(label, exact=True).fill(str(value))
        mine.get_by_role("button", name="Use this accelerator").click()
        mine.wait_for_url("**hardware_id=own-secret-pod**")
        wait_until_drawn(mine, ANSWER)

        for other in (theirs, first.new_page()):
            open_page(other, app_url, "measure")
            assert other.get_by_text("mine.csv").count() == 0
            assert other.get_by_text("What your data changed").count() == 0
            other.get_by_role("link", name="Serve").first.click()
            wait_for_answer(other, START)
            for box, secret in (("Model", "secret"), ("Accelerator", "secret")):
                choices = other.get_by_role("combobox", name=box, exact=True)
                choices.click()
                choices.fill(secret)
                other.wait_for_timeout(300)
                offered = other.get_by_role("option").all_inner_texts()
                assert not [text for text in offered if secret in text and text != f"Add: {secret}"]
                other.keyboard.press("Escape")
            assert "secret" not in other.content().lower()
    finally:
        first.close()
        second.close()
