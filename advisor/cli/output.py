"""Tables and JSON on a terminal."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from pydantic import BaseModel

from advisor.prediction import AdvisorError


def plain(value: Any) -> Any:
    """`value` as JSON types: arrays become lists, non-finite numbers null, floats keep six significant digits."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def json_text(value: Any) -> str:
    """One JSON document, indented."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(value))


def write_file(path: Path, text: str) -> None:
    """Write text to a file. Raises AdvisorError when that cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AdvisorError(f"cannot write {path}: {error.strerror or error}") from error


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns aligned: text to the left, numbers to the right."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in range(len(header))]
    for line in [list(header), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
