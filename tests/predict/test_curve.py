"""The curve: identities between its parts, bands, tiers, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.fit_records import class_costs
from advisor.physics import bands, laws
from advisor.physics.bands import (
    DRIFT_LOG_SD,
    MAX_DRAFT,
    PER_K_LOG_SD,
    SHARED_LOG_SD,
    Draws,
    make_draws,
    unseen_ends,
    unseen_gain,
)
from advisor.physics.components import COMPONENTS
from advisor.physics.draft import draft_time
from advisor.physics.notes import Note, Rank
from advisor.physics.step import MoeShape, StepTime, routed_time, step_time
from advisor.predict.curve import (
    DEFAULT_BATCHES,
    SCHEDULE_BATCHES,
    batches_with,
    curve_columns,
    curve_for,
    curve_rows,
    graph_edges,
    speedup_curve,
    verified_parts,
    verified_time,
)
from advisor.predict.load import load_setup, with_costs
from advisor.predict.prefill import prompt_cost
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import Setup, touched_in_pass
from advisor.predict.tiers import beyond_log_sd
from advisor.prediction import BAND_SIGMAS, AdvisorError

QWEN = Scenario(
    hardware_id="h200-sxm",
    model_id="qwen3-30b-a3b",
    drafter_id="eagle3",
    acceptance="2.4@3",
    batch_size=16,
)
DENSE = QWEN.model_copy(update={"model_id": "qwen3-8b"})
BATCHES = [1, 4, 16, 64, 256]


def test_k_0_is_plain_decode_components_add_up_and_the_range_holds_the_centre() -> None:
    curve = speedup_curve(QWEN, BATCHES)
    for values in (curve.speedup, curve.low, curve.high, curve.verify_ratio):
        assert values[:, 0] == pytest.approx(1.0)
    assert curve.round_s[:, 0] == pytest.approx(curve.plain_step_s)
    assert sum(curve.round_components.values()) == pytest.approx(curve.round_s)
    assert sum(curve.plain_components.values()) == pytest.approx(curve.plain_step_s)
    assert curve.speedup == pytest.approx(
        curve.accepted_length * curve.plain_step_s[:, None] / curve.round_s
    )
    assert curve.tpot_s == pytest.approx(curve.plain_step_s[:, None] / curve.speedup)
    assert np.all(curve.low <= curve.speedup)
    assert np.all(curve.speedup <= curve.high)


def test_a_dense_model_touches_no_experts_and_its_ratio_only_rises_with_batch() -> None:
    curve = speedup_curve(DENSE, BATCHES)
    assert np.all(curve.touched_verify == 0)
    assert np.all(np.diff(curve.verify_ratio[:, 3]) > 0)


def test_a_k_is_found_on_the_curves_axis_or_refused_with_what_there_is() -> None:
    curve = speedup_curve(QWEN, [1, 16], [0, 2, 3])
    assert curve.column(3) == 2
    with pytest.raises(AdvisorError, match="K = 1 is not in the curve, which has K = 0 to 3"):
        curve.column(1)


def test_a_curve_of_central_values_has_those_of_the_whole_curve_and_its_range() -> None:
    setup = load_setup(
        Scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3")
    )
    whole = curve_for(setup, [1.0, 16.0, 256.0], central_only=False)
    central = curve_for(setup, [1.0, 16.0, 256.0], central_only=True)
    for name in (
        "speedup",
        "tpot_s",
        "tokens_per_s_per_gpu",
        "round_s",
        "plain_step_s",
        "verify_ratio",
        "low",
        "high",
        "p_gain",
    ):
        assert np.array_equal(getattr(whole, name), getattr(central, name)), name
    assert (whole.tier == central.tier).all()
    assert np.array_equal(central.draws, central.speedup[None])


def draws(**given: object) -> Draws:
    """One draw without any error, but for what is given."""
    zero = np.zeros(1)
    none = {
        "factor": {one.key: np.ones(1) for one in COMPONENTS},
        "routing_z": zero,
        "acceptance_z": zero,
        "residual_z": zero,
        "per_k_z": np.zeros((1, MAX_DRAFT + 1)),
    }
    return Draws(**(none | given))  # type: ignore[arg-type]


def test_a_draw_without_errors_is_the_centre() -> None:
    curve = curve_for(load_setup(QWEN), [1, 16, 16384], draws=draws())
    assert curve.draws[0] == pytest.approx(curve.speedup)
    assert curve.plain_draws_s[0] == pytest.approx(curve.plain_step_s)


def test_what_nothing_explains_moves_all_k_but_plain_decoding_and_grows_with_batch_and_tokens() -> (
    None
):
    """Batch 16384 and K = 3: 65536 tokens are five doublings beyond the measured ones, the batch
    twelve beyond 4."""
    setup = load_setup(QWEN)
    curve = curve_for(setup, [4, 16, 16384], [0, 3], draws=draws(residual_z=np.ones(1)))
    assert curve.draws[0, :, 0].tolist() == [1.0] * 3
    beyond = np.array([0.0, 2 * DRIFT_LOG_SD, np.hypot(0.5, 12 * DRIFT_LOG_SD)])
    expected = np.sqrt(SHARED_LOG_SD**2 - PER_K_LOG_SD**2 + beyond**2)
    assert np.log(curve.draws[0, :, 1] / curve.speedup[:, 1]) == pytest.approx(expected)
    assert float(beyond_log_sd(65536)) == pytest.approx(0.5)


def test_a_draw_of_the_accepted_length_reaches_the_end_of_its_band() -> None:
    setup = load_setup(QWEN)
    up = curve_for(setup, [16], draws=draws(acceptance_z=np.array([BAND_SIGMAS])))
    down = curve_for(setup, [16], draws=draws(acceptance_z=np.array([-BAND_SIGMAS])))
    length = setup.acceptance
    assert up.draws[0, 0] / up.speedup[0] == pytest.approx(
        (length.high / length.accepted_length)[:9]
    )
    assert down.draws[0, 0] / up.speedup[0] == pytest.approx(
        (length.low / length.accepted_length)[:9]
    )


@pytest.mark.parametrize(("end", "z"), [("high", BAND_SIGMAS), ("low", -BAND_SIGMAS)])
def test_a_draw_of_the_routing_touches_as_many_experts_as_its_band_allows(
    end: str, z: float
) -> None:
    """The plain step and the verification alike; the draft head has no experts."""
    setup = load_setup(QWEN)
    curve = curve_for(setup, [16], [3], draws=draws(routing_z=np.array([z])))
    shape = MoeShape.of(setup.architecture)
    assert shape is not None
    plain, verify = (
        float(
            routed_time(
                setup.costs.routed,
                setup.placement,
                shape,
                16.0 * tokens,
                touched_in_pass(setup, 16.0, tokens, end),  # type: ignore[arg-type]
                "bf16",
                shape.count,
            )
        )
        for tokens in (1.0, 4.0)
    )
    rest = curve.plain_step_s[0] - curve.plain_components["routed"][0]
    assert curve.plain_draws_s[0, 0] == pytest.approx(rest + plain)
    whole = curve.round_s[0, 0] - curve.round_components["routed"][0, 0] + verify
    assert curve.draws[0, 0, 0] == pytest.approx(curve.accepted_length[0] * (rest + plain) / whole)


def test_a_slow_host_slows_both_arms_by_its_own_time() -> None:
    factor = {one.key: np.ones(1) for one in COMPONENTS} | {"host": np.array([3.0])}
    curve = curve_for(load_setup(QWEN), [16], [3], draws=draws(factor=factor))
    host = 2.0 * curve.plain_components["host"][0]
    assert curve.plain_draws_s[0, 0] == pytest.approx(curve.plain_step_s[0] + host)
    faster = (
        curve.accepted_length[0] * (curve.plain_step_s[0] + host) / (curve.round_s[0, 0] + host)
    )
    assert curve.draws[0, 0, 0] == pytest.approx(faster)


def drafted_s(setup: Setup, batch: object, k: object) -> object:
    """Time of the drafter's passes of a round at the scenario's context. [s]"""
    found = draft_time(
        setup.drafting,
        batch_size=batch,
        n_draft=k,
        context_tokens=float(setup.scenario.context_tokens),
        touched_one=touched_in_pass(setup, batch, 1.0),
    )
    return found.time_s(setup.costs.launch_per_layer_s)


def test_a_round_is_a_verification_a_draft_and_the_host_s_share_of_both() -> None:
    setup = load_setup(QWEN)
    curve = curve_for(setup, [4, 16], [0, 1, 3])
    costs = setup.costs
    k = np.array([0.0, 1.0, 3.0])
    parts = curve.round_components
    assert parts["draft"] == pytest.approx(drafted_s(setup, np.array([[4.0], [16.0]]), k))
    assert parts["draft_host"][1] == pytest.approx(k * costs.host_per_draft_pass_s)
    assert (
        parts["round_host"].tolist() == [[0.0, costs.host_per_round_s, costs.host_per_round_s]] * 2
    )
    own = {"draft", "draft_host", "round_host", "verified", "verify_tokens"}
    assert sum(time for name, time in parts.items() if name not in own) == pytest.approx(
        curve.verify_step_s
    )
    assert curve.verify_ratio == pytest.approx(curve.verify_step_s / curve.plain_step_s[:, None])
    verify = step_time(
        setup.architecture,
        costs,
        setup.placement,
        batch_size=16.0,
        tokens_per_sequence=4.0,
        context_tokens=float(QWEN.context_tokens),
        touched=touched_in_pass(setup, 16.0, 4.0),
        kv_bytes_per_element=setup.kv_bytes_per_element,
    )
    assert curve.verify_step_s[1, 2] == pytest.approx(float(verify.total))
    assert curve.touched_verify[1, 2] == pytest.approx(float(touched_in_pass(setup, 16.0, 4.0)))
    assert curve.touched_plain[1] == pytest.approx(float(touched_in_pass(setup, 16.0, 1.0)))


def test_a_draft_head_reads_a_cache_of_the_scenario_s_format() -> None:
    drafted = {}
    for dtype in ("bf16", "fp8"):
        setup = load_setup(QWEN.model_copy(update={"kv_dtype": dtype, "context_tokens": 32768}))
        drafted[dtype] = float(curve_for(setup, [64], [3]).round_components["draft"][0, 0])
        assert drafted[dtype] == pytest.approx(float(drafted_s(setup, 64.0, 3.0)))
    assert drafted["fp8"] < drafted["bf16"]


def test_a_drafter_of_the_models_own_experts_touches_those_of_one_token_a_sequence() -> None:
    """The MTP module of DeepSeek-V3 has experts, which its passes touch as a plain step does."""
    wide = {"n_gpus": 8, "tensor_parallel": 8, "model_id": "deepseek-v3", "drafter_id": "mtp"}
    setup = load_setup(QWEN.model_copy(update=wide))
    curve = curve_for(setup, [4, 64], [2])
    for row, batch in enumerate((4.0, 64.0)):
        found = curve.round_components["draft"][row, 0]
        assert found == pytest.approx(float(drafted_s(setup, batch, 2.0)))


def test_the_correction_for_verified_tokens_by_hand() -> None:
    """0.1 % a token of one of two attention groups: 4 tokens of 32 sequences are 0.128 / 1.128 of
    the way."""
    wide = QWEN.model_copy(update={"n_gpus": 2, "expert_parallel": 2})
    setup = load_setup(wide)
    setup = replace(setup, costs=replace(setup.costs, verified_per_token=0.001))
    steps = (
        StepTime({"host": np.array(1e-3), "launch": np.array(2e-3), "routed": np.array(7e-3)}),
        StepTime({"routed": np.array(15e-3)}),
    )
    parts = verified_parts(setup, steps, np.array(64.0), np.array(4.0))
    assert float(parts["verified"]) == pytest.approx(0.128 / 1.128 * (4 * 10e-3 - 15e-3 - 3 * 3e-3))
    assert float(parts["verify_tokens"]) == pytest.approx(0.03 * 10e-3 * 5.0), "of both groups"
    assert float(verified_time(setup, steps, np.array(64.0), np.array(4.0))) == pytest.approx(
        float(sum(parts.values()))
    )
    curve = curve_for(setup, [64], [0, 3])
    plain = sum(float(time[0]) for time in curve.plain_components.values())
    fixed = float(curve.plain_components["host"][0] + curve.plain_components["launch"][0])
    beyond = 0.128 / 1.128 * max(4 * plain - curve.verify_step_s[0, 1] - 3 * fixed, 0.0)
    assert curve.round_components["verified"][0] == pytest.approx([0.0, beyond])
    doubled = curve.round_components["verify_tokens"][0]
    assert doubled == pytest.approx([0.0, 0.03 * plain * 5.0])


def test_time_per_token_waits_for_the_prompts_of_others_and_throughput_pays_for_all() -> None:
    wide = QWEN.model_copy(
        update={
            "input_tokens": 4000,
            "output_tokens": 200,
            "n_gpus": 2,
            "tensor_parallel": 2,
            "hardware_id": "h100-sxm",
        }
    )
    setup = load_setup(wide)
    batch = np.array([1.0, 16.0])
    curve = curve_for(setup, batch, [0, 3])
    prompt = prompt_cost(setup, batch)
    every = prompt.per_token_s()
    others = prompt.per_token_s(others_only=True)
    per_round = curve.round_s / curve.accepted_length
    assert np.all(others < every)
    assert curve.tpot_s == pytest.approx(per_round + others[:, None])
    assert curve.tokens_per_s_per_gpu == pytest.approx(
        batch[:, None] / (per_round + every[:, None]) / 2
    )
    assert curve.prefill_s == pytest.approx(every)
    assert curve.ttft_s == pytest.approx(prompt.first_token_s)
    gain = laws.speedup(
        curve.accepted_length, curve.plain_step_s[:, None], curve.round_s, every[:, None]
    )
    assert curve.speedup == pytest.approx(gain)
    one = curve_for(setup, batch, [0, 3], draws=draws())
    assert one.draws[0] == pytest.approx(gain), "the draws pay for prompts too"


def test_a_step_of_2048_tokens_is_the_longest_inside_the_data() -> None:
    curve = speedup_curve(QWEN, [512, 513], [3])
    assert curve.extrapolated.tolist() == [[False], [True]]
    tree = curve_for(load_setup(QWEN), [128, 129], [0, 3], verify_tokens=16)
    assert tree.extrapolated.tolist() == [[False, False], [False, True]]
    assert tree.round_s[:, 0] == pytest.approx(tree.plain_step_s), (
        "a tree is verified where something is drafted"
    )
    one = curve_for(load_setup(QWEN), [129], [1], verify_tokens=16)
    assert one.extrapolated.tolist() == [[True]], "also where that is one token"


def test_the_tier_is_that_of_the_tokens_that_a_round_verifies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("advisor.predict.curve.tiers_of", lambda *given: given[-1].astype(object))
    setup = load_setup(QWEN)
    assert curve_for(setup, [4, 16], [0, 3], central_only=True).tier.tolist() == [
        [4.0, 16.0],
        [16.0, 64.0],
    ]
    tree = curve_for(setup, [4], [0, 3], verify_tokens=16, central_only=True)
    assert tree.tier.tolist() == [[4.0, 64.0]]


def test_a_scenario_without_a_drafter_has_plain_decoding_alone() -> None:
    plain = QWEN.model_copy(update={"drafter_id": "none"})
    assert speedup_curve(plain, [16]).drafts.tolist() == [0]
    assert speedup_curve(QWEN.model_copy(update={"k_max": 5}), [16]).drafts.tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    with pytest.raises(AdvisorError, match="K must lie between 0 and 0; got 1"):
        speedup_curve(plain, [16], [0, 1])


def test_the_ends_of_the_axes_are_inside() -> None:
    curve = speedup_curve(QWEN.model_copy(update={"k_max": 5}), [1, 65536], [0, 5])
    assert curve.speedup.shape == (2, 2)
    for batches in ([65537], [0.5], [0], [], [float("nan")], [float("inf")], [-float("inf")]):
        with pytest.raises(AdvisorError, match="batches must be numbers from 1 to 65536"):
            speedup_curve(QWEN, batches)
    with pytest.raises(AdvisorError, match="got 6, -1"):
        speedup_curve(QWEN.model_copy(update={"k_max": 5}), [1], [6, 0, -1, 5])
    with pytest.raises(AdvisorError, match="K must lie"):
        speedup_curve(QWEN, [1], [])


def test_usual_draws_are_those_of_the_costs() -> None:
    setup = load_setup(QWEN)
    usual = curve_for(setup, [16])
    given = curve_for(setup, [16], draws=make_draws(setup.costs))
    assert np.array_equal(usual.draws, given.draws)


@pytest.mark.parametrize("hardware_id", ["h200-sxm", "rtx-pro-6000-blackwell", "mi300x"])
def test_without_own_rows_range_and_chance_follow_the_speedup_alone(hardware_id: str) -> None:
    setup = load_setup(QWEN.model_copy(update={"hardware_id": hardware_id}))
    curve = curve_for(setup, [1, 64, 1024], draws=make_draws(setup.costs, seed=7))
    low, high = unseen_ends()
    drafted = curve.speedup[:, 1:]
    assert curve.low[:, 1:] == pytest.approx(low * drafted)
    assert curve.high[:, 1:] == pytest.approx(high * drafted)
    assert curve.p_gain[:, 1:] == pytest.approx(unseen_gain(drafted))
    plain = curve.low[:, 0], curve.high[:, 0], curve.p_gain[:, 0]
    assert np.array(plain).tolist() == [[1.0] * 3, [1.0] * 3, [0.0] * 3]


def own_rows(scenario: Scenario, scatter: float) -> Setup:
    """The setup as a refit to rows that scatter so much leaves it."""
    return with_costs(load_setup(scenario), scatter_log_sd=scatter)


def test_own_rows_narrow_the_range_to_their_scatter_and_the_chance_is_that_of_the_draws() -> None:
    tight, loose = (curve_for(own_rows(QWEN, scatter), [16, 1024]) for scatter in (0.03, 0.3))
    for curve in (tight, loose):
        drawn = curve.draws[:, :, 1:]
        assert curve.low[:, 1:] == pytest.approx(np.quantile(drawn, 0.1, axis=0))
        assert curve.high[:, 1:] == pytest.approx(np.quantile(drawn, 0.9, axis=0))
        assert curve.p_gain[:, 1:] == pytest.approx((drawn > 1.0).mean(axis=0))
    width = np.log(tight.high / tight.low)[:, 1:]
    assert np.all(width < np.log(loose.high / loose.low)[:, 1:])
    shipped = curve_for(load_setup(QWEN), [16])
    assert np.all(width[0] < np.log(shipped.high / shipped.low)[0, 1:])


def test_how_wide_the_stated_range_is_decides_no_k(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = load_setup(QWEN)
    stated = curve_for(setup, SCHEDULE_BATCHES)
    monkeypatch.setattr(bands, "UNSEEN_LOG_HALF_WIDTH", 1.0)
    unseen_ends.cache_clear()
    wide = curve_for(setup, SCHEDULE_BATCHES)
    unseen_ends.cache_clear()
    assert np.all(wide.high[:, 1:] > stated.high[:, 1:])
    assert np.array_equal(wide.draws, stated.draws), "draws alone decide K"


def test_a_band_that_misses_its_centre_is_stretched_to_it() -> None:
    """A draw far off on one side: the centre is its other end."""
    setup = own_rows(QWEN, 0.1)
    up = curve_for(setup, [16], [3], draws=draws(residual_z=np.ones(1)))
    assert (up.low[0, 0], up.high[0, 0]) == (up.speedup[0, 0], up.draws[0, 0, 0])
    down = curve_for(setup, [16], [3], draws=draws(residual_z=-np.ones(1)))
    assert (down.low[0, 0], down.high[0, 0]) == (down.draws[0, 0, 0], down.speedup[0, 0])


def test_every_column_of_the_table_is_what_its_name_says() -> None:
    lengths = QWEN.model_copy(update={"input_tokens": 4000, "output_tokens": 200})
    curve = speedup_curve(lengths, [1, 16], [0, 3])
    assert set(curve.tier.ravel()) == {"fitted"}
    tiers, beyond = (
        ["fitted", "table", "roofline", "record"],
        [False, True, True, False],
    )  # no two rows alike
    curve = replace(curve, tier=np.reshape(tiers, (2, 2)), extrapolated=np.reshape(beyond, (2, 2)))
    columns = curve_columns(curve)
    assert curve.ttft_s is not None
    expected = {
        "batch_size": [1, 1, 16, 16],
        "n_draft": [0, 3, 0, 3],
        "speedup": curve.speedup.ravel(),
        "speedup_low": curve.low.ravel(),
        "speedup_high": curve.high.ravel(),
        "extrapolated": beyond,
        "accepted_length": [1.0, 2.4, 1.0, 2.4],
        "verify_ratio": curve.verify_ratio.ravel(),
        "touched_plain": np.repeat(curve.touched_plain, 2),
        "touched_verify": curve.touched_verify.ravel(),
        "tpot_ms": curve.tpot_s.ravel() * 1e3,
        "tokens_per_s_per_user": 1.0 / curve.tpot_s.ravel(),
        "tokens_per_s_per_gpu": curve.tokens_per_s_per_gpu.ravel(),
        "ttft_ms": np.repeat(curve.ttft_s, 2) * 1e3,
        **{f"{name}_ms": time.ravel() * 1e3 for name, time in curve.round_components.items()},
    }
    assert set(columns) == {*expected, "tier"}
    for name, values in expected.items():
        assert columns[name].tolist() == pytest.approx(list(values)), name
    assert columns["tier"].tolist() == tiers
    assert "ttft_ms" not in curve_columns(speedup_curve(QWEN, [1], [0]))
    row = curve_rows(curve)[1]
    assert [type(value) for value in row.values()][:3] == [int, int, float]
    assert row["tpot_ms"] == float(f"{curve.tpot_s[0, 1] * 1e3:.6g}")


def test_the_usual_batches_are_the_powers_of_two_and_halfway_between_them() -> None:
    assert sorted({2**i for i in range(11)} | {3 * 2**i for i in range(9)}) == list(DEFAULT_BATCHES)


def test_more_batches_join_the_usual_ones_in_order() -> None:
    found = batches_with(5, 16, 2000)
    assert found.tolist() == sorted(found.tolist())
    assert len(found) == len(SCHEDULE_BATCHES) + 1 == 37
    assert set(DEFAULT_BATCHES) < set(SCHEDULE_BATCHES)
    assert {1.0, 5.0, 1024.0, 2000.0} <= set(found.tolist())


GRAPHS = QWEN.model_copy(update={"engine_version": "0.24.0", "k_max": 5})


def test_a_round_above_the_largest_graph_takes_the_longer_of_kernels_and_launches() -> None:
    """K = 5: 83 sequences are 498 tokens, the last captured; 84 wait for 48 layers of 1.1 ms."""
    held = curve_for(load_setup(GRAPHS), [83, 84], [0, 5])
    apart = curve_for(load_setup(GRAPHS), [84], [0, 5])
    assert held.eager[:, 1].tolist() == [False, True]
    parts = {name: float(time[0, 1]) for name, time in apart.round_components.items()}
    host = sum(parts[name] for name in ("host", "draft", "draft_host", "round_host"))
    assert apart.round_s[0, 1] == pytest.approx(48 * 1.1e-3 + host, rel=1e-9)
    assert held.round_s[1, 1] > 1.1 * held.round_s[0, 1], "one sequence more"
    assert held.plain_components["eager"].tolist() == [0.0, 0.0]
    plain = curve_for(load_setup(QWEN.model_copy(update={"k_max": 5})), [84], [0, 5])
    assert plain.eager is None, "no release is named"
    assert "eager" not in plain.round_components


def test_launches_that_the_device_outlasts_cost_nothing() -> None:
    slow = GRAPHS.model_copy(update={"context_tokens": 100_000, "graph_sizes": "none"})
    curve = curve_for(load_setup(slow), [256], [0, 5])
    assert curve.round_components["eager"][0, 1] == 0.0
    assert curve.eager.all()


def test_padding_is_priced_as_the_rows_that_run_but_for_attention_and_logits() -> None:
    """4 sequences with K = 2 are 12 tokens, which vLLM 0.24 runs as 18: those of 6 sequences."""
    setup = load_setup(GRAPHS)
    padded = curve_for(setup, [4], [2])
    six = curve_for(setup, [6], [2])
    four = curve_for(load_setup(QWEN.model_copy(update={"k_max": 5})), [4], [2])
    for name in ("routed", "router", "attention_projection"):
        assert padded.round_components[name] == pytest.approx(six.round_components[name])
    for name in ("attention", "lm_head"):
        assert padded.round_components[name] == pytest.approx(four.round_components[name])
    assert padded.padding[0, 0] == pytest.approx(1.5)
    assert padded.speedup[0, 0] < four.speedup[0, 0]


def test_bands_hold_launches_and_kernels_as_the_longer_of_two() -> None:
    """A fast host makes a round no faster than its kernels, a slow one as slow as itself."""
    setup = load_setup(GRAPHS)

    def rounds(host: float) -> np.ndarray:
        factor = {one.key: np.ones(1) for one in COMPONENTS} | {"eager": np.array([host])}
        return curve_for(setup, [84], [0, 5], draws=draws(factor=factor)).draws[0, 0]

    usual = rounds(1.0)
    slow = rounds(1.2)
    fast = rounds(0.01)
    assert slow[1] < usual[1] < fast[1]
    kernels = curve_for(
        load_setup(GRAPHS.model_copy(update={"graph_sizes": "88, 504"})), [84], [0, 5]
    )
    assert fast[1] == pytest.approx(kernels.speedup[0, 1], rel=1e-6)


def test_the_graphs_of_a_release_that_was_not_read_change_nothing_and_it_says_so() -> None:
    unread = load_setup(QWEN.model_copy(update={"engine_version": "0.10.2"}))
    assert unread.graphs is None
    (note,) = [note for note in unread.notes if note.rank is Rank.CHANGES]
    assert note == Note.of(
        "graphs_unread", engine="vLLM", version="0.10.2", since="0.11.1", before="0.34"
    )
    usual = with_costs(load_setup(QWEN), **class_costs("vllm-synchronous"))
    np.testing.assert_array_equal(curve_for(unread, BATCHES).draws, curve_for(usual, BATCHES).draws)
    stated = load_setup(QWEN.model_copy(update={"engine_version": "0.10.2", "graph_sizes": "64"}))
    assert stated.graphs.largest(1) == 64


def test_the_last_captured_batch_of_each_k_and_the_next_stand_in_the_grid() -> None:
    edges = graph_edges(load_setup(GRAPHS))
    assert {83, 84, 512, 513, 128, 129} <= set(edges), "K = 5, 0 and 3"
    assert graph_edges(load_setup(QWEN)) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"engine_version": "newest"}, "engine_version='newest' is no release"),
        ({"graph_sizes": "some"}, "says no captured"),
    ],
)
def test_a_release_or_sizes_that_are_none_are_one_sentence(
    changes: dict[str, str], expected: str
) -> None:
    with pytest.raises(AdvisorError, match=expected):
        build_scenario(acceptance="2.4@3", **changes)
