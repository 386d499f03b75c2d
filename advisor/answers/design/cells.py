"""One question on several accelerators at several batches: the same designs in each cell, over
draws they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.candidates import SHAPE_LOG_SD, Band, drawn_at, setup_of, shape_errors
from advisor.answers.design.grid import DesignGrid, mixes, widths
from advisor.answers.design.search import design_space
from advisor.answers.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.physics.bands import band, chance_of_tie, drawn_ratio, loss
from advisor.physics.hardware import hardware_ids
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array, Tier, lowest

MAX_PLACES = 16
"""Accelerators of one question: each costs as much as a whole search. [-]"""
IN_MEMORY = "does not fit in memory"
ON_TIME = "over the limit on time per token"
ON_LIMITS = "no design keeps every limit"
"""Why no design serves a cell."""
_PLACE = re.compile(r"((?P<gpus>[1-9][0-9]{0,2})x)?(?P<id>[A-Za-z0-9][\w.-]{0,99})")


@dataclass(frozen=True, order=True)
class Place:
    """Accelerators that one instance of the model runs on."""

    hardware_id: str
    gpus: int | None = None
    """GPUs that share each matrix; None: placed as the scenario says. [-]"""

    def __str__(self) -> str:
        return self.hardware_id if self.gpus is None else f"{self.gpus}x{self.hardware_id}"


def parse_place(text: str, own: str = "") -> Place:
    """Read a place such as `h100-sxm`, or `2xh100-sxm` for two that share each matrix.

    A short name with spaces and capitals, `H100 SXM`, is its id. Raises AdvisorError for an unknown
    accelerator.

    own : the scenario's, which may be the user's own.
    """
    match = _PLACE.fullmatch(text.strip())
    known = {*hardware_ids(), own}
    if match is None or match["id"] not in known:  # a name as a page shows it: `H100 SXM`
        match = _PLACE.fullmatch(text.strip().lower().replace(" ", "-"))
    if match is None or match["id"] not in known:
        raise AdvisorError(
            f"accelerator {text[:80]!r} is unknown; give an id of `advisor hardware`, e.g. "
            "h100-sxm, or 2xh100-sxm for two that share each matrix"
        )
    return Place(match["id"], None if match["gpus"] is None else int(match["gpus"]))


def scenario_at(scenario: Scenario, place: Place) -> Scenario:
    """The scenario moved to another accelerator. Raises AdvisorError where it cannot be.

    A refit and a data sheet of the user's own belong to the scenario's accelerator and stay with
    it; loads of experts belong to its own model and say nothing of other designs.
    """
    scenario = scenario.on_assumed_ranks()
    moved: dict[str, Any] = {}
    if place.hardware_id != scenario.hardware_id:
        moved = {"hardware_id": place.hardware_id, "hardware_json": None, "refit": None}
    if place.gpus is not None:
        experts = place.gpus if scenario.expert_parallel > 1 else 1
        moved |= {"n_gpus": place.gpus, "tensor_parallel": place.gpus, "expert_parallel": experts}
    return build_scenario(**(dict(scenario) | moved)) if moved else scenario


@dataclass(frozen=True)
class DesignCells:
    """Designs at each cell, [nC cells, n designs]. A cell is one place at one batch."""

    spaces: tuple[DesignSpace, ...]
    """One for each place, each asked at its own batches, of the same designs."""
    places: tuple[Place, ...]
    space_of: NDArray[np.intp]
    """Space that each cell is of, [nC]."""
    row_of: NDArray[np.intp]
    """Row of each cell among its space's batches, [nC]."""
    found: NDArray[np.intp]
    """Indices into every space of the designs that can be the best of a cell, rising, [n]."""
    merit: Array
    """Inverse time per token, or the speedup where that is the objective; 0 where a design keeps
    not every limit."""

    def __len__(self) -> int:
        return len(self.space_of)

    @cached_property
    def batches(self) -> Array:
        """Batch of each cell, [nC]."""
        return np.array(
            [self.space(cell).question.batches[self.row_of[cell]] for cell in range(len(self))]
        )

    @cached_property
    def served(self) -> NDArray[np.bool_]:
        """Whether any design keeps every limit in a cell, [nC]."""
        return np.asarray(self.merit.max(axis=1, initial=0.0) > 0.0)

    @cached_property
    def best(self) -> NDArray[np.intp]:
        """The best design of each cell as a column of `merit`, [nC], or -1 where none keeps every
        limit."""
        if not self.merit.size:
            return np.full(len(self), -1, np.intp)
        return np.where(self.served, self.merit.argmax(axis=1), -1)

    @cached_property
    def loss(self) -> Array:
        """Share of the objective that each design loses to the cell's best, [nC, n]. 1 where it is
        not allowed."""
        return loss(self.merit)

    def space(self, cell: int) -> DesignSpace:
        """The search that a cell is of."""
        return self.spaces[self.space_of[cell]]

    def name(self, cell: int) -> str:
        """Words for a cell, such as `batch 8 on NVIDIA H100 SXM 80GB`."""
        return f"batch {self.batches[cell]:,.0f} on {self.space(cell).setup.place}"

    def cells_of(self, space: int) -> NDArray[np.intp]:
        """The cells of one space, in the order of its batches."""
        return np.flatnonzero(self.space_of == space)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all searches, each once."""
        of_all = [
            note for space in self.spaces for note in space.notes if note != space.measured_note
        ]
        apart = [
            f"{space.setup.place}: a plain step of the baseline by its own measured kernels "
            f"differs by {space.measured_gap:+.0%} from the fit that costs all designs; gains "
            "over it are not told there."
            for space in self.spaces
            if abs(space.measured_gap) > MAX_MEASURED_GAP
        ]
        return tuple(dict.fromkeys([*of_all, *apart]))

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources of the constants of every accelerator, each once."""
        return tuple(
            dict.fromkeys(source for space in self.spaces for source in space.setup.sources)
        )

    def why_not(self, cell: int) -> str:
        """Reason that no design serves a cell: memory, the limit on time, or the others. Empty
        where one does."""
        if self.served[cell]:
            return ""
        space = self.space(cell)
        row = int(self.row_of[cell])
        batch = space.question.batches[row]
        keeps = space.keeps_apart_from("memory", "tpot")
        if keeps.any():
            fits = keeps & (space.largest_batch >= batch)
            return ON_TIME if fits.any() else IN_MEMORY
        return ON_LIMITS


