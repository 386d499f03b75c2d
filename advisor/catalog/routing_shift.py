"""Routing of a design: that of the model it was made from, moved along the class presets to other
counts of experts.

Measured: 18 models (arXiv:2505.16056, profiles/routing), from which the class presets were drawn;
every value between the classes is interpolated, along the shared share S = s/(k+s) and, for few
experts, along log N. No model has been retrained with one of these numbers changed alone, so the
shift is an association between models, not an effect. k on its own moves none of phi, rho and the
spread of the loads' odds: regressed on log N, log k and S over the 18 models, both phi and rho fall
with S and rise with N, while the coefficient of k stays within two standard errors of zero. S is
therefore taken at the baseline's k, so that more active experts never touch fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.routing_presets import load_routing_preset, routing_preset_ids
from advisor.physics.architecture import Moe
from advisor.physics.touched_experts import RoutingPreset
from advisor.prediction import AdvisorError, Array

MoeCounts = tuple[float, float, float]
"""Routed experts N, active ones k, and shared ones s in widths of a routed one. [-]"""
_BY_SHARED_SHARE = ("class-fine-no-shared", "class-quarter-shared", "class-half-shared")
# Not the class with one shared of nine: its one router was measured on other traffic than the 18
# models, and the step between the two measurements would be read as what one shared expert does.
_COARSE = "class-coarse-top2"
# Experts; between them lie only three unlike measured models.
_COARSE_UP_TO = 16.0
_FINE_FROM = 64.0
_SCATTER = {"load_cv": math.log(1.6), "affinity": math.log(1.4), "stickiness": math.log(1.4)}
"""Log half-width of a class at 80 %: how far its measured members lie from its preset
(profiles/routing)."""
_OCTAVES_OF_FULL_SCATTER = 2.0
_SHARE_OF_FULL_SCATTER = 0.25
"""A design this far from the baseline, in octaves of N or k or in S, carries the whole class
scatter (assumed)."""


@dataclass(frozen=True)
class RoutingShift:
    """Routing parameters of designs, each [n]: centre, and the ends that touch fewer and more
    experts."""

    load_cv: Array
    affinity: Array
    stickiness: Array


def class_routing(
    n_experts: ArrayLike, n_active: ArrayLike, n_shared: ArrayLike
) -> tuple[Array, Array, Array]:
    """(load_cv, affinity, stickiness) of a design's class, interpolated between the class presets.
    [-]

    Linear in S between the presets at 0, 1/4 and 1/2; below 64 experts geometrically in log N
    towards the coarse preset, reached at 16.
    """
    n = np.asarray(n_experts, float)
    k = np.asarray(n_active, float)
    s = np.asarray(n_shared, float)
    share = s / (k + s)
    fine_presets = [load_routing_preset(name) for name in _BY_SHARED_SHARE]
    knots = [float(preset.shared_share or 0.0) for preset in fine_presets]
    coarse = load_routing_preset(_COARSE)
    fineness = np.clip(np.log(n / _COARSE_UP_TO) / np.log(_FINE_FROM / _COARSE_UP_TO), 0.0, 1.0)
    parameters = []
    for name in _SCATTER:
        values = [getattr(preset, name).value for preset in fine_presets]
        ratio = getattr(coarse, name).value / values[0]
        parameters.append(np.asarray(np.interp(share, knots, values) * ratio ** (1.0 - fineness)))
    return parameters[0], parameters[1], parameters[2]


def shifted_routing(
    preset: RoutingPreset | None,
    baseline: MoeCounts,
    n_experts: ArrayLike,
    n_active: ArrayLike,
    n_shared: ArrayLike,
    end: str = "value",
) -> RoutingShift:
    """Routing parameters of designs, from a baseline's preset.

    preset : the baseline's; None: independent uniform routing, which stays uniform.
    baseline : its N, k and s. [-]
    n_experts, n_active, n_shared : of the designs, broadcast. [-]
    end : "value"; "low" and "high" touch fewer and more experts (correlation and skew both lower
        the count).

    RoutingShift. At the baseline's own N, k and s it is the preset itself, band included.
    """
    n, k, s = np.broadcast_arrays(
        *(np.asarray(counts, float) for counts in (n_experts, n_active, n_shared))
    )
    if preset is None:
        zero = np.zeros(n.shape)
        return RoutingShift(zero, zero, zero)
    n0, k0, s0 = baseline
    moved = class_routing(n, k0, s)
    origin = class_routing(*baseline)
    octaves = np.hypot(np.log2(n / n0), np.log2(k / k0)) / _OCTAVES_OF_FULL_SCATTER
    extra = np.minimum(
        np.hypot(octaves, np.abs(s / (k + s) - s0 / (k0 + s0)) / _SHARE_OF_FULL_SCATTER), 1.0
    )
    values = []
    for (name, scatter), new, old in zip(_SCATTER.items(), moved, origin, strict=True):
        parameter = getattr(preset, name)
        # No further than any class was measured to reach.
        value = np.minimum(parameter.value * new / old, max(parameter.value, _class_end(name)))
        if end != "value" and parameter.value > 0:
            # the end that touches fewer experts is the one with more correlation and skew
            edge = parameter.high if end == "low" else parameter.low
            stated = abs(math.log(max(edge, 1e-3 * parameter.value) / parameter.value))
            value = value * np.exp(
                (1.0 if end == "low" else -1.0) * np.hypot(stated, extra * scatter)
            )
        elif end == "high" or end == "low":
            value = value + (parameter.high if end == "low" else parameter.low)
        values.append(np.asarray(value, float))
    return RoutingShift(
        carried_cv(values[0], n0, k0, n, k),
        np.clip(values[1], 0.0, 1.0),
        np.clip(values[2], 0.0, 1.0),
    )


def carried_cv(
    load_cv: ArrayLike, n0: float, k0: float, n_experts: ArrayLike, n_active: ArrayLike
) -> Array:
    """CV of the loads where k0 of n0 experts become k of N, so that every expert's load grows
    with k. [-]

    load_cv : CV at n0 and k0, at most sqrt(n0/k0 - 1). [-]
    n_experts, n_active : N and k, broadcast. [-]

    CV^2 = C^2 (1-p)^2 / (1 + C^2 p (1-p)), p = k/N, with C^2 = CV0^2 / ((1-p0) (1-p0 (1 + CV0^2)))
    kept: C is the spread of the odds q/(1-q), which a load near 1 cannot exceed. Beta-distributed
    loads of that CV have both a = 1/(C^2 (1-p)) rising and b = 1/(C^2 p) falling with p, so that
    they never touch fewer experts. Own derivation.
    """
    p0 = k0 / n0
    cv0 = np.minimum(np.asarray(load_cv, float), math.sqrt(max(n0 / k0 - 1.0, 0.0)))
    share = np.asarray(n_active, float) / np.asarray(n_experts, float)
    # C^2 without its denominator, which is 0 where the baseline's load is as uneven as can be.
    left = (1.0 - p0) * np.maximum(1.0 - p0 * (1.0 + cv0**2), 0.0)
    whole = left + cv0**2 * share * (1.0 - share)
    with np.errstate(invalid="ignore"):
        cv = np.where(whole > 0.0, cv0 * (1.0 - share) / np.sqrt(whole), 0.0)
    return np.asarray(cv)


def _class_end(name: str) -> float:
    return max(float(getattr(load_routing_preset(each), name).high) for each in _BY_SHARED_SHARE)


def shifted_preset(
    preset: RoutingPreset | None,
    baseline: MoeCounts,
    n_experts: int,
    n_active: int,
    n_shared: float,
) -> RoutingPreset | None:
    """The preset of one design, as `Setup.routing` takes it. It is `preset` itself at the
    baseline's own counts."""
    if preset is None or (float(n_experts), float(n_active), float(n_shared)) == tuple(
        map(float, baseline)
    ):
        return preset
    ends = {
        end: shifted_routing(preset, baseline, n_experts, n_active, n_shared, end)
        for end in ("value", "low", "high")
    }
    update: dict[str, object] = {}
    for name in _SCATTER:
        low = float(getattr(ends["high"], name))
        middle = float(getattr(ends["value"], name))
        high = float(getattr(ends["low"], name))
        banded = getattr(preset, name)
        update[name] = banded.model_copy(
            update={
                "value": middle,
                "low": min(low, middle),
                "high": max(high, middle),
                "kind": "assumed",
                "confidence": "low",
                "note": f"moved from {preset.name} along the class presets",
            }
        )
    return preset.model_copy(
        update={
            **update,
            "id": f"{preset.id}-moved",
            "name": (
                f"{preset.name}, moved to {n_experts} experts top-{n_active}, {n_shared:g} shared"
            ),
            "kind": "class_default",
            "model_id": None,
            "n_experts": n_experts,
            "n_active": n_active,
            "shared_share": n_shared / (n_active + n_shared),
        }
    )


