"""Try next: which single changes are tried, what each brings, and that comparisons are honest."""

from __future__ import annotations

import dataclasses

import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.design.candidates import Band
from advisor.answers.explore.changes import (
    GOALS,
    Change,
    Effect,
    NextSteps,
    Speed,
    best_effects,
    changes,
    design_changes,
    design_standing,
    evaluate,
    next_steps,
)
from advisor.predict import ratios
from advisor.predict.load import load_setup
from advisor.predict.ratios import RatioRecord
from advisor.predict.scenario import Scenario
from advisor.prediction import Tier
from advisor.show.words.compare import outcome_text, steps_document, unoffered_texts, what_text
from advisor.show.words.design import standing_text


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(Scenario(acceptance="2.4@3"))


@pytest.fixture(scope="module")
def steps(advice: Advice) -> NextSteps:
    return next_steps(advice)


def test_each_change_moves_the_scenario_in_its_own_fields_only(advice: Advice) -> None:
    fields = {
        "batch": {"batch_size"},
        "weights": {"weight_dtype", "expert_dtype"},
        "expert weights": {"expert_dtype"},
        "KV cache": {"kv_dtype"},
        "placement": {"n_gpus", "tensor_parallel", "expert_parallel"},
        "accelerator": {"hardware_id"},
        "engine": {"engine"},
        "draft length": {"k_max"},
        "drafter": {"drafter_id", "acceptance"},
    }
    found = changes(advice)
    assert {change.kind for change in found} >= {
        "batch",
        "weights",
        "KV cache",
        "placement",
        "accelerator",
        "engine",
    }
    for change in found:
        moved = {
            name
            for name, value in dict(change.scenario).items()
            if value != getattr(advice.scenario, name)
        }
        assert moved, change
        assert moved <= fields[change.kind], change


def test_no_change_takes_tensor_parallelism_beyond_a_node() -> None:
    """Its all-reduces would cross the network for nothing, where the exchange of experts pays for
    it."""
    placed = {
        "model_id": "deepseek-v3",
        "n_gpus": 16,
        "tensor_parallel": 8,
        "expert_parallel": 16,
        "batch_size": 64,
    }

    def offered(hardware_id: str) -> list[Scenario]:
        scenario = Scenario(hardware_id=hardware_id, acceptance="2.4@3", **placed)  # type: ignore[arg-type]
        return [change.scenario for change in changes(advise(scenario))]

    assert {one.tensor_parallel for one in offered("h200-sxm")} == {4, 8}
    assert {one.tensor_parallel for one in offered("gb200")} == {4, 8, 16}, "72 GPUs in a node"


def test_an_accelerator_whose_node_is_too_small_for_the_tensor_parallelism_is_not_offered() -> None:
    scenario = Scenario(
        hardware_id="gb200",
        acceptance="2.4@3",
        model_id="deepseek-v3",
        n_gpus=16,
        tensor_parallel=16,
        batch_size=64,
    )
    found = {
        change.scenario.hardware_id
        for change in changes(advise(scenario))
        if change.kind == "accelerator"
    }
    assert found == {"gb300"}


def test_an_effect_is_what_advise_says_of_the_changed_scenario(
    advice: Advice, steps: NextSteps
) -> None:
    for effect in steps.effects:
        if effect.change.kind == "design":
            continue
        there = advise(effect.change.scenario)
        served = there.drafts[there.recommendation.n_draft]
        assert effect.after.n_draft == served.n_draft
        assert effect.after.speedup == pytest.approx(served.speedup)
        assert effect.after.tokens_per_s_per_gpu == pytest.approx(served.tokens_per_s_per_gpu)
    here = advice.drafts[advice.recommendation.n_draft]
    assert steps.effects[0].before.speedup == pytest.approx(here.speedup)


def test_a_change_to_the_same_scenario_gains_nothing_in_any_draw(advice: Advice) -> None:
    same = evaluate(advice, Change("engine", "", "", advice.scenario))
    assert isinstance(same, Effect)
    for goal in GOALS:
        assert same.gain[goal].low == pytest.approx(1.0) == same.gain[goal].high
        assert not same.helps(goal)


