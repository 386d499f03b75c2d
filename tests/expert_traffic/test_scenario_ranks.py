"""The slowest rank over all batches of a scenario: against direct counts, and at its limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from advisor.physics.expert_loads import Steps, Variant, counted, traffic_of_loads
from advisor.physics.expert_ranks import RankBalance, Sources, skewed_loads
from advisor.physics.step import routed_time, slowest_rank
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import counted_balance, filling_copies, layout_plan

SETUP = load_setup(
    build_scenario(
        hardware_id="h200-sxm",
        model_id="qwen3-30b-a3b",
        drafter_id="none",
        acceptance="0",
        expert_parallel=8,
        n_gpus=8,
    )
)
LOADS = skewed_loads(128, 8, 0.8, 48, np.random.default_rng(1))


@pytest.mark.parametrize(("wanted", "filled"), [(0, 0), (1, 8), (8, 8), (9, 16)])
def test_copies_are_rounded_up_to_fill_the_ranks(wanted: int, filled: int) -> None:
    assert filling_copies(128, 8, wanted) == filled


def test_experts_that_ranks_do_not_share_evenly_get_copies() -> None:
    assert filling_copies(126, 8, 0) == 2


@pytest.mark.parametrize(("hardware", "copies"), [("h200-sxm", None), ("rtx-pro-6000-blackwell", 8)])
def test_it_takes_as_long_as_long_counts_with_these_kernels_say(hardware: str, copies: int | None) -> None:
    setup = load_setup(SETUP.scenario.model_copy(update={"hardware_id": hardware}))
    layer, traffic = setup.routed_layer, traffic_of_loads(LOADS, setup.router)
    placement = dataclasses.replace(layer.placement, balance=counted_balance(traffic, 8, copies, 4))
    variant = Variant(layout_plan(128, 8, copies))
    for batch in (4, 32, 256):
        once = counted(layer.rank_seconds, traffic, [variant], Sources(8), Steps(batch, 4, 1_500_000))[0]
        tokens, touched = np.arange(1.0, 5.0), once.touched_overall
        kind = (layer.cost, placement, layer.shape)
        uneven = slowest_rank(*kind, np.asarray(float(batch)), tokens, touched, layer.dtype)
        here = routed_time(*kind, batch * tokens, touched, layer.dtype, uneven=uneven)
        assert here == pytest.approx(once.slowness[:, 0].mean(axis=0), rel=0.04)


def fullest(found: RankBalance, batch: float, tokens: float) -> float:
    return max(float(one.pairs) for one in found.at(batch, tokens))


def test_many_tokens_load_the_fullest_rank_as_the_loads_say() -> None:
    found = counted_balance(traffic_of_loads(LOADS, SETUP.router), 8, None, 4)
    by_rank = LOADS.reshape(48, 8, 16).sum(axis=2)
    assert fullest(found, 1024, 4) == pytest.approx((by_rank.max(axis=1) / by_rank.mean(axis=1)).mean(), rel=0.04)


def test_even_loads_leave_ranks_even_in_large_steps() -> None:
    found = counted_balance(traffic_of_loads(np.ones((4, 128)), SETUP.router), 8, None, 4)
    assert fullest(found, 1024, 4) == pytest.approx(1.0, abs=0.05)
    assert fullest(found, 1, 1) > 2.0  # eight choices on eight ranks are never one each


def test_longer_drafts_than_are_counted_hold_the_last() -> None:
    found = counted_balance(traffic_of_loads(LOADS, SETUP.router), 8, None, 9)
    assert found.pairs.shape == (5, 6, 9)
    assert (found.pairs[:, -1, 4:] == found.pairs[:, -1, 3:4]).all()
