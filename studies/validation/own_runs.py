"""What a first run of one's own would do: each laboratory's configurations, refitted on four of
their rows.

The constants before are those of the fit without the laboratory, as a user finds them whom no fit
has seen. Four rows of a configuration are then refitted as `fit` does; its other rows are judged,
held out twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.answers.summary import OWN_ROWS, OWN_RUNS, OwnRuns
from advisor.catalog.adjustment import Adjustment, adjusted
from advisor.catalog.fit_records import class_costs
from advisor.measured.refit import adjustment_of, refit_chosen
from advisor.measured.refit_result import k_grids, k_regret
from advisor.physics.components import OVERHEADS
from advisor.predict.curve import Curve
from advisor.predict.load import with_costs
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.text import counted
from studies.fits.records import rounded
from studies.published import PublishedPoint, laboratory_of, seen_by
from studies.validation.outside import impossible_models
from studies.validation.tables import MIN_ROWS, GateLine, markdown_table, percent, share
from studies.validation.unseen import in_data_centre

LEAST_JUDGED = 2
"""Rows of a configuration that must be left to judge. [-]"""
WIDTH_BARS = {"data centre": 0.24, "all": 0.30}
SLOPE_BAR = 0.03
"""What was asked after four rows: median width of the band, and log error on log2 batch. [-]"""
_SAME = ("weight_dtype", "tensor_parallel", "dataset")


def own_run_rows(points: Sequence[PublishedPoint]) -> pd.DataFrame:
    """Every judged row before and after a refit on OWN_ROWS rows of its configuration.

    Columns: laboratory, configuration, engine_class, hardware_id, batch_size, measured, and each of
    predicted, low and high with `_before` and `_after`. Configurations with fewer than OWN_ROWS +
    LEAST_JUDGED rows, or whose rows a refit refuses, take no part.
    """
    groups: dict[tuple[str, ...], list[PublishedPoint]] = {}
    for point in points:
        groups.setdefault(_configuration(point), []).append(point)
    return pd.DataFrame([row for key, group in groups.items() for row in _judged(key, group)])


def mature_points(points: Sequence[PublishedPoint]) -> list[PublishedPoint]:
    """Points of stacks that nobody calls immature."""
    return [point for point in points if not point.immature]


def own_runs(rows: pd.DataFrame) -> tuple[OwnRuns, ...]:
    """The figures by kind of part, each the mean over laboratories (widths: the median), data
    centre first."""
    centre = in_data_centre(rows)
    kinds = {"data centre": rows[centre], "workstation": rows[~centre], "all": rows}
    return tuple(_figures(kind, chosen) for kind, chosen in kinds.items() if len(chosen))


def own_runs_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md. `rows` as `own_run_rows` gives them."""
    found = own_runs(rows)
    laboratories = [_figures(str(name), group) for name, group in rows.groupby("laboratory")]
    pairs = ("error", "slope", "in band", "width")
    header = (
        "laboratory",
        "rows",
        *(cell for name in pairs for cell in (f"{name} before", "after")),
    )
    asked = [line for figures in found if figures.kind in WIDTH_BARS for line in _asked(figures)]
    return (
        f"## What {OWN_ROWS} runs of one's own do\n\nConfigurations with at least "
        f"{OWN_ROWS + LEAST_JUDGED} rows, from "
        f"the fit without their laboratory; {OWN_ROWS} rows spread over batch and K are refitted, "
        "the others judged. A "
        "borrowed accepted length is moved as the refit says. Slopes: log error on log2 batch. "
        "`advise` prints the "
        "width after from these figures (profiles/validation/own_runs.json).\n\n"
        + markdown_table(header, [_cells(one) for one in (*laboratories, *found)])
        + "\n\n"
        + markdown_table(("asked", "figure", "bar", "status"), asked)
    )


def _configuration(point: PublishedPoint) -> tuple[str, ...]:
    scenario = point.scenario
    own = (point.laboratory, point.setup.hardware.id, scenario.engine, point.engine_class)
    return (
        *own,
        scenario.model_id,
        scenario.drafter_id,
        *(str(point.facts.get(name)) for name in _SAME),
    )


def _judged(key: tuple[str, ...], group: Sequence[PublishedPoint]) -> Iterable[dict[str, object]]:
    """The rows of one configuration that a refit on the others did not see. None where too few or
    refused."""
    if len(group) < OWN_ROWS + LEAST_JUDGED:
        return []
    seen = class_costs(group[0].engine_class, without=key[0])
    ordered = sorted(group, key=lambda p: (p.batch_size, p.n_draft, p.scenario.context_tokens))
    own = [
        _numbered(seen_by(point, with_costs(point.setup, **seen)), i)
        for i, point in enumerate(ordered)
    ]
    chosen = set(np.linspace(0, len(own) - 1, OWN_ROWS).round().astype(int).tolist())
    try:
        result = refit_chosen([own[i] for i in sorted(chosen)], ask=False)
    except AdvisorError:
        return []
    length = next(
        (item.factor for item in result.parameters if item.name == "accepted_length"), 1.0
    )
    adjustment = adjustment_of(result)
    return [
        {
            "laboratory": key[0],
            "configuration": "/".join(key[1:]),
            "engine_class": point.engine_class,
            "hardware_id": point.setup.hardware.id,
            "batch_size": point.batch_size,
            "measured": point.measured,
            **_band(point.curve(), "before"),
            **_band(point.curve(_moved(point.setup, adjustment)), "after", length),
        }
        for i, point in enumerate(own)
        if i not in chosen
    ]


