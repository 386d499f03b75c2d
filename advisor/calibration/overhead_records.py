"""Overheads that kernels do not show, per engine class, as records: read by `kernel_costs`, written by the fit."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter

from advisor.calibration.records import RECORDS, FitParameter, read_fitted, rounded, write_text
from advisor.components import JOINT
from advisor.prediction import Frozen

OVERHEADS_FILE = RECORDS / "end_to_end" / "overheads.json"
ANY_CLASS = "any"
"""Class of engines without rows of their own."""
OVERHEAD_NAMES = tuple(name for one in JOINT for name in one.priced_by)
HELD_OUT_FILE = OVERHEADS_FILE.with_name("held_out.json")
WORKSTATION = "-workstation"
"""Ending of the classes of accelerators without the data centre's kernels."""
FORM_VERSION = "4"
"""Raised whenever the form, the weights or the protocol of the fit changes."""


class OverheadRecord(Frozen):
    """Launch and host overheads of one engine class, fitted on published speedups."""

    engine_class: str
    """Engine, with its vintage where scheduling changed; `any` is the mean over classes, for engines never seen."""
    parameters: dict[str, FitParameter]
    log_covariance: tuple[tuple[float, ...], ...]
    """Covariance of the logarithms, in the order of OVERHEAD_NAMES. [-]"""
    n_rows: int = Field(ge=0)
    n_sources: int = Field(ge=0)
    message: str

    def value(self, name: str) -> float:
        """One overhead. [s]"""
        return self.parameters[name].value


class ResidualRecord(Frozen):
    """Spread that the components leave unexplained of left-out speedups.

    Mostly an offset from one laboratory to the next.
    """

    tier: str
    workstation: bool
    """Of engine classes on accelerators without the data centre's kernels; else of all others."""
    log_sd: float = Field(ge=0)
    """[-]"""
    n_rows: int = Field(ge=0)
    n_sources: int = Field(ge=0)
    """Laboratories. [-]"""


class HeldOutFit(Frozen):
    """Fit without one laboratory, by which its rows are judged. Never are they judged by what they took part in."""

    laboratory: str
    records: tuple[OverheadRecord, ...]
    residuals: tuple[ResidualRecord, ...]


class OverheadFit(Frozen):
    """The whole file: records by class, residuals by tier, and what they were made from."""

    records: tuple[OverheadRecord, ...]
    residuals: tuple[ResidualRecord, ...]
    sources: tuple[str, ...]
    """Laboratories whose rows were fitted on."""
    form: str
    form_version: str = FORM_VERSION
    data_sha256: str
    """Of the measured rows fitted on."""
    kernel_fits_sha256: str
    """Of the kernel fit records that the rows were predicted with."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Rows that took no part, by reason."""
    held_out_error: dict[str, float] = Field(default_factory=dict)
    """Mean over sources of the mean absolute error of each form tried, the source left out. [-]"""

    def record(self, engine_class: str) -> OverheadRecord:
        """The record of a class, else that of `any`."""
        return _record_of(self.records, engine_class)

    def residual_log_sd(self, tier: str, engine_class: str = "") -> float | None:
        """Residual spread of one tier and the kind of accelerator of a class. [-] None where it was not calibrated."""
        return _residuals_of(self.residuals, engine_class).get(tier)


def _record_of(records: tuple[OverheadRecord, ...], engine_class: str) -> OverheadRecord:
    by_class = {record.engine_class: record for record in records}
    return by_class.get(engine_class, by_class[ANY_CLASS])


def _residuals_of(residuals: tuple[ResidualRecord, ...], engine_class: str) -> dict[str, float]:
    workstation = engine_class.endswith(WORKSTATION)
    return {each.tier: each.log_sd for each in residuals if each.workstation == workstation}


def write_overheads(fit: OverheadFit, held_out: tuple[HeldOutFit, ...] = (), path: Path = OVERHEADS_FILE) -> None:
    """Write both files, one number a line, so that a new run gives a small diff."""
    write_text(path, json.dumps(rounded(fit.model_dump(mode="json")), indent=1))
    every = [rounded(each.model_dump(mode="json")) for each in held_out]
    write_text(path.with_name(HELD_OUT_FILE.name), json.dumps(every, indent=1))
    load_overheads.cache_clear()
    load_held_out.cache_clear()


@lru_cache(maxsize=4)
def load_overheads(path: Path = OVERHEADS_FILE) -> OverheadFit | None:
    """The shipped fit, read once. None where there is none. Raises AdvisorError when the file is damaged."""
    return read_fitted(path, OverheadFit.model_validate_json, "overhead records")


@lru_cache(maxsize=4)
def load_held_out(path: Path = HELD_OUT_FILE) -> dict[str, HeldOutFit]:
    """The shipped fit without each laboratory, by its name, read once. Raises AdvisorError when the file is damaged."""
    every = read_fitted(path, TypeAdapter(tuple[HeldOutFit, ...]).validate_json, "overhead records")
    return {each.laboratory: each for each in every or ()}


def class_costs(engine_class: str, without: str = "") -> dict[str, Any]:
    """Fields of KernelCosts for a class, as shipped or as fitted without a laboratory.

    The latter where `without` took part; empty where no fit is shipped.
    """
    fit = load_held_out().get(without) or load_overheads()
    if fit is None:
        return {}
    record = _record_of(fit.records, engine_class)
    return {
        **{name: record.value(name) for name in OVERHEAD_NAMES},
        "overhead_log_covariance": record.log_covariance,
        "residual_log_sd_by_tier": _residuals_of(fit.residuals, engine_class),
    }
