"""What one fit found, as storable data: parameters with bounds and errors, what was dropped, what held-out rows say.

Shipped under profiles/calibration, one JSON file per measured device, written by `calibrate`, only read at run time.

Overheads that kernels do not show, per engine class, as records: read by `kernel_costs`, written by the fit.

Measured rows of single expert shapes, as factors on the additive form; shipped under profiles/calibration/measured.

Written by `make calibrate` beside the fit records, one JSON file per measured device, read once when a model needs it.

Attention layers measured as a whole, thinned; shipped under profiles/calibration/modules.

Written by `make calibrate` beside the fit records, one JSON file per measured device, read once when a model needs it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from advisor.physics.components import JOINT
from advisor.physics.kernel_costs import ExpertShape
from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, write_whole

if TYPE_CHECKING:
    import pandas as pd

BYTES_PER_WEIGHT = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4.0 / (128 * 128),
    "int4_wo": 0.5 + 2.0 / 128,
    "w4afp8": 0.5 + 2.0 / 128,
    "nvfp4": 0.5 + 1.0 / 16,
    "w4a16_mxfp4": 0.5 + 1.0 / 32,
    "w4a8_mxfp4_mxfp8": 0.5 + 1.0 / 32,
}
"""Stored bytes per weight, scales included, by the tables' own names of formats."""


def require_columns(frame: pd.DataFrame, columns: tuple[str, ...], table: str) -> None:
    """Raise AdvisorError naming the columns that `frame` lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise AdvisorError(f"{table} table lacks {', '.join(missing)}; expected {', '.join(columns)}")


PARAMETERS = (
    ("t0_s", "s"),
    ("weight_s_per_byte", "s/B"),
    ("per_expert_s", "s"),
    ("s_per_flop", "s/FLOP"),
    ("activation_s_per_byte", "s/B"),
    ("per_resident_expert_s", "s"),
)
FORM_VERSION = "4"
"""Raised whenever a functional form, a drop rule or an error definition changes."""
RECORDS = PROFILES / "calibration"
SIGNIFICANT_DIGITS = 6
Operation = Literal["moe", "gemm", "attention", "mla", "all_reduce", "all_to_all"]
IDENTITY = ["hardware_id", "engine", "version", "dtype", "kernel_source"]
"""What names a kernel table."""
_Read = TypeVar("_Read")


class FitParameter(Frozen):
    """One fitted number. `stderr` is None where the parameter sits at a bound; `high` None means unbounded."""

    value: float
    unit: str
    stderr: float | None = None
    low: float = 0.0
    high: float | None = None
    at_bound: bool = False


class Dropped(Frozen):
    """Rows of the table that took no part in the fit."""

    reason: str
    n_rows: int


class FitRecord(Frozen):
    """One fit of one kernel table. Errors are relative, on rows of shapes that the fit did not see. [-]"""

    id: str
    op: Operation
    hardware_id: str
    engine: str
    version: str
    dtype: str
    kernel_source: str
    form: str
    parameters: dict[str, FitParameter]
    curve: tuple[tuple[float, float], ...] = ()
    """Knots of the factor on the form: (rows per touched expert, factor) of experts, (bytes, factor) of an all-reduce;
    empty where the form has none."""
    correlation_names: tuple[str, ...] = ()
    correlation: tuple[tuple[float, ...], ...] = ()
    ungated_matrices: int | None = None
    """Matrices per expert with which the kernel ran the shapes of ungated models (2, or 3 when it gated them); None
    where the table has no such shape. MoE only."""
    n_ranks: int | None = None
    n_rows: int = Field(ge=0)
    n_shapes: int = Field(ge=0)
    n_widths: int | None = None
    """Distinct (input width, width of a shard) among the fitted rows. MoE only."""
    n_lowered: int = 0
    """Fitted rows that took clearly longer than a step of more tokens and were lowered to it. MoE only."""
    dropped: tuple[Dropped, ...] = ()
    data_sha256: str
    form_version: str = FORM_VERSION
    code_version: str = ""
    """Version of this project that fitted it."""
    loso_median: float | None = None
    loso_p90: float | None = None
    ratio_median: float | None = None
    ratio_p90: float | None = None
    """Errors of T(4 t) / T(t), where the table has both token counts."""
    ep_median: float | None = None
    ep_p90: float | None = None
    """Errors on expert-parallel rows (2 to 8 ranks), none of which was fitted; U of the slowest rank by
    `routing.local_experts`. MoE only."""
    log_sd: float
    """Standard deviation of log(measured / predicted) whose normal band of 80 % holds 80 % of held-out rows. [-]"""
    success: bool
    message: str

    def value(self, name: str) -> float:
        """The value of one parameter. Raises AdvisorError when the form has none of that name."""
        if name not in self.parameters:
            raise AdvisorError(f"fit {self.id} has no parameter {name!r}; it has {', '.join(sorted(self.parameters))}")
        return self.parameters[name].value


def rounded(value: Any) -> Any:
    """Value with floats cut to six significant digits and non-finite ones to None. Through lists and mappings."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return value


