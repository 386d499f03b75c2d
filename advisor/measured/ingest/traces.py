"""What a run leaves beside its benchmark: routing traces -> expert ids by sequence, logs of power
-> watts.

Arrays of a trace are parsed by hand: no pickle, no size taken on trust. Power comes from
`nvidia-smi --query-gpu=...,power.draw --format=csv` or `dcgmi dmon -e 155`, one line a GPU and
sample. What counts is the run: samples below the middle between a GPU's idle and busy level belong
to loading and waiting, and GPUs that never worked to nobody; both are left out and told.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from advisor.measured.ingest.upload import MAX_COLUMNS, MIB, open_upload
from advisor.physics.architecture import Architecture
from advisor.prediction import AdvisorError
from advisor.text import counted

MAX_TRACE_BYTES = 256 * MIB
MAX_IDS = 200_000_000
"""Expert ids in one trace (tokens x layers x k, all sequences). [-]"""
MAX_SEQUENCES = 100_000
_MAX_HEADER = 10_000
_MAX_DEPTH = 6
_KEYS = ("routed_experts", "experts", "expert_ids", "topk_ids")
Ids = NDArray[np.integer]


@dataclass(frozen=True)
class TraceFile:
    """Expert ids, one array [tokens, layers, k] per sequence, and how the file was understood."""

    sequences: tuple[Ids, ...]
    layout: str
    file_name: str


@dataclass(frozen=True)
class LayerCounts:
    """Axes of an array as a model has them. Layers that route and all layers (None: not known),
    experts per token."""

    routed: int | None = None
    every: int | None = None
    n_active: int | None = None

    def are(self, length: int) -> bool:
        """Whether an axis of this length is one of layers."""
        return length > 1 and length in (self.routed, self.every)


NO_MODEL = LayerCounts()


def layer_counts(architecture: Architecture) -> LayerCounts:
    """Layer and expert counts of a model with routed experts. NO_MODEL for a dense one."""
    moe = architecture.moe
    return (
        NO_MODEL
        if moe is None
        else LayerCounts(moe.count, sum(m.count for m in architecture.mixers), moe.n_active)
    )


def read_traces(files: Sequence[tuple[str, bytes]], model: LayerCounts = NO_MODEL) -> TraceFile:
    """Read one or several (name, data) as one trace, each by `read_trace`."""
    traces = [read_trace(name, data, model) for name, data in files]
    sequences = tuple(ids for trace in traces for ids in trace.sequences)
    _check_size("the files", sequences)
    unique = {
        (ids.shape, hashlib.sha256(ids.astype(np.int64).tobytes()).digest()): ids
        for ids in sequences
    }
    layouts = list(dict.fromkeys(trace.layout for trace in traces))
    if repeated := len(sequences) - len(unique):
        layouts.append(f"{counted(repeated, 'sequence')} equal to another counted once")
    return TraceFile(
        tuple(unique.values()), "; ".join(layouts), ", ".join(trace.file_name for trace in traces)
    )


def read_trace(name: str, data: bytes, model: LayerCounts = NO_MODEL) -> TraceFile:
    """Read a routing trace, recognized by its content.

    Parameters
    ----------
    name : for messages. data : .npy, .npz, CSV, JSON or JSON lines.
    model : tells what the axes of an array are, and the shape of flat base64 int32 arrays, which
        carry none.

    Raises AdvisorError, and nothing else, for anything that is not a trace. See
    docs/measure-and-refit.md for the layouts.
    """
    if not data:
        raise AdvisorError(f"{name} is empty; send a routing trace")
    if len(data) > MAX_TRACE_BYTES:
        raise AdvisorError(
            f"{name} has {len(data) / MIB:,.0f} MiB; at most {MAX_TRACE_BYTES // MIB} are read"
        )
    try:
        sequences, layout = _sequences(name, data, model)
    except (RecursionError, MemoryError) as error:
        raise AdvisorError(
            f"{name} is nested too deeply or too large to be read; send a smaller trace"
        ) from error
    if not sequences:
        raise AdvisorError(f"{name} holds no sequence of expert ids")
    _check_size(name, sequences)
    _check_model(name, sequences, model)
    return TraceFile(tuple(sequences), layout, name)


def _check_model(name: str, sequences: Sequence[Ids], model: LayerCounts) -> None:
    """Raise AdvisorError when a sequence [tokens, layers, k] cannot be of the model that was
    named."""
    for ids in sequences:
        if model.n_active is not None and ids.shape[2] != model.n_active:
            raise AdvisorError(
                f"{name} has {ids.shape[2]} experts per token where the model has "
                f"{model.n_active}; is it another's?"
            )
        known = [count for count in (model.routed, model.every) if count is not None]
        if known and ids.shape[1] > max(known):
            raise AdvisorError(
                f"{name} has {ids.shape[1]} layers, the model {max(known)}; is it another model's?"
            )


def _check_size(name: str, sequences: Sequence[Ids]) -> None:
    if len(sequences) > MAX_SEQUENCES:
        raise AdvisorError(
            f"{name} holds {len(sequences):,} sequences; at most {MAX_SEQUENCES:,} are read"
        )
    if sum(ids.size for ids in sequences) > MAX_IDS:
        raise AdvisorError(f"{name} holds more than {MAX_IDS:,} expert ids; send fewer sequences")


def _sequences(name: str, data: bytes, model: LayerCounts) -> tuple[list[Ids], str]:
    if data.startswith(b"\x93NUMPY"):
        return _split(name, parse_npy(name, data), model)
    if data.startswith(b"PK\x03\x04"):
        members = _npz_members(name, data)
        if len(members) == 1:
            return _split(name, members[0], model)
        if any(array.ndim != 3 for array in members):
            raise AdvisorError(
                f"{name}: each array of an .npz must be one sequence [tokens, layers, k]"
            )
        return members, ".npz, one array [tokens, layers, k] per sequence"
    sample = open_upload(
        name, data
    )  # bounded decompression and decoding, pickles and other formats refused
    if sample.is_json:
        return _from_json(name, sample.records, model)
    if sample.kind == "text":
        return _from_csv(name, sample.data, sample.delimiter)
    raise AdvisorError(
        f"{name} is no routing trace; expected .npy, .npz, CSV or JSON lines of expert ids"
    )


def parse_npy(name: str, data: bytes) -> Ids:
    """The integer array in a .npy file. Raises AdvisorError for objects, other types, or a shape
    that cannot be."""
    stream = io.BytesIO(data)
    try:
        major, _ = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream, max_header_size=_MAX_HEADER)
        if min(shape, default=0) < 0:
            raise ValueError("shape")
    except Exception as error:  # numpy's parser of headers raises many kinds on damaged ones
        raise AdvisorError(
            f"{name} is a damaged .npy file; save it again with numpy.save"
        ) from error
    if dtype.kind not in "iu":
        raise AdvisorError(
            f"{name} holds {dtype}; expert ids are whole numbers (save them as uint16 or int32)"
        )
    count = math.prod(shape)
    body = memoryview(data)[stream.tell() :]
    if count * dtype.itemsize != len(body):
        raise AdvisorError(
            f"{name} says {count:,} values of {dtype.itemsize} bytes but holds {len(body):,} bytes"
        )
    return np.frombuffer(body, dtype).reshape(shape, order="F" if fortran_order else "C")


def _npz_members(name: str, data: bytes) -> list[Ids]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if not members or not all(member.filename.endswith(".npy") for member in members):
                raise AdvisorError(
                    f"{name} is a zip that is no .npz; send .npy, .npz, CSV or JSON lines"
                )
            if (
                len(members) > MAX_SEQUENCES
                or sum(member.file_size for member in members) > MAX_TRACE_BYTES
            ):
                raise AdvisorError(
                    f"{name} unpacks to more than {MAX_TRACE_BYTES // MIB} MiB or too many arrays"
                )
            # The declared size bounds what zipfile hands out, whatever the compressed stream holds.
            return [
                parse_npy(f"{name}:{member.filename[:40]}", archive.read(member))
                for member in members
            ]
    except AdvisorError:
        raise
    except Exception as error:  # zipfile raises many kinds on crafted archives
        raise AdvisorError(
            f"{name} is a damaged .npz file; save it again with numpy.savez"
        ) from error


def _split(name: str, array: Ids, model: LayerCounts) -> tuple[list[Ids], str]:
    if array.ndim == 3 and model.are(array.shape[1]):  # what vLLM and SGLang return for a request
        return _with_note(
            [routing_layers(array, model)], [array], "one sequence [tokens, layers, k]"
        )
    if (
        array.ndim == 3 and model.routed is not None
    ):  # one layer of many sequences, or one sequence of another model
        every = "" if model.every in (None, model.routed) else f" or {model.every}"
        raise AdvisorError(
            f"{name} has shape {array.shape} and no axis of the model's {model.routed}{every} "
            "layers; give [tokens, layers, k], [sequences, tokens, layers, k] or, of one layer, "
            "[sequences, tokens, 1, k]"
        )
    if array.ndim == 3:
        return [ids[:, None, :] for ids in array], "one layer, [sequences, tokens, k]"
    if array.ndim == 4 and model.routed is not None and not model.are(array.shape[2]):
        return list(
            array
        ), f"[sequences, tokens, layers, k], {array.shape[2]} of the model's {model.routed} layers"
    if array.ndim == 4:
        return _with_note(
            [routing_layers(ids, model) for ids in array],
            list(array),
            "[sequences, tokens, layers, k]",
        )
    raise AdvisorError(
        f"{name} has shape {array.shape}; expected [tokens, layers, k] of one request, "
        "[sequences, tokens, k] of one layer, or [sequences, tokens, layers, k]"
    )


def _from_csv(name: str, data: bytes, delimiter: str) -> tuple[list[Ids], str]:
    """Columns sequence, token, layer (optional), then one column per expert or one cell
    `3;17;42`."""
    if data.split(b"\n", 1)[0].count(delimiter.encode()) >= MAX_COLUMNS:
        raise AdvisorError(
            f"{name} has more than {MAX_COLUMNS:,} columns; expected sequence,token,layer,experts"
        )
    try:
        frame = pd.read_csv(io.BytesIO(data), sep=delimiter, comment="#", skipinitialspace=True)
    except (ValueError, UnicodeError) as error:
        raise AdvisorError(
            f"{name} is no CSV table with a header line: {str(error)[:100]}"
        ) from error
    frame.columns = [str(column).strip().lower() for column in frame.columns]
    place = [column for column in ("sequence", "token", "layer") if column in frame]
    if "sequence" not in place or "token" not in place:
        raise AdvisorError(
            f"{name} lacks the columns sequence and token; expected sequence,token,layer,experts"
        )
    rest = frame.drop(columns=place)
    if list(rest.columns) == ["experts"] and not pd.api.types.is_numeric_dtype(rest["experts"]):
        rest = rest["experts"].str.split(r"[;|\s]+", expand=True, regex=True)
    try:
        numbers = rest.apply(pd.to_numeric).to_numpy(float)
        keys = frame[place].apply(pd.to_numeric).to_numpy(float)
    except (ValueError, TypeError) as error:
        raise AdvisorError(
            f"{name} has a cell that is no whole number: {str(error)[:100]}"
        ) from error
    both = np.concatenate([keys, numbers], axis=1)
    if (
        not len(both)
        or not np.all(np.isfinite(both))
        or np.any(both != np.round(both))
        or np.abs(both).max() > 1e9
    ):
        raise AdvisorError(
            f"{name} has an empty or fractional cell; every token needs k expert ids in every layer"
        )
    if "layer" not in place:
        keys = np.insert(keys, 2, 0, axis=1)
    return _regular(
        name, keys.astype(np.int64), numbers.astype(np.int64)
    ), "CSV of sequence, token, layer, experts"


def _regular(name: str, keys: NDArray[np.int64], ids: NDArray[np.int64]) -> list[Ids]:
    """[tokens, layers, k] per sequence from rows keyed by (sequence, token, layer), each present
    exactly once."""
    order = np.lexsort((keys[:, 2], keys[:, 1], keys[:, 0]))
    keys = keys[order]
    ids = ids[order]
    layers = np.unique(keys[:, 2])
    out: list[Ids] = []
    starts = np.flatnonzero(np.r_[True, keys[1:, 0] != keys[:-1, 0]])
    for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
        tokens = np.unique(keys[start:end, 1])
        complete = len(tokens) * len(layers) == end - start
        if not complete or np.any(keys[start:end, 2].reshape(-1, len(layers)) != layers):
            raise AdvisorError(
                f"{name}: sequence {keys[start, 0]} lacks a layer of some token, or has one twice"
            )
        out.append(ids[start:end].reshape(len(tokens), len(layers), -1))
    return out


def _from_json(name: str, records: Iterable[Any], model: LayerCounts) -> tuple[list[Ids], str]:
    records = list(records)
    first = next((record for record in records if isinstance(record, dict)), {})
    if {"sequence", "token"} <= set(first) and isinstance(first.get("experts"), list):
        return _from_token_lines(name, records), "JSON lines of sequence, token, layer, experts"
    arrays: list[Ids] = []
    for number, record in enumerate(records, start=1):
        for value in _values(record, 0):
            arrays.append(_one_value(f"{name}, record {number}", value, model))
    if not arrays:
        raise AdvisorError(
            f"{name} has no field {', '.join(_KEYS)}; expected one list or base64 array per request"
        )
    return _with_note(
        [routing_layers(ids, model) for ids in arrays], arrays, "JSON, one request each"
    )


def _from_token_lines(name: str, records: list[Any]) -> list[Ids]:
    try:
        keys = [[record["sequence"], record["token"], record.get("layer", 0)] for record in records]
        ids = [record["experts"] for record in records]
        arrays = np.array(keys), np.array(ids)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AdvisorError(
            f"{name}: every line needs sequence, token and equally many experts"
        ) from error
    if any(array.dtype.kind not in "iu" or array.ndim != 2 for array in arrays):
        raise AdvisorError(
            f"{name}: every line needs whole numbers for sequence, token, layer and experts"
        )
    return _regular(name, arrays[0].astype(np.int64), arrays[1].astype(np.int64))


def _values(record: Any, depth: int) -> Iterable[Any]:
    """Every value under a key of _KEYS, however deep an engine's reply nests it."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(record, dict):
        for key, value in record.items():
            if key in _KEYS and value is not None:
                yield value
            else:
                yield from _values(value, depth + 1)
    elif isinstance(record, list):
        for element in record:
            if isinstance(element, dict | list):
                yield from _values(element, depth + 1)


