"""How right ratios between choices were on measured pairs (profiles/validation/ratios.json), for
comparisons' bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from advisor.catalog.models import stored_format
from advisor.predict.setup import Setup
from advisor.profiles import PROFILES, read_made

ChoiceKind = Literal[
    "engine", "weights", "tensor parallel", "expert parallel", "accelerator", "batch"
]
"""What two points of a pair differ in."""
RATIOS = PROFILES / "validation" / "ratios.json"
MIN_PAIRS = 20
"""Fewer pairs than this say nothing of a kind of change. [-]"""
RIGHT = 0.8
"""Share of pairs whose direction must be right before a kind of change is offered. [-]"""


@dataclass(frozen=True)
class RatioRecord:
    """Pairs of points that differ in one choice: how far their measured ratio lies from the
    predicted one."""

    kind: str
    """engine, weights, tensor parallel, expert parallel, accelerator or batch."""
    before: str
    """The value changed from; empty: any. For engines, `sglang` with an empty `after` is every pair
    with SGLang."""
    after: str
    n: int
    """Pairs; 0 where a pool lends its range to a change that none of its pairs is like."""
    n_groups: int
    n_apart: int
    """Pairs measured more than 5 % apart, on which the direction is judged."""
    right: float | None
    """Share of them predicted on the side measured; None without any."""
    low: float
    """Measured over predicted ratio: the lower end of its 80 % range, below 1 where predictions are
    high."""
    high: float
    doublings: float | None = None
    """How often the choice doubles between the two; None where distance is not counted. [-]"""
    among: tuple[str, ...] = ()
    """For a pool of every change of a kind: the values that its pairs have. Empty: any, as of
    numbers."""

    @property
    def name(self) -> str:
        """The change in words: `engine trtllm -> vllm`."""
        return (
            f"{self.kind} {self.before} -> {self.after}"
            if self.before and self.after
            else f"{self.kind} changes"
        )

    @property
    def evidence(self) -> str:
        """Number of pairs on which its direction was right, in words."""
        if self.right is None:
            return "in no measured pair"
        return (
            f"predicted in the right direction in {self.right:.0%} of {self.n_apart} measured pairs"
        )

    @property
    def needed(self) -> str:
        """Share of right directions that it takes to count, in words beside `evidence`."""
        return f"{RIGHT:.0%} of {MIN_PAIRS} or more needed"

    @property
    def is_right(self) -> bool:
        """Whether enough pairs say that the direction of this change is predicted."""
        return self.right is not None and self.n_apart >= MIN_PAIRS and self.right >= RIGHT

    @property
    def is_wrong(self) -> bool:
        """Whether enough pairs say that the direction of this change is not predicted."""
        return self.right is not None and self.n_apart >= MIN_PAIRS and self.right < RIGHT


@lru_cache(maxsize=1)
def read_ratios(path: Path = RATIOS) -> tuple[RatioRecord, ...]:
    """The shipped records. Raises AdvisorError when the file is missing or damaged."""

    def record(entry: dict[str, Any]) -> RatioRecord:
        return RatioRecord(**(entry | {"among": tuple(entry.get("among", ()))}))

    return read_made(path, lambda found: tuple(map(record, found["records"])))


def ratio_record(kind: str, before: str = "", after: str = "") -> RatioRecord | None:
    """Record of one change, from its own pairs where they are MIN_PAIRS or more, in either
    direction.

    Else from all pairs of its kind, whose range is made even to both sides, since they were put in
    some order, and follows how often a number doubles. None where the kind has no pairs; without a
    direction where none of its pairs has one of the two values.
    """
    for record in read_ratios():
        if (
            record.kind == kind
            and {record.before, record.after} == {before, after}
            and record.n >= MIN_PAIRS
        ):
            if record.before == before:
                return record
            # The pair turned round: its ratio is the inverse, and so are the ends.
            return replace(
                record, before=before, after=after, low=1.0 / record.high, high=1.0 / record.low
            )
    pool = _pool(kind, before, after)
    if pool is None:
        return None
    lent = replace(pool, before=before, after=after)
    if pool.among and not {before, after} <= set(pool.among):
        lent = replace(lent, n=0, n_groups=0, n_apart=0, right=None)
    return lent


def _pool(kind: str, before: str, after: str) -> RatioRecord | None:
    """All pairs of a kind that are as far apart as this change, with a range even to both sides."""
    pool_name = "sglang" if kind == "engine" and "sglang" in (before, after) else ""
    pools = [record for record in read_ratios() if record.kind == kind and not record.after]
    engine_pools = [record for record in pools if record.before == pool_name]
    matching = engine_pools or [record for record in pools if not record.before]
    measured = [record for record in matching if record.n >= MIN_PAIRS]
    # Errors of doublings neither add up nor add as independent ones, so each distance has its own
    # range.
    by_distance = {record.doublings: record for record in measured if record.doublings is not None}
    if not by_distance:
        return None if not matching else _even(matching[0], _far(matching[0]))
    distance = _doublings(before, after)
    last = max(by_distance)
    nearest = by_distance[
        min((doublings for doublings in by_distance if doublings >= distance), default=last)
    ]
    return _even(nearest, _far_at({n: _far(by_distance[n]) for n in sorted(by_distance)}, distance))


def _far(record: RatioRecord) -> float:
    """Logarithm of the end of its range that is further from 1. [-]"""
    return math.log(max(record.high, 1.0 / record.low, 1.0))


def _even(record: RatioRecord, far: float) -> RatioRecord:
    return replace(record, low=math.exp(-far), high=math.exp(far))


def _doublings(before: str, after: str) -> float:
    """How often a number doubles or halves between two values. 1 for a change between names. [-]"""
    try:
        return abs(math.log2(float(after) / float(before)))
    except (ValueError, ZeroDivisionError):
        return 1.0


def _far_at(far_by_doublings: Mapping[float, float], doublings: float) -> float:
    """How far a measured ratio lies from the predicted one after so many doublings, in logarithms.
    [-]

    `known`: the same at each number of doublings that was measured, rising. Straight between, from
    none on; beyond the last in proportion. Errors of doublings neither add up nor add as
    independent ones (docs/validation.md).
    """
    at = [0.0, *far_by_doublings]
    return float(np.interp(doublings, at, [0.0, *far_by_doublings.values()])) * max(
        1.0, doublings / at[-1]
    )


_FAMILY = {
    "bf16": "bf16",
    "fp32": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int8": "fp8",
    "int4": "int4",
}
"""Formats as the measured points call them; nvfp4 and mxfp4 are their fp4."""


def records_between(before: Setup, after: Setup) -> tuple[RatioRecord, ...]:
    """Records of each choice in which two setups of one model differ. Those without measured pairs
    are left out."""
    changed = {
        kind: values for kind, values in _choices(before, after).items() if values[0] != values[1]
    }
    records = (ratio_record(kind, *values) for kind, values in changed.items())
    return tuple(record for record in records if record is not None)


def _choices(before: Setup, after: Setup) -> dict[ChoiceKind, tuple[str, str]]:
    """Each kind of choice with its value in both setups."""
    values = [
        {
            "engine": setup.scenario.engine,
            "weights": _FAMILY.get(stored_format(setup.architecture), "fp4"),
            "tensor parallel": str(setup.placement.tensor_parallel),
            "expert parallel": str(setup.placement.expert_parallel),
            "accelerator": setup.hardware.kernel_table_device or setup.hardware.id,
            "batch": str(setup.scenario.batch_size),
        }
        for setup in (before, after)
    ]
    return {kind: (values[0][kind], values[1][kind]) for kind in get_args(ChoiceKind)}


def measured_range(records: Sequence[RatioRecord]) -> tuple[float, float]:
    """80 % range of a measured time ratio over the predicted one, for independent changes. [-]
    Holds 1."""
    # Each side apart, since ranges are skewed; squares, as independent errors add.
    low = math.sqrt(sum(min(math.log(record.low), 0.0) ** 2 for record in records))
    high = math.sqrt(sum(max(math.log(record.high), 0.0) ** 2 for record in records))
    return math.exp(-low), math.exp(high)


def unproven(records: Sequence[RatioRecord]) -> RatioRecord | None:
    """Change whose direction measured pairs do not bear out: an engine unproven, anything else
    refuted."""
    return next(
        (
            record
            for record in records
            if record.is_wrong or (record.kind == "engine" and not record.is_right)
        ),
        None,
    )
