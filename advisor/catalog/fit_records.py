"""Records of fits shipped under profiles/calibration: kernels, overheads, measured shapes,
attention layers.

Every file is read once and has to be there: without one, other constants would serve in silence.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from advisor.physics.architecture import BYTES_PER_WEIGHT as STORED
from advisor.physics.components import JOINT
from advisor.physics.kernel_costs import ExpertShape
from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES

BYTES_PER_WEIGHT = {
    **dict.fromkeys(("bf16", "fp16"), STORED["bf16"]),
    **{name: STORED[name] for name in ("fp8", "fp8_block", "nvfp4")},
    **dict.fromkeys(("int4_wo", "w4afp8"), STORED["int4"]),
    **dict.fromkeys(("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"), STORED["mxfp4"]),
}
"""Stored bytes per weight, scales included, by the tables' own names of formats."""


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
Operation = Literal["moe", "gemm", "attention", "mla", "all_reduce", "all_to_all"]
IDENTITY = ["hardware_id", "engine", "version", "dtype", "kernel_source"]
"""What names a kernel table."""
_Read = TypeVar("_Read")


class FitParameter(Frozen):
    """One fitted number. `stderr` is None where the parameter sits at a bound; `high` None means
    unbounded."""

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
    """One fit of one kernel table. Errors are relative, on rows of shapes that the fit did not see.
    [-]"""

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
    """Knots of the factor on the form: (rows per touched expert, factor) of experts, (bytes,
    factor) of an all-reduce; empty where the form has none."""
    correlation_names: tuple[str, ...] = ()
    correlation: tuple[tuple[float, ...], ...] = ()
    ungated_matrices: int | None = None
    """Matrices per expert with which the kernel ran the shapes of ungated models (2, or 3 when it
    gated them); None where the table has no such shape. MoE only."""
    n_ranks: int | None = None
    n_rows: int = Field(ge=0)
    n_shapes: int = Field(ge=0)
    n_widths: int | None = None
    """Distinct (input width, width of a shard) among the fitted rows. MoE only."""
    n_lowered: int = 0
    """Fitted rows that took clearly longer than a step of more tokens and were lowered to it. MoE
    only."""
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
    """Errors on expert-parallel rows (2 to 8 ranks), none of which was fitted; U of the slowest
    rank by `local_experts`. MoE only."""
    log_sd: float
    """Standard deviation of log(measured / predicted) whose normal band of 80 % holds 80 % of
    held-out rows. [-]"""
    success: bool
    message: str

    def value(self, name: str) -> float:
        """The value of one parameter. Raises AdvisorError when the form has none of that name."""
        if name not in self.parameters:
            raise AdvisorError(
                f"fit {self.id} has no parameter {name!r}; it has "
                f"{', '.join(sorted(self.parameters))}"
            )
        return self.parameters[name].value


def record_id(op: Operation, identity: Mapping[str, str], n_ranks: int | None = None) -> str:
    """Name of the fit of one table, from its IDENTITY."""
    return "/".join(
        [op, *(identity[key] for key in IDENTITY), *([f"{n_ranks} ranks"] if n_ranks else [])]
    )


def read_fitted(path: Path, kind: type[_Read], what: str) -> _Read:
    """Contents of a shipped JSON file as `kind`. Raises AdvisorError where it is missing or not
    `what`."""
    try:
        return TypeAdapter(kind).validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        # Refits start from what is shipped, so that none of them can make a file anew.
        raise AdvisorError(
            f"{path.parent.name}/{path.name} is missing; restore it from the repository"
        ) from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AdvisorError(
            f"{path.parent.name}/{path.name}: not {what} ({reason}); restore it or run `make "
            "calibrate`"
        ) from error


@lru_cache(maxsize=32)
def load_records(device: str, folder: Path = RECORDS) -> tuple[FitRecord, ...]:
    """The records of one measured device. Raises AdvisorError when the file is missing or
    damaged."""
    return read_fitted(folder / f"{device}.json", tuple[FitRecord, ...], "fit records")


OVERHEADS_FILE = RECORDS / "end_to_end" / "overheads.json"
ANY_CLASS = "any"
"""Class of engines without rows of their own."""
OVERHEAD_NAMES = tuple(name for component in JOINT for name in component.priced_by)
HELD_OUT_FILE = OVERHEADS_FILE.with_name("held_out.json")
WORKSTATION = "-workstation"
"""Ending of the classes of accelerators without the data centre's kernels."""
SYNCHRONOUS = "-synchronous"
"""Ending of the classes of engines that schedule a round only after the last has returned."""
SYNCHRONOUS_ROUND_S = 2.4e-3
_ALONE_S = 1.5e-3
"""What such a round waits for its host, on several GPUs and on one: an overlapping engine's 0.4 ms
and what overlapping saved in the same engine on the same model, 2.0 ms a round (DeepSeek-R1 on
eight GPUs, accepted length 2.296 at 140.5 against 159.7 tokens/s; sgl-project/sglang pull request
12128) and 1.1 ms (Llama-3.1-8B on one, 2.99 at 246.8 against 3.01 at 273.4; pull request 11398).
[s]"""
ONE_GPU_SHARE = _ALONE_S / SYNCHRONOUS_ROUND_S
OVERHEAD_FORM_VERSION = "6"
"""Raised whenever the form, the weights or the protocol of the fit changes."""