def _one_value(where: str, value: Any, model: LayerCounts) -> Ids:
    """One request's ids: nested lists, a base64 .npy, or base64 int32 without a shape."""
    if isinstance(value, str):
        try:
            raw = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise AdvisorError(f"{where}: the expert ids are neither a list nor base64") from error
        array = parse_npy(where, raw) if raw.startswith(b"\x93NUMPY") else _flat(where, raw, model)
    else:
        try:
            array = np.array(value)
        except ValueError as error:
            raise AdvisorError(f"{where}: the lists of expert ids differ in length") from error
        if array.dtype.kind not in "iu":
            raise AdvisorError(
                f"{where}: expert ids must be whole numbers, equally many for every token"
            )
    if array.ndim == 2:
        array = array[:, None, :]
    if array.ndim != 3:
        raise AdvisorError(
            f"{where}: expert ids have shape {array.shape}; expected [tokens, layers, k]"
        )
    return array


def _flat(where: str, raw: bytes, model: LayerCounts) -> Ids:
    """A base64 array without a shape, by the model's layers: those that route, or all of them as
    SGLang records.

    Where both fit the bytes, all layers are taken if the dense ones then hold nothing but zeros.
    """
    counts = [count for count in dict.fromkeys((model.every, model.routed)) if count]
    if not counts or model.n_active is None:
        raise AdvisorError(
            f"{where}: the base64 array has no shape; name the model, whose layers and top-k give "
            "it"
        )
    fitting = [count for count in counts if raw and len(raw) % (4 * count * model.n_active) == 0]
    if not fitting:
        tried = " or ".join(map(str, counts))
        raise AdvisorError(
            f"{where}: {len(raw):,} bytes are no whole number of tokens of {tried} layers x "
            f"{model.n_active} int32 ids"
        )
    shaped = [np.frombuffer(raw, "<i4").reshape(-1, count, model.n_active) for count in fitting]
    return next(
        (ids for ids in shaped if routing_layers(ids, model).shape[1] == model.routed), shaped[0]
    )


