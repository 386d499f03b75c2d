"""One row per part of a step or round, and no second list of them anywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from advisor.catalog.fit_records import OVERHEAD_NAMES
from advisor.catalog.kernel_costs import kernel_costs
from advisor.catalog.models import load_model
from advisor.physics.bands import make_draws
from advisor.physics.components import COMPONENTS, FACTORS, JOINT, KERNELS, OVERHEADS
from advisor.physics.hardware import load_hardware
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.step import Placement, step_time
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.tiers import component_tier_ranks


@pytest.fixture(scope="module")
def a_round() -> set[str]:
    """Keys of everything that a round of an MoE takes, on several devices and where the cache is
    read again."""
    wide = {"n_gpus": 8, "tensor_parallel": 2, "expert_parallel": 8}
    several = Scenario(model_id="deepseek-v3", drafter_id="mtp", acceptance="2.4@3", **wide)
    again = Scenario(acceptance="2.4@3", hardware_id="rtx-pro-6000-blackwell")
    eager = Scenario(acceptance="2.4@3", graph_sizes="none")
    pieces = Scenario(acceptance="2.4@3", hardware_id="a100-80gb-sxm", kv_dtype="fp8")
    return {
        key
        for one in (several, again, eager, pieces)
        for key in curve_for(load_setup(one), [16], [3]).round_components
    }


def test_every_component_of_a_step_or_round_has_a_row_and_every_row_is_one(
    a_round: set[str],
) -> None:
    assert a_round == {one.key for one in COMPONENTS}
    dense = step_time(
        load_model("llama-3.1-8b"),
        kernel_costs(load_hardware("h200-sxm"), "vllm", load_model("llama-3.1-8b").dtypes),
        Placement(),
        batch_size=16,
        tokens_per_sequence=1,
        context_tokens=1024,
    )
    assert set(dense.components) <= a_round


def test_rows_name_what_there_is() -> None:
    fields = {item.name for item in dataclasses.fields(KernelCosts)}
    assert {name for one in COMPONENTS for name in one.priced_by} <= fields
    assert {one.factor for one in COMPONENTS} - {""} == set(FACTORS), (
        "each multiplier of a refit scales something"
    )
    for one in COMPONENTS:
        assert one.meaning.endswith(".")
    for one in OVERHEADS:
        assert len(one.priced_by) == 1, "an overhead is one constant"
        own = {"eager": "launch", "between_graphs": "", "verify_tokens": ""}.get(one.key, one.key)
        assert one.factor == own, "and refitted by itself, launches together"
    for one in KERNELS:
        assert one.drafter or len(one.parts) == len(one.priced_by)


def test_parts_are_those_that_kernel_costs_report_on() -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), "vllm", load_model("deepseek-v3").dtypes)
    assert {part for one in KERNELS for part in one.parts} <= {*costs.sources, *costs.notes}


def test_every_component_has_a_draw_and_every_kernel_a_tier(a_round: set[str]) -> None:
    setup = load_setup(Scenario(acceptance="2.4@3"))
    assert set(make_draws(setup.costs, n_draws=4).factor) == a_round
    assert set(component_tier_ranks(setup, np.array([16.0]))) == a_round - {
        one.key for one in OVERHEADS
    }


def test_overheads_are_drawn_together_kernels_measured_apart_share_no_error() -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), "vllm", load_model("mixtral-8x7b").dtypes)
    assert (
        *("launch_per_layer_s", "host_per_draft_pass_s", "host_per_round_s"),
        *("reread_share", "verified_per_token"),
    ) == OVERHEAD_NAMES
    assert np.shape(costs.overhead_log_covariance) == (len(JOINT), len(JOINT))
    together = make_draws(costs, n_draws=8)
    apart = make_draws(costs, n_draws=8, kernel_seed=1)
    moved = {
        name
        for name in together.factor
        if not np.array_equal(together.factor[name], apart.factor[name])
    }
    free = {one.key for one in KERNELS if not np.allclose(together.factor[one.key], 1.0)}
    assert moved == free
