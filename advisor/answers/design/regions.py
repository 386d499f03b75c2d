"""One design for many batches and accelerators: regions of a map, and the design of several
targets.

Noise gives almost every cell a winner of its own. The rule that merges them
(docs/decisions/design-search.md): designs are chosen one after the other, each the one that holds
most cells not held yet as a core, as long as that is two or more. A cell left over goes as an edge
to the chosen design that ties there most likely, or to its own best where every chosen design loses
beyond noise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.cells import (
    CORE_CHANCE,
    TIE,
    CellStanding,
    DesignCells,
    Place,
    Standings,
    ask_cells,
    loaded_at,
    parse_place,
    standings,
)
from advisor.answers.design.grid import MAX_BATCHES, DesignGrid
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import AdvisorError, Array

MAP_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MAP_ACCELERATORS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "mi300x")
"""Drawn where nothing else is asked for: of data centres, five of them with measured kernels."""
_LEAST_CELLS = 2
"""Cells of its own for which a design joins although others serve them within noise. [-]"""
_POOL_LOSSES = (TIE, TIE / 2)
"""Central losses by which designs that serve many cells are looked for, before anything is drawn.
[-]"""


@dataclass(frozen=True)
class Region:
    """One design and the cells it holds."""

    letter: str
    index: int
    """Index of the design, into every space."""
    words: str
    core: tuple[int, ...]
    edge: tuple[int, ...]
    everywhere: tuple[CellStanding | None, ...]
    """Standing of the design in every cell, its own or not; None where it does not keep every
    limit."""

    @property
    def cells(self) -> tuple[int, ...]:
        """All cells it holds."""
        return tuple(sorted((*self.core, *self.edge)))

    @property
    def worst_outside(self) -> CellStanding | None:
        """Standing in the cell beyond its region where it is expected to lose most, or None without
        one."""
        held = set(self.cells)
        outside = [
            standing
            for standing in self.everywhere
            if standing is not None and standing.cell not in held
        ]
        return max(outside, key=lambda standing: standing.expected) if outside else None


@dataclass(frozen=True)
class RegionMap:
    """The regions of a map, most cells first, and how each cell's holder stands."""

    cells: DesignCells
    scenario: Scenario
    regions: tuple[Region, ...]
    holder: NDArray[np.intp]
    """Region that holds each cell, [nC]; -1 where no design keeps every limit."""

    @property
    def batches(self) -> Array:
        """Batches of the map's rows, rising and alike for every place."""
        return self.cells.spaces[0].question.batches

    def standing(self, cell: int) -> CellStanding | None:
        """Standing of the design that holds a cell, or None where none does."""
        held = int(self.holder[cell])
        return None if held < 0 else self.regions[held].everywhere[cell]

    @property
    def grid(self) -> NDArray[np.intp]:
        """Cells by place and batch, [nP, nB]."""
        return np.arange(len(self.cells)).reshape(len(self.cells.places), -1)


def region_map(
    scenario: Scenario,
    places: Sequence[Place] = (),
    batches: Sequence[int] | None = None,
    *,
    grid: DesignGrid | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **question: Any,
) -> RegionMap:
    """The design to train over batch and accelerator, in as few designs as serve within a tie.

    places : accelerators; default the scenario's own and MAP_ACCELERATORS.
    batches : default those of MAP_BATCHES that every placement can share.
    question : as of `design_space`, asked in every cell.

    Raises AdvisorError as `ask_cells` does.
    """
    wanted = tuple(dict.fromkeys(places)) or default_places(scenario)
    if batches is None:
        least = max(loaded_at(scenario, place).placement.attention_groups for place in wanted)
        batches = [batch for batch in MAP_BATCHES if batch >= least]
    cells = ask_cells(
        scenario,
        dict.fromkeys(wanted, batches),
        grid=grid,
        on_progress=lambda share: on_progress(share / 2),
        **question,
    )
    drawn = standings(cells, _pool(cells), lambda share: on_progress((1 + share) / 2))
    on_progress(1.0)
    chosen, holder, core = cover(drawn)
    regions = []
    for number, column in enumerate(chosen):
        held = np.flatnonzero(holder == number)
        index = int(cells.found[drawn.pool[column]])
        everywhere = tuple(
            drawn.of(column, cell) if drawn.allowed[cell, column] else None
            for cell in range(len(cells))
        )
        regions.append(
            Region(
                letter=letter(number),
                index=index,
                words=cells.spaces[0].describe(index),
                core=tuple(map(int, held[core[held]])),
                edge=tuple(map(int, held[~core[held]])),
                everywhere=everywhere,
            )
        )
    return RegionMap(cells, scenario, tuple(regions), holder)