def routing_layers(ids: Ids, model: LayerCounts) -> Ids:
    """Expert ids [tokens, layers, k] without the layers that do not route.

    SGLang records every layer of a model and leaves zeros for the dense ones (61 for DeepSeek-V3,
    of which 58 route): a layer that gave every token expert 0 k times over has chosen nothing.
    """
    if (
        model.every is None
        or model.every == model.routed
        or ids.shape[1] != model.every
        or ids.shape[2] < 2
    ):
        return ids
    routes = np.any(ids != 0, axis=(0, 2))
    return ids[:, routes] if routes.any() else ids


def _with_note(kept: list[Ids], before: Sequence[Ids], layout: str) -> tuple[list[Ids], str]:
    """The sequences, and the layout with the number of layers that were left out as dense."""
    dropped = max(
        (was.shape[1] - now.shape[1] for now, was in zip(kept, before, strict=True)), default=0
    )
    return kept, f"{layout}; {dropped} layers without routing left out" if dropped else layout


MAX_SAMPLES = 2_000_000
MAX_WATTS = 5_000.0
"""More than any board draws; such a value is of another unit. [W]"""
_HOW = (
    "give the output of `nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -lms "
    "200`, or of `dcgmi dmon -e 155`"
)
_STEADY = 1.3
"""A GPU whose busy level is below this many times its idle one has no idle part to leave out:
boards draw 0.1 to 0.2 of their most while they stand still, and 0.4 and more while they decode
(advisor/predict/spend.py). [-]"""
_AT_WORK = 0.5
"""A GPU whose busy level is below this share of the busiest one's did not work in the run: ranks of
one instance run the same kernels on the same data. [-]"""
_STRAY = 0.005
"""Share of a GPU's samples, at either end of its range, that make no level. [-]"""
_LEAST_SAMPLES = 5
"""Of a run, where idle ones are left out: fewer are a peak and no run. [-]"""
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*(m?)W)?")
_DCGM_POWER = ("POWER", "PWR", "POWER_USAGE")
_DCGM_LINE = re.compile(r"\s*GPU(?:-I)?\s+([0-9]+)\s+(.*)")