def counts_of(moe: Moe) -> MoeCounts:
    """N, k and s of the routed layers of a model. [-]"""
    return float(moe.n_experts), float(moe.n_active), moe.shared_width / moe.expert_width


def write_moved(preset: str, origin: MoeCounts, moved: MoeCounts) -> str:
    """Routing of a design as text of a scenario: preset, counts that it belongs to, counts of the
    design.

    preset : its id, or such a text itself, whose preset and counts stay.
    """
    came = preset.rpartition(",")[0] if is_moved(preset) else f"{preset},{_written(origin)}"
    return f"{came},{_written(moved)}"


def _written(counts: MoeCounts) -> str:
    return "/".join(f"{count:g}" for count in counts)


def is_moved(text: str) -> bool:
    """Whether a scenario's routing is one that `write_moved` writes."""
    return "," in text and text.split(",")[0] in routing_preset_ids()


def moved_routing(text: str, moe: Moe) -> tuple[RoutingPreset | None, str] | None:
    """Routing that `write_moved` wrote, and where it is from. None for routed layers of other
    counts.

    Raises AdvisorError for a text that is none.
    """
    try:
        preset_id, origin, design = text.split(",")
        n0, k0, s0 = map(float, origin.split("/"))
        n, k, s = map(float, design.split("/"))
        if not (1.0 <= k0 <= n0 < math.inf and 0.0 <= s0 < math.inf):
            raise ValueError("no counts of experts")
    except ValueError as error:
        expected = (
            "a preset, then N/k/s of its model and of the design, e.g. "
            "class-fine-no-shared,128/8/0,64/4/1"
        )
        raise AdvisorError(
            f"routing={text[:60]!r} is no moved routing; expected {expected}"
        ) from error
    if not np.allclose(counts_of(moe), (n, k, s), rtol=1e-4):
        return None
    preset = load_routing_preset(preset_id)
    because = f"Moved from {preset.name} with the design, from {k0:g} of {n0:g} experts"
    return shifted_preset(preset, (n0, k0, s0), int(n), int(k), s), because
