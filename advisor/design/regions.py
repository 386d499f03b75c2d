"""Regions of one design over batch and accelerator: few designs that serve the whole map within a tie.

Noise gives almost every cell a winner of its own. The rule that merges them (docs/decisions/design-search.md): designs
are chosen one after the other, each the one that holds most cells not held yet as a core, as long as that is two or
more. A cell left over goes as an edge to the chosen design that ties there most likely, or to its own best where every
chosen design loses beyond noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.design.cells import DesignCells, Place, ask_cells, loaded_at
from advisor.design.grid import DesignGrid
from advisor.design.standing import CORE_CHANCE, TIE, CellStanding, Standings, standings
from advisor.scenario import Scenario

MAP_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MAP_ACCELERATORS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "mi300x")
"""Drawn where nothing else is asked for: of data centres, five of them with measured kernels."""
_LEAST_CELLS = 2
"""Cells of its own for which a design joins although others serve them within noise. [-]"""
_POOL_LOSSES = (TIE, TIE / 2)
"""Central losses by which designs that serve many cells are looked for, before anything is drawn. [-]"""


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
    """Standing of the design in every cell, its own or not; None where it does not keep every limit."""

    @property
    def cells(self) -> tuple[int, ...]:
        """All cells it holds."""
        return tuple(sorted((*self.core, *self.edge)))

    @property
    def worst_outside(self) -> CellStanding | None:
        """Standing in the cell beyond its region where it is expected to lose most, or None without one."""
        held = set(self.cells)
        outside = [each for each in self.everywhere if each is not None and each.cell not in held]
        return max(outside, key=lambda each: each.expected) if outside else None


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
        regions.append(
            Region(
                letter=letter(number),
                index=int(cells.found[drawn.pool[column]]),
                words=cells.spaces[0].describe(int(cells.found[drawn.pool[column]])),
                core=tuple(map(int, held[core[held]])),
                edge=tuple(map(int, held[~core[held]])),
                everywhere=tuple(
                    drawn.of(column, cell) if drawn.allowed[cell, column] else None for cell in range(len(cells))
                ),
            )
        )
    return RegionMap(cells, scenario, tuple(regions), holder)


def default_places(scenario: Scenario) -> tuple[Place, ...]:
    """The scenario's own accelerator among those of MAP_ACCELERATORS, in their order."""
    own = scenario.hardware_id
    return tuple(map(Place, MAP_ACCELERATORS if own in MAP_ACCELERATORS else (own, *MAP_ACCELERATORS)))


def cover(drawn: Standings) -> tuple[list[int], NDArray[np.intp], NDArray[np.bool_]]:
    """Columns of the pool chosen, and which of them holds each cell, by the rule above.

    The second is -1 where none does; the third says whether as the region's core.

    Chosen are sorted by the number of cells they hold. [<= nP], [nC], [nC]
    """
    served, cores = drawn.cells.served, drawn.chance >= CORE_CHANCE
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
        near = [column for column in chosen if drawn.allowed[cell, column] and drawn.band[0][cell, column] <= 0.0]
        own = int(np.searchsorted(drawn.pool, drawn.cells.best[cell]))
        column = min(near, key=lambda one: (-drawn.chance[cell, one], drawn.expected[cell, one])) if near else own
        if column not in chosen:
            chosen.append(column)
        holder[cell] = chosen.index(column)
    is_core = np.array([held >= 0 and bool(cores[cell, chosen[held]]) for cell, held in enumerate(holder)])
    counts = np.bincount(holder[served], minlength=len(chosen))
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return [chosen[i] for i in order], np.where(holder >= 0, rank[holder] if len(rank) else -1, -1), is_core


def letter(number: int) -> str:
    """A, B, ... Z, A2, B2 ...: the name of a region."""
    turn, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(turn + 1) if turn else "")


def _pool(cells: DesignCells) -> NDArray[np.intp]:
    """Columns worth drawing: of each cell the best, and by central losses those that serve most cells in turn."""
    found = set(cells.best[cells.served].tolist())
    for most in _POOL_LOSSES:
        near, left = cells.loss <= most, cells.served.copy()
        while left.any():
            column = int(near[left].sum(axis=0).argmax())
            found.add(column)
            left &= ~near[:, column]
    return np.array(sorted(found), np.intp)
