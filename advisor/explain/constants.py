"""Constants of a derivation with their origin: the fit record behind a kernel cost, else the accelerator's profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from advisor.calibration import ANY_CLASS, Adjustment, FitRecord, load_overheads, load_records
from advisor.components import KERNELS, OVERHEADS
from advisor.kernel_costs import GemmCost, MoeCost, StreamCost
from advisor.setup import Setup

Part = Literal["experts", "projections", "attention", "latent attention", "all-reduce", "expert exchange"]

_REFIT_FACTOR = {part: one.factor for one in KERNELS for part in one.parts}
"""The factor of a refit that scales each part's kernels."""


@dataclass(frozen=True)
class ConstantUse:
    """A constant as a step uses it. `stderr` is the fit's standard error in the same unit, where there is one."""

    symbol: str
    name: str
    value: float
    unit: str
    tier: str
    source: str
    stderr: float | None = None


def record_behind(setup: Setup, part: Part, t0_s: float, drafting: bool = False) -> FitRecord | None:
    """The fit record that a kernel cost was taken from, a refit's factor undone; None where the cost is a roofline."""
    costs = setup.draft_costs if drafting else setup.costs
    name = _refit_name(part, drafting)
    shipped_s = t0_s if setup.adjustment is None else t0_s / setup.adjustment.factors.get(name, 1.0)
    device = setup.hardware.kernel_table_device
    named = " ".join(costs.sources.get(part, ()))
    for record in load_records(device) if device else ():
        if math.isclose(record.parameters["t0_s"].value, shipped_s, rel_tol=1e-9) and f"fit {record.id} " in named:
            return record
    return None


_RATE = "rate of arithmetic (a fitted slope, not the data sheet's peak)"


def moe_constants(setup: Setup, cost: MoeCost, drafting: bool = False) -> dict[str, ConstantUse]:
    """Constants of the routed experts' kernel by symbol; terms without cost are left out."""
    record = record_behind(setup, "experts", cost.t0_s, drafting)
    rows = {
        "t0": ("experts: fixed cost of a layer", cost.t0_s, "s", "t0_s", False),
        "BW": ("experts: rate of reading weights", cost.bandwidth_bytes_per_s, "B/s", "weight_s_per_byte", True),
        "tau": ("experts: cost of each touched one", cost.per_expert_s, "s", "per_expert_s", False),
        "F_peak": (f"experts: {_RATE}", cost.flops_per_s, "FLOP/s", "s_per_flop", True),
        "BW_act": (
            "experts: rate of moving activations", cost.activation_bandwidth_bytes_per_s, "B/s",
            "activation_s_per_byte", True,
        ),
        "tau_N": (
            "experts: cost of each resident one", cost.per_resident_expert_s, "s", "per_resident_expert_s", False,
        ),
    }  # fmt: skip
    return _uses(setup, rows, str(cost.tier), record, _refit_name("experts", drafting))


def gemm_constants(setup: Setup, cost: GemmCost, drafting: bool = False) -> dict[str, ConstantUse]:
    """Constants of a matrix product by symbol."""
    record = record_behind(setup, "projections", cost.t0_s, drafting)
    rows = {
        "t0": ("GEMM: fixed cost of a launch", cost.t0_s, "s", "t0_s", False),
        "BW": ("GEMM: rate of reading weights", cost.bandwidth_bytes_per_s, "B/s", "bandwidth_bytes_per_s", False),
        "F_peak": (f"GEMM: {_RATE}", cost.flops_per_s, "FLOP/s", "flops_per_s", False),
        "p": ("GEMM: sharpness of the bend between them", cost.sharpness, "1", "sharpness", False),
    }
    return _uses(setup, rows, str(cost.tier), record, _refit_name("projections", drafting))


def stream_constants(setup: Setup, part: Part, cost: StreamCost, drafting: bool = False) -> dict[str, ConstantUse]:
    """Constants of a stream of bytes by symbol."""
    record = record_behind(setup, part, cost.t0_s, drafting)
    rows = {
        "t0": (f"{part}: fixed cost of a call", cost.t0_s, "s", "t0_s", False),
        "BW": (f"{part}: rate of bytes", cost.bandwidth_bytes_per_s, "B/s", "s_per_byte", True),
    }
    return _uses(setup, rows, str(cost.tier), record, _refit_name(part, drafting))


def overhead_constant(setup: Setup, symbol: str, name: str, field: str) -> ConstantUse:
    """A launch or host overhead with the factor of its 80 % range in its source."""
    value = float(getattr(setup.costs, field))
    if setup.adjustment is not None:
        key = next(one.factor for one in OVERHEADS if field in one.priced_by)
        stderr = _refit_stderr(setup.adjustment, key, value)
        return ConstantUse(symbol, name, value, "s", "fitted", _refit_source(setup.adjustment), stderr)
    fit = load_overheads()
    record = None if fit is None else fit.record(setup.scenario.engine)
    if record is not None and record.engine_class != ANY_CLASS:
        index = list(record.parameters).index(field)
        factor = math.exp(1.2816 * math.sqrt(record.log_covariance[index][index]))
        source = (
            f"fitted on {record.n_rows} published speedups of {record.n_sources} sources ({record.engine_class}), 80% "
            f"range a factor of {factor:.1f} either way: docs/decisions/0003-engine-overheads.md"
        )
        return ConstantUse(symbol, name, value, "s", "fitted", source)
    source = "weak prior of docs/model.md, 80% range a factor of 3 either way"
    return ConstantUse(symbol, name, value, "s", "assumed", source)


def _uses(
    setup: Setup,
    rows: Mapping[str, tuple[str, float, str, str, bool]],
    tier: str,
    record: FitRecord | None,
    refit_name: str,
) -> dict[str, ConstantUse]:
    found = {}
    for symbol, (name, value, unit, parameter, inverse) in rows.items():
        if value == 0.0 or math.isinf(value):
            continue  # the kernel has no such cost
        source, stderr = _roofline_source(setup), None
        if record is not None:
            source = f"fit {record.id} ({record.n_rows} rows, {record.n_shapes} shapes)"
            fitted = record.parameters.get(parameter)
            if fitted is not None and fitted.stderr is not None and fitted.value:
                # the relative error of a rate is that of the slope it is the inverse of
                stderr = value * fitted.stderr / fitted.value if inverse else fitted.stderr
        if setup.adjustment is not None:
            source = f"{source}; {_refit_source(setup.adjustment)}"
            stderr = _refit_stderr(setup.adjustment, refit_name, value)
        found[symbol] = ConstantUse(symbol, name, value, unit, tier, source, stderr)
    return found


def _refit_name(part: Part, drafting: bool) -> str:
    return "drafter" if drafting else _REFIT_FACTOR[part]


def _refit_stderr(adjustment: Adjustment, name: str, value: float) -> float | None:
    """Of a constant that a factor scales; None where the refit says nothing of it."""
    log_sd = adjustment.log_sd.get(name)
    return None if log_sd is None else value * log_sd


def _refit_source(adjustment: Adjustment) -> str:
    return f"{adjustment.label} (data {adjustment.data}): docs/measurements.md"


def _roofline_source(setup: Setup) -> str:
    peak = setup.hardware.bandwidth_bytes_per_s
    return f"profile of {setup.hardware.name} and typical kernel fractions (docs/model.md); peak: {peak.source}"
