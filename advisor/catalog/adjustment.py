"""Shipped kernel and overhead constants corrected by a user's own measurements: factors, spreads,
one line of text.

`refit` makes an adjustment, a scenario carries its text, and `load_setup` applies it, so that every
prediction of that scenario, its hash, its link and its report hold the same constants.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from advisor.catalog.fit_records import class_costs
from advisor.physics.components import (
    DEVICE_RECORDS,
    FACTORS,
    JOINT,
    KERNELS,
    LINK_RECORDS,
    OVERHEADS,
)
from advisor.physics.kernel_costs import (
    AttentionCost,
    GemmCost,
    KernelCosts,
    MoeCost,
    Network,
    StreamCost,
)
from advisor.prediction import AdvisorError

GRAMMAR = (
    "on=ACCELERATOR/ENGINE/CLASS;own=DIGEST;n=POINTS;data=HASH;FACTOR=VALUE/SPREAD;...;"
    "expert=SECONDS;learnt=FACTOR/...;corr=A/B/...;scatter=S;forced=1, as `fit` prints it"
)
MAX_FACTOR = 1000.0
MAX_LOG_SD = 5.0
MAX_EXPERT_S = 1e-2
_MIN_EIGENVALUE = 2e-3
"""Correlations rounded to three decimals stay possible above this. [-]"""
JOINT_PAIRS = tuple(itertools.combinations(range(len(JOINT)), 2))
"""Places in JOINT of the pairs that an adjustment holds correlations of."""


@dataclass(frozen=True)
class Adjustment:
    """Verdict of n points of one accelerator and engine on the shipped constants."""

    hardware_id: str
    engine: str
    engine_class: str
    """Engine with its vintage, whose shipped overheads the factors multiply."""
    n_points: int
    data: str
    """Twelve hex digits of a hash of the rows fitted on."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """On the time of each of FACTORS; absent: as shipped. [-]"""
    log_sd: Mapping[str, float] = field(default_factory=dict)
    """Posterior standard deviation of the logarithm of each factor. [-]"""
    correlation: tuple[float, ...] = (0.0,) * len(JOINT_PAIRS)
    """Of the errors of all pairs of JOINT, in the order of JOINT_PAIRS. [-]"""
    learnt: tuple[str, ...] | None = None
    """Factors that the points determine; the others moved within what was known before. None: not
    said."""
    own: str = ""
    """Digest of the figures of an accelerator of the user's own (`hardware.own_digest`); empty: a
    shipped one."""
    expert_s: float = 0.0
    """Further time for each touched expert of a layer, before the factor of the routed experts.
    [s]"""
    scatter_log_sd: float | None = None
    """What the user's own rows leave unexplained, log standard deviation; None: as shipped. [-]"""
    forced: bool = False
    """Whether it is used although the checks rejected it."""

    @property
    def label(self) -> str:
        """Name in a few words: points, and whether it was forced."""
        return (
            f"refitted on {self.n_points} uploaded "
            f"points{', rejected by the checks and forced' * self.forced}"
        )


def carried(factor: float) -> float:
    """A factor as a scenario carries it: four significant digits, so that every page says the same
    of it. [-]"""
    return float(f"{factor:.4g}")


def change_text(factor: float) -> str:
    """Change of a constant by a factor, as `+17%` or `0%`."""
    change = round(factor - 1.0, 2)
    return f"{change:+.0%}" if change else "0%"


def write_adjustment(adjustment: Adjustment) -> str:
    """One line that `parse_adjustment` reads: four significant digits, correlations three
    decimals."""
    parts = [
        f"on={adjustment.hardware_id}/{adjustment.engine}/{adjustment.engine_class}",
        *([f"own={adjustment.own}"] if adjustment.own else []),
        f"n={adjustment.n_points}",
        f"data={adjustment.data}",
    ]
    parts += [
        f"{name}={adjustment.factors[name]:.4g}/{adjustment.log_sd[name]:.4g}"
        for name in adjustment.factors
    ]
    if adjustment.expert_s:
        parts.append(f"expert={adjustment.expert_s:g}")
    if adjustment.learnt is not None:
        parts.append(f"learnt={'/'.join(adjustment.learnt)}")
    parts.append("corr=" + "/".join(f"{value:.3f}" for value in _shrunk(adjustment.correlation)))
    if adjustment.scatter_log_sd is not None:
        parts.append(f"scatter={adjustment.scatter_log_sd:.4g}")
    if adjustment.forced:
        parts.append("forced=1")
    return ";".join(parts)


