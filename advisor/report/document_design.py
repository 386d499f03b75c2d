"""The part of the JSON report on one design for several accelerators and batches (docs/report-schema.md)."""

from __future__ import annotations

from typing import Literal

from advisor.prediction import Frozen, Tier


class DesignRegion(Frozen):
    """One design and the cells it holds, losses as shares of the objective against each cell's own best."""

    region: str
    design: str
    n_experts: int
    n_active: int
    n_shared: float
    expert_width: int
    total_params: float
    active_params: float
    core_cells: int
    edge_cells: int
    holds: str
    mean_loss: float
    worst_loss_outside: float | None
    worst_loss_low: float | None
    worst_loss_high: float | None
    worst_at: str


class RegionCell(Frozen):
    """One accelerator at one batch, with the design that holds it and how that stands.

    Null where no design serves it.
    """

    accelerator: str
    gpus: int
    batch_size: int
    region: str
    kind: Literal["core", "edge", "none"]
    why_not: str
    n_draft: int | None
    speedup: float | None
    tpot_ms: float | None
    loss: float | None
    loss_low: float | None
    loss_high: float | None
    loss_expected: float | None
    chance_of_tie: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    tier: Tier | None
    extrapolated: bool | None
    own_best: str | None
    own_best_tpot_ms: float | None


class RegionsSection(Frozen):
    """The design to train over batch and accelerator, in as few designs as serve within noise."""

    verdict: str
    objective: str
    tie: float
    core_chance: float
    regions: tuple[DesignRegion, ...]
    cells: tuple[RegionCell, ...]
    notes: tuple[str, ...]