def default_places(scenario: Scenario) -> tuple[Place, ...]:
    """The scenario's own accelerator among those of MAP_ACCELERATORS, in their order."""
    hardware_id = scenario.hardware_id
    return tuple(
        map(
            Place,
            MAP_ACCELERATORS
            if hardware_id in MAP_ACCELERATORS
            else (hardware_id, *MAP_ACCELERATORS),
        )
    )


def cover(drawn: Standings) -> tuple[list[int], NDArray[np.intp], NDArray[np.bool_]]:
    """Columns of the pool chosen, and which of them holds each cell, by the rule above.

    The second is -1 where none does; the third says whether as the region's core. Chosen are sorted
    by the number of cells they hold. [<= nP], [nC], [nC]
    """
    served = drawn.cells.served
    cores = drawn.chance >= CORE_CHANCE
    holder = np.full(len(served), -1, np.intp)
    chosen: list[int] = []
    left = served.copy()
    while (taken := cores[left].sum(axis=0)).max(initial=0) >= _LEAST_CELLS:
        most = np.flatnonzero(taken == taken.max())
        # Of equals the one that loses least over the cells that are left.
        column = int(most[drawn.expected[left][:, most].mean(axis=0).argmin()])
        holder[left & cores[:, column]] = len(chosen)
        left &= ~cores[:, column]
        chosen.append(column)
    for cell in np.flatnonzero(left):
        near = [
            column
            for column in chosen
            if drawn.allowed[cell, column] and drawn.band[0][cell, column] <= 0.0
        ]
        cell_best = int(np.searchsorted(drawn.pool, drawn.cells.best[cell]))
        column = (
            min(near, key=lambda at: (-drawn.chance[cell, at], drawn.expected[cell, at]))
            if near
            else cell_best
        )
        if column not in chosen:
            chosen.append(column)
        holder[cell] = chosen.index(column)
    is_core = np.array(
        [held >= 0 and bool(cores[cell, chosen[held]]) for cell, held in enumerate(holder)]
    )
    counts = np.bincount(holder[served], minlength=len(chosen))
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return (
        [chosen[i] for i in order],
        np.where(holder >= 0, rank[holder] if len(rank) else -1, -1),
        is_core,
    )


def letter(number: int) -> str:
    """A, B, ... Z, A2, B2 ...: the name of a region."""
    turn, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(turn + 1) if turn else "")


def _pool(cells: DesignCells) -> NDArray[np.intp]:
    """Columns worth drawing: of each cell the best, and by central losses those that serve most
    cells in turn."""
    columns = set(cells.best[cells.served].tolist())
    for most in _POOL_LOSSES:
        near = cells.loss <= most
        left = cells.served.copy()
        while left.any():
            column = int(near[left].sum(axis=0).argmax())
            columns.add(column)
            left &= ~near[:, column]
    return np.array(sorted(columns), np.intp)


_TARGET = re.compile(r"(?P<place>[^:]+):(?P<batch>[0-9]{1,6})")
_POOL_EACH = 16
"""Designs of least central loss that are drawn at least, by the mean and by the worst over the
targets. [-]"""


@dataclass(frozen=True)
class Target:
    """An accelerator and the batch it is to serve."""

    place: Place
    batch: int

    def __str__(self) -> str:
        return f"{self.place}:{self.batch}"


