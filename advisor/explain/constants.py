"""Constants of a derivation with their origin: the fit record behind a kernel cost, else the accelerator's profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from advisor.architecture import Mixer
from advisor.calibration import (
    ANY_CLASS,
    NETWORK_FRACTION,
    OVERHEAD_NAMES,
    Adjustment,
    FitRecord,
    load_overheads,
    load_records,
    small_launch,
)
from advisor.catalog import class_today
from advisor.components import KERNELS, OVERHEADS
from advisor.kernel_costs import AttentionCost, GemmCost, KernelCosts, MoeCost, Network, StreamCost
from advisor.setup import Setup
from advisor.text import counted

Part = Literal[
    "experts", "projections", "attention", "latent attention", "recurrent state", "all-reduce", "expert exchange"
]

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
    """The fit record that a kernel cost was taken from, a refit's factor undone. None where the cost is a roofline."""
    costs = setup.draft_costs if drafting else setup.costs
    name = _refit_name(part, drafting)
    shipped_s = t0_s if setup.adjustment is None else t0_s / setup.adjustment.factors.get(name, 1.0)
    device = setup.hardware.kernel_table_device
    named = " ".join(costs.sources.get(part, ()))
    for record in load_records(device) if device else ():
        if math.isclose(record.parameters["t0_s"].value, shipped_s, rel_tol=1e-9) and f"fit {record.id} " in named:
            return record
    return None


def core_part(mixer: Mixer, costs: KernelCosts) -> Part:
    """Name of the record that prices the core of a mixer's layers."""
    if mixer.kind in ("mla", "sparse") and costs.mla is not None:
        return "latent attention"
    return "recurrent state" if mixer.kind == "linear" and costs.state is not None else "attention"


_RATE = "rate of arithmetic (a fitted slope, not the data sheet's peak)"


class _Row(NamedTuple):
    """How a constant is named, and the parameter of a fit record that it comes from."""

    name: str
    unit: str
    parameter: str
    inverse: bool = False
    """The record holds the inverse of the constant: seconds for each byte or operation."""


_MOE = {
    "t0": _Row("experts: fixed cost of a layer", "s", "t0_s"),
    "BW": _Row("experts: rate of reading weights", "B/s", "weight_s_per_byte", True),
    "tau": _Row("experts: cost of each touched one", "s", "per_expert_s"),
    "F_peak": _Row(f"experts: {_RATE}", "FLOP/s", "s_per_flop", True),
    "BW_act": _Row("experts: rate of moving activations", "B/s", "activation_s_per_byte", True),
    "tau_N": _Row("experts: cost of each resident one", "s", "per_resident_expert_s"),
}
_GEMM = {
    "t0": _Row("GEMM: fixed cost of a launch", "s", "t0_s"),
    "BW": _Row("GEMM: rate of reading weights", "B/s", "bandwidth_bytes_per_s"),
    "F_peak": _Row(f"GEMM: {_RATE}", "FLOP/s", "flops_per_s"),
    "p": _Row("GEMM: sharpness of the bend between them", "1", "sharpness"),
}


def moe_constants(setup: Setup, cost: MoeCost, drafting: bool = False) -> tuple[ConstantUse, ...]:
    """Constants of the routed experts' kernel. Terms without cost are left out."""
    return _uses(setup, "experts", cost, _MOE, drafting)


def gemm_constants(setup: Setup, cost: GemmCost, drafting: bool = False) -> tuple[ConstantUse, ...]:
    """Constants of a matrix product."""
    return _uses(setup, "projections", cost, _GEMM, drafting)


def stream_constants(setup: Setup, part: Part, cost: StreamCost, drafting: bool = False) -> tuple[ConstantUse, ...]:
    """Constants of a stream of bytes."""
    rows = {
        "t0": _Row(f"{part}: fixed cost of a call", "s", "t0_s"),
        "BW": _Row(f"{part}: rate of bytes", "B/s", "s_per_byte", True),
    }
    return _uses(setup, part, cost, rows, drafting)


def network_constants(setup: Setup, network: Network, drafting: bool = False) -> tuple[ConstantUse, ...]:
    """Latency of the network between nodes, and the rate that exchanges reach of the profile's nominal one."""
    nominal, told = setup.hardware.network_bytes_per_s, "docs/decisions/0016-between-nodes.md"
    rows = {
        "t_net": ("network between nodes: latency", "s", told),
        "BW_net": (
            "network of one GPU: rate that exchanges reach",
            "B/s",
            f"{NETWORK_FRACTION:.2f} of the nominal rate, {told}: {'' if nominal is None else nominal.source}",
        ),
    }
    stderr: float | None = None
    found = []
    for symbol, (name, unit, source) in rows.items():
        value = network.symbols[symbol]
        if setup.adjustment is not None:
            source = f"{source}; {_refit_source(setup.adjustment)}"
            stderr = _refit_stderr(setup.adjustment, _refit_name("expert exchange", drafting), value)
        found.append(ConstantUse(symbol, name, value, unit, str(network.tier), source, stderr))
    return tuple(found)


