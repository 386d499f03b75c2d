"""Raw cells by canonical column, as readers hand them over, and what the serving benchmarks
share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from advisor.catalog.engines import engine_called
from advisor.catalog.models import model_meant
from advisor.measured.ingest.cells import (
    Cells,
    FileTable,
    Mapped,
    check_text,
    comma_is_decimal,
    strings,
    to_numbers,
    without_rate,
)
from advisor.measured.ingest.columns import (
    COLUMNS,
    CanonicalColumn,
    TableKind,
    cache_dtype,
    drafter_name,
    engine_name,
    routing_name,
    weight_dtype,
)
from advisor.measured.ingest.derived import acceptance_by_position_text, accepted_length_from_counts
from advisor.measured.ingest.result import (
    ReadNote,
    Reject,
    noted,
    rejects_frame,
    rows_noted,
    shorten,
    warned,
)
from advisor.measured.ingest.side_by_side import metric_name
from advisor.measured.ingest.upload import Sample
from advisor.text import number_of

TEMPORARY = "_"
"""Columns whose names begin so are numbers that a reader needs to compute others; they are dropped
afterwards."""
_TEMPORARY_COLUMN = CanonicalColumn(name="value", type="number", meaning="", low=-1e15, high=1e15)
NAME_MAPS: dict[str, Callable[[str], str | None]] = {
    "engine": engine_name,
    "weight_dtype": weight_dtype,
    "drafter": drafter_name,
    "metric": metric_name,
    "kv_dtype": cache_dtype,
    "routing": routing_name,
}


@dataclass
class RawRows:
    """Raw cells by canonical column, as a reader found them.

    `finish` may fill canonical columns from temporary ones; it gets the coerced frame, changes it,
    and notes how.
    """

    kind: TableKind
    lines: np.ndarray
    cells: dict[str, Cells]
    rejects: list[Reject] = field(default_factory=list)
    prefill: dict[str, Any] = field(default_factory=dict)
    notes: list[ReadNote] = field(default_factory=list)
    finish: Finish | None = None
    decimal_comma: bool | None = None
    """What a user says that commas in numbers mark; None: the cells tell."""

    def note(self, kind: str, **facts: Any) -> None:
        """Note what the user has to know of the rows."""
        self.notes.append(noted(kind, **facts))

    def name_models(self, records: Sequence[Mapping[str, Any]], *paths: str) -> None:
        """Fill model_id from the first of several fields that names a model we know.

        Where none does, from the first that names any.

        A server is often called by a name of its own, while its tokenizer or its path still is the
        checkpoint's; it is noted where another field than the first named the model.
        """
        chosen: list[tuple[str | None, str]] = []
        for record in records:
            values = [(field_of(record, path), path) for path in paths]
            names = [pair for pair in values if isinstance(pair[0], str) and pair[0].strip()]
            first = names[0] if names else (None, paths[0])
            name, path = next((pair for pair in names if _is_known(pair[0])), first)
            chosen.append((name, path))
            stated = values[0][0]
            if path != paths[0] and isinstance(stated, str) and name != stated:
                names_of_model = {"name": shorten(name), "stated": shorten(stated)}
                self.note("model_from", field=path.rpartition(".")[2], **names_of_model)
        self.cells["model_id"] = Cells([name for name, _ in chosen], [path for _, path in chosen])

    def constant(self, column: str, value: Any, source: str = "(format)") -> None:
        """Give every row the same value."""
        self.cells[column] = Cells(
            pa.repeat(pa.scalar(str(value), pa.large_string()), len(self.lines)), source
        )


Finish = Callable[[pd.DataFrame, RawRows], None]


@dataclass(frozen=True)
class Format:
    """A format that can be read: its id, the tool's name for it, how it is recognized and read.

    `detect` scores a sample from 0 to 1 by its content alone. `wants`: the fields of a JSON record
    that it goes by (`a|b`: either; dots descend), so that a near miss can be told what it lacks.
    """

    id: str
    name: str
    detect: Callable[[Sample], float]
    read: Callable[[Sample], RawRows]
    wants: tuple[str, ...] = ()

    @classmethod
    def of_fields(
        cls,
        id: str,
        name: str,
        score: float,
        read: Callable[[Sample], RawRows],
        wants: tuple[str, ...],
    ) -> Format:
        """A format of JSON records, with this score where the first one has all that it `wants`,
        null or not."""

        def detect(sample: Sample) -> float:
            return (
                score
                if sample.is_json and all(_has(sample.first, field) for field in wants)
                else 0.0
            )

        return cls(id, name, detect, read, wants)


def _has(record: Mapping[str, Any], wanted: str) -> bool:
    return any(path in record or field_of(record, path) is not None for path in wanted.split("|"))


@dataclass(frozen=True)
class FieldMap:
    """Canonical column <- the first of `sources` that a record has (dots descend), times
    `scale`."""

    column: str
    sources: tuple[str, ...]
    scale: float = 1.0


def field_maps(scale: float = 1.0, /, **sources: str) -> tuple[FieldMap, ...]:
    """A map for each column from its fields, `a|b` where it has several."""
    return tuple(
        FieldMap(column, tuple(paths.split("|")), scale) for column, paths in sources.items()
    )


def field_of(record: Any, path: str) -> Any:
    """The value at a dotted path of nested objects. A key that itself holds dots wins. None when
    absent."""
    if isinstance(record, dict) and path in record:
        return record[path]
    for part in path.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(part)
    return record


def keep_objects(sample: Sample) -> tuple[list[dict[str, Any]], np.ndarray, list[Reject]]:
    """The records that are objects, their line numbers, and a refusal for every other one."""
    pairs = list(zip(sample.records, sample.lines, strict=True))
    records = [record for record, _ in pairs if isinstance(record, dict)]
    lines = np.array([line for record, line in pairs if isinstance(record, dict)], dtype=np.int64)
    wrong = [
        Reject(line, "", shorten(record), "expected a JSON object")
        for record, line in pairs
        if not isinstance(record, dict)
    ]
    return records, lines, [*sample.rejects, *wrong]


def from_records(
    records: Sequence[Mapping[str, Any]], maps: Sequence[FieldMap]
) -> dict[str, Cells]:
    """Raw cells of JSON records [rows]. Columns that no record has are left out."""
    cells: dict[str, Cells] = {}
    for field_map in maps:
        values: list[Any] = [None] * len(records)
        sources = [field_map.sources[0]] * len(records)
        for row, record in enumerate(records):
            for source in field_map.sources:
                value = field_of(record, source)
                if value is not None:
                    values[row] = value
                    sources[row] = source
                    break
        if any(value is not None for value in values):
            same_source = len(set(sources)) == 1
            cells[field_map.column] = Cells(
                values, sources[0] if same_source else sources, field_map.scale
            )
    return cells


def with_header(score: float, *cells: str) -> Callable[[Sample], float]:
    """Detection: `score` for text whose header has all these cells, which stand in its `args`."""
    return partial(_of_header, cells, score=score)


def _of_header(cells: Sequence[str], sample: Sample, score: float) -> float:
    return score if sample.kind == "text" and {*cells} <= set(sample.header) else 0.0


def raw_points(
    sample: Sample,
    maps: Sequence[FieldMap],
    finish: Finish | None = None,
    models: tuple[str, ...] = (),
    **constants: str,
) -> tuple[RawRows, list[dict[str, Any]]]:
    """A row for each object of a JSON sample, and those objects.

    models : fields that may name the model, as `RawRows.name_models` takes them.
    constants : values of every row, by column.
    """
    records, lines, rejects = keep_objects(sample)
    raw = RawRows("points", lines, from_records(records, maps), rejects, finish=finish)
    for column, value in constants.items():
        raw.constant(column, value)
    if models:
        raw.name_models(records, *models)
    return raw, records


def from_table(table: FileTable, maps: Sequence[FieldMap]) -> dict[str, Cells]:
    """Raw cells of a CSV table by field map. The first source header that is present is taken."""
    cells: dict[str, Cells] = {}
    for item in maps:
        for source in item.sources:
            column = table.column(source)
            if column is not None:
                cells[item.column] = Cells(column, source, item.scale)
                break
    return cells


def from_mapped(table: FileTable, mapped: Mapped) -> dict[str, Cells]:
    """Raw cells of a table with matched headers, and the metric that a pair of them says."""
    cells = {
        name: Cells(table.columns[index], table.header[index], factor)
        for name, (index, factor) in mapped.columns.items()
    }
    if mapped.pair is not None and mapped.pair.metric is not None:
        cells.setdefault("metric", Cells([mapped.pair.metric] * len(table.lines), "(headers)"))
    return cells


def floats(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as floats with NaN for unknown [rows]. All NaN when the file had no such field."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return frame[name].to_numpy(dtype=float, na_value=np.nan)


def coerce(raw: RawRows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Typed frame of the good rows, and the rejects of the others. Index `line`, canonical and
    temporary columns."""
    spec = COLUMNS[raw.kind]
    numeric = {name for name in raw.cells if name.startswith(TEMPORARY) or spec[name].numeric}
    decimal_comma = raw.decimal_comma
    if decimal_comma is None:
        decimal_comma = comma_is_decimal(
            [raw.cells[name].values for name in raw.cells if name in numeric]
        )
    good = np.ones(len(raw.lines), dtype=bool)
    rejects = list(raw.rejects)
    series: dict[str, Any] = {}
    for name, cells in raw.cells.items():
        column = spec.get(name, _TEMPORARY_COLUMN)
        text = strings(cells.values)
        cells.values = None  # column by column, so that a million raw cells are not kept twice
        if name in numeric:
            text = without_rate(text, column, cells.source)
            series[name], bad = to_numbers(text, column, cells.scale, decimal_comma)
        else:
            series[name] = text
            bad = check_text(text, column)
        good[bad.rows] = False
        rejects += [
            Reject(int(raw.lines[row]), cells.source_of(row), value, reason)
            for row, value, reason in zip(bad.rows, bad.values, bad.reasons, strict=True)
        ]
    pa.default_memory_pool().release_unused()
    index = pd.Index(raw.lines[good], name="line", dtype="int64")
    keep = None if good.all() else pa.array(good)
    data = {}
    for name in (*spec, *(name for name in series if name not in spec)):
        data[name] = _typed(
            series.pop(name, None), spec.get(name, _TEMPORARY_COLUMN), good, keep, index
        )
    if decimal_comma:
        raw.notes.append(warned("decimal_commas"))
    frame = pd.DataFrame(data, index=index)
    return frame, rejects_frame(rejects)


