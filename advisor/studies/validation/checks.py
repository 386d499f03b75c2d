"""Checks on measurements that nothing is fitted on: round cost and MoESD's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.calibration import class_costs
from advisor.curve import curve_for
from advisor.points import Overheads, Point, faster_than_reading, point_of, with_costs
from advisor.prediction import AdvisorError
from advisor.scenario import build_scenario
from advisor.setup import load_setup

EXTERNAL_SOURCES = {"SpecForge SpecBundle dashboard": "SpecBundle", "MiMo-V2-Flash technical report, table 10": "MiMo"}
ASSUMED_HARDWARE = "h200-sxm"
"""SpecBundle and MiMo do not state their accelerator: assumed, never fitted."""
ALSO_ASSUMED = ("h100-sxm", "b200-sxm")
"""What else they may have run on: shows how much of their error the assumption is."""
GPU_COUNTS = ("1", "2", "4", "8")
MOESD_BATCHES = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 80, 100)


def external_points(frame: pd.DataFrame, hardware_id: str = ASSUMED_HARDWARE) -> list[Point]:
    """Rows of EXTERNAL_SOURCES on an assumed accelerator.

    How many GPUs held a model is not stated either: of the counts that hold it, the one whose predicted plain step is
    nearest to the plain throughput that its rows state. MiMo counts its batch per node, so it gets the eight GPUs of
    one.
    """
    rows = frame[frame["source_title"].isin(list(EXTERNAL_SOURCES))]
    rows = rows.assign(drafter=rows["drafter"].replace("mtp", "eagle"))  # MiMo's MTP layers are dense, as EAGLE heads
    points = []
    for _, group in rows.groupby(["model_id", "batch_size"], sort=False):
        records = group.to_dict("records")
        gpus = "8" if (group["batch_kind"] == "batch_per_node").all() else _nearest_gpu_count(records, hardware_id)
        for row in records:
            point = _point_if_it_fits(row, hardware_id, gpus) if gpus else None
            if point is not None:
                points.append(point)
    return points


def published_plain_s(row: Mapping[str, Any]) -> float:
    """Seconds of a plain step, prefill included, from the whole batch's plain throughput. NaN where none is stated."""
    if row["metric"] != "output_tok_per_s" or not row["baseline_value"]:
        return float("nan")
    return float(row["batch_size"]) / float(row["baseline_value"])


def _nearest_gpu_count(records: Sequence[Mapping[str, Any]], hardware_id: str) -> str | None:
    """The count of GPU_COUNTS whose predicted plain step is nearest to the median of the published ones."""
    published_s = float(np.nanmedian([published_plain_s(row) for row in records]))
    distance = {}
    for gpus in GPU_COUNTS:
        found = (_point_if_it_fits(row, hardware_id, gpus) for row in records)
        point = next((point for point in found if point is not None), None)
        if point is not None:
            plain_s = point.curve(with_costs(point.setup, **class_costs(point.engine_class))).plain_step_s[0]
            distance[gpus] = abs(np.log(plain_s / published_s))
    return min(distance, key=lambda gpus: distance[gpus], default=None)


def _point_if_it_fits(row: Mapping[str, Any], hardware_id: str, gpus: str) -> Point | None:
    try:
        point = point_of(row, {"hardware_id": hardware_id, "tensor_parallel": gpus})
    except AdvisorError:
        return None
    return point if point.setup.memory.largest_batch >= point.question.scenario.batch_size else None


def external_round_costs(points: Sequence[Point], overheads: Overheads | None = None) -> pd.DataFrame:
    """Measured and predicted round cost in plain steps. Columns source, title, model_id, checkpoint (what was served),
    head (what drafted), dataset, n_draft, verify_tokens, tree, gpus, batch_size, accepted_length, measured_speedup,
    measured, predicted, predicted_speedup, draws; the plain steps themselves in seconds, published (the batch over the
    plain throughput) and predicted; impossible, why the row cannot be as it is printed (`faster_than_reading`)."""
    rows = []
    for point in points:
        costs = class_costs(point.engine_class) if overheads is None else overheads.costs()
        curve = point.curve(with_costs(point.setup, **costs))
        question = point.question
        rows.append(
            {
                "source": EXTERNAL_SOURCES.get(point.source, point.source),
                "model_id": question.scenario.model_id,
                "title": point.source,
                "checkpoint": _noted(point, "served checkpoint"),
                "head": _noted(point, "draft head").lower(),  # one head is printed in two spellings
                "dataset": point.row.get("dataset", ""),
                "n_draft": question.n_draft,
                "verify_tokens": question.verify_tokens or question.n_draft + 1,
                "tree": str(point.row["draft_structure"]).startswith("tree"),
                "gpus": question.scenario.n_gpus,
                "batch_size": question.scenario.batch_size,
                "accepted_length": point.accepted_length,
                "measured_speedup": point.measured,
                "measured": point.accepted_length / point.measured,
                "predicted": float(curve.round_s[0, 0] / curve.plain_step_s[0]),
                "predicted_speedup": float(curve.speedup[0, 0]),
                "draws": curve.draws[:, 0, 0],
                "published_plain_s": published_plain_s(point.row),
                "predicted_plain_s": float(curve.plain_step_s[0]),
                "impossible": faster_than_reading(point),
            }
        )
    return pd.DataFrame(rows)


def _noted(point: Point, what: str) -> str:
    """What a row's notes name after `what`. Empty where they do not."""
    notes = (note.strip() for note in str(point.row.get("notes", "")).split(";"))
    return next((note.removeprefix(what).strip() for note in notes if note.startswith(what)), "")


def impossible_models(external: pd.DataFrame) -> list[str]:
    """Models of which a published round costs less than reading the weights of the experts it touches.

    Its other rows are of the same runs, on the same unstated GPUs, so that the model is set aside as a whole.
    """
    return sorted(external.loc[external["impossible"] != "", "model_id"].unique())


def moesd_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Each cell of MoESD's tables: published and predicted peak speedup over MOESD_BATCHES with its batch.

    Published acceptance, gamma tokens verified per request as in the paper, no fit. Overheads of an engine of 2025.
    """
    rows = []
    for cell in frame.to_dict("records"):
        gamma, gpus = int(cell["draft_tokens_gamma"]), int(cell["gpu_count"])
        scenario = build_scenario(
            hardware_id=cell["hardware_id"],
            n_gpus=gpus,
            tensor_parallel=gpus,
            model_id=cell["model_id"],
            drafter_id="qwen2-0.5b" if cell["drafter"] == "draft_model" else "eagle",
            acceptance=f"{cell['tokens_per_round']}@{gamma}",
            context_tokens=512,
            k_max=gamma,
        )
        setup = with_costs(load_setup(scenario, borrowed_acceptance=False), **class_costs("vllm-synchronous"))
        curve = curve_for(setup, MOESD_BATCHES, [gamma], verify_tokens=gamma)
        peak = int(curve.speedup[:, 0].argmax())
        rows.append(
            {
                "cell_id": cell["cell_id"],
                "hardware_id": cell["hardware_id"],
                "gpus": gpus,
                "model_id": cell["model_id"],
                "dataset": cell["dataset"],
                "temperature": cell["temperature"],
                "n_draft": gamma,
                "tier": str(curve.tier[peak, 0]),
                "measured": float(cell["speedup_peak"]),
                "predicted": float(curve.speedup[peak, 0]),
                "low": float(curve.low[peak, 0]),
                "high": float(curve.high[peak, 0]),
                "draws": curve.draws[:, peak, 0],
                "batch_size": MOESD_BATCHES[peak],
            }
        )
    return pd.DataFrame(rows)