def ask_cells(
    scenario: Scenario,
    asked: Mapping[Place, Sequence[int]],
    *,
    grid: DesignGrid | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **question: Any,
) -> DesignCells:
    """Cost the same designs at each place's batches.

    scenario : baseline model, placement, drafter, acceptance; its accelerator is one place where it
        is asked for.
    asked : the batches of each place; cells come in this order, batches rising.
    question : as of `design_space`: objective, quality, limits.
    on_progress : gets the share of places done. [-]

    Raises AdvisorError as `design_space` does, and for too many places.
    """
    if not asked or len(asked) > MAX_PLACES:
        raise AdvisorError(f"{len(asked)} accelerators: give 1 to {MAX_PLACES}")
    if question.get("objective") == "cost_per_million_tokens":
        # In one cell cost ranks as throughput, and not every accelerator has a price.
        question = question | {"objective": "tokens_per_s_per_gpu", "price_usd_per_hour": None}
    setups = [loaded_at(scenario, place) for place in asked]
    same = _same_designs(grid or DesignGrid(), setups)
    spaces = []
    for done, (setup, batches) in enumerate(zip(setups, asked.values(), strict=True)):
        on_progress(done / len(asked))
        spaces.append(
            design_space(setup, batches=list(dict.fromkeys(batches)), grid=same, **question)
        )
    cells = [
        (number, row)
        for number, space in enumerate(spaces)
        for row in range(len(space.question.batches))
    ]
    space_of = np.array([number for number, _ in cells], np.intp)
    row_of = np.array([row for _, row in cells], np.intp)
    allowed = [spaces[number].allowed_at(row) for number, row in cells]
    contenders = np.unique(np.concatenate([spaces[0].width_ends(keeps) for keeps in allowed]))
    merits = []
    for (number, row), keeps in zip(cells, allowed, strict=True):
        space = spaces[number]
        speedup = space.speedup[row, contenders].astype(float)
        tpot_s = space.tpot_s[row, contenders].astype(float)
        merits.append(np.where(keeps[contenders], merit_of(space, speedup, tpot_s), 0.0))
    merit = np.array(merits)
    return DesignCells(tuple(spaces), tuple(asked), space_of, row_of, contenders, merit)