def _typed(
    values: Any, column: CanonicalColumn, good: np.ndarray, keep: pa.Array | None, index: pd.Index
) -> pd.Series:
    if column.numeric:
        numbers = np.full(len(index), np.nan) if values is None else values[good]
        whole = column.type in ("integer", "flag")
        result = pd.Series(numbers, index=index, dtype="float64")
        return result.astype("Int64") if whole else result
    if values is None:
        return pd.Series(pd.NA, index=index, dtype="str")
    texts = values if keep is None else values.filter(keep)
    rename = NAME_MAPS.get(column.name)
    if rename is not None:
        encoded = texts.dictionary_encode()
        words = [None if word is None else rename(word) for word in encoded.dictionary.to_pylist()]
        texts = pa.array(words, pa.large_string()).take(encoded.indices)
    return pd.Series(texts.to_pandas(), dtype="str").set_axis(index)


MS = 1e-3
PER_POSITION = "spec_decode_per_position_acceptance_rates"
_WHOLE_TOLERANCE = 1e-3
"""Draft tokens per draft this close to an integer are a fixed K."""
_CUT_SHORT = 0.02
"""Draft tokens per draft this near below the number of positions are that K: ends of requests cut
drafts short. [-]"""
_TIMES = {
    "tpot_s": ("tpot",),
    "itl_s": ("itl",),
    "ttft_s": ("ttft",),
    "request_latency_s": ("e2el", "e2e_latency"),
}
"""Our columns, and how the tools call them between `mean_` and the unit."""
_MIDDLES = ("mean", "median", "p50")
"""Means first, since our columns are means; a file that has none gives its median. Not so for the
time between chunks, whose median says nothing of its mean: most chunks of a stream may come at
once."""


