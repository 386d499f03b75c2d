"""What is known about models, accelerators and engines, from profiles or as the user gave it."""

from __future__ import annotations

from advisor.catalog.engines import (
    OTHER_ENGINE,
    Build,
    Engine,
    EngineChoice,
    ExportEngineId,
    ExportRule,
    MtpSupport,
    class_today,
    decodes_during_prefill,
    engine_called,
    engine_choices,
    engine_ids,
    engines,
    export_engines,
    load_engine,
)
from advisor.catalog.models import checkpoint_name, load_model, published_architecture, with_quantisation_file
from advisor.catalog.names import resolve_model_name
from advisor.catalog.own_hardware import (
    MAX_HARDWARE_BYTES,
    figure_range,
    hardware_from_own,
    hardware_slug,
    measured_chips,
    read_own_hardware,
)
from advisor.catalog.shipped import model_ids, model_profile, unknown_model
from advisor.catalog.shown import (
    drafter_name,
    hardware_by_vendor,
    hardware_called,
    hardware_label,
    hardware_name,
    model_label,
    model_name,
    models_by_maker,
    own_drafter,
)

__all__ = [
    "MAX_HARDWARE_BYTES",
    "OTHER_ENGINE",
    "Build",
    "Engine",
    "EngineChoice",
    "ExportEngineId",
    "ExportRule",
    "MtpSupport",
    "checkpoint_name",
    "class_today",
    "decodes_during_prefill",
    "drafter_name",
    "engine_called",
    "engine_choices",
    "engine_ids",
    "engines",
    "export_engines",
    "figure_range",
    "hardware_by_vendor",
    "hardware_called",
    "hardware_from_own",
    "hardware_label",
    "hardware_name",
    "hardware_slug",
    "load_engine",
    "load_model",
    "measured_chips",
    "model_ids",
    "model_label",
    "model_name",
    "model_profile",
    "models_by_maker",
    "own_drafter",
    "published_architecture",
    "read_own_hardware",
    "resolve_model_name",
    "unknown_model",
    "with_quantisation_file",
]
