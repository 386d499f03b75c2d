"""Plain decode: which silicon points are judged, in which format, at which batch, and how often."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.validation.plain import plain_decode
from studies.validation.silicon import REQUESTS, drawn_shares, expressible

MINIMAX = {
    "point_id": "one",
    "version": "0.18.0",
    "serving_mode": "agg",
    "model": "MiniMaxAI/MiniMax-M2.5",
}
MINIMAX |= {
    "engine": "vllm",
    "hardware_id": "h200-sxm",
    "weight_dtype": "fp8",
    "gemm_dtype": "fp8",
    "moe_dtype": "fp8",
}
MINIMAX |= {
    "batch_size": 16,
    "tensor_parallel": 4,
    "pipeline_parallel": 1,
    "attention_data_parallel": 1,
}
MINIMAX |= {
    "moe_tensor_parallel": 4,
    "expert_parallel": 1,
    "input_tokens": 1024,
    "output_tokens": 1024,
    "ttft_s": 0.1,
}
MINIMAX |= {"tpot_s": 0.012}
GROUPED = {
    "tensor_parallel": 1,
    "attention_data_parallel": 8,
    "moe_tensor_parallel": 1,
    "expert_parallel": 8,
}
LLAMA = MINIMAX | {
    "model": "meta-llama/Llama-3.1-70B",
    "moe_tensor_parallel": 1,
    "engine": "trtllm",
}


def frame(*changes: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame([MINIMAX | each for each in changes])


def test_plain_decode_rows_are_judged_where_a_scenario_can_express_them() -> None:
    judged = plain_decode(
        frame({}, {}, {"serving_mode": "disagg"}, {"pipeline_parallel": 2}, GROUPED)
    )
    assert judged["batch_size"].tolist() == [
        16,
        128,
    ]  # per attention rank, so eight ranks decode 128
    assert judged["expert_parallel"].tolist() == [1, 8]
    assert judged["gpus"].tolist() == [4, 8]
    assert np.all(judged["predicted_s"] > judged["step_s"])


@pytest.mark.parametrize(
    ("row", "formats"),
    [
        (MINIMAX, ("fp8_block", "fp8_block")),
        (MINIMAX | {"model": "deepseek-ai/DeepSeek-R1"}, ("fp8_block", "fp8_block")),
        (MINIMAX | {"model": "Qwen/Qwen3-32B"}, ("fp8_block", "fp8_block")),
        (
            MINIMAX | {"model": "Qwen/Qwen3.5-397B-A17B", "moe_dtype": "fp8_block"},
            ("fp8_block", "fp8_block"),
        ),
        (LLAMA, ("fp8", "fp8")),
        (
            MINIMAX
            | {"model": "moonshotai/Kimi-K2.5", "gemm_dtype": "int4_wo", "moe_dtype": "int4_wo"},
            ("bf16", "int4"),
        ),
        (
            MINIMAX | {"model": "openai/gpt-oss-120b", "gemm_dtype": "nvfp4", "moe_dtype": "nvfp4"},
            ("", ""),
        ),
    ],
)
def test_eight_bit_checkpoints_scaled_by_blocks_are_judged_as_such(
    row: dict[str, object], formats: tuple[str, str]
) -> None:
    (point,) = expressible(pd.DataFrame([row])).to_dict("records")
    assert (point["scenario_weights"], point["scenario_experts"]) == formats


def test_a_batch_beyond_memory_is_predicted_at_the_one_that_fits() -> None:
    llama = LLAMA | {
        "tensor_parallel": 1,
        "hardware_id": "h100-sxm",
        "batch_size": 256,
        "input_tokens": 4096,
    }
    (point,) = plain_decode(pd.DataFrame([llama])).to_dict("records")
    assert point["served_batch"] < point["batch_size"]
    (fitting,) = plain_decode(
        pd.DataFrame([llama | {"batch_size": point["served_batch"]}])
    ).to_dict("records")
    assert fitting["served_batch"] == point["served_batch"]
    assert fitting["predicted_s"] == point["predicted_s"]


def test_points_of_one_setting_and_version_within_half_a_percent_are_one_measurement() -> None:
    rows = plain_decode(
        frame(
            {},
            {"tpot_s": 0.01203},
            {"tpot_s": 0.0122},
            {"tpot_s": 0.012, "version": "0.19.0"},
            {"batch_size": 8},
        )
    )
    assert rows["measured_s"].tolist() == [
        0.012,
        0.01203,
        0.0122,
        0.012,
    ]  # the same time of another version: an alias
    assert rows["near_duplicate"].tolist() == [False, True, False, False]


def test_lengths_drawn_up_to_those_named_are_judged_at_their_mean_and_in_a_run_that_ends() -> None:
    named, drawn = plain_decode(
        frame({"source": "source_file=/x.csv"}, {"source": "source_file=2026-03-25.csv; model=x"})
    ).to_dict("records")
    assert (named["input_tokens"], drawn["input_tokens"], drawn["output_tokens"]) == (
        1024,
        922,
        922,
    )
    assert drawn["step_s"] < named["step_s"]
    assert drawn["served_batch"] == named["served_batch"]
    in_flight, others = drawn_shares()
    # By hand: of the first and the last prompts of a slot half come while a request decodes, of all
    # between one each.
    assert others == pytest.approx(1.0 - 0.5 / REQUESTS, abs=0.002)
    assert others < in_flight < 1.0


def test_a_point_is_judged_with_the_cache_that_the_script_of_its_day_launched() -> None:
    kimi = {
        "model": "moonshotai/Kimi-K2.5",
        "hardware_id": "b200-sxm",
        "weight_dtype": "fp4",
        "version": "0.17.0",
    }
    days = ("2026-03-10", "2026-03-27", "2026-04-20")
    sources = [f"source_file=2026-04-06.csv; measured={day}" for day in days]
    other = [kimi | {"source": "source_file=/x.csv; measured=2026-04-20"}]
    # The script names fp8 from 20 April; before its first, and in runs of others, the checkpoint's
    # own stands.
    judged = expressible(
        frame(
            *(kimi | {"source": source, "batch_size": 8 + i} for i, source in enumerate(sources)),
            *other,
        )
    )
    assert judged["scenario_cache"].tolist() == ["", "", "fp8", ""]


def test_another_tool_is_compared_at_lengths_runs_and_caches_as_named() -> None:
    row = {
        "source": "source_file=2026-04-06.csv; measured=2026-04-22",
        "version": "0.19.0",
        "hardware_id": "b200-sxm",
    }
    judged = plain_decode(frame(row), as_named=False)
    named = plain_decode(frame(row), as_named=True)
    assert (judged["scenario_cache"].item(), named["scenario_cache"].item()) == ("fp8", "")
    assert (judged["input_tokens"].item(), named["input_tokens"].item()) == (922, 1024)
    pd.testing.assert_frame_equal(named, plain_decode(frame(row | {"source": ""})))


def test_rows_that_their_publisher_ran_with_speculation_alone_are_no_plain_decode() -> None:
    qwen = {"model": "Qwen/Qwen3.5-397B-A17B", "engine": "sglang", "version": "0.5.9"}
    on_eight = {"tensor_parallel": 8, "moe_tensor_parallel": 8}
    judged = expressible(frame(qwen, qwen | on_eight, qwen | {"version": "0.5.10"}))
    assert judged[["version", "tensor_parallel"]].to_numpy().tolist() == [
        ["0.5.9", 8],
        ["0.5.10", 4],
    ]
