"""Every kernel of the profiler against float64 on fresh random inputs, and the routing that feeds
them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from advisor.profiling.device import ProfilingError
from advisor.profiling.kernels_basic import (
    Attention,
    attention_reference,
    sdpa_folded,
    sdpa_grouped,
    two_products,
)
from advisor.profiling.kernels_moe import (
    TOLERANCE,
    Choice,
    Kernel,
    MoeLayer,
    expert_loop,
    grouped_mm,
    make_choice,
    make_layer,
    reference,
    relative_error,
    run_layer,
)
from advisor.profiling.routing_draw import (
    Routing,
    draw_routing,
    draw_typical,
    load_vector,
    mean_touched,
    touched,
)
from advisor.profiling.steps import Dimensions, SyntheticModel, redraw, reference_hidden
from tests.profiling.test_runner import _one_thread  # noqa: F401

DTYPES = ["float32", "bfloat16"]


def filled(n_tokens: int, n_active: int, n_experts: int, dtype: torch.dtype) -> Choice:
    choice = make_choice(n_tokens, n_active, dtype, "cpu")
    choice.fill(draw_routing(np.random.default_rng(), n_tokens, 1, n_experts, n_active)[:, 0])
    return choice


def dense_reference(x: torch.Tensor, layer: MoeLayer, choice: Choice) -> torch.Tensor:
    """All experts for all tokens in float64, weighted by a dense gate matrix: independent of
    moe.reference."""
    x = x.double()
    w13 = layer.w13.double()
    w2 = layer.w2.double()
    gate, up = torch.einsum("th,noh->tno", x, w13).chunk(2, dim=-1)
    each = torch.einsum("tni,nhi->tnh", torch.nn.functional.silu(gate) * up, w2)
    weights = torch.zeros(len(x), len(w2), dtype=torch.float64).scatter_(
        1, choice.ids, choice.gates.double()
    )
    return torch.einsum("tn,tnh->th", weights, each)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "k"), [(1, 1), (1, 4), (7, 2), (33, 8)])
@pytest.mark.parametrize("kernel", [expert_loop, grouped_mm], ids=["expert_loop", "grouped_mm"])
def test_moe_kernels_agree_with_float64(kernel: Kernel, tokens: int, k: int, dtype: str) -> None:
    kind = getattr(torch, dtype)
    layer = make_layer(8, 24, 48, 0, kind, "cpu")
    choice = filled(tokens, k, 8, kind)
    x = torch.randn(tokens, 48).to(kind)
    error = relative_error(kernel(x, layer, choice), dense_reference(x, layer, choice))
    assert error < TOLERANCE[dtype]


def test_the_reference_agrees_with_a_dense_formula_and_adds_shared_experts() -> None:
    layer = make_layer(6, 16, 32, 40, torch.float32, "cpu")
    choice = filled(9, 3, 6, torch.float32)
    x = torch.randn(9, 32)
    gate, up = (x.double() @ layer.shared13.double().T).chunk(2, dim=-1)
    shared = (torch.nn.functional.silu(gate) * up) @ layer.shared2.double().T
    wanted = dense_reference(x, layer, choice) + shared
    assert relative_error(reference(x, layer, choice, list(range(9))), wanted) < 1e-12
    assert relative_error(run_layer(expert_loop, x, layer, choice), wanted) < 1e-5


def test_a_wrong_kernel_is_caught() -> None:
    layer = make_layer(8, 24, 48, 0, torch.bfloat16, "cpu")
    choice = filled(5, 2, 8, torch.bfloat16)
    x = torch.randn(5, 48).to(torch.bfloat16)
    swapped = MoeLayer(torch.cat(layer.w13.chunk(2, dim=1)[::-1], dim=1), layer.w2)
    error = relative_error(
        expert_loop(x, swapped, choice), reference(x, layer, choice, list(range(5)))
    )
    assert error > 10 * TOLERANCE["bfloat16"]
    assert not relative_error(torch.full((2, 2), float("nan")), torch.ones(2, 2)) < 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [1, 2, 5])
@pytest.mark.parametrize("kernel", [sdpa_grouped, sdpa_folded, two_products])
def test_attention_kernels_agree_with_float64(kernel: Attention, queries: int, dtype: str) -> None:
    kind = getattr(torch, dtype)
    q = torch.randn((3, queries, 8, 16)).to(kind)
    k = torch.randn((3, 2, 37, 16)).to(kind)
    v = torch.randn((3, 2, 37, 16)).to(kind)
    repeated = [t.double().repeat_interleave(4, dim=1) for t in (k, v)]
    score = torch.einsum("bqhd,bhcd->bhqc", q.double(), repeated[0]) / 4.0
    score = score.masked_fill(torch.ones(queries, 37).triu(37 - queries + 1).bool(), float("-inf"))
    wanted = torch.einsum("bhqc,bhcd->bqhd", score.softmax(-1), repeated[1])
    assert relative_error(kernel(q, k, v), wanted) < TOLERANCE[dtype]
    assert relative_error(attention_reference(q, k, v), wanted[-1:]) < 1e-12


@pytest.mark.parametrize("kernel", [sdpa_folded, two_products])
def test_latent_attention_reads_values_from_the_keys(kernel: Attention) -> None:
    q = torch.randn(2, 3, 4, 24)
    k = torch.randn(2, 1, 50, 24)
    v = k[..., :16]
    assert relative_error(kernel(q, k, v)[-1:], attention_reference(q, k, v)) < 1e-5


PARAMS = {
    "hidden_size": 48,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 16,
    "vocab_size": 96,
    "n_experts": 8,
    "n_active": 2,
    "expert_width": 24,
    "shared_width": 16,
    "routing": {"name": "correlated", "affinity": 0.2, "stickiness": 0.3},
}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 6e-2)])
def test_a_whole_pass_agrees_with_float64(dtype: str, tolerance: float) -> None:
    model = SyntheticModel(Dimensions(PARAMS | {"dtype": dtype}), 3, "cpu")
    session = model.session(4, 3, 20, 3)
    counted = redraw(model.dims, session, np.random.default_rng())
    hidden = model.hidden(session, expert_loop, two_products)
    assert relative_error(hidden[-3:], reference_hidden(model, session)) < tolerance
    assert counted == np.mean([len(choice.ids.unique()) for choice in session.choices])


def test_experts_of_a_token_are_distinct_for_every_kind_of_routing() -> None:
    rng = np.random.default_rng(1)
    for routing in (
        Routing(),
        Routing(load_cv=1.0),
        Routing(affinity=0.4, stickiness=0.6),
        Routing(load_cv=0.8, affinity=0.9),
        Routing(expert_pool=6, stickiness=0.5),
    ):
        ids = draw_routing(rng, 40, 4, 32, 6, routing)
        assert ids.shape == (40, 4, 6)
        assert all(len(set(line)) == 6 for line in ids.reshape(-1, 6).tolist())
        assert ids.min() >= 0
        assert ids.max() < 32


def test_uniform_routing_touches_the_expected_number_of_experts() -> None:
    # N (1 - (1 - k/N)^t), MoESD (arXiv:2505.19645) eq. 8: 26.48 experts of 64 for k = 8, t = 4
    mean = mean_touched(np.random.default_rng(2), 4, 1, 64, 8, draws=600)
    assert mean == pytest.approx(26.48, abs=0.35)


def test_a_load_vector_has_the_wanted_sum_and_spread() -> None:
    q = load_vector(64, 6, 1.2)
    assert q.sum() == pytest.approx(6, rel=1e-9)
    assert q.std() / q.mean() == pytest.approx(1.2, rel=1e-3)
    assert q.max() <= 1
    with pytest.raises(ProfilingError, match="cannot be reached"):
        load_vector(16, 8, 1.5)


def test_skewed_routing_follows_the_load_vector() -> None:
    ids = draw_routing(np.random.default_rng(3), 20000, 1, 32, 4, Routing(load_cv=0.9))
    counts = np.sort(np.bincount(ids.ravel(), minlength=32) / 20000)
    assert counts == pytest.approx(np.sort(load_vector(32, 4, 0.9)), abs=0.015)


def test_affinity_and_stickiness_set_the_overlaps() -> None:
    # With equal loads J = k/N; two tokens of a sequence overlap by o_inf = J + (1 - J) affinity,
    # and neighbours by o_l = o_inf + (1 - o_inf) stickiness^l. The beta preferences are rescaled to
    # sum to k, which costs a little.
    ids = draw_routing(
        np.random.default_rng(4), 3000, 6, 64, 8, Routing(affinity=0.25, stickiness=0.4)
    )

    def overlap(lag: int) -> float:
        a = ids[:, :-lag].reshape(-1, 8)
        b = ids[:, lag:].reshape(-1, 8)
        return float((a[:, :, None] == b[:, None, :]).sum() / a.size)

    far = 1 / 8 + (7 / 8) * 0.25
    for lag in (1, 2, 5):
        assert overlap(lag) == pytest.approx(far + (1 - far) * 0.4**lag, abs=0.02)
    strangers = (ids[:-1, 0, :, None] == ids[1:, 0, None, :]).sum() / ids[1:, 0].size
    assert strangers == pytest.approx(1 / 8, abs=0.01)


def test_a_pool_separates_touched_experts_from_tokens() -> None:
    rng = np.random.default_rng(5)
    few = [touched(draw_routing(rng, 64, 1, 32, 4, Routing(expert_pool=5))) for _ in range(10)]
    assert set(few) == {5}
    assert touched(draw_routing(rng, 64, 1, 32, 4)) > 28


def test_typical_draws_hold_the_touched_count_and_stay_fresh() -> None:
    rng = np.random.default_rng(6)
    target = mean_touched(rng, 16, 1, 32, 4, draws=200)
    plain = [touched(draw_routing(rng, 16, 1, 32, 4)) for _ in range(60)]
    held = [draw_typical(rng, 16, 1, 32, 4, target=target) for _ in range(60)]
    assert np.std([touched(ids) for ids in held]) < 0.6 * np.std(plain)
    assert np.mean([touched(ids) for ids in held]) == pytest.approx(target, abs=0.5)
    assert len({ids.tobytes() for ids in held}) == 60


def test_impossible_routing_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ProfilingError, match="expert_pool"):
        draw_routing(rng, 1, 1, 8, 4, Routing(expert_pool=3))
    with pytest.raises(ProfilingError, match="affinity"):
        draw_routing(rng, 1, 1, 8, 4, Routing(affinity=1.0))
