"""How well supported a point is: its tier, and what steps longer than the measured ones add to its
band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.physics.components import BY_KEY
from advisor.physics.kernel_costs import AttentionCost, AttentionModule
from advisor.physics.step import Placement
from advisor.predict.load import load_setup
from advisor.predict.tiers import (
    CALIBRATED_TOKENS,
    beyond_log_sd,
    component_tier_ranks,
    records_in_use,
    tiers_of,
)
from advisor.prediction import Tier
from tests.predict.test_curve import QWEN

ROOFLINE = Tier.ROOFLINE.rank
FITTED = Tier.FITTED.rank
INTERPOLATED = Tier.INTERPOLATED.rank


def test_a_band_widens_by_a_tenth_for_each_doubling_of_a_step_beyond_the_measured_ones() -> None:
    steps = [1, 1024, 2048, 2048 * 2**0.5, 4096, 16384]
    assert beyond_log_sd(steps) == pytest.approx([0.0, 0.0, 0.0, 0.05, 0.1, 0.3])
    assert CALIBRATED_TOKENS == 2048, "the longest step of the tables that kernels are fitted on"


def told_tier(
    ranks: dict[str, int], plain: dict[str, float], whole: dict[str, float], monkeypatch
) -> str:
    """The tier of one point whose components have these ranks and take this long; others have the
    best rank."""
    monkeypatch.setattr(
        "advisor.predict.tiers.component_tier_ranks",
        lambda setup, tokens: {
            name: np.full(tokens.shape, rank) for name, rank in ranks.items() if setup == "own"
        },
    )
    arrays = (
        {name: np.array([value]) for name, value in plain.items()},
        {name: np.array([[value]]) for name, value in whole.items()},
    )
    return str(tiers_of("own", *arrays, np.array([16.0]), np.array([[64.0]]))[0, 0])  # type: ignore[arg-type]


def test_a_result_is_as_good_as_the_worst_kernel_that_takes_a_tenth_of_either_arm(
    monkeypatch,
) -> None:
    rest = {"host": 9.0, "routed": 1.0}
    ranks = {"routed": ROOFLINE, "draft": FITTED}
    assert told_tier(ranks, rest, {"host": 99.0}, monkeypatch) == "roofline"
    assert told_tier(ranks, {"host": 99.0}, rest, monkeypatch) == "roofline"
    assert (
        told_tier(ranks, {"host": 9.1, "routed": 1.0}, {"host": 9.1, "routed": 1.0}, monkeypatch)
        == "interpolated"
    )
    assert told_tier(ranks, {"host": 1.0}, {"host": 8.0, "draft": 1.0}, monkeypatch) == "fitted"
    assert told_tier(ranks, {"routed": 1.0}, {"draft": 1.0}, monkeypatch) == "roofline"


def test_a_step_put_together_from_measured_parts_is_at_best_interpolated(monkeypatch) -> None:
    measured = {"routed": Tier.MEASURED.rank}
    assert told_tier(measured, {"routed": 1.0}, {"routed": 1.0}, monkeypatch) == "interpolated"


def test_a_component_is_as_good_as_the_worst_of_its_records(monkeypatch) -> None:
    cores = [
        AttentionCost(1e-5, 3e12, 5e14, tier, 0.2, 4.0, 16.0)
        for tier in (Tier.FITTED, Tier.ROOFLINE, Tier.FITTED)
    ]
    monkeypatch.setattr("advisor.predict.tiers.records_in_use", lambda *_: cores)
    assert component_tier_ranks(load_setup(QWEN), [16, 64])["attention"].tolist() == [
        ROOFLINE,
        ROOFLINE,
    ]


def test_layers_measured_whole_are_judged_by_the_rows_of_one_group_and_by_the_context(
    monkeypatch,
) -> None:
    """Measured to 64 rows: 256 tokens on 8 groups are 32 rows each; beyond the longest context
    nothing was measured."""
    module = AttentionModule(
        (1.0, 64.0), (1.0, 4096.0), ((1e-5, 2e-5), (3e-5, 9e-5)), (64.0, 64.0), False, 0.1, ""
    )
    monkeypatch.setattr("advisor.predict.tiers.records_in_use", lambda *_: [module])

    def rank(groups: int, context: int) -> int:
        scenario = QWEN.model_copy(update={"context_tokens": context})
        setup = replace(load_setup(QWEN), placement=Placement(1, groups), scenario=scenario)
        return int(component_tier_ranks(setup, 256)["attention"])

    assert (rank(8, 4096), rank(2, 4096), rank(8, 5000)) == (INTERPOLATED, FITTED, FITTED)


def test_each_batch_and_k_has_the_tier_of_its_own_step(monkeypatch) -> None:
    """The kernel is fitted up to 64 tokens, roofline beyond: the plain step of batch 128 decides
    for its whole row."""
    monkeypatch.setattr(
        "advisor.predict.tiers.component_tier_ranks",
        lambda _, tokens: {"routed": np.where(tokens > 64, ROOFLINE, FITTED)},
    )
    batch = np.array([16.0, 128.0])
    one = {"routed": np.ones(2)}
    whole = {"routed": np.ones((2, 3))}
    found = tiers_of(None, one, whole, batch, batch[:, None] * np.array([1.0, 4.0, 5.0]))  # type: ignore[arg-type]
    assert found.astype(str).tolist() == [["fitted", "fitted", "roofline"], ["roofline"] * 3]


def test_records_are_those_that_price_a_component_of_this_model_and_placement() -> None:
    one = load_setup(QWEN)
    assert records_in_use(one, BY_KEY["routed"]) == [one.costs.routed]
    assert records_in_use(one, BY_KEY["dense"]) == [one.costs.dense]
    assert records_in_use(one, BY_KEY["draft"]) == [one.draft_costs.dense]
    assert records_in_use(one, BY_KEY["communication"]) == []
    split = load_setup(QWEN.model_copy(update={"n_gpus": 4, "tensor_parallel": 4}))
    assert records_in_use(split, BY_KEY["communication"]) == [split.costs.all_reduce[4]]
    placed = {"n_gpus": 8, "tensor_parallel": 4, "expert_parallel": 8}
    wide = load_setup(QWEN.model_copy(update=placed))
    assert records_in_use(wide, BY_KEY["communication"]) == [
        wide.costs.all_reduce[4],
        wide.costs.all_to_all[8],
    ]
    nodes = load_setup(
        QWEN.model_copy(update={"n_gpus": 16, "expert_parallel": 16, "batch_size": 64})
    )
    assert nodes.costs.network is not None
    assert records_in_use(nodes, BY_KEY["communication"]) == [
        nodes.costs.all_to_all[8],
        nodes.costs.network,
    ]
    assert component_tier_ranks(nodes, 64.0)["communication"] == Tier.FITTED.rank
    sheet = load_setup(nodes.scenario.model_copy(update={"hardware_id": "b200-sxm"}))
    assert component_tier_ranks(sheet, 64.0)["communication"] == Tier.ROOFLINE.rank
    inside = load_setup(QWEN.model_copy(update=placed | {"n_gpus": 4, "expert_parallel": 4}))
    assert records_in_use(inside, BY_KEY["communication"]) == [inside.costs.all_reduce[4]]


def test_attention_is_priced_by_its_core_once_or_by_the_layers_measured_whole() -> None:
    core = load_setup(QWEN)
    assert records_in_use(core, BY_KEY["attention"]) == [core.costs.attention]
    whole = load_setup(
        QWEN.model_copy(update={"model_id": "deepseek-v3", "n_gpus": 8, "tensor_parallel": 8})
    )
    assert len(whole.costs.modules) > 0
    assert records_in_use(whole, BY_KEY["attention"]) == list(whole.costs.modules.values())
    mixed = load_setup(
        QWEN.model_copy(
            update={
                "model_id": "qwen3-next-80b-a3b",
                "kv_dtype": "fp8",
                "n_gpus": 4,
                "tensor_parallel": 4,
            }
        )
    )
    assert mixed.costs.state != mixed.costs.attention, (
        "states are kept in 32 bits, whatever the cache has"
    )
    kinds = {mixer.kind for mixer in mixed.architecture.mixers}
    assert kinds == {"linear", "full"}
    assert set(records_in_use(mixed, BY_KEY["attention"])) == {
        mixed.costs.attention,
        mixed.costs.state,
    }
    mixers = tuple(
        mixer if mixer.kind == "linear" else mixer.model_copy(update={"kind": "none"})
        for mixer in mixed.architecture.mixers
    )
    without = replace(mixed, architecture=mixed.architecture.model_copy(update={"mixers": mixers}))
    assert records_in_use(without, BY_KEY["attention"]) == [mixed.costs.state], (
        "a layer without attention has no core"
    )


def test_a_component_has_the_rank_of_its_records_and_an_unused_link_that_of_a_roofline() -> None:
    found = component_tier_ranks(load_setup(QWEN), [[16.0, 64.0]])
    assert found["lm_head"].tolist() == [[FITTED, FITTED]]
    assert found["communication"].tolist() == [[ROOFLINE, ROOFLINE]]
    assert {name: ranks.shape for name, ranks in found.items()} == dict.fromkeys(found, (1, 2))
    bare = component_tier_ranks(
        load_setup(QWEN.model_copy(update={"hardware_id": "mi300x"})), [16.0]
    )
    assert {int(ranks[0]) for ranks in bare.values()} == {ROOFLINE}
