"""The kernel package's silicon points as configurations: which a scenario can express, and what they measured.

Nothing is predicted here, and nothing of the cost model is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from advisor.architecture import Architecture, with_dtype
from advisor.catalog import load_model, model_profile
from advisor.step_cost import Placement

PLAIN_MODELS = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-v3",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "moonshotai/Kimi-K2.5": "kimi-k2",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "zhipuai/GLM-5": "glm-5",
}
"""Models of the plain-decode points and the profile with their dimensions."""
_FORMATS = {"fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
GROUP = ("model_id", "engine", "hardware_id", "weight_dtype")
PLACEMENT = ("tensor_parallel", "expert_parallel", "attention_groups")
SETTINGS = (*GROUP, *PLACEMENT, "batch_size", "input_tokens", "output_tokens")
"""Columns that say how a point was served, its version apart."""
SCENARIO_FORMATS = ("scenario_weights", "scenario_experts")
"""weight_dtype and expert_dtype of a point's scenario; empty leaves the checkpoint's own."""
POINTS = ("point_id", "version", *SETTINGS, *SCENARIO_FORMATS, "measured_s", "ttft_s")
UNSTATED = "unstated"
"""Version of a point that names none."""
NEAR_DUPLICATE = 0.005
"""Two points with all settings and the version equal and times this close are one measurement listed twice. [-]"""


def expressible(frame: pd.DataFrame) -> pd.DataFrame:
    """The points that a scenario can express, columns POINTS, a point and its alias once.

    Aggregated serving, one worker, no pipeline parallelism; attention data parallelism only with expert parallelism
    over the same ranks. `frame` is `store.plain_decode_points`. `batch_size` counts all attention ranks.
    """
    found = []
    for row in frame[frame["serving_mode"] == "agg"].to_dict("records"):
        placement = _placement(row)
        if placement is None or row["model"] not in PLAIN_MODELS:
            continue
        model_id = PLAIN_MODELS[row["model"]]
        found.append(
            {
                **{name: row[name] for name in ("point_id", "hardware_id", "engine")},
                "version": UNSTATED if pd.isna(row["version"]) else str(row["version"]),
                "model_id": model_id,
                "weight_dtype": "bf16" if pd.isna(row["weight_dtype"]) else str(row["weight_dtype"]),
                **dict(zip(PLACEMENT, placement, strict=True)),
                "batch_size": int(row["batch_size"]) * placement[2],
                "input_tokens": int(row["input_tokens"]),
                "output_tokens": int(row["output_tokens"]),
                **dict(zip(SCENARIO_FORMATS, _formats(row, model_id), strict=True)),
                "measured_s": float(row["tpot_s"]),
                "ttft_s": float(row["ttft_s"]),
            }
        )
    points = pd.DataFrame(found, columns=list(POINTS))
    return points.drop_duplicates([*SETTINGS, "measured_s"]).reset_index(drop=True)


def near_duplicates(points: pd.DataFrame) -> pd.Series:
    """Whether a point repeats an earlier one: SETTINGS and version equal, time within NEAR_DUPLICATE of it."""
    repeats = pd.Series(False, index=points.index)
    for _, group in points.groupby([*SETTINGS, "version"], sort=False):
        kept: list[float] = []
        for label, time_s in group["measured_s"].items():
            repeats[label] = any(abs(time_s / other - 1.0) <= NEAR_DUPLICATE for other in kept)
            kept += [] if repeats[label] else [time_s]
    return repeats


def chosen_formats(point: Mapping[str, Any]) -> dict[str, str]:
    """The formats that a point's scenario names: `weight_dtype`, and `expert_dtype` of an MoE. None is its own."""
    moe = load_model(point["model_id"]).moe is not None
    wanted = {"weight_dtype": point["scenario_weights"], "expert_dtype": point["scenario_experts"] if moe else ""}
    return {name: text for name, text in wanted.items() if text}


def placement_of(point: Mapping[str, Any]) -> Placement:
    """Placement of a point's model. A dense model has no experts to spread."""
    moe = load_model(point["model_id"]).moe is not None
    return Placement(int(point["tensor_parallel"]), int(point["expert_parallel"]) if moe else 1)


def architecture_of(point: Mapping[str, Any]) -> Architecture:
    """Dimensions of a point's model, every matrix in the format its row names."""
    architecture, formats = load_model(point["model_id"]), chosen_formats(point)
    if "weight_dtype" in formats:
        architecture = with_dtype(architecture, formats["weight_dtype"])  # type: ignore[arg-type]
    if "expert_dtype" in formats:
        dtypes = architecture.dtypes.model_copy(update={"routed": formats["expert_dtype"]})
        architecture = architecture.model_copy(update={"dtypes": dtypes})
    return architecture


def _placement(point: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """(tp, ep, attention groups), or None where the row's parallelism does not nest as a scenario's does."""
    tensor = _count(point["tensor_parallel"])
    groups = _count(point["attention_data_parallel"])
    expert, expert_tensor = _count(point["expert_parallel"]), _count(point["moe_tensor_parallel"])
    if _count(point["pipeline_parallel"]) != 1 or tensor > 8 or pd.isna(point["batch_size"]):
        return None
    if groups > 1:
        return (tensor, expert, groups) if expert_tensor == 1 and expert == tensor * groups else None
    nests = expert * expert_tensor == tensor or (expert == 1 and expert_tensor == 1)
    return (tensor, expert, 1) if nests else None


def _count(value: Any) -> int:
    return 1 if pd.isna(value) else max(int(value), 1)


def _formats(point: Mapping[str, Any], model_id: str) -> tuple[str, str]:
    """The SCENARIO_FORMATS of a row.

    The table calls every 8-bit checkpoint fp8. Where a known release of the model in 8 bits is scaled by blocks, or the
    row says so of its experts, the checkpoint is; else (Llama) it is scaled per tensor, as the row says.
    """
    gemm, moe = str(point["gemm_dtype"]), str(point["moe_dtype"])
    if "gpt-oss" in str(point["model"]):
        return "", ""  # published in mxfp4 experts only, whatever the table calls it
    if moe == "int4_wo":
        return "bf16", "int4"
    weights, experts = _FORMATS.get(gemm, "bf16"), _FORMATS.get(moe, "")
    if weights == "fp8" and (experts == "fp8_block" or "fp8_block" in _released_formats(model_id)):
        return "fp8_block", "fp8_block"
    return weights, experts


def _released_formats(model_id: str) -> set[str]:
    """Weight formats that the model is known to be published in."""
    own = load_model(model_id).dtypes
    return {own.routed or own.dense, *(each.weight_format for each in model_profile(model_id).published_formats)}
