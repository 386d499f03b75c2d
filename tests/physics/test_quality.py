"""Quality laws: published statements, worked examples computed from the printed coefficients,
guard-rails."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.models import load_model
from advisor.physics.architecture import attention_share_of_active, parameter_counts
from advisor.physics.quality import (
    GuardRails,
    Shape,
    activation_ratio,
    anchored_ratio,
    dense_equivalent,
    efficiency_leverage,
    expert_mix_loss,
    granularity,
    loss_as_active_params,
    training_flops,
)
from advisor.prediction import AdvisorError

# Qwen3-30B-A3B's body: 48 layers, hidden 2048, attention and norms 0.906 B parameters
_FIXED = 906_067_968 + 100_352


def _sizes(n: float, k: float, s: float, width: float) -> tuple[float, float]:
    """(active, total) parameters without embeddings of a design on that body."""
    expert = 48 * 3 * 2048 * width
    always = _FIXED + 48 * 2048 * n + s * expert
    return always + k * expert, always + n * expert


def _quality(n: float, k: float, s: float, width: float) -> float:
    active, _ = _sizes(n, k, s, width)
    return float(
        dense_equivalent(
            active,
            activation_ratio(n, k, s),
            granularity(2048, width),
            training_flops(active, 1e12),
        )
    )


def test_the_law_returns_its_published_headline_of_more_than_seven() -> None:
    # arXiv:2507.17702: leverage above 7 at A = 3.1 %, G = 12, C = 1e22
    assert float(efficiency_leverage(0.031, 12, 1e22)) == pytest.approx(7.24, abs=0.01)
    assert float(efficiency_leverage(0.031, 12, 1e20)) == pytest.approx(4.55, abs=0.01)


def test_the_best_granularity_is_the_published_one_near_twelve() -> None:
    grid = np.linspace(2, 16, 2801)
    assert grid[efficiency_leverage(0.05, grid, 1e21).argmax()] == pytest.approx(11.3, abs=0.05)


def test_the_trained_check_of_the_paper_is_met_within_a_tenth() -> None:
    # Ling-mini-beta: 0.855 B active, 13 of 385 experts, d 2048, d_e 384, 1 T tokens; its dense
    # partner has 6.11 B
    leverage = efficiency_leverage(13 / 385, granularity(2048, 384), training_flops(0.855e9, 1e12))
    assert float(leverage) == pytest.approx(6.54, abs=0.01)
    assert 0.855 * float(leverage) == pytest.approx(6.11, rel=0.10)


def test_qwen3_30b_a3b_equals_a_dense_model_of_13_5_billion() -> None:
    model = load_model("qwen3-30b-a3b")
    assert model.moe is not None
    counts = parameter_counts(model)
    activation = activation_ratio(128, 8)
    leverage = efficiency_leverage(
        activation, granularity(2048, 768), training_flops(counts.active_nonembedding, 1e12)
    )
    assert float(leverage) == pytest.approx(4.95, abs=0.01)
    assert counts.active_nonembedding * float(leverage) == pytest.approx(13.5e9, rel=0.005)


def test_compute_beyond_the_fit_is_clipped_because_the_law_would_promise_too_much() -> None:
    assert float(efficiency_leverage(0.0625, 5.33, 5.9e23)) == float(
        efficiency_leverage(0.0625, 5.33, 1e22)
    )
    unclipped = (0.0625 + 0.0163) ** (
        1.23 - 0.0761 * np.log10(5.9e23) + 0.0167 * 2.415**2 - 0.117 * 2.415
    )
    assert unclipped == pytest.approx(6.97, abs=0.02)


def test_granularity_outside_the_fit_is_evaluated_at_its_end() -> None:
    assert float(efficiency_leverage(0.25, 0.57, 1e22)) == float(
        efficiency_leverage(0.25, 2.0, 1e22)
    )
    assert float(efficiency_leverage(0.25, 40, 1e22)) == float(
        efficiency_leverage(0.25, 16.0, 1e22)
    )


# N, k, s, d_e, A, G, active B, total B (both without embeddings), second law's loss difference
_NEIGHBOURS = [
    (64, 8, 0, 1472, 0.125, 2.8, 4.39, 28.7, -0.0115),
    (64, 8, 1, 1376, 0.139, 3.0, 4.56, 27.3, -0.0126),
    (128, 4, 1, 896, 0.039, 4.6, 2.24, 35.0, -0.0011),
    (128, 8, 0, 768, 0.0625, 5.3, 2.73, 29.9, 0.0),
    (128, 16, 0, 640, 0.125, 6.4, 3.94, 25.1, 0.0057),
    (256, 4, 1, 448, 0.0195, 9.1, 1.59, 34.9, 0.0131),
    (256, 8, 1, 416, 0.035, 9.9, 2.04, 32.5, 0.0060),
    (512, 8, 0, 256, 0.0156, 16.0, 1.56, 39.6, 0.0117),
]


@pytest.mark.parametrize(("n", "k", "s", "width", "a", "g", "active", "total", "loss"), _NEIGHBOURS)
def test_equal_quality_neighbours_of_qwen3_30b_a3b(
    n: int, k: int, s: int, width: int, a: float, g: float, active: float, total: float, loss: float
) -> None:
    found = _sizes(n, k, s, width)
    assert float(activation_ratio(n, k, s)) == pytest.approx(a, abs=6e-4)
    assert float(granularity(2048, width)) == pytest.approx(g, abs=0.06)
    assert found == pytest.approx((active * 1e9, total * 1e9), rel=0.005)
    base = _sizes(128, 8, 0, 768)
    difference = expert_mix_loss(found[1], found[0], k + s, s / (k + s)) - expert_mix_loss(
        base[1], base[0], 8, 0
    )
    assert float(difference) == pytest.approx(loss, abs=1e-4)
    steps = np.arange(256, 2049, 32)  # granularity 16 to 2
    keeps = np.array([_quality(n, k, s, w) >= _quality(128, 8, 0, 768) for w in steps])
    assert steps[keeps.argmax()] == width


def test_the_second_law_has_its_published_optima() -> None:
    # arXiv:2509.23678: 6.78 active experts, shared share 0.315
    counts = np.linspace(1, 20, 19001)
    shares = np.linspace(0, 1, 10001)
    assert counts[expert_mix_loss(30e9, 3e9, counts, 0.3).argmin()] == pytest.approx(
        6.78, abs=0.005
    )
    assert shares[expert_mix_loss(30e9, 3e9, 7.0, shares).argmin()] == pytest.approx(
        0.315, abs=0.0005
    )


SHARES = {
    0: (0.0039, 0.13),
    1 / 12: (0.0021, 0.067),
    1 / 8: (0.0014, 0.045),
    1 / 4: (0.0002, 0.005),
    2 / 3: (0.0049, 0.16),
}
COUNTS = {
    1: (0.0405, 2.5),
    2: (0.0138, 0.53),
    4: (0.0023, 0.07),
    12: (0.0027, 0.09),
    16: (0.0064, 0.22),
}


@pytest.mark.parametrize(
    ("count", "share", "loss", "extra", "off"),
    [
        *((7.0, share, *costs, 0.006) for share, costs in SHARES.items()),
        *(
            (count, 0.3148, *costs, 0.05 if count == 1 else 0.005)
            for count, costs in COUNTS.items()
        ),
    ],
)
def test_the_shared_share_and_active_experts_cost_what_the_second_law_says(
    count: float, share: float, loss: float, extra: float, off: float
) -> None:
    difference = expert_mix_loss(30e9, 3e9, count, share) - expert_mix_loss(30e9, 3e9, 7.0, 0.3148)
    assert float(difference) == pytest.approx(loss, abs=6e-5)
    assert float(loss_as_active_params(difference, 30e9, 3e9)) == pytest.approx(extra, abs=off)


@pytest.mark.parametrize(("sparsity", "published"), [(8, 1.69), (16, 1.39), (32, 1.15)])
def test_the_pessimistic_anchor_meets_the_kimi_k2_points(sparsity: int, published: float) -> None:
    # arXiv:2507.20534: sparsity 48 needs so many times fewer FLOPs than 8, 16 and 32
    same_quality_size = 1.0 / float(anchored_ratio(1.0, 1 / 48, 1.0, 1 / sparsity))
    assert 1.0 / same_quality_size == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("a", "law", "anchor"),
    [(1 / 4, 6.58, 4.55), (1 / 8, 4.37, 3.69), (1 / 32, 2.17, 2.44), (1 / 64, 1.68, 1.98)],
)
def test_active_parameters_for_equal_quality_by_both_laws(
    a: float, law: float, anchor: float
) -> None:
    # normalised to 3.0 B at A = 1/16, G = 8, C = 1e22
    needed = 3.0 * efficiency_leverage(1 / 16, 8, 1e22) / efficiency_leverage(a, 8, 1e22)
    assert float(needed) == pytest.approx(law, abs=0.01)
    assert 3.0 / float(anchored_ratio(1.0, a, 1.0, 1 / 16)) == pytest.approx(anchor, abs=0.01)


def test_all_experts_active_is_a_dense_model() -> None:
    assert float(efficiency_leverage(1.0, 8, 1e21)) == pytest.approx(1.0, abs=0.012)


@given(a=st.floats(0.008, 0.9), g=st.floats(2, 16), c=st.floats(1e18, 1e22))
def test_sparser_designs_have_more_leverage(a: float, g: float, c: float) -> None:
    assert float(efficiency_leverage(a, g, c)) > float(efficiency_leverage(a * 1.1, g, c))


def _shape(model_id: str) -> Shape:
    model = load_model(model_id)
    moe = model.moe
    shared = moe.shared_width / moe.expert_width
    values = (
        activation_ratio(moe.n_experts, moe.n_active, shared),
        granularity(model.hidden_size, moe.expert_width),
        attention_share_of_active(model),
        shared / (moe.n_active + shared),
        moe.n_active,
    )
    return Shape(*(np.asarray(x, float) for x in values))


def test_rails_that_mixtral_breaks_are_relaxed_to_its_values_and_said() -> None:
    rails, said = GuardRails().relaxed_to(_shape("mixtral-8x7b"))
    assert rails.granularity == pytest.approx((0.571, 16), abs=0.001)
    assert rails.attention_share[0] == pytest.approx(0.106, abs=0.001)
    assert rails.attention_share[1] == 0.5
    assert len(said) == 2
    assert all("outside the law's data" in line for line in said)


def test_a_baseline_within_the_rails_moves_none() -> None:
    assert GuardRails().relaxed_to(_shape("qwen3-30b-a3b")) == (GuardRails(), ())


def test_every_rail_refuses_what_lies_beyond_it_and_measures_how_far() -> None:
    inside = Shape(*(np.asarray(x) for x in (0.05, 8.0, 0.3, 0.2, 8.0)))
    assert all(float(x) == 0.0 for x in GuardRails().violations(inside).values())
    beyond = Shape(*(np.asarray(x) for x in (0.004, 32.0, 0.1, 2 / 3, 1.0)))
    assert {name: float(x) for name, x in GuardRails().violations(beyond).items()} == pytest.approx(
        dict.fromkeys(
            ("activation", "granularity", "attention_share", "shared_share", "n_active"), np.log(2)
        )
    )
    attention_heavy = dataclasses.replace(inside, attention_share=np.asarray(0.6))
    assert float(GuardRails().violations(attention_heavy)["attention_share"]) == pytest.approx(
        np.log(1.2)
    )


def test_unknown_training_tokens_mean_the_upper_end_of_the_law() -> None:
    assert training_flops(1e9, None).tolist() == 1e22
    assert float(training_flops(1e9, 1e12)) == 6e21
    with pytest.raises(AdvisorError, match="training_tokens"):
        training_flops(1e9, 0.0)
