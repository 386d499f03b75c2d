"""How a scenario's tokens choose their experts: as chosen, as learnt from a trace, or as the model's preset says."""

from __future__ import annotations

from advisor.architecture import Architecture, Moe
from advisor.arrays import Array
from advisor.catalog import load_model, model_ids
from advisor.expert_traffic import loads_shape, parse_loads
from advisor.prediction import AdvisorError
from advisor.routing import (
    NOT_LEARNT,
    PARAMETERS,
    RoutingPreset,
    load_routing_preset,
    not_learnt,
    own_routing,
    preset_for,
    routing_preset_ids,
)
from advisor.scenario import Scenario


def routing_of(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
    """Routing of the scenario's model: its own trace, a measured preset, or a class default. None for a dense model.

    Loads of experts that the scenario carries say how widely they spread, but for a trace, which says so itself.
    """
    if architecture.moe is None:
        return None, "dense model: no routing"
    found, because = _chosen(scenario, architecture)
    loads = own_loads(scenario, architecture.name, architecture.moe)
    # A trace tells the spread itself; a log of counts may leave it open.
    if loads is None or ("," in scenario.routing and PARAMETERS[0] not in not_learnt(scenario.routing)):
        return found, because
    spread = f"{float(loads.std(axis=1).mean()):.3g}"
    uniform = "0/0/0"
    rest = f"{NOT_LEARNT},{NOT_LEARNT}" if found is not None else f"{uniform},{uniform}"
    own = own_routing(f"{spread}/{spread}/{spread},{rest}", found or preset_for(architecture)[0])
    given = own.load_cv.model_copy(update={"source": "the loads of experts given with the scenario"})
    name = "your loads of experts" if found is None else f"your loads of experts, else {found.name}"
    return own.model_copy(
        update={"name": name, "load_cv": given}
    ), f"Loads spread as yours do (CV {spread}); the rest: {because}"


def own_loads(scenario: Scenario, model: str, moe: Moe) -> Array | None:
    """Loads of experts that the scenario carries, [layers, N] over each layer's mean, or None. [-]

    Raises AdvisorError for a text that is none, another number of experts, or more layers than the model routes in.
    """
    if scenario.expert_loads is None:
        return None
    layers, experts = loads_shape(scenario.expert_loads)
    if (layers, experts) != (0, 0) and (experts != moe.n_experts or layers > moe.count):
        raise AdvisorError(
            f"the loads are of {layers} layers and {experts} experts; expected up to {moe.count:g} layers and "
            f"{moe.n_experts} experts for {model}, those that are never chosen with 0"
        )
    return parse_loads(scenario.expert_loads)


def _chosen(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
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
