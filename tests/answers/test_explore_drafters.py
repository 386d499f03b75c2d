"""Drafters side by side: which stand there, with whose accepted length, and what is said of
others' published runs."""

from __future__ import annotations

import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.drafters import DRAFTERS, drafters_beside, known_length
from advisor.answers.outcome import outcome_of
from advisor.measured.published import published_lengths
from advisor.physics.acceptance import acceptance_curve, load_acceptance_curve
from advisor.physics.draft import load_drafter
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario, nearest_acceptance

GPT_OSS = build_scenario(
    model_id="gpt-oss-20b",
    hardware_id="b200-sxm",
    batch_size=8,
    drafter_id="eagle3",
    acceptance="gpt-oss-20b-eagle3-mt-bench",
)


def test_each_drafter_stands_with_its_own_lengths_on_the_same_text() -> None:
    rows = {row.drafter: row for row in drafters_beside(GPT_OSS)}
    assert [*rows][:2] == ["p-eagle", "eagle3"], "measured with the model, by gain"
    assert rows["dspark"].figures.speedup > rows["p-eagle"].figures.speedup, "borrowed, so below"
    assert rows.keys() == {*DRAFTERS}
    assert rows["p-eagle"].length.acceptance == "gpt-oss-20b-p-eagle-mt-bench"
    assert rows["p-eagle"].length.known_from == rows["eagle3"].length.known_from == "own"
    assert rows["dspark"].length.known_from == "drafter"
    assert rows["dflash"].length.known_from == "kind"
    curve = load_acceptance_curve("gpt-oss-20b-p-eagle-mt-bench")
    assert (
        rows["p-eagle"].accepted_length
        == dict(zip(curve.n_draft, curve.accepted_length, strict=True))[
            rows["p-eagle"].figures.n_draft
        ]
    )


def test_the_scenarios_own_drafter_stands_as_the_answer_has_it() -> None:
    (row,) = drafters_beside(GPT_OSS, ())
    answer = outcome_of(advise(GPT_OSS))
    assert (row.figures.n_draft, row.figures.speedup, row.figures.speedup_low) == (
        answer.tried,
        answer.speedup,
        answer.low,
    )
    assert row.memory.largest_batch == answer.largest
    assert len(row.published) == answer.published_n == 21


def test_nothing_is_predicted_where_no_drafter_of_a_kind_was_measured() -> None:
    rows = {row.drafter: row for row in drafters_beside(GPT_OSS, ("ngram", "mtp"))}
    assert (rows["ngram"].length, rows["ngram"].figures) == (None, None)
    assert rows["ngram"].memory.drafter_bytes == 0.0
    assert rows["mtp"].refused
    assert rows["mtp"].memory is None


def test_a_given_length_is_that_of_the_scenarios_drafter_alone() -> None:
    given = replace_length(GPT_OSS, "ngram", "1.5@3")
    rows = {row.drafter: row for row in drafters_beside(given, ("ngram", "eagle3"))}
    assert rows["ngram"].length.known_from == "given"
    assert rows["ngram"].figures.speedup > 0.0
    assert rows["eagle3"].length.known_from == "own"


def replace_length(scenario: Scenario, drafter_id: str, acceptance: str) -> Scenario:
    return scenario.model_copy(update={"drafter_id": drafter_id, "acceptance": acceptance})


def test_lengths_of_published_runs_of_the_very_pair_go_before_a_borrowed_curve() -> None:
    scenario = build_scenario(
        model_id="qwen3-32b", hardware_id="h200-sxm", acceptance="2.4@3", drafter_id="eagle3"
    )
    length = known_length(scenario, "dspark")
    assert length.known_from == "runs"
    published = {
        round(each.accepted_length, 2) for each in published_lengths("qwen3-32b", "dspark")
    }
    value, k = length.acceptance.split("@")
    assert min(published) <= float(value) <= max(published)
    assert int(k) in {each.n_draft for each in published_lengths("qwen3-32b", "dspark")}


