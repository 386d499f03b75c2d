"""The step-cost model: hand-computed terms, limits, monotonicity, broadcasting."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.physics import laws
from advisor.physics.architecture import (
    Architecture,
    DenseFfn,
    Mixer,
    Moe,
    WeightDtype,
    WeightDtypes,
)
from advisor.physics.attention import AttentionLoad, attention_core
from advisor.physics.expert_ranks import RankBalance
from advisor.physics.kernel_costs import (
    AttentionCost,
    AttentionModule,
    GemmCost,
    KernelCosts,
    MeasuredLayer,
    MoeCost,
    Network,
    StreamCost,
    stream_cost,
)
from advisor.physics.step import (
    MoeShape,
    Placement,
    StepTime,
    exchanges,
    expert_shape,
    expert_work,
    gemm_time,
    in_graph,
    launched_layers,
    matrix_products,
    mixing_symbols,
    norm_symbols,
    routed_time,
    slowest_rank,
    step_time,
)
from advisor.physics.touched_experts import local_experts
from advisor.prediction import AdvisorError, Tier

GEMM = GemmCost(4e-6, 4e12, 8e14, Tier.FITTED, sharpness=2.3, log_sd=0.15)
HOST = {"host_per_step_s": 300e-6, "host_per_draft_pass_s": 300e-6, "host_per_round_s": 400e-6}
SPREADS = {"overhead_log_sd": 0.86}
MOE = MoeCost(
    t0_s=20e-6,
    bandwidth_bytes_per_s=4e12,
    flops_per_s=6e14,
    tier=Tier.FITTED,
    per_expert_s=1e-7,
    activation_bandwidth_bytes_per_s=2e12,
    per_resident_expert_s=1e-8,
    log_sd=0.15,
)
COSTS = KernelCosts(
    routed=MOE,
    attention_projection=GEMM,
    shared=GEMM,
    dense=GEMM,
    lm_head=GEMM,
    attention=AttentionCost(
        10e-6, 3.5e12, 5e14, Tier.FITTED, log_sd=0.2, sharpness=4.0, block_rows=16.0
    ),
    all_reduce={
        2: StreamCost(5e-6, 1e11, Tier.FITTED, 0.2),
        8: StreamCost(9e-6, 2e11, Tier.FITTED, 0.2),
    },
    all_to_all={8: StreamCost(20e-6, 1e11, Tier.FITTED, 0.2)},
    launch_per_layer_s=10e-6,
    **HOST,
    **SPREADS,
)
GQA = Mixer(
    kind="full",
    count=4,
    projection_params=2048 * (4096 + 2 * 512 + 4096),
    kv_elements_per_token=1024,
    kv_shards=4,
    query_heads=32,
    flops_per_head_and_key=4 * 128,
)
MODEL = Architecture(
    id="toy",
    name="Toy MoE",
    hidden_size=2048,
    vocab_size=32000,
    mixers=(GQA,),
    moe=Moe(
        count=4,
        n_experts=64,
        n_active=8,
        expert_width=768,
        expert_input_width=2048,
        n_shared=1,
        shared_width=768,
    ),
    dtypes=WeightDtypes(),
)


def total(**arguments: object) -> np.ndarray:
    return step_time(MODEL, COSTS, Placement(), **arguments).total  # type: ignore[arg-type]


ALONE = Placement()


def components(
    model: Architecture = MODEL,
    costs: KernelCosts = COSTS,
    placement: Placement = ALONE,
    **arguments: object,
) -> dict[str, np.ndarray]:
    """Times of a pass of one token of 8 sequences at 10 tokens of context that touches 40 experts,
    unless told. [s]"""
    usual = {"batch_size": 8, "tokens_per_sequence": 1, "context_tokens": 10, "touched": 40}
    return step_time(model, costs, placement, **(usual | arguments)).components  # type: ignore[arg-type]


def work(**changes: float) -> dict[str, float]:
    """What one layer's experts of 768 x 2048 move and compute for 32 tokens of 8 experts that touch
    40."""
    usual = {
        "tokens": 32,
        "n_active": 8,
        "rows_per_expert": 6.4,
        "touched": 40,
        "I": 768,
        "h": 2048,
        "n_mat": 3,
    }
    found = expert_work(**(usual | {"bytes_per_weight": 2.0} | changes))  # type: ignore[arg-type]
    return {name: float(value) for name, value in found.items()}


def attention_work(
    mixer: Mixer, batch: float, q: float, context: float, ranks: int, kv: float
) -> tuple[float, float]:
    """(bytes, operations) of one layer's attention core on one rank."""
    core = attention_core(mixer, COSTS, AttentionLoad(batch, q, context, kv, ranks))
    return float(core.read_bytes), float(core.flops)


