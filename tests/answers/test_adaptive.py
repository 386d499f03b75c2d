"""Adaptive verification: what it gains at both ends, which releases have it, and how it is
exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.engines.adaptive import _speedups, adaptive_ranges, gains_by_k
from advisor.answers.engines.export import adaptive_rule, export_scenario
from advisor.answers.outcome import outcome_of
from advisor.catalog.engines import engines
from advisor.predict.curve import BESIDE, Curve
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, nearest_acceptance
from advisor.prediction import AdvisorError
from advisor.show.phrases.answer import BOOK
from tests.command_line import Run

QWEN = Scenario(
    model_id="qwen3-30b-a3b",
    hardware_id="h200-sxm",
    drafter_id="eagle3",
    acceptance="2.4@3",
    batch_size=64,
)
DEEPSEEK = Scenario(
    model_id="deepseek-v4-pro",
    hardware_id="b300-sxm",
    n_gpus=8,
    tensor_parallel=8,
    drafter_id="dspark",
    acceptance=nearest_acceptance("deepseek-v4-pro", "dspark"),
    batch_size=256,
    context_tokens=1024,
)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(QWEN)


def _made_up(curve: Curve) -> Curve:
    """One batch and K = 0 to 2, with times that are worked out by hand."""
    draft = np.array([[0.0, 0.05, 0.1]])
    round_s = np.array([[1.0, 1.2, 1.4]]) + draft
    length = np.array([1.0, 1.5, 1.75])
    components = dict.fromkeys(BESIDE, np.zeros((1, 3))) | {"draft": draft}
    return replace(
        curve,
        batches=np.array([64.0]),
        drafts=np.arange(3),
        speedup=length / round_s,
        accepted_length=length,
        plain_step_s=np.ones(1),
        round_s=round_s,
        round_components=components,
        prefill_s=np.zeros(1),
    )


def test_both_ends_are_those_worked_out_by_hand(advice: Advice) -> None:
    """K = 2: 1.75 tokens in 1.5 s with nothing known; with all known, 0.75 drafts in 1.25 s. The
    best fixed K is 1: 1.5 tokens in 1.25 s."""
    curve = _made_up(advice.curve)
    assert _speedups(curve, 2)[:, 0] == pytest.approx([1.75 / 1.5, 1.75 / 1.25])
    assert _speedups(curve, 1)[:, 0] == pytest.approx([1.5 / 1.25, 1.5 / 1.15])
    k, gains = gains_by_k(curve, 64)
    assert k == 2
    assert gains[:, 0] == pytest.approx([1.75 / 1.5 / 1.2, 1.4 / 1.2])


@pytest.mark.parametrize("scenario", [QWEN, DEEPSEEK], ids=["EAGLE-3", "DSpark"])
def test_what_is_known_never_costs_and_no_k_verified_whole_is_faster(scenario: Scenario) -> None:
    curve = advise(scenario).curve
    for column, k in enumerate(curve.drafts[1:].tolist(), 1):
        blind, sure = _speedups(curve, k)
        assert (sure >= blind * (1.0 - 1e-12)).all()
        assert (blind >= curve.speedup[:, column] * (1.0 - 1e-12)).all()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"engine": "sglang"}, "releases of it that do: none"),
        ({"engine_version": "0.27.1"}, "that do: 0.28 to before 0.30"),
        ({"engine_version": "0.29.0"}, r"what dspark \("),
        ({"drafter_id": "p-eagle"}, "what dspark, eagle"),
        ({"drafter_id": "ngram"}, "what dspark, eagle"),
        ({"engine_version": "0.33.0", "graph_sizes": "none"}, "with full CUDA graphs"),
        ({"graph_mode": "pieces"}, "with full CUDA graphs"),
        ({"hardware_id": "a100-80gb-sxm"}, "on sm_90, sm_100, sm_103"),
        ({"model_id": "deepseek-v2-lite"}, "on sm_100, sm_103"),
        ({"model_id": "qwen3-next-80b-a3b", "n_gpus": 4}, "layers of kimi_k3, nemotron_h"),
    ],
)
def test_what_excludes_it_is_named(changed: dict[str, object], reason: str) -> None:
    setup = load_setup(QWEN.model_copy(update=changed))
    with pytest.raises(AdvisorError, match=reason):
        adaptive_rule(setup, setup.scenario.engine)


def test_one_k_and_the_flag_are_exported_without_a_table(advice: Advice) -> None:
    setup = advice.setup
    assert len({part.k_running for part in advice.k_by_batch}) > 1
    ranges = adaptive_ranges(setup, "vllm", advice.curve, 256)
    made = export_scenario(setup, ranges, "vllm", draft_model="a/b")
    k_max = outcome_of(advice).adaptive_k
    assert made.config == {
        "method": "eagle3",
        "model": "a/b",
        "num_speculative_tokens": k_max,
        "enable_adaptive_verification": True,
    }
    assert "compilation-config" not in made.launch_line
    assert any("LoRA" in note.facts.get("says", "") for note in made.notes)
    (other,) = adaptive_ranges(setup, "vllm", advice.curve, 256, 7)
    assert other.k_running == 7


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_it_is_mentioned_where_the_engine_has_it(engine: str) -> None:
    facts = outcome_of(advise(QWEN.model_copy(update={"engine": engine}))).facts
    text = BOOK.say("adaptive", facts)
    assert ("0.33.0" in text) == (engine == "vllm")
    assert (facts["adaptive_low"] is None) == (engine == "sglang")


def test_the_command_line_exports_it_and_refuses_it_elsewhere(run: Run, tmp_path: Path) -> None:
    asked = ["export", "qwen3-30b-a3b", "--gpus", "1xh200", "--drafter", "eagle3", "--adaptive"]
    asked += ["--accepted-length", "2.4@3", "--draft-model", "a/b", "--output", str(tmp_path)]
    code, out, _ = run(*asked, "--static-k", "5")
    assert code == 0
    assert '"num_speculative_tokens":5,"enable_adaptive_verification":true' in out
    assert run(*asked, "--engine", "sglang")[0] != 0


def test_every_rule_has_a_source_and_releases_that_do_not_overlap() -> None:
    for engine in engines():
        ends = [edge for rule in engine.adaptive for edge in (rule.since, rule.before)]
        assert ends == sorted(ends, key=lambda text: tuple(map(int, text.split("."))))
        assert all(len(rule.source) > 10 for rule in engine.adaptive)