class OverheadRecord(Frozen):
    """Launch and host overheads of one engine class, fitted on published speedups."""

    engine_class: str
    """Engine, with its vintage where scheduling changed; `any` is the mean over classes, for
    engines never seen."""
    parameters: dict[str, FitParameter]
    log_covariance: tuple[tuple[float, ...], ...]
    """Covariance of the logarithms, in the order of OVERHEAD_NAMES. [-]"""
    n_rows: int = Field(ge=0)
    n_sources: int = Field(ge=0)
    message: str

    def value(self, name: str) -> float:
        """One overhead. [s]"""
        return self.parameters[name].value


class HeldOutFit(Frozen):
    """Fit without one laboratory, by which its rows are judged. Never are they judged by what they
    took part in."""

    laboratory: str
    records: tuple[OverheadRecord, ...]


class OverheadFit(Frozen):
    """The whole file: records by class, and what they were made from."""

    records: tuple[OverheadRecord, ...]
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


def record_of(records: tuple[OverheadRecord, ...], engine_class: str) -> OverheadRecord:
    """The record of a class, else that of ANY_CLASS."""
    by_class = {record.engine_class: record for record in records}
    return by_class.get(engine_class, by_class[ANY_CLASS])


@lru_cache(maxsize=4)
def load_overheads(path: Path = OVERHEADS_FILE) -> OverheadFit:
    """The shipped fit. Raises AdvisorError when the file is missing or damaged."""
    return read_fitted(path, OverheadFit, "overhead records")


@lru_cache(maxsize=4)
def load_held_out(path: Path = HELD_OUT_FILE) -> dict[str, HeldOutFit]:
    """The shipped fit without each laboratory, by its name. Raises AdvisorError when the file is
    missing or damaged."""
    every = read_fitted(path, tuple[HeldOutFit, ...], "overhead records")
    return {fit.laboratory: fit for fit in every}


def one_gpu_share(engine_class: str) -> float:
    """Give a class its `KernelCosts.host_one_gpu_share`. [-]"""
    return ONE_GPU_SHARE if engine_class.endswith(SYNCHRONOUS) else 1.0


def class_costs(engine_class: str, without: str = "") -> dict[str, Any]:
    """Fields of KernelCosts for a class as shipped, or as fitted without a laboratory that took
    part.

    Raises AdvisorError where that laboratory took part and the fit without it is missing: its rows
    would be judged by what was fitted on them.
    """
    fit = load_overheads()
    if without not in fit.sources:
        return costs_by(fit, engine_class)
    held_out = load_held_out().get(without)
    if held_out is None:
        raise AdvisorError(
            f"end_to_end/{HELD_OUT_FILE.name} has no fit without {without}, whose rows were "
            "fitted on; restore it or run `make calibrate`"
        )
    return costs_by(held_out, engine_class)


def costs_by(fit: OverheadFit | HeldOutFit, engine_class: str) -> dict[str, Any]:
    """Fields of KernelCosts for a class by one fit."""
    record = record_of(fit.records, engine_class)
    return {
        **{name: record.value(name) for name in OVERHEAD_NAMES},
        "host_one_gpu_share": one_gpu_share(engine_class),
        "overhead_log_covariance": record.log_covariance,
    }


MEASURED = RECORDS / "measured"
MAX_FACTOR = 3.0
"""Rows further than this from the form, either way, show a kernel that was not tuned for the shape:
engines then run another one. They are reported, not used. [-]"""


class ShapeRows(Frozen):
    """One measured shape: measured over additive time at `MeasuredTable.tokens`. None where there
    is no row. [-]"""

    shape: ExpertShape
    factor: tuple[float | None, ...]


class MeasuredTable(Frozen):
    """The shapes of one kernel table, as factors on one fit. Errors are relative, on rows no factor
    saw. [-]"""

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


@lru_cache(maxsize=32)
def load_measured(device: str, folder: Path = MEASURED) -> tuple[MeasuredTable, ...]:
    """The tables of one device, Raises AdvisorError when the file is missing or damaged."""
    return read_fitted(folder / f"{device}.json", tuple[MeasuredTable, ...], "measured shapes")


MODULES = RECORDS / "modules"


class ModuleTable(Frozen):
    """One attention layer by sequences and context, holes filled and rising in both. What was
    measured is said."""

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
    """Largest batch that was measured at each context, 0 where none was: the rest is carried on.
    [-]"""
    n_rows: int
    n_spikes: int = 0
    """Rows left out because a doubling of the batch took more than three times as long. [-]"""
    log_sd: float
    """As in FitRecord, of measured rows over what the thinned table gives for them, and of rows
    between neighbours."""

    @property
    def id(self) -> str:
        """Name of the table, readable: engine, version, layer and format."""
        parts = (
            self.op,
            self.engine,
            self.version,
            self.model,
            f"kv-{self.kv_dtype}",
            self.gemm_dtype,
        )
        return "/".join((*parts, f"{self.n_heads} heads"))


@lru_cache(maxsize=32)
def load_modules(device: str, folder: Path = MODULES) -> tuple[ModuleTable, ...]:
    """The tables of one device, Raises AdvisorError when the file is missing or damaged."""
    return read_fitted(
        folder / f"{device}.json", tuple[ModuleTable, ...], "measured attention layers"
    )
