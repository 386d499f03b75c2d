"""Loads of experts by layer as files and as one line of text, which a scenario carries."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import tokenize
import zlib

import numpy as np

from advisor.arrays import Array
from advisor.prediction import AdvisorError

MAX_LOADS_BYTES = 50_000_000
MOST_MISSING = 0.125
"""Share of a model's experts, its last ones, that may have no row; a table that lacks more is of another model. [-]"""
_COLUMNS = ("layer", "expert", "tokens")
_STEPS, _COARSE_STEPS = 100.0, 25.0
"""Steps to a layer's mean load in a text, and in one of more than _MANY_CELLS, which a link would not hold else. [-]"""
_MANY_CELLS = 16_384
_TOP = 65_535
MAX_CELLS = 2**20
"""Layers times experts, several times those of any model that is known: a short text could unpack to all memory. [-]"""


def read_loads(name: str, data: bytes, n_experts: int = 0) -> Array:
    """Loads by layer and expert, [layers, N], of a .npy array or a CSV with columns layer, expert, tokens.

    n_experts : the model's, to which a CSV is filled up that lacks at most MOST_MISSING of them; 0: none. [-]

    Layers come in the order of their numbers; an expert that a CSV leaves out has no load. Raises AdvisorError for
    anything else, with the line where there is one.
    """
    if data[:6] == b"\x93NUMPY":
        try:
            found = np.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, OSError, EOFError, MemoryError, OverflowError, tokenize.TokenError) as error:
            # A header can ask for more than memory or an integer holds, or end within itself.
            raise AdvisorError(f"{name}: not a readable .npy array; save it with numpy.save") from error
        if found.ndim != 2 or not np.issubdtype(found.dtype, np.number) or np.iscomplexobj(found):
            raise AdvisorError(f"{name} holds {found.dtype} {found.shape}; expected numbers [layers, experts]")
        return np.asarray(found, float)
    return _csv_loads(name, data, n_experts)


def _csv_loads(name: str, data: bytes, n_experts: int) -> Array:
    try:
        cells = _csv_cells(name, data)
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name}: neither a .npy array nor a CSV in UTF-8") from error
    if not cells:
        raise AdvisorError(f"{name} has no rows; expected one for each layer and expert")
    layers = sorted({layer for layer, _ in cells})
    named = {layer: sum(1 for one, _ in cells if one == layer) for layer in layers[-1:] + layers[:1]}
    if named[layers[-1]] < (1.0 - MOST_MISSING) * named[layers[0]]:
        raise AdvisorError(
            f"{name} names {named[layers[-1]]} experts in its last layer, {layers[-1]}, and {named[layers[0]]} in its "
            "first: it seems cut off; give experts that are never chosen with 0"
        )
    experts = 1 + max(expert for _, expert in cells)
    if n_experts * (1.0 - MOST_MISSING) <= experts:
        experts = max(experts, n_experts)
    if len(layers) * experts > MAX_CELLS:
        raise AdvisorError(
            f"{name} names {len(layers)} layers and experts up to {experts - 1}, more than any model has"
        )
    found = np.zeros((len(layers), experts))
    for (layer, expert), load in cells.items():
        found[layers.index(layer), expert] = load
    return found


def _csv_cells(name: str, data: bytes) -> dict[tuple[int, int], float]:
    """Loads by layer and expert; what is no CSV raises as the reader of CSVs does, while its rows are read too."""
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig")))
    columns = tuple(rows.fieldnames or ())
    if not columns:
        raise AdvisorError(f"{name} is empty; expected columns {', '.join(_COLUMNS)}")
    if not set(_COLUMNS) <= set(columns):
        raise AdvisorError(f"{name} has columns {', '.join(columns[:8])}; expected {', '.join(_COLUMNS)}")
    cells: dict[tuple[int, int], float] = {}
    for line, row in enumerate(rows, start=2):
        try:
            layer, expert, load = int(row["layer"]), int(row["expert"]), float(row["tokens"])
        except (TypeError, ValueError) as error:
            raise AdvisorError(
                f"{name}, line {line}: expected whole layer and expert, and a number of tokens"
            ) from error
        if not 0 <= expert < 65_536 or not 0 <= layer < 2_000:
            raise AdvisorError(f"{name}, line {line}: layer {layer}, expert {expert} cannot be; counting starts at 0")
        if (layer, expert) in cells:
            raise AdvisorError(f"{name}, line {line}: layer {layer}, expert {expert} comes twice; give each once")
        cells[layer, expert] = load
    return cells


def write_loads(loads: Array) -> str:
    """Loads [layers, N] in any unit as one line of text, in steps of 1 or 4 % of each layer's mean load.

    Raises AdvisorError for loads that are no finite numbers >= 0, or a layer without any.
    """
    found = np.asarray(loads, float)
    _check(found, "the loads")
    found = found / found.max(axis=1, keepdims=True)  # whatever their unit, sums stay finite
    steps = np.rint(_steps(found.size) * found / found.mean(axis=1, keepdims=True))
    small = np.minimum(steps, _TOP).astype("<u2")
    # The two bytes of each number apart: the upper ones are nearly all zero, and compress to nothing.
    planes = small.reshape(-1, 1).view(np.uint8).T.tobytes()
    return f"{found.shape[0]}x{found.shape[1]}:{base64.urlsafe_b64encode(zlib.compress(planes, 9)).decode()}"


def loads_shape(text: str) -> tuple[int, int]:
    """Layers and experts of a text of loads, (0, 0) where it is none."""
    layers, _, experts = text.partition(":")[0].partition("x")
    return (int(layers), int(experts)) if layers.isdecimal() and experts.isdecimal() else (0, 0)


def parse_loads(text: str) -> Array:
    """Inverse of `write_loads`, [layers, N] over each layer's mean load. [-]

    Raises AdvisorError for a text that is damaged or none.
    """
    refused = AdvisorError(
        "expert_loads is no text of loads, or damaged; give a CSV with columns layer, expert, tokens, or copy the "
        "whole link again"
    )
    layers, experts = loads_shape(text)
    cells = layers * experts
    if not 0 < cells <= MAX_CELLS:
        raise refused
    try:
        data = base64.b64decode(text.partition(":")[2], altchars=b"-_", validate=True)
        planes = zlib.decompressobj().decompress(data, 2 * cells + 1)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise refused from error
    if len(planes) != 2 * cells:
        raise refused
    whole = np.frombuffer(planes, np.uint8).reshape(2, cells).T.copy().view("<u2")
    found = np.asarray(whole.reshape(layers, experts), float) / _steps(cells)
    _check(found, "expert_loads")
    return found


def _steps(cells: int) -> float:
    return _STEPS if cells <= _MANY_CELLS else _COARSE_STEPS


def _check(loads: Array, what: str) -> None:
    if loads.ndim != 2 or not loads.size or not np.all(np.isfinite(loads)) or loads.min() < 0.0:
        raise AdvisorError(f"{what}: expected numbers >= 0 by layer and expert")
    if loads.size > MAX_CELLS:
        raise AdvisorError(f"{what}: {loads.shape[0]} layers of {loads.shape[1]} experts are more than any model has")
    if not np.all(loads.max(axis=1) > 0.0):
        raise AdvisorError(f"{what}: a layer has no load at all; leave it out")