def test_the_routed_terms_are_the_ones_of_the_model_page() -> None:
    whole = work()
    assert whole["W"] == 40 * 3 * 2048 * 768 * 2
    assert whole["F"] == 2 * 3 * 2048 * 768 * 40 * 16  # 6.4 + 7.5 rows are padded to one tile of 16
    assert whole["A"] == 256 * (4 * 2048 + 2 * 3 * 768) + 4 * 32 * 2048
    assert (
        work(touched=20, n_mat=2, ranks=2)["A"]
        == 256 / 2 * (4 * 2048 + 2 * 2 * 768) + 4 * 32 * 2048
    )


def test_the_cache_is_read_once_per_sequence_whatever_is_verified() -> None:
    one, _ = attention_work(GQA, 8.0, 1.0, 1000.0, 1, 2.0)
    four, flops = attention_work(GQA, 8.0, 4.0, 1000.0, 1, 2.0)
    assert float(one) == 8 * 1001 * 1024 * 2
    assert float(four) == 8 * 1004 * 1024 * 2
    assert float(flops) == 8 * 4 * 1004 * 4 * 32 * 128


def test_query_rows_fill_blocks_of_16_for_each_kv_head_and_all_verified_tokens_share_one() -> None:
    """8 query heads meet each of 4 KV heads: one token's 8 rows cost as much as the 16 rows of two
    tokens."""
    flops = [attention_work(GQA, 8.0, q, 4096.0 - q, 1, 2.0)[1] for q in (1.0, 2.0, 4.0)]
    assert flops[0] == flops[1] == 8 * 4 * 16 * 4096 * 4 * 128
    assert flops[2] == 2 * flops[1]


def test_queries_that_choose_their_own_entries_share_no_block() -> None:
    sparse = GQA.model_copy(update={"kind": "sparse", "window_tokens": 2048})
    one = attention_work(sparse, 8.0, 1.0, 9999.0, 1, 2.0)[1]
    four = attention_work(sparse, 8.0, 4.0, 9999.0, 1, 2.0)[1]
    assert four == 4 * one == 4 * 8 * 4 * 16 * 2048 * 4 * 128


def test_a_window_bounds_what_is_read_and_a_compressed_cache_shrinks_it() -> None:
    windowed = GQA.model_copy(update={"kind": "sliding", "window_tokens": 128})
    compressed = GQA.model_copy(update={"compression": 4.0, "local_window_tokens": 100})
    batch = 1.0
    q = 1.0
    context = 9999.0
    assert float(attention_work(windowed, batch, q, context, 1, 2.0)[0]) == 128 * 1024 * 2
    assert (
        float(attention_work(compressed, batch, q, context, 1, 2.0)[0]) == (2500 + 100) * 1024 * 2
    )


