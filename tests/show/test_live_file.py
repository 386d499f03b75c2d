"""The answer as one HTML file: what it may run, what stands in it, and that its command lines are
those of the answer."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import as_measured, own_schedule
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import launch, live_answer
from advisor.show.live_file import live_file
from advisor.show.report.basis import LIMITS, assumption_texts
from advisor.text import MAX_NAME, printable
from tests.command_line import Run
from tests.show.report_fixtures import DATE, MIXED, PAYLOADS, QWEN, Page, own_model

ROOT = Path(__file__).resolve().parents[2]
DEEPSEEK = Scenario(
    model_id="deepseek-v3",
    hardware_id="h200-sxm",
    n_gpus=8,
    tensor_parallel=8,
    drafter_id="mtp",
    acceptance="2.4@3",
    engine="sglang",
)
LARGEST_BYTES = 250_000


def payload_of(document: str) -> dict[str, Any]:
    """The data that the file's scripts read."""
    data = re.search(r'<script id="payload" type="text/plain">(.*?)</script>', document)
    assert data is not None
    loaded: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data[1])))
    return loaded


def test_it_runs_and_styles_what_is_in_it_alone_and_loads_nothing() -> None:
    text = live_file(advise(QWEN), DATE)
    page = Page(text)
    assert page.addresses == []
    names = {tag.split()[0] for tag in page.tags}
    assert not {"link", "iframe", "object", "embed", "base", "form", "img"} & names
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    styles = re.findall(r"<style>(.*?)</style>", text, re.S)
    hashes = {
        kind: [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in texts]
        for kind, texts in (("script-src", scripts), ("style-src", styles))
    }
    allowed = {
        name: [source.removeprefix("'sha256-").removesuffix("'") for source in sources]
        for name, *sources in map(str.split, policy[1].split(";"))
    }
    nothing = {name: ["'none"] for name in ("default-src", "base-uri", "form-action")}
    assert allowed == hashes | nothing
    assert "url(" not in "".join(styles)
    assert "@import" not in "".join(styles)


@pytest.mark.parametrize("scenario", [QWEN, MIXED, DEEPSEEK], ids=lambda one: one.model_id)
def test_it_is_small_and_holds_what_the_answer_rests_on(scenario: Scenario) -> None:
    advice = advise(scenario)
    text = live_file(advice, DATE)
    assert len(text.encode()) <= LARGEST_BYTES
    words = "".join(Page(text).body)
    for each in (*assumption_texts(advice.setup), *LIMITS, DATE.isoformat(), scenario.hash):
        assert each.replace("->", "\N{RIGHTWARDS ARROW}").split(" x")[0] in words


def test_each_range_of_batches_has_the_command_of_the_answer_to_it() -> None:
    payload = payload_of(live_file(advise(DEEPSEEK), DATE))
    commands = payload["commands"]
    ends = [last for last, _ in commands]
    assert ends == sorted(set(ends))
    for batch in (1, 8, 24, 64, 192, 320):
        here = advise(DEEPSEEK.model_copy(update={"batch_size": batch}))
        command = next(each for last, each in commands if batch <= last)
        assert command == launch(here, outcome_of(here)), f"batch {batch}"
    assert len({json.dumps(command) for _, command in commands}) > 2, "else nothing is shown here"


def test_the_line_for_another_length_asks_for_the_same_setup(run: Run) -> None:
    other = payload_of(live_file(advise(DEEPSEEK), DATE))["other"]
    program, *words = shlex.split(other["words"])
    assert program == "advisor"
    status, out, _ = run(*words, "--batch", 32, "--accepted-length", "1.88@3", "--json")
    moved = DEEPSEEK.model_copy(update={"batch_size": 32, "acceptance": "1.88@3"})
    assert (status, json.loads(out)["scenario_hash"]) == (0, moved.hash)
    assert payload_of(live_file(advise(own_model("mine")), DATE))["other"]["words"] == ""


def test_setups_beside_it_are_its_pins_with_their_figures() -> None:
    pins = payload_of(live_file(advise(QWEN), DATE, beside=[advise(DEEPSEEK)]))["answer"]["pins"]
    assert [pin["name"] for pin in pins] == [
        pin["name"] for pin in live_answer(advise(QWEN), pins=[advise(DEEPSEEK)])["pins"]
    ]
    assert payload_of(live_file(advise(QWEN), DATE))["answer"]["pins"] == []


def test_own_runs_decide_the_commands() -> None:
    cells = [(8, 1, 1.30), (8, 3, 1.45), (64, 1, 1.04), (64, 3, 0.90), (256, 1, 0.8), (256, 3, 0.6)]
    own = pd.DataFrame(cells, columns=["batch_size", "n_draft", "speedup"])
    own = own.assign(drafter="", source="", decides=True)
    advice = advise(QWEN)
    payload = payload_of(live_file(advice, DATE, own=own))
    followed = as_measured(advice, own_schedule(own))
    expected = launch(followed, outcome_of(followed, follows_own=True))
    assert payload["answer"]["command"] == expected
    at = next(command for last, command in payload["commands"] if last >= QWEN.batch_size)
    assert at == expected
    assert "speculative" not in payload["commands"][-1][1]["text"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_stays_text_and_gains_no_element(payload: str) -> None:
    shown = Page(live_file(advise(own_model(payload)), DATE))
    assert shown.tags == Page(live_file(advise(own_model("harmless")), DATE)).tags
    assert printable(payload, MAX_NAME) in "".join(shown.body)


def test_another_process_writes_the_same_bytes() -> None:
    script = (
        "import hashlib; from advisor.answers.advice import advise;"
        "from advisor.show.live_file import live_file;"
        "from tests.show.report_fixtures import DATE, QWEN;"
        "print(hashlib.sha256(live_file(advise(QWEN), DATE).encode()).hexdigest())"
    )
    elsewhere = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}
    there = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=elsewhere,
    )
    here = hashlib.sha256(live_file(advise(QWEN), DATE).encode()).hexdigest()
    assert there.stdout.strip() == here


def test_an_option_of_a_section_is_refused(run: Run, tmp_path: Path) -> None:
    words = ("report", "gpt-oss-20b", "--gpus", "1xH200", "-o", tmp_path / "a.html", "--models")
    status, _, error = run(*words)
    assert status == 2
    assert "--models" in error.splitlines()[-1]
