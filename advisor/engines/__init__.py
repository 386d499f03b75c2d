"""Engine configuration: what vLLM and SGLang load and how to check it."""

from __future__ import annotations

from advisor.engines.check_commands import CheckCommand, check_commands
from advisor.engines.config import EngineExport, one_option_a_line, one_slot_a_line
from advisor.engines.export import default_served_model, export_scenario, needs_draft_model, write_export

__all__ = [
    "CheckCommand",
    "EngineExport",
    "check_commands",
    "default_served_model",
    "export_scenario",
    "needs_draft_model",
    "one_option_a_line",
    "one_slot_a_line",
    "write_export",
]
