"""Bands: what is drawn, how far apart, and what it does to a total, a speedup and an accepted
length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from advisor.physics.bands import (
    MAX_DRAFT,
    MOST_CHANCE,
    N_DRAWS,
    UNSEEN_LOG_HALF_WIDTH,
    Draws,
    _normals,
    _weighted_sums,
    band,
    draw_acceptance,
    draw_total,
    drift,
    make_draws,
    unseen,
    unseen_ends,
    unseen_gain,
    wobble,
)
from advisor.physics.components import COMPONENTS, JOINT
from advisor.physics.kernel_costs import (
    AttentionCost,
    GemmCost,
    KernelCosts,
    MoeCost,
    Network,
    StreamCost,
)
from advisor.prediction import BAND_SIGMAS, Tier, quantiles

GEMM = GemmCost(4e-6, 4e12, 8e14, Tier.FITTED, sharpness=2.3, log_sd=0.1)
COSTS = KernelCosts(
    routed=MoeCost(2e-5, 4e12, 6e14, Tier.FITTED, log_sd=0.3),
    attention_projection=GEMM,
    shared=GEMM,
    dense=replace(GEMM, log_sd=0.12),
    lm_head=replace(GEMM, log_sd=0.05),
    attention=AttentionCost(
        1e-5, 3.5e12, 5e14, Tier.FITTED, log_sd=0.25, sharpness=4.0, block_rows=16.0
    ),
    all_reduce={
        2: StreamCost(5e-6, 1e11, Tier.FITTED, 0.2),
        8: StreamCost(9e-6, 2e11, Tier.FITTED, 0.4),
    },
    launch_per_layer_s=10e-6,
    host_per_step_s=300e-6,
    host_per_draft_pass_s=300e-6,
    host_per_round_s=400e-6,
    overhead_log_sd=0.5,
)
KERNELS = {"attention_projection", "attention", "router", "routed", "shared", "dense"}
KERNELS |= {"lm_head", "communication", "draft"}
MANY = 20_000


def log_sd(costs: KernelCosts) -> dict[str, float]:
    """Standard deviation of the logarithm of each factor, over many draws."""
    return {
        name: float(np.log(values).std()) for name, values in make_draws(costs, MANY).factor.items()
    }


def draws(n: int = 1, **given: object) -> Draws:
    """Draws without any error, but for what is given."""
    zero = np.zeros(n)
    none = {
        "factor": {one.key: np.ones(n) for one in COMPONENTS},
        "routing_z": zero,
        "acceptance_z": zero,
        "residual_z": zero,
        "per_k_z": np.zeros((n, MAX_DRAFT + 1)),
    }
    return Draws(**(none | given))  # type: ignore[arg-type]


def test_each_component_scatters_as_much_as_what_prices_it() -> None:
    found = log_sd(COSTS)
    assert set(found) == {one.key for one in COMPONENTS}
    expected = {
        **dict.fromkeys(("attention_projection", "shared"), 0.1),
        **dict.fromkeys(("dense", "draft"), 0.12),
        **dict.fromkeys(("lm_head", "router"), 0.05),
        "routed": 0.3,
        "attention": 0.25,
        "communication": 0.4,
        **{
            one.key: 0.5
            for one in (*JOINT, next(each for each in COMPONENTS if each.key == "host"))
        },
        "eager": 0.14,
        "between_graphs": 0.6,
        "verify_tokens": 0.54,
    }
    assert found == pytest.approx(expected, rel=0.02)
    assert all(
        np.median(values) == pytest.approx(1.0, abs=0.01)
        for values in make_draws(COSTS, MANY).factor.values()
    )


def test_attention_may_scatter_by_more_than_its_kernel_and_no_link_by_nothing() -> None:
    found = log_sd(replace(COSTS, attention_log_sd=0.6, all_reduce={}))
    assert found["attention"] == pytest.approx(0.6, rel=0.02)
    assert found["communication"] == 0.0


def test_links_between_nodes_scatter_by_no_less_than_the_network() -> None:
    wide = Network(8, 1.7e-5, 4.7e10, Tier.ROOFLINE, 0.8)
    assert log_sd(replace(COSTS, network=wide))["communication"] == pytest.approx(0.8, rel=0.02)
    sure = replace(wide, log_sd=0.1)
    assert log_sd(replace(COSTS, network=sure))["communication"] == pytest.approx(0.4, rel=0.02)


def test_errors_of_different_components_have_nothing_in_common() -> None:
    errors = np.corrcoef([np.log(values) for values in make_draws(COSTS, MANY).factor.values()])
    assert np.abs(errors - np.eye(len(errors))).max() < 0.03


def test_overheads_that_were_fitted_together_are_drawn_together() -> None:
    """Two of them, with standard deviations 0.2 and 0.4 and a correlation of -0.5; the others
    scarcely err."""
    n = len(JOINT)
    covariance = np.diag([0.04, 0.16, *[1e-4] * (n - 2)])
    covariance[0, 1] = covariance[1, 0] = -0.5 * 0.2 * 0.4
    fitted = replace(COSTS, overhead_log_covariance=tuple(map(tuple, covariance.tolist())))
    found = np.cov([np.log(make_draws(fitted, MANY).factor[one.key]) for one in JOINT])
    assert found == pytest.approx(covariance, rel=0.05, abs=1e-3)


def test_a_covariance_without_any_error_can_still_be_drawn_from() -> None:
    none = replace(COSTS, overhead_log_covariance=tuple((0.0,) * len(JOINT) for _ in JOINT))
    found = make_draws(none, 8).factor
    assert all(found[one.key] == pytest.approx(np.ones(8), abs=1e-5) for one in JOINT)


def test_equal_costs_have_equal_draws_and_kernels_measured_apart_have_their_own() -> None:
    first = make_draws(COSTS)
    again = make_draws(COSTS)
    apart = make_draws(COSTS, kernel_seed=5)
    assert len(first.residual_z) == N_DRAWS == 256
    assert first.per_k_z.shape == (256, 65), "K from 0 to 64"
    for name, values in first.factor.items():
        assert np.array_equal(values, again.factor[name])
        assert np.array_equal(values, apart.factor[name]) == (name not in KERNELS), name
        if name in KERNELS:
            assert abs(np.corrcoef(values, apart.factor[name])[0, 1]) < 0.25
    for name in ("routing_z", "acceptance_z", "residual_z", "per_k_z"):
        assert np.array_equal(getattr(first, name), getattr(apart, name))
    assert not np.array_equal(make_draws(COSTS, seed=7).residual_z, first.residual_z)
    _normals.cache_clear()
    anew = make_draws(COSTS)
    assert all(np.array_equal(values, anew.factor[name]) for name, values in first.factor.items())
    with pytest.raises(ValueError, match="read-only"):
        first.residual_z[0] = 0.0


def test_what_is_shared_by_all_is_drawn_as_independent_standard_normals() -> None:
    found = make_draws(COSTS, MANY)
    z = np.stack([found.routing_z, found.acceptance_z, found.residual_z, *found.per_k_z.T[:3]])
    assert np.cov(z) == pytest.approx(np.eye(6), abs=0.03)
    assert np.abs(z.mean(axis=1)).max() < 0.03


def test_the_draw_of_a_k_does_not_depend_on_the_number_of_others() -> None:
    assert np.array_equal(
        make_draws(COSTS).per_k_z[:, 3], make_draws(COSTS).per_k_z[:, [1, 3]][:, 1]
    )


def test_a_total_under_a_draw_is_the_sum_of_the_components_times_their_factors() -> None:
    given = draws(2, factor={"routed": np.array([1.0, 2.0]), "host": np.array([1.0, 0.5])})
    parts = {"routed": np.array([[3.0, 4.0], [5.0, 6.0]]), "host": np.array(10.0)}
    expected = np.array([[[13.0, 14.0], [15.0, 16.0]], [[11.0, 13.0], [15.0, 17.0]]])
    assert draw_total(parts, given, None, None) == pytest.approx(expected)
    half_known = draw_total(parts, replace(given, routing_z=np.ones(2)), parts["routed"] / 2, None)
    assert half_known == pytest.approx(expected), "a range with one end moves nothing"


def test_an_80_percent_step_of_the_routing_takes_the_experts_to_the_ends_of_their_range() -> None:
    """Routed 4 in 2..7, beside 10 of others; the factor of the experts multiplies their range
    too."""
    z = np.array([0.0, 1.0, -1.0, 0.5]) * BAND_SIGMAS
    factor = {"routed": np.array([1.0, 1.0, 1.0, 2.0]), "host": np.ones(4)}
    found = draw_total(
        {"routed": np.array([4.0]), "host": np.array([10.0])},
        draws(4, factor=factor, routing_z=z),
        np.array([2.0]),
        np.array([7.0]),
    )
    assert found[:, 0] == pytest.approx([14.0, 17.0, 12.0, 10.0 + 2 * (4.0 + 1.5)])


def test_fewer_experts_never_save_more_than_nine_tenths_of_their_time() -> None:
    given = draws(1, routing_z=np.array([-10.0]))
    found = draw_total({"routed": np.array([4.0])}, given, np.array([1.0]), np.array([7.0]))
    assert found[0, 0] == pytest.approx(0.4)


def test_a_total_does_not_depend_on_the_points_beside_it() -> None:
    rng = np.random.default_rng(1)
    factors = rng.random((9, 17))
    times = rng.random((17, 1000))
    whole = _weighted_sums(factors, times)
    np.testing.assert_allclose(whole, factors @ times, rtol=1e-12)
    for points in (slice(0, 1), slice(3, 5), slice(10, 331)):
        assert (_weighted_sums(factors, times[:, points]) == whole[:, points]).all()


def test_drift_grows_with_each_doubling_of_the_batch_from_four_sequences_on() -> None:
    assert drift(np.array([1.0, 2.0, 4.0, 8.0, 32.0])) == pytest.approx([0, 0, 0, 0.05, 0.15])


def test_the_error_on_machines_nobody_has_seen_is_students_t_mixed_with_a_slow_path() -> None:
    z = np.linspace(-2.0, 2.0, 81)
    t = stats.t(3)
    usual = t.cdf(z * t.ppf(0.9) / UNSEEN_LOG_HALF_WIDTH)
    slow = stats.norm(-0.5, 0.2).cdf(z)
    assert unseen(z) == pytest.approx(0.91 * usual + 0.09 * slow, abs=1e-5)
    assert unseen(np.array([-50.0, 50.0])) == pytest.approx([0.0, 1.0], abs=1e-6)


def test_the_stated_range_leaves_a_tenth_on_either_side() -> None:
    low, high = unseen_ends()
    assert unseen(np.log([low, high])) == pytest.approx([0.1, 0.9], abs=1e-3)
    assert 1.0 - low > high - 1.0 > 0.0, "a slow path loses more than luck wins"


def test_the_chance_of_a_gain_follows_the_speedup_alone_and_is_never_near_certain() -> None:
    speedups = np.array([0.5, 0.9, 1.0, 1.2, 1.3, 2.0, 9.0])
    chances = unseen_gain(speedups)
    assert np.all(np.diff(chances[:-1]) > 0.0)
    assert chances[-2:].tolist() == [MOST_CHANCE] * 2
    assert chances[2] < 0.5, "even odds are less than even with a slow path among them"
    assert chances[3] < 0.8 < chances[4]


def test_what_is_unexplained_is_common_to_all_k_but_for_a_fiftieth_of_each_own() -> None:
    """0.29 of a machine: of that, 0.02 belongs to each K; the squares of the rest and of what lies
    beyond the measured steps add."""
    beyond = np.array([[0.0, 0.21]])
    common = np.sqrt([0.29**2 - 0.02**2, 0.29**2 - 0.02**2 + 0.21**2])
    k = np.array([1, 5])
    found = wobble(draws(1, residual_z=np.array([2.0])), 0.29, beyond, k)
    assert np.log(found[:, 0, 0]) == pytest.approx(2.0 * common)
    per_k = np.zeros((1, MAX_DRAFT + 1))
    per_k[0, 5] = -3.0
    assert np.log(wobble(draws(1, per_k_z=per_k), 0.29, beyond, k)[:, 0, 0]) == pytest.approx(
        [0.0, -0.06]
    )
    small = wobble(draws(1, residual_z=np.array([2.0])), 0.01, np.zeros((1, 1)), k[:1])
    assert small[0, 0, 0] == 1.0, "less than what each K has of its own leaves nothing common"


def test_accepted_lengths_are_drawn_through_the_ends_of_their_band_and_never_below_one() -> None:
    z = np.array([0.0, 1.0, -1.0, 2.0, -9.0, 0.5]) * BAND_SIGMAS
    found = draw_acceptance(
        np.array([1.0, 2.0]), np.array([1.0, 2.5]), np.array([1.0, 2.75]), draws(6, acceptance_z=z)
    )
    assert found[:, 0] == pytest.approx(np.ones(6))
    assert found[:, 1] == pytest.approx([2.5, 2.75, 2.0, 2.75**2 / 2.5, 1.0, np.sqrt(2.5 * 2.75)])


def test_a_band_leaves_a_tenth_of_the_outcomes_on_each_side() -> None:
    values = np.stack([np.arange(101.0), np.arange(101.0)[::-1] * 2.0], axis=1)
    low, high = band(values)
    assert low == pytest.approx([10.0, 20.0])
    assert high == pytest.approx([90.0, 180.0])


@pytest.mark.parametrize("shape", [(256, 9, 9), (7,), (2, 3), (1, 2)])
def test_quantiles_are_numpy_s_to_the_last_bit(shape: tuple[int, ...]) -> None:
    values = np.exp(3 * np.random.default_rng(0).standard_normal(shape))
    values.flat[-1] = values.flat[-1] if len(shape) < 3 else np.nan
    shares = (0.1, 0.5, 0.9)
    assert np.array_equal(
        quantiles(values, shares), np.quantile(values, shares, axis=0), equal_nan=True
    )
