"""Routing statistics that ship with the advisor: measured models, one published model, and defaults
by class."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache

from advisor.physics.architecture import Architecture, Moe
from advisor.physics.touched_experts import (
    NOT_LEARNT,
    PARAMETERS,
    Banded,
    RoutingPreset,
    one_prompt_cv,
    shared_share,
    write_own_routing,
)
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES, load_profile, profile_ids

_LISTING = "run `python -m advisor presets` for all ids"
_OWN_DATE = dt.date(1970, 1, 1)  # a trace carries no date of its own
# Edges between the classes: half way between the shared shares of neighbouring classes (0, 1/9,
# 1/4, 1/2).
_QUARTER_FROM = (1 / 9 + 1 / 4) / 2
_HALF_FROM = (1 / 4 + 1 / 2) / 2
_COARSE_UP_TO = 16  # experts; the measured models with 8 or 16 experts have no fine-grained split


def routing_preset_ids() -> list[str]:
    """Ids of all routing presets, sorted."""
    return profile_ids("routing")


@lru_cache(maxsize=64)
def load_routing_preset(preset_id: str) -> RoutingPreset:
    """The preset `preset_id`, from profiles/routing. Raises AdvisorError for an unknown id or a
    damaged file."""
    return load_profile("routing", preset_id, RoutingPreset, "routing presets", _LISTING)


OWN_GRAMMAR = (
    "load_cv/low/high,affinity/low/high,stickiness/low/high, e.g. "
    "0.52/0.45/0.6,0.2/0.17/0.22,0.15/0.12/0.18"
)


def own_routing(text: str, otherwise: RoutingPreset) -> RoutingPreset:
    """The preset that OWN_GRAMMAR writes: what `trace` found in a user's own data, with 80 %
    intervals.

    A group `-` takes that parameter of `otherwise`, source included. Raises AdvisorError with the
    grammar for anything else.
    """
    try:
        groups = dict(zip(PARAMETERS, text.split(","), strict=True))
        banded = {
            name: getattr(otherwise, name) if group == NOT_LEARNT else _own_constant(group)
            for name, group in groups.items()
        }
        if any(
            parameter.low < 0.0 or (parameter.high > 1 and name != "load_cv")
            for name, parameter in banded.items()
        ):
            raise ValueError("out of range")
    except ValueError as error:
        raise AdvisorError(
            f"routing={text[:60]!r} is neither a preset ({_LISTING}) nor {OWN_GRAMMAR}"
        ) from error
    return RoutingPreset(
        id="own-trace",
        name="your own routing trace",
        kind="own_trace",
        **banded,  # type: ignore[arg-type]
        gamma=banded["stickiness"].model_copy(
            update={"value": 1.0, "low": 0.0, "high": 1.0, "note": "not fitted"}
        ),
    )


def not_learnt(text: str) -> list[str]:
    """Names of the parameters that an own routing leaves to the preset."""
    return [
        name
        for name, group in zip(PARAMETERS, text.split(","), strict=False)
        if group == NOT_LEARNT
    ]


def _own_constant(group: str) -> Banded:
    value, low, high = map(float, group.split("/"))
    return Banded(
        value=value,
        low=low,
        high=high,
        unit="1",
        kind="measured",
        source="the user's own routing trace",
        date=_OWN_DATE,
        confidence="medium",
    )


def preset_for(architecture: Architecture) -> tuple[RoutingPreset, str]:
    """The preset that fits `architecture` best, and one sentence that says why.

    The model's own measured preset where there is one, else its class: by the number of experts and
    by the shared experts' share of the active expert width. Raises AdvisorError for a dense model.
    """
    moe = architecture.moe
    if moe is None:
        raise AdvisorError(
            f"{architecture.name} has no experts, so there is no routing to choose; use a MoE model"
        )
    measured = _measured_preset(architecture.id)
    if (
        measured is not None
        and measured.n_experts == moe.n_experts
        and measured.n_active == moe.n_active
    ):
        origin = (
            "was measured" if measured.kind == "measured_model" else "was published second-hand"
        )
        return measured, f"The routing of {measured.name} {origin}: {measured.load_cv.source}."
    share = shared_share(moe)
    preset = load_routing_preset(_class_of(moe, share))
    described = f"{moe.n_active} of {moe.n_experts} experts, {share:.0%} of the active width shared"
    return preset, (
        f"No routing was measured for {architecture.name} ({described}); the default of its class "
        f"is used: {preset.name} ({preset.load_cv.confidence} confidence)."
    )


def one_prompt_routing(architecture: Architecture) -> str:
    """Routing of requests that all bring one prompt, as text that a scenario takes. Empty where no
    class tells.

    From the unions of single domains: what one sequence prefers all of them prefer, so that its
    affinity is spread over their loads and none is left between them (`one_prompt_cv`). The low end
    is a single domain as it was counted, since sampled answers drift apart.
    """
    moe = architecture.moe
    if moe is None or _class_of(moe, shared_share(moe)) != _FINE:
        return ""
    preset = load_routing_preset(f"{_FINE}-one-domain")
    cv, affinity, stickiness = preset.parameters
    value = float(one_prompt_cv(moe.n_experts, moe.n_active, cv.value, affinity.value))
    high = float(one_prompt_cv(moe.n_experts, moe.n_active, cv.high, affinity.high))
    intervals = ((cv.value, high), (0.0, 0.0), (stickiness.low, stickiness.high))
    return write_own_routing((value, 0.0, stickiness.value), intervals)


def one_domain(preset: RoutingPreset, moe: Moe) -> RoutingPreset:
    """The preset where all requests are of one kind of ONE_DOMAIN.

    What mixed traffic becomes on the one model whose domains were counted apart as well: two
    unrelated tokens share more experts (J = k/N (1 + CV^2) grows), and a sequence has less that is
    its own (phi falls). Any preset moves by the same two factors, the ends of its ranges too.
    """
    mixed = load_routing_preset(_MIXED_PRESET)
    single = load_routing_preset(_ONE_DOMAIN_PRESET)
    alike = (1.0 + single.load_cv.value**2) / (1.0 + mixed.load_cv.value**2)
    less = single.affinity.value / mixed.affinity.value
    most = (moe.n_experts / moe.n_active - 1.0) ** 0.5

    def moved(name: str, change: Callable[[float], float]) -> Banded:
        old: Banded = getattr(preset, name)
        ends = {end: change(getattr(old, end)) for end in ("value", "low", "high")}
        return old.model_copy(
            update=ends | {"source": f"{old.source}; as text of one domain, {DOMAINS}"}
        )

    return preset.model_copy(
        update={
            "load_cv": moved("load_cv", lambda cv: min(((1.0 + cv**2) * alike - 1.0) ** 0.5, most)),
            "affinity": moved("affinity", lambda affinity: affinity * less),
        }
    )


def one_domain_routing(architecture: Architecture) -> str:
    """Routing of requests of one kind, as text that a scenario takes. Empty for a dense model."""
    if architecture.moe is None:
        return ""
    parameters = one_domain(preset_for(architecture)[0], architecture.moe).parameters
    value = tuple(parameter.value for parameter in parameters)
    return write_own_routing(
        value, tuple((parameter.low, parameter.high) for parameter in parameters)
    )


ONE_DOMAIN = ("coding", "math")
"""Kinds of text that are one domain, as domains were counted (measurements/union_experts)."""
DOMAINS = "docs/decisions/history.md (0031)"
_FINE = "class-fine-one-shared"
_MIXED_PRESET = "qwen3.6-35b-a3b"
_ONE_DOMAIN_PRESET = f"{_FINE}-one-domain"
"""One model under mixed traffic and under single domains (measurements/union_experts)."""


def _class_of(moe: Moe, share: float) -> str:
    if share >= _HALF_FROM:
        return "class-half-shared"
    if share >= _QUARTER_FROM:
        return "class-quarter-shared"
    if moe.n_experts <= _COARSE_UP_TO:
        return "class-coarse-top2"
    return _FINE if share > 0 else "class-fine-no-shared"


@lru_cache(maxsize=256)
def _measured_preset(model_id: str) -> RoutingPreset | None:
    """The last preset of a model, None where it has none. Files that do not name the model are not
    parsed."""
    last_match = None
    for name in routing_preset_ids():
        if name.startswith("class-") or model_id not in (
            PROFILES / "routing" / f"{name}.yaml"
        ).read_text("utf-8"):
            continue
        preset = load_routing_preset(name)
        last_match = preset if preset.model_id == model_id else last_match
    return last_match