def time_fields(within: str = "") -> dict[str, tuple[str, ...]]:
    """Field names that may hold each of our times, best first. `within` is the path of the object
    they stand in."""
    return {
        column: tuple(
            f"{within}{middle}_{name}_ms"
            for middle in (_MIDDLES[:1] if column == "itl_s" else _MIDDLES)
            for name in names
        )
        for column, names in _TIMES.items()
    }


def time_maps(within: str = "") -> tuple[FieldMap, ...]:
    """Field maps of our four times."""
    return tuple(FieldMap(column, sources, MS) for column, sources in time_fields(within).items())


def medians_note(records: Sequence[Mapping[str, Any]], within: str = "") -> list[ReadNote]:
    """The note that names the times whose mean no record has, where a median stands in. None
    otherwise."""
    columns = []
    for column, sources in time_fields(within).items():
        used_sources = {
            next((s for s in sources if field_of(record, s) is not None), "") for record in records
        } - {""}
        if used_sources and not any(
            source.removeprefix(within).startswith("mean") for source in used_sources
        ):
            columns.append(column)
    return [noted("medians", columns=tuple(columns))] if columns else []


@lru_cache(maxsize=1024)  # a sweep repeats few of them
def _is_known(text: str) -> bool:
    return model_meant(text) is not None