def test_another_drafter_is_named_where_its_published_runs_gained_clearly_more() -> None:
    answer = outcome_of(advise(GPT_OSS))
    assert (answer.other_drafter, answer.other_n) == ("P-EAGLE", 21)
    assert (answer.other_low, answer.other_high) == pytest.approx((1.523, 2.445))
    p_eagle = replace_length(GPT_OSS, "p-eagle", "gpt-oss-20b-p-eagle-mt-bench")
    assert outcome_of(advise(p_eagle)).other_drafter is None
    assert outcome_of(advise(replace_length(GPT_OSS, "none", "0"))).other_drafter is None


@pytest.mark.parametrize(
    ("acceptance", "place"), [("2.1@3", -1), ("2.5@3", 0), ("3.4@3", 1), (GPT_OSS.acceptance, None)]
)
def test_a_length_is_placed_among_the_published_ones_of_its_pair_and_k(
    acceptance: str, place: int | None
) -> None:
    answer = outcome_of(advise(replace_length(GPT_OSS, "eagle3", acceptance)))
    assert answer.accepted_k == 3
    assert (answer.length_n, answer.length_low, answer.length_high) == (3, 2.24, 2.70)
    assert (answer.length_place, answer.length_ceiling) == (place, 4)


def test_lengths_of_the_asked_text_alone_count_where_there_are_any() -> None:
    on_code = replace_length(GPT_OSS, "eagle3", "2.5@3").model_copy(update={"task": "coding"})
    answer = outcome_of(advise(on_code))
    assert (answer.length_task, answer.length_n, answer.length_low) == ("coding", 1, 2.65)
    on_math = on_code.model_copy(update={"task": "math"})
    assert outcome_of(advise(on_math)).length_task is None


@pytest.mark.parametrize(
    ("model_id", "drafter_id", "curve"),
    [
        ("gpt-oss-20b", "eagle3", "gpt-oss-20b-eagle3-mt-bench"),
        ("kimi-k3", "dspark", "kimi-k3-dspark-coding"),
        ("deepseek-v4.1-flash", "dspark", "deepseek-v4-pro-dspark-coding"),
        ("qwen3.5-35b-a3b", "mtp", "qwen3.6-35b-a3b-mtp-all"),
        ("qwen3.5-122b-a10b", "mtp", "qwen3.5-397b-mtp-coding"),
        ("glm-4.5", "mtp", "glm-5.2-mtp-coding"),
        ("command-a-plus", "eagle3", "command-a-plus-eagle3-publisher"),
        ("command-a", "eagle3", "command-a-plus-eagle3-publisher"),
    ],
)
def test_lengths_are_the_models_own_then_its_familys(
    model_id: str, drafter_id: str, curve: str
) -> None:
    assert nearest_acceptance(model_id, drafter_id) == curve


@pytest.mark.parametrize("model_id", ["gpt-oss-20b", "qwen3-32b", "deepseek-v3", "command-a-plus"])
@pytest.mark.parametrize("drafter_id", ["eagle3", "ngram"])
def test_no_row_is_priced_by_a_length_of_another_kind_and_measured_ones_stand_first(
    model_id: str, drafter_id: str
) -> None:
    scenario = build_scenario(
        model_id=model_id,
        hardware_id="h200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        drafter_id=drafter_id,
        acceptance="gpt-oss-20b-eagle3-mt-bench",
    )
    rows = drafters_beside(scenario)
    priced = [row for row in rows if row.figures is not None]
    assert priced == rows[: len(priced)]
    for row in priced:
        curve = acceptance_curve(row.length.acceptance)
        if curve is not None:
            kinds = {load_drafter(each).kind for each in (curve.drafter_id, row.drafter)}
            assert len(kinds) == 1, row
    assert [row.is_measured for row in priced] == sorted(
        (row.is_measured for row in priced), reverse=True
    )


def test_requests_that_fit_are_those_of_the_memory_model_with_and_without_the_drafter() -> None:
    outcome = outcome_of(advise(GPT_OSS))
    with_drafter = load_setup(GPT_OSS).memory
    without = load_setup(GPT_OSS.model_copy(update={"drafter_id": "none"})).memory
    assert (outcome.largest, outcome.plain_largest) == (
        with_drafter.largest_batch,
        without.largest_batch,
    )
    assert outcome.largest < outcome.plain_largest
