"""The shipped measurements: folders of data.csv and meta.yaml, checked against each other whenever
they are read."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.prediction import AdvisorError, Frozen, explain
from advisor.profiles import MEASUREMENTS
from advisor.profiling.results import COLUMNS


class DataColumn(Frozen):
    """One column of data.csv. `values` lists all values it may take, when it is an enumeration."""

    meaning: str = Field(min_length=3)
    unit: str = Field(min_length=1)
    values: tuple[str, ...] = ()


class Source(Frozen):
    """A publication that rows were read from."""

    title: str = Field(min_length=3)
    url: str = Field(pattern=r"^(https?://.*)?$")
    """Empty where nobody noted the address."""


class DatasetMeta(Frozen):
    """meta.yaml of one dataset."""

    title: str = Field(min_length=3)
    description: str = Field(min_length=10)
    status: Literal["published", "measured"]
    obtained: str = Field(min_length=10)
    license: str = Field(min_length=3)
    credit: str = Field(min_length=3)
    row_count: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    columns: dict[str, DataColumn]
    sources: tuple[Source, ...] = Field(min_length=1)
    caveats: tuple[str, ...] = ()


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        raise AdvisorError(
            f"the measurements folder {root} is missing; restore it from the repository"
        )
    marker_files = ("meta.yaml", "progress.json")
    return sorted(
        child
        for child in root.iterdir()
        if data_file(child) or any((child / name).exists() for name in marker_files)
    )


def dataset_folders(root: Path = MEASUREMENTS) -> list[Path]:
    """Folders below `root` that hold a transcribed dataset, in name order."""
    folders = [child for child in _folders(root) if not is_sweep(child)]
    # A sweep that is running or was interrupted could not describe itself yet.
    return [
        child
        for child in folders
        if (child / "meta.yaml").exists() or not (child / "progress.json").exists()
    ]


def sweep_folders(root: Path = MEASUREMENTS) -> list[Path]:
    """Folders below `root` that the profiler wrote, in name order."""
    return [child for child in _folders(root) if is_sweep(child)]


def read_meta(folder: Path) -> DatasetMeta:
    """meta.yaml of a dataset. AdvisorError names the field that is wrong."""
    file = folder / "meta.yaml"
    try:
        return DatasetMeta.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise AdvisorError(f"{file} is missing; a dataset needs data.csv and meta.yaml") from None
    except yaml.YAMLError as error:
        raise AdvisorError(f"{file} is not valid YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise AdvisorError(f"{file}: {location}: {first['msg']}") from error


def read_dataset(folder: Path) -> tuple[DatasetMeta, pd.DataFrame]:
    """A dataset, as text cells (empty: unknown), checked against its meta.yaml.

    Raises AdvisorError when hash, row count, columns or an enumerated value differ from what
    meta.yaml says.
    """
    meta = read_meta(folder)
    file = folder / "data.csv"
    if not file.is_file():
        raise AdvisorError(f"{file} is missing; a dataset needs data.csv and meta.yaml")
    raw = file.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != meta.sha256:
        raise AdvisorError(
            f"{file} has sha256 {digest}, meta.yaml says {meta.sha256}; restore the file or "
            "correct meta.yaml"
        )
    header, *records = list(csv.reader(io.StringIO(raw.decode("utf-8"), newline="")))
    if header != list(meta.columns):
        wrong = sorted(set(header) ^ set(meta.columns)) or ["order"]
        raise AdvisorError(
            f"{file}: header and the columns of meta.yaml differ: {', '.join(wrong)}"
        )
    for line, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise AdvisorError(
                f"{file}, record {line}: {len(record)} cells, expected {len(header)}"
            )
    if len(records) != meta.row_count:
        raise AdvisorError(f"{file}: {len(records)} rows, meta.yaml says {meta.row_count}")
    frame = pd.DataFrame(records, columns=header, dtype="str")
    for name, column in meta.columns.items():
        strangers = set(frame[name]) - set(column.values) - {""}
        if column.values and strangers:
            raise AdvisorError(
                f"{file}, column {name}: {sorted(strangers)[0]!r} is not among the values of "
                "meta.yaml"
            )
    return meta, frame


SWEEP_TEXT_COLUMNS = frozenset(
    {
        *(
            "block",
            "op",
            "status",
            "dtype",
            "kernel",
            "mode",
            "like",
            "part",
            "engine",
            "engine_version",
        ),
        *("routing", "drafter", "worker", "notes"),
    }
)
"""Columns of COLUMNS that hold words; all others are numbers, SI."""
NEEDED_COLUMNS = ("block", "op", "status", "time_s")
DATA_NAMES = ("data.csv", "data.csv.gz")
_WRITTEN_BY_PROFILER = re.compile(r'^(?:source| "source"):\s*"?advisor\.profiling\b', re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Facts(BaseModel):
    """Facts a program wrote: those used here are checked, later versions may add others."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ProfilerPlan(_Facts):
    """Request that the profiler was given."""

    preset: str
    code_version: str


class SweepDevice(_Facts):
    """Device that was measured. backend: cuda | rocm | cpu. Sizes in bytes."""

    backend: str
    name: str
    memory_bytes: float = Field(gt=0)


