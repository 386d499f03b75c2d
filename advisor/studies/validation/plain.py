"""Time per output token without speculation, predicted for the kernel package's silicon points.

`python -m advisor.studies.validation.plain` prints how right it is, in seconds: what to run after any change of a step.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor import store
from advisor.catalog import load_model, model_profile
from advisor.curve import Curve, curve_for
from advisor.prediction import AdvisorError
from advisor.scenario import build_scenario
from advisor.setup import Setup, load_setup
from advisor.studies.validation.plain_tables import overview

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
SETTINGS = (
    *("hardware_id", "engine", "model_id", "weight_dtype", "tensor_parallel", "expert_parallel"),
    *("attention_groups", "batch_size", "input_tokens", "output_tokens"),
)
"""Columns that say how a point was served, its version apart."""
NEAR_DUPLICATE = 0.005
"""Two points with all settings and the version equal and times this close are one measurement listed twice. [1]"""


def plain_decode(frame: pd.DataFrame) -> pd.DataFrame:
    """Measured and predicted time per output token, for the rows of the store that a scenario can express.

    Aggregated serving, one worker, no pipeline parallelism; attention data parallelism only with expert parallelism
    over the same ranks. The prediction is the plain step at the mean context plus the prefill that shares the GPU, at
    the batch that fits there where more was asked for. Points listed twice (a model and its alias) count once.

    Columns: point_id, version, SETTINGS, gpus, served_batch, measured_s, ttft_s, predicted_s, step_s, tier,
    near_duplicate. `frame` is `store.plain_decode_points`.
    """
    points = expressible(frame)
    keys = [name for name in (*SETTINGS, *_FORMAT_COLUMNS) if name != "batch_size"]
    judged = [_predicted(group) for _, group in points.groupby(keys, sort=False)]
    columns = ["point_id", "version", *SETTINGS, "gpus", "served_batch", "measured_s", "ttft_s"]
    columns += ["predicted_s", "step_s", "tier"]
    kept = [rows for rows in judged if rows is not None]
    rows = (pd.concat(kept) if kept else points.reindex(columns=columns)).sort_index()[columns].reset_index(drop=True)
    return rows.assign(near_duplicate=near_duplicates(rows))


_FORMAT_COLUMNS = ("scenario_weights", "scenario_experts")


def expressible(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that a scenario can express, with its settings, duplicates dropped; nothing predicted yet."""
    found = []
    for row in frame[frame["serving_mode"] == "agg"].to_dict("records"):
        placement = _placement(row)
        if placement is None or row["model"] not in PLAIN_MODELS:
            continue
        tensor, expert, groups = placement
        model_id = PLAIN_MODELS[row["model"]]
        weights, experts = _formats(row, model_id)
        found.append(
            {
                **{name: row[name] for name in ("point_id", "version", "hardware_id", "engine")},
                "model_id": model_id,
                "weight_dtype": "bf16" if pd.isna(row["weight_dtype"]) else str(row["weight_dtype"]),
                "tensor_parallel": tensor,
                "expert_parallel": expert,
                "attention_groups": groups,
                "batch_size": int(row["batch_size"]) * groups,
                "input_tokens": int(row["input_tokens"]),
                "output_tokens": int(row["output_tokens"]),
                "scenario_weights": weights,
                "scenario_experts": experts,
                "measured_s": float(row["tpot_s"]),
                "ttft_s": float(row["ttft_s"]),
            }
        )
    if not found:
        return pd.DataFrame(columns=["point_id", "version", *SETTINGS, *_FORMAT_COLUMNS, "measured_s", "ttft_s"])
    return pd.DataFrame(found).drop_duplicates([*SETTINGS, "measured_s"]).reset_index(drop=True)


def near_duplicates(rows: pd.DataFrame) -> pd.Series:
    """Whether a row repeats an earlier one: SETTINGS and version equal, time within NEAR_DUPLICATE of it."""
    repeats = pd.Series(False, index=rows.index)
    for _, group in rows.groupby([*SETTINGS, "version"], sort=False):
        kept: list[float] = []
        for label, time_s in group["measured_s"].items():
            repeats[label] = any(abs(time_s / other - 1.0) <= NEAR_DUPLICATE for other in kept)
            kept += [] if repeats[label] else [time_s]
    return repeats


def _predicted(group: pd.DataFrame) -> pd.DataFrame | None:
    """Rows that differ in batch alone, with their prediction; None where no scenario or no sequence fits."""
    try:
        setup = plain_setup(group.iloc[0].to_dict())
    except AdvisorError:
        return None
    fits = setup.memory.largest_batch
    if fits == 0:
        return None
    served = group["batch_size"].clip(upper=fits)
    batches, where = np.unique(served.to_numpy(float), return_inverse=True)
    curve: Curve = curve_for(setup, batches, [0])
    return group.assign(
        gpus=setup.placement.gpus,
        served_batch=served,
        predicted_s=curve.tpot_s[where, 0],
        step_s=curve.plain_step_s[where],
        tier=curve.tier[where, 0].astype(str),
    )


def plain_setup(row: Mapping[str, Any]) -> Setup:
    """Setup of a row of `expressible`, at its mean context. Raises AdvisorError where no scenario expresses it."""
    chosen = {"weight_dtype": row["scenario_weights"], "expert_dtype": row["scenario_experts"]}
    tensor, expert = int(row["tensor_parallel"]), int(row["expert_parallel"])
    if load_model(row["model_id"]).moe is None:
        chosen.pop("expert_dtype")
        expert = 1
    lengths = {name: int(row[name]) for name in ("input_tokens", "output_tokens")}
    return load_setup(
        build_scenario(
            hardware_id=row["hardware_id"],
            n_gpus=max(tensor, expert),
            tensor_parallel=tensor,
            expert_parallel=expert,
            engine=row["engine"],
            model_id=row["model_id"],
            drafter_id="ngram",
            acceptance="1.5@1",
            k_max=1,
            context_tokens=lengths["input_tokens"] + lengths["output_tokens"] // 2,
            **lengths,
            **{name: text for name, text in chosen.items() if text},
        )
    )


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
    """(weight_dtype, expert_dtype) of the scenario; empty leaves the checkpoint's own.

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


def main() -> None:
    """Print the figures of plain decode."""
    with store.open_store(store.default_store_path()) as opened:
        rows = plain_decode(store.plain_decode_points(opened))
    sys.stdout.write(overview(rows) + "\n")


if __name__ == "__main__":
    main()