def test_each_query_of_sparse_attention_chooses_its_own_entries_but_never_more_than_there_are() -> (
    None
):
    sparse = Mixer(
        kind="sparse",
        count=1,
        projection_params=1,
        kv_elements_per_token=576,
        window_tokens=2048,
        index_elements_per_token=128,
        query_heads=1,
        flops_per_head_and_key=1,
    )
    batch = 1.0
    context = 31996.0
    read, _ = attention_work(sparse, batch, 4.0, context, 1, 1.0)
    assert float(read) == 4 * 2048 * 576 + 32000 * 128
    short, _ = attention_work(sparse, batch, 4.0, 2996.0, 1, 1.0)
    assert float(short) == 3000 * 576 + 3000 * 128


def test_a_recurrent_layer_costs_the_same_at_any_context() -> None:
    linear = Mixer(kind="linear", count=1, projection_params=1, state_elements=10_000)
    read = [attention_work(linear, 2.0, 1.0, c, 1, 2.0)[0] for c in (10.0, 1e6)]
    assert float(read[0]) == float(read[1]) == 2 * 10_000 * 4 * 2


def test_the_cache_splits_over_ranks_only_as_often_as_there_are_kv_heads() -> None:
    arguments = 1.0, 1.0, 999.0
    reads = [float(attention_work(GQA, *arguments, ranks, 2.0)[0]) for ranks in (1, 4, 8)]
    assert reads[1] == reads[0] / 4
    assert reads[2] == reads[1]


def test_expert_parallel_attention_groups_share_the_batch_and_exchange_tokens() -> None:
    wide = Placement(tensor_parallel=1, expert_parallel=8)
    assert (wide.gpus, wide.attention_groups, wide.expert_tensor_parallel) == (8, 8, 1)
    parts = components(placement=wide, batch_size=64, touched=60)
    sent = 8 * 2048 * 2 * 8
    assert float(parts["communication"]) == pytest.approx(2 * 4 * (20e-6 + sent / 1e11))


def test_missing_link_costs_are_refused_not_taken_for_zero() -> None:
    bare = dataclasses.replace(COSTS, all_reduce={}, all_to_all={})
    with pytest.raises(AdvisorError, match="tensor_parallel=1"):
        step_time(MODEL, bare, Placement(2), batch_size=1, tokens_per_sequence=1, context_tokens=1)
    with pytest.raises(AdvisorError, match="expert_parallel"):
        step_time(
            MODEL, bare, Placement(1, 2), batch_size=1, tokens_per_sequence=1, context_tokens=1
        )


def test_the_nearest_larger_group_stands_in_for_an_unmeasured_one() -> None:
    assert stream_cost(COSTS.all_reduce, 4) is COSTS.all_reduce[8]
    assert stream_cost(COSTS.all_reduce, 16) is COSTS.all_reduce[8]
    assert stream_cost(COSTS.all_reduce, 1) is None


@settings(max_examples=60)
@given(
    batch=st.integers(1, 512),
    q=st.integers(1, 9),
    context=st.integers(1, 100_000),
    touched=st.floats(8, 63),
    more=st.sampled_from(["batch_size", "tokens_per_sequence", "context_tokens", "touched"]),
)
def test_more_of_anything_never_takes_less_time(
    batch: int, q: int, context: int, touched: float, more: str
) -> None:
    arguments = {
        "batch_size": batch,
        "tokens_per_sequence": q,
        "context_tokens": context,
        "touched": touched,
    }
    bigger = arguments | {more: arguments[more] + 1}
    assert float(total(**bigger)) >= float(total(**arguments)) * (1 - 1e-12)


def test_a_grid_of_designs_is_one_call_and_each_equals_its_own() -> None:
    experts = np.array([32.0, 64.0])[:, None]
    width = np.array([512.0, 768.0, 1024.0])
    shape = MoeShape(4, experts, 8, width, 2048, 3, 0)
    given = {"batch_size": 4, "tokens_per_sequence": 2, "context_tokens": 100}
    grid = total(**given, touched=experts / 2, moe=shape)
    assert grid.shape == (2, 3)
    assert float(grid[1, 2]) == pytest.approx(
        float(total(**given, touched=32, moe=MoeShape(4, 64, 8, 1024, 2048, 3, 0)))
    )