def parse_adjustment(text: str) -> Adjustment:
    """Inverse of `write_adjustment`. Lines after the first are notes. Raises AdvisorError with the
    grammar else."""
    try:
        pairs = [field.split("=", 1) for field in text.strip().partition("\n")[0].split(";")]
        values = dict(pairs)
        if len(values) != len(pairs):
            raise ValueError("a name is given twice")
        hardware_id, engine, engine_class = _names(values.pop("on"))
        count = int(values.pop("n"))
        data_digest = values.pop("data")
        hardware_digest = values.pop("own", "")
        correlation = tuple(_number(field, -1.0, 1.0) for field in values.pop("corr").split("/"))
        forced = values.pop("forced", "0")
        scatter = _number(values.pop("scatter"), 0.0, MAX_LOG_SD) if "scatter" in values else None
        expert = _number(values.pop("expert", "0"), 0.0, MAX_EXPERT_S)
        learnt = (
            tuple(filter(None, values.pop("learnt").split("/"))) if "learnt" in values else None
        )
        if not set(learnt or ()) <= set(values):
            raise ValueError("learnt, but not among the factors")
        if (
            len(correlation) != len(JOINT_PAIRS)
            or not 1 <= count <= 10**6
            or forced not in ("0", "1")
            or not re.fullmatch(
                r"[0-9a-f]{12}(\|([0-9a-f]{12})?)", f"{data_digest}|{hardware_digest}"
            )
        ):
            raise ValueError("out of range")
        if not set(values) <= set(FACTORS) or np.linalg.eigvalsh(_matrix(correlation)).min() < 0.0:
            raise ValueError("unknown factor, or correlations that cannot be")
        split = {name: value.split("/") for name, value in values.items()}
        factors = {
            name: _number(value, 1.0 / MAX_FACTOR, MAX_FACTOR) for name, (value, _) in split.items()
        }
        log_sd = {name: _number(sd, 0.0, MAX_LOG_SD) for name, (_, sd) in split.items()}
        return Adjustment(
            hardware_id=hardware_id,
            engine=engine,
            engine_class=engine_class,
            n_points=count,
            data=data_digest,
            own=hardware_digest,
            factors=factors,
            log_sd=log_sd,
            correlation=correlation,
            learnt=learnt,
            expert_s=expert,
            scatter_log_sd=scatter,
            forced=forced == "1",
        )
    except (ValueError, KeyError) as error:
        raise AdvisorError(f"refit={text[:60]!r} is no refit; expected {GRAMMAR}") from error


def is_for(adjustment: Adjustment, hardware_id: str, engine: str, own: str) -> bool:
    """Whether an adjustment is of this accelerator and engine. The user's own is known by its
    figures, not its name."""
    same = adjustment.own == own if own or adjustment.own else adjustment.hardware_id == hardware_id
    return same and adjustment.engine == engine


def check_adjustment(adjustment: Adjustment, hardware_id: str, engine: str, own: str) -> None:
    """Raises AdvisorError for another engine or accelerator. own : digest of the figures of the
    user's own."""
    if is_for(adjustment, hardware_id, engine, own):
        return
    if (adjustment.hardware_id, adjustment.engine) != (hardware_id, engine):
        raise AdvisorError(
            f"the refit is for {adjustment.hardware_id} with {adjustment.engine}, not for "
            f"{hardware_id} with {engine}; "
            "choose that accelerator and engine, or drop the refit"
        )
    raise AdvisorError(
        f"the refit is for an accelerator called {hardware_id} with other figures, which its "
        "factors multiply; give "
        "the file it was made with, or refit the rows with the new figures"
    )


def adjusted(
    costs: KernelCosts, draft_costs: KernelCosts, adjustment: Adjustment
) -> tuple[KernelCosts, KernelCosts]:
    """Costs of target and drafter with each constant times its factor, overheads from its engine
    class."""
    factors = adjustment.factors
    log_sd = adjustment.log_sd
    base = replace(costs, **class_costs(adjustment.engine_class))
    if adjustment.expert_s:
        base = base.with_expert_time(adjustment.expert_s)
    changes: dict[str, Any] = {}
    for component in OVERHEADS:
        changes |= {
            name: getattr(base, name) * factors.get(component.factor, 1.0)
            for name in component.priced_by
        }
    changes["query_key_norm_s"] = base.query_key_norm_s * factors.get(
        "dense", 1.0
    )  # beside the attention's products
    changes["stream_mixing"] = _scaled(
        base.stream_mixing, factors.get("dense", 1.0), log_sd.get("dense")
    )
    changes["overhead_log_sd"] = log_sd.get("host", base.overhead_log_sd)
    changes["overhead_log_covariance"] = _covariance(base, adjustment)
    # Whatever drifts with the batch, the user's own rows have shown.
    changes["scatter_log_sd"] = adjustment.scatter_log_sd
    for component in KERNELS:
        if not component.drafter:
            changes |= _scaled_records(
                base,
                component.priced_by,
                factors.get(component.factor, 1.0),
                log_sd.get(component.factor),
            )
    changes |= _scaled_modules(base, factors.get("attention", 1.0), log_sd.get("attention"))
    changes["network"] = _scaled(
        base.network, factors.get("communication", 1.0), log_sd.get("communication")
    )
    return replace(base, **changes), slower(
        draft_costs, factors.get("drafter", 1.0), log_sd.get("drafter")
    )