def merit_of(space: DesignSpace, speedup: Array, tpot_s: Array) -> Array:
    """Number that a cell ranks designs by, higher is better. All absolute objectives rank alike at
    one batch."""
    return speedup if space.question.objective == "sd_speedup" else 1.0 / tpot_s


def loaded_at(scenario: Scenario, place: Place) -> Setup:
    """The scenario loaded on another accelerator. Raises AdvisorError, with its name, where that
    cannot be."""
    try:
        return load_setup(scenario_at(scenario, place))
    except AdvisorError as error:
        raise AdvisorError(f"{place}: {error}") from error


def _same_designs(grid: DesignGrid, setups: Sequence[Setup]) -> DesignGrid:
    """The grid with the widths and numbers of experts that every placement can hold."""
    placements = {setup.placement for setup in setups}
    architecture = setups[0].architecture
    if len(placements) == 1 or architecture.moe is None:
        return grid
    steps = [set(widths(grid, architecture, placement).tolist()) for placement in placements]
    experts = [
        set(mixes(grid, architecture.moe, placement).n_experts.tolist()) for placement in placements
    ]
    common = set.intersection(*steps)
    counts = set.intersection(*experts)
    return grid.model_copy(
        update={
            "expert_width": tuple(map(int, sorted(common))),
            "n_experts": tuple(map(int, sorted(counts))),
        }
    )


TIE = SHAPE_LOG_SD
"""A smaller loss counts as none: it is what the fit misses of one expert shape's kernels. [-]"""
CORE_CHANCE = 0.8
"""Chance of a tie with the best from which a design holds a cell robustly: the level of every band.
[-]"""


@dataclass(frozen=True)
class CellStanding:
    """One design in one cell. Losses are shares of the objective against the cell's own best
    design."""

    cell: int
    index: int
    """Index of the design, into every space."""
    n_draft: int
    speedup: float
    tpot_s: float
    loss: float
    """Central; 0 for the cell's own best. [-]"""
    low: float
    """Low end of the 80 % band over all draws, errors of expert shapes included; below 0 it is the
    better one. [-]"""
    high: float
    expected: float
    """Mean over the draws that all designs share. Below 0 where those are lopsided: the cell's own
    best is so by the central values. [-]"""
    chance: float
    """Share of those draws in which it loses less than TIE to the best of the designs compared.
    [-]"""
    gain: Band | None
    """Over the baseline, by the objective; None where the baseline does not fit, or where its own
    measured rows lie too far from the fit that costs all designs."""
    tier: Tier
    extrapolated: bool

    @property
    def expected_loss(self) -> float:
        """The expected loss, at least none. [-]"""
        return max(self.expected, 0.0)

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
    """Merit under each draw of the errors that all designs share, [draws, nC, nP]; 0 where not
    allowed."""
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
        """Chance of a tie with the best of the pool, [nC, nP], 0 where a design is not allowed.
        [-]"""
        return np.where(self.allowed, chance_of_tie(self.common, TIE), 0.0)

    @cached_property
    def expected(self) -> Array:
        """Expected loss against the cell's own best, [nC, nP], 1 where a design is not allowed.
        [-]"""
        return np.where(self.allowed, 1.0 - drawn_ratio(self.common, self._own).mean(axis=0), 1.0)

    @cached_property
    def band(self) -> tuple[Array, Array]:
        """Ends of the 80 % band of the loss, [nC, nP] each, errors of both expert shapes included.
        [-]"""
        low, high = band(1.0 - drawn_ratio(self.common * self.errors[:, None, :], self._own))
        # Draws may be lopsided; a band that left its own centre out would read as a mistake.
        return np.minimum(low, self.loss), np.maximum(high, self.loss)

    @property
    def _own(self) -> NDArray[np.intp]:
        """Column of the pool that is each cell's own best, [nC]; any column where no design serves
        it."""
        return np.searchsorted(self.pool, np.maximum(self.cells.best, self.pool[:1].sum()))

    def of(self, column: int, cell: int) -> CellStanding:
        """One design of the pool in one cell where it is allowed."""
        space = self.cells.space(cell)
        row = int(self.cells.row_of[cell])
        index = int(self.cells.found[self.pool[column]])
        merit = float(self.cells.merit[cell, self.pool[column]])
        baseline_merit = float(self.baseline_merit[cell])
        drawn = self.common[:, cell, column] * self.errors[:, column] / self.baseline[:, cell]
        gain = Band.of(merit / baseline_merit, drawn) if baseline_merit > 0.0 else None
        low, high = self.band
        tier, beyond = self.tiers[cell][column]
        return CellStanding(
            cell=cell,
            index=index,
            n_draft=int(space.n_draft[row, index]),
            speedup=float(space.speedup[row, index]),
            tpot_s=float(space.tpot_s[row, index]),
            loss=float(self.loss[cell, column]),
            low=float(low[cell, column]),
            high=float(high[cell, column]),
            expected=float(self.expected[cell, column]),
            chance=float(self.chance[cell, column]),
            gain=gain,
            tier=tier,
            extrapolated=beyond,
        )


