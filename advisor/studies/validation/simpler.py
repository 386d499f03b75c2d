"""The section of docs/validation.md that judges simpler models on the same rows, and says where one wins."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.points import Point, errors_of, relative_error
from advisor.studies.validation.checks import impossible_models
from advisor.studies.validation.rivals import RIVALS, rival_predictions, rival_round_costs
from advisor.studies.validation.tables import markdown_table, percent, shape_error

OURS = "ours"


def rivals_section(points: list[Point], rows: pd.DataFrame, outside: list[Point], external: pd.DataFrame) -> str:
    """Section of docs/validation.md on simpler models, each fitted on the rows that ours is fitted on."""
    frame = rows.copy()
    body = []
    ext = external.copy()
    columns = [OURS, *RIVALS]
    frame["ours"], ext["ours"] = frame["predicted"], ext["predicted"]
    for rival in RIVALS:
        frame[rival] = rival_predictions(points, rival)
        ext[rival] = rival_round_costs(points, outside, rival)
    small, mature = frame["batch_size"] <= 8, ~frame["immature"]
    chains = ext[~ext["tree"]]
    possible = ext[~ext["model_id"].isin(impossible_models(ext))]
    judged = {
        f"speedup (n {len(frame)})": lambda name: errors_of(frame, name).mape,
        f"... mature engines (n {int(mature.sum())})": lambda name: errors_of(frame[mature], name).mape,
        f"B <= 8 (n {int(small.sum())})": lambda name: errors_of(frame[small], name).mape,
        f"shape (n {shape_error(frame)[1]})": lambda name: shape_error(frame, name)[0],
        f"round cost, external (n {len(ext)})": lambda name: errors_of(ext, name).mape,
        f"... chains (n {len(chains)})": lambda name: errors_of(chains, name).mape,
        f"... possible rounds (n {len(possible)})": lambda name: errors_of(possible, name).mape,
    }
    figures = pd.DataFrame({what: {name: figure(name) for name in columns} for what, figure in judged.items()})
    body = [(name, *map(percent, figures.loc[name])) for name in columns]
    header = ("model", *judged)
    return (
        "## The same rows judged by simpler models\n\nEach fitted per engine class under the same protocol: the "
        "laboratory of the row left out; the external rows by a fit on all published rows.\n\n"
        + markdown_table(header, body)
        + f"\n\n{simpler_wins(figures)}\n\n{_must_beat(frame, ext)}"
    )


def simpler_wins(figures: pd.DataFrame) -> str:
    """A sentence for each figure (column) in which a rival (row) errs less than we do."""
    lines = []
    for what in figures:
        ours, rivals = figures.loc[OURS, what], figures.drop(OURS)[what]
        better = rivals[rivals < ours].sort_values()
        if len(better):
            named = ", ".join(f"{name} ({percent(error)} against {percent(ours)})" for name, error in better.items())
            lines.append(f"- {what}: a simpler model errs less: {named}.")
    return "\n".join(lines) or "No simpler model errs less on any of these."


def _must_beat(frame: pd.DataFrame, ext: pd.DataFrame) -> str:
    small = frame[frame["batch_size"] <= 8]

    def ratio(name: str) -> tuple[float, float]:
        cost = relative_error(ext, name).mean() / relative_error(ext).mean()
        own, theirs = shape_error(frame)[0], shape_error(frame, name)[0]
        return float(cost), (theirs or np.nan) / (own or np.nan)

    lines = []
    for name in ("AL/(1+cK)", "AL/(a+cK+b log2 B)"):
        cost, shape = ratio(name)
        met = "met" if min(cost, shape) >= 1.5 else "missed"
        lines.append(
            f"- {name}: our error is {cost:.2f} times smaller on round cost, {shape:.2f} times on shape (gate "
            f"1.5 each: {met})."
        )
        if shape < 1.5:
            lines.append(_why_shape(frame, name))
    uniform, ours = (float(relative_error(small, name).mean()) for name in ("uniform experts", "ours"))
    met = "met" if ours < uniform else "missed"
    lines.append(
        f"- uniform experts, rows with B <= 8 (n {len(small)}): {percent(uniform)} against our {percent(ours)} ({met})."
    )
    return "\n".join(lines)


def _why_shape(frame: pd.DataFrame, name: str) -> str:
    """What a missed shape gate asks of these rows, beside how well they were read."""
    asked = (shape_error(frame, name)[0] or np.nan) / 1.5
    read = float((frame["reading"] != "A").mean())
    per_source = int(frame.groupby("source").size().median())
    return (
        f"- Why that shape gate is missed: it asks for {percent(asked)} after one scale per source, near the reading "
        f"itself: {percent(read, 0)} of these rows come from pixels or text (taken as 6 %), half of the sources have "
        f"{per_source} rows or fewer to set their scale, and over a source's few batches a formula fitted to its class "
        "is not far off."
    )
