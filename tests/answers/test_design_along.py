"""The start along k/N and along shared experts: its own figures, physics, stretches and zones."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.design.along import NEAR_MOST, Along, along_ratio, along_shared
from advisor.answers.design.dials import baseline_experts, costed
from advisor.answers.design.grid import DesignGrid, Mixes
from advisor.answers.design.search import design_space, serve
from advisor.answers.design.space import DesignSpace, arms, touched_by
from advisor.catalog.models import load_model, model_ids
from advisor.catalog.routing_shift import shifted_routing
from advisor.predict.scenario import Scenario, build_scenario, example_ids, load_example
from advisor.prediction import AdvisorError

SMALL = DesignGrid(n_experts=(64, 128), n_active=(2, 4, 8), n_shared=(0, 1), width_step=512)
MEASURED = {
    "qwen3-235b-a22b": {"n_gpus": 4, "tensor_parallel": 4},
    "mixtral-8x7b": {"n_gpus": 2, "tensor_parallel": 2},
    "qwen3-30b-a3b": {},
    "gpt-oss-120b": {"hardware_id": "b200-sxm"},
}
ROUTED = [model_id for model_id in model_ids() if load_model(model_id).moe is not None]


def asked(model_id: str, batch: int = 32, **changes: object) -> Scenario:
    return build_scenario(model_id=model_id, batch_size=batch, acceptance="2.6@3", **changes)


@lru_cache(maxsize=16)
def space(model_id: str, batch: int = 32) -> DesignSpace:
    return design_space(asked(model_id, batch, **MEASURED.get(model_id, {})), grid=SMALL)


def _shipped() -> list[Scenario]:
    examples = [load_example(example).scenario for example in example_ids()]
    mixed = [item for item in examples if load_model(item.model_id).moe is not None]
    return [*mixed, *(asked(model_id, **place) for model_id, place in MEASURED.items())]


@pytest.mark.parametrize("scenario", _shipped(), ids=lambda scenario: scenario.model_id)
@pytest.mark.parametrize("batch", [4, 48])
def test_serve_and_design_give_one_time_one_speedup_and_one_k_for_a_setup(
    scenario: Scenario, batch: int
) -> None:
    scenario = scenario.model_copy(update={"batch_size": batch})
    answer = advise(scenario).recommendation
    found = design_space(scenario, grid=SMALL)
    today = costed(found, baseline_experts(found))
    assert today.tpot_s == pytest.approx(answer.tpot_s, rel=1e-9)
    assert today.n_draft == (answer.n_draft,)
    assert today.speedup == pytest.approx(answer.speedup.value, rel=1e-9)
    along = along_ratio(found)
    assert along.batches[along.target] == batch
    assert along.gain[along.target, along.start] == pytest.approx(answer.speedup.value, rel=1e-9)


@pytest.mark.parametrize("model_id", ["qwen3-30b-a3b", "mixtral-8x7b"])
def test_a_design_has_the_ratio_to_the_start_that_the_fit_has(model_id: str) -> None:
    found = space(model_id)
    baseline = found.baseline
    carried = baseline.served.tpot_s[0, 0] / baseline.by_fit.tpot_s[0, 0]
    assert abs(carried - 1.0) > 1e-3, "measured apart from the fit, or nothing is tested"
    along = along_ratio(found)
    own = costed(found, baseline_experts(found))
    for design, time in zip(along.designs, along.time[along.target], strict=True):
        assert costed(found, design).tpot_s / own.tpot_s == pytest.approx(time, rel=1e-6)
    index = np.arange(0, len(found), 37)
    mixes = found.mix(index)
    by_fit = serve(
        found, found.bodies[0], mixes, found.expert_width[index].astype(float), np.array([32.0])
    )
    ratio = by_fit.tpot_s[0] / baseline.by_fit.tpot_s[0, 0]
    assert found.tpot_s[0, index] / baseline.served.tpot_s[0, 0] == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize("model_id", ROUTED)
def test_a_step_never_gets_faster_as_k_grows(model_id: str) -> None:
    """Plain steps and rounds of every K, at every plotted batch and k/N: more active experts load
    and compute no less."""
    try:
        found = design_space(
            asked(model_id, n_gpus=8, tensor_parallel=8, drafter_id="eagle3"), grid=SMALL
        )
    except AdvisorError as error:
        pytest.skip(str(error))
    along = along_ratio(found)
    counts = np.array(along.designs, float)
    mix = Mixes(*counts[:, :3].T)
    body = found.bodies[0]
    routing = shifted_routing(body.setup.routing, found.baseline.counts, *mix.counts)
    touched = touched_by(body.setup, mix, routing, along.batches, found.drafts)
    times = arms(body, mix, counts[:, 3], touched, along.batches, found.drafts)
    assert np.all(np.diff(times.plain_s, axis=-1) >= -1e-12)
    assert np.all(np.diff(times.round_s, axis=-1) >= -1e-12)


def test_k_over_n_goes_to_twice_the_start_s_or_an_eighth_and_the_start_is_even() -> None:
    for model_id, most in (("qwen3-30b-a3b", 16), ("mixtral-8x7b", 4)):
        along = along_ratio(space(model_id))
        active = [design.n_active for design in along.designs]
        assert active == sorted({*active})
        assert (active[0], active[-1]) == (1, most)
        assert along.designs[along.start] == baseline_experts(space(model_id))
        assert along.time[:, along.start] == pytest.approx(1.0)
        assert along.losing[along.start] == 0
        assert along.losing[0] == 3, "one of the start's experts alone is worse by every law"
        assert len({design.expert_width for design in along.designs}) == 1


def test_the_batch_that_is_asked_about_takes_the_place_of_the_nearest() -> None:
    assert along_ratio(space("qwen3-30b-a3b", 32)).batches.tolist() == [1, 8, 32, 128, 512]
    assert along_ratio(space("qwen3-30b-a3b", 48)).batches.tolist() == [1, 8, 48, 128, 512]


def test_shared_experts_move_alone_to_twice_the_start_s() -> None:
    along = along_shared(space("qwen3-30b-a3b"))
    assert [design.n_shared for design in along.designs] == [0, 1, 2, 3, 4]
    assert len({design._replace(n_shared=0.0) for design in along.designs}) == 1


def test_a_stretch_holds_the_most_and_all_about_it_that_is_as_good_and_zones_cover_all() -> None:
    gain = np.array([[1.0, 1.98, 2.0, 1.95, 1.9, 2.0], [1.5, 1.5, 1.5, 1.5, 1.5, 1.5]])
    along = Along(
        designs=(),
        start=0,
        batches=np.array([1.0, 8.0]),
        target=0,
        fits=np.array([True, True]),
        gain=gain,
        time=np.ones_like(gain),
        losing=np.array([3, 3, 1, 0, 0, 2]),
    )
    assert along.most == (2, 0)
    assert along.near == ((1, 3), (0, 5))
    assert NEAR_MOST == 0.03
    assert along.zones == ((0, 1, 2), (2, 2, 1), (3, 4, 0), (5, 5, 1))


@pytest.mark.parametrize("batch", [8, 32])
def test_drafting_gains_most_where_the_curves_are_highest(batch: int) -> None:
    along = along_ratio(space("qwen3-30b-a3b", batch))
    facts = along.facts
    assert (facts["small_batch"], facts["large_batch"]) == (8, 512)
    assert facts["small"] == along.designs[int(along.gain[1].argmax())]
    assert facts["large"] == along.designs[int(along.gain[-1].argmax())]
    active = [along.designs[most].n_active for most in along.most[1:]]
    assert facts["sparser"] == (active == sorted(active, reverse=True) and active[0] > active[-1])
