"""Accepted drafts per step from a user's file: lists, vLLM's replies and AIPerf's records, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from advisor.prediction import AdvisorError
from advisor.runtime.acceptance_process import RecordedSteps
from advisor.text import RepeatedKeyError, read_json

MAX_TRACE_BYTES = 20_000_000
MAX_TRACE_STEPS = 2_000_000
MAX_TRACE_REQUESTS = 20_000
_STEPS = "per_step_accepted"
"""Field of vLLM's `metrics.speculative_decoding` (docs.vllm.ai, per-request acceptance metrics, 0.29 to 0.33, read
2026-11-22), which AIPerf's records carry on. A step that drafted nothing accepted nothing."""
_MAX_DEPTH = 6
_FORMATS = (
    "give JSON ([3, 0, 2] or [[3, 0, 2], [1, 1]]: accepted drafts of each step, one list for each request), vLLM's "
    "replies with --per-request-spec-decode-metrics detailed, one to a line or in a list, or CSV with a column "
    "`accepted` and, for several requests, a column `request`"
)


def recorded(data: bytes, file_name: str) -> RecordedSteps:
    """Accepted drafts per step from an engine's log, as JSON or CSV. Raises AdvisorError saying what is wrong where."""
    if len(data) > MAX_TRACE_BYTES:
        raise AdvisorError(f"{file_name} has {len(data):,} bytes; at most {MAX_TRACE_BYTES:,} are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{file_name} is not a text file; {_FORMATS}") from error
    if not text.strip():
        raise AdvisorError(f"{file_name} is empty; {_FORMATS}")
    rows = _json_rows(text, file_name) if text.lstrip()[0] in "[{" else _csv_rows(text, file_name)
    if len(rows) > MAX_TRACE_REQUESTS or sum(map(len, rows)) > MAX_TRACE_STEPS:
        raise AdvisorError(
            f"{file_name} holds {len(rows):,} requests and {sum(map(len, rows)):,} steps; "
            f"at most {MAX_TRACE_REQUESTS:,} and {MAX_TRACE_STEPS:,} are read"
        )
    return RecordedSteps.from_array(rows)


def _json_rows(text: str, file_name: str) -> list[list[int]]:
    content = _json_content(text, file_name)
    steps = list(_reported(content, 0))
    if steps:
        content = steps
    elif isinstance(content, dict):
        content = content.get("accepted")
    if not isinstance(content, list) or not content or isinstance(content[0], dict):
        raise AdvisorError(f"{file_name} holds no list of accepted drafts; {_FORMATS}")
    rows = content if isinstance(content[0], list) else [content]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or not row:
            raise AdvisorError(f"{file_name}, request {number}: expected a list of accepted drafts; {_FORMATS}")
        for step, value in enumerate(row, start=1):
            if isinstance(value, bool) or not isinstance(value, int):
                raise AdvisorError(
                    f"{file_name}, request {number}, step {step}: {str(value)[:20]!r} is no whole number"
                )
    return rows


def _json_content(text: str, file_name: str) -> Any:
    """The one value of a JSON file, or the list of those of a file with one to each line."""
    try:
        return read_json(text)
    except RepeatedKeyError as error:
        raise AdvisorError(f"{file_name}: {error}; remove one of them") from error
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise AdvisorError(f"{file_name} is not valid JSON; {_FORMATS}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(read_json(line))
        except ValueError as error:
            raise AdvisorError(f"{file_name}, line {number}, is not valid JSON; {_FORMATS}") from error
    return found


def _reported(content: Any, depth: int) -> Iterator[list[Any]]:
    """What each request's steps accepted, in vLLM's replies or AIPerf's records: every non-empty list named _STEPS."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(content, dict):
        own = content.get(_STEPS)
        if isinstance(own, list) and own:
            yield own
            return
        for value in content.values():
            yield from _reported(value, depth + 1)
    elif isinstance(content, list):
        for value in content:
            if isinstance(value, dict):
                yield from _reported(value, depth + 1)


def _csv_rows(text: str, file_name: str) -> list[list[int]]:
    try:
        reader = csv.DictReader(io.StringIO(text))
        names = [(name or "").strip() for name in reader.fieldnames or ()]
        if "accepted" not in names:
            raise AdvisorError(f"{file_name} has no column `accepted`; {_FORMATS}")
        reader.fieldnames = names
        by_request: dict[str, list[int]] = {}
        for line in reader:
            cell = (line["accepted"] or "").strip()
            if not cell.isascii() or not cell.isdigit():
                raise AdvisorError(
                    f"{file_name}, line {reader.line_num}, column accepted: {cell[:20]!r} is no whole number >= 0"
                )
            by_request.setdefault((line.get("request") or "").strip(), []).append(int(cell))
    except csv.Error as error:
        raise AdvisorError(f"{file_name} is not a CSV file: {error}; {_FORMATS}") from error
    if not by_request:
        raise AdvisorError(f"{file_name} has a header but no steps; {_FORMATS}")
    return list(by_request.values())
