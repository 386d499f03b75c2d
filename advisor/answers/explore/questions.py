"""Questions to a sweep (where drafting pays, what is fastest, what one K for all loses), and a
sweep as a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.answers.explore.cells import COLUMNS, SETTINGS
from advisor.answers.explore.sweep_files import Sweep
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import Tier

SURE = 0.8
"""Share of the draws in which drafting has to gain, so that it counts as paying (own choice).
[-]"""
_PAIR = ["model_id", "hardware_id"]
_SAID = ("n_draft", "speedup", "speedup_low", "speedup_high", "p_gain", "tier")
_ABSOLUTE = tuple(name for name in COLUMNS if name.startswith(("tpot", "tokens_per_s")))


def predicted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a prediction."""
    return frame[frame["reason"].fillna("") == ""]


def _columns(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Some columns of the rows that hold a prediction: forty would have to be copied with each
    choice of rows."""
    return predicted(frame[[*names, "reason"]])


def varied(frame: pd.DataFrame) -> tuple[str, ...]:
    """Settings that take more than one value in what was predicted, the batch among them."""
    known = predicted(frame)
    return tuple(name for name in SETTINGS if known[name].nunique(dropna=False) > 1)


def where_drafting_pays(frame: pd.DataFrame) -> pd.DataFrame:
    """The largest batch of each model and accelerator at which drafting pays, at the best other
    settings.

    frame : rows of a sweep, `COLUMNS`.

    A row for each pair that was predicted: `pays_up_to` (empty where it never does), the K, speedup
    and odds there, the settings with which it does, and whether any of its batches `fits`. Of
    several with the same batch the one of the largest speedup.
    """
    known = _columns(
        frame, *_PAIR, "batch_size", "speedup", "recommended", "n_draft", "p_gain", "fits"
    )
    pays = known[
        known["recommended"] & (known["n_draft"] > 0) & (known["p_gain"] >= SURE) & known["fits"]
    ]
    best = frame.loc[
        pays.sort_values(["batch_size", "speedup"], kind="stable").groupby(_PAIR).tail(1).index
    ]
    pairs = known.groupby(_PAIR, sort=True)["fits"].any().reset_index()
    rows = pairs.merge(best.drop(columns="fits").reset_index(names="row"), on=_PAIR, how="left")
    rows = rows.rename(columns={"batch_size": "pays_up_to"})
    columns = [*_PAIR, "pays_up_to", *_SAID, *_others(frame, *_PAIR), "fits", "row"]
    return rows[columns].astype({"pays_up_to": "Int64", "n_draft": "Int64", "row": "Int64"})


def fastest_within(frame: pd.DataFrame, max_tpot_ms: float | None) -> pd.DataFrame:
    """The row of most tokens per second and GPU of each model among those that fit and keep a
    limit.

    frame : rows of a sweep, `COLUMNS`.
    max_tpot_ms : limit on the time per output token of one user; None: none. [ms]

    A row for each model that was predicted, without figures where no row keeps the limit;
    `least_tpot_ms` is then the best there is, empty where nothing fits.
    """
    known = _columns(frame, "model_id", "tpot_ms", "tokens_per_s_per_gpu", "fits")
    fits = known[known["fits"]]
    quick = fits if max_tpot_ms is None else fits[fits["tpot_ms"] <= max_tpot_ms]
    # Of as many tokens per second, the one that waits least for each.
    order = quick.sort_values(
        ["tokens_per_s_per_gpu", "tpot_ms"], ascending=[True, False], kind="stable"
    )
    best = frame.loc[order.groupby("model_id").tail(1).index]
    models = known[["model_id"]].drop_duplicates()
    least = fits.groupby("model_id")["tpot_ms"].min().rename("least_tpot_ms")
    rows = models.merge(best.reset_index(names="row"), on="model_id", how="left").merge(
        least, on="model_id", how="left"
    )
    columns = [
        "model_id",
        "hardware_id",
        "batch_size",
        *_SAID,
        *_ABSOLUTE,
        *_others(frame, *_PAIR),
        "least_tpot_ms",
        "row",
    ]
    kinds = {"batch_size": "Int64", "n_draft": "Int64", "row": "Int64"}
    return rows.sort_values("model_id", kind="stable")[columns].astype(kinds).reset_index(drop=True)


def one_k_for_all(frame: pd.DataFrame) -> pd.DataFrame:
    """Loss of each K used at every point that fits, against the fastest of each draw.

    frame : rows of a sweep, `COLUMNS`.

    `loss` is the mean over the points and the draws, `worst` the largest of a point, `points` how
    many have this K, `tier` the lowest among them. [loss and worst as shares] A K that every point
    has stands before one that fewer have, whose mean is over other points; among those of as many
    points the least loss is first.
    """
    fits = _columns(frame, "n_draft", "expected_loss", "tier", "fits")
    losses = _losses(fits[fits["fits"]], "n_draft")
    return losses.sort_values(
        ["points", "loss"], ascending=[False, True], kind="stable"
    ).reset_index(drop=True)


def loss_of_recommended(frame: pd.DataFrame) -> float | None:
    """Mean loss of each point's own recommended K, over the points that fit. [-] None where none
    does."""
    known = _columns(frame, "fits", "recommended", "expected_loss")
    loss = known.loc[known["fits"] & known["recommended"], "expected_loss"]
    return float(loss.mean()) if len(loss) else None


def _losses(fits: pd.DataFrame, by: str) -> pd.DataFrame:
    ranks = {tier.value: tier.rank for tier in Tier}
    groups = fits.assign(
        rank=fits["tier"].map(ranks), loss=fits["expected_loss"].astype(float)
    ).groupby(by, sort=True)
    losses = groups.agg(
        loss=("loss", "mean"), worst=("loss", "max"), points=("loss", "size"), tier=("rank", "max")
    )
    losses["tier"] = [list(Tier)[int(rank)].value for rank in losses["tier"]]
    return losses.reset_index()


def _others(frame: pd.DataFrame, *named: str) -> list[str]:
    """Varied settings that no column names yet, those that follow from another left out."""
    return [name for name in axes(frame) if name not in (*named, "batch_size")]


def axes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Settings that vary and do not follow from one another, model and accelerator first, batch
    last.

    A placement that goes with its model (`cases` of a plan) is no axis of its own.
    """
    independent: list[str] = []
    some = predicted(frame)[list(varied(frame))].drop_duplicates()
    for name in sorted(some, key=lambda column: (column not in _PAIR, column == "batch_size")):
        if not any(
            (some.groupby(known, dropna=False)[name].nunique(dropna=False) == 1).all()
            for known in independent
        ):
            independent.append(name)
    return tuple(independent)


def values_of(frame: pd.DataFrame, name: str) -> list[object]:
    """Values of a setting in their order: numbers by size, texts as the rows come, None for not
    set."""
    values = [None if pd.isna(value) else value for value in frame[name].drop_duplicates()]
    numbers = [value for value in values if isinstance(value, (int, float, np.number))]
    ordered = (
        sorted(numbers)
        if len(numbers) == len([value for value in values if value is not None])
        else values
    )
    return [*([None] if None in values and ordered is not values else []), *ordered]


def where(frame: pd.DataFrame, fixed: Mapping[str, object]) -> pd.DataFrame:
    """Rows with these settings. A setting that is not set is None."""
    keep = np.ones(len(frame), bool)
    for name, value in fixed.items():
        keep &= (
            (frame[name].isna() if value is None else frame[name] == value)
            .fillna(value=False)
            .to_numpy(bool)
        )
    return frame[keep]


MAX_SIDE = 24
"""Values of an axis that a map shows. [-]"""


@dataclass(frozen=True)
class SweepMap:
    """Cells [nY, nX] of a sweep: places of rows in its frame, -1 where the grid has none."""

    x: str
    y: str
    x_values: tuple[object, ...]
    y_values: tuple[object, ...]
    fixed: Mapping[str, object]
    """The other axes, each at one value."""
    row: NDArray[np.int64]
    cells: pd.DataFrame
    """Rows of the sweep that the cells stand for, by their place in its frame."""
    left_out: int = 0
    """Values of an axis beyond MAX_SIDE. [-]"""

    def values(self, column: str, unless: float = np.nan) -> NDArray[np.float64]:
        """One column of the cells, `unless` where nothing was predicted. [as the column]"""
        column_values = np.full(self.row.shape, unless)
        has = self.has
        column_values[has] = self.cells[column].reindex(self.row[has]).to_numpy(float)
        return column_values

    @property
    def has(self) -> NDArray[np.bool_]:
        """Cells with a prediction."""
        return self.row >= 0

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Cells whose batch fits in memory."""
        return np.asarray(self.values("fits", 0.0) > 0)

    def tier(self, row: int, column: int) -> str:
        """Tier of a cell."""
        return str(self.cells["tier"].loc[self.row[row, column]])


def default_axes(frame: pd.DataFrame) -> tuple[str, str] | None:
    """Two settings to look at first, the batch across and the one of most values down. None for
    fewer."""
    free = axes(frame)
    if len(free) < 2:
        return None
    x = "batch_size" if "batch_size" in free else free[-1]
    # Of as many values the first, which is model or accelerator.
    return x, max(
        (name for name in free if name != x),
        key=lambda name: predicted(frame)[name].nunique(dropna=False),
    )


def choices(
    frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]
) -> dict[str, tuple[list[object], object]]:
    """Values of each further axis beside those chosen before it, and the `fixed` one, else the
    first."""
    remaining = predicted(frame)
    axis_choices = {}
    for name in axes(frame):
        if name in (x, y):
            continue
        values = values_of(remaining, name)
        chosen = fixed[name] if name in fixed and fixed[name] in values else values[0]
        axis_choices[name] = (values, chosen)
        remaining = where(remaining, {name: chosen})
    return axis_choices


def sweep_map(frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]) -> SweepMap:
    """The map over two axes of a sweep, the others as `choices` settles them."""
    settled = {name: chosen for name, (_, chosen) in choices(frame, x, y, fixed).items()}
    best = where(predicted(frame), settled)
    best = best[best["recommended"]]
    sides = {name: values_of(best, name) for name in (x, y)}
    left_out = sum(max(0, len(values) - MAX_SIDE) for values in sides.values())
    sides = {name: values[:MAX_SIDE] for name, values in sides.items()}
    row = np.full((len(sides[y]), len(sides[x])), -1)
    places = {
        name: {value: at for at, value in enumerate(values)} for name, values in sides.items()
    }
    for index, across, down in zip(best.index, best[x], best[y], strict=True):
        at = [
            places[name].get(None if pd.isna(value) else value)
            for name, value in ((y, down), (x, across))
        ]
        if None not in at:
            row[tuple(at)] = index
    return SweepMap(x, y, tuple(sides[x]), tuple(sides[y]), settled, row, best, left_out)


@dataclass(frozen=True)
class SweepView:
    """A sweep and what of it is shown."""

    sweep: Sweep
    max_tpot_ms: float | None
    """Limit on the time per output token of one user; None: none. [ms]"""
    map: SweepMap | None
    """None where fewer than two settings vary."""


def view_of(sweep: Sweep, max_tpot_ms: float | None, wishes: Mapping[str, object]) -> SweepView:
    """A sweep with its first map, fixed at the wished values of settings where the sweep has
    them."""
    sides = default_axes(sweep.frame)
    return SweepView(
        sweep, max_tpot_ms, None if sides is None else sweep_map(sweep.frame, *sides, wishes)
    )


def setting_text(name: str, value: object) -> str:
    """A setting's value as a reader sees it, without its name."""
    row = FIELDS[name]
    if value is None or pd.isna(value):
        return row.unset
    return row.written(row.kind(value))