def slower(costs: KernelCosts, factor: float, log_sd: float | None = None) -> KernelCosts:
    """Costs with every kernel's time multiplied by `factor`. Overheads stay."""
    changes = _scaled_records(costs, (*DEVICE_RECORDS, *LINK_RECORDS), factor, log_sd)
    changes["query_key_norm_s"] = costs.query_key_norm_s * factor
    changes["stream_mixing"] = _scaled(costs.stream_mixing, factor, log_sd)
    changes["network"] = _scaled(costs.network, factor, log_sd)
    return replace(costs, **changes, **_scaled_modules(costs, factor, log_sd))


def _scaled_modules(costs: KernelCosts, factor: float, log_sd: float | None) -> dict[str, Any]:
    """Measured attention layers of `costs` with their time multiplied by `factor`, and the spread
    of attention."""
    changes = {} if log_sd is None else {"attention_log_sd": log_sd}
    return {
        "modules": {mixer: module.slower(factor) for mixer, module in costs.modules.items()},
        **changes,
    }


def _scaled_records(
    costs: KernelCosts, names: Iterable[str], factor: float, log_sd: float | None
) -> dict[str, Any]:
    """Kernel records of `costs` by field, each with its time multiplied by `factor`."""
    return {name: _scaled(getattr(costs, name), factor, log_sd) for name in names}


def _scaled(cost: Any, factor: float, log_sd: float | None) -> Any:
    """One kernel's constants with its time multiplied by `factor`: fixed times grow, rates fall."""
    if cost is None:
        return None
    if isinstance(cost, Mapping):
        return {ranks: _scaled(entry, factor, log_sd) for ranks, entry in cost.items()}
    assert isinstance(cost, AttentionCost | GemmCost | MoeCost | Network | StreamCost)
    changes: dict[str, Any] = {} if log_sd is None else {"log_sd": log_sd}
    for constant in dataclasses.fields(cost):
        value = getattr(cost, constant.name)
        if constant.name.endswith("_per_s"):
            changes[constant.name] = value / factor
        elif constant.name.endswith("_s"):
            changes[constant.name] = value * factor
    if isinstance(cost, MoeCost) and cost.measured is not None and log_sd is not None:
        changes["measured"] = replace(cost.measured, log_sd=log_sd)
    return replace(cost, **changes)


def _covariance(costs: KernelCosts, adjustment: Adjustment) -> tuple[tuple[float, ...], ...]:
    """Of the logarithms of JOINT. Shipped spreads where the adjustment has none."""
    fitted = np.array(
        costs.overhead_log_covariance or np.eye(len(JOINT)) * costs.overhead_log_sd**2
    )
    user_sds = [adjustment.log_sd.get(component.factor) for component in JOINT]
    if not any(log_sd is not None for log_sd in user_sds):
        return costs.overhead_log_covariance
    shipped = np.sqrt(np.diag(fitted))
    log_sd = np.array(
        [
            user_sd if user_sd is not None else shipped_sd
            for user_sd, shipped_sd in zip(user_sds, shipped, strict=True)
        ]
    )
    covariance = _matrix(adjustment.correlation) * np.outer(log_sd, log_sd)
    return tuple(tuple(float(value) for value in row) for row in covariance)


def _matrix(correlation: tuple[float, ...]) -> np.ndarray:
    out = np.eye(len(JOINT))
    for (row, column), value in zip(JOINT_PAIRS, correlation, strict=True):
        out[row, column] = out[column, row] = value
    return out


def _shrunk(correlation: tuple[float, ...]) -> tuple[float, ...]:
    """Correlations a hair nearer to zero where rounding could make them impossible."""
    while np.linalg.eigvalsh(_matrix(correlation)).min() < _MIN_EIGENVALUE:
        correlation = tuple(value * 0.998 for value in correlation)
    return correlation


def _names(text: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"([a-z0-9._-]{1,80})/([a-z0-9._-]{1,80})/([a-z0-9._-]{1,80})", text)
    if match is None:
        raise ValueError("expected accelerator/engine/class")
    return match[1], match[2], match[3]


def _number(text: str, low: float, high: float) -> float:
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{text} is not from {low} to {high}")
    return value
