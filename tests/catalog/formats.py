"""Formats of a checkpoint's parts, finer than an architecture holds them: output head, projections,
MTP modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.catalog.hf import config as reading
from advisor.catalog.hf.dialects import Dialect, dialects
from advisor.catalog.hf.layers import expert_count, ffn_kinds, layer_kinds
from advisor.catalog.hf.weight_format import CheckpointFormats, checkpoint_formats


def formats_from_config(config: Mapping[str, Any] | str) -> CheckpointFormats:
    """What `architecture_from_config` takes its weight formats from."""
    fields = reading._language_model(config, "config.json", [])
    dialect = dialects().get(fields.text("model_type"), Dialect())
    n_layers = reading._layer_count(fields)
    kinds = layer_kinds(fields, dialect, n_layers)
    layers = reading._part_layers(
        kinds, ffn_kinds(fields, expert_count(fields, n_layers, []), n_layers)
    )
    return checkpoint_formats(fields, dialect, layers, n_layers, [])
