"""Published decode rates without speculation, measurements/decode_no_sd, held against predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog import OTHER_ENGINE, engine_called, load_model, model_ids, model_profile
from advisor.curve import curve_for
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from advisor.scenario import build_scenario
from advisor.setup import load_setup
from advisor.studies.validation.plain_tables import figures_s
from advisor.studies.validation.tables import markdown_table, percent

RATES = MEASUREMENTS / "decode_no_sd" / "data.csv"
COOKBOOK = "sgl-cookbook benchmark page"
"""Rows that are judged and never fitted: their speculative counterparts are kept for outside validation."""
LONG_ANSWER = 256
"""Output tokens below which a closed loop prefills more than it decodes. [-]"""
QUEUED = 1.25
"""End-to-end time per token over time per output token from which a request mostly waits or prefills. [-]"""
GROUPS_IN_NOTES = "data-parallel attention"


def not_steady(row: Mapping[str, Any]) -> str:
    """Reason why a row is no steady state of its batch. Empty where it may be one. Sees measured fields alone."""
    if np.isnan(_time_s(row)):
        return "no time per token"
    if row["concurrency"] > 1 and pd.isna(row["output_tokens"]):
        return "lengths not stated"
    if row["concurrency"] > 1 and row["output_tokens"] < LONG_ANSWER:
        return f"answers under {LONG_ANSWER} tokens"
    whole_s = row["concurrency"] / row["output_tok_per_s"]
    if row["concurrency"] > 1 and whole_s > QUEUED * _time_s(row):
        return "waits or prefills more than it decodes"
    return ""


def _time_s(row: Mapping[str, Any]) -> float:
    """Time per output token of a request: the mean where it is printed, else the median, else the rate's. [s]"""
    for name in ("mean_tpot_ms", "median_tpot_ms"):
        if not pd.isna(row[name]):
            return float(row[name]) / 1e3
    return float(row["concurrency"] / row["output_tok_per_s"])


def decode_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that a scenario can express, with measured and predicted seconds.

    row_id, source, model_id, hardware_id, engine, batch_size, measured_s, predicted_s, not_steady (the rule, else
    empty), cookbook (whether it is one of COOKBOOK).
    """
    found = []
    for row in frame.to_dict("records"):
        predicted_s = _predicted_s(row)
        if predicted_s is None:
            continue
        found.append(
            {
                "row_id": row["row_id"],
                "source": row["source_title"],
                "model_id": row["model_id"],
                "hardware_id": row["hardware_id"],
                "engine": row["engine"],
                "batch_size": int(row["concurrency"]),
                "measured_s": _time_s(row),
                "predicted_s": predicted_s,
                "not_steady": not_steady(row),
                "cookbook": row["source_title"] == COOKBOOK,
            }
        )
    return pd.DataFrame(found)


def _predicted_s(row: Mapping[str, Any]) -> float | None:
    """Time per output token of the row's scenario. None where there is no scenario or its batch does not fit. [s]"""
    if row["model_id"] not in model_ids() or pd.isna(row["gpu_count"]):
        return None
    gpus, engine = int(row["gpu_count"]), engine_called(str(row["engine"]), forks=True)
    moe = load_model(row["model_id"]).moe is not None
    expert = 1 if pd.isna(row["expert_parallel"]) or not moe else int(row["expert_parallel"])
    tensor = gpus if pd.isna(row["tensor_parallel"]) else int(row["tensor_parallel"])
    if GROUPS_IN_NOTES in str(row["notes"]) and moe:
        tensor, expert = 1, gpus
    lengths = {} if pd.isna(row["output_tokens"]) else {"output_tokens": int(row["output_tokens"])}
    if not pd.isna(row["input_tokens"]):
        lengths["context_tokens"] = int(row["input_tokens"]) + lengths.get("output_tokens", 0) // 2
        lengths |= {"input_tokens": int(row["input_tokens"])} if "output_tokens" in lengths else {}
    try:
        setup = load_setup(
            build_scenario(
                hardware_id=row["hardware_id"],
                n_gpus=gpus,
                tensor_parallel=tensor,
                expert_parallel=expert,
                engine=engine.id if engine else OTHER_ENGINE,
                model_id=row["model_id"],
                drafter_id="ngram",
                acceptance="1.5@1",
                k_max=1,
                **lengths,
                **_format(str(row["weight_dtype"]), row["model_id"]),
            )
        )
        if setup.memory.largest_batch < 1:
            return None
        batch = min(float(row["concurrency"]), float(setup.memory.largest_batch))
        return float(curve_for(setup, [batch], [0]).tpot_s[0, 0])
    except AdvisorError:
        return None


def _format(text: str, model_id: str) -> dict[str, str]:
    """weight_dtype of the scenario. Nothing for the checkpoint's own."""
    if text == "fp8":
        released = {each.weight_format for each in model_profile(model_id).published_formats}
        own = load_model(model_id).dtypes
        return {"weight_dtype": "fp8_block" if "fp8_block" in released | {own.routed, own.dense} else "fp8"}
    return {"weight_dtype": text} if text in ("bf16", "nvfp4", "fp8_block") else {}


def decode_rates_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md."""
    steady = rows[rows["not_steady"] == ""]
    kinds = [("all", rows), ("steady", steady), ("... of the SGLang cookbook", steady[steady["cookbook"]])]
    kinds += [("... of the others", steady[~steady["cookbook"]])]
    kinds += [(f"not steady: {why}", group) for why, group in rows[rows["not_steady"] != ""].groupby("not_steady")]
    by_kind = [(name, *_cells(group)) for name, group in kinds]
    by_source = [
        (*key, *_cells(group)) for key, group in steady.groupby(["source", "model_id", "hardware_id", "engine"])
    ]
    return (
        "## Published decode rates without speculation\n\nNever fitted. A row is set apart by rule on what it states: "
        f"answers under {LONG_ANSWER} tokens, lengths not stated, or an end-to-end time per token more than {QUEUED} "
        "times its time per output token. Rows of the SGLang cookbook are judged and never fitted. Lengths are caps of "
        "random draws in most sources, so contexts are at most those.\n\n"
        + markdown_table(("rows", "n", "median error", "p90", "bias"), by_kind)
        + "\n\nSteady ones by source:\n\n"
        + markdown_table(("source", "model", "accelerator", "engine", "n", "median error", "p90", "bias"), by_source)
    )


def _cells(rows: pd.DataFrame) -> tuple[object, ...]:
    n, *shares = figures_s(rows)
    return (n, *(percent(share) for share in shares))
