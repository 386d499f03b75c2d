"""What the user chose: the scenario, its file and its examples."""

from __future__ import annotations

from advisor.scenario.examples import Example, example_ids, load_example
from advisor.scenario.file import MAX_SCENARIO_BYTES, SCHEMA_VERSION, load_scenario_file, read_scenario, scenario_json
from advisor.scenario.scenario import (
    MAX_BATCH,
    MAX_CONFIG_BYTES,
    MAX_CONTEXT,
    PACKED,
    KvDtype,
    Scenario,
    build_scenario,
    explain,
    pack,
    unpack,
)

__all__ = [
    "MAX_BATCH",
    "MAX_CONFIG_BYTES",
    "MAX_CONTEXT",
    "MAX_SCENARIO_BYTES",
    "PACKED",
    "SCHEMA_VERSION",
    "Example",
    "KvDtype",
    "Scenario",
    "build_scenario",
    "example_ids",
    "explain",
    "load_example",
    "load_scenario_file",
    "pack",
    "read_scenario",
    "scenario_json",
    "unpack",
]