def attention_constants(
    setup: Setup, part: Part, cost: AttentionCost, drafting: bool = False
) -> tuple[ConstantUse, ...]:
    """Constants of an attention core."""
    rows = {
        "t0": _Row(f"{part}: fixed cost of a call", "s", "t0_s"),
        "BW": _Row(f"{part}: rate of bytes", "B/s", "s_per_byte", True),
        "F_attn": _Row(f"{part}: {_RATE}", "FLOP/s", "s_per_flop", True),
        "p": _Row(f"{part}: sharpness of the bend between them", "1", "sharpness"),
    }
    return _uses(setup, part, cost, rows, drafting)


def overhead_constant(setup: Setup, symbol: str, name: str, field: str) -> ConstantUse:
    """A constant fitted on speedups, or the host's time, with the factor of its 80 % range in its source."""
    value, unit = float(getattr(setup.costs, field)), "s" if field.endswith("_s") else "1"
    key = next(one.factor for one in OVERHEADS if field in one.priced_by)
    shared = field in OVERHEAD_NAMES  # fitted per engine class, so that a refit moves all of them together
    if setup.adjustment is not None and (shared or key in setup.adjustment.factors):
        stderr = _refit_stderr(setup.adjustment, key, value)
        return ConstantUse(symbol, name, value, unit, "fitted", _refit_source(setup.adjustment), stderr)
    if not shared:
        return ConstantUse(symbol, name, value, "s", "assumed", "docs/model.md")
    fit = load_overheads()
    today = class_today(setup.scenario.engine, setup.hardware.vendor, setup.hardware.generation)
    common = field == "verified_per_sequence"  # one constant for all classes
    record = None if fit is None else fit.record(ANY_CLASS if common else today)
    if record is not None and record.n_rows and (common or record.engine_class != ANY_CLASS):
        index = list(record.parameters).index(field)
        factor = math.exp(1.2816 * math.sqrt(record.log_covariance[index][index]))
        laboratories = counted(record.n_sources, "laboratory", "laboratories")
        source = (
            f"fitted on {record.n_rows} published speedups of {laboratories} "
            f"({'all classes' if common else record.engine_class}), 80% range a factor of {factor:.1f} either way: "
            "docs/decisions/0015-what-a-round-lacked.md"
        )
        return ConstantUse(symbol, name, value, unit, "fitted", source)
    launched = small_launch(setup.scenario.engine, field)
    if launched is not None:
        return ConstantUse(
            symbol, name, value, "s", "fitted", f"{launched.source}: docs/decisions/0013-small-launches.md"
        )
    source = "weak prior of docs/decisions/0003-engine-overheads.md, 80% range a factor of 2 either way"
    return ConstantUse(symbol, name, value, unit, "assumed", source)


def norm_constant(setup: Setup) -> ConstantUse:
    """Constant that normalising queries and keys adds to a layer's launches, on the scenario's engine."""
    name, value = "normalising queries and keys, of a layer", setup.costs.query_key_norm_s
    record = small_launch(setup.scenario.engine, "query_key_norm_s")
    source = "as given"
    if record is not None:
        count = len(record.models)
        ends = "quartiles" if count == 1 else "with one model left out"
        range_us = f"{record.low_s * 1e6:.0f}-{record.high_s * 1e6:.0f} us"
        models = "1 model" if count == 1 else f"{count} models"
        source = f"{record.source}, {record.n_points} points of {models}, {ends} {range_us}"
    return ConstantUse("c_q", name, value, "s", "fitted", source)


def _uses(
    setup: Setup,
    part: Part,
    cost: MoeCost | GemmCost | AttentionCost | StreamCost,
    rows: Mapping[str, _Row],
    drafting: bool,
) -> tuple[ConstantUse, ...]:
    found = []
    record = record_behind(setup, part, cost.t0_s, drafting)
    for symbol, value in cost.symbols.items():
        row = rows[symbol]
        if value == 0.0 or math.isinf(value):
            continue  # the kernel has no such cost
        source, stderr = _roofline_source(setup), None
        if record is not None:
            source = f"fit {record.id} ({record.n_rows} rows, {record.n_shapes} shapes)"
            fitted = record.parameters.get(row.parameter)
            if fitted is not None and fitted.stderr is not None and fitted.value:
                # the relative error of a rate is that of the slope it is the inverse of
                stderr = value * fitted.stderr / fitted.value if row.inverse else fitted.stderr
        if setup.adjustment is not None:
            source = f"{source}; {_refit_source(setup.adjustment)}"
            stderr = _refit_stderr(setup.adjustment, _refit_name(part, drafting), value)
        found.append(ConstantUse(symbol, row.name, value, row.unit, str(cost.tier), source, stderr))
    return tuple(found)


def _refit_name(part: Part, drafting: bool) -> str:
    return "drafter" if drafting else _REFIT_FACTOR[part]


def _refit_stderr(adjustment: Adjustment, name: str, value: float) -> float | None:
    """Of a constant that a factor scales. None where the refit says nothing of it."""
    log_sd = adjustment.log_sd.get(name)
    return None if log_sd is None else value * log_sd


def _refit_source(adjustment: Adjustment) -> str:
    return f"{adjustment.label} (data {adjustment.data}): docs/measurements.md"


def _roofline_source(setup: Setup) -> str:
    peak = setup.hardware.bandwidth_bytes_per_s
    return f"profile of {setup.hardware.name} and typical kernel fractions (docs/model.md); peak: {peak.source}"