@dataclass(frozen=True)
class PowerLog:
    """Power of the GPUs of a run, the idle parts of the log left out."""

    mean_w: float
    """Of one GPU, mean over its samples while it worked, then over the GPUs that did. [W]"""
    at_work: tuple[str, ...]
    """The GPUs that count, as the log names them."""
    idle_gpus: tuple[str, ...]
    """Those that were left out, since they drew far less."""
    samples: int
    """That count. [-]"""
    idle_samples: int
    """Of the GPUs at work, that were left out. [-]"""
    file_name: str

    @property
    def gpus(self) -> int:
        """GPUs at work. [-]"""
        return len(self.at_work)

    @property
    def text(self) -> str:
        """Origin of the number, in words."""
        left = f", {self.idle_samples:,} idle ones left out" if self.idle_samples else ""
        still = f", {counted(len(self.idle_gpus), 'idle GPU')} left out" if self.idle_gpus else ""
        of = counted(self.gpus, "GPU")
        return (
            f"measured: {self.file_name}, {self.samples:,} samples of {of}{left}{still}; boards "
            "alone"
        )

    def check(self, gpus: int) -> None:
        """Raises AdvisorError where not as many GPUs worked as an instance of the scenario has."""
        if self.gpus != gpus:
            raise AdvisorError(
                f"{self.file_name}: {counted(self.gpus, 'GPU')} worked in it "
                f"({', '.join(self.at_work[:16])}) and the scenario's instance has {gpus}; log "
                "its GPUs alone (nvidia-smi --id=0,1,...), or set the parallelism that ran "
                "(--tp, --ep)"
            )


