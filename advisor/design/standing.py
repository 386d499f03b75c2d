"""How designs stand in each cell beside the cell's own best, over draws that all designs of a cell share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor import bands
from advisor.arrays import Array
from advisor.design.candidates import SHAPE_LOG_SD, Band, DrawnDesigns, drawn_at, setup_of, shape_errors
from advisor.design.cells import DesignCells, merit_of
from advisor.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.prediction import Tier, lowest

TIE = SHAPE_LOG_SD
"""A smaller loss counts as none: it is what the fit misses of one expert shape's kernels. [-]"""
CORE_CHANCE = 0.8
"""Chance of a tie with the best from which a design holds a cell robustly: the level of every band. [-]"""


@dataclass(frozen=True)
class CellStanding:
    """One design in one cell. Losses are shares of the objective against the cell's own best design."""

    cell: int
    index: int
    """Index of the design, into every space."""
    n_draft: int
    speedup: float
    tpot_s: float
    loss: float
    """Central; 0 for the cell's own best. [-]"""
    low: float
    """Low end of the 80 % band over all draws, errors of expert shapes included; below 0 it is the better one. [-]"""
    high: float
    expected: float
    """Mean over the draws that all designs share. Below 0 where those are lopsided: the cell's own best is so by the
    central values. [-]"""
    chance: float
    """Share of those draws in which it loses less than TIE to the best of the designs compared. [-]"""
    gain: Band | None
    """Over the baseline, by the objective; None where the baseline does not fit, or where its own measured rows lie
    too far from the fit that costs all designs."""
    tier: Tier
    extrapolated: bool

    @property
    def expected_loss(self) -> float:
        """The expected loss, at least none. [-]"""
        return max(self.expected, 0.0)

    @property
    def is_core(self) -> bool:
        """Whether it holds the cell robustly."""
        return self.chance >= CORE_CHANCE

    @property
    def within_noise(self) -> bool:
        """Whether the band of its loss includes none."""
        return self.low <= 0.0


@dataclass(frozen=True)
class Standings:
    """Some designs in every cell, under draws of all constants."""

    cells: DesignCells
    pool: NDArray[np.intp]
    """Columns of `cells.merit` that were drawn, rising, [nP]."""
    common: Array
    """Merit under each draw of the errors that all designs share, [draws, nC, nP]; 0 where not allowed."""
    errors: Array
    """Factor on a merit for the kernels of each design's own expert shape, [draws, nP]. [-]"""
    baseline: Array
    """The baseline's merit under the same draws, [draws, nC]."""
    baseline_merit: Array
    """The baseline's central merit, [nC]; 0 where nothing is held against it."""
    tiers: tuple[tuple[tuple[Tier, bool], ...], ...]
    """Tier and whether outside the data, [nC][nP]; the lower of the design's and the baseline's."""

    @cached_property
    def loss(self) -> Array:
        """Central loss of the pool, [nC, nP]. [-]"""
        return self.cells.loss[:, self.pool]

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether each design keeps every limit of each cell, [nC, nP]."""
        return np.asarray(self.cells.merit[:, self.pool] > 0.0)

    @cached_property
    def chance(self) -> Array:
        """Chance of a tie with the best of the pool, [nC, nP], 0 where a design is not allowed. [-]"""
        most = self.common.max(axis=2, keepdims=True, initial=0.0)
        return np.where(self.allowed, (self.common >= (1.0 - TIE) * most).mean(axis=0), 0.0)

    @cached_property
    def expected(self) -> Array:
        """Expected loss against the cell's own best, [nC, nP], 1 where a design is not allowed. [-]"""
        own = self._own(self.common)
        ratio = np.divide(self.common, own, out=np.zeros_like(self.common), where=own > 0.0)
        return np.where(self.allowed, 1.0 - ratio.mean(axis=0), 1.0)

    @cached_property
    def band(self) -> tuple[Array, Array]:
        """Ends of the 80 % band of the loss, [nC, nP] each. [-]

        The errors of both expert shapes are in them.
        """
        drawn = self.common * self.errors[:, None, :]
        own = self._own(drawn)
        low, high = bands.band(1.0 - np.divide(drawn, own, out=np.zeros_like(drawn), where=own > 0.0))
        # Draws may be lopsided; a band that left its own centre out would read as a mistake.
        return np.minimum(low, self.loss), np.maximum(high, self.loss)

    def _own(self, merit: Array) -> Array:
        """Of merits [draws, nC, nP] those of each cell's own best, [draws, nC, 1]; 0 without any design."""
        if not len(self.pool):
            return np.zeros((*merit.shape[:2], 1))
        # A cell that no design serves has no best (-1): any column will do, since nothing is allowed there.
        columns = np.searchsorted(self.pool, np.maximum(self.cells.best, self.pool[0]))
        return np.asarray(np.take_along_axis(merit, columns[None, :, None], axis=2))

    def of(self, column: int, cell: int) -> CellStanding:
        """One design of the pool in one cell where it is allowed."""
        space, row = self.cells.space(cell), int(self.cells.row_of[cell])
        index = int(self.cells.found[self.pool[column]])
        merit, own = float(self.cells.merit[cell, self.pool[column]]), float(self.baseline_merit[cell])
        drawn = self.common[:, cell, column] * self.errors[:, column] / self.baseline[:, cell]
        tier, beyond = self.tiers[cell][column]
        return CellStanding(
            cell=cell,
            index=index,
            n_draft=int(space.n_draft[row, index]),
            speedup=float(space.speedup[row, index]),
            tpot_s=float(space.tpot_s[row, index]),
            loss=float(self.loss[cell, column]),
            low=float(self.band[0][cell, column]),
            high=float(self.band[1][cell, column]),
            expected=float(self.expected[cell, column]),
            chance=float(self.chance[cell, column]),
            gain=Band.of(merit / own, drawn) if own > 0.0 else None,
            tier=tier,
            extrapolated=beyond,
        )


