"""Pinned setups as the address has them: fields of a setup joined by `~`, setups by `!`."""

from __future__ import annotations

from typing import Any

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError

MOST = 4
"""Pinned setups at most; so many colors are told apart."""
_ALWAYS = (
    *("model_id", "hardware_id", "n_gpus", "tensor_parallel", "expert_parallel"),
    *("engine", "drafter_id", "acceptance", "context_tokens"),
)
"""Fields that a pin has by their place; others follow by name where they are not at their
default."""


def pin_of(scenario: Scenario) -> str:
    """A scenario as a pin, without its batch."""
    others = scenario.model_dump(
        mode="json", exclude_defaults=True, exclude={*_ALWAYS, "batch_size"}
    )
    values = (str(getattr(scenario, name)) for name in _ALWAYS)
    return "~".join((*values, *(f"{name}={value}" for name, value in others.items())))


def setup_of(pin: str) -> Scenario:
    """Inverse of `pin_of`, at the default batch. Raises AdvisorError for what is no setup, or one
    with documents of the user's own."""
    texts = pin.split("~")
    if len(texts) < len(_ALWAYS):
        raise AdvisorError(f"a pinned setup has {len(_ALWAYS)} fields joined by '~'")
    values: dict[str, Any] = dict(text.partition("=")[::2] for text in texts[len(_ALWAYS) :])
    scenario = build_scenario(**values | dict(zip(_ALWAYS, texts, strict=False)))
    if scenario.is_private:
        raise AdvisorError("a pinned setup has no documents of its own")
    load_setup(scenario)  # raises for ids that do not exist
    return scenario


def read_pins(text: str) -> tuple[list[str], list[str]]:
    """Pins of an address, and those that cannot be shown."""
    pins: list[str] = []
    refused = []
    for pin in filter(None, text.split("!")):
        try:
            setup_of(pin)
        except AdvisorError:
            refused.append(pin)
            continue
        (pins if len(pins) < MOST else refused).append(pin)
    return pins, refused
