"""Power of GPUs while a benchmark ran: `nvidia-smi --query-gpu=...,power.draw --format=csv` or `dcgmi dmon -e 155`.

Either has one line a GPU and sample. What counts is the run: samples below the middle between a GPU's idle and busy
level belong to loading and waiting, and GPUs that never worked to nobody; both are left out and told.
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
from advisor.text import counted

MAX_SAMPLES = 2_000_000
MAX_WATTS = 5_000.0
"""More than any board draws; such a value is of another unit. [W]"""
_HOW = (
    "give the output of `nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -lms 200`, or of "
    "`dcgmi dmon -e 155`"
)
_STEADY = 1.3
"""A GPU whose busy level is below this many times its idle one has no idle part to leave out: boards draw 0.1 to 0.2 of
their most while they stand still, and 0.4 and more while they decode (advisor/predict/spend.py). [-]"""
_AT_WORK = 0.5
"""A GPU whose busy level is below this share of the busiest one's did not work in the run: ranks of one instance run
the same kernels on the same data. [-]"""
_STRAY = 0.005
"""Share of a GPU's samples, at either end of its range, that make no level. [-]"""
_LEAST_SAMPLES = 5
"""Of a run, where idle ones are left out: fewer are a peak and no run. [-]"""
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*(m?)W)?")
_DCGM_POWER = ("POWER", "PWR", "POWER_USAGE")
_DCGM_LINE = re.compile(r"\s*GPU(?:-I)?\s+([0-9]+)\s+(.*)")


@dataclass(frozen=True)
class PowerLog:
    """Power of the GPUs of a run, the idle parts of the log left out."""

    mean_w: float
    """Of one GPU, mean over its samples while it worked, then over the GPUs that did. [W]"""
    at_work: tuple[str, ...]
    """The GPUs that count, as the log names them."""
    idle_gpus: tuple[str, ...]
    """Those that were left out, since they drew far less."""
    samples: int
    """That count. [-]"""
    idle_samples: int
    """Of the GPUs at work, that were left out. [-]"""
    file_name: str

    @property
    def gpus(self) -> int:
        """GPUs at work. [-]"""
        return len(self.at_work)

    @property
    def text(self) -> str:
        """Origin of the number, in words."""
        left = f", {self.idle_samples:,} idle ones left out" if self.idle_samples else ""
        still = f", {counted(len(self.idle_gpus), 'idle GPU')} left out" if self.idle_gpus else ""
        of = counted(self.gpus, "GPU")
        return f"measured: {self.file_name}, {self.samples:,} samples of {of}{left}{still}; boards alone"

    def check(self, gpus: int) -> None:
        """Raises AdvisorError where not as many GPUs worked as an instance of the scenario has."""
        if self.gpus != gpus:
            raise AdvisorError(
                f"{self.file_name}: {counted(self.gpus, 'GPU')} worked in it ({', '.join(self.at_work[:16])}) and the "
                f"scenario's instance has {gpus}; log its GPUs alone (nvidia-smi --id=0,1,...), or set the parallelism "
                "that ran (--tp, --ep)"
            )


def read_power_log(name: str, data: bytes) -> PowerLog:
    """The power log in a file. Raises AdvisorError for anything else, with what to give."""
    text = data.decode("utf-8-sig", errors="replace")
    found: dict[str, list[float]] = {}
    lines = text.splitlines()
    rows = _dcgm(name, lines) if any(_DCGM_LINE.match(line) for line in lines[:50]) else _nvidia_smi(name, text)
    for count, (gpu, watts) in enumerate(rows):
        if count >= MAX_SAMPLES:
            raise AdvisorError(f"{name} has more than {MAX_SAMPLES:,} samples of power; cut it to the run")
        if not 0 <= watts <= MAX_WATTS:
            raise AdvisorError(f"{name}: {watts:g} W is no power of a GPU; the column must hold watts")
        found.setdefault(gpu, []).append(watts)
    if not found:
        raise AdvisorError(f"{name} holds no sample of power; {_HOW}")
    busy = {gpu: _busy(np.array(watts)) for gpu, watts in found.items()}
    levels = {gpu: float(watts.mean()) for gpu, watts in busy.items()}
    most = max(levels.values())
    if most <= 0:
        raise AdvisorError(f"{name}: every sample is 0 W; {_HOW}")
    at_work = tuple(gpu for gpu, level in levels.items() if level >= _AT_WORK * most)
    samples, total = sum(busy[gpu].size for gpu in at_work), sum(len(found[gpu]) for gpu in at_work)
    if total > samples and min(busy[gpu].size for gpu in at_work) < _LEAST_SAMPLES:
        raise AdvisorError(
            f"{name}: fewer than {_LEAST_SAMPLES} samples of a GPU show it at work; log more often or for longer"
        )
    idle = tuple(gpu for gpu in found if gpu not in at_work)
    return PowerLog(float(np.mean([levels[gpu] for gpu in at_work])), at_work, idle, samples, total - samples, name)


def _busy(watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The samples above the middle between idle and busy. All of a log without an idle part.

    The levels are the means on both sides of their own middle, found from the middle of the range (Ridler and Calvard,
    IEEE Transactions on Systems, Man and Cybernetics 8, 1978): how long the run took of the log plays no part.
    """
    stray = int(_STRAY * watts.size)
    low, high = np.partition(watts, (stray, watts.size - 1 - stray))[[stray, watts.size - 1 - stray]]
    inner = np.clip(watts, low, high)
    for _ in range(_ROUNDS):
        above = inner >= (low + high) / 2.0
        if above.all():
            return watts
        low, high = inner[~above].mean(), inner[above].mean()
    return watts if high < _STEADY * low else watts[watts >= (low + high) / 2.0]


_ROUNDS = 20
"""More than any log needs until the middle stands still. [-]"""


def _nvidia_smi(name: str, text: str) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line that has a power. A line that says N/A has none."""
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


def _dcgm(name: str, lines: list[str]) -> Iterator[tuple[str, float]]:
    """(GPU, watts) of each line of `dcgmi dmon`. Its heading must name a column of power."""
    place = None
    for line in lines:
        if line.startswith("#") and "Entity" in line:
            names = [each.upper() for each in line.lstrip("#").replace("Entity", "").split()]
            place = next((i for i, each in enumerate(names) if each in _DCGM_POWER), None)
            continue
        match = _DCGM_LINE.match(line)
        if match is None:
            continue
        if place is None:
            raise AdvisorError(f"{name} has no heading (#Entity ...) with a column {' or '.join(_DCGM_POWER)}; {_HOW}")
        if len(cells := match[2].split()) > place and (watts := _watts(cells[place], "W")) is not None:
            yield match[1], watts


def _watts(cell: str, unit: str) -> float | None:
    """A cell in watts. None for one that says there is no value."""
    found = _NUMBER.fullmatch(cell.strip())
    if found is None:
        return None
    milli = found[2] == "m" or (unit == "mW" and not cell.strip().endswith("W"))
    return float(found[1]) / (1000.0 if milli else 1.0)
