"""A loss that the model predicts is called one, with the K to draft instead; the queue of a burst does not lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose
from advisor.answers.diagnosis.runs import Given
from advisor.show.words.diagnosis import diagnosis_document
from tests.diagnosis.console_runs import DRAFTED, PLAIN, block, launch, of_files

RULE = "k_loses_as_predicted"
HONEST = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis" / "honest.csv"


def arms(k: int, drafted_ms: float, length: float, plain_ms: float = 32.1, first_ms: float = 2800.0) -> Diagnosis:
    return of_files(
        (DRAFTED, launch(k) + block(drafted_ms, length, first_ms=first_ms)),
        (PLAIN, launch() + block(plain_ms, first_ms=first_ms)),
    )


def rules(found: Diagnosis) -> list[str]:
    return [one.rule.id for one in found.findings]


def test_a_k_that_is_too_large_for_its_batch_is_the_verdict_with_the_k_to_paste() -> None:
    found = arms(7, 62.0, 2.14)
    compared = next(one for _, one in found.comparisons if one.n_draft)
    row, better = compared.row("speedup"), compared.recommended
    assert found.verdict == "as_predicted"
    assert rules(found) == [RULE]
    assert row is not None
    assert 0 < better.n_draft < 7
    assert better.speedup > 1.0 > row.predicted
    assert found.sentence.startswith("This loss is what the model predicts for K = 7 at batch 256: measured 0.52x")
    assert f"predicted {row.predicted:.2f}x ({row.low:.2f}x to {row.high:.2f}x)" in found.sentence
    instead = f"Draft K = {better.n_draft}, predicted {better.speedup:.2f}x ({better.low:.2f}x to {better.high:.2f}x)"
    assert f"{instead}, its accepted length carried from that of K = 7" in found.sentence
    assert f'"num_speculative_tokens": {better.n_draft}' in found.findings[0].fix
    written = diagnosis_document(found)["comparisons"][0]["recommended"]
    assert written == {
        "n_draft": better.n_draft,
        "speedup": better.speedup,
        "low": better.low,
        "high": better.high,
        "carried": True,
    }


def test_without_a_plain_run_the_loss_is_called_predicted_and_not_measured() -> None:
    found = of_files((DRAFTED, launch(7) + block(62.0, 2.14)))
    assert rules(found) == [RULE]
    assert found.sentence.startswith("The model predicts a loss for K = 7 at batch 256")
    assert "measured" not in found.sentence


def test_a_loss_as_predicted_is_not_called_slower_than_the_model_explains() -> None:
    found = arms(3, 33.9, 2.38)
    assert found.sentence.startswith("This loss is what the model predicts for K = 3 at batch 256: measured 0.95x")
    assert "slower than the model explains" not in found.sentence
    assert "so that a gain is not ruled out" in found.sentence


@pytest.mark.parametrize("plain_ms", [36.0, 45.0])
def test_a_run_that_gains_is_told_of_no_loss(plain_ms: float) -> None:
    found = arms(3, 33.9, 2.38, plain_ms)
    row = next(one for _, one in found.comparisons if one.n_draft).row("speedup")
    assert row is not None
    assert row.predicted < 1.0 < (row.measured or 0.0)
    assert RULE not in rules(found)


def test_a_loss_beyond_the_band_is_not_what_the_model_predicts() -> None:
    found = arms(3, 75.0, 2.38)
    assert RULE not in rules(found)
    assert "what the model predicts" not in found.sentence


def test_beside_a_fault_of_the_settings_the_predicted_loss_comes_second() -> None:
    found = of_files(
        (DRAFTED, launch(7, "--enforce-eager") + block(70.1, 2.14)),
        (PLAIN, launch() + block(32.1)),
    )
    assert found.verdict == "misconfigured"
    assert found.sentence.startswith("The engine is not configured to win: CUDA graphs are switched off. Besides, the")
    assert rules(found) == ["graphs_off", RULE]


def test_where_no_draft_pays_the_server_is_started_without_speculation() -> None:
    found = diagnose([Given(HONEST.name, HONEST.read_bytes())])
    (finding,) = found.findings
    assert finding.rule.id == RULE
    assert finding.fix == "python -m sglang.launch_server ... without --speculative-algorithm"
    assert "draft nothing (1.00x)" in found.sentence


@pytest.mark.parametrize(("first_ms", "waits"), [(200.0, False), (2800.0, False), (60_000.0, True)])
def test_the_queue_of_a_burst_is_no_fault_and_a_longer_one_does_not_lead(first_ms: float, waits: bool) -> None:
    found = arms(7, 62.0, 2.14, first_ms=first_ms)
    assert ("first_token_waits" in rules(found)) == waits
    assert found.sentence.startswith("This loss is what the model predicts")
    assert ("Besides: the first token takes more than five times as long" in found.sentence) == waits


def test_a_wait_alone_does_not_make_the_run_slower_than_explained() -> None:
    found = of_files((PLAIN, launch() + block(32.1, first_ms=60_000.0)))
    assert rules(found) == ["first_token_waits"]
    assert found.verdict == "as_predicted"
    assert "and no time is longer than the model explains: the first token" in found.sentence
