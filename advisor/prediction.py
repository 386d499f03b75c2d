"""The one alias for arrays of numbers, and how arguments become such arrays.

What a number is worth: its tier, its band, and where a constant came from.
"""

import datetime as dt
import enum
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from advisor import AdvisorError as AdvisorError

Array = NDArray[np.float64]
Floats = float | Array
"""A number, or an array of numbers that broadcasts with its neighbours."""


def arrays(*values: ArrayLike) -> tuple[Array, ...]:
    """Each of `values` as an array of floats, shapes as they are."""
    return tuple(np.asarray(value, float) for value in values)


BAND_SIGMAS = 1.2815515655446004
"""Half-width of an 80 % band (`bands.BAND_LEVEL`) in standard deviations: the standard normal
quantile of 0.9. [-]"""
Confidence = Literal["high", "medium", "low"]
OriginKind = Literal["vendor", "measured", "paper", "fitted", "assumed", "user"]
"""`paper`: published by others than the vendor, an article or a list; `user`: given by the user,
who alone can say how good it is."""


def quantiles(values: Array, shares: Sequence[float]) -> Array:
    """Quantiles over the first axis, [shares, ...], straight between order statistics. [as the
    values]

    To the last bit those of np.quantile, whose first call loads numpy.ma: a twentieth of what
    `curve` takes.
    """
    at = np.array(shares) * (len(values) - 1)
    below = np.floor(at).astype(int)
    above = np.minimum(below + 1, len(values) - 1)
    ordered = np.sort(values, axis=0)  # a third of what np.partition takes on a few hundred draws
    low = ordered[below]
    high = ordered[above]
    part = (at - below).reshape(-1, *([1] * (values.ndim - 1)))
    interpolated = np.where(
        part < 0.5, low + (high - low) * part, high - (high - low) * (1.0 - part)
    )
    return np.where(np.isnan(ordered[-1]), np.nan, interpolated)  # not a number stands last


_IN_WORDS = {
    "Input should be a valid ": "expected a ",
    "Input should be ": "expected ",
    "expected a integer": "expected a whole number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}
"""What pydantic says, and how we do."""


def explain(error: ValidationError) -> str:
    """One plain line from a pydantic error: the field, its value, and what was expected."""
    parts = []
    for problem in error.errors():
        field = ".".join(str(step) for step in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        for theirs, ours in _IN_WORDS.items():
            message = message.replace(theirs, ours)
        if problem["type"] == "missing":
            parts.append(f"{field} is missing")
        elif problem["type"] == "extra_forbidden":
            parts.append(f"{field!r} is not a setting of a scenario")
        elif field:
            parts.append(f"{field}={problem['input']!r}: {message[0].lower()}{message[1:]}")
        else:
            parts.append(message)
    return "; ".join(" ".join(line.split())[:300] for line in parts)


class Frozen(BaseModel):
    """Base of every value type at the boundary: immutable, and unknown fields are refused."""

    # Files that every command loads import no annotations from __future__: pydantic compiles those
    # at every start.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Tier(enum.StrEnum):
    """Way in which a number was obtained, best first."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    FITTED = "fitted"
    ROOFLINE = "roofline"

    @property
    def rank(self) -> int:
        """0 for the best tier. [-]"""
        return _RANKS[self]


_RANKS = {tier: rank for rank, tier in enumerate(Tier)}


def lowest(tiers: list[Tier]) -> Tier:
    """The tier of a result that rests on all of `tiers`. Raises ValueError when the list is
    empty."""
    if not tiers:
        raise ValueError("a result needs the tier of at least one component")
    return max(tiers, key=lambda tier: tier.rank)


class Constant(Frozen):
    """A number with its unit and its origin. The profile loader refuses one without a source."""

    value: float
    unit: str = Field(min_length=1)
    kind: OriginKind
    source: str = Field(min_length=3)
    date: dt.date
    confidence: Confidence
    note: str = ""

    @field_validator("value")
    @classmethod
    def _finite(cls, value: float) -> float:
        if value != value or abs(value) == float("inf"):
            raise ValueError("a constant must be a finite number")
        return value


class Prediction(Frozen):
    """A predicted value with its 80 % band, tier, and the reason for that tier."""

    value: float
    low: float
    high: float
    tier: Tier
    because: str = Field(min_length=1)
    extrapolated: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> "Prediction":
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"band [{self.low}, {self.high}] does not contain the value {self.value}"
            )
        return self
