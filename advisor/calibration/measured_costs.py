"""From the kernel constants of an accelerator to those of one model on it: measured rows of its very shape added."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from advisor.architecture import Architecture
from advisor.calibration.choice import BORROWED_LOG_SD
from advisor.calibration.measured_records import MeasuredTable, load_measured
from advisor.hardware import Hardware
from advisor.kernel_costs import KernelCosts, MeasuredLayer, MoeCost
from advisor.step_cost import MoeShape, Placement, expert_shape

MAX_FACTOR = 3.0
"""Rows further than this from the form, either way, show a kernel that was not tuned for the shape: engines then run
another one. They are reported, not used. [1]"""


def with_measured_shape(
    costs: KernelCosts, hardware: Hardware, architecture: Architecture, placement: Placement
) -> KernelCosts:
    """`costs` with the measured rows of this model's routed layer, where its kernel table has them.

    Reads one shipped file, once per measured device. Raises AdvisorError when that file is damaged.
    """
    found = _rows(costs.routed, hardware, architecture, placement)
    if found is None:
        return costs
    table, layer = found
    tokens = [at for at, _ in layer.knots]
    if aside := _far_from_form(layer):
        warnings = {**costs.warnings, "experts": (*costs.warnings.get("experts", ()), aside)}
        return dataclasses.replace(costs, warnings=warnings)
    _, _, engine, version, dtype, *_ = table.fit_id.split("/")
    because = f"{engine} {version}, {dtype}, this very shape measured at {len(tokens)} token counts"
    routed = dataclasses.replace(costs.routed, measured=layer, because=because)
    sources = {**costs.sources, "experts": (*costs.sources.get("experts", ()), _source(table, tokens))}
    return dataclasses.replace(costs, routed=routed, sources=sources)


def without_measured_shape(costs: KernelCosts) -> KernelCosts:
    """`costs` by the fitted forms alone, so that designs of other shapes are compared on the same footing."""
    return dataclasses.replace(costs, routed=dataclasses.replace(costs.routed, measured=None), modules={})


def _rows(
    cost: MoeCost, hardware: Hardware, architecture: Architecture, placement: Placement
) -> tuple[MeasuredTable, MeasuredLayer] | None:
    own = MoeShape.of(architecture)
    shape = None if own is None else expert_shape(own, placement)
    if shape is None or not cost.fit_id or hardware.kernel_table_device is None:
        return None
    for table in load_measured(hardware.kernel_table_device):
        for rows in table.shapes if table.fit_id == cost.fit_id else ():
            if rows.shape == shape:
                known = tuple((t, f) for t, f in zip(table.tokens, rows.factor, strict=True) if f is not None)
                log_sd = math.hypot(table.log_sd, BORROWED_LOG_SD) if cost.stands_in else table.log_sd
                return table, MeasuredLayer(shape, known, log_sd, cost.stands_in)
    return None


def _far_from_form(layer: MeasuredLayer) -> str:
    """What to say of rows beyond MAX_FACTOR; empty when there are none."""
    tokens, factors = np.array(layer.knots).T
    far = np.abs(np.log(factors)) > np.log(MAX_FACTOR)
    if not far.any():
        return ""
    tokens = tokens[far]
    worst = factors[np.argmax(np.abs(np.log(factors)))]
    return (
        f"Experts: this shape was measured at {worst:.2g} times the kernel's fitted time ({tokens.min():,.0f} to "
        f"{tokens.max():,.0f} tokens), as if not tuned for it; the fit is assumed. Check on your own GPU."
    )


def _source(table: MeasuredTable, tokens: list[float]) -> str:
    loads = " and ".join(load.replace("_", " ") for load in table.loads)
    return (
        f"this very expert shape measured at {len(tokens)} token counts from {tokens[0]:,.0f} to {tokens[-1]:,.0f} "
        f"under {loads} loads ({table.fit_id}); the fit carries it to other numbers of touched experts"
    )