def record_id(op: Operation, identity: Mapping[str, str], n_ranks: int | None = None) -> str:
    """Name of the fit of one table, from its IDENTITY."""
    return "/".join([op, *(identity[key] for key in IDENTITY), *([f"{n_ranks} ranks"] if n_ranks else [])])


def compact(entry: object) -> str:
    """Entry as JSON without spaces."""
    return json.dumps(entry, separators=(",", ":"))


def one_a_line(entries: Iterable[str]) -> str:
    """List of JSON entries, one a line, so that a new run gives a small diff."""
    return "[\n" + ",\n".join(entries) + "\n]"


def write_text(path: Path, text: str) -> None:
    """Write `text` and a last line break. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{text}\n".encode())


def read_fitted(path: Path, parse: Callable[[str], _Read], what: str) -> _Read | None:
    """Contents of a written file as `parse` reads them.

    None where there is none. Raises AdvisorError when it is not `what`.
    """
    if not path.is_file():
        return None
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AdvisorError(
            f"{path.parent.name}/{path.name}: not {what} ({reason}); restore it or run `make calibrate`"
        ) from error


def write_records(device: str, records: list[FitRecord], folder: Path = RECORDS) -> Path:
    """Write one device's records, sorted by id."""
    ordered = sorted(records, key=lambda record: record.id)
    path = folder / f"{device}.json"
    write_text(path, one_a_line(compact(rounded(_stored(record))) for record in ordered))
    load_records.cache_clear()
    return path


def _stored(record: FitRecord) -> dict[str, Any]:
    """What differs from the defaults, and always the versions and each parameter's bounds: a default may change."""
    bounds = {name: {"low": parameter.low, "high": parameter.high} for name, parameter in record.parameters.items()}
    entry = record.model_dump(mode="json", exclude_defaults=True)
    parameters = {name: {**entry["parameters"][name], **both} for name, both in bounds.items()}
    versions = {"form_version": record.form_version, "code_version": record.code_version}
    return {**entry, "parameters": parameters, **versions}


def recorded_devices(folder: Path = RECORDS) -> list[str]:
    """Devices that have fit records, sorted. Names are those of `Hardware.kernel_table_device`."""
    return sorted(path.stem for path in folder.glob("*.json"))


