"""How right ratios between choices were on measured pairs, as shipped data: what comparisons take their bands from.

`make validation` writes profiles/validation/ratios.json from pairs of silicon points that differ in one choice alone.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from advisor.architecture import Architecture
from advisor.calibration import rounded
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES
from advisor.setup import Setup

RATIOS = PROFILES / "validation" / "ratios.json"
MIN_PAIRS = 20
"""Fewer pairs than this say nothing of a kind of change. [1]"""
RIGHT = 0.8
"""Share of pairs whose direction must be right before a kind of change is offered. [1]"""


@dataclass(frozen=True)
class RatioRecord:
    """Pairs of points that differ in one choice: how far their measured ratio lies from the predicted one."""

    kind: str
    """engine, weights, tensor parallel, expert parallel, accelerator or batch."""
    before: str
    """The value changed from; empty: any. For engines, `sglang` with an empty `after` is every pair with SGLang."""
    after: str
    n: int
    n_groups: int
    n_apart: int
    """Pairs measured more than 5 % apart, on which the direction is judged."""
    right: float | None
    """Share of them predicted on the side measured; None without any."""
    low: float
    """Measured over predicted ratio: the lower end of its 80 % range, below 1 where predictions are high."""
    high: float

    @property
    def name(self) -> str:
        """The change in words: `engine trtllm -> vllm`."""
        return f"{self.kind} {self.before} -> {self.after}" if self.before and self.after else f"{self.kind} changes"

    @property
    def evidence(self) -> str:
        """On how many pairs its direction was right."""
        if self.right is None:
            return "no measured pairs"
        return f"right in {self.right:.0%} of {self.n_apart} measured pairs"

    @property
    def is_right(self) -> bool:
        """Whether enough pairs say that the direction of this change is predicted."""
        return self.right is not None and self.n_apart >= MIN_PAIRS and self.right >= RIGHT

    @property
    def is_wrong(self) -> bool:
        """Whether enough pairs say that the direction of this change is not predicted."""
        return self.right is not None and self.n_apart >= MIN_PAIRS and self.right < RIGHT


def write_ratios(records: list[RatioRecord], source: str, path: Path = RATIOS) -> Path:
    """Write the records, one a line, with what they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(rounded(dataclasses.asdict(record))) for record in records)
    path.write_text(f'{{"source": {json.dumps(source)}, "records": [\n{lines}\n]}}\n', encoding="utf-8")
    return path


@lru_cache(maxsize=1)
def read_ratios(path: Path = RATIOS) -> tuple[RatioRecord, ...]:
    """The shipped records. Raises AdvisorError when the file is missing or damaged."""
    try:
        return tuple(RatioRecord(**each) for each in json.loads(path.read_text(encoding="utf-8"))["records"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdvisorError(
            f"profiles/validation/{path.name} cannot be read ({error}); run `make validation`"
        ) from error


def ratio_record(kind: str, before: str = "", after: str = "") -> RatioRecord | None:
    """What is known of one change: from its own pairs, in either direction, where they are MIN_PAIRS or more.

    Else from all pairs of its kind, whose range is made even to both sides, since they were put in some order. None
    where the kind has no pairs.
    """
    own = next(
        (
            each
            for each in read_ratios()
            if each.kind == kind and {each.before, each.after} == {before, after} and each.n >= MIN_PAIRS
        ),
        None,
    )
    if own is not None and own.before == before:
        return own
    if own is not None:
        return dataclasses.replace(own, before=before, after=after, low=1.0 / own.high, high=1.0 / own.low)
    pools = ("sglang", "") if kind == "engine" and "sglang" in (before, after) else ("",)
    by_pool = {each.before: each for each in read_ratios() if each.kind == kind and not each.after}
    every = next((by_pool[pool] for pool in pools if pool in by_pool), None)
    if every is None:
        return None
    far = max(every.high, 1.0 / every.low, 1.0)
    return dataclasses.replace(every, before=before, after=after, low=1.0 / far, high=far)


_FAMILY = {"bf16": "bf16", "fp32": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "fp8", "int4": "int4"}
"""Formats as the measured points call them; nvfp4 and mxfp4 are their fp4."""


def records_between(before: Setup, after: Setup) -> tuple[RatioRecord, ...]:
    """What is known of each choice in which two setups of one model differ; choices without pairs are left out."""
    found = []
    for kind, (old, new) in _choices(before, after).items():
        record = ratio_record(kind, old, new) if old != new else None
        found += [record] if record is not None else []
    return tuple(found)


def _choices(before: Setup, after: Setup) -> dict[str, tuple[str, str]]:
    """Each kind of choice with its value in both setups."""
    both = (before, after)
    engine, hardware, tensor, expert, batch = (
        (str(getter(both[0])), str(getter(both[1])))
        for getter in (
            lambda setup: setup.scenario.engine,
            lambda setup: setup.hardware.kernel_table_device or setup.hardware.id,
            lambda setup: setup.placement.tensor_parallel,
            lambda setup: setup.placement.expert_parallel,
            lambda setup: setup.scenario.batch_size,
        )
    )
    weights = (_weights(before.architecture), _weights(after.architecture))
    return {
        "engine": engine,
        "weights": weights,
        "tensor parallel": tensor,
        "expert parallel": expert,
        "accelerator": hardware,
        "batch": batch,
    }


def _weights(architecture: Architecture) -> str:
    """The format that most weights are in, as measured points call it."""
    dtypes = architecture.dtypes
    return _FAMILY.get(dtypes.routed if architecture.moe is not None else dtypes.dense, "fp4")


def measured_range(records: Sequence[RatioRecord]) -> tuple[float, float]:
    """80 % range of a measured time ratio over the predicted one for all changes together, each error its own. [1]

    Holds 1. Without records (1, 1).
    """
    low = math.sqrt(sum(min(math.log(each.low), 0.0) ** 2 for each in records))
    high = math.sqrt(sum(max(math.log(each.high), 0.0) ** 2 for each in records))
    return math.exp(-low), math.exp(high)


def unproven(records: Sequence[RatioRecord]) -> RatioRecord | None:
    """The change, if any, whose direction measured pairs do not bear out: an engine that has not passed, anything else
    that has failed."""
    for each in records:
        if each.is_wrong or (each.kind == "engine" and not each.is_right):
            return each
    return None
