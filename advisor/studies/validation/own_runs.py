"""What a first run of one's own would do: each laboratory's configurations, refitted on four of their rows.

The constants before are those of the fit without the laboratory, as a user finds them whom no fit has seen. Four rows
of a configuration, spread over its batches and K, are then refitted as `fit` does; its other rows are judged. So the
figures after are held out twice: from the shipped fit and from the refit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from advisor.calibration import Adjustment, adjusted, class_costs
from advisor.components import OVERHEADS
from advisor.curve import Curve
from advisor.next_steps import OWN_ROWS, OwnRuns
from advisor.points import Point, adjustment_of, immature, laboratory_or_title, refit_chosen, with_costs
from advisor.prediction import AdvisorError
from advisor.setup import Setup
from advisor.studies.validation.tables import markdown_table, percent, share
from advisor.studies.validation.unseen import in_data_centre

LEAST_JUDGED = 2
"""Rows of a configuration that must be left to judge. [-]"""
WIDTH_BARS, SLOPE_BAR = {"data centre": 0.24, "all": 0.30}, 0.03
"""What was asked after four rows: median width of the band, and log error on log2 batch. [-]"""
_SAME = ("weight_dtype", "tensor_parallel", "dataset")


def own_run_rows(points: Sequence[Point]) -> pd.DataFrame:
    """Every judged row before and after a refit on OWN_ROWS rows of its configuration.

    Columns: laboratory, configuration, engine_class, hardware_id, batch_size, measured, and each of predicted, low and
    high with `_before` and `_after`. Configurations with fewer than OWN_ROWS + LEAST_JUDGED rows, or whose rows a
    refit refuses, take no part.
    """
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_configuration(point), []).append(point)
    return pd.DataFrame([row for key, group in groups.items() for row in _judged(key, group)])


def mature_points(points: Sequence[Point]) -> list[Point]:
    """Points of engines that do not call themselves immature."""
    young = immature(pd.DataFrame([dict(point.row) for point in points]))
    return [point for point, apart in zip(points, young, strict=True) if not apart]


def own_runs(rows: pd.DataFrame) -> tuple[OwnRuns, ...]:
    """The figures by kind of part, each the mean over laboratories (widths: the median), data centre first."""
    centre = in_data_centre(rows)
    kinds = {"data centre": rows[centre], "workstation": rows[~centre], "all": rows}
    return tuple(_figures(kind, chosen) for kind, chosen in kinds.items() if len(chosen))


def own_runs_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md. `rows` as `own_run_rows` gives them."""
    found = own_runs(rows)
    laboratories = [_figures(str(name), group) for name, group in rows.groupby("laboratory")]
    pairs = ("error", "slope", "in band", "width")
    header = ("laboratory", "rows", *(cell for name in pairs for cell in (f"{name} before", "after")))
    asked = [line for figures in found if figures.kind in WIDTH_BARS for line in _asked(figures)]
    return (
        f"## What {OWN_ROWS} runs of one's own do\n\nConfigurations with at least {OWN_ROWS + LEAST_JUDGED} rows, from "
        f"the fit without their laboratory; {OWN_ROWS} rows spread over batch and K are refitted, the others judged. A "
        "borrowed accepted length is moved as the refit says. Slopes: log error on log2 batch. `advise` prints the "
        "width after from these figures (profiles/validation/own_runs.json).\n\n"
        + markdown_table(header, [_cells(one) for one in (*laboratories, *found)])
        + "\n\n"
        + markdown_table(("asked", "figure", "bar", "status"), asked)
    )


def _configuration(point: Point) -> tuple[str, ...]:
    scenario = point.scenario
    own = (laboratory_or_title(point.source), point.setup.hardware.id, scenario.engine, point.engine_class)
    return (*own, scenario.model_id, scenario.drafter_id, *(str(point.row.get(name)) for name in _SAME))


def _judged(key: tuple[str, ...], group: Sequence[Point]) -> Iterable[dict[str, object]]:
    """The rows of one configuration that a refit on the others did not see. None where too few or refused."""
    if len(group) < OWN_ROWS + LEAST_JUDGED:
        return []
    seen = class_costs(group[0].engine_class, without=key[0])
    ordered = sorted(group, key=lambda p: (p.batch_size, p.n_draft, p.scenario.context_tokens))
    own = [_numbered(point.seen_by(with_costs(point.setup, **seen)), i) for i, point in enumerate(ordered)]
    chosen = set(np.linspace(0, len(own) - 1, OWN_ROWS).round().astype(int).tolist())
    try:
        result = refit_chosen([own[i] for i in sorted(chosen)])
    except AdvisorError:
        return []
    length = next((item.factor for item in result.parameters if item.name == "accepted_length"), 1.0)
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


def _numbered(point: Point, line: int) -> Point:
    observed = point.observations
    return replace(point, line=line, observations=replace(observed, line=np.full(len(observed.line), line)))


def _moved(setup: Setup, adjustment: Adjustment) -> Setup:
    """As `refitted`, from the constants of the fit without the laboratory in place of the shipped ones."""
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
    """Log error on log2 batch within a configuration, mean over laboratories. NaN without three batches. [-]"""
    frame = rows.assign(error=np.log(predicted / rows["measured"]), doublings=np.log2(rows["batch_size"].astype(float)))
    slopes = [
        (laboratory, float(np.polyfit(group["doublings"], group["error"], 1)[0]))
        for (laboratory, _), group in frame.groupby(["laboratory", "configuration"])
        if group["doublings"].nunique() > 2
    ]
    return float(pd.DataFrame(slopes, columns=["laboratory", "slope"]).groupby("laboratory")["slope"].mean().mean())


def _asked(one: OwnRuns) -> list[tuple[str, str, str, str]]:
    """The bars of one kind, met or missed."""
    lines = [("median width", one.width_after, WIDTH_BARS[one.kind]), ("slope over batch", one.slope_after, SLOPE_BAR)]
    return [
        (f"{what}, {one.kind}", percent(figure), f"<= {share(bar)}", "met" if abs(figure) <= bar else "missed")
        for what, figure, bar in lines
    ]


def _cells(one: OwnRuns) -> tuple[str | int, ...]:
    pairs = [
        (percent(getattr(one, f"{name}_before")), percent(getattr(one, f"{name}_after")))
        for name in ("error", "slope", "coverage", "width")
    ]
    name = f"**{one.kind}** ({one.n_laboratories})" if one.kind in (*WIDTH_BARS, "workstation") else one.kind
    return (name, one.n_rows, *(cell for pair in pairs for cell in pair))
