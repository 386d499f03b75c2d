"""What the user chose: the scenario, its file and its examples."""

from __future__ import annotations

from advisor.scenario.examples import Example, example_ids, load_example
from advisor.scenario.field_row import Catalogue, FieldRow, FieldSection, Flag
from advisor.scenario.fields import (
    DEFAULT_CONTEXT_TOKENS,
    DOCUMENTS,
    FIELDS,
    MAX_BATCH,
    MAX_CONTEXT,
    MAX_DRAFT,
    RANK_FIELDS,
    SETTINGS,
    mean_context,
)
from advisor.scenario.file import MAX_SCENARIO_BYTES, SCHEMA_VERSION, load_scenario_file, read_scenario, scenario_json
from advisor.scenario.scenario import MAX_CONFIG_BYTES, Scenario, build_scenario, explain, pack, unpack

__all__ = [
    "DEFAULT_CONTEXT_TOKENS",
    "DOCUMENTS",
    "FIELDS",
    "MAX_BATCH",
    "MAX_CONFIG_BYTES",
    "MAX_CONTEXT",
    "MAX_DRAFT",
    "MAX_SCENARIO_BYTES",
    "RANK_FIELDS",
    "SCHEMA_VERSION",
    "SETTINGS",
    "Catalogue",
    "Example",
    "FieldRow",
    "FieldSection",
    "Flag",
    "Scenario",
    "build_scenario",
    "example_ids",
    "explain",
    "load_example",
    "load_scenario_file",
    "mean_context",
    "pack",
    "read_scenario",
    "scenario_json",
    "unpack",
]
