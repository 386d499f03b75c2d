"""The quarantine of silicon points: each rule on made-up points, and the shipped list against the
store's rows.

What a step pays whatever it computes stays below every measured step of its engine and accelerator.
"""

from __future__ import annotations

import ast
import inspect

import pandas as pd
import pytest

from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.physics.kernel_costs import stream_cost
from advisor.physics.step import MoeShape, launched_layers, matrix_products
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from studies.validation import silicon
from studies.validation.plain import plain_setup
from studies.validation.silicon import (
    PLACEMENT,
    POINTS,
    QUARANTINE,
    SCENARIO_FORMATS,
    below_floor,
    expressible,
    falls,
    flat,
    not_repeated,
    quarantined,
    queued,
    read_quarantine,
    version_pair,
    with_physics,
)

LLAMA = {
    "version": "1",
    "model_id": "llama-3.1-8b",
    "engine": "vllm",
    "hardware_id": "h200-sxm",
    "weight_dtype": "fp8",
}
LLAMA |= {
    "tensor_parallel": 1,
    "expert_parallel": 1,
    "attention_groups": 1,
    "batch_size": 8,
    "input_tokens": 1000,
}
LLAMA |= {
    "output_tokens": 1000,
    "scenario_weights": "fp8",
    "scenario_experts": "",
    "scenario_cache": "",
}
LLAMA |= {"measured_s": 0.006, "ttft_s": 0.1}


def points(*changes: dict[str, object]) -> pd.DataFrame:
    """Points of one server, each changed; named a, b, c ... and with what physics asks of them."""
    rows = [{"point_id": chr(97 + i), **LLAMA, **each} for i, each in enumerate(changes)]
    return with_physics(pd.DataFrame(rows, columns=list(POINTS)))


def test_the_shipped_list_is_what_the_rules_find_in_the_store() -> None:
    path = default_store_path()
    if not path.is_file():
        pytest.skip("no store here; `make store` builds it")
    with open_store(path) as opened:
        found = quarantined(expressible(plain_decode_points(opened)))
    pd.testing.assert_frame_equal(found, read_quarantine(), check_dtype=False)


def test_the_list_leaves_at_least_ninety_five_per_cent_of_the_points_to_be_judged() -> None:
    listed = read_quarantine()
    assert listed["point_id"].is_unique
    assert 0 < len(listed) <= 0.05 * 2641
    assert listed["reason"].str.len().min() > 20
    assert QUARANTINE.stat().st_size < 50_000


def test_no_rule_sees_a_prediction() -> None:
    """The module behind the list knows no step, curve or fit: of the cost model only where a model
    lies."""
    taken = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(inspect.getsource(silicon)))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    known = {room for name, _ in taken if name.startswith("advisor.") for room in name.split(".")}
    assert not known & {"curve", "setup", "kernel_costs", "draft", "laws", "tiers"}
    assert {name for module, name in taken if module == "advisor.physics.step"} <= {"Placement"}
    assert not {name for name in points({}).columns if "predict" in name or name == "step_s"}


def test_the_floor_is_the_bytes_and_the_arithmetic_at_the_best_rates_ever_measured() -> None:
    (row,) = points({"batch_size": 100}).to_dict("records")
    weights = 6.98e9  # eight-bit blocks
    cache = 32 * 2 * 8 * 128 * 1500 * 100
    arithmetic = 2 * 6.98e9 * 100 * 1000 / 1000
    assert row["floor_s"] == pytest.approx(
        (weights + cache) / (0.9 * 4.8e12) + arithmetic / (0.9 * 1979e12), rel=0.01
    )
    assert row["end_to_end_s"] == pytest.approx((0.1 + 999 * 0.006) / 1000)


def test_a_time_below_the_floor_is_found_and_one_above_it_is_not() -> None:
    floor_s = float(points({})["floor_s"].iloc[0])
    found = points({"measured_s": 0.9 * floor_s, "ttft_s": 0.0}, {"measured_s": 1.1 * floor_s})
    assert set(below_floor(found)) == {"a"}


def test_a_first_token_later_than_all_others_together_is_a_queue_unless_memory_explains_it() -> (
    None
):
    late = {"ttft_s": 6.1}
    assert set(queued(points(late, {"ttft_s": 5.9}, late | {"batch_size": 4000}))) == {"a"}


