"""Distinct experts by hand: a whole step, the slowest of several ranks, what unrelated tokens
share.

Distinct experts: published values, bounds, limits, the full sum, and learning from traces.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.physics.routing_trace import fit_overlaps, fit_sequences
from advisor.physics.touched_experts import (
    _load_nodes,
    _nodes,
    expected_experts,
    local_experts,
    one_prompt_cv,
    touched_experts,
    touched_under,
    unrelated_overlap,
)
from advisor.prediction import AdvisorError


def mean_maximum(count: int) -> float:
    """Mean of the largest of `count` standard normals, integrated."""
    x = np.linspace(-8.0, 8.0, 20_001)
    normal = NormalDist()
    below = np.array([normal.cdf(value) for value in x])
    density = np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return float(np.sum(x * count * density * below ** (count - 1)) * (x[1] - x[0]))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_the_slowest_rank_is_as_far_above_the_mean_as_the_largest_of_so_many_normals(
    ranks: int,
) -> None:
    """Half of 4096 experts touched: a rank holds 2048/ep in the mean, with a standard deviation of
    sqrt(1024/ep)."""
    deviation = math.sqrt(2048 / ranks * 0.5)
    found = (float(local_experts(2048.0, 4096, ranks)) - 2048 / ranks) / deviation
    assert found == pytest.approx(mean_maximum(ranks), abs=6e-3)


def test_experts_on_the_slowest_rank_by_hand() -> None:
    """64 of 128 experts on 8 ranks: 8 each in the mean, sqrt(8 / 2) = 2 apart, and 1.42 of those on
    the slowest."""
    assert float(local_experts(64, 128, 8)) == pytest.approx(8 + 1.42 * 2)
    assert float(local_experts(32, 128, 4)) == pytest.approx(8 + 1.03 * math.sqrt(8 * 0.75))
    assert float(local_experts(64, 256, 12)) == pytest.approx(
        64 / 12 + (1.42 + 0.35 * (math.log2(12) - 3)) * math.sqrt(64 / 12 * 0.75)
    ), "between two measured numbers of ranks straight in their logarithm"


def test_no_rank_touches_more_experts_than_it_holds() -> None:
    assert float(local_experts(100, 128, 32)) == 4.0
    assert float(local_experts(126, 128, 8)) == 16.0
    assert local_experts(128.0, 128, [1, 2, 4, 8, 16, 32]) == pytest.approx(
        128 / np.array([1, 2, 4, 8, 16, 32])
    )
    assert local_experts([8.0, 128.0], 128, [[1], [2]]) == pytest.approx(
        np.array([[8.0, 128.0], [4 + 0.57 * math.sqrt(4 * 120 / 128), 64.0]])
    )


def loads(n_experts: object, n_active: object, cv: object) -> tuple[np.ndarray, np.ndarray]:
    experts = np.asarray(n_experts, float)
    active = np.asarray(n_active, float)
    asked = np.asarray(cv, float)
    return _load_nodes(active / experts, asked, experts, active)


def test_expert_loads_have_the_mean_and_the_variation_asked_for_also() -> None:
    """No load exceeds 1; three of the four rows have experts that every token chooses."""
    experts = np.array([128.0, 64.0, 8.0, 8.0])
    active = np.array([8.0, 6.0, 6.0, 2.0])
    cv = np.array([0.5, 2.4, 0.5, 1.2])
    load, weight = loads(experts, active, cv)
    mean = load @ weight
    assert mean == pytest.approx(active / experts, rel=1e-9)
    assert np.sqrt(load**2 @ weight / mean**2 - 1.0) == pytest.approx(cv, rel=1e-9)
    assert (load.max(axis=1) <= 1.0).all()
    assert (load.max(axis=1) == 1.0).tolist() == [False, True, True, True]
    assert (np.diff(load, axis=1) >= 0.0).all()
    assert loads(64, 8, 0.0)[0] == pytest.approx(np.full(32, 0.125), rel=1e-12)


@pytest.mark.parametrize("n_experts", [2, 8, 32])
def test_no_expert_is_busier_than_the_one_in_the_middle_of_the_last_rank(n_experts: int) -> None:
    """The loads of N experts stand at ranks (i + 1/2)/N, so quantiles beyond 1 - 1/(2N) have that
    one's load."""
    load, _ = loads(n_experts, 1, 0.3)
    place = np.array([NormalDist().cdf(float(z)) for z in _nodes()[0]])
    outside = place >= 1.0 - 0.5 / n_experts
    edge = NormalDist().inv_cdf(1.0 - 0.5 / n_experts)
    assert 0 < outside.sum() < 12
    assert len(set(load[outside].tolist())) == 1
    slope = math.log(load[20] / load[12]) / float(_nodes()[0][20] - _nodes()[0][12])
    assert math.log(load[-1] / load[16]) == pytest.approx(
        slope * (edge - float(_nodes()[0][16])), rel=1e-9
    )


