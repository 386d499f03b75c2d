"""One question on several accelerators at several batches: a cell is one accelerator at one batch.

Every accelerator costs the very same designs, so that an index means one design in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.design.grid import DesignGrid, mixes, widths
from advisor.design.search import design_space
from advisor.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.hardware import hardware_ids
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario, build_scenario
from advisor.setup import Setup, load_setup

MAX_PLACES = 16
"""Accelerators of one question: each costs as much as a whole search. [-]"""
IN_MEMORY, ON_TIME, ON_LIMITS = (
    "does not fit in memory",
    "over the limit on time per token",
    "no design keeps every limit",
)
"""Why no design serves a cell."""
_PLACE = re.compile(r"((?P<gpus>[1-9]\d{0,2})x)?(?P<id>[A-Za-z0-9][\w.-]{0,99})")


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

    A short name with spaces and capitals, `H100 SXM`, is its id. Raises AdvisorError for an unknown accelerator.

    own : the scenario's, which may be the user's own.
    """
    found, known = _PLACE.fullmatch(text.strip()), {*hardware_ids(), own}
    if found is None or found["id"] not in known:  # a name as a page shows it: `H100 SXM`
        found = _PLACE.fullmatch(text.strip().lower().replace(" ", "-"))
    if found is None or found["id"] not in known:
        raise AdvisorError(
            f"accelerator {text[:80]!r} is unknown; give an id of `advisor hardware`, e.g. h100-sxm, or 2xh100-sxm for "
            "two that share each matrix"
        )
    return Place(found["id"], None if found["gpus"] is None else int(found["gpus"]))


def scenario_at(scenario: Scenario, place: Place) -> Scenario:
    """The scenario moved to another accelerator. Raises AdvisorError where it cannot be.

    A refit and a data sheet of the user's own belong to the scenario's accelerator and stay with it; loads of experts
    belong to its own model and say nothing of other designs.
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
    """Inverse time per token, or the speedup where that is the objective; 0 where a design keeps not every limit."""

    def __len__(self) -> int:
        return len(self.space_of)

    @cached_property
    def batches(self) -> Array:
        """Batch of each cell, [nC]."""
        return np.array([self.space(cell).question.batches[self.row_of[cell]] for cell in range(len(self))])

    @cached_property
    def served(self) -> NDArray[np.bool_]:
        """Whether any design keeps every limit in a cell, [nC]."""
        return np.asarray(self.merit.max(axis=1, initial=0.0) > 0.0)

    @cached_property
    def best(self) -> NDArray[np.intp]:
        """The best design of each cell as a column of `merit`, [nC], or -1 where none keeps every limit."""
        if not self.merit.size:
            return np.full(len(self), -1, np.intp)
        return np.where(self.served, self.merit.argmax(axis=1), -1)

    @cached_property
    def loss(self) -> Array:
        """Share of the objective that each design loses against the cell's own best, [nC, n].

        It is 1 where the design is not allowed.
        """
        most = self.merit.max(axis=1, initial=0.0, keepdims=True)
        return np.asarray(1.0 - np.divide(self.merit, most, out=np.zeros_like(self.merit), where=most > 0.0))

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
        of_all = [note for space in self.spaces for note in space.notes if note != space.measured_note]
        apart = [
            f"{space.setup.place}: a plain step of the baseline by its own measured kernels differs by "
            f"{space.measured_gap:+.0%} from the fit that costs all designs; gains over it are not told there."
            for space in self.spaces
            if abs(space.measured_gap) > MAX_MEASURED_GAP
        ]
        return tuple(dict.fromkeys([*of_all, *apart]))

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources of the constants of every accelerator, each once."""
        return tuple(dict.fromkeys(source for space in self.spaces for source in space.setup.sources))

    def why_not(self, cell: int) -> str:
        """Reason that no design serves a cell, empty where one does.

        It is memory, the limit on time, or the other limits.
        """
        if self.served[cell]:
            return ""
        space, row = self.space(cell), int(self.row_of[cell])
        batch = space.question.batches[row]
        if space.keeps_apart_from_load().any():
            fits = space.keeps_apart_from_load() & (space.largest_batch >= batch)
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

    Parameters
    ----------
    scenario : baseline model, placement, drafter, acceptance; its accelerator is one place where it is asked for.
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
        spaces.append(design_space(setup, batches=list(dict.fromkeys(batches)), grid=same, **question))
    cells = [(space, row) for space, each in enumerate(spaces) for row in range(len(each.question.batches))]
    space_of, row_of = (np.array(column, np.intp) for column in zip(*cells, strict=True))
    allowed = [spaces[space].allowed_at(row) for space, row in cells]
    found = np.unique(np.concatenate([spaces[0].width_ends(keeps) for keeps in allowed]))
    merit = np.array(
        [
            np.where(keeps[found], merit_of(spaces[space], *_speeds(spaces[space], row, found)), 0.0)
            for (space, row), keeps in zip(cells, allowed, strict=True)
        ]
    )
    return DesignCells(tuple(spaces), tuple(asked), space_of, row_of, found, merit)


def merit_of(space: DesignSpace, speedup: Array, tpot_s: Array) -> Array:
    """Number that a cell ranks designs by, higher is better.

    All absolute objectives rank alike at one batch.
    """
    return speedup if space.question.objective == "sd_speedup" else 1.0 / tpot_s


def _speeds(space: DesignSpace, row: int, found: NDArray[np.intp]) -> tuple[Array, Array]:
    return space.speedup[row, found].astype(float), space.tpot_s[row, found].astype(float)


def loaded_at(scenario: Scenario, place: Place) -> Setup:
    """The scenario loaded on another accelerator. Raises AdvisorError, with its name, where that cannot be."""
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
    experts = [set(mixes(grid, architecture.moe, placement).n_experts.tolist()) for placement in placements]
    common, counts = set.intersection(*steps), set.intersection(*experts)
    return grid.model_copy(
        update={"expert_width": tuple(map(int, sorted(common))), "n_experts": tuple(map(int, sorted(counts)))}
    )