def test_kernels_measured_apart_give_a_wider_band_than_shared_ones(advice: Advice) -> None:
    shared = evaluate(advice, Change("accelerator", "", "", advice.scenario, kernels_apart=False))
    apart = evaluate(advice, Change("accelerator", "", "", advice.scenario, kernels_apart=True))
    assert isinstance(shared, Effect)
    assert isinstance(apart, Effect)
    gain = apart.gain["tpot"]
    assert gain.low < 0.97 < 1.03 < gain.high
    assert gain.value == shared.gain["tpot"].value == 1.0
    assert outcome_text(apart, "tpot") == "within noise"


def test_changes_that_do_not_fit_or_miss_the_limit_are_refused_with_the_reason() -> None:
    tight = advise(Scenario(acceptance="2.4@3", max_tpot_ms=9.0))
    found = next_steps(tight)
    reasons = {(change.kind, refused.reason) for change, refused in found.refused}
    assert "memory" in {reason for _, reason in reasons}
    assert ("batch", "limit") in reasons
    assert {refused.limit_ms for _, refused in found.refused if refused.reason == "limit"} == {9.0}
    assert all(
        effect.after.tpot_s <= 9.0e-3 for effect in found.effects if effect.change.kind != "design"
    )


def test_a_model_that_does_not_fit_is_shown_what_makes_it_fit() -> None:
    found = next_steps(advise(Scenario(acceptance="2.4@3", model_id="deepseek-v3")))
    best = best_effects(found, "tokens_per_s_per_gpu")
    assert best
    assert best[0].before is None
    assert load_setup(best[0].change.scenario).memory.largest_batch >= 16


