"""Best K: what the recommended draft length gives up against the best measured, beside rivals that never change K."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from advisor.points import k_grids, k_regret, laboratory_or_title
from advisor.studies.validation.checks import impossible_models
from advisor.studies.validation.tables import MIN_ROWS, GateLine, markdown_table, percent, share
from advisor.text import counted

MEAN_BAR, WORST_BAR = 0.015, 0.04
"""Regret allowed in the mean over the grids of a set, and on any of them. [-]"""
CONSTANTS = (0, 3, 5, 7)
"""Draft lengths that a rival always takes, 0 for plain decoding; on a grid without it, the nearest measured one."""
OURS = "recommended"
_BUNDLE_GRID = ("model_id", "checkpoint", "head", "dataset", "batch_size")
_MOESD_GRID = ("hardware_id", "gpus", "model_id", "dataset", "temperature")
_ROW_GRID = ("source", "title", "engine_class", "hardware_id", "model_id", "drafter", "batch_size", "dataset")


def rival_names() -> dict[str, int | None]:
    """Columns of the table: the recommended K, then the constants."""
    return {OURS: None} | {f"always K = {k}" if k else "always plain": k for k in CONSTANTS}


def best_k_regrets(rows: pd.DataFrame, external: pd.DataFrame, moesd: pd.DataFrame) -> pd.DataFrame:
    """Regret of each of `rival_names` on every clean grid, with its `set` and `laboratory`.

    Clean: rows that differ in K alone, one draft head, an accepted length of the same run, and no model whose
    published rounds are impossible.
    """
    bundle = external[~external["tree"] & (external["source"] == "SpecBundle")]
    bundle = bundle[~bundle["model_id"].isin(impossible_models(external))]
    bundle = bundle.assign(measured=bundle["measured_speedup"], laboratory=bundle["title"].map(laboratory_or_title))
    own = rows[rows["acceptance"] == "same_run"]
    sets: Mapping[str, tuple[pd.DataFrame, tuple[str, ...]]] = {
        "SpecBundle chains": (bundle, _BUNDLE_GRID),
        "MoESD": (moesd.assign(laboratory="MoESD authors"), _MOESD_GRID),
        "published rows, laboratory left out": (own.assign(laboratory=own["source"]), _ROW_GRID),
    }
    return pd.DataFrame(
        [
            {"set": name, "laboratory": grid["laboratory"].iloc[0]}
            | {rival: k_regret(grid, always=always) for rival, always in rival_names().items()}
            for name, (frame, keys) in sets.items()
            for grid in k_grids(frame, keys)
        ]
    )


def best_k_gates(regrets: pd.DataFrame) -> list[GateLine]:
    """The two bars over all clean grids. The mean is that of the worst set with enough grids to tell."""
    n, laboratories = len(regrets), int(regrets["laboratory"].nunique())
    means = {name: float(group[OURS].mean()) for name, group in _large(regrets).items()}
    mean = max(means.values(), default=None)
    note = f"of {max(means, key=lambda name: means[name])}, the worst set: {percent(mean, 2)}" if means else ""
    return [
        GateLine("best K regret, mean", mean, MEAN_BAR, n, laboratories, note=note),
        GateLine("best K regret, worst grid", float(regrets[OURS].max()), WORST_BAR, n, laboratories),
    ]


def best_k_section(regrets: pd.DataFrame) -> str:
    """The section of docs/validation.md. `regrets` as `best_k_regrets` gives them."""
    names = list(rival_names())
    body = [
        (name, len(group), group["laboratory"].nunique(), *(_mean_and_worst(group[rival]) for rival in names))
        for name, group in regrets.groupby("set", sort=False)
    ]
    gates = [
        (line.what, percent(line.figure, 2), f"<= {share(line.limit)}", line.status) for line in best_k_gates(regrets)
    ]
    return (
        "## Best K\n\nLoss of the recommended K, that of least expected loss among the K measured and plain decoding, "
        "against the K measured best: mean / worst. Grids are clean: rows that differ in K alone, of one draft head, "
        "accepted length of the same run, no model whose published rounds are impossible. A rival takes one K "
        "always (the nearest measured one).\n\n"
        + markdown_table(("grids", "n", "laboratories", *names), body)
        + "\n\n"
        + markdown_table(("asked", "figure", "bar", "status"), gates)
        + f"\n\n{_rivals_said(regrets)} vLLM pull request 16937 has three K of EAGLE-1, without a published "
        "accepted length: not predicted."
    )


def _large(regrets: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Sets with enough grids to be judged alone."""
    return {str(name): group for name, group in regrets.groupby("set", sort=False) if len(group) >= MIN_ROWS}


def beaten_by(regrets: pd.DataFrame) -> list[str]:
    """Sets in which a constant K does as well as the recommended one or better. Empty where none does."""
    found = []
    for name, group in _large(regrets).items():
        for what, figure in (
            ("in the mean", group.mean(numeric_only=True)),
            ("on its worst grid", group[list(rival_names())].max()),
        ):
            for rival in list(rival_names())[1:]:
                if figure[rival] <= figure[OURS]:
                    found.append(
                        f"{rival} is better {what} of {name} ({percent(figure[rival])} against {percent(figure[OURS])})"
                    )
    return found


def _rivals_said(regrets: pd.DataFrame) -> str:
    found = beaten_by(regrets)
    judged = counted(len(_large(regrets)), "set")
    if not found:
        return (
            f"Below every constant K, in the mean and on the worst grid of {judged} of {MIN_ROWS} grids or more: met."
        )
    return "Below every constant K: missed. A simpler rule wins: " + "; ".join(found) + "."


def _mean_and_worst(regret: pd.Series) -> str:
    return f"{percent(float(np.mean(regret)))} / {percent(float(regret.max()), 0)}"