def test_shared_experts_have_as_many_matrices_as_the_routed_ones() -> None:
    two = MODEL.model_copy(update={"moe": MODEL.moe.model_copy(update={"matrices": 2})})
    shared = float(components(two, batch_size=1)["shared"])
    assert shared == pytest.approx(4 * float(gemm_time(GEMM, 1, 2 * 2048 * 768, "bf16", 2)))


@pytest.mark.parametrize(
    ("kernel", "times_us"),
    [
        (
            "H200, SGLang 0.5.16, packed decode and sigmoid-gating update",
            [906.0, 1320.6, 2120.6, 3816.4],
        ),
        ("B200, vLLM, packed decode and fused_recurrent_kda", [559.3, 787.0, 1344.2, 2489.1]),
    ],
)
def test_a_recurrent_layer_writes_a_state_for_each_verified_token_as_measured(
    kernel: str, times_us: list[float]
) -> None:
    """Kimi-K3's 96 heads of 128 x 128 at 256 sequences and 1, 2, 4, 8 tokens, of the store's
    linear_attention table."""
    moved = laws.state_moved(256.0, 96 * 128 * 128, np.array([1.0, 2.0, 4.0, 8.0]))
    assert np.array(times_us) / times_us[0] == pytest.approx(moved / moved[0], rel=0.08), kernel


def test_a_counted_slowest_rank_takes_the_place_of_the_assumed_one() -> None:
    shape = MoeShape(1, 64, 4, 512, 1024, 3, 0)
    one = np.array([[1.0]])
    balance = RankBalance(np.array([16.0]), 1.25 * one[None], 2.0 * one[None], 2.0 * one, 72.0)
    placement = Placement(1, 8, balance=balance)
    uneven = slowest_rank(
        MOE, placement, shape, np.asarray(16.0), np.asarray(1.0), np.asarray(32.0), "bf16"
    )
    # 32 of 64 experts touched: 1.25 x 4 on the slowest of 8 ranks; 2 x 8 of the 64 choices: 3.2
    # rows an expert.
    moved = 16 * (4 * 1024 + 2 * 3 * 512) + 4 * 16 * 1024
    for touched, on_rank, rows in ((32, 5, 16.0), (4, 0.625, 25.6 + 7.5)):  # in tiles of 16 rows
        weights = 3 * 1024 * 512 * 2 * on_rank
        flops = 2 * 3 * 1024 * 512 * on_rank * rows
        expected = laws.routed_layers(
            W=weights, U=on_rank, F=flops, A=moved, N=72, ep=8, **MOE.symbols
        )
        assert float(
            routed_time(MOE, placement, shape, 16, touched, "bf16", uneven=uneven)
        ) == pytest.approx(expected)
    assert slowest_rank(
        MOE, Placement(1, 2, 0, balance), shape, np.asarray(16.0), np.asarray(1.0), touched, "bf16"
    )
    for ranks in (1, 2):
        counted = routed_time(MOE, Placement(1, ranks), shape, 16, 32, "bf16", uneven=uneven)
        assumed = routed_time(MOE, Placement(1, ranks), shape, 16, 32, "bf16", uneven=None)
        assert (counted == assumed) == (ranks == 1)
    assert (
        components(placement=placement)["routed"] != components(placement=Placement(1, 8))["routed"]
    )


def test_rows_of_padding_attend_to_nothing_and_no_rank_holds_a_copy_unless_told() -> None:
    decoding, computed = (
        {name: np.array(t) for name in ("attention", "routed")} for t in (1.0, 3.0)
    )
    found = in_graph(StepTime(decoding), StepTime(computed | {"host": np.array(2.0)})).components
    assert found == {"attention": 1.0, "routed": 3.0, "host": 2.0}
    assert Placement().redundant == 0


