"""Fits of measured kernel tables: named bounded parameters in, storable FitRecords out; `kernel_costs` serves them."""

from advisor.calibration.costs import kernel_costs
from advisor.calibration.measured_costs import with_measured_shape, without_measured_shape
from advisor.calibration.records import FitParameter, FitRecord, load_records, recorded_devices

__all__ = [
    "FitParameter",
    "FitRecord",
    "kernel_costs",
    "load_records",
    "recorded_devices",
    "with_measured_shape",
    "without_measured_shape",
]
