"""AIConfigurator's time per output token for the points of a CSV.

Runs in an environment of its own and knows nothing of `advisor`:
`python tools/benchmarks/peer_predict.py POINTS.csv PREDICTIONS.csv`, as `make bench-peer` calls it.
"""

from __future__ import annotations

import importlib.metadata
import logging
import sys
import time
import warnings
from functools import cache
from typing import Any

import pandas as pd
from aiconfigurator.cli.api import cli_estimate
from aiconfigurator.sdk.perf_database import get_latest_database_version

RELEASES = {
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): "nvidia/MiniMax-M2.5-NVFP4",
    ("moonshotai/Kimi-K2.5", "fp4"): "nvidia/Kimi-K2.5-NVFP4",
    ("deepseek-ai/DeepSeek-R1", "fp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("deepseek-ai/DeepSeek-V3", "fp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("nvidia/DeepSeek-R1-NVFP4", "fp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("meta-llama/Llama-3.1-70B", "fp8"): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("Qwen/Qwen3-32B", "fp8"): "Qwen/Qwen3-32B-FP8",
    ("Qwen/Qwen3.5-397B-A17B", "fp4"): "nvidia/Qwen3.5-397B-A17B-NVFP4",
    ("zhipuai/GLM-5", "fp8"): "zai-org/GLM-5-FP8",
    ("zhipuai/GLM-5", "fp4"): "nvidia/GLM-5-NVFP4",
}
"""Checkpoints that the tool has configurations of: it then reads formats and cache from them."""
DIMENSIONS = {
    "zhipuai/GLM-5": "zai-org/GLM-5",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}
"""Models of the points under the name of a configuration with their dimensions, where no such
checkpoint is known."""
QUANTISED_CACHE = ("nvfp4", "fp8")
"""Formats whose ModelOpt releases say that the cache is fp8 (the checkpoints of RELEASES say so
themselves)."""


ORDERS = ("checkpoint", "format")
"""Which way of asking comes first: both are natural, and either is the better one for some
points."""


def ways(point: dict[str, Any], first: str) -> list[tuple[str, dict[str, str]]]:
    """(model, formats) to ask with, of which the first that the tool can answer counts.

    By checkpoint: as the tool's configuration of the release says. By format: as the row says, in
    the package's own words for what was measured.
    """
    release = RELEASES.get((point["model"], point["weight_dtype"]))
    model = DIMENSIONS.get(point["model"], point["model"])
    formats = {
        name: point[column]
        for name, column in (("gemm_quant_mode", "gemm_dtype"), ("moe_quant_mode", "moe_dtype"))
        if isinstance(point[column], str)
    }
    cached = {}
    if point["engine"] == "trtllm" and formats.get("gemm_quant_mode") in QUANTISED_CACHE:
        cached = {"kvcache_quant_mode": "fp8"}
    own_formats = point["weight_dtype"] in ("int4", "bf16") or "gpt-oss" in model or "-FP8" in model
    in_blocks = model in (
        "MiniMaxAI/MiniMax-M2.5",
        "deepseek-ai/DeepSeek-R1",
        "deepseek-ai/DeepSeek-V3",
    )
    published = [(release, {})] if release else [(model, {})] if own_formats or in_blocks else []
    named = [(model, formats | cached), (model, formats)]
    return [*(published + named if first == "checkpoint" else named + published), (model, {})]


@cache
def version_of(system: str, engine: str) -> str:
    """The newest database of the tool; reading its list takes seconds, so once."""
    return str(get_latest_database_version(system=system, backend=engine))


def predicted(point: dict[str, Any], first: str) -> dict[str, Any]:
    """The tool's answer for one point: tpot_s, ttft_s, how it was asked, seconds taken; or why
    there is none."""
    why = ""
    for model, formats in ways(point, first):
        started = time.perf_counter()
        try:
            found = cli_estimate(
                model,
                point["system"],
                backend_name=point["engine"],
                backend_version=version_of(point["system"], point["engine"]),
                isl=int(point["input_tokens"]),
                osl=int(point["output_tokens"]),
                batch_size=int(point["batch_size"]),
                tp_size=int(point["tensor_parallel"]),
                attention_dp_size=int(point["attention_data_parallel"]),
                moe_tp_size=int(point["moe_tensor_parallel"]),
                moe_ep_size=int(point["expert_parallel"]),
                **formats,
            )
        except Exception as error:  # the tool raises many kinds; the last reason is kept
            why = f"{type(error).__name__}: {error}"
            continue
        return {
            "tpot_s": found.tpot / 1e3,
            "ttft_s": found.ttft / 1e3,
            "asked": " ".join(
                (model, *(f"{name.split('_')[0]}={text}" for name, text in formats.items()))
            ),
            "seconds": time.perf_counter() - started,
        }
    return {"asked": why.splitlines()[0][:80] if why else ""}


def main() -> None:
    """Predict every point of the first file in both ORDERS; write the second, with the tool's
    version in each row."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    points = pd.read_csv(sys.argv[1]).to_dict("records")
    rows = []
    for done, point in enumerate(points, 1):
        rows += [
            {"point_id": point["point_id"], "first": first, **predicted(point, first)}
            for first in ORDERS
        ]
        if done % 200 == 0:
            print(f"{done} of {len(points)} points", flush=True)
    version = importlib.metadata.version("aiconfigurator")
    pd.DataFrame(rows).assign(version=version).to_csv(sys.argv[2], index=False)


if __name__ == "__main__":
    main()
