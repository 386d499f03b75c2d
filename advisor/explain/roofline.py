"""Where each component stands against the accelerator's roof: arithmetic intensity and the rate it reaches.

Work is counted by the cost model itself, run on an accelerator whose every rate is one and whose fixed costs are zero:
its time for a pass is then the bytes, or the operations, of that pass.

References
----------
[Roofline] Williams et al., "Roofline: an insightful visual performance model", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor import laws
from advisor.curve import Curve
from advisor.hardware import compute_dtype, peak_flops
from advisor.kernel_costs import AttentionCost, GemmCost, KernelCosts, MoeCost, StreamCost
from advisor.prediction import Tier
from advisor.setup import Setup, touched_in_pass
from advisor.step_cost import step_time

Arm = Literal["plain", "verify"]
_OFF = np.inf


@dataclass(frozen=True)
class Roof:
    """The datasheet's roofs of one GPU, and the formats their peaks belong to."""

    bandwidth_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float]
    """By format, among those in use."""

    @property
    def ridge(self) -> float:
        """Intensity at which the highest peak takes over from bandwidth. [FLOP/B]"""
        return float(laws.ridge(max(self.peak_flops_per_s.values()), self.bandwidth_bytes_per_s))


@dataclass(frozen=True)
class Position:
    """One component in one pass, on one GPU."""

    component: str
    arm: Arm
    flops: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """Operations for each byte moved. [FLOP/B]"""
        return self.flops / self.bytes

    @property
    def rate(self) -> float:
        """Operations per second reached. [FLOP/s]"""
        return self.flops / self.seconds

    def of_bandwidth(self, roof: Roof) -> float:
        """Share of the bandwidth roof reached. [-]"""
        return float(laws.bandwidth_share(self.bytes, self.seconds, roof.bandwidth_bytes_per_s))


def roof_of(setup: Setup) -> Roof:
    """Bandwidth and the peaks of the formats that the scenario multiplies in."""
    dtypes = setup.architecture.dtypes
    stored = {dtypes.attention, dtypes.dense} | ({dtypes.routed} if setup.architecture.moe is not None else set())
    peaks: dict[str, float] = {}
    for dtype in sorted(stored):
        asked = "bf16" if dtype == "fp32" else dtype
        peaks[compute_dtype(setup.hardware, asked)] = peak_flops(setup.hardware, asked).value
    return Roof(setup.hardware.bandwidth_bytes_per_s.value, peaks)


def positions(setup: Setup, curve: Curve, row: int, column: int) -> tuple[Position, ...]:
    """Every component that works, in the plain and in the verification step of one point of a curve.

    Operations of routed experts include the rows that pad a tile, as the kernels run them.
    """
    batch = float(curve.batches[row])
    tokens = float(curve.drafts[column]) + 1.0
    passes: tuple[tuple[Arm, float, Mapping[str, float]], ...] = (
        ("plain", 1.0, {name: float(time[row]) for name, time in curve.plain_components.items()}),
        ("verify", tokens, {name: float(time[row, column]) for name, time in curve.round_components.items()}),
    )
    found = []
    for arm, q, seconds in passes:
        moved, computed = pass_work(setup, batch, q)
        found += [
            Position(name, arm, computed[name], moved[name], seconds[name])
            for name in moved
            if moved[name] > 0 and computed[name] > 0 and seconds[name] > 0
        ]
    return tuple(found)


def pass_work(setup: Setup, batch: float, tokens_per_sequence: float) -> tuple[dict[str, float], dict[str, float]]:
    """(bytes, operations) by component of one pass over B sequences x q tokens, on one GPU."""
    found = []
    for costs in (_costs(bytes_per_s=1.0, flops_per_s=_OFF), _costs(bytes_per_s=_OFF, flops_per_s=1.0)):
        step = step_time(
            setup.architecture,
            costs,
            setup.placement,
            batch_size=batch,
            tokens_per_sequence=tokens_per_sequence,
            context_tokens=float(setup.scenario.context_tokens),
            touched=touched_in_pass(setup, batch, tokens_per_sequence),
            kv_bytes_per_element=setup.kv_bytes_per_element,
        )
        found.append({name: float(time) for name, time in step.components.items()})
    return found[0], found[1]


def _costs(bytes_per_s: float, flops_per_s: float) -> KernelCosts:
    gemm = GemmCost(0.0, bytes_per_s, flops_per_s, Tier.ROOFLINE)
    attention = AttentionCost(0.0, bytes_per_s, flops_per_s, Tier.ROOFLINE)
    routed = MoeCost(0.0, bytes_per_s, flops_per_s, Tier.ROOFLINE, activation_bandwidth_bytes_per_s=bytes_per_s)
    links = {2: StreamCost(0.0, _OFF, Tier.ROOFLINE)}
    return KernelCosts(
        routed=routed,
        attention_projection=gemm,
        shared=gemm,
        dense=gemm,
        lm_head=gemm,
        attention=attention,
        all_reduce=links,
        all_to_all=links,
        launch_per_layer_s=0.0,
        host_per_step_s=0.0,
    )
