"""Step time against the tokens it verifies, held against the one curve published: measurements/verify_cost_curve."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.curve import curve_for
from advisor.profiles import MEASUREMENTS
from advisor.scenario import build_scenario
from advisor.setup import load_setup
from advisor.studies.validation.tables import markdown_table, percent

CURVES = MEASUREMENTS / "verify_cost_curve" / "data.csv"
QUERIES = (1, 2, 4, 8)
"""Tokens that a sequence verifies: the curve says how many a step has, not whose they are. [-]"""


def verify_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Measured and predicted steps of the target curve, for each sharing of its tokens in QUERIES.

    Columns: tokens, queries, measured_s, predicted_s, measured and predicted (ratios to the step of one token). Only
    inside captured graphs: the jump beyond is the engine's. `frame` is measurements/verify_cost_curve.
    """
    rows = frame[(frame["curve"] == "target_verify_step") & (frame["in_graph_range"] == 1)]
    point = rows.iloc[0]
    setup = load_setup(
        build_scenario(
            hardware_id=point["hardware_id"],
            n_gpus=int(point["gpu_count"]),
            tensor_parallel=int(point["tensor_parallel"]),
            engine=str(point["engine"]).lower(),
            model_id=point["model_id"],
            drafter_id="mtp",
            acceptance="2.0@3",
            context_tokens=int(point["context_tokens"]),
            k_max=max(QUERIES) - 1,
        )
    )
    measured = rows.set_index("x_nominal")["time_ms"] / 1e3
    alone_s = float(curve_for(setup, [1], [0]).plain_step_s[0])
    found = []
    for queries in QUERIES:
        tokens = measured.index[measured.index % queries == 0].to_numpy()
        curve = curve_for(setup, tokens / queries, [queries - 1])
        found.append(
            pd.DataFrame(
                {
                    "tokens": tokens,
                    "queries": queries,
                    "measured_s": measured[tokens].to_numpy(),
                    "predicted_s": curve.verify_step_s[:, 0],
                    "measured": measured[tokens].to_numpy() / measured[1],
                    "predicted": curve.verify_step_s[:, 0] / alone_s,
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def ratio_error(costs: pd.DataFrame, queries: int) -> float:
    """Median error of T(t)/T(1) at one sharing of the tokens. [-]"""
    rows = costs[(costs["queries"] == queries) & (costs["tokens"] > 1)]
    return float(np.median(np.abs(rows["predicted"] / rows["measured"] - 1.0)))


def verify_cost_section(costs: pd.DataFrame) -> str:
    """The section of docs/validation.md."""
    body = []
    for queries, rows in costs.groupby("queries"):
        step, ratio = (rows[f"predicted{unit}"] / rows[f"measured{unit}"] - 1.0 for unit in ("_s", ""))
        body.append(
            (
                queries,
                len(rows),
                percent(float(step.abs().median())),
                percent(float(step.median())),
                percent(ratio_error(costs, int(str(queries)))),
                percent(float(np.quantile(ratio.abs(), 0.9))),
                percent(float(ratio.median())),
            )
        )
    header = ("tokens per sequence", "n", "step: median error", "bias", "T(t)/T(1): median error", "p90", "bias")
    return (
        "## Step time against verified tokens\n\nThe only direct measurement (vLLM post of 2026-08-14, figure 2): "
        "DeepSeek-V4-Flash on four B300, steps of 1 to 1,024 tokens inside captured graphs, 8,192 tokens of context. "
        "Nothing is fitted on it. The figure does not say how many sequences share the tokens, and its context is "
        "synthetic, so that equal tokens may touch fewer experts than served ones.\n\n" + markdown_table(header, body)
    )
