"""What device is here: facts for the result's meta.yaml, found without failing where a tool is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.profiling.errors import ProfilingError

ASSUMED_CACHE_BYTES = 64 * 2**20
"""Last-level cache taken where the system does not tell it: larger than most, so that buffers exceed the real one."""


@dataclass(frozen=True)
class Device:
    """One device torch can use.

    backend: cuda | rocm | cpu. index: torch's number of it. memory_bytes: total (CPU: free at detection).
    cache_bytes: last-level cache. assumed_bandwidth_bytes_per_s: only prices the plan, never a result.
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
    """Devices of this machine, accelerators first, the CPU last. Empty where torch is not installed."""
    try:
        import torch
    except ImportError:
        return []
    found = []
    if torch.cuda.is_available():
        backend = "rocm" if getattr(torch.version, "hip", None) else "cuda"
        for index in range(torch.cuda.device_count()):
            found.append(_accelerator(torch, backend, index))
    found.append(_cpu(torch))
    return found


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
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", text, flags=re.MULTILINE))
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
            largest = max(largest, int(match[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]])
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
            found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)
        except OSError:
            return {}
        return {"cpu_clock_mhz": max(map(float, found))} if found else {}
    seen = _nvidia_smi(device, "clocks.sm,clocks.mem,power.draw,temperature.gpu")
    names = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")
    return {name: _number(text) for name, text in zip(names, seen, strict=False)}


def driver_facts(device: Device) -> dict[str, Any]:
    """Driver and runtime versions, limits and the host, for meta.yaml."""
    import sys

    import torch

    facts: dict[str, Any] = {
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "torch": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
    }
    for module in ("numpy", "triton", "vllm"):
        facts[module] = _version(module)
    if device.backend == "cpu":
        facts["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        return facts
    seen = _nvidia_smi(device, "driver_version,clocks.max.sm,clocks.max.mem,power.limit")
    names = ("driver", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w")
    facts |= {name: _number(text) for name, text in zip(names, seen, strict=False)}
    return facts


def _version(module: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return None


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return None if text.startswith("[") or text == "N/A" else text


def _nvidia_smi(device: Device, query: str) -> list[str]:
    """Answers of nvidia-smi for this device, [] where it is missing, slow or refuses."""
    tool = shutil.which("nvidia-smi")
    if tool is None or device.backend != "cuda":
        return []
    command = [tool, f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", _physical_index(device)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    if done.returncode != 0 or not done.stdout.strip():
        return []
    return [part.strip() for part in done.stdout.strip().splitlines()[0].split(",")]


def _physical_index(device: Device) -> str:
    """nvidia-smi counts physical devices (or takes UUIDs), torch counts those CUDA_VISIBLE_DEVICES leaves."""
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return visible[device.index] if device.index < len(visible) else str(device.index)


def pick_device(wanted: str) -> Device:
    """The device named on the command line. Raises ProfilingError that lists what there is."""
    devices = detect_devices()
    if not devices:
        raise ProfilingError("torch is not installed here; install torch 2.10 to 2.13 for your device")
    if wanted == "auto":
        return devices[0]
    for device in devices:
        if wanted in (device.label, device.torch_device) or (wanted == device.backend and device.index == 0):
            return device
    raise ProfilingError(f"no device {wanted!r} here; choose one of {', '.join(d.label for d in devices)}")
