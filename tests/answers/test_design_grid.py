"""The design space: agreement with the single-scenario path, equal quality, constraints,
monotonicity."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.answer import binding_constraints, infeasible, one_law_best
from advisor.answers.design.candidates import setup_of
from advisor.answers.design.dials import experts_of
from advisor.answers.design.grid import (
    CONSTRAINTS,
    DesignGrid,
    Mixes,
    bodies,
    design_architecture,
    moe_shape,
    weights,
)
from advisor.answers.design.search import design_space
from advisor.answers.design.space import (
    DesignSpace,
    arms,
    make_body,
    over_widths,
    served,
    sizes,
    touched_by,
)
from advisor.answers.design.start import experts_config, routing_in_serve
from advisor.catalog.models import load_model
from advisor.catalog.routing_presets import load_routing_preset
from advisor.catalog.routing_shift import (
    class_routing,
    shifted_preset,
    shifted_routing,
    write_moved,
)
from advisor.physics.architecture import parameter_counts
from advisor.physics.memory import memory_fit
from advisor.physics.quality import activation_ratio, dense_equivalent, granularity, training_flops
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import Setup, by_form
from advisor.prediction import AdvisorError, Array
from advisor.show.phrases.book import CONSTRAINTS_TEXT
from advisor.show.words.design import infeasible_text

SMALL = DesignGrid(
    n_experts=(32, 64, 128, 256), n_active=(1, 2, 4, 8, 16), n_shared=(0, 1, 2), width_step=64
)
PLACES: dict[str, dict[str, Any]] = {
    "qwen3-30b-a3b": {},
    "mixtral-8x7b": {"n_gpus": 2, "tensor_parallel": 2},
    "deepseek-v3": {"n_gpus": 8, "tensor_parallel": 8, "drafter_id": "mtp"},
    "gpt-oss-20b": {},
    "command-a-plus": {"n_gpus": 4, "tensor_parallel": 4, "weight_dtype": "fp8"},
    "longcat-flash": {"n_gpus": 8, "tensor_parallel": 8},
    "nemotron-3-nano": {},
    "qwen1.5-moe-a2.7b": {},
}


def scenario(model_id: str = "qwen3-30b-a3b", **changes: Any) -> Scenario:
    given = (
        {"hardware_id": "h200-sxm", "acceptance": "2.4@3", "batch_size": 16}
        | PLACES[model_id]
        | changes
    )
    return build_scenario(model_id=model_id, **given)


@lru_cache(maxsize=32)
def space(
    model_id: str = "qwen3-30b-a3b", batches: tuple[int, ...] = (16,), **options: Any
) -> DesignSpace:
    return design_space(scenario(model_id), grid=SMALL, batches=batches, **options)


@pytest.mark.parametrize("model_id", PLACES)
def test_arrays_of_designs_weigh_what_the_single_architecture_weighs(model_id: str) -> None:
    setup = load_setup(scenario(model_id))
    body = make_body(setup, setup.architecture)
    rng = np.random.default_rng(3)
    for _ in range(5):
        n = int(rng.choice([16, 64, 256]))
        k = int(rng.integers(1, 9))
        s = float(rng.integers(0, 3))
        width = 64 * int(rng.integers(4, 20))
        mix = Mixes(np.array([float(n)]), np.array([float(k)]), np.array([s]))
        single = design_architecture(setup.architecture, n, k, s, width)
        counts = parameter_counts(single)
        found = weights(setup.architecture, moe_shape(setup.architecture, mix, width))
        # zero experts come in whole numbers in a file and in proportion here: at most half an
        # expert's router column
        assert float(found.total[0]) == pytest.approx(counts.total, rel=1e-6)
        assert float(found.active[0]) == pytest.approx(
            counts.active_nonembedding, rel=1e-3 if single.moe.zero_experts else 1e-9
        )  # type: ignore[union-attr]
        assert found.attention == counts.attention
        candidate = dataclasses.replace(setup, architecture=single)
        per_pass = _own_pass(candidate)
        fit = memory_fit(
            single, setup.placement, setup.hardware.memory_bytes.value, 2048, 2.0, per_pass
        )
        size = sizes(body, mix, np.array([float(width)]))
        assert float(size.bytes_each_gpu[0]) == pytest.approx(
            fit.weights_bytes + fit.drafter_bytes, rel=1e-6
        )
        assert abs(float(size.largest_batch[0]) - fit.largest_batch) <= 1


def _own_pass(setup: Setup):  # type: ignore[no-untyped-def]
    per_pass = setup.draft_architecture
    if per_pass is not None and per_pass.moe is not None and setup.drafter.kind == "mtp":
        return per_pass.model_copy(
            update={"moe": setup.architecture.moe.model_copy(update={"count": 1})}
        )
    return per_pass


def by_fit(found: DesignSpace) -> tuple[Array, Array]:
    """Speedup and time per token of all designs by the fit, not carried to the start's own."""
    served = found.baseline.served
    fit = found.baseline.by_fit
    lost = fit.speedup / served.speedup
    drafts = found.n_draft > 0
    times = fit.tpot_s / served.tpot_s
    return found.speedup * np.where(drafts, lost, 1.0), found.tpot_s * times * np.where(
        drafts, 1.0, lost
    )


