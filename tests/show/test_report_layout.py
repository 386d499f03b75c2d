"""One page for whoever decides: always one page, with the answer, its doubts and the command."""

from __future__ import annotations

import datetime as dt
import io
import re

import pypdf
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import k_running_at
from advisor.answers.outcome import outcome_of
from advisor.catalog.engines import load_engine
from advisor.measured.published import published_ids
from advisor.predict.scenario import Scenario
from advisor.show.report.build import APP_ADDRESS, Report, applicable_errors, build_report
from advisor.show.report.formats import render
from advisor.show.report.layout import brief_sections
from tests.show.test_report_formats import PAYLOADS, attacked

DATE = dt.date(2026, 3, 2)


def gpt_oss(engine: str, batch_size: int, acceptance: str = "2.4@3") -> Scenario:
    return Scenario(
        acceptance=acceptance,
        model_id="gpt-oss-120b",
        hardware_id="h100-sxm",
        n_gpus=4,
        tensor_parallel=4,
        drafter_id="eagle3",
        engine=engine,
        batch_size=batch_size,
    )


_BATCHES = {"sglang": 32, "vllm": 256, "trtllm": 32, "other": 32}
SCENARIOS = {
    "default": Scenario(acceptance="2.4@3"),
    "many GPUs": Scenario(
        acceptance="2.6@3",
        model_id="deepseek-v3",
        hardware_id="h200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        engine="sglang",
        drafter_id="mtp",
        batch_size=64,
    ),
    **{f"gpt-oss-120b on {engine}": gpt_oss(engine, batch) for engine, batch in _BATCHES.items()},
    "a schedule": gpt_oss("sglang", 32, "2.82@3"),
    "no drafter": Scenario(acceptance="2.4@3", drafter_id="none"),
    "never pays": Scenario(acceptance="1.05@1", batch_size=256),
}


def report_on(scenario: Scenario) -> Report:
    advice = advise(scenario)
    errors = applicable_errors(*published_ids(scenario), advice.recommendation.speedup.tier)
    return build_report(advice, DATE, validation=errors)


def text_of(data: bytes) -> tuple[int, str]:
    reader = pypdf.PdfReader(io.BytesIO(data))
    return len(reader.pages), "\n".join(sheet.extract_text() for sheet in reader.pages)


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_is_one_page_with_the_answer_of_the_report(name: str) -> None:
    report = report_on(SCENARIOS[name])
    pages, text = text_of(render(report, "pdf", brief=True))
    assert pages == 1
    answer = report.advice.recommendation
    assert f"K = {answer.n_draft}" in text
    assert report.scenario.hash in text
    titles = [section.title for section in brief_sections(report)]
    assert titles[:4] == ["In short", "Speedup by batch size", "Cost", "What would change it"]
    served = SCENARIOS[name].drafter_id != "none" and SCENARIOS[name].engine in ("vllm", "sglang")
    assert ("What to run" in titles) == served


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_its_words_stand_alone(engine: str) -> None:
    """The engine is named at the head, the command is whole, and no number breaks over a
    line."""
    _, text = text_of(render(report_on(SCENARIOS[f"gpt-oss-120b on {engine}"]), "pdf", brief=True))
    assert load_engine(engine).name in text.split("Draft length")[0]
    assert "?" not in text.replace(f"{APP_ADDRESS}?", "")
    assert "interpolated" not in text
    assert "context 2,048" in text
    launch = re.sub(r"\s", "", text.split("launch line")[1])
    assert "shortened" not in text
    assert f"{APP_ADDRESS}?" in text.split("Opens in the app")[1]
    assert "gpt-oss-120b" in text.split("Draft length")[0]
    assert "DRAFT-MODEL" in launch
    assert ("max_cudagraph_capture_size" in launch) == (engine == "vllm")


def test_it_states_the_k_of_its_command_the_weights_and_where_the_whole_command_is() -> None:
    """Qwen3-235B in fp8 on 8 H200: K = 4 is best at batch 32, where K by batch has 5 and experts
    are cut to 192."""
    eight = {"hardware_id": "h200-sxm", "n_gpus": 8, "tensor_parallel": 8, "drafter_id": "eagle3"}
    asked = {
        "acceptance": "3.4@5",
        "batch_size": 32,
        "context_tokens": 4096,
        **eight,
    }
    report = report_on(Scenario(model_id="qwen3-235b-a22b", weight_dtype="fp8", **asked))
    advice = report.advice
    text = " ".join(text_of(render(report, "pdf", brief=True))[1].split())
    running = int(k_running_at(advice.to_serve, 32))
    outcome = outcome_of(advice)
    assert outcome.k == running != outcome.best_alone
    assert "vLLM refuses to load this" in text
    assert "weights in fp8 (128 x 128 blocks), vLLM" in text
    assert "your draft checkpoint for DRAFT-MODEL" in text
    for slot in ("headline", "alternative", "published_runs", "pays"):
        assert report.say(slot) in text, "no sentence is cut off"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_name_of_a_user_s_makes_a_second_page(payload: str) -> None:
    pages, _ = text_of(render(attacked(payload), "pdf", brief=True))
    assert pages == 1