def _numbered(point: PublishedPoint, line: int) -> PublishedPoint:
    observed = point.observations
    return replace(
        point, line=line, observations=replace(observed, line=np.full(len(observed.line), line))
    )


def _moved(setup: Setup, adjustment: Adjustment) -> Setup:
    """As `refitted`, from the constants of the fit without the laboratory in place of the shipped
    ones."""
    costs, draft_costs = adjusted(setup.costs, setup.draft_costs, adjustment)
    moved = {
        name: getattr(setup.costs, name) * adjustment.factors.get(one.factor, 1.0)
        for one in OVERHEADS
        for name in one.priced_by
    }
    return replace(setup, costs=replace(costs, **moved), draft_costs=draft_costs)


def _band(curve: Curve, when: str, factor: float = 1.0) -> dict[str, float]:
    ends = {"predicted": curve.speedup, "low": curve.low, "high": curve.high}
    return {f"{name}_{when}": float(values[0, 0]) * factor for name, values in ends.items()}


def write_own_runs(found: Iterable[OwnRuns], data_and_fits: str, path: Path = OWN_RUNS) -> Path:
    """Write the figures by kind of part, with the hash of the data and fits behind them."""
    kinds = {
        one.kind: rounded({name: value for name, value in asdict(one).items() if name != "kind"})
        for one in found
    }
    lines = ",\n".join(f'"{kind}": {json.dumps(figures)}' for kind, figures in kinds.items())
    path.write_text(
        f'{{"data_and_fits": "{data_and_fits}", "kinds": {{\n{lines}\n}}}}\n', encoding="utf-8"
    )
    return path


def _figures(kind: str, rows: pd.DataFrame) -> OwnRuns:
    figures: dict[str, float] = {}
    laboratory = rows["laboratory"]
    for when in ("before", "after"):
        predicted, low, high = (rows[f"{name}_{when}"] for name in ("predicted", "low", "high"))
        columns = {
            "error": (predicted / rows["measured"] - 1.0).abs(),
            "coverage": rows["measured"].between(low, high).astype(float),
            "width": (high - low) / predicted,
        }
        by_laboratory = {name: values.groupby(laboratory) for name, values in columns.items()}
        figures[f"error_{when}"] = float(by_laboratory["error"].mean().mean())
        figures[f"coverage_{when}"] = float(by_laboratory["coverage"].mean().mean())
        figures[f"width_{when}"] = float(by_laboratory["width"].median().median())
        figures[f"slope_{when}"] = _slope(rows, predicted)
    return OwnRuns(kind=kind, n_rows=len(rows), n_laboratories=int(laboratory.nunique()), **figures)


def _slope(rows: pd.DataFrame, predicted: pd.Series) -> float:
    """Log error on log2 batch within a configuration, mean over laboratories. NaN without three
    batches. [-]"""
    frame = rows.assign(
        error=np.log(predicted / rows["measured"]),
        doublings=np.log2(rows["batch_size"].astype(float)),
    )
    slopes = [
        (laboratory, float(np.polyfit(group["doublings"], group["error"], 1)[0]))
        for (laboratory, _), group in frame.groupby(["laboratory", "configuration"])
        if group["doublings"].nunique() > 2
    ]
    return float(
        pd.DataFrame(slopes, columns=["laboratory", "slope"])
        .groupby("laboratory")["slope"]
        .mean()
        .mean()
    )


def _asked(one: OwnRuns) -> list[tuple[str, str, str, str]]:
    """The bars of one kind, met or missed."""
    lines = [
        ("median width", one.width_after, WIDTH_BARS[one.kind]),
        ("slope over batch", one.slope_after, SLOPE_BAR),
    ]
    return [
        (
            f"{what}, {one.kind}",
            percent(figure),
            f"<= {share(bar)}",
            "met" if abs(figure) <= bar else "missed",
        )
        for what, figure, bar in lines
    ]


def _cells(one: OwnRuns) -> tuple[str | int, ...]:
    pairs = [
        (percent(getattr(one, f"{name}_before")), percent(getattr(one, f"{name}_after")))
        for name in ("error", "slope", "coverage", "width")
    ]
    name = (
        f"**{one.kind}** ({one.n_laboratories})"
        if one.kind in (*WIDTH_BARS, "workstation")
        else one.kind
    )
    return (name, one.n_rows, *(cell for pair in pairs for cell in pair))


