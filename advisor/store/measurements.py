"""The shipped measurements: folders of data.csv and meta.yaml, checked against each other when read.

Two kinds of folder: datasets, transcribed from publications (here), and sweeps (`profiler_sweeps`).
"""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Literal

import pandas as pd
import yaml
from pydantic import Field, ValidationError

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import MEASUREMENTS
from advisor.store.profiler_sweeps import data_file, is_sweep, is_unfinished


class Column(Frozen):
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
    columns: dict[str, Column]
    sources: tuple[Source, ...] = Field(min_length=1)
    caveats: tuple[str, ...] = ()


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        raise AdvisorError(f"the measurements folder {root} is missing; restore it from the repository")
    named = ("meta.yaml", "progress.json")
    return sorted(
        child for child in root.iterdir() if data_file(child) or any((child / name).exists() for name in named)
    )


def dataset_folders(root: Path = MEASUREMENTS) -> list[Path]:
    """Folders below `root` that hold a transcribed dataset, in name order."""
    return [child for child in _folders(root) if not is_sweep(child) and not is_unfinished(child)]


def sweep_folders(root: Path = MEASUREMENTS) -> list[Path]:
    """Folders below `root` that the profiler wrote, in name order."""
    return [child for child in _folders(root) if is_sweep(child)]


def unfinished_sweeps(root: Path = MEASUREMENTS) -> list[Path]:
    """Folders below `root` in which a sweep runs, or was cut off before it wrote its meta.yaml."""
    return [child for child in _folders(root) if is_unfinished(child)]


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
        where = ".".join(str(part) for part in first["loc"])
        raise AdvisorError(f"{file}: {where}: {first['msg']}") from error


def read_dataset(folder: Path) -> tuple[DatasetMeta, pd.DataFrame]:
    """A dataset, as text cells (empty: unknown), checked against its meta.yaml.

    Raises AdvisorError when hash, row count, columns or an enumerated value differ from what meta.yaml says.
    """
    meta = read_meta(folder)
    file = folder / "data.csv"
    if not file.is_file():
        raise AdvisorError(f"{file} is missing; a dataset needs data.csv and meta.yaml")
    raw = file.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != meta.sha256:
        raise AdvisorError(
            f"{file} has sha256 {digest}, meta.yaml says {meta.sha256}; restore the file or correct meta.yaml"
        )
    header, *records = list(csv.reader(io.StringIO(raw.decode("utf-8"), newline="")))
    if header != list(meta.columns):
        wrong = sorted(set(header) ^ set(meta.columns)) or ["order"]
        raise AdvisorError(f"{file}: header and the columns of meta.yaml differ: {', '.join(wrong)}")
    for line, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise AdvisorError(f"{file}, record {line}: {len(record)} cells, expected {len(header)}")
    if len(records) != meta.row_count:
        raise AdvisorError(f"{file}: {len(records)} rows, meta.yaml says {meta.row_count}")
    frame = pd.DataFrame(records, columns=header, dtype="str")
    for name, column in meta.columns.items():
        strangers = set(frame[name]) - set(column.values) - {""}
        if column.values and strangers:
            raise AdvisorError(f"{file}, column {name}: {sorted(strangers)[0]!r} is not among the values of meta.yaml")
    return meta, frame


def measurement_hashes(root: Path = MEASUREMENTS) -> dict[str, str]:
    """sha256 of each dataset's and sweep's data file as it lies on disk, by folder name."""
    files = {folder.name: data_file(folder) for folder in (*dataset_folders(root), *sweep_folders(root))}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items() if file is not None}
