"""A plan with a price: blocks of configurations, each measured and saved on its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.profiling.device import Device

PROMISE_S = {"smoke": 120.0, "quick": 120.0, "standard": 480.0, "full": 7200.0}
"""Longest time of each preset [s]; the run stops there and says so if the device is slower than the estimate."""


@dataclass(frozen=True)
class Block:
    """Isolated piece of the sweep.

    What is measured together shares its weights, control kernel and fate.

    params is plain JSON data. estimate_s: expected wall time [s]; memory_bytes: weights, caches and graphs. [bytes]
    """

    name: str
    op: str
    params: dict[str, Any]
    estimate_s: float
    memory_bytes: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Plan of a run: blocks to measure, the device, and the price."""

    preset: str
    device: Device
    blocks: tuple[Block, ...]
    rounds: int
    seed: int = 0
    only: tuple[str, ...] = ()
    code_version: str = field(default_factory=lambda: code_version())

    @property
    def estimate_s(self) -> float:
        """Expected wall time of the whole plan. [s]"""
        return sum(block.estimate_s for block in self.blocks)

    @property
    def promise_s(self) -> float:
        """Time after which the run stops by itself. [s]"""
        return PROMISE_S[self.preset]

    @property
    def hash(self) -> str:
        """Identity of the plan: blocks, rounds, seed, device and code. A resume must match it. 16 hex digits."""
        content = {
            "preset": self.preset,
            "device": [self.device.backend, self.device.name, self.device.torch_version],
            "blocks": [[block.name, block.op, block.params] for block in self.blocks],
            "rounds": self.rounds,
            "seed": self.seed,
            "code": self.code_version,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """The plan as text: device, blocks with their estimates, total."""
        lines = [
            f"preset {self.preset} on {self.device.backend}: {self.device.name}, plan {self.hash}, {self.rounds} rounds"
        ]
        lines += [
            f"  {block.name:<34} {block.estimate_s:7.1f} s {block.memory_bytes / 2**30:7.2f} GiB"
            for block in self.blocks
        ]
        lines.append(f"estimate {self.estimate_s:.0f} s for {len(self.blocks)} blocks (limit {self.promise_s:.0f} s)")
        return "\n".join(lines)


def code_version() -> str:
    """Hash over the sources of this package: identifies the code also where there is no git. 12 hex digits."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
