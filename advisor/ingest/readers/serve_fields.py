"""What the serving benchmarks of vLLM, SGLang, ATOM and InferenceX share: names of times, what follows from counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog import engine_called, model_ids
from advisor.ingest.cells import Cells
from advisor.ingest.derived import acceptance_by_position_text, accepted_length_from_counts
from advisor.ingest.names import match_model
from advisor.ingest.raw import FieldMap, field_of, floats
from advisor.ingest.result import shorten
from advisor.text import counted

MS = 1e-3
PER_POSITION = "spec_decode_per_position_acceptance_rates"
_WHOLE_TOLERANCE = 1e-3
"""Draft tokens per draft this close to an integer are a fixed K."""
_TIMES = {
    "tpot_s": ("tpot",),
    "itl_s": ("itl",),
    "ttft_s": ("ttft",),
    "request_latency_s": ("e2el", "e2e_latency"),
}
"""Our columns, and how the tools call them between `mean_` and the unit."""
_MIDDLES = ("mean", "median", "p50")
"""Means first, since our columns are means; a file that has none gives its median. Not so for the time between
chunks, whose median says nothing of its mean: most chunks of a stream may come at once."""


def time_fields(ending: str = "_ms", within: str = "") -> dict[str, tuple[str, ...]]:
    """Field names that may hold each of our times, best first. `within` is the path of the object they stand in."""
    return {
        column: tuple(
            f"{within}{middle}_{name}{ending}"
            for middle in (_MIDDLES[:1] if column == "itl_s" else _MIDDLES)
            for name in names
        )
        for column, names in _TIMES.items()
    }


def time_maps(ending: str = "_ms", scale: float = MS, within: str = "") -> tuple[FieldMap, ...]:
    """Field maps of our four times."""
    return tuple(FieldMap(column, sources, scale) for column, sources in time_fields(ending, within).items())


def medians_note(records: Iterable[Mapping[str, Any]], ending: str = "_ms", within: str = "") -> list[str]:
    """The sentence that names the times whose mean no record has, where a median stands in. None otherwise."""
    records = list(records)
    columns = []
    for column, sources in time_fields(ending, within).items():
        found = {next((s for s in sources if field_of(record, s) is not None), "") for record in records} - {""}
        if found and not any(source.removeprefix(within).startswith("mean") for source in found):
            columns.append(column)
    return [f"{', '.join(columns)}: the file gives no mean, so the median stands in"] if columns else []


def model_cells(records: Sequence[Mapping[str, Any]], paths: tuple[str, ...]) -> tuple[Cells, list[str]]:
    """Names of models, [rows].

    The first of several fields that names a model we know, else the first there is.

    A server is often called by a name of its own, while its tokenizer or its path still is the checkpoint's. Also what
    is to be said where another field than the first named the model.
    """
    found = [_model_of(record, paths) for record in records]
    notes = {
        f"model_id taken from {path.rpartition('.')[2]} ({shorten(value)}): {shorten(stated)!r} names no known model"
        for record, (value, path) in zip(records, found, strict=True)
        if path != paths[0] and isinstance(stated := field_of(record, paths[0]), str) and value != stated
    }
    return Cells([value for value, _ in found], [path for _, path in found]), sorted(notes)


def _model_of(record: Mapping[str, Any], paths: tuple[str, ...]) -> tuple[str | None, str]:
    names = [(value, path) for path in paths if isinstance(value := field_of(record, path), str) and value.strip()]
    return next((pair for pair in names if _is_known(pair[0])), names[0] if names else (None, paths[0]))


@lru_cache(maxsize=1024)  # a sweep repeats few of them
def _is_known(text: str) -> bool:
    return match_model(text, model_ids()) is not None


def serving_engine(record: Mapping[str, Any]) -> str | None:
    """Engine where the file proves it.

    Named as its backend or framework, or its own counters are in the file.

    A client that speaks a common protocol (`openai`, `openai-chat`) does not say which server answered.
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
    """Acceptance by position as text, and the number of positions, [rows].

    It is read from lists or their printed form.
    """
    texts = [acceptance_by_position_text(_parsed(value)) for value in values]
    positions = [None if text is None else text.count(";") + 1 for text in texts]
    return {"acceptance_by_position": Cells(texts, PER_POSITION), "_positions": Cells(positions, PER_POSITION)}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def finish_serve(frame: pd.DataFrame) -> list[str]:
    """Lengths per request, accepted length from counts, and K from counts or from the number of positions."""
    notes: list[str] = []
    completed = floats(frame, "_completed")
    lengths = (("input_tokens", "_total_input", "_asked_input"), ("output_tokens", "_total_output", "_asked_output"))
    with np.errstate(invalid="ignore", divide="ignore"):
        for name, total, asked in lengths:
            mean = pd.Series(floats(frame, total) / completed, index=frame.index).where(completed > 0)
            frame[name] = frame[name].fillna(mean).fillna(pd.Series(floats(frame, asked), index=frame.index))
        drafts, draft_tokens = floats(frame, "_drafts"), floats(frame, "_draft_tokens")
        length = accepted_length_from_counts(floats(frame, "_accepted"), drafts)
        per_draft = np.where(drafts > 0, draft_tokens / drafts, np.nan)
    empty = frame["accepted_length"].isna().to_numpy() & ~np.isnan(length)
    if empty.any():
        frame.loc[empty, "accepted_length"] = length[empty]
        notes.append(f"accepted_length computed in {counted(int(empty.sum()), 'row')} as 1 + accepted tokens / drafts")
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1
    _fill_k(frame, floats(frame, "_positions"), "the number of draft positions reported", notes)
    whole = np.where(np.abs(per_draft - np.round(per_draft)) <= _WHOLE_TOLERANCE, np.round(per_draft), np.nan)
    _fill_k(frame, whole, "draft tokens / drafts", notes)
    varying = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(per_draft)
    if varying.any():
        notes.append(
            f"draft length varied in {counted(int(varying.sum()), 'row')} "
            f"(mean {np.nanmean(per_draft[varying]):.2f}); state K"
        )
    return notes


def _fill_k(frame: pd.DataFrame, k: np.ndarray, how: str, notes: list[str]) -> None:
    empty = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(k)
    if empty.any():
        frame.loc[empty, "draft_tokens_k"] = k[empty].astype(int)
        notes.append(f"draft_tokens_k taken in {counted(int(empty.sum()), 'row')} from {how}")


def version_of_image(image: Any) -> str | None:
    """Version in a container's name, `0.5.23` of `lmsysorg/sglang:v0.5.23-cu13`.

    The whole name where its tag has no version.
    """
    if not isinstance(image, str):
        return None
    found = re.search(r":v?(\d+(?:\.\d+)+[\w.]*)", image)
    return found[1] if found else image
