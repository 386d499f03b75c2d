"""A chosen design as a Hugging Face config.json in the baseline's own dialect, checked by reading it back."""

from __future__ import annotations

import copy
import json
from typing import Any

from advisor.architecture import Architecture
from advisor.catalog import model_profile
from advisor.design.candidates import Candidate
from advisor.design.space import DesignSpace
from advisor.hf import (
    DESIGN_SUFFIX,
    EXPERT_COUNT_KEYS,
    EXPERT_WIDTH_KEYS,
    NESTED_KEYS,
    SHARED_COUNT_KEYS,
    SHARED_TOTAL_KEYS,
    TOP_K_KEYS,
    architecture_from_config,
)
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario

MAX_NAME = 36
"""Longest name of a design: what the sidebar shows whole. [characters]"""
_COMPARED = ("n_experts", "n_active", "expert_width", "shared_width", "count", "matrices", "zero_experts")


def baseline_config(scenario: Scenario) -> dict[str, Any]:
    """The config.json behind a scenario's model, as a fresh copy."""
    if scenario.model_config_json is not None:
        loaded: dict[str, Any] = json.loads(scenario.model_config_json)
        return loaded
    return copy.deepcopy(dict(model_profile(scenario.model_id).config))


def design_config(space: DesignSpace, index: int) -> dict[str, Any]:
    """config.json of one design: the baseline's, with the keys of its routed layers changed.

    Raises AdvisorError where the dialect cannot express the design (another depth or number of heads, or experts that
    it computes from other keys): the file is read back and must give the same routed layers.
    """
    if space.body[index]:
        raise AdvisorError(
            "a design with another depth or other heads is not written as a config.json; choose one with the "
            "baseline's own, or change the layer keys by hand"
        )
    return config_with(baseline_config(space.setup.scenario), space.architecture(index))


def config_with(config: dict[str, Any], wanted: Architecture) -> dict[str, Any]:
    """A model's config.json with the routed layers of another design.

    Raises AdvisorError where the dialect of `config` cannot express those of `wanted`.
    """
    problem = ""
    for own_width_is_total in (False, True):  # what moe_shared_expert_intermediate_size means differs by model type
        changed = _changed(copy.deepcopy(config), wanted, own_width_is_total)
        problem = _difference(changed, wanted)
        if not problem:
            return changed
    raise AdvisorError(
        f"this model's config.json cannot express the design ({problem}); choose a candidate with the baseline's own "
        "shared experts, or another baseline"
    )


def design_name(space: DesignSpace, item: Candidate) -> str:
    """A short name that tells the designs of one baseline apart."""
    stem = DESIGN_SUFFIX.sub("", space.setup.scenario.model_id)
    suffix = f"-n{item.n_experts}k{item.n_active}s{item.n_shared:.3g}w{item.expert_width}"
    return stem[: MAX_NAME - len(suffix)].rstrip("-._") + suffix


def _changed(config: dict[str, Any], wanted: Architecture, own_width_is_total: bool) -> dict[str, Any]:
    holder, moe = _expert_holder(config), wanted.moe
    assert moe is not None
    config.pop("_name_or_path", None)  # the file no longer describes that checkpoint
    _set(holder, EXPERT_COUNT_KEYS, moe.n_experts)
    _set(holder, TOP_K_KEYS, moe.n_active)
    _set(holder, EXPERT_WIDTH_KEYS, moe.expert_width)
    if "zero_expert_num" in holder:
        holder["zero_expert_num"] = moe.zero_experts
    _set_shared(holder, moe.n_shared, moe.shared_width, own_width_is_total)
    if moe.n_experts % int(holder.get("n_group") or 1):
        for key in ("n_group", "topk_group"):  # a router that picks groups first needs groups of equal size
            holder.pop(key, None)
    return config


def _expert_holder(config: dict[str, Any]) -> dict[str, Any]:
    """The object that carries the expert keys: the file itself, a nested text model, or DBRX's ffn_config."""
    places = [config]
    for place in places:
        if any(place.get(key) is not None for key in EXPERT_COUNT_KEYS):
            return place
        places.extend(place[key] for key in (*NESTED_KEYS, "ffn_config") if isinstance(place.get(key), dict))
    raise AdvisorError("the baseline's config.json has no expert count to change; import it anew")


def _set(holder: dict[str, Any], keys: tuple[str, ...], value: int) -> None:
    present = [key for key in keys if holder.get(key) is not None]
    if present:
        holder[present[0]] = value


def _set_shared(holder: dict[str, Any], n_shared: int, shared_width: int, own_width_is_total: bool) -> None:
    totals = [key for key in SHARED_TOTAL_KEYS if holder.get(key) is not None]
    counts = [key for key in SHARED_COUNT_KEYS if holder.get(key) is not None]
    for key in totals:
        holder[key] = shared_width
    for key in counts:
        holder[key] = n_shared
    if holder.get("moe_shared_expert_intermediate_size") is not None and n_shared:
        holder["moe_shared_expert_intermediate_size"] = shared_width if own_width_is_total else shared_width // n_shared
    if not totals and not counts and n_shared:
        holder["n_shared_experts"] = n_shared


def _difference(config: dict[str, Any], wanted: Architecture) -> str:
    """What the file says otherwise than the design when read back; empty when nothing."""
    read = architecture_from_config(config, wanted.name).moe
    return "; ".join(
        f"{name} {getattr(read, name, None)} instead of {getattr(wanted.moe, name)}"
        for name in _COMPARED
        if getattr(read, name, None) != getattr(wanted.moe, name)
    )


def added_keys(space: DesignSpace, config: dict[str, Any]) -> list[str]:
    """Keys that the baseline's file does not have: the engine's model code must understand them."""
    own = _expert_holder(baseline_config(space.setup.scenario))
    return sorted(set(_expert_holder(config)) - set(own))