def serving_engine(record: Mapping[str, Any]) -> str | None:
    """Engine where the file proves it.

    Named as its backend or framework, or its own counters are in the file.

    A client that speaks a common protocol (`openai`, `openai-chat`) does not say which server
    answered.
    """
    if str(record.get("benchmark_backend", "")).upper() == "ATOM" or "acceptance_rate" in record:
        return "atom"
    for key in ("framework", "backend", "endpoint_type"):
        value = record.get(key)
        engine = engine_called(value) if isinstance(value, str) else None
        if engine is not None:
            return engine.id
    return "vllm" if any(str(key).startswith("spec_decode_") for key in record) else None


def by_position(values: list[Any]) -> dict[str, Cells]:
    """Acceptance by position as text, and the number of positions, [rows], of lists or their
    printed form."""
    texts = [acceptance_by_position_text(_parsed(value)) for value in values]
    positions = [None if text is None else text.count(";") + 1 for text in texts]
    return {
        "acceptance_by_position": Cells(texts, PER_POSITION),
        "_positions": Cells(positions, PER_POSITION),
    }


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def finish_serve(frame: pd.DataFrame, raw: RawRows) -> None:
    """Lengths per request, accepted length and K from counts. K without counts is the number of
    positions."""
    completed = floats(frame, "_completed")
    lengths = (
        ("input_tokens", "_total_input", "_asked_input"),
        ("output_tokens", "_total_output", "_asked_output"),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        for name, total, requested in lengths:
            mean = pd.Series(floats(frame, total) / completed, index=frame.index).where(
                completed > 0
            )
            frame[name] = (
                frame[name]
                .fillna(mean)
                .fillna(pd.Series(floats(frame, requested), index=frame.index))
            )
        drafts = floats(frame, "_drafts")
        draft_tokens = floats(frame, "_draft_tokens")
        length = accepted_length_from_counts(floats(frame, "_accepted"), drafts)
        per_draft = np.where(drafts > 0, draft_tokens / drafts, np.nan)
    empty = frame["accepted_length"].isna().to_numpy() & ~np.isnan(length)
    if empty.any():
        frame.loc[empty, "accepted_length"] = length[empty]
        raw.notes += rows_noted(length_from_drafts=empty)
    mark_same_run(frame)
    # A run with a table of K by batch reports the positions of its largest K, whatever it drafted.
    positions = floats(frame, "_positions")
    cut_short = np.abs(per_draft / positions - 1.0) <= _CUT_SHORT
    fill_k(frame, np.where(cut_short, positions, whole(per_draft)), "drafts", raw)
    fill_k(
        frame,
        np.where(np.isnan(per_draft), positions, np.nan),
        "positions",
        raw,
    )
    varying = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(per_draft)
    if varying.any():
        raw.note("k_varied", n=int(varying.sum()), mean=float(np.nanmean(per_draft[varying])))
    _drafted_positions(frame, varying)


def _drafted_positions(frame: pd.DataFrame, varying: np.ndarray) -> None:
    """Leave out acceptance at positions that a run did not draft, and all of it where K varied."""
    stated = frame["acceptance_by_position"].notna().to_numpy()
    longer = stated & (floats(frame, "draft_tokens_k") < floats(frame, "_positions"))
    for row in np.flatnonzero(longer | (stated & varying)):
        line = frame.index[row]
        k = frame["draft_tokens_k"].iloc[row]
        shares = str(frame["acceptance_by_position"].iloc[row]).split(";")
        frame.loc[line, "acceptance_by_position"] = (
            pd.NA if varying[row] or k < 1 else ";".join(shares[: int(k)])
        )


def mark_same_run(frame: pd.DataFrame) -> None:
    """Say of every accepted length that it was counted in its own run."""
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1


def whole(ratio: np.ndarray, tolerance: float = _WHOLE_TOLERANCE) -> np.ndarray:
    """Ratios that lie within `tolerance` [-] of an integer, as that integer. NaN for the others."""
    return np.where(np.abs(ratio - np.round(ratio)) <= tolerance, np.round(ratio), np.nan)


KFrom = Literal["drafts", "positions", "rounds", "steps"]
"""What drafted tokens were divided by for K, or the draft positions that were reported."""


def fill_k(frame: pd.DataFrame, k: np.ndarray, source: KFrom, raw: RawRows) -> None:
    """Fill empty K from `k`, NaN where it is not known, and note it."""
    empty = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(k)
    if empty.any():
        frame.loc[empty, "draft_tokens_k"] = k[empty].astype(int)
        raw.notes += rows_noted(**{f"k_from_{source}": empty})


def closed_loads(
    limits: Sequence[Any], rates: Sequence[Any], source: str = "max_concurrency"
) -> dict[str, Cells]:
    """The limit on requests of each run as its batch, [rows]. None for an open load, which sends at
    a rate.

    Such a run seldom fills its limit: its batch follows from its rate and its time per token. The
    tools write infinity where all may come at once.
    """
    sent = [number_of(rate) for rate in rates]
    closed = [
        None if rate is not None and rate > 0 else limit
        for limit, rate in zip(limits, sent, strict=True)
    ]
    kinds = [None if limit in (None, "") else "max_concurrency" for limit in closed]
    return {"batch_size": Cells(closed, source), "batch_kind": Cells(kinds, source)}


def loads_of(records: Sequence[Mapping[str, Any]], within: str = "") -> dict[str, Cells]:
    """Closed loads of records that state `max_concurrency` and `request_rate`, at the top or
    `within`."""
    limits = [field_of(record, f"{within}max_concurrency") for record in records]
    rates = [field_of(record, f"{within}request_rate") for record in records]
    return closed_loads(limits, rates)


def failures(
    records: Sequence[Mapping[str, Any]], failed: str = "failed", done: str = "completed"
) -> list[ReadNote]:
    """Warning that requests of some runs failed, [0..1]. failed, done : fields that count them."""
    counts = [
        (number_of(record.get(failed)) or 0.0, number_of(record.get(done)) or 0.0)
        for record in records
    ]
    if not (with_failures := [pair for pair in counts if pair[0] > 0]):
        return []
    n, n_done = map(sum, zip(*with_failures, strict=True))
    return [warned("failed", n=n, total=n + n_done, left=(len(with_failures), "run"))]


def version_of_image(image: Any) -> str | None:
    """Version in a container's name, `0.5.23` of `lmsysorg/sglang:v0.5.23-cu13`, or the name
    without one."""
    if not isinstance(image, str):
        return None
    match = re.search(r":v?([0-9]+(?:\.[0-9]+)+[\w.]*)", image)
    return match[1] if match else image