def read_power_log(name: str, data: bytes) -> PowerLog:
    """The power log in a file. Raises AdvisorError for anything else, with what to give."""
    text = data.decode("utf-8-sig", errors="replace")
    watts_by_gpu: dict[str, list[float]] = {}
    lines = text.splitlines()
    rows = (
        _dcgm(name, lines)
        if any(_DCGM_LINE.match(line) for line in lines[:50])
        else _nvidia_smi(name, text)
    )
    for count, (gpu, watts) in enumerate(rows):
        if count >= MAX_SAMPLES:
            raise AdvisorError(
                f"{name} has more than {MAX_SAMPLES:,} samples of power; cut it to the run"
            )
        if not 0 <= watts <= MAX_WATTS:
            raise AdvisorError(
                f"{name}: {watts:g} W is no power of a GPU; the column must hold watts"
            )
        watts_by_gpu.setdefault(gpu, []).append(watts)
    if not watts_by_gpu:
        raise AdvisorError(f"{name} holds no sample of power; {_HOW}")
    busy = {gpu: _busy(np.array(watts)) for gpu, watts in watts_by_gpu.items()}
    levels = {gpu: float(watts.mean()) for gpu, watts in busy.items()}
    most = max(levels.values())
    if most <= 0:
        raise AdvisorError(f"{name}: every sample is 0 W; {_HOW}")
    at_work = tuple(gpu for gpu, level in levels.items() if level >= _AT_WORK * most)
    samples = sum(busy[gpu].size for gpu in at_work)
    total = sum(len(watts_by_gpu[gpu]) for gpu in at_work)
    if total > samples and min(busy[gpu].size for gpu in at_work) < _LEAST_SAMPLES:
        raise AdvisorError(
            f"{name}: fewer than {_LEAST_SAMPLES} samples of a GPU show it at work; log more "
            "often or for longer"
        )
    idle = tuple(gpu for gpu in watts_by_gpu if gpu not in at_work)
    return PowerLog(
        float(np.mean([levels[gpu] for gpu in at_work])),
        at_work,
        idle,
        samples,
        total - samples,
        name,
    )