@pytest.mark.parametrize(
    "model_id",
    [
        "qwen3-30b-a3b",
        "deepseek-v3",
        "command-a-plus",
        "mixtral-8x7b",
        "nemotron-3-nano",
        "longcat-flash",
    ],
)
def test_a_design_of_the_space_equals_the_same_design_as_a_scenario_of_its_own(
    model_id: str,
) -> None:
    found = space(model_id, (4, 64))
    speedup, tpot_s = by_fit(found)
    rng = np.random.default_rng(5)
    for index in rng.choice(len(found), 6, replace=False):
        curve = curve_for(setup_of(found, int(index)), found.question.batches)
        best = curve.speedup.argmax(axis=1)
        rows = np.arange(2)
        assert speedup[:, index] == pytest.approx(curve.speedup[rows, best], rel=1e-5)
        assert tpot_s[:, index] == pytest.approx(curve.tpot_s[rows, best], rel=1e-5)
        assert found.n_draft[:, index].tolist() == curve.drafts[best].tolist()


def test_designs_on_one_gpu_wait_for_the_host_s_share_of_a_round_there() -> None:
    setup = load_setup(scenario())
    setup = dataclasses.replace(
        setup, costs=dataclasses.replace(setup.costs, host_one_gpu_share=0.2)
    )
    found = design_space(setup, grid=SMALL, batches=(4, 64))
    _, tpot_s = by_fit(found)
    for index in (7, len(found) // 2):
        curve = curve_for(setup_of(found, index), found.question.batches)
        assert tpot_s[:, index] == pytest.approx(curve.tpot_s.min(axis=1), rel=1e-5)


def test_expert_parallel_designs_and_prefill_follow_the_single_path_too() -> None:
    asked = scenario(
        n_gpus=4,
        tensor_parallel=2,
        expert_parallel=4,
        batch_size=64,
        input_tokens=500,
        output_tokens=250,
    )
    found = design_space(asked, grid=SMALL)
    _, tpot_s = by_fit(found)
    assert np.all(found.n_experts % 4 == 0)
    for index in (7, len(found) // 2):
        curve = curve_for(setup_of(found, index), [64])
        token_s = 64 / (
            4 * curve.tokens_per_s_per_gpu.max()
        )  # a design's time per token holds its own prompt's prefill
        assert float(tpot_s[0, index]) == pytest.approx(token_s, rel=1e-5)


def test_the_baseline_of_the_space_is_the_scenario_itself() -> None:
    found = space(batches=(1, 16, 256))
    curve = curve_for(by_form(load_setup(scenario())), [1, 16, 256])
    assert found.baseline.by_fit.speedup[:, 0] == pytest.approx(
        curve.speedup.max(axis=1), rel=1e-12
    )
    assert found.baseline.dense_equivalent == pytest.approx(13.5e9, rel=0.005)


@pytest.mark.parametrize("lengths", [{}, {"input_tokens": 9000, "output_tokens": 100}])
def test_all_widths_from_two_evaluations_equal_one_evaluation_each(lengths: dict[str, int]) -> None:
    setup = load_setup(scenario(**lengths))
    body = make_body(setup, setup.architecture)
    mix = Mixes(np.array([64.0, 128.0]), np.array([4.0, 8.0]), np.array([0.0, 2.0]))
    width = np.array([256.0, 800.0, 2048.0])
    batches = np.array([1.0, 300.0])
    drafts = np.arange(1, 9)
    touched = touched_by(
        setup, mix, shifted_routing(None, (128, 8, 0), *vars(mix).values()), batches, drafts
    )
    blocks = list(over_widths(body, mix, width, touched, batches, drafts))
    assert len(blocks) == 1
    for column, one in enumerate(width):
        direct = served(setup, arms(body, mix, np.full(2, one), touched, batches, drafts), drafts)
        assert blocks[0][1].tpot_s[:, :, column] == pytest.approx(direct.tpot_s, rel=1e-12)


@pytest.mark.parametrize("model_id", ["qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3"])
def test_every_candidate_keeps_the_quality_and_contenders_are_the_ends_of_the_widths_that_do(
    model_id: str,
) -> None:
    found = space(model_id, objective="sd_speedup")
    floor = 0.99 * found.baseline.dense_equivalent
    contenders = found.width_ends(found.failed == 0)
    assert len(contenders) > 10
    assert found.quality[:, found.candidates].min() >= 0.99 - 1e-5
    assert set(contenders) <= set(found.candidates)
    for index in contenders:
        n = float(found.n_experts[index])
        k = float(found.n_active[index])
        s = float(found.n_shared[index])
        width = float(found.expert_width[index])
        single = setup_of(found, int(index)).architecture
        active = parameter_counts(single).active_nonembedding
        quality = dense_equivalent(
            active,
            activation_ratio(n, k, s),
            granularity(single.hidden_size, width),
            training_flops(active, None),
        )
        assert float(quality) >= floor * (1 - 1e-5)
        assert float(quality) / found.baseline.dense_equivalent == pytest.approx(
            float(found.quality[0, index]), rel=1e-5
        )
        same = (found.n_experts == n) & (found.n_active == k) & (found.n_shared == np.float32(s))
        others = found.expert_width[same & (found.failed == 0)]
        assert width in (others.min(), others.max())
        alone = space(model_id)
        narrowest = alone.width_ends(alone.failed == 0)
        assert set(narrowest) <= set(contenders), "by time per token the narrowest alone"
        narrower = np.flatnonzero(same & (found.expert_width < others.min()) & (found.failed == 1))
        assert np.all(found.quality[:, narrower].min(axis=0) < 0.99)


@pytest.mark.parametrize("objective", ["tpot", "sd_speedup", "tokens_per_s_per_gpu"])
@pytest.mark.parametrize("batch", [1, 16, 512])
def test_no_width_within_the_limits_beats_the_best_and_a_contender_is_the_best(
    objective: Any, batch: int
) -> None:
    """Of all designs at equal quality, wide ones too; fewer laws leave at least as good a one."""
    found = space(batches=(batch,), objective=objective, max_total_params=6e10)
    if batch == 512:
        found = design_space(
            scenario(n_gpus=4, tensor_parallel=4), grid=SMALL, batches=[512], objective=objective
        )
    assert found.best is not None
    assert found.score[found.best] == found.score[found.failed == 0].max()
    assert found.score[found.width_ends(found.failed == 0)].max() == pytest.approx(
        found.score[found.best], rel=1e-6
    )
    alone = one_law_best(found)
    assert alone is not None
    assert found.score[alone] >= found.score[found.best]


def test_candidates_stay_within_every_rail_and_the_rails_bind() -> None:
    found = space()
    index = found.candidates
    activation = activation_ratio(
        found.n_experts[index], found.n_active[index], found.n_shared[index]
    )
    assert activation.min() >= 0.008
    assert np.all(found.n_active[index] >= 2)
    assert np.all(
        found.n_shared[index] / (found.n_active[index] + found.n_shared[index]) <= 1 / 3 + 1e-6
    )
    attention = parameter_counts(load_model("qwen3-30b-a3b")).attention / found.active_params[index]
    assert attention.min() >= 0.2
    assert attention.max() <= 0.5
    best_of_all = found.score[found.quality.min(axis=0) >= 0.99].max()
    assert best_of_all > found.score[found.best], (
        "without the rails the search would take another design"
    )


def test_a_rail_that_costs_the_most_is_named_with_the_design_it_keeps_out() -> None:
    found = space(objective="tpot")
    first = binding_constraints(found)[0]
    assert first.constraint in ("attention_share", "shared_share")
    assert found.failed_names(first.index) == [first.constraint]
    assert found.score[first.index] == found.score[found.failed == found.failed[first.index]].max()
    assert first.gain > 1.05


def test_the_baseline_itself_is_always_feasible_where_its_memory_is() -> None:
    for model_id in ("qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "command-a-plus"):
        found = space(model_id)
        own = found.baseline
        index = np.flatnonzero(
            (found.n_experts == own.n_experts)
            & (found.n_active == own.n_active)
            & (found.body == 0)
            & (found.n_shared == np.float32(own.n_shared))
            & (found.expert_width == own.expert_width)
        )
        assert [found.failed_names(int(i)) for i in index] == [[]], model_id


def test_a_larger_quality_loss_never_makes_the_best_worse() -> None:
    scores = [space(quality_eps=eps, objective="tpot") for eps in (0.0, 0.02, 0.1)]
    best = [found.score[found.best] for found in scores]
    assert best[0] <= best[1] <= best[2]
    assert best[2] > best[0]


def test_a_time_limit_leaves_only_designs_that_keep_it_at_every_batch() -> None:
    free = space(batches=(1, 64))
    limit = float(np.median(free.tpot_s[:, free.candidates].max(axis=0))) * 1e3
    found = space(batches=(1, 64), max_tpot_ms=limit)
    assert 0 < len(found.candidates) < len(free.candidates)
    assert found.tpot_s[:, found.candidates].max() * 1e3 <= limit


def test_when_nothing_fits_the_binding_constraint_and_the_nearest_design_are_named() -> None:
    found = design_space(scenario(), grid=SMALL, max_memory_bytes=8e9)
    assert found.best is None
    answer = infeasible(found)
    assert answer.breaks == ("memory",)
    only_memory = found.failed == 1 << CONSTRAINTS.index("memory")
    assert found.violation[answer.nearest] == found.violation[only_memory].min()
    assert answer.ruled_out["memory"] == len(found) == answer.n_designs
    assert answer.mostly_memory
    assert answer.largest_batch == found.largest_batch[answer.nearest]


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        ({"max_tpot_ms": 0.05}, "tpot"),
        ({"max_total_params": 1e8}, "total_params"),
        ({"max_training_cost": 0.1}, "training_cost"),
    ],
)
def test_the_remedy_goes_by_the_limit_that_is_broken(limits: dict[str, float], broken: str) -> None:
    found = design_space(scenario(), grid=SMALL, **limits)
    answer = infeasible(found)
    assert broken in answer.breaks
    assert "memory" not in answer.breaks
    raised = CONSTRAINTS_TEXT[broken].removeprefix("the ")
    assert raised in infeasible_text(found, answer).split("%. ")[1]


def test_designs_that_fit_but_are_too_weak_ask_for_more_memory() -> None:
    found = design_space(scenario(), grid=SMALL, max_memory_bytes=40e9)
    answer = infeasible(found)
    assert answer.breaks == ("quality",)
    assert answer.mostly_memory


def test_a_histogram_lies_between_its_batches_and_follows_its_weights() -> None:
    times = [
        1.0 / design_space(scenario(), grid=SMALL, objective="tpot", batches=b).score
        for b in ({1: 1.0}, {1: 0.75, 128: 0.25}, {128: 1.0})
    ]
    assert times[1] == pytest.approx(0.75 * times[0] + 0.25 * times[2])


def test_throughput_and_cost_rank_designs_alike() -> None:
    throughput = space(objective="tokens_per_s_per_gpu")
    cost = space(objective="cost_per_million_tokens", price_usd_per_hour=3.6)
    assert throughput.candidates.tolist() == cost.candidates.tolist()
    tokens = throughput.score[throughput.best]
    assert cost.question.value(cost.score[cost.best]) == pytest.approx(3.6 / 3600 / tokens * 1e6)


def test_depth_and_heads_can_be_searched_and_the_quality_still_holds() -> None:
    grid = SMALL.model_copy(update={"depth_factors": (0.75, 1.25), "head_factors": (0.5, 1.0)})
    found = design_space(scenario(), grid=grid)
    assert len(found.bodies) == 5
    layers = {sum(m.count for m in body.architecture.mixers) for body in found.bodies}
    assert layers == {48, 36, 60}
    assert {body.architecture.mixers[0].kv_shards for body in found.bodies} == {2, 4}
    assert found.quality[:, found.candidates].min() >= 0.99 - 1e-5
    index = int(np.flatnonzero(found.body == 1)[100])
    curve = curve_for(setup_of(found, index), [16])
    assert float(by_fit(found)[1][0, index]) == pytest.approx(float(curve.tpot_s.min()), rel=1e-5)


def test_heads_of_a_latent_cache_are_not_searched() -> None:
    with pytest.raises(AdvisorError, match="plain attention"):
        bodies(DesignGrid(head_factors=(0.5,)), load_model("deepseek-v3"))


def test_the_baseline_keeps_its_own_routing_band_included() -> None:
    preset = load_routing_preset("qwen3-30b-a3b")
    assert shifted_preset(preset, (128, 8, 0), 128, 8, 0) is preset
    for end, field in (("value", "value"), ("low", "high"), ("high", "low")):
        found = shifted_routing(preset, (128, 8, 0), 128, 8, 0, end)
        stated = [
            getattr(getattr(preset, name), field) for name in ("load_cv", "affinity", "stickiness")
        ]
        assert [float(x) for x in vars(found).values()] == pytest.approx(stated)


def test_a_design_opened_in_serve_has_the_routing_and_the_time_that_it_was_compared_by() -> None:
    found = design_space(scenario(), grid=SMALL)
    index = next(
        int(i)
        for i in np.flatnonzero(found.body == 0)
        if found.n_experts[i] == 64 and found.n_shared[i] == 1
    )
    experts = experts_of(found, index)
    own = {"model_id": "own", "model_config_json": json.dumps(experts_config(found, experts))}
    text = routing_in_serve(found, experts)
    opened = load_setup(build_scenario(**(dict(found.setup.scenario) | own | {"routing": text})))
    at = curve_for(by_form(opened), [16], [int(found.n_draft[0, index])], central_only=True)
    assert float(by_fit(found)[1][0, index]) == pytest.approx(float(at.tpot_s[0, 0]), rel=1e-4)
    assert opened.routing_because.startswith("Moved from")
    other = load_setup(scenario().model_copy(update={"routing": text}))
    assert other.routing == load_setup(scenario()).routing, "a model of other counts has its own"
    for wrong in (
        "128/8",
        "0/0/0,128/8/0",
        "nan/8/0,128/8/0",
        "inf/8/0,128/8/0",
        "128/8/-1,128/8/0",
    ):
        with pytest.raises(AdvisorError, match="no moved routing; expected a preset"):
            load_setup(scenario().model_copy(update={"routing": f"qwen3-30b-a3b,{wrong}"}))
    assert write_moved(text, (1, 1, 1), (32, 2, 0)).split(",") == [*text.split(",")[:2], "32/2/0"]


def test_the_class_presets_are_met_at_their_own_shapes() -> None:
    shapes = {
        "class-fine-no-shared": (128, 8, 0),
        "class-quarter-shared": (64, 6, 2),
        "class-half-shared": (64, 8, 8),
        "class-coarse-top2": (8, 2, 0),
    }
    for name, shape in shapes.items():
        preset = load_routing_preset(name)
        stated = [preset.load_cv.value, preset.affinity.value, preset.stickiness.value]
        assert [float(x) for x in class_routing(*shape)] == pytest.approx(stated), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "fastest"}, "choose one of tpot"),
        ({"quality_eps": 1.5}, "0.02"),
        ({"training_tokens": -1.0}, "training_tokens"),
        ({"max_memory_bytes": 0.0}, "max_memory_bytes"),
        ({"batches": [0]}, "whole numbers"),
        ({"batches": {1: 0.0}}, "positive sum"),
        ({"grid": DesignGrid(n_experts=(0,))}, "experts: expected whole numbers"),
        ({"grid": DesignGrid(expert_width=(7,)), "batches": [1]}, None),
        (
            {"grid": DesignGrid(n_experts=tuple(range(1, 1000)), n_active=tuple(range(1, 200)))},
            "too many",
        ),
        (
            {
                "grid": DesignGrid(width_step=1, depth_factors=(0.8, 1, 1.2)),
                "batches": range(1, 400),
            },
            "combinations",
        ),
    ],
)
def test_a_wrong_question_is_refused_with_what_to_do(
    options: dict[str, Any], message: str | None
) -> None:
    if message is None:  # a width no rank can hold leaves the baseline's own
        assert set(design_space(scenario(), **options).expert_width.tolist()) == {768}
        return
    with pytest.raises(AdvisorError, match=message):
        design_space(scenario(), **options)


