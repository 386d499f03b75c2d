"""The choices in which two setups differ, and what measured pairs say of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.architecture import Architecture
from advisor.ratios.records import ChoiceKind, RatioRecord, ratio_record
from advisor.setup import Setup

_FAMILY = {"bf16": "bf16", "fp32": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "fp8", "int4": "int4"}
"""Formats as the measured points call them; nvfp4 and mxfp4 are their fp4."""


def records_between(before: Setup, after: Setup) -> tuple[RatioRecord, ...]:
    """Records of each choice in which two setups of one model differ. Choices without pairs are left out."""
    found = []
    for kind, (old, new) in _choices(before, after).items():
        record = ratio_record(kind, old, new) if old != new else None
        found += [record] if record is not None else []
    return tuple(found)


def _choices(before: Setup, after: Setup) -> dict[ChoiceKind, tuple[str, str]]:
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
    """80 % range of a measured time ratio over the predicted one, for all changes together. [-]

    Each change has an error of its own.

    Holds 1. Without records (1, 1).
    """
    low = math.sqrt(sum(min(math.log(each.low), 0.0) ** 2 for each in records))
    high = math.sqrt(sum(max(math.log(each.high), 0.0) ** 2 for each in records))
    return math.exp(-low), math.exp(high)


def unproven(records: Sequence[RatioRecord]) -> RatioRecord | None:
    """Change, if any, whose direction measured pairs do not bear out.

    It is an engine that has not passed, or anything else that has failed.
    """
    for each in records:
        if each.is_wrong or (each.kind == "engine" and not each.is_right):
            return each
    return None
