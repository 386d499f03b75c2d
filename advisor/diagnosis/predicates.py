"""The tests that a rule can name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from advisor.diagnosis.rules import TestName

NEAR = 0.15
"""Share within which values are alike: that of `ingest.contradictions`. [-]"""


def _near(value: float, limit: float) -> bool:
    return value > 0 and limit > 0 and abs(math.log(value / limit)) <= math.log1p(NEAR)


HOLDS: dict[TestName, Callable[[Any, Any], bool]] = {
    "above": lambda value, limit: value > limit,
    "at_least": lambda value, limit: value >= limit,
    "below": lambda value, limit: value < limit,
    "near": _near,
    "is": lambda value, limit: value == limit,
    "contains": lambda value, limit: str(limit) in str(value).split(),
}
IN_WORDS: dict[TestName, str] = {
    "above": "above",
    "at_least": "at least",
    "below": "below",
    "near": f"within {NEAR:.0%} of",
    "is": "is",
    "contains": "names",
}