class SweepMeta(_Facts):
    """meta.yaml of a sweep. `status` was computed by the profiler from its rows."""

    dataset: str = Field(min_length=1)
    kind: Literal["measured"]
    source: str
    status: Literal["complete", "partial", "failed"]
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    rows: int = Field(ge=0)
    measured_rows: int = Field(ge=0)
    started_at: str
    plan: ProfilerPlan
    device: SweepDevice
    software: dict[str, Any] = Field(default_factory=dict)

    @property
    def torch(self) -> str:
        """Version of torch that measured. Empty where none was noted."""
        return str(self.software.get("torch") or "")

    @property
    def time_column(self) -> str:
        """The column that fits use: a CPU shares its cores with other work, so its low quantile is
        taken."""
        return "time_p20_s" if self.device.backend == "cpu" else "time_s"


@dataclass(frozen=True)
class ProfilerSweep:
    """One sweep: `rows` has the profiler's COLUMNS, numbers as floats, empty cells missing."""

    name: str
    meta: SweepMeta
    rows: pd.DataFrame
    sha256: str


def is_sweep(folder: Path) -> bool:
    """Whether the profiler wrote this folder's meta.yaml."""
    try:
        return bool(_WRITTEN_BY_PROFILER.search((folder / "meta.yaml").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def data_file(folder: Path) -> Path | None:
    """data.csv or data.csv.gz of a folder, None where there is neither."""
    return next((folder / name for name in DATA_NAMES if (folder / name).is_file()), None)


def read_sweep(folder: Path) -> ProfilerSweep:
    """A sweep, its rows checked against what its meta.yaml says.

    Raises AdvisorError, naming file and cell, when the folder holds no sweep, a file is damaged, or
    the two disagree.
    """
    meta = _read_meta(folder / "meta.yaml")
    file = data_file(folder)
    if file is None:
        raise AdvisorError(
            f"{folder} has no data.csv; a sweep is data.csv (or data.csv.gz) and meta.yaml"
        )
    raw = file.read_bytes()
    rows = parse_rows(raw, str(file))
    measured = int((rows["status"] == "ok").sum())
    if (len(rows), measured) != (meta.rows, meta.measured_rows):
        raise AdvisorError(
            f"{file} has {len(rows)} rows, {measured} of them measured; meta.yaml says "
            f"{meta.rows} and {meta.measured_rows}: restore the two files together"
        )
    return ProfilerSweep(folder.name, meta, rows, hashlib.sha256(raw).hexdigest())


def _read_meta(file: Path) -> SweepMeta:
    try:
        return SweepMeta.model_validate(yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER))
    except FileNotFoundError:
        raise AdvisorError(
            f"{file} is missing; give the folder that `python -m advisor profile --output` wrote"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AdvisorError(
            f"{file} is not readable as YAML: {' '.join(str(error).split())[:200]}"
        ) from error
    except ValidationError as error:
        raise AdvisorError(f"{file} is not a profiler's meta.yaml: {explain(error)}") from error


def parse_rows(raw: bytes, name: str) -> pd.DataFrame:
    """The typed rows of a data.csv or data.csv.gz. `name` is used in messages. Raises
    AdvisorError."""
    try:
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("utf-8")
        header, *records = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise AdvisorError(
            f"{name} is not a readable CSV ({error}); measure again or restore it"
        ) from error
    strangers = sorted(set(header) - set(COLUMNS))
    absent = [c for c in NEEDED_COLUMNS if c not in header]
    if strangers or absent or len(set(header)) < len(header):
        wrong = (
            f"unknown {', '.join(strangers)}"
            if strangers
            else f"lacking {', '.join(absent) or 'distinct names'}"
        )
        raise AdvisorError(
            f"{name}: columns are not the profiler's ({wrong}); docs/profiling.md lists them"
        )
    for line, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise AdvisorError(f"{name}, line {line}: {len(record)} cells, expected {len(header)}")
    cells = pd.DataFrame(records, columns=header, dtype="str")
    return pd.DataFrame({column: _typed(cells, column, name) for column in COLUMNS})


def _typed(cells: pd.DataFrame, column: str, name: str) -> pd.Series:
    if column not in cells:
        empty = (
            pd.Series(pd.NA, index=cells.index, dtype="str")
            if column in SWEEP_TEXT_COLUMNS
            else np.nan
        )
        return pd.Series(empty, index=cells.index)
    filled = cells[column].where(cells[column] != "")
    if column in SWEEP_TEXT_COLUMNS:
        return filled
    numbers = pd.to_numeric(filled, errors="coerce").astype("float64")
    bad = filled.notna() & ~np.isfinite(numbers)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise AdvisorError(
            f"{name}, line {row + 2}, column {column}: {filled.iloc[row]!r} is not a finite number"
        )
    return numbers


def sweeps(root: Path = MEASUREMENTS) -> pd.DataFrame:
    """The sweeps below `root`: name, device, status, preset, measured_rows, started_at, torch."""
    metas = {folder.name: _read_meta(folder / "meta.yaml") for folder in sweep_folders(root)}
    rows = [
        (
            name,
            meta.device.name,
            meta.status,
            meta.plan.preset,
            meta.measured_rows,
            meta.started_at,
            meta.torch,
        )
        for name, meta in metas.items()
    ]
    return pd.DataFrame(
        rows, columns=["name", "device", "status", "preset", "measured_rows", "started_at", "torch"]
    )
