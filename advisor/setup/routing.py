"""How a scenario's tokens choose their experts: as chosen, as learnt from a trace, or as the model's preset says."""

from __future__ import annotations

from advisor.architecture import Architecture
from advisor.catalog import load_model, model_ids
from advisor.routing import RoutingPreset, load_routing_preset, not_learnt, own_routing, preset_for, routing_preset_ids
from advisor.scenario import Scenario


def routing_of(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
    """Routing of the scenario's model: its own trace, a measured preset, or a class default. None for a dense model."""
    if architecture.moe is None:
        return None, "dense model: no routing"
    if scenario.routing == "uniform":
        return None, "independent uniform routing, as chosen"
    if scenario.routing == "auto":
        return _own_preset(scenario, architecture)
    if "," in scenario.routing:
        return _own_trace(scenario, architecture)
    return load_routing_preset(scenario.routing), "the preset chosen"


def _own_trace(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset, str]:
    """What the user's own trace or log told. What it left open is the model's preset's."""
    preset, because = _own_preset(scenario, architecture)
    left_open = not_learnt(scenario.routing)
    text = "Your own routing trace."
    if left_open:
        text = f"Your own log of activated experts; it leaves {' and '.join(left_open)} open. {because}"
    return own_routing(scenario.routing, preset), text


def _own_preset(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset, str]:
    """The preset of the model. A user's config with the dimensions of a measured model has its routing."""
    if scenario.model_config_json is not None:
        for preset_id in routing_preset_ids():
            preset = load_routing_preset(preset_id)
            if preset.model_id in model_ids() and preset.model_id is not None:
                known = load_model(preset.model_id)
                if (known.moe, known.hidden_size) == (architecture.moe, architecture.hidden_size):
                    return preset, f"Its experts have the dimensions of {known.name}, whose routing was measured"
    return preset_for(architecture)
