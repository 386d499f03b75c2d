"""One design for several targets: the one that is expected to lose least against each target's own best."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.design.cells import DesignCells, Place, ask_cells, parse_place
from advisor.design.document import MAX_BATCHES
from advisor.design.grid import DesignGrid
from advisor.design.standing import CellStanding, Standings, standings
from advisor.prediction import AdvisorError
from advisor.scenario import MAX_BATCH, Scenario

_TARGET = re.compile(r"(?P<place>[^:]+):(?P<batch>\d{1,6})")
_POOL_EACH = 16
"""Designs of least central loss that are drawn at least, by the mean and by the worst over the targets. [-]"""


@dataclass(frozen=True)
class Target:
    """An accelerator and the batch it is to serve."""

    place: Place
    batch: int

    def __str__(self) -> str:
        return f"{self.place}:{self.batch}"


def parse_target(text: str, own: str = "") -> Target:
    """Read a target such as `h100-sxm:8` or `2xb200-sxm:128`. Raises AdvisorError for anything else."""
    found = _TARGET.fullmatch(text.strip())
    if found is None or not 1 <= int(found["batch"]) <= MAX_BATCH:
        raise AdvisorError(f"target {text[:80]!r} is no ACCELERATOR:BATCH, e.g. h100-sxm:8 or 2xb200-sxm:128")
    return Target(parse_place(found["place"], own), int(found["batch"]))


def parse_targets(texts: Sequence[str], own: str = "") -> tuple[Target, ...]:
    """Different targets, in the order given. Raises AdvisorError for one that is none, or too many."""
    found = tuple(dict.fromkeys(parse_target(text, own) for text in texts))
    if not 1 <= len(found) <= MAX_BATCHES:
        raise AdvisorError(f"{len(found)} targets: give 1 to {MAX_BATCHES}")
    return found


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
        return float(np.mean([each.expected_loss for each in self.at]))

    @property
    def worst(self) -> float:
        """Expected loss at the target where it is largest. [-]"""
        return max(each.expected_loss for each in self.at)


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
        """Whether it beats the baseline throughout the band at every target where the two are compared."""
        gains = [] if self.best is None else [each.gain for each in self.best.at if each.gain is not None]
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
    asked: dict[Place, list[int]] = {}
    for target in targets:
        asked.setdefault(target.place, []).append(target.batch)
    cells = ask_cells(scenario, asked, grid=grid, on_progress=lambda share: on_progress(share / 2), **question)
    cell_of = _cells_of(cells, targets)
    every = np.flatnonzero(np.all(cells.merit > 0.0, axis=0))
    drawn = standings(cells, _pool(cells, every, count), lambda share: on_progress((1 + share) / 2))
    on_progress(1.0)
    columns = np.flatnonzero(np.isin(drawn.pool, every))
    # Less than no loss against what is a target's best by the central values is noise: then these decide.
    expected, central = np.maximum(drawn.expected[:, columns], 0.0), drawn.loss[:, columns].mean(axis=0)
    by_mean = columns[np.lexsort((central, expected.mean(axis=0)))]
    by_worst = columns[np.lexsort((central, expected.max(axis=0)))]

    def choice(column: int) -> TargetsChoice:
        index = int(cells.found[drawn.pool[column]])
        return TargetsChoice(index, cells.spaces[0].describe(index), tuple(drawn.of(column, cell) for cell in cell_of))

    itself = _baseline_column(drawn, columns)
    return OneDesign(
        cells=cells,
        scenario=scenario,
        targets=tuple(targets),
        cell_of=cell_of,
        choices=tuple(choice(int(column)) for column in by_mean[:count]),
        least_worst=choice(int(by_worst[0])) if len(by_worst) else None,
        own=tuple(
            drawn.of(int(np.searchsorted(drawn.pool, cells.best[cell])), cell) if cells.served[cell] else None
            for cell in cell_of
        ),
        baseline=None if itself is None else choice(itself),
    )


def _cells_of(cells: DesignCells, targets: Sequence[Target]) -> tuple[int, ...]:
    """The cell of each target."""
    at: Mapping[tuple[Place, int], int] = {
        (cells.places[cells.space_of[cell]], int(batch)): cell for cell, batch in enumerate(cells.batches)
    }
    return tuple(at[target.place, target.batch] for target in targets)


def _pool(cells: DesignCells, every: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Columns to draw: of those that serve every target the ones of least central loss, and the baseline."""
    if not len(every):
        return every
    loss = cells.loss[:, every]
    most = max(count, _POOL_EACH)
    least = [np.argsort(measure, kind="stable")[:most] for measure in (loss.mean(axis=0), loss.max(axis=0))]
    own = cells.spaces[0].baseline_index()
    itself = [] if own is None else np.flatnonzero(cells.found[every] == own).tolist()
    return every[np.unique([*np.concatenate(least), *itself]).astype(np.intp)]


def _baseline_column(drawn: Standings, columns: NDArray[np.intp]) -> int | None:
    own = drawn.cells.spaces[0].baseline_index()
    found = [] if own is None else np.flatnonzero(drawn.cells.found[drawn.pool[columns]] == own).tolist()
    return int(columns[found[0]]) if found else None
