"""Everything a scenario names, loaded: what the formulas take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.acceptance import Acceptance
from advisor.architecture import Architecture
from advisor.arrays import Array
from advisor.calibration import Adjustment
from advisor.drafter import Drafter
from advisor.expert_traffic import RoutedLayer, Router
from advisor.hardware import Hardware
from advisor.kernel_costs import KernelCosts
from advisor.memory import MemoryFit
from advisor.prediction import AdvisorError
from advisor.routing import RoutingPreset, touched_experts
from advisor.scenario import Scenario
from advisor.serving_formats import CacheFormat
from advisor.step_cost import MoeShape, Placement


@dataclass(frozen=True)
class Setup:
    """Everything a scenario names, loaded."""

    scenario: Scenario
    hardware: Hardware
    architecture: Architecture
    placement: Placement
    drafter: Drafter
    draft_architecture: Architecture | None
    acceptance: Acceptance
    routing: RoutingPreset | None
    """None: independent uniform routing, or a dense model."""
    routing_because: str
    costs: KernelCosts
    draft_costs: KernelCosts
    memory: MemoryFit
    cache: CacheFormat
    warnings: tuple[str, ...]
    sources: tuple[str, ...]
    adjustment: Adjustment | None
    """What the user's own measurements changed in `costs` and `draft_costs`; None: as shipped."""

    def routing_parameters(self, end: Literal["value", "low", "high"] = "value") -> tuple[float, float, float]:
        """(load_cv, affinity, stickiness), all zero for uniform routing.

        `low` and `high` are the ends of the preset's 80 % range that touch fewer and more experts: correlation and
        skew both lower the count.
        """
        if self.routing is None:
            return 0.0, 0.0, 0.0
        field = {"value": "value", "low": "high", "high": "low"}[end]
        preset = self.routing
        cv, phi, rho = (float(getattr(item, field)) for item in (preset.load_cv, preset.affinity, preset.stickiness))
        return cv, min(max(phi, 0.0), 1.0), min(max(rho, 0.0), 1.0)

    @property
    def router(self) -> Router:
        """Choice of experts by the model's tokens. Raises AdvisorError for a dense model."""
        moe = self.architecture.moe
        if moe is None:
            raise self._has_no_experts()
        preset = self.routing.name if self.routing is not None else "uniform routing"
        return Router(self.architecture.name, moe, self.routing_parameters(), preset)

    @property
    def routed_layer(self) -> RoutedLayer:
        """One routed layer of the model on its ranks. Raises AdvisorError for a dense model."""
        shape = MoeShape.of(self.architecture)
        if shape is None:
            raise self._has_no_experts()
        return RoutedLayer(self.costs.routed, self.placement, shape, self.architecture.dtypes.routed)

    def _has_no_experts(self) -> AdvisorError:
        name = self.architecture.name
        return AdvisorError(f"{name} is dense: it has no experts to place; choose an MoE model")

    @property
    def longest_step(self) -> int:
        """Tokens of each sequence in the longest step: the longest draft and one more, or 1 without a drafter. [-]"""
        return (self.scenario.k_max if self.drafter.kind != "none" else 0) + 1

    @property
    def place(self) -> str:
        """The accelerators of one instance, `4 x NVIDIA H200 SXM 141GB`."""
        gpus = self.placement.gpus
        return f"{gpus} x {self.hardware.name}" if gpus > 1 else self.hardware.name

    @property
    def kv_bytes_per_element(self) -> float:
        """Bytes of one element of the KV cache. [B]"""
        return self.cache.bytes_per_element


def touched_in_pass(
    setup: Setup, batch: ArrayLike, tokens: ArrayLike, end: Literal["value", "low", "high"] = "value"
) -> Array:
    """Distinct experts for this scenario's routing, B sequences x t tokens. 0 for a dense model. [-]

    `end` picks the routing preset's value, or the end of its 80 % range that touches fewer (low) or more (high).
    """
    shape = MoeShape.of(setup.architecture)
    if shape is None:
        return np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(tokens)))
    experts, active = float(shape.n_experts), max(float(shape.n_active), 1.0)  # type: ignore[arg-type]
    cv, phi, rho = setup.routing_parameters(end)
    return touched_experts(batch, tokens, experts, active, min(cv, np.sqrt(experts / active - 1.0)), phi, rho)