def parse_target(text: str, own: str = "") -> Target:
    """Read a target such as `h100-sxm:8` or `2xb200-sxm:128`. Raises AdvisorError for anything
    else."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or not 1 <= int(match["batch"]) <= MAX_BATCH:
        raise AdvisorError(
            f"target {text[:80]!r} is no ACCELERATOR:BATCH, e.g. h100-sxm:8 or 2xb200-sxm:128"
        )
    return Target(parse_place(match["place"], own), int(match["batch"]))


def parse_targets(texts: Sequence[str], own: str = "") -> tuple[Target, ...]:
    """Different targets, in the order given. Raises AdvisorError for one that is none, or too
    many."""
    targets = tuple(dict.fromkeys(parse_target(text, own) for text in texts))
    if not 1 <= len(targets) <= MAX_BATCHES:
        raise AdvisorError(f"{len(targets)} targets: give 1 to {MAX_BATCHES}")
    return targets


@dataclass(frozen=True)
class TargetsChoice:
    """One design at every target."""

    index: int
    """Into every space."""
    words: str
    at: tuple[CellStanding, ...]
    """Standing at each target, in their order."""

    @property
    def expected(self) -> float:
        """Expected loss, mean over the targets. [-]"""
        return float(np.mean([standing.expected_loss for standing in self.at]))

    @property
    def worst(self) -> float:
        """Expected loss at the target where it is largest. [-]"""
        return max(standing.expected_loss for standing in self.at)


@dataclass(frozen=True)
class OneDesign:
    """The one design for the targets, beside each target's own best."""

    cells: DesignCells
    scenario: Scenario
    targets: tuple[Target, ...]
    """Targets in the order asked; target i is cell `cell_of[i]`."""
    cell_of: tuple[int, ...]
    choices: tuple[TargetsChoice, ...]
    """Designs by expected loss, least first; empty where no design serves every target."""
    least_worst: TargetsChoice | None
    """The one that loses least where it loses most."""
    own: tuple[CellStanding | None, ...]
    """Each target's own best at it; None where no design serves it."""
    baseline: TargetsChoice | None
    """The baseline as one design of all targets; None where it does not keep every limit."""

    @property
    def best(self) -> TargetsChoice | None:
        """The design of least expected loss over the targets."""
        return self.choices[0] if self.choices else None

    @property
    def is_clear(self) -> bool:
        """Whether it beats the baseline throughout the band at every target where the two are
        compared."""
        gains = (
            []
            if self.best is None
            else [standing.gain for standing in self.best.at if standing.gain is not None]
        )
        return bool(gains) and all(gain.low > 1.0 for gain in gains)


def one_design(
    scenario: Scenario,
    targets: Sequence[Target],
    count: int = 5,
    *,
    grid: DesignGrid | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **question: Any,
) -> OneDesign:
    """Designs of least expected loss over the targets, best first, `count` in all.

    Each target counts alike.

    question : as of `design_space`, asked at every target. Raises AdvisorError as `ask_cells` does.
    """
    batches_at: dict[Place, list[int]] = {}
    for target in targets:
        batches_at.setdefault(target.place, []).append(target.batch)
    cells = ask_cells(
        scenario,
        batches_at,
        grid=grid,
        on_progress=lambda share: on_progress(share / 2),
        **question,
    )
    cell_at = {
        (cells.places[cells.space_of[cell]], int(batch)): cell
        for cell, batch in enumerate(cells.batches)
    }
    cell_of = tuple(cell_at[target.place, target.batch] for target in targets)
    every = np.flatnonzero(np.all(cells.merit > 0.0, axis=0))
    drawn = standings(
        cells, _one_design_pool(cells, every, count), lambda share: on_progress((1 + share) / 2)
    )
    on_progress(1.0)
    columns = np.flatnonzero(np.isin(drawn.pool, every))
    # Less than no loss against what is a target's best by the central values is noise: then these
    # decide.
    expected = np.maximum(drawn.expected[:, columns], 0.0)
    central = drawn.loss[:, columns].mean(axis=0)
    by_mean = columns[np.lexsort((central, expected.mean(axis=0)))]
    by_worst = columns[np.lexsort((central, expected.max(axis=0)))]

    def choice(column: int) -> TargetsChoice:
        index = int(cells.found[drawn.pool[column]])
        return TargetsChoice(
            index,
            cells.spaces[0].describe(index),
            tuple(drawn.of(column, cell) for cell in cell_of),
        )

    baseline_index = cells.spaces[0].baseline_index()
    baseline_column = (
        None
        if baseline_index is None
        else next(iter(columns[cells.found[drawn.pool[columns]] == baseline_index]), None)
    )
    cell_bests = tuple(
        drawn.of(int(np.searchsorted(drawn.pool, cells.best[cell])), cell)
        if cells.served[cell]
        else None
        for cell in cell_of
    )
    return OneDesign(
        cells=cells,
        scenario=scenario,
        targets=tuple(targets),
        cell_of=cell_of,
        choices=tuple(choice(int(column)) for column in by_mean[:count]),
        least_worst=choice(int(by_worst[0])) if len(by_worst) else None,
        own=cell_bests,
        baseline=None if baseline_column is None else choice(int(baseline_column)),
    )


def _one_design_pool(cells: DesignCells, every: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Columns to draw: of those that serve every target the ones of least central loss, and the
    baseline."""
    if not len(every):
        return every
    loss = cells.loss[:, every]
    most = max(count, _POOL_EACH)
    least = [
        np.argsort(measure, kind="stable")[:most]
        for measure in (loss.mean(axis=0), loss.max(axis=0))
    ]
    baseline_index = cells.spaces[0].baseline_index()
    baseline_columns = (
        []
        if baseline_index is None
        else np.flatnonzero(cells.found[every] == baseline_index).tolist()
    )
    return every[np.unique([*np.concatenate(least), *baseline_columns]).astype(np.intp)]
