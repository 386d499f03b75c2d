"""JSON that came from outside: each key once, and nesting that Python cannot follow as the error it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


class RepeatedKeyError(ValueError):
    """A key that stands twice in one object, so that its value is ambiguous."""


def read_json(text: str | bytes) -> Any:
    """A JSON document.

    Raises RepeatedKeyError for a key that stands twice in one object, and ValueError for everything else that is no
    JSON: broken text, numbers of thousands of digits, objects nested deeper than Python follows.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = json.dumps(key[:60])
                raise RepeatedKeyError(f"the key {shown} occurs twice in one object, so its value is ambiguous")
            seen.add(key)
    return values
