"""What is known about models and accelerators, from profiles or as the user gave it."""

from __future__ import annotations

from advisor.catalog.models import (
    checkpoint_name,
    load_model,
    model_ids,
    model_profile,
    published_architecture,
    unknown_model,
    with_quantisation_file,
)
from advisor.catalog.names import resolve_model_name
from advisor.catalog.own_hardware import (
    MAX_HARDWARE_BYTES,
    figure_range,
    given_hardware,
    hardware_from_given,
    hardware_slug,
    measured_chips,
)

__all__ = [
    "MAX_HARDWARE_BYTES",
    "checkpoint_name",
    "figure_range",
    "given_hardware",
    "hardware_from_given",
    "hardware_slug",
    "load_model",
    "measured_chips",
    "model_ids",
    "model_profile",
    "published_architecture",
    "resolve_model_name",
    "unknown_model",
    "with_quantisation_file",
]