def test_of_the_ranks_that_may_be_slowest_a_layer_waits_for_the_one_that_takes_longest() -> None:
    shape = MoeShape(1, 64, 4, 512, 1024, 3, 0)
    reads = np.array([1.5, 1.0])[:, None, None]
    serves = np.array([1.0, 3.0])[:, None, None]
    balance = RankBalance(np.array([16.0]), reads, serves, np.array([[1.0]]), 64.0)
    waits = {}
    for tokens in (16.0, 4096.0):  # weights decide a small step, arithmetic a large one
        step = (np.asarray(tokens / 16.0), np.asarray(16.0), np.asarray(32.0), "bf16")
        found = slowest_rank(MOE, Placement(1, 8, balance=balance), shape, *step)
        waits[tokens] = float(found.touched), float(found.pairs)
    assert waits == {16.0: (1.5, 1.0), 4096.0: (1.0, 3.0)}


def test_an_expert_exchange_waits_for_the_rank_that_receives_most() -> None:
    shape = MoeShape.of(MODEL)
    one = np.array([[1.0]])
    (uneven,) = RankBalance(np.array([1.0]), one[None], one[None], 1.5 * one, 128.0).at(1, 1)
    rows = np.asarray(64.0)
    plain = exchanges(MODEL, COSTS, Placement(1, 8), rows, shape, None)[0]
    waits = exchanges(MODEL, COSTS, Placement(1, 8), rows, shape, uneven)[0]
    start = 2 * shape.count * 20e-6
    assert float(waits.time_s - start) == pytest.approx(1.5 * float(plain.time_s - start))


NETWORK = Network(
    ranks_per_node=8, t0_s=16e-6, bandwidth_bytes_per_s=4e10, tier=Tier.ROOFLINE, log_sd=0.3
)


@pytest.mark.parametrize(
    ("dtype", "out"), [("bf16", 2 * 2048), ("fp8_block", 2048 + 2048 / 32 + 16)]
)
def test_what_leaves_the_node_takes_the_network_beside_the_links(
    dtype: WeightDtype, out: float
) -> None:
    """64 rows a rank to 8 experts each, three quarters of them on other nodes, and back in 16
    bits."""
    costs = dataclasses.replace(COSTS, network=NETWORK)
    model = MODEL.model_copy(update={"dtypes": WeightDtypes(routed=dtype)})
    shape = MoeShape.of(model)
    (beyond,) = exchanges(model, costs, Placement(1, 32), np.asarray(64.0), shape)
    travels = 64 * 8 * (out + 2 * 2048) / 2
    waits = 0.75 * (16e-6 + travels / 4e10)
    assert waits > 0.25 * 64 * 8 * 2 * 2048 / 1e11, "the network takes longer than the links"
    assert float(beyond.time_s) == pytest.approx(2 * shape.count * (20e-6 + waits))


def test_ranks_of_one_node_take_no_network() -> None:
    costs = dataclasses.replace(COSTS, network=NETWORK)
    rows = np.asarray(64.0)
    shape = MoeShape.of(MODEL)
    alone = exchanges(MODEL, COSTS, Placement(1, 8), rows, shape)[0]
    beside = exchanges(MODEL, costs, Placement(1, 8), rows, shape)[0]
    assert float(beside.time_s) == float(alone.time_s)


def bend(weights: float, rows: float, launches: int) -> float:
    """One layer's matrix products by hand: launches, and the smooth maximum of reading 2 bytes each
    and arithmetic."""
    read = weights * 2 / 4e12
    work = 2 * rows * weights / 8e14
    p = GEMM.sharpness
    return launches * 4e-6 + (read**p + work**p) ** (1 / p)


NORMED = GQA.model_copy(update={"query_key_norm": True, "replicated_params": 2048 * 512})
MIXED = MODEL.model_copy(
    update={
        "mixers": (NORMED, GQA.model_copy(update={"count": 2})),
        "dense": (DenseFfn(count=1, width=8192),),
    }
)