def standings(
    cells: DesignCells, pool: NDArray[np.intp], on_progress: Callable[[float], None] = lambda _share: None
) -> Standings:
    """Draw some designs, columns of `cells.merit`, and the best of each cell beside them.

    Without any of either the standings are empty, nP = 0.
    """
    pool = np.unique([*pool, *cells.best[cells.served]]).astype(np.intp)
    common, baseline, tiers = [], [], []
    for number, space in enumerate(cells.spaces):
        on_progress(number / len(cells.spaces))
        at = cells.cells_of(number)
        question, own = space.question, space.baseline.served
        base = drawn_at(space.bodies[0].setup, question.batches, own.n_draft[:, 0])
        drawn = [
            drawn_at(setup_of(space, int(index)), question.batches, space.n_draft[:, index])
            for index in cells.found[pool]
        ]
        baseline.append(merit_of(space, base.speedup, base.tpot_s))
        merit = _columns([merit_of(space, each.speedup, each.tpot_s) for each in drawn], baseline[-1].shape)
        common.append(np.where(cells.merit[at][:, pool] > 0.0, merit, 0.0))
        tiers += [tuple(_tier(each, base, row) for each in drawn) for row in range(len(at))]
    errors = [shape_errors(cells.spaces[0], int(index), len(baseline[0])) for index in cells.found[pool]]
    return Standings(
        cells,
        pool,
        np.concatenate(common, axis=1),
        _columns(errors, baseline[0].shape[:1]),
        np.concatenate(baseline, axis=1),
        np.concatenate([_baseline_merit(space) for space in cells.spaces]),
        tuple(tiers),
    )


def _columns(parts: list[Array], shape: tuple[int, ...]) -> Array:
    """Arrays of one shape side by side, [*shape, n]; n may be 0, where no design serves any cell."""
    return np.stack(parts, axis=-1) if parts else np.zeros((*shape, 0))


def _baseline_merit(space: DesignSpace) -> Array:
    """The baseline's central merit at the question's batches, 0 where nothing is held against it. [nB]"""
    merit = merit_of(space, space.baseline.served.speedup[:, 0], space.baseline.served.tpot_s[:, 0])
    fits = space.question.batches <= space.setup.memory.largest_batch
    return np.where(fits & (abs(space.measured_gap) <= MAX_MEASURED_GAP), merit, 0.0)


def _tier(design: DrawnDesigns, base: DrawnDesigns, row: int) -> tuple[Tier, bool]:
    return lowest([design.tiers[row], base.tiers[row]]), bool(design.beyond[row] or base.beyond[row])
