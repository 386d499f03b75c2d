"""Overheads that kernels do not show, per engine class, as records: read by `kernel_costs`, written by the fit."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from advisor.calibration.records import RECORDS, FitParameter, read_fitted, rounded, write_text
from advisor.components import JOINT
from advisor.prediction import Frozen

OVERHEADS_FILE = RECORDS / "end_to_end" / "overheads.json"
ANY_CLASS = "any"
"""Class of engines without rows of their own."""
OVERHEAD_NAMES = tuple(name for one in JOINT for name in one.priced_by)
FORM_VERSION = "3"
"""Raised whenever the form, the weights or the protocol of the fit changes."""


class OverheadRecord(Frozen):
    """Launch and host overheads of one engine class, fitted on published speedups."""

    engine_class: str
    """Engine, with its vintage where scheduling changed; `any` is the mean over classes, for engines never seen."""
    parameters: dict[str, FitParameter]
    log_covariance: tuple[tuple[float, ...], ...]
    """Covariance of the logarithms, in the order of OVERHEAD_NAMES. [1]"""
    n_rows: int = Field(ge=0)
    n_sources: int = Field(ge=0)
    message: str

    def value(self, name: str) -> float:
        """One overhead. [s]"""
        return self.parameters[name].value


class ResidualRecord(Frozen):
    """What an 80 % band of speedups of one tier takes: a share of the component draws, or all and a residual. [1]"""

    tier: str
    log_sd: float = Field(ge=0)
    share: float = Field(default=1.0, gt=0, le=1)
    n_rows: int = Field(ge=0)
    n_sources: int = Field(ge=0)


class OverheadFit(Frozen):
    """The whole file: records by class, residuals by tier, and what they were made from."""

    records: tuple[OverheadRecord, ...]
    residuals: tuple[ResidualRecord, ...]
    sources: tuple[str, ...]
    """Publications whose rows were fitted on."""
    form: str
    form_version: str = FORM_VERSION
    data_sha256: str
    """Of the measured rows fitted on."""
    kernel_fits_sha256: str
    """Of the kernel fit records that the rows were predicted with."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Rows that took no part, by reason."""
    held_out_error: dict[str, float] = Field(default_factory=dict)
    """Mean over sources of the mean absolute error of each form tried, the source left out. [1]"""

    def record(self, engine_class: str) -> OverheadRecord:
        """The record of a class, else that of `any`."""
        by_class = {record.engine_class: record for record in self.records}
        return by_class.get(engine_class, by_class[ANY_CLASS])

    def residual_log_sd(self, tier: str) -> float | None:
        """Of one tier; None where it was not calibrated. [1]"""
        return next((residual.log_sd for residual in self.residuals if residual.tier == tier), None)


def write_overheads(fit: OverheadFit, path: Path = OVERHEADS_FILE) -> None:
    """Write the file, one number a line, so that a new run gives a small diff."""
    write_text(path, json.dumps(rounded(fit.model_dump(mode="json")), indent=1))


@lru_cache(maxsize=4)
def load_overheads(path: Path = OVERHEADS_FILE) -> OverheadFit | None:
    """The shipped fit, read once; None where there is none. Raises AdvisorError when the file is damaged."""
    return read_fitted(path, OverheadFit.model_validate_json, "overhead records")


def class_costs(engine_class: str) -> dict[str, Any]:
    """Fields of KernelCosts for a class as shipped; empty where no fit is shipped."""
    fit = load_overheads()
    if fit is None:
        return {}
    record = fit.record(engine_class)
    return {
        **{name: record.value(name) for name in OVERHEAD_NAMES},
        "overhead_log_covariance": record.log_covariance,
    }
