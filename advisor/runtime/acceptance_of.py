"""Acceptance processes for a scenario: independent rounds, good and bad passages, or a recorded trace from a file."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.prediction import AdvisorError
from advisor.runtime.acceptance_process import PerPosition, RecordedSteps, Switching
from advisor.runtime.costs import FloatArray

MAX_TRACE_BYTES = 20_000_000
MAX_TRACE_STEPS = 2_000_000
MAX_TRACE_REQUESTS = 20_000
DEFAULT_SPREAD = 1.5
"""Assumed, in logits: how far good and bad passages lie above and below the middle. No engine publishes it."""
DEFAULT_PASSAGE_TOKENS = 40.0
"""Assumed mean passage length; the same as the copying passages of advisor/studies/runtime/workloads.py. [tokens]"""
_FORMATS = (
    "give JSON ([3, 0, 2] or [[3, 0, 2], [1, 1]]: accepted drafts of each step, one list for each request) or CSV with "
    "a column `accepted` and, for several requests, a column `request`"
)


def concave(accepted_length: ArrayLike) -> FloatArray:
    """Nearest AL(0..k_max) that any acceptance process can have: it grows by ever smaller steps between 0 and 1.

    Measured curves may bend the other way by noise. Least squares on the growth per draft (isotonic regression).
    """
    from scipy.optimize import isotonic_regression

    growth = np.diff(np.asarray(accepted_length, dtype=float))
    survival = np.clip(isotonic_regression(growth, increasing=False).x, 0.0, 1.0)
    return np.concatenate([[1.0], 1.0 + np.cumsum(survival)])


def per_position(accepted_length: ArrayLike) -> PerPosition:
    """Independent rounds whose mean accepted length at each K is the given AL(0..k_max), made concave."""
    return PerPosition.from_accepted_length(concave(accepted_length))


def switching_around(
    accepted_length: ArrayLike,
    k_draft: int,
    *,
    spread: float = DEFAULT_SPREAD,
    good_share: float = 0.5,
    good_tokens: float = DEFAULT_PASSAGE_TOKENS,
) -> Switching:
    """Good and bad passages whose mean accepted length at one K is the scenario's.

    Parameters
    ----------
    accepted_length : AL(0..k_max). [tokens per round]
    k_draft : the K at which the mean is kept, 1..k_max. [1]
    spread : distance of both kinds from the middle, in logits of the conditional acceptance; 0 is no switching. [1]
    good_share : share of output tokens in good passages, inside (0, 1). [1]
    good_tokens : mean length of a good passage; bad ones follow from the share. [tokens]

    Notes
    -----
    An engine's accepted length is tokens over rounds, so passages combine as 1 / AL = share / AL_good +
    (1 - share) / AL_bad. The middle of the two is shifted until that holds (bisection).
    """
    length = concave(accepted_length)
    if not 1 <= k_draft < length.size:
        raise AdvisorError(f"k_draft={k_draft} must lie in 1..{length.size - 1}")
    if not 0 < good_share < 1 or spread < 0 or good_tokens < 1:
        raise AdvisorError("good_share must lie inside (0, 1), spread not be negative, good_tokens be at least 1")
    bad_tokens = good_tokens * (1 - good_share) / good_share
    if bad_tokens < 1:
        raise AdvisorError("good_share leaves bad passages shorter than one token; lower it or lengthen good_tokens")
    middle = np.clip(PerPosition.from_accepted_length(length).conditional, 1e-6, 1 - 1e-6)
    logit = np.log(middle / (1 - middle))

    def lists(shift: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        good, bad = (1 / (1 + np.exp(-(logit + shift + side * spread))) for side in (1.0, -1.0))
        return tuple(map(float, good)), tuple(map(float, bad))

    def mean_at(shift: float) -> float:
        good, bad = (PerPosition(c).accepted_length(k_draft)[-1] for c in lists(shift))
        return float(1 / (good_share / good + (1 - good_share) / bad))

    low, high = -20.0, 20.0
    for _ in range(60):
        shift = (low + high) / 2
        low, high = (shift, high) if mean_at(shift) < length[k_draft] else (low, shift)
    good, bad = lists((low + high) / 2)
    return Switching(good, bad, good_tokens, bad_tokens)


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
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AdvisorError(f"{file_name} is not valid JSON; {_FORMATS}") from error
    if isinstance(content, dict):
        content = content.get("accepted")
    if not isinstance(content, list) or not content:
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
