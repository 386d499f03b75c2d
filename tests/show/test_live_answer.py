"""What the browser gets of an answer: the dense twin, what is hidden, the command."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.experts_loaded import Loading
from advisor.answers.explore.cells import AXES, explore
from advisor.answers.outcome import outcome_of
from advisor.measured.published import PublishedRun
from advisor.physics import laws
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show import live_answer as module
from advisor.show.charts.maps import explored_chart
from advisor.show.live_answer import (
    dense_twin,
    hidden_loading,
    launch,
    live_answer,
    live_why,
)

GPT_OSS = Scenario(
    model_id="gpt-oss-20b", hardware_id="b200-sxm", acceptance="2.7@3", batch_size=16
)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(GPT_OSS)


def test_an_accepted_length_is_asked_for_at_the_k_it_was_given_at(advice: Advice) -> None:
    other = advise(GPT_OSS.model_copy(update={"acceptance": "1.5@3"}))
    assert other.curve_k != 3, "else nothing is shown here"
    for one, length in ((advice, 2.7), (other, 1.5)):
        accepted = live_answer(one)["accepted"]
        assert (accepted["k"], accepted["now"]) == (3, pytest.approx(length))


def test_the_dense_twin_falls_with_batch_where_the_moe_rises_first(advice: Advice) -> None:
    twin = np.array(dense_twin(advice))
    own = advice.curve.speedup[:, advice.curve_column]
    assert twin.argmax() <= own.argmax()
    assert twin[-1] < twin[0]
    assert dense_twin(advise(Scenario(model_id="command-a", acceptance="2.4@3"))) is None


def test_nothing_is_hidden_where_a_round_is_as_amdahl_has_it_and_all_where_it_costs_nothing(
    advice: Advice,
) -> None:
    loading = Loading.of(advice.setup, advice.curve)
    as_law = loading.expected
    assert hidden_loading(loading, as_law) == pytest.approx(np.zeros_like(as_law), abs=1e-6)
    grows = loading.growth > 1.01
    assert hidden_loading(loading, np.ones_like(as_law))[grows] == pytest.approx(1.0)
    assert laws.hidden_share(1.2, 0.5, 1.8) == pytest.approx(0.5)


def test_payload_and_why_are_json_and_hold_published_points_as_they_are(
    advice: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (
        PublishedRun(8, 3, 1.5, "eagle3", 1, "<b>a</b>", 2.7),
        PublishedRun(16, math.nan, 1.6, "mtp", 1, "b", math.nan, random_tokens=True),
    )
    monkeypatch.setattr(module, "published_runs", lambda *_: runs)
    own = pd.DataFrame({"batch_size": [4, 8], "speedup": [1.2, 1.1], "drafter": "", "source": ""})
    own = own.assign(n_draft=pd.array([None, 2], dtype="Int64"), decides=False)
    data = json.loads(json.dumps(live_answer(advice, own)))
    assert data["published"] == [
        [8.0, 3, 1.5, True, "<b>a</b>", False, "published", "published, EAGLE-3 (1)"],
        [
            16.0,
            None,
            1.6,
            False,
            "b",
            True,
            "other",
            "published, Own MTP module, random tokens (1)",
        ],
    ]
    assert [point[:3] for point in data["own"]] == [[4.0, None, 1.2], [8.0, 2, 1.1]]
    assert data["usd_per_hour"] == pytest.approx(
        live_answer(advice, usd_per_hour=None)["usd_per_hour"]
    )
    assert live_answer(advice, usd_per_hour=2.0)["usd_per_hour"] == 2.0
    json.dumps(live_why(advice))


@pytest.mark.parametrize("batch", [16, 64, 130])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_command_varies_k_where_the_answer_does(engine: str, batch: int) -> None:
    """Qwen3-235B-A22B on 4 B200: K = 4, then 3; at some batches one K is enough."""
    place = {
        "model_id": "qwen3-235b-a22b",
        "hardware_id": "b200-sxm",
        "n_gpus": 4,
        "tensor_parallel": 4,
    }
    scenario = Scenario(
        **place,
        engine=engine,
        drafter_id="eagle3",
        acceptance="3.8@4",
        batch_size=batch,
        context_tokens=8192,
    )
    answer = advise(scenario)
    outcome = outcome_of(answer)
    assert outcome.varies, "else nothing is shown here"
    text = launch(answer, outcome)["text"]
    is_varied = "_per_batch_size" in text or "--speculative-adaptive" in text
    assert is_varied == outcome.switches


@pytest.mark.parametrize(
    ("model_id", "ranks", "expected"),
    [
        ("qwen3-235b-a22b", 8, "vLLM refuses to load this: see the remarks."),
        ("qwen3-235b-a22b", 4, ""),
        ("mixtral-8x7b", 2, "Weights as fp8: name a checkpoint in that format."),
    ],
)
def test_the_command_s_note_says_what_it_cannot_name_and_what_does_not_start(
    model_id: str, ranks: int, expected: str
) -> None:
    place = {
        "hardware_id": "h200-sxm",
        "n_gpus": ranks,
        "tensor_parallel": ranks,
        "drafter_id": "ngram",
    }
    answer = advise(Scenario(model_id=model_id, weight_dtype="fp8", acceptance="2.4@3", **place))
    note = launch(answer, outcome_of(answer))["note"]
    assert re.findall(r"(?:Weights as|\w+ refuses)[^.]*\.", note) == [expected] * bool(expected)


def test_the_command_of_sglang_writes_the_file_that_it_loads(advice: Advice) -> None:
    sglang = advise(GPT_OSS.model_copy(update={"engine": "sglang"}))
    made = launch(sglang, outcome_of(sglang))
    if "--speculative-adaptive-config" in made["text"]:
        name = made["text"].split("--speculative-adaptive-config ")[1].split()[0]
        assert made["text"].startswith("echo '{")
        assert f"}}' > {name}\n" in made["text"]
    full = advise(GPT_OSS.model_copy(update={"engine": "sglang", "context_tokens": 65536}))
    assert (
        f"{full.setup.memory.largest_batch} requests: all that fit in memory"
        in launch(full, outcome_of(full))["note"]
    )
    assert made["note"].endswith(" 1,024 requests: where K by batch ends.")
    assert launch(advice, outcome_of(advice))["text"].startswith("vllm serve openai/gpt-oss-20b")
    assert "num_speculative_tokens_per_batch_size" in launch(advice, outcome_of(advice))["hint"]


def test_explore_agrees_with_the_answer_at_the_scenario_s_own_cell(advice: Advice) -> None:
    found = explore(GPT_OSS, "Batch", "Context")
    row = found.rows.index("2,048")
    column = found.columns.index("16")
    assert found.values["speedup"][row, column] == pytest.approx(
        advice.recommendation.speedup.value, rel=1e-5
    )
    assert found.values["n_draft"][row, column] == advice.recommendation.n_draft
    assert "Largest speedup" in explored_chart(found, "Speedup").alt
    with pytest.raises(AdvisorError, match="both axes"):
        explore(GPT_OSS, AXES[0], AXES[0])


@pytest.mark.parametrize("axis", AXES[1:])
def test_every_axis_has_a_stop_that_has_an_answer(axis: str) -> None:
    assert explore(GPT_OSS, "Batch", axis).n_answers > 0