def test_the_most_uneven_load_that_k_of_n_can_have_is_the_limit() -> None:
    """2 of 8: two experts that every token chooses have a variation of sqrt(3) = 1.732."""
    assert float(touched_experts(4, 1, 8, 2, math.sqrt(3.0))) >= 2.0
    for cv, n_active in ((1.74, 2), (0.01, 8), (-0.1, 2)):
        with pytest.raises(AdvisorError, match="load_cv"):
            touched_experts(1, 1, 8, n_active, cv)


def test_many_questions_at_once_are_answered_as_each_alone() -> None:
    """5000 batches are more than are computed in one piece."""
    batches = np.arange(1.0, 5001.0)
    many = touched_experts(batches, 4, 128, 8, 0.5, 0.2, 0.1)
    for batch in (1, 77, 5000):
        assert many[batch - 1] == pytest.approx(
            float(touched_experts(batch, 4, 128, 8, 0.5, 0.2, 0.1)), rel=1e-12
        )


# Overlaps of consecutive tokens by lag and of unrelated tokens, 128 experts top-8 (Cohere blog,
# 2026-04-21).
COHERE_LAGS = (0.381, 0.329, 0.301, 0.299)
COHERE_UNRELATED = 0.118


def cohere_parameters() -> tuple[float, float, float]:
    return fit_overlaps(COHERE_UNRELATED, COHERE_LAGS[0], float(np.mean(COHERE_LAGS[2:])), 128, 8)


