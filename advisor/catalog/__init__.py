"""What is known about models and accelerators, from profiles or as the user gave it."""

from __future__ import annotations

from advisor.catalog.models import load_model, model_ids, model_profile, unknown_model
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
    "figure_range",
    "given_hardware",
    "hardware_from_given",
    "hardware_slug",
    "load_model",
    "measured_chips",
    "model_ids",
    "model_profile",
    "unknown_model",
]
