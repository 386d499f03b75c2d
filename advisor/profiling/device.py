"""The device: facts about it, the time of one call on it, the memory that captured graphs share.

On an accelerator a sample is queued as: spin, call, control kernel, call. The first call pays what
only a first one pays (uploading a graph, waking the clocks), the control kernel tells how fast the
device is right now and pushes the first call's data out of the cache, and the second call is the
one that is timed. The sample counts as clean when the host had queued all of it before the device
came to the timed call: then no launch can lie in the time.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn


class ProfilingError(ValueError):
    """Bad input or a device that cannot be measured. The message is fit to be shown as it is."""


class DeviceLostError(RuntimeError):
    """The accelerator stopped answering inside this process. A new process can resume."""


def found(*places: str) -> Any:
    """The first of `module:name` that the installed version has. Raises ImportError when it has
    none."""
    for place in places:
        module, name = place.split(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this version has no {' or '.join(places)}")


def own_path() -> dict[str, str]:
    """PYTHONPATH of a child process that is to find this package."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


class Options(argparse.ArgumentParser):
    """Options whose error is one line that says what was meant, as everywhere else."""

    def error(self, message: str) -> NoReturn:
        """End with status 2 and the error."""
        known = [flag for action in self._actions for flag in action.option_strings]
        typed = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        near = (
            difflib.get_close_matches(typed[0], known, n=1)
            if typed and "unrecognized" in message
            else []
        )
        meant = f"; did you mean {near[0]}?" if near else ";"
        self.exit(2, f"error: {message}{meant} `{self.prog} --help` lists the options\n")


class StopOnSignal:
    """Becomes true at the first SIGINT or SIGTERM, and says so."""

    def __init__(
        self, words: str = "stopping after this round; --resume goes on from here"
    ) -> None:
        self.asked = False
        self.words = words
        for name in (signal.SIGINT, signal.SIGTERM):
            try:
                signal.signal(name, self._ask)
            except ValueError:  # not in the main thread: the caller has other means to stop
                return

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        print(self.words, file=sys.stderr, flush=True)

    def __call__(self) -> bool:
        return self.asked


TORCH_MISSING = "torch is not installed here; install torch 2.10 to 2.14 for your device"
ASSUMED_CACHE_BYTES = 64 * 2**20
"""Last-level cache taken where the system does not tell it: larger than most, so that buffers
exceed the real one."""


@dataclass(frozen=True)
class Device:
    """One device torch can use.

    backend: cuda | rocm | cpu. index: torch's number of it. memory_bytes: total (CPU: free at
    detection). cache_bytes: last-level cache. assumed_bandwidth_bytes_per_s: only prices the plan,
    never a result.
    """

    backend: str
    index: int
    name: str
    memory_bytes: int
    cache_bytes: int
    cache_known: bool
    assumed_bandwidth_bytes_per_s: float
    torch_version: str
    compute_capability: str = ""
    n_multiprocessors: int = 0

    @property
    def torch_device(self) -> str:
        """The name torch knows it by."""
        return "cpu" if self.backend == "cpu" else f"cuda:{self.index}"

    @property
    def label(self) -> str:
        """Name that `--device` accepts for it."""
        return "cpu" if self.backend == "cpu" else f"{self.backend}:{self.index}"


def detect_devices() -> list[Device]:
    """Devices of this machine, accelerators first, the CPU last. Empty where torch is not
    installed."""
    try:
        import torch
    except ImportError:
        return []
    backend = "rocm" if getattr(torch.version, "hip", None) else "cuda"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [*(_accelerator(torch, backend, index) for index in range(count)), _cpu(torch)]


def _accelerator(torch: Any, backend: str, index: int) -> Device:
    properties = torch.cuda.get_device_properties(index)
    cache = int(getattr(properties, "L2_cache_size", 0) or 0)
    clock_khz = getattr(properties, "memory_clock_rate", 0) or 0
    bus_bits = getattr(properties, "memory_bus_width", 0) or 0
    bandwidth = 2 * clock_khz * 1e3 * bus_bits / 8 if clock_khz and bus_bits else 1e12
    return Device(
        backend=backend,
        index=index,
        name=str(properties.name),
        memory_bytes=int(properties.total_memory),
        cache_bytes=cache or ASSUMED_CACHE_BYTES,
        cache_known=bool(cache),
        assumed_bandwidth_bytes_per_s=max(float(bandwidth), 2e11),
        torch_version=str(torch.__version__),
        compute_capability=f"{properties.major}.{properties.minor}",
        n_multiprocessors=int(properties.multi_processor_count),
    )


