"""How many MoE tables meet the accuracy gates, from the held-out errors in the fit records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.calibration import FitRecord

GATED_HARDWARE = frozenset({"h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm"})
MIN_SHAPES = 8


@dataclass(frozen=True)
class Gate:
    """Gate on a figure of the tables. `attribute` must be at most `limit` in at least `share` of them."""

    name: str
    attribute: str
    limit: float
    share: float


GATES = (
    Gate("latency median", "loso_median", 0.07, 0.80),
    Gate("latency p90", "loso_p90", 0.20, 0.75),
    Gate("ratio T(4t)/T(t) median", "ratio_median", 0.06, 0.70),
    Gate("ratio T(4t)/T(t) p90", "ratio_p90", 0.25, 0.85),
)
"""The kernel rows of docs/validation.md: leave one shape out, EP = 1, tokens <= 2048."""


@dataclass(frozen=True)
class GateResult:
    """One gate over all tables it applies to."""

    gate: Gate
    n_passed: int
    n_tables: int

    @property
    def passed(self) -> bool:
        """Whether the share of tables within the limit reaches the gate's. False without tables."""
        return self.n_tables > 0 and self.n_passed >= self.gate.share * self.n_tables


def gated_tables(records: Iterable[FitRecord]) -> list[FitRecord]:
    """MoE fits on the gated accelerators with at least MIN_SHAPES shapes. Tables with equal rows count once."""
    found: dict[str, FitRecord] = {}
    for record in sorted(records, key=lambda record: record.id):
        if record.op == "moe" and record.hardware_id in GATED_HARDWARE and record.n_shapes >= MIN_SHAPES:
            found.setdefault(f"{record.kernel_source}/{record.data_sha256}", record)
    return list(found.values())


def gate_results(records: Iterable[FitRecord]) -> list[GateResult]:
    """Every gate, counted over `gated_tables`. A table without the figure does not pass."""
    tables = gated_tables(records)
    results = []
    for gate in GATES:
        values = [getattr(record, gate.attribute) for record in tables]
        results.append(
            GateResult(gate, sum(value is not None and value <= gate.limit for value in values), len(tables))
        )
    return results