def test_without_a_drafter_designs_are_compared_by_their_plain_step_only() -> None:
    plain = scenario(drafter_id="none", acceptance="2.4@3")
    with pytest.raises(AdvisorError, match="objective tpot"):
        design_space(plain, grid=SMALL, objective="sd_speedup")
    found = design_space(plain, grid=SMALL)
    assert np.all(found.n_draft == 0)
    assert found.score[found.best] > found.baseline.score


def test_a_dense_baseline_and_an_unknown_price_are_refused() -> None:
    with pytest.raises(AdvisorError, match="mixture-of-experts"):
        design_space(build_scenario(model_id="qwen3-8b", acceptance="2.4@3"))
    setup = load_setup(scenario())
    unpriced = dataclasses.replace(
        setup, hardware=setup.hardware.model_copy(update={"price_usd_per_hour": None})
    )
    with pytest.raises(AdvisorError, match="tokens_per_s_per_gpu"):
        design_space(unpriced, objective="cost_per_million_tokens")


def test_training_cost_is_the_active_size_over_the_baselines_and_can_be_limited() -> None:
    free = space()
    capped = space(max_training_cost=1.0)
    assert free.active_params[free.candidates].max() > capped.baseline.active_params
    cost = capped.active_params[capped.candidates] / capped.baseline.active_params
    assert 0.5 < cost.max() <= 1.0
    over = np.flatnonzero((capped.failed > 0) & (free.failed == 0))
    assert {name for index in over[:50] for name in capped.failed_names(int(index))} == {
        "training_cost"
    }