def test_each_component_of_a_pass_on_two_ranks_by_hand() -> None:
    """4 sequences of 3 tokens: 12 rows, whose weights two ranks share but the router and what a
    mixer replicates."""
    costs = dataclasses.replace(
        COSTS,
        launch_per_layer_s=1e-5,
        host_per_step_s=3e-4,
        query_key_norm_s=2e-6,
        reread_share=0.25,
    )
    parts = components(
        MIXED, costs, Placement(2), batch_size=4, tokens_per_sequence=3, context_tokens=100
    )
    qkvo = GQA.projection_params
    d = 2048
    core = laws.attention_core
    read = 4 * 103 * 1024 * 2 / 2
    flops = 4 * max(3 * 32 / 2, 16 * 4 / 2) * 103 * 512
    attention = core(
        R=read, F=flops, p=costs.attention.sharpness, t0=1e-5, BW=3.5e12, F_attn=5e14, L=6
    )
    own = work(tokens=12, rows_per_expert=2.4, I=384)
    routed = 20e-6 + own["W"] / 4e12 + 40 * 1e-7 + own["F"] / 6e14 + own["A"] / 2e12 + 64 * 1e-8
    expected = {
        "host": 3e-4,
        "launch": 6e-5,
        "attention_projection": 4 * bend((qkvo + d * 512) / 2, 12, 2)
        + 2 * bend(qkvo / 2, 12, 2)
        + 4 * 2e-6,
        "attention": attention,
        "router": 4 * bend(64 * d, 12, 1),
        "routed": 4 * routed,
        "shared": 4 * bend(3 * d * 768 / 2, 12, 2),
        "dense": bend(3 * d * 8192 / 2, 12, 2),
        "communication": 2 * 6 * (5e-6 + 12 * d * 2 / 1e11),
        "lm_head": bend(32000 * d / 2, 12, 1),
        "reread": 0.25 * 2 * attention,
    }
    assert set(parts) == set(expected)
    for name, seconds in expected.items():
        assert float(parts[name]) == pytest.approx(float(seconds), rel=1e-9), name


def test_hyper_connections_take_their_time_in_every_layer_that_mixes_streams_and_nothing() -> None:
    """2 of 6 layers, twice each: 1e-5 s, and 4 streams of 2,048 elements read and written by 12
    tokens at 1e12 B/s."""
    mixed = MIXED.model_copy(
        update={"mixers": (NORMED, GQA.model_copy(update={"count": 2, "mixed_streams": 4}))}
    )
    timed = dataclasses.replace(COSTS, stream_mixing=StreamCost(1e-5, 1e12, Tier.FITTED, 0.1))
    asked = {"batch_size": 4, "tokens_per_sequence": 3, "context_tokens": 100}
    parts = {
        name: components(mixed, costs, Placement(2), **asked)
        for name, costs in (("", COSTS), ("timed", timed))
    }
    more = {name: float(parts["timed"][name] - parts[""][name]) for name in parts[""]}
    assert more.pop("attention_projection") == pytest.approx(
        2 * 2 * (1e-5 + 2 * 4 * 2048 * 2 * 12 / 1e12)
    )
    assert not any(more.values())
    assert mixing_symbols(mixed, COSTS) == mixing_symbols(MIXED, timed) == {}


def test_experts_split_over_ranks_wait_for_the_slowest_and_each_rank_holds_its_share() -> None:
    shape = MoeShape.of(MODEL)
    assert shape is not None
    here = float(local_experts(40.0, 64, 2))
    assert here > 20
    own = work(tokens=12, rows_per_expert=2.4, touched=here, ranks=2)
    expected = 20e-6 + own["W"] / 4e12 + here * 1e-7 + own["F"] / 6e14 + own["A"] / 2e12 + 32 * 1e-8
    assert float(routed_time(MOE, Placement(2, 2), shape, 12, 40, "bf16")) == pytest.approx(
        float(expected)
    )
    assert float(routed_time(MOE, Placement(2, 2), shape, 12, 40, "bf16", 4)) == pytest.approx(
        4 * float(expected)
    )