def full_sum(
    batch: int, tokens: int, n_experts: int, n_active: int, cv: float, phi: float, rho: float
) -> float:
    """The model as a plain sum over experts at mid-rank quantiles, sigma solved on that very
    sum."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    z = norm.ppf((np.arange(n_experts) + 0.5) / n_experts)

    def load(sigma: float) -> np.ndarray:
        q = n_active * np.exp(sigma * z) / np.exp(sigma * z).sum()
        while (q > 1 + 1e-12).any():
            capped = q >= 1
            q = np.where(capped, 1.0, q * (n_active - capped.sum()) / q[~capped].sum())
        return q

    sigma = brentq(lambda s: load(s).std() / load(s).mean() - cv, 0, 30) if cv else 0.0
    q = load(sigma)
    a = 1 / phi - 1 if phi else 1e9
    untouched = np.zeros(n_experts)
    chance = 1 - q
    for j in range(tokens):
        if j:
            chance = chance * ((1 - q) * a + j) / (a + j)
        untouched = (
            untouched + math.comb(tokens - 1, j) * (1 - rho) ** j * rho ** (tokens - 1 - j) * chance
        )
    return float((1 - untouched**batch).sum())


def test_uniform_experts_of_128_top_8_match_the_published_counts() -> None:
    assert expected_experts([1, 2, 4, 5], 128, 8) == pytest.approx(
        [8, 15.5, 29.123, 35.303], abs=5e-4
    )


@pytest.mark.parametrize(
    ("n_experts", "n_active", "tokens"),
    [(64, 8, 23), (8, 2, 11), (62, 6, 30), (60, 4, 44), (128, 8, 47), (256, 8, 95)],
)
def test_tokens_that_touch_95_percent_of_the_experts(
    n_experts: int, n_active: int, tokens: int
) -> None:
    """MoESD (arXiv:2505.19645): smallest number of tokens at which uniform routing touches 95 % of
    the experts."""
    touched = expected_experts(np.arange(1, 200), n_experts, n_active)
    assert 1 + int(np.argmax(touched >= 0.95 * n_experts)) == tokens


def test_the_default_form_fed_with_coheres_overlaps_meets_its_measured_union() -> None:
    assert float(touched_experts(1, 4, 128, 8, *cohere_parameters())) == pytest.approx(
        20.36, rel=0.03
    )


def test_coheres_union_over_batches_errs_from_uniform_in_both_directions() -> None:
    batches = np.array([1, 2, 4, 8, 16, 32, 64])
    touched = touched_experts(batches, 4, 128, 8, *cohere_parameters())
    assert touched == pytest.approx([20, 35, 56, 81, 103, 118, 125], abs=1.0)
    assert np.all(touched < expected_experts(4 * batches, 128, 8))


@pytest.mark.parametrize(
    ("n_experts", "n_active"), [(64, 6), (128, 8), (256, 8), (384, 8), (512, 10), (896, 16)]
)
@pytest.mark.parametrize("cv", [0.1, 0.5, 1.0])
def test_the_quadrature_agrees_with_the_full_sum_over_experts(
    n_experts: int, n_active: int, cv: float
) -> None:
    for batch, tokens, phi, rho in [
        (1, 4, 0.2, 0.1),
        (8, 2, 0.0, 0.3),
        (16, 8, 0.1, 0.0),
        (256, 4, 0.3, 0.2),
    ]:
        exact = full_sum(batch, tokens, n_experts, n_active, cv, phi, rho)
        approximate = float(touched_experts(batch, tokens, n_experts, n_active, cv, phi, rho))
        assert approximate == pytest.approx(exact, rel=4e-3)


@settings(max_examples=150)
@given(
    batch=st.integers(1, 512),
    tokens=st.integers(1, 16),
    n_experts=st.integers(4, 512),
    share=st.floats(0.01, 1.0),
    skew=st.floats(0.0, 0.9),
    phi=st.floats(0.0, 1.0),
    rho=st.floats(0.0, 1.0),
)
def test_touched_experts_stay_within_their_bounds_and_grow_with_tokens(
    batch: int, tokens: int, n_experts: int, share: float, skew: float, phi: float, rho: float
) -> None:
    n_active = max(1, int(share * n_experts))
    cv = skew * math.sqrt(n_experts / n_active - 1)
    touched = float(touched_experts(batch, tokens, n_experts, n_active, cv, phi, rho))
    assert n_active - 1e-9 <= touched <= min(n_experts, batch * tokens * n_active) + 1e-9
    assert touched <= float(touched_experts(batch, tokens, n_experts, n_active, cv)) + 1e-6
    assert (
        float(touched_experts(batch, tokens + 1, n_experts, n_active, cv, phi, rho))
        >= touched - 1e-9
    )
    assert (
        float(touched_experts(batch + 1, tokens, n_experts, n_active, cv, phi, rho))
        >= touched - 1e-9
    )


def test_limits_are_uniform_routing_a_dense_model_and_tokens_that_bring_nothing_new() -> None:
    batch = np.arange(1, 40)[:, None]
    tokens = np.arange(1, 9)
    assert touched_experts(batch, tokens, 128, 8) == pytest.approx(
        expected_experts(batch * tokens, 128, 8), rel=1e-6
    )
    assert touched_experts([1, 7], 3, 16, 16, 0.0, 0.3, 0.2) == pytest.approx([16, 16])
    assert touched_experts(9, 1, 64, 6, 0.4, 0.9, 0.9) == pytest.approx(
        touched_experts(9, 1, 64, 6, 0.4)
    )
    assert touched_experts(3, 8, 64, 6, 0.0, 1.0, 0.0) == pytest.approx(
        touched_experts(3, 1, 64, 6), rel=1e-5
    )
    assert float(touched_experts(1, 512, 8, 2)) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ((1, 1, 8, 9), "n_active"),
        ((0, 1, 8, 2), "batch_size"),
        ((math.inf, 1, 8, 2), "batch"),
        *(((1, tokens, 8, 2), "tokens_per_sequence") for tokens in (0, 1.5, 513)),
        ((1, 1, 8, 2, 3.0), "load_cv=3"),
        ((1, 1, 8, 2, math.nan), "load_cv"),
        ((1, 1, 8, 2, 0.1, 1.2), "affinity"),
        ((1, 1, 8, 2, 0.1, 0.1, -0.1), "stickiness"),
        ((1, 1, math.inf, 2), "finite"),
    ],
)
def test_impossible_arguments_are_refused_by_name(
    arguments: tuple[float, ...], fragment: str
) -> None:
    with pytest.raises(AdvisorError, match=fragment):
        touched_experts(*arguments)


def alternating(n_sequences: int, tokens: int = 8) -> list[np.ndarray]:
    """Of one layer and k = 4: even sequences alternate between experts 0-3 and 4-7, odd ones
    between 8-11 and 12-15."""
    sets = np.arange(16).reshape(2, 2, 1, 4)
    return [sets[row % 2][np.arange(tokens) % 2] for row in range(n_sequences)]


def test_overlaps_give_their_three_parameters_by_hand_and_stay_in_what_is_possible() -> None:
    """CV^2 = 0.544 * 10/4 - 1, and each overlap lies three quarters of the way from the one before
    to 1."""
    assert fit_overlaps(0.544, 0.9715, 0.886, 10, 4) == pytest.approx((0.6, 0.75, 0.75))
    assert fit_overlaps(1.0, 1.0, 1.0, 10, 4) == pytest.approx((math.sqrt(1.5), 0.0, 0.0))
    assert fit_overlaps(1.5, 0.0, 1.5, 10, 4) == pytest.approx((math.sqrt(1.5), 0.0, 0.0))
    assert fit_overlaps(0.5, 1.5, 0.5, 10, 4)[1:] == (0.0, 1.0)
    assert fit_overlaps(0.5, 0.0, 1.5, 10, 4)[1:] == (1.0, 0.0)


def test_a_trace_of_two_sequences_by_hand() -> None:
    """No expert in common; every second lag repeats, so that lags 4 to 7 overlap by a half."""
    trace = fit_sequences(alternating(2), 16)
    assert (trace.n_sequences, trace.n_tokens, trace.layers) == (2, 16, (0,))
    assert trace.fit.overlap_by_lag == (0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    assert (trace.fit.load_cv, trace.fit.affinity, trace.fit.stickiness) == (0.0, 0.5, 0.0)
    assert trace.fit.unrelated_overlap == 0.0
    counted = {(row.batch_size, row.tokens): row.counted for row in trace.unions}
    assert counted == {(b, t): 4.0 * b * min(t, 2) for b in (1, 2) for t in (1, 2, 4, 8)}
    last = trace.unions[-1]
    assert last.uniform == pytest.approx(16 * (1 - 0.75**16))
    assert last.predicted == pytest.approx(float(touched_experts(2, 8, 16, 4, 0.0, 0.5, 0.0)))


def test_a_trace_is_long_and_wide_enough_from_its_limits_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    five = alternating(5)
    assert [fit_sequences(five, experts).notes for experts in (16, 24, 33)] == [()] * 3
    (never,) = fit_sequences(five, 32).notes
    assert (never.kind, never.facts["share"]) == ("trace_never_chosen", 0.5), "5 choices for each"
    short, few = fit_sequences([*five[:4], five[4][:7]], 16).notes
    assert (short.kind, short.facts) == ("trace_too_short", {"sequences": 1, "tokens": 8})
    assert (few.kind, few.facts) == ("trace_few_sequences", {"sequences": 4})
    with pytest.raises(AdvisorError, match="expected 0 to 14"):
        fit_sequences(five, 15)
    with pytest.raises(AdvisorError, match="chooses one expert twice"):
        fit_sequences([ids[..., [0, 1, 1]] for ids in five], 16)
    monkeypatch.setattr("advisor.physics.routing_trace.MAX_USES", 5 * 16)
    assert fit_sequences(five, 16).n_sequences == 5
    with pytest.raises(AdvisorError, match="too many to count; send fewer sequences"):
        fit_sequences(five, 17)


@pytest.mark.parametrize(("n_sequences", "half"), [(3, 2), (9, 4)])
def test_an_interval_leaves_a_tenth_of_the_half_samples_on_each_side_and_holds_the_fit(
    monkeypatch: pytest.MonkeyPatch, n_sequences: int, half: int
) -> None:
    sizes: list[int] = []

    def planted(_: np.ndarray, lags: np.ndarray, *__: int) -> tuple[float, ...]:
        sizes.append(len(lags))
        return (
            tuple(i * (len(sizes) - 1) / 1000 for i in (1, 2, 3))
            if len(sizes) > 1
            else (0.01, 0.5, 0.3)
        )

    monkeypatch.setattr("advisor.physics.routing_trace._parameters", planted)
    fit = fit_sequences(alternating(n_sequences), 16).fit
    assert sizes == [n_sequences, *[half] * 200]
    assert fit.load_cv_interval == pytest.approx((0.01, 0.1801))
    assert fit.affinity_interval == pytest.approx((0.0418, 0.5))
    assert fit.stickiness_interval == pytest.approx((0.0627, 0.5403))


def test_unrelated_overlap_grows_with_skew() -> None:
    assert float(unrelated_overlap(128, 8, 0.0)) == pytest.approx(0.0625)
    assert float(unrelated_overlap(128, 8, 0.942)) == pytest.approx(0.118, abs=1e-3)


def test_sequences_of_one_prompt_meet_as_two_tokens_of_one_do() -> None:
    """J = 0.125 at CV 1, and a fifth of the way from there to 1 is 0.3."""
    assert float(one_prompt_cv(128, 8, 1.0, 0.2)) == pytest.approx(math.sqrt(0.3 * 16 - 1))


def test_several_routings_at_once_give_what_each_gives_alone() -> None:
    routings = [(0.0, 0.0, 0.0), (0.8, 0.2, 0.3), (0.4, 0.5, 0.1)]
    step = (np.array([[1.0], [8.0]]), np.array([1.0, 4.0, 60.0]), 64, 6)
    assert np.array_equal(
        touched_under(*step, routings), [touched_experts(*step, *one) for one in routings]
    )
    for bad, name in (((0.1, 1.2, 0.0), "affinity"), ((0.1, 0.0, -0.1), "stickiness")):
        with pytest.raises(AdvisorError, match=f"^{name}"):
            touched_under(*step, [bad])
    with pytest.raises(AdvisorError, match="tokens_per_sequence"):
        touched_under(1, 0, 64, 6, routings)
