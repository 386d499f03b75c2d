"""The part of the JSON report on a sweep (docs/report-schema.md)."""

from __future__ import annotations

from advisor.prediction import Frozen, Tier


class SweptSetting(Frozen):
    """Setting that takes several values, as texts in their order."""

    setting: str
    values: tuple[str, ...]


class SweepPays(Frozen):
    """Largest batch at which drafting pays for one model and accelerator.

    Null from pays_up_to on where it does nowhere.
    """

    model_id: str
    hardware_id: str
    fits: bool
    pays_up_to: int | None
    n_draft: int | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    p_gain: float | None
    tier: Tier | None
    settings: dict[str, str]


class SweepFastest(Frozen):
    """The row of most tokens per second and GPU of one model within the limit.

    Null where none keeps it; least_tpot_ms is then the best there is.
    """

    model_id: str
    hardware_id: str | None
    batch_size: int | None
    n_draft: int | None
    tokens_per_s_per_gpu: float | None
    tokens_per_s_per_gpu_low: float | None
    tokens_per_s_per_gpu_high: float | None
    tpot_ms: float | None
    tpot_low_ms: float | None
    tpot_high_ms: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    tier: Tier | None
    least_tpot_ms: float | None
    settings: dict[str, str]


class SweepOneK(Frozen):
    """Loss of one K at every point that fits and has it, against the best K of each simulated case.

    The tier is the lowest among the points.
    """

    n_draft: int
    loss: float
    worst: float
    points: int
    tier: Tier


class SweepCell(Frozen):
    """One cell of the map, at its recommended K."""

    x: str
    y: str
    fits: bool
    n_draft: int
    speedup: float
    speedup_low: float
    speedup_high: float
    p_gain: float
    tier: Tier


class SweepCells(Frozen):
    """The map over two settings, the others fixed."""

    says: str
    x: str
    y: str
    cells: tuple[SweepCell, ...]


class SweepSection(Frozen):
    """A grid of scenarios and three questions to it."""

    says: tuple[str, ...]
    release: str | None
    constants: str | None
    """Release and constants that it was computed by; null where its files do not say."""
    max_tpot_ms: float | None
    varied: tuple[SweptSetting, ...]
    pays: tuple[SweepPays, ...]
    fastest: tuple[SweepFastest, ...]
    one_k: tuple[SweepOneK, ...]
    map: SweepCells | None
