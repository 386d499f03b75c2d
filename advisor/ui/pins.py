"""Pinned setups as the address has them: a scenario's query with `~` between its fields, pins
joined by `!`."""

from __future__ import annotations

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError
from advisor.show.live_answer import MOST_PINS


def pin_of(scenario: Scenario) -> str:
    """A scenario as a pin, whatever its batch."""
    at_any_batch = {"batch_size": FIELDS["batch_size"].default}
    return scenario.model_copy(update=at_any_batch).to_query().replace("&", "~")


def setup_of(pin: str) -> Scenario:
    """Inverse of `pin_of`, at the default batch. Raises AdvisorError for what is no setup, or one
    with documents of the user's own."""
    scenario = Scenario.from_query(pin.replace("~", "&"))
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
        (pins if len(pins) < MOST_PINS else refused).append(pin)
    return pins, refused
