"""Values as JSON: arrays, models and non-finite numbers included."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel


def json_values(value: Any) -> Any:
    """`value` as JSON types: arrays become lists, non-finite numbers null, floats keep six significant digits."""
    if isinstance(value, BaseModel):
        return json_values(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: json_values(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return json_values(value.tolist())
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def json_text(value: Any) -> str:
    """One JSON document, indented."""
    return json.dumps(json_values(value), indent=2, ensure_ascii=False, allow_nan=False)