def test_the_same_time_at_any_batch_is_found_only_far_above_what_physics_explains() -> None:
    batches = [{"batch_size": batch} for batch in (8, 16, 32, 64)]
    slow = [each | {"measured_s": 0.04 + 0.0001 * i} for i, each in enumerate(batches)]
    assert set(flat(points(*slow))) == {"a", "b", "c", "d"}
    assert not flat(points(*slow[:3]))  # three may be chance
    assert not flat(
        points(*(each | {"measured_s": 0.006} for each in batches))
    )  # nothing to explain
    assert not flat(
        points(*(each | {"measured_s": 0.03 * 1.1**i} for i, each in enumerate(batches)))
    )


def test_the_slower_of_two_batches_is_found_where_the_larger_batch_is_quicker() -> None:
    assert set(falls(points({"measured_s": 0.02}, {"batch_size": 32, "measured_s": 0.01}))) == {"a"}
    assert not falls(points({"measured_s": 0.012}, {"batch_size": 32, "measured_s": 0.01}))
    assert not falls(
        points({"measured_s": 0.02}, {"batch_size": 32, "measured_s": 0.01, "version": "2"})
    )


def test_of_two_repeats_that_disagree_neither_is_believed_and_of_three_the_odd_one() -> None:
    assert set(not_repeated(points({"measured_s": 0.01}, {"measured_s": 0.02}))) == {"a", "b"}
    assert set(
        not_repeated(points({"measured_s": 0.01}, {"measured_s": 0.0101}, {"measured_s": 0.02}))
    ) == {"c"}
    assert not not_repeated(points({"measured_s": 0.01}, {"measured_s": 0.014}))


def test_a_version_far_quicker_at_every_equal_setting_is_found_whole() -> None:
    batches = (1, 2, 4, 8, 16)
    slow = [{"batch_size": batch, "measured_s": 0.01} for batch in batches]
    quick = [{"batch_size": batch, "measured_s": 0.006, "version": "2"} for batch in (*batches, 32)]
    found = version_pair(points(*slow, *quick))
    assert set(found) == {"f", "g", "h", "i", "j", "k"}  # the setting without a partner too
    assert not version_pair(points(*slow[:4], *quick))
    assert not version_pair(points(*slow, *({**each, "measured_s": 0.009} for each in quick)))


def test_a_run_of_which_half_is_found_goes_as_a_whole() -> None:
    found = quarantined(points({"ttft_s": 6.1}, {"batch_size": 16})[list(POINTS)])
    assert found["rule"].tolist() == ["queued", "the run it stands in"]
    assert "1 of the 2 points" in found["reason"].iloc[1]
    assert (
        len(
            quarantined(
                points({"ttft_s": 6.1}, {"batch_size": 16}, {"batch_size": 32})[list(POINTS)]
            )
        )
        == 1
    )


def fixed_s(setup: Setup) -> float:
    """Fixed costs of all launches of a plain step, its host's share left out: kernels' t0,
    messages' t0, c_l. [s]"""
    architecture = setup.architecture
    costs = setup.costs
    placement = setup.placement
    products = matrix_products(architecture, costs, placement, MoeShape.of(architecture))
    total = sum(
        float(item.layers) * item.launches * item.cost.t0_s
        for group in products.values()
        for item in group
    )
    if architecture.moe is not None:
        total += architecture.moe.count * costs.routed.t0_s
    for mixer in architecture.mixers:
        if mixer.kind != "none" and mixer not in costs.modules:
            latent = mixer.kind in ("mla", "sparse") and costs.mla is not None
            total += mixer.count * (costs.mla if latent else costs.attention).t0_s
    reduce = stream_cost(costs.all_reduce, placement.tensor_parallel)
    layers = sum(mixer.count for mixer in architecture.mixers)
    total += 0.0 if reduce is None else 2 * layers * reduce.t0_s
    return total + costs.launch_per_layer_s * launched_layers(architecture, costs)


def test_the_launches_of_a_step_stay_below_every_measured_step() -> None:
    try:
        with open_store(default_store_path()) as opened:
            points = expressible(plain_decode_points(opened))
    except AdvisorError:
        pytest.skip("no store here; run `make store`")
    points = points[~points["point_id"].isin(read_quarantine()["point_id"])]
    over = set()
    judged = 0
    named = ["engine", "hardware_id", "model_id"]
    for key, group in points.groupby([*named, *PLACEMENT, *SCENARIO_FORMATS], dropna=False):
        try:
            setup = plain_setup(group.iloc[0].to_dict())
        except AdvisorError:
            continue
        judged += 1
        if fixed_s(setup) >= group["measured_s"].min():
            over.add(key[:3])
    assert judged > 100
    assert over == set()
