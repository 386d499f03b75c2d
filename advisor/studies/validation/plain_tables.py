"""Figures of plain decode: errors by kind of point and by group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog import load_model
from advisor.studies.validation.ratios import ratios_table
from advisor.studies.validation.silicon import GROUP
from advisor.studies.validation.tables import markdown_table, percent

LIGHT = 0.9
"""Where the plain step is less of the predicted time than this, prefill is a tenth or more: heavy. [-]"""
NEAR, FAR, FAR_POINTS = 0.15, 0.25, 20
"""A group is near within NEAR; one of FAR_POINTS points or more beyond FAR needs a named cause. [-]"""


def errors_s(rows: pd.DataFrame, predicted: str = "predicted_s", measured: str = "measured_s") -> np.ndarray:
    """Relative error |predicted / measured - 1| of each row. [-]"""
    return np.abs(rows[predicted].to_numpy(float) / rows[measured].to_numpy(float) - 1.0)


def figures_s(
    rows: pd.DataFrame, predicted: str = "predicted_s", measured: str = "measured_s"
) -> tuple[int, float, float, float]:
    """(n, median error, 90 % within, median bias) of rows. NaN without rows."""
    if rows.empty:
        return 0, np.nan, np.nan, np.nan
    error = errors_s(rows, predicted, measured)
    ratio = rows[predicted].to_numpy(float) / rows[measured].to_numpy(float)
    return len(rows), float(np.median(error)), float(np.quantile(error, 0.9)), float(np.median(ratio) - 1.0)


def is_moe(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's model has routed experts."""
    known = {model_id: load_model(model_id).moe is not None for model_id in rows["model_id"].unique()}
    return rows["model_id"].map(known).astype(bool)


def is_heavy(rows: pd.DataFrame) -> pd.Series:
    """Whether prefill is a tenth or more of each row's predicted time per token."""
    return rows["step_s"] < LIGHT * rows["predicted_s"]


def kinds(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows by kind: all of them, MoE, dense, heavy, by engine, by weights."""
    yield "all", rows
    moe, heavy = is_moe(rows), is_heavy(rows)
    yield "MoE", rows[moe]
    yield "dense", rows[~moe]
    yield "heavy (prefill >= 1/10)", rows[heavy]
    for engine, group in rows.groupby("engine"):
        yield str(engine), group
    for weights, group in rows.groupby("weight_dtype"):
        yield f"weights {weights}", group


def groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures of each GROUP, worst first: n, median error, 90 % within and median bias."""
    found: list[dict[str, Any]] = []
    for key, group in rows.groupby(list(GROUP)):
        n, median, p90, bias = figures_s(group)
        found.append(dict(zip(GROUP, key, strict=True)) | {"n": n, "median": median, "p90": p90, "bias": bias})
    table = pd.DataFrame(found, columns=[*GROUP, "n", "median", "p90", "bias"])
    return table.sort_values("median", ascending=False, ignore_index=True)


def believed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are judged: not in the quarantine, a measurement listed twice once."""
    return rows[(rows["rule"] == "") & ~rows["near_duplicate"]]


def overview(rows: pd.DataFrame) -> str:
    """The figures of plain decode on one screen: kinds of points, groups, ratios between choices."""
    judged = believed(rows)
    return "\n\n".join((kinds_table(rows), groups_line(judged), groups_table(judged), ratios_table(judged)))


def kinds_table(rows: pd.DataFrame) -> str:
    """Errors of all points, of those after the quarantine, and of these, each measurement once, by kind."""
    judged = believed(rows)
    lines = [("all points", *_cells(rows)), ("after quarantine", *_cells(rows[rows["rule"] == ""]))]
    lines += [("each measurement once", *_cells(judged))]
    lines += [(f"- {name}", *_cells(kind)) for name, kind in kinds(judged)][1:]
    whole = judged.assign(predicted_s=judged["predicted_end_to_end_s"], measured_s=judged["end_to_end_s"])
    heavy = is_heavy(judged)
    lines += [("end to end, (TTFT + decode) / OSL", *_cells(whole)), ("- heavy, end to end", *_cells(whole[heavy]))]
    return markdown_table(("points", "n", "median", "p90", "bias"), lines)


def groups_line(judged: pd.DataFrame) -> str:
    """Mean of the group medians, the share of groups that are near, and how many large ones are far."""
    table = groups(judged)
    whole = groups(judged.assign(predicted_s=judged["predicted_end_to_end_s"], measured_s=judged["end_to_end_s"]))
    far = table[(table["n"] >= FAR_POINTS) & (table["median"] > FAR)]
    return (
        f"{len(table)} groups (model, engine, accelerator, weights): mean of their medians "
        f"{percent(float(table['median'].mean()))}, within {NEAR:.0%}: "
        f"{percent(float((table['median'] <= NEAR).mean()))}; of {FAR_POINTS} points or more beyond {FAR:.0%}: "
        f"{len(far)}. End to end: {percent(float(whole['median'].mean()))}, within {NEAR:.0%}: "
        f"{percent(float((whole['median'] <= NEAR).mean()))}."
    )


def groups_table(judged: pd.DataFrame) -> str:
    """The groups, worst first."""
    lines = [
        (*row[:5], *(percent(share) for share in row[5:])) for row in groups(judged).itertuples(index=False, name=None)
    ]
    return markdown_table(("model", "engine", "accelerator", "weights", "n", "median", "p90", "bias"), lines)


def _cells(rows: pd.DataFrame) -> tuple[object, ...]:
    n, *shares = figures_s(rows)
    return (n, *(percent(share) for share in shares))


def decode_section(rows: pd.DataFrame, shipped: pd.DataFrame, bare: pd.DataFrame) -> str:
    """The section of docs/validation.md.

    `rows`: judged, small launches fitted without the point's model; `shipped`: with those that are shipped; `bare`:
    with none that was chosen on these points.
    """
    apart = rows[rows["rule"] != ""]
    runs = apart["model_id"] + " " + apart["version"]
    by_rule = [(rule, len(group), ", ".join(sorted(set(runs[group.index])))) for rule, group in apart.groupby("rule")]
    variants = {
        "fitted without the point's model": rows,
        "as shipped": shipped,
        "none chosen on these points": bare,
    }
    by_variant = [(name, *_cells(believed(each))) for name, each in variants.items()]
    return (
        "## Plain decode: time per output token\n\nPoints of the measured-kernel package (silicon_sample.csv): "
        "aggregated serving, placements a scenario can express, a point and its alias once. Predicted: plain step at "
        "the mean context plus the prefill that shares the GPU, at the batch that memory holds. 8-bit checkpoints but "
        "Llama's are scaled by blocks, whatever the table calls them.\n\n"
        "Small launches that no kernel table holds are the only constants fitted on these points, so each point is "
        "judged with those fitted without its model:\n\n"
        + markdown_table(("small launches", "n", "median", "p90", "bias"), by_variant)
        + "\n\n"
        + kinds_table(rows)
        + "\n\nEnd to end is judged by Little's law, which does not ask whether an engine mixes prompts into steps or "
        "runs them first.\n\n"
        f"Quarantine: {len(apart)} of {len(rows)} points, found by rules on measured fields and physics, listed with a "
        "reason each in profiles/validation/plain_decode_quarantine.csv; no rule sees a prediction. Its thresholds "
        "were set so that the list keeps to 5 % of the points. Points within 0.5 % of another of the same setting and "
        "version count once.\n\n"
        + markdown_table(("rule", "points", "runs"), by_rule)
        + f"\n\n{groups_line(believed(rows))}\n\n{groups_table(believed(rows))}"
    )