def _busy(watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The samples above the middle between idle and busy. All of a log without an idle part.

    The levels are the means on both sides of their own middle, found from the middle of the range
    (Ridler and Calvard, IEEE Transactions on Systems, Man and Cybernetics 8, 1978): how long the
    run took of the log plays no part.
    """
    stray = int(_STRAY * watts.size)
    low, high = np.partition(watts, (stray, watts.size - 1 - stray))[
        [stray, watts.size - 1 - stray]
    ]
    inner = np.clip(watts, low, high)
    for _ in range(_ROUNDS):
        above = inner >= (low + high) / 2.0
        if above.all():
            return watts
        low = inner[~above].mean()
        high = inner[above].mean()
    return watts if high < _STEADY * low else watts[watts >= (low + high) / 2.0]


_ROUNDS = 20
"""More than any log needs until the middle stands still. [-]"""


def _nvidia_smi(name: str, text: str) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line that has a power. A line that says N/A has none."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader)]
    except (StopIteration, csv.Error):
        header = []
    column = next((i for i, cell in enumerate(header) if cell.startswith("power.draw")), None)
    if column is None:
        raise AdvisorError(f"{name} has no column power.draw in its first line; {_HOW}")
    gpu_column = next(
        (i for i, cell in enumerate(header) if cell in ("index", "uuid", "pci.bus_id", "name")),
        None,
    )
    unit = "mW" if "[mW]" in header[column] else "W"
    try:
        for row in reader:
            if len(row) > column and (watts := _watts(row[column], unit)) is not None:
                yield row[gpu_column] if gpu_column is not None else "0", watts
    except csv.Error as error:
        raise AdvisorError(f"{name}: line {reader.line_num} is no CSV ({error})") from error


def _dcgm(name: str, lines: list[str]) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line of `dcgmi dmon`. Its heading must name a column of power."""
    place = None
    for line in lines:
        if line.startswith("#") and "Entity" in line:
            headings = [word.upper() for word in line.lstrip("#").replace("Entity", "").split()]
            place = next((i for i, word in enumerate(headings) if word in _DCGM_POWER), None)
            continue
        match = _DCGM_LINE.match(line)
        if match is None:
            continue
        if place is None:
            raise AdvisorError(
                f"{name} has no heading (#Entity ...) with a column {' or '.join(_DCGM_POWER)}; "
                f"{_HOW}"
            )
        if (
            len(cells := match[2].split()) > place
            and (watts := _watts(cells[place], "W")) is not None
        ):
            yield match[1], watts


def _watts(cell: str, unit: str) -> float | None:
    """A cell in watts. None for one that says there is no value."""
    match = _NUMBER.fullmatch(cell.strip())
    if match is None:
        return None
    milli = match[2] == "m" or (unit == "mW" and not cell.strip().endswith("W"))
    return float(match[1]) / (1000.0 if milli else 1.0)