def test_of_a_batch_that_does_not_fit_the_largest_that_does_is_offered() -> None:
    scenario = Scenario(
        n_gpus=4, tensor_parallel=4, model_id="qwen3-235b-a22b", batch_size=2000, acceptance="2.6@3"
    )
    memory = load_setup(scenario).memory
    left = memory.usable_bytes - memory.weights_bytes - memory.drafter_bytes
    largest = int(left // memory.kv_bytes_per_sequence)
    offered = [change for change in changes(advise(scenario)) if change.kind == "batch"]
    assert [change.scenario.batch_size for change in offered] == [largest]


def hand_effect(kind: str, value: float, low: float, tpot: float = 1.1) -> Effect:
    speed = Speed(3, 1.5, 8e-3, 1000.0)
    gain = {goal: Band(value, low, value * 1.1, 0.9) for goal in GOALS} | {
        "tpot": Band(tpot, tpot, tpot, 1.0)
    }
    change = Change(kind, None, value, Scenario(acceptance="2.4@3"))  # type: ignore[arg-type]
    return Effect(change, speed, speed, gain, Tier.FITTED)


def test_the_ranking_takes_the_best_of_each_kind_beyond_noise() -> None:
    effects = (
        hand_effect("batch", 1.3, 1.1),
        hand_effect("batch", 1.5, 1.2),
        hand_effect("engine", 1.6, 0.9),
        hand_effect("KV cache", 1.01, 1.005),
        hand_effect("placement", 1.4, 1.1),
    )
    best = best_effects(NextSteps(effects, (), None), "tokens_per_s_per_gpu")
    assert [(effect.change.kind, effect.change.after) for effect in best] == [
        ("batch", 1.5),
        ("placement", 1.4),
    ]


@pytest.mark.parametrize(("gain", "helps"), [(1.0199, False), (1.0201, True)])
def test_a_change_that_gains_less_than_a_fiftieth_is_not_offered_as_one_that_helps(
    gain: float, helps: bool
) -> None:
    assert hand_effect("batch", gain, 1.001).helps("tokens_per_s_per_gpu") == helps


def test_a_higher_ratio_that_is_slower_in_both_absolute_measures_does_not_help() -> None:
    slower = hand_effect("accelerator", 1.3, 1.2, tpot=0.7)
    gain = dict(slower.gain) | {"tokens_per_s_per_gpu": Band(0.7, 0.6, 0.8, 0.0)}
    assert not dataclasses.replace(slower, gain=gain).helps("speedup")


def test_another_drafter_says_that_its_accepted_length_is_from_another_source() -> None:
    gpt = advise(Scenario(acceptance="gpt-oss-20b-eagle3-mt-bench", model_id="gpt-oss-20b"))
    drafters = [change for change in changes(gpt) if change.kind == "drafter"]
    assert drafters
    for change in drafters:
        assert change.other_acceptance
        assert change.notes == ("other_length",)
        assert change.scenario.acceptance == change.curve


def test_a_dense_model_has_no_design_to_compare() -> None:
    assert (
        design_standing(
            load_setup(
                Scenario(acceptance="2.4@3", model_id="command-a", n_gpus=4, tensor_parallel=4)
            )
        )
        is None
    )


def test_a_design_change_can_be_made_the_scenario(steps: NextSteps) -> None:
    designs = [effect for effect in steps.effects if effect.change.kind == "design"]
    assert designs
    for effect in designs:
        moe = load_setup(effect.change.scenario).architecture.moe
        assert effect.change.after[:2] == (moe.n_experts, moe.n_active)


def test_the_caller_can_stop_between_evaluations(advice: Advice) -> None:
    class Stop(Exception):
        pass

    calls = []

    def pause() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Stop

    with pytest.raises(Stop):
        next_steps(advice, pause)
    assert len(calls) == 3


def test_the_document_points_to_the_best_and_links_each_change(steps: NextSteps) -> None:
    document = steps_document(steps)
    place = document["best"]["tpot"][0]
    assert document["tried"][place]["what"] == what_text(best_effects(steps, "tpot")[0].change)
    for entry in document["tried"]:
        if entry["kind"] != "design":
            assert Scenario.from_query(entry["share_query"]) in {
                effect.change.scenario for effect in steps.effects
            }


def test_a_baseline_that_does_not_fit_is_said_to_before_any_design_is_praised() -> None:
    scenario = Scenario(
        n_gpus=4, tensor_parallel=4, model_id="qwen3-235b-a22b", batch_size=200, acceptance="2.6@3"
    )
    standing = design_standing(load_setup(scenario))
    assert standing.facts["problem"] == "memory"
    assert standing_text(standing).startswith("The baseline does not fit in memory")


def test_a_measured_baseline_is_priced_by_its_own_rows_as_serve_has_it() -> None:
    scenario = Scenario(
        n_gpus=4, tensor_parallel=4, model_id="qwen3-235b-a22b", batch_size=32, acceptance="2.6@3"
    )
    advice = advise(scenario)
    standing = design_standing(advice.setup)
    space = standing.space
    served = space.baseline.served
    assert space.gap is not None
    assert served.speedup[0, 0] == pytest.approx(advice.recommendation.speedup.value)
    assert served.tpot_s[0, 0] == pytest.approx(advice.recommendation.tpot_s)
    assert served.tpot_s[0, 0] != pytest.approx(space.baseline.by_fit.tpot_s[0, 0], rel=1e-3)
    assert all("other_model" in change.notes for change, _ in design_changes(scenario, standing))


def record(kind: str, right: float, low: float = 0.8, high: float = 1.25) -> RatioRecord:
    return RatioRecord(kind, "", "", 300, 9, 270, right, low, high)


def test_a_change_whose_direction_measured_pairs_do_not_bear_out_is_refused_with_their_share(
    advice: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (record("engine", 0.5), record("weights", 0.9))
    monkeypatch.setattr(ratios, "read_ratios", lambda: known)
    found = next_steps(advice)
    why = [refused for change, refused in found.refused if change.kind == "engine"]
    assert why
    assert {refused.reason for refused in why} == {"unproven"}
    assert {(refused.doubt.kind, refused.doubt.right) for refused in why} == {("engine", 0.5)}
    assert not [effect for effect in found.effects if effect.change.kind == "engine"]
    assert len(unoffered_texts(found)) == len(why)
    assert [effect for effect in found.effects if effect.change.kind == "weights"]


def test_a_band_is_no_narrower_than_measured_ratios_of_its_kind_were_off(
    advice: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = next(change for change in changes(advice) if change.kind == "batch")
    monkeypatch.setattr(ratios, "read_ratios", lambda: (record("batch", 0.9, low=0.5, high=1.25),))
    wide = evaluate(advice, change)
    monkeypatch.setattr(ratios, "read_ratios", lambda: ())
    drawn = evaluate(advice, change)
    assert isinstance(wide, Effect)
    assert isinstance(drawn, Effect)
    gain = wide.gain["tpot"]
    assert gain.value == drawn.gain["tpot"].value
    assert (gain.low, gain.high) == pytest.approx(
        (gain.value / 2.0, gain.value * 2.0)
    )  # even: pairs had some order
    assert 0.0 < gain.chance < 1.0
    assert (
        wide.gain["speedup"] == drawn.gain["speedup"]
    )  # no pair was measured with and without speculation