MEAN_BAR = 0.015
WORST_BAR = 0.04
"""Regret allowed in the mean over the grids of a set, and on any of them. [-]"""
CONSTANTS = (0, 3, 5, 7)
"""Draft lengths that a rival always takes, 0 for plain decoding; on a grid without it, the nearest
measured one."""
OURS = "recommended"
_BUNDLE_GRID = ("model_id", "checkpoint", "head", "dataset", "batch_size")
_MOESD_GRID = ("hardware_id", "gpus", "model_id", "dataset", "temperature")
_ROW_GRID = (
    "source",
    "title",
    "engine_class",
    "hardware_id",
    "model_id",
    "drafter",
    "batch_size",
    "dataset",
)


def rival_names() -> dict[str, int | None]:
    """Columns of the table: the recommended K, then the constants."""
    return {OURS: None} | {f"always K = {k}" if k else "always plain": k for k in CONSTANTS}


def best_k_regrets(rows: pd.DataFrame, external: pd.DataFrame, moesd: pd.DataFrame) -> pd.DataFrame:
    """Regret of each of `rival_names` on every clean grid, with its `set` and `laboratory`.

    Clean: rows that differ in K alone, one draft head, an accepted length of the same run, and no
    model whose published rounds are impossible.
    """
    bundle = external[~external["tree"] & (external["source"] == "SpecBundle")]
    bundle = bundle[~bundle["model_id"].isin(impossible_models(external))]
    bundle = bundle.assign(
        measured=bundle["measured_speedup"], laboratory=bundle["title"].map(laboratory_of)
    )
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
    """The two bars over all clean grids. The mean is that of the worst set with enough grids to
    tell."""
    n = len(regrets)
    laboratories = int(regrets["laboratory"].nunique())
    mean, name = largest_mean(regrets)
    note = f"of {name}, the worst set: {percent(mean, 2)}" if name else ""
    worst = regrets.loc[regrets[OURS].idxmax()]
    return [
        GateLine(
            "best K regret, mean of the worst set",
            mean,
            MEAN_BAR,
            n,
            laboratories,
            note=note,
            key="best_k_mean",
            facts={"set": name},
        ),
        GateLine(
            "best K regret, worst grid",
            float(worst[OURS]),
            WORST_BAR,
            n,
            laboratories,
            key="best_k_worst",
            facts={"set": str(worst["set"])},
        ),
    ]


def largest_mean(regrets: pd.DataFrame) -> tuple[float | None, str]:
    """Mean regret of the worst set with enough grids to tell, and its name. None and "" where none
    has."""
    means = {name: float(group[OURS].mean()) for name, group in _large(regrets).items()}
    return max(((mean, name) for name, mean in means.items()), default=(None, ""))


def best_k_section(regrets: pd.DataFrame) -> str:
    """The section of docs/validation.md. `regrets` as `best_k_regrets` gives them."""
    names = list(rival_names())
    body = [
        (
            name,
            len(group),
            group["laboratory"].nunique(),
            *(_mean_and_worst(group[rival]) for rival in names),
        )
        for name, group in regrets.groupby("set", sort=False)
    ]
    gates = [
        (line.what, percent(line.figure, 2), f"<= {share(line.limit)}", line.status)
        for line in best_k_gates(regrets)
    ]
    return (
        "## Best K\n\nLoss of the recommended K, that of least expected loss among the K measured "
        "and plain decoding, "
        "against the K measured best: mean / worst. Grids are clean: rows that differ in K alone, "
        "of one draft head, "
        "accepted length of the same run, no model whose published rounds are impossible. A rival "
        "takes one K "
        "always (the nearest measured one).\n\n"
        + markdown_table(("grids", "n", "laboratories", *names), body)
        + "\n\n"
        + markdown_table(("asked", "figure", "bar", "status"), gates)
        + f"\n\n{_rivals_said(regrets)} vLLM pull request 16937 has three K of EAGLE-1, without a "
        "published "
        "accepted length: not predicted."
    )


def _large(regrets: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Sets with enough grids to be judged alone."""
    return {
        str(name): group
        for name, group in regrets.groupby("set", sort=False)
        if len(group) >= MIN_ROWS
    }


def beaten_by(regrets: pd.DataFrame) -> list[str]:
    """Sets in which a constant K does as well as the recommended one or better. Empty where none
    does."""
    found = []
    for name, group in _large(regrets).items():
        for what, figure in (
            ("in the mean", group.mean(numeric_only=True)),
            ("on its worst grid", group[list(rival_names())].max()),
        ):
            for rival in list(rival_names())[1:]:
                if figure[rival] <= figure[OURS]:
                    found.append(
                        f"{rival} is better {what} of {name} ({percent(figure[rival])} against "
                        f"{percent(figure[OURS])})"
                    )
    return found


def _rivals_said(regrets: pd.DataFrame) -> str:
    found = beaten_by(regrets)
    judged = counted(len(_large(regrets)), "set")
    if not found:
        return (
            f"Below every constant K, in the mean and on the worst grid of {judged} of {MIN_ROWS} "
            "grids or more: met."
        )
    return "Below every constant K: missed. A simpler rule wins: " + "; ".join(found) + "."


def _mean_and_worst(regret: pd.Series) -> str:
    return f"{percent(float(np.mean(regret)))} / {percent(float(regret.max()), 0)}"