def test_experts_narrower_than_their_ranks_are_split_in_width() -> None:
    assert Placement(8, 2).expert_tensor_parallel == 4
    assert Placement(2, 8).expert_tensor_parallel == 1
    assert (Placement(8, 2).attention_groups, Placement(2, 8).attention_groups) == (1, 4)
    shape = MoeShape.of(MODEL)
    assert shape is not None
    whole = expert_shape(shape, Placement())
    split = expert_shape(shape, Placement(8, 2))
    assert whole == (2048, 768, 8, 64, 3, 1)
    assert split == (2048, 192, 8, 64, 3, 2)


def test_an_array_of_shapes_is_none_that_a_kernel_was_measured_with() -> None:
    one = np.array([64.0])
    two = np.array([32.0, 64.0])
    assert expert_shape(MoeShape(4, one, 8, 768, 2048, 3, 0), Placement()) == (
        2048,
        768,
        8,
        64,
        3,
        1,
    )
    assert expert_shape(MoeShape(4, two, 8, 768, 2048, 3, 0), Placement()) is None


def test_the_measured_shape_takes_its_own_rows_and_any_other_the_curve_by_rows_of_an_expert() -> (
    None
):
    """Rows per expert are 12 x 8 / 40 = 2.4."""
    shape = MoeShape.of(MODEL)
    assert shape is not None
    form = float(routed_time(MOE, Placement(), shape, 12, 40, "bf16"))
    curve = ((1.2, 1.0), (2.4, 1.5), (4.8, 1.0))
    rows = MeasuredLayer((2048, 768, 8, 64, 3, 1), ((6.0, 2.0), (12.0, 3.0)), 0.05)
    bent = dataclasses.replace(MOE, curve=curve)
    measured = dataclasses.replace(MOE, curve=curve, measured=rows)
    assert float(routed_time(bent, Placement(), shape, 12, 40, "bf16")) == pytest.approx(1.5 * form)
    assert float(routed_time(measured, Placement(), shape, 12, 40, "bf16")) == pytest.approx(
        3.0 * form
    )
    wider = dataclasses.replace(shape, expert_width=1536)
    other = float(routed_time(MOE, Placement(), wider, 12, 40, "bf16"))
    assert float(routed_time(measured, Placement(), wider, 12, 40, "bf16")) == pytest.approx(
        1.5 * other
    )


@pytest.mark.parametrize(
    ("kind", "launches"),
    [("full", 2), ("sliding", 2), ("sparse", 6), ("mla", 5), ("linear", 3), ("none", 0)],
)
def test_a_layer_launches_its_fused_projections_and_what_its_kind_adds(
    kind: str, launches: int
) -> None:
    """QKV and output; latent attention two absorbed products and a second query, linear attention
    its gates."""
    mixer = GQA.model_copy(update={"kind": kind})
    model = MODEL.model_copy(update={"mixers": (mixer,)})
    (found,) = matrix_products(model, COSTS, Placement(), None)["attention_projection"]
    assert (found.launches, found.layers, found.weights) == (launches, 4, GQA.projection_params)


def test_shared_experts_launch_their_own_kernels_where_no_graph_is_known_to_hold_them() -> None:
    costs = dataclasses.replace(COSTS, shared_launches=0.5)
    alone = MODEL.model_copy(
        update={"moe": MODEL.moe.model_copy(update={"n_shared": 0, "shared_width": 0})}
    )
    assert launched_layers(MODEL, costs) - launched_layers(alone, costs) == 0.5 * MODEL.moe.count
    assert launched_layers(MODEL, COSTS) == launched_layers(alone, COSTS)


