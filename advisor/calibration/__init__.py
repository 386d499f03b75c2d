"""Fits of measured kernel tables: named bounded parameters in, storable FitRecords out; `kernel_costs` serves them."""

from __future__ import annotations

from advisor.calibration.adjustment import (
    JOINT_PAIRS,
    Adjustment,
    adjusted,
    check_adjustment,
    parse_adjustment,
    write_adjustment,
)
from advisor.calibration.attention_fit import (
    ATTENTION_KEYS,
    KV_BYTES,
    MLA_KEYS,
    attention_record,
    limits,
    mla_record,
)
from advisor.calibration.attention_modules import CHECKPOINTS, SERVED_OPERATIONS, table_behind, with_attention_modules
from advisor.calibration.choice import MIN_SHAPES, version_key
from advisor.calibration.costs import NETWORK_FRACTION, NETWORK_T0_S, kernel_costs, with_network
from advisor.calibration.expert_choice import (
    SHARED_KERNELS,
    UNGATED_KERNELS,
    choose_experts,
    layer_seconds,
    measured_rows,
)
from advisor.calibration.frames import BYTES_PER_WEIGHT, DTYPE_NAMES, error_quantiles, one_row_per_point
from advisor.calibration.gemm_fit import GEMM_KEYS, gemm_record
from advisor.calibration.gemm_variants import SCALE_KEYS, ActivationScales, gemm_variants
from advisor.calibration.measured_costs import with_measured_shape
from advisor.calibration.measured_moe import measured_table
from advisor.calibration.measured_records import MEASURED, MeasuredTable, load_measured, write_measured
from advisor.calibration.module_fit import MODULE_KEYS, module_table
from advisor.calibration.module_records import MODULES, ModuleTable, load_modules, write_modules
from advisor.calibration.moe_fit import (
    MOE_KEYS,
    SHAPE,
    add_touched,
    clean_table,
    fit_moe,
    frame_columns,
    frame_work,
    least_coefficients,
    leave_one_shape_out,
    moe_record,
    select_rows,
)
from advisor.calibration.nnls import leave_one_group_out
from advisor.calibration.overhead_records import (
    ANY_CLASS,
    OVERHEAD_NAMES,
    OVERHEADS_FILE,
    WORKSTATION,
    HeldOutFit,
    OverheadFit,
    OverheadRecord,
    ResidualRecord,
    class_costs,
    load_overheads,
    write_overheads,
)
from advisor.calibration.records import (
    IDENTITY,
    RECORDS,
    FitParameter,
    FitRecord,
    Operation,
    load_records,
    record_id,
    recorded_devices,
    rounded,
    write_records,
)
from advisor.calibration.small_launches import SmallLaunch, is_before, small_launch, write_small_launches
from advisor.calibration.stream_fit import all_reduce_record, all_to_all_record
from advisor.calibration.sweep_fit import SweepFit, fit_sweep

__all__ = [
    "ANY_CLASS",
    "ATTENTION_KEYS",
    "BYTES_PER_WEIGHT",
    "CHECKPOINTS",
    "DTYPE_NAMES",
    "GEMM_KEYS",
    "IDENTITY",
    "JOINT_PAIRS",
    "KV_BYTES",
    "MEASURED",
    "MIN_SHAPES",
    "MLA_KEYS",
    "MODULES",
    "MODULE_KEYS",
    "MOE_KEYS",
    "NETWORK_FRACTION",
    "NETWORK_T0_S",
    "OVERHEADS_FILE",
    "OVERHEAD_NAMES",
    "RECORDS",
    "SCALE_KEYS",
    "SERVED_OPERATIONS",
    "SHAPE",
    "SHARED_KERNELS",
    "UNGATED_KERNELS",
    "WORKSTATION",
    "ActivationScales",
    "Adjustment",
    "FitParameter",
    "FitRecord",
    "HeldOutFit",
    "MeasuredTable",
    "ModuleTable",
    "Operation",
    "OverheadFit",
    "OverheadRecord",
    "ResidualRecord",
    "SmallLaunch",
    "SweepFit",
    "add_touched",
    "adjusted",
    "all_reduce_record",
    "all_to_all_record",
    "attention_record",
    "check_adjustment",
    "choose_experts",
    "class_costs",
    "clean_table",
    "error_quantiles",
    "fit_moe",
    "fit_sweep",
    "frame_columns",
    "frame_work",
    "gemm_record",
    "gemm_variants",
    "is_before",
    "kernel_costs",
    "layer_seconds",
    "least_coefficients",
    "leave_one_group_out",
    "leave_one_shape_out",
    "limits",
    "load_measured",
    "load_modules",
    "load_overheads",
    "load_records",
    "measured_rows",
    "measured_table",
    "mla_record",
    "module_table",
    "moe_record",
    "one_row_per_point",
    "parse_adjustment",
    "record_id",
    "recorded_devices",
    "rounded",
    "select_rows",
    "small_launch",
    "table_behind",
    "version_key",
    "with_attention_modules",
    "with_measured_shape",
    "with_network",
    "write_adjustment",
    "write_measured",
    "write_modules",
    "write_overheads",
    "write_records",
    "write_small_launches",
]
