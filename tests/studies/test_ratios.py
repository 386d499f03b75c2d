"""Pairs of points that differ in one choice alone, and how right their ratios are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.validation.ratios import judged, pairs, ratio_records

POINT = {
    "version": "1",
    "hardware_id": "h200-sxm",
    "engine": "vllm",
    "model_id": "deepseek-v3",
    "weight_dtype": "fp8",
}
POINT |= {
    "tensor_parallel": 4,
    "expert_parallel": 1,
    "attention_groups": 1,
    "batch_size": 8,
    "input_tokens": 1024,
}
POINT |= {"output_tokens": 1024, "measured_s": 0.010, "predicted_s": 0.010, "end_to_end_s": 0.011}
POINT |= {"predicted_end_to_end_s": 0.012}


def points(*changes: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame([POINT | each for each in changes])


OF_OTHERS = {"weight_dtype": "fp4", "measured_s": 0.001}


@pytest.mark.parametrize(
    ("kind", "changes", "before", "after", "measured"),
    [
        (
            "weights",
            [OF_OTHERS | {"measured_s": 0.008}, OF_OTHERS | {"version": "2"}],
            "fp8",
            "fp4",
            0.8,
        ),
        (
            "weights",
            [OF_OTHERS | {"measured_s": 0.008}, OF_OTHERS | {"batch_size": 16}],
            "fp8",
            "fp4",
            0.8,
        ),
        (
            "expert parallel",
            [{"expert_parallel": 4, "measured_s": 0.012}, {"expert_parallel": 2}],
            "1",
            "all",
            1.2,
        ),
        ("batch", [{"batch_size": 32, "measured_s": 0.02}, {"batch_size": 16}], 8, 32, 2.0),
    ],
)
def test_a_pair_differs_in_one_choice_alone_experts_on_all_ranks_or_none_and_batches_by_four(
    kind: str, changes: list[dict[str, object]], before: object, after: object, measured: float
) -> None:
    (pair,) = pairs(points({}, *changes), kind).to_dict("records")
    assert (pair["before"], pair["after"], pair["measured"]) == (
        before,
        after,
        pytest.approx(measured),
    )


def test_engines_are_compared_over_their_versions_at_the_median() -> None:
    rows = points(
        {}, {"engine": "trtllm", "measured_s": 0.008}, {"engine": "trtllm", "version": "2"}
    )
    (pair,) = pairs(rows, "engine").to_dict("records")
    assert (pair["before"], pair["after"]) == ("trtllm", "vllm")
    assert pair["measured"] == pytest.approx(0.010 / 0.009)
    assert pair["predicted_whole"] == pytest.approx(1.0)


def test_tensor_parallelism_doubles_with_the_experts_left_where_they_are() -> None:
    rows = points(
        {},
        {"tensor_parallel": 8},
        {"tensor_parallel": 2},
        {"tensor_parallel": 8, "expert_parallel": 8},
    )
    found = pairs(rows, "tensor parallel")
    assert sorted(zip(found["before"], found["after"], strict=True)) == [(2, 4), (4, 8)]


def test_each_distance_of_a_number_has_pairs_and_a_record_of_its_own() -> None:
    rows = points(
        {}, {"tensor_parallel": 2}, {"tensor_parallel": 1}, {"batch_size": 32}, {"batch_size": 16}
    )
    found = {
        (each.kind, each.before, each.after, each.doublings): each.n for each in ratio_records(rows)
    }
    assert found[("tensor parallel", "", "", 1.0)] == 2
    assert found[("tensor parallel", "", "", 2.0)] == found[("tensor parallel", "1", "4", 2.0)] == 1
    assert found[("batch", "", "", 2.0)] == 1
    assert found[("batch", "", "", 1.0)] == 2


def test_a_pool_names_the_values_of_its_pairs_as_setups_do() -> None:
    rows = points({}, {"hardware_id": "b200-sxm"}, {"engine": "trtllm"}, {"batch_size": 32})
    among = {each.kind: each.among for each in ratio_records(rows) if not each.before}
    assert among == {
        "engine": ("trtllm", "vllm"),
        "accelerator": ("b200_sxm", "h200_sxm"),
        "batch": (),
    }


def ratio_rows(measured: list[float], predicted: list[float]) -> pd.DataFrame:
    names = {
        "model_id": list("aabb"),
        "hardware_id": "x",
        "weight_dtype": "fp8",
        "before": "trtllm",
        "after": "vllm",
    }
    return pd.DataFrame(names | {"measured": measured, "predicted": predicted})


def test_direction_is_counted_by_pairs_and_by_groups_where_the_measured_ones_differ() -> None:
    """Group b's middle is within 5 %; a's is 1.15 and said to be 0.995."""
    found = judged(ratio_rows([1.2, 1.1, 0.92, 1.02], [1.1, 0.9, 0.8, 0.7]))
    assert found.directions[0] == (3, pytest.approx(2 / 3), 1, 0)
    assert found.directions[1] == (2, pytest.approx(0.5), 1, 0)
    assert found.median == pytest.approx(
        np.median([0.1 / 1.2, 0.2 / 1.1, 0.12 / 0.92, 0.32 / 1.02])
    )


def test_the_range_is_of_measured_over_predicted() -> None:
    found = judged(ratio_rows([1.1, 1.1, 1.1, 1.1], [1.0, 1.0, 1.0, 1.0]))
    assert (found.low, found.high) == pytest.approx((1.1, 1.1))


def test_records_carry_pairs_of_sglang_apart() -> None:
    rows = points(
        {}, {"engine": "trtllm", "measured_s": 0.008}, {"engine": "sglang", "measured_s": 0.012}
    )
    found = {
        (record.before, record.after): record
        for record in ratio_records(rows)
        if record.kind == "engine"
    }
    assert set(found) == {
        ("", ""),
        ("sglang", "trtllm"),
        ("sglang", "vllm"),
        ("trtllm", "vllm"),
        ("sglang", ""),
    }
    assert found[("sglang", "")].n == 2
    assert found[("trtllm", "vllm")].right == 0.0