def standings(
    cells: DesignCells,
    pool: NDArray[np.intp],
    on_progress: Callable[[float], None] = lambda _share: None,
) -> Standings:
    """Draw some designs, columns of `cells.merit`, and the best of each cell. nP = 0 without any of
    either."""
    pool = np.unique([*pool, *cells.best[cells.served]]).astype(np.intp)
    common = []
    baseline = []
    baseline_merit = []
    tiers = []
    for number, space in enumerate(cells.spaces):
        on_progress(number / len(cells.spaces))
        at = cells.cells_of(number)
        question = space.question
        baseline_served = space.baseline.served
        base = drawn_at(space.bodies[0].setup, question.batches, baseline_served.n_draft[:, 0])
        drawn = [
            drawn_at(setup_of(space, int(index)), question.batches, space.n_draft[:, index])
            for index in cells.found[pool]
        ]
        baseline.append(merit_of(space, base.speedup, base.tpot_s))
        central = merit_of(space, baseline_served.speedup[:, 0], baseline_served.tpot_s[:, 0])
        fits = question.batches <= space.setup.memory.largest_batch
        baseline_merit.append(
            np.where(fits & (abs(space.measured_gap) <= MAX_MEASURED_GAP), central, 0.0)
        )
        merit = _columns(
            [merit_of(space, design.speedup, design.tpot_s) for design in drawn],
            baseline[-1].shape,
        )
        common.append(np.where(cells.merit[at][:, pool] > 0.0, merit, 0.0))
        tiers += [
            tuple(
                (
                    lowest([design.tiers[row], base.tiers[row]]),
                    bool(design.beyond[row] or base.beyond[row]),
                )
                for design in drawn
            )
            for row in range(len(at))
        ]
    errors = [
        shape_errors(cells.spaces[0], int(index), len(baseline[0])) for index in cells.found[pool]
    ]
    return Standings(
        cells,
        pool,
        np.concatenate(common, axis=1),
        _columns(errors, baseline[0].shape[:1]),
        np.concatenate(baseline, axis=1),
        np.concatenate(baseline_merit),
        tuple(tiers),
    )


def _columns(parts: list[Array], shape: tuple[int, ...]) -> Array:
    """Arrays of one shape side by side, [*shape, n]; n may be 0, where no design serves any
    cell."""
    return np.stack(parts, axis=-1) if parts else np.zeros((*shape, 0))
