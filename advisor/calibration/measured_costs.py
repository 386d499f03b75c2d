"""From the kernel constants of an accelerator to those of one model on it: measured rows of its very shape added."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor import laws
from advisor.architecture import Architecture
from advisor.calibration.choice import BORROWED_LOG_SD
from advisor.calibration.measured_records import MAX_FACTOR, MeasuredTable, load_measured
from advisor.hardware import Hardware
from advisor.kernel_costs import KernelCosts, Knots, MeasuredLayer, MoeCost
from advisor.step_cost import MoeShape, Placement, expert_shape, routed_time

KNOTS_PER_OCTAVE = 8
"""Least density of knots between two measured token counts: the form bends little from one to the next. [-]"""


def with_measured_shape(
    costs: KernelCosts, hardware: Hardware, architecture: Architecture, placement: Placement
) -> KernelCosts:
    """Costs with the measured rows of this model's routed layer, where its kernel table has them.

    Reads one shipped file, once per measured device. Raises AdvisorError when that file is damaged.
    """
    found = _rows(costs.routed, hardware, architecture, placement)
    if found is None:
        return costs
    table, layer = found
    tokens = list(layer.tokens)
    if aside := _far_from_form(layer):
        warnings = {**costs.warnings, "experts": (*costs.warnings.get("experts", ()), aside)}
        return dataclasses.replace(costs, warnings=warnings)
    _, _, engine, version, dtype, *_ = table.fit_id.split("/")
    reason = costs.routed.reason or "measured this shape"
    because = f"{engine} {version}, {dtype}, {reason}, at {len(tokens)} token counts"
    knots = monotone_knots(layer, _form(costs.routed, architecture, placement))
    layer = dataclasses.replace(layer, knots=knots, at_tokens=layer.tokens)
    routed = dataclasses.replace(costs.routed, measured=layer, because=because)
    sources = {**costs.sources, "experts": (*costs.sources.get("experts", ()), _source(table, tokens))}
    return dataclasses.replace(costs, routed=routed, sources=sources)


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


def monotone_knots(layer: MeasuredLayer, form: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Knots:
    """Factors on a fitted form with which a layer's time never falls with tokens.

    They hold at the measured token counts and between.

    `form` gives the additive seconds of tokens under independent uniform routing, [tokens] to [tokens]. The times it
    makes of the measured factors are lowered to the least at as many or more tokens and joined straight in the
    logarithms; straight factors would add the form's own bends to them. Where another routing touches other experts,
    the form carries the difference, and a fall is its doing.
    """
    tokens, factors = np.array(layer.knots).T
    times = np.minimum.accumulate((factors * form(tokens))[::-1])[::-1]
    log_tokens = np.log(tokens)
    counts = np.ceil(np.diff(np.log2(tokens)) * KNOTS_PER_OCTAVE).astype(int)
    steps = [np.linspace(a, b, n, endpoint=False) for (a, b), n in zip(pairwise(log_tokens), counts, strict=True)]
    fine = np.concatenate([*steps, log_tokens[-1:]])
    joined = np.exp(np.interp(fine, log_tokens, np.log(times)))
    found = joined / form(np.exp(fine))
    return tuple((float(at), float(factor)) for at, factor in zip(np.exp(fine), found, strict=True))


def _form(cost: MoeCost, architecture: Architecture, placement: Placement) -> Callable[[NDArray[np.float64]], Any]:
    """Additive seconds of one routed layer by tokens under independent uniform routing."""
    shape, bare = MoeShape.of(architecture), dataclasses.replace(cost, curve=(), measured=None)
    assert shape is not None

    def seconds(tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        touched = laws.uniform_experts(np.asarray(shape.n_experts), np.asarray(shape.n_active), tokens)
        return routed_time(bare, placement, shape, tokens, touched, architecture.dtypes.routed)

    return seconds


def _far_from_form(layer: MeasuredLayer) -> str:
    """What to say of rows beyond MAX_FACTOR. Empty when there are none."""
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