@pytest.mark.parametrize("name", ["target_total_params", "target_active_params"])
def test_a_target_size_is_kept_from_both_sides(name: str) -> None:
    sizes = "total_params" if "total" in name else "active_params"
    target = 1.1 * float(np.median(getattr(space(), sizes)[space().candidates]))
    found = space(**{name: target})
    reached = getattr(found, sizes)[found.candidates]
    assert len(reached)
    assert np.all((reached <= 1.05 * target * 1.0001) & (reached >= target / 1.05 / 1.0001))
    with pytest.raises(AdvisorError, match=name):
        space(**{name: -1.0})


@pytest.mark.parametrize("sizes", ["64", "none"])
def test_designs_run_in_the_graphs_that_a_curve_runs_in(sizes: str) -> None:
    """Steps above 64 tokens wait for their launches, others are padded: as on each design's own
    curve."""
    asked = scenario(engine_version="0.24.0", graph_sizes=sizes)
    found = design_space(asked, grid=SMALL, batches=(3, 16, 64))
    speedup, tpot_s = by_fit(found)
    gains = (found.baseline.served.speedup / found.baseline.by_fit.speedup)[:, 0]
    for index in (0, len(found) // 2, len(found) - 1):
        curve = curve_for(setup_of(found, index), found.question.batches)
        best = curve.speedup.argmax(axis=1)
        rows = np.arange(3)
        best[curve.speedup[rows, best] * gains <= 1.0] = 0  # carried to the start it would lose
        assert found.n_draft[:, index].tolist() == curve.drafts[best].tolist()
        assert speedup[:, index] == pytest.approx(curve.speedup[rows, best], rel=1e-5)
        assert tpot_s[:, index] == pytest.approx(curve.tpot_s[rows, best], rel=1e-5)
