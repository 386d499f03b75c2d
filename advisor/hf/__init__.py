"""Hugging Face configurations read into an architecture."""

from __future__ import annotations

from advisor.hf.config import DESIGN_SUFFIX, architecture_from_config, formats_from_config
from advisor.hf.dialects import NESTED_KEYS
from advisor.hf.ffn import EXPERT_COUNT_KEYS, EXPERT_WIDTH_KEYS, SHARED_COUNT_KEYS, SHARED_TOTAL_KEYS, TOP_K_KEYS
from advisor.hf.fields import MAX_FILE_BYTES, parse_json
from advisor.hf.weight_format import CheckpointFormats

__all__ = [
    "DESIGN_SUFFIX",
    "EXPERT_COUNT_KEYS",
    "EXPERT_WIDTH_KEYS",
    "MAX_FILE_BYTES",
    "NESTED_KEYS",
    "SHARED_COUNT_KEYS",
    "SHARED_TOTAL_KEYS",
    "TOP_K_KEYS",
    "CheckpointFormats",
    "architecture_from_config",
    "formats_from_config",
    "parse_json",
]
