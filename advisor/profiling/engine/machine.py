"""This machine's processor as an accelerator's JSON, for rows of an engine that runs on it."""

from __future__ import annotations

import datetime as dt
import json
import platform
import subprocess
from pathlib import Path

from advisor.profiling.device import ProfilingError

SPEED = """
import json, time, torch
if torch.cuda.is_available():
    raise SystemExit(9)
def best(work, n):
    times = []
    for _ in range(n):
        start = time.perf_counter(); work(); times.append(time.perf_counter() - start)
    return min(times)
a = torch.ones(1 << 28, dtype=torch.uint8); b = torch.empty_like(a)
x = torch.randn(2048, 2048, dtype=torch.bfloat16)
print(json.dumps([2 * a.numel() / best(lambda: b.copy_(a), 12), 2 * 2048**3 / best(lambda: x @ x, 12)]))
"""
"""Bytes a second of a copy and bf16 operations a second of a product, best of twelve, on all cores."""


def hardware(python: str) -> str:
    """JSON of this machine as an accelerator, its two rates measured by the engine's torch.

    Raises ProfilingError where there is an accelerator, which is to be named, and where torch does not run.
    """
    done = subprocess.run([python, "-c", SPEED], check=False, capture_output=True, text=True)
    if done.returncode == 9:
        raise ProfilingError("give --hardware, the accelerator of the rows: an id (`advisor hardware`) or its JSON")
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProfilingError(f"this machine's rates cannot be measured with {python}: {words}; give --hardware")
    bandwidth, flops = json.loads(done.stdout.splitlines()[-1])
    pages = {line.split(":")[0]: line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines()}
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return json.dumps(
        {
            "name": f"{names[0] if names else platform.machine()}, {len(names)} cores",
            "memory_bytes": float(pages["MemTotal"]) * 1024,
            "bandwidth_bytes_per_s": float(f"{bandwidth:.4g}"),
            "peak_flops_per_s": {"bf16": float(f"{flops:.4g}")},
            "source": "a copy of 256 MiB and a bf16 product of 2048 x 2048 x 2048 in torch on all cores, best of 12",
            "date": dt.date.today().isoformat(),
        },
        indent=1,
    )