def test_layers_measured_whole_bring_their_projections_norms_and_half_of_their_launches() -> None:
    module = AttentionModule(
        (1.0, 64.0), (1.0, 4096.0), ((1e-5, 2e-5), (3e-5, 9e-5)), (64.0, 64.0), False, 0.1, ""
    )
    costs = dataclasses.replace(COSTS, query_key_norm_s=2e-6, modules={NORMED: module})
    plain = NORMED.model_copy(
        update={"count": 3, "projection_params": 1000, "replicated_params": 0}
    )
    model = MODEL.model_copy(update={"mixers": (NORMED, plain, GQA)})
    assert launched_layers(model, costs) == 0.5 * 4 + 3 + 4
    assert norm_symbols(model, costs) == {"c_q": 2e-6, "L_q": 3.0}
    assert norm_symbols(model, dataclasses.replace(costs, modules={})) == {"c_q": 2e-6, "L_q": 7.0}
    found = matrix_products(model, costs, Placement(), None)["attention_projection"]
    assert [item.weights for item in found] == [1000, GQA.projection_params]


def test_a_design_without_a_shared_expert_runs_no_such_layer() -> None:
    shape = MoeShape(4, 64, 8, 768, 2048, 3, np.array([0.0, 768.0]))
    found = components(batch_size=4, touched=20.0, moe=shape)["shared"]
    assert found[0] == 0.0
    assert found[1] == pytest.approx(4 * bend(3 * 2048 * 768, 4, 2))


def test_a_cache_holds_16_bits_unless_told_otherwise() -> None:
    arguments = {"batch_size": 4, "tokens_per_sequence": 1, "context_tokens": 50_000}
    usual = step_time(MODEL, COSTS, Placement(), **arguments).components  # type: ignore[arg-type]
    named = step_time(
        MODEL, COSTS, Placement(), **arguments, kv_bytes_per_element=2.0, touched=0.0
    ).components  # type: ignore[arg-type]
    assert {name: float(time) for name, time in usual.items()} == {
        name: float(time) for name, time in named.items()
    }


def test_parts_that_a_model_does_not_have_take_no_time_at_every_batch() -> None:
    parts = components(batch_size=[4, 16], touched=20.0)
    for name in ("dense", "communication"):
        assert parts[name].tolist() == [0.0, 0.0]
    for name in ("dense", "communication", "router", "attention_projection", "routed", "lm_head"):
        assert (parts[name].shape, parts[name].dtype) == ((2,), float), name


def test_messages_take_as_long_as_measured_at_their_size() -> None:
    """An all-reduce of 16 rows of 2048 and an exchange of what 8 experts of each row are sent, on
    half of the group."""
    place = Placement(2, 8)
    bytes_ = 16 * 2048 * 2
    sent = 16 * 2048 * 2 / 2 * 8
    curved = dataclasses.replace(
        COSTS,
        all_reduce={
            2: StreamCost(
                5e-6, 1e11, Tier.FITTED, 0.2, ((bytes_ / 2, 1.0), (bytes_, 2.0), (sent, 1.0))
            )
        },
        all_to_all={
            8: StreamCost(
                2e-5, 1e11, Tier.FITTED, 0.2, ((bytes_, 1.0), (sent, 3.0), (sent * 2, 1.0))
            )
        },
    )
    reduce, exchange = exchanges(MODEL, curved, place, np.asarray(16.0), MoeShape.of(MODEL))
    assert (reduce.kind, exchange.kind) == ("all-reduce", "expert exchange")
    assert float(reduce.time_s) == pytest.approx(2 * 4 * 2.0 * (5e-6 + bytes_ / 1e11))
    assert float(exchange.time_s) == pytest.approx(2 * 4 * 3.0 * (2e-5 + sent / 1e11))
    assert exchanges(MODEL, curved, Placement(2, 2), np.asarray(16.0), MoeShape.of(MODEL))[1:] == ()
    assert exchanges(MODEL, curved, place, np.asarray(16.0), None)[1:] == ()
    assert exchanges(MODEL, curved, Placement(), np.asarray(16.0), MoeShape.of(MODEL)) == ()