@lru_cache(maxsize=32)
def load_records(device: str, folder: Path = RECORDS) -> tuple[FitRecord, ...]:
    """The records of one device, read once. Empty where the device was never measured.

    Raises AdvisorError when the file is damaged.
    """
    parse = TypeAdapter(tuple[FitRecord, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "fit records") or ()


OVERHEADS_FILE = RECORDS / "end_to_end" / "overheads.json"
ANY_CLASS = "any"
"""Class of engines without rows of their own."""
OVERHEAD_NAMES = tuple(name for one in JOINT for name in one.priced_by)
HELD_OUT_FILE = OVERHEADS_FILE.with_name("held_out.json")
WORKSTATION = "-workstation"
"""Ending of the classes of accelerators without the data centre's kernels."""
SYNCHRONOUS = "-synchronous"
"""Ending of the classes of engines that schedule a round only after the last has returned."""
SYNCHRONOUS_ROUND_S, _ALONE_S = 2.4e-3, 1.5e-3
"""What such a round waits for its host, on several GPUs and on one: an overlapping engine's 0.4 ms and what overlapping
saved in the same engine on the same model, 2.0 ms a round (DeepSeek-R1 on eight GPUs, accepted length 2.296 at 140.5
against 159.7 tokens/s; sgl-project/sglang pull request 12128) and 1.1 ms (Llama-3.1-8B on one, 2.99 at 246.8 against
3.01 at 273.4; pull request 11398). [s]"""
ONE_GPU_SHARE = _ALONE_S / SYNCHRONOUS_ROUND_S
OVERHEAD_FORM_VERSION = "5"
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
    form_version: str = OVERHEAD_FORM_VERSION
    data_sha256: str
    """Of the measured rows fitted on."""
    kernel_fits_sha256: str
    """Of the kernel fit records that the rows were predicted with."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Rows that took no part, by reason."""
    held_out_error: dict[str, float] = Field(default_factory=dict)
    """Mean over sources of the mean absolute error of each form tried, the source left out. [-]"""


def record_of(records: tuple[OverheadRecord, ...], engine_class: str) -> OverheadRecord:
    """The record of a class, else that of ANY_CLASS."""
    by_class = {record.engine_class: record for record in records}
    return by_class.get(engine_class, by_class[ANY_CLASS])


def _residuals_of(residuals: tuple[ResidualRecord, ...], engine_class: str) -> dict[str, float]:
    workstation = engine_class.endswith(WORKSTATION)
    return {record.tier: record.log_sd for record in residuals if record.workstation == workstation}


def write_overheads(fit: OverheadFit, held_out: tuple[HeldOutFit, ...] = (), path: Path = OVERHEADS_FILE) -> None:
    """Write both files, one number a line, so that a new run gives a small diff."""
    write_text(path, json.dumps(rounded(fit.model_dump(mode="json")), indent=1))
    entries = [rounded(fit_without.model_dump(mode="json")) for fit_without in held_out]
    write_text(path.with_name(HELD_OUT_FILE.name), json.dumps(entries, indent=1))
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
    return {fit.laboratory: fit for fit in every or ()}


def one_gpu_share(engine_class: str) -> float:
    """Give a class its `KernelCosts.host_one_gpu_share`. [-]"""
    return ONE_GPU_SHARE if engine_class.endswith(SYNCHRONOUS) else 1.0


def class_costs(engine_class: str, without: str = "") -> dict[str, Any]:
    """Fields of KernelCosts for a class, as shipped or as fitted without a laboratory.

    The latter where `without` took part; empty where no fit is shipped.
    """
    fit = load_held_out().get(without) or load_overheads()
    if fit is None:
        return {}
    record = record_of(fit.records, engine_class)
    return {
        **{name: record.value(name) for name in OVERHEAD_NAMES},
        "host_one_gpu_share": one_gpu_share(engine_class),
        "overhead_log_covariance": record.log_covariance,
        "residual_log_sd_by_tier": _residuals_of(fit.residuals, engine_class),
    }


MEASURED = RECORDS / "measured"
MAX_FACTOR = 3.0
"""Rows further than this from the form, either way, show a kernel that was not tuned for the shape: engines then run
another one. They are reported, not used. [-]"""


class ShapeRows(Frozen):
    """One measured shape: measured over additive time at `MeasuredTable.tokens`. None where there is no row. [-]"""

    shape: ExpertShape
    factor: tuple[float | None, ...]


class MeasuredTable(Frozen):
    """The shapes of one kernel table, as factors on one fit. Errors are relative, on rows no factor saw. [-]"""

    fit_id: str
    tokens: tuple[int, ...]
    """Tokens of the whole step. [-]"""
    loads: tuple[str, ...]
    """Loads whose rows were averaged."""
    n_rows: int
    shapes: tuple[ShapeRows, ...]
    carry_median: float | None = None
    carry_p90: float | None = None
    """Another load at the same tokens, so at another number of touched experts."""
    between_median: float | None = None
    between_p90: float | None = None
    """Another load at tokens between those used."""
    log_sd: float
    """As in FitRecord, of the errors between tokens."""


def write_measured(device: str, tables: list[MeasuredTable], folder: Path = MEASURED) -> Path:
    """Write one device's tables, sorted by fit, one shape per line."""
    texts = []
    for table in sorted(tables, key=lambda table: table.fit_id):
        entry = rounded(table.model_dump(mode="json", exclude={"shapes"}, exclude_defaults=True))
        shapes = [_line(shape) for shape in sorted(table.shapes, key=lambda rows: rows.shape)]
        texts.append(f'{compact(entry)[:-1]},"shapes":{one_a_line(shapes)}}}')
    path = folder / f"{device}.json"
    write_text(path, one_a_line(texts))
    return path


def _line(rows: ShapeRows) -> str:
    """Four digits of a factor are enough: the rows themselves scatter by one to two per cent."""
    factor = [None if value is None else float(f"{value:.4g}") for value in rows.factor]
    return compact({"shape": rounded(list(rows.shape)), "factor": factor})


@lru_cache(maxsize=32)
def load_measured(device: str, folder: Path = MEASURED) -> tuple[MeasuredTable, ...]:
    """The tables of one device, read once. Empty where there are none. Raises AdvisorError for a damaged file."""
    parse = TypeAdapter(tuple[MeasuredTable, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "measured shapes") or ()


MODULES = RECORDS / "modules"
_DIGITS = 3


class ModuleTable(Frozen):
    """One attention layer by sequences and context, holes filled and rising in both. What was measured is said."""

    op: str
    engine: str
    version: str
    model: str
    """The checkpoint whose dimensions the layer has, as the package's table names it."""
    kv_dtype: str
    gemm_dtype: str
    n_heads: int
    """Query heads of this rank. [-]"""
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    """The new token included. [-]"""
    time_us: tuple[tuple[float, ...], ...]
    """[batches, contexts]. [us]"""
    measured_to: tuple[int, ...]
    """Largest batch that was measured at each context, 0 where none was: the rest is carried on. [-]"""
    n_rows: int
    n_spikes: int = 0
    """Rows left out because a doubling of the batch took more than three times as long. [-]"""
    log_sd: float
    """As in FitRecord, of measured rows over what the thinned table gives for them, and of rows between neighbours."""

    @property
    def id(self) -> str:
        """Name of the table, readable: engine, version, layer and format."""
        parts = (self.op, self.engine, self.version, self.model, f"kv-{self.kv_dtype}", self.gemm_dtype)
        return "/".join((*parts, f"{self.n_heads} heads"))


def write_modules(device: str, tables: list[ModuleTable], folder: Path = MODULES) -> Path:
    """Write one device's tables, sorted by id, one per line. Times with three digits."""
    lines = []
    for table in sorted(tables, key=lambda table: table.id):
        entry = table.model_dump(mode="json", exclude_defaults=True)
        entry["time_us"] = [[_short(time) for time in row] for row in table.time_us]
        entry["log_sd"] = _short(table.log_sd)
        lines.append(compact(entry))
    path = folder / f"{device}.json"
    write_text(path, one_a_line(lines))
    return path


def _short(value: float) -> float:
    """Three digits: the rows scatter by more than half a per cent."""
    number = float(f"{value:.{_DIGITS}g}")
    return int(number) if number == int(number) else number


@lru_cache(maxsize=32)
def load_modules(device: str, folder: Path = MODULES) -> tuple[ModuleTable, ...]:
    """The tables of one device, read once. Empty where there are none. Raises AdvisorError for a damaged file."""
    parse = TypeAdapter(tuple[ModuleTable, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "measured attention layers") or ()
