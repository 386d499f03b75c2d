"""Live profiling of the local device: needs torch, numpy and the standard library alone.

Copy the folder `advisor/profiling` (inside a folder `advisor`) to a bare GPU node and run
`python -m advisor.profiling --preset quick --output DIRECTORY`. The columns of the result are documented
in docs/profiling.md. torch is imported only when a device is looked for or measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what measures needs torch, which the rest of the program does without
    from advisor.profiling.device import Device
    from advisor.profiling.plan import Plan
    from advisor.profiling.runner import Outcome, Progress


def detect_devices() -> list[Device]:
    """Devices that torch can measure here, accelerators first. Empty where torch is not installed."""
    from advisor.profiling.device import detect_devices as detect

    return detect()


def make_plan(preset: str, device: Device, *, only: Sequence[str] = (), seed: int = 0) -> Plan:
    """The blocks a preset (`smoke`, `quick`, `standard`, `full`) measures on `device`, with `.estimate_s`. [s]

    Raises ProfilingError for an unknown preset or block.
    """
    from advisor.profiling.plan import make_plan as make

    return make(preset, device, only=only, seed=seed)


def run(
    plan: Plan,
    out_dir: str | Path,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    resume: bool = False,
    time_budget_s: float | None = None,
) -> Outcome:
    """Measure `plan` on its device. Write data.csv(.gz) and meta.yaml into `out_dir` as blocks finish.

    `should_stop` is asked between rounds; what was measured until then stays on disk and `resume=True`
    goes on from there. `time_budget_s` defaults to the preset's promise. Raises ProfilingError when
    `out_dir` holds another plan's results or torch is missing.
    """
    from advisor.profiling.runner import run as run_plan

    return run_plan(plan, out_dir, on_progress, should_stop, resume=resume, time_budget_s=time_budget_s)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line, `python -m advisor.profiling`. Returns 0 (complete), 2 (bad input) or 3 (not complete)."""
    from advisor.profiling.command import main as command_main

    return command_main(argv)
