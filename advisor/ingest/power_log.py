"""Power of GPUs while a benchmark ran: `nvidia-smi --query-gpu=...,power.draw --format=csv` or `dcgmi dmon -e 155`.

Either has one line a GPU and sample. What counts is the run: samples below the middle between the log's idle and busy
level belong to loading and waiting, and are left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.prediction import AdvisorError

MAX_SAMPLES = 2_000_000
MAX_WATTS = 5_000.0
"""More than any board draws; such a value is of another unit. [W]"""
_HOW = (
    "give the output of `nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -lms 200`, or of "
    "`dcgmi dmon -e 155`"
)
_STEADY = 1.3
"""A log whose 95th percentile is below this many times its 5th has no idle part to leave out. [1]"""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:\s*(m?)W)?")
_DCGM_LINE = re.compile(r"\s*GPU(?:-I)?\s+(\d+)\s+(.*)")


@dataclass(frozen=True)
class PowerLog:
    """Power of the GPUs of a run, the idle parts of the log left out."""

    mean_w: float
    """Of one GPU, mean over its samples while it worked, then over the GPUs. [W]"""
    gpus: int
    samples: int
    """That count. [1]"""
    idle_samples: int
    """That were left out. [1]"""
    file_name: str

    @property
    def text(self) -> str:
        """Where the number is from, in words."""
        left = f", {self.idle_samples:,} idle ones left out" if self.idle_samples else ""
        of = f"{self.gpus} GPU{'' if self.gpus == 1 else 's'}"
        return f"measured: {self.file_name}, {self.samples:,} samples of {of}{left}; boards alone"


def read_power_log(name: str, data: bytes) -> PowerLog:
    """The power log in a file. Raises AdvisorError for anything else, with what to give."""
    text = data.decode("utf-8-sig", errors="replace")
    found: dict[str, list[float]] = {}
    lines = text.splitlines()
    rows = _dcgm(lines) if any(_DCGM_LINE.match(line) for line in lines[:50]) else _nvidia_smi(name, text)
    for count, (gpu, watts) in enumerate(rows):
        if count >= MAX_SAMPLES:
            raise AdvisorError(f"{name} has more than {MAX_SAMPLES:,} samples of power; cut it to the run")
        if not 0 <= watts <= MAX_WATTS:
            raise AdvisorError(f"{name}: {watts:g} W is no power of a GPU; the column must hold watts")
        found.setdefault(gpu, []).append(watts)
    if not found:
        raise AdvisorError(f"{name} holds no sample of power; {_HOW}")
    busy = [_busy(np.array(watts)) for watts in found.values()]
    if not any(watts.size and watts.max() > 0 for watts in busy):
        raise AdvisorError(f"{name}: every sample is 0 W; {_HOW}")
    samples, total = sum(each.size for each in busy), sum(map(len, found.values()))
    mean = float(np.mean([each.mean() for each in busy]))
    return PowerLog(mean, len(found), samples, total - samples, name)


def _busy(watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The samples above the middle between idle and busy; all of a log without an idle part."""
    low, high = np.quantile(watts, [0.05, 0.95])
    return watts if high < _STEADY * low else watts[watts >= (low + high) / 2.0]


def _nvidia_smi(name: str, text: str) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line that has a power; a line that says N/A has none."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader)]
    except (StopIteration, csv.Error):
        header = []
    column = next((i for i, cell in enumerate(header) if cell.startswith("power.draw")), None)
    if column is None:
        raise AdvisorError(f"{name} has no column power.draw in its first line; {_HOW}")
    gpu_column = next((i for i, cell in enumerate(header) if cell in ("index", "uuid", "pci.bus_id", "name")), None)
    unit = "mW" if "[mW]" in header[column] else "W"
    try:
        for row in reader:
            if len(row) > column and (watts := _watts(row[column], unit)) is not None:
                yield row[gpu_column] if gpu_column is not None else "0", watts
    except csv.Error as error:
        raise AdvisorError(f"{name}: line {reader.line_num} is no CSV ({error})") from error


def _dcgm(lines: list[str]) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line of `dcgmi dmon`; the heading names the columns, power being POWER or PWR..."""
    place = 0
    for line in lines:
        if line.startswith("#") and "Entity" in line:
            names = line.lstrip("#").replace("Entity", "").split()
            place = next((i for i, each in enumerate(names) if each.upper() in ("POWER", "PWR", "POWER_USAGE")), 0)
            continue
        match = _DCGM_LINE.match(line)
        if match and len(cells := match[2].split()) > place and (watts := _watts(cells[place], "W")) is not None:
            yield match[1], watts


def _watts(cell: str, unit: str) -> float | None:
    """A cell in watts; None for one that says there is no value."""
    found = _NUMBER.fullmatch(cell.strip())
    if found is None:
        return None
    milli = found[2] == "m" or (unit == "mW" and not cell.strip().endswith("W"))
    return float(found[1]) / (1000.0 if milli else 1.0)