def _cpu(torch: Any) -> Device:
    cache = _cpu_cache_bytes()
    return Device(
        backend="cpu",
        index=0,
        name=_cpu_name(),
        memory_bytes=_free_memory_bytes(),
        cache_bytes=cache or ASSUMED_CACHE_BYTES,
        cache_known=bool(cache),
        assumed_bandwidth_bytes_per_s=8e9,
        torch_version=str(torch.__version__),
    )


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(
        re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", text, flags=re.MULTILINE)
    )
    name = fields.get("model name", "").strip() or platform.machine()
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family'].strip()} model {fields['model'].strip()})"
    return name


def _cpu_cache_bytes() -> int:
    largest = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            match = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
        except OSError:
            continue
        if match:
            largest = max(
                largest, int(match[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]
            )
    return largest


def _free_memory_bytes() -> int:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        if match:
            return int(match[1]) * 1024
    except OSError:
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30


def free_bytes(device: Device) -> int:
    """Memory free on the device now. [bytes]"""
    if device.backend == "cpu":
        return _free_memory_bytes()
    import torch

    return int(torch.cuda.mem_get_info(device.index)[0])


def clocks(device: Device) -> dict[str, Any]:
    """Clocks, power and temperature seen now, keyed with units. Empty where nothing can tell."""
    if device.backend == "cpu":
        try:
            mhz = re.findall(
                r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE
            )
        except OSError:
            return {}
        return {"cpu_clock_mhz": max(map(float, mhz))} if mhz else {}
    names = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")
    return _nvidia_smi(device, names, "clocks.sm,clocks.mem,power.draw,temperature.gpu")


def driver_facts(device: Device) -> dict[str, Any]:
    """Driver and runtime versions, limits and the host, for meta.yaml."""
    import torch

    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    facts: dict[str, Any] = {
        "python": sys.version.split()[0],
        "system": system,
        "torch": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
    }
    facts |= {module: _version(module) for module in ("numpy", "triton", "vllm")}
    if device.backend == "cpu":
        facts["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        return facts
    names = ("driver", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w")
    return facts | _nvidia_smi(
        device, names, "driver_version,clocks.max.sm,clocks.max.mem,power.limit"
    )


def _version(module: str) -> str | None:
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return None


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return None if text.startswith("[") or text == "N/A" else text


def _nvidia_smi(device: Device, names: tuple[str, ...], query: str) -> dict[str, Any]:
    """Answers of nvidia-smi for this device by name, {} where it is missing, slow or refuses."""
    tool = shutil.which("nvidia-smi")
    if tool is None or device.backend != "cuda":
        return {}
    command = [
        tool,
        f"--query-gpu={query}",
        "--format=csv,noheader,nounits",
        "-i",
        _physical_index(device),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    if done.returncode != 0 or not done.stdout.strip():
        return {}
    parts = done.stdout.strip().splitlines()[0].split(",")
    return {name: _number(part.strip()) for name, part in zip(names, parts, strict=False)}


def _physical_index(device: Device) -> str:
    """nvidia-smi counts physical devices (or takes UUIDs), torch counts those CUDA_VISIBLE_DEVICES
    leaves."""
    visible = [
        part.strip()
        for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if part.strip()
    ]
    return visible[device.index] if device.index < len(visible) else str(device.index)


def pick_device(requested: str) -> Device:
    """The device named on the command line. Raises ProfilingError that lists what there is."""
    devices = detect_devices()
    if not devices:
        raise ProfilingError(TORCH_MISSING)
    if requested == "auto":
        return devices[0]
    for device in devices:
        if requested in (device.label, device.torch_device) or (
            requested == device.backend and device.index == 0
        ):
            return device
    raise ProfilingError(
        f"no device {requested!r} here; choose one of {', '.join(d.label for d in devices)}"
    )


SPIN_S = 1.5e-3
"""Time the device is kept busy while the host queues a sample: at least 1 ms, more than a graph of
a few hundred nodes takes to launch. [s]"""
LONGEST_SPIN_S = 0.05
"""Spin beyond which a call is timed as it is, launches included, with a note: it waits for the
device by itself. [s]"""
FIRST_CYCLES_PER_S = 2e9
"""Clock taken for the first spin; every spin is timed, so the next one knows better. [1/s]"""
ATTEMPTS = 4
"""Samples taken, each behind a longer spin, before a call counts as one that cannot be queued
ahead. [-]"""


@dataclass(frozen=True)
class Sample:
    """One timed call. control_s: the control kernel just before it. queued_ahead: no launch lies in
    the time.

    spin_s: the spin it took to queue all of it ahead, a good start for the next sample of the same
    call. [s]
    """

    seconds: float
    control_s: float | None
    queued_ahead: bool = True
    spin_s: float = SPIN_S


class Clock:
    """Times calls on one device. The spin's length adapts to the device's clock and to the host's
    pace."""

    def __init__(self, device: Device) -> None:
        self.device = device
        import torch

        self.accelerator = device.backend != "cpu"
        self._spin = getattr(torch.cuda, "_sleep", None) if self.accelerator else None
        self._cycles_per_s = FIRST_CYCLES_PER_S

    def synchronize(self) -> None:
        """Wait for the device. Raises DeviceLostError when it no longer answers."""
        if not self.accelerator:
            return
        import torch

        try:
            torch.cuda.synchronize(self.device.index)
        except RuntimeError as error:
            raise DeviceLostError(str(error).splitlines()[0]) from error

    def sample(
        self,
        call: Callable[[], Any],
        control: Callable[[], Any] | None = None,
        *,
        host_clock: bool = False,
        spin_s: float = SPIN_S,
        attempts: int = ATTEMPTS,
    ) -> Sample:
        """One sample of `call`, with the control kernel beside it where one is given. [s]

        host_clock: the time includes the host's own work up to a synchronise. spin_s: spin of the
        first attempt. attempts: see ATTEMPTS.
        """
        if not self.accelerator:
            return Sample(
                self._host_seconds(call), self._host_seconds(control) if control else None
            )
        if host_clock:
            beside = self._queued(call, control, spin_s, call_again=False)
            return Sample(self._host_seconds(call), beside.control_s)
        for _ in range(attempts):
            queued = self._queued(call, control, spin_s)
            if queued.queued_ahead or spin_s >= LONGEST_SPIN_S:
                break
            spin_s = min(4 * spin_s, LONGEST_SPIN_S)
        return queued

    def _host_seconds(self, call: Callable[[], Any]) -> float:
        self.synchronize()
        start = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start

    def _queued(
        self,
        call: Callable[[], Any],
        control: Callable[[], Any] | None,
        spin_s: float,
        *,
        call_again: bool = True,
    ) -> Sample:
        """Spin, call, control kernel, call, with events between. See the module's text."""
        import torch

        spin = torch.cuda.Event(enable_timing=True)
        spun = torch.cuda.Event(enable_timing=True)
        warm = torch.cuda.Event(enable_timing=True)
        timed = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        self.synchronize()
        start = time.perf_counter()
        spin.record()
        cycles = self._spin_for(spin_s)
        spun.record()
        call()
        warm.record()
        if control:
            control()
        timed.record()
        if call_again:
            call()
        last.record()
        host_s = time.perf_counter() - start
        self.synchronize()
        spun_s = spin.elapsed_time(spun) * 1e-3
        if cycles and spun_s > 0:  # the unit of a cycle differs between devices
            self._cycles_per_s = cycles / spun_s
        ahead_s = spin.elapsed_time(timed) * 1e-3
        control_s = warm.elapsed_time(timed) * 1e-3 if control else None
        return Sample(timed.elapsed_time(last) * 1e-3, control_s, host_s <= ahead_s, spin_s)

    def _spin_for(self, seconds: float) -> int:
        """Keep the device busy. Returns the cycles asked for, 0 where this torch cannot spin."""
        if self._spin is None:
            return 0
        cycles = int(min(max(seconds * self._cycles_per_s, 1e3), 1e9))
        try:
            self._spin(cycles)
        except (RuntimeError, TypeError):
            self._spin = None
            return 0
        return cycles


class GraphPool:
    """The pool that the graphs of one block share, and what they took from the device.

    Graphs of a block are replayed one after another and leave nothing behind that a later one needs
    (what must last lies in buffers made before the capture), so their intermediate tensors may use
    the same memory. Without a shared pool every captured configuration would keep its own for as
    long as its block lasts.
    """

    def __init__(self) -> None:
        self.handle: Any = None
        self.held_bytes = 0.0
        self.n_graphs = 0

    def open(self) -> Any:
        """The pool's handle, made when first asked for. None where this torch has none."""
        if self.handle is None:
            import torch

            make = getattr(torch.cuda, "graph_pool_handle", None)
            self.handle = make() if make else None
        return self.handle

    def took(self, free_before: float, free_after: float) -> None:
        """Count a captured graph and the memory gone since before its capture. [bytes]"""
        self.n_graphs += 1
        self.held_bytes += max(free_before - free_after, 0.0)

    def drop(self) -> None:
        """Give up the pool: after a failed capture it is in no known state, after a block its
        graphs are gone."""
        self.handle = None
